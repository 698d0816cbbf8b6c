//! Reads a provider's answer as its kind wants to be read, and says what of it leaves: the
//! bytes that came, or what they are in the caller's format.

use super::answer::UpstreamHead;
use super::deadlines::Progress;
use super::hold::Hold;
use crate::events;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use std::sync::Arc;
use std::time::Duration;
use tollgate_translate::{AnswerContext, AnswerTranslator, StreamTranslator, TranslationNotes};
use tollgate_types::{Format, PublicError, RequestId};
use tollgate_wire::answer::{AnswerFacts, AnswerKind, AnswerScanner, StreamEvents};
use tollgate_wire::fault::{FaultClass, UpstreamFault};
use tollgate_wire::stream::{Phase, StreamEnd, StreamOptions, StreamScanner};
use tollgate_wire::usage::ReportedUsage;

/// What the request means for its answer.
pub struct Expectation {
    /// The format in which the provider answers.
    pub format: Format,
    /// Events of the provider's streams that the format does not define.
    pub stream_events: StreamEvents,
    /// How the answer is translated, where the caller's format is another.
    pub translation: Option<Translation>,
    /// Whether the answer is a count of tokens.
    pub counts_tokens: bool,
    /// Whether the answer is about something that the provider has stored.
    pub is_stored: bool,
    /// Where that is a response that has not been paid for: what it may hold of the memory until
    /// it is whole.
    pub unpaid: Option<Hold>,
    /// Whether the gateway asked for the usage chunk of a chat stream by itself.
    pub strip_usage: bool,
}

/// What a translation of the answer needs to know.
pub struct Translation {
    /// What was remembered of the request.
    pub notes: Arc<TranslationNotes>,
    /// What the provider does not say.
    pub context: AnswerContext,
    /// What the answer holds of the memory, where it is kept until it is whole.
    pub hold: Hold,
}

/// Reads an answer as its kind wants to be read.
pub enum Reader {
    /// An event stream.
    Stream(Events),
    /// A body in one piece, that passes as it came.
    Whole(Box<AnswerScanner>),
    /// A body in one piece, that is written anew when it is whole.
    TranslatedWhole(Box<WholeAnswer>),
    /// A count of tokens: small, and looked at as a whole.
    Count,
    /// Something that was stored: passed on as it is.
    Stored,
    /// A stored response that is kept until it is whole, for its usage is charged first.
    Unpaid(Box<UnpaidResponse>),
    /// An error, whose body says what it is.
    Error,
}

/// An answer that is kept until it is whole, and then written anew.
pub struct WholeAnswer {
    translator: AnswerTranslator,
    hold: Hold,
}

impl WholeAnswer {
    /// Takes a piece, and gives the answer once that was the last one.
    fn push(&mut self, chunk: &[u8], end: bool) -> Result<Option<Bytes>, UpstreamFault> {
        /// What a byte takes: it is kept in a list that doubles as it grows, and written anew.
        const OF_A_BYTE: u64 = 4;
        let size = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        keep(&mut self.hold, size.saturating_mul(OF_A_BYTE))?;
        self.translator.push(chunk);
        match end {
            true => self.translator.finish().map(Some),
            false => Ok(None),
        }
    }

    /// What the body is, as soon as that is certain.
    pub const fn kind_so_far(&self) -> Option<AnswerKind> {
        self.translator.kind_so_far()
    }
}

/// A stored response that is kept until it is whole.
pub struct UnpaidResponse {
    scanner: AnswerScanner,
    pieces: Vec<Bytes>,
    hold: Hold,
}

impl UnpaidResponse {
    fn new(hold: Hold) -> Self {
        Self {
            scanner: AnswerScanner::new(Format::Responses),
            pieces: Vec::new(),
            hold,
        }
    }

