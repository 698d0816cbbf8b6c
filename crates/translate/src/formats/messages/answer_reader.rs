//! Reads answers of the messages format.

mod types;

use crate::{
    answer::{
        flow::{Flow, Key, Kind, LONGEST_ID, MOST_CITATIONS, MOST_WAITING},
        json::{self, Raw},
        parts::{
            Blob, Citation,
            Failure::{self, Broken},
            NativeCall,
        },
        read::{self, ReadAnswer, document, owned},
        text::RawText,
    },
    output::Output,
    seal::{MAX_PAYLOAD_BYTES, ReasoningForm},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use types::{Block, StopDetails, blob, cited_page};

#[derive(Debug, Default)]
pub(crate) struct MessagesReader {
    open: Option<OpenBlock>,
    /// Searches of the web whose results have not come.
    searches: Vec<OpenSearch>,
}

/// A search of the web that the provider makes.
#[derive(Debug)]
struct OpenSearch {
    key: Key,
    id: String,
    /// Contents of a string while the block is open, then JSON.
    input: String,
    /// The caller that it names: JSON.
    caller: Option<String>,
}

#[derive(Debug)]
struct OpenBlock {
    index: u64,
    content: Content,
}

/// What is kept of a block until it ends.
#[derive(Debug)]
enum Content {
    Text(Citations),
    Thinking {
        signature: String,
        redacted: Option<Blob>,
    },
    /// The input of a call, if it came with the block's start instead of in pieces: contents of a string.
    Call(String),
    Search(OpenSearch),
    /// A block of a kind that no other format has.
    Other,
}

#[derive(Debug, Default)]
struct Citations {
    pages: Vec<Citation>,
    bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: RawText<'a>,
    #[serde(default)]
    index: u64,
    content_block: Option<Raw<'a>>,
    delta: Option<Delta<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    #[serde(rename = "type", default)]
    kind: RawText<'a>,
    text: Option<RawText<'a>>,
    thinking: Option<RawText<'a>>,
    signature: Option<RawText<'a>>,
    partial_json: Option<RawText<'a>>,
    citation: Option<Raw<'a>>,
    stop_details: Option<StopDetails<'a>>,
}

/// A whole answer.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    content: Vec<Raw<'a>>,
    stop_details: Option<StopDetails<'a>>,
}

