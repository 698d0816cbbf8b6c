//! Which words of a user call which tool.

use super::*;

fn tool(name: &str, description: &str, properties: &Value) -> Tool {
    let required: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
    Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        namespace: None,
        input: ToolInput::Schema(json!({
            "type": "object", "properties": properties, "required": required,
        })),
    }
}

fn ask(said: &str) -> Ask {
    let mut ask = Ask::plain("m", said);
    ask.tools = vec![
        tool("Read", "reads a file", &json!({"path": {"type": "string"}})),
        tool(
            "Bash",
            "runs a command",
            &json!({"command": {"type": "string"}}),
        ),
        tool(
            "get_weather",
            "the weather in a city",
            &json!({"city": {"type": "string"}}),
        ),
    ];
    ask
}

fn names(ask: &Ask) -> Vec<String> {
    choose(ask).into_iter().map(|call| call.name).collect()
}

#[test]
fn ordinary_words_call_nothing() {
    assert!(choose(&ask("please read this and tell me the weather")).is_empty());
}

#[test]
fn a_command_goes_to_the_shell() {
    let calls = choose(&ask("please do this\nrun: `echo hello`\nthanks"));
    assert_eq!(calls.len(), 1);
    assert_eq!(
        calls[0].input,
        CallInput::Arguments(json!({"command": "echo hello"}))
    );
    assert!(choose(&ask("prerun: echo hello")).is_empty());
}

#[test]
fn a_shell_that_takes_words_gets_words() {
    let mut ask = ask("run: ls -l");
    ask.tools = vec![tool("shell", "", &json!({"command": {"type": "array"}}))];
    let wanted = json!({"command": ["bash", "-lc", "ls -l"]});
    assert_eq!(choose(&ask)[0].input, CallInput::Arguments(wanted));
}

#[test]
fn a_tool_is_called_by_name_or_by_likeness() {
    assert_eq!(names(&ask("call get_weather")), ["get_weather"]);
    assert_eq!(
        names(&ask("use a tool to find the weather")),
        ["get_weather"]
    );
    assert_eq!(
        names(&ask("use Read and get_weather")),
        ["Read", "get_weather"]
    );
}

#[test]
fn parallel_calls_are_made_only_where_they_may() {
    let mut ask = ask("in parallel\nrun: echo a\nrun: echo b");
    assert_eq!(names(&ask), ["Bash", "Bash"]);
    ask.parallel = false;
    assert_eq!(names(&ask), ["Bash"]);
}

#[test]
fn the_choice_of_the_caller_wins() {
    let mut ask = ask("what is the weather in Rome?");
    ask.tool_choice = ToolChoice::Required;
    assert_eq!(names(&ask), ["get_weather"]);
    ask.tool_choice = ToolChoice::Named("Read".to_owned());
    assert_eq!(names(&ask), ["Read"]);
    ask.tool_choice = ToolChoice::None;
    ask.said = "run: echo hello".to_owned();
    assert!(choose(&ask).is_empty());
}

#[test]
fn a_tool_that_has_answered_is_not_called_again() {
    let mut ask = ask("run: echo hello");
    ask.tool_results = vec!["hello".to_owned()];
    assert!(choose(&ask).is_empty());
}

#[test]
fn several_commands_are_run_one_after_the_other() {
    let mut ask = ask("run: echo a\nrun: echo b\nrun: echo c");
    let mut run = Vec::new();
    while let [call] = choose(&ask).as_slice() {
        run.push(call.input_text());
        ask.called += 1;
        ask.tool_results = vec!["done".to_owned()];
    }
    let reported = |command: &&str| run.iter().any(|input| input.contains(*command));
    assert_eq!(run.len(), 3, "{run:?}");
    assert!(
        ["echo a", "echo b", "echo c"].iter().all(reported),
        "{run:?}"
    );
}

#[test]
fn parallel_calls_are_not_run_again() {
    let mut ask = ask("in parallel\nrun: echo a\nrun: echo b\nrun: echo c");
    ask.called = 1;
    ask.tool_results = vec!["a".to_owned()];
    assert!(choose(&ask).is_empty());
}
