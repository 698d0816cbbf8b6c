use super::*;
use crate::seal::{self, Backend, ReasoningForm};
use serde_json::json;

fn sealed() -> String {
    seal::seal(Backend::new("north"), ReasoningForm::Encrypted, "", "gAAA").unwrap()
}

fn cleared(format: Format, body: &serde_json::Value) -> (serde_json::Value, Vec<&'static str>) {
    let unsealed = without_seals(format, body.to_string().as_bytes(), true).unwrap();
    (
        serde_json::from_slice(&unsealed.body).unwrap(),
        unsealed.dropped,
    )
}

#[test]
fn sealed_blocks_leave_messages_and_their_provider_s_own_stay() {
    let own = json!({"type": "thinking", "thinking": "Hm.", "signature": "EqQB"});
    let body = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "No.", "signature": sealed()}]},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [
            {"type": "redacted_thinking", "data": sealed()}, own, {"type": "text", "text": "c"}]},
    ]});
    let (body, dropped) = cleared(Format::Messages, &body);
    let expected = json!([
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [own, {"type": "text", "text": "c"}]},
    ]);
    assert_eq!(body["messages"], expected);
    let paths = [
        "messages[].content[].thinking",
        "messages[].content[].redacted_thinking",
    ];
    assert_eq!(dropped, paths);
}

#[test]
fn enabled_thinking_rests_where_an_answer_goes_on_without_its_thought() {
    let call = json!({"type": "tool_use", "id": "a", "name": "b", "input": {}});
    let turns = |more: serde_json::Value| {
        json!({"model": "m", "thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": [
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": sealed()}, more, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ]})
    };
    let (body, dropped) = cleared(
        Format::Messages,
        &turns(json!({"type": "text", "text": "x"})),
    );
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert!(dropped.contains(&"thinking"));
    let own = json!({"type": "thinking", "thinking": "", "signature": "EqQB"});
    let mut body = turns(own);
    let (once, _) = cleared(Format::Messages, &body);
    assert_eq!(once["thinking"]["type"], "enabled");
    // The model does not think again between its calls.
    let more = body["messages"].as_array_mut().unwrap();
    more.extend([
        json!({"role": "assistant", "content": [call]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}),
    ]);
    let (twice, _) = cleared(Format::Messages, &body);
    assert_eq!(twice["thinking"]["type"], "enabled");
}

#[test]
fn an_answer_that_is_left_out_whole_is_not_the_one_that_goes_on() {
    let thought = json!({"type": "thinking", "thinking": "", "signature": sealed()});
    let body = json!({"model": "m", "thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        {"role": "assistant", "content": [thought]},
    ]});
    let (body, dropped) = cleared(Format::Messages, &body);
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert!(dropped.contains(&"thinking"));
    assert_eq!(
        without_seals(Format::Messages, body.to_string().as_bytes(), true),
        None
    );
}

#[test]
fn sealed_items_and_entries_leave_with_the_text_beside_them() {
    let body = json!({"model": "m", "input": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed()},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAA"},
    ]});
    let (body, dropped) = cleared(Format::Responses, &body);
    assert_eq!(body["input"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&body["input"][0]["id"], dropped),
        (&json!("rs_2"), vec!["input[].reasoning"])
    );
    let body = json!({"model": "m", "messages": [
        {"role": "assistant", "content": "x", "reasoning_content": "Hm.",
         "reasoning_details": [{"type": "reasoning.encrypted", "data": sealed()}]},
    ]});
    let (body, dropped) = cleared(Format::Chat, &body);
    assert_eq!(
        body["messages"],
        json!([{"role": "assistant", "content": "x"}])
    );
    let present = [
        "messages[].reasoning_content",
        "messages[].reasoning_details",
    ];
    assert_eq!(dropped, present);
}

