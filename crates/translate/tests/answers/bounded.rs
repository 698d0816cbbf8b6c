//! Providers that send too much of something: what is held of it has a bound, and where that is
//! passed the answer ends as a broken one.

use crate::{hostile::around, strict, support::*};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_translate::{AskedSearch, StreamTranslator};
use tollgate_types::Format;
use tollgate_wire::stream::{Phase, StreamEnd};

/// Pushes this many pieces and returns what was held at most.
fn hold(translator: &mut StreamTranslator, count: usize, piece: impl Fn(usize) -> String) -> usize {
    let (mut most, mut out) = (0, Vec::new());
    for number in 0..count {
        translator.push(piece(number).as_bytes(), &mut out);
        out.clear();
        most = most.max(translator.held_bytes());
    }
    most
}

#[test]
fn calls_that_wait_are_bounded() {
    let mut translator =
        StreamTranslator::new(Arc::new(notes(Format::Messages, Format::Chat)), context());
    let begin = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"one\",\"arguments\":\"{\"}},{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"two\",\"arguments\":\"\"}}]}}]}\n\n";
    translator.push(begin.as_bytes(), &mut Vec::new());
    let filler = "x".repeat(100_000);
    let most = hold(&mut translator, 100, |_| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":1,\"function\":{{\"arguments\":\"{filler}\"}}}}]}}}}]}}\n\n"
        )
    });
    assert!(most < 5_000_000, "{most}");
    assert!(matches!(translator.phase(), Phase::Failed(_)));
}

/// Searches that never find anything, and such that find too much while another one is open.
#[test]
fn searches_that_wait_are_bounded() {
    let translator = || {
        let mut notes = notes(Format::Responses, Format::Messages);
        notes.search = Some(AskedSearch::default());
        StreamTranslator::new(Arc::new(notes), context())
    };
    let call = |number: usize| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{number},\"content_block\":{{\"type\":\"server_tool_use\",\"id\":\"s{number}\",\"name\":\"web_search\",\"input\":{{}}}}}}\n\ndata: {{\"type\":\"content_block_stop\",\"index\":{number}}}\n\n"
        )
    };
    let mut endless = translator();
    hold(&mut endless, 100, call);
    assert!(matches!(endless.phase(), Phase::Failed(_)));

    let filler = "x".repeat(100_000);
    let mut full = translator();
    full.push(call(0).as_bytes(), &mut Vec::new());
    let most = hold(&mut full, 100, |number| {
        let number = number + 1;
        let found = format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{number},\"content_block\":{{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"s{number}\",\"content\":[{{\"type\":\"web_search_result\",\"url\":\"{filler}\",\"title\":\"t\"}}]}}}}\n\n"
        );
        call(number) + &found
    });
    assert!(most < 5_000_000, "{most}");
    assert!(matches!(full.phase(), Phase::Failed(_)));
}

/// What texts cite while a call before them is incomplete, and what is cited before any text.
#[test]
fn citations_that_wait_are_bounded() {
    let page = "x".repeat(15_000);
    let begin = |number: usize| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{number},\"content_block\":{{\"type\":\"text\",\"text\":\"a\"}}}}\n\n"
        )
    };
    let cite = |number: usize| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":{number},\"delta\":{{\"type\":\"citations_delta\",\"citation\":{{\"type\":\"web_search_result_location\",\"url\":\"{page}\"}}}}}}\n\n"
        )
    };
    let translator = || {
        let mut notes = notes(Format::Responses, Format::Messages);
        notes.search = Some(AskedSearch::default());
        StreamTranslator::new(Arc::new(notes), context())
    };
    let event = |event: String| format!("data: {{{event}}}\n\n");
    let mut asked = notes(Format::Messages, Format::Responses);
    asked.search = Some(AskedSearch::default());
    let mut waiting = StreamTranslator::new(Arc::new(asked), context());
    let call = [
        event("\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"one\"}".into()),
        event("\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{\"".into()),
    ];
    waiting.push(call.concat().as_bytes(), &mut Vec::new());
    let most = hold(&mut waiting, 200, |number| {
        let index = format!("\"output_index\":{}", number + 1);
        let text = format!("\"type\":\"response.output_text.delta\",{index},\"delta\":\"a\"");
        let page = format!(
            "\"type\":\"response.output_text.annotation.added\",{index},\"annotation\":{{\"type\":\"url_citation\",\"url\":\"{page}\"}}"
        );
        [event(text), event(page)].concat()
    });
    assert!((4_000_000..5_000_000).contains(&most), "{most}");
    assert!(matches!(waiting.phase(), Phase::Failed(_)));

    let mut open = translator();
    open.push(begin(0).as_bytes(), &mut Vec::new());
    hold(&mut open, 256, |_| cite(0));
    assert!(matches!(open.phase(), Phase::Failed(_)));

    let early = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"annotations\":[{{\"url_citation\":{{\"url\":\"{page}\"}}}}]}}}}]}}\n\n"
    );
    let chat = notes(Format::Messages, Format::Chat);
    let mut chat = StreamTranslator::new(Arc::new(chat), context());
    let most = hold(&mut chat, 400, |_| early.clone());
    assert!((3_000_000..5_000_000).contains(&most), "{most}");
}

