//! Holds an answer until it can be committed, and then decides which of its bytes are sent.
//!
//! Works on bytes and writes nothing; `respond.rs` does that. A stream is committed at its first content
//! event, an answer in one piece when it is complete or too large to be held. Until then the next candidate
//! can take over without the client noticing, and the status can depend on the body.

use super::deadlines::{LONGEST_HELD, Progress};
use super::reader::{
    AnswerReader, Expectation, ExpectedBody, content_length, is_of_type, kept_size,
};
use super::unflushed::Unflushed;
use super::unpack::{Coding, Unpacker};
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use std::time::{Instant, SystemTime};
use tollgate_telemetry::events::OpenStream;
use tollgate_traces::KeptBody;
use tollgate_types::{PublicError, RequestId};
use tollgate_wire::answer::{AnswerFacts, AnswerKind, AnswerReport};
use tollgate_wire::fault::{UpstreamAnswer, UpstreamFault, classify};
use tollgate_wire::stream::{AmazonFrames, Phase};
use tollgate_wire::usage::ReportedUsage;

/// The most bytes that are held of a stream, an error or a body of unknown kind.
const MOST_HELD: usize = 64 * 1024;

/// The answer of the current attempt.
#[derive(Default)]
pub struct Answer {
    stage: Stage,
    /// The provider's head, until it is committed.
    head: Option<Box<UpstreamHead>>,
    reader: Option<AnswerReader>,
    /// For a provider that compresses although the request does not accept it.
    unpacker: Option<Unpacker>,
    /// For a stream in binary frames.
    frames: Option<AmazonFrames>,
    /// The held pieces. After the commit: the pieces of a broken stream that can still be sent.
    held: Vec<Bytes>,
    /// Pieces to send; empty between calls, to reuse its memory.
    ready: Vec<Bytes>,
    /// Bytes of the held pieces.
    held_size: usize,
    /// The last piece, if trailers follow it.
    last: Option<Bytes>,
    /// The last pieces that were sent, until they are known to be written.
    unflushed: Unflushed,
    began: Option<Instant>,
    open: Option<OpenStream>,
    /// The bytes that were sent, for the trace. `None`: the trace needs none of them.
    kept: Option<KeptBody>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No head has arrived.
    #[default]
    Awaited,
    /// Nothing was sent.
    Buffered,
    /// The head was sent.
    Forwarding,
    /// All of it was sent, or is about to be.
    Complete,
    /// The attempt has ended before the answer was complete: nothing more is sent of it.
    Over,
}

/// The head of a provider's answer.
pub struct UpstreamHead {
    /// The HTTP status.
    pub status: u16,
    /// The headers. None is forwarded by default.
    pub headers: HeaderMap,
}

/// The next step after a piece of the answer.
pub enum Next {
    /// Send nothing yet.
    Hold,
    /// Send the head and the first bytes of the body.
    Commit {
        /// The provider's head. Boxed: most values have none.
        head: Box<UpstreamHead>,
        /// The first bytes of the body.
        body: Bytes,
        /// The length of the whole body, if it is known.
        length: Option<u64>,
    },
    /// Send these bytes.
    Pass(Bytes),
    /// The answer is complete, but the provider continues: end the attempt, then send
    /// [`Answer::rest`].
    Finish {
        /// The provider's head, if it was not sent.
        head: Option<Box<UpstreamHead>>,
    },
    /// The attempt has failed. If nothing was committed, another attempt can follow; else the answer must
    /// end with [`Answer::failure_event`].
    Fail(UpstreamFault),
}

impl Answer {
    /// Starts an answer whose head arrives `now`. Discards the answer of an earlier attempt.
    ///
    /// # Errors
    ///
    /// The head alone shows that the attempt has failed.
    pub fn begin(
        &mut self,
        mut head: UpstreamHead,
        expected: Expectation,
        now: Instant,
    ) -> Result<(), UpstreamFault> {
        let mut kept = self.kept.take();
        if let Some(kept) = &mut kept {
            kept.clear();
        }
        *self = Self {
            stage: Stage::Over,
            kept,
            ..Self::default()
        };
        let is_unread = matches!(expected.body, ExpectedBody::Unread);
        let reader = AnswerReader::for_head(&head, expected)?;
        let is_success = !matches!(reader, AnswerReader::Error);
        let unread = || match is_success {
            true => UpstreamFault::broken_answer(),
            false => classify_answer(&head, &[]),
        };
        if content_length(&head.headers) == Some(0) && !(is_unread && is_success) {
            return Err(unread());
        }
        let coding = Coding::of(&head.headers, Coding::OF_ANSWERS);
        let coding = coding.map_err(|_| unread())?;
        let unpacker = coding.map(Unpacker::new).transpose();
        self.unpacker = unpacker.map_err(|_| UpstreamFault::out_of_memory())?;
        if !is_unread && is_of_type(&head.headers, AmazonFrames::MEDIA_TYPE) {
            let events = HeaderValue::from_static("text/event-stream");
            head.headers.insert(CONTENT_TYPE, events);
            self.frames = Some(AmazonFrames::default());
        }
        self.reader = Some(reader);
        self.head = Some(Box::new(head));
        self.began = Some(now);
        self.stage = Stage::Buffered;
        Ok(())
    }

