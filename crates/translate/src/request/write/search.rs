//! Writes the provider's search of the web: the tool, and searches of the past that this
//! provider made, as it made them.
//!
//! The contents of a seal are checked before they are written: a caller can make a seal
//! itself, and must not send through it what the gateway would refuse elsewhere.

use super::{Writer, shared::text};
use crate::{
    document::{Document, Kind, Value},
    fingerprint::Fingerprint,
    request::conversation::{Block, Location, Search, Thought, WebSearch, Words},
    seal::{self, ReasoningForm},
};

impl Writer<'_, '_> {
    pub(crate) fn domains(&mut self, search: &WebSearch<'_>) {
        if let Some(allowed) = search.allowed {
            self.out.key("allowed_domains").raw(allowed.raw());
        }
        if let Some(blocked) = search.blocked {
            self.out.key("blocked_domains").raw(blocked.raw());
        }
    }

    pub(crate) fn user_location(&mut self, location: Option<Location<'_>>) {
        let Some(location) = location else { return };
        self.out.key("user_location").begin_object();
        self.out.key("type").string("approximate");
        for (name, value) in [
            ("city", location.city),
            ("country", location.country),
            ("region", location.region),
            ("timezone", location.timezone),
        ] {
            if let Some(value) = value {
                text(self.out.key(name), value);
            }
        }
        self.out.end_object();
    }

    /// Leaves a search of the past out, with notice.
    pub(crate) fn forget_search(&mut self, search: &Search<'_>) {
        for path in search.paths {
            self.scope.note_dropped(*path);
        }
    }

    /// The item that a search of the past was, where this provider made it.
    pub(crate) fn search_item(&mut self, search: &Search<'_>) -> Option<String> {
        let state = search.state?.decode();
        let native = seal::open(self.backend(), &state)?;
        let is_item = native.form == ReasoningForm::SearchItem
            && is_object_of(&native.payload, &["web_search_call"]);
        is_item.then_some(native.payload)
    }

    /// Whether the reasoning that follows a search holds what it found.
    pub(crate) fn is_search_kept(&mut self, rest: &[Block<'_>]) -> bool {
        let Some(Block::Thought(thought)) = rest.first() else {
            return false;
        };
        let form = self.form_of(thought);
        self.offers_search && form == Some(ReasoningForm::SearchBlocks)
    }

    /// The form of a thought that this backend made.
    fn form_of(&mut self, thought: &Thought<'_>) -> Option<ReasoningForm> {
        let state = thought.state?.decode();
        Some(seal::open(self.backend(), &state)?.form)
    }

    /// Finds what the texts of an answer cited, for the provider that it cited them for.
    pub(crate) fn find_citations(&mut self, blocks: &[Block<'_>]) {
        self.citations.clear();
        if !self.offers_search {
            return;
        }
        for block in blocks {
            let Block::Thought(Thought {
                state: Some(state), ..
            }) = block
            else {
                continue;
            };
            let native = seal::open(self.backend(), &state.decode());
            let Some(native) = native.filter(|it| it.form == ReasoningForm::Citations) else {
                continue;
            };
            if let Ok(document) = Document::parse(native.payload.as_bytes()) {
                let members = document.root().members();
                let lists = members.filter(|(_, list)| is_list_of(*list, is_place));
                let found = lists.filter_map(|(text, list)| {
                    let list = std::str::from_utf8(list.raw()).ok()?;
                    Some((text.decode().into_owned(), Some(list.to_owned())))
                });
                self.citations.extend(found);
            }
        }
    }

    /// Writes what a text cites, in messages.
    pub(crate) fn messages_citations(&mut self, words: &Words<'_>, cited: Option<Value<'_>>) {
        let found = match self.citations.is_empty() {
            true => None,
            // Each list is written once: many texts can be the same.
            false => self.citations.get_mut(&fingerprint_of(words)),
        };
        match found.map(Option::take) {
            Some(Some(list)) => self.out.key("citations").raw(list.as_bytes()),
            Some(None) => {}
            None if cited.is_some() => self.scope.note_dropped("input[].content[].annotations"),
            None => {}
        }
    }

    /// The citations of a text in responses: the entries of `annotations`, separated by commas.
    pub(crate) fn annotations(&mut self, cited: Option<Value<'_>>) -> Option<String> {
        let mut kept = Vec::new();
        for citation in cited.into_iter().flat_map(Value::elements) {
            match self.annotation(citation) {
                Some(annotation) => kept.push(annotation),
                None => self.scope.note_dropped("messages[].content[].citations"),
            }
        }
        (!kept.is_empty()).then(|| kept.join(","))
    }

    fn annotation(&mut self, citation: Value<'_>) -> Option<String> {
        let index = citation.get("encrypted_index").and_then(Value::text)?;
        let native = seal::open(self.backend(), &index.decode())?;
        let is_annotation = native.form == ReasoningForm::Annotation
            && is_object_of(&native.payload, &["url_citation"]);
        is_annotation.then_some(native.payload)
    }
}

fn fingerprint_of(words: &Words<'_>) -> String {
    let mut fingerprint = Fingerprint::default();
    match words {
        Words::Asked(text) => fingerprint.push(&text.decode()),
        Words::Made(text) => fingerprint.push(text),
    }
    fingerprint.finish()
}

/// Whether a text is a JSON object of one of these types.
fn is_object_of(json: &str, types: &[&str]) -> bool {
    let document = Document::parse(json.as_bytes());
    document.is_ok_and(|document| is_of(document.root(), types))
}

fn is_of(value: Value<'_>, types: &[&str]) -> bool {
    let mut named = value.members().filter(|(key, _)| key.is("type"));
    let kind = named.next().and_then(|(_, value)| value.text());
    // Of two types the provider might read the other one.
    named.next().is_none() && kind.is_some_and(|kind| types.iter().any(|it| kind.is(it)))
}

/// Whether a value is a list of the two blocks of a search.
pub(crate) fn is_search(value: Value<'_>) -> bool {
    let mut blocks = value.elements();
    let call = blocks
        .next()
        .is_some_and(|it| is_of(it, &["server_tool_use"]));
    let result = blocks
        .next()
        .is_some_and(|it| is_of(it, &["web_search_tool_result"]));
    call && result && blocks.next().is_none()
}

fn is_place(value: Value<'_>) -> bool {
    is_of(value, &["web_search_result_location"])
}

fn is_list_of(value: Value<'_>, is_right: fn(Value<'_>) -> bool) -> bool {
    value.kind() == Kind::Array && value.elements().all(is_right)
}
