//! The record of one request: what is written ahead, what is kept as its history.

use crate::{
    balance::{GrantNumber, Piece},
    charge::{BillingState, CountSource},
};
use serde::{Deserialize, Serialize};
use std::io;
use tollgate_types::{ErrorCode, Format, Usage};

/// Names longer than this are cut, so that every record fits into its slot.
const MAX_MODEL_LEN: usize = 96;

/// Reasons for a choice are cut likewise.
const MAX_REASON_LEN: usize = 160;

/// One settled request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The request id: what makes a second settlement of one request nothing.
    pub(crate) request: String,
    /// The key's number in the file.
    pub(crate) key: i64,
    /// When it was settled, milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) asked: String,
    pub(crate) served: String,
    /// Why this model, where the service chose it. Records of older programs have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) format: Format,
    pub(crate) streamed: bool,
    pub(crate) status: u16,
    pub(crate) error: Option<ErrorCode>,
    pub(crate) state: BillingState,
    pub(crate) usage: Usage,
    pub(crate) source: CountSource,
    pub(crate) clamped: bool,
    /// What was paid, by grant.
    pub(crate) paid: Vec<(i64, u64)>,
    pub(crate) overdraft: u64,
    pub(crate) first_byte_ms: Option<u32>,
    pub(crate) duration_ms: u32,
}

impl Entry {
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.paid.iter().map(|(grant, tokens)| Piece {
            grant: GrantNumber(*grant),
            tokens: *tokens,
        })
    }

    /// The grant that paid all there was to pay, where it was one.
    pub(crate) fn paid_by_one(&self) -> Option<GrantNumber> {
        let mut paying = self.pieces().filter(|piece| piece.tokens > 0);
        match (paying.next(), paying.next()) {
            (Some(only), None) => Some(only.grant),
            _ => None,
        }
    }

    /// As it stands in the settlement file. JSON: a person who has to look into a file
    /// after a crash can read it, and it costs half a microsecond. Where there is no room for
    /// everything (many grants pay, all numbers are large), the reason is left out: no charge
    /// hangs on it.
    ///
    /// # Errors
    ///
    /// `out` has not the room.
    pub(crate) fn write_record(&self, out: &mut &mut [u8]) -> io::Result<()> {
        let room = std::mem::take(out);
        let written = match self.write_into(room) {
            Err(_) if self.reason.is_some() => {
                let mut short = self.clone();
                short.reason = None;
                short.write_into(room)?
            }
            written => written?,
        };
        *out = room.get_mut(written..).unwrap_or_default();
        Ok(())
    }

    /// How much of `room` it takes.
    fn write_into(&self, room: &mut [u8]) -> io::Result<usize> {
        let len = room.len();
        let mut left = room;
        serde_json::to_writer(&mut left, self)?;
        Ok(len.saturating_sub(left.len()))
    }

    /// The same, on its own.
    pub(crate) fn to_record(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    pub(crate) fn from_record(record: &[u8]) -> Option<Self> {
        serde_json::from_slice(record).ok()
    }
}

/// A model's name as it is kept: plain characters, of bounded length even when escaped.
pub(crate) fn kept_name(model: &str) -> String {
    kept(model, MAX_MODEL_LEN, |byte| byte.is_ascii_graphic())
}

/// A reason as it is kept, in the same way; it has blanks in it.
pub(crate) fn kept_reason(reason: &str) -> String {
    kept(reason, MAX_REASON_LEN, |byte| {
        byte.is_ascii_graphic() || byte == b' '
    })
}

fn kept(text: &str, most: usize, is_legal: fn(u8) -> bool) -> String {
    let is_plain = |byte: u8| is_legal(byte) && byte != b'"' && byte != b'\\';
    if text.len() <= most && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let plain = |c: char| match u8::try_from(c) {
        Ok(byte) if is_plain(byte) => c,
        _ => '?',
    };
    text.chars().map(plain).take(most).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::balance::MAX_PIECES;
    use crate::journal::MAX_RECORD;

    pub(crate) fn largest() -> Entry {
        Entry {
            request: "r".repeat(30),
            key: i64::MAX,
            at: u64::MAX,
            asked: kept_name(&"\"\u{1}é".repeat(100)),
            served: kept_name(&"m".repeat(500)),
            reason: Some(kept_reason(&"\\ é".repeat(100))),
            format: Format::Responses,
            streamed: false,
            status: u16::MAX,
            error: Some(ErrorCode::ContentPolicyViolation),
            state: BillingState::UpstreamFailed,
            usage: Usage {
                input: u64::MAX,
                cache_read: u64::MAX,
                cache_write: u64::MAX,
                output: u64::MAX,
                reasoning: u64::MAX,
            },
            source: CountSource::Estimated,
            clamped: false,
            // Numbers of ten billion grants, amounts of a quadrillion tokens.
            paid: vec![(9_999_999_999, 999_999_999_999_999); MAX_PIECES],
            overdraft: u64::MAX,
            first_byte_ms: Some(u32::MAX),
            duration_ms: u32::MAX,
        }
    }

    /// What comes back of an entry that was written into a slot, and its text.
    fn there_and_back(entry: &Entry) -> (Option<Entry>, String) {
        let mut slot = [0; MAX_RECORD];
        let mut left = &mut slot[..];
        entry.write_record(&mut left).expect("it fits");
        let unused = left.len();
        let record = &slot[..MAX_RECORD - unused];
        let text = String::from_utf8_lossy(record).into_owned();
        (Entry::from_record(record), text)
    }

    #[test]
    fn the_largest_record_fits_into_its_slot_and_comes_back_without_its_reason() {
        let entry = Entry {
            reason: None,
            ..largest()
        };
        assert_eq!(there_and_back(&largest()).0, Some(entry));
    }

    #[test]
    fn the_longest_reason_comes_back_where_few_grants_have_paid() {
        let mut entry = largest();
        entry.paid.truncate(2);
        let (back, text) = there_and_back(&entry);
        assert_eq!(back.as_ref(), Some(&entry), "{text}");
        // Who named a model pays nothing for it, and a record of an older program is read.
        entry.reason = None;
        let (back, text) = there_and_back(&entry);
        assert!(!text.contains("\"reason\""), "{text}");
        assert_eq!(back, Some(entry));
    }

    #[test]
    fn what_is_no_record_is_none() {
        assert_eq!(Entry::from_record(b"{}"), None);
        assert_eq!(Entry::from_record(b"\xff"), None);
    }
}
