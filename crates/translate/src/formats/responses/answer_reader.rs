//! Reads answers of the responses format.

mod types;

use crate::answer::{
    flow::{Flow, Key, Kind},
    json::Raw,
    logprobs,
    parts::{
        Failure::{self, Broken},
        NativeCall,
    },
    read::{ReadAnswer, document, owned},
    text::RawText,
};
use serde::Deserialize;
use types::{Item, ItemKind, cited_page};

/// More items in one answer are absurd.
const MOST_ITEMS: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct ResponsesReader {
    /// The items that are open.
    items: Vec<OpenItem>,
    begun: usize,
}

#[derive(Clone, Copy, Debug)]
struct OpenItem {
    index: u64,
    kind: ItemKind,
    /// Something of its contents has come; then what is repeated at its end is known.
    has_contents: bool,
    /// The number of parts up to the last part with a delta.
    parts: u64,
    /// The part of the summary, or of the reasoning, that came last.
    last_part: Option<(PartKind, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    Summary,
    Reasoning,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: RawText<'a>,
    output_index: Option<u64>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    delta: Option<Raw<'a>>,
    logprobs: Option<Raw<'a>>,
    item: Option<Item<'a>>,
    annotation: Option<Raw<'a>>,
}

/// An event, for its item as it was written.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RawItem<'a> {
    item: Raw<'a>,
}

/// The last event of a stream, for the items of the whole answer.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Last<'a> {
    response: Option<LastResponse<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct LastResponse<'a> {
    output: Option<Vec<Raw<'a>>>,
}

/// A whole answer, for its items as they were written.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RawItems<'a> {
    output: Vec<Raw<'a>>,
}

/// A whole answer.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Response<'a> {
    #[serde(default)]
    status: RawText<'a>,
    output: Vec<Item<'a>>,
}

impl<'a> Event<'a> {
    /// The piece that it adds.
    fn piece(&self) -> Result<RawText<'a>, Failure> {
        self.delta.and_then(RawText::of).ok_or(Broken)
    }

    fn part_key(&self, kind: Kind) -> Result<Key, Failure> {
        let item = self.output_index.ok_or(Broken)?;
        Ok(Key::new(kind, item, self.content_index.unwrap_or(0)))
    }
}