    /// Keeps what is sent from now on.
    pub fn keep_in(&mut self, kept: Option<KeptBody>) {
        self.kept = kept;
    }

    /// The bytes that were sent, if they were kept.
    pub const fn take_kept(&mut self) -> Option<KeptBody> {
        self.kept.take()
    }

    /// Keeps the last piece until the hook of the trailers sends it.
    pub fn keep_last(&mut self, last: Option<Bytes>) {
        self.last = last;
    }

    /// The last piece, if trailers follow it. `None` the second time.
    pub const fn take_last(&mut self) -> Option<Bytes> {
        self.last.take()
    }

    fn note_sent(&mut self, piece: &Bytes) {
        self.unflushed.add(piece);
        if let Some(kept) = &mut self.kept {
            kept.add(piece);
        }
    }

    /// Whether the answer is an event stream.
    pub const fn is_stream(&self) -> bool {
        matches!(self.reader, Some(AnswerReader::Stream(_)))
    }

    /// Reads a piece of the body. `written`: the bytes of the answer's body that Pingora has written.
    pub fn push(&mut self, chunk: Option<Bytes>, end: bool, written: usize) -> Next {
        self.unflushed.forget(written);
        if matches!(self.stage, Stage::Awaited | Stage::Complete | Stage::Over) {
            // Bytes after the end are dropped.
            return Next::Pass(Bytes::new());
        }
        let mut ready = std::mem::take(&mut self.ready);
        let next = match self.read(chunk.unwrap_or_default(), end, &mut ready) {
            Ok(()) => self.forward(&mut ready, end),
            Err(fault) => self.fail(std::mem::take(&mut ready), fault),
        };
        self.ready = ready;
        next
    }

    /// The failure that the head and the held part of an error report, if the rest does not arrive.
    pub fn reported_fault(&self) -> Option<UpstreamFault> {
        let head = self.head.as_ref()?;
        let is_held = self.is_error() && self.stage == Stage::Buffered;
        is_held.then(|| classify_answer(head, &join(&mut self.held.clone())))
    }

    /// Whether its head has the status of an error.
    pub const fn is_error(&self) -> bool {
        matches!(self.reader, Some(AnswerReader::Error))
    }

    /// Ends the attempt with this failure, unless the answer has ended.
    pub fn give_up(&mut self, fault: UpstreamFault) -> Next {
        match self.stage {
            // Bytes after the end are dropped.
            Stage::Complete | Stage::Over => Next::Pass(Bytes::new()),
            _ => self.fail(Vec::new(), fault),
        }
    }

    /// Reads a piece. Adds to `ready` what the client gets, even if the piece reports a failure.
    fn read(
        &mut self,
        chunk: Bytes,
        end: bool,
        ready: &mut Vec<Bytes>,
    ) -> Result<(), UpstreamFault> {
        // The readable part of an error is enough.
        let must_be_whole = !self.is_error();
        let unpacked = match &mut self.unpacker {
            None => Ok(chunk),
            Some(unpacker) => unpacker.unpack(chunk, end && must_be_whole),
        };
        let chunk = unpacked.map_err(|_| {
            let reported = self.reported_fault();
            reported.unwrap_or_else(UpstreamFault::broken_answer)
        })?;
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let Some(frames) = &mut self.frames else {
            return reader.push(chunk, end, ready);
        };
        let mut events = Vec::with_capacity(chunk.len());
        let outcome = frames.push(&chunk, &mut events);
        reader.push(events.into(), end && outcome.is_ok(), ready)?;
        match outcome {
            Err(fault) if !reader.is_complete() => Err(fault),
            _ => Ok(()),
        }
    }

