//! A bounded look at a conversation, for `auto`: counts over at most the first and the last
//! 8 KiB of what was said, as it stands in the body.
//!
//! It decides what is counted; what the counts mean is decided in routing. Every byte is
//! looked at once and whatever it is leads somewhere, so that neither a cut within a
//! character or an escape nor a hostile text costs more than a wrong count.

mod scanner;
#[cfg(test)]
mod tests;
mod words;

use crate::{
    json::Span,
    peek::{BEGINNING_BYTES, Piece, Texts, Voice},
};
use bytes::Bytes;
use scanner::Scanner;
use std::hash::{DefaultHasher, Hasher};
use tollgate_types::ConversationFacts;

/// Bytes of the end of the conversation that are looked at.
const END_BYTES: u64 = 8 * 1024;
/// Bytes of the instructions, and of the first question, by which a conversation is known.
const NAME_BYTES: u64 = 2 * 1024;

/// Looks at the conversation of a body that was peeked with
/// [`texts`](crate::peek::Peeker::with_texts).
pub fn look(texts: &Texts, body: &[Bytes]) -> ConversationFacts {
    let mut scanner = Scanner::new();
    let end_of_first = scan_first(texts, body, &mut scanner);
    scan_last(texts, body, end_of_first, &mut scanner);
    ConversationFacts {
        messages: texts.messages,
        user_messages: texts.user_messages,
        tools: texts.tools,
        tool_traffic: texts.tool_traffic,
        text_bytes: texts.bytes,
        beginning: beginning(texts, body),
        sample: scanner.finish(),
    }
}

/// Scans the first pieces; returns the offset up to which the body has been looked at.
fn scan_first(texts: &Texts, body: &[Bytes], scanner: &mut Scanner) -> u64 {
    let mut left = BEGINNING_BYTES;
    let mut done = 0;
    for piece in texts.first() {
        let inside = inside(piece.span);
        let end = inside.end.min(inside.start.saturating_add(left));
        scan(*piece, Span { end, ..inside }, body, scanner);
        left = left.saturating_sub(end.saturating_sub(inside.start));
        done = end;
        if left == 0 {
            break;
        }
    }
    done
}

/// Scans the last pieces, as far as they stand behind `from`.
fn scan_last(texts: &Texts, body: &[Bytes], from: u64, scanner: &mut Scanner) {
    // The last piece of the beginning may go on beyond it.
    let rest = texts.first().last().copied();
    let mut left = END_BYTES;
    for piece in texts.last_backwards().chain(rest) {
        let inside = inside(piece.span);
        let start = inside
            .start
            .max(inside.end.saturating_sub(left))
            .max(from.min(inside.end));
        left = left.saturating_sub(inside.end.saturating_sub(start));
        scan(piece, Span { start, ..inside }, body, scanner);
        if left == 0 {
            return;
        }
    }
}

/// A string without its quotes.
fn inside(span: Span) -> Span {
    Span {
        start: span.start.saturating_add(1),
        end: span.end.saturating_sub(1).max(span.start.saturating_add(1)),
    }
}

fn scan(piece: Piece, span: Span, body: &[Bytes], scanner: &mut Scanner) {
    scanner.begin(matches!(piece.voice, Voice::User | Voice::Someone));
    for slice in slices(body, span) {
        scanner.push(slice);
    }
    scanner.end();
}

/// Names a conversation by its instructions and what the user said first.
fn beginning(texts: &Texts, body: &[Bytes]) -> u64 {
    let mut name = DefaultHasher::new();
    let mut add = |span: Span, left: u64| {
        let inside = inside(span);
        let end = inside.end.min(inside.start.saturating_add(left));
        for slice in slices(body, Span { end, ..inside }) {
            name.write(slice);
        }
        // What ends here and goes on there must not be what goes on here.
        name.write_u8(0xFF);
        left.saturating_sub(end.saturating_sub(inside.start))
    };
    if let Some(instructions) = texts.instructions {
        add(instructions, NAME_BYTES);
    }
    let mut left = NAME_BYTES;
    let question = texts
        .first()
        .iter()
        .take_while(|piece| matches!(piece.voice, Voice::User | Voice::Someone));
    let mut is_empty = true;
    for piece in question {
        is_empty = false;
        left = add(piece.span, left);
        if left == 0 {
            break;
        }
    }
    // Zero stands for no name.
    if is_empty { 0 } else { name.finish().max(1) }
}

/// The bytes of a body at `span`, in as many slices as chunks hold them.
fn slices(body: &[Bytes], span: Span) -> impl Iterator<Item = &[u8]> {
    let mut offset = 0_u64;
    body.iter().filter_map(move |chunk| {
        let begin = offset;
        offset = offset.saturating_add(chunk.len() as u64);
        let at =
            |place: u64| usize::try_from(place.clamp(begin, offset).saturating_sub(begin)).ok();
        let slice = chunk.get(at(span.start)?..at(span.end)?)?;
        (!slice.is_empty()).then_some(slice)
    })
}
