//! The answer, decided once: text, thinking, tool calls, stop reason and usage.
//!
//! The renderers of the three formats say the same plan as JSON and as an event stream,
//! so both can only ever agree.

use crate::{
    ask::{Ask, InputTokens, Shape, Thinking},
    calls::{self, Call},
    orders::Orders,
    schema,
    search::{self, Search},
    seed::Seed,
    tokens,
};
use serde_json::json;

/// How much of what the user said is worth repeating, in bytes.
const GIST: usize = 120;
/// How much of a tool's output is repeated, in bytes.
const TOOL_OUTPUT: usize = 2000;

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: Seed,
    pub(crate) thinking: Option<String>,
    /// The alternative answers; always at least one.
    pub(crate) choices: Vec<Choice>,
    pub(crate) calls: Vec<Call>,
    /// The search that is made before the text.
    pub(crate) search: Option<Search>,
    pub(crate) usage: Usage,
}

/// One alternative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) text: String,
    pub(crate) stop: Stop,
}

/// Why the answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    End,
    ToolUse,
    MaxTokens,
    /// This stop sequence would have come next.
    Sequence(String),
    /// The model declined; the text says so.
    Refusal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: InputTokens,
    /// Everything that was produced, reasoning included.
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

impl Plan {
    /// The answer to `ask` under `orders`.
    pub(crate) fn new(ask: &Ask, orders: &Orders) -> Self {
        let thinking = thought(ask);
        let reasoning = thinking.as_deref().map_or(0, tokens::count);
        let left = ask.max_tokens.map(|most| most.saturating_sub(reasoning));
        let mut calls = if orders.refusal {
            Vec::new()
        } else {
            calls::choose(ask)
        };
        let calling: u64 = calls.iter().map(Call::tokens).sum();
        // Half a call is of no use: one that does not fit is not made.
        let cut_short = left.is_some_and(|left| left < calling);
        if cut_short {
            calls.clear();
        }
        let search = search::choose(ask).filter(|_| calls.is_empty() && !orders.refusal);
        let choices: Vec<_> = (0..ask.choices.max(1))
            .map(|index| match (calls.is_empty(), cut_short) {
                (false, _) => Choice {
                    text: String::new(),
                    stop: Stop::ToolUse,
                },
                (true, true) => Choice {
                    text: String::new(),
                    stop: Stop::MaxTokens,
                },
                (true, false) => {
                    let text = whole_text(ask, orders, search.as_ref(), index);
                    finish(text, ask, orders, left)
                }
            })
            .collect();
        let called = if calls.is_empty() { 0 } else { calling };
        let written: u64 = choices
            .iter()
            .map(|choice| tokens::count(&choice.text))
            .sum();
        let usage = Usage {
            input: orders.input.map_or(ask.input, InputTokens::fresh),
            output: reasoning + called + written,
            reasoning,
        };
        Self {
            seed: ask.seed,
            thinking,
            choices,
            calls,
            search,
            usage,
        }
    }

    /// The first alternative: the only one outside chat completions.
    pub(crate) fn text(&self) -> &str {
        self.choices.first().map_or("", |choice| &choice.text)
    }

    pub(crate) fn stop(&self) -> &Stop {
        self.choices
            .first()
            .map_or(&Stop::End, |choice| &choice.stop)
    }
}

/// The deltas of a streamed text: a token each, or large pieces where the text is huge.
pub(crate) fn deltas(text: &str) -> Vec<&str> {
    const HUGE: usize = 64 * 1024;
    const PIECE: usize = 4096;
    if text.len() <= HUGE {
        return tokens::split(text).collect();
    }
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(tokens::head(rest, PIECE).len());
        pieces.push(piece);
        rest = left;
    }
    pieces
}

/// What the user said, short enough to repeat.
pub(crate) fn gist(ask: &Ask) -> String {
    let line = ask.said.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&line, GIST)
}

fn shortened(text: &str, most: usize) -> String {
    let start = tokens::head(text, most);
    if start.len() < text.len() {
        format!("{start}…")
    } else {
        text.to_owned()
    }
}

fn thought(ask: &Ask) -> Option<String> {
    if ask.thinking == Thinking::Off {
        return None;
    }
    let text = format!("The user says: {}. I answer that briefly.", gist(ask));
    // An output limit below the thought still ends the answer, not the program.
    let most = ask.max_tokens.unwrap_or(u64::MAX);
    Some(tokens::truncate(&text, most).to_owned())
}

fn whole_text(ask: &Ask, orders: &Orders, search: Option<&Search>, index: usize) -> String {
    let text = if orders.refusal {
        "I can't help with that.".to_owned()
    } else if let Some(length) = orders.tokens {
        counted(length)
    } else if let Some(bytes) = orders.huge {
        "0123456 ".repeat(bytes.div_ceil(8))
    } else {
        match &ask.shape {
            Shape::Schema(shape) => schema::instance(shape, &gist(ask), index).to_string(),
            Shape::AnyObject => json!({"answer": gist(ask)}).to_string(),
            Shape::Text => search.map_or_else(|| reply(ask), Search::reported),
        }
    };
    match (&ask.shape, index) {
        (Shape::Text, 1..) => format!("{text} (Alternative {}.)", index + 1),
        _ => text,
    }
}

fn reply(ask: &Ask) -> String {
    if ask.said.to_lowercase().contains("count what you looked up") {
        return format!("Searches that came back: {}.", ask.searches);
    }
    if ask.tool_results.is_empty() {
        return match gist(ask).as_str() {
            "" => "You said nothing that I could repeat.".to_owned(),
            gist => format!("You said: {gist}"),
        };
    }
    let outputs: Vec<_> = ask
        .tool_results
        .iter()
        .map(|output| shortened(output.trim(), TOOL_OUTPUT))
        .collect();
    let answered = format!("The tool answered: {}", outputs.join("\n"));
    if ask.said.to_lowercase().contains("count your thoughts") {
        return format!("{answered}\nThoughts that came back: {}.", ask.thoughts);
    }
    answered
}

/// A text of exactly so many tokens.
fn counted(length: u64) -> String {
    const WORDS: [&str; 8] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight",
    ];
    let words = WORDS
        .iter()
        .cycle()
        .take(usize::try_from(length).unwrap_or(usize::MAX));
    words.copied().collect::<Vec<_>>().join(" ")
}

/// Ends a text where the caller's limits end it, whichever comes first.
fn finish(mut text: String, ask: &Ask, orders: &Orders, left: Option<u64>) -> Choice {
    let mut stop = if orders.refusal {
        Stop::Refusal
    } else {
        Stop::End
    };
    let sequences = ask.stop.iter().filter(|sequence| !sequence.is_empty());
    let first = sequences
        .filter_map(|one| text.find(one.as_str()).map(|at| (at, one)))
        .min();
    if let Some((at, sequence)) = first {
        text.truncate(at);
        stop = Stop::Sequence(sequence.clone());
    }
    if let Some(left) = left {
        let kept = tokens::truncate(&text, left).len();
        if kept < text.len() {
            text.truncate(kept);
            stop = Stop::MaxTokens;
        }
    }
    Choice { text, stop }
}

#[cfg(test)]
mod tests;
