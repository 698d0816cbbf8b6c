//! The structure of a document: which token may stand where, how deep, and what
//! to do when a chunk ends in the middle of one.

use super::{
    Container, JsonError, JsonErrorKind as Kind, Literal, Number, Sink, Span, Text, Want,
    number::Stage,
    scan,
    string::{StringState, prefix},
    utf8::is_utf8,
};

/// An incremental JSON lexer. See the [module](super) for its use.
#[derive(Debug)]
pub struct Lexer {
    state: State,
    nesting: Nesting,
    max_depth: u8,
    /// Offset of the next byte to be fed.
    offset: u64,
    /// Where the token began that the last chunk cut.
    token_start: u64,
    string: StringState,
    /// The string at hand is wanted in pieces.
    in_pieces: bool,
    number: [u8; Number::MAX_LEN],
    number_len: usize,
}

/// The token that may begin at the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    /// The document is complete; white space may follow.
    Done,
    InKey,
    InString,
    InNumber(Stage),
    /// So many bytes of the word were read.
    InLiteral(Literal, usize),
    Failed,
}

/// The containers around the next byte, innermost in the lowest bit.
#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    objects: u128,
    depth: u8,
}

impl Nesting {
    fn push(&mut self, container: Container) {
        self.objects = (self.objects << 1) | u128::from(container == Container::Object);
        self.depth = self.depth.saturating_add(1);
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth = self.depth.saturating_sub(1);
    }

    const fn in_object(self) -> bool {
        self.objects & 1 == 1
    }

    /// The state after a value.
    const fn after_value(self) -> State {
        if self.depth == 0 {
            State::Done
        } else {
            State::CommaOrEnd
        }
    }
}

impl Default for Lexer {
    fn default() -> Self {
        Self::new()
    }
}

impl Lexer {
    /// The deepest nesting that any lexer takes; what serde_json takes, too.
    pub const MAX_DEPTH: u8 = 128;

    /// A lexer that takes containers nested [`Self::MAX_DEPTH`] deep.
    pub fn new() -> Self {
        Self::with_max_depth(Self::MAX_DEPTH)
    }

    /// A lexer that takes containers nested so deep, at most [`Self::MAX_DEPTH`].
    pub fn with_max_depth(max_depth: u8) -> Self {
        Self {
            state: State::Value,
            nesting: Nesting::default(),
            max_depth: max_depth.min(Self::MAX_DEPTH),
            offset: 0,
            token_start: 0,
            string: StringState::default(),
            in_pieces: false,
            number: [0; Number::MAX_LEN],
            number_len: 0,
        }
    }

    /// Checks a whole document.
    ///
    /// # Errors
    /// It is not JSON, or nests too deep.
    pub fn check(document: &[u8]) -> Result<(), JsonError> {
        struct Nothing;

        impl Sink for Nothing {
            type Error = JsonError;
        }

        let mut lexer = Self::new();
        lexer.feed(document, &mut Nothing)?;
        lexer.finish(&mut Nothing)
    }

    /// Makes the lexer ready for another document. Buffers are kept.
    pub fn reset(&mut self) {
        self.state = State::Value;
        self.nesting = Nesting::default();
        self.offset = 0;
    }

    /// Bytes, unescaped, of the string in which the last chunk ended; zero where it did not
    /// end in one.
    pub const fn open_string_bytes(&self) -> u64 {
        match self.state {
            State::InString => self.string.len(),
            _ => 0,
        }
    }

    /// How many containers are open.
    pub const fn depth(&self) -> u8 {
        self.nesting.depth
    }

