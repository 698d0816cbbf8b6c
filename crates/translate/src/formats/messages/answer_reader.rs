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
    /// Its input, and the caller that it names: JSON.
    input: String,
    caller: Option<String>,
}

#[derive(Debug)]
struct OpenBlock {
    index: u64,
    /// `None`: a block of a kind that no other format has.
    kind: Option<Kind>,
    signature: String,
    redacted: Option<Blob>,
    citations: Vec<Citation>,
    /// Bytes that they hold.
    cited: usize,
    /// The input, where it came with the block's start instead of in pieces; of a search all
    /// of it. Contents of a string.
    input: String,
    search: Option<Box<OpenSearch>>,
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
        let kind = match block.kind.as_str() {
            "text" => Some(Kind::Text),
            "thinking" | "redacted_thinking" => Some(Kind::Thinking),
            "tool_use" => Some(Kind::Tool),
            "server_tool_use" if flow.has_search() && is_search(block) => Some(Kind::Search),
            _ => None,
        };
        self.open = Some(OpenBlock {
            index,
            kind,
            signature: owned(block.signature),
            redacted: block
                .blob()
                .filter(|blob| blob.form == ReasoningForm::Redacted),
            citations: Vec::new(),
            cited: 0,
            input: String::new(),
            search: None,
        });
        let Some(kind) = kind else { return Ok(()) };
        let key = Key::new(kind, index, 0);
        match kind {
            Kind::Text => {
                self.cite(block.citations.iter().flatten(), flow)?;
                flow.piece(key, block.text.unwrap_or_default())
            }
            Kind::Search => self.search(key, block, flow),
            Kind::Thinking => flow.piece(key, block.thinking.unwrap_or_default()),
            Kind::Tool => self.call(key, block, flow),
            Kind::Refusal => Ok(()),
        }
    }

    fn call(&mut self, key: Key, block: &Block<'_>, flow: &mut Flow) -> Result<(), Failure> {
        if let (Some(open), Some(input)) = (&mut self.open, block.input) {
            open.input = read::arguments(input).into_owned();
        }
        let call = NativeCall {
            id: block.id.unwrap_or_default(),
            name: block.name.unwrap_or_default(),
            is_custom: false,
        };
        flow.call(key, call)
    }

    /// Keeps what the open text cites.
    fn cite<'a>(
        &mut self,
        citations: impl IntoIterator<Item = &'a Raw<'a>>,
        flow: &Flow,
    ) -> Result<(), Failure> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        for citation in citations {
            let Some(page) = cited_page(*citation) else {
                continue;
            };
            if open.citations.len() >= MOST_CITATIONS {
                return Ok(());
            }
            let page = match flow.has_search() {
                true => page.with_native(citation.get()),
                false => page,
            };
            open.cited = open.cited.saturating_add(page.size());
            if open.cited > MOST_WAITING {
                return Err(Broken);
            }
            open.citations.push(page);
        }
        Ok(())
    }

    /// Begins a search of the web.
    fn search(&mut self, key: Key, block: &Block<'_>, flow: &mut Flow) -> Result<(), Failure> {
        /// More searches in one answer, with no results, are absurd.
        const MOST: usize = 64;
        if self.searches.len() >= MOST {
            return Err(Broken);
        }
        let input = block.input.filter(|it| read::has_members(*it));
        let input = input.map(read::arguments).unwrap_or_default();
        let id = owned(block.id);
        let caller = block.caller.map_or(0, |caller| caller.get().len());
        if id.len() > LONGEST_ID || caller > LONGEST_ID || input.len() > MOST_INPUT {
            return Err(Broken);
        }
        if let Some(open) = &mut self.open {
            open.input = input.into_owned();
            open.search = Some(Box::new(OpenSearch {
                key,
                id: id.clone(),
                input: String::new(),
                caller: block.caller.map(|caller| caller.get().to_owned()),
            }));
        }
        flow.search(key, id)
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
            ("input_json_delta", Kind::Search) => {
                let piece = delta.partial_json.unwrap_or_default();
                open.input.push_str(piece.as_str());
                match open.input.len() <= MOST_INPUT {
                    true => Ok(()),
                    false => Err(Broken),
                }
            }
            ("signature_delta", Kind::Thinking) => {
                let piece = delta.signature.unwrap_or_default().unescape();
                open.signature.push_str(&piece);
                match open.signature.len() <= MAX_PAYLOAD_BYTES {
                    true => Ok(()),
                    false => Err(Broken),
                }
            }
            ("citations_delta", Kind::Text) => self.cite(&delta.citation, flow),
            ("text_delta" | "thinking_delta" | "input_json_delta", _) => Err(Broken),
            _ => Ok(()),
        }
    }

    fn end(&mut self, flow: &mut Flow) -> Result<(), Failure> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let Some(kind) = open.kind else { return Ok(()) };
        let key = Key::new(kind, open.index, 0);
        if let Some(search) = open.search {
            let input = RawText::escaped(&open.input).unescape().into_owned();
            self.searches.push(OpenSearch { input, ..*search });
            return Ok(());
        }
        if kind == Kind::Tool {
            flow.arguments(key, RawText::escaped(&open.input))?;
        }
        for citation in open.citations {
            flow.cite(key, citation)?;
        }
        let signature = blob(ReasoningForm::Signature, open.signature);
        let blob = open.redacted.or(signature);
        flow.end(key, blob.filter(|_| kind == Kind::Thinking))
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
