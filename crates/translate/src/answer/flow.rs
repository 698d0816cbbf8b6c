//! Brings the parts of an answer into one order: one block after the other.
//!
//! Decides which block is open, when it ends and which waits. Text leaves as it comes; a tool
//! call waits only while another one is incomplete, so that sources that interleave calls come
//! out in order and sources that do not are not held up. Leaves to the reader what a part is,
//! to the writer how it is written.

mod blocks;
mod deliver;
mod hidden;
mod outcome;
mod search;

use crate::{
    AnswerCheck, TranslationNotes,
    answer::{
        parts::{
            AnswerContext, Blob, Citation,
            Failure::{self, Broken, Unfit},
            Head, NativeCall, ToolCalls,
        },
        stops::Stops,
        text::RawText,
        write::Write,
    },
    fingerprint::Fingerprint,
    formats::{self, ClientRules, ProviderRules, rules},
    output::Output,
};
use blocks::{Begun, CallArguments, Content, End, Open, Queue, Waiting};
use bytes::Bytes;
use hidden::HiddenThinking;
use outcome::Outcome;
use search::Cited;
use std::sync::Arc;
use tollgate_types::Usage;
use tollgate_wire::answer::{AnswerReport, StopReason};

pub(crate) use blocks::{Key, Kind};
pub(crate) use search::LONGEST_ID;

/// Bytes of blocks that wait and of what texts cite, at most.
pub(crate) const MOST_WAITING: usize = 4 * 1024 * 1024;
/// Citations of one block, at most; further ones are left out.
pub(crate) const MOST_CITATIONS: usize = 256;

/// The beginning of the answer.
#[derive(Debug)]
enum Start {
    Awaited(AnswerContext),
    /// It is written with the first content: until then another provider may take over.
    Known {
        head: Head,
        is_written: bool,
    },
}

impl Start {
    const fn is_written(&self) -> bool {
        matches!(self, Self::Known { is_written, .. } if *is_written)
    }
}

/// The answer on its way from reader to writer.
#[derive(Debug)]
pub(crate) struct Flow {
    notes: Arc<TranslationNotes>,
    start: Start,
    writer: Box<dyn Write>,
    pub(crate) out: Output,
    open: Option<Open>,
    queue: Queue,
    calls: ToolCalls,
    hidden: HiddenThinking,
    outcome: Outcome,
    cited: Cited,
    /// Ends the answer at the caller's stop sequences, if the provider's format has none.
    stops: Option<Stops>,
}

impl Flow {
    pub(crate) fn new(
        notes: Arc<TranslationNotes>,
        context: AnswerContext,
        writer: Box<dyn Write>,
    ) -> Self {
        Self {
            writer,
            stops: Stops::new(&notes.stop),
            calls: ToolCalls::new(formats::client(notes.from)),
            outcome: Outcome::new(&notes),
            notes,
            start: Start::Awaited(context),
            out: Output::default(),
            open: None,
            queue: Queue::default(),
            hidden: HiddenThinking::default(),
            cited: Cited::default(),
        }
    }

