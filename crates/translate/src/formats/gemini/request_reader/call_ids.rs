//! Ids for the calls of a Gemini request that have none, and for the results of those calls.

use super::super::spelling::spelled;
use crate::{
    document::{Text, Value},
    request::read::rewrites::Rewrites,
};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

/// The calls of an answer that have no result yet.
#[derive(Default)]
pub(super) struct OpenCalls<'d> {
    /// The id of each as JSON; `None` once it is answered.
    ids: Vec<Option<String>>,
    by_id: HashMap<Cow<'d, str>, usize>,
    /// Those of one name, in order; with whether the call itself has an id.
    by_name: HashMap<Cow<'d, str>, VecDeque<(usize, bool)>>,
}

impl<'d> OpenCalls<'d> {
    /// A call without an id gets one by its place, so that it is the same in the next request.
    pub(super) fn open(&mut self, call: Value<'d>, number: u64, rewrites: &mut Rewrites) {
        let place = self.ids.len();
        let id = id_of(call);
        self.ids.push(Some(match id {
            Some(id) => format!("\"{}\"", String::from_utf8_lossy(id.json())),
            None => format!("\"call_without_id_{number}\""),
        }));
        match (id, self.ids.last()) {
            (Some(id), _) => drop(self.by_id.insert(id.decode(), place)),
            (None, Some(Some(id))) => rewrites.replace(call, id),
            (None, _) => {}
        }
        let named = self.by_name.entry(name_of(call)).or_default();
        named.push_back((place, id.is_some()));
    }

    /// Finds the calls that results answer: by their ids, and then by their names in order.
    pub(super) fn answer(&mut self, responses: &[Value<'d>], rewrites: &mut Rewrites) {
        let mut others = Vec::new();
        for response in responses {
            let named = id_of(*response).and_then(|id| self.by_id.get(&id.decode()).copied());
            match named.and_then(|place| self.ids.get_mut(place)) {
                Some(id) => *id = None,
                None => others.push(*response),
            }
        }
        for response in others {
            if let Some(id) = self.next_of(response) {
                rewrites.replace(response, &id);
            }
        }
    }

    /// The first open call of a result's name. A result with the id of another call is refused later.
    fn next_of(&mut self, response: Value<'d>) -> Option<String> {
        let named = self.by_name.get_mut(&name_of(response))?;
        let has_id = id_of(response).is_some();
        while let Some((place, is_identified)) = named.front() {
            let id = self.ids.get_mut(*place)?;
            if id.is_some() && has_id && *is_identified {
                return None;
            }
            named.pop_front();
            if id.is_some() {
                return id.take();
            }
        }
        None
    }
}

fn id_of(value: Value<'_>) -> Option<Text<'_>> {
    let id = spelled(value, "id").and_then(Value::text);
    id.filter(|id| !id.is_empty())
}

fn name_of(value: Value<'_>) -> Cow<'_, str> {
    let name = spelled(value, "name").and_then(Value::text);
    name.map(Text::decode).unwrap_or_default()
}
