//! `GET /v1`: status and discovery, from the table of endpoints and the open paths of providers.

use crate::open_path;
use serde::Serialize;
use tollgate_filter::Endpoint;
use tollgate_routing::Catalog;
use tollgate_types::{Format, Identity};

#[derive(Serialize)]
struct Status<'a> {
    object: &'static str,
    status: &'static str,
    version: &'static str,
    formats: [Format; Format::OF_CLIENTS.len()],
    endpoints: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    method: &'a str,
    path: String,
    format: Option<Format>,
    purpose: &'static str,
}

/// The body of the answer.
pub fn status(catalog: &Catalog, identity: &Identity) -> Vec<u8> {
    let table = Endpoint::TABLE.iter();
    let rows = table.filter(|info| info.endpoint != Endpoint::Passthrough);
    let rows = rows.flat_map(|info| {
        info.methods.iter().map(|method| Row {
            method: method.as_str(),
            path: info.path.to_owned(),
            format: info.format,
            purpose: info.purpose,
        })
    });
    let open = open_path::usable(catalog, identity).flat_map(|rule| {
        rule.methods.iter().map(|method| Row {
            method: method.as_str(),
            path: format!("/passthrough/{}", rule.name),
            format: None,
            purpose: "a path of the provider",
        })
    });
    let status = Status {
        object: "gateway",
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        formats: Format::OF_CLIENTS,
        endpoints: rows.chain(open).collect(),
    };
    // Plain data of our own: it cannot fail to be written.
    serde_json::to_vec(&status).unwrap_or_default()
}
