//! The parts of content: text, calls of tools and their results. `payloads` reads the media.

use super::{MAX_DEPTH, Reading, payloads::Medium, uncounted::is_silent};
use crate::json::Json;
use tollgate_wire::document::Kind;

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
            _ => self.reserve_for(content),
        }
    }

    /// Counts the content under a key of an object, and covers the rest.
    fn content_of(&mut self, object: Json<'j>, read: &str, depth: u8) {
        for (key, value) in object.members() {
            if key == read {
                self.content(value, depth);
            } else {
                self.reserve_for_member(&key, value);
            }
        }
    }

    pub(super) fn part(&mut self, part: Json<'j>, depth: u8) {
        match &*part.text_of("type") {
            "text" | "input_text" | "output_text" => self.content_of(part, "text", depth),
            "image"
            | "image_url"
            | "input_image"
            | "computer_screenshot"
            | "image_generation_call" => {
                let image = part.get("image_url");
                let image = image.filter(|it| it.kind() == Kind::Object);
                self.medium(Medium::image(image.unwrap_or(part)), part, depth);
            }
            "document" | "file" | "input_file" | "document_url" => {
                self.medium(Medium::Document, part, depth);
            }
            "input_audio" | "audio" | "audio_url" | "input_video" | "video" | "video_url" => {
                self.medium(Medium::Sound, part, depth);
            }
            "tool_use" | "server_tool_use" | "mcp_tool_use" => self.call(part),
            "tool_result" | "mcp_tool_result" => self.result(part, "content", depth),
            "thinking" if self.in_turn => self.content_of(part, "thinking", depth),
            "compaction" => self.sealed(part),
            "reasoning" if self.in_turn => self.sealed(part),
            "redacted_thinking" => {
                let data = part.get("data");
                data.into_iter()
                    .for_each(|it| self.reserve_for_member("encrypted", it));
                self.reserve_for_rest(part, &["data"]);
            }
            "thinking" | "reasoning" => self.reserve_for_rest(part, &[]),
            "item_reference" => {
                // What is stored at the provider may be of any length.
                self.assumed = true;
                self.reserve_for_rest(part, &[]);
            }
            _ => self.unknown(part, depth),
        }
    }

    /// A call of a tool, in any of the formats.
    pub(super) fn call(&mut self, call: Json<'j>) {
        self.frame(self.rules.per_tool_call);
        let inner = ["function", "custom"].into_iter();
        if let Some((key, inner)) = inner.filter_map(|key| Some((key, call.get(key)?))).next() {
            self.reserve_for_rest(call, &[key]);
            return self.called(inner);
        }
        self.called(call);
    }

    fn called(&mut self, call: Json<'j>) {
        if call.kind() != Kind::Object {
            return self.reserve_for(call);
        }
        for (key, value) in call.members() {
            match (&*key, value.as_text()) {
                ("name" | "arguments" | "input", Some(text)) => self.text(text),
                ("arguments" | "input", None) => self.json(value),
                _ => self.reserve_for_member(&key, value),
            }
        }
    }

    pub(super) fn result(&mut self, result: Json<'j>, key: &str, depth: u8) {
        self.frame(self.rules.per_tool_result);
        self.content_of(result, key, depth);
    }

    /// Reasoning that only its provider can read: by its length, as measured on recorded
    /// traffic, since the seal itself takes some 900 digits.
    fn sealed(&mut self, part: Json<'j>) {
        const SEAL: u64 = 900;
        const DIGITS_PER_TOKEN: u64 = 7;
        for (key, value) in part.members() {
            match value.as_text() {
                Some(digits) if key == "encrypted_content" => {
                    let tokens = (digits.len() as u64).saturating_sub(SEAL) / DIGITS_PER_TOKEN;
                    self.framing = self.framing.saturating_add(tokens);
                }
                _ => self.reserve_for_member(&key, value),
            }
        }
    }

    /// A part of no known type: its strings, but for those that no model reads.
    fn unknown(&mut self, part: Json<'j>, depth: u8) {
        for (key, value) in part.members() {
            match &*key {
                key if is_silent(key) => self.reserve_for_member(key, value),
                // A call and its result.
                "args" | "response" => self.json(value),
                key => match Medium::under(key, value) {
                    Some(medium) => self.medium_under(medium, key, value, depth),
                    None => {
                        self.add_uncounted(key.len());
                        self.content(value, depth);
                    }
                },
            }
        }
    }
}