/// How long a text takes of which these many pages are named, and not what of it they are about.
fn time_of_a_text_with(citations: usize) -> Duration {
    let piece = "\\n".repeat(50_000);
    let text = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n");
    let page = "data: {\"choices\":[{\"delta\":{\"annotations\":[{\"url_citation\":{\"url\":\"u\"}}]}}]}\n\n";
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let begun = Instant::now();
    let mut translator =
        StreamTranslator::new(Arc::new(notes(Format::Responses, Format::Chat)), context());
    hold(&mut translator, 20, |_| text.clone());
    hold(&mut translator, citations, |_| page.to_owned());
    let mut out = Vec::new();
    translator.push(end.as_bytes(), &mut out);
    let took = begun.elapsed();
    let out = String::from_utf8(out.concat()).unwrap();
    let summary = out
        .matches("\"start_index\":0,\"end_index\":1000000,")
        .count();
    assert!(summary > citations, "{summary} ranges of {citations}");
    took
}

/// The whole text is what each of them is about, and it is counted for all of them at once.
#[test]
fn citations_without_a_range_cost_no_time_by_the_length_of_the_text() {
    let best = |citations| (0..3).map(|_| time_of_a_text_with(citations)).min();
    let (one, many) = (best(1).unwrap(), best(256).unwrap());
    println!("1 citation: {one:?}, 256: {many:?}");
    assert!(many < one * 16, "1 citation: {one:?}, 256: {many:?}");
}

/// Searches, of which each finds much, one after the other: the last event repeats them all.
#[test]
fn searches_that_a_responses_stream_repeats_are_bounded() {
    let filler = "x".repeat(500_000);
    let mut asked = notes(Format::Responses, Format::Messages);
    asked.search = Some(AskedSearch { sources: true });
    let mut translator = StreamTranslator::new(Arc::new(asked), context());
    let most = hold(&mut translator, 60, |number| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{call},\"content_block\":{{\"type\":\"server_tool_use\",\"id\":\"s{number}\",\"name\":\"web_search\",\"input\":{{}}}}}}\n\ndata: {{\"type\":\"content_block_stop\",\"index\":{call}}}\n\ndata: {{\"type\":\"content_block_start\",\"index\":{result},\"content_block\":{{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"s{number}\",\"content\":[{{\"type\":\"web_search_result\",\"url\":\"{filler}\",\"title\":\"t\"}}]}}}}\n\ndata: {{\"type\":\"content_block_stop\",\"index\":{result}}}\n\n",
            call = 2 * number,
            result = 2 * number + 1,
        )
    });
    assert!(most <= 16 * 1024 * 1024, "{most}");
    assert!(matches!(translator.phase(), Phase::Failed(_)));
}

#[test]
fn too_many_calls_are_an_error() {
    let mut translator =
        StreamTranslator::new(Arc::new(notes(Format::Responses, Format::Chat)), context());
    hold(&mut translator, 3000, |number| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{number},\"id\":\"c{number}\",\"function\":{{\"name\":\"one\",\"arguments\":\"{{}}\"}}}}]}}}}]}}\n\n"
        )
    });
    assert!(matches!(translator.phase(), Phase::Failed(_)));
}

#[test]
fn a_stream_is_translated_in_constant_memory() {
    let text = |piece: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n")
    };
    let notes = notes(Format::Messages, Format::Chat);
    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    assert_eq!(
        hold(&mut translator, 20_000, |_| text(
            "some words and some more"
        )),
        0
    );
    let delta = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words\"}}\n\n";
    let begin = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    let notes = crate::support::notes(Format::Chat, Format::Messages);
    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    translator.push(begin.as_bytes(), &mut Vec::new());
    assert_eq!(hold(&mut translator, 20_000, |_| delta.into()), 0);
}

#[test]
fn repetitions_of_a_responses_stream_are_bounded() {
    let filler = "x".repeat(100_000);
    let text = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{filler}\"}}}}]}}\n\n");
    let notes = notes(Format::Responses, Format::Chat);
    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    let most = hold(&mut translator, 400, |_| text.clone());
    assert!(most <= 16 * 1024 * 1024, "{most}");
    assert!(matches!(translator.phase(), Phase::Failed(_)));
}

