//! Where the text of a conversation stands in its body: the first pieces and the last, so
//! that a bounded look ([`crate::sample`]) needs no second pass.
//!
//! Instructions are told apart: they are the same for everything that an application asks.

use crate::json::Span;

/// Pieces of text that are kept of the beginning, and as many of the end.
const PIECES: usize = 32;
/// Bytes of text after which nothing more is kept of the beginning.
pub(crate) const BEGINNING_BYTES: u64 = 8 * 1024;

/// Who speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Voice {
    /// Nobody: what stands here is no part of the conversation.
    #[default]
    None,
    /// It is not known, or not yet.
    Someone,
    /// System or developer.
    Instructions,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

impl Voice {
    /// The voice of a role.
    pub(super) fn of_role(role: &[u8]) -> Self {
        match role {
            b"user" => Self::User,
            b"assistant" => Self::Assistant,
            b"system" | b"developer" => Self::Instructions,
            b"tool" | b"function" => Self::Tool,
            _ => Self::Someone,
        }
    }
}

/// A piece of text in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it stands, quotes included.
    pub span: Span,
    /// Who says it.
    pub voice: Voice,
}

/// The conversation of one body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    first: Vec<Piece>,
    /// The latest, as a ring: the piece of number `n` stands at `n % PIECES`.
    last: Vec<Piece>,
    /// The first instructions.
    pub(crate) instructions: Option<Span>,
    /// Pieces seen, instructions aside.
    seen: usize,
    /// Their bytes, escapes included.
    pub(crate) bytes: u64,
    first_bytes: u64,
    pub(crate) messages: u32,
    pub(crate) user_messages: u32,
    pub(crate) tools: u32,
    pub(crate) tool_traffic: u32,
}

impl Texts {
    /// The first pieces, in order.
    pub(crate) fn first(&self) -> &[Piece] {
        &self.first
    }

    /// The last pieces that are not among the first, the latest first.
    pub(crate) fn last_backwards(&self) -> impl Iterator<Item = Piece> + '_ {
        let oldest = self
            .first
            .len()
            .max(self.seen.saturating_sub(self.last.len()));
        (oldest..self.seen)
            .rev()
            .filter_map(|number| self.last.get(number % PIECES).copied())
    }

    /// A piece was met.
    pub(super) fn note(&mut self, span: Span, voice: Voice) {
        match voice {
            Voice::None => return,
            Voice::Instructions => {
                self.instructions.get_or_insert(span);
                return;
            }
            _ => {}
        }
        let piece = Piece { span, voice };
        let bytes = span.len().saturating_sub(2);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.first.len() == self.seen && self.seen < PIECES && self.first_bytes < BEGINNING_BYTES
        {
            self.first_bytes = self.first_bytes.saturating_add(bytes);
            self.first.push(piece);
        }
        match self.last.get_mut(self.seen % PIECES) {
            Some(place) => *place = piece,
            // Piece by piece up to PIECES, so that a short conversation takes little.
            None => self.last.push(piece),
        }
        self.seen = self.seen.saturating_add(1);
    }

    /// How many pieces there have been: what [`Texts::attribute`] begins from.
    pub(super) const fn seen(&self) -> usize {
        self.seen
    }

    /// Who spoke since `from` has become known only now.
    pub(super) fn attribute(&mut self, from: usize, voice: Voice) {
        if voice == Voice::Instructions {
            return self.take_for_instructions(from);
        }
        for number in from.max(self.seen.saturating_sub(PIECES))..self.seen {
            if let Some(piece) = self.last.get_mut(number % PIECES) {
                attribute(piece, voice);
            }
        }
        for piece in self.first.iter_mut().skip(from) {
            attribute(piece, voice);
        }
    }

    /// What was noted since `from` was no part of the conversation. Only where all of it is
    /// still at hand: else it stays what it was taken for.
    fn take_for_instructions(&mut self, from: usize) {
        if self.seen > PIECES || from >= self.seen {
            return;
        }
        let dropped = self.last.drain(from..);
        for (place, piece) in dropped.enumerate() {
            let bytes = piece.span.len().saturating_sub(2);
            self.bytes = self.bytes.saturating_sub(bytes);
            if from.saturating_add(place) < self.first.len() {
                self.first_bytes = self.first_bytes.saturating_sub(bytes);
            }
            self.instructions.get_or_insert(piece.span);
        }
        self.first.truncate(from);
        self.seen = from;
    }
}

fn attribute(piece: &mut Piece, voice: Voice) {
    if piece.voice == Voice::Someone || voice == Voice::Tool {
        piece.voice = voice;
    }
}
