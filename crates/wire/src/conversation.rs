//! What `auto` looks at in a conversation: how it begins, how many messages it has, and whether
//! the user's last message has code in it and in which script it is. The look is bounded, and no
//! text is kept.

#[cfg(test)]
mod tests;

use crate::{
    json::{self, Span},
    peek::Texts,
};
use bytes::Bytes;
use std::hash::{DefaultHasher, Hasher};
use tollgate_types::{ConversationFacts, Script};

/// Bytes of the user's last message that are looked at.
const LAST_BYTES: u64 = 16 * 1024;
/// Bytes of the instructions, and of the first question, that identify a conversation.
const BEGINNING_BYTES: u64 = 2 * 1024;
/// Begins and ends a block of code in Markdown.
const FENCE: &str = "```";

/// Inspects a body that was peeked with [`with_texts`](crate::peek::Peeker::with_texts).
pub fn inspect(texts: &Texts, body: &[Bytes]) -> ConversationFacts {
    let mut last = String::new();
    let mut source = Vec::new();
    for piece in up_to(&texts.last, LAST_BYTES) {
        source.clear();
        source.extend(slices(body, piece).flatten());
        // The bound may cut a character.
        let whole = source
            .utf8_chunks()
            .next()
            .map_or("", |chunk| chunk.valid());
        last.push_str(&json::unescape(whole.as_bytes(), usize::MAX));
        last.push('\n');
    }
    ConversationFacts {
        messages: texts.messages,
        beginning: beginning(texts, body),
        code: last.contains(FENCE),
        script: script(&last),
    }
}

/// The script of a text: not Latin if a third of the letters are not. A text without letters counts
/// as Latin.
fn script(text: &str) -> Script {
    let (mut latin, mut other) = (0_usize, 0_usize);
    for letter in text.chars().filter(|it| it.is_alphabetic()) {
        match letter {
            ..'\u{250}' | '\u{1e00}'..'\u{1f00}' => latin += 1,
            _ => other += 1,
        }
    }
    match other > 0 && other * 2 >= latin {
        true => Script::NotLatin,
        false => Script::Latin,
    }
}

/// Identifies a conversation by its instructions and its first question.
fn beginning(texts: &Texts, body: &[Bytes]) -> u64 {
    if texts.question.is_empty() {
        // Zero stands for no identity.
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    let instructions = texts.instructions.as_slice();
    for part in [instructions, &texts.question] {
        for piece in up_to(part, BEGINNING_BYTES) {
            slices(body, piece).for_each(|slice| hasher.write(slice));
            // Separates texts, so that moving a boundary changes the identity.
            hasher.write_u8(0xFF);
        }
    }
    hasher.finish().max(1)
}

/// The texts without their quotes, up to so many bytes in all.
fn up_to(texts: &[Span], bytes: u64) -> impl Iterator<Item = Span> {
    texts.iter().scan(bytes, |left, text| {
        let start = text.start.saturating_add(1);
        let end = text.end.saturating_sub(1).max(start);
        let end = end.min(start.saturating_add(*left));
        let is_over = *left == 0;
        *left = left.saturating_sub(end.saturating_sub(start));
        (!is_over).then_some(Span { start, end })
    })
}

/// The bytes of a body at `span`, in as many slices as there are chunks.
fn slices(body: &[Bytes], span: Span) -> impl Iterator<Item = &[u8]> {
    let mut offset = 0_u64;
    body.iter().filter_map(move |chunk| {
        let begin = offset;
        offset = offset.saturating_add(chunk.len() as u64);
        let at = |position: u64| {
            usize::try_from(position.clamp(begin, offset).saturating_sub(begin)).ok()
        };
        let slice = chunk.get(at(span.start)?..at(span.end)?)?;
        (!slice.is_empty()).then_some(slice)
    })
}