impl ReadAnswer for MessagesReader {
    fn event(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let event: Event<'_> = document(data)?;
        match (event.kind.as_str(), event.content_block, event.delta) {
            ("content_block_delta", _, Some(delta)) => self.delta(event.index, &delta, flow),
            ("content_block_start", Some(block), _) => self.begin(event.index, block, flow),
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

    fn body(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let answer: Message<'_> = document(data)?;
        for (block, index) in answer.content.iter().zip(0..) {
            self.begin(index, *block, flow)?;
        }
        self.end(flow)?;
        explain(answer.stop_details.as_ref(), flow)
    }
}

impl MessagesReader {
    fn begin(&mut self, index: u64, raw: Raw<'_>, flow: &mut Flow) -> Result<(), Failure> {
        self.end(flow)?;
        let block: &Block<'_> = &document(raw.get())?;
        if block.kind.as_str() == "web_search_tool_result" {
            return self.found(block, raw, flow);
        }
        let content = match block.kind.as_str() {
            "text" => begin_text(index, block, flow)?,
            "thinking" | "redacted_thinking" => begin_thinking(index, block, flow)?,
            "tool_use" => begin_call(index, block, flow)?,
            "server_tool_use" if flow.has_search() && is_search(block) => {
                self.begin_search(index, block, flow)?
            }
            _ => Content::Other,
        };
        self.open = Some(OpenBlock { index, content });
        Ok(())
    }

    fn begin_search(
        &self,
        index: u64,
        block: &Block<'_>,
        flow: &mut Flow,
    ) -> Result<Content, Failure> {
        /// More searches in one answer, with no results, are absurd.
        const MOST: usize = 64;
        let input = block.input.filter(|it| read::has_members(*it));
        let input = input.map(read::arguments).unwrap_or_default();
        let id = owned(block.id);
        let caller = block.caller.map(Raw::get);
        let is_long = id.len().max(caller.map_or(0, str::len)) > LONGEST_ID;
        if self.searches.len() >= MOST || is_long || input.len() > MOST_INPUT {
            return Err(Broken);
        }
        let key = Key::new(Kind::Search, index, 0);
        flow.search(key, id.clone())?;
        Ok(Content::Search(OpenSearch {
            key,
            id,
            input: input.into_owned(),
            caller: caller.map(ToOwned::to_owned),
        }))
    }

    /// Reads the results of a search. A result without its search is left out.
    fn found(&mut self, block: &Block<'_>, raw: Raw<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let id = owned(block.tool_use_id);
        let place = self.searches.iter().position(|open| open.id == id);
        match place.map(|place| self.searches.remove(place)) {
            Some(open) => flow.found(open.key, block.search(open.query(), open.blob(raw))),
            None => Ok(()),
        }
    }

    fn delta(&mut self, index: u64, delta: &Delta<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let open = self.open.as_mut().filter(|open| open.index == index);
        let open = open.ok_or(Broken)?;
        let key = |kind| Key::new(kind, index, 0);
        match (delta.kind.as_str(), &mut open.content) {
            (_, Content::Other) => Ok(()),
            ("text_delta", Content::Text(_)) => {
                flow.piece(key(Kind::Text), delta.text.unwrap_or_default())
            }
            ("thinking_delta", Content::Thinking { .. }) => {
                flow.piece(key(Kind::Thinking), delta.thinking.unwrap_or_default())
            }
            ("input_json_delta", Content::Call(input)) => {
                let piece = delta.partial_json.unwrap_or_default();
                if !piece.is_empty() {
                    input.clear();
                }
                flow.arguments(key(Kind::Tool), piece)
            }
            ("input_json_delta", Content::Search(search)) => {
                let piece = delta.partial_json.unwrap_or_default();
                append(&mut search.input, piece.as_str(), MOST_INPUT)
            }
            ("signature_delta", Content::Thinking { signature, .. }) => {
                let piece = delta.signature.unwrap_or_default().unescape();
                append(signature, &piece, MAX_PAYLOAD_BYTES)
            }
            ("citations_delta", Content::Text(citations)) => citations.add(&delta.citation, flow),
            ("text_delta" | "thinking_delta" | "input_json_delta", _) => Err(Broken),
            _ => Ok(()),
        }
    }

    fn end(&mut self, flow: &mut Flow) -> Result<(), Failure> {
        let Some(OpenBlock { index, content }) = self.open.take() else {
            return Ok(());
        };
        let key = |kind| Key::new(kind, index, 0);
        match content {
            Content::Text(citations) => {
                for page in citations.pages {
                    flow.cite(key(Kind::Text), page)?;
                }
                flow.end(key(Kind::Text), None)
            }
            Content::Thinking {
                signature,
                redacted,
            } => {
                let signed = || blob(ReasoningForm::Signature, signature);
                flow.end(key(Kind::Thinking), redacted.or_else(signed))
            }
            Content::Call(input) => {
                flow.arguments(key(Kind::Tool), RawText::escaped(&input))?;
                flow.end(key(Kind::Tool), None)
            }
            Content::Search(search) => {
                let input = RawText::escaped(&search.input).unescape().into_owned();
                self.searches.push(OpenSearch { input, ..search });
                Ok(())
            }
            Content::Other => Ok(()),
        }
    }
}

fn begin_text(index: u64, block: &Block<'_>, flow: &mut Flow) -> Result<Content, Failure> {
    let mut citations = Citations::default();
    citations.add(block.citations.iter().flatten(), flow)?;
    let key = Key::new(Kind::Text, index, 0);
    flow.piece(key, block.text.unwrap_or_default())?;
    Ok(Content::Text(citations))
}

fn begin_thinking(index: u64, block: &Block<'_>, flow: &mut Flow) -> Result<Content, Failure> {
    let key = Key::new(Kind::Thinking, index, 0);
    flow.piece(key, block.thinking.unwrap_or_default())?;
    let is_redacted = |blob: &Blob| blob.form == ReasoningForm::Redacted;
    Ok(Content::Thinking {
        signature: owned(block.signature),
        redacted: block.blob().filter(is_redacted),
    })
}

fn begin_call(index: u64, block: &Block<'_>, flow: &mut Flow) -> Result<Content, Failure> {
    let call = NativeCall {
        id: block.id.unwrap_or_default(),
        name: block.name.unwrap_or_default(),
        is_custom: false,
    };
    flow.call(Key::new(Kind::Tool, index, 0), call)?;
    let input = block.input.map(read::arguments).unwrap_or_default();
    Ok(Content::Call(input.into_owned()))
}

/// Appends to what is kept of a block, within a bound.
fn append(kept: &mut String, piece: &str, most: usize) -> Result<(), Failure> {
    kept.push_str(piece);
    match kept.len() <= most {
        true => Ok(()),
        false => Err(Broken),
    }
}

impl Citations {
    /// Keeps what the open text cites.
    fn add<'a>(
        &mut self,
        citations: impl IntoIterator<Item = &'a Raw<'a>>,
        flow: &Flow,
    ) -> Result<(), Failure> {
        for citation in citations {
            let Some(page) = cited_page(*citation) else {
                continue;
            };
            if self.pages.len() >= MOST_CITATIONS {
                return Ok(());
            }
            let page = match flow.has_search() {
                true => page.with_native(citation.get()),
                false => page,
            };
            self.bytes = self.bytes.saturating_add(page.size());
            if self.bytes > MOST_WAITING {
                return Err(Broken);
            }
            self.pages.push(page);
        }
        Ok(())
    }
}

/// The longest input of a search, in bytes.
const MOST_INPUT: usize = 64 * 1024;

/// Whether a call of a tool of the provider's is a search of the web.
fn is_search(block: &Block<'_>) -> bool {
    block.name.is_some_and(|name| name.as_str() == "web_search")
}

/// The input of a search.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SearchInput<'a> {
    query: Option<RawText<'a>>,
}

