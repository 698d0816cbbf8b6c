//! The same stream, event by event: for a translator, which writes it anew.
//!
//! Decides exactly as [`StreamScanner`] does, with the same judge, what belongs to the
//! answer, how far it has come and how it failed; and hands over the data of each event that
//! would have passed. What they mean in another format is the translation's.

use super::{Phase, StreamEnd, StreamOptions, StreamScanner, event::Verdict, framing::Token};
use crate::{
    answer::{StreamEvents, kind::EventKind},
    fault::{MAX_ERROR_IN_SUCCESS_BYTES, UpstreamFault, classify_body},
};
use tollgate_types::Format;

/// An item of a stream.
#[derive(Clone, Copy, Debug)]
pub enum StreamItem<'a> {
    /// An event of the answer.
    Event {
        /// Its data: one JSON document.
        data: &'a [u8],
        /// The facts and the usage of the answer so far, this event included.
        report: &'a StreamScanner,
    },
    /// An event that ends the answer and is larger than what is kept. What it says of stop
    /// and usage is read all the same.
    LargeEnd,
    /// A comment, or an event without data: the provider keeps the connection alive.
    Comment,
}

/// Reads an event stream event by event.
///
/// ```
/// use tollgate_types::Format;
/// use tollgate_wire::stream::{EventReader, StreamItem};
///
/// let mut reader = EventReader::new(Format::Messages, 1024);
/// let mut rest: &[u8] = b": hello\n\ndata: {\"type\":\"ping\"}\n\n";
/// assert!(matches!(reader.next(&mut rest), Some(StreamItem::Comment)));
/// let Some(StreamItem::Event { data, .. }) = reader.next(&mut rest) else {
///     panic!("an event");
/// };
/// assert_eq!(data, b"{\"type\":\"ping\"}");
/// assert!(reader.next(&mut rest).is_none());
/// ```
#[derive(Debug)]
pub struct EventReader {
    scanner: StreamScanner,
    max_event_bytes: usize,
    data: EventData,
}

/// The data of the event that is being read, as far as they are not in the chunk at hand.
#[derive(Debug, Default)]
struct EventData {
    kept: Vec<u8>,
    /// Bytes of data so far, kept or not.
    len: usize,
    is_taken: bool,
}

impl EventReader {
    /// A reader for one stream in `format`, which keeps events of at most `max_event_bytes`.
    pub fn new(format: Format, max_event_bytes: usize) -> Self {
        Self {
            scanner: StreamScanner::new(format, StreamOptions::default()),
            max_event_bytes,
            data: EventData::default(),
        }
    }

    /// Takes events of these names for events of the answer, too.
    #[must_use]
    pub fn with_extensions(mut self, extensions: StreamEvents) -> Self {
        self.scanner = self.scanner.with_extensions(extensions);
        self
    }

    /// Takes the next item off the front of `rest`; nothing when `rest` is used up or the
    /// stream has failed. Nothing is copied of an event that lies in one chunk.
    pub fn next<'s, 'c: 's>(&'s mut self, rest: &mut &'c [u8]) -> Option<StreamItem<'s>> {
        if self.scanner.has_failed() {
            return None;
        }
        if std::mem::take(&mut self.data.is_taken) {
            self.data.kept.clear();
        }
        // The one piece of data that the event has so far, where it lies in this chunk.
        let mut piece: &'c [u8] = &[];
        let scanner = &mut self.scanner;
        while let Some(token) = scanner.framer.next(rest) {
            scanner.read(token);
            match token {
                // What comes behind the end adds nothing to the answer.
                Token::Data(bytes) if scanner.phase != Phase::Terminal => {
                    self.data.add(&mut piece, bytes, self.max_event_bytes);
                }
                Token::DataLine if self.data.len > 0 => {
                    self.data.add(&mut piece, b"\n", self.max_event_bytes);
                }
                Token::CommentEnd => return Some(StreamItem::Comment),
                Token::BlockEnd => {
                    let is_large = self.data.len > self.max_event_bytes;
                    let kept: &[u8] = match piece {
                        [] => &self.data.kept,
                        piece => piece,
                    };
                    let end = scanner.end_event(kept, is_large);
                    self.data.len = 0;
                    match end {
                        Ended::Nothing => self.data.kept.clear(),
                        Ended::KeepAlive => {
                            self.data.kept.clear();
                            return Some(StreamItem::Comment);
                        }
                        Ended::LargeEnd => return Some(StreamItem::LargeEnd),
                        Ended::Event => {
                            self.data.is_taken = piece.is_empty();
                            let data = match piece {
                                [] => &self.data.kept,
                                piece => piece,
                            };
                            let report = &self.scanner;
                            return Some(StreamItem::Event { data, report });
                        }
                    }
                    if scanner.has_failed() {
                        return None;
                    }
                    piece = &[];
                }
                _ => {}
            }
        }
        self.data.keep(piece);
        None
    }

