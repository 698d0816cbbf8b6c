use super::*;
use serde_json::{Value, json};

fn obstacles(more: &Value, turns: &Value) -> ThinkingObstacles {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": turns});
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    ThinkingObstacles::of(body.to_string().as_bytes())
}

fn said() -> Value {
    json!([{"role": "user", "content": "Hi."}])
}

#[test]
fn other_sampling_is_an_obstacle_and_excludes_nothing() {
    for (more, found) in [
        (json!({}), &[][..]),
        (json!({"temperature": 1, "top_p": 0.95}), &[]),
        (
            json!({"temperature": 0.5, "top_p": 0.9}),
            &["temperature", "top_p"],
        ),
        (json!({"top_k": 5}), &["top_k"]),
    ] {
        let obstacles = obstacles(&more, &said());
        assert_eq!(obstacles.sampling, found, "{more}");
        assert!(!obstacles.excluded, "{more}");
    }
}

#[test]
fn a_tool_that_must_be_called_excludes_thinking() {
    for (kind, excluded) in [
        ("auto", false),
        ("none", false),
        ("any", true),
        ("tool", true),
    ] {
        let more = json!({"tool_choice": {"type": kind}});
        assert_eq!(obstacles(&more, &said()).excluded, excluded, "{kind}");
    }
}

#[test]
fn an_answer_that_goes_on_without_its_thought_excludes_thinking() {
    let call = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let hidden = json!({"type": "redacted_thinking", "data": "x"});
    let result = json!({"type": "tool_result", "tool_use_id": "c", "content": "Seen."});
    for (content, excluded) in [
        (json!([call]), true),
        (json!([{"type": "text", "text": "I look."}, call]), true),
        (json!([thought, call]), false),
        (json!([hidden, call]), false),
        (json!("Done."), false),
    ] {
        let turns = json!([
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]);
        assert_eq!(
            obstacles(&json!({}), &turns).excluded,
            excluded,
            "{content}"
        );
    }
    let [more, done] = [json!([call]), json!([result])];
    for (first, between, excluded) in [
        (json!([thought, call]), json!([result]), false),
        (json!([call]), json!([result]), true),
        // The model thinks again after what the user says.
        (
            json!([thought, call]),
            json!([result, {"type": "text", "text": "Go on."}]),
            true,
        ),
        (json!([thought, call]), json!("Go on."), true),
    ] {
        let turns = json!([
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": first},
            {"role": "user", "content": between},
            {"role": "assistant", "content": more},
            {"role": "user", "content": done},
        ]);
        assert_eq!(obstacles(&json!({}), &turns).excluded, excluded, "{turns}");
    }
    let begun = json!([
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "It is"},
    ]);
    assert!(obstacles(&json!({}), &begun).excluded);
}

#[test]
fn left_out_members_are_gone_and_the_rest_is_as_it_was() {
    let body = br#"{"temperature":0.50,"model" : "m","top_k":1}"#;
    let sent = without_members(body, &["temperature", "top_k"]).unwrap();
    assert_eq!(sent, r#"{"model":"m"}"#);
}
