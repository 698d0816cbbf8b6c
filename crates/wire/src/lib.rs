//! Reads and writes what clients and providers send: JSON in chunks, requests, answers, event
//! streams, usage and errors. `formats` has one file for each wire format; everything else is
//! shared by the formats and knows none of them by name.

#![forbid(unsafe_code)]

pub mod address;
pub mod answer;
pub mod body;
pub mod conversation;
pub mod document;
pub mod fault;
pub mod field_path;
mod formats;
pub mod headers;
pub mod json;
pub mod patch;
pub mod peek;
pub mod reasoning;
pub mod render;
pub mod splice;
pub mod stream;
pub mod usage;
