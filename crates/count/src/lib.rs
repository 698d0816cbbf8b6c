//! How many tokens a request has: vocabularies, published rules, and what upstreams report.
//!
//! A pure library: it reads a body and gives a number, by the [`Rules`] of a family of models,
//! with the error to expect. A [`Fit`] per model learns from what its provider reports. Which
//! model is of which family, where a fit is kept and on which thread a body is counted is for
//! the caller to decide.
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
mod fit;
mod json;
mod media;
mod read;
mod round;
mod rules;
mod vocabulary;

pub use count::{Basis, Count, count};
pub use delivered::Delivered;
pub use fit::{Fit, FitError};
pub use media::{Detail, DocumentRule, ImageRule, Size};
pub use rules::{Digits, Family, Rules, ToolStyle};
pub use tollgate_types::Tokenizer;
pub use vocabulary::Vocabulary;
