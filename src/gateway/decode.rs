//! Decompresses an answer that a provider has compressed although the request does not accept that.
//!
//! Bounded: an answer that expands too much is refused.

use bytes::Bytes;
use flate2::write::{GzDecoder, ZlibDecoder};
use http::HeaderValue;
use std::io::{self, Write};

/// The most decompressed bytes of one piece.
const MOST_PER_PIECE: usize = 4 * 1024 * 1024;

/// Decodes one body, piece by piece.
pub struct Decoder(Kind);

enum Kind {
    Gzip(GzDecoder<Bounded>),
    Zlib(ZlibDecoder<Bounded>),
}

impl Decoder {
    /// The decoder for a `content-encoding`: `Some(None)` if the body is not encoded, `None` if the encoding
    /// is unknown.
    #[expect(
        clippy::option_option,
        reason = "no decoder needed differs from none known"
    )]
    pub fn for_encoding(encoding: Option<&HeaderValue>) -> Option<Option<Self>> {
        let Some(encoding) = encoding else {
            return Some(None);
        };
        let name = encoding.to_str().ok()?.trim().to_ascii_lowercase();
        Some(match name.as_str() {
            "" | "identity" => None,
            "gzip" | "x-gzip" => Some(Self(Kind::Gzip(GzDecoder::new(Bounded::default())))),
            "deflate" => Some(Self(Kind::Zlib(ZlibDecoder::new(Bounded::default())))),
            _ => return None,
        })
    }

    /// Decodes a piece; `end`: it is the last.
    ///
    /// # Errors
    ///
    /// The data is corrupt or cut short, or a piece expands beyond `MOST_PER_PIECE`.
    pub fn decode(&mut self, piece: &[u8], end: bool) -> io::Result<Bytes> {
        match &mut self.0 {
            Kind::Gzip(decoder) => {
                decoder.write_all(piece)?;
                if end {
                    decoder.try_finish()?
                } else {
                    decoder.flush()?
                }
                Ok(decoder.get_mut().take())
            }
            Kind::Zlib(decoder) => {
                decoder.write_all(piece)?;
                if end {
                    decoder.try_finish()?
                } else {
                    decoder.flush()?
                }
                Ok(decoder.get_mut().take())
            }
        }
    }
}

/// Collects what a decoder writes, up to the bound.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Bounded {
    fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.0).into()
    }
}

impl Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(piece.len()) > MOST_PER_PIECE {
            return Err(io::Error::other("the unpacked answer is too large"));
        }
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip_decoder() -> Decoder {
        Decoder::for_encoding(Some(&HeaderValue::from_static("gzip")))
            .unwrap()
            .unwrap()
    }

    #[test]
    fn gzip_in_single_bytes_comes_out_whole() {
        let data = b"data: {\"choices\":[]}\n\n".repeat(50);
        let packed = gzip(&data);
        let mut decoder = gzip_decoder();
        let mut out = Vec::new();
        for byte in &packed {
            out.extend_from_slice(&decoder.decode(&[*byte], false).unwrap());
        }
        out.extend_from_slice(&decoder.decode(&[], true).unwrap());
        assert_eq!(out, data);
    }

    #[test]
    fn a_bomb_and_a_torn_body_are_errors() {
        let bomb = gzip(&vec![b'x'; MOST_PER_PIECE + 1]);
        assert!(gzip_decoder().decode(&bomb, true).is_err());
        let torn = gzip(b"hello");
        assert!(
            gzip_decoder()
                .decode(&torn[..torn.len() - 6], true)
                .is_err()
        );
    }

    #[test]
    fn an_unknown_encoding_and_none_are_distinguished() {
        assert!(Decoder::for_encoding(None).is_some_and(|it| it.is_none()));
        assert!(Decoder::for_encoding(Some(&HeaderValue::from_static("br"))).is_none());
    }
}
