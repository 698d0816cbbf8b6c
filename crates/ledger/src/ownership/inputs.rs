//! Whether the input of a stored response shows a response that is not paid for.
//!
//! A provider lists, as the input of a response, also what the request named: earlier responses
//! and items of them. An earlier response whose caller disconnected is paid for when it is retrieved
//! (`payment`). Until then, the inputs that show it must not be retrieved either.
//!
//! If a request names a response that is not known to be paid for, the database gets a row
//! `<new id><<named id>`, with the request that made the named response. The writer commits the rows
//! before the record of the new response's request.

use super::{
    Inner, Ownership, Stored,
    payment::{Due, PATIENCE},
};
use crate::{clock::Timestamp, directory::Unavailable, store::StoreError};
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
    /// The request that made the response is not settled, or its record is not committed.
    Unknown,
    /// It shows this response or item, which is not paid for.
    Unpaid(Arc<str>),
}

impl Ownership {
    /// The unpaid ones of the responses and items that a request names, and of those that the inputs of named
    /// responses show. Reads the database only for names that are not known to be paid.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn unpaid(
        &self,
        key: &KeyId,
        mut names: Vec<Arc<str>>,
    ) -> Result<Vec<Unpaid>, Unavailable> {
        names.retain(|id| self.0.all_paid.get(id).is_none());
        if names.is_empty() {
            return Ok(Vec::new());
        }
        self.read(key, move |inner| {
            let mut all = Vec::new();
            for id in names {
                let found = inner.unpaid_of(&id)?;
                if found.is_empty() {
                    inner.all_paid.insert(id, ());
                }
                all.extend(found);
            }
            all.sort_unstable_by(|one, other| one.request.as_str().cmp(other.request.as_str()));
            all.dedup_by(|one, other| one.request == other.request);
            Ok(all)
        })
        .await
    }

    /// Notes that a response or an item was paid for by the request that made it, and that it shows
    /// nothing that is not paid for.
    pub fn note_paid(&self, id: &str) {
        self.0.all_paid.insert(id.into(), ());
    }

    /// Remembers the unpaid responses that the input of a new response shows.
    pub fn remember_shown(&self, response: &Stored, unpaid: &[Unpaid]) {
        for shown in unpaid {
            self.0.ledger.remember(Arc::new(Stored {
                id: format!("{}<{}", response.id, shown.id).into(),
                tokens: None,
                request: Some(shown.request),
                tariff: None,
                ..response.clone()
            }));
        }
    }

    /// Whether the input of a response can be retrieved.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn due_of_input(&self, response: &Stored) -> Result<InputDue, Unavailable> {
        if self.0.all_paid.get(&response.id).is_some() {
            return Ok(InputDue::Nothing);
        }
        // The rows of a response are committed no later than the record of its request.
        if matches!(self.due(response).await?, Due::Unknown) {
            return Ok(InputDue::Unknown);
        }
        let mut unpaid = self.look_at_input(response).await?;
        // It may just have been paid for.
        if !unpaid.is_empty() && self.0.ledger.caught_up(PATIENCE).await {
            unpaid = self.look_at_input(response).await?;
        }
        let first = unpaid.into_iter().next();
        Ok(first.map_or(InputDue::Nothing, |it| InputDue::Unpaid(it.id)))
    }

    async fn look_at_input(&self, response: &Stored) -> Result<Vec<Unpaid>, Unavailable> {
        let id = Arc::clone(&response.id);
        self.read(&response.key, move |inner| inner.shown_by(&id))
            .await
    }
}

impl Inner {
    /// The unpaid ones of a response or an item and of those that its input shows.
    fn unpaid_of(&self, id: &Arc<str>) -> Result<Vec<Unpaid>, StoreError> {
        let mut unpaid = self.shown_by(id)?;
        let stored = match self.known(id) {
            Some(stored) => Some(stored),
            None => self.stored(&[id])?.pop().map(Arc::new),
        };
        if let Some(request) = stored.and_then(|stored| stored.request)
            && self.is_unpaid(&request)?
        {
            let id = Arc::clone(id);
            unpaid.push(Unpaid { id, request });
        }
        Ok(unpaid)
    }

    /// The unpaid responses that the input of a response shows. Follows the rows from response to
    /// response: a request can name a response whose own rows were not committed yet.
    fn shown_by(&self, id: &str) -> Result<Vec<Unpaid>, StoreError> {
        /// The most rows that are read; if there are more, the last one counts as unpaid.
        const MOST: usize = 1024;
        let mut unpaid = Vec::new();
        let mut seen = HashSet::new();
        let mut left = self.database.shown_by(id)?;
        while let Some(shown) = left.pop() {
            if seen.len() >= MOST || self.is_unpaid(&shown.request)? {
                unpaid.push(shown);
            } else if seen.insert(Arc::clone(&shown.id)) {
                left.extend(self.database.shown_by(&shown.id)?);
            }
        }
        Ok(unpaid)
    }

    /// The amount due for a forgotten response is unknown: it counts as paid. So does a response whose end
    /// and output the client got: some providers report no usage at all.
    fn is_unpaid(&self, request: &RequestId) -> Result<bool, StoreError> {
        if Timestamp::of_request(request) < self.ledger.owned_since() {
            return Ok(false);
        }
        Ok(match self.due_by(request, None)? {
            Due::Nothing => false,
            Due::Rest(due) => !due.is_seen(),
            Due::Unknown => true,
        })
    }
}
