//! Types that all parts of the gateway share: wire formats, error codes, token usage, identifiers
//! and facts of a request.
//!
//! This crate depends on `serde` alone, so that every other crate can depend on it.

#![forbid(unsafe_code)]

mod capabilities;
mod charge;
mod context;
mod conversation;
mod error;
mod format;
mod id;
mod identity;
mod input;
mod limits;
mod maybe_ready;
mod model;
mod money;
mod named;
mod prices;
mod request;
mod share;
mod shortage;
mod stored;
mod text;
mod tokenizer;
mod unit;
mod usage;
mod usage_details;
mod weight;

pub use capabilities::{
    Capabilities, ChatCapabilities, MessagesCapabilities, ResponsesCapabilities,
};
pub use charge::{
    AdmissionGuard, BillingState, ChargedBefore, CountSource, Ending, Least, ReservationGuard,
    Settled, UpperBound,
};
pub use context::ContextNumbers;
pub use conversation::{ConversationFacts, Script};
pub use error::{ErrorCode, ErrorType, PublicError, Unsupported};
pub use format::{Format, PerFormat};
pub use id::{KeyId, RequestId};
pub use identity::{Allowance, Identity};
pub use input::{InputCount, LARGEST_WINDOW, MOST_OF_A_MEDIUM, MOST_ROUNDS, is_free_of_tokens};
pub use limits::{Denied, Dimension, LimitHit, Limited, Limits};
pub use maybe_ready::MaybeReady;
pub use model::{Effort, MAX_MODEL_NAME_BYTES, ReasoningMode, Thinking, ThinkingStyle};
pub use money::{InvalidMoney, Money};
pub use prices::{LongPrompt, Prices, SpecialPrices};
pub use request::{
    AskedTier, LEAST_RESPONSES_OUTPUT, MediaFacts, NamedItem, OutputKind, RequestFacts,
    RequestNeeds, StoredId, ThinkingRoom,
};
pub use share::{KeyShares, Resource, Share, leaves_room};
pub use shortage::{Shortage, Unavailable};
pub use stored::{Claim, OwnerFailure, StoredAt};
pub use text::{hidden_character, is_hidden};
pub use tokenizer::Tokenizer;
pub use unit::{PerUnit, Rates, Tariff, Unit};
pub use usage::Usage;
pub use usage_details::{ProviderTool, ServiceTier, UsageDetails};
pub use weight::{Weight, Weights};
