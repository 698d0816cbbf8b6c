//! Fields of no format's that servers take besides: other names of the output limit, more
//! models than one, what a provider finds by itself.

use super::{chat, messages, peek, refusal, responses};
use tollgate_types::Format;

#[test]
fn another_name_of_the_output_limit_raises_it_and_never_lowers_it() {
    let limit = |members: &str| chat(members).unwrap().facts.output_limit;
    for name in [
        "n_predict",
        "num_predict",
        "max_new_tokens",
        "max_length",
        "max_output_tokens",
        "max_tokens_to_sample",
        "maxTokens",
    ] {
        let with = |value: &str| limit(&format!(r#""max_tokens":100,"{name}":{value}"#));
        assert_eq!(with("60000"), Some(60_000), "{name}");
        assert_eq!(with("60"), Some(100), "{name}");
        assert_eq!(with("null"), Some(100), "{name}");
        // No limit at all.
        for none in ["-1", "0", "2147483648", "1e9", "6.5"] {
            assert_eq!(with(none), None, "{name}: {none}");
        }
        // A server that does not know the name has no limit.
        assert_eq!(limit(&format!(r#""{name}":60"#)), None, "{name}");
        for no_number in [r#""60000""#, "true", "[1]", "{}"] {
            let members = format!(r#""max_tokens":100,"{name}":{no_number}"#);
            let reported = refusal(chat(&members)).message;
            assert!(
                reported.contains(&format!("'{name}' must be an integer")),
                "{reported}"
            );
        }
    }
    let lifted = |value: &str| {
        limit(&format!(
            r#""max_tokens":100,"auto_max_new_tokens":{value}"#
        ))
    };
    assert_eq!(lifted("false"), Some(100));
    assert_eq!(lifted("null"), Some(100));
    assert_eq!(lifted("true"), None);
    chat(r#""auto_max_new_tokens":1"#).unwrap_err();
    let facts = chat(r#""n_predict":7,"max_tokens":5,"max_completion_tokens":6"#);
    assert_eq!(facts.unwrap().facts.output_limit, Some(7));
}

#[test]
fn the_names_of_the_other_formats_are_read_in_each() {
    let facts = responses(r#""max_output_tokens":5,"max_tokens":9"#);
    assert_eq!(facts.unwrap().facts.output_limit, Some(9));
    let facts = peek(
        Format::Messages,
        r#"{"model":"m","messages":[{"role":"user","content":""}],"max_tokens":5,"max_completion_tokens":9}"#,
    );
    assert_eq!(facts.unwrap().facts.output_limit, Some(9));
    let error = refusal(peek(
        Format::Messages,
        r#"{"model":"m","messages":[{"role":"user","content":""}],"max_completion_tokens":9}"#,
    ));
    assert!(
        error.message.contains("'max_tokens' is required"),
        "{error}"
    );
}

#[test]
fn the_most_answers_that_any_field_asks_for_are_what_is_made() {
    let choices = |members: &str| chat(members).unwrap().facts.choices;
    assert_eq!(choices(r#""best_of":50"#), 50);
    assert_eq!(choices(r#""n":3,"best_of":50"#), 50);
    assert_eq!(choices(r#""best_of":2,"n_cmpl":null,"n":3"#), 3);
    assert_eq!(responses(r#""n_cmpl":4"#).unwrap().facts.choices, 4);
    let reported = refusal(chat(r#""best_of":500"#)).message;
    assert!(
        reported.contains("'best_of' must be an integer from 1 to 128"),
        "{reported}"
    );
}

#[test]
fn every_field_that_names_further_models_is_found() {
    let named = |members: &str| chat(members).unwrap().facts.further_models;
    for (members, field) in [
        (r#""models":["a"]"#, "models"),
        (r#""models":"a""#, "models"),
        (r#""fallbacks":[{"a":["b"]}]"#, "fallbacks"),
        (
            r#""context_window_fallbacks":[{"a":["b"]}]"#,
            "context_window_fallbacks",
        ),
        (
            r#""content_policy_fallbacks":[["b"]]"#,
            "content_policy_fallbacks",
        ),
        (r#""route":"fallback""#, "route"),
        (r#""preset":"p""#, "preset"),
        (r#""user_config":{"model_list":[]}"#, "user_config"),
        (
            r#""router_settings_override":{"fallbacks":[{"a":["b"]}]}"#,
            "router_settings_override",
        ),
        (r#""advisor":{"model":"a"}"#, "advisor"),
        (
            r#""providerOptions":{"anthropic":{"models":1},"gateway":{"models":["a"]}}"#,
            "providerOptions.gateway.models",
        ),
        (
            r#""plugins":[{"id":"web"},{"id":"fusion"}]"#,
            "plugins[].id",
        ),
        (
            r#""plugins":[{"id":"auto-router","allowed_models":["a"]}]"#,
            "plugins[].model",
        ),
        (r#""tools":[{"type":"openrouter:advisor"}]"#, "tools[].type"),
        (r#""advisor":true"#, "advisor"),
        (
            r#""plugins":[{"id":"fusion","enabled":true}]"#,
            "plugins[].id",
        ),
        (
            r#""plugins":[{"enabled":false,"id":"fusion"},{"models":["a"]}]"#,
            "plugins[].model",
        ),
    ] {
        assert_eq!(named(members), Some(field), "{members}");
    }
    for none in [
        r#""models":null,"fallbacks":[],"route":null"#,
        r#""provider":{"order":["x"]},"plugins":[{"id":"web","engine":"exa"}]"#,
        r#""providerOptions":{"gateway":{"order":["x"],"models":[]}}"#,
        r#""metadata":{"models":"a"},"tools":[{"type":"openrouter:web_search"}]"#,
        r#""tools":[{"type":"function","function":{"name":"advisor"}}]"#,
        r#""fallbacks":false,"advisor":false,"route":"","preset":"""#,
        r#""user_config":{},"advisor":{"model":null},"models":[null,""]"#,
        r#""plugins":[{"id":"fusion","models":["a"],"enabled":false}]"#,
    ] {
        assert_eq!(named(none), None, "{none}");
    }
    let facts = messages(r#""fallbacks":[{"model":"a"}]"#);
    assert_eq!(facts.unwrap().facts.further_models, Some("fallbacks"));
}

#[test]
fn a_field_that_chooses_where_the_model_runs_is_found() {
    let place = |members: &str| chat(members).unwrap().facts.place;
    for (members, field) in [
        (r#""inference_geo":"us""#, "inference_geo"),
        (
            r#""provider":{"data_collection":null,"order":["x"]}"#,
            "provider",
        ),
        (r#""provider":{"max_price":{}}"#, "provider"),
        (r#""provider":"x""#, "provider"),
        (
            r#""providerOptions":{"gateway":{"sort":"ttft"}}"#,
            "providerOptions.gateway.sort",
        ),
        (
            r#""providerOptions":{"gateway":{"only":["x"]}}"#,
            "providerOptions.gateway.only",
        ),
    ] {
        assert_eq!(place(members), Some(field), "{members}");
    }
    for members in [
        r#""inference_geo":"global","provider":{}"#,
        r#""provider":{"order":null,"allow_fallbacks":false}"#,
        r#""providerOptions":{"anthropic":{"order":["x"]},"gateway":{"user":"x","order":null}}"#,
        r#""metadata":{"provider":"x"}"#,
    ] {
        assert_eq!(place(members), None, "{members}");
    }
    refusal(chat(r#""extra_body":{"provider":{"order":["x"]}}"#));
}

#[test]
fn the_models_that_tools_name_are_found_with_an_adviser() {
    let reported = |tools: &str| {
        let facts = messages(&format!(r#""tools":[{tools}]"#)).unwrap().facts;
        assert_eq!(facts.further_models, None);
        (facts.adviser, facts.tool_models)
    };
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let adviser = |model: &str| format!(r#"{{"type":"advisor_20260301","model":{model}}}"#);
    assert_eq!(reported(&adviser(r#""a""#)), (true, names(&["a"])));
    assert_eq!(
        reported(r#"{"model":"a","type":"advisor_20260301"}"#),
        (true, names(&["a"]))
    );
    assert_eq!(reported(&adviser("null")), (true, names(&[])));
    assert_eq!(reported(&adviser(r#"["a"]"#)), (true, names(&[""])));
    assert_eq!(
        reported(r#"{"type":"x","model":"a"}"#),
        (false, names(&["a"]))
    );
    let (_, many) = reported(&vec![adviser(r#""a""#); 20].join(","));
    assert_eq!(many.len(), 9);
    assert_eq!(many.last().map(String::as_str), Some(""));
}

#[test]
fn look_ups_by_the_provider_are_found() {
    let hosted = |members: &str| chat(members).unwrap().facts.hosted_tools > 0;
    for asked in [
        r#""plugins":[{"id":"web"}]"#,
        r#""web_search_options":{}"#,
        r#""search_parameters":{"mode":"on"}"#,
        r#""data_sources":[{"type":"azure_search"}]"#,
        r#""enable_search":true"#,
        // An object without members asks for the search as it is by default.
        r#""search_parameters":{}"#,
        r#""web_search_options":{"mode":"off","enabled":false}"#,
        r#""plugins":[{"id":"response-healing"},{"id":"web"}]"#,
        r#""plugins":[{"id":"web","enabled":true}]"#,
        r#""plugins":[{"id":"web","enabled":"false"}]"#,
    ] {
        assert!(hosted(asked), "{asked}");
    }
    for none in [
        r#""plugins":[]"#,
        r#""web_search_options":null"#,
        r#""enable_search":false"#,
        r#""data_sources":[]"#,
        r#""search_parameters":{"mode":"off","sources":[{"type":"web"}]}"#,
        r#""plugins":[{"id":"response-healing"}]"#,
        r#""plugins":[{"id":"web","enabled":false}]"#,
    ] {
        assert!(!hosted(none), "{none}");
    }
}

#[test]
fn fields_that_the_gateway_acts_on_are_refused_in_an_extra_body() {
    for (members, key) in [
        (r#""extra_body":{"model":"b"}"#, "model"),
        (r#""extra_body":{"max_tokens":9}"#, "max_tokens"),
        (r#""extra_body":{"x":1,"n_predict":9}"#, "n_predict"),
        (r#""extra_body":{"fallbacks":["b"]}"#, "fallbacks"),
    ] {
        let reported = refusal(chat(members)).message;
        assert!(
            reported.starts_with(&format!("'{key}' is not taken from 'extra_body'")),
            "{reported}"
        );
    }
    let other =
        r#""extra_body":{"google":{"thinking_config":{"model":1}}},"x":{"extra_body":{"model":1}}"#;
    assert!(chat(other).is_ok());
    assert!(chat(r#""extra_body":null"#).is_ok());
}

#[test]
fn each_tool_that_the_provider_runs_is_counted() {
    let members = r#""tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}},{"type":"mcp"}],
        "web_search_options":{},"plugins":[{"id":"web"}]"#;
    assert_eq!(chat(members).unwrap().facts.hosted_tools, 4);
}

#[test]
fn fields_that_no_format_has_are_text_as_json() {
    let text = |members: &str| chat(members).unwrap().facts.text_bytes;
    let none = text(r#""temperature":1"#);
    for (members, bytes) in [
        (r#""documents":[{"title":"ab","text":"cde"}]"#, 14),
        (r#""chat_template":"{{ x }}""#, 7),
        (r#""chat_template_kwargs":{"n":[1,23],"t":true}"#, 7),
        (r#""no_such_field":"abc""#, 3),
        // As messages have it.
        (r#""system":"abc""#, 3),
        (
            r#""metadata":{"a":"b"},"user":"c","logit_bias":{"1":2},"stop":["d"],"seed":1"#,
            0,
        ),
    ] {
        assert_eq!(text(members) - none, bytes, "{members}");
    }
}

#[test]
fn a_template_that_makes_the_prompt_is_noticed() {
    let template = |members: &str| chat(members).unwrap().facts.template;
    assert!(template(r#""chat_template":"{{ 'word ' * 100000 }}""#));
    assert!(!template(r#""chat_template":null"#));
    assert!(!template(r#""chat_template_kwargs":{"n":1}"#));
}

#[test]
fn every_byte_but_inline_media_may_be_read() {
    let with = |part: &str| {
        let more = r#""x":[[],[],{"k":null}]"#;
        format!(r#" {{"model":"m","messages":[{{"role":"user","content":[{part}]}}],{more}}} "#)
    };
    let link = r#"{"image_url":{"url":"https://a/b.png"}}"#;
    let data = r#"{"image_url":{"url":"data:image/png;base64,QUJD"}}"#;
    for (body, inline) in [(with(link), 0), (with(data), 26)] {
        let facts = peek(Format::Chat, &body).unwrap().facts;
        let all = body.trim().len() as u64;
        assert_eq!(facts.readable_bytes, all - inline, "{body}");
    }
}

#[test]
fn the_query_of_a_rerank_is_measured() {
    for query in [
        r#""red \u0061pples""#,
        r#"{"text":"red apples"}"#,
        r#"[{"type":"text","text":"red"},"apples"]"#,
    ] {
        let body = format!(r#"{{"model":"m","documents":["a"],"query":{query},"top_n":1}}"#);
        let facts = peek(Format::Rerank, &body).unwrap().facts;
        assert_eq!(facts.query_bytes, query.len() as u64, "{query}");
    }
}