    fn forward(&mut self, ready: &mut Vec<Bytes>, end: bool) -> Next {
        if !end && self.is_cut_short() {
            self.held.append(ready);
            self.stage = Stage::Complete;
            self.open = None;
            let head = self.head.take();
            return Next::Finish { head };
        }
        if self.stage == Stage::Forwarding {
            if end {
                self.stage = Stage::Complete;
            }
            let piece = join(ready);
            self.note_sent(&piece);
            return Next::Pass(piece);
        }
        self.held_size = self
            .held_size
            .saturating_add(ready.iter().map(kept_size).sum());
        self.held.append(ready);
        match self.can_commit(end) {
            Ok(false) => Next::Hold,
            Ok(true) => {
                let is_all = self.reader.as_ref().is_some_and(AnswerReader::is_kept);
                self.commit(end || is_all)
            }
            Err(fault) => self.fail(Vec::new(), fault),
        }
    }

    /// Whether the held part can be committed.
    ///
    /// # Errors
    ///
    /// The held part is an error.
    fn can_commit(&mut self, end: bool) -> Result<bool, UpstreamFault> {
        let is_full = end || self.held_size >= MOST_HELD;
        let began = self.began;
        let is_late = || began.is_some_and(|began| began.elapsed() >= LONGEST_HELD);
        let held_size = self.held_size;
        match &mut self.reader {
            Some(AnswerReader::Stream(events)) => {
                Ok(is_full || *events.phase() != Phase::Preamble || is_late())
            }
            // Written when it is complete; given up as soon as it is not JSON.
            Some(AnswerReader::TranslatedWhole(translator)) => match translator.kind_so_far() {
                Some(AnswerKind::Broken) => Err(translator.fault(&[])),
                _ => Ok(!self.held.is_empty()),
            },
            Some(AnswerReader::Whole(answer)) => match answer.kind_so_far() {
                Some(AnswerKind::Broken) => Err(answer.fault(&[])),
                Some(AnswerKind::Answer) => {
                    Ok(end || answer.is_whole() || !answer.has_room(held_size))
                }
                Some(AnswerKind::Error) => {
                    // The usage can follow the error.
                    let is_over = end || answer.is_whole() || is_late();
                    match is_over || is_full && !answer.has_room(held_size) {
                        true => Err(answer.fault(&join(&mut self.held))),
                        false => Ok(false),
                    }
                }
                None if end => Ok(true),
                None if !is_full => Ok(false),
                // 64 KiB without a field of an answer.
                None if !answer.is_named() => Err(UpstreamFault::broken_answer()),
                None => Ok(!answer.has_room(held_size)),
            },
            Some(AnswerReader::Count) if is_full || is_late() => match join(&mut self.held.clone())
            {
                body if is_count(&body) => Ok(true),
                _ => Err(UpstreamFault::broken_answer()),
            },
            Some(AnswerReader::Error) if is_full || is_late() => {
                let mut body = join(&mut self.held);
                body.truncate(MOST_HELD);
                Err(self
                    .head
                    .as_ref()
                    .map_or_else(UpstreamFault::broken_answer, |head| {
                        classify_answer(head, &body)
                    }))
            }
            Some(AnswerReader::Unstreamed(scanner))
                if is_full || is_late() || scanner.is_whole() =>
            {
                Err(scanner.fault(&join(&mut self.held)))
            }
            Some(AnswerReader::Unread) => Ok(true),
            // Written when it is complete.
            Some(AnswerReader::Unpaid(_) | AnswerReader::Embeddings(_)) => {
                Ok(!self.held.is_empty())
            }
            _ => Ok(false),
        }
    }

    fn commit(&mut self, end: bool) -> Next {
        let Some(head) = self.head.take() else {
            return self.fail(Vec::new(), UpstreamFault::broken_answer());
        };
        let mut body = join(&mut self.held);
        self.held = Vec::new();
        let mut is_all = end;
        if let Some(AnswerReader::Whole(answer)) = &mut self.reader {
            body = answer.release(body);
            // The provider may have announced more than it sends.
            is_all |= answer.is_whole();
        }
        let is_stream = self.is_stream();
        let length = match () {
            () if is_stream => None,
            () if is_all => u64::try_from(body.len()).ok(),
            () if self.unpacker.is_none() => content_length(&head.headers),
            () => None,
        };
        self.open = (is_stream && !end).then(OpenStream::begin);
        self.stage = match end {
            true => Stage::Complete,
            false => Stage::Forwarding,
        };
        self.note_sent(&body);
        Next::Commit { head, body, length }
    }

    fn fail(&mut self, out: Vec<Bytes>, fault: UpstreamFault) -> Next {
        if self.stage == Stage::Forwarding {
            self.held = out;
        }
        self.stage = Stage::Over;
        self.open = None;
        Next::Fail(fault)
    }

