//! The walk over a body: keeps the path to the current value and fills in facts and spans.
//! [`location`](super::location) and the format say what a key means.

mod content;
mod extensions;
mod settings;
mod shape;
mod sink;
mod speech;

use super::{
    ENCODED_SEAL_TAG, ModelFault, ObjectSpan, PeekError, PeekLimits, Peeked, SEAL_TAG, case,
    keys::KeyStack,
    location::{Location, Slot},
    node::{Kind, NodeFlags},
    texts::Part,
};
use crate::{
    address::Address,
    formats::rules::FormatRules,
    json::{Container, Number, Span, Text},
};
use std::collections::HashSet;

/// The longest word that decides anything: types, roles, efforts.
const WORD_BYTES: usize = 48;
/// How far a link is read to see what it is.
const SCHEME: &[u8] = b"data:";
const IMAGE_SCHEME: &[u8] = b"data:image/";

#[derive(Debug)]
pub(super) struct Walk {
    format: &'static FormatRules,
    limits: PeekLimits,
    pub(super) output_limit_required: bool,
    /// Whether the request only asks for a count of its tokens.
    pub(super) counts: bool,
    /// The greatest output limit in the fields of the format.
    own_limit: Option<u64>,
    found: Peeked,
    frames: Vec<Frame>,
    keys: KeyStack,
    /// Open containers of which nothing is read, and whether the model reads them.
    unread: u32,
    unread_is_text: bool,
    /// The last key that names things stored at a provider.
    stored_field: String,
    /// The ids of items stored at a provider: a repeated id counts once.
    known_ids: HashSet<String>,
    /// The `id` of the item that is open.
    item_id: Option<ItemId>,
    /// The request has a conversation.
    has_input: bool,
    /// Something stored replaces the conversation.
    has_stored_input: bool,
    /// The open message is the first one of the user.
    user_begins: bool,
    /// Values so far in the open top-level list or object.
    entries: u32,
    /// The offset of a conversation without entries.
    empty_input: Option<u64>,
}

/// An open container that is read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    location: Location,
    /// What the value of the last key means; in an array, what each element means.
    slot: Slot,
    start: u64,
    keys: usize,
    kind: Kind,
    members: NodeFlags,
    /// Bytes of a payload that may turn out to be text.
    undecided: u64,
    /// The part of the body in which it stands, if texts are noted.
    part: Part,
    /// Whether texts in the value of the last key are noted.
    is_noted: bool,
    /// Texts of the message that were noted before.
    noted_before: usize,
    /// A plugin or a search that is switched off.
    is_off: bool,
    /// A plugin that brings no input.
    is_inward: bool,
    /// The field in it that makes the provider ask other models.
    asks_others: Option<&'static str>,
}

/// The `id` of an item; whether it names something stored is known at the end of the item.
#[derive(Debug)]
struct ItemId {
    id: String,
    at: u64,
    is_whole: bool,
}

impl ItemId {
    fn of(text: Text<'_>) -> Self {
        Self {
            id: text.as_str().to_owned(),
            at: text.span.start,
            is_whole: text.is_whole(),
        }
    }
}

/// Whether the address of a file leads to the web. Files that Google stores are the operator's: all of
/// its keys share them.
fn is_elsewhere(address: Text<'_>) -> bool {
    const STORE: &str = "generativelanguage.googleapis.com";
    let lower = address.as_str().to_ascii_lowercase();
    let rest = lower
        .strip_prefix("https://")
        .or(lower.strip_prefix("http://"));
    let Some((authority, _)) = rest.and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
    let host = authority.split(':').next().unwrap_or_default();
    authority.bytes().all(is_plain) && !host.trim_end_matches('.').ends_with(STORE)
}

/// A known key with `_` in the spelling with capitals, if the format has both: an object can have one of them.
fn in_camel_case(format: &FormatRules, frame: &Frame, key: &[u8]) -> Option<Vec<u8>> {
    if !format.request.two_spellings
        || !key.contains(&b'_')
        || frame.slot == frame.location.slot(format, b"")
    {
        return None;
    }
    let mut other = Vec::with_capacity(key.len());
    let mut words = key.split(|byte| *byte == b'_');
    other.extend(words.next().into_iter().flatten());
    for word in words {
        let mut letters = word.iter();
        other.extend(letters.next().map(u8::to_ascii_uppercase));
        other.extend(letters);
    }
    Some(other)
}

/// Whether the value of a key names things stored at a provider.
const fn names_stored(slot: Slot) -> bool {
    matches!(
        slot,
        Slot::StoredId | Slot::FileUri | Slot::Reference | Slot::Container | Slot::Prompt
    )
}

