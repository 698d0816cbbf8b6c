//! What is asked and what is answered: request and answer bodies of exact sizes.
//!
//! A chat request grows with the conversation and a chat answer does not, so the 100 KB case
//! that carries a bar is a 100 KB *request* with a 1 KB answer; the mirror case is measured
//! beside it. Texts are prose and code with the escapes that real ones have, because the cost
//! of looking at JSON hangs on them.

use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// One line of the texts that fill bodies: prose, quotes, a line break and some UTF-8.
const TEXT: &str = "Read \"src/lib.rs\" and say why `fn poll(&mut self)` never wakes — \
                    the waker is cloned once.\n\tif let Some(waker) = self.waker.take() { … }\n";
/// Messages in a long conversation: an odd number, so that the last is the user's. Messages
/// providers take no other.
const LONG_MESSAGES: usize = 23;
/// Size of one streamed event in bytes, its blank line included.
pub(crate) const STREAM_EVENT_BYTES: usize = 200;
/// What follows the last event.
pub(crate) const STREAM_END: &str = "data: [DONE]\n\n";

/// One shape of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Workload {
    /// Short name, used on the command line and as the first part of metric names.
    pub(crate) id: &'static str,
    /// Name in the report.
    pub(crate) name: &'static str,
    /// Model name: the provider reads its orders from it.
    pub(crate) model: &'static str,
    /// Request body in bytes.
    pub(crate) request_bytes: usize,
    /// What one answer must be.
    pub(crate) answer: Expected,
    /// Kept connections, each with one request at a time.
    pub(crate) connections: usize,
    /// What the provider of the model speaks; the request is always a chat request.
    pub(crate) speaks: Format,
}

/// A format in which a provider is asked and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// Chat completions.
    Chat,
    /// Messages: what is asked and answered has to be translated.
    Messages,
    /// Responses: the same.
    Responses,
    /// Gemini: the same, and the model stands in the path.
    Gemini,
}

impl Format {
    /// Every format.
    pub(crate) const ALL: [Self; 4] = [Self::Chat, Self::Messages, Self::Responses, Self::Gemini];

    /// The name, as it stands in configurations and model names.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Gemini => "gemini",
        }
    }
}

/// What a right answer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expected {
    /// A completion with this many bytes of body.
    Whole {
        /// Body bytes.
        bytes: usize,
    },
    /// A completion whose body has this many bytes as the provider writes it. How many they
    /// are in another format is the translator's affair.
    Translated {
        /// Body bytes before the translation.
        bytes: usize,
    },
    /// An event stream with this many content events.
    Stream {
        /// Events before the final `[DONE]`.
        events: u64,
    },
}