    /// The last bytes of a stream that has failed: unwritten pieces and an error event in the client's
    /// format. `None` if the answer is no stream, or was complete.
    pub fn failure_event(
        &mut self,
        error: &PublicError,
        id: &RequestId,
        written: usize,
    ) -> Option<Bytes> {
        self.stage = Stage::Over;
        self.open = None;
        match &self.reader {
            Some(AnswerReader::Stream(events)) if *events.phase() != Phase::Terminal => {
                let mut last = self.unflushed.take(written);
                last.append(&mut self.held);
                last.push(events.failure_event(error, id));
                Some(join(&mut last))
            }
            _ => None,
        }
    }

    /// The unwritten bytes of a complete answer.
    pub fn rest(&mut self, written: usize) -> Bytes {
        self.stage = Stage::Complete;
        self.open = None;
        if let Some(kept) = &mut self.kept {
            self.held.iter().for_each(|piece| kept.add(piece));
        }
        let mut rest = self.unflushed.take(written);
        rest.append(&mut self.held);
        join(&mut rest)
    }

    /// What the provider has reported so far; `None` if the answer is not read.
    pub fn report(&self) -> Option<&dyn AnswerReport> {
        self.reader.as_ref()?.report()
    }

    /// The usage that it has reported so far.
    pub fn usage(&self) -> ReportedUsage {
        self.report()
            .map_or_else(ReportedUsage::default, |it| it.usage())
    }

    /// The answer as it is remembered, once it is complete. `None` the second time.
    pub fn take_remembered(&mut self) -> Option<Bytes> {
        match &mut self.reader {
            Some(reader) => reader.take_remembered(),
            None => None,
        }
    }

    /// How far it has come, for the deadlines.
    pub fn progress(&self) -> Progress {
        match &self.reader {
            Some(AnswerReader::Stream(events)) => events.progress(),
            Some(AnswerReader::Error) => Progress::Rest,
            // The client has all of it: only the end of the provider's is missing.
            Some(reader) if self.stage == Stage::Complete && reader.is_kept() => Progress::Rest,
            Some(AnswerReader::Whole(answer)) if answer.is_over() => Progress::Rest,
            _ => Progress::Piece,
        }
    }

    /// Bytes of text and arguments of tool calls so far.
    pub fn text_bytes(&self) -> u64 {
        self.report().map_or(0, |it| it.text_bytes())
    }

    /// Whether more than the preamble of a stream has arrived.
    pub fn has_content(&self) -> bool {
        match &self.reader {
            Some(AnswerReader::Stream(events)) => *events.phase() != Phase::Preamble,
            _ => true,
        }
    }

    /// Whether the client has the whole answer with what has arrived.
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Complete || self.reader.as_ref().is_some_and(AnswerReader::is_complete)
    }

    /// Whether the gateway ended it at a stop sequence of the client, before the provider did.
    pub fn is_cut_short(&self) -> bool {
        self.reader.as_ref().is_some_and(AnswerReader::is_cut_short)
    }

    /// Whether it is about to end: a stream has a stop reason, or an answer in one piece has begun.
    pub fn is_about_to_end(&self) -> bool {
        !self.is_complete()
            && match &self.reader {
                Some(AnswerReader::Stream(_)) => self.facts().is_some_and(|it| it.stop.is_some()),
                Some(
                    AnswerReader::Whole(_)
                    | AnswerReader::TranslatedWhole(_)
                    | AnswerReader::Embeddings(_),
                ) => true,
                _ => false,
            }
    }

    /// The facts that it has reported so far.
    pub fn facts(&self) -> Option<&AnswerFacts> {
        self.report().map(|it| it.facts())
    }
}

/// Whether a body is the answer of `count_tokens`.
fn is_count(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Count {
        #[serde(rename = "input_tokens", alias = "totalTokens")]
        _input_tokens: u64,
    }
    serde_json::from_slice::<Count>(body).is_ok()
}

fn classify_answer(head: &UpstreamHead, body: &[u8]) -> UpstreamFault {
    classify(&UpstreamAnswer {
        status: head.status,
        headers: &head.headers,
        body,
        now: SystemTime::now(),
    })
}

/// Joins pieces. A single piece is not copied.
fn join(pieces: &mut Vec<Bytes>) -> Bytes {
    if pieces.len() > 1 {
        pieces.retain(|piece| !piece.is_empty());
    }
    if pieces.len() < 2 {
        return pieces.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    for piece in pieces.drain(..) {
        whole.extend_from_slice(&piece);
    }
    whole.freeze()
}
