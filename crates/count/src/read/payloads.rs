//! Media in content: images by the first bytes of their payload, all else by its size. Payloads
//! are base64, and no text.

use super::{MAX_DEPTH, Reading};
use crate::{
    json::Json,
    media::{Detail, is_base64, size_of_image},
};
use tollgate_wire::document::Kind;

/// The kind of a payload.
#[derive(Clone, Copy)]
pub(super) enum Medium {
    Image(Detail),
    Document,
    /// Sound or film.
    Sound,
    /// Text in base64.
    Text,
}

/// Keys of payloads, of links to them, and of objects with one of these.
const HOLDERS: [&str; 16] = [
    "audio",
    "audio_url",
    "data",
    "document_url",
    "file",
    "file_data",
    "file_url",
    "image",
    "image_url",
    "input_audio",
    "input_video",
    "result",
    "source",
    "url",
    "video",
    "video_url",
];

impl Medium {
    /// An image, by the object that can have its `detail`.
    pub(super) fn image(holder: Json<'_>) -> Self {
        Self::Image(Detail::of(&holder.text_of("detail")))
    }

    /// The medium that a key of a part of any type announces.
    pub(super) fn under(key: &str, value: Json<'_>) -> Option<Self> {
        match key {
            "image_url" => Some(Self::image(value)),
            "document_url" | "file_url" => Some(Self::Document),
            "audio_url" | "input_audio" | "input_video" | "video_url" => Some(Self::Sound),
            "inlineData" | "inline_data" | "fileData" => Some(Self::of_blob(value)),
            "file_data" if value.kind() == Kind::Object => Some(Self::of_blob(value)),
            "file_data" => Some(Self::Document),
            _ => None,
        }
    }

    /// By the media type of Google's objects.
    fn of_blob(blob: Json<'_>) -> Self {
        let mut types = ["mimeType", "mime_type"].into_iter();
        let media_type = types.find_map(|key| blob.get(key)?.as_text());
        let class = media_type.as_deref().and_then(|it| it.split('/').next());
        match class.unwrap_or_default() {
            "image" => Self::Image(Detail::Full),
            "text" => Self::Text,
            "application" => Self::Document,
            _ => Self::Sound,
        }
    }
}

impl<'j> Reading<'j> {
    /// A part with a medium.
    pub(super) fn medium(&mut self, medium: Medium, part: Json<'j>, depth: u8) {
        if !self.payloads(medium, part, depth) {
            self.measure(medium, None);
        }
    }

    /// A member that is a medium.
    pub(super) fn medium_under(&mut self, medium: Medium, key: &str, value: Json<'j>, depth: u8) {
        if !self.payload(medium, key, value, depth) {
            self.measure(medium, None);
        }
    }

    /// Measures the payloads of an object, and covers the rest; `false` if it has none.
    fn payloads(&mut self, medium: Medium, object: Json<'j>, depth: u8) -> bool {
        let kind = object.text_of("type");
        let mut is_found = false;
        for (key, value) in object.members() {
            match (&*key, &*kind) {
                // The source of a document can be text or parts.
                ("data", "text") | ("content", "content") => {
                    self.content(value, depth);
                    is_found = true;
                }
                ("title" | "context", "document") => self.content(value, depth),
                (key, _) if HOLDERS.contains(&key) => {
                    is_found |= self.payload(medium, key, value, depth);
                }
                (key, _) => self.reserve_for_member(key, value),
            }
        }
        is_found
    }

    fn payload(&mut self, medium: Medium, key: &str, value: Json<'j>, depth: u8) -> bool {
        if value.kind() == Kind::Object && depth < MAX_DEPTH {
            return self.payloads(medium, value, depth + 1);
        }
        let text = value.as_text().unwrap_or_default();
        let payload = payload(&text);
        match payload {
            Some(_) => self.measure(medium, payload),
            None => self.reserve_for_member(key, value),
        }
        payload.is_some()
    }

    /// Counts a medium; of one by address or stored at the provider, a typical one.
    fn measure(&mut self, medium: Medium, payload: Option<&str>) {
        // Four digits are three bytes.
        let bytes = payload.map(|digits| digits.len() as u64 / 4 * 3);
        let by_size = |bytes_per_token| bytes.map_or(TYPICAL, |bytes| bytes / bytes_per_token);
        let (tokens, most, is_known) = match medium {
            Medium::Image(detail) => {
                let rule = self.rules.image;
                let size = payload.and_then(size_of_image);
                let tokens = rule.tokens(size, detail);
                match size {
                    Some(_) => (tokens, tokens, true),
                    None => (tokens, rule.most(detail), false),
                }
            }
            Medium::Document => {
                let tokens = self.rules.document.tokens(bytes);
                (tokens, tokens, bytes.is_some())
            }
            // No family says more than so many tokens a second.
            Medium::Sound => (by_size(1600), by_size(1600), false),
            Medium::Text => (by_size(4), by_size(1), false),
        };
        self.media = self.media.saturating_add(tokens);
        let margin = most.saturating_sub(tokens);
        self.media_margin = self.media_margin.saturating_add(margin);
        self.assumed |= !is_known;
    }
}

/// Tokens of a sound, a film or a text of unknown size.
const TYPICAL: u64 = 500;

/// The digits of a payload: base64, or a `data:` address of it. `None` for any other text.
fn payload(text: &str) -> Option<&str> {
    let digits = match text.strip_prefix("data:") {
        Some(address) => {
            let (head, digits) = address.split_once(',')?;
            head.ends_with(";base64").then_some(digits)?
        }
        None => text,
    };
    is_base64(digits).then_some(digits)
}
