//! The messages format.

pub(crate) mod answer_fields;
pub(crate) mod answer_reader;
pub(crate) mod answer_writer;
pub(crate) mod request_fields;
pub(crate) mod request_reader;
pub(crate) mod request_writer;
