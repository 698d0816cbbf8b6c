//! What the count leaves out: a chat template or another server may show it to the model all the
//! same, so that a reservation has to cover its bytes.

use super::Reading;
use crate::json::Json;
use tollgate_wire::document::Kind;

/// Keys whose values say what stands beside them: no model reads a short one.
const LABELS: [&str; 19] = [
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
    "phase",
    "detail",
    "strict",
    "index",
    "effort",
    "verbosity",
    "media_type",
    "mimeType",
    "mime_type",
];
/// The longest of such values, in bytes.
const LONGEST_LABEL: usize = 128;
/// Bytes of them in a request that are free: a template may print them all.
const MOST_LABELS: usize = 8 * 1024;

/// The roles that are free: a template prints the role of every message.
const ROLES: [&str; 7] = [
    "assistant",
    "developer",
    "function",
    "model",
    "system",
    "tool",
    "user",
];

/// Keys whose values the formats define as no input.
const FREE: [&str; 4] = ["cache_control", "citations", "annotations", "logprobs"];

/// Bytes of a seal that make a token at most: what was thought is sealed with its text.
const SEAL_BYTES_PER_TOKEN: usize = 7;

impl<'j> Reading<'j> {
    pub(super) fn add_uncounted(&mut self, bytes: usize) {
        self.uncounted = self.uncounted.saturating_add(bytes as u64);
    }

    /// Covers a value that is not counted.
    pub(super) fn reserve_for(&mut self, value: Json<'_>) {
        self.add_uncounted(value.len());
    }

    /// Covers a member that is not counted.
    pub(super) fn reserve_for_member(&mut self, key: &str, value: Json<'_>) {
        let bytes = value.len();
        if FREE.contains(&key) || self.is_free_label(key, value) {
            return;
        }
        if is_seal(key) && value.kind() == Kind::String {
            return self.add_uncounted(bytes / SEAL_BYTES_PER_TOKEN);
        }
        self.add_uncounted(key.len().saturating_add(bytes));
    }

    fn is_free_label(&mut self, key: &str, value: Json<'_>) -> bool {
        if key == "role" {
            return value.as_text().is_some_and(|it| ROLES.contains(&&*it));
        }
        let bytes = value.len();
        let all = self.labels.saturating_add(bytes);
        let is_free = LABELS.contains(&key) && bytes <= LONGEST_LABEL && all <= MOST_LABELS;
        if is_free {
            self.labels = all;
        }
        is_free
    }

    /// Covers the members of an object, except those that are counted.
    pub(super) fn reserve_for_rest(&mut self, object: Json<'_>, counted: &[&str]) {
        if object.kind() != Kind::Object {
            return self.reserve_for(object);
        }
        for (key, value) in object.members() {
            if !counted.contains(&key.as_ref()) {
                self.reserve_for_member(&key, value);
            }
        }
    }
}

/// Whether no model reads the text of a key.
pub(super) fn is_silent(key: &str) -> bool {
    key == "role" || LABELS.contains(&key) || FREE.contains(&key) || is_seal(key)
}

/// Whether only a provider can read the value of a key.
fn is_seal(key: &str) -> bool {
    key == "signature" || key.starts_with("encrypted")
}
