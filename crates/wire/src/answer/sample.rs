//! A sample of a text that comes in pieces: short runs of it, spread over all that came.
//!
//! The first KiB is kept whole. Beyond it one run is kept of each stretch of the text, at a
//! place in it that no caller knows beforehand; when there is no room, every other run is
//! dropped and the stretches double. So it takes constant memory, and most of a long text is
//! only counted.
//!
//! Of repeated white space only the beginning is sampled, because a token can be as long as all of it. The
//! rest is added to the sample in proportion, so that a sample has the same share of it as the text.

use crate::json::unescape;
use memchr::memmem::Finder;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Runs that are kept.
const RUNS: usize = 16;
/// Bytes of a run, as they were written.
const RUN: usize = 64;
/// White space that can be repeated: skipped characters are counted by their place here.
const WHITE: [char; 4] = [' ', '\n', '\r', '\t'];
/// How often the same one is sampled in a row. The last space belongs to the word behind it.
const GAP: u64 = 2;
/// How far an end of a run moves to a space at most, in bytes: a word that is longer is cut.
const LONGEST_WORD: usize = 16;
/// Gaps of at least this many characters have a token of their own among what is added.
const LONG_GAP: u64 = 64;
/// White space that is added to a sample at most, in bytes.
const MOST_PADDING: u64 = 64 * 1024;

/// The sample of one text.
#[derive(Debug, Default)]
pub struct Sample {
    /// The runs, of which all but the last are full.
    kept: Vec<u8>,
    /// Bytes of the text so far, as they were written, without what is passed over of gaps.
    seen: u64,
    /// Characters that were passed over, of each of [`WHITE`].
    skipped: [u64; WHITE.len()],
    /// The gaps of which some were.
    gaps: u64,
    /// The last character, if it is white space, and how often it has come in a row.
    white: Option<usize>,
    gap: u64,
    /// The last byte was the first one of an escape.
    is_escaped: bool,
    /// That byte was not taken yet.
    is_held: bool,
    /// Where the run at hand begins, or the next one.
    next: u64,
    /// So many runs of a text are passed over for one that is kept, as a power of two.
    thinned: u32,
    random: u64,
}