    /// Whether the document's value has ended, so that nothing but white space may
    /// follow. A number at the top level ends with [`finish`](Self::finish) alone.
    pub const fn is_complete(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Reads the next chunk of the document.
    ///
    /// # Errors
    /// The document is not JSON, or the sink failed. The lexer must then be
    /// [`reset`](Self::reset) before it is used again.
    pub fn feed<S: Sink>(&mut self, chunk: &[u8], sink: &mut S) -> Result<(), S::Error> {
        let state = std::mem::replace(&mut self.state, State::Failed);
        let (state, at) = self.resume(state, chunk, sink)?;
        self.state = self.read(state, chunk, at, sink)?;
        self.offset = self.offset.saturating_add(chunk.len() as u64);
        Ok(())
    }

    /// Ends the document.
    ///
    /// # Errors
    /// The document is not complete, or the sink failed.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let mut state = std::mem::replace(&mut self.state, State::Failed);
        if let State::InNumber(stage) = state
            && self.nesting.depth == 0
            && stage.may_end()
        {
            self.cut_number(self.offset, sink)?;
            state = State::Done;
        }
        if state != State::Done {
            let kind = match state {
                State::Failed => Kind::Failed,
                _ => Kind::UnexpectedEnd,
            };
            return Err(JsonError::new(kind, self.offset).into());
        }
        self.state = state;
        Ok(())
    }

    /// Offset of a place in the current chunk.
    #[inline]
    const fn at(&self, at: usize) -> u64 {
        self.offset.saturating_add(at as u64)
    }

    const fn span(&self, start: usize, end: usize) -> Span {
        Span {
            start: self.at(start),
            end: self.at(end),
        }
    }

    /// Goes on with the token that the last chunk cut. Returns what may follow and
    /// where in `chunk`; the state stays the same where the token goes on again.
    fn resume<S: Sink>(
        &mut self,
        state: State,
        chunk: &[u8],
        sink: &mut S,
    ) -> Result<(State, usize), S::Error> {
        match state {
            State::InKey | State::InString => self.resume_string(state, chunk, sink),
            State::InNumber(stage) => self.resume_number(stage, chunk, sink),
            State::InLiteral(literal, read) => self.read_literal(literal, read, chunk, 0, sink),
            State::Failed => Err(JsonError::new(Kind::Failed, self.offset).into()),
            _ => Ok((state, 0)),
        }
    }

