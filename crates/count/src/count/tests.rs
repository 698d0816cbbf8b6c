//! What a count is made of, in each format, and what it never does.

use super::*;
use crate::{Family as _, Tokenizer, Vocabulary};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

mod uncounted;

fn openai(format: Format, body: &Value) -> Count {
    openai_bytes(format, &body.to_string())
}

fn openai_bytes(format: Format, body: &str) -> Count {
    count(format, body.as_bytes(), &Tokenizer::Openai.rules())
}

fn tokens(format: Format, body: &Value) -> u64 {
    openai(format, body).tokens
}

/// "What is the capital of France?" is seven tokens; gpt-4o reports 14, Claude 14 too.
#[test]
fn the_same_question_is_the_same_count_in_every_format() {
    let question = "What is the capital of France?";
    let message = json!({"role":"user","content":question});
    let parts = |kind| json!([{"role":"user","content":[{"type":kind,"text":question}]}]);
    for (format, body) in [
        (Format::Chat, json!({"model":"m","messages":[message]})),
        (Format::Chat, json!({"messages":parts("text")})),
        (Format::Responses, json!({"input":question})),
        (Format::Responses, json!({"input":[message]})),
        (Format::Responses, json!({"input":parts("input_text")})),
        (
            Format::Messages,
            json!({"messages":[message],"max_tokens":9}),
        ),
        (Format::Messages, json!({"messages":parts("text")})),
    ] {
        let count = openai(format, &body);
        assert_eq!((count.tokens, count.basis), (14, Basis::Whole), "{body}");
        let anthropic = Tokenizer::Anthropic.rules();
        let claude = super::count(format, body.to_string().as_bytes(), &anthropic);
        assert_eq!(claude.tokens, 14, "{body}");
    }
}

/// vLLM and Voyage read the query once for each document.
#[test]
fn the_query_of_a_rerank_counts_once_for_each_document() {
    let of = |documents: &[&str]| {
        openai(
            Format::Rerank,
            &json!({"query": "red apples and green apples", "documents": documents}),
        )
    };
    let (one, three) = (of(&["a"]), of(&["a", "a", "a"]));
    let query = openai(
        Format::Rerank,
        &json!({"query": "red apples and green apples"}),
    );
    let document = one.tokens - query.tokens;
    let text = query.tokens - u64::from(Tokenizer::Openai.rules().constant);
    assert_eq!(three.tokens, one.tokens + 2 * (document + text));
    assert!(three.most >= one.most + 2 * text, "{three:?}");
    assert_eq!(three.basis, Basis::Whole);
}