/// Short conversation, short answer.
pub(crate) const SMALL: Workload = Workload {
    id: "1k",
    name: "1 KB",
    model: "canned-1024",
    request_bytes: 1024,
    answer: Expected::Whole { bytes: 1024 },
    connections: 32,
    speaks: Format::Chat,
};
/// Long conversation, short answer: what an agent sends.
pub(crate) const LARGE_REQUEST: Workload = Workload {
    id: "100k-request",
    name: "100 KB request",
    request_bytes: 100 * 1024,
    ..SMALL
};
/// Short conversation, long answer.
pub(crate) const LARGE_ANSWER: Workload = Workload {
    id: "100k-answer",
    name: "100 KB answer",
    model: "canned-102400",
    answer: Expected::Whole { bytes: 100 * 1024 },
    ..SMALL
};
/// Many streams at the pace of fast models. The pace leaves the proxy idle time, so that each
/// event wakes it by itself instead of travelling with its neighbours.
pub(crate) const STREAMS: Workload = Workload {
    id: "streams",
    name: "streams",
    model: "canned-stream-400x5",
    request_bytes: 1024,
    answer: Expected::Stream { events: 400 },
    connections: 64,
    speaks: Format::Chat,
};
/// As many streams as an agents' gateway has open, at the pace of slower models.
pub(crate) const MANY_STREAMS: Workload = Workload {
    id: "500-streams",
    name: "500 streams",
    model: "canned-stream-200x10",
    answer: Expected::Stream { events: 200 },
    connections: 500,
    ..STREAMS
};
/// Streams that have said one word and then keep silent.
pub(crate) const SILENT_STREAMS: Workload = Workload {
    id: "silent-streams",
    name: "silent streams",
    model: "canned-stream-2x20000",
    request_bytes: 1024,
    answer: Expected::Stream { events: 2 },
    connections: 500,
    speaks: Format::Chat,
};
/// A chat caller's short conversation with a provider that speaks messages alone.
const SMALL_TO_MESSAGES: Workload = Workload {
    id: "1k-to-messages",
    name: "1 KB, translated to messages",
    model: "canned-messages-1024",
    answer: Expected::Translated { bytes: 1024 },
    speaks: Format::Messages,
    ..SMALL
};
/// The long one.
const LARGE_TO_MESSAGES: Workload = Workload {
    id: "100k-to-messages",
    name: "100 KB request, translated to messages",
    request_bytes: LARGE_REQUEST.request_bytes,
    ..SMALL_TO_MESSAGES
};
/// A chat caller's short conversation with a provider that speaks responses alone.
const SMALL_TO_RESPONSES: Workload = Workload {
    id: "1k-to-responses",
    name: "1 KB, translated to responses",
    model: "canned-responses-1024",
    speaks: Format::Responses,
    ..SMALL_TO_MESSAGES
};
/// The long one.
const LARGE_TO_RESPONSES: Workload = Workload {
    id: "100k-to-responses",
    name: "100 KB request, translated to responses",
    request_bytes: LARGE_REQUEST.request_bytes,
    ..SMALL_TO_RESPONSES
};
/// A chat caller's short conversation with a provider that speaks Gemini's format alone.
const SMALL_TO_GEMINI: Workload = Workload {
    id: "1k-to-gemini",
    name: "1 KB, translated to Gemini",
    model: "canned-gemini-1024",
    speaks: Format::Gemini,
    ..SMALL_TO_MESSAGES
};
/// The long one.
const LARGE_TO_GEMINI: Workload = Workload {
    id: "100k-to-gemini",
    name: "100 KB request, translated to Gemini",
    request_bytes: LARGE_REQUEST.request_bytes,
    ..SMALL_TO_GEMINI
};
/// What is measured in requests and chunks a second.
pub(crate) const RATES: [Workload; 11] = [
    SMALL,
    LARGE_REQUEST,
    LARGE_ANSWER,
    SMALL_TO_MESSAGES,
    LARGE_TO_MESSAGES,
    SMALL_TO_RESPONSES,
    LARGE_TO_RESPONSES,
    SMALL_TO_GEMINI,
    LARGE_TO_GEMINI,
    STREAMS,
    MANY_STREAMS,
];

/// Every workload, for the gateway's catalog.
pub(crate) fn all() -> impl Iterator<Item = &'static Workload> {
    RATES.iter().chain([&SILENT_STREAMS])
}

impl Workload {
    /// The bytes of one HTTP/1.1 request; `credential` becomes a bearer token.
    pub(crate) fn request(&self, credential: Option<&str>) -> Vec<u8> {
        self.request_for(self.model, credential)
    }

    /// The same, for a model of another name.
    pub(crate) fn request_for(&self, model: &str, credential: Option<&str>) -> Vec<u8> {
        let body = self.request_body(model);
        let accept = if self.is_stream() {
            "text/event-stream"
        } else {
            "application/json"
        };
        let authorization = credential
            .map(|key| format!("authorization: Bearer {key}\r\n"))
            .unwrap_or_default();
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway.example\r\n{authorization}\
             accept: {accept}\r\ncontent-type: application/json\r\nuser-agent: tollgate-load\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// Whether the answer is an event stream.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.answer, Expected::Stream { .. })
    }

