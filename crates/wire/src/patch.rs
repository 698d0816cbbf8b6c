//! Sets, renames and removes top-level members of a finished request body, as the configuration of a
//! provider says. The bytes between the patched members stay as they are.
//!
//! Which members may be patched is decided by `crates/routing`.

use crate::{
    json::{Container, JsonError, Lexer, Literal, Number, Sink, Span, Text, Want},
    splice::Splice,
};
use bytes::Bytes;

/// The longest name of a member that can be patched, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The body with the members of `set` (name and JSON value) and without those of `remove`. A member
/// that `set` names keeps its position; a missing one is inserted at the front. Each member of `rename`
/// gets its second name; of two members for one field the first is removed, unless the second is
/// `null`: a `null` limit must not replace a limit. `None` if the body is not a JSON object.
///
/// ```
/// use bytes::Bytes;
///
/// let body = Bytes::from_static(br#"{"model":"m", "max_tokens":5,"messages":[]}"#);
/// let set = [("anthropic_version".into(), r#""vertex-2023-10-16""#.into())];
/// let patched = tollgate_wire::patch::apply(&body, &set, &["model".into()], &[]).unwrap();
/// assert_eq!(
///     patched,
///     br#"{"anthropic_version":"vertex-2023-10-16","max_tokens":5,"messages":[]}"#.as_slice()
/// );
/// ```
pub fn apply(
    body: &Bytes,
    set: &[(Box<str>, Box<str>)],
    remove: &[Box<str>],
    rename: &[(Box<str>, Box<str>)],
) -> Option<Bytes> {
    let mut members = Members::default();
    let mut lexer = Lexer::new();
    lexer.feed(body, &mut members).ok()?;
    lexer.finish(&mut members).ok()?;
    let front = members.front?;
    let mut splice = Splice::default();
    let mut kept_before = false;
    let mut previous_end = front;
    let mut is_set = vec![false; set.len()];
    let has = |name: &str| members.found.iter().any(|member| member.name == name);
    let is_given = |name: &str| {
        let mut found = members.found.iter();
        found.any(|member| member.name == name && !member.is_null)
    };
    let mut all = members.found.iter().peekable();
    while let Some(member) = all.next() {
        let Span { start, end } = member.whole;
        let renamed = rename.iter().find(|(name, _)| **name == *member.name);
        let is_replaced = member.is_null
            && rename
                .iter()
                .any(|(name, other)| **other == *member.name && has(name));
        let is_superfluous = is_replaced || renamed.is_some_and(|(_, name)| is_given(name));
        if is_superfluous || remove.iter().any(|name| **name == *member.name) {
            let next = all.peek().map_or(end, |next| next.whole.start);
            let gap = match kept_before {
                true => Span {
                    start: previous_end,
                    end,
                },
                false => Span { start, end: next },
            };
            splice.replace(gap, Bytes::new());
        } else {
            kept_before = true;
            if let Some((_, name)) = renamed {
                let old = Span {
                    start,
                    end: member.key_end,
                };
                splice.replace(old, serde_json::Value::from(&**name).to_string());
            }
            let known = set
                .iter()
                .zip(&mut is_set)
                .find(|((name, _), _)| **name == *member.name);
            if let Some(((_, value), is_set)) = known {
                let old = Span {
                    start: member.value_start,
                    end,
                };
                splice.replace(old, value.to_string());
                *is_set = true;
            }
        }
        previous_end = end;
    }
    let missing = set.iter().zip(is_set).filter(|(_, is_set)| !is_set);
    let missing: Vec<_> = missing
        .map(|((name, value), _)| format!("{}:{value}", serde_json::Value::from(&**name)))
        .collect();
    if !missing.is_empty() {
        let comma = if kept_before { "," } else { "" };
        splice.insert(front, missing.join(",") + comma);
    }
    if splice.is_empty() {
        return Some(body.clone());
    }
    let spliced = splice.apply(std::slice::from_ref(body)).ok()?;
    Some(spliced.into_bytes())
}

/// The members of the top-level object.
#[derive(Default)]
struct Members {
    depth: u32,
    /// The offset after the opening brace.
    front: Option<u64>,
    found: Vec<Member>,
}

struct Member {
    /// Cut after [`MAX_NAME_BYTES`] and one more, so that a longer name matches none.
    name: String,
    /// From the key to the end of the value.
    whole: Span,
    key_end: u64,
    value_start: u64,
    is_null: bool,
}

impl Members {
    /// A value has begun and, unless it is a container, ended.
    fn value(&mut self, span: Span) {
        if self.depth == 1
            && let Some(member) = self.found.last_mut()
        {
            member.value_start = span.start;
            member.whole.end = span.end;
        }
    }
}

impl Sink for Members {
    type Error = JsonError;

    fn want_key(&mut self) -> Want {
        match self.depth {
            1 => Want::Prefix(MAX_NAME_BYTES + 1),
            _ => Want::Nothing,
        }
    }

    fn key(&mut self, key: Text<'_>) -> Result<(), JsonError> {
        if self.depth == 1 {
            self.found.push(Member {
                name: key.as_str().to_owned(),
                whole: key.span,
                key_end: key.span.end,
                value_start: key.span.end,
                is_null: false,
            });
        }
        Ok(())
    }

    fn string(&mut self, text: Text<'_>) -> Result<(), JsonError> {
        self.value(text.span);
        Ok(())
    }

    fn number(&mut self, number: Number<'_>) -> Result<(), JsonError> {
        self.value(number.span);
        Ok(())
    }

    fn literal(&mut self, literal: Literal, span: Span) -> Result<(), JsonError> {
        self.value(span);
        if self.depth == 1
            && let Some(member) = self.found.last_mut()
        {
            member.is_null = matches!(literal, Literal::Null);
        }
        Ok(())
    }

    fn begin(&mut self, container: Container, at: u64) -> Result<(), JsonError> {
        let inside = at.saturating_add(1);
        if self.depth == 0 && container == Container::Object {
            self.front = Some(inside);
        }
        self.value(Span {
            start: at,
            end: inside,
        });
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    fn end(&mut self, _container: Container, end: u64) -> Result<(), JsonError> {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 1
            && let Some(member) = self.found.last_mut()
        {
            member.whole.end = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
