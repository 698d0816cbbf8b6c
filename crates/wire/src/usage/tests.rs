use super::*;
use crate::answer::{AnswerReport, AnswerScanner};
use crate::stream::{StreamOptions, StreamScanner};
use tollgate_types::{Format, ServiceTier};

/// Scans a body that says nothing but its usage.
fn reported(format: Format, usage: &str) -> ReportedUsage {
    let mut scanner = AnswerScanner::new(format);
    scanner.push(format!("{{\"usage\":{usage}}}").as_bytes());
    scanner.finish();
    scanner.usage()
}

fn usage(input: u64, cache_read: u64, cache_write: u64, output: u64, reasoning: u64) -> Usage {
    Usage {
        input,
        cache_read,
        cache_write,
        output,
        reasoning,
    }
}

#[test]
fn every_way_of_reporting_comes_to_the_same_form() {
    use Format::{Chat, Messages, Responses};
    let examples = [
        (
            Chat,
            r#"{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}"#,
            usage(10, 0, 0, 4, 0),
        ),
        (
            Chat,
            r#"{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":2},"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":1}}"#,
            usage(5, 3, 2, 4, 1),
        ),
        (
            Chat,
            r#"{"prompt_tokens":10,"num_cached_tokens":3,"completion_tokens":4}"#,
            usage(7, 3, 0, 4, 0),
        ),
        (
            Chat,
            r#"{"prompt_tokens":10,"prompt_cache_hit_tokens":3,"prompt_cache_miss_tokens":7,"completion_tokens":4}"#,
            usage(7, 3, 0, 4, 0),
        ),
        (
            Chat,
            r#"{"prompt_tokens":10.0,"completion_tokens":4.00,"cost":0.1}"#,
            usage(10, 0, 0, 4, 0),
        ),
        (
            Responses,
            r#"{"input_tokens":10,"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":2},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":14}"#,
            usage(5, 3, 2, 4, 1),
        ),
        (
            Messages,
            r#"{"input_tokens":10,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":2},"output_tokens":4,"output_tokens_details":{"thinking_tokens":1}}"#,
            usage(10, 3, 2, 4, 1),
        ),
        (
            Messages,
            r#"{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":4,"iterations":[{"type":"message","input_tokens":10,"output_tokens":4}]}"#,
            usage(10, 0, 0, 4, 0),
        ),
    ];
    for (format, report, expected) in examples {
        let seen = reported(format, report);
        assert_eq!(
            seen.plausible(),
            Some(expected),
            "{format} {report}: {seen:?}"
        );
    }
}

#[test]
fn the_parts_never_exceed_the_whole() {
    let twice = r#"{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":9},"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":7}}"#;
    assert_eq!(reported(Format::Chat, twice).usage, usage(0, 9, 1, 4, 4));
}

#[test]
fn reasoning_that_only_the_total_contains_is_output() {
    let hidden = r#"{"prompt_tokens":35,"completion_tokens":12,"total_tokens":109}"#;
    assert_eq!(
        reported(Format::Chat, hidden).usage,
        usage(35, 0, 0, 74, 62)
    );
    let beside = r#"{"prompt_tokens":30,"completion_tokens":10,"total_tokens":60,"completion_tokens_details":{"reasoning_tokens":20}}"#;
    assert_eq!(
        reported(Format::Chat, beside).usage,
        usage(30, 0, 0, 30, 20)
    );
}

#[test]
fn an_implausible_count_of_tokens_is_marked_and_not_believed() {
    for absurd in [
        "-1",
        "1.5",
        "1e400",
        "9007199254740993",
        "18446744073709551616",
        "\"5\"",
        "true",
        "[5]",
        "{}",
    ] {
        let seen = reported(
            Format::Messages,
            &format!("{{\"input_tokens\":{absurd},\"output_tokens\":4}}"),
        );
        assert!(seen.absurd, "{absurd}");
        assert_eq!((seen.usage.input, seen.usage.output), (0, 4), "{absurd}");
        assert_eq!(seen.plausible(), None, "{absurd}");
    }
}