    /// Whether `body` says in the format `written` what the provider has said, where an
    /// answer's length alone does not show it.
    ///
    /// # Errors
    /// What it does not say.
    pub(crate) fn check_text(&self, body: &[u8], written: Format) -> Result<()> {
        let Expected::Translated { bytes } = self.answer else {
            return Ok(());
        };
        let wrong = |what: &str| Failure::WrongAnswer(format!("{what}, as {}", written.name()));
        let parse = |json: &[u8]| serde_json::from_slice::<Value>(json);
        let answer = parse(body).map_err(|_| wrong("no JSON"))?;
        let said = parse(completion(self.speaks, bytes).as_bytes()).unwrap_or_default();
        match reported(written, &answer) {
            Some(heard) if Some(heard) == reported(self.speaks, &said) => Ok(()),
            Some(_) => Err(wrong("another text or usage than the provider's")),
            None => Err(wrong("no text or no usage")),
        }
    }

    fn request_body(&self, model: &str) -> String {
        let messages = if self.request_bytes > 16 * 1024 {
            LONG_MESSAGES
        } else {
            1
        };
        let conversation = |text: &str| -> Vec<Value> {
            (0..messages)
                .map(|turn| {
                    let role = if turn % 2 == 0 { "user" } else { "assistant" };
                    json!({"role": role, "content": text})
                })
                .collect()
        };
        let body = |text: &str, user: &str| {
            json!({
                "model": model,
                "max_tokens": 256,
                "stream": self.is_stream(),
                "messages": conversation(text),
                "user": user,
            })
            .to_string()
        };
        filled(self.request_bytes, body)
    }
}

/// A completion of exactly `bytes` bytes, or the shortest possible if that is longer.
pub(crate) fn completion(format: Format, bytes: usize) -> String {
    filled(bytes, |text, padding| match format {
        Format::Chat => chat_completion(text, padding),
        Format::Messages => message(text, padding),
        Format::Responses => response(text, padding),
        Format::Gemini => generated(text, padding),
    })
}

fn chat_completion(text: &str, padding: &str) -> String {
    json!({
        "id": "chatcmpl-canned", "object": "chat.completion", "created": 1_790_000_000,
        "model": "canned", "system_fingerprint": padding,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null},
            "logprobs": null, "finish_reason": "stop",
        }],
        "usage": {
            "prompt_tokens": 200, "completion_tokens": 180, "total_tokens": 380,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    })
    .to_string()
}

fn message(text: &str, padding: &str) -> String {
    json!({
        "id": format!("msg_canned{padding}"), "type": "message", "role": "assistant",
        "model": "canned",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {
            "input_tokens": 200, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": 180,
        },
    })
    .to_string()
}

fn response(text: &str, padding: &str) -> String {
    json!({
        "id": format!("resp_canned{padding}"), "object": "response", "created_at": 1_790_000_000,
        "status": "completed", "error": null, "incomplete_details": null, "model": "canned",
        "output": [{
            "type": "message", "id": "msg_canned", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }],
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 200, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 180, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 380,
        },
    })
    .to_string()
}

