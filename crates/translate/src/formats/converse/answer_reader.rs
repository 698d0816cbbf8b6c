//! Reads answers of Converse. The data of an event has the name of the event as its `type`.

use crate::{
    answer::{
        flow::{Flow, Key, Kind, LONGEST_ID},
        json::Raw,
        parts::{
            Blob,
            Failure::{self, Broken},
            NativeCall,
        },
        read::{ReadAnswer, as_contents, document, has_members, owned},
        text::RawText,
    },
    seal::{MAX_PAYLOAD_BYTES, ReasoningForm},
};
use serde::Deserialize;

/// The block that is open, and what of its reasoning only the provider can read.
#[derive(Debug, Default)]
pub(crate) struct ConverseReader {
    open: Option<Key>,
    signature: String,
    redacted: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: RawText<'a>,
    #[serde(default)]
    content_block_index: u64,
    start: Option<Block<'a>>,
    delta: Option<Delta<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    text: Option<RawText<'a>>,
    tool_use: Option<InputPiece<'a>>,
    reasoning_content: Option<Reasoning<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct InputPiece<'a> {
    #[serde(default)]
    input: RawText<'a>,
}

/// A whole answer.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Response<'a> {
    output: Output<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Output<'a> {
    message: Message<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    content: Vec<Block<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Block<'a> {
    text: Option<RawText<'a>>,
    tool_use: Option<ToolUse<'a>>,
    reasoning_content: Option<Reasoning<'a>>,
    citations_content: Option<CitedText<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ToolUse<'a> {
    tool_use_id: Option<RawText<'a>>,
    name: Option<RawText<'a>>,
    input: Option<Raw<'a>>,
    /// Of a tool that runs at the provider.
    #[serde(rename = "type")]
    kind: Option<RawText<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct CitedText<'a> {
    content: Option<Vec<Block<'a>>>,
}

/// Reasoning: in one piece, or the members of it in the events of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Reasoning<'a> {
    reasoning_text: Option<ReasoningText<'a>>,
    text: Option<RawText<'a>>,
    signature: Option<RawText<'a>>,
    redacted_content: Option<RawText<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ReasoningText<'a> {
    text: Option<RawText<'a>>,
    signature: Option<RawText<'a>>,
}

impl ReadAnswer for ConverseReader {
    fn event(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let event: Event<'_> = document(data)?;
        let index = event.content_block_index;
        match (event.kind.as_str(), &event.start, &event.delta) {
            ("contentBlockStart", Some(block), _) => self.block(index, block, flow),
            ("contentBlockDelta", _, Some(delta)) => self.delta(index, delta, flow),
            ("contentBlockStart" | "contentBlockDelta", ..) => Err(Broken),
            ("contentBlockStop" | "messageStop", ..) => self.end(flow),
            _ => Ok(()),
        }
    }

    fn body(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let response: Response<'_> = document(data)?;
        for (block, index) in response.output.message.content.iter().zip(0..) {
            self.block(index, block, flow)?;
            self.end(flow)?;
        }
        Ok(())
    }
}

impl ConverseReader {
    /// The key of the block with this index, which begins unless it is open.
    fn key(&mut self, kind: Kind, index: u64, flow: &mut Flow) -> Result<Key, Failure> {
        let key = Key::new(kind, index, 0);
        if self.open != Some(key) {
            self.end(flow)?;
            self.open = Some(key);
        }
        Ok(key)
    }

    fn block(&mut self, index: u64, block: &Block<'_>, flow: &mut Flow) -> Result<(), Failure> {
        self.end(flow)?;
        if let Some(call) = &block.tool_use {
            self.call(index, call, flow)?;
        }
        if let Some(reasoning) = &block.reasoning_content {
            self.reason(index, reasoning, flow)?;
        }
        let cited = block.citations_content.as_ref();
        let cited = cited.and_then(|it| it.content.as_ref());
        let cited = cited.into_iter().flatten().filter_map(|it| it.text);
        for piece in block.text.into_iter().chain(cited) {
            let key = self.key(Kind::Text, index, flow)?;
            flow.piece(key, piece)?;
        }
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &Delta<'_>, flow: &mut Flow) -> Result<(), Failure> {
        if let Some(piece) = delta.text {
            let key = self.key(Kind::Text, index, flow)?;
            flow.piece(key, piece)?;
        }
        if let Some(reasoning) = &delta.reasoning_content {
            self.reason(index, reasoning, flow)?;
        }
        let Some(piece) = &delta.tool_use else {
            return Ok(());
        };
        match self.open {
            Some(key) if key == Key::new(Kind::Tool, index, 0) => flow.arguments(key, piece.input),
            // Of a tool that runs at the provider.
            None => Ok(()),
            Some(_) => Err(Broken),
        }
    }

    fn call(&mut self, index: u64, call: &ToolUse<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let id = call.tool_use_id.unwrap_or_default();
        if id.as_str().len() > LONGEST_ID {
            return Err(Broken);
        }
        if call.kind.is_some_and(|it| it.as_str() == "server_tool_use") {
            return Ok(());
        }
        let key = self.key(Kind::Tool, index, flow)?;
        let native = NativeCall {
            id,
            name: call.name.unwrap_or_default(),
            is_custom: false,
        };
        flow.call(key, native)?;
        match call.input {
            Some(input) if has_members(input) => {
                flow.arguments(key, RawText::escaped(&as_contents(input)))
            }
            Some(input) if !input.get().starts_with('{') => Err(Broken),
            Some(_) | None => Ok(()),
        }
    }

    fn reason(&mut self, index: u64, said: &Reasoning<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let key = self.key(Kind::Thinking, index, flow)?;
        let whole = said.reasoning_text.as_ref();
        let text = said.text.or(whole.and_then(|it| it.text));
        let signature = said.signature.or(whole.and_then(|it| it.signature));
        self.signature.push_str(&owned(signature));
        self.redacted.push_str(&owned(said.redacted_content));
        if self.signature.len().max(self.redacted.len()) > MAX_PAYLOAD_BYTES {
            return Err(Broken);
        }
        flow.piece(key, text.unwrap_or_default())
    }

    fn end(&mut self, flow: &mut Flow) -> Result<(), Failure> {
        let Some(key) = self.open.take() else {
            return Ok(());
        };
        let signature = std::mem::take(&mut self.signature);
        let redacted = std::mem::take(&mut self.redacted);
        let (form, payload) = match redacted.is_empty() {
            true => (ReasoningForm::Signature, signature),
            false => (ReasoningForm::Redacted, redacted),
        };
        let blob = (!payload.is_empty()).then(|| Blob::new(form, payload));
        flow.end(key, blob)
    }
}
