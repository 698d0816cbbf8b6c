//! The part of the walk that reads fields which make a provider do more than answer with the
//! named model: ask other models, run plugins, choose among its own providers.

use super::{Frame, Value, Walk};
use crate::json::{Container, Span};
use crate::peek::location::{Location, Slot};

/// Models of tools that are kept. A request that names more is refused if it has an adviser.
const MOST_TOOL_MODELS: usize = 8;

impl Walk {
    /// A field that no format defines.
    pub(super) fn extension(&mut self, slot: Slot, value: Value<'_>, span: Span) {
        if asks_for_nothing(value) && slot != Slot::Switch {
            return;
        }
        let around = self.frames.last().map(|frame| frame.location);
        let in_list = around == Some(Location::Array);
        let is_first = !in_list && !matches!(around, Some(Location::FurtherModels(_)));
        match (slot, value) {
            // An empty list or object asks for nothing.
            (
                Slot::FurtherModels(_) | Slot::Place(_) | Slot::Plugins | Slot::HostedTools,
                Value::Open(Container::Array),
            ) if is_first => self.push(Location::Array, slot, span.start),
            (Slot::FurtherModels(field), Value::Open(Container::Object)) if is_first => {
                self.push(Location::FurtherModels(field), Slot::Ignored, span.start);
            }
            (Slot::FurtherModels(field), _) => {
                self.asks_others(field);
                self.opaque(Slot::Ignored, value, span);
            }
            (Slot::Place(field), Value::Open(Container::Object))
                if !in_list && !matches!(around, Some(Location::Place(_))) =>
            {
                self.push(Location::Place(field), Slot::Ignored, span.start);
            }
            (Slot::Place(field), _) => {
                self.found.facts.place.get_or_insert(field);
                self.opaque(Slot::Ignored, value, span);
            }
            (Slot::Within(Location::Counted), Value::Open(Container::Object))
                if self.frames.len() == 1 =>
            {
                self.found.wraps_request = true;
                self.push(Location::Counted, Slot::Ignored, span.start);
            }
            (Slot::Within(Location::Counted), _) => self.opaque(Slot::Json, value, span),
            (Slot::Plugins, Value::Open(Container::Object)) => {
                self.push(Location::Plugin, Slot::Ignored, span.start);
            }
            (Slot::PluginId, Value::Text(text)) => {
                if asks_models(text.bytes) {
                    self.asks_others("plugins[].id");
                }
                // Repairs the JSON of the answer.
                let is_inward = text.bytes == b"response-healing";
                if let Some(frame) = self.frames.last_mut() {
                    frame.is_inward = is_inward;
                }
            }
            (Slot::Search, Value::Open(Container::Object)) => {
                self.push(Location::Search, Slot::Ignored, span.start);
            }
            (Slot::HostedTools, Value::Open(Container::Object))
                if around == Some(Location::Offered) =>
            {
                self.add_hosted_tool();
                self.push(Location::HostedTool, Slot::Ignored, span.start);
            }
            (Slot::HostedTools | Slot::Search, _) => {
                self.add_hosted_tool();
                self.opaque(Slot::Ignored, value, span);
            }
            (Slot::Switch, _) => {
                self.switch(value);
                self.opaque(Slot::Ignored, value, span);
            }
            (Slot::ChangeKind, Value::Text(text)) => {
                self.found.facts.compacts |= text.bytes.starts_with(b"compact");
            }
            (Slot::Within(location), Value::Open(Container::Object)) => {
                self.push(location, Slot::Ignored, span.start);
            }
            (Slot::Within(_), Value::Open(Container::Array)) if !in_list => {
                self.push(Location::Array, slot, span.start);
            }
            _ => self.opaque(Slot::Ignored, value, span),
        }
    }

    /// Counts one more tool that the provider runs.
    pub(super) fn add_hosted_tool(&mut self) {
        let tools = &mut self.found.facts.hosted_tools;
        *tools = tools.saturating_add(1);
    }

    fn switch(&mut self, value: Value<'_>) {
        if let Some(frame) = self.frames.last_mut() {
            frame.is_off = match value {
                Value::Bool(is_on) => frame.location == Location::Plugin && !is_on,
                Value::Text(text) => frame.location == Location::Search && text.bytes == b"off",
                _ => false,
            };
        }
    }

    /// Notes the first field that makes the provider ask other models. A plugin keeps its field
    /// until its end, because it may be switched off.
    pub(super) fn asks_others(&mut self, field: &'static str) {
        let mut around = self.frames.iter_mut();
        let first = match around.find(|frame| frame.location == Location::Plugin) {
            Some(plugin) => &mut plugin.asks_others,
            None => &mut self.found.facts.further_models,
        };
        first.get_or_insert(field);
    }

    /// Counts a plugin or a search at its end, unless it was switched off.
    pub(super) fn close_extension(&mut self, closed: Frame) {
        if closed.is_off {
            return;
        }
        if !closed.is_inward {
            self.add_hosted_tool();
        }
        if let Some(field) = closed.asks_others {
            self.asks_others(field);
        }
    }

    /// Notes the model that a tool names; for a value that is no name, a name that no model has.
    pub(super) fn tool_model(&mut self, value: Value<'_>) {
        let models = &mut self.found.facts.tool_models;
        match (value, models.len()) {
            (Value::Null, _) => {}
            (Value::Text(text), ..MOST_TOOL_MODELS) if text.is_whole() => {
                models.push(text.as_str().to_owned());
            }
            (_, ..=MOST_TOOL_MODELS) => models.push(String::new()),
            _ => {}
        }
    }
}

/// Whether a value asks for nothing: `null`, `false`, an empty text.
fn asks_for_nothing(value: Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Text(text) => text.len == 0,
        Value::Bool(true) | Value::Number(_) | Value::Open(_) => false,
    }
}

/// Whether a tool or a plugin of a provider asks other models, which it may choose itself: the
/// adviser, the panel (`fusion`) and the helper (`subagent`) of OpenRouter.
pub(super) fn asks_models(kind: &[u8]) -> bool {
    matches!(
        kind.strip_prefix(b"openrouter:").unwrap_or(kind),
        b"advisor" | b"fusion" | b"subagent"
    )
}
