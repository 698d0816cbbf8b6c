//! Decompresses bodies (RFC 9110, section 8.4; RFC 1950, RFC 1952, RFC 8878) in pieces of bounded size: requests,
//! and answers that a provider has compressed although the request does not accept that.

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use http::header::{CONTENT_ENCODING, HeaderMap};
use std::io;
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// The most bytes of a piece.
const PIECE: usize = 64 * 1024;

/// A supported content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Deflate,
    Zstd,
}

impl Coding {
    /// The codings of requests.
    pub const OF_REQUESTS: &[Self] = &[Self::Gzip, Self::Zstd];
    /// The codings of answers.
    pub const OF_ANSWERS: &[Self] = &[Self::Gzip, Self::Deflate];

    /// The value of `accept-encoding` in an answer to a request in another coding.
    pub const ACCEPTED: &'static str = "gzip, zstd";

    /// The coding of a body; `None` if it is not compressed.
    ///
    /// # Errors
    ///
    /// It is compressed in a way that is not supported, or more than once.
    pub fn of(headers: &HeaderMap, supported: &[Self]) -> Result<Option<Self>, UnknownCoding> {
        let mut found = None;
        for value in headers.get_all(CONTENT_ENCODING) {
            let codings = value.to_str().map_err(|_| UnknownCoding)?;
            for coding in codings.split(',').map(str::trim) {
                let coding = match coding.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Self::Gzip,
                    "deflate" => Self::Deflate,
                    "zstd" => Self::Zstd,
                    _ => return Err(UnknownCoding),
                };
                if !supported.contains(&coding) || found.replace(coding).is_some() {
                    return Err(UnknownCoding);
                }
            }
        }
        Ok(found)
    }

    /// The window in bytes: decompressed data that later data can refer to.
    pub const fn window(self) -> u64 {
        match self {
            Self::Gzip | Self::Deflate => 1 << WINDOW_LOG,
            // The most that a sender may rely on (RFC 9659).
            Self::Zstd => 1 << ZSTD_WINDOW_LOG,
        }
    }

    /// The name in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }
}

const WINDOW_LOG: u8 = 15;
const ZSTD_WINDOW_LOG: u32 = 23;

/// An unsupported content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCoding;

/// Decompresses one body, piece by piece.
pub struct Unpacker {
    decoder: Kind,
    is_complete: bool,
}

enum Kind {
    Zlib(Decompress),
    Zstd {
        decoder: Decoder<'static>,
        /// Bytes of the frame's magic number that have come.
        begun: usize,
    },
}

