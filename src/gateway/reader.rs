//! Reads a provider's answer by its kind, and returns what goes to the client: the received bytes, or
//! their translation into the client's format.

use super::answer::UpstreamHead;
use super::deadlines::Progress;
use super::memory_permit::MemoryPermit;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{AsHeaderName, CONTENT_LENGTH, CONTENT_TYPE};
use std::sync::Arc;
use std::time::Duration;
use tollgate_telemetry::events;
use tollgate_translate::{
    AnswerContext, AnswerTranslator, EmbeddingsNotes, StreamTranslator, TranslationNotes,
    embeddings_answer, with_usage,
};
use tollgate_types::{Format, PublicError, RequestId};
use tollgate_wire::answer::{AnswerKind, AnswerReport, AnswerScanner, StreamEvents};
use tollgate_wire::fault::{FaultClass, UpstreamFault};
use tollgate_wire::stream::{AmazonFrames, Phase, StreamEnd, StreamOptions, StreamScanner};

/// The effect of the request on its answer.
pub struct Expectation {
    /// The format in which the provider answers.
    pub format: Format,
    /// Events of the provider's streams that the format does not define.
    pub stream_events: StreamEvents,
    /// Whether to remove the usage chunk of a chat stream, which only the gateway has requested.
    pub strip_usage: bool,
    /// Whether the request asks for a stream.
    pub streams: bool,
    /// The body of a successful answer.
    pub body: ExpectedBody,
}

/// The body of a successful answer, and the memory for one that is held until it is complete.
pub enum ExpectedBody {
    /// A body of any kind, forwarded unread.
    Unread,
    /// A count of tokens.
    Count,
    /// An item that the provider stores.
    Stored,
    /// A stored response that is not paid.
    Unpaid {
        /// The memory for it.
        permit: MemoryPermit,
        /// The client has got it before.
        is_seen: bool,
    },
    /// An answer that is translated into the client's format.
    Translated(Translation),
    /// Embeddings in another API.
    Embeddings {
        /// The parts that the provider's answer lacks.
        notes: EmbeddingsNotes,
        /// Input tokens by the gateway's count, which is charged if the provider reports none.
        counted: u64,
        /// The memory for the answer until it is complete.
        permit: MemoryPermit,
    },
    /// An answer that needs no translation.
    Untranslated {
        /// The memory for an answer in one piece.
        permit: MemoryPermit,
        /// The most bytes of such an answer that are held.
        most_held: usize,
    },
}

/// The facts that a translation of the answer needs.
pub struct Translation {
    /// The notes of the request's translation.
    pub notes: Arc<TranslationNotes>,
    /// The parts that the provider's answer lacks.
    pub context: AnswerContext,
    /// The memory for an answer in one piece until it is complete.
    pub permit: MemoryPermit,
}

/// Reads an answer by its kind.
pub enum AnswerReader {
    /// An event stream.
    Stream(Events),
    /// A body in one piece, forwarded as received.
    Whole(Box<PassingAnswer>),
    /// A body in one piece, translated when it is complete.
    TranslatedWhole(Box<WholeAnswer>),
    /// Embeddings in another API, translated when they are complete.
    Embeddings(Box<EmbeddingsAnswer>),
    /// A count of tokens: small, and read when it is complete.
    Count,
    /// A stored item, or a body of any kind: forwarded unread.
    Unread,
    /// A stored response, kept until it is complete, because its usage is charged first.
    Unpaid(Box<UnpaidResponse>),
    /// A body in one piece although the request asks for a stream: only an error in it is read.
    Unstreamed(Box<AnswerScanner>),
    /// An error, which its body explains.
    Error,
}

/// An answer that is forwarded as received: when it is complete, unless it is too large to be held.
pub struct PassingAnswer {
    scanner: AnswerScanner,
    hold: Hold,
    most_held: usize,
    /// Bytes that the permit covers.
    counted: usize,
}

/// How far an answer in one piece was forwarded.
enum Hold {
    /// Nothing was forwarded. The permit covers the held bytes; `None`: the answer is too large to be held.
    Held(Option<MemoryPermit>),
    /// A part of it was forwarded.
    Released,
    /// It was forwarded complete, and further bytes are dropped.
    Over,
}

impl PassingAnswer {
    /// Bytes that are held without being counted.
    const UNCOUNTED: usize = 64 * 1024;

    fn new(format: Format, permit: MemoryPermit, most_held: usize, length: Option<u64>) -> Self {
        let most = u64::try_from(most_held).unwrap_or(u64::MAX);
        Self {
            scanner: AnswerScanner::new(format),
            hold: Hold::Held(length.is_none_or(|length| length <= most).then_some(permit)),
            most_held,
            counted: 0,
        }
    }