    fn client(&self) -> &'static ClientRules {
        formats::client(self.notes.from)
    }

    fn provider(&self) -> &'static ProviderRules {
        &rules(self.notes.to).provider
    }

    pub(crate) fn writer(&self) -> &dyn Write {
        &*self.writer
    }

    /// The answer as it is remembered, once it has ended; nothing the second time.
    pub(crate) fn take_remembered(&mut self) -> Option<Bytes> {
        self.writer.take_remembered().map(Bytes::from)
    }

    /// Bytes of blocks that wait, and of what the format repeats.
    pub(crate) fn held_bytes(&self) -> usize {
        self.queue
            .bytes()
            .saturating_add(self.hidden.kept_bytes())
            .saturating_add(self.cited.bytes())
            .saturating_add(self.writer.kept_bytes())
    }

    /// Notes the identity of the answer, at the first event.
    pub(crate) fn start(&mut self, report: &impl AnswerReport) {
        if let Start::Awaited(context) = &self.start {
            self.start = Start::Known {
                head: Head::new(report, &self.notes, context),
                is_written: false,
            };
        }
    }

    fn write_start(&mut self) -> Result<(), Failure> {
        let Start::Known { head, is_written } = &mut self.start else {
            return Err(Broken);
        };
        if !std::mem::replace(is_written, true) {
            self.writer.start(head, &mut self.out);
        }
        Ok(())
    }

    /// Whether the text is still checked before any of the answer has come.
    pub(crate) fn awaits_text(&self) -> bool {
        let is_checked = self.notes.check == AnswerCheck::JsonObject;
        is_checked && !self.start.is_written() && self.hidden.is_empty()
    }

    /// Sends a sign of life.
    pub(crate) fn keep_alive(&mut self) {
        self.writer.keep_alive(&mut self.out);
    }

    /// The stop sequence at which the answer has ended. Text behind it is left out.
    pub(crate) fn stopped_at(&self) -> Option<&str> {
        self.stops.as_ref()?.found()
    }

    fn has_stopped(&self) -> bool {
        self.stopped_at().is_some()
    }

    /// A piece of text, refusal or thinking.
    pub(crate) fn piece(&mut self, key: Key, piece: RawText<'_>) -> Result<(), Failure> {
        if piece.is_empty() || self.has_stopped() {
            return Ok(());
        }
        if key.kind == Kind::Thinking && !self.notes.reasoning.text {
            self.hide(piece);
            return Ok(());
        }
        self.outcome.has_refusal |= key.kind == Kind::Refusal;
        if key.kind == Kind::Text {
            self.outcome.check_text(piece)?;
        }
        self.place(key, piece)
    }

    /// Writes a piece, or keeps it until its block's turn.
    fn place(&mut self, key: Key, piece: RawText<'_>) -> Result<(), Failure> {
        if self.is_open(key) {
            return self.deliver(piece);
        }
        if self.queue.is_unended(key) {
            return self.queue.append(key, piece);
        }
        self.begin(key, Begun::Plain)?;
        self.place(key, piece)
    }

    /// Passes over a piece that the client does not want to see.
    fn hide(&mut self, piece: RawText<'_>) {
        let is_kept = !self.provider().signs_reasoning && self.notes.reasoning.hidden;
        if self.hidden.push(piece, is_kept) {
            self.keep_alive();
        }
    }

    /// Hands out what was thought before another block begins, sealed in a block without text.
    fn seal_hidden(&mut self) -> Result<(), Failure> {
        const HIDDEN: Key = Key::new(Kind::Thinking, u64::MAX, u64::MAX);
        let Some(blob) = self.hidden.take() else {
            return Ok(());
        };
        self.begin(HIDDEN, Begun::Plain)?;
        self.end(HIDDEN, Some(blob))
    }

    /// How likely the tokens of the next piece of text are: entries with commas between.
    /// A text that waits has none.
    pub(crate) fn logprobs(&mut self, entries: &str) {
        if entries.is_empty() || self.has_stopped() {
            return;
        }
        match &mut self.stops {
            Some(stops) => stops.logprobs(entries),
            None => self.writer.logprobs(entries),
        }
    }

    /// A call begins.
    pub(crate) fn call(&mut self, key: Key, call: NativeCall<'_>) -> Result<(), Failure> {
        if self.has_stopped() {
            return Ok(());
        }
        if self.notes.compacts {
            return Err(Unfit);
        }
        let Start::Known { head, .. } = &self.start else {
            return Err(Broken);
        };
        let named = self.calls.name(call, head, &self.notes)?;
        self.outcome.has_calls = true;
        if named.is_custom && self.client().has_object_arguments {
            // It was not offered: the format has no such tools.
            return Err(Broken);
        }
        self.begin(key, Begun::Call(named, call.is_custom))
    }

    /// A piece of the arguments of a call, or of the input of a custom one.
    pub(crate) fn arguments(&mut self, key: Key, piece: RawText<'_>) -> Result<(), Failure> {
        if piece.is_empty() || self.has_stopped() {
            return Ok(());
        }
        if self.is_open(key) {
            self.deliver(piece)?;
            return self.advance();
        }
        // White space may trail behind a call that has ended.
        if !self.queue.is_unended(key) && piece.unescape().trim_ascii().is_empty() {
            return Ok(());
        }
        self.queue.append(key, piece)
    }

    /// A page that the text at `key` refers to. Some providers name it before the text.
    pub(crate) fn cite(&mut self, key: Key, citation: Citation) -> Result<(), Failure> {
        if self.has_stopped() {
            return Ok(());
        }
        let citations = match &mut self.open {
            Some(open) if open.key == key => &mut open.citations,
            _ => self.queue.citations(key),
        };
        if citations.len() >= MOST_CITATIONS {
            return Ok(());
        }
        let size = citation.size();
        citations.push(citation);
        self.queue.hold(size)
    }

    /// The block at `key` ends; reasoning with what only its provider can read.
    pub(crate) fn end(&mut self, key: Key, blob: Option<Blob>) -> Result<(), Failure> {
        if self.has_stopped() {
            return Ok(());
        }
        if self.is_open(key) {
            self.close(blob)?;
            return self.advance();
        }
        if self.queue.is_unended(key) {
            return self.queue.end(key, End::Block(blob));
        }
        match blob {
            // Its text has left before, or there is none.
            Some(blob) if self.notes.reasoning.state => {
                self.begin(key, Begun::Plain)?;
                self.end(key, Some(blob))
            }
            _ => Ok(()),
        }
    }

    /// The answer has ended.
    pub(crate) fn finish(
        &mut self,
        stop: Option<StopReason>,
        usage: Option<Usage>,
    ) -> Result<(), Failure> {
        if !self.has_stopped() {
            self.seal_hidden()?;
        }
        self.close(None)?;
        while !self.has_stopped()
            && let Some(waiting) = self.queue.pop()
        {
            self.write_block(waiting)?;
            self.close(None)?;
        }
        self.seal_cited()?;
        let ending = self.outcome.ending(stop, self.stopped_at(), usage)?;
        if !self.writer.has_form() {
            return Err(Unfit);
        }
        self.write_start()?;
        self.writer.finish(&ending, &mut self.out);
        Ok(())
    }

    fn is_open(&self, key: Key) -> bool {
        self.open.as_ref().is_some_and(|open| open.key == key)
    }

    /// Whether all of a call has come.
    pub(crate) fn is_over(&self, key: Key) -> bool {
        match &self.open {
            Some(open) if open.key == key => open.has_all_arguments(),
            _ => !self.queue.is_unended(key),
        }
    }

    /// Begins a block, now or in its turn.
    fn begin(&mut self, key: Key, begun: Begun) -> Result<(), Failure> {
        if key.kind != Kind::Thinking {
            self.seal_hidden()?;
        }
        let waiting = Waiting::new(key, begun);
        if self.queue.is_empty() && self.open.as_ref().is_none_or(Open::yields) {
            self.close(None)?;
            return self.write_block(waiting);
        }
        self.queue.push(waiting)
    }

    /// Lets waiting blocks follow while the open one is complete.
    fn advance(&mut self) -> Result<(), Failure> {
        while !self.has_stopped()
            && self.open.as_ref().is_none_or(Open::yields)
            && let Some(waiting) = self.queue.pop()
        {
            self.close(None)?;
            self.write_block(waiting)?;
        }
        Ok(())
    }

    /// Opens a block and lets out what of it has come.
    fn write_block(&mut self, waiting: Waiting) -> Result<(), Failure> {
        let Waiting {
            key,
            begun,
            contents,
            end,
            mut citations,
        } = waiting;
        let is_text = key.kind == Kind::Text;
        if is_text {
            citations.append(&mut self.queue.early_citations);
        }
        self.write_start()?;
        if !is_text {
            self.seal_cited()?;
        }
        match &begun {
            Begun::Plain => self.writer.begin(key.kind, None, &mut self.out)?,
            Begun::Call(call, _) => self.writer.begin(key.kind, Some(call), &mut self.out)?,
            Begun::Search(id) => self.writer.begin_search(id, &mut self.out),
        }
        if let Some(End::Search(found)) = &end {
            return self.end_search(found);
        }
        self.open = Some(Open {
            key,
            content: self.content(key.kind, &begun),
            citations,
            half: String::new(),
        });
        if !contents.is_empty() {
            self.deliver(RawText::escaped(&contents))?;
        }
        match end {
            Some(End::Block(blob)) => self.close(blob),
            Some(End::Search(_)) | None => Ok(()),
        }
    }

    fn content(&self, kind: Kind, begun: &Begun) -> Content {
        match begun {
            Begun::Plain if kind == Kind::Text => {
                Content::Text(self.seals_citations().then(Fingerprint::default))
            }
            Begun::Plain | Begun::Call(_, true) => Content::Unchecked,
            Begun::Call(call, false) => {
                let needs_object = self.client().has_object_arguments;
                Content::Arguments(CallArguments::new(call.is_custom, needs_object))
            }
            Begun::Search(_) => Content::Search,
        }
    }
}
