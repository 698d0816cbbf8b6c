//! The conversation of a request, so that the request goes where its prompt cache is.
//!
//! The client can name it (a header, `prompt_cache_key`). Otherwise its beginning identifies it:
//! providers cache prefixes, and the next request of a conversation begins like the one before. The
//! hash includes the key's id, so that the routing of one key shows nothing about the requests of
//! another. Routing decides which candidate keeps a conversation.

use tollgate_routing::plan::hash_of;
use tollgate_wire::json::Span;
use tollgate_wire::peek::Spans;

/// Bytes of the beginning that count. Instructions come first and are long; what follows them
/// distinguishes conversations, so the end of the beginning counts as well.
const BYTES: u64 = 4 * 1024;

/// The length of an empty name with its quotes. It counts as no name, like an empty header.
const EMPTY_NAME: u64 = 2;

/// The hash of a conversation of a key that the client gives a name.
pub fn named(key: &[u8], name: &[u8]) -> u64 {
    hash_of(&[key, b"header", name])
}

/// The span of `prompt_cache_key`, with its quotes. `None` if it is absent, empty or longer than 4
/// KiB.
pub fn cache_key(spans: &Spans) -> Option<Span> {
    let is_name = |span: &Span| span.len() > EMPTY_NAME && span.len() <= BYTES;
    spans.cache_key.filter(is_name)
}

/// The hash of a conversation of a key whose requests have this `prompt_cache_key`, in pieces.
pub fn cached<'a>(key: &'a [u8], pieces: impl Iterator<Item = &'a [u8]>) -> u64 {
    in_pieces(key, b"cache", pieces)
}

fn in_pieces<'a>(key: &'a [u8], what: &'a [u8], pieces: impl Iterator<Item = &'a [u8]>) -> u64 {
    let parts = [key, what].into_iter().chain(pieces);
    hash_of(&[&parts.collect::<Vec<_>>().concat()])
}

/// The hash of a conversation of a key that begins with the span `whole`; `part` gives the pieces of
/// a span of the body.
pub fn beginning<'a, P: Iterator<Item = &'a [u8]>>(
    key: &'a [u8],
    whole: Span,
    part: impl Fn(Span) -> P,
) -> u64 {
    let mut first = whole;
    first.end = first.end.min(first.start.saturating_add(BYTES));
    let mut last = whole;
    last.start = first.end.max(last.end.saturating_sub(BYTES));
    let hash = |what, span| in_pieces(key, what, part(span));
    hash(b"first", first) ^ hash(b"last", last).rotate_left(1)
}
