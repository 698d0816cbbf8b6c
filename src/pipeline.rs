//! The filters of one configuration, in its order, and how a request walks through them.
//!
//! Which filters there are is the table in `tollgate_filters`; what they decide is theirs.

use crate::config::FilterEntry;
use bytes::Bytes;
use http::HeaderMap;
use std::sync::Arc;
use tollgate_filter::{
    Filter, FilterKind, Head, Pending, RequestContext, Resume, Services, SettingsFault, Verdict,
};
use tollgate_settings::{Fault, KeyPath};
use tollgate_types::PublicError;

/// The filters of one configuration, sorted by what they want to see.
#[derive(Default)]
pub struct Pipeline {
    /// Run on the head alone, before the body is read.
    head: Vec<Named>,
    /// Run once the body was read.
    body: Vec<Named>,
    /// Those of them that see requests for what a provider has stored as well.
    stored: Vec<Named>,
    answer: Vec<Arc<dyn Filter>>,
    error: Vec<Arc<dyn Filter>>,
}

/// A filter and its name.
type Named = (&'static str, Arc<dyn Filter>);

/// The parts of the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the body is read.
    Head,
    /// After.
    Body,
    /// In place of that, for what a provider has stored: filters that want to see it.
    Stored,
}

/// Where a request stands in a part of the pipeline.
pub enum Step {
    /// At its end.
    Passed,
    /// A filter refused it.
    Refused(PublicError),
    /// A filter answered it.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The value of `content-type`.
        content_type: &'static str,
        /// The whole body.
        body: Bytes,
    },
    /// A filter waits; [`Pipeline::resume`] goes on behind it.
    Waiting(Pending, Place),
}

/// Names the filter that waits.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

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
                Ok(filter) => pipeline.add(kind, filter.into()),
                Err(own) => faults.extend(own.iter().map(|fault| place(fault, &entry.path))),
            }
        }
        if faults.is_empty() {
            Ok(pipeline)
        } else {
            Err(faults)
        }
    }

    fn add(&mut self, kind: &FilterKind, filter: Arc<dyn Filter>) {
        if kind.wants.answer {
            self.answer.push(Arc::clone(&filter));
        }
        if kind.wants.error {
            self.error.push(Arc::clone(&filter));
        }
        let named = (kind.name, filter);
        // Once one filter has needed the body, those behind it run behind it too.
        if kind.wants.body || !self.body.is_empty() {
            if kind.wants.stored {
                self.stored.push(named.clone());
            }
            self.body.push(named);
        } else {
            self.head.push(named);
        }
    }

    /// Runs a part of the pipeline on a request.
    pub fn run(&self, part: Part, head: Head<'_>, request: &mut RequestContext) -> Step {
        self.run_from(0, part, head, request)
    }

    /// The filters of a part in order, with their names: for who looks at each by itself.
    pub fn of(&self, part: Part) -> &[Named] {
        match part {
            Part::Head => &self.head,
            Part::Body => &self.body,
            Part::Stored => &self.stored,
        }
    }

    /// Goes on behind a filter that waited.
    pub fn resume(
        &self,
        Place(place): Place,
        resume: Resume,
        part: Part,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> Step {
        match step(resume(request), place) {
            Some(step) => step,
            None => self.run_from(place.saturating_add(1), part, head, request),
        }
    }

    fn run_from(
        &self,
        start: usize,
        part: Part,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> Step {
        for (place, (_, filter)) in self.of(part).iter().enumerate().skip(start) {
            if let Some(step) = step(filter.on_request(head, request), place) {
                return step;
            }
        }
        Step::Passed
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

/// What a verdict means for the walk; `None`: go on.
fn step(verdict: Verdict, place: usize) -> Option<Step> {
    match verdict {
        Verdict::Continue => None,
        Verdict::Refuse(error) => Some(Step::Refused(error)),
        Verdict::Answer {
            status,
            content_type,
            body,
        } => Some(Step::Answered {
            status,
            content_type,
            body,
        }),
        Verdict::Wait(pending) => Some(Step::Waiting(pending, Place(place))),
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
    use crate::snapshot::IndexedCatalog;
    use serde_json::json;
    use tollgate_routing::Catalog;
    #[test]
    fn every_fault_in_the_settings_of_filters_is_said_at_once_and_where() {
        let catalog = Arc::new(IndexedCatalog::new(Catalog::default()));
        let services = NoAccounts::lend(&catalog);
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