    /// Takes a piece, and gives all of them once that was the last one.
    fn push(&mut self, chunk: Bytes, end: bool, out: &mut Vec<Bytes>) -> Result<(), UpstreamFault> {
        let size = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        keep(&mut self.hold, size)?;
        self.scanner.push(&chunk);
        self.pieces.push(chunk);
        if !end {
            return Ok(());
        }
        if self.scanner.finish() == AnswerKind::Broken {
            return Err(UpstreamFault::broken_answer());
        }
        if self.is_running() {
            return Err(still_running());
        }
        out.append(&mut self.pieces);
        Ok(())
    }

    /// Whether the provider may still add to what it has produced, and has not said what it used.
    fn is_running(&self) -> bool {
        let has_usage = self.scanner.usage().believed().is_some();
        let has_ended = self.scanner.facts().stop.is_some();
        !has_usage && !has_ended && self.scanner.text_bytes() > 0
    }
}

/// The failure of a response that its provider has not finished.
const fn still_running() -> UpstreamFault {
    const RETRY_AFTER: Duration = Duration::from_secs(1);
    UpstreamFault {
        class: FaultClass::Busy,
        status: None,
        told_status: None,
        retry_after: Some(RETRY_AFTER),
        provider_code: None,
    }
}

/// Counts bytes that are kept of an answer.
fn keep(hold: &mut Hold, bytes: u64) -> Result<(), UpstreamFault> {
    hold.grow(bytes).map_err(|shed| {
        events::request_shed(shed);
        UpstreamFault::out_of_memory()
    })
}

/// An event stream that passes, or is written anew as it comes.
pub enum Events {
    /// The bytes that came.
    Passing(Box<StreamScanner>),
    /// What they are in the caller's format.
    Translated(Box<StreamTranslator>),
}

impl Reader {
    /// The reader for an answer with this head.
    ///
    /// # Errors
    ///
    /// The head belongs to no answer to the request.
    pub fn for_head(head: &UpstreamHead, expected: Expectation) -> Result<Self, UpstreamFault> {
        match head.status {
            200..=299 => {}
            400..=599 => return Ok(Self::Error),
            // A redirect would send the caller's request to who knows where.
            _ => return Err(UpstreamFault::broken_answer()),
        }
        let found = media_type(&head.headers).unwrap_or_default();
        let is = |kind: &str| found.eq_ignore_ascii_case(kind);
        if is("text/event-stream") && !expected.counts_tokens && !expected.is_stored {
            return Ok(Self::Stream(Events::new(expected)));
        }
        if !is("application/json") {
            return Err(UpstreamFault::broken_answer());
        }
        Ok(match expected {
            Expectation {
                counts_tokens: true,
                ..
            } => Self::Count,
            Expectation {
                unpaid: Some(hold), ..
            } => Self::Unpaid(Box::new(UnpaidResponse::new(hold))),
            Expectation {
                is_stored: true, ..
            } => Self::Stored,
            Expectation {
                translation: Some(translation),
                ..
            } => Self::TranslatedWhole(Box::new(WholeAnswer {
                translator: AnswerTranslator::new(translation.notes, translation.context),
                hold: translation.hold,
            })),
            Expectation { format, .. } => Self::Whole(Box::new(AnswerScanner::new(format))),
        })
    }

    /// Reads a piece and puts into `out` what of it may leave.
    ///
    /// # Errors
    ///
    /// The attempt has failed; what is in `out` may leave all the same.
    pub fn push(
        &mut self,
        chunk: Bytes,
        end: bool,
        out: &mut Vec<Bytes>,
    ) -> Result<(), UpstreamFault> {
        match self {
            Self::Stream(events) => events.push(&chunk, end, out),
            Self::Whole(scanner) => {
                let was_answer = scanner.kind_so_far() == Some(AnswerKind::Answer);
                scanner.push(&chunk);
                if was_answer && scanner.kind_so_far() == Some(AnswerKind::Error) {
                    // It began as an answer and has left as one: it is cut before the error.
                    return Err(UpstreamFault::broken_answer());
                }
                out.push(chunk);
                match end.then(|| scanner.finish()) {
                    Some(AnswerKind::Broken) => Err(UpstreamFault::broken_answer()),
                    _ => Ok(()),
                }
            }
            Self::TranslatedWhole(answer) => {
                out.extend(answer.push(&chunk, end)?);
                Ok(())
            }
            Self::Unpaid(response) => response.push(chunk, end, out),
            Self::Count | Self::Stored | Self::Error => {
                out.push(chunk);
                Ok(())
            }
        }
    }

