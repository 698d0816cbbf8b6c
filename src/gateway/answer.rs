//! Holds an answer until it can be committed, and then decides which of its bytes are sent.
//!
//! Works on bytes and writes nothing; `respond.rs` does that. A stream is committed at its first content
//! event, an answer in one piece when it is complete or too large to be held. Until then the next candidate
//! can take over without the client noticing, and the status can depend on the body.

use super::deadlines::Progress;
use super::decode::Decoder;
use super::reader::{Expectation, Reader, content_length, is_of_type, kept_size};
use super::unflushed::Unflushed;
use crate::events::OpenStream;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use std::time::{Duration, Instant, SystemTime};
use tollgate_traces::KeptBody;
use tollgate_types::{PublicError, RequestId};
use tollgate_wire::answer::{AnswerFacts, AnswerKind};
use tollgate_wire::fault::{UpstreamAnswer, UpstreamFault, classify, classify_body};
use tollgate_wire::stream::{AmazonFrames, Phase};
use tollgate_wire::usage::ReportedUsage;

/// How much of a stream, an error or a body of unknown kind is held at most, in bytes.
const MOST_HELD: usize = 64 * 1024;
/// How long comments, pings and the body of an error are held at most.
const LONGEST_HELD: Duration = Duration::from_secs(10);

/// The answer of the current attempt.
#[derive(Default)]
pub struct Answer {
    stage: Stage,
    /// The provider's head, until it is committed.
    head: Option<Box<UpstreamHead>>,
    reader: Option<Reader>,
    /// For a provider that compresses although it was asked not to.
    decoder: Option<Decoder>,
    /// For a stream in frames.
    frames: Option<AmazonFrames>,
    /// What is held; once committed, what may still leave of a stream that broke.
    held: Vec<Bytes>,
    /// What a piece lets leave; empty between the pieces.
    leaving: Vec<Bytes>,
    /// Bytes of what is held.
    held_size: usize,
    /// What has passed last, until it is known to be written.
    unflushed: Unflushed,
    began: Option<Instant>,
    /// Its provider has ended it, and it was whole.
    has_ended: bool,
    open: Option<OpenStream>,
    /// What has passed, for the trace. `None`: it needs none of it.
    kept: Option<KeptBody>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No head has come.
    #[default]
    Awaited,
    /// Nothing has left.
    Buffered,
    /// The head has left.
    Forwarding,
    /// Nothing more leaves.
    Over,
}

/// The head of a provider's answer.
pub struct UpstreamHead {
    /// The HTTP status.
    pub status: u16,
    /// The headers, of which nothing passes by itself.
    pub headers: HeaderMap,
}

/// What to do after a piece of the answer.
pub enum Next {
    /// Nothing leaves yet.
    Hold,
    /// The head leaves, with these first bytes of the body.
    Commit {
        /// The provider's head. It is large, and most of what passes has none.
        head: Box<UpstreamHead>,
        /// What of the body may leave.
        body: Bytes,
        /// The length of the whole body, where it is known.
        length: Option<u64>,
    },
    /// These bytes leave.
    Pass(Bytes),
    /// The answer is whole, and its provider goes on: the attempt ends, and
    /// [`Answer::rest_of_stream`] leaves.
    Finish {
        /// The provider's head, if it has not left.
        head: Option<Box<UpstreamHead>>,
    },
    /// The attempt has failed. Where nothing was committed the next can follow; else the
    /// answer must end as a broken one, by [`Answer::failure_event`].
    Fail(UpstreamFault),
}

impl Answer {
    /// Takes the head of an attempt's answer, come `now`. What an earlier attempt left is gone.
    ///
    /// # Errors
    ///
    /// The attempt's failure, where the head alone decides it.
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
        let is_unread = expected.is_unread;
        let reader = Reader::for_head(&head, expected)?;
        let is_success = !matches!(reader, Reader::Error);
        if content_length(&head.headers) == Some(0) && !(is_unread && is_success) {
            return Err(match reader {
                Reader::Error => classify_answer(&head, &[]),
                _ => UpstreamFault::broken_answer(),
            });
        }
        self.decoder = Decoder::for_encoding(head.headers.get(CONTENT_ENCODING))
            .ok_or_else(UpstreamFault::broken_answer)?;
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

    /// Keeps from now on what passes.
    pub fn keep_in(&mut self, kept: Option<KeptBody>) {
        self.kept = kept;
    }

    /// What has passed, if it was kept.
    pub const fn take_kept(&mut self) -> Option<KeptBody> {
        self.kept.take()
    }

    /// Notes what is about to pass.
    fn note_passing(&mut self, piece: &Bytes) {
        self.unflushed.add(piece);
        if let Some(kept) = &mut self.kept {
            kept.add(piece);
        }
    }

    /// Whether the head announces events.
    pub const fn is_stream(&self) -> bool {
        matches!(self.reader, Some(Reader::Stream(_)))
    }