fn generated(text: &str, padding: &str) -> String {
    json!({
        "candidates": [{
            "content": {"role": "model", "parts": [{"text": text}]},
            "finishReason": "STOP", "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": 200, "candidatesTokenCount": 180, "totalTokenCount": 380,
        },
        "modelVersion": "canned", "responseId": format!("canned{padding}"),
    })
    .to_string()
}

/// The text of an answer and its output tokens.
fn reported(format: Format, answer: &Value) -> Option<(&str, u64)> {
    let (text, tokens) = match format {
        Format::Chat => ("/choices/0/message/content", "/usage/completion_tokens"),
        Format::Messages => ("/content/0/text", "/usage/output_tokens"),
        Format::Responses => ("/output/0/content/0/text", "/usage/output_tokens"),
        Format::Gemini => (
            "/candidates/0/content/parts/0/text",
            "/usageMetadata/candidatesTokenCount",
        ),
    };
    Some((
        answer.pointer(text)?.as_str()?,
        answer.pointer(tokens)?.as_u64()?,
    ))
}

/// One content event of [`STREAM_EVENT_BYTES`] bytes.
pub(crate) fn stream_event() -> String {
    let event = |padding: &str| {
        let data = json!({
            "id": "chatcmpl-canned", "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": "canned",
            "choices": [{"index": 0, "delta": {"content": padding}, "finish_reason": null}],
        });
        format!("data: {data}\n\n")
    };
    event(&"w".repeat(STREAM_EVENT_BYTES.saturating_sub(event("").len())))
}

/// `build(text, padding)` with as much of [`TEXT`] as fits, padded to exactly `bytes`.
fn filled(bytes: usize, build: impl Fn(&str, &str) -> String) -> String {
    let empty = build("", "").len();
    let per_repeat = build(TEXT, "").len().saturating_sub(empty).max(1);
    let text = TEXT.repeat(bytes.saturating_sub(empty) / per_repeat);
    let padding = bytes.saturating_sub(build(&text, "").len());
    build(&text, &"p".repeat(padding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_promised_size_and_are_valid_json() {
        for workload in all() {
            let body = workload.request_body(workload.model);
            assert_eq!(body.len(), workload.request_bytes, "{}", workload.name);
            let parsed: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(parsed["model"], workload.model);
            assert_eq!(parsed["stream"], workload.is_stream());
            assert!(
                !parsed["messages"][0]["content"]
                    .as_str()
                    .unwrap()
                    .is_empty()
            );
        }
    }

    #[test]
    fn answers_have_the_promised_size_and_report_usage() {
        for format in Format::ALL {
            for bytes in [1024, 100 * 1024] {
                let body = completion(format, bytes);
                assert_eq!(body.len(), bytes);
                let parsed: Value = serde_json::from_str(&body).unwrap();
                let (text, tokens) = reported(format, &parsed).unwrap();
                assert!(text.len() > bytes / 4 && tokens == 180, "{body}");
            }
        }
    }

    #[test]
    fn a_translated_answer_must_say_what_the_provider_said() {
        let [chat, message] = [Format::Chat, Format::Messages].map(|it| completion(it, 1024));
        let text = reported(Format::Messages, &serde_json::from_str(&message).unwrap())
            .map(|(text, _)| text.to_owned())
            .unwrap();
        let right = chat_completion(&text, "");
        let check = |body: &str, written| SMALL_TO_MESSAGES.check_text(body.as_bytes(), written);
        check(&right, Format::Chat).unwrap();
        check(&message, Format::Messages).unwrap();
        for wrong in [&chat, &message, &right.replace("180", "0"), &right[1..]] {
            assert!(check(wrong, Format::Chat).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_streamed_event_has_the_promised_size() {
        let event = stream_event();
        assert_eq!(event.len(), STREAM_EVENT_BYTES);
        assert!(event.ends_with("\n\n") && !event.trim_end().contains('\n'));
    }

    #[test]
    fn large_bodies_are_mostly_text_with_escapes_and_little_padding() {
        let body = LARGE_REQUEST.request_body(LARGE_REQUEST.model);
        assert!(body.matches("\\n").count() > 500);
        assert!(body.matches('p').count() < body.len() / 10);
    }

    #[test]
    fn the_credential_stands_in_the_head_alone() {
        let request = String::from_utf8(SMALL.request(Some("sk-test"))).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("authorization: Bearer sk-test\r\n"));
        assert!(!body.contains("sk-test"));
        assert!(
            !String::from_utf8(SMALL.request(None))
                .unwrap()
                .contains("authorization")
        );
    }
}
