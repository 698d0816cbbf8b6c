//! `GET /v1`: status and discovery, from the table of endpoints.

use serde::Serialize;
use tollgate_filter::Endpoint;
use tollgate_types::Format;

#[derive(Serialize)]
struct Status {
    object: &'static str,
    status: &'static str,
    version: &'static str,
    formats: [Format; Format::OF_CLIENTS.len()],
    endpoints: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    method: &'static str,
    path: &'static str,
    format: Option<Format>,
    purpose: &'static str,
}

/// The body of the answer.
pub fn status() -> Vec<u8> {
    let rows = Endpoint::TABLE.iter().flat_map(|info| {
        info.methods.iter().map(|method| Row {
            method: method.as_str(),
            path: info.path,
            format: info.format,
            purpose: info.purpose,
        })
    });
    let status = Status {
        object: "gateway",
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        formats: Format::OF_CLIENTS,
        endpoints: rows.collect(),
    };
    // Plain data of our own: it cannot fail to be written.
    serde_json::to_vec(&status).unwrap_or_default()
}
