//! Reads answers of Gemini. An event is a whole response that holds the next parts.

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

#[derive(Debug, Default)]
pub(crate) struct GeminiReader {
    /// The kind of the last part, and its number among the blocks.
    last: Option<Key>,
    blocks: u64,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Response<'a> {
    candidates: Option<Vec<Candidate<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Candidate<'a> {
    index: Option<u64>,
    content: Option<Content<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Content<'a> {
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Option<RawText<'a>>,
    thought: Option<Raw<'a>>,
    thought_signature: Option<RawText<'a>>,
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct FunctionCall<'a> {
    id: Option<RawText<'a>>,
    name: Option<RawText<'a>>,
    args: Option<Raw<'a>>,
}

impl ReadAnswer for GeminiReader {
    fn event(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let response: Response<'_> = document(data)?;
        for candidate in response.candidates.iter().flatten() {
            // Other formats have one answer, and the request asks for one.
            if candidate.index.is_some_and(|index| index > 0) {
                return Err(Broken);
            }
            let parts = candidate.content.as_ref().and_then(|it| it.parts.as_ref());
            for part in parts.into_iter().flatten() {
                self.part(part, flow)?;
            }
        }
        Ok(())
    }

    fn body(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        self.event(data, flow)
    }
}

impl GeminiReader {
    fn part(&mut self, part: &Part<'_>, flow: &mut Flow) -> Result<(), Failure> {
        if let Some(call) = &part.function_call {
            self.sign(part.thought_signature, flow)?;
            return self.call(call, flow);
        }
        let Some(piece) = part.text else {
            return Ok(());
        };
        let is_thought = part.thought.is_some_and(|it| it.get() == "true");
        let kind = if is_thought {
            Kind::Thinking
        } else {
            Kind::Text
        };
        if piece.is_empty() {
            return Ok(());
        }
        let key = match self.last {
            Some(last) if last.kind == kind => last,
            _ => self.begin(kind),
        };
        flow.piece(key, piece)
    }

    fn begin(&mut self, kind: Kind) -> Key {
        let key = Key::new(kind, self.blocks, 0);
        self.blocks = self.blocks.saturating_add(1);
        self.last = Some(key);
        key
    }

    /// A signature of a call becomes the seal of the thought before it. Signatures of texts need
    /// not return.
    fn sign(&mut self, signature: Option<RawText<'_>>, flow: &mut Flow) -> Result<(), Failure> {
        let payload = owned(signature);
        if payload.is_empty() || payload.len() > MAX_PAYLOAD_BYTES {
            return Ok(());
        }
        let key = match self.last {
            Some(last) if last.kind == Kind::Thinking => last,
            _ => self.begin(Kind::Thinking),
        };
        let blob = Blob::new(ReasoningForm::CallSignature, payload);
        flow.end(key, Some(blob))
    }

    fn call(&mut self, call: &FunctionCall<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let id = call.id.unwrap_or_default();
        if id.as_str().len() > LONGEST_ID {
            return Err(Broken);
        }
        let key = self.begin(Kind::Tool);
        let native = NativeCall {
            id,
            name: call.name.unwrap_or_default(),
            is_custom: false,
        };
        flow.call(key, native)?;
        match call.args {
            Some(args) if has_members(args) => {
                flow.arguments(key, RawText::escaped(&as_contents(args)))?;
            }
            Some(args) if !args.get().starts_with('{') => return Err(Broken),
            Some(_) | None => {}
        }
        flow.end(key, None)
    }
}
