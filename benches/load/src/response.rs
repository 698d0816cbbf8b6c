//! Just enough of HTTP/1.1 to count answers: status, framing, body length, event-stream events.
//!
//! It never stores a body and looks at each byte at most once, because the load client shares
//! its core with the provider and must not become what is measured. It knows the two framings
//! that a proxy may choose for an answer on a kept connection, Content-Length and chunked
//! (RFC 9112 §6), and refuses the rest.

use crate::failure::{Failure, Result};

/// A head above this size is not an answer of anything that is compared here.
const HEAD_LIMIT: usize = 64 * 1024;
/// Longest accepted chunk-size or trailer line.
const LINE_LIMIT: usize = 4 * 1024;

/// Reads one answer after another from the bytes of a kept connection.
#[derive(Debug, Default)]
pub(crate) struct ResponseReader {
    state: State,
    /// Head bytes, or the chunk-size or trailer line in progress.
    line: Vec<u8>,
    counts_events: bool,
    answer: Answer,
}

/// What is known of the answer so far; complete once [`ResponseReader::feed`] says so.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// HTTP status code.
    pub(crate) status: u16,
    /// Body bytes without chunk framing.
    pub(crate) body_bytes: u64,
    /// HTTP chunks with data; 0 for an answer with Content-Length.
    pub(crate) http_chunks: u64,
    /// Blank lines in the body, each of which ends a server-sent event.
    pub(crate) events: u64,
    last_byte: u8,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    Done,
}

impl ResponseReader {
    /// A reader that also counts events, which costs one scan of the body.
    pub(crate) fn counting_events() -> Self {
        Self {
            counts_events: true,
            ..Self::default()
        }
    }

    /// What has been read of the current answer.
    pub(crate) fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Whether the current answer is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Makes ready for the next answer on the same connection.
    pub(crate) fn reset(&mut self) {
        self.state = State::Head;
        self.line.clear();
        self.answer = Answer::default();
    }

    /// Takes what the socket gave and calls `body` with each piece of the body in it.
    ///
    /// # Errors
    /// [`Failure::Malformed`] when the bytes are no HTTP/1.1 answer of a known framing, or
    /// go on after its end (nothing is pipelined here).
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut body: impl FnMut(&[u8])) -> Result<()> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head => self.take_head(bytes)?,
                State::Length(left) => {
                    let (rest, left) = self.take_body(bytes, left, &mut body);
                    self.state = if left == 0 {
                        State::Done
                    } else {
                        State::Length(left)
                    };
                    rest
                }
                State::ChunkSize => self.take_chunk_size(bytes)?,
                State::ChunkData(left) => {
                    let (rest, left) = self.take_body(bytes, left, &mut body);
                    self.state = if left == 0 {
                        State::ChunkEnd
                    } else {
                        State::ChunkData(left)
                    };
                    rest
                }
                State::ChunkEnd => self.take_chunk_end(bytes)?,
                State::Trailers => self.take_trailer(bytes)?,
                State::Done => return Err(Failure::Malformed("bytes after the end of the answer")),
            };
        }
        Ok(())
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        // The end may straddle the previous read by up to three bytes.
        let searched = self.line.len().saturating_sub(3);
        self.line.extend_from_slice(bytes);
        let unsearched = self.line.get(searched..).unwrap_or_default();
        let Some(found) = memchr::memmem::find(unsearched, b"\r\n\r\n") else {
            return if self.line.len() > HEAD_LIMIT {
                Err(Failure::Malformed("the head is too long"))
            } else {
                Ok(&[])
            };
        };
        let head_end = searched + found + 4;
        let after_head = self.line.len() - head_end;
        self.line.truncate(head_end);
        let head = std::str::from_utf8(&self.line)
            .map_err(|_| Failure::Malformed("the head is not text"))?;
        (self.answer.status, self.state) = parse_head(head)?;
        self.line.clear();
        Ok(bytes.get(bytes.len() - after_head..).unwrap_or_default())
    }

    fn take_body<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        body: &mut impl FnMut(&[u8]),
    ) -> (&'a [u8], u64) {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (piece, rest) = bytes.split_at(length);
        self.answer.body_bytes += piece.len() as u64;
        if self.counts_events {
            self.answer.count_events(piece);
        }
        body(piece);
        (rest, left - piece.len() as u64)
    }

    fn take_chunk_size<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let (complete, rest) = self.take_line(bytes)?;
        if complete {
            let size = parse_chunk_size(&self.line)?;
            self.answer.http_chunks += u64::from(size > 0);
            self.state = if size > 0 {
                State::ChunkData(size)
            } else {
                State::Trailers
            };
            self.line.clear();
        }
        Ok(rest)
    }

    fn take_chunk_end<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let (complete, rest) = self.take_line(bytes)?;
        if complete {
            if !self.line.is_empty() {
                return Err(Failure::Malformed("a chunk is longer than its size says"));
            }
            self.state = State::ChunkSize;
        }
        Ok(rest)
    }

    fn take_trailer<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let (complete, rest) = self.take_line(bytes)?;
        if complete {
            if self.line.is_empty() {
                self.state = State::Done;
            }
            self.line.clear();
        }
        Ok(rest)
    }

    /// Moves bytes up to and without CR LF into `line`; true when the line is complete.
    fn take_line<'a>(&mut self, bytes: &'a [u8]) -> Result<(bool, &'a [u8])> {
        let (piece, rest, complete) = match memchr::memchr(b'\n', bytes) {
            Some(end) => {
                let (piece, rest) = bytes.split_at(end);
                (piece, rest.get(1..).unwrap_or_default(), true)
            }
            None => (bytes, &[][..], false),
        };
        self.line.extend_from_slice(piece);
        if self.line.len() > LINE_LIMIT {
            return Err(Failure::Malformed("a framing line is too long"));
        }
        if complete && self.line.pop() != Some(b'\r') {
            return Err(Failure::Malformed("a framing line does not end in CR LF"));
        }
        Ok((complete, rest))
    }
}

impl Answer {
    fn count_events(&mut self, piece: &[u8]) {
        for end in memchr::memchr_iter(b'\n', piece) {
            let before = end.checked_sub(1).and_then(|index| piece.get(index));
            self.events += u64::from(*before.unwrap_or(&self.last_byte) == b'\n');
        }
        self.last_byte = piece.last().copied().unwrap_or(self.last_byte);
    }
}

/// Status and the state in which the body begins.
fn parse_head(head: &str) -> Result<(u16, State)> {
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 "))
        .and_then(|line| line.get(..3))
        .and_then(|code| code.parse().ok())
        .ok_or(Failure::Malformed("no status line"))?;
    let mut framing = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            let length = value
                .trim()
                .parse()
                .map_err(|_| Failure::Malformed("Content-Length"))?;
            framing = Some(if length == 0 {
                State::Done
            } else {
                State::Length(length)
            });
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.trim().eq_ignore_ascii_case("chunked") {
                return Err(Failure::Malformed("unknown Transfer-Encoding"));
            }
            framing = Some(State::ChunkSize);
        }
    }
    let framing = framing.ok_or(Failure::Malformed("the answer is delimited by closing"))?;
    Ok((status, framing))
}

fn parse_chunk_size(line: &[u8]) -> Result<u64> {
    std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.split(';').next())
        .and_then(|digits| u64::from_str_radix(digits.trim_end(), 16).ok())
        .ok_or(Failure::Malformed("chunk size"))
}

#[cfg(test)]
mod tests;