/// What each of these adds is what its providers showed in recorded traffic.
#[test]
fn system_tools_calls_and_results_all_count() {
    let ask = json!({"role":"user","content":"What is the weather in Paris? Use the tool."});
    let plain = tokens(Format::Chat, &json!({"messages":[ask]}));
    let schema = json!({"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false});
    let tool = json!({"type":"function","function":{"name":"get_weather","description":"","parameters":schema}});
    let with_tool = tokens(Format::Chat, &json!({"messages":[ask],"tools":[tool]}));
    assert!(
        (46..=50).contains(&with_tool),
        "{with_tool}, and gpt-4o says 48"
    );
    let call = json!({"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]});
    let result = json!({"role":"tool","tool_call_id":"call_1","content":"sunny"});
    let all = tokens(
        Format::Chat,
        &json!({"messages":[ask,call,result],"tools":[tool]}),
    );
    assert!(all > with_tool + 20 && all < with_tool + 40, "{all}");
    let system = json!({"role":"system","content":"Be brief."});
    let briefed = tokens(Format::Chat, &json!({"messages":[system,ask]}));
    assert_eq!(briefed, plain + 4 + 3);
}

#[test]
fn tools_count_alike_in_the_three_formats() {
    let schema =
        json!({"type":"object","properties":{"city":{"type":"string","description":"The city."}}});
    let chat = json!({"tools":[{"type":"function","function":{"name":"f","description":"Does it.","parameters":schema}}]});
    let responses = json!({"tools":[{"type":"function","name":"f","description":"Does it.","parameters":schema}]});
    let messages = json!({"tools":[{"name":"f","description":"Does it.","input_schema":schema}]});
    let counts = [
        openai(Format::Chat, &chat),
        openai(Format::Responses, &responses),
        openai(Format::Messages, &messages),
    ];
    assert!(counts.iter().all(|it| *it == counts[0]), "{counts:?}");
    assert!(counts[0].tools && counts[0].basis == Basis::Whole);
}

#[test]
fn text_that_the_model_does_not_read_does_not_count() {
    let bare = json!({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]});
    let marked = json!({
        "model":"m","max_tokens":1000,"stream":true,"metadata":{"user_id":"a-long-name-of-a-user"},
        "messages":[{"role":"user","content":[
            {"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"5m"},"citations":[{"cited_text":"x"}]}
        ]}]
    });
    assert_eq!(
        tokens(Format::Messages, &bare),
        tokens(Format::Messages, &marked)
    );
}

#[test]
fn thinking_counts_in_the_turn_that_goes_on_alone() {
    let thought = "a thought ".repeat(100);
    let thinking = json!({"role":"assistant","content":[
        {"type":"thinking","thinking":thought,"signature":"x".repeat(400)},
        {"type":"tool_use","id":"t","name":"f","input":{}}]});
    let result =
        json!({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]});
    let ask = json!({"role":"user","content":"go"});
    let going = tokens(Format::Messages, &json!({"messages":[ask,thinking,result]}));
    let over = tokens(
        Format::Messages,
        &json!({"messages":[ask,thinking,result,ask]}),
    );
    assert!(going > over + 150, "{going} and {over}");
}

fn chat_image(url: &str, detail: &str) -> Count {
    let part = json!({"type":"image_url","image_url":{"url":url,"detail":detail}});
    openai(
        Format::Chat,
        &json!({"messages":[{"role":"user","content":[part]}]}),
    )
}

#[test]
fn an_image_costs_by_its_size_and_its_base64_is_no_text() {
    let data = payload();
    let url = format!("data:image/png;base64,{data}");
    let known = chat_image(&url, "high");
    assert_eq!((known.media, known.basis), (765, Basis::Whole));
    assert_eq!(chat_image(&url, "low").media, 85);
    let linked = chat_image("https://example.com/a.png", "auto");
    assert_eq!((linked.media, linked.basis), (765, Basis::Assumed));
    assert!(linked.error_p95 >= ASSUMED_ERROR);
    let source =
        json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":data}});
    let messages = json!({"messages":[{"role":"user","content":[source]}]});
    assert_eq!(tokens(Format::Messages, &messages), known.tokens);
    let input = json!({"type":"input_image","image_url":url,"detail":"high"});
    let responses = json!({"input":[{"role":"user","content":[input]}]});
    assert_eq!(tokens(Format::Responses, &responses), known.tokens);
}

/// A payload of an image, or of anything else.
fn payload() -> String {
    // The header of a PNG of 1024 × 1024, and much after it.
    format!(
        "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAYAAAB{}",
        "A".repeat(400_000)
    )
}

#[test]
fn base64_is_no_text_wherever_it_stands() {
    let data = payload();
    for (format, place, media) in [
        (
            Format::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"DATA"}}]}]}"#,
            765,
        ),
        (
            Format::Gemini,
            r#"{"system_instruction":{"parts":[{"inline_data":{"mime_type":"image/png","data":"DATA"}}]}}"#,
            765,
        ),
        (
            Format::Gemini,
            r#"{"generateContentRequest":{"contents":[{"parts":[{"inlineData":{"mimeType":"video/mp4","data":"DATA"}}]}]}}"#,
            187,
        ),
        (
            Format::Gemini,
            r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"application/pdf","data":"DATA"}}]}]}"#,
            6 * 1200,
        ),
        (
            Format::Responses,
            r#"{"input":[{"type":"image_generation_call","id":"ig_1","status":"completed","result":"DATA"}]}"#,
            765,
        ),
        (
            Format::Chat,
            r#"{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"data:video/mp4;base64,DATA"}}]}]}"#,
            187,
        ),
        (
            Format::Chat,
            r#"{"messages":[{"role":"user","content":[{"type":"input_video","input_video":{"data":"DATA"}}]}]}"#,
            187,
        ),
        (
            Format::Chat,
            r#"{"messages":[{"role":"user","content":[{"image_url":"data:image/png;base64,DATA"}]}]}"#,
            765,
        ),
    ] {
        let count = openai_bytes(format, &place.replace("DATA", &data));
        assert_eq!(count.media, media, "{place}: {count:?}");
        assert!(count.tokens < media + 50, "{place}: {count:?}");
        assert!(count.most < media + 300, "{place}: {count:?}");
    }
}

