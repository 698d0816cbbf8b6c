//! The part of the walk that meets what has a provider do more than answer with the model
//! that was named: ask other models, run plugins.

use super::{Value, Walk};
use crate::json::{Container, Span};
use crate::peek::place::{Place, Slot};

impl Walk {
    /// A field that belongs to no format.
    pub(super) fn beyond(&mut self, slot: Slot, value: Value<'_>, span: Span) {
        let in_list = self.frames.last().map(|frame| frame.place) == Some(Place::Array);
        match (slot, value) {
            (_, Value::Null) => {}
            // A list names nothing until it has an element.
            (Slot::FurtherModels(_) | Slot::Plugins, Value::Open(Container::Array)) if !in_list => {
                self.push(Place::Array, slot, span.start);
            }
            (Slot::FurtherModels(field), _) => {
                self.asks_others(field);
                self.opaque(Slot::Ignored, value, span);
            }
            (Slot::Plugins, Value::Open(Container::Object)) => {
                self.found.facts.hosted_tools = true;
                self.push(Place::Plugin, Slot::Ignored, span.start);
            }
            (Slot::PluginId, Value::Text(text)) if asks_models(text.bytes) => {
                self.asks_others("plugins[].id");
            }
            (Slot::Within(place), Value::Open(Container::Object)) => {
                self.push(place, Slot::Ignored, span.start);
            }
            _ => self.opaque(Slot::Ignored, value, span),
        }
    }

    /// Notes the first field that has other models asked.
    pub(super) fn asks_others(&mut self, field: &'static str) {
        self.found.facts.further_models.get_or_insert(field);
    }
}

/// Whether a tool or a plugin of a provider's asks other models, which it may name or choose
/// itself: the messages format's adviser, OpenRouter's adviser, panel (`fusion`) and helper
/// (`subagent`).
pub(super) fn asks_models(kind: &[u8]) -> bool {
    kind.starts_with(b"advisor_")
        || matches!(
            kind.strip_prefix(b"openrouter:").unwrap_or(kind),
            b"advisor" | b"fusion" | b"subagent"
        )
}
