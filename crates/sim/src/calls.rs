//! Which tools the answer calls, and with what.
//!
//! A tool is called when the caller demands it, or when the user's last words ask for it
//! and no tool has answered since: they name a tool, say "tool", or say `run: COMMAND`
//! where a shell is offered. Of several commands each has a turn of its own, unless the user
//! wants them in parallel. So an agent's whole loop can be driven from its prompt.

use crate::{
    ask::{Ask, Tool, ToolChoice, ToolInput},
    plan, schema, tokens,
};
use serde_json::{Value, json};

/// Names under which agents offer a shell.
const SHELLS: &[&str] = &[
    "bash",
    "shell",
    "exec_command",
    "local_shell",
    "shell_command",
    "run_shell_command",
    "run_terminal_cmd",
    "run_command",
    "terminal",
    "execute_command",
    "exec",
];
/// Names of the parameter that takes the command.
const COMMANDS: &[&str] = &["command", "cmd", "script", "code", "input"];
/// The most calls in one answer.
const MOST: usize = 8;

/// One call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) input: CallInput,
}

/// What the tool is given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallInput {
    Arguments(Value),
    Text(String),
}

impl Call {
    /// The input as the formats carry it: JSON for arguments, else the text itself.
    pub(crate) fn input_text(&self) -> String {
        match &self.input {
            CallInput::Arguments(arguments) => arguments.to_string(),
            CallInput::Text(text) => text.clone(),
        }
    }

    pub(crate) fn tokens(&self) -> u64 {
        tokens::count(&self.name) + tokens::count(&self.input_text())
    }
}

/// The calls that answer `ask`; none where it wants words.
pub(crate) fn choose(ask: &Ask) -> Vec<Call> {
    let mut calls = wanted(ask);
    let most = if ask.parallel { MOST } else { 1 };
    calls.truncate(most);
    calls
}

fn wanted(ask: &Ask) -> Vec<Call> {
    let commands = commands(&ask.said);
    match &ask.tool_choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Named(name) => {
            let tool = ask.tools.iter().find(|tool| &tool.name == name);
            tool.map(|tool| calls_of(ask, tool, &commands))
                .unwrap_or_default()
        }
        ToolChoice::Required => {
            let named = named_calls(ask, &commands);
            if !named.is_empty() {
                return named;
            }
            fitting(ask)
                .map(|tool| calls_of(ask, tool, &commands))
                .unwrap_or_default()
        }
        ToolChoice::Auto if !ask.tool_results.is_empty() => next_call(ask, &commands),
        ToolChoice::Auto => named_calls(ask, &commands),
    }
}

/// The command whose turn it is after those that have answered.
fn next_call(ask: &Ask, commands: &[&str]) -> Vec<Call> {
    // A call that answered may stand in an earlier response.
    let place = ask.called.max(1);
    let next = commands.get(place).filter(|_| !is_parallel(ask));
    match (shell(&ask.tools), next) {
        (Some(shell), Some(command)) => vec![call(ask, shell, Some(command), place)],
        _ => Vec::new(),
    }
}

fn is_parallel(ask: &Ask) -> bool {
    ask.said.to_lowercase().contains("in parallel")
}

/// The calls that the user's own words ask for.
fn named_calls(ask: &Ask, commands: &[&str]) -> Vec<Call> {
    if let (Some(shell), false) = (shell(&ask.tools), commands.is_empty()) {
        return calls_of(ask, shell, commands);
    }
    let words = words(&ask.said);
    let named: Vec<_> = ask
        .tools
        .iter()
        .filter(|tool| words.contains(&tool.name.as_str()))
        .collect();
    match named.as_slice() {
        [] if words.iter().any(|word| is_tool(word)) => fitting(ask)
            .map(|tool| calls_of(ask, tool, commands))
            .unwrap_or_default(),
        [] => Vec::new(),
        [only] => calls_of(ask, only, commands),
        several => several
            .iter()
            .map(|tool| call(ask, tool, None, 0))
            .collect(),
    }
}

