//! Reads bytes as a caller's connection does, without a connection, for the fuzz targets.

pub use super::proxy_protocol::{
    LONGEST as LONGEST_PROXY_HEADER, Read as ProxyHeader, read as read_proxy_header,
};

use super::frames::FrameBudget;
use super::head::HeadReader;
use std::time::Instant;

/// What was read of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Bytes of its head.
    pub head: usize,
    /// Bytes of its body that have come, in the form in which they came.
    pub body: usize,
    /// Whether the body has ended.
    pub is_over: bool,
    /// Whether the body is chunked in a way that is refused.
    pub is_bad: bool,
    /// Its path.
    pub path: Option<String>,
}

/// Reads the request that comes in these chunks; its head has at most `most` bytes. `None` if the
/// head has not ended.
///
/// # Errors
///
/// The status and the message with which its head is refused.
pub fn read_request<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    most: usize,
) -> Result<Option<Read>, (u16, String)> {
    let mut reader = HeadReader::default();
    let (mut ahead, mut body, mut read) = (Vec::new(), None, None::<Read>);
    for chunk in chunks {
        let mut rest = chunk;
        if body.is_none() {
            ahead.extend_from_slice(chunk);
            let head = reader.read(&ahead, most).map_err(|fault| {
                let public = fault.public();
                (public.status, public.message.into_owned())
            })?;
            let Some(head) = head else {
                continue;
            };
            rest = ahead.get(head.size..).unwrap_or_default();
            read = Some(Read {
                head: head.size,
                body: 0,
                is_over: false,
                is_bad: false,
                path: reader.path(&ahead).map(str::to_owned),
            });
            body = Some(head.body);
        }
        if let (Some(body), Some(read)) = (&mut body, &mut read)
            && !read.is_bad
        {
            let taken = body.take(rest);
            let (Ok(part) | Err((part, _))) = taken;
            read.body = read.body.saturating_add(part);
            read.is_over = body.is_over();
            read.is_bad = taken.is_err();
        }
    }
    Ok(read)
}

/// How many bytes of a client's HTTP/2 pass before its allowance of frames that move nothing is
/// spent; `None` if all of them pass.
pub fn passing_frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Option<usize> {
    let now = Instant::now();
    let mut budget = FrameBudget::new(now);
    let mut passed = 0_usize;
    for chunk in chunks {
        match budget.look(chunk, now) {
            Some(part) => return Some(passed.saturating_add(part)),
            None => passed = passed.saturating_add(chunk.len()),
        }
    }
    None
}