impl ReadAnswer for ResponsesReader {
    fn event(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        /// The part of the name that all events have.
        const PREFIX: &str = "response.";
        let event: Event<'_> = document(data)?;
        let name = event.kind.as_str();
        match name.strip_prefix(PREFIX).unwrap_or(name) {
            "output_text.delta" => self.text(Kind::Text, &event, flow),
            "refusal.delta" => self.text(Kind::Refusal, &event, flow),
            "reasoning_summary_text.delta" => self.thinking(PartKind::Summary, &event, flow),
            "reasoning_text.delta" => self.thinking(PartKind::Reasoning, &event, flow),
            "function_call_arguments.delta" => self.contents(ItemKind::Function, &event, flow),
            "custom_tool_call_input.delta" => self.contents(ItemKind::Custom, &event, flow),
            "output_text.annotation.added" => {
                if let Some(annotation) = event.annotation {
                    cite(event.part_key(Kind::Text)?, annotation, flow)?;
                }
                Ok(())
            }
            "output_text.done" => flow.end(event.part_key(Kind::Text)?, None),
            "refusal.done" => flow.end(event.part_key(Kind::Refusal)?, None),
            "output_item.added" => self.begin(&event, flow),
            "completed" | "incomplete" => self.rest(data, flow),
            "output_item.done" => match (event.output_index, &event.item) {
                (Some(index), Some(item)) => {
                    self.note_unannounced(index);
                    match item.kind() {
                        ItemKind::Search => {
                            self.found(index, item, document::<RawItem<'_>>(data)?.item, flow)
                        }
                        _ => self.end(index, item, flow),
                    }
                }
                _ => Err(Broken),
            },
            "ping" => {
                flow.keep_alive();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn body(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let answer: Response<'_> = document(data)?;
        // One that is still running has no answer yet, a cancelled one never will.
        if matches!(
            answer.status.as_str(),
            "queued" | "in_progress" | "cancelled"
        ) {
            return Err(Broken);
        }
        let raw: RawItems<'_> = document(data)?;
        for ((item, raw), index) in answer.output.iter().zip(raw.output).zip(0..) {
            self.whole(index, item, raw, flow)?;
        }
        Ok(())
    }

    /// The last event was too large to be read: without it nothing may be missing.
    fn unread_end(&self) -> Result<(), Failure> {
        match self.begun {
            0 => Err(Broken),
            _ => Ok(()),
        }
    }
}

impl ResponsesReader {
    /// Reads the items of the last event: all if no event before it had any, otherwise those that have not ended.
    fn rest(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let reads_all = self.begun == 0;
        if !reads_all && self.items.is_empty() {
            return Ok(());
        }
        let last: Last<'_> = document(data)?;
        let items = last.response.and_then(|it| it.output).unwrap_or_default();
        for (raw, index) in items.into_iter().zip(0..) {
            let item: Item<'_> = document(raw.get())?;
            let is_item = |open: &OpenItem| open.index == index && open.kind == item.kind();
            if reads_all || self.items.iter().any(is_item) {
                self.whole(index, &item, raw, flow)?;
            }
        }
        Ok(())
    }

    /// Reads an item that is whole.
    fn whole(
        &mut self,
        index: u64,
        item: &Item<'_>,
        raw: Raw<'_>,
        flow: &mut Flow,
    ) -> Result<(), Failure> {
        match item.kind() {
            ItemKind::Search => self.found(index, item, raw, flow),
            _ => self.end(index, item, flow),
        }
    }

    /// Ends a search of the web. A search that the request did not allow is left out.
    fn found(
        &mut self,
        index: u64,
        item: &Item<'_>,
        raw: Raw<'_>,
        flow: &mut Flow,
    ) -> Result<(), Failure> {
        let place = self.items.iter().position(|open| open.index == index);
        match place {
            Some(place) => drop(self.items.remove(place)),
            None => search(index, item, flow)?,
        }
        match flow.has_search() {
            true => flow.found(Key::new(Kind::Search, index, 0), item.search(raw)),
            false => Ok(()),
        }
    }

    fn begin(&mut self, event: &Event<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let (Some(index), Some(item)) = (event.output_index, &event.item) else {
            return Err(Broken);
        };
        self.open(index, item.kind())?;
        match item.kind() {
            ItemKind::Search => search(index, item, flow),
            _ => call(index, item, flow),
        }
    }

    /// Counts an item that ends without having begun, so that the last event does not repeat it.
    fn note_unannounced(&mut self, index: u64) {
        if !self.items.iter().any(|item| item.index == index) {
            self.begun = self.begun.saturating_add(1);
        }
    }

    /// Notes an item that begins, or that is heard of for the first time.
    fn open(&mut self, index: u64, kind: ItemKind) -> Result<&mut OpenItem, Failure> {
        self.begun = self.begun.saturating_add(1);
        if self.begun > MOST_ITEMS || self.items.iter().any(|item| item.index == index) {
            return Err(Broken);
        }
        self.items.push(OpenItem {
            index,
            kind,
            has_contents: false,
            parts: 0,
            last_part: None,
        });
        self.items.last_mut().ok_or(Broken)
    }

    /// The open item that an event is about.
    fn item(&mut self, kind: ItemKind, event: &Event<'_>) -> Result<&mut OpenItem, Failure> {
        let index = event.output_index.ok_or(Broken)?;
        let place = self.items.iter().position(|item| item.index == index);
        let item = match place {
            Some(place) => self.items.get_mut(place).ok_or(Broken)?,
            // A call must have named its tool before.
            None if matches!(kind, ItemKind::Message | ItemKind::Reasoning) => {
                self.open(index, kind)?
            }
            None => return Err(Broken),
        };
        match item.kind == kind {
            true => Ok(item),
            false => Err(Broken),
        }
    }

    fn text(&mut self, kind: Kind, event: &Event<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let piece = event.piece()?;
        let item = self.item(ItemKind::Message, event)?;
        if !piece.is_empty() {
            // Without an index it is unknown which parts have come.
            let index = event.content_index;
            let parts = index.map_or(u64::MAX, |index| index.saturating_add(1));
            item.parts = item.parts.max(parts);
        }
        flow.logprobs(&logprobs::entries(event.logprobs)?);
        flow.piece(event.part_key(kind)?, piece)
    }

    /// Parts of a summary and of the reasoning itself follow each other as paragraphs.
    fn thinking(
        &mut self,
        kind: PartKind,
        event: &Event<'_>,
        flow: &mut Flow,
    ) -> Result<(), Failure> {
        let piece = event.piece()?;
        if piece.is_empty() {
            return Ok(());
        }
        let part = event.summary_index.or(event.content_index).unwrap_or(0);
        let item = self.item(ItemKind::Reasoning, event)?;
        let last = item.last_part.replace((kind, part));
        item.has_contents = true;
        let key = Key::new(Kind::Thinking, item.index, 0);
        if last.is_some_and(|last| last != (kind, part)) {
            flow.piece(key, PARAGRAPH)?;
        }
        flow.piece(key, piece)
    }

    fn contents(
        &mut self,
        kind: ItemKind,
        event: &Event<'_>,
        flow: &mut Flow,
    ) -> Result<(), Failure> {
        let piece = event.piece()?;
        let item = self.item(kind, event)?;
        item.has_contents |= !piece.is_empty();
        flow.arguments(Key::new(Kind::Tool, item.index, 0), piece)
    }

    /// Ends an item, of which perhaps nothing was heard before.
    fn end(&mut self, index: u64, item: &Item<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let place = self.items.iter().position(|open| open.index == index);
        let (has_contents, parts) = match place.map(|place| self.items.remove(place)) {
            Some(open) => (open.has_contents, open.parts),
            None => {
                call(index, item, flow)?;
                (false, 0)
            }
        };
        match item.kind() {
            ItemKind::Message => end_message(index, item, parts, flow),
            ItemKind::Reasoning => {
                let key = Key::new(Kind::Thinking, index, 0);
                if !has_contents {
                    whole_reasoning(key, item, flow)?;
                }
                flow.end(key, item.blob())
            }
            ItemKind::Function | ItemKind::Custom => {
                let key = Key::new(Kind::Tool, index, 0);
                if !has_contents {
                    flow.arguments(key, RawText::escaped(&item.contents()))?;
                }
                flow.end(key, None)
            }
            ItemKind::Search | ItemKind::Other => Ok(()),
        }
    }
}

/// An empty line, escaped.
const PARAGRAPH: RawText<'static> = RawText::escaped("\\n\\n");

/// Begins the call that an item is, where it is one.
fn call(index: u64, item: &Item<'_>, flow: &mut Flow) -> Result<(), Failure> {
    let is_custom = match item.kind() {
        ItemKind::Function => false,
        ItemKind::Custom => true,
        _ => return Ok(()),
    };
    flow.call(
        Key::new(Kind::Tool, index, 0),
        NativeCall {
            id: item.call_id.unwrap_or_default(),
            name: item.name.unwrap_or_default(),
            is_custom,
        },
    )
}

/// Begins the search that an item is.
fn search(index: u64, item: &Item<'_>, flow: &mut Flow) -> Result<(), Failure> {
    match flow.has_search() {
        true => flow.search(Key::new(Kind::Search, index, 0), owned(item.id)),
        false => Ok(()),
    }
}

/// Hands on what a text cites, where it cites a page.
fn cite(key: Key, annotation: Raw<'_>, flow: &mut Flow) -> Result<(), Failure> {
    if let Some(page) = cited_page(annotation) {
        let page = match flow.has_search() {
            true => page.with_native(annotation.get()),
            false => page,
        };
        flow.cite(key, page)?;
    }
    Ok(())
}

/// Ends the parts of a message, and reads the parts after the first `known`, which had no deltas.
fn end_message(index: u64, item: &Item<'_>, known: u64, flow: &mut Flow) -> Result<(), Failure> {
    for (part, place) in item.content.iter().flatten().zip(0..) {
        let text = Key::new(Kind::Text, index, place);
        let refusal = Key::new(Kind::Refusal, index, place);
        if place < known {
            flow.end(text, None)?;
            flow.end(refusal, None)?;
            continue;
        }
        flow.logprobs(&logprobs::entries(part.logprobs)?);
        flow.piece(text, part.text.unwrap_or_default())?;
        for annotation in part.annotations.iter().flatten() {
            cite(text, *annotation, flow)?;
        }
        flow.end(text, None)?;
        flow.piece(refusal, part.refusal.unwrap_or_default())?;
        flow.end(refusal, None)?;
    }
    Ok(())
}

fn whole_reasoning(key: Key, item: &Item<'_>, flow: &mut Flow) -> Result<(), Failure> {
    let mut is_first = true;
    for text in item.thinking() {
        if !std::mem::take(&mut is_first) {
            flow.piece(key, PARAGRAPH)?;
        }
        flow.piece(key, text)?;
    }
    Ok(())
}
