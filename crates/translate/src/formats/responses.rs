//! The responses format.

pub(crate) mod answer_fields;
pub(crate) mod answer_reader;
pub(crate) mod answer_writer;
pub(crate) mod features;
pub(crate) mod request_fields;
pub(crate) mod request_reader;
pub(crate) mod request_writer;

use super::FormatRules;

pub(crate) static RULES: FormatRules = FormatRules {
    shapes: request_fields::SHAPES,
    kinds: request_fields::KINDS,
    features: &features::FEATURES,
};
