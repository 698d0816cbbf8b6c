//! How a wish to reason is told to the target: an effort, a budget, or nothing.
//!
//! It decides by the model's reasoning mode: `none` drops an effort with notice and refuses
//! a budget, `extended` thinks without being asked, the others do as they are told. What the
//! efforts are called on the wire is for the writers.

use super::{
    conversation::{Choice, Conversation, Reasoning, ThinkingMode},
    scope::Scope,
};
use crate::{Refusal, Target};
use tollgate_types::{Effort, ReasoningMode, ThinkingRoom};

/// What `extended` thinks with when nobody says how much.
const DEFAULT_EFFORT: Effort = Effort::Medium;
/// The output limit where neither caller nor catalog gives one: every current model takes it.
const FALLBACK_LIMIT: u64 = 8192;

/// What a messages provider is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessagesPlan {
    pub(crate) thinking: Option<ThinkingSent>,
    pub(crate) effort: Option<Effort>,
    pub(crate) max_tokens: u64,
}

/// The value of `thinking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingSent {
    Adaptive,
    /// With so many tokens.
    Enabled(u64),
    Disabled,
}

impl MessagesPlan {
    /// Whether the model thinks, so that it takes no other sampling than its own.
    pub(crate) const fn thinks(&self) -> bool {
        matches!(
            self.thinking,
            Some(ThinkingSent::Adaptive | ThinkingSent::Enabled(_))
        )
    }
}

/// The field in which the caller asks for an effort.
const fn effort_field(asked: &Reasoning) -> &'static str {
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
    let wanted = match asked.mode {
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
    };
    let wanted = match wanted {
        None if scope.target.reasoning == ReasoningMode::Extended => Some(DEFAULT_EFFORT),
        wanted => wanted,
    };
    if !(scope.rules.has_effort_with_tools)(scope.target)
        && !conversation.tools.is_empty()
        && wanted.is_some()
    {
        if wanted != Some(Effort::None) {
            scope.note_dropped(effort_field(asked));
        }
        return Ok(Some(Effort::None));
    }
    Ok(wanted.and_then(|wanted| fit(wanted, asked, scope)))
}

/// Whether the model reasons, as far as the catalog and the request show: a model that does not
/// refuses a request for its encrypted reasoning.
pub(crate) fn is_expected(
    conversation: &Conversation<'_>,
    effort: Option<Effort>,
    target: &Target<'_>,
) -> bool {
    let reasons = |effort: &Effort| *effort != Effort::None;
    match target.reasoning {
        ReasoningMode::None => false,
        ReasoningMode::Adaptive | ReasoningMode::Extended => true,
        ReasoningMode::ProviderDefault => {
            effort.as_ref().is_some_and(reasons)
                || target.efforts.iter().any(reasons)
                || conversation.reasoning.shown == Some(true)
        }
    }
}

/// What a messages provider is told, by a caller of chat or responses.
pub(crate) fn messages(
    conversation: &Conversation<'_>,
    lost_thought: bool,
    scope: &mut Scope<'_>,
) -> Result<MessagesPlan, Refusal> {
    let most = scope.target.max_output_tokens;
    let asked_limit = conversation.limit;
    let held = scope.target.held_output.unwrap_or(u64::MAX);
    let max_tokens = match (asked_limit, most) {
        (Some(asked), Some(most)) => asked.min(most),
        (Some(asked), None) => asked,
        (None, most) => most.unwrap_or(FALLBACK_LIMIT).min(held),
    };
    let mut plan = MessagesPlan {
        max_tokens,
        ..MessagesPlan::default()
    };
    let asked = &conversation.reasoning;
    let mode = scope.target.reasoning;
    if mode == ReasoningMode::None {
        no_reasoning(asked, scope)?;
        return Ok(plan);
    }
    if asked.effort == Some(Effort::None) {
        if scope.target.messages.thinking_can_be_disabled {
            plan.thinking = Some(ThinkingSent::Disabled);
        } else {
            scope.note_dropped(effort_field(asked));
        }
        return Ok(plan);
    }
    let is_extended = mode == ReasoningMode::Extended;
    if asked.effort.is_none() && !is_extended {
        return Ok(plan);
    }
    if conversation.choice.is_some_and(Choice::is_forced) {
        // Messages refuses to think where a tool must be called.
        not_thought(asked, scope);
        return Ok(plan);
    }
    if scope.target.messages.adaptive_thinking {
        plan.thinking = Some(ThinkingSent::Adaptive);
        let at_least_low = asked.effort.map(|effort| effort.max(Effort::Low));
        plan.effort = at_least_low.and_then(|effort| fit(effort, asked, scope));
        return Ok(plan);
    }
    let wanted = asked.effort.unwrap_or(DEFAULT_EFFORT);
    let budget = wanted
        .thinking_budget()
        .unwrap_or(ThinkingRoom::LEAST_BUDGET);
    // More than the caller's limit is reserved for a model alone that thinks unasked.
    let ceiling = if is_extended {
        most.unwrap_or(u64::MAX).min(held)
    } else {
        max_tokens
    };
    // An answer that goes on after tools must repeat its thinking, which is lost here.
    let room = ThinkingRoom::within(budget, max_tokens, Some(ceiling)).filter(|_| !lost_thought);
    match room {
        Some(room) => {
            plan.thinking = Some(ThinkingSent::Enabled(room.budget));
            plan.max_tokens = room.limit;
        }
        None => not_thought(asked, scope),
    }
    Ok(plan)
}

/// A model that would think does not: what asked it to is named, or else that it does not.
fn not_thought(asked: &Reasoning, scope: &mut Scope<'_>) {
    scope.note_dropped(effort_field(asked));
}

/// What is asked of a model that does not reason: habits are dropped, budgets refused.
fn no_reasoning(asked: &Reasoning, scope: &mut Scope<'_>) -> Result<(), Refusal> {
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
fn fit(wanted: Effort, asked: &Reasoning, scope: &mut Scope<'_>) -> Option<Effort> {
    let known = scope.target.efforts;
    if known.is_empty() || known.contains(&wanted) {
        return Some(wanted);
    }
    scope.note_dropped(effort_field(asked));
    if wanted == Effort::None {
        return None;
    }
    let reasons = |effort: &&Effort| **effort != Effort::None;
    let below = known.iter().filter(|effort| **effort < wanted);
    let above = known.iter().filter(|effort| **effort > wanted);
    below.filter(reasons).max().or(above.min()).copied()
}
