//! The one reader of answers: whole bodies and the data of stream events.
//!
//! It picks facts out of the places that the rules of its format name. `stream` decides whether an
//! event may pass, and `answer` whether a body is an answer.

use super::{
    AnswerFacts, StopReason, at,
    event::EventFacts,
    kind::{EventKind, StreamEvents},
    part::Part,
    path::{Key, KeySet, Path},
    sample::Sample,
    text::{EventText, TextClass},
};
use crate::{
    formats::rules::{DocumentRules, Wrapper},
    json::{Container, JsonError, Lexer, Literal, Number, Sink, Span, Text, Want},
    usage::{UsageField, UsageOf, UsageReport},
};
use std::borrow::Cow;
use tollgate_types::{ProviderTool, ServiceTier, UsageDetails};

/// The longest id or model name that is kept, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// The longest word (type, status, reason) that is read, in bytes.
const MAX_WORD_BYTES: usize = 64;
/// Bytes from which a value other than text is media or encrypted; shorter ones are names, links and signatures.
const LEAST_MEDIA_BYTES: u64 = 1024;

/// The role of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueRole {
    /// Text of the answer: it is measured and sampled.
    Text,
    /// It may have a meaning.
    Read,
    /// Nothing depends on it.
    Unread,
}

/// The sink that picks out facts.
#[derive(Debug)]
pub(crate) struct Reader {
    rules: &'static DocumentRules,
    /// Events of the provider that the format does not define.
    pub(crate) extensions: StreamEvents,
    path: Path,
    in_delta: bool,
    /// The finish reason of the choice that is being read.
    choice_word: Option<Cow<'static, str>>,
    /// About the event that is being read.
    pub(crate) event: EventFacts,
    /// About the whole answer.
    pub(crate) facts: AnswerFacts,
    pub(crate) usage: UsageReport,
    /// The entry of a list by modality, or of a response's items, that is being read.
    part: Part,
    /// A sample of its text, to estimate how many tokens the whole has.
    sample: Sample,
}

impl Reader {
    pub(crate) fn new(rules: &'static DocumentRules) -> Self {
        Self {
            rules,
            extensions: StreamEvents::default(),
            path: Path::default(),
            in_delta: false,
            choice_word: None,
            event: EventFacts::default(),
            facts: AnswerFacts::default(),
            usage: UsageReport::default(),
            part: Part::default(),
            sample: Sample::default(),
        }
    }

    /// The effect of an event of this name, or of this type, on its stream.
    pub(crate) fn kind_of(&self, name: &[u8]) -> EventKind {
        let is_extension = || {
            let mut names = self.extensions.iter();
            names.any(|extension| extension.as_bytes() == name)
        };
        match (self.rules.kind)(name) {
            EventKind::Foreign if is_extension() => EventKind::Content,
            kind => kind,
        }
    }

    /// Whether the format defines the event, as far as the event was read. Its name must be one of
    /// the format, too.
    pub(crate) const fn is_defined(&self) -> bool {
        let EventFacts {
            kind,
            main_list,
            usage,
            ..
        } = self.event;
        match kind {
            EventKind::Preamble | EventKind::Content | EventKind::Terminal => true,
            // Some providers report usage without the main list.
            EventKind::Unnamed => self.rules.is_untyped && (main_list || usage),
            EventKind::Foreign | EventKind::Error => false,
        }
    }

    /// Whether the event is an object without members.
    pub(crate) const fn is_empty_object(&self) -> bool {
        self.event.object && !self.event.member
    }

    /// Prepares for the next event. Facts about the whole answer stay.
    pub(crate) fn next_event(&mut self) {
        self.path = Path::default();
        self.in_delta = false;
        self.event = EventFacts::default();
    }