#[test]
fn a_partial_or_missing_report_is_not_believed() {
    for (partial, has_input, has_output) in [
        ("null", false, false),
        ("{}", false, false),
        (r#"{"prompt_tokens":1}"#, true, false),
        (
            r#"{"prompt_tokens":null,"completion_tokens":1}"#,
            false,
            true,
        ),
    ] {
        let seen = reported(Format::Chat, partial);
        assert_eq!((seen.has_input, seen.has_output), (has_input, has_output));
        assert!(!seen.absurd, "{partial}");
        assert_eq!(seen.plausible(), None, "{partial}");
    }
}

/// Scans a chat stream that reports its usage so often.
fn streamed(reports: &[&str]) -> ReportedUsage {
    let mut scanner = StreamScanner::new(Format::Chat, StreamOptions::default());
    for report in reports {
        let event = format!("data: {{\"choices\":[],\"usage\":{report}}}\n\n");
        scanner.push(&event.into(), &mut Vec::new());
    }
    scanner.push(&"data: [DONE]\n\n".into(), &mut Vec::new());
    scanner.usage()
}

#[test]
fn of_two_reports_that_contradict_each_other_the_greater_stands_and_is_marked() {
    const WHOLE: &str = r#"{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}"#;
    for (reports, sum, conflicting) in [
        (&[WHOLE][..], usage(7, 0, 0, 5, 0), false),
        (&[WHOLE, WHOLE], usage(7, 0, 0, 5, 0), false),
        (&[WHOLE, "{}"], usage(7, 0, 0, 5, 0), false),
        (
            &[WHOLE, r#"{"prompt_tokens":null,"completion_tokens":null}"#],
            usage(7, 0, 0, 5, 0),
            false,
        ),
        (
            &[
                WHOLE,
                r#"{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}"#,
            ],
            usage(7, 0, 0, 5, 0),
            true,
        ),
        // Nothing of the two is mixed: no total of the one hides output of the other.
        (
            &[WHOLE, r#"{"prompt_tokens":1,"completion_tokens":1}"#],
            usage(7, 0, 0, 5, 0),
            true,
        ),
        (
            &[
                WHOLE,
                r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#,
            ],
            usage(7, 0, 0, 5, 0),
            true,
        ),
        (
            &[
                WHOLE,
                r#"{"prompt_tokens":3,"completion_tokens":90}"#,
                WHOLE,
            ],
            usage(3, 0, 0, 90, 0),
            true,
        ),
        // What makes no sense takes nothing away from what does.
        (
            &[WHOLE, r#"{"prompt_tokens":-7,"completion_tokens":-5}"#],
            usage(7, 0, 0, 5, 0),
            true,
        ),
        (
            &[r#"{"prompt_tokens":-7,"completion_tokens":90}"#, WHOLE],
            usage(7, 0, 0, 5, 0),
            true,
        ),
        // Totals that run along with the stream grow.
        (
            &[
                r#"{"prompt_tokens":7,"completion_tokens":0,"total_tokens":7}"#,
                r#"{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}"#,
                r#"{"prompt_tokens":7,"completion_tokens":5}"#,
            ],
            usage(7, 0, 0, 5, 0),
            false,
        ),
        // Parts are put together.
        (
            &[r#"{"prompt_tokens":7}"#, r#"{"completion_tokens":5}"#],
            usage(7, 0, 0, 5, 0),
            false,
        ),
    ] {
        let seen = streamed(reports);
        assert_eq!(
            (seen.usage, seen.conflicting),
            (sum, conflicting),
            "{reports:?}"
        );
        assert_eq!(seen.plausible(), Some(sum), "{reports:?}");
    }
}

#[test]
fn thoughts_and_what_tools_read_count_beside_output_and_input() {
    let reported = |usage: &str| {
        let mut scanner = AnswerScanner::new(Format::Gemini);
        let body =
            format!("{{\"candidates\":[{{\"finishReason\":\"STOP\"}}],\"usageMetadata\":{usage}}}");
        scanner.push(body.as_bytes());
        scanner.finish();
        scanner.usage().plausible()
    };
    assert_eq!(
        reported(
            r#"{"promptTokenCount":10,"cachedContentTokenCount":4,"toolUsePromptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":5,"totalTokenCount":20}"#
        ),
        Some(usage(8, 4, 0, 8, 5))
    );
    // Zeros are not written: the limit was met in a thought.
    assert_eq!(
        reported(r#"{"promptTokenCount":10,"thoughtsTokenCount":5,"totalTokenCount":15}"#),
        Some(usage(10, 0, 0, 5, 5))
    );
    assert_eq!(
        reported(r#"{"promptTokenCount":10,"totalTokenCount":10}"#),
        None
    );
}

#[test]
fn parts_with_prices_of_their_own_are_read_wherever_a_format_has_them() {
    use Format::{Chat, Converse, Gemini, Messages, Responses};
    let details = UsageDetails::default();
    let examples = [
        (
            Chat,
            r#"{"service_tier":"priority","usage":{"prompt_tokens":10,"prompt_tokens_details":{"audio_tokens":3},"completion_tokens":4,"completion_tokens_details":{"audio_tokens":2}}}"#,
            UsageDetails {
                audio_input: 3,
                audio_output: 2,
                tier: ServiceTier::Priority,
                ..details
            },
        ),
        (
            Messages,
            r#"{"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3},"output_tokens":4,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":7},"service_tier":"batch"},"content":[]}"#,
            UsageDetails {
                cache_write_1h: 3,
                tool_calls: [2, 0, 0, 0],
                tier: ServiceTier::Batch,
                ..details
            },
        ),
        (
            Responses,
            r#"{"object":"response","output":[],"usage":{"input_tokens":10,"output_tokens":4},"service_tier":"ultrafast"}"#,
            UsageDetails {
                tier: ServiceTier::Fast,
                ..details
            },
        ),
        // As the first and the last event of a stream say it, one after the other.
        (
            Responses,
            r#"{"service_tier":"ultrafast","object":"response","output":[],"usage":{"input_tokens":10,"output_tokens":4},"service_tier":"default"}"#,
            details,
        ),
        (
            Messages,
            r#"{"usage":{"speed":"fast","input_tokens":10,"output_tokens":4,"service_tier":"standard"},"content":[]}"#,
            UsageDetails {
                tier: ServiceTier::Fast,
                ..details
            },
        ),
        (
            Messages,
            r#"{"usage":{"input_tokens":10,"output_tokens":4,"service_tier":"priority","speed":"standard"},"content":[]}"#,
            UsageDetails {
                tier: ServiceTier::Priority,
                ..details
            },
        ),
        (
            Responses,
            r#"{"output":[{"type":"web_search_call","id":"a","action":{"type":"search","query":"type"}},{"action":{"type":"open_page"},"type":"web_search_call"},{"type":"message","content":[{"type":"file_search_call"}]},{"type":"file_search_call"},{"type":"code_interpreter_call"},{"type":"web_search_call"}],"usage":{"input_tokens":10,"output_tokens":4},"service_tier":"flex"}"#,
            UsageDetails {
                tool_calls: [2, 1, 1, 0],
                tier: ServiceTier::Flex,
                ..details
            },
        ),
        (
            Gemini,
            r#"{"usageMetadata":{"promptTokenCount":10,"promptTokensDetails":[{"modality":"TEXT","tokenCount":6},{"tokenCount":4,"modality":"AUDIO"}],"candidatesTokenCount":9,"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":8},{"modality":"TEXT","tokenCount":1}]}}"#,
            UsageDetails {
                audio_input: 4,
                image_output: 8,
                ..details
            },
        ),
        (
            Gemini,
            r#"{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":7,"cacheTokensDetails":[{"modality":"AUDIO","tokenCount":3},{"modality":"TEXT","tokenCount":4}],"promptTokensDetails":[{"modality":"TEXT","tokenCount":5},{"modality":"AUDIO","tokenCount":5}],"candidatesTokenCount":9}}"#,
            UsageDetails {
                audio_input: 2,
                audio_cache_read: 3,
                ..details
            },
        ),
        (
            Gemini,
            r#"{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":9,"serviceTier":"PRIORITY"}}"#,
            UsageDetails {
                tier: ServiceTier::Priority,
                ..details
            },
        ),
        (
            Gemini,
            r#"{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":9,"trafficType":"ON_DEMAND_FLEX"}}"#,
            UsageDetails {
                tier: ServiceTier::Flex,
                ..details
            },
        ),
        // Paid in advance: it has no price of its own.
        (
            Gemini,
            r#"{"usageMetadata":{"trafficType":"PROVISIONED_THROUGHPUT","promptTokenCount":10,"candidatesTokenCount":9}}"#,
            details,
        ),
        (
            Converse,
            r#"{"output":{"message":{"role":"assistant","content":[]}},"serviceTier":{"type":"flex"},"usage":{"inputTokens":10,"cacheWriteInputTokens":9,"cacheDetails":[{"ttl":"1h","inputTokens":3},{"inputTokens":4,"ttl":"5m"},{"inputTokens":2,"ttl":"1h"}],"outputTokens":4,"totalTokens":23}}"#,
            UsageDetails {
                cache_write_1h: 5,
                tier: ServiceTier::Flex,
                ..details
            },
        ),
    ];
    for (format, body, expected) in examples {
        let mut scanner = AnswerScanner::new(format);
        scanner.push(body.as_bytes());
        scanner.finish();
        let found = scanner.usage();
        let tier = found.tier.unwrap_or_default();
        let details = UsageDetails {
            tier,
            ..found.details
        };
        assert_eq!(details, expected, "{format} {body}");
        assert!(found.plausible().is_some(), "{format} {body}");
    }
}

#[test]
fn the_last_of_several_reports_says_what_its_parts_are() {
    let mut scanner = StreamScanner::new(Format::Gemini, StreamOptions::default());
    for (audio, output) in [(4, 1), (4, 3)] {
        let event = format!(
            r#"data: {{"candidates":[{{"content":{{"parts":[{{"text":"a"}}],"role":"model"}},"index":0}}],"usageMetadata":{{"promptTokenCount":10,"promptTokensDetails":[{{"modality":"AUDIO","tokenCount":{audio}}}],"candidatesTokenCount":{output},"candidatesTokensDetails":[{{"modality":"AUDIO","tokenCount":{output}}}]}}}}"#
        );
        scanner.push(&(event + "\n\n").into(), &mut Vec::new());
    }
    let details = scanner.usage().details;
    assert_eq!((details.audio_input, details.audio_output), (4, 3));
}

/// What the totals of messages leave out: the example of Anthropic's documentation, with a cache.
const ITERATIONS: &str = r#"{"input_tokens":23000,"output_tokens":1000,"iterations":[
    {"type":"compaction","input_tokens":180000,"output_tokens":3500},
    {"cache_read_input_tokens":30,"cache_creation_input_tokens":20,"cache_creation":{"ephemeral_1h_input_tokens":7},"output_tokens":5,"type":"advisor_message","model":"m"},
    {"input_tokens":23000,"output_tokens":1000,"type":"message"},
    {"input_tokens":23000,"output_tokens":1000,"type":"fallback_message"},
    {"input_tokens":1,"output_tokens":1}]}"#;

#[test]
fn iterations_that_the_totals_leave_out_are_added() {
    let seen = reported(Format::Messages, ITERATIONS);
    let expected = usage(203_000, 30, 20, 4505, 0);
    assert_eq!(seen.plausible(), Some(expected), "{seen:?}");
    assert_eq!(seen.details.cache_write_1h, 7);
    // Other formats have no such list: their totals are complete.
    let chat = reported(Format::Chat, ITERATIONS);
    assert_eq!(chat.plausible(), Some(usage(23_000, 0, 0, 1000, 0)));
    let absurd = ITERATIONS.replace("180000", "-1");
    assert!(reported(Format::Messages, &absurd).absurd);
}

#[test]
fn iterations_of_a_later_event_replace_earlier_ones() {
    let mut scanner = StreamScanner::new(Format::Messages, StreamOptions::default());
    let start =
        format!(r#"{{"type":"message_start","message":{{"content":[],"usage":{ITERATIONS}}}}}"#);
    let delta = format!(r#"{{"type":"message_delta","delta":{{}},"usage":{ITERATIONS}}}"#);
    for event in [start, delta.clone(), delta] {
        let event = event.replace('\n', "");
        scanner.push(&format!("data: {event}\n\n").into(), &mut Vec::new());
    }
    let seen = scanner.usage();
    assert_eq!(seen.plausible(), Some(usage(203_000, 30, 20, 4505, 0)));
    assert_eq!(seen.details.cache_write_1h, 7);
}

/// A response whose image tool has drawn.
const DRAWN: &str = r#"{"output":[],"status":"completed","tool_usage":{"image_gen":{"input_tokens":500,"input_tokens_details":{"image_tokens":300,"text_tokens":200},"cached_tokens":100,"output_tokens":1584,"output_tokens_details":{"image_tokens":1584,"text_tokens":0},"total_tokens":2084},"web_search":{"num_requests":0}},"usage":{"input_tokens":20,"output_tokens":10,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":30}}"#;

#[test]
fn the_image_tool_counts_beside_the_usage() {
    let mut whole = AnswerScanner::new(Format::Responses);
    whole.push(DRAWN.as_bytes());
    whole.finish();
    let mut stream = StreamScanner::new(Format::Responses, StreamOptions::default());
    for kind in ["created", "completed"] {
        let event = format!(r#"data: {{"type":"response.{kind}","response":{DRAWN}}}"#);
        stream.push(&(event + "\n\n").into(), &mut Vec::new());
    }
    for seen in [whole.usage(), stream.usage()] {
        assert_eq!(
            seen.plausible(),
            Some(usage(420, 100, 0, 1594, 0)),
            "{seen:?}"
        );
        assert_eq!(seen.details.image_output, 1584);
    }
    let absurd = DRAWN.replace("1584", "\"many\"");
    let mut scanner = AnswerScanner::new(Format::Responses);
    scanner.push(absurd.as_bytes());
    assert!(scanner.usage().absurd);
}

#[test]
fn calls_of_tools_count_when_they_arrive() {
    let begun = |kind: &str| {
        format!(
            r#"{{"type":"response.output_item.added","item":{{"type":"{kind}","status":"in_progress"}}}}"#
        )
    };
    let ended = |kind: &str, action: &str| {
        format!(
            r#"{{"type":"response.output_item.done","item":{{"status":"completed","action":{{"type":"{action}"}},"type":"{kind}"}}}}"#
        )
    };
    let block = |tool: &str| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"server_tool_use","name":"{tool}","id":"a","input":{{}}}}}}"#
        )
    };
    let own = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"web_search","id":"a","input":{}}}"#;
    for (format, events, expected) in [
        (
            Format::Responses,
            vec![
                begun("web_search_call"),
                ended("web_search_call", "search"),
                begun("web_search_call"),
                ended("web_search_call", "open_page"),
                begun("code_interpreter_call"),
                ended("file_search_call", ""),
                ended("message", ""),
            ],
            [1, 1, 1, 0],
        ),
        (
            Format::Responses,
            vec![begun("web_search_call")],
            [1, 0, 0, 0],
        ),
        (
            Format::Messages,
            vec![
                block("web_search"),
                block("code_execution"),
                own.to_owned(),
                block("web_search"),
            ],
            [2, 0, 0, 0],
        ),
    ] {
        let mut stream = StreamScanner::new(format, StreamOptions::default());
        let mut out = Vec::new();
        for event in &events {
            stream.push(&format!("data: {event}\n\n").into(), &mut out);
        }
        assert_eq!(stream.usage().seen_calls, expected, "{format}");
        assert_eq!(stream.usage().details.tool_calls, [0; 4], "{format}");
    }
}
