//! Names of tools: what the caller calls a tool, and what the target calls it.
//!
//! It decides how a name that the target cannot take (too long, with other characters, in a
//! namespace) is written there, and finds the caller's name again when the target calls the
//! tool. What a custom tool becomes is decided by the request half; here stands only that it
//! was one.

use sha2::{Digest as _, Sha256};
use std::{borrow::Cow, collections::HashMap};

/// The kind of a tool that a caller offers.
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
    /// Its kind in the request of the caller.
    pub kind: ToolKind,
}

/// Which names a target takes: of letters, digits, `_` and `-`, and no others.
#[derive(Clone, Copy, Debug)]
pub struct NameLimits {
    /// Bytes, at most.
    pub max_len: usize,
    /// Whether the first is a letter or `_`.
    pub starts_with_letter: bool,
}

impl NameLimits {
    /// Names of so many bytes, whatever they start with.
    pub const fn up_to(max_len: usize) -> Self {
        Self {
            max_len,
            starts_with_letter: false,
        }
    }

    pub(crate) fn allow(self, name: &[u8]) -> bool {
        (1..=self.max_len).contains(&name.len())
            && !(self.starts_with_letter && name.first().is_some_and(|it| !is_initial(*it)))
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    }
}

const fn is_initial(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// The tools of a request by both of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    targets: HashMap<ToolName, String>,
    callers: HashMap<String, ToolName>,
}

impl ToolNames {
    /// The target's name for a tool: `name` itself, or `<namespace>__<name>`, and where that
    /// is not within the limits or is another tool's, a shortened form that ends in a hash of the
    /// whole. The same tool always gets the same name.
    pub fn target_name<'a>(&mut self, tool: &'a ToolName, limits: NameLimits) -> Cow<'a, str> {
        if let Some(known) = self.targets.get(tool) {
            return known.clone().into();
        }
        let plain = match &tool.namespace {
            Some(namespace) => Cow::Owned(format!("{namespace}__{}", tool.name)),
            None => Cow::Borrowed(tool.name.as_str()),
        };
        let is_fit = limits.allow(plain.as_bytes()) && !self.callers.contains_key(plain.as_ref());
        let target = match is_fit {
            true => plain,
            false => Cow::Owned(hashed(&plain, tool, limits)),
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

/// As much of the name as fits, and a hash of everything that distinguishes the tool.
fn hashed(name: &str, tool: &ToolName, limits: NameLimits) -> String {
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
    let starts_well = name.bytes().next().is_some_and(is_initial);
    let initial = (limits.starts_with_letter && !starts_well).then_some('_');
    let kept = initial.into_iter().chain(kept);
    let most = limits.max_len.saturating_sub(HASH_LEN + 1);
    let mut target: String = kept.take(most).collect();
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
