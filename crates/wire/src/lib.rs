//! What is said: the three wire formats, peeking, event streams, usage, errors

#![forbid(unsafe_code)]

pub mod answer;
pub mod body;
pub mod fault;
pub mod field_path;
pub mod json;
pub mod peek;
pub mod reasoning;
pub mod render;
pub mod sample;
pub mod splice;
pub mod stream;
pub mod usage;
