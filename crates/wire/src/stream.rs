//! Event streams as they pass: what may go out, what was said, how it ended.
//!
//! Decides, event by event, whether bytes leave. An event that the format defines leaves as
//! the very bytes that came, but for lines that are neither its data nor its name. Any other
//! event is an error of the provider: the stream fails, and nothing of it leaves, not half of
//! it. In place of a comment, and of an event without data, a comment of the gateway's own
//! leaves: it keeps the connection alive and holds no text of the provider. The usage chunk
//! that the gateway itself asked for is taken out. Leaves to others: holding back what precedes the first content
//! (the gateway looks at [`StreamScanner::phase`]), and what a failure means (`fault`).
//!
//! An event that a chunk cuts is held until its end has come. No reader of event streams
//! acts on half an event, so nobody waits for it, and where the upstream breaks off the
//! caller is spared a half one.

mod event;
mod framing;
mod held;
mod phase;
mod reader;
mod template;

use crate::{
    answer::{
        AnswerFacts, StreamEvents,
        event::Choices,
        kind::EventKind,
        reader::Reader,
        text::{StreamText, TextClass},
    },
    fault::UpstreamFault,
    formats::{self, rules::FormatRules},
    render::{self, StreamTail},
    usage::ReportedUsage,
};
use bytes::Bytes;
use event::{Event, Verdict};
use framing::{Framer, Token, without_other_lines};
use held::Held;
pub use phase::{Phase, StreamEnd, StreamOptions};
pub use reader::{EventReader, StreamItem};
use template::Templates;
use tollgate_types::{Format, PublicError, RequestId};

/// What leaves in place of a provider's comment.
const COMMENT: Bytes = Bytes::from_static(b":\n");
/// What leaves in place of an event without data.
const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");
/// What leaves in place of an end marker that has more lines than its own.
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
    /// The first bytes of the event that is being read have left.
    is_open: bool,
    /// The block that ended last was taken out.
    dropped_last: bool,
    phase: Phase,
    choices: Choices,
    events: u64,
    text: StreamText,
    next_sequence: u64,
}