/// A value, or the beginning of one.
#[derive(Clone, Copy)]
enum Value<'a> {
    Text(Text<'a>),
    Number(Number<'a>),
    Bool(bool),
    Null,
    Open(Container),
}

impl Value<'_> {
    /// The bytes of a scalar for a model that reads it as JSON.
    fn text_bytes(self, span: Span) -> u64 {
        match self {
            Self::Text(text) => text.len,
            Self::Number(_) | Self::Bool(_) | Self::Null => span.len(),
            Self::Open(_) => 0,
        }
    }
}

impl Walk {
    pub(super) fn new(format: &'static FormatRules, limits: &PeekLimits) -> Self {
        let mut found = Peeked::default();
        found.facts.choices = 1;
        Self {
            format,
            limits: limits.clone(),
            output_limit_required: format.request.output_limit.is_required,
            counts: false,
            own_limit: None,
            found,
            frames: Vec::with_capacity(16),
            keys: KeyStack::new(),
            unread: 0,
            unread_is_text: false,
            stored_field: String::new(),
            known_ids: HashSet::new(),
            item_id: None,
            has_input: false,
            has_stored_input: false,
            user_begins: false,
            entries: 0,
            empty_input: None,
        }
    }

    /// Takes the facts that stand outside the body.
    pub(super) fn take(&mut self, address: Address) {
        if let Some(model) = address.model {
            self.take_model(model);
        }
        let facts = &mut self.found.facts;
        facts.stream = address.stream.unwrap_or(facts.stream);
    }

    /// Begins to note where the text of the conversation stands.
    pub(super) fn keep_texts(&mut self) {
        self.found.texts = Some(Box::default());
    }

    /// What was found so far.
    pub(super) fn into_found(self) -> Peeked {
        self.found
    }

    /// Checks that the required fields were there.
    pub(super) fn finish(mut self) -> Result<Peeked, PeekError> {
        if self.limits.model_required && self.found.facts.model.is_none() {
            return Err(PeekError::Model(ModelFault::Missing));
        }
        if !self.has_input && !self.has_stored_input {
            let conversation = &self.format.request.conversation;
            return Err(PeekError::Missing {
                field: conversation.field,
                wanted: conversation.wanted,
            });
        }
        self.check_has_entries()?;
        if self.output_limit_required && self.own_limit.is_none() {
            let field = self.format.request.output_limit.field;
            let wanted = settings::POSITIVE_INTEGER;
            return Err(PeekError::Missing { field, wanted });
        }
        self.found.facts.output_limit = self.greatest_limit();
        Ok(self.found)
    }

    fn slot(&self) -> Option<Slot> {
        self.frames.last().map(|frame| frame.slot)
    }

    fn mark(&mut self, members: NodeFlags) {
        if let Some(frame) = self.frames.last_mut() {
            frame.members.insert(members);
        }
    }

    fn push(&mut self, location: Location, slot: Slot, start: u64) {
        if self.frames.len() == 1 {
            self.entries = 0;
        }
        let around = self.frames.last().filter(|it| it.is_noted);
        let part = around.map_or(Part::Other, |it| it.part);
        let texts = self.found.texts.as_ref();
        let noted_before = texts.map_or(0, |texts| texts.noted());
        self.frames.push(Frame {
            location,
            slot,
            start,
            keys: self.keys.mark(),
            kind: Kind::Untyped,
            members: NodeFlags::default(),
            undecided: 0,
            part,
            is_noted: location == Location::Array,
            noted_before,
            is_off: false,
            is_inward: false,
            asks_others: None,
        });
    }

    /// Skips a container that opens now; `is_text` if the model reads it.
    fn pass_over(&mut self, is_text: bool) {
        self.unread = 1;
        self.unread_is_text = is_text;
    }

    /// Takes a value, or the beginning of one, at `span`. Most values of a dense body are in JSON
    /// that is skipped, so that path is short.
    #[inline]
    fn value(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        self.found.values = self.found.values.saturating_add(1);
        if self.unread > 0 {
            self.unread_value(value, span);
            return Ok(());
        }
        self.read_value(value, span)
    }

