//! How an answer ends, and what it costs.

use super::*;
use crate::ask::{Thinking, Tool, ToolChoice, ToolInput};

fn plan(ask: &Ask) -> Plan {
    Plan::new(ask, &Orders::default())
}

#[test]
fn the_output_is_the_sum_of_all_that_was_written() {
    let mut ask = Ask::plain("m", "one two three");
    ask.thinking = Thinking::Shown;
    ask.choices = 2;
    let plan = plan(&ask);
    let thought = tokens::count(plan.thinking.as_deref().unwrap());
    let written: u64 = plan
        .choices
        .iter()
        .map(|choice| tokens::count(&choice.text))
        .sum();
    assert_eq!(plan.usage.reasoning, thought);
    assert_eq!(plan.usage.output, thought + written);
}

#[test]
fn the_first_limit_ends_the_text() {
    let mut ask = Ask::plain("m", "one two three");
    ask.stop = vec!["three".to_owned(), "two".to_owned()];
    assert_eq!(plan(&ask).stop(), &Stop::Sequence("two".to_owned()));
    ask.max_tokens = Some(2);
    assert_eq!(
        (plan(&ask).stop(), plan(&ask).text()),
        (&Stop::MaxTokens, "You said:")
    );
}

#[test]
fn a_limit_below_the_thought_leaves_no_text() {
    let mut ask = Ask::plain("m", "one two three");
    ask.thinking = Thinking::Hidden;
    ask.max_tokens = Some(2);
    let plan = plan(&ask);
    assert_eq!(
        (plan.stop(), plan.text(), plan.usage.output),
        (&Stop::MaxTokens, "", 2)
    );
}

#[test]
fn a_call_that_does_not_fit_is_not_made() {
    let mut ask = Ask::plain("m", "x");
    ask.tool_choice = ToolChoice::Required;
    ask.tools = vec![Tool {
        name: "a_tool_with_a_long_name".to_owned(),
        description: String::new(),
        namespace: None,
        input: ToolInput::Text,
    }];
    assert_eq!(plan(&ask).stop(), &Stop::ToolUse);
    ask.max_tokens = Some(1);
    let cut = plan(&ask);
    assert_eq!((cut.stop(), cut.calls.len()), (&Stop::MaxTokens, 0));
}

#[test]
fn the_deltas_of_a_huge_text_are_the_text() {
    let text = "wörter ".repeat(20_000);
    let pieces = deltas(&text);
    assert!(pieces.len() < 100);
    assert_eq!(pieces.concat(), text);
}
