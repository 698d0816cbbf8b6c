//! Whole answers of the messages format: one list of blocks.

use super::{
    citation, is_blank, search_call, search_id, search_input, search_result, shown_usage,
    stop_fields, usage,
};
use crate::{
    answer::{
        flow::Kind,
        parts::{
            Citation, Ending,
            Failure::{self, Broken},
            Head, Search, ToolCall,
        },
        text::RawText,
        write::{BlockEnd, Write, escaped},
    },
    output::Output,
};
use serde_json::value::RawValue;
use tollgate_types::Usage;

#[derive(Debug, Default)]
pub(crate) struct MessagesBody {
    id: String,
    model: String,
    /// The usage that is shown if the provider reports none.
    input: Usage,
    open: Option<(Kind, Option<ToolCall>)>,
    /// Of the open block, escaped.
    contents: String,
    /// The citations of the open text, separated by commas.
    citations: Output,
    /// The search that has begun.
    search: String,
    searches: u64,
    /// The blocks, with commas between.
    blocks: Output,
}

impl Write for MessagesBody {
    fn start(&mut self, head: &Head, _: &mut Output) {
        self.id = head.answer_id("msg_");
        self.model.clone_from(&head.model);
        self.input = head.input;
    }

    fn begin(
        &mut self,
        kind: Kind,
        call: Option<&ToolCall>,
        _: &mut Output,
    ) -> Result<(), Failure> {
        self.open = Some((kind, call.cloned()));
        self.contents.clear();
        Ok(())
    }

    fn delta(&mut self, piece: RawText<'_>, _: &mut Output) -> Result<(), Failure> {
        self.contents.push_str(piece.as_str());
        Ok(())
    }

    /// A citation of this format names a place in what the provider searched: without a search
    /// there is none.
    fn cite(&mut self, cited: &Citation, sealed: Option<&str>, _: &mut Output) {
        if let Some(sealed) = sealed {
            citation(cited, sealed, self.citations.item());
        }
    }

    fn begin_search(&mut self, id: &str, _: &mut Output) {
        self.search = search_id(id, &self.id, self.searches);
        self.searches = self.searches.saturating_add(1);
    }

    fn end_search(
        &mut self,
        search: &Search,
        sealed: Option<&str>,
        _: &mut Output,
    ) -> Result<(), Failure> {
        let blocks = self.blocks.item();
        blocks.begin_object();
        search_call(&self.search, blocks);
        blocks.key("input").raw(search_input(search).as_bytes());
        blocks.end_object();
        search_result(&self.search, search, sealed, blocks.item());
        Ok(())
    }

    fn end(&mut self, end: BlockEnd<'_>, _: &mut Output) -> Result<(), Failure> {
        let Some((kind, call)) = self.open.take() else {
            return Err(Broken);
        };
        match (kind, call) {
            // Anthropic refuses blank texts in the history.
            (Kind::Text | Kind::Refusal, _) if is_blank(&self.contents) => {
                self.citations.clear();
                return Ok(());
            }
            (Kind::Text | Kind::Refusal, _) => {
                let citations = std::mem::take(&mut self.citations);
                let out = self.begin_block("text");
                escaped(out.0.key("text"), out.1);
                // The schema of the format requires the member, and some clients refuse `null`.
                out.0.key("citations").begin_array();
                out.0.raw(citations.as_bytes());
                out.0.end_array();
            }
            (Kind::Thinking, _) => {
                let out = self.begin_block("thinking");
                escaped(out.0.key("thinking"), out.1);
                out.0
                    .key("signature")
                    .string(end.sealed().unwrap_or_default());
            }
            (Kind::Tool, Some(call)) => {
                let Some(input) = object(&self.contents) else {
                    // Cut by a limit: what is left of it is no call. The flow refuses the
                    // answer where no limit explains it.
                    return Ok(());
                };
                let (out, _) = self.begin_block("tool_use");
                out.key("id").string(&call.id);
                out.key("name").string(&call.name);
                out.key("input").raw(input.as_bytes());
                out.key("caller").raw(br#"{"type":"direct"}"#);
            }
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
        }
        self.blocks.end_object();
        Ok(())
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        out.begin_object();
        out.key("id").string(&self.id);
        out.key("type").string("message");
        out.key("role").string("assistant");
        out.key("model").string(&self.model);
        out.key("content").begin_array();
        out.raw(self.blocks.as_bytes());
        out.end_array();
        stop_fields(Some(ending), out);
        out.key("container").raw(b"null");
        out.key("diagnostics").raw(b"null");
        usage(&shown_usage(ending, &self.input), ending.searches, out);
        out.end_object();
    }
}

impl MessagesBody {
    /// Begins a block; returns where it is written, and what came of it.
    fn begin_block(&mut self, kind: &str) -> (&mut Output, &str) {
        self.blocks.item().begin_object();
        self.blocks.key("type").string(kind);
        (&mut self.blocks, &self.contents)
    }
}

/// The JSON object that the contents of a string are; the empty one where there are none.
fn object(contents: &str) -> Option<String> {
    let text = RawText::escaped(contents).unescape();
    if text.trim_ascii().is_empty() {
        return Some("{}".to_owned());
    }
    let value: &RawValue = serde_json::from_str(&text).ok()?;
    value.get().starts_with('{').then(|| value.get().to_owned())
}
