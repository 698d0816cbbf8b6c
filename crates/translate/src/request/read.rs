//! Readers: a request in one of the formats becomes a [`Conversation`](super::conversation::Conversation).

pub(crate) mod media;
pub(crate) mod openai;
pub(crate) mod rewrites;
pub(crate) mod search;
pub(crate) mod shared;