/// One call of a tool, one for each command, or two where the user wants parallel ones.
fn calls_of(ask: &Ask, tool: &Tool, commands: &[&str]) -> Vec<Call> {
    let parallel = is_parallel(ask);
    match commands {
        [first, ..] if !parallel => vec![call(ask, tool, Some(first), 0)],
        [_, ..] => {
            let each = commands.iter().enumerate();
            each.map(|(index, command)| call(ask, tool, Some(command), index))
                .collect()
        }
        [] if parallel => (0..2).map(|index| call(ask, tool, None, index)).collect(),
        [] => vec![call(ask, tool, None, 0)],
    }
}

fn call(ask: &Ask, tool: &Tool, command: Option<&str>, variant: usize) -> Call {
    let gist = plan::gist(ask);
    let input = match (&tool.input, command) {
        (ToolInput::Text, command) => CallInput::Text(command.unwrap_or(&gist).to_owned()),
        (ToolInput::Schema(shape), command) => {
            let mut arguments = schema::instance(shape, &gist, variant);
            if let Some(command) = command {
                give_command(&mut arguments, shape, command);
            }
            CallInput::Arguments(arguments)
        }
    };
    Call {
        name: tool.name.clone(),
        namespace: tool.namespace.clone(),
        input,
    }
}

/// Puts the command where the tool takes one: as a text, or as the words of a program.
fn give_command(arguments: &mut Value, shape: &Value, command: &str) {
    let parameter = |name: &&&str| shape.pointer(&format!("/properties/{name}")).is_some();
    let (Some(name), Some(fields)) = (COMMANDS.iter().find(parameter), arguments.as_object_mut())
    else {
        return;
    };
    let listed = shape
        .pointer(&format!("/properties/{name}/type"))
        .is_some_and(|t| t == "array");
    let value = if listed {
        json!(["bash", "-lc", command])
    } else {
        json!(command)
    };
    fields.insert((*name).to_owned(), value);
}

/// The commands of the lines that read `run: COMMAND`, without quotes around them.
fn commands(said: &str) -> Vec<&str> {
    let after_run = |line: &str| -> Option<usize> {
        let at = line.to_ascii_lowercase().find("run:")?;
        let starts = line
            .get(..at)?
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric());
        starts.then_some(at + "run:".len())
    };
    said.lines()
        .filter_map(|line| line.get(after_run(line)?..))
        .map(|command| command.trim().trim_matches('`').trim())
        .filter(|command| !command.is_empty())
        .collect()
}

fn shell(tools: &[Tool]) -> Option<&Tool> {
    let rank = |tool: &&Tool| {
        SHELLS
            .iter()
            .position(|name| tool.name.eq_ignore_ascii_case(name))
    };
    tools
        .iter()
        .filter(|tool| rank(tool).is_some())
        .min_by_key(rank)
}

/// The tool whose name and description share the most words with what the user said.
fn fitting(ask: &Ask) -> Option<&Tool> {
    let said = ask.said.to_lowercase();
    let said = words(&said);
    let likeness = |tool: &&Tool| {
        let about = format!(
            "{} {}",
            tool.name.replace(['_', '-'], " "),
            tool.description
        );
        let about = about.to_lowercase();
        words(&about)
            .iter()
            .filter(|word| word.len() > 3 && said.contains(word))
            .count()
    };
    // `max_by_key` prefers the last of equals; the first offered is the better guess.
    ask.tools.iter().rev().max_by_key(likeness)
}

fn words(text: &str) -> Vec<&str> {
    let in_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    text.split(|letter| !in_word(letter))
        .filter(|word| !word.is_empty())
        .collect()
}

fn is_tool(word: &str) -> bool {
    word.eq_ignore_ascii_case("tool") || word.eq_ignore_ascii_case("tools")
}

#[cfg(test)]
mod tests;
