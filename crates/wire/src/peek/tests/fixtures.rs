//! Every recorded request must peek to what a walk over its tree finds. The walk
//! here knows the `type` of a part before it looks at it, and recurses: it shares
//! nothing with the peeker but the rules.

use super::*;
use serde_json::{Map, Value};
use std::path::PathBuf;

fn recorded(file: &str) -> Option<Vec<Value>> {
    let folder = std::env::var_os("TOLLGATE_FIXTURES").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/fixtures"
            ))
        },
        PathBuf::from,
    );
    let path = folder.join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    };
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let records: Vec<Value> = text.lines().map(parse).collect();
    assert!(!records.is_empty());
    Some(records)
}

/// What a walk over the tree finds.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    text: u64,
    media: MediaFacts,
    tools: bool,
    images: bool,
    documents: bool,
    audio: bool,
    ids: Vec<String>,
}

impl Seen {
    fn text(&mut self, value: &Value) {
        self.text += value.as_str().map_or(0, str::len) as u64;
    }

    fn id(&mut self, value: &Value) {
        match value {
            Value::String(id) if !self.ids.contains(id) => self.ids.push(id.clone()),
            Value::Array(ids) => ids.iter().for_each(|id| self.id(id)),
            _ => {}
        }
    }

    /// JSON as the model reads it: all that is not punctuation.
    fn json(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text += text.len() as u64,
            Value::Array(elements) => elements.iter().for_each(|element| self.json(element)),
            Value::Object(members) => {
                for (key, member) in members {
                    self.text += key.len() as u64;
                    self.json(member);
                }
            }
            scalar => self.text += scalar.to_string().len() as u64,
        }
    }

    fn content(&mut self, format: Format, value: &Value) {
        match value {
            Value::Array(elements) => elements.iter().for_each(|e| self.content(format, e)),
            Value::Object(node) => self.node(format, node),
            scalar => self.text(scalar),
        }
    }

    fn link(&mut self, value: &Value) {
        let url = value
            .as_str()
            .or_else(|| value["url"].as_str())
            .unwrap_or_default();
        if url.starts_with("data:") {
            self.media.bytes += url.len() as u64;
        } else {
            self.text += url.len() as u64;
        }
        for beside in ["detail", "format", "media_type", "identifier"] {
            self.text(&value[beside]);
        }
    }

    fn node(&mut self, format: Format, node: &Map<String, Value>) {
        let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
        let holds = |key: &str| node.get(key).is_some_and(|value| !value.is_null());
        let role = node.get("role").and_then(Value::as_str);
        self.tools |= role == Some("tool");
        let calls = node.get("tool_calls").and_then(Value::as_array);
        self.tools |= calls.is_some_and(|calls| !calls.is_empty());
        self.tools |= kind.contains("tool_") && !kind.starts_with("image");
        self.tools |= kind.contains("_call") && kind != "image_generation_call";
        for (key, value) in node {
            match (format, key.as_str()) {
                (_, "tools") => self.offered(value),
                (_, "file_id" | "container_id") => self.id(value),
                (Format::Messages, "input") | (Format::Responses, "arguments") => self.json(value),
                (Format::Messages, "source") if value.is_object() => {
                    self.source(format, kind, value)
                }
                (Format::Messages, _) => self.content(format, value),
                (_, "image_url" | "video_url" | "document_url" | "file_url") => self.link(value),
                (Format::Chat, "input_audio") => {
                    self.media.bytes += value["data"].as_str().unwrap().len() as u64;
                    self.text(&value["format"]);
                }
                (Format::Chat, "file") => {
                    self.media.bytes +=
                        value["file_data"].as_str().unwrap_or_default().len() as u64;
                    self.id(&value["file_id"]);
                    self.text(&value["filename"]);
                }
                (_, "file_data") => self.media.bytes += value.as_str().unwrap().len() as u64,
                _ => self.content(format, value),
            }
        }
        if format != Format::Messages {
            let image = matches!(kind, "image_url" | "input_image");
            let document = matches!(kind, "file" | "input_file" | "document_url");
            self.images |= image;
            self.documents |= document;
            self.audio |= kind == "input_audio";
            let media = image || document || matches!(kind, "input_audio" | "video_url");
            self.media.parts += u64::from(media);
            self.media.unmeasured += u64::from(media && !image);
        }
        if matches!(kind, "item_reference" | "image_generation_call") && !holds("result") {
            self.id(&node["id"]);
        }
    }

    fn source(&mut self, format: Format, kind: &str, source: &Value) {
        let is_text = source["type"] == "text" || source["type"] == "content";
        self.media.parts += u64::from(!is_text);
        self.media.unmeasured += u64::from(!is_text && kind != "image");
        self.images |= kind == "image";
        self.documents |= kind == "document" && !is_text;
        for (key, value) in source.as_object().unwrap() {
            match key.as_str() {
                "data" if !is_text => self.media.bytes += value.as_str().unwrap().len() as u64,
                "file_id" => self.id(value),
                _ => self.content(format, value),
            }
        }
    }

    fn offered(&mut self, tools: &Value) {
        self.tools |= tools.as_array().is_some_and(|tools| !tools.is_empty());
        self.tool(tools);
    }

    fn tool(&mut self, tool: &Value) {
        match tool {
            Value::Array(tools) => tools.iter().for_each(|tool| self.tool(tool)),
            Value::Object(members) => {
                for (key, value) in members {
                    match key.as_str() {
                        "parameters" | "input_schema" | "format" => self.json(value),
                        "vector_store_ids" => self.id(value),
                        "container" if value.is_string() => self.id(value),
                        _ => self.tool(value),
                    }
                }
            }
            scalar => self.text(scalar),
        }
    }
}