    /// Reads tokens from `at` to the end of the chunk.
    fn read<S: Sink>(
        &mut self,
        mut state: State,
        chunk: &[u8],
        mut at: usize,
        sink: &mut S,
    ) -> Result<State, S::Error> {
        while let Some(&byte) = chunk.get(at) {
            if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                at += 1;
                continue;
            }
            match (state, byte) {
                (State::Value | State::ValueOrEnd, b'"') => {
                    (state, at) = self.begin_string(State::InString, chunk, at, sink)?;
                }
                (State::Key | State::KeyOrEnd, b'"') => {
                    (state, at) = self.begin_string(State::InKey, chunk, at, sink)?;
                }
                (State::Colon, b':') => (state, at) = (State::Value, at + 1),
                (State::CommaOrEnd, b',') => {
                    state = if self.nesting.in_object() {
                        State::Key
                    } else {
                        State::Value
                    };
                    at += 1;
                }
                (State::Value | State::ValueOrEnd, b'{') => {
                    self.open(Container::Object, at, sink)?;
                    (state, at) = (State::KeyOrEnd, at + 1);
                }
                (State::Value | State::ValueOrEnd, b'[') => {
                    self.open(Container::Array, at, sink)?;
                    (state, at) = (State::ValueOrEnd, at + 1);
                }
                (State::CommaOrEnd, b'}') if self.nesting.in_object() => {
                    state = self.close(Container::Object, at, sink)?;
                    at += 1;
                }
                (State::KeyOrEnd, b'}') => {
                    state = self.close(Container::Object, at, sink)?;
                    at += 1;
                }
                (State::CommaOrEnd, b']') if !self.nesting.in_object() => {
                    state = self.close(Container::Array, at, sink)?;
                    at += 1;
                }
                (State::ValueOrEnd, b']') => {
                    state = self.close(Container::Array, at, sink)?;
                    at += 1;
                }
                (State::Value | State::ValueOrEnd, b'-' | b'0'..=b'9') => {
                    (state, at) = self.begin_number(chunk, at, sink)?;
                }
                (State::Value | State::ValueOrEnd, b't' | b'f' | b'n') => {
                    let literal = match byte {
                        b't' => Literal::True,
                        b'f' => Literal::False,
                        _ => Literal::Null,
                    };
                    self.token_start = self.at(at);
                    (state, at) = self.read_literal(literal, 0, chunk, at, sink)?;
                }
                _ => return Err(JsonError::new(self.complaint(state, byte), self.at(at)).into()),
            }
        }
        Ok(state)
    }

    /// The fault if `byte` stands where `state` expects another token.
    fn complaint(&self, state: State, byte: u8) -> Kind {
        match state {
            State::Value => Kind::ExpectedValue(byte),
            State::ValueOrEnd => Kind::ExpectedValueOrEnd(byte),
            State::Key => Kind::ExpectedKey(byte),
            State::KeyOrEnd => Kind::ExpectedKeyOrEnd(byte),
            State::Colon => Kind::ExpectedColon(byte),
            State::CommaOrEnd if self.nesting.in_object() => Kind::ExpectedCommaOrBrace(byte),
            State::CommaOrEnd => Kind::ExpectedCommaOrBracket(byte),
            State::Done => Kind::Trailing(byte),
            _ => Kind::Failed,
        }
    }

    #[inline]
    fn open<S: Sink>(
        &mut self,
        container: Container,
        at: usize,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if self.nesting.depth >= self.max_depth {
            return Err(JsonError::new(Kind::TooDeep(self.max_depth), self.at(at)).into());
        }
        self.nesting.push(container);
        sink.begin(container, self.at(at))
    }

    #[inline]
    fn close<S: Sink>(
        &mut self,
        container: Container,
        at: usize,
        sink: &mut S,
    ) -> Result<State, S::Error> {
        self.nesting.pop();
        sink.end(container, self.at(at + 1))?;
        Ok(self.nesting.after_value())
    }

    /// Reads a key or string whose opening quote stands at `at`. One that ends in the
    /// same chunk is handed over as it stands there, unless what is wanted of it has
    /// escapes.
    #[inline]
    fn begin_string<S: Sink>(
        &mut self,
        kind: State,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> Result<(State, usize), S::Error> {
        let want = match kind {
            State::InKey => sink.want_key(),
            _ => sink.want_string(),
        };
        self.in_pieces = want == Want::Pieces;
        let limit = match want {
            Want::Nothing | Want::Pieces => 0,
            Want::Prefix(limit) => limit,
        };
        let rest = chunk.get(at + 1..).unwrap_or_default();
        let passage = scan::passage(rest);
        if let Some((contents, [b'"', ..])) = rest.split_at_checked(passage.len)
            && (limit == 0 || !passage.has_escapes())
            && (passage.ascii || is_utf8(contents))
        {
            let end = at + passage.len + 2;
            if self.in_pieces {
                sink.piece(contents);
            }
            let text = Text {
                bytes: prefix(contents, limit),
                len: passage.unescaped_len() as u64,
                span: self.span(at, end),
            };
            return Ok((self.report(kind, text, sink)?, end));
        }
        self.token_start = self.at(at);
        let end = self
            .string
            .begin(limit, passage, chunk, at + 1, self.offset)?;
        self.end_string(kind, at + 1, end, chunk, sink)
    }

    /// Reads the rest of a string that the last chunk cut.
    fn resume_string<S: Sink>(
        &mut self,
        kind: State,
        chunk: &[u8],
        sink: &mut S,
    ) -> Result<(State, usize), S::Error> {
        let end = self.string.advance(chunk, 0, self.offset)?;
        self.end_string(kind, 0, end, chunk, sink)
    }

    /// Hands over the piece of a string that stands in `chunk`, and reports the string that was
    /// read up to `end`, unless it goes on after the chunk.
    fn end_string<S: Sink>(
        &mut self,
        kind: State,
        start: usize,
        end: Option<usize>,
        chunk: &[u8],
        sink: &mut S,
    ) -> Result<(State, usize), S::Error> {
        if self.in_pieces {
            let contents_end = end.map_or(chunk.len(), |end| end.saturating_sub(1));
            sink.piece(chunk.get(start..contents_end).unwrap_or_default());
        }
        let Some(end) = end else {
            return Ok((kind, chunk.len()));
        };
        let text = Text {
            bytes: self.string.contents(),
            len: self.string.len(),
            span: Span {
                start: self.token_start,
                end: self.at(end),
            },
        };
        Ok((self.report(kind, text, sink)?, end))
    }

    /// Reports a key or string; returns what may follow it.
    #[inline]
    fn report<S: Sink>(
        &self,
        kind: State,
        text: Text<'_>,
        sink: &mut S,
    ) -> Result<State, S::Error> {
        if kind == State::InKey {
            sink.key(text)?;
            return Ok(State::Colon);
        }
        sink.string(text)?;
        Ok(self.nesting.after_value())
    }

    #[inline]
    fn begin_number<S: Sink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> Result<(State, usize), S::Error> {
        let rest = chunk.get(at..).unwrap_or_default();
        let mut stage = Stage::Start;
        let taken = stage.advance(rest);
        let (digits, after) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
        let Some(&next) = after.first() else {
            self.token_start = self.at(at);
            self.number_len = 0;
            self.keep_digits(digits);
            return Ok((State::InNumber(stage), chunk.len()));
        };
        if !stage.may_end() {
            return Err(JsonError::new(Kind::BadNumber(next), self.at(at + taken)).into());
        }
        sink.number(Number {
            bytes: digits.get(..Number::MAX_LEN).unwrap_or(digits),
            span: self.span(at, at + taken),
        })?;
        Ok((self.nesting.after_value(), at + taken))
    }

    fn resume_number<S: Sink>(
        &mut self,
        mut stage: Stage,
        chunk: &[u8],
        sink: &mut S,
    ) -> Result<(State, usize), S::Error> {
        let taken = stage.advance(chunk);
        let (digits, after) = chunk.split_at_checked(taken).unwrap_or((chunk, &[]));
        self.keep_digits(digits);
        let Some(&next) = after.first() else {
            return Ok((State::InNumber(stage), taken));
        };
        if !stage.may_end() {
            return Err(JsonError::new(Kind::BadNumber(next), self.at(taken)).into());
        }
        self.cut_number(self.at(taken), sink)?;
        Ok((self.nesting.after_value(), taken))
    }

    /// Keeps digits of a number that a chunk cut, as far as there is room.
    fn keep_digits(&mut self, digits: &[u8]) {
        let room = self.number.get_mut(self.number_len..).unwrap_or_default();
        for (place, digit) in room.iter_mut().zip(digits) {
            *place = *digit;
            self.number_len += 1;
        }
    }

    /// Reports a number that was cut and ends before `end`.
    fn cut_number<S: Sink>(&mut self, end: u64, sink: &mut S) -> Result<(), S::Error> {
        sink.number(Number {
            bytes: self.number.get(..self.number_len).unwrap_or_default(),
            span: Span {
                start: self.token_start,
                end,
            },
        })
    }

    /// Reads the word of which `read` bytes came before, from `at`.
    #[inline]
    fn read_literal<S: Sink>(
        &mut self,
        literal: Literal,
        read: usize,
        chunk: &[u8],
        mut at: usize,
        sink: &mut S,
    ) -> Result<(State, usize), S::Error> {
        let missing = literal.as_str().as_bytes().get(read..).unwrap_or_default();
        for (done, &wanted) in missing.iter().enumerate() {
            match chunk.get(at) {
                None => return Ok((State::InLiteral(literal, read + done), at)),
                Some(&found) if found == wanted => at += 1,
                Some(&found) => {
                    return Err(JsonError::new(Kind::BadLiteral(found), self.at(at)).into());
                }
            }
        }
        let span = Span {
            start: self.token_start,
            end: self.at(at),
        };
        sink.literal(literal, span)?;
        Ok((self.nesting.after_value(), at))
    }
}