#[test]
fn log_probabilities_without_text_are_bounded() {
    let entry = "{\"token\":\"a\",\"logprob\":-1,\"bytes\":null,\"top_logprobs\":[]}";
    let event = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"\"}},\"logprobs\":{{\"content\":[{}]}}}}]}}\n\n",
        [entry; 100].join(",")
    );
    let end = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let notes = notes(Format::Responses, Format::Chat);
    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    hold(&mut translator, 1000, |_| event.clone());
    let mut out = Vec::new();
    translator.push(end.as_bytes(), &mut out);
    assert!(out.concat().len() < 300_000, "{}", out.concat().len());
}

#[test]
fn reasoning_that_a_responses_stream_repeats_is_bounded() {
    let data = "A".repeat(900_000);
    let notes = notes(Format::Responses, Format::Messages);
    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    let most = hold(&mut translator, 100, |number| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{number},\"content_block\":{{\"type\":\"redacted_thinking\",\"data\":\"{data}\"}}}}\n\ndata: {{\"type\":\"content_block_stop\",\"index\":{number}}}\n\n"
        )
    });
    assert!(most < 20 * 1024 * 1024, "{most}");
    assert!(matches!(translator.phase(), Phase::Failed(_)));
}

/// What a Gemini stream holds until it can be written: calls, the text of thoughts, and seals.
#[test]
fn what_a_gemini_stream_holds_is_bounded() {
    let filler = "x".repeat(100_000);
    let chat = || {
        let notes = notes(Format::Gemini, Format::Chat);
        StreamTranslator::new(Arc::new(notes), context())
    };
    let mut calls = chat();
    let begin = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"one\",\"arguments\":\"{\\\"a\\\":\\\"\"}}]}}]}\n\n";
    calls.push(begin.as_bytes(), &mut Vec::new());
    let most = hold(&mut calls, 400, |_| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{filler}\"}}}}]}}}}]}}\n\n"
        )
    });
    assert!(most <= 16 * 1024 * 1024, "{most}");
    assert!(matches!(calls.phase(), Phase::Failed(_)));

    // The text leaves as it comes. One that is too long to be sealed is not kept.
    let mut thoughts = chat();
    let most = hold(&mut thoughts, 400, |_| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"reasoning_content\":\"{filler}\"}}}}]}}\n\n")
    });
    assert!(most < 1_500_000, "{most}");
    assert!(!matches!(thoughts.phase(), Phase::Failed(_)));

    let data = "A".repeat(900_000);
    let notes = notes(Format::Gemini, Format::Messages);
    let mut seals = StreamTranslator::new(Arc::new(notes), context());
    let most = hold(&mut seals, 100, |number| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{number},\"content_block\":{{\"type\":\"redacted_thinking\",\"data\":\"{data}\"}}}}\n\ndata: {{\"type\":\"content_block_stop\",\"index\":{number}}}\n\n"
        )
    });
    assert!(most < 20 * 1024 * 1024, "{most}");
    assert!(matches!(seals.phase(), Phase::Failed(_)));
}

#[test]
fn names_ids_signatures_and_pages_are_bounded() {
    let long = "x".repeat(2_000_000);
    for (format, event) in [
        (
            Format::Chat,
            format!(
                "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"{long}\",\"function\":{{\"name\":\"a\"}}}}]}}}}]}}"
            ),
        ),
        (
            Format::Chat,
            format!(
                "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"{long}\"}}}}]}}}}]}}"
            ),
        ),
        (
            Format::Messages,
            format!(
                "{{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"{long}\"}}}}"
            ),
        ),
        (
            Format::Messages,
            format!(
                "{{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"server_tool_use\",\"id\":\"{long}\",\"name\":\"web_search\"}}}}"
            ),
        ),
        (
            Format::Responses,
            format!(
                "{{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{{\"type\":\"web_search_call\",\"id\":\"{long}\"}}}}"
            ),
        ),
    ] {
        for caller in others(format) {
            let mut notes = notes(caller, format);
            notes.search = Some(AskedSearch::default());
            let seen = translate(&notes, [around(format, &event).as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Failed, "{caller}");
        }
    }
    let page = format!(
        "{{\"choices\":[{{\"delta\":{{\"content\":\"a\",\"annotations\":[{{\"url_citation\":{{\"url\":\"{long}\"}}}}]}}}}]}}"
    );
    let seen = translate(
        &notes(Format::Responses, Format::Chat),
        [around(Format::Chat, &page).as_bytes()],
    );
    assert_eq!(seen.end, StreamEnd::Finished);
    assert!(
        strict::stream(Format::Responses, &seen.out)
            .unwrap()
            .pages
            .is_empty()
    );
    let begin = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\"}}\n\n";
    let piece = format!(
        "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"signature_delta\",\"signature\":\"{long}\"}}}}\n\n"
    );
    let notes = notes(Format::Chat, Format::Messages);
    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    translator.push(begin.as_bytes(), &mut Vec::new());
    translator.push(piece.as_bytes(), &mut Vec::new());
    assert!(matches!(translator.phase(), Phase::Failed(_)));
}