/// The chunk that is being read: which of its bytes have left, and which may.
struct Passing<'a> {
    chunk: &'a Bytes,
    /// Everything before has left or was taken out.
    start: usize,
    /// Everything before may leave.
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

    /// Reads the next chunk and puts into `out` what may leave now, as slices of what came.
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
                // What comes behind the end is looked at for a marker and nothing else.
                Token::Data(piece) if self.phase == Phase::Terminal => self.event.skim(piece),
                Token::Data(piece) => self.event.data(piece, &mut self.reader),
                Token::DataLine => self.event.begin_data_line(&mut self.reader),
                Token::Name(piece) => self.event.name(piece),
                Token::NameLine => self.event.begin_name_line(),
                Token::OtherLine => self.event.begin_other_line(),
                Token::CommentEnd => self.replace(COMMENT, &mut passing, at, out),
                Token::LateLineFeed if self.dropped_last => self.take_out(&mut passing, at, out),
                Token::LateLineFeed => self.pass(&mut passing, at, out),
                Token::BlockEnd => {
                    if !self.end_block(&mut passing, at, out) {
                        return;
                    }
                }
            }
        }
        self.end_chunk(&mut passing, out);
    }

    /// Ends the stream after the upstream has closed it in order, and lets go what of an
    /// event without its blank line is whole nevertheless.
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

    /// What the stream said of its answer so far.
    pub const fn facts(&self) -> &AnswerFacts {
        &self.reader.facts
    }

    /// The usage reported so far.
    pub fn usage(&self) -> ReportedUsage {
        self.reader.usage.reported(self.rules.usage.counting)
    }

    /// Bytes of text that were let through, of every kind and each once: what output is
    /// estimated from where no usage is reported.
    pub fn text_bytes(&self) -> u64 {
        let mut text = self.text;
        if self.is_open {
            let class = self.reader.event.text.class;
            text.add(class, self.event.text_so_far(&self.reader));
        }
        text.bytes()
    }

    /// A sample of that text, about a KiB of it.
    pub fn text_sample(&self) -> String {
        self.reader.text_sample()
    }

    /// Events that were let through, without those that only say that more will come.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Bytes held back now.
    pub const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// What the gateway appends to end the stream with an error, in the stream's own format
    /// and as a well-formed continuation of what has left.
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

    /// Takes the block at the start of `rest` where it is like one that has passed, and says
    /// how long it is.
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

    /// Lets everything up to `at` leave.
    fn pass(&mut self, passing: &mut Passing<'_>, at: usize, out: &mut Vec<Bytes>) {
        self.held.release(out);
        passing.cleared = at;
        self.is_open = false;
        self.dropped_last = false;
    }

    /// Takes out the block that ends at `at`.
    fn take_out(&mut self, passing: &mut Passing<'_>, at: usize, out: &mut Vec<Bytes>) {
        self.held.clear();
        passing.flush(out);
        (passing.start, passing.cleared) = (at, at);
        self.dropped_last = true;
    }

    /// Takes out everything up to `at`, and lets a line of the gateway's own leave in its place,
    /// unless the answer is over: then there is nothing to be kept alive.
    fn replace(&mut self, own: Bytes, passing: &mut Passing<'_>, at: usize, out: &mut Vec<Bytes>) {
        self.take_out(passing, at, out);
        if self.phase != Phase::Terminal {
            out.push(own);
        }
    }

    /// Lets the cleared bytes leave and holds the rest, unless the event is larger than what
    /// is held of one that the format defines.
    fn end_chunk(&mut self, passing: &mut Passing<'_>, out: &mut Vec<Bytes>) {
        passing.flush(out);
        let rest = passing.chunk.slice(passing.start..);
        if rest.is_empty() || self.framer.is_in_comment() {
            // Nothing of a comment leaves.
            return;
        }
        let kind = self.event.kind(&self.reader);
        let is_failure = matches!(kind, EventKind::Error | EventKind::Foreign);
        let held = self.held.len().saturating_add(rest.len());
        if is_failure {
            if held <= event::MAX_ERROR_EVENT_BYTES {
                self.held.push(rest);
            }
        } else if self.phase == Phase::Terminal && held > self.options.max_event_bytes {
            // No marker is as long, so it will be taken out.
            self.held.clear();
        } else if self.is_open && self.event.has_other_line() {
            self.fail_here();
        } else if self.is_open {
            out.push(rest);
        } else if held > self.options.max_event_bytes && self.may_open(kind) {
            self.open(rest, out);
        } else if held > event::MAX_ERROR_EVENT_BYTES {
            self.fail_here();
        } else {
            self.held.push(rest);
        }
    }

    /// Fails within an event, of which nothing more leaves.
    fn fail_here(&mut self) {
        self.fail_as_broken();
        self.held.clear();
    }

    /// Whether the event at hand is known to be one that may leave, before it is whole.
    fn may_open(&self, kind: EventKind) -> bool {
        let is_named = matches!(
            kind,
            EventKind::Preamble | EventKind::Content | EventKind::Terminal
        );
        let is_known = self.reader.is_defined() || (is_named && !self.rules.event.is_untyped);
        is_known && !self.framer.is_in_other_line()
    }

    /// Lets what has come of the event at hand leave.
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

    /// Judges the block that ends at `at`, and does with it what it deserves; `false` where the
    /// stream has failed with it.
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
        // Clients stop reading at the end of an answer. What comes after can add nothing to
        // it, and must not.
        let is_over = self.phase == Phase::Terminal;
        let kind = self.event.kind(&self.reader);
        if kind == EventKind::Error && !is_over {
            return Verdict::Fail;
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
            return self.fail_as_broken();
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
            // What stands before these lines has left, and they cannot follow it.
            return self.fail_as_broken();
        }
        self.advance(kind);
        self.as_it_may_pass()
    }

    /// How an event leaves that may.
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
        match self.event.has_name_line() || self.event.has_other_line() {
            true => Verdict::PassCleaned,
            false => Verdict::Pass,
        }
    }

    fn fail_as_broken(&mut self) -> Verdict {
        self.phase = Phase::Failed(UpstreamFault::broken_answer());
        Verdict::Fail
    }

    /// Whether the event is the one that reports usage because the request asked for it.
    const fn is_usage_alone(&self) -> bool {
        let event = &self.reader.event;
        self.rules.usage.is_on_request && event.usage && !event.main_item
    }

    /// Counts an event that leaves, and moves on by it.
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