    /// Reads a piece. If the answer breaks or becomes an error after a part was forwarded, it ends before that
    /// piece. Bytes after a complete answer are dropped.
    fn push(&mut self, chunk: Bytes, end: bool, out: &mut Vec<Bytes>) -> Result<(), UpstreamFault> {
        if self.is_over() {
            return Ok(());
        }
        let was_whole = self.is_whole();
        self.scanner.push(&chunk);
        match (&self.hold, self.kind_so_far()) {
            (Hold::Released, Some(AnswerKind::Broken)) if was_whole => {
                self.hold = Hold::Over;
                return Ok(());
            }
            (Hold::Released, Some(AnswerKind::Broken | AnswerKind::Error)) => {
                return Err(self.fault(&[]));
            }
            _ => out.push(chunk),
        }
        match end.then(|| self.scanner.finish()) {
            Some(AnswerKind::Broken) => Err(self.fault(&[])),
            _ => Ok(()),
        }
    }

    /// The failure that the body is. `body` has its bytes so far.
    pub fn fault(&self, body: &[u8]) -> UpstreamFault {
        self.scanner.fault(body)
    }

    /// Whether it was forwarded complete, and further bytes are dropped.
    pub const fn is_over(&self) -> bool {
        matches!(self.hold, Hold::Over)
    }

    /// Whether it is complete.
    pub const fn is_whole(&self) -> bool {
        self.is_over() || self.scanner.is_whole()
    }

    /// Takes memory to hold `bytes` until the rest has arrived. `false`: there is none.
    pub fn has_room(&mut self, bytes: usize) -> bool {
        /// Memory per byte: pieces are joined when they are forwarded.
        const OF_A_BYTE: u64 = 2;
        let Hold::Held(Some(permit)) = &mut self.hold else {
            return false;
        };
        if bytes > self.most_held {
            return false;
        }
        let more = bytes.saturating_sub(self.counted.max(Self::UNCOUNTED));
        if more == 0 {
            return true;
        }
        let size = u64::try_from(more).unwrap_or(u64::MAX);
        let has_room = permit.grow(size.saturating_mul(OF_A_BYTE)).is_ok();
        if has_room {
            self.counted = bytes;
        }
        has_room
    }

    /// Ends the hold: `body` is forwarded, and its memory stays counted until it is dropped. Nothing follows a
    /// complete answer.
    pub fn release(&mut self, body: Bytes) -> Bytes {
        let released = match self.is_whole() {
            true => Hold::Over,
            false => Hold::Released,
        };
        match std::mem::replace(&mut self.hold, released) {
            Hold::Held(Some(permit)) if self.counted > 0 => permit.keep(body),
            _ => body,
        }
    }

    /// The kind of the body, once it is certain.
    pub const fn kind_so_far(&self) -> Option<AnswerKind> {
        self.scanner.kind_so_far()
    }

    /// Whether a field of the body names an answer of the format.
    pub const fn is_named(&self) -> bool {
        self.scanner.is_named()
    }
}

/// Embeddings in another API: kept until they are complete, then translated.
pub struct EmbeddingsAnswer {
    notes: EmbeddingsNotes,
    permit: MemoryPermit,
    /// Input tokens by the headers of the answer.
    input_tokens: Option<u64>,
    /// Input tokens by the gateway's count, which is charged if the provider reports none.
    counted: u64,
    body: Vec<u8>,
    /// Finds the end of the provider's document.
    document: AnswerScanner,
    /// Reads the translation.
    scanner: AnswerScanner,
}

impl EmbeddingsAnswer {
    fn new(
        notes: EmbeddingsNotes,
        counted: u64,
        permit: MemoryPermit,
        headers: &HeaderMap,
    ) -> Self {
        const INPUT_TOKENS: &str = "x-amzn-bedrock-input-token-count";
        Self {
            notes,
            permit,
            input_tokens: number(headers, INPUT_TOKENS),
            counted,
            body: Vec::new(),
            document: AnswerScanner::new(Format::Embeddings),
            scanner: AnswerScanner::new(Format::Embeddings),
        }
    }

