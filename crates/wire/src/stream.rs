//! Event streams as they pass: which bytes go out, what the stream said, how it ended.
//!
//! The scanner decides event by event. An event that the format defines passes unchanged, except
//! for lines that are neither its data nor its name. Any other event is an error of the provider:
//! the stream fails, and no byte of the event passes. A comment of the gateway replaces a comment
//! of the provider and an event without data: it keeps the connection alive and has no text of the
//! provider. The usage event that the gateway asked for is removed. The gateway holds the events
//! before the first content ([`StreamScanner::phase`]); `fault` decides what a failure means.
//!
//! An event that a chunk cuts is held until its end has come. No client acts on half an event, and
//! a client of a provider that breaks off does not get one.

mod amazon;
mod event;
mod framing;
mod held;
mod phase;
mod reader;
mod template;

use crate::{
    answer::{
        AnswerFacts, AnswerReport, StreamEvents,
        event::Choices,
        kind::EventKind,
        reader::Reader,
        text::{StreamText, TextClass},
    },
    fault::{MAX_ERROR_IN_SUCCESS_BYTES, UpstreamFault},
    formats::{self, rules::FormatRules},
    render::{self, StreamTail},
    usage::ReportedUsage,
};
pub use amazon::AmazonFrames;
use bytes::Bytes;
use event::{Event, Verdict};
use framing::{Framer, Token, without_other_lines};
use held::Held;
pub use phase::{Phase, StreamEnd, StreamOptions};
pub use reader::{EventReader, StreamItem};
use template::Templates;
use tollgate_types::{Format, PublicError, RequestId};

/// Replaces a comment of the provider.
const COMMENT: Bytes = Bytes::from_static(b":\n");
/// Replaces an event without data.
const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");
/// Replaces an end marker with further text or lines.
const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// Reads an event stream as it passes by.
#[derive(Debug)]
pub struct StreamScanner {
    format: Format,
    rules: &'static FormatRules,
    options: StreamOptions,
    framer: Framer,
    event: Event,
    reader: Reader,
    held: Held,
    templates: Templates,
    /// The first bytes of the event that is being read have been sent.
    is_open: bool,
    /// The block that ended last was removed.
    dropped_last: bool,
    phase: Phase,
    choices: Choices,
    events: u64,
    text: StreamText,
    next_sequence: u64,
}

/// The chunk that is being read: which of its bytes have been sent, and which may be.
struct Passing<'a> {
    chunk: &'a Bytes,
    /// Everything before has been sent or removed.
    start: usize,
    /// Everything before may be sent.
    cleared: usize,
}

impl Passing<'_> {
    fn flush(&mut self, out: &mut Vec<Bytes>) {
        if self.start < self.cleared {
            out.push(self.chunk.slice(self.start..self.cleared));
        }
        self.start = self.cleared;
    }
}

impl AnswerReport for StreamScanner {
    fn facts(&self) -> &AnswerFacts {
        &self.reader.facts
    }

    fn usage(&self) -> ReportedUsage {
        self.reader.usage.reported(self.rules.usage.counting)
    }

    fn text_bytes(&self) -> u64 {
        let mut text = self.text;
        if self.is_open {
            let class = self.reader.event.text.class;
            text.add(class, self.event.text_so_far(&self.reader));
        }
        text.bytes()
    }

    fn text_sample(&self) -> String {
        self.reader.text_sample()
    }
}

impl StreamScanner {
    /// A scanner for one stream in `format`.
    pub fn new(format: Format, options: StreamOptions) -> Self {
        let rules = formats::rules(format);
        Self {
            format,
            rules,
            options,
            framer: Framer::new(),
            event: Event::default(),
            reader: Reader::new(&rules.event),
            held: Held::default(),
            templates: Templates::default(),
            is_open: false,
            dropped_last: false,
            phase: Phase::Preamble,
            choices: Choices::default(),
            events: 0,
            text: StreamText::default(),
            next_sequence: 0,
        }
    }

    /// Lets events of these names pass, too.
    #[must_use]
    pub fn with_extensions(mut self, extensions: StreamEvents) -> Self {
        self.reader.extensions = extensions;
        self
    }

