//! An answer that comes whole, written anew in the caller's format.
//!
//! Goes the same way as a stream, from the same readers through the same flow, to writers of
//! whole answers. What the body is, its usage and its end are the wire crate's
//! [`AnswerScanner`] to say.

use crate::{
    TranslationNotes,
    answer::{flow::Flow, parts::AnswerContext, read::utf8},
    formats::{client, rules},
    output::Output,
};
use bytes::Bytes;
use std::sync::Arc;
use tollgate_wire::{
    answer::{AnswerKind, AnswerReport, AnswerScanner},
    fault::UpstreamFault,
};

/// The largest answer that is read, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Translates one whole answer.
#[derive(Debug)]
pub struct AnswerTranslator {
    notes: Arc<TranslationNotes>,
    context: AnswerContext,
    scanner: AnswerScanner,
    body: Vec<u8>,
    is_too_large: bool,
    remembered: Option<Bytes>,
}

impl AnswerTranslator {
    /// A translator for the answer to the request that left these notes: it reads the format
    /// of `notes.to` and writes that of `notes.from`.
    pub fn new(notes: Arc<TranslationNotes>, context: AnswerContext) -> Self {
        Self {
            scanner: AnswerScanner::new(notes.to),
            notes,
            context,
            body: Vec::new(),
            is_too_large: false,
            remembered: None,
        }
    }

    /// Takes the next chunk of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        self.scanner.push(chunk);
        let size = self.body.len().saturating_add(chunk.len());
        self.is_too_large |= size > MAX_BODY_BYTES;
        if !self.is_too_large {
            self.body.extend_from_slice(chunk);
        }
    }

    /// Ends the body and writes the caller's.
    ///
    /// # Errors
    /// The body is an error, no answer, or one that the caller's format cannot hold.
    pub fn finish(&mut self) -> Result<Bytes, UpstreamFault> {
        match self.scanner.finish() {
            AnswerKind::Error | AnswerKind::Broken => Err(self.scanner.fault(&self.body)),
            AnswerKind::Answer => self.translate(),
        }
    }

    /// The response as it is remembered, once it is written; nothing the second time.
    pub const fn take_remembered(&mut self) -> Option<Bytes> {
        self.remembered.take()
    }

    fn translate(&mut self) -> Result<Bytes, UpstreamFault> {
        if self.is_too_large {
            return Err(UpstreamFault::broken_answer());
        }
        let facts = self.scanner.facts();
        let reported = self.scanner.usage();
        let is_reported = reported.has_input || reported.has_output;
        let writer = (client(self.notes.from).body)(&self.notes);
        /// Bytes by which one format can exceed another around the same text.
        const MORE: usize = 512;
        let mut flow = Flow::new(Arc::clone(&self.notes), self.context, writer);
        flow.out = Output::with_capacity(self.body.len().saturating_add(MORE));
        flow.start(&self.scanner);
        let written = utf8(&self.body)
            .and_then(|body| (rules(self.notes.to).provider.reader)().body(body, &mut flow))
            .and_then(|()| flow.finish(facts.stop, is_reported.then_some(reported.usage)));
        written?;
        self.remembered = flow.take_remembered();
        Ok(flow.out.into_bytes().into())
    }

    /// The scanner, which has read the facts and the usage of the body, in the provider's words.
    pub const fn scanner(&self) -> &AnswerScanner {
        &self.scanner
    }
}
