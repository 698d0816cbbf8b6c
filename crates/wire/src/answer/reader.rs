//! The one reader of answers: whole bodies and the data of stream events.
//!
//! Knows where the formats keep what the gateway looks at. It judges nothing: whether an
//! event may pass is `stream`'s to decide, whether a body is an answer `answer`'s.

use super::{
    AnswerFacts, StopReason, at,
    kind::{EventKind, StreamEvents},
    path::{Key, Path},
    sample::Sample,
    text::{EventText, TextClass},
};
use crate::{
    json::{Container, JsonError, Lexer, Literal, Number, Sink, Span, Text, Want},
    usage::{UsageField, UsageReport},
};
use tollgate_types::Format;

/// Longest id or model name that is kept, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Longest word (type, status, reason) that is looked at, in bytes.
const MAX_WORD_BYTES: usize = 64;

/// What the reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A whole answer.
    Body(Format),
    /// The data of one event after the other.
    Stream(Format),
}

impl Mode {
    const fn format(self) -> Format {
        match self {
            Self::Body(format) | Self::Stream(format) => format,
        }
    }
}

/// What one event, or one body, says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventFacts {
    /// The document is an object.
    pub(crate) object: bool,
    /// That object has a member.
    pub(crate) member: bool,
    /// By its `type`; in chat, and of whole responses, by its `object`.
    pub(crate) kind: EventKind,
    /// It holds an error object.
    pub(crate) error: bool,
    /// Chat: a delta that is not empty, or a finish reason.
    pub(crate) content: bool,
    /// The list that every answer of the format has is there: `choices`, `output`, `content`.
    pub(crate) main_list: bool,
    /// An element of that list began.
    pub(crate) main_item: bool,
    /// It holds a usage object.
    pub(crate) usage: bool,
    /// Its text and the arguments of its tool calls.
    pub(crate) text: EventText,
    /// Its `sequence_number`.
    pub(crate) sequence: Option<u64>,
    /// Chat: the choices in it.
    pub(crate) choices: Choices,
}

/// What a value is to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueRole {
    /// Text of the answer: it is measured, and a sample of it kept.
    Text,
    /// It may mean something.
    Read,
    /// Nothing depends on it.
    Unread,
}

/// Chat: which choices have begun and which have ended, by index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choices {
    /// Of the choice that is being read.
    index: u64,
    /// It has a finish reason.
    has_reason: bool,
    begun: u128,
    finished: u128,
}

impl Choices {
    /// Takes over what an event said, once it has left.
    pub(crate) const fn merge(&mut self, event: Self) {
        self.begun |= event.begun;
        self.finished |= event.finished;
    }

    /// Whether every choice that began has a finish reason.
    pub(crate) const fn are_finished(&self) -> bool {
        self.begun != 0 && self.begun == self.finished
    }

    /// Takes the choice that was read to its end. Indexes beyond the last share its bit.
    fn take(&mut self) {
        let bit = 1 << self.index.min(127);
        self.begun |= bit;
        if std::mem::take(&mut self.has_reason) {
            self.finished |= bit;
        }
        self.index = 0;
    }
}

/// The sink that picks out facts.
#[derive(Debug)]
pub(crate) struct Reader {
    mode: Mode,
    /// Events that the provider has beyond those of the format.
    pub(crate) extensions: StreamEvents,
    path: Path,
    in_delta: bool,
    /// Of the event that is being read.
    pub(crate) event: EventFacts,
    /// Of the whole answer.
    pub(crate) facts: AnswerFacts,
    pub(crate) usage: UsageReport,
    /// Of all its text, for an estimate of how many tokens the whole has.
    sample: Sample,
}

