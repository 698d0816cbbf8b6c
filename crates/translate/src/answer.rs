//! The provider's answer, as the caller's.
//!
//! It decides what an answer means and how the caller's format says it: a reader for each
//! format takes the answer apart, whole or event by event, one flow puts the parts into an
//! order that every format can be written in, and a writer for each format writes them, as a
//! stream or whole. So six directions are three readers and three writers. Framing, phase,
//! usage, stop and faults are read by the wire crate.

pub(crate) mod arguments;
pub(crate) mod flow;
pub(crate) mod json;
pub(crate) mod logprobs;
pub(crate) mod parts;
pub(crate) mod read;
pub(crate) mod stops;
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod whole;
pub(crate) mod write;

pub use parts::AnswerContext;
pub use stream::StreamTranslator;
pub use whole::AnswerTranslator;
