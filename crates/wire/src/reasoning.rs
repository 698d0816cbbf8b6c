//! What the reasoning mode of a model changes in a request that the gateway forwards in the
//! client's format.
//!
//! The gateway refuses an explicit budget for a model that does not think elsewhere.

use crate::{body::BodyEdits, formats};
use tollgate_types::{Effort, Format, ReasoningMode, RequestFacts, Thinking, ThinkingRoom};

/// What bounds the thinking that the gateway adds to a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds<'a> {
    /// The output limit of the request before anything is added; `None` if it is the client's.
    pub output_limit: Option<u64>,
    /// The greatest output limit that the request may have; `None` if there is no bound.
    pub most_output: Option<u64>,
    /// The rest of the request excludes thinking.
    pub excluded: bool,
    /// The model decides how much it thinks: it gets no budget.
    pub adaptive: bool,
    /// The efforts that the model accepts; empty: all of the format.
    pub efforts: &'a [Effort],
}

/// Whether the mode adds thinking to such a request.
pub fn adds_thinking(mode: ReasoningMode, format: Format, facts: &RequestFacts) -> bool {
    formats::rules(format).request.has_thinking_budget && facts.thinking_to_add(mode).is_some()
}

/// Whether the mode can add an effort to such a request.
pub fn adds_effort(mode: ReasoningMode, format: Format, facts: &RequestFacts) -> bool {
    mode == ReasoningMode::Extended
        && !formats::rules(format).request.has_thinking_budget
        && facts.effort.is_none()
        && facts.thinking.is_none()
        && !facts.thinks
        && !facts.needs.reasoning
}

/// Makes the request fit the mode. Returns the fields that were left out, and `thinking` if the
/// model should think and the request has no room for it.
pub fn fit(
    mode: ReasoningMode,
    format: Format,
    facts: &RequestFacts,
    bounds: &Bounds<'_>,
    edits: &mut BodyEdits<'_>,
) -> Vec<&'static str> {
    let mut dropped = Vec::new();
    if mode != ReasoningMode::None && fit_effort(facts, bounds.efforts, edits) {
        dropped.push(formats::rules(format).request.effort);
    }
    dropped.extend(fit_mode(mode, format, facts, bounds, edits));
    dropped
}

fn fit_mode(
    mode: ReasoningMode,
    format: Format,
    facts: &RequestFacts,
    bounds: &Bounds<'_>,
    edits: &mut BodyEdits<'_>,
) -> Vec<&'static str> {
    match mode {
        ReasoningMode::None => leave_out(format, facts, edits),
        ReasoningMode::Extended if formats::rules(format).request.has_thinking_budget => {
            let budget = facts.thinking_to_add(mode);
            match budget.is_none_or(|budget| think(budget, facts, bounds, edits)) {
                true => Vec::new(),
                false => vec!["thinking"],
            }
        }
        ReasoningMode::Extended | ReasoningMode::Adaptive | ReasoningMode::ProviderDefault => {
            Vec::new()
        }
    }
}

/// Replaces an effort that the model does not accept. `false`: nothing changed.
fn fit_effort(facts: &RequestFacts, known: &[Effort], edits: &mut BodyEdits<'_>) -> bool {
    let Some(wanted) = facts.effort else {
        return false;
    };
    if known.is_empty() || known.contains(&wanted) {
        return false;
    }
    match wanted.nearest(known) {
        Some(effort) => edits.set_effort(effort),
        None => edits.leave_out_effort(),
    }
}

