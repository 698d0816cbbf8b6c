//! Rules: which models come first for which requests.

use super::settings::Conditions;
use crate::Model;
use std::sync::Arc;
use tollgate_settings::ByteSize;
use tollgate_types::{Effort, RequestFacts};

/// A rule of a profile.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// `rule` and its name or position, as in `x-route-reason` and metrics.
    pub(crate) label: Arc<str>,
    pub(crate) when: Conditions,
    /// In order of preference; all are candidates of the profile.
    pub(crate) models: Vec<Arc<Model>>,
}

impl Conditions {
    /// Whether every condition holds for a request.
    pub(super) fn hold(&self, facts: &RequestFacts) -> bool {
        let conversation = facts.conversation.as_deref().copied().unwrap_or_default();
        let is = |condition: Option<bool>, value: bool| condition.is_none_or(|it| it == value);
        let needs = &facts.needs;
        is_within(
            self.min_text.map(ByteSize::get),
            Some(facts.text_bytes),
            self.max_text.map(ByteSize::get),
        ) && is_within(
            self.min_messages,
            Some(conversation.messages),
            self.max_messages,
        ) && is_within(self.min_effort, effort(facts), self.max_effort)
            && is(self.tools, needs.tools)
            && is(self.images, needs.images)
            && is(self.documents, needs.documents)
            && is(self.audio, needs.audio)
            && is(self.code, conversation.code)
            && self.script.is_none_or(|it| it == conversation.script)
    }

    /// Whether there is no condition.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The property with two limits that no value meets.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        [
            ("text", is_empty(self.min_text, self.max_text)),
            ("messages", is_empty(self.min_messages, self.max_messages)),
            ("effort", is_empty(self.min_effort, self.max_effort)),
        ]
        .into_iter()
        .find_map(|(what, is_empty)| is_empty.then_some(what))
    }
}

/// The effort that a request asks for; a thinking budget counts as the effort that thinks as much.
fn effort(facts: &RequestFacts) -> Option<Effort> {
    let budget = facts.thinking_budget.map(Effort::of_thinking_budget);
    facts.effort.max(budget)
}

/// A value that is absent is within no limit.
fn is_within<T: Copy + PartialOrd>(least: Option<T>, value: Option<T>, most: Option<T>) -> bool {
    least.is_none_or(|least| value.is_some_and(|it| it >= least))
        && most.is_none_or(|most| value.is_some_and(|it| it <= most))
}

fn is_empty<T: Copy + PartialOrd>(least: Option<T>, most: Option<T>) -> bool {
    least.zip(most).is_some_and(|(least, most)| least > most)
}
