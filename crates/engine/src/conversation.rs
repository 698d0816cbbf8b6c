//! Which conversation a request belongs to, so that it is asked where its prompt cache is.
//!
//! Decided by what the client says of it (a header, `prompt_cache_key`), else by how it
//! begins: what a provider caches is a prefix, and a conversation's next request begins as the
//! one before. The hash is mixed with the key's identifier, so that what one tenant sends
//! says nothing of where another's goes. Where a conversation is kept is decided by routing.

use tollgate_routing::plan::hash_of;
use tollgate_wire::json::Span;
use tollgate_wire::peek::Spans;

/// Bytes of the beginning that count. Instructions come first and are long; what follows them
/// distinguishes conversations, so the end of the beginning counts as well.
const BYTES: u64 = 4 * 1024;

/// Bytes of an empty name with its quotes: no name, as an empty header is none.
const EMPTY_NAME: u64 = 2;

/// The hash of a conversation of a key that the client gives a name.
pub fn named(key: &[u8], name: &[u8]) -> u64 {
    hash_of(&[key, b"header", name])
}

/// Where the `prompt_cache_key` of a request stands, quotes and all; `None` where there is none that
/// names a conversation.
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
