//! How many tokens a request has, by vocabularies and published rules.
//!
//! A pure library: it reads a body and gives a number, by the [`Rules`] of a family of models,
//! with the error to expect. The caller decides of which family a model is and on which thread a
//! body is counted.
//!
//! ```
//! use tollgate_count::{Family as _, Tokenizer, count};
//! use tollgate_types::Format;
//!
//! let body = br#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
//! let count = count(Format::Chat, body, &Tokenizer::Openai.rules());
//! assert_eq!(count.tokens, 8);
//! ```

#![forbid(unsafe_code)]

mod count;
mod delivered;
mod json;
mod media;
mod read;
mod round;
mod rules;
mod vocabulary;

pub use count::{Basis, Count, count};
pub use delivered::tokens_of_sample;
pub use media::{Detail, DocumentRule, ImageRule, Size};
pub use rules::{Digits, Family, Rules, ToolStyle};
pub use tollgate_types::Tokenizer;
pub use vocabulary::Vocabulary;
