//! Calls of tools and their results, in the order that every target asks for: the results
//! of an answer's calls right after it, each once.
//!
//! It decides what is refused (a result without its call, a call without its result) and
//! puts in their place results that came late, and calls that a further answer follows
//! before their results: OpenAI pairs them by their ids alone.

use super::{
    conversation::{Block, Conversation, Role, Turn},
    scope::{Scope, shown},
};
use crate::{Refusal, document::Text};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
};

/// Calls without a result so far that a further answer follows, by their ids; each with the place of its turn.
type OpenCalls<'d> = BTreeMap<Cow<'d, str>, (Option<usize>, Block<'d>)>;

/// Checks calls and results, and moves the results right after the calls.
///
/// # Errors
/// A result has no call before it, or a call has no result.
pub(super) fn settle(
    conversation: &mut Conversation<'_>,
    scope: &Scope<'_>,
) -> Result<(), Refusal> {
    let turns = &mut conversation.turns;
    let mut open = OpenCalls::new();
    let mut inserted: Vec<(usize, Turn<'_>)> = Vec::new();
    let mut at = 0;
    while let Some(turn) = turns.get(at) {
        let calls: HashSet<Cow<'_, str>> = turn
            .blocks
            .iter()
            .filter_map(call_id)
            .map(Text::decode)
            .collect();
        if calls.is_empty() && open.is_empty() {
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
        // One result cannot answer two calls.
        let mut ids = turn.blocks.iter().filter_map(call_id);
        if let Some((at, call)) = ids.find_map(|id| open.remove(&id.decode())) {
            return Err(no_result(&call, at, scope));
        }
        at = answer(turns, at, calls, &mut open, &mut inserted, scope)?;
    }
    insert(turns, inserted);
    let first = open.into_iter().min_by_key(|(_, (at, _))| *at);
    first.map_or(Ok(()), |(_, (at, call))| Err(no_result(&call, at, scope)))
}

/// Finds the results that follow the turn at `at`, of its calls and of the open ones; returns the next turn
/// to look at.
fn answer<'d>(
    turns: &mut [Turn<'d>],
    at: usize,
    mut calls: HashSet<Cow<'d, str>>,
    open: &mut OpenCalls<'d>,
    inserted: &mut Vec<(usize, Turn<'d>)>,
    scope: &Scope<'_>,
) -> Result<usize, Refusal> {
    let after = at.saturating_add(1);
    // Calls of earlier turns that this one makes instead: a target must find them before their results, and the
    // conversation must end with the result that it ends with.
    let mut moved: Vec<Block<'d>> = Vec::new();
    let mut late: Vec<Block<'d>> = Vec::new();
    let mut end = after;
    while let Some(turn) = turns.get_mut(end) {
        if turn.role == Role::Assistant || calls.is_empty() && open.is_empty() {
            break;
        }
        for id in turn.blocks.iter().filter_map(result_id) {
            let name = id.decode();
            if calls.remove(&name) {
                continue;
            }
            let Some((_, call)) = open.remove(&name) else {
                let message = format!("answers the call '{}', which is not open", shown(id));
                return Err(refuse_turn(turn, scope, message));
            };
            moved.push(call);
        }
        if end > after || turn.role != Role::User {
            let is_result = |block: &mut Block<'d>| matches!(block, Block::Result(_));
            late.extend(turn.blocks.extract_if(.., is_result));
        }
        end += 1;
    }
    if let Some(turn) = turns.get_mut(at) {
        let is_open = |block: &mut Block<'d>| {
            call_id(block).is_some_and(|id| calls.contains(id.decode().as_ref()))
        };
        let place = turn.at;
        for call in turn.blocks.extract_if(.., is_open) {
            let id = call_id(&call).map(Text::decode).unwrap_or_default();
            if let Some((at, call)) = open.insert(id, (place, call)) {
                return Err(no_result(&call, at, scope));
            }
        }
        turn.blocks.extend(moved);
    }
    if !late.is_empty() {
        put_after(turns, after, late, inserted);
    }
    Ok(end)
}

fn no_result(call: &Block<'_>, at: Option<usize>, scope: &Scope<'_>) -> Refusal {
    let id = call_id(call).map(shown).unwrap_or_default();
    refuse_at(at, scope, format!("calls '{id}', and no result follows"))
}

/// Puts results into the turn at `at` if that has some; otherwise a turn for them is to be inserted there.
fn put_after<'d>(
    turns: &mut [Turn<'d>],
    at: usize,
    results: Vec<Block<'d>>,
    inserted: &mut Vec<(usize, Turn<'d>)>,
) {
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
    inserted.push((at, turn));
}

/// Inserts turns before those at their places, which ascend.
fn insert<'d>(turns: &mut Vec<Turn<'d>>, inserted: Vec<(usize, Turn<'d>)>) {
    if inserted.is_empty() {
        return;
    }
    let mut inserted = inserted.into_iter().peekable();
    let mut all = Vec::with_capacity(turns.len().saturating_add(inserted.len()));
    for (at, turn) in turns.drain(..).enumerate() {
        all.extend(
            inserted
                .next_if(|(place, _)| *place == at)
                .map(|(_, it)| it),
        );
        all.push(turn);
    }
    *turns = all;
}

/// A refusal of a whole turn.
pub(super) fn refuse_turn(turn: &Turn<'_>, scope: &Scope<'_>, message: String) -> Refusal {
    refuse_at(turn.at, scope, message)
}

/// A refusal of the turn in this place of the caller's list.
fn refuse_at(at: Option<usize>, scope: &Scope<'_>, message: String) -> Refusal {
    let list = scope.source.paths.turns;
    let path = match at {
        Some(at) => format!("{list}[{at}]"),
        None => list.to_owned(),
    };
    Refusal::new(path, message)
}

pub(super) fn call_id<'d>(block: &Block<'d>) -> Option<Text<'d>> {
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
