//! The words that say something about what is asked for.
//!
//! English, and the keywords of common programming languages: whoever asks in another
//! language is judged by everything else. Each word is at most 16 letters long.

use std::sync::LazyLock;

/// What a word tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    Math,
    Hard,
    Easy,
}

const CODE: &str = "async await bool boolean callback cargo classname compile compiler config const \
    const_cast cpp css def docker elif endpoint enum exec extends func git goto html http https impl \
    implements init int interface java javascript json kubernetes lambda localhost malloc mut \
    mutex namespace npm nullptr null pip println printf priv proc pub python react regex \
    refactor rust segfault sizeof sql stacktrace stderr stdin stdout str struct sudo \
    switch traceback typedef typename typescript undefined unittest unsigned usize vec void \
    webpack yaml";

const MATH: &str = "algebra algebraic antiderivative asymptotic bijection calculus coefficient combinatorics \
    conjecture convergence convex corollary cosine derivative determinant differentiable \
    differential divisible divisor eigenvalue eigenvalues eigenvector equation equations exponent \
    factorial geometry hypotenuse inequality integer integers integral invertible isomorphic lemma \
    limit linear logarithm manifold matrix matrices modulo orthogonal parabola permutation \
    permutations polygon polynomial prime primes probability quadratic rational \
    sine sqrt summation tangent tensor theorem topology triangle trigonometric variance vector vectors";

const HARD: &str = "analyse analysis analyze architect architecture argue assess axiom benchmark bottleneck bug bugs \
    compare complexity concurrency concurrent consistency constraint constraints contradiction correctness counterexample critique crash \
    deadlock debug deduce derive design determine diagnose disprove distributed edge estimate \
    evaluate explain failing fault feasible fix formal implement implications infer \
    invariant invariants investigate justify leak migrate migration model optimal optimise optimize \
    performance plan proof propose prove race rationale reason reasoning reconcile \
    refactor rewrite robust root scalable security show simulate solve step strategy subtle synthesis \
    tradeoff tradeoffs transaction trade verify vulnerability why";

const EASY: &str = "abbreviation acronym alphabetical antonym bullet capital capitalize classify colour color \
    convert correct define definition email emoji extract format goodbye grammar greeting \
    hello hey hi joke keyword keywords label lowercase meaning mean name names paraphrase \
    plural poem pronounce proofread punctuation recipe rephrase rhyme sentence sentiment shorten \
    shorter slogan spell spelling subject suggest summarise summarize summary synonym synonyms tag tags thank \
    thanks title titles tldr tone translate translation tweet uppercase word";

/// Slots of the table; a power of two, and more than twice the words.
const SLOTS: usize = 1024;

/// Letters of the longest word, and one.
const LENGTHS: usize = 17;
/// Letters are told apart by their low bits, in either case.
const LETTERS: usize = 32;

/// The words, to be looked up.
#[derive(Debug)]
pub(super) struct Table {
    words: Box<[u128]>,
    kinds: Box<[Option<Kind>]>,
    /// By length and first letter: with which letters words end, a bit for each. Most words of a
    /// text are found to be none of these without a look at what is between.
    ends: [[u32; LETTERS]; LENGTHS],
}

/// The table, made at its first use.
pub(super) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(Table::new);
    &TABLE
}

/// Which of [`LETTERS`] a byte is.
fn letter(byte: u8) -> usize {
    usize::from(byte) & (LETTERS - 1)
}

/// A place to look for a word first.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half, and then as many of its bits as there are slots"
)]
const fn slot(packed: u128) -> usize {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let folded = (packed as u64) ^ ((packed >> 64) as u64).rotate_left(32);
    (folded.wrapping_mul(SPREAD) >> 32) as usize & (SLOTS - 1)
}

/// Packs a word as [`Table::kind`] wants it.
pub(super) const fn pack(packed: u128, letter: u8) -> u128 {
    packed << 8 | letter as u128
}

impl Table {
    fn new() -> Self {
        let mut table = Self {
            words: vec![0; SLOTS].into(),
            kinds: vec![None; SLOTS].into(),
            ends: [[0; LETTERS]; LENGTHS],
        };
        // Where a word stands in two lists, the first counts.
        for (list, kind) in [
            (HARD, Kind::Hard),
            (EASY, Kind::Easy),
            (MATH, Kind::Math),
            (CODE, Kind::Code),
        ] {
            for word in list.split_ascii_whitespace() {
                table.insert(word.bytes().fold(0, pack), kind);
                table.note_ends(word.as_bytes());
            }
        }
        table
    }

    fn insert(&mut self, packed: u128, kind: Kind) {
        let begin = slot(packed);
        for step in 0..SLOTS {
            let place = (begin + step) & (SLOTS - 1);
            let (Some(word), Some(known)) = (self.words.get_mut(place), self.kinds.get_mut(place))
            else {
                return;
            };
            if *word == packed {
                return;
            }
            if known.is_none() {
                *word = packed;
                *known = Some(kind);
                return;
            }
        }
    }

    fn note_ends(&mut self, word: &[u8]) {
        if let (Some(first), Some(last)) = (word.first(), word.last())
            && let Some(of_length) = self.ends.get_mut(word.len())
            && let Some(ends) = of_length.get_mut(letter(*first))
        {
            *ends |= 1 << letter(*last);
        }
    }

    /// Whether a word of ASCII letters, in either case, can be one of these: by its length, its
    /// first letter and its last.
    #[inline]
    pub(super) fn may_have(&self, word: &[u8]) -> bool {
        let (Some(first), Some(last)) = (word.first(), word.last()) else {
            return false;
        };
        let ends = self.ends.get(word.len());
        let ends = ends.and_then(|of_length| of_length.get(letter(*first)));
        ends.is_some_and(|ends| ends >> letter(*last) & 1 == 1)
    }

    /// What a word tells. `packed` has its lower-case letters from the most significant on, the
    /// last one lowest; a word of more than 16 has lost its first and is none of these.
    #[inline]
    pub(super) fn kind(&self, packed: u128) -> Option<Kind> {
        let begin = slot(packed);
        // Ends at the first empty slot; there are more of these than words.
        for step in 0..SLOTS {
            let place = (begin + step) & (SLOTS - 1);
            let kind = (*self.kinds.get(place)?)?;
            if self.words.get(place) == Some(&packed) {
                return Some(kind);
            }
        }
        None
    }
}