fn walk(format: Format, body: &Value) -> Seen {
    let mut seen = Seen::default();
    for (key, value) in body.as_object().unwrap() {
        match (format, key.as_str()) {
            (_, "tools") => seen.offered(value),
            (_, "messages" | "input" | "instructions" | "system") => seen.content(format, value),
            (Format::Chat, "response_format") => seen.json_if_there(&value["json_schema"]),
            (Format::Responses, "text") => seen.json_if_there(&value["format"]["schema"]),
            (Format::Messages, "output_config") => seen.json_if_there(&value["format"]["schema"]),
            (Format::Responses, "previous_response_id" | "conversation") => seen.id(value),
            (Format::Messages, "container") => seen.id(value),
            _ => {}
        }
    }
    seen
}

impl Seen {
    fn json_if_there(&mut self, value: &Value) {
        if !value.is_null() {
            self.json(value);
        }
    }
}

fn check(format: Format, body: &Value, facts: &RequestFacts) {
    let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let limit = limits.iter().filter_map(|key| body[key].as_u64()).max();
    assert_eq!(facts.output_limit, limit);
    assert_eq!(facts.model.as_deref(), body["model"].as_str());
    assert_eq!(facts.stream, body["stream"] == true);
    assert_eq!(
        facts.include_usage,
        body["stream_options"]["include_usage"].as_bool()
    );
    assert_eq!(facts.choices, body["n"].as_u64().unwrap_or(1));
    assert_eq!(facts.background.is_some(), body["background"] == true);
    if format == Format::Responses {
        assert_eq!(facts.store, body["store"].as_bool());
    }
    assert_eq!(
        facts.thinking_budget,
        match format {
            Format::Messages => body["thinking"]["budget_tokens"].as_u64(),
            _ => None,
        }
    );
    let effort = [
        &body["reasoning_effort"],
        &body["reasoning"]["effort"],
        &body["output_config"]["effort"],
    ];
    let known = |word: &&Value| serde_json::from_value((*word).clone()).ok();
    let effort: Option<Effort> = effort.iter().find_map(known);
    assert_eq!(facts.effort, effort);
    let schema = [
        &body["response_format"]["type"],
        &body["text"]["format"]["type"],
        &body["output_config"]["format"]["type"],
    ];
    assert_eq!(
        facts.needs.schema,
        schema.iter().any(|kind| *kind == "json_schema")
    );

    let mut seen = walk(format, body);
    let mut found = Seen {
        text: facts.text_bytes,
        media: facts.media,
        tools: facts.needs.tools,
        images: facts.needs.images,
        documents: facts.needs.documents,
        audio: facts.needs.audio,
        ids: facts.stored_ids.iter().map(|it| it.id.clone()).collect(),
    };
    seen.ids.sort();
    found.ids.sort();
    assert_eq!(found, seen, "{}", body);
}

