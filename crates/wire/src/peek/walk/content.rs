//! The part of the walk that reads text, media, tools and the identifiers of stored files,
//! responses and conversations.

use super::{
    super::{
        PeekError,
        location::{Location, Medium, Slot},
        node::{Kind, NodeFlags},
    },
    Frame, IMAGE_SCHEME, ItemId, SCHEME, Value, Walk,
    extensions::asks_models,
    fault,
};
use crate::json::{Container, Span};
use tollgate_types::{NamedItem, StoredId};

impl Walk {
    /// A value that is not looked into.
    pub(super) fn opaque(&mut self, slot: Slot, value: Value<'_>, span: Span) {
        let is_text = slot == Slot::Json;
        match value {
            Value::Open(_) => self.pass_over(is_text),
            _ if is_text => self.add_text(value.text_bytes(span)),
            _ => {}
        }
    }

    /// Text, or something that holds text further down.
    pub(super) fn content(&mut self, slot: Slot, value: Value<'_>, start: u64) {
        match value {
            Value::Text(text) => {
                self.add_text(text.len);
                self.note_text(text.span);
            }
            Value::Open(Container::Array) => self.push(Location::Array, slot, start),
            Value::Open(Container::Object) => {
                let location = match slot {
                    Slot::Tool => Location::Tool,
                    Slot::Tools => Location::Offered,
                    Slot::Item => Location::Item,
                    _ => Location::Node,
                };
                self.push(location, Slot::Ignored, start);
                self.begin_message();
            }
            // The input of embeddings can be tokens.
            Value::Number(_) if self.format.request.conversation.takes_values => self.add_text(4),
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    /// The conversation itself.
    pub(super) fn conversation(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        self.has_input = true;
        let rules = &self.format.request.conversation;
        match value {
            Value::Text(text) if rules.takes_text => {
                self.add_text(text.len);
                self.found.spans.beginning = Some(span);
                self.note_only_message(span);
            }
            Value::Open(Container::Array) => {
                self.push(Location::Array, rules.entry, span.start);
                self.begin_conversation(span.start);
            }
            _ => return fault(rules.field, rules.wanted, span),
        }
        Ok(())
    }

    /// A word that says what its node is.
    pub(super) fn word(&mut self, slot: Slot, value: Value<'_>, start: u64) {
        let Value::Text(text) = value else {
            return self.content(Slot::Content, value, start);
        };
        self.add_text(text.len);
        match slot {
            Slot::Type => {
                let kind = Kind::of(text.bytes);
                let is_tool_traffic = kind.is_tool_traffic(text.bytes);
                self.found.facts.needs.tools |= is_tool_traffic;
                if is_tool_traffic {
                    self.note_tool_traffic();
                }
                if let Some(frame) = self.frames.last_mut() {
                    frame.kind = kind;
                }
            }
            Slot::Role => {
                self.mark(NodeFlags::ROLE);
                self.found.facts.needs.tools |= matches!(text.bytes, b"tool" | b"function");
                self.note_role(text.bytes);
            }
            Slot::ToolType => {
                self.note_tool_type(text.bytes);
                let is_clients = text.is_whole() && is_run_by_client(text.bytes);
                if !is_clients {
                    self.add_hosted_tool();
                }
                if text.bytes.starts_with(b"advisor_") {
                    self.found.facts.adviser = true;
                } else if asks_models(text.bytes) {
                    self.asks_others("tools[].type");
                }
            }
            _ => self.item_id = Some(ItemId::of(text)),
        }
    }

    /// Tools that the request offers, or calls of them.
    pub(super) fn tools(&mut self, slot: Slot, value: Value<'_>, start: u64) {
        match value {
            Value::Open(Container::Array) => self.push(Location::Array, slot, start),
            Value::Open(Container::Object) => {
                self.found.facts.needs.tools = true;
                let inside = if slot == Slot::Tools {
                    Slot::Tools
                } else {
                    Slot::Content
                };
                self.content(inside, value, start);
            }
            _ => self.content(Slot::Content, value, start),
        }
    }

    /// A payload, or something that may be or contain one.
    pub(super) fn payload(&mut self, slot: Slot, value: Value<'_>, start: u64) {
        match (slot, value) {
            (Slot::Payload(medium), Value::Text(text)) => {
                self.mark(medium.into());
                self.add_media(text.len);
            }
            (Slot::Link(medium), Value::Text(text)) => {
                self.mark(medium.into());
                if text.bytes.starts_with(SCHEME) {
                    self.mark_data(!text.bytes.starts_with(IMAGE_SCHEME));
                    self.add_media(text.len);
                } else {
                    self.add_text(text.len);
                }
            }
            (Slot::MaybePayload, Value::Text(text)) => {
                self.mark(NodeFlags::RESULT);
                if let Some(frame) = self.frames.last_mut() {
                    frame.undecided = frame.undecided.saturating_add(text.len);
                }
            }
            (Slot::Payload(medium) | Slot::Link(medium), Value::Open(Container::Object)) => {
                self.mark(medium.into());
                self.push(Location::Payload, Slot::Ignored, start);
            }
            (Slot::Source, Value::Open(Container::Object)) => {
                self.push(Location::Source, Slot::Ignored, start);
            }
            (Slot::Blob, Value::Open(Container::Object)) => {
                self.push(Location::Blob, Slot::Ignored, start);
            }
            (Slot::MediaType, Value::Text(text)) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.kind = Kind::of_media_type(text.bytes);
                }
            }
            _ => self.content(Slot::Content, value, start),
        }
    }

