//! The form of a key, and the hash that the database keeps of it.
//!
//! A key is `sk-`, 43 base62 characters of randomness (62^43 is more than 2^256)
//! and 6 base62 characters of checksum. The checksum catches typing errors and
//! lets the gateway refuse other texts without a look-up; it protects nothing.
//! CRC-32 detects every single wrong character and every swap of two
//! neighbours, and 62^6 holds its 32 bits.
//!
//! Stored is HMAC-SHA-256 of the key under a pepper from the configuration. A
//! slow password hash would protect short secrets; against 256 bits of randomness
//! there is nothing to try. A stolen database file alone does not even show
//! whether a leaked key belongs to it.
//!
//! Nothing here compares secrets byte by byte: a look-up goes by the keyed hash,
//! so its timing depends on a value that cannot be computed or steered
//! without the pepper.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

const MARK: &str = "sk-";
const RANDOM_CHARS: usize = 43;
const CHECKSUM_CHARS: usize = 6;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// An API key in clear: shown to its owner once, never stored, never logged.
///
/// `Debug` shows the prefix only; the memory is wiped when the value is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    /// Length of every key in bytes.
    pub const LEN: usize = MARK.len() + RANDOM_CHARS + CHECKSUM_CHARS;
    /// Length of the part that is kept for people to tell keys apart by: eight of
    /// the 43 random characters, which leaves 208 bits unknown.
    pub const PREFIX_LEN: usize = MARK.len() + 8;

    /// Makes a new key from the system's randomness.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut text = Zeroizing::new(String::with_capacity(Self::LEN));
        text.push_str(MARK);
        push_random(&mut text, RANDOM_CHARS)?;
        let checksum = checksum_chars(text.as_bytes());
        text.extend(checksum.iter().map(|byte| char::from(*byte)));
        Ok(Self(text))
    }

    /// Accepts a text that has the shape of a key and the right checksum.
    ///
    /// # Errors
    /// It has not. The error does not carry the text.
    pub fn parse(text: &str) -> Result<Self, MalformedKey> {
        check(text)?;
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// The whole key, for its owner's eyes.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The beginning of the key, safe to store and show.
    pub fn prefix(&self) -> &str {
        self.0.get(..Self::PREFIX_LEN).unwrap_or(MARK)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}…)", self.prefix())
    }
}

/// A text that cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedKey {
    /// It does not begin with `sk-`, has another length, or holds other characters.
    #[error("not of the form sk- and 49 letters and digits")]
    Shape,
    /// The checksum is not that of the rest: a character was lost or changed.
    #[error("the checksum does not match: a character was lost or changed")]
    Checksum,
}

/// Checks shape and checksum of a credential. Allocates nothing, whatever the text.
pub(crate) fn check(text: &str) -> Result<(), MalformedKey> {
    let body = text.strip_prefix(MARK).ok_or(MalformedKey::Shape)?;
    if text.len() != ApiKey::LEN || !body.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(MalformedKey::Shape);
    }
    let (signed, checksum) = text
        .split_at_checked(ApiKey::LEN - CHECKSUM_CHARS)
        .ok_or(MalformedKey::Shape)?;
    if checksum_chars(signed.as_bytes()).as_slice() != checksum.as_bytes() {
        return Err(MalformedKey::Checksum);
    }
    Ok(())
}

/// CRC-32 in six base62 digits, most significant first.
fn checksum_chars(signed: &[u8]) -> [u8; CHECKSUM_CHARS] {
    let mut rest = crc32fast::hash(signed);
    let mut digits = [b'0'; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = base62_digit(rest % 62);
        rest /= 62;
    }
    digits
}

fn base62_digit(value: u32) -> u8 {
    BASE62.get(value as usize).copied().unwrap_or(b'0')
}

/// The base62 character that stands for a byte; four of five bytes share theirs with three others.
pub(crate) fn digit_of(byte: u8) -> char {
    char::from(base62_digit(u32::from(byte) % 62))
}

/// Appends `count` base62 characters, each of the 62 equally likely.
pub(crate) fn push_random(text: &mut String, count: usize) -> Result<(), getrandom::Error> {
    let mut pool = Zeroizing::new([0_u8; 64]);
    let mut missing = count;
    while missing > 0 {
        getrandom::fill(pool.as_mut())?;
        // Six bits of each byte; 62 and 63 are thrown away rather than folded back,
        // which would make two characters more likely than the others.
        let fair = pool.iter().map(|byte| u32::from(byte & 63));
        for value in fair.filter(|value| *value < 62).take(missing) {
            text.push(char::from(base62_digit(value)));
            missing = missing.saturating_sub(1);
        }
    }
    Ok(())
}

/// The stored hash of a key: HMAC-SHA-256 under the pepper.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// The hash as the store keeps it.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Debug for KeyHash {
    /// Four bytes: enough to tell two apart in a log, too few to look anything up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "KeyHash({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// Hashes keys under the operator's pepper.
///
/// The keyed state is computed once; one hash copies it and runs SHA-256 over two
/// blocks, about half a microsecond, without allocating.
#[derive(Clone)]
pub struct KeyHasher(Hmac<Sha256>);

/// A pepper that protects nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pepper is empty: give a long random text that only the gateway knows")]
pub struct PepperError;

impl KeyHasher {
    /// Prepares hashing under `pepper`.
    ///
    /// # Errors
    /// The pepper is empty or white space.
    pub fn new(pepper: &[u8]) -> Result<Self, PepperError> {
        if pepper.trim_ascii().is_empty() {
            return Err(PepperError);
        }
        Hmac::new_from_slice(pepper)
            .map(Self)
            .map_err(|_| PepperError)
    }

    /// The hash of a well-formed key.
    pub fn hash(&self, key: &ApiKey) -> KeyHash {
        self.hash_text(key.expose())
    }

    pub(crate) fn hash_text(&self, text: &str) -> KeyHash {
        self.tag(b"", text.as_bytes())
    }

    /// A value by which a file remembers its pepper, so that a wrong one is noticed
    /// at start and not by every caller being refused. No key has this form.
    pub(crate) fn fingerprint(&self) -> KeyHash {
        self.tag(b"tollgate:", b"pepper")
    }

    pub(crate) fn tag(&self, domain: &[u8], data: &[u8]) -> KeyHash {
        let mut mac = self.0.clone();
        mac.update(domain);
        mac.update(data);
        KeyHash(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(…)")
    }
}

#[cfg(test)]
mod tests;