impl Reader {
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            extensions: StreamEvents::default(),
            path: Path::default(),
            in_delta: false,
            event: EventFacts::default(),
            facts: AnswerFacts::default(),
            usage: UsageReport::default(),
            sample: Sample::default(),
        }
    }

    /// What an event of this name, or of this type, does to its stream.
    pub(crate) fn kind_of(&self, name: &[u8]) -> EventKind {
        EventKind::of(self.mode.format(), name, &self.extensions)
    }

    /// Whether the event that was read, as far as it was, is one of those that the format
    /// defines. Its name must be one, too.
    pub(crate) const fn is_defined(&self) -> bool {
        let EventFacts {
            kind,
            main_list,
            usage,
            ..
        } = self.event;
        match kind {
            EventKind::Preamble | EventKind::Content | EventKind::Terminal => true,
            // Chunks of chat have no type. Some providers report usage without a list.
            EventKind::Unnamed => {
                matches!(self.mode.format(), Format::Chat) && (main_list || usage)
            }
            EventKind::Foreign | EventKind::Error => false,
        }
    }

    /// Whether the event is an object without members.
    pub(crate) const fn is_empty_object(&self) -> bool {
        self.event.object && !self.event.member
    }

    /// Makes ready for the next event. What is known of the whole answer stays.
    pub(crate) fn next_event(&mut self) {
        self.path = Path::default();
        self.in_delta = false;
        self.event = EventFacts::default();
    }

    /// The key of an object here whose members count as the document's own.
    fn wrapper(&self) -> Option<Key> {
        let key = match self.mode {
            Mode::Stream(Format::Messages) => Key::Message,
            Mode::Stream(Format::Responses) => Key::Response,
            Mode::Stream(Format::Chat) => Key::XGroq,
            Mode::Body(_) => return None,
        };
        let is_here = self.path.here() == Some(key as u64) && !self.path.is_wrapped();
        is_here.then_some(key)
    }

    /// Whether identity read here is the answer's own.
    fn is_identity(&self) -> bool {
        !(self.path.is_wrapped() && self.mode.format() == Format::Chat)
    }

    fn is_main_list(&self, here: u64) -> bool {
        here == match self.mode.format() {
            Format::Chat => at::CHOICES,
            Format::Responses => at::OUTPUT,
            Format::Messages => at::CONTENT,
        }
    }

    fn is_main_item(&self, here: u64) -> bool {
        here & 0xff == Key::Item as u64 && self.is_main_list(here >> 8)
    }

    /// Whether a string that stands here is text of the answer: every one is that is not known
    /// to be metadata, where the format has its content.
    fn is_text(&self) -> bool {
        use Key as K;
        if self.path.is_metadata() {
            return false;
        }
        let outermost = self.path.level(0);
        let is = |key: Key| outermost == key as u8;
        match (self.mode, self.path.is_wrapped()) {
            (Mode::Stream(Format::Chat), true) => false,
            (Mode::Body(Format::Chat) | Mode::Stream(Format::Chat), _) => {
                is(K::Choices) && self.path.level(1) == K::Item as u8
            }
            (Mode::Stream(Format::Messages), false) => is(K::Delta) || is(K::ContentBlock),
            (Mode::Body(Format::Messages) | Mode::Stream(Format::Messages), _) => is(K::Content),
            // An event of this format has its content in members of many names.
            (Mode::Stream(Format::Responses), false) => outermost != K::None as u8,
            (Mode::Body(Format::Responses) | Mode::Stream(Format::Responses), _) => is(K::Output),
        }
    }

    /// Adds to the text of the event what stands here.
    fn add_text(&self, text: &mut EventText, bytes: u64) {
        let place = match (self.mode.format(), self.path.level(3)) {
            (Format::Chat, key) if key == Key::Reasoning as u8 => Some(0),
            (Format::Chat, key) if key == Key::ReasoningContent as u8 => Some(1),
            (Format::Chat, key) if key == Key::ReasoningDetails as u8 => Some(2),
            _ => None,
        };
        text.add(place, bytes);
    }

    /// The text in the event so far, with the string in which its last chunk ended.
    pub(crate) fn text_so_far(&self, lexer: &Lexer) -> u64 {
        let mut text = self.event.text;
        if self.is_text() {
            self.add_text(&mut text, lexer.open_string_bytes());
        }
        text.bytes()
    }

    /// What a string that stands here is to the reader.
    pub(crate) fn string_role(&self) -> ValueRole {
        const UNREAD: [u8; 2] = [Key::Other as u8, Key::Metadata as u8];
        match self.path.here() {
            _ if self.is_text() => ValueRole::Text,
            Some(_) if !UNREAD.contains(&self.path.key()) => ValueRole::Read,
            _ => ValueRole::Unread,
        }
    }

    /// Whether a number that stands here is that of the event.
    pub(crate) fn is_at_sequence(&self) -> bool {
        self.path.here() == Some(at::SEQUENCE_NUMBER)
    }

    /// Of the one event that was read: whether nothing is to be learnt from another like it
    /// but its text and its number. What is kept of the first alone does not count.
    pub(crate) fn says_text_alone(&self) -> bool {
        let EventFacts {
            object,
            kind,
            error,
            usage,
            choices,
            text,
            ..
        } = self.event;
        object
            && text.class == TextClass::Piece
            && !error
            && !usage
            && !matches!(
                kind,
                EventKind::Terminal | EventKind::Foreign | EventKind::Error
            )
            && choices.finished == 0
            && self.facts.stop.is_none()
            && self.facts.stored_ids.is_empty()
            && self.facts.containers.is_empty()
            && self.usage == UsageReport::default()
    }

    /// Adds the source of a text to the sample.
    #[inline]
    pub(crate) fn keep_sample(&mut self, source: &[u8]) {
        self.sample.push(source);
    }

    /// A sample of the text, about a KiB of it.
    pub(crate) fn text_sample(&self) -> String {
        self.sample.text()
    }

    fn word(&mut self, here: u64, text: Text<'_>) {
        match here {
            at::TYPE | at::OBJECT if !self.path.is_wrapped() => self.name_event(here, text.bytes),
            at::ID if self.is_identity() => keep(&mut self.facts.id, text),
            at::MODEL if self.is_identity() => keep(&mut self.facts.model, text),
            at::FINISH_REASON => self.finish_choice(text.as_str()),
            at::STOP_REASON | at::DELTA_STOP_REASON | at::INCOMPLETE_REASON => {
                self.facts.stop = Some(StopReason::parse(text.as_str()));
            }
            at::STATUS => self.status(text.as_str()),
            at::ERROR | at::CHOICE_ERROR if text.len > 0 => self.event.error = true,
            _ => {
                if let Some(ids) = self.ids_at(here) {
                    keep_id(ids, text);
                }
            }
        }
    }

    /// Takes the word by which an event, or a body, says what it is.
    fn name_event(&mut self, here: u64, word: &[u8]) {
        let format = self.mode.format();
        let kind = match (self.mode, here) {
            (Mode::Stream(Format::Chat), at::OBJECT)
            | (Mode::Stream(Format::Messages | Format::Responses), at::TYPE) => {
                self.event.text.class = TextClass::of(word);
                self.kind_of(word)
            }
            (Mode::Body(Format::Chat | Format::Responses), at::OBJECT)
            | (Mode::Body(Format::Messages), at::TYPE) => EventKind::of_body(format, word),
            _ if word == b"error" => EventKind::Error,
            _ => return,
        };
        self.event.kind = self.event.kind.max(kind);
    }

    /// Where the ids of things are kept that stand here.
    fn ids_at(&mut self, here: u64) -> Option<&mut Vec<Box<str>>> {
        match (self.mode.format(), here) {
            (Format::Responses, at::ITEM_ID | at::OUTPUT_ID | at::CONVERSATION_ID) => {
                Some(&mut self.facts.stored_ids)
            }
            (Format::Responses, at::ITEM_CONTAINER | at::OUTPUT_CONTAINER)
            | (Format::Messages, at::CONTAINER | at::DELTA_CONTAINER) => {
                Some(&mut self.facts.containers)
            }
            _ => None,
        }
    }

    fn finish_choice(&mut self, reason: &str) {
        self.event.content = true;
        if reason == "error" {
            self.event.error = true;
            return;
        }
        self.facts.stop = Some(StopReason::parse(reason));
        self.event.choices.has_reason = true;
    }

    /// The status of a response; that of one still running says nothing.
    fn status(&mut self, status: &str) {
        match status {
            "completed" => self.facts.stop = Some(StopReason::Done),
            // The reason stands in `incomplete_details`, before or after.
            "incomplete" => {
                self.facts.stop.get_or_insert(StopReason::MaxTokens);
            }
            _ => {}
        }
    }

    /// The usage number that stands here.
    const fn usage_field(here: u64) -> Option<UsageField> {
        Some(match here {
            at::USAGE_INPUT => UsageField::Input,
            at::USAGE_OUTPUT => UsageField::Output,
            at::USAGE_TOTAL => UsageField::Total,
            at::USAGE_CACHE_READ | at::DETAILS_CACHE_READ => UsageField::CacheRead,
            at::USAGE_CACHE_WRITE | at::DETAILS_CACHE_WRITE => UsageField::CacheWrite,
            at::DETAILS_REASONING => UsageField::Reasoning,
            _ => return None,
        })
    }

    /// Whether a usage number is told before there is anything to count: `message_start` says
    /// that one token of output was made, or some, and `message_delta` how many there were.
    fn is_too_early(&self, field: UsageField) -> bool {
        matches!(field, UsageField::Output | UsageField::Reasoning)
            && matches!(self.mode, Mode::Stream(Format::Messages))
            && self.path.is_wrapped()
    }

    /// A value that is not `null`, no number and no container, where a number should be.
    fn refuse_usage(&mut self, here: u64) {
        if Self::usage_field(here).is_some() {
            self.usage.set_absurd();
        }
    }
}

