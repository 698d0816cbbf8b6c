//! Decompresses the body of a request (RFC 9110, section 8.4; RFC 1952, RFC 8878) in pieces of bounded size.
//! The reader of the body decides how many it takes.

use bytes::{Buf, Bytes};
use flate2::write::GzDecoder;
use http::header::{CONTENT_ENCODING, HeaderMap};
use std::io::{self, Write};
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// The size of a piece in bytes; no piece is more than twice as large.
const PIECE: usize = 64 * 1024;

/// A supported content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    /// The value of `accept-encoding` in an answer to a request in another coding.
    pub const ACCEPTED: &'static str = "gzip, zstd";

    /// The coding of a body; `None` if it is not compressed.
    ///
    /// # Errors
    ///
    /// It is compressed in another way, or more than once.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, UnknownCoding> {
        let mut found = None;
        for value in headers.get_all(CONTENT_ENCODING) {
            let codings = value.to_str().map_err(|_| UnknownCoding)?;
            for coding in codings.split(',').map(str::trim) {
                let coding = match coding.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Self::Gzip,
                    "zstd" => Self::Zstd,
                    _ => return Err(UnknownCoding),
                };
                if found.replace(coding).is_some() {
                    return Err(UnknownCoding);
                }
            }
        }
        Ok(found)
    }

    /// The window in bytes: decompressed data that later data can refer to.
    pub const fn window(self) -> u64 {
        match self {
            Self::Gzip => 32 * 1024,
            // The most that a sender may rely on (RFC 9659).
            Self::Zstd => 1 << ZSTD_WINDOW_LOG,
        }
    }

    /// The name in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

const ZSTD_WINDOW_LOG: u32 = 23;

/// An unsupported content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCoding;

/// Decompresses one body, piece by piece.
pub enum Unpacker {
    Gzip(Box<GzDecoder<Vec<u8>>>),
    Zstd(Box<Zstd>),
}