#[test]
fn text_in_base64_is_counted_by_its_length() {
    let body =
        r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"text/plain","data":"DATA"}}]}]}"#;
    let count = openai_bytes(Format::Gemini, &body.replace("DATA", &"AAAA".repeat(1000)));
    assert_eq!((count.media, count.basis), (750, Basis::Assumed));
    assert!(
        count.to_reserve() >= 3000,
        "a token for each byte: {count:?}"
    );
}

#[test]
fn an_image_by_address_is_counted_as_a_typical_one_and_held_as_the_largest() {
    let part = json!({"type":"image_url","image_url":{"url":"https://example.com/a.png"}});
    let body = json!({"messages":[{"role":"user","content":[part]}]}).to_string();
    for (family, counted, reserved) in [
        (Tokenizer::Openai, 765, 1445),
        (Tokenizer::AnthropicLarge, 1399, 4784),
        (Tokenizer::Google, 1032, 6192),
    ] {
        let count = count(Format::Chat, body.as_bytes(), &family.rules());
        assert_eq!(count.media, counted, "{family:?}");
        assert!(count.to_reserve() >= reserved, "{family:?}: {count:?}");
    }
}

#[test]
fn documents_cost_by_size_or_by_their_text() {
    let document = |source: Value| {
        let part = json!({"type":"document","source":source});
        openai(
            Format::Messages,
            &json!({"messages":[{"role":"user","content":[part]}]}),
        )
    };
    let text = document(json!({"type":"text","media_type":"text/plain","data":"one two three"}));
    assert_eq!((text.media, text.tokens), (0, 3 + 4 + 3));
    let small = document(json!({"type":"base64","data":"JVBERi0x".repeat(1000)}));
    let large = document(json!({"type":"base64","data":"JVBERi0x".repeat(100_000)}));
    assert!(small.media > 0 && large.media > 5 * small.media);
}

#[test]
fn input_that_the_provider_adds_widens_the_error() {
    for (format, body) in [
        (
            Format::Responses,
            json!({"input":"hi","tools":[{"type":"web_search"}]}),
        ),
        (
            Format::Responses,
            json!({"input":"hi","previous_response_id":"resp_1"}),
        ),
        (
            Format::Messages,
            json!({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}),
        ),
    ] {
        let count = openai(format, &body);
        assert_eq!(count.basis, Basis::Assumed, "{body}");
        assert!(count.error_p95 >= ASSUMED_ERROR, "{body}");
    }
}

#[test]
fn a_body_that_cannot_be_read_is_estimated_by_its_length() {
    let dense = format!("{{\"input\":[{}1]}}", "1,".repeat(400_000));
    for body in ["", "no json", "{\"messages\":[", dense.as_str()] {
        let count = count(Format::Chat, body.as_bytes(), &Tokenizer::Openai.rules());
        assert_eq!((count.basis, count.error_p95), (Basis::Length, 1.0));
        assert!(count.tokens >= body.len() as u64 / 2);
    }
}

#[test]
fn a_large_body_is_sampled_near_the_truth() {
    let story: String = (0..60_000)
        .map(|it| format!("line {it} of a story. "))
        .collect();
    let body = json!({"messages":[{"role":"user","content":story}]});
    let all = Rules {
        exact_bytes: u64::MAX,
        ..Tokenizer::Openai.rules()
    };
    let exact = count(Format::Chat, body.to_string().as_bytes(), &all);
    let sampled = openai(Format::Chat, &body);
    assert_eq!((exact.basis, sampled.basis), (Basis::Whole, Basis::Sample));
    assert!(sampled.tokens.abs_diff(exact.tokens) < exact.tokens / 50);
    assert!((sampled.at_least()..=sampled.at_most()).contains(&exact.tokens));
}

