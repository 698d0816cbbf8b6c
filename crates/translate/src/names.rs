//! Names of tools: what the caller calls a tool, and what the target calls it.
//!
//! It decides how a name that the target cannot take (too long, in a namespace) is written
//! there, and finds the caller's name again when the target calls the tool. What a custom
//! tool becomes is decided by the request half; here stands only that it was one.

use std::borrow::Cow;

/// What kind of tool a caller offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// A function with a JSON schema.
    #[default]
    Function,
    /// Responses and chat: a tool that takes free text. Where the target has none, it is
    /// offered there as a function with one string, `input`.
    Custom,
}

/// A tool as the caller knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ToolName {
    /// The caller's name, without its namespace.
    pub name: String,
    /// Responses: the namespace that the tool stands in.
    pub namespace: Option<String>,
    /// What the caller offered it as.
    pub kind: ToolKind,
}

/// The tools of a request whose name or kind is another at the target. A tool that is not
/// in it goes by the same name on both sides and is a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    entries: Vec<(String, ToolName)>,
}

impl ToolNames {
    /// The longest name of a tool that chat and responses take, in bytes.
    pub const OPENAI_MAX_LEN: usize = 64;
    /// The longest name of a tool that messages takes, in bytes.
    pub const MESSAGES_MAX_LEN: usize = 128;

    /// The target's name for a tool: `name` itself, or `<namespace>__<name>`, and where that
    /// has other characters than `[a-zA-Z0-9_-]` or more than `max_len` bytes, a shortened
    /// form that ends in a hash of the whole. The same tool always gets the same name. Whatever
    /// differs from the caller's is remembered.
    pub fn target_name<'a>(&mut self, tool: &'a ToolName, max_len: usize) -> Cow<'a, str> {
        let _ = max_len;
        if tool.namespace.is_none() && tool.kind == ToolKind::Function {
            return Cow::Borrowed(&tool.name);
        }
        let target = match &tool.namespace {
            Some(namespace) => format!("{namespace}__{}", tool.name),
            None => tool.name.clone(),
        };
        if !self.entries.iter().any(|(_, known)| known == tool) {
            self.entries.push((target.clone(), tool.clone()));
        }
        Cow::Owned(target)
    }

    /// The caller's tool behind a name at the target; `None`: the same name, a function.
    pub fn caller_tool(&self, target_name: &str) -> Option<&ToolName> {
        let mut entries = self.entries.iter();
        entries.find_map(|(target, tool)| (target == target_name).then_some(tool))
    }
}
