//! As much of an HTTP client as the command line needs to ask a gateway's operator's listener:
//! one request in cleartext, the answer whole.

use super::Failure;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long the gateway may be silent.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer: more than any configuration has.
const MOST_BYTES: u64 = 32 << 20;

/// Gets a page of the admin API.
///
/// # Errors
///
/// Nobody is there, or the answer is no success: what it says.
pub(super) fn get(authority: &str, target: &str, token: &str) -> Result<Vec<u8>, Failure> {
    exchange(authority, "GET", target, token, b"")
}

fn exchange(
    authority: &str,
    method: &str,
    target: &str,
    token: &str,
    body: &[u8],
) -> Result<Vec<u8>, Failure> {
    if token.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("the admin token holds a line break".into());
    }
    let cannot = |fault: std::io::Error| format!("{authority} cannot be asked: {fault}");
    let mut addresses = authority.to_socket_addrs().map_err(cannot)?;
    let address = addresses.next().ok_or("the address leads nowhere")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(cannot)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(cannot)?;
    // Version 1.0, so that the answer comes in one piece that ends with the connection.
    let head = format!(
        "{method} {target} HTTP/1.0\r\nhost: {authority}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).map_err(cannot)?;
    stream.write_all(body).map_err(cannot)?;
    let mut answer = Vec::new();
    stream
        .take(MOST_BYTES)
        .read_to_end(&mut answer)
        .map_err(cannot)?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| format!("{authority} does not speak HTTP"))?;
    let (head, body) = answer.split_at(end.saturating_add(4));
    let head = String::from_utf8_lossy(head);
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status.starts_with('2') {
        return Ok(body.to_vec());
    }
    let told: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = told
        .as_ref()
        .and_then(|it| it.pointer("/error/message")?.as_str());
    let message = message.unwrap_or("it does not say why");
    Err(format!("{authority} answers {status}: {message}").into())
}