    /// Takes a piece of the body; `written` bytes of what has passed have left so far.
    pub fn push(&mut self, chunk: Option<Bytes>, end: bool, written: usize) -> Next {
        self.unflushed.forget(written);
        if matches!(self.stage, Stage::Awaited | Stage::Over) {
            // What comes behind an end is not the caller's business.
            return Next::Pass(Bytes::new());
        }
        let mut leaving = std::mem::take(&mut self.leaving);
        let next = match self.read(chunk.unwrap_or_default(), end, &mut leaving) {
            Ok(()) => self.let_pass(&mut leaving, end),
            Err(fault) => self.fail(std::mem::take(&mut leaving), fault),
        };
        self.leaving = leaving;
        next
    }

    /// The failure by its head and the held part, if the rest does not come.
    pub fn reported_fault(&self) -> Option<UpstreamFault> {
        let head = self.head.as_ref()?;
        let is_error = matches!(self.reader, Some(Reader::Error)) && self.stage == Stage::Buffered;
        is_error.then(|| classify_answer(head, &join(&mut self.held.clone())))
    }

    /// Gives the attempt up, whatever comes.
    pub fn give_up(&mut self, fault: UpstreamFault) -> Next {
        match self.stage {
            // It has ended, and what comes behind that is not the caller's business.
            Stage::Over => Next::Pass(Bytes::new()),
            _ => self.fail(Vec::new(), fault),
        }
    }

    /// Reads a piece, and puts into `leaving` the part that goes to the client, even if the piece reports
    /// a failure.
    fn read(
        &mut self,
        chunk: Bytes,
        end: bool,
        leaving: &mut Vec<Bytes>,
    ) -> Result<(), UpstreamFault> {
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let chunk = match &mut self.decoder {
            None => chunk,
            Some(decoder) => decoder
                .decode(&chunk, end)
                .map_err(|_| UpstreamFault::broken_answer())?,
        };
        let Some(frames) = &mut self.frames else {
            return reader.push(chunk, end, leaving);
        };
        let mut events = Vec::with_capacity(chunk.len());
        let outcome = frames.push(&chunk, &mut events);
        reader.push(events.into(), end && outcome.is_ok(), leaving)?;
        match outcome {
            Err(fault) if !reader.is_complete() => Err(fault),
            _ => Ok(()),
        }
    }

    fn let_pass(&mut self, leaving: &mut Vec<Bytes>, end: bool) -> Next {
        if !end && self.is_cut_short() {
            self.held.append(leaving);
            self.stage = Stage::Over;
            self.has_ended = true;
            self.open = None;
            let head = self.head.take();
            return Next::Finish { head };
        }
        if self.stage == Stage::Forwarding {
            if end {
                self.stage = Stage::Over;
                self.has_ended = true;
            }
            let piece = join(leaving);
            self.note_passing(&piece);
            return Next::Pass(piece);
        }
        self.held_size = self
            .held_size
            .saturating_add(leaving.iter().map(kept_size).sum());
        self.held.append(leaving);
        match self.judge_held(end) {
            Ok(false) => Next::Hold,
            Ok(true) => self.commit(end),
            Err(fault) => self.fail(Vec::new(), fault),
        }
    }

    /// Whether what is held is worth committing.
    ///
    /// # Errors
    ///
    /// When what is held turns out to be an error.
    fn judge_held(&mut self, end: bool) -> Result<bool, UpstreamFault> {
        let is_full = end || self.held_size >= MOST_HELD;
        let began = self.began;
        let is_late = || began.is_some_and(|began| began.elapsed() >= LONGEST_HELD);
        let held_size = self.held_size;
        match &mut self.reader {
            Some(Reader::Stream(events)) => {
                Ok(is_full || *events.phase() != Phase::Preamble || is_late())
            }
            // It is not written before it was read to its end, but no longer read than it is JSON.
            Some(Reader::TranslatedWhole(translator)) => match translator.kind_so_far() {
                Some(AnswerKind::Broken) => Err(UpstreamFault::broken_answer()),
                _ => Ok(end),
            },
            Some(Reader::Whole(answer)) => match answer.kind_so_far() {
                Some(AnswerKind::Error) if is_full || is_late() => {
                    Err(classify_body(&join(&mut self.held)))
                }
                Some(AnswerKind::Error) => Ok(false),
                Some(AnswerKind::Broken) => Err(UpstreamFault::broken_answer()),
                // Much stands before the answer, or it is none.
                None if is_full && !end && !answer.is_named() => {
                    Err(UpstreamFault::broken_answer())
                }
                Some(AnswerKind::Answer) if end || answer.is_whole() => Ok(true),
                Some(AnswerKind::Answer) => Ok(!answer.has_room(held_size)),
                None => Ok(end || (is_full && !answer.has_room(held_size))),
            },
            Some(Reader::Count) if is_full || is_late() => match join(&mut self.held.clone()) {
                body if is_count(&body) => Ok(true),
                _ => Err(UpstreamFault::broken_answer()),
            },
            Some(Reader::Error) if is_full || is_late() => {
                let mut body = join(&mut self.held);
                body.truncate(MOST_HELD);
                Err(self
                    .head
                    .as_ref()
                    .map_or_else(UpstreamFault::broken_answer, |head| {
                        classify_answer(head, &body)
                    }))
            }
            Some(Reader::Unread) => Ok(true),
            Some(Reader::Unpaid(_)) => Ok(end),
            _ => Ok(false),
        }
    }