    /// Reads a piece. Returns the answer once it is complete, even if the provider continues. Nothing is read
    /// after it.
    fn push(&mut self, chunk: &[u8], end: bool) -> Result<Option<Bytes>, UpstreamFault> {
        /// Memory per byte: in a list that doubles as it grows, and in the translation.
        const OF_A_BYTE: u64 = 4;
        let size = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        keep(&mut self.permit, size.saturating_mul(OF_A_BYTE))?;
        self.body.extend_from_slice(chunk);
        self.document.push(chunk);
        if !end && !self.document.is_whole() {
            return Ok(None);
        }
        let body = std::mem::take(&mut self.body);
        let answer = embeddings_answer(&body, self.input_tokens, &self.notes);
        let answer = answer.ok_or_else(UpstreamFault::broken_answer)?;
        self.scanner.push(&answer);
        if self.scanner.finish() != AnswerKind::Answer {
            return Err(self.scanner.fault(&answer));
        }
        Ok(Some(match self.scanner.usage().has_input {
            true => answer,
            // The scanner must not take it for the provider's report.
            false => with_usage(&answer, self.counted),
        }))
    }
}

/// An answer that is kept until it is complete, and then translated.
pub struct WholeAnswer {
    translator: AnswerTranslator,
    permit: MemoryPermit,
    /// The answer is also written to be remembered.
    is_remembered: bool,
}

impl WholeAnswer {
    /// Reads a piece. Returns the answer once it is complete, even if the provider continues. Nothing is read
    /// after it.
    fn push(&mut self, chunk: &[u8], end: bool) -> Result<Option<Bytes>, UpstreamFault> {
        /// Memory per byte: in a list that doubles as it grows, and in the translation.
        const OF_A_BYTE: u64 = 4;
        /// The same if the answer is also written to be remembered.
        const OF_A_REMEMBERED_BYTE: u64 = 7;
        let size = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let of_a_byte = match self.is_remembered {
            true => OF_A_REMEMBERED_BYTE,
            false => OF_A_BYTE,
        };
        keep(&mut self.permit, size.saturating_mul(of_a_byte))?;
        self.translator.push(chunk);
        match end || self.translator.scanner().is_whole() {
            true => self.translator.finish().map(Some),
            false => Ok(None),
        }
    }

    /// The kind of the body, once it is certain.
    pub const fn kind_so_far(&self) -> Option<AnswerKind> {
        self.translator.scanner().kind_so_far()
    }

    /// The failure that the body is. `body` has its bytes so far.
    pub fn fault(&self, body: &[u8]) -> UpstreamFault {
        self.translator.scanner().fault(body)
    }
}

/// A stored response that is kept until it is complete.
pub struct UnpaidResponse {
    /// The client has got it before.
    is_seen: bool,
    scanner: AnswerScanner,
    pieces: Vec<Bytes>,
    permit: MemoryPermit,
}

impl UnpaidResponse {
    fn new(permit: MemoryPermit, is_seen: bool) -> Self {
        Self {
            is_seen,
            scanner: AnswerScanner::new(Format::Responses),
            pieces: Vec::new(),
            permit,
        }
    }

    /// Reads a piece. Adds all pieces to `out` once the response is complete. Nothing is read after it.
    fn push(&mut self, chunk: Bytes, end: bool, out: &mut Vec<Bytes>) -> Result<(), UpstreamFault> {
        let size = u64::try_from(kept_size(&chunk)).unwrap_or(u64::MAX);
        keep(&mut self.permit, size)?;
        self.scanner.push(&chunk);
        self.pieces.push(chunk);
        if !end && !self.scanner.is_whole() {
            return Ok(());
        }
        if self.scanner.finish() == AnswerKind::Broken {
            return Err(UpstreamFault::broken_answer());
        }
        if !self.is_seen && is_running(&self.scanner) {
            return Err(still_running());
        }
        out.append(&mut self.pieces);
        Ok(())
    }
}

/// Whether the provider may still add to a stored response, or has not reported its usage.
fn is_running(response: &AnswerScanner) -> bool {
    let facts = response.facts();
    let has_usage = response.usage().plausible().is_some();
    let has_ended = has_usage && !facts.is_running || facts.stop.is_some();
    !has_ended && (has_usage || response.text_bytes() > 0)
}

/// The failure of a response that its provider has not finished.
fn still_running() -> UpstreamFault {
    const RETRY_AFTER: Duration = Duration::from_secs(1);
    UpstreamFault {
        retry_after: Some(RETRY_AFTER),
        ..UpstreamFault::without_answer(FaultClass::Busy)
    }
}

/// The memory that a kept piece takes, in bytes: Pingora allocates each chunk separately.
pub fn kept_size(piece: &Bytes) -> usize {
    const OF_A_PIECE: usize = 64;
    piece.len().saturating_add(OF_A_PIECE)
}

/// Counts kept bytes of an answer.
fn keep(permit: &mut MemoryPermit, bytes: u64) -> Result<(), UpstreamFault> {
    permit.grow(bytes).map_err(|shed| {
        events::request_shed(shed);
        UpstreamFault::out_of_memory()
    })
}

