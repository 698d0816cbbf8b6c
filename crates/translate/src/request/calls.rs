//! Calls of tools and their results, in the order that every target asks for: the results
//! of an answer's calls right after it, each once.
//!
//! It decides what is refused (a result without its call, a call without its result) and
//! puts results that came late in their place.

use super::{
    conversation::{Block, Conversation, Role, Turn},
    scope::{Scope, shown},
};
use crate::{Refusal, document::Text};
use std::{borrow::Cow, collections::HashSet};

/// Checks calls and results, and moves the results right after the calls.
///
/// # Errors
/// A result has no call before it, or a call has no result.
pub(super) fn settle(
    conversation: &mut Conversation<'_>,
    scope: &Scope<'_>,
) -> Result<(), Refusal> {
    let mut at = 0;
    while let Some(turn) = conversation.turns.get(at) {
        let calls: HashSet<Cow<'_, str>> = turn
            .blocks
            .iter()
            .filter_map(call_id)
            .map(Text::decode)
            .collect();
        if calls.is_empty() {
            if let Some(id) = turn.blocks.iter().find_map(result_id) {
                let message = format!(
                    "answers the call '{}', which the message before it does not make",
                    shown(id)
                );
                return Err(refuse_turn(turn, scope, message));
            }
            at += 1;
            continue;
        }
        at = answer(conversation, at, calls, scope)?;
    }
    Ok(())
}

/// Finds the results of the calls in the turn at `at`; returns the next turn to look at.
fn answer<'d>(
    conversation: &mut Conversation<'d>,
    at: usize,
    mut calls: HashSet<Cow<'d, str>>,
    scope: &Scope<'_>,
) -> Result<usize, Refusal> {
    let turns = &mut conversation.turns;
    let after = at.saturating_add(1);
    let mut late: Vec<Block<'d>> = Vec::new();
    let mut end = after;
    while let Some(turn) = turns.get_mut(end) {
        if turn.role == Role::Assistant {
            break;
        }
        if let Some(stray) = strike_off(&mut calls, turn) {
            let message = format!("answers the call '{stray}', which is not open");
            return Err(refuse_turn(turn, scope, message));
        }
        if end > after || turn.role != Role::User {
            let is_result = |block: &mut Block<'d>| matches!(block, Block::Result(_));
            late.extend(turn.blocks.extract_if(.., is_result));
        }
        end += 1;
        if calls.is_empty() {
            break;
        }
    }
    if let Some(turn) = turns.get(at).filter(|_| !calls.is_empty()) {
        let mut ids = turn.blocks.iter().filter_map(call_id);
        let open = ids.find(|id| calls.contains(id.decode().as_ref()));
        let open = open.map(shown).unwrap_or_default();
        let message = format!("calls '{open}', and no result follows");
        return Err(refuse_turn(turn, scope, message));
    }
    if !late.is_empty() {
        let before = turns.len();
        put_after(turns, after, late);
        end += turns.len().saturating_sub(before);
    }
    Ok(end)
}

/// Strikes the answered calls off; returns the first result that answers none.
fn strike_off(calls: &mut HashSet<Cow<'_, str>>, turn: &Turn<'_>) -> Option<String> {
    let mut ids = turn.blocks.iter().filter_map(result_id);
    let stray = ids.find(|id| !calls.remove(id.decode().as_ref()));
    stray.map(shown)
}

/// Puts results into the turn at `at` where that has some, else before it.
fn put_after<'d>(turns: &mut Vec<Turn<'d>>, at: usize, results: Vec<Block<'d>>) {
    if let Some(turn) = turns.get_mut(at)
        && turn.blocks.iter().any(|block| result_id(block).is_some())
    {
        turn.blocks.extend(results);
        return;
    }
    let turn = Turn {
        role: Role::User,
        blocks: results,
        at: turns.get(at).and_then(|turn| turn.at),
    };
    turns.insert(at.min(turns.len()), turn);
}

/// A refusal of a whole turn.
pub(super) fn refuse_turn(turn: &Turn<'_>, scope: &Scope<'_>, message: String) -> Refusal {
    let list = scope.source.paths.turns;
    let path = match turn.at {
        Some(at) => format!("{list}[{at}]"),
        None => list.to_owned(),
    };
    Refusal::new(path, message)
}

fn call_id<'d>(block: &Block<'d>) -> Option<Text<'d>> {
    match block {
        Block::Call(call) => Some(call.id),
        _ => None,
    }
}

fn result_id<'d>(block: &Block<'d>) -> Option<Text<'d>> {
    match block {
        Block::Result(result) => Some(result.id),
        _ => None,
    }
}
