//! How the target is asked to reason: with an effort, a budget, or nothing.
//!
//! It decides by the model's reasoning mode: `none` drops an effort with notice and refuses
//! a budget, `extended` always thinks, the others follow the request. The writers know the
//! names of the efforts on the wire.

use super::{
    conversation::{Conversation, Reasoning, ThinkingMode},
    scope::Scope,
};
use crate::{Refusal, Target};
use tollgate_types::{Effort, ReasoningMode};

/// The effort of `extended` models if the request asks for none.
pub(crate) const DEFAULT_EFFORT: Effort = Effort::Medium;

/// The field in which the caller asks for an effort.
pub(crate) const fn effort_field(asked: &Reasoning) -> &'static str {
    match asked.effort {
        Some(_) => asked.effort_field,
        None => "thinking",
    }
}

/// The effort for a provider that takes one, perhaps not beside tools.
///
/// # Errors
/// A budget is asked of a model that does not reason.
pub(crate) fn effort(
    conversation: &Conversation<'_>,
    scope: &mut Scope<'_>,
) -> Result<Option<Effort>, Refusal> {
    let asked = &conversation.reasoning;
    if scope.target.reasoning == ReasoningMode::None {
        return no_reasoning(asked, scope).map(|()| None);
    }
    let wanted = wanted(asked, scope);
    if !(scope.rules.has_effort_with_tools)(scope.target) && !conversation.tools.is_empty() {
        let Target {
            reasoning, efforts, ..
        } = *scope.target;
        let sent = beside_tools(wanted.is_some(), reasoning, efforts);
        if wanted.is_some() && wanted != sent {
            scope.note_dropped(effort_field(asked));
        }
        return Ok(sent);
    }
    let wanted = match wanted {
        None if scope.target.reasoning == ReasoningMode::Extended => Some(DEFAULT_EFFORT),
        wanted => wanted,
    };
    Ok(wanted.and_then(|wanted| fit(wanted, asked, scope)))
}

/// The effort of a request with tools for a provider that takes none beside them: `none`, if the model
/// has it, and its mode is to reason or an effort is asked for. Some models refuse tools if they may reason.
pub(crate) fn beside_tools(
    is_asked: bool,
    mode: ReasoningMode,
    efforts: &[Effort],
) -> Option<Effort> {
    let is_known = efforts.is_empty() || efforts.contains(&Effort::None);
    // Without a mode of its own the model is left to its default, which may take tools.
    let reasons = matches!(mode, ReasoningMode::Adaptive | ReasoningMode::Extended);
    (is_known && (is_asked || reasons)).then_some(Effort::None)
}

/// The effort that the caller asks for.
pub(crate) fn wanted(asked: &Reasoning, scope: &mut Scope<'_>) -> Option<Effort> {
    match asked.mode {
        Some(ThinkingMode::Disabled) => Some(Effort::None),
        Some(ThinkingMode::Enabled) => asked
            .effort
            .or(asked.budget.map(Effort::of_thinking_budget)),
        Some(ThinkingMode::Adaptive) => asked.effort.or(Some(Effort::High)),
        Some(ThinkingMode::BetweenTools) => {
            scope.note_dropped("thinking");
            Some(Effort::Low)
        }
        None => asked.effort,
    }
}

/// Whether the model reasons, as far as the catalog and the request show: a model that does not
/// refuses a request for its encrypted reasoning.
pub(crate) fn is_expected(
    conversation: &Conversation<'_>,
    effort: Option<Effort>,
    target: &Target<'_>,
) -> bool {
    let is_asked = effort.is_some_and(|effort| effort != Effort::None)
        || conversation.reasoning.shown == Some(true);
    reasons(target.reasoning, target.efforts)
        || is_asked && target.reasoning == ReasoningMode::ProviderDefault
}

/// Whether the model reasons, as far as the catalog shows.
fn reasons(mode: ReasoningMode, efforts: &[Effort]) -> bool {
    match mode {
        ReasoningMode::None => false,
        ReasoningMode::Adaptive | ReasoningMode::Extended => true,
        ReasoningMode::ProviderDefault => efforts.iter().any(|effort| *effort != Effort::None),
    }
}

/// What is asked of a model that does not reason: habits are dropped, budgets refused.
pub(crate) fn no_reasoning(asked: &Reasoning, scope: &mut Scope<'_>) -> Result<(), Refusal> {
    if asked.budget.is_some() {
        return Err(Refusal::new(
            "thinking.budget_tokens",
            "asks a model to think that does not: leave thinking out, or choose another model",
        ));
    }
    if asked.effort.is_some_and(|effort| effort != Effort::None) {
        scope.note_dropped(effort_field(asked));
    }
    if asked
        .mode
        .is_some_and(|mode| mode != ThinkingMode::Disabled)
    {
        scope.note_dropped("thinking");
    }
    Ok(())
}

/// The effort of the target's that comes nearest: none greater, if there is one.
pub(crate) fn fit(wanted: Effort, asked: &Reasoning, scope: &mut Scope<'_>) -> Option<Effort> {
    let known = scope.target.efforts;
    if known.is_empty() || known.contains(&wanted) {
        return Some(wanted);
    }
    scope.note_dropped(effort_field(asked));
    wanted.nearest(known)
}
