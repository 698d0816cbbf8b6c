//! The table of the admin API: dispatch, the OpenAPI description and its test read it.
//!
//! Decides which operation stands at which address and what goes in and out. `api` decides on access
//! and on how bytes come and go; `operations` decides what an operation does.

use super::call::{Call, MOST_BODY_BYTES};
use super::control::{Ask, ReloadQuery, ReloadView, SettingsView};
use super::failure::Failed;
use super::health::HealthView;
use super::operations::{
    CreateKey, CreatedView, Extension, KeyLimits, KeyQuery, Operations, TopUp,
};
use axum::http::{Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use tollgate_explain::{ExplainOrder, Explanation};
use tollgate_ledger::{GrantView, KeyRecord, KeyView, Timestamp, Verification};
use tollgate_types::KeyId;

/// One operation of the API.
pub(super) struct Route {
    /// The method.
    pub(super) method: Method,
    /// The path; `{key}` stands for one segment.
    pub(super) path: &'static str,
    /// The operation's name for programs.
    pub(super) id: &'static str,
    /// Its effect, in a sentence.
    pub(super) summary: &'static str,
    /// The schema of the query.
    pub(super) query: Option<SchemaOf>,
    /// The schema of the body.
    pub(super) body: Option<SchemaOf>,
    /// How long that may be.
    pub(super) most_body_bytes: usize,
    /// The status of a success.
    pub(super) status: StatusCode,
    /// The schema of the answer to a success.
    pub(super) answer: SchemaOf,
    /// Whether an order may have a name, under which it is carried out once. The other
    /// operations change nothing the second time, or as their request says.
    pub(super) once: bool,
    /// How much work it is.
    pub(super) effort: Effort,
    /// Whether it changes anything, which the log then has.
    pub(super) changes: bool,
    /// Does it. Blocks.
    pub(super) run: fn(&Operations, &Call) -> Answered,
}

/// The schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The JSON of a success.
pub(super) type Answered = Result<Vec<u8>, Failed>;

/// How much work an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A few rows.
    Small,
    /// The whole file, minutes of a large one: one at a time.
    WholeFile,
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The values that most rows share.
const SHOW: Route = Route {
    method: Method::GET,
    path: "/api/v1/keys/{key}",
    id: "showKey",
    summary: "Show one key.",
    query: None,
    body: None,
    most_body_bytes: MOST_BODY_BYTES,
    status: StatusCode::OK,
    answer: of::<KeyView<'_>>,
    once: false,
    effort: Effort::Small,
    changes: false,
    run: |operations, call| shown(operations, &operations.store().find_key(&call.key()?)?),
};

/// The table.
pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/api/v1/keys",
        id: "listKeys",
        summary: "List keys in the order of their creation, page by page.",
        query: Some(of::<KeyQuery>),
        answer: of::<KeyList<'_>>,
        run: list,
        ..SHOW
    },
    Route {
        method: Method::POST,
        path: "/api/v1/keys",
        id: "createKey",
        changes: true,
        summary: "Create a key; only this answer has its text.",
        body: Some(of::<CreateKey>),
        status: StatusCode::CREATED,
        answer: of::<CreatedView<'_>>,
        once: true,
        run: create,
        ..SHOW
    },
    SHOW,
    Route {
        method: Method::POST,
        path: "/api/v1/keys/{key}/revoke",
        id: "revokeKey",
        changes: true,
        summary: "Revoke a key, within a second and on open connections too.",
        run: |operations, call| {
            shown(
                operations,
                &operations.store().revoke_key(&call.key()?)?.record,
            )
        },
        ..SHOW
    },
    Route {
        method: Method::POST,
        path: "/api/v1/keys/{key}/extend",
        id: "extendKey",
        changes: true,
        summary: "Extend a key and its grants.",
        body: Some(of::<Extension>),
        once: true,
        run: |operations, call| {
            let order = call.order()?;
            let record = operations.extend(&call.key()?, &call.body()?, order.as_ref())?;
            shown(operations, &record)
        },
        ..SHOW
    },
    Route {
        method: Method::PUT,
        path: "/api/v1/keys/{key}/limits",
        id: "setKeyLimits",
        changes: true,
        summary: "Set the key's own limits; the plan's apply to those that are absent or null.",
        body: Some(of::<KeyLimits>),
        run: |operations, call| {
            let record = operations.set_limits(&call.key()?, &call.body()?)?;
            shown(operations, &record)
        },
        ..SHOW
    },
    Route {
        path: "/api/v1/keys/{key}/grants",
        id: "listGrants",
        summary: "List the newest thousand grants of a key and their usage.",
        answer: of::<GrantList>,
        run: |operations, call| {
            let data = operations.grants(&call.key()?)?;
            to_json(&GrantList { data })
        },
        ..SHOW
    },
    Route {
        method: Method::POST,
        path: "/api/v1/keys/{key}/grants",
        id: "topUpKey",
        changes: true,
        summary: "Give a key tokens, money or both: a plan's, or an amount. Answers with the grants.",
        body: Some(of::<TopUp>),
        status: StatusCode::CREATED,
        answer: of::<GrantList>,
        once: true,
        run: |operations, call| {
            let order = call.order()?;
            let data = operations.top_up(&call.key()?, &call.body()?, order.as_ref())?;
            to_json(&GrantList { data })
        },
        ..SHOW
    },
    Route {
        path: "/api/v1/ledger/verify",
        id: "verifyLedger",
        summary: "Verify that grants, charges and balances add up; reads the whole file.",
        answer: of::<Verification>,
        effort: Effort::WholeFile,
        run: |operations, _| to_json(&operations.store().verify()?),
        ..SHOW
    },
    Route {
        path: "/api/v1/health",
        id: "showHealth",
        summary: "Show the health of providers, deployments and credentials.",
        answer: of::<HealthView>,
        run: |operations, _| to_json(&operations.control()?.health()),
        ..SHOW
    },
    Route {
        path: "/api/v1/configuration",
        id: "showConfiguration",
        summary: "Show the served configuration, its changes, and what needs a restart.",
        answer: of::<SettingsView>,
        run: |operations, _| to_json(&operations.control()?.configuration()),
        ..SHOW
    },
    Route {
        method: Method::POST,
        path: "/api/v1/reload",
        id: "reload",
        changes: true,
        summary: "Reload the configuration; `dry_run=true` only lists the changes.",
        query: Some(of::<ReloadQuery>),
        answer: of::<ReloadView>,
        run: |operations, call| to_json(&operations.control()?.order(Ask::Reload(call.query()?))?),
        ..SHOW
    },
    Route {
        method: Method::POST,
        path: "/api/v1/reload/rollback",
        id: "rollBack",
        changes: true,
        summary: "Serve the previous configuration again, until the next reload.",
        answer: of::<ReloadView>,
        run: |operations, _| to_json(&operations.control()?.order(Ask::Rollback)?),
        ..SHOW
    },
    Route {
        method: Method::POST,
        path: "/api/v1/explain",
        id: "explain",
        summary: "Predict what happens to a request, without sending it.",
        body: Some(of::<ExplainOrder>),
        most_body_bytes: 8 << 20,
        answer: of::<Explanation>,
        run: |operations, call| to_json(&operations.control()?.explain(&call.body()?)?),
        ..SHOW
    },
];

