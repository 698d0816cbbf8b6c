//! Blocks of an answer on their way: the open one, and the queue of those that wait for it to end.

use super::MOST_WAITING;
use crate::{
    answer::{
        arguments::{Arguments, CustomInput},
        parts::{
            Blob, Citation,
            Failure::{self, Broken, Unfit},
            Search, ToolCall,
        },
        text::RawText,
    },
    fingerprint::Fingerprint,
};
use std::collections::VecDeque;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Refusal,
    Thinking,
    Tool,
    /// The provider's own search of the web.
    Search,
}

/// Where a block stands in the source: its kind and the indexes that its format gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) item: u64,
    pub(crate) part: u64,
}

impl Key {
    pub(crate) const fn new(kind: Kind, item: u64, part: u64) -> Self {
        Self { kind, item, part }
    }
}

/// The open block.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) key: Key,
    pub(super) content: Content,
    pub(super) citations: Vec<Citation>,
    /// The first half of a surrogate pair at the end of a delta, escaped, until the second half arrives.
    pub(super) half: String,
}

/// The content of an open block.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one block is open at a time")]
pub(super) enum Content {
    /// A text; its fingerprint if its citations are sealed beside it.
    Text(Option<Fingerprint>),
    /// A refusal, thinking, or the free text of a call.
    Unchecked,
    Arguments(CallArguments),
    Search,
}

/// The arguments of an open call, as far as they are known.
#[derive(Debug)]
pub(super) struct CallArguments {
    arguments: Arguments,
    /// The client knows the tool as custom and the provider as a function.
    input: Option<CustomInput>,
    /// The client's format takes objects only.
    needs_object: bool,
}

/// Blocks that wait for the open one to end, and citations that wait for their text to begin or end.
#[derive(Debug, Default)]
pub(super) struct Queue {
    blocks: VecDeque<Waiting>,
    /// Of a text that has not begun.
    pub(super) early_citations: Vec<Citation>,
    /// The size of the blocks and of all citations of texts that have not ended.
    bytes: usize,
}

/// A block that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) key: Key,
    pub(super) begun: Begun,
    pub(super) contents: String,
    pub(super) end: Option<End>,
    pub(super) citations: Vec<Citation>,
}

/// How a block ends.
#[derive(Debug)]
pub(super) enum End {
    /// Reasoning may end with what only its provider can read.
    Block(Option<Blob>),
    Search(Search),
}

/// The facts about a block when it begins.
#[derive(Debug)]
pub(super) enum Begun {
    /// Nothing but its kind.
    Plain,
    /// The call, and whether its provider writes free text.
    Call(ToolCall, bool),
    /// The provider's id of the search.
    Search(String),
}

impl Begun {
    /// How much it holds, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Call(call, _) => {
                let namespace = call.namespace.as_ref().map_or(0, String::len);
                let name = call.id.len().saturating_add(call.name.len());
                name.saturating_add(namespace)
            }
            Self::Search(id) => id.len(),
        }
    }
}

