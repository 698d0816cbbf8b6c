//! A sample of a text that comes in pieces: short runs of it, spread over all that came.
//!
//! The first KiB is kept whole. Beyond it one run is kept of each stretch of the text, at a
//! place in it that no caller knows beforehand; when there is no room, every other run is
//! dropped and the stretches double. So it takes constant memory, and most of a long text is
//! only counted.

use crate::json::unescape;
use std::hash::{BuildHasher, RandomState};

/// Runs that are kept.
const RUNS: usize = 16;
/// Bytes of a run, as they were written.
const RUN: usize = 64;

/// The sample of one text.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The runs, of which all but the last are full.
    kept: Vec<u8>,
    /// Bytes of the text so far.
    seen: u64,
    /// Where the run at hand begins, or the next one.
    next: u64,
    /// So many runs of a text are passed over for one that is kept, as a power of two.
    thinned: u32,
    random: u64,
}

impl Sample {
    /// Adds the source of a piece of text.
    #[inline]
    pub(crate) fn push(&mut self, source: &[u8]) {
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

    /// What the runs mean, one behind the other. Where they do not adjoin, each begins and ends
    /// with a whole word.
    pub(crate) fn text(&self) -> String {
        if self.thinned == 0 {
            return unescape(whole_characters(&self.kept), RUNS * RUN);
        }
        let runs = self.kept.chunks(RUN);
        runs.map(|run| unescape(whole_words(run), RUN)).collect()
    }
}

/// A run from its first space to its last, where there is more than one; else all of it, but for
/// halves of characters.
fn whole_words(run: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| *byte == b' ';
    let first = run.iter().position(is_space).unwrap_or_default();
    let last = run.iter().rposition(is_space).unwrap_or(run.len());
    if first < last && last < run.len() {
        return run.get(first..last).unwrap_or(run);
    }
    whole_characters(run)
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
