//! One folder for each wire format; the same files in each.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;
