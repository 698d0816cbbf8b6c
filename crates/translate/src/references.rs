//! A responses request that refers to answers which the gateway remembers: the conversation takes
//! the place of the references, so that any provider can go on with it.
//!
//! It decides what stands for a remembered answer (`previous_response_id`) and for a remembered item
//! (`item_reference`, an item that holds no more than its id, a `reasoning` item without its sealed
//! state), and how each is written into `input`. Where answers are remembered, whose they are and how
//! large a request may become is decided by the calling code. References to what was not made here stay as
//! they are: a provider may have stored it.

use crate::{
    document::{Document, Kind, Value},
    output::Output,
};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use tollgate_types::RequestId;

/// An answer with what it answered.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The answer that the request went on from.
    pub previous: Option<RequestId>,
    /// The `input` of the request, as JSON.
    pub input: Bytes,
    /// The `response` object, as JSON.
    pub response: Bytes,
}

/// Where remembered answers are found.
pub trait Turns {
    /// Why they cannot be looked up.
    type Error;

    /// The `response` object that answered a request; `None`: it is not remembered.
    ///
    /// # Errors
    /// It cannot be looked up.
    fn response(&self, id: RequestId) -> Result<Option<Bytes>, Self::Error>;

    /// The same with what it answered.
    ///
    /// # Errors
    /// It cannot be looked up.
    fn turn(&self, id: RequestId) -> Result<Option<Turn>, Self::Error>;
}

/// A request with the conversation that it refers to.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The body.
    pub body: Bytes,
    /// `input` as the caller wrote it.
    pub input: Bytes,
    /// The answer that the request goes on from, where its conversation is in the body.
    pub previous: Option<RequestId>,
    /// References to answers made here that are not remembered: they stand in the body as before.
    pub unknown: Vec<Reference>,
    /// Reasoning items without contents were left out, because they are not remembered.
    pub forgot_reasoning: bool,
}

/// A reference that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it stands in the request.
    pub path: String,
    /// The id.
    pub id: String,
}

/// Why a request cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved<E> {
    /// Answers cannot be looked up.
    #[error("remembered answers cannot be looked up")]
    Lookup(E),
    /// The conversation is larger than a request may be, or has more answers than are looked up.
    #[error("the conversation is too large")]
    TooLarge,
}

/// Answers in one chain of `previous_response_id` at most.
const MOST_TURNS: usize = 1000;

/// Puts what is remembered into a request, which has at most `most` bytes then. The body is one that
/// was found to be JSON before.
///
/// # Errors
/// The conversation is too large, or cannot be looked up.
pub fn resolve<T: Turns>(
    body: &Bytes,
    most: usize,
    turns: &T,
) -> Result<Resolved, Unresolved<T::Error>> {
    let Ok(document) = Document::of_valid(body) else {
        return Err(Unresolved::TooLarge);
    };
    let top = document.root();
    let input = top.get("input");
    let mut resolver = Resolver::new(turns, most, body.len());
    resolver.out.begin_array();
    let named = top.get("previous_response_id").and_then(Value::as_str);
    let made_here = named.as_deref().and_then(RequestId::of_answer);
    let previous = match made_here {
        Some(id) => resolver.conversation(id)?,
        None => None,
    };
    if let (Some(_), None, Some(id)) = (made_here, previous, named) {
        resolver.unknown.push(Reference {
            path: "previous_response_id".to_owned(),
            id: id.into_owned(),
        });
    }
    if let Some(input) = input {
        resolver.input(input, None)?;
    }
    resolver.out.end_array();
    let mut out = Output::with_capacity(body.len().saturating_add(resolver.out.as_bytes().len()));
    out.begin_object();
    for (key, value) in top.members() {
        if key.is("input") {
            continue;
        }
        if !(previous.is_some() && key.is("previous_response_id")) {
            out.escaped_key(key.json()).raw(value.raw());
        }
    }
    out.key("input").raw(resolver.out.as_bytes());
    out.end_object();
    if out.as_bytes().len() > most {
        return Err(Unresolved::TooLarge);
    }
    Ok(Resolved {
        body: out.into_bytes().into(),
        input: input.map_or_else(Bytes::new, |input| body.slice(input.span())),
        previous,
        unknown: resolver.unknown,
        forgot_reasoning: resolver.forgot_reasoning,
    })
}