impl Unpacker {
    /// A decompressor for one body.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(Box::new(GzDecoder::new(Vec::new()))),
            Coding::Zstd => Self::Zstd(Box::new(Zstd::new()?)),
        })
    }

    /// Decompresses the beginning of `packed` and removes it. Returns nothing when `packed` is used up.
    ///
    /// # Errors
    ///
    /// The data is corrupt, or data follows its end.
    pub fn step(&mut self, packed: &mut Bytes) -> io::Result<Bytes> {
        match self {
            Self::Gzip(decoder) => {
                while !packed.is_empty() && decoder.get_ref().len() < PIECE {
                    match decoder.write(packed)? {
                        0 => return Err(trailing()),
                        taken => packed.advance(taken),
                    }
                }
                Ok(std::mem::take(decoder.get_mut()).into())
            }
            Self::Zstd(decoder) => decoder.step(packed),
        }
    }

    /// Ends the body and returns the last of it.
    ///
    /// # Errors
    ///
    /// It is cut short, or its checksum is wrong.
    pub fn finish(&mut self) -> io::Result<Bytes> {
        match self {
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
            Self::Zstd(decoder) if decoder.is_complete => Ok(Bytes::new()),
            Self::Zstd(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Decompresses one frame of Zstandard.
pub struct Zstd {
    decoder: Decoder<'static>,
    /// Bytes of the frame's magic number that have come.
    begun: usize,
    is_complete: bool,
}

impl Zstd {
    fn new() -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
        Ok(Self {
            decoder,
            begun: 0,
            is_complete: false,
        })
    }

    fn step(&mut self, packed: &mut Bytes) -> io::Result<Bytes> {
        if self.is_complete {
            return match packed.is_empty() {
                true => Ok(Bytes::new()),
                false => Err(trailing()),
            };
        }
        self.check_magic(packed)?;
        let mut piece = vec![0; PIECE];
        let mut filled = 0;
        while let Some(room @ [_, ..]) = piece.get_mut(filled..) {
            let status = self.decoder.run_on_buffers(packed, room)?;
            packed.advance(status.bytes_read);
            filled = filled.saturating_add(status.bytes_written);
            self.is_complete = status.remaining == 0;
            if self.is_complete || packed.is_empty() {
                break;
            }
            if status.bytes_read == 0 && status.bytes_written == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        piece.truncate(filled);
        Ok(piece.into())
    }

    /// Refuses older formats, which the library also knows: they have no limit for the window.
    fn check_magic(&mut self, packed: &[u8]) -> io::Result<()> {
        const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
        let rest = MAGIC.get(self.begun..).unwrap_or_default();
        let come = rest.len().min(packed.len());
        if packed.get(..come) != rest.get(..come) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.begun = self.begun.saturating_add(come);
        Ok(())
    }
}

fn trailing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "data follows its end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use http::HeaderValue;

    fn packed(coding: Coding, data: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Zstd => zstd::encode_all(data, 3).unwrap(),
        }
    }

    /// The result for `data` in chunks of this many bytes, and the size of the largest piece.
    fn unpacked(coding: Coding, data: &[u8], size: usize) -> io::Result<(Vec<u8>, usize)> {
        let mut unpacker = Unpacker::new(coding)?;
        let (mut out, mut largest) = (Vec::new(), 0);
        for chunk in data.chunks(size) {
            let mut chunk = Bytes::copy_from_slice(chunk);
            loop {
                let piece = unpacker.step(&mut chunk)?;
                if piece.is_empty() && chunk.is_empty() {
                    break;
                }
                largest = largest.max(piece.len());
                out.extend_from_slice(&piece);
            }
        }
        out.extend_from_slice(&unpacker.finish()?);
        Ok((out, largest))
    }

    const BOTH: [Coding; 2] = [Coding::Gzip, Coding::Zstd];

    #[test]
    fn a_compressed_body_comes_out_whole_however_it_is_cut() {
        let text: String = (0..40_000).map(|n| format!("{n}, ")).collect();
        for coding in BOTH {
            let data = packed(coding, text.as_bytes());
            for size in [1, 7, 1000, usize::MAX] {
                let (out, _) = unpacked(coding, &data, size).unwrap();
                assert!(out == text.as_bytes(), "{coding:?}, {size}");
            }
            let nothing = packed(coding, b"");
            assert_eq!(unpacked(coding, &nothing, 1).unwrap().0, b"");
        }
    }

    #[test]
    fn a_bomb_comes_out_in_small_pieces() {
        let zeros = vec![b' '; 20 << 20];
        for coding in BOTH {
            let data = packed(coding, &zeros);
            let (out, largest) = unpacked(coding, &data, usize::MAX).unwrap();
            assert_eq!(out.len(), zeros.len());
            assert!(largest <= 2 * PIECE, "{coding:?}: {largest}");
        }
    }

    #[test]
    fn torn_changed_and_continued_data_are_faults() {
        let text = b"{\"model\":\"m\"}".repeat(100);
        for coding in BOTH {
            let data = packed(coding, &text);
            for end in 0..data.len() {
                assert!(
                    unpacked(coding, &data[..end], 5).is_err(),
                    "{coding:?} {end}"
                );
            }
            let continued = [&data[..], b"x"].concat();
            assert!(unpacked(coding, &continued, 5).is_err(), "{coding:?}");
            assert!(unpacked(coding, &text, 5).is_err(), "{coding:?}");
        }
        let mut changed = packed(Coding::Gzip, &text);
        let crc = changed.len() - 8;
        changed[crc] ^= 1;
        assert!(unpacked(Coding::Gzip, &changed, 5).is_err());
    }

    #[test]
    fn a_window_beyond_the_bound_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(ZSTD_WINDOW_LOG + 1).unwrap();
        encoder.write_all(b"{}").unwrap();
        let data = encoder.finish().unwrap();
        assert!(unpacked(Coding::Zstd, &data, usize::MAX).is_err());
    }

    #[test]
    fn each_coding_is_recognised() {
        let of = |values: &[&'static str]| {
            let values = values.iter().map(|it| HeaderValue::from_static(it));
            Coding::of(&values.map(|it| (CONTENT_ENCODING, it)).collect())
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["identity", ""]), Ok(None));
        assert_eq!(of(&["GZIP"]), Ok(Some(Coding::Gzip)));
        assert_eq!(of(&["identity, zstd"]), Ok(Some(Coding::Zstd)));
        for other in ["br", "deflate", "gzip, zstd", "gzip, gzip"] {
            assert_eq!(of(&[other]), Err(UnknownCoding), "{other}");
        }
        assert_eq!(of(&["gzip", "zstd"]), Err(UnknownCoding));
    }
}
