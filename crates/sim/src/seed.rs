//! Numbers and identifiers that follow from the request alone, so that the same
//! request gets the same answer, byte for byte.
//!
//! The hash is FNV-1a and the generator SplitMix64: both are fixed for ever, unlike
//! the standard library's hasher, and neither protects anything.

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const HEX: &[u8; 16] = b"0123456789abcdef";
/// How many characters of a sealed blob prove the others.
const PROOF: usize = 8;

/// The source of everything that is made up in one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        }))
    }

    /// A seed of its own for one thing in the answer: `fork("call", 1)`.
    pub(crate) fn fork(self, what: &str, index: usize) -> Self {
        let mut bytes = self.0.to_le_bytes().to_vec();
        bytes.extend_from_slice(what.as_bytes());
        bytes.extend_from_slice(&index.to_le_bytes());
        Self::of(&bytes)
    }

    pub(crate) fn number(self, below: u64) -> u64 {
        mix(self.0) % below.max(1)
    }

    /// `msg_` and 24 letters and digits, say.
    pub(crate) fn id(self, prefix: &str, length: usize) -> String {
        self.text(prefix, BASE62, length)
    }

    /// The same in hexadecimal digits.
    pub(crate) fn hex_id(self, prefix: &str, length: usize) -> String {
        self.text(prefix, HEX, length)
    }

    /// An opaque blob (a signature, encrypted reasoning) that [`is_sealed`] knows again.
    pub(crate) fn sealed(self, prefix: &str, length: usize) -> String {
        let open = self.id(prefix, length);
        let proof = Self::of(open.as_bytes()).id("", PROOF);
        open + &proof
    }

    fn text(self, prefix: &str, alphabet: &[u8], length: usize) -> String {
        let mut text = String::with_capacity(prefix.len() + length);
        text.push_str(prefix);
        let mut state = self.0;
        for _ in 0..length {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let at = usize::try_from(mix(state) % alphabet.len() as u64).unwrap_or_default();
            text.push(char::from(alphabet.get(at).copied().unwrap_or(b'0')));
        }
        text
    }
}

/// Whether [`Seed::sealed`] made this blob and it is unchanged.
pub(crate) fn is_sealed(prefix: &str, blob: &str) -> bool {
    let at = blob.len().saturating_sub(PROOF);
    blob.starts_with(prefix)
        && blob
            .split_at_checked(at)
            .is_some_and(|(open, proof)| Seed::of(open.as_bytes()).id("", PROOF) == proof)
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_give_the_same_identifier_for_ever() {
        assert_eq!(Seed::of(b"a").id("msg_", 8), Seed::of(b"a").id("msg_", 8));
        assert_ne!(Seed::of(b"a").id("msg_", 8), Seed::of(b"b").id("msg_", 8));
        assert_ne!(
            Seed::of(b"a").fork("call", 0),
            Seed::of(b"a").fork("call", 1)
        );
    }

    #[test]
    fn a_blob_with_one_letter_changed_is_not_ours() {
        let blob = Seed::of(b"a").sealed("Eq", 40);
        assert!(is_sealed("Eq", &blob));
        assert!(!is_sealed("Eq", &blob.replacen("Eq", "Er", 1)));
        assert!(!is_sealed("Eq", &format!("{blob}x")));
        assert!(!is_sealed("Eq", "Eq"));
        assert!(!is_sealed("Eq", "Eqéééééééééé"));
    }
}
