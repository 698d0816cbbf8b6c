//! Any client, any model: translation between chat completions, responses, messages and Gemini, to
//! these and to Converse, and of the answers back.
//!
//! This crate decides what a request or an answer means in another format. It does no I/O,
//! knows no catalog and no provider: the caller says what the target can do. What it does
//! with each field of each format stands in one [table], from which readers, tests and
//! `docs/reference/translation.md` are driven: a field is carried, mapped, refused by its name or
//! dropped with notice, and never lost without notice.
//!
//! - [`request()`] makes the target's request of the caller's, and [`TranslationNotes`]: what must
//!   be remembered until the answer comes.
//! - [`StreamTranslator`] and [`AnswerTranslator`] make the caller's answer of the target's, as
//!   it comes or whole.
//! - [`references`] puts what the gateway remembers into a request that refers to it.
//! - [`without_seals`] takes sealed reasoning out of a body that needs no translation.
//! - [`within_capabilities`] makes such a body fit what its provider accepts.
//! - [`ThinkingObstacles`] are what of such a body is in the way of thinking, and [`with_default_effort`] asks
//!   models for it that always think.
//! - [`embeddings_request`] and [`embeddings_answer`] do the same for embeddings in other APIs.
//! - [`names`] maps names of tools that the target cannot take; [`seal`] carries reasoning
//!   through a caller that belongs to another provider.

#![forbid(unsafe_code)]

mod answer;
mod capabilities;
mod default_effort;
mod embeddings;
pub mod features;
mod fingerprint;
mod formats;
pub mod names;
mod notes;
pub mod output;
pub mod references;
mod refusal;
pub mod request;
pub mod seal;
pub mod table;
mod target;
mod unsealed;

pub use tollgate_wire::document;

pub use answer::{AnswerContext, AnswerTranslator, StreamTranslator};
pub use capabilities::{
    Fitted, ModelReasoning, lacks_any, needs_custom_tools, sampling_settings, within_capabilities,
    without_refused, without_sampling,
};
pub use default_effort::{AcceptedEfforts, with_default_effort};
pub use embeddings::{
    EmbeddingsFormat, EmbeddingsNotes, EmbeddingsRequest, embeddings_answer, embeddings_request,
    most_embeddings_memory, with_usage,
};
pub use formats::messages::thinking::{ThinkingObstacles, without_members};
pub use notes::{
    AnswerCheck, AskedReasoning, AskedSearch, CallIds, Json, MemoryNotes, ResponsesEcho,
    TranslationNotes,
};
pub use refusal::Refusal;
pub use request::{Translated, most_memory, request};
pub use target::{AnswerMemory, Lossy, Strict, Target};
pub use unsealed::{Unsealed, without_seals};