    /// Takes a link that has data. Some servers read data that is given as an image by its media type.
    fn mark_data(&mut self, is_other: bool) {
        let node = match self.frames.as_mut_slice() {
            [.., node, link] if link.location == Location::Payload => node,
            [.., node] => node,
            [] => return,
        };
        if is_other && node.slot == Slot::Link(Medium::Image) {
            node.members.remove(NodeFlags::IMAGE);
            node.members.insert(NodeFlags::OTHER);
        }
    }

    /// The identifier of something stored at the provider, or what may contain one.
    pub(super) fn stored(
        &mut self,
        slot: Slot,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        let is_top = self.frames.len() == 1;
        self.has_stored_input |= is_top
            && !matches!(value, Value::Null)
            && matches!(slot, Slot::Reference | Slot::Prompt);
        let location = match (slot, value) {
            (_, Value::Text(text)) => {
                self.mark(NodeFlags::FILE);
                return self.keep_stored_id(ItemId::of(text), self.stored_field.as_str().into());
            }
            (Slot::Skills, Value::Open(Container::Array)) => {
                self.push(Location::Array, Slot::Skills, span.start);
                return Ok(());
            }
            (_, Value::Open(Container::Array)) => {
                self.push(Location::Array, Slot::StoredId, span.start);
                return Ok(());
            }
            (Slot::Reference, Value::Open(_)) => Location::Reference,
            (Slot::Container, Value::Open(_)) => Location::Container,
            (Slot::Prompt, Value::Open(_)) => Location::Prompt,
            (Slot::Skills, Value::Open(_)) => Location::Item,
            (_, Value::Open(_)) => Location::Tool,
            _ => return Ok(()),
        };
        self.push(location, Slot::Ignored, span.start);
        Ok(())
    }

    /// Notes that an item has more than its type, role, id and status. A list that is read has
    /// something once it has an element.
    #[inline]
    pub(super) fn note_contents(&mut self, slot: Slot, value: Value<'_>) {
        let is_opaque = matches!(slot, Slot::Ignored | Slot::Json);
        let is_something = match value {
            Value::Text(text) => text.len > 0,
            Value::Number(_) | Value::Bool(_) | Value::Open(Container::Object) => true,
            Value::Open(Container::Array) => is_opaque,
            Value::Null => false,
        };
        let names_it = matches!(slot, Slot::Type | Slot::Role | Slot::ItemId | Slot::Status);
        match self.frames.as_mut_slice() {
            [.., item] if item.location == Location::Item && is_something && !names_it => {
                item.members.insert(NodeFlags::SUBSTANCE);
            }
            [.., item, list]
                if list.location == Location::Array
                    && item.location == Location::Item
                    && is_something =>
            {
                item.members.insert(NodeFlags::SUBSTANCE);
            }
            _ => {}
        }
    }

    /// Keeps the identifier of an item: as that of something stored if the item has nothing else.
    pub(super) fn keep_item(&mut self, found: ItemId, item: Frame) -> Result<(), PeekError> {
        if item.kind.is_known_by_id(item.members) {
            let field = match self.slot() {
                Some(Slot::Skills) => "skill_id",
                _ => "id",
            };
            return self.keep_stored_id(found, field.into());
        }
        let ItemId { id, at, is_whole } = found;
        let has_contents = item.members.contains(NodeFlags::SUBSTANCE);
        // A skill is no item of the conversation.
        if self.slot() == Some(Slot::Skills) || id.is_empty() {
            return Ok(());
        }
        if !is_whole {
            // No provider has ids of this length.
            let limit = self.limits.stored_id_bytes;
            return match has_contents {
                true => Ok(()),
                false => Err(PeekError::StoredIdTooLong { limit, at }),
            };
        }
        let limit = self.limits.items;
        let items = &mut self.found.facts.items;
        if items.len() >= limit {
            return Err(PeekError::TooManyStoredIds { limit });
        }
        items.push(NamedItem { id, has_contents });
        Ok(())
    }

    fn keep_stored_id(&mut self, found: ItemId, field: Box<str>) -> Result<(), PeekError> {
        let ItemId { id, at, is_whole } = found;
        if !is_whole {
            let limit = self.limits.stored_id_bytes;
            return Err(PeekError::StoredIdTooLong { limit, at });
        }
        let limit = self.limits.stored_ids;
        if id.is_empty() || !self.known_ids.insert(id.clone()) {
            return Ok(());
        }
        let ids = &mut self.found.facts.stored_ids;
        if ids.len() >= limit {
            return Err(PeekError::TooManyStoredIds { limit });
        }
        ids.push(StoredId { id, field });
        Ok(())
    }
}

/// Whether the client runs tools of this `type`, so that a later body contains their results. An
/// unknown type counts as one that the provider runs: most new ones are.
///
/// Chat and responses: functions, free-form tools, their namespaces, and what an agent does on
/// its own machine, its screen included. Messages: tools without a `type`, `custom` ones, and
/// those of which the provider has only written the description.
fn is_run_by_client(kind: &[u8]) -> bool {
    const OF_CLIENTS: [&[u8]; 7] = [
        b"function",
        b"custom",
        b"namespace",
        b"local_shell",
        b"apply_patch",
        b"computer",
        b"computer_use_preview",
    ];
    /// Followed by a date.
    const DESCRIBED: [&[u8]; 6] = [
        b"bash_",
        b"text_editor_",
        b"memory_",
        b"computer_20",
        b"computer_toolset_",
        b"browser_toolset_",
    ];
    OF_CLIENTS.contains(&kind) || DESCRIBED.iter().any(|begin| kind.starts_with(begin))
}
