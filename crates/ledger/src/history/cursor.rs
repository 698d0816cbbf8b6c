//! Positions in a key's history, in a form that callers can neither read nor make.
//!
//! A cursor is signed together with the key's id: another key's cursor is as wrong as
//! an invented one.

use crate::key::KeyHasher;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use tollgate_types::KeyId;

const VERSION: u8 = 1;
const POSITION_LEN: usize = 17;
const TAG_LEN: usize = 16;

/// A text that is no cursor of this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this key's history")]
pub struct InvalidCursor;

/// Between two records: by time, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) at: i64,
    pub(crate) number: i64,
}

impl Position {
    pub(super) fn to_cursor(self, key: &KeyId, hasher: &KeyHasher) -> String {
        let position = self.to_bytes();
        let mut cursor = position.to_vec();
        cursor.extend_from_slice(&tag(key, &position, hasher));
        URL_SAFE_NO_PAD.encode(cursor)
    }

    pub(super) fn from_cursor(
        text: &str,
        key: &KeyId,
        hasher: &KeyHasher,
    ) -> Result<Self, InvalidCursor> {
        // Longer ones are not even decoded.
        const TEXT_LEN: usize = (POSITION_LEN + TAG_LEN).div_ceil(3) * 4;
        if text.len() > TEXT_LEN {
            return Err(InvalidCursor);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
        let (position, given) = bytes
            .split_first_chunk::<POSITION_LEN>()
            .ok_or(InvalidCursor)?;
        // Timing reveals how many bytes of a tag were right. Forging one that way would take
        // a caller to records of its own key, which it may read anyway.
        if given != tag(key, position, hasher) {
            return Err(InvalidCursor);
        }
        Self::from_bytes(position).ok_or(InvalidCursor)
    }

    fn to_bytes(self) -> [u8; POSITION_LEN] {
        let mut bytes = [VERSION; POSITION_LEN];
        let (_, rest) = bytes.split_at_mut(1);
        let (at, number) = rest.split_at_mut(8);
        at.copy_from_slice(&self.at.to_be_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; POSITION_LEN]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (at, number) = rest.split_first_chunk::<8>()?;
        (*version == VERSION).then_some(Self {
            at: i64::from_be_bytes(*at),
            number: i64::from_be_bytes(number.try_into().ok()?),
        })
    }
}

fn tag(key: &KeyId, position: &[u8; POSITION_LEN], hasher: &KeyHasher) -> [u8; TAG_LEN] {
    let mut data = position.to_vec();
    data.extend_from_slice(key.as_str().as_bytes());
    let tag = hasher.tag(b"tollgate:cursor:", &data);
    let mut short = [0; TAG_LEN];
    short
        .iter_mut()
        .zip(tag.as_bytes())
        .for_each(|(short, long)| *short = *long);
    short
}