    /// The wrapper, if it stands here.
    fn wrapper_here(&self) -> Option<&'static Wrapper> {
        let wrapper = self.rules.wrapper.as_ref()?;
        let is_here = self.path.here() == Some(wrapper.key as u64) && !self.path.is_wrapped();
        is_here.then_some(wrapper)
    }

    /// The wrapper around here.
    const fn wrapper_around(&self) -> Option<&'static Wrapper> {
        match self.path.is_wrapped() {
            true => self.rules.wrapper.as_ref(),
            false => None,
        }
    }

    /// Whether an identity that stands here is that of the answer.
    fn is_identity(&self) -> bool {
        self.wrapper_around().is_none_or(|it| it.has_identity)
    }

    const fn is_main_list(&self, here: u64) -> bool {
        here == self.rules.main_list
    }

    const fn is_main_item(&self, here: u64) -> bool {
        here & 0xff == Key::Item as u64 && self.is_main_list(here >> 8)
    }

    /// Whether a string that stands here is text of the answer: every string is that stands where
    /// the format has its content and is not known to be metadata.
    fn is_text(&self) -> bool {
        if self.path.is_metadata()
            || self.path.here() == Some(at::CHOICE_ERROR)
            || self.event.text.class == TextClass::Sound
        {
            return false;
        }
        let places = match self.wrapper_around() {
            Some(wrapper) => &wrapper.text,
            None => &self.rules.text,
        };
        let (outer, inner) = self.path.outermost();
        places.outer.contains(outer) && places.inner.contains(inner)
    }

    /// Adds the text that stands here to that of the event.
    fn add_text(&self, text: &mut EventText, bytes: u64) {
        let name = match self.rules.reasoning {
            [] => None,
            names => {
                let key = self.path.level(3);
                names.iter().position(|it| *it as u8 == key)
            }
        };
        text.add(name, bytes);
    }

    /// Adds the text of a string, or a key or a number in the arguments of a call.
    fn count_text(&mut self, bytes: u64) {
        let mut sum = self.event.text;
        self.add_text(&mut sum, bytes);
        self.event.text = sum;
    }

    /// The text in the event so far, with the string in which its last chunk ended.
    pub(crate) fn text_so_far(&self, lexer: &Lexer) -> u64 {
        let mut text = self.event.text;
        if self.is_text() {
            self.add_text(&mut text, lexer.open_string_bytes());
        }
        text.bytes()
    }

    /// The role of a string at this place.
    pub(crate) fn string_role(&self) -> ValueRole {
        const UNREAD: [u8; 2] = [Key::Other as u8, Key::Metadata as u8];
        match self.path.here() {
            _ if self.is_text() => ValueRole::Text,
            Some(_) if !UNREAD.contains(&self.path.key()) => ValueRole::Read,
            _ => ValueRole::Unread,
        }
    }

    /// Whether a number that stands here is the number of the event.
    pub(crate) fn is_at_sequence(&self) -> bool {
        self.path.here() == Some(at::SEQUENCE_NUMBER)
    }

    /// Whether another event like the one that was read would say nothing new except its text and
    /// its number. Facts that are kept from the first event only do not count.
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
            && self.usage.has_no_news()
            // The name of such a call decides whether it is charged.
            && !self.part.is_server_call
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
            // Some providers write an empty reason while there is none.
            at::FINISH_REASON | at::STOP_REASON | at::DELTA_STOP_REASON if text.len == 0 => {}
            at::TYPE | at::OBJECT if !self.path.is_wrapped() => self.name_event(here, text.bytes),
            at::ID if self.is_identity() => keep(&mut self.facts.id, text),
            at::MODEL if self.is_identity() => keep(&mut self.facts.model, text),
            at::FINISH_REASON => self.finish_choice(text.as_str()),
            at::STOP_REASON if StopReason::is_failure(text.as_str()) => self.fail(text.as_str()),
            at::STOP_REASON | at::DELTA_STOP_REASON => self.facts.set_stop(text.as_str()),
            at::INCOMPLETE_REASON => {
                self.facts.set_stop(text.as_str());
                // The answer is incomplete, even if the reason is unknown.
                if self.facts.stop == Some(StopReason::Other) {
                    self.facts.stop = Some(StopReason::MaxTokens);
                }
            }
            at::STATUS => self.status(text.as_str()),
            // The provider repeats that it chooses the tier.
            at::SERVICE_TIER | at::SERVICE_TIER_TYPE | at::USAGE_TIER
                if text.as_str().eq_ignore_ascii_case("auto") => {}
            at::SERVICE_TIER | at::SERVICE_TIER_TYPE | at::USAGE_TIER => {
                let tier = ServiceTier::from_name(text.as_str());
                let is_fast = self.usage.tier == Some(ServiceTier::Fast);
                // Anthropic's fast mode is beside the tier, which is the standard one.
                if !(here == at::USAGE_TIER && is_fast && tier == ServiceTier::Standard) {
                    self.usage.tier = Some(tier);
                }
            }
            at::USAGE_SPEED if text.as_str() == "fast" => {
                self.usage.tier = Some(ServiceTier::Fast);
            }
            at::INPUT_PART_KIND | at::CACHED_PART_KIND | at::OUTPUT_PART_KIND => {
                self.part.set_kind(text.as_str());
            }
            at::SEARCH => {
                let searches = self.usage.details.calls_mut(ProviderTool::WebSearch);
                *searches = searches.saturating_add(1);
            }
            at::ITERATION_TYPE => self.usage.set_iteration_type(text.as_str()),
            at::OUTPUT_TYPE | at::ITEM_TYPE | at::BLOCK_TYPE | at::CONTENT_TYPE => {
                self.part.set_type(text.as_str());
            }
            at::OUTPUT_ACTION | at::ITEM_ACTION => self.part.set_action(text.as_str()),
            at::ITEM_STATUS => self.part.set_status(text.as_str()),
            at::ERROR | at::CHOICE_ERROR | at::BLOCK_REASON if text.len > 0 => {
                self.event.error = true
            }
            _ => {
                if let Some(ids) = self.ids_at(here) {
                    keep_id(ids, text);
                }
            }
        }
    }

    /// Takes a word by which an event, or a body, can say what it is.
    fn name_event(&mut self, here: u64, word: &[u8]) {
        let kind = if here == self.rules.name {
            // The name may stand behind text that repeats the whole answer.
            if self.event.text.class != TextClass::Whole {
                self.event.text.class = (self.rules.text_class)(word);
                self.facts.has_unmeasured_output |= self.event.text.class == TextClass::Sound;
            }
            self.kind_of(word)
        } else if word == b"error" {
            EventKind::Error
        } else {
            return;
        };
        self.event.kind = self.event.kind.max(kind);
    }

    /// The list that keeps an id which stands here.
    fn ids_at(&mut self, here: u64) -> Option<&mut Vec<Box<str>>> {
        const IDS: KeySet = KeySet::of(&[Key::Id, Key::ContainerId]);
        if !IDS.contains(self.path.key()) {
            None
        } else if self.rules.stored_ids.contains(&here) {
            Some(&mut self.facts.stored_ids)
        } else if self.rules.containers.contains(&here) {
            Some(&mut self.facts.containers)
        } else {
            None
        }
    }

    /// Takes a finish reason that means a failure.
    fn fail(&mut self, reason: &str) {
        self.event.error = true;
        self.event.unfit |= StopReason::is_malformed(reason);
    }

    fn finish_choice(&mut self, reason: &str) {
        self.event.content = true;
        if StopReason::is_failure(reason) {
            return self.fail(reason);
        }
        self.facts.stop = Some(StopReason::parse(reason));
        self.choice_word = Some(AnswerFacts::word(reason));
        self.event.choices.has_reason = true;
    }

    /// The status of a response.
    fn status(&mut self, status: &str) {
        self.facts.is_running = matches!(status, "in_progress" | "queued");
        match status {
            "completed" => self.facts.set_stop(status),
            "failed" => self.event.error = true,
            "queued" | "in_progress" | "cancelled" => self.event.unfinished = true,
            // `incomplete_details` has the reason, before or after this.
            "incomplete" if self.facts.stop.is_none() => {
                self.facts.stop = Some(StopReason::MaxTokens);
                self.facts.stop_word = Some(status.to_owned().into());
            }
            _ => {}
        }
    }

    /// The usage number that stands here.
    const fn usage_field(here: u64) -> Option<(UsageOf, UsageField)> {
        use UsageField::*;
        use UsageOf::{ImageTool, Iteration, Totals};
        Some(match here {
            at::USAGE_INPUT => (Totals, Input),
            at::USAGE_OUTPUT => (Totals, Output),
            at::USAGE_TOTAL => (Totals, Total),
            at::USAGE_CACHE_READ | at::DETAILS_CACHE_READ => (Totals, CacheRead),
            at::USAGE_CACHE_WRITE | at::DETAILS_CACHE_WRITE => (Totals, CacheWrite),
            at::DETAILS_REASONING | at::USAGE_REASONING => (Totals, Reasoning),
            at::USAGE_TOOL_INPUT => (Totals, ToolInput),
            at::IMAGES_INPUT => (ImageTool, Input),
            at::IMAGES_CACHE_READ => (ImageTool, CacheRead),
            at::IMAGES_OUTPUT => (ImageTool, Output),
            at::ITERATION_INPUT => (Iteration, Input),
            at::ITERATION_OUTPUT => (Iteration, Output),
            at::ITERATION_CACHE_READ => (Iteration, CacheRead),
            at::ITERATION_CACHE_WRITE => (Iteration, CacheWrite),
            _ => return None,
        })
    }

    /// The part of the usage whose number stands here.
    const fn usage_part(here: u64) -> Option<fn(&mut UsageDetails) -> &mut u64> {
        Some(match here {
            at::USAGE_CACHE_HOUR => |details| &mut details.cache_write_1h,
            at::USAGE_SEARCHES => |details| details.calls_mut(ProviderTool::WebSearch),
            at::USAGE_RERANKS => |details| details.calls_mut(ProviderTool::Rerank),
            at::INPUT_AUDIO => |details| &mut details.audio_input,
            at::OUTPUT_AUDIO => |details| &mut details.audio_output,
            _ => return None,
        })
    }

    /// Whether a usage number is reported before there is anything to count.
    fn is_too_early(&self, field: UsageField) -> bool {
        matches!(field, UsageField::Output | UsageField::Reasoning)
            && self.wrapper_around().is_some_and(|it| it.usage_is_early)
    }

    /// Notes a value that is neither `null` nor a number in the place of a usage number.
    fn refuse_usage(&mut self, here: u64) {
        if Self::usage_field(here).is_some() {
            self.usage.set_absurd();
        }
    }
}

