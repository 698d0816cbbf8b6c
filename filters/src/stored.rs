//! `stored`: lets a request name an item that a provider stores only if its own key created it.
//!
//! Keys share provider credentials, so a provider cannot distinguish them. The ledger remembers which key
//! created an item; routing sends the request to the provider that stores it.

use serde_json::Value;
use std::sync::Arc;
use tollgate_filter::{
    Built, Filter, FilterKind, Head, Phases, RequestContext, Services, StoredItem, StoredItems,
    Verdict, no_settings,
};
use tollgate_types::{Claim, ErrorCode, OwnerFailure, PublicError, StoredId};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "stored",
    summary: "Lets a request name a stored item only if its own key created it.",
    phases: Phases::BODY,
    after: &["key"],
    required: true,
    build,
};

struct StoredFilter {
    stored: Arc<dyn StoredItems>,
}

fn build(settings: &Value, services: &Services) -> Built {
    no_settings(settings)?;
    Ok(StoredFilter {
        stored: Arc::clone(&services.stored),
    }
    .into())
}

impl Filter for StoredFilter {
    async fn on_request(
        &self,
        _: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        let identity = Arc::clone(request.identity()?);
        let ids = request.facts()?.stored_ids.clone();
        for StoredId { id, field } in &ids {
            match self.stored.find(&identity.key, id).await {
                Ok(stored) => note(stored, request)?,
                Err(OwnerFailure::NotOwned) => return Err(not_owned(field, id)),
                Err(OwnerFailure::Unavailable(_)) => return Err(unavailable()),
            }
        }
        if request.facts()?.items.iter().any(|it| !it.has_contents) {
            // Such an item refers to one that the provider stores.
            request.stored_tokens = None;
        }
        let items = &request.facts()?.items;
        if items.is_empty() {
            return Ok(Verdict::Continue);
        }
        match self.stored.check(&identity.key, items).await {
            Claim::Allowed => Ok(Verdict::Continue),
            Claim::NotOwned(id) => Err(not_owned("id", &id)),
            Claim::Unavailable(_) => Err(unavailable()),
        }
    }
}

/// Notes where an item is stored, and its size.
fn note(stored: StoredItem, request: &mut RequestContext) -> Result<(), PublicError> {
    let StoredItem { at, tokens } = stored;
    if request.stored_at.as_ref().is_some_and(|other| *other != at) {
        return Err(PublicError::invalid_request(
            "the request names responses or items that are stored by different providers: send the \
             whole history instead",
        ));
    }
    request.stored_at = Some(at);
    let known = request.stored_tokens.zip(tokens);
    request.stored_tokens = known.map(|(sum, tokens)| sum.saturating_add(tokens));
    Ok(())
}

fn unavailable() -> PublicError {
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "the owner of the stored responses that the request names cannot be checked now; retry in a \
         few seconds",
    )
}

fn not_owned(field: &str, id: &str) -> PublicError {
    let message = format!(
        "'{field}' names '{}', which does not exist or was not made with this API key: if it is an \
         earlier answer, send the whole history instead",
        crate::Shown(id)
    );
    PublicError::new(ErrorCode::NotFound, message).with_param(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, identity, refusal};
    use tollgate_filter::Endpoint;
    use tollgate_types::{Allowance, NamedItem, RequestFacts};

    /// The scripted store has `resp_1` and `resp_2` at one provider, `resp_3` at another, and
    /// `slow_…` only for requests that wait.
    fn scene(ids: &[&str]) -> Scene {
        let mut scene = Scene::new(Endpoint::Responses, &[]);
        scene.request.identity = Some(Arc::new(identity(Allowance::All)));
        scene.request.set_facts(RequestFacts {
            stored_ids: ids.iter().map(|id| stored(id)).collect(),
            ..RequestFacts::default()
        });
        scene
    }

    fn stored(id: &str) -> StoredId {
        StoredId {
            id: id.to_owned(),
            field: "file_id".into(),
        }
    }

    fn place(scene: &Scene) -> Option<&str> {
        scene.request.stored_at.as_ref().map(|at| &*at.provider)
    }

    #[test]
    fn a_request_that_names_nothing_can_be_answered_anywhere() {
        let mut scene = scene(&[]);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert_eq!(place(&scene), None);
    }

    #[test]
    fn a_request_for_a_stored_response_goes_where_it_is() {
        let mut scene = scene(&["resp_1", "resp_2"]);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert_eq!(place(&scene), Some("one"));
    }

    #[test]
    fn ids_that_are_not_in_memory_are_looked_up_one_after_the_other() {
        let mut scene = scene(&["slow_1", "resp_1", "slow_2"]);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert!(scene.has_waited);
        assert_eq!(place(&scene), Some("one"));
    }

    #[test]
    fn sizes_of_stored_items_add_up_unless_one_is_unknown() {
        let tokens = |ids: &[&str], item: Option<bool>| {
            let mut scene = scene(ids);
            let items = item.map(|has_contents| NamedItem {
                id: "mine".to_owned(),
                has_contents,
            });
            scene.change_facts(|facts| facts.items = items.into_iter().collect());
            assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
            scene.request.stored_tokens
        };
        assert_eq!(tokens(&[], None), Some(0));
        assert_eq!(tokens(&["resp_1", "slow_2"], Some(true)), Some(2_000));
        assert_eq!(tokens(&["resp_1", "of_unknown_size"], None), None);
        assert_eq!(tokens(&["of_unknown_size", "resp_1"], None), None);
        // It refers to the stored item.
        assert_eq!(tokens(&["resp_1"], Some(false)), None);
    }

    #[test]
    fn items_of_another_key_do_not_exist() {
        for ids in [&["theirs"][..], &["resp_1", "theirs"], &["slow_theirs"]] {
            let error = refusal(scene(ids).run(&KIND, "null"));
            assert_eq!((error.code, error.status), (ErrorCode::NotFound, 404));
        }
    }

    #[test]
    fn an_item_of_another_key_does_not_exist_whatever_its_contents() {
        let run = |id: &str, has_contents| {
            let mut scene = scene(&["resp_1"]);
            let items = vec![NamedItem {
                id: id.to_owned(),
                has_contents,
            }];
            scene.change_facts(|facts| facts.items = items);
            scene.run(&KIND, "null")
        };
        for (id, has_contents) in [
            ("theirs", true),
            ("theirs", false),
            ("slow_theirs", true),
            ("unknown", false),
        ] {
            let error = refusal(run(id, has_contents));
            assert_eq!(
                (error.code, error.status),
                (ErrorCode::NotFound, 404),
                "{id}"
            );
        }
        for (id, has_contents) in [("mine", false), ("unknown", true), ("slow_mine", true)] {
            assert!(
                matches!(run(id, has_contents), Ok(Verdict::Continue)),
                "{id}"
            );
        }
        let error = refusal(run("down", true));
        assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    }

    #[test]
    fn items_of_two_providers_are_refused() {
        let error = refusal(scene(&["resp_1", "resp_3"]).run(&KIND, "null"));
        assert_eq!(error.code, ErrorCode::InvalidRequest);
    }

    #[test]
    fn an_owner_that_cannot_be_looked_up_is_a_temporary_error() {
        let error = refusal(scene(&["down"]).run(&KIND, "null"));
        assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    }
}