impl Unpacker {
    /// A decompressor for one body.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn new(coding: Coding) -> io::Result<Self> {
        let decoder = match coding {
            Coding::Gzip => Kind::Zlib(Decompress::new_gzip(WINDOW_LOG)),
            Coding::Deflate => Kind::Zlib(Decompress::new(true)),
            Coding::Zstd => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                Kind::Zstd { decoder, begun: 0 }
            }
        };
        Ok(Self {
            decoder,
            is_complete: false,
        })
    }

    /// Decompresses the beginning of `packed` and removes it. Returns nothing when `packed` is used up.
    ///
    /// # Errors
    ///
    /// The data is corrupt, or data follows its end.
    pub fn step(&mut self, packed: &mut Bytes) -> io::Result<Bytes> {
        if self.is_complete {
            return match packed.is_empty() {
                true => Ok(Bytes::new()),
                false => Err(io::ErrorKind::InvalidData.into()),
            };
        }
        let mut piece = vec![0; PIECE];
        let mut filled = 0;
        while let Some(room @ [_, ..]) = piece.get_mut(filled..) {
            let (read, written) = self.run(packed, room)?;
            packed.advance(read);
            filled = filled.saturating_add(written);
            if self.is_complete || packed.is_empty() {
                break;
            }
            if read == 0 && written == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        piece.truncate(filled);
        piece.shrink_to_fit();
        Ok(piece.into())
    }

    /// Checks that the body is complete.
    ///
    /// # Errors
    ///
    /// It is cut short.
    pub fn finish(&self) -> io::Result<()> {
        match self.is_complete {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Decompresses a piece of an answer; `end`: it is the last.
    ///
    /// # Errors
    ///
    /// The data is corrupt or cut short, or the piece expands beyond 4 MiB.
    pub fn unpack(&mut self, mut packed: Bytes, end: bool) -> io::Result<Bytes> {
        const MOST: usize = 4 * 1024 * 1024;
        let mut whole = Vec::new();
        loop {
            let piece = self.step(&mut packed)?;
            if whole.len().saturating_add(piece.len()) > MOST {
                return Err(io::Error::other("the unpacked answer is too large"));
            }
            whole.extend_from_slice(&piece);
            if packed.is_empty() && piece.len() < PIECE {
                break;
            }
        }
        if end {
            self.finish()?;
        }
        Ok(whole.into())
    }

    /// Decompresses into `room`, and returns how many bytes were read and written.
    fn run(&mut self, packed: &[u8], room: &mut [u8]) -> io::Result<(usize, usize)> {
        match &mut self.decoder {
            Kind::Zlib(decoder) => {
                let (read, written) = (decoder.total_in(), decoder.total_out());
                let status = decoder.decompress(packed, room, FlushDecompress::None)?;
                self.is_complete = status == Status::StreamEnd;
                let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
                Ok((
                    size(decoder.total_in().saturating_sub(read)),
                    size(decoder.total_out().saturating_sub(written)),
                ))
            }
            Kind::Zstd { decoder, begun } => {
                check_magic(packed, begun)?;
                let status = decoder.run_on_buffers(packed, room)?;
                self.is_complete = status.remaining == 0;
                Ok((status.bytes_read, status.bytes_written))
            }
        }
    }
}

/// Refuses older formats of Zstandard, which the library also knows: they have no limit for the window.
fn check_magic(packed: &[u8], begun: &mut usize) -> io::Result<()> {
    const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    let rest = MAGIC.get(*begun..).unwrap_or_default();
    let come = rest.len().min(packed.len());
    if packed.get(..come) != rest.get(..come) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    *begun = begun.saturating_add(come);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{
        Compression,
        write::{GzEncoder, ZlibEncoder},
    };
    use http::HeaderValue;
    use std::io::Write;

    fn packed(coding: Coding, data: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
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
        unpacker.finish()?;
        Ok((out, largest))
    }

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Deflate, Coding::Zstd];

    #[test]
    fn a_compressed_body_comes_out_whole_however_it_is_cut() {
        let text: String = (0..40_000).map(|n| format!("{n}, ")).collect();
        for coding in ALL {
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
        for coding in ALL {
            let data = packed(coding, &zeros);
            let (out, largest) = unpacked(coding, &data, usize::MAX).unwrap();
            assert_eq!(out.len(), zeros.len());
            assert!(largest <= PIECE, "{coding:?}: {largest}");
        }
    }

    #[test]
    fn torn_changed_and_continued_data_are_faults() {
        let text = b"{\"model\":\"m\"}".repeat(100);
        for coding in ALL {
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
    fn an_answer_in_single_bytes_comes_out_whole() {
        let data = b"data: {\"choices\":[]}\n\n".repeat(50);
        for coding in ALL {
            let mut unpacker = Unpacker::new(coding).unwrap();
            let mut out = Vec::new();
            for byte in packed(coding, &data) {
                let byte = Bytes::copy_from_slice(&[byte]);
                out.extend_from_slice(&unpacker.unpack(byte, false).unwrap());
            }
            out.extend_from_slice(&unpacker.unpack(Bytes::new(), true).unwrap());
            assert!(out == data, "{coding:?}");
        }
    }

    #[test]
    fn a_bomb_and_a_torn_answer_are_errors() {
        let unpack = |data: Vec<u8>| {
            let mut unpacker = Unpacker::new(Coding::Gzip).unwrap();
            unpacker.unpack(data.into(), true)
        };
        let most = vec![b'x'; 4 << 20];
        assert!(unpack(packed(Coding::Gzip, &most)).unwrap() == most);
        let bomb = [&most[..], b"x"].concat();
        assert!(unpack(packed(Coding::Gzip, &bomb)).is_err());
        let mut torn = packed(Coding::Gzip, b"hello");
        torn.truncate(torn.len() - 6);
        assert!(unpack(torn).is_err());
    }

    #[test]
    fn each_coding_is_recognised() {
        let of = |values: &[&'static str]| {
            let values = values.iter().map(|it| HeaderValue::from_static(it));
            let headers = values.map(|it| (CONTENT_ENCODING, it)).collect();
            Coding::of(&headers, Coding::OF_REQUESTS)
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["identity", ""]), Ok(None));
        assert_eq!(of(&["GZIP"]), Ok(Some(Coding::Gzip)));
        assert_eq!(of(&["identity, zstd"]), Ok(Some(Coding::Zstd)));
        for other in ["br", "deflate", "gzip, zstd", "gzip, gzip"] {
            assert_eq!(of(&[other]), Err(UnknownCoding), "{other}");
        }
        assert_eq!(of(&["gzip", "zstd"]), Err(UnknownCoding));
        let deflate = HeaderValue::from_static("deflate");
        let headers = [(CONTENT_ENCODING, deflate)].into_iter().collect();
        let found = Coding::of(&headers, Coding::OF_ANSWERS);
        assert_eq!(found, Ok(Some(Coding::Deflate)));
    }
}