#[test]
fn searches_of_another_provider_leave_with_their_seals() {
    let search = |id: &str, content: &str| {
        [
            json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}}),
            json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [
                {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": content},
                {"type": "web_search_result", "url": "v", "title": "t", "encrypted_content": ""}]}),
        ]
    };
    let text = |index: &str| {
        json!({"type": "text", "text": "x", "citations": [
            {"type": "web_search_result_location", "url": "u", "encrypted_index": index},
            {"type": "web_search_result_location", "url": "w", "encrypted_index": "EqQB"}]})
    };
    let [strange_call, strange_result] = search("srvtoolu_1", &sealed());
    let [own_call, own_result] = search("srvtoolu_2", "EqQB");
    let body = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [
            strange_call, strange_result, own_call, own_result, text(&sealed())]},
    ]});
    let (body, dropped) = cleared(Format::Messages, &body);
    let kept = json!({"type": "text", "text": "x", "citations": [
        {"type": "web_search_result_location", "url": "w", "encrypted_index": "EqQB"}]});
    let expected = json!([own_call, own_result, kept]);
    assert_eq!(body["messages"][1]["content"], expected);
    let paths = [
        "messages[].content[].server_tool_use",
        "messages[].content[].web_search_tool_result",
        "messages[].content[].citations",
    ];
    assert_eq!(dropped, paths);

    let call = |id: &str| json!({"type": "web_search_call", "id": id, "status": "completed", "action": {"type": "search"}});
    let seal =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed()});
    let body = json!({"model": "m", "input": [call("ws_1"), seal, call("ws_2")]});
    let (body, dropped) = cleared(Format::Responses, &body);
    assert_eq!(body["input"], json!([call("ws_2")]));
    assert_eq!(dropped, ["input[].web_search_call", "input[].reasoning"]);
}

#[test]
fn a_body_without_seals_is_left_alone() {
    let body = br#"{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"tg1.","signature":"E"}]}]}"#;
    assert_eq!(without_seals(Format::Messages, body, true), None);
}

#[test]
fn seals_leave_the_signatures_of_gemini_and_a_call_gets_one_that_is_not_checked() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let signature = STANDARD.encode(format!("{} \"Hm.\"\n", sealed()));
    let own = json!({"text": "b", "thoughtSignature": "CiQB"});
    let body = json!({"contents": [
        {"role": "user", "parts": {"text": "a"}},
        {"role": "model", "parts": [
            {"text": "c", "thoughtSignature": signature}, own,
            {"function_call": {"name": "f"}, "thought_signature": signature},
        ]},
    ], "generationConfig": {}});
    for (checks, call) in [
        (
            true,
            json!({"function_call": {"name": "f"}, "thought_signature": "skip_thought_signature_validator"}),
        ),
        (false, json!({"function_call": {"name": "f"}})),
    ] {
        let unsealed = without_seals(Format::Gemini, body.to_string().as_bytes(), checks).unwrap();
        let cleared: serde_json::Value = serde_json::from_slice(&unsealed.body).unwrap();
        let mut expected = body.clone();
        expected["contents"][1]["parts"] = json!([{"text": "c"}, own, call]);
        assert_eq!(cleared, expected);
        assert_eq!(unsealed.dropped, ["contents[].parts[].thoughtSignature"]);
    }
}

#[test]
fn a_call_of_another_model_gets_a_signature_without_notice() {
    let call = json!({"functionCall": {"name": "f"}, "thoughtSignature": "dGcxLg=="});
    let body = json!({"contents": [{"role": "model", "parts": [call]}]});
    for (checks, signature) in [
        (true, Some("skip_thought_signature_validator")),
        (false, None),
    ] {
        let unsealed = without_seals(Format::Gemini, body.to_string().as_bytes(), checks).unwrap();
        let cleared: serde_json::Value = serde_json::from_slice(&unsealed.body).unwrap();
        let part = &cleared["contents"][0]["parts"][0];
        let found = part.get("thoughtSignature").map(|it| it.as_str().unwrap());
        assert_eq!((found, unsealed.dropped), (signature, vec![]));
    }
}

#[test]
fn empty_texts_of_a_translated_stream_leave_a_history_of_gemini() {
    let call = json!({"functionCall": {"name": "f"}, "thoughtSignature": "dGcxLg=="});
    let empty = json!({"text": ""});
    let signed = json!({"text": "", "thoughtSignature": "CiQB"});
    let body = json!({"contents": [
        {"role": "model", "parts": [call, empty]},
        {"role": "model", "parts": [{"text": "a"}, empty, signed]},
        {"role": "model", "parts": [empty]},
        {"role": "model", "parts": [{"text": "a"}, {"text": "", "thoughtSignature": "dGcxLg=="}]},
    ]});
    let (body, dropped) = cleared(Format::Gemini, &body);
    let parts = |at: usize| body["contents"][at]["parts"].as_array().unwrap().as_slice();
    assert_eq!(parts(0).len(), 1);
    assert_eq!(parts(1), [json!({"text": "a"}), signed]);
    assert_eq!(parts(2), [empty]);
    assert_eq!(parts(3), [json!({"text": "a"})]);
    assert!(dropped.is_empty());
}
