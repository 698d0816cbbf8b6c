//! The filters of one configuration, in its order, and how a request walks through them.
//!
//! Which filters there are is the table in `tollgate_filters`; what they decide is theirs.

use http::HeaderMap;
use tollgate_config::FilterEntry;
use tollgate_filter::{
    DynFilter, FilterKind, Head, RequestContext, Services, SettingsFault, Verdict,
};
use tollgate_settings::{Fault, KeyPath};
use tollgate_types::PublicError;

/// The filters of one configuration, sorted by what they need to see.
#[derive(Default)]
pub struct Pipeline {
    /// Run on the head alone, before the body is read.
    head: Vec<Named>,
    /// Run once the body was read.
    body: Vec<Named>,
    /// Those of them that see requests for what a provider has stored as well.
    stored: Vec<Named>,
    /// The same for open paths of providers.
    passthrough: Vec<Named>,
    answer: Vec<DynFilter>,
    error: Vec<DynFilter>,
}

/// A filter and its name.
type Named = (&'static str, DynFilter);

/// The parts of the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the body is read.
    Head,
    /// After.
    Body,
    /// In place of that, for what a provider has stored: filters that need to see it.
    Stored,
    /// The same for an open path of a provider, whose body is not read.
    Passthrough,
}

impl Pipeline {
    /// Builds the filters of a list whose names and order were checked.
    ///
    /// # Errors
    ///
    /// What each filter finds in its own settings.
    pub fn build(entries: &[FilterEntry], services: &Services) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut pipeline = Self::default();
        for entry in entries {
            let Some(kind) = tollgate_filters::kind(&entry.name) else {
                continue;
            };
            match (kind.build)(&entry.settings, services) {
                Ok(filter) => pipeline.add(kind, filter),
                Err(own) => faults.extend(own.iter().map(|fault| place(fault, &entry.path))),
            }
        }
        if faults.is_empty() {
            Ok(pipeline)
        } else {
            Err(faults)
        }
    }

    fn add(&mut self, kind: &FilterKind, filter: DynFilter) {
        if kind.phases.answer {
            self.answer.push(filter.clone());
        }
        if kind.phases.error {
            self.error.push(filter.clone());
        }
        let named = (kind.name, filter);
        // Once one filter has needed the body, those behind it run behind it too.
        if kind.phases.body || !self.body.is_empty() {
            if kind.phases.stored {
                self.stored.push(named.clone());
            }
            if kind.phases.passthrough {
                self.passthrough.push(named.clone());
            }
            self.body.push(named);
        } else {
            self.head.push(named);
        }
    }

    /// Runs the filters of a part until one does not let the request continue.
    ///
    /// # Errors
    ///
    /// A filter refuses the request.
    pub async fn run(
        &self,
        part: Part,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        for (_, filter) in self.of(part) {
            let verdict = filter.on_request(head, request).await?;
            if verdict != Verdict::Continue {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Continue)
    }

    /// The filters of a part in order, with their names.
    pub fn of(&self, part: Part) -> &[Named] {
        match part {
            Part::Head => &self.head,
            Part::Body => &self.body,
            Part::Stored => &self.stored,
            Part::Passthrough => &self.passthrough,
        }
    }

    /// Lets the filters add to the head of an answer.
    pub fn answer(
        &self,
        request: &RequestContext,
        upstream: Option<&HeaderMap>,
        answer: &mut HeaderMap,
    ) {
        for filter in &self.answer {
            filter.on_answer(request, upstream, answer);
        }
    }

    /// Lets the filters reword an error.
    pub fn error(&self, request: &RequestContext, error: &mut PublicError) {
        for filter in &self.error {
            filter.on_error(request, error);
        }
    }
}

/// A filter's own fault, with its place in the whole file.
fn place(fault: &SettingsFault, entry: &KeyPath) -> Fault {
    let own: KeyPath = fault.path.parse().unwrap_or_else(|_| KeyPath::root());
    own.under(entry).fault(fault.message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::NoAccounts;
    use crate::catalog::IndexedCatalog;
    use serde_json::json;
    use std::sync::Arc;
    use tollgate_routing::Catalog;

    #[test]
    fn every_fault_in_the_settings_of_filters_is_said_at_once_and_where() {
        let catalog = Arc::new(IndexedCatalog::new(Catalog::default()));
        let services = NoAccounts::lend(&catalog, Arc::default());
        let section = KeyPath::root().key("filters");
        let entry = |place, name: &str, settings| FilterEntry {
            name: name.to_owned(),
            settings,
            path: section.index(place),
        };
        let entries = [
            entry(0, "headers", json!({"pass_to_provider": ["x-a", "cookie"]})),
            entry(1, "key", json!({"cache": true})),
            entry(2, "model", json!({"default_model": "none"})),
        ];
        let faults = Pipeline::build(&entries, &services)
            .err()
            .unwrap_or_default();
        let paths: Vec<String> = faults.iter().map(|fault| fault.path.to_string()).collect();
        assert_eq!(
            paths,
            [
                "filters[0].pass_to_provider[1]",
                "filters[1].cache",
                "filters[2].default_model"
            ],
            "{faults:?}"
        );
    }
}