    fn read_value(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        let Some(slot) = self.slot() else {
            return match value {
                Value::Open(Container::Object) => {
                    self.push(Location::Top, Slot::Ignored, span.start);
                    Ok(())
                }
                _ => Err(PeekError::NotAnObject),
            };
        };
        self.entry(value, span)?;
        self.note_contents(slot, value);
        match slot {
            Slot::Ignored | Slot::Json => self.opaque(slot, value, span),
            Slot::Template => {
                self.found.facts.template |= !matches!(value, Value::Null);
                self.opaque(Slot::Json, value, span);
            }
            Slot::Thread => {
                self.found.facts.thread = !matches!(value, Value::Null);
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::HostedTools
            | Slot::Search
            | Slot::Switch
            | Slot::FurtherModels(_)
            | Slot::Place(_)
            | Slot::Plugins
            | Slot::PluginId
            | Slot::ChangeKind
            | Slot::Within(_) => {
                self.extension(slot, value, span);
            }
            Slot::CacheKey => {
                if let Value::Text(_) = value {
                    self.found.spans.cache_key = Some(span);
                }
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::ToolModel => {
                self.tool_model(value);
                self.content(Slot::Tool, value, span.start);
            }
            Slot::Content | Slot::Tool | Slot::Item | Slot::Status => {
                self.content(slot, value, span.start);
            }
            Slot::Query => {
                self.found.facts.query_bytes = span.len();
                self.content(Slot::Content, value, span.start);
            }
            Slot::Prediction => {
                self.found.facts.predicts |= !matches!(value, Value::Null);
                self.content(Slot::Content, value, span.start);
            }
            Slot::Seal => {
                let tags = [SEAL_TAG, ENCODED_SEAL_TAG].map(str::as_bytes);
                let is_seal = matches!(value, Value::Text(text) if tags.contains(&text.bytes));
                self.found.has_seals |= is_seal;
                self.content(Slot::Content, value, span.start);
            }
            Slot::NodeContent => return self.node_content(value, span),
            Slot::Conversation => return self.conversation(value, span),
            Slot::Type | Slot::Role | Slot::ItemId | Slot::ToolType => {
                self.check_word(slot, value, span.start)?;
                self.word(slot, value, span.start)
            }
            Slot::Tools => return self.offered(value, span),
            Slot::Function => return self.function(value, span),
            Slot::ToolName => self.tool_name(value, span.start),
            Slot::Checked(checked) => return self.checked(checked, value, span),
            Slot::Functions => self.tools(Slot::Tools, value, span.start),
            Slot::ToolCalls => self.tools(slot, value, span.start),
            Slot::Payload(_)
            | Slot::Link(_)
            | Slot::MaybePayload
            | Slot::Source
            | Slot::Blob
            | Slot::MediaType => {
                self.payload(slot, value, span.start);
            }
            Slot::FileUri => match value {
                Value::Text(text) if is_elsewhere(text) => {
                    self.mark(NodeFlags::SOURCE);
                    self.add_text(text.len);
                }
                _ => return self.stored(Slot::StoredId, value, span),
            },
            Slot::StoredId | Slot::Reference | Slot::Container | Slot::Skills | Slot::Prompt => {
                return self.stored(slot, value, span);
            }
            _ => return self.setting(slot, value, span),
        }
        Ok(())
    }

    #[inline]
    fn unread_value(&mut self, value: Value<'_>, span: Span) {
        if matches!(value, Value::Open(_)) {
            self.unread += 1;
        }
        if self.unread_is_text {
            self.add_text(value.text_bytes(span));
        }
    }

    fn add_text(&mut self, bytes: u64) {
        let text = &mut self.found.facts.text_bytes;
        *text = text.saturating_add(bytes);
    }

    fn add_media(&mut self, bytes: u64) {
        let media = &mut self.found.facts.media.bytes;
        *media = media.saturating_add(bytes);
    }

    /// Takes a key of an object that is read.
    fn read_key(&mut self, key: Text<'_>) -> Result<(), PeekError> {
        let Some(frame) = self.frames.last_mut() else {
            return Ok(());
        };
        let at = key.span.start;
        if !key.is_whole() {
            let limit = self.limits.key_bytes;
            return Err(PeekError::KeyTooLong { limit, at });
        }
        if self.keys.count(frame.keys) >= self.limits.keys {
            let limit = self.limits.keys;
            return Err(PeekError::TooManyKeys { limit, at });
        }
        frame.slot = frame.location.slot(self.format, key.bytes);
        let is_new = match in_camel_case(self.format, frame, key.bytes) {
            Some(other) => self.keys.insert(frame.keys, &other),
            None => self.keys.insert(frame.keys, key.bytes),
        };
        if !is_new {
            return Err(PeekError::duplicate(key.as_str(), at));
        }
        if let Some(known) = case::known_case(key.bytes) {
            let slot = |key: &[u8]| frame.location.slot(self.format, key);
            let is_known = slot(known.as_bytes()) != slot(b"");
            if is_known && slot(known.as_bytes()) != frame.slot {
                return Err(PeekError::wrong_case(key.as_str(), known, at));
            }
        }
        if frame.location == Location::Top {
            self.found.has_top_k |= key.bytes == b"top_k";
            self.found.has_sampling |= matches!(key.bytes, b"temperature" | b"top_p" | b"top_k");
        }
        let is_free = matches!(
            frame.slot,
            Slot::Ignored | Slot::Json | Slot::Within(Location::Google | Location::Table(_))
        );
        if frame.location == Location::Extra && !is_free {
            let key = key.as_str().to_owned();
            return Err(PeekError::Extra { key, at });
        }
        if frame.slot == Slot::Within(Location::Counted) && !self.counts {
            frame.slot = Slot::Json;
        }
        if frame.slot == Slot::Conversation && self.counts && self.has_input {
            return Err(PeekError::duplicate(key.as_str(), at));
        }
        // An `id` within such a value keeps the name of the value.
        if names_stored(frame.slot) && key.bytes != b"id" {
            self.stored_field.clear();
            self.stored_field.push_str(key.as_str());
        }
        if self.found.texts.is_some() {
            frame.begin_value(key.bytes);
        }
        Ok(())
    }

    /// Ends the container that is open.
    fn close(&mut self, end: u64) -> Result<(), PeekError> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        let object = ObjectSpan {
            inside: frame.start.saturating_add(1),
            is_empty: self.keys.count(frame.keys) == 0,
        };
        self.keys.truncate(frame.keys);
        let span = Span {
            start: frame.start,
            end,
        };
        self.check_closed(&frame)?;
        if self.frames.len() == 1 && self.slot() == Some(Slot::Query) {
            self.found.facts.query_bytes = span.len();
        }
        if self.user_begins && matches!(frame.location, Location::Node | Location::Item) {
            self.end_beginning(end);
        }
        self.end_message();
        match frame.location {
            Location::Top => {
                self.found.spans.top = object;
                let facts = &mut self.found.facts;
                facts.readable_bytes = span.len().saturating_sub(facts.media.bytes);
            }
            Location::StreamOptions => {
                self.found.spans.stream_options = Some(span);
                self.found.spans.stream_options_object = Some(object);
            }
            Location::Thinking => self.found.spans.thinking = Some(span),
            Location::OutputSettings(_) => {
                self.found.spans.output_settings = Some((span, Some(object)));
            }
            Location::Source => self.close_source(frame),
            Location::Blob => self.close_blob(frame),
            Location::Offered => self.close_tool(&frame, object.is_empty),
            Location::Plugin | Location::Search => self.close_extension(frame),
            Location::Node => self.close_node(frame),
            Location::Item => {
                self.close_node(frame);
                if let Some(id) = self.item_id.take() {
                    return self.keep_item(id, frame);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts the data of a source, now that its `type` is known: as text or as a payload.
    fn close_source(&mut self, source: Frame) {
        if source.kind == Kind::TextSource {
            self.add_text(source.undecided);
            return;
        }
        self.add_media(source.undecided);
        self.mark(NodeFlags::SOURCE);
    }

    /// Counts a payload or a file, now that its media type is known. The size of a stored file is known by its id.
    fn close_blob(&mut self, blob: Frame) {
        let by_address = blob.members.contains(NodeFlags::SOURCE);
        if blob.kind == Kind::TextSource && !by_address {
            self.add_text(blob.undecided);
            return;
        }
        self.add_media(blob.undecided);
        self.mark(match blob.kind {
            _ if blob.members.contains(NodeFlags::FILE) => NodeFlags::FILE,
            Kind::Image => NodeFlags::IMAGE,
            Kind::Audio => NodeFlags::AUDIO,
            Kind::Document | Kind::TextSource => NodeFlags::DOCUMENT,
            _ => NodeFlags::OTHER,
        });
    }

    /// Counts a tool without a known form as the provider's: some servers accept tools of other formats.
    fn close_tool(&mut self, tool: &Frame, is_empty: bool) {
        let flags = [NodeFlags::TYPED, NodeFlags::FUNCTION, NodeFlags::NAMED];
        let is_known = flags.into_iter().any(|flag| tool.members.contains(flag));
        if !is_known && !is_empty && !self.format.request.tools.kind_is_key {
            self.add_hosted_tool();
        }
    }

    /// Counts the media of a node, now that its `type` is known.
    fn close_node(&mut self, node: Frame) {
        if node.kind == Kind::ImageGeneration {
            self.add_media(node.undecided);
        } else {
            self.add_text(node.undecided);
        }
        let media = node.kind.media(node.members);
        let facts = &mut self.found.facts;
        facts.needs.images |= media.contains(NodeFlags::IMAGE);
        facts.needs.documents |= media.contains(NodeFlags::DOCUMENT);
        facts.needs.audio |= media.contains(NodeFlags::AUDIO);
        let is_other = media.contains(NodeFlags::OTHER) && !media.contains(NodeFlags::IMAGE);
        if is_other || media.contains(NodeFlags::DOCUMENT) || media.contains(NodeFlags::AUDIO) {
            facts.media.unmeasured = facts.media.unmeasured.saturating_add(1);
        }
        if media != NodeFlags::default() {
            facts.media.parts = facts.media.parts.saturating_add(1);
        }
    }
}

fn fault<T>(field: &'static str, wanted: &'static str, span: Span) -> Result<T, PeekError> {
    let at = span.start;
    Err(PeekError::Field { field, wanted, at })
}
