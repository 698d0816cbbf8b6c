//! The operator's side: what can be done to keys (`operations`), and the listener with
//! metrics and health (`listener`).

mod listener;
pub mod operations;

pub use listener::{Readiness, bind, serve};