impl OpenSearch {
    /// Its input, where the pieces in which it came make JSON.
    fn input(&self) -> Option<&str> {
        serde_json::from_str(&self.input).ok().map(RawValue::get)
    }

    /// The words that are searched for: contents of a string.
    fn query(&self) -> String {
        let input: Option<SearchInput<'_>> = self.input().and_then(|input| json::read(input).ok());
        let query = input.and_then(|input| input.query);
        query.unwrap_or_default().as_str().to_owned()
    }

    /// The search as the blocks that it was, with the one that holds its result.
    fn blob(&self, result: Raw<'_>) -> Option<Blob> {
        let input = self.input()?;
        if result.get().len() > MAX_PAYLOAD_BYTES {
            return None;
        }
        let mut out = Output::default();
        out.begin_array();
        out.item().begin_object();
        out.key("type").string("server_tool_use");
        out.key("id").string(&self.id);
        out.key("name").string("web_search");
        out.key("input").raw(input.as_bytes());
        if let Some(caller) = &self.caller {
            out.key("caller").raw(caller.as_bytes());
        }
        out.end_object();
        out.item().raw(result.get().as_bytes());
        out.end_array();
        blob(
            ReasoningForm::SearchBlocks,
            String::from_utf8(out.into_bytes()).ok()?,
        )
    }
}

/// Takes the provider's explanation as the text of the refusal, which other formats have.
fn explain(details: Option<&StopDetails<'_>>, flow: &mut Flow) -> Result<(), Failure> {
    let explanation = details.and_then(|details| details.explanation);
    flow.piece(
        Key::new(Kind::Refusal, u64::MAX, 0),
        explanation.unwrap_or_default(),
    )
}
