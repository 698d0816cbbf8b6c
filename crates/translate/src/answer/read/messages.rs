//! Reads answers of the messages format.

mod types;

use crate::{
    answer::{
        flow::{Flow, Key, Kind, MOST_CITATIONS},
        parts::{Blob, Broken, Citation, NativeCall},
        read::{as_contents, document, has_members, owned},
        text::RawText,
    },
    seal::{MAX_PAYLOAD_BYTES, ReasoningForm},
};
use serde::Deserialize;
use types::{Block, StopDetails, TextCitation, blob};

#[derive(Debug, Default)]
pub(crate) struct MessagesReader {
    open: Option<OpenBlock>,
}

#[derive(Debug)]
struct OpenBlock {
    index: u64,
    /// `None`: a block of a kind that no other format has.
    kind: Option<Kind>,
    signature: String,
    redacted: Option<Blob>,
    citations: Vec<Citation>,
    /// The input, where it came with the block's start instead of in pieces.
    input: String,
}

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: RawText<'a>,
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: RawText<'a>,
    #[serde(borrow, default)]
    text: Option<RawText<'a>>,
    #[serde(borrow, default)]
    thinking: Option<RawText<'a>>,
    #[serde(borrow, default)]
    signature: Option<RawText<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<RawText<'a>>,
    #[serde(borrow, default)]
    citation: Option<TextCitation<'a>>,
    #[serde(borrow, default)]
    stop_details: Option<StopDetails<'a>>,
}

/// A whole answer.
#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    #[serde(borrow, default)]
    stop_details: Option<StopDetails<'a>>,
}

impl MessagesReader {
    pub(super) fn event(&mut self, data: &[u8], flow: &mut Flow) -> Result<(), Broken> {
        let event: Event<'_> = document(data)?;
        match (event.kind.as_str(), event.content_block, event.delta) {
            ("content_block_delta", _, Some(delta)) => self.delta(event.index, &delta, flow),
            ("content_block_start", Some(block), _) => self.begin(event.index, &block, flow),
            ("content_block_stop", ..) => self.end(flow),
            ("message_delta", _, Some(delta)) => explain(delta.stop_details.as_ref(), flow),
            ("content_block_delta" | "content_block_start" | "message_delta", ..) => Err(Broken),
            ("ping", ..) => {
                flow.keep_alive();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn body(&mut self, data: &[u8], flow: &mut Flow) -> Result<(), Broken> {
        let answer: Message<'_> = document(data)?;
        for (block, index) in answer.content.iter().zip(0..) {
            self.begin(index, block, flow)?;
        }
        self.end(flow)?;
        explain(answer.stop_details.as_ref(), flow)
    }

    fn begin(&mut self, index: u64, block: &Block<'_>, flow: &mut Flow) -> Result<(), Broken> {
        self.end(flow)?;
        let kind = match block.kind.as_str() {
            "text" => Some(Kind::Text),
            "thinking" | "redacted_thinking" => Some(Kind::Thinking),
            "tool_use" => Some(Kind::Tool),
            _ => None,
        };
        self.open = Some(OpenBlock {
            index,
            kind,
            signature: owned(block.signature),
            redacted: block
                .blob()
                .filter(|blob| blob.form == ReasoningForm::Redacted),
            citations: pages(block.citations.iter().flatten()).collect(),
            input: String::new(),
        });
        let Some(kind) = kind else { return Ok(()) };
        let key = Key::new(kind, index, 0);
        match kind {
            Kind::Text => flow.piece(key, block.text.unwrap_or_default()),
            Kind::Thinking => flow.piece(key, block.thinking.unwrap_or_default()),
            Kind::Tool => self.call(key, block, flow),
            Kind::Refusal => Ok(()),
        }
    }

    fn call(&mut self, key: Key, block: &Block<'_>, flow: &mut Flow) -> Result<(), Broken> {
        let input = block.input.filter(|input| has_members(input));
        if let (Some(open), Some(input)) = (&mut self.open, input) {
            open.input = as_contents(input);
        }
        let call = NativeCall {
            id: block.id.unwrap_or_default(),
            name: block.name.unwrap_or_default(),
            is_custom: false,
        };
        flow.call(key, call)
    }

    fn delta(&mut self, index: u64, delta: &Delta<'_>, flow: &mut Flow) -> Result<(), Broken> {
        let open = self.open.as_mut().filter(|open| open.index == index);
        let open = open.ok_or(Broken)?;
        let Some(kind) = open.kind else { return Ok(()) };
        let key = Key::new(kind, index, 0);
        match (delta.kind.as_str(), kind) {
            ("text_delta", Kind::Text) => flow.piece(key, delta.text.unwrap_or_default()),
            ("thinking_delta", Kind::Thinking) => {
                flow.piece(key, delta.thinking.unwrap_or_default())
            }
            ("input_json_delta", Kind::Tool) => {
                let piece = delta.partial_json.unwrap_or_default();
                if !piece.is_empty() {
                    open.input.clear();
                }
                flow.arguments(key, piece)
            }
            ("signature_delta", Kind::Thinking) => {
                let piece = delta.signature.unwrap_or_default().unescape();
                open.signature.push_str(&piece);
                match open.signature.len() <= MAX_PAYLOAD_BYTES {
                    true => Ok(()),
                    false => Err(Broken),
                }
            }
            ("citations_delta", Kind::Text) => {
                let room = MOST_CITATIONS.saturating_sub(open.citations.len());
                open.citations.extend(pages(&delta.citation).take(room));
                Ok(())
            }
            ("text_delta" | "thinking_delta" | "input_json_delta", _) => Err(Broken),
            _ => Ok(()),
        }
    }

    fn end(&mut self, flow: &mut Flow) -> Result<(), Broken> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let Some(kind) = open.kind else { return Ok(()) };
        let key = Key::new(kind, open.index, 0);
        if kind == Kind::Tool {
            flow.arguments(key, RawText::escaped(&open.input))?;
        }
        for citation in open.citations {
            flow.cite(key, citation);
        }
        let signature = blob(ReasoningForm::Signature, open.signature);
        let blob = open.redacted.or(signature);
        flow.end(key, blob.filter(|_| kind == Kind::Thinking))
    }
}

fn pages<'a>(
    citations: impl IntoIterator<Item = &'a TextCitation<'a>>,
) -> impl Iterator<Item = Citation> {
    citations.into_iter().filter_map(TextCitation::page)
}

/// What the provider says of a refusal is the refusal's text elsewhere.
fn explain(details: Option<&StopDetails<'_>>, flow: &mut Flow) -> Result<(), Broken> {
    let explanation = details.and_then(|details| details.explanation);
    flow.piece(
        Key::new(Kind::Refusal, u64::MAX, 0),
        explanation.unwrap_or_default(),
    )
}