/// Peeks at a body in pieces of several sizes; all must find the same.
fn peek_in_pieces(peeker: impl Fn() -> Peeker, body: &str) -> Peeked {
    let whole = peek_chunks(peeker(), [body.as_bytes()]).unwrap();
    for size in [1, 2, 3, 7, 64, 1021] {
        let pieces = peek_chunks(peeker(), body.as_bytes().chunks(size)).unwrap();
        assert_eq!(pieces, whole, "in pieces of {size}");
    }
    whole
}

type Make = fn(&PeekLimits) -> Peeker;

#[test]
fn every_recorded_request_peeks_to_what_its_tree_holds() {
    let limits = PeekLimits::default();
    let files: [(&str, Format, Make); 4] = [
        ("chat.jsonl", Format::Chat, |l| Peeker::new(Format::Chat, l)),
        ("responses.jsonl", Format::Responses, |l| {
            Peeker::new(Format::Responses, l)
        }),
        ("messages.jsonl", Format::Messages, |l| {
            Peeker::new(Format::Messages, l)
        }),
        ("count_tokens.jsonl", Format::Messages, |l| {
            Peeker::new(Format::Messages, l).for_count()
        }),
    ];
    for (file, format, peeker) in files {
        let Some(records) = recorded(file) else {
            return;
        };
        for record in &records {
            let body = &record["request"];
            if !body.is_object() {
                continue;
            }
            for source in [
                body.to_string(),
                serde_json::to_string_pretty(body).unwrap(),
            ] {
                let peeked = peek_in_pieces(|| peeker(&limits), &source);
                check(format, body, &peeked.facts);
                check_spans(body, &source, &peeked.spans);
            }
        }
    }
}

fn check_spans(body: &Value, source: &str, spans: &Spans) {
    let parsed =
        |span| slice(source, span).map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(parsed(spans.model).as_ref(), body.get("model"));
    assert_eq!(parsed(spans.stream).as_ref(), body.get("stream"));
    let limits = [spans.output_limit, spans.older_output_limit];
    let limits = limits.into_iter().flatten();
    let given = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
    assert!(
        limits
            .filter_map(|limit| parsed(Some(limit.span)))
            .eq(given.iter().filter_map(|field| body.get(field)).cloned()),
        "{spans:?}"
    );
    let options = body.get("stream_options");
    assert_eq!(parsed(spans.stream_options).as_ref(), options);
    let usage = options.and_then(|options| options.get("include_usage"));
    assert_eq!(parsed(spans.include_usage).as_ref(), usage);
    let top = usize::try_from(spans.top.inside).unwrap();
    assert_eq!(&source[..top], "{");
}

#[test]
fn a_recorded_request_cut_short_is_not_complete() {
    for (file, format) in [
        ("chat.jsonl", Format::Chat),
        ("messages.jsonl", Format::Messages),
    ] {
        let Some(records) = recorded(file) else {
            return;
        };
        let bodies = records.iter().map(|record| record["request"].to_string());
        let short = bodies
            .filter(|body| body.starts_with('{'))
            .min_by_key(String::len);
        let body = short.unwrap();
        for len in 0..body.len() {
            let mut peeker = Peeker::new(format, &PeekLimits::default());
            assert_eq!(peeker.push(&body.as_bytes()[..len]), Ok(()));
            assert!(
                matches!(peeker.finish(), Err(PeekError::Json(_))),
                "{}",
                &body[..len]
            );
        }
    }
}