/// An event stream, forwarded or translated event by event.
pub enum Events {
    /// Forwards the received bytes.
    Passing(Box<StreamScanner>),
    /// Translates them into the client's format.
    Translated(Box<StreamTranslator>),
}

impl AnswerReader {
    /// The reader for an answer with this head.
    ///
    /// # Errors
    ///
    /// No answer to the request has such a head.
    pub fn for_head(head: &UpstreamHead, expected: Expectation) -> Result<Self, UpstreamFault> {
        let is_unread = matches!(expected.body, ExpectedBody::Unread);
        match head.status {
            200..=299 if is_unread => return Ok(Self::Unread),
            200..=299 => {}
            300..=399 if is_unread => {
                return Err(UpstreamFault {
                    status: Some(head.status),
                    ..UpstreamFault::broken_answer()
                });
            }
            400..=599 => return Ok(Self::Error),
            // A redirect would send the client's request to an unchecked address.
            _ => return Err(UpstreamFault::broken_answer()),
        }
        let is = |kind| is_of_type(&head.headers, kind);
        let is_stream = is("text/event-stream") || is(AmazonFrames::MEDIA_TYPE);
        let can_stream = matches!(
            expected.body,
            ExpectedBody::Translated(_)
                | ExpectedBody::Embeddings { .. }
                | ExpectedBody::Untranslated { .. }
        );
        let must_stream = can_stream && expected.streams;
        if is_stream && must_stream {
            return Ok(Self::Stream(Events::new(expected)));
        }
        if !is("application/json") {
            return Err(UpstreamFault::broken_answer());
        }
        if must_stream {
            let scanner = AnswerScanner::new(expected.format);
            return Ok(Self::Unstreamed(Box::new(scanner)));
        }
        Ok(match expected.body {
            ExpectedBody::Unread | ExpectedBody::Stored => Self::Unread,
            ExpectedBody::Count => Self::Count,
            ExpectedBody::Unpaid { permit, is_seen } => {
                Self::Unpaid(Box::new(UnpaidResponse::new(permit, is_seen)))
            }
            ExpectedBody::Translated(translation) => Self::TranslatedWhole(Box::new(WholeAnswer {
                is_remembered: translation.notes.memory.is_some(),
                translator: AnswerTranslator::new(translation.notes, translation.context),
                permit: translation.permit,
            })),
            ExpectedBody::Embeddings {
                notes,
                counted,
                permit,
            } => {
                let answer = EmbeddingsAnswer::new(notes, counted, permit, &head.headers);
                Self::Embeddings(Box::new(answer))
            }
            ExpectedBody::Untranslated { permit, most_held } => {
                let length = content_length(&head.headers);
                let answer = PassingAnswer::new(expected.format, permit, most_held, length);
                Self::Whole(Box::new(answer))
            }
        })
    }

    /// Reads a piece and adds to `out` what can be sent.
    ///
    /// # Errors
    ///
    /// The attempt has failed; `out` can be sent nevertheless.
    pub fn push(
        &mut self,
        chunk: Bytes,
        end: bool,
        out: &mut Vec<Bytes>,
    ) -> Result<(), UpstreamFault> {
        match self {
            Self::Stream(events) => events.push(&chunk, end, out),
            Self::Whole(answer) => answer.push(chunk, end, out),
            Self::TranslatedWhole(answer) => {
                out.extend(answer.push(&chunk, end)?);
                Ok(())
            }
            Self::Embeddings(answer) => {
                out.extend(answer.push(&chunk, end)?);
                Ok(())
            }
            Self::Unpaid(response) => response.push(chunk, end, out),
            Self::Unstreamed(scanner) => {
                scanner.push(&chunk);
                out.push(chunk);
                Ok(())
            }
            Self::Count | Self::Unread | Self::Error => {
                out.push(chunk);
                Ok(())
            }
        }
    }

    /// What the provider has reported so far; `None` if the answer is not read.
    pub fn report(&self) -> Option<&dyn AnswerReport> {
        Some(match self {
            Self::Stream(events) => events.scanner(),
            Self::Whole(answer) => &answer.scanner,
            Self::TranslatedWhole(answer) => answer.translator.scanner(),
            Self::Embeddings(answer) => &answer.scanner,
            Self::Unpaid(response) => &response.scanner,
            Self::Count | Self::Unread | Self::Unstreamed(_) | Self::Error => return None,
        })
    }