struct Resolver<'t, T> {
    turns: &'t T,
    /// The new input.
    out: Output,
    most: usize,
    /// Bytes of the request beside what is written.
    beside: usize,
    /// Answers whose items are known.
    loaded: HashSet<RequestId>,
    /// Bytes of these.
    loaded_bytes: usize,
    items: HashMap<String, Bytes>,
    unknown: Vec<Reference>,
    forgot_reasoning: bool,
}

impl<'t, T: Turns> Resolver<'t, T> {
    fn new(turns: &'t T, most: usize, beside: usize) -> Self {
        Self {
            turns,
            out: Output::default(),
            most,
            beside,
            loaded: HashSet::new(),
            loaded_bytes: 0,
            items: HashMap::new(),
            unknown: Vec::new(),
            forgot_reasoning: false,
        }
    }

    /// Writes everything that was said up to an answer, and the answer. `None`: not all of it is
    /// remembered, and nothing was written.
    fn conversation(&mut self, last: RequestId) -> Result<Option<RequestId>, Unresolved<T::Error>> {
        let mut chain = Vec::new();
        let mut next = Some(last);
        while let Some(id) = next {
            let Some(turn) = self.turns.turn(id).map_err(Unresolved::Lookup)? else {
                return Ok(None);
            };
            self.load_more(turn.input.len().saturating_add(turn.response.len()))?;
            next = turn.previous;
            chain.push((id, turn));
            if chain.len() > MOST_TURNS {
                return Err(Unresolved::TooLarge);
            }
        }
        for (id, turn) in chain.iter().rev() {
            self.note_items(*id, &turn.response);
        }
        for (_, turn) in chain.iter().rev() {
            if let Ok(input) = Document::of_valid(&turn.input) {
                self.input(input.root(), Some("previous_response_id"))?;
            }
            let Ok(response) = Document::of_valid(&turn.response) else {
                continue;
            };
            let output = response.root().get("output");
            for item in output.into_iter().flat_map(Value::elements) {
                self.remembered(item)?;
            }
        }
        Ok(Some(last))
    }

    /// Writes the input of a request. `within`: where references of an earlier request are said to
    /// stand.
    fn input(
        &mut self,
        input: Value<'_>,
        within: Option<&str>,
    ) -> Result<(), Unresolved<T::Error>> {
        if input.kind() == Kind::String {
            let message = self.out.item();
            message.begin_object();
            message.key("role").string("user");
            message.key("content").raw(input.raw());
            message.end_object();
        }
        for (at, item) in input.elements().enumerate() {
            self.item(item, || match within {
                Some(path) => path.to_owned(),
                None => format!("input[{at}].id"),
            })?;
        }
        self.check_size()
    }

    /// Writes an item, or the one that it stands for.
    fn item(
        &mut self,
        item: Value<'_>,
        path: impl FnOnce() -> String,
    ) -> Result<(), Unresolved<T::Error>> {
        let is_thought = item.has("type", "reasoning");
        let is_empty = holds_nothing(item);
        let lacks_state = is_thought && !has_text(item, "encrypted_content");
        let id = item.get("id").and_then(Value::as_str);
        let answer = id.as_deref().and_then(RequestId::in_answer_id);
        let (Some(id), Some(answer), true) = (id, answer, is_empty || lacks_state) else {
            self.out.item().raw(item.raw());
            return self.check_size();
        };
        self.load(answer)?;
        if let Some(known) = self.items.get(&*id).cloned()
            && let Ok(known) = Document::of_valid(&known)
        {
            return self.remembered(known.root());
        }
        if is_thought && is_empty {
            // The provider thinks anew: nothing that was said is lost.
            self.forgot_reasoning = true;
            return Ok(());
        }
        if is_empty {
            let id = id.into_owned();
            self.unknown.push(Reference { path: path(), id });
        }
        self.out.item().raw(item.raw());
        self.check_size()
    }

