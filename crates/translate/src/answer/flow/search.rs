//! Searches of the web that the provider makes by itself, and what texts cite of them.
//!
//! Decides where the seal stands by which a search or a citation goes back to its provider:
//! messages has room for it in the blocks themselves, responses has it beside them as reasoning.

use super::{Begun, End, Flow, Key, Kind};
use crate::{
    answer::{
        parts::{
            Blob, Citation,
            Failure::{self, Broken},
            Search,
        },
        write::{BlockEnd, append},
    },
    fingerprint::Fingerprint,
    formats::SealPlace,
    seal::{MAX_PAYLOAD_BYTES, ReasoningForm},
};

/// No provider's id is so long, in bytes.
pub(crate) const LONGEST_ID: usize = 4096;

/// The citations of the texts that have left, for a client that gets them sealed beside the texts.
#[derive(Debug, Default)]
pub(super) struct Cited {
    /// Members of a JSON object.
    members: String,
}

impl Cited {
    /// Keeps the citations of a text, as far as a seal has room.
    pub(super) fn add(&mut self, text: Fingerprint, citations: &[Citation]) {
        let native = citations.iter().filter_map(|it| it.native.as_deref());
        let list = native.collect::<Vec<_>>().join(",");
        let size = self.members.len().saturating_add(list.len());
        if list.is_empty() || size.saturating_add(64) > MAX_PAYLOAD_BYTES {
            return;
        }
        append(
            &mut self.members,
            &format!("\"{}\":[{list}]", text.finish()),
        );
    }

    fn take(&mut self) -> Option<Blob> {
        let members = std::mem::take(&mut self.members);
        let blob = || Blob::new(ReasoningForm::Citations, format!("{{{members}}}"));
        (!members.is_empty()).then(blob)
    }

    pub(super) const fn bytes(&self) -> usize {
        self.members.len()
    }
}

impl Flow {
    /// Whether the client sees searches of the web.
    pub(crate) fn has_search(&self) -> bool {
        self.notes.search.is_some()
    }

    /// The provider begins to search the web; `id` is its own.
    pub(crate) fn search(&mut self, key: Key, id: String) -> Result<(), Failure> {
        match id.len() <= LONGEST_ID {
            _ if self.has_stopped() => Ok(()),
            true => self.begin(key, Begun::Search(id)),
            false => Err(Broken),
        }
    }

    /// A search has come to its end.
    pub(crate) fn found(&mut self, key: Key, search: Search) -> Result<(), Failure> {
        if self.has_stopped() {
            return Ok(());
        }
        if self.is_open(key) {
            self.open = None;
            self.end_search(&search)?;
            return self.advance();
        }
        self.queue.end(key, End::Search(search))
    }

    /// Ends the search that has begun. Messages has room for its seal; beside an item of
    /// responses it stands as reasoning.
    pub(super) fn end_search(&mut self, search: &Search) -> Result<(), Failure> {
        let sealed = self.sealed(search.blob.as_ref());
        let sealed = sealed.as_deref();
        let has_found = search.is_search && search.failure.is_none();
        let searches = &mut self.outcome.searches;
        *searches = searches.saturating_add(u64::from(has_found));
        self.writer.end_search(search, sealed, &mut self.out)?;
        match sealed {
            Some(sealed) if self.client().search_seals == SealPlace::Beside => {
                self.reasoning(sealed)
            }
            _ => Ok(()),
        }
    }

    /// A piece of reasoning that holds a seal and nothing else.
    fn reasoning(&mut self, sealed: &str) -> Result<(), Failure> {
        self.writer.begin(Kind::Thinking, None, &mut self.out)?;
        self.writer.end(BlockEnd::Sealed(sealed), &mut self.out)
    }

    /// Hands out what the texts cite that have left, once something else begins: they are
    /// parts of one message until then.
    pub(super) fn seal_cited(&mut self) -> Result<(), Failure> {
        let Some(blob) = self.cited.take() else {
            return Ok(());
        };
        match self.sealed(Some(&blob)) {
            Some(sealed) => self.reasoning(&sealed),
            None => Ok(()),
        }
    }

    /// Whether what a text cites is sealed beside it, because its own place has no room.
    pub(super) fn seals_citations(&self) -> bool {
        let has_no_room = self.client().search_seals == SealPlace::Beside;
        has_no_room && self.has_search() && self.notes.reasoning.state
    }

    /// Messages has room for a seal in each citation.
    pub(super) fn sealed_citation(&self, citation: &Citation) -> Option<String> {
        if self.client().search_seals != SealPlace::Inside || !self.has_search() {
            return None;
        }
        let blob = Blob::new(ReasoningForm::Annotation, citation.native.clone()?);
        self.sealed(Some(&blob))
    }
}