    /// The answer as it is remembered, if it is translated and complete. `None` the second time.
    pub fn take_remembered(&mut self) -> Option<Bytes> {
        match self {
            Self::Stream(Events::Translated(translator)) => translator.take_remembered(),
            Self::TranslatedWhole(answer) => answer.translator.take_remembered(),
            _ => None,
        }
    }

    /// Whether the client gets the answer when it is complete, all at once.
    pub const fn is_kept(&self) -> bool {
        matches!(
            self,
            Self::TranslatedWhole(_) | Self::Embeddings(_) | Self::Unpaid(_)
        )
    }

    /// Whether the gateway has ended the answer before the provider did.
    pub fn is_cut_short(&self) -> bool {
        matches!(self, Self::Stream(Events::Translated(translator)) if translator.is_cut_short())
    }

    /// Whether the client needs nothing more.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Stream(events) => *events.phase() == Phase::Terminal,
            Self::Whole(answer) => answer.is_whole(),
            Self::TranslatedWhole(_)
            | Self::Embeddings(_)
            | Self::Count
            | Self::Unread
            | Self::Unpaid(_)
            | Self::Unstreamed(_)
            | Self::Error => false,
        }
    }
}

impl Events {
    fn new(expected: Expectation) -> Self {
        if let ExpectedBody::Translated(Translation { notes, context, .. }) = expected.body {
            let translator = StreamTranslator::new(notes, context);
            let translator = translator.with_extensions(expected.stream_events);
            return Self::Translated(Box::new(translator));
        }
        let options = StreamOptions {
            strip_usage: expected.strip_usage,
            ..StreamOptions::default()
        };
        let scanner = StreamScanner::new(expected.format, options);
        Self::Passing(Box::new(scanner.with_extensions(expected.stream_events)))
    }

    fn push(
        &mut self,
        chunk: &Bytes,
        end: bool,
        out: &mut Vec<Bytes>,
    ) -> Result<(), UpstreamFault> {
        match self {
            Self::Passing(scanner) => scanner.push(chunk, out),
            Self::Translated(translator) => translator.push(chunk, out),
        }
        let ending = end.then(|| match self {
            Self::Passing(scanner) => scanner.finish(out),
            Self::Translated(translator) => translator.finish(out),
        });
        match (self.phase(), ending) {
            (Phase::Failed(fault), _) => Err(fault.clone()),
            (_, Some(StreamEnd::Cut | StreamEnd::Failed)) => {
                Err(UpstreamFault::connection_broken())
            }
            _ => Ok(()),
        }
    }

    fn scanner(&self) -> &StreamScanner {
        match self {
            Self::Passing(scanner) => scanner,
            Self::Translated(translator) => translator.scanner(),
        }
    }

    /// How far the stream has come.
    pub fn phase(&self) -> &Phase {
        match self {
            Self::Passing(scanner) => scanner.phase(),
            Self::Translated(translator) => translator.phase(),
        }
    }

    /// How far the stream has come, for the deadlines.
    pub fn progress(&self) -> Progress {
        match self.phase() {
            Phase::Preamble => Progress::Preamble,
            Phase::Terminal => Progress::Ended,
            _ => Progress::Events(self.scanner().events()),
        }
    }

    /// The error event that ends the stream, in the client's format.
    pub fn failure_event(&self, error: &PublicError, id: &RequestId) -> Bytes {
        match self {
            Self::Passing(scanner) => scanner.failure_event(error, id),
            Self::Translated(translator) => translator.failure_event(error, id),
        }
    }
}

/// The length of the body, if the head has it.
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    number(headers, CONTENT_LENGTH)
}

fn number(headers: &HeaderMap, name: impl AsHeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// Whether the body is of this media type.
pub fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let value = value.and_then(|it| it.split(';').next());
    value.is_some_and(|it| it.trim().eq_ignore_ascii_case(media_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_stored_response_is_paid_for_once_it_has_ended_and_its_usage_is_known() {
        let usage = json!({"input_tokens": 10, "output_tokens": 5});
        let text = json!([{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]);
        let none = json!([]);
        for (status, output, usage, expected) in [
            ("queued", &none, &Value::Null, false),
            ("in_progress", &text, &Value::Null, true),
            ("in_progress", &text, &usage, true),
            ("in_progress", &none, &usage, true),
            ("completed", &text, &usage, false),
            ("completed", &text, &Value::Null, false),
            ("cancelled", &text, &usage, false),
            ("failed", &none, &Value::Null, false),
        ] {
            let body =
                json!({"object": "response", "status": status, "output": output, "usage": usage});
            let mut response = AnswerScanner::new(Format::Responses);
            response.push(body.to_string().as_bytes());
            let _ = response.finish();
            assert_eq!(is_running(&response), expected, "{body}");
        }
    }
}