    fn commit(&mut self, end: bool) -> Next {
        let Some(head) = self.head.take() else {
            return self.fail(Vec::new(), UpstreamFault::broken_answer());
        };
        let mut body = join(&mut self.held);
        self.held = Vec::new();
        if let Some(Reader::Whole(answer)) = &mut self.reader {
            body = answer.let_go(body);
        }
        let is_stream = self.is_stream();
        let length = match () {
            () if is_stream => None,
            () if end => u64::try_from(body.len()).ok(),
            () if self.decoder.is_none() => content_length(&head.headers),
            () => None,
        };
        self.open = (is_stream && !end).then(OpenStream::begin);
        self.has_ended = end;
        self.stage = if end { Stage::Over } else { Stage::Forwarding };
        self.note_passing(&body);
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

    /// What ends a stream that cannot go on and of which `written` bytes have left: what may
    /// still leave of it, and the error event of its format. `None` where the answer is no
    /// stream, or has ended by itself.
    pub fn failure_event(
        &mut self,
        error: &PublicError,
        id: &RequestId,
        written: usize,
    ) -> Option<Bytes> {
        self.stage = Stage::Over;
        self.open = None;
        match &self.reader {
            Some(Reader::Stream(events)) if *events.phase() != Phase::Terminal => {
                let mut last = self.unflushed.take(written);
                last.append(&mut self.held);
                last.push(events.failure_event(error, id));
                Some(join(&mut last))
            }
            _ => None,
        }
    }

    /// What is left of a stream that is whole and of which `written` bytes have left; `None`
    /// where the answer is no stream.
    pub fn rest_of_stream(&mut self, written: usize) -> Option<Bytes> {
        self.stage = Stage::Over;
        self.open = None;
        matches!(self.reader, Some(Reader::Stream(_))).then(|| {
            if let Some(kept) = &mut self.kept {
                self.held.iter().for_each(|piece| kept.add(piece));
            }
            let mut rest = self.unflushed.take(written);
            rest.append(&mut self.held);
            join(&mut rest)
        })
    }

    /// What the provider reported, as far as it has.
    pub fn usage(&self) -> Option<ReportedUsage> {
        self.reader.as_ref()?.usage()
    }

    /// The answer as it is remembered, once it is whole; nothing the second time.
    pub fn take_remembered(&mut self) -> Option<Bytes> {
        match &mut self.reader {
            Some(reader) => reader.take_remembered(),
            None => None,
        }
    }

    /// How far it has come, for the deadlines.
    pub fn progress(&self) -> Progress {
        match &self.reader {
            Some(Reader::Stream(events)) => events.progress(),
            _ => Progress::Piece,
        }
    }

    /// Bytes of text and arguments of tool calls so far.
    pub fn text_bytes(&self) -> u64 {
        self.reader.as_ref().map_or(0, Reader::text_bytes)
    }

    /// A sample of that text, about a KiB of it.
    pub fn text_sample(&self) -> String {
        let reader = self.reader.as_ref();
        reader.map(Reader::text_sample).unwrap_or_default()
    }

    /// Whether what came so far is more than the preamble of a stream.
    pub fn has_content(&self) -> bool {
        match &self.reader {
            Some(Reader::Stream(events)) => *events.phase() != Phase::Preamble,
            _ => true,
        }
    }

    /// Whether everything has come that a caller needs to have the whole answer. More may
    /// come, and is of no matter.
    pub fn is_complete(&self) -> bool {
        self.has_ended || self.reader.as_ref().is_some_and(Reader::is_complete)
    }

    /// Whether it ended at a stop sequence of the caller's, before its provider did.
    pub fn is_cut_short(&self) -> bool {
        self.reader.as_ref().is_some_and(Reader::is_cut_short)
    }

    /// Whether its end is about to come: a stream has said why it stops, or an answer in one piece
    /// has begun.
    pub fn is_about_to_end(&self) -> bool {
        !self.is_complete()
            && match &self.reader {
                Some(Reader::Stream(_)) => self.facts().is_some_and(|it| it.stop.is_some()),
                Some(Reader::Whole(_) | Reader::TranslatedWhole(_)) => true,
                _ => false,
            }
    }

    /// What the answer said of itself.
    pub fn facts(&self) -> Option<&AnswerFacts> {
        self.reader.as_ref()?.facts()
    }
}

/// Whether a body is the answer of `count_tokens`.
fn is_count(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Count {
        #[serde(rename = "input_tokens")]
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

/// Takes one piece out of several: without a copy where there is one only.
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