const fn have_room(ids: &[Box<str>]) -> bool {
    ids.len() < AnswerFacts::MOST_STORED
}

/// Keeps the id of something stored, unless it was cut.
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
        match (self.path.here(), self.string_role()) {
            // The name of a call stands among its text.
            (Some(at::BLOCK_OTHER | at::CONTENT_OTHER), _) => Want::Prefix(MAX_WORD_BYTES),
            (_, ValueRole::Text) => Want::Pieces,
            (Some(at::ID | at::MODEL), ValueRole::Read) => Want::Prefix(MAX_NAME_BYTES),
            (Some(here), ValueRole::Read) => match self.ids_at(here) {
                Some(ids) if have_room(ids) => Want::Prefix(MAX_NAME_BYTES),
                Some(_) => Want::Nothing,
                None => Want::Prefix(MAX_WORD_BYTES),
            },
            _ => Want::Nothing,
        }
    }

    #[inline]
    fn key(&mut self, key: Text<'_>) -> Result<(), JsonError> {
        self.event.member = true;
        if self.path.is_live() {
            self.path.set((self.rules.key)(key.bytes));
        } else if self.is_text() {
            self.count_text(key.len);
        }
        Ok(())
    }

    #[inline]
    fn string(&mut self, text: Text<'_>) -> Result<(), JsonError> {
        let here = self.path.here();
        if self.in_delta && text.len > 0 && here != Some(at::DELTA_ROLE) {
            self.event.content = true;
        }
        if matches!(here, Some(at::BLOCK_OTHER | at::CONTENT_OTHER)) {
            self.part.set_name(text.as_str());
        }
        if self.is_text() {
            self.count_text(text.len);
            return Ok(());
        }
        self.facts.has_unmeasured_output |= text.len >= LEAST_MEDIA_BYTES;
        if let Some(here) = here {
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
            if self.is_text() {
                self.count_text(number.span.len());
            }
            return Ok(());
        };
        match here {
            at::SEQUENCE_NUMBER => self.event.sequence = number.as_u64(),
            at::CREATED_AT if self.facts.created_at.is_none() => {
                self.facts.created_at = number.as_u64();
            }
            at::CHOICE_INDEX => self.event.choices.index = number.as_u64().unwrap_or(0),
            at::INPUT_PART_TOKENS
            | at::CACHED_PART_TOKENS
            | at::OUTPUT_PART_TOKENS
            | at::CACHE_PART_TOKENS => {
                self.part.tokens = number.as_u64().unwrap_or(0);
            }
            at::ITERATION_CACHE_HOUR => self.usage.set_iteration_cache_hour(number),
            at::ERROR | at::CHOICE_ERROR => self.event.error |= number.as_u64() != Some(0),
            _ => {
                if let Some(part) = Self::usage_part(here) {
                    self.usage.set_part(part, number);
                }
                let field = Self::usage_field(here);
                if let Some((of, field)) = field.filter(|(_, it)| !self.is_too_early(*it)) {
                    self.usage.set(of, field, number);
                    self.facts.has_final_usage |= self.facts.stop.is_some() || self.event.unfit;
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
                let is_error = matches!(here, at::ERROR | at::CHOICE_ERROR);
                self.event.error |= is_error && literal == Literal::True;
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
                    if is_object && self.rules.usage_is_complete {
                        self.usage.begin();
                    }
                }
                at::DELTA => self.in_delta = true,
                at::INPUT_PARTS if !is_object => {
                    self.usage.details.audio_input = 0;
                    self.usage.details.cache_write_1h = 0;
                }
                at::CACHED_PARTS if !is_object => self.usage.details.audio_cache_read = 0,
                at::OUTPUT_PARTS if !is_object => {
                    self.usage.details.audio_output = 0;
                    self.usage.details.image_output = 0;
                }
                at::INPUT_PART | at::CACHED_PART | at::OUTPUT_PART | at::ITEM | at::BLOCK => {
                    self.part = Part::default();
                }
                at::ITERATIONS => self.usage.begin_iterations(),
                // A later event of a stream repeats those of all candidates.
                at::SEARCHES if !self.event.has_searches => {
                    self.event.has_searches = true;
                    *self.usage.details.calls_mut(ProviderTool::WebSearch) = 0;
                }
                _ if self.rules.whole_text == Some(here) => {
                    self.event.text.class = TextClass::Whole;
                }
                _ if self.is_main_list(here) => {
                    self.event.main_list |= !is_object;
                    if here == at::OUTPUT {
                        self.usage.details.tool_calls = Default::default();
                    }
                }
                _ if self.is_main_item(here) => {
                    self.event.main_item = true;
                    self.part = Part::default();
                }
                _ => self.refuse_usage(here),
            }
        }
        match self.wrapper_here() {
            Some(wrapper) if is_object => self.path.begin_wrapper(wrapper.key),
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
            Some(at::CHOICE) => {
                let choice = self.event.choices.take();
                if let Some(word) = self.choice_word.take() {
                    self.facts.set_choice_word(choice, word);
                }
            }
            Some(at::INPUT_PART) => self.part.end_input(&mut self.usage.details),
            Some(at::CACHED_PART) => self.part.end_cached(&mut self.usage.details),
            Some(at::OUTPUT_PART) => self.part.end_output(&mut self.usage.details),
            Some(at::ITERATION) => self.usage.end_iteration(),
            Some(at::OUTPUT_ENTRY) => self.part.end_item(&mut self.usage.details),
            Some(at::ITEM | at::BLOCK | at::CONTENT_ENTRY) => {
                self.part.end_seen(&mut self.usage.seen);
            }
            _ => {}
        }
        Ok(())
    }
}
