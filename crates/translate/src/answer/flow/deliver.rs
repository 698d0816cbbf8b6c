//! Writes the pieces of the open block, and ends it.

use super::{
    Flow, Kind,
    blocks::{Open, OpenTool},
};
use crate::{
    answer::{
        arguments::with_half,
        logprobs,
        parts::{
            Blob, Citation,
            Failure::{self, Broken, Unfit},
            Search,
        },
        text::RawText,
        write::BlockEnd,
    },
    output::Output,
    seal::{self, Backend, ReasoningForm},
};

impl Flow {
    /// Writes a piece of the open block.
    pub(super) fn deliver(&mut self, piece: RawText<'_>) -> Result<(), Failure> {
        let needs_object = self.client().has_object_arguments;
        let open = self.open.as_mut().ok_or(Broken)?;
        let piece = with_half(&mut open.half, piece);
        let piece = RawText::escaped(&piece);
        let tool = open.tool.as_mut();
        let Some(tool) = tool.filter(|tool| !tool.is_native_custom) else {
            if let Some(fingerprint) = &mut open.fingerprint {
                fingerprint.push(&piece.unescape());
            }
            return match open.key.kind {
                _ if piece.is_empty() => Ok(()),
                Kind::Text => self.deliver_text(piece),
                _ => self.writer.delta(piece, &mut self.out),
            };
        };
        tool.arguments.push(piece);
        // A limit can cut an object short, but it makes nothing else of it.
        let must_be_object = tool.input.is_some() || needs_object;
        if must_be_object && tool.arguments.is_over() && !tool.arguments.is_object() {
            return Err(Unfit);
        }
        let Some(reader) = &mut tool.input else {
            return self.writer.delta(piece, &mut self.out);
        };
        self.input.clear();
        reader.push(piece, &mut self.input);
        match RawText::escaped(&self.input) {
            nothing if nothing.is_empty() => Ok(()),
            input => self.writer.delta(input, &mut self.out),
        }
    }

    /// Writes of a piece of the open text what stands before a stop sequence.
    fn deliver_text(&mut self, piece: RawText<'_>) -> Result<(), Failure> {
        let Some(stops) = &mut self.stops else {
            return self.writer.delta(piece, &mut self.out);
        };
        let held = stops.held_bytes();
        let mut text = Output::default();
        stops.push(piece, &mut text);
        let mut entries = std::mem::take(&mut self.token_logprobs);
        if stops.found().is_some() {
            let text = std::str::from_utf8(text.as_bytes()).map_err(|_| Broken)?;
            let left = RawText::escaped(text).unescape().len();
            entries = logprobs::within(&entries, left.saturating_sub(held));
        }
        if !entries.is_empty() {
            self.writer.logprobs(&entries);
        }
        self.deliver_escaped(&text)
    }

    /// Writes what was held of the open text.
    fn deliver_held(&mut self) -> Result<(), Failure> {
        let Some(stops) = &mut self.stops else {
            return Ok(());
        };
        let mut text = Output::default();
        stops.end(&mut text);
        self.deliver_escaped(&text)
    }

    fn deliver_escaped(&mut self, text: &Output) -> Result<(), Failure> {
        let text = std::str::from_utf8(text.as_bytes()).map_err(|_| Broken)?;
        match RawText::escaped(text) {
            nothing if nothing.is_empty() => Ok(()),
            text => self.writer.delta(text, &mut self.out),
        }
    }

    /// Ends the open block, if there is one.
    pub(super) fn close(&mut self, blob: Option<Blob>) -> Result<(), Failure> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        if open.key.kind == Kind::Search {
            return self.end_search(&Search::failed());
        }
        if open.key.kind == Kind::Text {
            self.deliver_held()?;
        }
        if !open.half.is_empty() && !self.has_stopped() {
            let half = RawText::escaped(&open.half);
            self.writer.delta(half, &mut self.out)?;
        }
        let mut is_cut = false;
        if let Some(tool) = &open.tool {
            self.close_tool(tool)?;
            is_cut = tool.is_cut();
        }
        for citation in &open.citations {
            let sealed = self.sealed_citation(citation);
            self.writer.cite(citation, sealed.as_deref(), &mut self.out);
        }
        let sizes = open.citations.iter().map(Citation::size);
        self.queue.release(sizes.fold(0, usize::saturating_add));
        self.keep_cited(&mut open);
        let blob = blob.or_else(|| Self::unsigned(&open));
        let sealed = self.sealed(blob.as_ref());
        let end = match &sealed {
            Some(sealed) => BlockEnd::Sealed(sealed),
            None if is_cut => BlockEnd::Cut,
            None => BlockEnd::Whole,
        };
        self.writer.end(end, &mut self.out)
    }

    /// Seals what goes back to the provider, where the caller takes it.
    pub(super) fn sealed(&self, blob: Option<&Blob>) -> Option<String> {
        let blob = blob.filter(|_| self.notes.reasoning.state)?;
        let backend = Backend::new(&self.notes.backend);
        seal::seal(backend, blob.form, &blob.item_id, &blob.payload)
    }

    /// Not every provider signs reasoning. The seal names the provider, so that unsigned reasoning returns to that
    /// provider only.
    fn unsigned(open: &Open) -> Option<Blob> {
        (open.key.kind == Kind::Thinking)
            .then(|| Blob::new(ReasoningForm::Shown, "reasoning_content".to_owned()))
    }

    fn close_tool(&mut self, tool: &OpenTool) -> Result<(), Failure> {
        let needs_object = self.client().has_object_arguments;
        if tool.is_native_custom {
            return Ok(());
        }
        if let Some(input) = &tool.input {
            let is_said = tool.arguments.is_object() || tool.arguments.is_empty();
            self.has_bad_arguments |= !(input.is_whole() && is_said);
        } else if !tool.arguments.is_empty() {
            self.has_bad_arguments |= needs_object && !tool.arguments.is_object();
        } else if !needs_object {
            return self.writer.delta(RawText::escaped("{}"), &mut self.out);
        }
        Ok(())
    }
}