impl Queue {
    /// Blocks that wait, at most.
    const MOST_BLOCKS: usize = 256;

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, block: Waiting) -> Result<(), Failure> {
        if self.blocks.len() >= Self::MOST_BLOCKS {
            return Err(Unfit);
        }
        let size = block.size();
        self.blocks.push_back(block);
        self.hold(size)
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let block = self.blocks.pop_front()?;
        self.release(block.size());
        Some(block)
    }

    /// Whether the block at `key` waits and has not ended.
    pub(super) fn is_unended(&self, key: Key) -> bool {
        self.blocks.iter().any(|block| block.is_unended(key))
    }

    fn unended(&mut self, key: Key) -> Result<&mut Waiting, Failure> {
        let mut blocks = self.blocks.iter_mut();
        blocks.find(|block| block.is_unended(key)).ok_or(Broken)
    }

    pub(super) fn append(&mut self, key: Key, piece: RawText<'_>) -> Result<(), Failure> {
        self.unended(key)?.contents.push_str(piece.as_str());
        self.hold(piece.as_str().len())
    }

    pub(super) fn end(&mut self, key: Key, end: End) -> Result<(), Failure> {
        let size = end.size();
        self.unended(key)?.end = Some(end);
        self.hold(size)
    }

    /// The citations of the text at `key`, or those of the next text if that one does not wait.
    pub(super) fn citations(&mut self, key: Key) -> &mut Vec<Citation> {
        let mut blocks = self.blocks.iter_mut();
        match blocks.find(|block| block.key == key) {
            Some(block) => &mut block.citations,
            None => &mut self.early_citations,
        }
    }

    /// Counts bytes that are held from now on.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes <= MOST_WAITING {
            true => Ok(()),
            false => Err(Unfit),
        }
    }

    /// Discounts bytes that are no longer held.
    pub(super) const fn release(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Waiting {
    /// A block of which nothing but its beginning has come.
    pub(super) const fn new(key: Key, begun: Begun) -> Self {
        Self {
            key,
            begun,
            contents: String::new(),
            end: None,
            citations: Vec::new(),
        }
    }

    fn is_unended(&self, key: Key) -> bool {
        self.key == key && self.end.is_none()
    }

    /// How much it holds beside its citations, in bytes.
    fn size(&self) -> usize {
        let end = self.end.as_ref().map_or(0, End::size);
        let contents = self.contents.len().saturating_add(self.begun.size());
        contents.saturating_add(end)
    }
}

impl End {
    /// How much it holds, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Block(blob) => blob.as_ref().map_or(0, Blob::size),
            Self::Search(search) => search.size(),
        }
    }
}

impl CallArguments {
    pub(super) fn new(is_custom: bool, needs_object: bool) -> Self {
        Self {
            arguments: Arguments::default(),
            input: is_custom.then(CustomInput::default),
            needs_object,
        }
    }

    /// Reads a piece, and returns what of it the client gets.
    pub(super) fn push<'a>(
        &'a mut self,
        piece: RawText<'a>,
    ) -> Result<Option<RawText<'a>>, Failure> {
        self.arguments.push(piece);
        // A limit can cut an object short, but cannot turn it into another value.
        let must_be_object = self.input.is_some() || self.needs_object;
        if must_be_object && self.is_over() && !self.arguments.is_object() {
            return Err(Unfit);
        }
        Ok(match &mut self.input {
            Some(input) => Some(input.push(piece)).filter(|left| !left.is_empty()),
            None => Some(piece),
        })
    }

    pub(super) const fn is_over(&self) -> bool {
        self.arguments.is_over()
    }

    /// Whether they have begun and are not complete.
    pub(super) const fn is_cut(&self) -> bool {
        !self.arguments.is_empty() && !self.is_over()
    }

    /// Whether the client of a call that has ended cannot read the arguments.
    pub(super) fn is_bad(&self) -> bool {
        let is_known = self.arguments.is_object() || self.arguments.is_empty();
        match &self.input {
            Some(input) => !(is_known && input.is_whole()),
            None => self.needs_object && !is_known,
        }
    }

    /// Whether a call that has ended without arguments needs the text `{}` in the client's format.
    pub(super) const fn lacks_object(&self) -> bool {
        self.input.is_none() && !self.needs_object && self.arguments.is_empty()
    }
}

impl Open {
    /// Whether all of its arguments have come.
    pub(super) const fn has_all_arguments(&self) -> bool {
        matches!(&self.content, Content::Arguments(arguments) if arguments.is_over())
    }

    /// Whether the block may end when another one begins. Text may always: where more of it
    /// comes, that is a block of its own.
    pub(super) const fn yields(&self) -> bool {
        match &self.content {
            Content::Text(_) | Content::Unchecked => true,
            Content::Arguments(arguments) => arguments.is_over(),
            Content::Search => false,
        }
    }
}