/// A megabyte of text made to be slow. The bound is far above what an idle machine needs, and
/// far below what time that grows with the square would take.
#[test]
fn hostile_text_takes_no_longer_than_its_length() {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(state >> 40).unwrap()
    };
    let bytes: Vec<u8> = (0..1_000_000).map(|_| random().to_le_bytes()[0]).collect();
    let scripts: String = (0..400_000)
        .filter_map(|_| char::from_u32(random() % 0xd000))
        .collect();
    Vocabulary::O200k.load();
    for text in [
        " ".repeat(1_000_000),
        "a".repeat(1_000_000),
        "A".repeat(1_000_000),
        "\n ".repeat(500_000),
        "👩‍👩‍👧‍👦".repeat(40_000),
        String::from_utf8_lossy(&bytes).into_owned(),
        scripts,
    ] {
        let body = json!({"messages":[{"role":"user","content":text}]}).to_string();
        for exact_bytes in [EXACT, u64::MAX] {
            let rules = Rules {
                exact_bytes,
                ..Tokenizer::Openai.rules()
            };
            let start = Instant::now();
            let count = count(Format::Chat, body.as_bytes(), &rules);
            assert!(
                start.elapsed() < Duration::from_secs(5),
                "{:?}",
                start.elapsed()
            );
            assert!(count.tokens > 0 && count.tokens <= 2 * body.len() as u64);
        }
    }
}

#[test]
fn a_hostile_schema_takes_no_longer_than_its_length() {
    let name = |place| format!("\"property_{place}\"");
    let properties: Vec<String> = (0..60_000).map(|it| name(it) + ":{}").collect();
    let required: Vec<String> = (0..60_000).rev().map(name).collect();
    let body = format!(
        r#"{{"tools":[{{"name":"f","parameters":{{"properties":{{{}}},"required":[{}]}}}}]}}"#,
        properties.join(","),
        required.join(",")
    );
    let start = Instant::now();
    let count = count(
        Format::Responses,
        body.as_bytes(),
        &Tokenizer::Openai.rules(),
    );
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert!(count.tokens > 100_000, "{count:?}");
}

const EXACT: u64 = 256 * 1024;

proptest! {
    #[test]
    fn any_bytes_are_counted(body in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in Format::OF_CLIENTS {
            count(format, &body, &Rules::default());
        }
    }

    #[test]
    fn any_shape_is_counted(
        keys in prop::collection::vec(prop::sample::select(vec![
            "messages", "input", "tools", "content", "type", "source", "image_url", "function",
            "parameters", "properties", "anyOf", "text", "output", "system", "schema", "data",
        ]), 1..60),
        leaf in prop::sample::select(vec!["null", "1", "\"x\"", "[]", "{}", "true"]),
    ) {
        let mut body = leaf.to_owned();
        for (place, key) in keys.iter().enumerate() {
            body = match place % 3 {
                0 => format!("{{\"{key}\":[{body}],\"type\":\"object\"}}"),
                _ => format!("{{\"{key}\":{body},\"name\":\"f\"}}"),
            };
        }
        for format in Format::OF_CLIENTS {
            for family in Tokenizer::ALL {
                let count = count(format, body.as_bytes(), &family.rules());
                prop_assert!(count.basis != Basis::Length, "{}", body);
            }
        }
    }
}

/// What an attacker would send to get more than it can pay for, beside ordinary text.
const TEXTS: [&str; 7] = [
    "The gateway counts the tokens of a request before it leaves. ",
    "    fn total(&self) -> u64 { self.items.iter().sum() } // cents\n",
    "8472910365 0.1234567 99991 ",
    "ꙮ𒐫﷽𓀀𝔘𝔫𝔦 ",
    "東京は日本の首都です。",
    "zqxjkvbpygfwmucl QZXJKVBP ",
    "{}[]()<>;:,.!?@#$%^&*",
];

#[test]
fn no_text_has_more_tokens_than_are_held_for_it() {
    for text in TEXTS {
        let text = text.repeat(40);
        let body = json!({"messages":[{"role":"user","content":text}]}).to_string();
        for family in Tokenizer::ALL {
            let count = count(Format::Chat, body.as_bytes(), &family.rules());
            let tokens = Vocabulary::O200k.count(&text);
            assert!(count.to_reserve() >= tokens, "{family:?}: {count:?}");
            assert!(count.to_reserve() >= count.tokens, "{family:?}: {count:?}");
            let bytes = text.len() as u64;
            // The frame, and by how much that may be off.
            let most = count.at_most().max(bytes + 70);
            assert!(count.to_reserve() <= most, "{family:?}: {count:?}");
        }
    }
}