impl Sample {
    /// A sample of a text of `length` bytes that is there as a whole, in these pieces. Only the runs are read; of
    /// repeated white space all counts.
    pub fn of_pieces<'p>(pieces: impl Iterator<Item = &'p [u8]>, length: u64) -> Self {
        let mut sample = Self::default();
        // One run fewer than there is room for: none is dropped again.
        let most = (RUNS as u64 - 1) * RUN as u64;
        while sample.thinned < 40 && most << sample.thinned < length {
            sample.thinned = sample.thinned.saturating_add(1);
        }
        if sample.thinned > 0 {
            sample.end_run();
        }
        for piece in pieces {
            sample.take(Some(piece));
        }
        sample
    }

    /// Adds the source of a piece of text.
    #[inline]
    pub(crate) fn push(&mut self, source: &[u8]) {
        // Most pieces have no gap. Of these, each byte of the end alone is looked at: the next one may go on with it.
        let is_plain = self.gap == 0 && !self.is_escaped && !has_gap(source);
        let inner = |byte: &u8| !matches!(byte, b' ' | b'\\' | b'n' | b'r' | b't');
        let end = source.iter().rposition(inner).filter(|_| is_plain);
        let (plain, rest) = source.split_at(end.map_or(0, |end| end + 1));
        if !plain.is_empty() {
            self.take(Some(plain));
            self.white = None;
        }
        self.push_with_gaps(rest);
    }

    fn push_with_gaps(&mut self, source: &[u8]) {
        let mut start = 0;
        for (at, byte) in source.iter().enumerate() {
            let white = match (std::mem::take(&mut self.is_escaped), byte) {
                (false, b'\\') => {
                    self.is_escaped = true;
                    if self.gap >= GAP {
                        self.take(source.get(start..at));
                        start = at + 1;
                        self.is_held = true;
                    }
                    continue;
                }
                (false, b' ') => Some(0),
                (true, b'n') => Some(1),
                (true, b'r') => Some(2),
                (true, b't') => Some(3),
                _ => None,
            };
            let is_held = std::mem::take(&mut self.is_held);
            let is_same = white.is_some() && white == self.white;
            let skipped = white.and_then(|white| self.skipped.get_mut(white));
            if let Some(skipped) = skipped.filter(|_| is_same && self.gap >= GAP) {
                *skipped = skipped.saturating_add(1);
                self.gaps = self.gaps.saturating_add((self.gap == GAP).into());
                self.take(source.get(start..at));
                start = at + 1;
            } else if is_held {
                self.take(Some(b"\\"));
            }
            self.gap = match is_same {
                true => self.gap.saturating_add(1),
                false => white.is_some().into(),
            };
            self.white = white;
        }
        self.take(source.get(start..));
    }

    /// Takes a part that is sampled.
    fn take(&mut self, source: Option<&[u8]>) {
        let source = source.unwrap_or_default();
        let end = self.seen.saturating_add(source.len() as u64);
        while self.next < end {
            let from = self.next.saturating_sub(self.seen);
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            self.keep(source.get(from..).unwrap_or_default());
        }
        self.seen = end;
    }

    /// Takes what the run at hand still lacks off the front of `source`, where `next` stands.
    fn keep(&mut self, source: &[u8]) {
        let room = match self.thinned {
            // All of the first runs are kept: they are taken as one.
            0 => (RUNS * RUN).saturating_sub(self.kept.len()),
            _ => RUN.saturating_sub(self.kept.len() % RUN),
        };
        let taken = source.get(..room).unwrap_or(source);
        self.kept.extend_from_slice(taken);
        self.next = self.next.saturating_add(taken.len() as u64);
        if taken.len() == room {
            self.end_run();
        }
    }

    /// Chooses where the next run begins.
    fn end_run(&mut self) {
        if self.kept.len() >= RUNS * RUN {
            self.thin();
        }
        let stretch = (RUN as u64) << self.thinned.min(40);
        let runs = (self.kept.len() / RUN) as u64;
        let spare = stretch.saturating_sub(RUN as u64);
        let within = match spare {
            0 => 0,
            spare => self.random() % spare,
        };
        self.next = runs
            .saturating_mul(stretch)
            .saturating_add(within)
            .max(self.next);
    }

    /// Drops one of each two runs, by chance.
    fn thin(&mut self) {
        self.thinned = self.thinned.saturating_add(1);
        let random = self.random();
        let mut kept = Vec::with_capacity(RUNS * RUN);
        for pair in self.kept.chunks(2 * RUN) {
            let (first, second) = pair.split_at_checked(RUN).unwrap_or((pair, &[]));
            let chance = random >> (kept.len() / RUN) & 1;
            kept.extend_from_slice(if chance == 0 { first } else { second });
        }
        self.kept = kept;
    }

    /// The next random number, of a seed that each sample draws when it first needs one.
    fn random(&mut self) -> u64 {
        if self.random == 0 {
            self.random = RandomState::new().hash_one(self.seen) | 1;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// What the runs mean, one behind the other, and the white space that was passed over for them.
    /// Where they do not adjoin, each begins and ends with a whole word, unless that is long.
    pub fn text(&self) -> String {
        let padding = |skipped: u64, taken: u64| {
            let padding = taken.saturating_mul(skipped) / self.seen.max(1);
            padding.min(MOST_PADDING)
        };
        let skipped = self.skipped.into_iter().fold(0, u64::saturating_add);
        let (mut text, mut taken) = (String::new(), 0_u64);
        let size = if self.thinned == 0 { RUNS * RUN } else { RUN };
        for run in self.kept.chunks(size) {
            if padding(skipped, taken) == MOST_PADDING {
                break;
            }
            let run = match self.thinned {
                0 => whole_characters(run),
                _ => whole_escapes(whole_characters(whole_words(run))),
            };
            taken = taken.saturating_add(run.len() as u64);
            text.push_str(&unescape(run, run.len()));
        }
        let gap = skipped / self.gaps.max(1);
        for (white, skipped) in WHITE.into_iter().zip(self.skipped) {
            let other = if white == ' ' { '\t' } else { ' ' };
            let ends_gap = |at: u64| gap >= LONG_GAP && at.is_multiple_of(gap);
            let padding = 1..=padding(skipped, taken);
            text.extend(padding.map(|at| if ends_gap(at) { other } else { white }));
        }
        text
    }
}

/// Whether one of [`WHITE`] stands more than [`GAP`] times in a row.
fn has_gap(source: &[u8]) -> bool {
    static GAPS: LazyLock<[Finder<'static>; WHITE.len()]> =
        LazyLock::new(|| ["   ", r"\n\n\n", r"\r\r\r", r"\t\t\t"].map(Finder::new));
    let has_escape = memchr::memchr(b'\\', source).is_some();
    let searched = if has_escape { WHITE.len() } else { 1 };
    GAPS.iter()
        .take(searched)
        .any(|gap| gap.find(source).is_some())
}

/// A run without the words that its ends cut, as far as a space is near.
fn whole_words(run: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| *byte == b' ';
    let first = run.iter().take(LONGEST_WORD).position(is_space);
    let last = run.iter().rev().take(LONGEST_WORD).position(is_space);
    let end = last.map_or(run.len(), |last| run.len().saturating_sub(last + 1));
    run.get(first.unwrap_or_default()..end).unwrap_or(run)
}

/// A run without the parts of escaped characters at its ends: they would be counted and yield no text.
fn whole_escapes(mut run: &[u8]) -> &[u8] {
    const LEN: usize = br"\u0000".len();
    const LOW: &[&[u8]] = &[br"\udc", br"\udd", br"\ude", br"\udf"];
    const HIGH: &[&[u8]] = &[br"\ud8", br"\ud9", br"\uda", br"\udb"];
    let is_rest = |part: &[u8]| part.iter().all(|it| it.is_ascii_hexdigit() || *it == b'u');
    if let Some(at) = run.iter().take(LEN).position(|byte| *byte == b'\\')
        && run.get(..at).is_some_and(is_rest)
    {
        run = run.get(at..).unwrap_or_default();
    }
    if LOW.iter().any(|it| run.starts_with(it)) {
        run = run.get(LEN..).unwrap_or_default();
    }
    let last = run
        .iter()
        .rev()
        .take(LEN - 1)
        .position(|byte| *byte == b'\\');
    if let Some((kept, cut)) = last.and_then(|at| run.split_at_checked(run.len() - at - 1))
        && br"\u".starts_with(cut.get(..2).unwrap_or(cut))
    {
        run = kept;
    }
    match run.split_at_checked(run.len().saturating_sub(LEN)) {
        Some((kept, last)) if HIGH.iter().any(|it| last.starts_with(it)) => kept,
        _ => run,
    }
}

/// A run without the halves of characters at its ends.
fn whole_characters(run: &[u8]) -> &[u8] {
    let is_first = |byte: &u8| byte & 0xc0 != 0x80;
    let start = run.iter().position(is_first).unwrap_or(run.len());
    let run = run.get(start..).unwrap_or_default();
    match std::str::from_utf8(run) {
        Ok(_) => run,
        Err(error) => run.get(..error.valid_up_to()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