/// A page of keys.
#[derive(Serialize, JsonSchema)]
struct KeyList<'a> {
    /// The keys.
    data: Vec<KeyView<'a>>,
    /// Whether there are more behind them.
    has_more: bool,
    /// For `after`: where the next page begins.
    #[schemars(with = "Option<String>")]
    last_id: Option<&'a KeyId>,
}

/// Grants of a key, oldest first.
#[derive(Serialize, JsonSchema)]
struct GrantList {
    /// The grants.
    data: Vec<GrantView>,
}

fn list(operations: &Operations, call: &Call) -> Answered {
    let page = operations.list(&call.query()?)?;
    let now = operations.now();
    to_json(&KeyList {
        data: view_all(&page.records, now),
        has_more: page.has_more,
        last_id: page.records.last().map(KeyRecord::id),
    })
}

fn view_all(records: &[KeyRecord], now: Timestamp) -> Vec<KeyView<'_>> {
    let view = |record| KeyView::new(record, now);
    records.iter().map(view).collect()
}

fn create(operations: &Operations, call: &Call) -> Answered {
    let order = call.order()?;
    let created = operations.create(&call.body()?, order.as_ref())?;
    to_json(&CreatedView {
        key: created.key.expose(),
        record: KeyView::new(&created.record, operations.now()),
    })
}

fn shown(operations: &Operations, record: &KeyRecord) -> Answered {
    to_json(&KeyView::new(record, operations.now()))
}

fn to_json(answer: &impl Serialize) -> Answered {
    // Plain data of our own: it cannot fail to be written.
    Ok(serde_json::to_vec(answer).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_and_no_name_stands_twice() {
        for (place, route) in ROUTES.iter().enumerate() {
            for other in ROUTES.iter().skip(place + 1) {
                assert_ne!(route.id, other.id);
                let same = route.path == other.path && route.method == other.method;
                assert!(!same, "{} and {}", route.id, other.id);
            }
        }
    }
}
