//! An answer that comes as an event stream, written anew in the caller's format as it comes.
//!
//! A reader takes the provider's events apart, the flow puts the parts into one order,
//! a writer makes the caller's events of them. Framing, phase, usage, stop and faults are
//! the wire crate's [`EventReader`], which stands in front. Nothing is held back but what has
//! no place yet in the caller's format: a delta that arrives leaves in the same push.

use crate::{
    TranslationNotes,
    answer::{
        flow::Flow,
        parts::{AnswerContext, Failure},
        read::{ReadAnswer, utf8},
    },
    formats::{client, rules},
};
use bytes::Bytes;
use std::sync::Arc;
use tollgate_types::{PublicError, RequestId};
use tollgate_wire::{
    answer::{AnswerReport, StreamEvents},
    render,
    stream::{EventReader, Phase, StreamEnd, StreamItem, StreamScanner},
};

/// The largest event that is read, in bytes.
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// Translates one event stream. Its [scanner](Self::scanner) is the one that reads a stream which passes, so
/// that an answer is held, metered and settled in the same way.
#[derive(Debug)]
pub struct StreamTranslator {
    notes: Arc<TranslationNotes>,
    events: EventReader,
    reader: Box<dyn ReadAnswer>,
    flow: Flow,
    /// The stream has ended here although its provider goes on.
    ended: Option<Phase>,
    is_finished: bool,
}

impl StreamTranslator {
    /// A translator for the answer to the request that left these notes: it reads the format
    /// of `notes.to` and writes that of `notes.from`.
    pub fn new(notes: Arc<TranslationNotes>, context: AnswerContext) -> Self {
        Self {
            events: EventReader::new(notes.to, MAX_EVENT_BYTES),
            reader: (rules(notes.to).provider.reader)(),
            flow: Flow::new(
                Arc::clone(&notes),
                context,
                (client(notes.from).stream)(&notes),
            ),
            notes,
            ended: None,
            is_finished: false,
        }
    }

    /// Takes events of these names for events of the answer, too. What they say has no place in
    /// another format, and is left out.
    #[must_use]
    pub fn with_extensions(mut self, extensions: StreamEvents) -> Self {
        self.events = self.events.with_extensions(extensions);
        self
    }

    /// Reads the next chunk and puts into `out` what it becomes.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<Bytes>) {
        if self.ended.is_none()
            && let Err(failure) = self.read(chunk)
        {
            self.ended = Some(Phase::Failed(failure.into()));
        }
        if !self.flow.out.as_bytes().is_empty() {
            out.push(std::mem::take(&mut self.flow.out).into_bytes().into());
        }
    }

    /// Ends the stream after the upstream has closed it in order.
    pub fn finish(&mut self, out: &mut Vec<Bytes>) -> StreamEnd {
        self.push(self.events.missing_end(), out);
        if self.ended.is_none()
            && self.events.end() == StreamEnd::Finished
            && let Err(failure) = self.write_end()
        {
            self.ended = Some(Phase::Failed(failure.into()));
        }
        self.push(b"", out);
        match self.ended {
            Some(Phase::Terminal) => StreamEnd::Finished,
            Some(_) => StreamEnd::Failed,
            None => self.events.end(),
        }
    }

    /// The response as it is remembered, once the stream has ended; nothing the second time.
    pub fn take_remembered(&mut self) -> Option<Bytes> {
        self.flow.take_remembered()
    }

    /// How far the stream has come. Until the text of an answer that is
    /// [checked](crate::AnswerCheck) has begun, another provider may take over.
    pub fn phase(&self) -> &Phase {
        match self.ended.as_ref().unwrap_or_else(|| self.events.phase()) {
            Phase::Content if self.flow.awaits_text() => &Phase::Preamble,
            phase => phase,
        }
    }

    /// Whether the answer has ended at a stop sequence of the caller's, and its provider goes on.
    pub fn is_cut_short(&self) -> bool {
        let is_over = matches!(self.ended, Some(Phase::Terminal));
        is_over && *self.events.phase() != Phase::Terminal
    }

    /// The scanner, which has read the facts and the usage of the answer, in the provider's words.
    pub const fn scanner(&self) -> &StreamScanner {
        self.events.scanner()
    }

    /// Bytes held now, of events that are not complete, of calls that wait for their turn,
    /// and of what the caller's format repeats.
    pub fn held_bytes(&self) -> usize {
        self.events
            .held_bytes()
            .saturating_add(self.flow.held_bytes())
    }

    /// The event that ends the stream with an error, in the caller's format and as
    /// a well-formed continuation of what has left.
    pub fn failure_event(&self, error: &PublicError, request: &RequestId) -> Bytes {
        let tail = self.flow.writer().tail();
        render::failure_event(self.notes.from, &tail, error, request)
    }

    fn read(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let mut rest = chunk;
        while let Some(item) = self.events.next(&mut rest) {
            match item {
                StreamItem::Event { data, report } => {
                    self.flow.start(report);
                    self.reader.event(utf8(data)?, &mut self.flow)?;
                }
                StreamItem::LargeEnd => self.reader.unread_end()?,
                StreamItem::Comment => {
                    // Behind the end there is nothing to be kept alive.
                    if *self.events.phase() != Phase::Terminal {
                        self.flow.keep_alive();
                    }
                }
            }
        }
        match self.events.phase() {
            Phase::Terminal => self.write_end(),
            // What of this chunk stands behind the sequence was read for its usage.
            _ if self.flow.stopped_at().is_some() => {
                self.ended = Some(Phase::Terminal);
                self.write_end()
            }
            _ => Ok(()),
        }
    }

    /// Writes the end of the answer, once.
    fn write_end(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        let scanner = self.events.scanner();
        let reported = scanner.usage();
        let is_reported = reported.has_input || reported.has_output;
        let facts = scanner.facts();
        self.flow.start(scanner);
        self.flow
            .finish(facts.stop, is_reported.then_some(reported.usage))
    }
}
