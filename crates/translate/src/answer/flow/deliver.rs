//! Writes the pieces of the open block, and ends it.

use super::{Flow, Kind, blocks::Content};
use crate::{
    answer::{
        arguments::with_half,
        parts::{
            Blob, Citation,
            Failure::{self, Broken},
            Search,
        },
        stops::{Passed, Stops},
        text::RawText,
        write::BlockEnd,
    },
    seal::{self, Backend, ReasoningForm},
};

impl Flow {
    /// Writes a piece of the open block.
    pub(super) fn deliver(&mut self, piece: RawText<'_>) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or(Broken)?;
        let piece = with_half(&mut open.half, piece);
        let piece = RawText::escaped(&piece);
        let left = match &mut open.content {
            Content::Arguments(arguments) => arguments.push(piece)?,
            _ if piece.is_empty() => None,
            Content::Text(fingerprint) => {
                if let Some(fingerprint) = fingerprint {
                    fingerprint.push(&piece.unescape());
                }
                return self.deliver_text(piece);
            }
            Content::Unchecked | Content::Search => Some(piece),
        };
        match left {
            Some(left) => self.writer.delta(left, &mut self.out),
            None => Ok(()),
        }
    }

    /// Writes of a piece of the open text what stands before a stop sequence.
    fn deliver_text(&mut self, piece: RawText<'_>) -> Result<(), Failure> {
        let Some(stops) = &mut self.stops else {
            return self.writer.delta(piece, &mut self.out);
        };
        let passed = stops.push(piece);
        self.deliver_passed(&passed)
    }

    /// Writes what was held of the open text.
    fn deliver_held(&mut self) -> Result<(), Failure> {
        match self.stops.as_mut().map(Stops::end) {
            Some(passed) => self.deliver_passed(&passed),
            None => Ok(()),
        }
    }

    fn deliver_passed(&mut self, passed: &Passed) -> Result<(), Failure> {
        if !passed.logprobs.is_empty() {
            self.writer.logprobs(&passed.logprobs);
        }
        let text = std::str::from_utf8(passed.text.as_bytes()).map_err(|_| Broken)?;
        match RawText::escaped(text) {
            nothing if nothing.is_empty() => Ok(()),
            text => self.writer.delta(text, &mut self.out),
        }
    }

    /// Ends the open block, if there is one.
    pub(super) fn close(&mut self, blob: Option<Blob>) -> Result<(), Failure> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        match open.content {
            Content::Search => return self.end_search(&Search::failed()),
            Content::Text(_) => self.deliver_held()?,
            Content::Unchecked | Content::Arguments(_) => {}
        }
        if !open.half.is_empty() && !self.has_stopped() {
            let half = RawText::escaped(&open.half);
            self.writer.delta(half, &mut self.out)?;
        }
        let mut is_cut = false;
        if let Content::Arguments(arguments) = &open.content {
            self.outcome.has_bad_arguments |= arguments.is_bad();
            if arguments.lacks_object() {
                self.writer.delta(RawText::escaped("{}"), &mut self.out)?;
            }
            is_cut = arguments.is_cut();
        }
        self.write_citations(&open.citations);
        if let Content::Text(Some(fingerprint)) = open.content {
            self.cited.add(fingerprint, &open.citations);
        }
        // Not every provider signs reasoning. The seal names the provider, so that unsigned reasoning returns to
        // that provider only.
        let is_unsigned = blob.is_none() && open.key.kind == Kind::Thinking;
        let unsigned = || Blob::new(ReasoningForm::Shown, "reasoning_content".to_owned());
        let blob = blob.or_else(|| is_unsigned.then(unsigned));
        let sealed = self.sealed(blob.as_ref());
        let end = match &sealed {
            Some(sealed) => BlockEnd::Sealed(sealed),
            None if is_cut => BlockEnd::Cut,
            None => BlockEnd::Whole,
        };
        self.writer.end(end, &mut self.out)
    }

    fn write_citations(&mut self, citations: &[Citation]) {
        for citation in citations {
            let sealed = self.sealed_citation(citation);
            self.writer.cite(citation, sealed.as_deref(), &mut self.out);
        }
        let sizes = citations.iter().map(Citation::size);
        self.queue.release(sizes.fold(0, usize::saturating_add));
    }

    /// Seals what goes back to the provider, where the caller takes it.
    pub(super) fn sealed(&self, blob: Option<&Blob>) -> Option<String> {
        let blob = blob.filter(|_| self.notes.reasoning.state)?;
        let backend = Backend::new(&self.notes.backend);
        seal::seal(backend, blob.form, &blob.item_id, &blob.payload)
    }
}