    /// The bytes to read last if the upstream has closed the stream in order: the blank line that a
    /// complete last event lacks.
    pub fn missing_end(&self) -> &'static [u8] {
        match !self.scanner.has_failed() && self.scanner.event.is_whole() {
            true => b"\n\n",
            false => b"",
        }
    }

    /// How the stream ended, now that its upstream has closed it.
    pub const fn end(&self) -> StreamEnd {
        self.scanner.end()
    }

    /// The scanner, which has read the facts and the usage of the answer.
    pub const fn scanner(&self) -> &StreamScanner {
        &self.scanner
    }

    /// How far the stream has come.
    pub const fn phase(&self) -> &Phase {
        self.scanner.phase()
    }

    /// Bytes that are held of an event that is not complete.
    pub fn held_bytes(&self) -> usize {
        self.data.kept.len()
    }
}

impl EventData {
    /// Adds a piece: the first one of an event stays where it is, further ones are joined.
    fn add<'a>(&mut self, first: &mut &'a [u8], bytes: &'a [u8], limit: usize) {
        let is_first = self.len == 0;
        self.len = self.len.saturating_add(bytes.len());
        if self.len > limit.max(MAX_ERROR_IN_SUCCESS_BYTES) {
            *first = &[];
            self.kept = Vec::new();
        } else if is_first {
            *first = bytes;
        } else {
            self.keep(std::mem::take(first));
            self.keep(bytes);
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
    }
}

/// The result of an event at its blank line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It is one of the answer's.
    Event,
    LargeEnd,
    /// It says no more than that the provider is there.
    KeepAlive,
    /// It was nothing, or the stream has failed with it.
    Nothing,
}

impl StreamScanner {
    /// Judges the event whose blank line has come, and reads the fault where it is one.
    fn end_event(&mut self, data: &[u8], is_large: bool) -> Ended {
        let is_marker = self.event.is_done_marker();
        let has_text = self.event.has_text();
        let is_terminal = self.event.kind(&self.reader) == EventKind::Terminal;
        let verdict = self.judge();
        self.event.reset(&mut self.reader);
        match verdict {
            Verdict::Pass | Verdict::PassCleaned => match () {
                () if is_marker || !has_text => Ended::Nothing,
                () if is_large && is_terminal => Ended::LargeEnd,
                () if is_large => {
                    self.phase = Phase::Failed(UpstreamFault::broken_answer());
                    Ended::Nothing
                }
                () => Ended::Event,
            },
            Verdict::KeepAlive => Ended::KeepAlive,
            Verdict::Drop => Ended::Nothing,
            Verdict::Fail => {
                if !self.has_failed() {
                    self.phase = Phase::Failed(classify_body(data));
                }
                Ended::Nothing
            }
        }
    }

    /// How the stream ended, now that nothing more comes.
    pub(super) const fn end(&self) -> StreamEnd {
        match self.phase {
            Phase::Failed(_) => StreamEnd::Failed,
            Phase::Terminal => StreamEnd::Finished,
            Phase::Content if self.is_complete() => StreamEnd::Finished,
            Phase::Content | Phase::Preamble => StreamEnd::Cut,
        }
    }
}

#[cfg(test)]
mod tests;
