//! Whether the input of a stored response shows a response that is not paid for.
//!
//! A provider lists, as the input of a response, also what the request named: earlier responses
//! and items of them. An earlier response whose caller disconnected is paid for when it is retrieved
//! (`payment`). Until then, the inputs that show it must not be retrieved either.
//!
//! If a request names a response that is not known to be paid for, the file gets a row
//! `<new id><<named id>`, with the request that made the named response. The writer commits the rows
//! before the record of the new response's request.

use super::{
    Inner, LOOKUP_TIMEOUT, Ownership, Stored, find_in,
    payment::{Due, PATIENCE, due_by},
};
use crate::{clock::Timestamp, directory::Unavailable};
use rusqlite::Connection;
use std::{collections::HashSet, sync::Arc};
use tollgate_types::{KeyId, RequestId};

/// A response that is not paid for, or an item of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpaid {
    /// Its id.
    pub id: Arc<str>,
    /// The request that made it.
    pub request: RequestId,
}

/// Whether the input of a response can be retrieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputDue {
    /// Everything that it shows is paid for.
    Nothing,
    /// The request that made the response is under way, or its record is.
    Unknown,
    /// It shows this response or item, which is not paid for.
    Unpaid(Arc<str>),
}

impl Ownership {
    /// What is not paid for of the responses and items that a request names, and of those that the
    /// inputs of named responses show. Reads the file only for names that are not known to be paid.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn unpaid(
        &self,
        key: &KeyId,
        mut names: Vec<Arc<str>>,
    ) -> Result<Vec<Unpaid>, Unavailable> {
        names.retain(|id| self.0.all_paid.get(id).is_none());
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let looking = self.clone().read(key, move |inner, file| {
            let now = inner.ledger.now();
            let mut all = Vec::new();
            for id in names {
                let found = unpaid_of(inner, file, &id, now)?;
                if found.is_empty() {
                    inner.all_paid.insert(id, ());
                }
                all.extend(found);
            }
            all.sort_unstable_by(|one, other| one.request.as_str().cmp(other.request.as_str()));
            all.dedup_by(|one, other| one.request == other.request);
            Ok(all)
        });
        let looked = tokio::time::timeout(LOOKUP_TIMEOUT, looking).await;
        looked.unwrap_or(Err(Unavailable::TimedOut))
    }

    /// Notes that a response or an item was paid for by the request that made it, and that it shows
    /// nothing that is not paid for.
    pub fn note_paid(&self, id: &str) {
        self.0.all_paid.insert(id.into(), ());
    }

    /// Remembers what the input of a new response shows that is not paid for.
    pub fn remember_shown(&self, response: &Stored, unpaid: &[Unpaid]) {
        for shown in unpaid {
            self.0.ledger.remember(Arc::new(Stored {
                id: format!("{}<{}", response.id, shown.id).into(),
                tokens: None,
                request: Some(shown.request),
                ..response.clone()
            }));
        }
    }

    /// Whether the input of a response can be retrieved.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn due_of_input(&self, response: &Stored) -> Result<InputDue, Unavailable> {
        if self.0.all_paid.get(&response.id).is_some() {
            return Ok(InputDue::Nothing);
        }
        // The rows of a response are in the file as soon as the record of its request is.
        if matches!(self.due(response).await?, Due::Unknown) {
            return Ok(InputDue::Unknown);
        }
        let mut unpaid = self.look_at_input(response).await?;
        // It may have been paid for a moment ago.
        if !unpaid.is_empty() && self.0.ledger.caught_up(PATIENCE).await {
            unpaid = self.look_at_input(response).await?;
        }
        let first = unpaid.into_iter().next();
        Ok(first.map_or(InputDue::Nothing, |it| InputDue::Unpaid(it.id)))
    }

    async fn look_at_input(&self, response: &Stored) -> Result<Vec<Unpaid>, Unavailable> {
        let id = Arc::clone(&response.id);
        let looking = self.clone().read(&response.key, move |inner, file| {
            shown_by(file, &id, inner.ledger.now())
        });
        let looked = tokio::time::timeout(LOOKUP_TIMEOUT, looking).await;
        looked.unwrap_or(Err(Unavailable::TimedOut))
    }
}

/// What is not paid for of a response or an item, and of what its input shows.
fn unpaid_of(
    inner: &Inner,
    file: &Connection,
    id: &Arc<str>,
    now: Timestamp,
) -> rusqlite::Result<Vec<Unpaid>> {
    let mut unpaid = shown_by(file, id, now)?;
    let stored = match inner.known.get(id) {
        Some(stored) => Some(stored),
        None => find_in(file, id)?.map(Arc::new),
    };
    if let Some(request) = stored.and_then(|stored| stored.request)
        && is_unpaid(file, id, &request, now)?
    {
        let id = Arc::clone(id);
        unpaid.push(Unpaid { id, request });
    }
    Ok(unpaid)
}

/// What the input of a response shows that is not paid for. Follows the rows from response to response:
/// a request can name a response whose own rows were not in the file yet.
fn shown_by(file: &Connection, id: &str, now: Timestamp) -> rusqlite::Result<Vec<Unpaid>> {
    /// Rows that are read at most; if there are more, the last one counts as not paid for.
    const MOST: usize = 1024;
    let mut unpaid = Vec::new();
    let mut seen = HashSet::new();
    let mut left = rows_of(file, id)?;
    while let Some((row, shown)) = left.pop() {
        if seen.len() >= MOST || is_unpaid(file, &row, &shown.request, now)? {
            unpaid.push(shown);
        } else if seen.insert(Arc::clone(&shown.id)) {
            left.extend(rows_of(file, &shown.id)?);
        }
    }
    Ok(unpaid)
}

/// The rows that say what the input of a response shows, with their ids.
fn rows_of(file: &Connection, id: &str) -> rusqlite::Result<Vec<(String, Unpaid)>> {
    let rows = "SELECT id, request FROM owned WHERE id > ?1 || '<' AND id < ?1 || '='";
    let mut rows = file.prepare_cached(rows)?;
    let rows = rows.query_map([id], |row| {
        let (id, request): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        Ok((id, request))
    })?;
    let mut all = Vec::new();
    for row in rows {
        let (row, request) = row?;
        let request = request.and_then(|text| RequestId::from_text(&text));
        let shown = row.split_once('<').map(|(_, shown)| Arc::from(shown));
        if let Some((id, request)) = shown.zip(request) {
            all.push((row, Unpaid { id, request }));
        }
    }
    Ok(all)
}

fn is_unpaid(
    file: &Connection,
    id: &str,
    request: &RequestId,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    Ok(!matches!(due_by(file, id, request, now)?, Due::Nothing))
}
