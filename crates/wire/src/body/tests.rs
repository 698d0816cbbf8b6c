use super::*;
use crate::peek::{PeekLimits, Peeker};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

fn peek(format: Format, body: &[Bytes]) -> Peeked {
    let limits = PeekLimits {
        model_required: false,
        ..PeekLimits::default()
    };
    let mut peeker = Peeker::new(format, &limits);
    for chunk in body {
        peeker.push(chunk).unwrap();
    }
    peeker.finish().unwrap()
}

/// The body after an edit, the same in every chunking.
fn edited(format: Format, body: &str, edit: impl Fn(&mut BodyEdits<'_>)) -> String {
    let apply = |size: usize| {
        let chunks: Vec<Bytes> = body
            .as_bytes()
            .chunks(size)
            .map(Bytes::copy_from_slice)
            .collect();
        let peeked = peek(format, &chunks);
        let mut edits = BodyEdits::new(format, &peeked);
        edit(&mut edits);
        let spliced = edits.into_splice().apply(&chunks).unwrap();
        String::from_utf8(spliced.chunks.concat()).unwrap()
    };
    let whole = apply(body.len());
    for size in [1, 2, 3, 5, 11] {
        assert_eq!(apply(size), whole, "in pieces of {size}");
    }
    whole
}

#[test]
fn the_model_is_renamed_and_escaped() {
    let body = r#"{"messages":[ {"role":"user"}], "model" : "a\u0062c" ,"x":1.0}"#;
    let renamed = edited(Format::Chat, body, |edits| edits.set_model("up\"1\n"));
    assert_eq!(
        renamed,
        r#"{"messages":[ {"role":"user"}], "model" : "up\"1\n" ,"x":1.0}"#
    );
    let added = edited(
        Format::Chat,
        r#"{ "messages":[{"role":"user","content":""}]}"#,
        |edits| edits.set_model("m"),
    );
    assert_eq!(
        added,
        r#"{"model":"m", "messages":[{"role":"user","content":""}]}"#
    );
}

#[test]
fn a_model_beside_that_of_the_address_is_renamed_and_none_is_added() {
    for (format, messages) in [
        (Format::Gemini, r#""contents":[{"parts":[{"text":"a"}]}]"#),
        (
            Format::Converse,
            r#""messages":[{"role":"user","content":[{"text":"a"}]}]"#,
        ),
    ] {
        let named = format!(r#"{{"model":"models/a",{messages}}}"#);
        let renamed = edited(format, &named, |edits| edits.set_model("b"));
        assert_eq!(renamed, format!(r#"{{"model":"b",{messages}}}"#));
        let plain = format!("{{{messages}}}");
        assert_eq!(edited(format, &plain, |edits| edits.set_model("b")), plain);
    }
}

#[test]
fn the_output_limit_of_gemini_goes_into_its_settings() {
    for (settings, expected) in [
        ("", r#""generationConfig":{"maxOutputTokens":7},"contents""#),
        (
            r#","generationConfig":null"#,
            r#""generationConfig":{"maxOutputTokens":7}}"#,
        ),
        (
            r#","generationConfig":{}"#,
            r#""generationConfig":{"maxOutputTokens":7}}"#,
        ),
        (
            r#","generationConfig":{"topK":1}"#,
            r#""generationConfig":{"maxOutputTokens":7,"topK":1}}"#,
        ),
        (
            r#","generation_config":{"max_output_tokens":9}"#,
            r#""generation_config":{"max_output_tokens":7}}"#,
        ),
        (
            r#","generationConfig":{"maxOutputTokens":null}"#,
            r#""generationConfig":{"maxOutputTokens":7}}"#,
        ),
    ] {
        let body = format!(r#"{{"contents":[{{"parts":[{{"text":"a"}}]}}]{settings}}}"#);
        let edited = edited(Format::Gemini, &body, |edits| edits.set_output_limit(7));
        assert!(edited.contains(expected), "{body}: {edited}");
    }
}

#[test]
fn the_output_limit_goes_where_the_caller_had_it() {
    let chat = |members: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":""}}]{members}}}"#);
        edited(Format::Chat, &body, |edits| edits.set_output_limit(7))
    };
    assert_eq!(
        chat(""),
        r#"{"max_completion_tokens":7,"messages":[{"role":"user","content":""}]}"#
    );
    assert_eq!(
        chat(r#","max_tokens":100"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":7}"#
    );
    assert_eq!(
        chat(r#","max_completion_tokens": 100"#),
        r#"{"messages":[{"role":"user","content":""}],"max_completion_tokens": 7}"#
    );
    assert_eq!(
        chat(r#","max_tokens":9,"max_completion_tokens":100"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":7,"max_completion_tokens":7}"#
    );
    // Providers refuse both fields together, so a null stays one.
    assert_eq!(
        chat(r#","max_tokens":null,"max_completion_tokens":100"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":null,"max_completion_tokens":7}"#
    );
    assert_eq!(
        chat(r#","max_tokens":100,"max_completion_tokens":null"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":7,"max_completion_tokens":null}"#
    );
    assert_eq!(
        chat(r#","max_tokens":null,"max_completion_tokens":null"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":null,"max_completion_tokens":7}"#
    );
    assert_eq!(
        chat(r#","max_tokens":null"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":7}"#
    );

    // What is less stays, and no other name of a limit says more.
    assert_eq!(
        chat(r#","max_tokens":5,"n_predict":60000,"max_new_tokens":-1,"max_length":6"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":5,"n_predict":7,"max_new_tokens":7,"max_length":6}"#
    );
    // This one is no number. The client asked for no limit, so its 5 must not count afterwards.
    assert_eq!(
        chat(r#","max_tokens":5,"auto_max_new_tokens":true"#),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":7,"auto_max_new_tokens":false}"#
    );
    assert_eq!(
        chat(r#","auto_max_new_tokens":true"#),
        r#"{"max_completion_tokens":7,"messages":[{"role":"user","content":""}],"auto_max_new_tokens":false}"#
    );
    // A provider that does not know that name has a limit as well.
    assert_eq!(
        chat(r#","n_predict":60000,"num_predict":null"#),
        r#"{"max_completion_tokens":7,"messages":[{"role":"user","content":""}],"n_predict":7,"num_predict":null}"#
    );

    let limit = |format, body: &str| edited(format, body, |edits| edits.set_output_limit(7));
    assert_eq!(
        limit(Format::Responses, r#"{"input":""}"#),
        r#"{"max_output_tokens":7,"input":""}"#
    );
    assert_eq!(
        limit(
            Format::Responses,
            r#"{"input":"","max_output_tokens":null}"#
        ),
        r#"{"input":"","max_output_tokens":7}"#
    );
    assert_eq!(
        limit(
            Format::Messages,
            r#"{"messages":[{"role":"user","content":""}],"max_tokens":32000}"#
        ),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":7}"#
    );
    // More than was asked for, as thinking wants it, is said everywhere.
    assert_eq!(
        limit(
            Format::Messages,
            r#"{"messages":[{"role":"user","content":""}],"max_tokens":5,"n_predict":6}"#
        ),
        r#"{"messages":[{"role":"user","content":""}],"max_tokens":7,"n_predict":7}"#
    );
}

#[test]
fn a_chat_stream_is_asked_for_usage() {
    let ask = |members: &str| {
        let body =
            format!(r#"{{"messages":[{{"role":"user","content":""}}],"stream":true{members}}}"#);
        edited(Format::Chat, &body, |edits| edits.ask_for_usage())
    };
    let options = r#""stream_options":{"include_usage":true}"#;
    assert_eq!(
        ask(""),
        format!(r#"{{{options},"messages":[{{"role":"user","content":""}}],"stream":true}}"#)
    );
    for given in [
        r#","stream_options":{"include_usage":true}"#,
        r#","stream_options":{"include_usage":false}"#,
        r#","stream_options":{"include_usage":null}"#,
        r#","stream_options":null"#,
        r#","stream_options":{}"#,
    ] {
        assert_eq!(
            ask(given),
            format!(r#"{{"messages":[{{"role":"user","content":""}}],"stream":true,{options}}}"#)
        );
    }
    assert_eq!(
        ask(r#","stream_options":{ "include_obfuscation":false}"#),
        r#"{"messages":[{"role":"user","content":""}],"stream":true,"stream_options":{"include_usage":true, "include_obfuscation":false}}"#
    );
}

#[test]
fn other_formats_report_usage_unasked() {
    for (format, body) in [
        (
            Format::Responses,
            r#"{"input":"","stream":true,"stream_options":{}}"#,
        ),
        (
            Format::Messages,
            r#"{"messages":[{"role":"user","content":""}],"stream":true,"max_tokens":1}"#,
        ),
    ] {
        assert_eq!(edited(format, body, |edits| edits.ask_for_usage()), body);
    }
}

#[test]
fn all_edits_go_together() {
    let body = r#"{"messages":[{"role":"user","content":""}],"stream":true}"#;
    let text = edited(Format::Chat, body, |edits| {
        edits.set_model("m");
        edits.set_output_limit(5);
        edits.ask_for_usage();
    });
    let value: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "model": "m", "max_completion_tokens": 5, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": ""}], "stream": true,
    });
    assert_eq!(value, expected);
    assert!(text.ends_with(&body[1..]));
}

#[test]
fn no_edits_leave_the_body_as_it_is() {
    let body = r#" {"messages":[{"role":"user","content":""}],"stream" :true} "#;
    assert_eq!(edited(Format::Chat, body, |_| {}), body);
}

proptest! {
    /// Members in any order and spacing: the edited body means what the old one meant,
    /// but for the edits.
    #[test]
    fn an_edited_body_differs_in_nothing_else(
        order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle(),
        left in any::<[bool; 5]>(),
        space in "[ \n\t]{0,3}",
        text in "\\PC{0,40}",
    ) {
        let members = [
            format!("\"model\":{space}\"m\""),
            format!("\"max_tokens\"{space}:11"),
            format!("\"stream_options\":{{{space}\"include_obfuscation\":true{space}}}"),
            format!("\"other\":{space}[1.0,2e5,{}]", Value::from(text.as_str())),
            "\"temperature\":0.10".to_owned(),
        ];
        let mut chosen = vec![r#""messages":[{"role":"user","content":"hi"}]"#];
        chosen.extend(order.iter().filter(|n| left[**n]).map(|n| members[*n].as_str()));
        let body = format!("{{{space}{}{space}}}", chosen.join(&format!("{space},{space}")));
        let text = edited(Format::Chat, &body, |edits| {
            edits.set_model("n");
            edits.set_output_limit(3);
            edits.ask_for_usage();
        });

        let mut expected: Value = serde_json::from_str(&body).unwrap();
        let limit = if left[1] { "max_tokens" } else { "max_completion_tokens" };
        expected["model"] = "n".into();
        expected[limit] = 3.into();
        expected["stream_options"]["include_usage"] = true.into();
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }
}