/// Agents send an effort, or adaptive thinking, to any model.
fn leave_out(format: Format, facts: &RequestFacts, edits: &mut BodyEdits<'_>) -> Vec<&'static str> {
    let mut dropped = Vec::new();
    if facts.effort.is_some_and(|effort| effort != Effort::None) && edits.leave_out_effort() {
        dropped.push(formats::rules(format).request.effort);
    }
    if facts.thinking == Some(Thinking::Adaptive) {
        edits.set_thinking(r#"{"type":"disabled"}"#);
        dropped.push("thinking");
    }
    dropped
}

/// Gives the thinking `budget` tokens, or as many as the output limit leaves; `false` if there is
/// no room.
fn think(
    budget: u64,
    facts: &RequestFacts,
    bounds: &Bounds<'_>,
    edits: &mut BodyEdits<'_>,
) -> bool {
    if bounds.adaptive {
        let adds = facts.thinking.is_none() && !bounds.excluded;
        if adds {
            // Models differ in what they show by default.
            edits.set_thinking(r#"{"type":"adaptive","display":"summarized"}"#);
        }
        return adds || facts.thinking.is_some();
    }
    let Some(asked) = bounds.output_limit.or(facts.output_limit) else {
        // The provider requires a limit and refuses the request itself.
        return true;
    };
    let room = ThinkingRoom::within(budget, asked, bounds.most_output);
    let Some(room) = room.filter(|_| !bounds.excluded) else {
        // An explicit request for thinking is forwarded as it is.
        return facts.thinking.is_some();
    };
    let ThinkingRoom { budget, limit } = room;
    edits.set_thinking(&format!(r#"{{"type":"enabled","budget_tokens":{budget}}}"#));
    if limit != asked {
        edits.set_output_limit(limit);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peek::{PeekLimits, Peeker};
    use bytes::Bytes;

    /// The body after its edits, and what was left out.
    fn fitted(
        mode: ReasoningMode,
        format: Format,
        body: &'static str,
        most_output: Option<u64>,
    ) -> (String, Vec<&'static str>) {
        let bounds = Bounds {
            most_output,
            ..Bounds::default()
        };
        fitted_within(mode, format, body, &bounds)
    }

    fn fitted_within(
        mode: ReasoningMode,
        format: Format,
        body: &'static str,
        bounds: &Bounds<'_>,
    ) -> (String, Vec<&'static str>) {
        // What a request must have, and nothing here is about.
        let more = match format {
            Format::Responses => r#","input":""}"#,
            _ => r#","messages":[{"role":"user","content":""}]}"#,
        };
        let body = Bytes::from(body.strip_suffix('}').unwrap().to_owned() + more);
        let mut peeker = Peeker::new(format, &PeekLimits::default());
        peeker.push(&body).unwrap();
        let peeked = peeker.finish().unwrap();
        let mut edits = BodyEdits::new(format, &peeked);
        let dropped = fit(mode, format, &peeked.facts, bounds, &mut edits);
        let spliced = edits.into_splice().apply(&[body]).unwrap();
        let text = String::from_utf8(spliced.chunks.concat()).unwrap();
        (text.strip_suffix(more).unwrap().to_owned() + "}", dropped)
    }

    #[test]
    fn a_model_that_does_not_think_is_not_asked_to() {
        for (format, body, sent, left_out) in [
            (
                Format::Chat,
                r#"{"model":"m","reasoning_effort":"high"}"#,
                r#"{"model":"m","reasoning_effort":null}"#,
                &["reasoning_effort"][..],
            ),
            (
                Format::Responses,
                r#"{"model":"m","reasoning":{"effort":"low","summary":"auto"}}"#,
                r#"{"model":"m","reasoning":{"effort":null,"summary":"auto"}}"#,
                &["reasoning.effort"],
            ),
            (
                Format::Messages,
                r#"{"model":"m","max_tokens":9,"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}}"#,
                r#"{"model":"m","max_tokens":9,"thinking":{"type":"disabled"},"output_config":{"effort":null}}"#,
                &["output_config.effort", "thinking"],
            ),
        ] {
            let expected = (sent.to_owned(), left_out.to_vec());
            assert_eq!(fitted(ReasoningMode::None, format, body, None), expected);
            let untouched = (body.to_owned(), vec![]);
            for mode in [ReasoningMode::Adaptive, ReasoningMode::ProviderDefault] {
                assert_eq!(fitted(mode, format, body, None), untouched);
            }
        }
        let nothing = r#"{"model":"m","reasoning_effort":"none"}"#;
        let untouched = (nothing.to_owned(), vec![]);
        assert_eq!(
            fitted(ReasoningMode::None, Format::Chat, nothing, None),
            untouched
        );
    }

    #[test]
    fn an_effort_that_the_model_does_not_accept_becomes_the_nearest() {
        let efforts = [Effort::Low, Effort::High];
        let bounds = Bounds {
            efforts: &efforts,
            ..Bounds::default()
        };
        let mode = ReasoningMode::ProviderDefault;
        for (asked, sent) in [
            ("\"max\"", "\"high\""),
            ("\"medium\"", "\"low\""),
            ("\"minimal\"", "\"low\""),
            ("\"none\"", "null"),
        ] {
            let body = format!(r#"{{"model":"m","reasoning_effort":{asked}}}"#).leak();
            let expected = format!(r#"{{"model":"m","reasoning_effort":{sent}}}"#);
            let (found, dropped) = fitted_within(mode, Format::Chat, body, &bounds);
            assert_eq!((found, dropped), (expected, vec!["reasoning_effort"]));
        }
        let known = r#"{"model":"m","reasoning_effort":"high"}"#;
        let unchanged = (known.to_owned(), vec![]);
        assert_eq!(fitted_within(mode, Format::Chat, known, &bounds), unchanged);
    }

    fn extended(body: &'static str, most_output: Option<u64>) -> String {
        fitted(ReasoningMode::Extended, Format::Messages, body, most_output).0
    }

    #[test]
    fn a_thinking_model_thinks_without_being_asked() {
        assert_eq!(
            extended(r#"{"model":"m","max_tokens":20000}"#, None),
            r#"{"thinking":{"type":"enabled","budget_tokens":8192},"model":"m","max_tokens":20000}"#
        );
        // The caller's limit covers the thinking, and is raised only where none has room in it.
        assert_eq!(
            extended(r#"{"model":"m","max_tokens":8000}"#, None),
            r#"{"thinking":{"type":"enabled","budget_tokens":6000},"model":"m","max_tokens":8000}"#
        );
        assert_eq!(
            extended(r#"{"model":"m","max_tokens":100}"#, None),
            r#"{"thinking":{"type":"enabled","budget_tokens":1024},"model":"m","max_tokens":1124}"#
        );
        // As hard as it is asked to.
        assert_eq!(
            extended(
                r#"{"model":"m","max_tokens":20000,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}"#,
                None
            ),
            r#"{"model":"m","max_tokens":20000,"thinking":{"type":"enabled","budget_tokens":15000},"output_config":{"effort":"high"}}"#
        );
    }

    #[test]
    fn a_thinking_model_without_budgets_thinks_as_much_as_it_finds_useful() {
        let adaptive = |excluded, body| {
            let bounds = Bounds {
                excluded,
                adaptive: true,
                ..Bounds::default()
            };
            fitted_within(ReasoningMode::Extended, Format::Messages, body, &bounds)
        };
        let silent = r#"{"model":"m","max_tokens":100}"#;
        let sent = r#"{"thinking":{"type":"adaptive","display":"summarized"},"model":"m","max_tokens":100}"#;
        assert_eq!(adaptive(false, silent), (sent.to_owned(), vec![]));
        assert_eq!(
            adaptive(true, silent),
            (silent.to_owned(), vec!["thinking"])
        );
        let said = r#"{"model":"m","max_tokens":100,"thinking":{"type":"adaptive"}}"#;
        assert_eq!(adaptive(false, said), (said.to_owned(), vec![]));
    }

    #[test]
    fn the_callers_word_about_thinking_stands() {
        for body in [
            r#"{"model":"m","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":1024}}"#,
            r#"{"model":"m","max_tokens":100,"thinking":{"type":"disabled"}}"#,
            r#"{"model":"m","max_tokens":100,"output_config":{"effort":"none"}}"#,
        ] {
            assert_eq!(extended(body, None), body);
        }
    }

    #[test]
    fn thinking_stays_within_what_the_balance_or_the_model_allows() {
        assert_eq!(
            extended(r#"{"model":"m","max_tokens":100}"#, Some(1124)),
            r#"{"thinking":{"type":"enabled","budget_tokens":1024},"model":"m","max_tokens":1124}"#
        );
        let body = r#"{"model":"m","max_tokens":100}"#;
        let mode = ReasoningMode::Extended;
        let (sent, left_out) = fitted(mode, Format::Messages, body, Some(1123));
        assert_eq!((&*sent, left_out), (body, vec!["thinking"]), "no room");
    }
}
