//! Finds the end of an HTTP/1.1 request body while it is forwarded, so that the next request begins exactly where
//! the client has placed it (RFC 9112, sections 6 and 7).

/// How a body is framed, and the rest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// This many bytes are left.
    Length(u64),
    /// In chunks.
    Chunked(Chunks),
}

/// A chunked body that is malformed, or valid but suspicious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadChunk;

/// The position of the next byte in a chunked body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In a size, after this many digits.
    Size { digits: u8, size: u64 },
    /// In an extension, after this many bytes.
    Extension { length: u8, size: u64 },
    /// Before the line feed after a size.
    SizeEnd { size: u64 },
    /// In the data.
    Data { left: u64 },
    /// Before the line end after the data.
    DataReturn,
    /// Before its line feed.
    DataEnd,
    /// After the last chunk. Trailers are refused.
    LastReturn,
    /// Before the last byte.
    LastEnd,
    /// At the end.
    Over,
}

/// The most digits of a size: more are leading zeros, or exceed any memory.
const MOST_DIGITS: u8 = 12;
/// The most bytes of a chunk extension; clients in practice send none.
const MOST_EXTENSION: u8 = 128;

impl Framing {
    /// A chunked body at its beginning.
    pub(super) const fn chunked() -> Self {
        Self::Chunked(Chunks::Size { digits: 0, size: 0 })
    }

    /// Whether the whole body was forwarded.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks::Over))
    }

    /// Returns how many bytes at the front of `bytes` belong to the body.
    ///
    /// # Errors
    ///
    /// [`BadChunk`] with the number of valid bytes before it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, (usize, BadChunk)> {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_over() {
            match self {
                Self::Length(left) | Self::Chunked(Chunks::Data { left }) => {
                    let here = bytes.len().saturating_sub(taken);
                    let part = usize::try_from(*left).unwrap_or(usize::MAX).min(here);
                    *left = left.saturating_sub(part as u64);
                    taken = taken.saturating_add(part);
                    if let Self::Chunked(chunks @ Chunks::Data { left: 0 }) = self {
                        *chunks = Chunks::DataReturn;
                    }
                }
                Self::Chunked(chunks) => {
                    let byte = bytes.get(taken).copied().unwrap_or_default();
                    *chunks = chunks.after(byte).map_err(|bad| (taken, bad))?;
                    taken = taken.saturating_add(1);
                }
            }
        }
        Ok(taken)
    }
}

impl Chunks {
    fn after(&self, byte: u8) -> Result<Self, BadChunk> {
        Ok(match (self, byte) {
            (Self::Size { digits, size }, byte) if byte.is_ascii_hexdigit() => {
                if *digits == MOST_DIGITS {
                    return Err(BadChunk);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Self::Size {
                    digits: digits.saturating_add(1),
                    size: size.saturating_mul(16).saturating_add(u64::from(digit)),
                }
            }
            (Self::Size { digits: 1.., size }, b'\r') => Self::SizeEnd { size: *size },
            (Self::Size { digits: 1.., size }, b';') => Self::Extension {
                length: 0,
                size: *size,
            },
            (Self::Extension { size, .. }, b'\r') => Self::SizeEnd { size: *size },
            (Self::Extension { length, size }, b' '..=b'~' | b'\t') if *length < MOST_EXTENSION => {
                Self::Extension {
                    length: length.saturating_add(1),
                    size: *size,
                }
            }
            (Self::SizeEnd { size: 0 }, b'\n') => Self::LastReturn,
            (Self::SizeEnd { size }, b'\n') => Self::Data { left: *size },
            (Self::DataReturn, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::Size { digits: 0, size: 0 },
            (Self::LastReturn, b'\r') => Self::LastEnd,
            (Self::LastEnd, b'\n') => Self::Over,
            _ => return Err(BadChunk),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of the body in `text`, for every division into pieces; `None` if it is malformed.
    fn end(text: &[u8]) -> Option<usize> {
        let whole = in_pieces(text, text.len().max(1));
        for size in 1..text.len() {
            assert_eq!(in_pieces(text, size), whole, "in pieces of {size}");
        }
        whole
    }

    fn in_pieces(text: &[u8], size: usize) -> Option<usize> {
        let mut framing = Framing::chunked();
        let mut taken = 0;
        for piece in text.chunks(size) {
            taken += framing.take(piece).ok()?;
        }
        framing.is_over().then_some(taken)
    }

    #[test]
    fn a_chunked_body_ends_behind_its_last_chunk_and_the_rest_is_the_next_request() {
        assert_eq!(end(b"0\r\n\r\n"), Some(5));
        assert_eq!(end(b"5\r\nhello\r\n0\r\n\r\nGET /"), Some(15));
        assert_eq!(end(b"A;name=value\r\n0123456789\r\n00\r\n\r\n"), Some(32));
        assert_eq!(end(b"005\r\nhello\r\n0;x\r\n\r\n"), Some(19));
    }

    #[test]
    fn chunks_that_two_servers_could_read_in_two_ways_are_bad() {
        for bad in [
            &b"5\nhello\r\n0\r\n\r\n"[..],
            b"5 \r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"\r\nhello\r\n0\r\n\r\n",
            b";x\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhelloX\r\n0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5\r\nhello0\r\n\r\n",
            b"5;a\nb\r\nhello\r\n0\r\n\r\n",
            b"5;\0\r\nhello\r\n0\r\n\r\n",
            b"0\r\ntrailer: x\r\n\r\n",
            b"0\r\n\n",
            b"10000000000000005\r\nhello\r\n0\r\n\r\n",
            b"0000000000005\r\nhello\r\n0\r\n\r\n",
        ] {
            assert_eq!(end(bad), None, "{}", bad.escape_ascii());
        }
        let long = [&b"1;"[..], &[b'x'; 200], b"\r\na\r\n0\r\n\r\n"].concat();
        assert_eq!(end(&long), None);
    }

    #[test]
    fn a_body_of_a_length_ends_there() {
        let mut framing = Framing::Length(5);
        assert_eq!(framing.take(b"hel"), Ok(3));
        assert_eq!(framing.take(b"loGET"), Ok(2));
        assert!(framing.is_over());
        assert_eq!(framing.take(b"GET"), Ok(0));
    }
}