    /// Reads the next chunk and adds the bytes that may be sent now to `out`, as slices of the
    /// chunks.
    pub fn push(&mut self, chunk: &Bytes, out: &mut Vec<Bytes>) {
        if self.has_failed() {
            return;
        }
        let mut passing = Passing {
            chunk,
            start: 0,
            cleared: 0,
        };
        let mut rest: &[u8] = chunk;
        loop {
            if let Some(len) = self.take_like_last(rest) {
                rest = rest.get(len..).unwrap_or_default();
                passing.cleared = chunk.len().saturating_sub(rest.len());
                continue;
            }
            let Some(token) = self.framer.next(&mut rest) else {
                break;
            };
            let at = chunk.len().saturating_sub(rest.len());
            match token {
                // It would hide the name of the first line.
                Token::ByteOrderMark => self.take_out(&mut passing, at, out),
                Token::CommentEnd => self.replace(COMMENT, &mut passing, at, out),
                Token::LateLineFeed if self.dropped_last => self.take_out(&mut passing, at, out),
                Token::LateLineFeed => self.pass(&mut passing, at, out),
                Token::BlockEnd => {
                    if !self.end_block(&mut passing, at, out) {
                        return;
                    }
                }
                token => self.read(token),
            }
        }
        self.end_chunk(&mut passing, out);
    }

    /// Reads a line of an event, or a part of one.
    #[inline]
    fn read(&mut self, token: Token<'_>) {
        match token {
            // After the end only a marker matters.
            Token::Data(piece) if self.phase == Phase::Terminal => self.event.skim(piece),
            Token::Data(piece) => self.event.data(piece, &mut self.reader),
            Token::DataLine => self.event.begin_data_line(&mut self.reader),
            Token::Name(piece) => self.event.name(piece),
            Token::NameLine => self.event.begin_name_line(),
            Token::OtherLine => self.event.begin_other_line(),
            Token::ByteOrderMark | Token::CommentEnd | Token::LateLineFeed | Token::BlockEnd => {}
        }
    }

    /// Ends the stream after the provider has closed it in order. A complete event passes even
    /// without its blank line.
    pub fn finish(&mut self, out: &mut Vec<Bytes>) -> StreamEnd {
        const BLANK_LINE: Bytes = Bytes::from_static(b"\n\n");
        if !self.has_failed() && self.event.is_whole() {
            self.push(&BLANK_LINE, out);
        }
        self.held.clear();
        self.end()
    }

    /// How far the stream has come.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Events that passed, except those that only say that more will come.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Bytes held back now.
    pub const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// The bytes that end the stream with an error, as a well-formed continuation of what was sent.
    pub fn failure_event(&self, error: &PublicError, request: &RequestId) -> Bytes {
        let facts = self.facts();
        let tail = StreamTail {
            event_is_open: self.is_open,
            response_id: facts.id.as_deref(),
            model: facts.model.as_deref(),
            created_at: facts.created_at,
            next_sequence: self.next_sequence,
        };
        render::failure_event(self.format, &tail, error, request)
    }

