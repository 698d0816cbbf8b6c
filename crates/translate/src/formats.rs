//! One folder for each wire format, with the same files in each, and what the rest of the crate
//! must know of a format. The rest names no format.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;

use crate::{
    features::TargetFeatures,
    table::{Kinds, Shape},
};
use tollgate_types::{Format, PerFormat};

/// What the rest of the crate must know of a format.
#[derive(Debug)]
pub(crate) struct FormatRules {
    /// The objects of a request, the body first.
    pub(crate) shapes: &'static [&'static Shape],
    /// The sets of kinds of objects in a request.
    pub(crate) kinds: &'static [&'static Kinds],
    /// What the format does, as a target, with the features of a conversation.
    pub(crate) features: &'static TargetFeatures,
}

static FORMATS: PerFormat<&FormatRules> = PerFormat {
    chat: &chat::RULES,
    responses: &responses::RULES,
    messages: &messages::RULES,
};

/// What the crate must know of a format.
pub(crate) fn rules(format: Format) -> &'static FormatRules {
    FORMATS[format]
}
