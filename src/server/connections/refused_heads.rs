//! Notices request heads that the `h2` library refuses. Pingora does not learn of them: the library
//! resets their streams with `PROTOCOL_ERROR`, and answers 431 before that if a head is too large.
//!
//! Only the frames that the gateway sends show it (RFC 9113, sections 4.1 and 6.4). The head itself is
//! compressed and gone, so its path stays unknown.

use super::head::Reason;

const HEADER: usize = 9;
/// The header of a frame and the error code of a `RST_STREAM`.
const RESET: usize = HEADER + 4;

/// Reads the frames that one connection sends.
#[derive(Debug, Default)]
pub(super) struct RefusedHeads {
    /// Bytes of the current payload that are still to come.
    skip: usize,
    frame: [u8; RESET],
    known: usize,
    /// The stream of the last `HEADERS`.
    answered: u32,
}

impl RefusedHeads {
    /// Reads bytes that were sent. Calls `refused` for each head that was refused.
    ///
    /// `newest_body` is the newest stream on which the client has sent a part of a body. The library has
    /// accepted the heads of this stream and of those before it; their resets are for their bodies.
    pub(super) fn sent(&mut self, bytes: &[u8], newest_body: u32, mut refused: impl FnMut(Reason)) {
        let mut rest = bytes;
        loop {
            let payload = self.skip.min(rest.len());
            self.skip = self.skip.saturating_sub(payload);
            rest = rest.get(payload..).unwrap_or_default();
            let Some((byte, behind)) = rest.split_first() else {
                return;
            };
            rest = behind;
            if let Some(place) = self.frame.get_mut(self.known) {
                *place = *byte;
            }
            self.known = self.known.saturating_add(1);
            let Some((stream, code)) = self.read_frame() else {
                continue;
            };
            if code == PROTOCOL_ERROR && stream > newest_body {
                refused(match stream == self.answered {
                    true => Reason::TooLarge,
                    false => Reason::Malformed,
                });
            }
        }
    }

    /// Reads the frame of which `known` bytes have come. Returns the stream and the error code of a
    /// `RST_STREAM`.
    fn read_frame(&mut self) -> Option<(u32, u32)> {
        const HEADERS: u8 = 1;
        const RST_STREAM: u8 = 3;
        let [a, b, c, kind, _, d, e, f, g, code @ ..] = self.frame;
        let stream = stream(d, e, f, g);
        match (kind, self.known) {
            (RST_STREAM, RESET) => {
                self.known = 0;
                Some((stream, u32::from_be_bytes(code)))
            }
            (RST_STREAM, _) => None,
            (kind, HEADER) => {
                self.known = 0;
                self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                if kind == HEADERS {
                    self.answered = stream;
                }
                None
            }
            _ => None,
        }
    }
}

/// The error code of a stream whose head or body is malformed (RFC 9113, section 7).
const PROTOCOL_ERROR: u32 = 1;

/// The number of a stream by its four bytes; the first bit is reserved.
pub(super) const fn stream(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a & 0x7f, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let size = u8::try_from(payload.len()).unwrap();
        let mut frame = vec![0, 0, size, kind, 0];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    #[test]
    fn a_refused_head_is_noticed_however_its_frames_are_cut() {
        const REFUSED_STREAM: u32 = 7;
        let reset = |stream, code: u32| frame(3, stream, &code.to_be_bytes());
        let sent = [
            frame(4, 0, &[]),
            frame(1, 1, b"head"),
            // What looks like a frame in a body is none.
            frame(0, 1, &reset(9, PROTOCOL_ERROR)),
            reset(1, 0),
            // The body of 3 is wrong, the head of 5 too large, that of 7 malformed.
            reset(3, PROTOCOL_ERROR),
            frame(1, 5, b"431"),
            reset(5, PROTOCOL_ERROR),
            reset(7, PROTOCOL_ERROR),
            reset(9, REFUSED_STREAM),
        ]
        .concat();
        for size in [1, 7, 9, 13, sent.len()] {
            let (mut heads, mut refused) = (RefusedHeads::default(), Vec::new());
            for piece in sent.chunks(size) {
                heads.sent(piece, 3, |reason| refused.push(reason));
            }
            let expected = [Reason::TooLarge, Reason::Malformed];
            assert_eq!(refused, expected, "in pieces of {size}");
        }
    }
}