    /// What the provider reported, as far as it has.
    pub fn usage(&self) -> Option<ReportedUsage> {
        Some(match self {
            Self::Stream(Events::Passing(scanner)) => scanner.usage(),
            Self::Stream(Events::Translated(translator)) => translator.usage(),
            Self::Whole(scanner) => scanner.usage(),
            Self::TranslatedWhole(answer) => answer.translator.usage(),
            Self::Unpaid(response) => response.scanner.usage(),
            Self::Count | Self::Stored | Self::Error => return None,
        })
    }

    /// What the answer said of itself.
    pub const fn facts(&self) -> Option<&AnswerFacts> {
        Some(match self {
            Self::Stream(Events::Passing(scanner)) => scanner.facts(),
            Self::Stream(Events::Translated(translator)) => translator.facts(),
            Self::Whole(scanner) => scanner.facts(),
            Self::TranslatedWhole(answer) => answer.translator.facts(),
            Self::Unpaid(response) => response.scanner.facts(),
            Self::Count | Self::Stored | Self::Error => return None,
        })
    }

    /// Bytes of text and arguments of tool calls so far.
    pub fn text_bytes(&self) -> u64 {
        match self {
            Self::Stream(Events::Passing(scanner)) => scanner.text_bytes(),
            Self::Stream(Events::Translated(translator)) => translator.text_bytes(),
            Self::Whole(scanner) => scanner.text_bytes(),
            Self::TranslatedWhole(answer) => answer.translator.text_bytes(),
            Self::Unpaid(response) => response.scanner.text_bytes(),
            Self::Count | Self::Stored | Self::Error => 0,
        }
    }

    /// A sample of that text, about a KiB of it.
    pub fn text_sample(&self) -> String {
        match self {
            Self::Stream(Events::Passing(scanner)) => scanner.text_sample(),
            Self::Stream(Events::Translated(translator)) => translator.text_sample(),
            Self::Whole(scanner) => scanner.text_sample(),
            Self::TranslatedWhole(answer) => answer.translator.text_sample(),
            Self::Unpaid(response) => response.scanner.text_sample(),
            Self::Count | Self::Stored | Self::Error => String::new(),
        }
    }

    /// Whether nothing more can come that a caller needs.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Stream(events) => *events.phase() == Phase::Terminal,
            Self::Whole(scanner) => scanner.is_whole(),
            Self::TranslatedWhole(_)
            | Self::Count
            | Self::Stored
            | Self::Unpaid(_)
            | Self::Error => false,
        }
    }
}

impl Events {
    fn new(expected: Expectation) -> Self {
        if let Some(Translation { notes, context, .. }) = expected.translation {
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

    /// How far the stream has come.
    pub fn phase(&self) -> &Phase {
        match self {
            Self::Passing(scanner) => scanner.phase(),
            Self::Translated(translator) => translator.phase(),
        }
    }

    /// How far the stream has come, for whoever looks at the clock.
    pub fn progress(&self) -> Progress {
        match self.phase() {
            Phase::Preamble => Progress::Preamble,
            _ => Progress::Events(match self {
                Self::Passing(scanner) => scanner.events(),
                Self::Translated(translator) => translator.events(),
            }),
        }
    }

    /// What ends the stream with an error, in the caller's format.
    pub fn failure_event(&self, error: &PublicError, id: &RequestId) -> Bytes {
        match self {
            Self::Passing(scanner) => scanner.failure_event(error, id),
            Self::Translated(translator) => translator.failure_event(error, id),
        }
    }
}

fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or(value).trim())
}
