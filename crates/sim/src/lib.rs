//! A simulated provider: a server that speaks chat completions, responses and messages as
//! the real ones do, answers deterministically from the request alone, and fails in every
//! way that is ordered of it.
//!
//! It exists to develop and test against, and stands on no other part of the project, so
//! that what it proves is proved independently. The way through it: `server` takes
//! connections, `routes` finds the endpoint, a format (`chat`, `responses`, `messages`)
//! reads the request into an `ask`, `plan` decides the answer once, the format writes that
//! plan as JSON or as events, and `faults` sends it as [`orders`] say.

#![forbid(unsafe_code)]

mod answers;
mod ask;
mod body;
mod calls;
pub mod canned;
mod chat;
mod connection;
mod counters;
mod faults;
mod fields;
mod format;
mod messages;
pub mod orders;
mod plan;
mod replay;
mod responses;
mod routes;
mod schema;
mod search;
mod seed;
mod server;
mod sse;
mod store;
mod tokens;
mod vectors;
pub mod vendors;

pub use canned::Canned;
pub use counters::{Counters, Received};
pub use replay::{Recording, Recordings};
pub use server::{Handle, Sim, SimOptions};