const fn have_room(ids: &[Box<str>]) -> bool {
    ids.len() < AnswerFacts::MOST_STORED
}

/// Keeps the id of something stored; one that is cut short names nothing.
fn keep_id(ids: &mut Vec<Box<str>>, text: Text<'_>) {
    let is_new = || !ids.iter().any(|known| **known == *text.as_str());
    if have_room(ids) && text.is_whole() && text.len > 0 && is_new() {
        ids.push(text.as_str().into());
    }
}

/// Keeps the first of several.
fn keep(place: &mut Option<Box<str>>, text: Text<'_>) {
    if place.is_none() && text.len > 0 {
        *place = Some(text.as_str().into());
    }
}

impl Sink for Reader {
    type Error = JsonError;

    #[inline]
    fn want_key(&mut self) -> Want {
        if self.path.is_live() {
            Want::Prefix(Key::MAX_LEN + 1)
        } else {
            Want::Nothing
        }
    }

    #[inline]
    fn want_string(&mut self) -> Want {
        match self.path.here() {
            Some(at::ID) if self.facts.id.is_none() => Want::Prefix(MAX_NAME_BYTES),
            Some(at::MODEL) if self.facts.model.is_none() => Want::Prefix(MAX_NAME_BYTES),
            Some(
                at::TYPE
                | at::OBJECT
                | at::FINISH_REASON
                | at::STOP_REASON
                | at::DELTA_STOP_REASON
                | at::INCOMPLETE_REASON
                | at::STATUS,
            ) => Want::Prefix(MAX_WORD_BYTES),
            Some(here) if self.ids_at(here).is_some_and(|ids| have_room(ids)) => {
                Want::Prefix(MAX_NAME_BYTES)
            }
            _ if self.is_text() => Want::Pieces,
            _ => Want::Nothing,
        }
    }

