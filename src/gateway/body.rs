//! Reads the body of a request once, so that every attempt can send it.
//!
//! Pingora calls the body filter of an attempt if there is a body to send again. The gateway has read the body by then
//! and says that there is one; the filter inserts it. `collect` decides on the pieces while the body is read.

mod collect;

use bytes::Bytes;
use http::Version;
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora_core::Error;
use pingora_proxy::Session;
use std::time::Duration;
use tollgate_types::{ConversationFacts, Format, KeyShares, PublicError};
use tollgate_wire::answer::Sample;
use tollgate_wire::conversation;
use tollgate_wire::field_path;
use tollgate_wire::json::Span;
use tollgate_wire::peek::{Peeked, Peeker};

use super::disconnect::at_once;
use super::memory_permit::{Bounds, MemoryPermit, SMALL};
use super::remembered::OriginalRequest;
use super::unpack::Coding;
use crate::limits::BodyLimits;
use collect::BodyReader;
pub use collect::peeker;

/// A request's body and what one pass over it found.
pub struct RequestBody {
    chunks: Vec<Bytes>,
    length: u64,
    peeked: Peeked,
    /// The memory of a small body. The bytes of a large body own their permit, because a provider may still
    /// receive them after the body was released here.
    permit: Option<MemoryPermit>,
    /// How long the request has waited for memory while its body was read.
    waited: Duration,
    /// The caller's own request, if remembered answers were inserted into this one.
    original: Option<Box<OriginalRequest>>,
    /// A sample of the body, if it is needed after the body was released.
    sample: Option<Box<Sample>>,
}

/// The facts that the gateway looks for in a body.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Whether the request asks for a count of its tokens.
    pub counts_tokens: bool,
    /// Whether texts are noted, because a profile may choose the model.
    pub notes_texts: bool,
}

/// Why a body was not read.
pub enum BodyFault {
    /// The client gets this error.
    Refused(PublicError),
    /// The caller has disconnected.
    Gone(Box<Error>),
}

impl From<PublicError> for BodyFault {
    fn from(error: PublicError) -> Self {
        Self::Refused(error)
    }
}

impl RequestBody {
    /// Reads the body of a request. `peeker` inspects it, if given; `coding` is the compression.
    ///
    /// # Errors
    ///
    /// 400 if it is not a valid request, 408 if it takes too long or is too slow, 413 if it is too large, 429 if the
    /// bodies of the key take too much memory, 503 if all bodies do.
    pub async fn read(
        session: &mut Session,
        peeker: Option<Peeker>,
        coding: Option<Coding>,
        limits: BodyLimits,
        bounds: Bounds,
        of_key: Option<&KeyShares>,
    ) -> Result<Self, BodyFault> {
        let length = declared_length(session)?;
        if length.is_some_and(|length| length > limits.size) {
            return Err(too_large(limits.size).into());
        }
        send_continue(session).await?;
        let mut reader = BodyReader::new(peeker, coding, length, limits, bounds, of_key);
        reader.read(session).await?;
        announce(session);
        reader.finish()
    }

    /// Replaces the body by the same request with the answers to which it refers.
    ///
    /// # Errors
    ///
    /// It is not a valid request.
    pub fn replace(
        &mut self,
        whole: Bytes,
        reading: Reading,
        permit: MemoryPermit,
        original: OriginalRequest,
    ) -> Result<(), PublicError> {
        let mut peeker = peeker(Format::Responses, reading);
        peeker.push(&whole).map_err(|fault| fault.public())?;
        self.peeked = peeker.finish().map_err(|fault| fault.public())?;
        self.length = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        self.original = Some(Box::new(original));
        (self.chunks, self.permit) = match self.length > SMALL {
            true => (vec![permit.keep(whole)], None),
            false => (vec![whole], Some(permit)),
        };
        Ok(())
    }

    /// The caller's own request, if remembered answers were inserted into this one.
    pub fn original(&self) -> Option<&OriginalRequest> {
        self.original.as_deref()
    }

    /// The result of one pass over the body.
    pub const fn peeked(&self) -> &Peeked {
        &self.peeked
    }

    /// The body as it came; `None` if it came in pieces or was released.
    pub fn in_one_piece(&self) -> Option<Bytes> {
        match self.chunks.as_slice() {
            [whole] => Some(whole.clone()),
            _ => None,
        }
    }