    const fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed(_))
    }

    /// Whether the answer is complete without an event that ends it.
    const fn is_complete(&self) -> bool {
        self.rules.stream.ends_with_choices && self.choices.are_finished()
    }

    /// Takes the block at the start of `rest` if it is like one that has passed; returns its
    /// length.
    #[inline]
    fn take_like_last(&mut self, rest: &[u8]) -> Option<usize> {
        if self.phase != Phase::Content || !self.framer.is_between_blocks() || rest.is_empty() {
            return None;
        }
        let fit = self.templates.fit(rest)?;
        let text = rest.get(fit.text).unwrap_or_default();
        self.reader.keep_sample(text);
        self.events = self.events.saturating_add(fit.counts.into());
        self.text.add(TextClass::Piece, fit.text_bytes as u64);
        if let Some(number) = fit.sequence {
            self.next_sequence = number.saturating_add(1);
        }
        self.dropped_last = false;
        Some(fit.len)
    }

    /// Clears everything up to `at`.
    fn pass(&mut self, passing: &mut Passing<'_>, at: usize, out: &mut Vec<Bytes>) {
        self.held.release(out);
        passing.cleared = at;
        self.is_open = false;
        self.dropped_last = false;
    }

    /// Removes the block that ends at `at`.
    fn take_out(&mut self, passing: &mut Passing<'_>, at: usize, out: &mut Vec<Bytes>) {
        self.held.clear();
        passing.flush(out);
        (passing.start, passing.cleared) = (at, at);
        self.dropped_last = true;
    }

    /// Replaces everything up to `at` by a line of the gateway. Once the answer has ended, nothing
    /// needs to be kept alive, and no line is sent.
    fn replace(&mut self, own: Bytes, passing: &mut Passing<'_>, at: usize, out: &mut Vec<Bytes>) {
        self.take_out(passing, at, out);
        if self.phase != Phase::Terminal {
            out.push(own);
        }
    }

    /// Sends the cleared bytes and holds the rest, unless the event is larger than the bytes that
    /// are held of one that the format defines.
    fn end_chunk(&mut self, passing: &mut Passing<'_>, out: &mut Vec<Bytes>) {
        passing.flush(out);
        let rest = passing.chunk.slice(passing.start..);
        if rest.is_empty() || self.framer.is_in_comment() {
            // No byte of a comment passes.
            return;
        }
        let kind = self.event.kind(&self.reader);
        let is_failure = matches!(kind, EventKind::Error | EventKind::Foreign);
        let held = self.held.len().saturating_add(rest.len());
        if is_failure {
            if held <= MAX_ERROR_IN_SUCCESS_BYTES {
                self.held.push(rest);
            }
        } else if self.phase == Phase::Terminal && held > self.options.max_event_bytes {
            // No marker is as long: the event will be removed.
            self.held.clear();
        } else if self.is_open && self.event.has_other_line() {
            self.fail_here();
        } else if self.is_open {
            out.push(rest);
        } else if held > self.options.max_event_bytes && self.may_open(kind) {
            self.open(rest, out);
        } else if held > MAX_ERROR_IN_SUCCESS_BYTES {
            self.fail_here();
        } else {
            self.held.push(rest);
        }
    }

    /// Fails within an event; no more of it passes.
    fn fail_here(&mut self) {
        self.fail_as_broken();
        self.held.clear();
    }

    /// Whether an incomplete event is certain to be one that may pass.
    fn may_open(&self, kind: EventKind) -> bool {
        let is_named = matches!(
            kind,
            EventKind::Preamble | EventKind::Content | EventKind::Terminal
        );
        let is_known = self.reader.is_defined() || (is_named && !self.rules.event.is_untyped);
        is_known && !self.framer.is_in_other_line()
    }

    /// Sends the part of the event that has come.
    fn open(&mut self, rest: Bytes, out: &mut Vec<Bytes>) {
        self.is_open = true;
        if self.event.has_other_line() {
            self.held.push(rest);
            out.push(without_other_lines(&self.held.to_vec()).into());
            self.held.clear();
            self.event.forget_other_lines();
        } else {
            self.held.release(out);
            out.push(rest);
        }
    }

    /// Judges the block that ends at `at` and carries the verdict out; `false` if the stream has
    /// failed with it.
    fn end_block(&mut self, passing: &mut Passing<'_>, at: usize, out: &mut Vec<Bytes>) -> bool {
        let verdict = self.judge();
        let chunk = passing.chunk;
        let here = chunk.get(passing.cleared..at).unwrap_or_default();
        let block = |held: &Held| {
            let mut block = held.to_vec();
            block.extend_from_slice(here);
            block
        };
        let is_whole_here = self.held.len() == 0 && !self.is_open;
        match verdict {
            Verdict::Pass => {
                if self.phase == Phase::Content && is_whole_here {
                    let kind = self.event.kind(&self.reader);
                    self.templates.learn(&self.rules.event, kind, here);
                }
                self.pass(passing, at, out);
            }
            Verdict::PassCleaned => {
                let cleaned = match self.event.is_done_marker() {
                    true => DONE,
                    false => without_other_lines(&block(&self.held)).into(),
                };
                self.take_out(passing, at, out);
                self.dropped_last = false;
                out.push(cleaned);
            }
            Verdict::KeepAlive => self.replace(KEEP_ALIVE, passing, at, out),
            Verdict::Drop => self.take_out(passing, at, out),
            Verdict::Fail => {
                if !self.has_failed() {
                    self.phase = Phase::Failed(self.event.fault(&block(&self.held)));
                }
                passing.flush(out);
                self.held.clear();
            }
        }
        self.event.reset(&mut self.reader);
        !self.has_failed()
    }

    fn judge(&mut self) -> Verdict {
        // Clients stop reading at the end of an answer. Nothing after it may add to it.
        let is_over = self.phase == Phase::Terminal;
        let kind = self.event.kind(&self.reader);
        if kind == EventKind::Error && !is_over {
            return match self.reader.event.unfit {
                true => self.fail_as(UpstreamFault::unfit_answer()),
                false => Verdict::Fail,
            };
        }
        if !self.event.has_text() {
            return match self.event.is_blank() {
                true => Verdict::Pass,
                false => Verdict::KeepAlive,
            };
        }
        if self.event.is_done_marker() {
            return self.end_by_marker();
        }
        if is_over {
            return Verdict::Drop;
        }
        if !self.event.is_whole() {
            // The caller's words can cause that, as they can cause a malformed tool call.
            return match self.event.is_too_deep() && self.reader.is_defined() {
                true => self.fail_as(UpstreamFault::unfit_answer()),
                false => self.fail_as_broken(),
            };
        }
        if self.reader.is_empty_object() {
            return Verdict::KeepAlive;
        }
        if kind == EventKind::Foreign || !self.reader.is_defined() {
            return Verdict::Fail;
        }
        if self.options.strip_usage && self.is_usage_alone() {
            return Verdict::Drop;
        }
        if self.event.has_other_line() && self.is_open {
            // The part before these lines has been sent, and they cannot follow it.
            return self.fail_as_broken();
        }
        self.advance(kind);
        self.as_it_may_pass()
    }

    /// How an event passes that may.
    const fn as_it_may_pass(&self) -> Verdict {
        match self.event.has_other_line() {
            true => Verdict::PassCleaned,
            false => Verdict::Pass,
        }
    }

    /// `[DONE]`: in some formats the end of a stream. Providers of the others send it, too, after
    /// their own end. Before that it would make a broken stream look finished.
    fn end_by_marker(&mut self) -> Verdict {
        match (self.rules.stream.ends_with_marker, &self.phase) {
            (_, Phase::Terminal) => {}
            (true, Phase::Content) => self.phase = Phase::Terminal,
            (true, _) => return self.fail_as_broken(),
            (false, _) => return Verdict::Drop,
        }
        match self.event.is_plain_marker() {
            true => Verdict::Pass,
            false => Verdict::PassCleaned,
        }
    }

    fn fail_as_broken(&mut self) -> Verdict {
        self.fail_as(UpstreamFault::broken_answer())
    }

    fn fail_as(&mut self, fault: UpstreamFault) -> Verdict {
        self.phase = Phase::Failed(fault);
        Verdict::Fail
    }

    /// Whether the event is the one that reports usage because the request asked for it.
    const fn is_usage_alone(&self) -> bool {
        let event = &self.reader.event;
        self.rules.usage.is_on_request && event.usage && !event.main_item
    }

    /// Counts an event that passes, and moves the phase on.
    fn advance(&mut self, kind: EventKind) {
        let event = &self.reader.event;
        if kind != EventKind::Preamble {
            self.events = self.events.saturating_add(1);
        }
        self.text.add(event.text.class, event.text.bytes());
        self.choices.merge(event.choices);
        if let Some(number) = event.sequence {
            self.next_sequence = number.saturating_add(1);
        }
        let is_content = event.content || kind == EventKind::Content;
        if kind == EventKind::Terminal {
            self.phase = Phase::Terminal;
        } else if is_content && self.phase == Phase::Preamble {
            self.phase = Phase::Content;
        }
    }
}

#[cfg(test)]
mod tests;