    #[inline]
    fn key(&mut self, key: Text<'_>) -> Result<(), JsonError> {
        self.event.member = true;
        if self.path.is_live() {
            self.path.set(Key::of(key.bytes));
        }
        Ok(())
    }

    #[inline]
    fn string(&mut self, text: Text<'_>) -> Result<(), JsonError> {
        let here = self.path.here();
        if self.in_delta && text.len > 0 && here != Some(at::DELTA_ROLE) {
            self.event.content = true;
        }
        if self.is_text() {
            let mut sum = self.event.text;
            self.add_text(&mut sum, text.len);
            self.event.text = sum;
        } else if let Some(here) = here {
            self.word(here, text);
            self.refuse_usage(here);
        }
        Ok(())
    }

    #[inline]
    fn piece(&mut self, source: &[u8]) {
        self.keep_sample(source);
    }

    #[inline]
    fn number(&mut self, number: Number<'_>) -> Result<(), JsonError> {
        self.event.content |= self.in_delta;
        let Some(here) = self.path.here() else {
            return Ok(());
        };
        match here {
            at::SEQUENCE_NUMBER => self.event.sequence = number.as_u64(),
            at::CREATED_AT if self.facts.created_at.is_none() => {
                self.facts.created_at = number.as_u64();
            }
            at::CHOICE_INDEX => self.event.choices.index = number.as_u64().unwrap_or(0),
            _ => {
                if let Some(field) = Self::usage_field(here).filter(|it| !self.is_too_early(*it)) {
                    self.usage.set(field, number);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn literal(&mut self, literal: Literal, _: Span) -> Result<(), JsonError> {
        if literal != Literal::Null {
            self.event.content |= self.in_delta;
            if let Some(here) = self.path.here() {
                self.refuse_usage(here);
                self.event.error |= here == at::ERROR && literal == Literal::True;
            }
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self, container: Container, _: u64) -> Result<(), JsonError> {
        let is_object = container == Container::Object;
        if let Some(here) = self.path.here() {
            match here {
                at::ROOT => self.event.object |= is_object,
                at::ERROR | at::CHOICE_ERROR => self.event.error = true,
                at::USAGE => {
                    self.event.usage |= is_object;
                    // Each of them is whole; those of messages are spread over events, and
                    // responses have one.
                    if is_object && self.mode.format() == Format::Chat {
                        self.usage.begin();
                    }
                }
                at::DELTA => self.in_delta = true,
                at::MESSAGE if matches!(self.mode, Mode::Stream(Format::Chat)) => {
                    self.event.text.class = TextClass::Whole;
                }
                _ if self.is_main_list(here) => self.event.main_list |= !is_object,
                _ if self.is_main_item(here) => self.event.main_item = true,
                _ => self.refuse_usage(here),
            }
        }
        match self.wrapper() {
            Some(key) if is_object => self.path.begin_wrapper(key),
            _ if is_object => self.path.begin(Key::None),
            _ => self.path.begin(Key::Item),
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self, _: Container, _: u64) -> Result<(), JsonError> {
        self.path.end();
        match self.path.here() {
            Some(at::DELTA) => self.in_delta = false,
            Some(at::CHOICE) => self.event.choices.take(),
            _ => {}
        }
        Ok(())
    }
}
