//! Limits the rate of HTTP/2 frames that cost work but carry no data: pings, settings, priorities, resets
//! (CVE-2023-44487), continuations and empty data.
//!
//! The `h2` library limits the memory for such frames. Reads only the nine bytes of each frame header (RFC 9113,
//! section 4.1).

use std::time::Instant;

/// The initial and the largest allowance of a connection: a thousand such frames.
const MOST_UNITS: i64 = 10_000;
/// The allowance that returns per second: a hundred frames.
const UNITS_A_SECOND: i64 = 1_000;
/// The cost of one such frame.
const IDLE_FRAME: i64 = 10;
/// The cost of a frame that opens a stream or makes room for data.
const BUSY_FRAME: i64 = 1;
/// A client that reads much sends many window updates.
const BYTES_SENT_A_UNIT: u64 = 1024;
/// The connection preface of a client (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADER: usize = 9;

/// The allowance of a connection.
#[derive(Debug)]
pub(super) struct FrameBudget {
    units: i64,
    filled: Instant,
    /// Bytes to skip: the preface, then payloads.
    skip: usize,
    header: [u8; HEADER],
    known: usize,
    is_spent: bool,
}

impl FrameBudget {
    /// For a connection whose preface was not forwarded yet.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            units: MOST_UNITS,
            filled: now,
            skip: PREFACE.len(),
            header: [0; HEADER],
            known: 0,
            is_spent: false,
        }
    }

    /// Reads received bytes. `Some(n)`: only the first `n` bytes, which end a frame, may be forwarded.
    pub(super) fn look(&mut self, bytes: &[u8], now: Instant) -> Option<usize> {
        self.fill(now);
        let mut at: usize = 0;
        while at < bytes.len() {
            if self.skip > 0 {
                let part = self.skip.min(bytes.len().saturating_sub(at));
                self.skip = self.skip.saturating_sub(part);
                at = at.saturating_add(part);
            } else if self.is_spent && self.known == 0 {
                return Some(at);
            } else {
                if let (Some(place), Some(byte)) = (self.header.get_mut(self.known), bytes.get(at))
                {
                    *place = *byte;
                }
                self.known = self.known.saturating_add(1);
                at = at.saturating_add(1);
                if self.known == HEADER {
                    self.known = 0;
                    self.charge();
                }
            }
        }
        (self.is_spent && self.skip == 0 && self.known == 0).then_some(at)
    }

    /// A client that receives much may acknowledge much.
    pub(super) fn sent(&mut self, bytes: usize) {
        let earned = (bytes as u64).div_euclid(BYTES_SENT_A_UNIT);
        self.earn(i64::try_from(earned).unwrap_or(MOST_UNITS));
    }

    fn charge(&mut self) {
        let [a, b, c, kind, flags, ..] = self.header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.skip = length;
        self.units = self.units.saturating_sub(cost(kind, flags, length));
        self.is_spent = self.units < 0;
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_millis();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        let earned = passed.saturating_mul(UNITS_A_SECOND).div_euclid(1000);
        if earned > 0 {
            self.filled = now;
            self.earn(earned);
        }
    }

    fn earn(&mut self, units: i64) {
        self.units = self.units.saturating_add(units).min(MOST_UNITS);
    }
}

/// The types of RFC 9113, section 6.
fn cost(kind: u8, flags: u8, length: usize) -> i64 {
    const END_STREAM: u8 = 1;
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const WINDOW_UPDATE: u8 = 8;
    match kind {
        DATA if length > 0 || flags & END_STREAM != 0 => 0,
        HEADERS | WINDOW_UPDATE => BUSY_FRAME,
        _ => IDLE_FRAME,
    }
}

/// A head that continues without end, which the `h2` library answers with `GOAWAY` and `ENHANCE_YOUR_CALM`. It
/// replaces the client's next frame and ends its connection with an error code.
pub(super) fn last_frames() -> Vec<u8> {
    /// More than a head of 16 MiB, the largest that a setting allows, may have.
    const CONTINUATIONS: usize = 2_048;
    const HEADERS: [u8; HEADER] = [0, 0, 0, 1, 0, 0, 0, 0, 1];
    const CONTINUATION: [u8; HEADER] = [0, 0, 0, 9, 0, 0, 0, 0, 1];
    let mut frames = HEADERS.to_vec();
    frames.extend(std::iter::repeat_n(CONTINUATION, CONTINUATIONS).flatten());
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PING: u8 = 6;
    const DATA: u8 = 0;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let size = u8::try_from(length).unwrap();
        let mut frame = vec![0, 0, size, kind, flags, 0, 0, 0, 1];
        frame.resize(HEADER + length, b'x');
        frame
    }

    /// How many of the frames pass, when they are sent in pieces of `size`.
    fn passing(frames: &[Vec<u8>], size: usize) -> usize {
        let now = Instant::now();
        let mut budget = FrameBudget::new(now);
        assert_eq!(budget.look(PREFACE, now), None);
        let bytes = frames.concat();
        let mut passed = 0;
        for piece in bytes.chunks(size) {
            if let Some(some) = budget.look(piece, now) {
                passed += some;
                break;
            }
            passed += piece.len();
        }
        let each = frames[0].len();
        assert_eq!(passed % each, 0, "a frame was cut");
        passed / each
    }

    #[test]
    fn a_flood_ends_between_two_frames_however_it_is_cut() {
        for (kind, flags, length) in [(PING, 0, 8), (4, 0, 0), (3, 0, 4), (DATA, 0, 0), (9, 0, 5)] {
            let flood = vec![frame(kind, flags, length); 2000];
            for size in [1, 7, 9, 100, 1 << 20] {
                assert_eq!(
                    passing(&flood, size),
                    1001,
                    "type {kind} in pieces of {size}"
                );
            }
        }
    }

    #[test]
    fn frames_that_move_something_are_free_or_nearly_so() {
        assert_eq!(passing(&vec![frame(DATA, 0, 1); 50_000], 4096), 50_000);
        assert_eq!(passing(&vec![frame(DATA, 1, 0); 50_000], 4096), 50_000);
        assert_eq!(passing(&vec![frame(8, 0, 4); 9_000], 4096), 9_000);
    }

    #[test]
    fn time_and_what_is_sent_fill_the_allowance_again() {
        let mut now = Instant::now();
        let mut budget = FrameBudget::new(now);
        let ping = frame(PING, 0, 8);
        assert_eq!(budget.look(PREFACE, now), None);
        for _ in 0..20_000 {
            now += Duration::from_millis(10);
            assert_eq!(budget.look(&ping, now), None);
        }
        for _ in 0..20_000 {
            budget.sent(10 * 1024);
            assert_eq!(budget.look(&ping, now), None);
        }
    }
}
