//! The parts of content: text, media, calls of tools and their results.

use super::{MAX_DEPTH, Reading};
use crate::{
    json::Json,
    media::{Detail, is_base64, size_of_image},
};
use std::borrow::Cow;
use tollgate_wire::document::Kind;

/// Keys whose text no model reads.
const SILENT: [&str; 17] = [
    "type",
    "id",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "file_id",
    "container_id",
    "item_id",
    "server_label",
    "status",
    "role",
    "phase",
    "signature",
    "cache_control",
    "citations",
    "annotations",
    "logprobs",
];

impl<'j> Reading<'j> {
    /// Text, a part, or a list of parts.
    pub(super) fn content(&mut self, content: Json<'j>, depth: u8) {
        match content.kind() {
            Kind::String => self.text(content.as_text().unwrap_or_default()),
            Kind::Array => content
                .elements()
                .for_each(|part| self.content(part, depth)),
            Kind::Object if depth < MAX_DEPTH => self.part(content, depth + 1),
            Kind::Null => {}
            _ => self.pass_over(content),
        }
    }

    pub(super) fn part(&mut self, part: Json<'j>, depth: u8) {
        match &*part.text_of("type") {
            "text" | "input_text" | "output_text" => {
                self.text(part.text_of("text"));
                self.rest_of(part, &["text"]);
            }
            "image" | "image_url" | "input_image" | "computer_screenshot" => self.image(part),
            "document" | "file" | "input_file" | "document_url" => self.document(part, depth),
            "input_audio" | "audio" | "audio_url" => self.sound(part),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => self.call(part),
            "tool_result" | "mcp_tool_result" => self.result(part, "content", depth),
            "thinking" if self.in_turn => {
                let thinking = part.get("thinking");
                thinking.into_iter().for_each(|it| self.content(it, depth));
                self.rest_of(part, &["thinking"]);
            }
            "compaction" => self.sealed(part),
            "reasoning" if self.in_turn => self.sealed(part),
            "redacted_thinking" => {
                let data = part.get("data");
                data.into_iter()
                    .for_each(|it| self.pass_over_member("encrypted", it));
                self.rest_of(part, &["data"]);
            }
            "thinking" | "reasoning" => self.rest_of(part, &[]),
            // What is stored at the provider may be of any length.
            "item_reference" => self.assumed = true,
            _ => self.unknown(part, depth),
        }
    }

    /// A call of a tool, in any of the formats.
    pub(super) fn call(&mut self, call: Json<'j>) {
        self.frame(self.rules.per_tool_call);
        let inner = ["function", "custom"].into_iter();
        if let Some((key, inner)) = inner.filter_map(|key| Some((key, call.get(key)?))).next() {
            self.rest_of(call, &[key]);
            return self.called(inner);
        }
        self.called(call);
    }

    fn called(&mut self, call: Json<'j>) {
        for (key, value) in call.members() {
            match (&*key, value.as_text()) {
                ("name" | "arguments" | "input", Some(text)) => self.text(text),
                ("arguments" | "input", None) => self.json(value),
                _ => self.pass_over_member(&key, value),
            }
        }
    }

    pub(super) fn result(&mut self, result: Json<'j>, key: &str, depth: u8) {
        self.frame(self.rules.per_tool_result);
        if let Some(content) = result.get(key) {
            self.content(content, depth);
        }
        self.rest_of(result, &[key]);
    }

    /// Reasoning that only its provider can read: by its length, as measured on recorded
    /// traffic, since the seal itself takes some 900 digits.
    fn sealed(&mut self, part: Json<'j>) {
        const SEAL: u64 = 900;
        const DIGITS_PER_TOKEN: u64 = 7;
        let digits = part.text_of("encrypted_content");
        self.rest_of(part, &["encrypted_content"]);
        let tokens = (digits.len() as u64).saturating_sub(SEAL) / DIGITS_PER_TOKEN;
        self.framing = self.framing.saturating_add(tokens);
    }

    fn image(&mut self, part: Json<'j>) {
        let image = part.get("image_url");
        let (url, detail) = match image.map(|image| (image, image.as_text())) {
            Some((_, Some(url))) => (url, part.text_of("detail")),
            Some((image, None)) => (image.text_of("url"), image.text_of("detail")),
            None => Default::default(),
        };
        let data = match part.get("source") {
            Some(source) if image.is_none() => source.text_of("data"),
            _ => payload(&url).map_or(Cow::Borrowed(""), Cow::Borrowed),
        };
        self.rest_of(part, &["image_url", "source"]);
        for inner in ["image_url", "source"] {
            self.rest_of_payload(part.get(inner));
        }
        let size = Some(&*data).filter(|data| !data.is_empty());
        let size = size.and_then(size_of_image);
        let tokens = self.rules.image.tokens(size, Detail::of(&detail));
        self.medium(tokens, size.is_some());
    }

    fn document(&mut self, part: Json<'j>, depth: u8) {
        self.text(part.text_of("title"));
        self.text(part.text_of("context"));
        let source = part
            .get("source")
            .or_else(|| part.get("file"))
            .unwrap_or(part);
        let read = [
            "title",
            "context",
            "source",
            "file",
            "file_data",
            "file_url",
            "data",
        ];
        self.rest_of(part, &read);
        for inner in ["source", "file"] {
            self.rest_of_payload(part.get(inner));
        }
        match &*source.text_of("type") {
            "text" => return self.text(source.text_of("data")),
            "content" => {
                let content = source.get("content");
                return content.into_iter().for_each(|it| self.content(it, depth));
            }
            _ => {}
        }
        let data = ["data", "file_data"]
            .into_iter()
            .map(|key| source.text_of(key))
            .find(|data| !data.is_empty());
        let digits = data.and_then(|data| match payload(&data) {
            Some(payload) => Some(payload.len()),
            None => is_base64(&data).then_some(data.len()),
        });
        // Four digits are three bytes.
        let bytes = digits.map(|digits| digits as u64 / 4 * 3);
        self.medium(self.rules.document.tokens(bytes), bytes.is_some());
    }

    /// Sound, by its size: no family says more than so many tokens a second.
    fn sound(&mut self, part: Json<'j>) {
        const BYTES_PER_TOKEN: u64 = 1600;
        const TYPICAL: u64 = 500;
        let sound = part.get("input_audio").unwrap_or(part);
        self.rest_of(part, &["input_audio", "data", "audio_url", "source"]);
        self.rest_of_payload(part.get("input_audio"));
        let data = sound.text_of("data");
        let tokens = if data.is_empty() {
            TYPICAL
        } else {
            data.len() as u64 / 4 * 3 / BYTES_PER_TOKEN
        };
        self.medium(tokens, false);
    }

    /// A part of no known type: its strings, but for those that no model reads.
    fn unknown(&mut self, part: Json<'j>, depth: u8) {
        for (key, value) in part.members() {
            let is_silent = SILENT.contains(&key.as_ref()) || key.starts_with("encrypted");
            if is_silent {
                self.pass_over_member(&key, value);
            } else {
                self.content(value, depth);
            }
        }
    }
}

/// The base64 in a `data:` address; `None` for any other address.
fn payload(url: &str) -> Option<&str> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    head.ends_with(";base64").then_some(data)
}
