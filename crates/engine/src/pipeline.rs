//! Runs the filters of one configuration in order.
//!
//! `tollgate_filters` has the table of filters.

use http::HeaderMap;
use tollgate_config::FilterEntry;
use tollgate_filter::{
    DynFilter, FilterKind, Head, RequestContext, Services, SettingsFault, Verdict,
};
use tollgate_settings::{Fault, KeyPath};
use tollgate_types::PublicError;

/// The filters of one configuration, by the phases in which they run.
#[derive(Default)]
pub struct Pipeline {
    /// Run on the head alone, before the body is read.
    head: Vec<Named>,
    /// Run once the body was read.
    body: Vec<Named>,
    /// Those of them that also run on requests for stored items.
    stored: Vec<Named>,
    /// Those of them that also run on requests for open paths of providers.
    passthrough: Vec<Named>,
    /// Those of them that also run on requests that the gateway answers.
    local: Vec<Named>,
    answer: Vec<DynFilter>,
    error: Vec<DynFilter>,
}

/// A filter and its name.
type Named = (&'static str, DynFilter);

/// The phase of a request in which filters run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the body is read.
    Head,
    /// After the body was read.
    Body,
    /// Instead, for a request for a stored item.
    Stored,
    /// Instead, for an open path of a provider, whose body is not read.
    Passthrough,
    /// Instead, for an endpoint that the gateway answers.
    Local,
}

impl Pipeline {
    /// Builds the filters of a list whose names and order were checked.
    ///
    /// # Errors
    ///
    /// Every fault in the settings of the filters.
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
        // A filter after one with `body` also runs after the body is read. If it has no `body` itself, it
        // still runs on every request.
        if kind.phases.body || !self.body.is_empty() {
            let is_for_all = !kind.phases.body;
            if is_for_all || kind.phases.stored {
                self.stored.push(named.clone());
            }
            if is_for_all || kind.phases.passthrough {
                self.passthrough.push(named.clone());
            }
            if is_for_all {
                self.local.push(named.clone());
            }
            self.body.push(named);
        } else {
            self.head.push(named);
        }
    }

    /// Runs the filters of a phase until one ends the request.
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

    /// The filters of a phase in order, with their names.
    pub fn of(&self, part: Part) -> &[Named] {
        match part {
            Part::Head => &self.head,
            Part::Body => &self.body,
            Part::Stored => &self.stored,
            Part::Passthrough => &self.passthrough,
            Part::Local => &self.local,
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

    /// Lets the filters change an error.
    pub fn error(&self, request: &RequestContext, error: &mut PublicError) {
        for filter in &self.error {
            filter.on_error(request, error);
        }
    }
}

/// A fault of a filter's settings, with its path in the whole file.
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
    use tollgate_filter::Phases;
    use tollgate_routing::Catalog;

    #[test]
    fn filters_that_need_no_body_run_on_every_request_wherever_they_stand() {
        struct Nothing;
        impl tollgate_filter::Filter for Nothing {}
        let mut pipeline = Pipeline::default();
        let body = Phases::BODY;
        for (name, phases) in [
            ("first", Phases::HEAD),
            ("reads", body),
            ("last", Phases::HEAD),
            (
                "stores",
                Phases {
                    stored: true,
                    ..body
                },
            ),
        ] {
            let kind = FilterKind {
                name,
                summary: "",
                phases,
                after: &[],
                required: false,
                build: |_, _| Ok(Nothing.into()),
            };
            pipeline.add(&kind, Nothing.into());
        }
        for (part, expected) in [
            (Part::Head, &["first"][..]),
            (Part::Body, &["reads", "last", "stores"]),
            (Part::Stored, &["last", "stores"]),
            (Part::Passthrough, &["last"]),
            (Part::Local, &["last"]),
        ] {
            let names: Vec<_> = pipeline.of(part).iter().map(|(name, _)| *name).collect();
            assert_eq!(names, expected, "{part:?}");
        }
    }

    #[test]
    fn every_fault_in_the_settings_of_filters_is_said_at_once_and_where() {
        let catalog = Arc::new(IndexedCatalog::new(Catalog::default()));
        let services = NoAccounts::services(&catalog, Arc::default());
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
