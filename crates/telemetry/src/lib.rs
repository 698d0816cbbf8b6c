//! Metrics, log lines and the access log: one function per event. Also the clock that they share.

#![forbid(unsafe_code)]

pub mod access_log;
pub mod clock;
pub mod events;
pub mod recent;