    /// The pieces of the body; none after it was released.
    pub fn pieces(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The facts of the conversation for a profile; `None` if texts were not noted.
    pub fn inspect_conversation(&self) -> Option<ConversationFacts> {
        let texts = self.peeked.texts.as_ref()?;
        Some(conversation::inspect(texts, &self.chunks))
    }

    /// Whether this is the body itself, not a copy.
    pub fn is_uncopied(&self, bytes: &Bytes) -> bool {
        matches!(self.chunks.as_slice(), [whole] if whole.as_ptr() == bytes.as_ptr())
    }

    /// How long the request has waited for memory while its body was read.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Bytes of the body.
    pub const fn len(&self) -> u64 {
        self.length
    }

    /// The bytes of a part of it, piece by piece.
    pub fn part(&self, span: Span) -> impl Iterator<Item = &[u8]> {
        let mut at = 0_u64;
        self.chunks.iter().filter_map(move |chunk| {
            let from = span.start.saturating_sub(at);
            let to = span.end.saturating_sub(at).min(chunk.len() as u64);
            at = at.saturating_add(chunk.len() as u64);
            let range = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
            chunk.get(range).filter(|piece| !piece.is_empty())
        })
    }

    /// The longest beginning of a path to a field that leads to a value in the body.
    pub fn field_at(&self, path: &str) -> Option<String> {
        field_path::longest_in(self.chunks.iter().map(|chunk| &**chunk), path)
    }

    /// Releases the body once an answer is committed, after which no attempt needs it. Otherwise a
    /// stream of minutes would keep a body of megabytes.
    pub fn release(&mut self) {
        self.chunks = Vec::new();
        self.original = None;
        drop(self.permit.take());
    }

    /// Keeps a sample of the body, about a KiB.
    pub fn keep_sample(&mut self) {
        self.sample = Some(Box::new(self.sample_now()));
    }

    /// A sample of the body: the one that was kept, or one of the body itself. Empty after it was released
    /// without one.
    pub fn sample(&self) -> String {
        match &self.sample {
            Some(sample) => sample.text(),
            None => self.sample_now().text(),
        }
    }

    fn sample_now(&self) -> Sample {
        Sample::of_pieces(self.chunks.iter().map(|chunk| &**chunk), self.length)
    }

    /// The body in one piece. It is copied only if it came in several.
    pub fn whole(&self) -> Bytes {
        match self.chunks.as_slice() {
            [whole] => whole.clone(),
            chunks => chunks.concat().into(),
        }
    }
}

/// Sends `100 Continue` to a caller that waits for it.
///
/// # Errors
///
/// The caller has disconnected.
pub async fn send_continue(session: &mut Session) -> Result<(), BodyFault> {
    if !expects_continue(session) {
        return Ok(());
    }
    // Pingora disables keep-alive for any answer that precedes the body, even this one.
    let keepalive = session.get_keepalive();
    session
        .write_continue_response()
        .await
        .map_err(|e| BodyFault::Gone(e.into_down()))?;
    session.set_keepalive(keepalive);
    // From here on, the caller sends, and its body may have to be read.
    session.req_header_mut().remove_header(&EXPECT);
    Ok(())
}

/// Lets Pingora call the body filter, which ends the request to the provider. A request without a body ends with its
/// head: nothing may follow that.
fn announce(session: &mut Session) {
    if !session.is_body_empty() {
        session.set_retry_buffer(Bytes::new());
    }
}

/// Reads and discards a body that has no meaning: the path names the stored item. If it were left unread,
/// Pingora would wait for its end during the attempt.
///
/// # Errors
///
/// 408 if it takes too long, 413 if it has more than 64 KiB.
pub async fn leave_out(session: &mut Session) -> Result<(), BodyFault> {
    const LONGEST: u64 = 64 * 1024;
    let ends = tokio::time::Instant::now() + BodyLimits::GRACE;
    let mut read = 0_u64;
    while !session.is_body_done() {
        let reading = session.read_request_body();
        let Ok(piece) = tokio::time::timeout_at(ends, reading).await else {
            return Err(took_too_long().into());
        };
        let Some(piece) = piece.map_err(|error| read_fault(session, error))? else {
            break;
        };
        read = read.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if read > LONGEST {
            return Err(too_large(LONGEST).into());
        }
    }
    announce(session);
    Ok(())
}

/// The result of `work`; `None` if it takes longer than `left`. Reads the clock only if the result is not
/// ready at once.
async fn within<T>(left: impl FnOnce() -> Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    if let Some(done) = at_once(work.as_mut()).await {
        return Some(done);
    }
    tokio::time::timeout(left(), work).await.ok()
}

/// The fault if a body cannot be read further.
fn read_fault(session: &mut Session, error: Box<Error>) -> BodyFault {
    // The type itself is private to Pingora.
    if matches!(error.etype.as_str(), "InvalidChunk" | "InvalidTrailerEnd") {
        // The beginning of the next request is unknown.
        session.set_keepalive(None);
        return PublicError::invalid_request("the request body is not valid chunked encoding")
            .into();
    }
    BodyFault::Gone(error.into_down())
}

/// The length that the head declares. Duplicates were refused before.
///
/// # Errors
///
/// It is not a number.
pub fn declared_length(session: &Session) -> Result<Option<u64>, PublicError> {
    let Some(value) = session.get_header(CONTENT_LENGTH) else {
        return Ok(None);
    };
    let length = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    length
        .map(Some)
        .ok_or_else(|| PublicError::invalid_request("Content-Length is not a number"))
}

/// Whether the caller still waits for `100 Continue`, which Pingora never sends by itself.
pub fn expects_continue(session: &Session) -> bool {
    let head = session.req_header();
    // HTTP/1.0 has no such answer.
    head.version >= Version::HTTP_11
        && head
            .headers
            .get(EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The error for a body of more bytes than `limit`.
pub fn too_large(limit: u64) -> PublicError {
    PublicError::new(
        tollgate_types::ErrorCode::RequestTooLarge,
        format!("the request body is larger than {limit} bytes"),
    )
}

/// The error for a body that does not end in time.
pub fn took_too_long() -> PublicError {
    const REQUEST_TIMEOUT: u16 = 408;
    PublicError::invalid_request("the request body took too long to arrive")
        .with_status(REQUEST_TIMEOUT)
}
