//! Blocks of an answer on their way: what is known of one that is open, and of one that waits.

use crate::{
    answer::{
        arguments::{Arguments, CustomInput},
        parts::{Blob, Citation, Search, ToolCall},
    },
    fingerprint::Fingerprint,
};

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
    pub(super) tool: Option<OpenTool>,
    pub(super) citations: Vec<Citation>,
    /// The first half of a surrogate pair at the end of a delta, escaped, until the second half arrives.
    pub(super) half: String,
    /// Of a text that may cite what is sealed beside it.
    pub(super) fingerprint: Option<Fingerprint>,
}

/// The arguments of an open call, as far as they are known.
#[derive(Debug)]
pub(super) struct OpenTool {
    pub(super) arguments: Arguments,
    /// The provider knows the tool as custom: there are no arguments to check.
    pub(super) is_native_custom: bool,
    /// The caller knows the tool as custom and the provider as a function.
    pub(super) input: Option<CustomInput>,
}

/// A block that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) key: Key,
    pub(super) begun: Begun,
    pub(super) contents: String,
    pub(super) end: Option<Option<Blob>>,
    pub(super) found: Option<Search>,
    pub(super) citations: Vec<Citation>,
}

/// The facts about a block when it begins.
#[derive(Debug)]
pub(super) enum Begun {
    /// Nothing but its kind.
    Plain,
    /// The call, and whether its provider knows the tool as custom.
    Call(ToolCall, bool),
    /// The provider's id of the search.
    Search(String),
}

impl Begun {
    /// How much it holds, in bytes.
    pub(super) fn size(&self) -> usize {
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

impl Waiting {
    /// A block of which nothing but its beginning has come.
    pub(super) const fn new(key: Key, begun: Begun) -> Self {
        Self {
            key,
            begun,
            contents: String::new(),
            end: None,
            found: None,
            citations: Vec::new(),
        }
    }

    /// How much it holds beside its citations, in bytes.
    pub(super) fn size(&self) -> usize {
        let found = self.found.as_ref().map_or(0, Search::size);
        let blob = self.end.iter().flatten().map(Blob::size);
        let contents = self.contents.len().saturating_add(self.begun.size());
        blob.fold(contents.saturating_add(found), usize::saturating_add)
    }
}

impl OpenTool {
    /// The state of a block that is a call; `None` for other blocks.
    pub(super) fn of(begun: Begun) -> Option<Self> {
        let Begun::Call(call, is_native_custom) = begun else {
            return None;
        };
        Some(Self {
            arguments: Arguments::default(),
            is_native_custom,
            input: (call.is_custom && !is_native_custom).then(CustomInput::default),
        })
    }

    /// Arguments began and did not come to their end.
    pub(super) fn is_cut(&self) -> bool {
        let arguments = &self.arguments;
        !self.is_native_custom && !arguments.is_empty() && !arguments.is_over()
    }
}

impl Open {
    /// Whether the block may end when another one begins. Text may always: where more of it
    /// comes, that is a block of its own.
    pub(super) fn yields(&self) -> bool {
        match &self.tool {
            Some(tool) => tool.is_native_custom || tool.arguments.is_over(),
            None => self.key.kind != Kind::Search,
        }
    }
}
