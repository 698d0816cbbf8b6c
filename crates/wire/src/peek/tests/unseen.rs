//! What a request makes the model read and think beyond its text: tools of the provider, media, thinking.

use super::*;
use tollgate_types::ServiceTier;

/// The facts of a request with this part, and with these members.
fn gemini(part: &str, members: &str) -> RequestFacts {
    let body = format!(r#"{{"contents":[{{"role":"user","parts":[{part}]}}]{members}}}"#);
    let limits = PeekLimits {
        model_required: false,
        ..PeekLimits::default()
    };
    let peeker = || Peeker::new(Format::Gemini, &limits);
    let whole = peek_chunks(peeker(), [body.as_bytes()]);
    assert_eq!(whole, peek_chunks(peeker(), body.as_bytes().chunks(1)));
    whole.unwrap().facts
}

#[test]
fn of_the_tools_of_gemini_all_but_functions_are_the_providers() {
    let hosted = |tools: &str| {
        let facts = gemini(r#"{"text":"hi"}"#, &format!(r#","tools":{tools}"#));
        assert!(facts.needs.tools, "{tools}");
        facts.hosted_tools
    };
    let functions = r#"{"functionDeclarations":[{"name":"f","description":"","parameters":{"type":"OBJECT"}}]}"#;
    assert_eq!(hosted(&format!("[{functions}]")), 0);
    for kind in [
        "googleSearch",
        "url_context",
        "codeExecution",
        "one_to_come",
    ] {
        assert_eq!(
            hosted(&format!(r#"[{functions},{{"{kind}":{{}}}}]"#)),
            1,
            "{kind}"
        );
    }
    let both =
        r#"[{"google_search":{},"function_declarations":[{"name":"f"}],"retrieval":{"a":[1]}}]"#;
    assert_eq!(hosted(both), 2);
    assert_eq!(hosted(r#"[{"googleSearch":null}]"#), 0);
}

fn named(facts: &RequestFacts) -> String {
    let stored = facts.stored_ids.iter();
    let named: Vec<_> = stored.map(|it| format!("{}={}", it.field, it.id)).collect();
    named.join(" ")
}

#[test]
fn what_the_tools_of_google_name_is_stored() {
    for (tool, expected) in [
        (r#"{"googleSearch":{"engine_":"x"}}"#, ""),
        (
            r#"{"fileSearch":{"fileSearchStoreNames":["a","b"],"topK":3}}"#,
            "fileSearchStoreNames=a fileSearchStoreNames=b",
        ),
        (
            r#"{"file_search":{"file_search_store_names":["a"]}}"#,
            "file_search_store_names=a",
        ),
        (
            r#"{"retrieval":{"vertexRagStore":{"ragResources":[{"ragCorpus":"a","ragFileIds":["b"]}],"rag_corpora":["c"]}}}"#,
            "ragCorpus=a ragFileIds=b rag_corpora=c",
        ),
        (
            r#"{"retrieval":{"vertexAiSearch":{"datastore":"a","dataStoreSpecs":[{"dataStore":"b"}],"engine":"c"}}}"#,
            "datastore=a dataStore=b engine=c",
        ),
    ] {
        let function = r#"{"functionDeclarations":[{"name":"f","parameters":{"engine":"x"}}]}"#;
        let tools = format!(r#","tools":[{function},{tool}]"#);
        let facts = gemini(r#"{"text":"hi"}"#, &tools);
        assert_eq!((named(&facts).as_str(), facts.hosted_tools), (expected, 1));
    }
}

#[test]
fn a_cache_of_gemini_that_a_chat_request_names_is_stored() {
    let google = r#""google":{"cached_content":"cachedContents/a","thinking_config":{}}"#;
    for members in [google.to_owned(), format!(r#""extra_body":{{{google}}}"#)] {
        let facts = chat(&members).unwrap().facts;
        assert_eq!(
            named(&facts),
            "cached_content=cachedContents/a",
            "{members}"
        );
    }
    refusal(chat(r#""extra_body":{"max_tokens":3}"#));
}

#[test]
fn a_configuration_that_chooses_another_model_of_gemini_names_further_models() {
    for (key, field) in [
        ("routingConfig", "generationConfig.routingConfig"),
        ("routing_config", "generationConfig.routingConfig"),
        ("modelConfig", "generationConfig.modelConfig"),
        ("model_config", "generationConfig.modelConfig"),
        (
            "modelSelectionConfig",
            "generationConfig.modelSelectionConfig",
        ),
        (
            "model_selection_config",
            "generationConfig.modelSelectionConfig",
        ),
    ] {
        let of = |value: &str| {
            let members = format!(r#","generationConfig":{{"{key}":{value}}}"#);
            gemini(r#"{"text":"hi"}"#, &members).further_models
        };
        let manual = r#"{"manualMode":{"modelName":"gemini-ultra"}}"#;
        assert_eq!((of(manual), of("{}")), (Some(field), None), "{key}");
    }
}

#[test]
fn a_tool_of_no_known_form_is_the_providers() {
    for (tool, hosted) in [
        (r#"{"googleSearch":{}}"#, 1),
        (r#"{"google_search":{"mode":"x"}}"#, 1),
        (r#"{"function":{"name":"f"}}"#, 0),
        (r#"{"name":"f"}"#, 0),
    ] {
        let found = chat(&format!(r#""tools":[{tool}]"#));
        if let Ok(found) = found {
            assert_eq!(found.facts.hosted_tools, hosted, "{tool}");
        }
    }
}

#[test]
fn media_of_gemini_are_what_their_type_says() {
    let of = |part: &str| gemini(part, "").media;
    let inline = |kind: &str| {
        of(&format!(
            r#"{{"inlineData":{{"data":"QUJD","mimeType":"{kind}"}}}}"#
        ))
    };
    assert_eq!(inline("image/png"), media(1, 4, 0));
    for unmeasured in ["application/pdf", "audio/wav", "video/mp4", "x"] {
        assert_eq!(inline(unmeasured), media(1, 4, 1), "{unmeasured}");
    }
    let text = gemini(
        r#"{"inline_data":{"mime_type":"text/plain","data":"QUJD"}}"#,
        "",
    );
    assert_eq!((text.media, text.text_bytes), (media(0, 0, 0), 4 + 4));
    let film = r#"{"file_data":{"file_uri":"https://www.youtube.com/watch?v=1"}}"#;
    assert_eq!(of(film), media(1, 0, 1));
    let image = r#"{"fileData":{"fileUri":"https://example.com/a","mimeType":"image/png"}}"#;
    assert_eq!(of(image), media(1, 0, 0));
    let stored = gemini(
        r#"{"fileData":{"fileUri":"files/a","mimeType":"video/mp4"}}"#,
        "",
    );
    assert_eq!((stored.media.parts, stored.stored_ids.len()), (0, 1));
}

#[test]
fn data_in_place_of_an_image_is_what_its_type_says() {
    let of_chat = |link: &str| {
        let part = format!(r#"{{"type":"image_url","image_url":{link}}}"#);
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{part}]}}]}}"#);
        peek(Format::Chat, &body).unwrap().facts
    };
    let of_responses = |link: &str| {
        let part = format!(r#"{{"type":"input_image","image_url":{link}}}"#);
        let body = format!(r#"{{"model":"m","input":[{{"role":"user","content":[{part}]}}]}}"#);
        peek(Format::Responses, &body).unwrap().facts
    };
    for (link, bytes, is_image) in [
        ("data:image/png;base64,QUJD", 26, true),
        ("data:application/pdf;base64,QUJD", 32, false),
        ("data:video/mp4;base64,QUJD", 26, false),
        ("https://example.com/a", 0, true),
    ] {
        let text = format!("\"{link}\"");
        let object = format!(r#"{{"detail":"low","url":{text}}}"#);
        for facts in [of_chat(&text), of_chat(&object), of_responses(&text)] {
            assert_eq!(facts.needs.images, is_image, "{link}");
            let expected = media(1, bytes, u64::from(!is_image));
            assert_eq!(facts.media, expected, "{link}");
        }
    }
}

#[test]
fn numbers_that_a_model_reads_are_counted() {
    let call = gemini(
        r#"{"functionCall":{"name":"f","args":{"of":[1000,2000]}}}"#,
        "",
    );
    assert_eq!(call.text_bytes, 4 + 1 + 2 + 4 + 4);
    let ids = peek(
        Format::Chat,
        r#"{"model":"m","messages":[{"role":"user","content":[1,2]}]}"#,
    );
    assert_eq!(ids.unwrap().facts.text_bytes, 4);
}

#[test]
fn every_way_to_ask_for_thinking_is_noticed() {
    for (setting, thinks) in [
        (r#""thinkingBudget":1024"#, true),
        (r#""thinkingBudget":-1"#, true),
        (r#""thinkingBudget":0"#, false),
        (r#""thinking_level":"HIGH""#, true),
        (r#""includeThoughts":true"#, false),
    ] {
        let members = format!(r#","generationConfig":{{"thinkingConfig":{{{setting}}}}}"#);
        let facts = gemini(r#"{"text":"hi"}"#, &members);
        assert_eq!(facts.thinks || facts.needs.reasoning, thinks, "{setting}");
    }
    for (member, thinks) in [
        (r#""reasoning":{"max_tokens":2000}"#, true),
        (r#""reasoning":{"enabled":true}"#, true),
        (r#""reasoning":{"enabled":false}"#, false),
        (r#""thinking":{"type":"enabled"}"#, true),
        (r#""thinking_budget":100"#, true),
        (r#""enable_thinking":true"#, true),
        (r#""enable_thinking":false"#, false),
        (r#""chat_template_kwargs":{"enable_thinking":true}"#, true),
        (r#""chat_template_kwargs":{"enable_thinking":false}"#, false),
        (r#""chat_template_kwargs":{"n":1}"#, false),
        (
            r#""google":{"thinking_config":{"thinking_budget":9}}"#,
            true,
        ),
        (
            r#""extra_body":{"google":{"thinking_config":{"thinking_level":"low"}}}"#,
            true,
        ),
        (
            r#""google":{"thinking_config":{"thinking_budget":0,"include_thoughts":true}}"#,
            false,
        ),
        (r#""temperature":1"#, false),
    ] {
        assert_eq!(chat(member).unwrap().facts.thinks, thinks, "{member}");
    }
}

#[test]
fn requested_sound_and_pictures_are_noticed() {
    let gemini = |modalities: &str| {
        let members = format!(r#","generationConfig":{{"responseModalities":{modalities}}}"#);
        gemini(r#"{"text":"hi"}"#, &members)
    };
    let chat = |modalities: &str| {
        let members = format!(r#""modalities":{modalities}"#);
        chat(&members).unwrap().facts
    };
    for (facts, asks) in [
        (gemini(r#"["TEXT","IMAGE"]"#), true),
        (gemini(r#"["AUDIO"]"#), true),
        (gemini(r#"["TEXT"]"#), false),
        (chat(r#"["image","text"]"#), true),
        (chat(r#"["text","audio"]"#), true),
        (chat(r#"["text"]"#), false),
    ] {
        assert_eq!(facts.asks_for_media(), asks, "{:?}", facts.output);
    }
}

#[test]
fn a_prediction_is_input_and_noticed() {
    let of = |members: &str| chat(members).unwrap().facts;
    let facts = of(r#""prediction":{"type":"content","content":"abcd"}"#);
    assert!(facts.predicts);
    let none = of(r#""prediction":null"#);
    assert!(!none.predicts);
    assert!(facts.text_bytes >= none.text_bytes + 4);
}

#[test]
fn tiers_with_a_price_of_their_own_are_noticed() {
    use ServiceTier::{Batch, Fast, Flex, Priority};
    const SPEED: &str = "speed";
    const SNAKE: &str = "service_tier";
    const CAMEL: &str = "serviceTier";
    for (members, tiers) in [
        (r#""speed":"fast""#, &[(SPEED, "fast", Fast)][..]),
        (r#""speed":"standard""#, &[]),
        (r#""speed":"priority""#, &[]),
        (
            r#""service_tier":"Ultrafast""#,
            &[(SNAKE, "ultrafast", Fast)],
        ),
        (
            r#""serviceTier":"PRIORITY""#,
            &[(CAMEL, "priority", Priority)],
        ),
        (
            r#""speed":"fast","service_tier":"priority""#,
            &[(SPEED, "fast", Fast), (SNAKE, "priority", Priority)],
        ),
        (r#""service_tier":"fast""#, &[(SNAKE, "fast", Priority)]),
        (
            r#""service_tier":"flex","serviceTier":"batch""#,
            &[(SNAKE, "flex", Flex), (CAMEL, "batch", Batch)],
        ),
        (r#""service_tier":"auto""#, &[]),
    ] {
        let found = chat(members).unwrap().facts.tiers;
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.field, it.value, it.tier))
            .collect();
        assert_eq!(found, tiers, "{members}");
    }
}

#[test]
fn the_address_of_a_file_at_google_is_that_of_something_stored() {
    let ids = |uri: &str| {
        let part = format!(r#"{{"fileData":{{"fileUri":"{uri}"}}}}"#);
        let stored = gemini(&part, "").stored_ids;
        assert!(
            stored.iter().all(|it| &*it.field == "fileUri"),
            "{stored:?}"
        );
        stored.len()
    };
    let cached = gemini(r#"{"text":"hi"}"#, r#","cachedContent":"cachedContents/1""#);
    assert_eq!(&*cached.stored_ids[0].field, "cachedContent");
    for uri in [
        "files/abc",
        "gs://bucket/a.png",
        "https://generativelanguage.googleapis.com/v1beta/files/a",
        "HTTPS://GenerativeLanguage.googleapis.com:443/v1beta/files/a",
        "https://generativelanguage.googleapis.com./v1beta/files/a",
        "https://x@generativelanguage.googleapis.com/v1beta/files/a",
        "https://generativelanguage%2Egoogleapis.com/v1beta/files/a",
        "https://generativelanguage.googleapis.com\\\\@example.com/files/a",
        "https://example.com",
    ] {
        assert_eq!(ids(uri), 1, "{uri}");
    }
    let long = format!("https://example.com/{}.png", "a".repeat(300));
    for uri in [
        "https://example.com/a.png",
        "http://example.com:8080/a.png",
        &long,
    ] {
        assert_eq!(ids(uri), 0, "{uri}");
    }
}
