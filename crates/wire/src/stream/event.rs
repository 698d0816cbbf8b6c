//! The event that is being read: its name, its data as far as the reader needs them, and
//! what may become of it.

use super::framing::{Framer, Token};
use crate::{
    answer::{kind::EventKind, reader::Reader},
    fault::{UpstreamFault, classify_body},
    json::Lexer,
};

/// What becomes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It leaves as it came.
    Pass,
    /// It leaves without the lines that are neither its data nor its name.
    PassCleaned,
    /// It is taken out; the stream goes on.
    Drop,
    /// It says no more than that the provider is there: a comment of the gateway's own stands
    /// for it.
    KeepAlive,
    /// It is taken out and the stream has failed.
    Fail,
}

/// The data with which some formats end their streams.
const DONE: &[u8] = b"[DONE]";
/// Names longer than this are unknown; no known one is.
const MAX_NAME_BYTES: usize = 64;

/// An event, until its blank line.
#[derive(Debug, Default)]
pub(super) struct Event {
    name: Prefix<MAX_NAME_BYTES>,
    /// One byte more than the longest marker, so that a longer text is none.
    head: Prefix<{ DONE.len() + 1 }>,
    lexer: Lexer,
    has_data_line: bool,
    has_name_line: bool,
    /// It has a line that is neither data nor a name.
    has_other_line: bool,
    /// The data hold something else than white space.
    has_text: bool,
    /// The data are not JSON.
    is_broken: bool,
    /// The data are JSON that is nested too deep.
    is_too_deep: bool,
}

impl Event {
    pub(super) fn begin_name_line(&mut self) {
        self.name = Prefix::default();
        // Of two names only the last counts, and the first would leave unread.
        self.is_broken |= std::mem::replace(&mut self.has_name_line, true);
    }

    pub(super) const fn begin_other_line(&mut self) {
        self.has_other_line = true;
    }

    pub(super) fn name(&mut self, piece: &[u8]) {
        self.name.extend(piece);
    }

    /// Begins a data line; several are one text, with line feeds between.
    pub(super) fn begin_data_line(&mut self, reader: &mut Reader) {
        if std::mem::replace(&mut self.has_data_line, true) {
            self.data(b"\n", reader);
        }
    }

    /// Takes data of which only a marker would matter.
    pub(super) fn skim(&mut self, piece: &[u8]) {
        if !self.has_text {
            self.has_text = !piece.trim_ascii().is_empty();
        }
        self.head.extend(piece);
    }

    pub(super) fn data(&mut self, piece: &[u8], reader: &mut Reader) {
        self.skim(piece);
        if !self.is_broken
            && let Err(error) = self.lexer.feed(piece, reader)
        {
            self.is_broken = true;
            self.is_too_deep = error.is_too_deep();
        }
    }

    /// Makes ready for the next event.
    pub(super) fn reset(&mut self, reader: &mut Reader) {
        if self.has_data_line {
            self.lexer.reset();
            reader.next_event();
        }
        self.name.len = 0;
        self.head.len = 0;
        self.has_data_line = false;
        self.has_name_line = false;
        self.has_other_line = false;
        self.has_text = false;
        self.is_broken = false;
        self.is_too_deep = false;
    }

    /// Whether there is anything to read in it. Comments and lone fields are no events.
    pub(super) const fn has_text(&self) -> bool {
        self.has_text
    }

    /// Whether it has no line but its end.
    pub(super) const fn is_blank(&self) -> bool {
        !self.has_data_line && !self.has_name_line && !self.has_other_line
    }

    /// Whether it is the end marker and nothing else.
    pub(super) fn is_plain_marker(&self) -> bool {
        self.head.bytes() == DONE && !self.has_name_line && !self.has_other_line
    }

    /// Whether it has a line that is neither data nor a name.
    pub(super) const fn has_other_line(&self) -> bool {
        self.has_other_line
    }

    /// Forgets the lines that are neither data nor a name: they were taken out.
    pub(super) const fn forget_other_lines(&mut self) {
        self.has_other_line = false;
    }

    /// Whether the data are the end marker. Text can follow it behind a space.
    pub(super) fn is_done_marker(&self) -> bool {
        self.head.bytes().trim_ascii() == DONE
    }

    /// Whether the data are complete as they stand.
    pub(super) fn is_whole(&self) -> bool {
        self.is_done_marker() || (!self.is_broken && self.lexer.is_complete())
    }

    /// Whether the data are nested too deep to be read.
    pub(super) const fn is_too_deep(&self) -> bool {
        self.is_too_deep
    }

    /// Bytes of text in it, as far as it was read.
    pub(super) fn text_so_far(&self, reader: &Reader) -> u64 {
        reader.text_so_far(&self.lexer)
    }

    /// What the event is, as far as it was read.
    pub(super) fn kind(&self, reader: &Reader) -> EventKind {
        match reader.event.error {
            true => EventKind::Error,
            false => reader.event.kind.max(reader.kind_of(self.name.bytes())),
        }
    }

    /// The failure that the event reports, `block` being all of its lines.
    pub(super) fn fault(&self, block: &[u8]) -> UpstreamFault {
        classify_body(&data_of(block))
    }
}

/// The data lines of a block, joined.
fn data_of(block: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(block.len());
    let (mut framer, mut rest) = (Framer::new(), block);
    while let Some(token) = framer.next(&mut rest) {
        match token {
            Token::DataLine if !data.is_empty() => data.push(b'\n'),
            Token::Data(piece) => data.extend_from_slice(piece),
            _ => {}
        }
    }
    data
}

/// The first bytes of a text that comes in pieces.
#[derive(Clone, Copy, Debug)]
struct Prefix<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Prefix<N> {
    fn default() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> Prefix<N> {
    fn extend(&mut self, piece: &[u8]) {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let taken = room.len().min(piece.len());
        if let (Some(room), Some(piece)) = (room.get_mut(..taken), piece.get(..taken)) {
            room.copy_from_slice(piece);
            self.len += taken;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