    /// Writes a remembered item: without its id, which no provider knows, where the format allows that.
    /// A thought without its sealed state says nothing to a provider.
    fn remembered(&mut self, item: Value<'_>) -> Result<(), Unresolved<T::Error>> {
        if item.has("type", "reasoning") && !has_text(item, "encrypted_content") {
            return Ok(());
        }
        let needs_id = item.has("type", "reasoning") || item.has("type", "web_search_call");
        self.out.item().begin_object();
        for (key, value) in item.members() {
            if needs_id || !key.is("id") {
                self.out.escaped_key(key.json()).raw(value.raw());
            }
        }
        self.out.end_object();
        self.check_size()
    }

    /// Has the items of an answer known.
    fn load(&mut self, id: RequestId) -> Result<(), Unresolved<T::Error>> {
        if self.loaded.contains(&id) {
            return Ok(());
        }
        let response = self.turns.response(id).map_err(Unresolved::Lookup)?;
        let response = response.unwrap_or_default();
        self.load_more(response.len())?;
        self.note_items(id, &response);
        Ok(())
    }

    fn note_items(&mut self, id: RequestId, response: &Bytes) {
        self.loaded.insert(id);
        let Ok(document) = Document::of_valid(response) else {
            return;
        };
        let output = document.root().get("output");
        for item in output.into_iter().flat_map(Value::elements) {
            if let Some(id) = item.get("id").and_then(Value::as_str) {
                let raw = response.slice(item.span());
                self.items.insert(id.into_owned(), raw);
            }
        }
    }

    /// Bounds what is looked up: an item may be a small part of its answer.
    fn load_more(&mut self, bytes: usize) -> Result<(), Unresolved<T::Error>> {
        self.loaded_bytes = self.loaded_bytes.saturating_add(bytes);
        match self.loaded_bytes <= self.most.saturating_mul(2) {
            true => Ok(()),
            false => Err(Unresolved::TooLarge),
        }
    }

    fn check_size(&self) -> Result<(), Unresolved<T::Error>> {
        let written = self.out.as_bytes().len();
        // What the caller wrote stands in both.
        match written <= self.most.saturating_add(self.beside) {
            true => Ok(()),
            false => Err(Unresolved::TooLarge),
        }
    }
}

fn has_text(item: Value<'_>, name: &str) -> bool {
    let text = item.get(name).and_then(Value::text);
    text.is_some_and(|text| !text.is_empty())
}

/// Whether an item says no more than what it is and which.
fn holds_nothing(item: Value<'_>) -> bool {
    item.members().all(|(key, value)| {
        let names_it = ["type", "id", "status", "role"];
        names_it.iter().any(|name| key.is(name))
            || match value.kind() {
                Kind::Null => true,
                Kind::String => value.text().is_some_and(|text| text.is_empty()),
                Kind::Array => value.elements().next().is_none(),
                Kind::Bool | Kind::Number | Kind::Object => false,
            }
    })
}

/// A remembered `response` object as its maker is shown it: with the sealed state of reasoning only
/// if the maker asks for that.
pub fn shown(response: &[u8], with_state: bool) -> Option<Bytes> {
    let document = Document::of_valid(response).ok()?;
    let mut out = Output::with_capacity(response.len());
    out.begin_object();
    for (key, value) in document.root().members() {
        if with_state || !key.is("output") {
            out.escaped_key(key.json()).raw(value.raw());
            continue;
        }
        out.key("output").begin_array();
        for item in value.elements() {
            out.item().begin_object();
            let members = item.members();
            for (key, value) in members.filter(|(key, _)| !key.is("encrypted_content")) {
                out.escaped_key(key.json()).raw(value.raw());
            }
            out.end_object();
        }
        out.end_array();
    }
    out.end_object();
    Some(out.into_bytes().into())
}

#[cfg(test)]
mod tests;
