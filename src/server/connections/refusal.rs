//! The answer to a refused head: an error in the standard shape, and the end of the connection,
//! because the beginning of its next request is unknown.

use super::arrival;
use super::head::Fault;
use super::wire::Wire;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_engine::endpoints;
use tollgate_ledger::BillingState;
use tollgate_telemetry::access_log::AccessLog;
use tollgate_telemetry::clock;
use tollgate_telemetry::events;
use tollgate_types::{PublicError, RequestId};
use tollgate_wire::{headers, render};

/// How long the answer may take to leave.
const WRITE: Duration = Duration::from_secs(5);
/// How long the caller may go on sending, so that it gets to read: closing with unread
/// data resets the connection.
const LINGER: Duration = Duration::from_secs(2);
/// In bytes.
const MOST_LINGERED: u64 = 64 * 1024 * 1024;

/// Answers a faulty head, which came for `path` as far as that was read, and logs the refusal.
pub(super) async fn refuse(
    wire: &mut Wire,
    fault: &Fault,
    path: Option<&str>,
    access_log: &AccessLog,
) {
    events::head_refused(fault.reason);
    let id = RequestId::from_parts(clock::unix_ms(), fastrand::u128(..));
    let client = arrival::peer(wire);
    let error = fault.public();
    access_log.line(|line| {
        line.word("time", clock::now().as_str());
        line.word("id", id.as_str());
        line.optional_address("client", client);
        line.optional_text("path", path);
        line.number("status", error.status.into());
        line.word("code", error.code.as_str());
        line.word("outcome", BillingState::Rejected.as_str());
        line.word("reason", fault.reason.as_str());
    });
    let answer = compose(&error, &id, path);
    let said = tokio::time::timeout(WRITE, say(wire, &answer)).await;
    if matches!(said, Ok(Ok(()))) {
        let _ = tokio::time::timeout(LINGER, drain(wire)).await;
    }
}

async fn say(wire: &mut Wire, answer: &[u8]) -> io::Result<()> {
    wire.write_all(answer).await?;
    wire.flush().await?;
    AsyncWriteExt::shutdown(wire).await
}

async fn drain(wire: &mut Wire) -> io::Result<()> {
    let mut scratch = [0; 4096];
    let mut left = MOST_LINGERED;
    let rest = wire.rest();
    while left > 0 {
        match rest.read(&mut scratch).await? {
            0 => break,
            read => left = left.saturating_sub(read as u64),
        }
    }
    Ok(())
}

fn compose(error: &PublicError, id: &RequestId, path: Option<&str>) -> Vec<u8> {
    let endpoint = path.and_then(|path| endpoints::match_path(path).ok());
    let format = endpoint.and_then(|matched| matched.endpoint.format());
    let body = render::error_body(format, error, id);
    let status = http::StatusCode::from_u16(error.status).unwrap_or_default();
    let mut head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\nx-should-retry: false\r\nx-request-id: {id}\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        body.len(),
    );
    if let Some(name) = format.and_then(headers::request_id) {
        head.push_str(&format!("{name}: {id}\r\n"));
    }
    head.push_str("\r\n");
    let mut answer = head.into_bytes();
    answer.extend_from_slice(&body);
    answer
}
