//! Names of tools: what the caller calls a tool, and what the target calls it.
//!
//! It decides how a name that the target cannot take (too long, with other characters, in a
//! namespace) is written there, and finds the caller's name again when the target calls the
//! tool. What a custom tool becomes is decided by the request half; here stands only that it
//! was one.

use sha2::{Digest as _, Sha256};
use std::{borrow::Cow, collections::HashMap};

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

/// The tools of a request by both of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    targets: HashMap<ToolName, String>,
    callers: HashMap<String, ToolName>,
}

impl ToolNames {
    /// The target's name for a tool: `name` itself, or `<namespace>__<name>`, and where that
    /// has other characters than `[a-zA-Z0-9_-]`, has more than `max_len` bytes, or is
    /// another tool's, a shortened form that ends in a hash of the whole. The same tool
    /// always gets the same name.
    pub fn target_name<'a>(&mut self, tool: &'a ToolName, max_len: usize) -> Cow<'a, str> {
        if let Some(known) = self.targets.get(tool) {
            return known.clone().into();
        }
        let plain = match &tool.namespace {
            Some(namespace) => Cow::Owned(format!("{namespace}__{}", tool.name)),
            None => Cow::Borrowed(tool.name.as_str()),
        };
        let is_fit = is_valid(&plain, max_len) && !self.callers.contains_key(plain.as_ref());
        let target = match is_fit {
            true => plain,
            false => Cow::Owned(hashed(&plain, tool, max_len)),
        };
        self.targets
            .insert(tool.clone(), target.clone().into_owned());
        self.callers
            .insert(target.clone().into_owned(), tool.clone());
        target
    }

    /// The caller's tool behind a name at the target; `None`: one that was not offered.
    pub fn caller_tool(&self, target_name: &str) -> Option<&ToolName> {
        self.callers.get(target_name)
    }
}

fn is_valid(name: &str, max_len: usize) -> bool {
    let mut bytes = name.bytes();
    (1..=max_len).contains(&name.len())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// As much of the name as fits, and a hash of everything that distinguishes the tool.
fn hashed(name: &str, tool: &ToolName, max_len: usize) -> String {
    const HASH_LEN: usize = 10;
    let mut hash = Sha256::new();
    for part in [tool.namespace.as_deref(), Some(&tool.name)] {
        hash.update(part.unwrap_or("\u{0}"));
        hash.update([0]);
    }
    hash.update([u8::from(tool.kind == ToolKind::Custom)]);
    let digest = hash.finalize();
    let kept = name.chars().map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '_',
    });
    let mut target: String = kept.take(max_len.saturating_sub(HASH_LEN + 1)).collect();
    target.push('_');
    for byte in digest.iter().take(HASH_LEN / 2) {
        for digit in [byte >> 4, byte & 0xf] {
            target.extend(char::from_digit(digit.into(), 16));
        }
    }
    target
}

#[cfg(test)]
mod tests;