#[test]
fn the_reservation_for_ordinary_text_is_near_its_count() {
    let body = json!({"messages":[{"role":"user","content":TEXTS[0].repeat(80)}]}).to_string();
    for (family, tenths) in [
        (Tokenizer::Openai, 11),
        (Tokenizer::Anthropic, 30),
        (Tokenizer::AnthropicLarge, 30),
    ] {
        let count = count(Format::Chat, body.as_bytes(), &family.rules());
        assert!(
            count.to_reserve() * 10 <= count.tokens * tenths,
            "{family:?}: {count:?}"
        );
    }
}

/// Tokens by Mistral's `mistral_instruct_tokenizer_240323.model.v3` (32,768 tokens), which is
/// published in `mistral_common`: small vocabularies have none for white space that is repeated, and
/// pieces alone for words of most languages.
#[test]
fn texts_that_a_small_vocabulary_cuts_into_many_tokens_are_held_for() {
    let dutch =
        "De verantwoordelijkheid van de gemeenteraad voor de maatschappelijke ontwikkelingen ";
    let indonesian =
        "Pertanggungjawaban pemerintah terhadap penyelenggaraan pembangunan berkelanjutan ";
    // Each is one token of `o200k_base`.
    let words = " NONINFRINGEMENT Namminersorlutik Wahrscheinlichkeit waarschijnlijk wahrscheinlich \
        werkzaamheden isumaqatigiiss Naalakkersuisut egwuregwu verantwoordelijkheid mangrupikeun \
        beneidenswert";
    for (text, tokens) in [
        ("\n".repeat(4000), 4001),
        ("\t".repeat(4000), 4001),
        (" ".repeat(4000) + "x", 251),
        (dutch.repeat(40), 1001),
        (indonesian.repeat(40), 1361),
        (words.repeat(30), 2251),
    ] {
        let body = json!({"messages":[{"role":"user","content":text}]}).to_string();
        for family in Tokenizer::ALL {
            let rules = family.rules();
            if !rules.is_own_vocabulary {
                let reserved = count(Format::Chat, body.as_bytes(), &rules).to_reserve();
                assert!(
                    reserved >= tokens,
                    "{family:?}: {reserved} for {tokens}: {text:.20}"
                );
            }
        }
    }
}

#[test]
fn digits_and_rare_letters_are_held_for_byte_by_byte_where_the_vocabulary_is_not_public() {
    let text = "8472910365".repeat(50);
    let body = json!({"messages":[{"role":"user","content":text}]}).to_string();
    let reserved =
        |family: Tokenizer| count(Format::Chat, body.as_bytes(), &family.rules()).to_reserve();
    assert!(reserved(Tokenizer::Anthropic) >= 500);
    assert!(reserved(Tokenizer::Openai) < 220);
}

#[test]
fn how_an_earlier_answer_was_come_by_is_not_read_again_but_may_have_to_be_paid() {
    let body = |answer: &str| {
        json!({"messages": [
            {"role": "user", "content": "How do I cross the street?"},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": "And back?"},
        ]})
        .to_string()
    };
    let thought = format!("<think>\n{}\n</think>\n\nLook left.", "hmm ".repeat(500));
    let (long, short) = (body(&thought), body("Look left."));
    let of = |family: Tokenizer, body: &str| count(Format::Chat, body.as_bytes(), &family.rules());
    for family in [Tokenizer::Deepseek, Tokenizer::Qwen, Tokenizer::Glm] {
        let (long, short) = (of(family, &long), of(family, &short));
        assert_eq!(long.tokens, short.tokens, "{family:?}");
        assert!(long.to_reserve() >= short.tokens + 2_000, "{long:?}");
    }
    let (long, short) = (of(Tokenizer::Llama, &long), of(Tokenizer::Llama, &short));
    assert!(long.tokens > short.tokens + 400, "{long:?}");
}
