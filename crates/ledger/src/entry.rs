//! The record of one request: written ahead into the settlement file, then kept as history.

mod layout;

use crate::{
    balance::{GrantNumber, MAX_PIECES, Piece},
    charge::{BillingState, CountSource},
    journal,
};
use serde::{Serialize, Serializer};
use smallvec::SmallVec;
use std::{io, sync::Arc};
use tollgate_types::{
    ErrorCode, Format, MAX_MODEL_NAME_BYTES, Money, PerUnit, RequestId, Unit, Usage,
};

/// A store panics when it enters a request for this model.
#[cfg(test)]
pub(crate) const PANICS: &str = "panics";

/// A longer name, as a client can ask for under a pattern, is cut, so that every record fits into its slot.
const MAX_MODEL_LEN: usize = MAX_MODEL_NAME_BYTES + 1;

/// Reasons for a choice are cut likewise.
const MAX_REASON_LEN: usize = 160;

/// The length of the longest record without its pieces and its reason, in bytes.
const MOST_BYTES: usize = 165 + 2 * MAX_MODEL_LEN;
/// The most pieces: those of every unit.
const MOST_PIECES: usize = Unit::ALL.len() * MAX_PIECES;
/// The length of a piece, in bytes.
const PIECE_BYTES: usize = 16;

/// How many slots a record with so many pieces may need.
pub(crate) const fn slots_for(pieces: usize) -> usize {
    journal::slots_for(MOST_BYTES.saturating_add(pieces.saturating_mul(PIECE_BYTES)))
}

/// The pieces for which there is room in so many slots.
pub(crate) const fn pieces_in(slots: usize) -> usize {
    let room = journal::room_in(slots);
    let pieces = room.saturating_sub(MOST_BYTES) / PIECE_BYTES;
    if pieces < MOST_PIECES {
        pieces
    } else {
        MOST_PIECES
    }
}

/// From which grants a request is paid in one unit.
pub(crate) type Payments = SmallVec<[(i64, u64); 1]>;

/// One settled request, or how far one has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    /// The request id: a second settlement of the same request has no effect.
    #[serde(serialize_with = "request_id")]
    pub(crate) request: RequestId,
    /// The key's number in the database.
    pub(crate) key: i64,
    /// When it was settled, milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) asked: Arc<str>,
    pub(crate) served: Arc<str>,
    /// Why the gateway chose this model, if the request left the choice to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// `None`: the gateway forwarded it unread.
    pub(crate) format: Option<Format>,
    pub(crate) streamed: bool,
    pub(crate) status: u16,
    pub(crate) error: Option<ErrorCode>,
    pub(crate) state: BillingState,
    pub(crate) usage: Usage,
    pub(crate) source: CountSource,
    pub(crate) clamped: bool,
    /// The payments in tokens: number of the grant, tokens.
    pub(crate) paid: Payments,
    pub(crate) overdraft: u64,
    /// `None`: the prices were unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Money>,
    /// The payments in money: number of the grant, nano-units.
    #[serde(skip_serializing_if = "SmallVec::is_empty")]
    pub(crate) cost_paid: Payments,
    /// The part of the cost that no grant covered; `None` if the cost is not charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_overdraft: Option<Money>,
    pub(crate) first_byte_ms: Option<u32>,
    pub(crate) duration_ms: u32,
    /// The request has not ended: it is charged this if its process crashes. Its settlement replaces
    /// this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_progress: bool,
}

impl Entry {
    /// The payments of grants of this unit, without those that [`begun`](Self::begun) has.
    pub(crate) fn pieces(&self, unit: Unit) -> impl Iterator<Item = Piece> + '_ {
        let paid = match unit {
            Unit::Tokens => &self.paid,
            Unit::Money => &self.cost_paid,
        };
        let piece = |(grant, amount): &(i64, u64)| Piece {
            grant: GrantNumber(*grant),
            amount: *amount,
        };
        paid.iter().map(piece).filter(|piece| piece.amount > 0)
    }

    /// The payments of grants of all units.
    pub(crate) fn all_pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        Unit::ALL.into_iter().flat_map(|unit| self.pieces(unit))
    }

    /// The grant of each unit that pays; `None` if several do, or none.
    pub(crate) fn paid_by_one(&self) -> PerUnit<Option<GrantNumber>> {
        PerUnit::from_fn(|unit| {
            let mut paying = self.pieces(unit);
            match (paying.next(), paying.next()) {
                (Some(only), None) => Some(only.grant),
                _ => None,
            }
        })
    }

    /// The tokens that the request is charged, paid or not.
    pub(crate) fn charged(&self) -> u64 {
        let paid = self.paid.iter().map(|(_, tokens)| *tokens);
        paid.fold(self.overdraft, u64::saturating_add)
    }

    /// The part of the charge that grants do not pay.
    pub(crate) fn overdrafts(&self) -> PerUnit<u64> {
        PerUnit {
            tokens: self.overdraft,
            money: self.cost_overdraft.unwrap_or_default().nanos(),
        }
    }

    /// The grants whose validity the request has begun although none of their amount pays it.
    pub(crate) fn begun(&self) -> impl Iterator<Item = GrantNumber> + '_ {
        let paid = self.paid.iter().chain(&self.cost_paid);
        let begun = paid.filter(|(_, amount)| *amount == 0);
        begun.map(|(grant, _)| GrantNumber(*grant))
    }

    /// The part of the cost that grants pay.
    pub(crate) fn cost_paid(&self) -> u64 {
        let paid = self.cost_paid.iter().map(|(_, nanos)| *nanos);
        paid.fold(0, u64::saturating_add)
    }

    /// Writes it for the settlement file. If there is no room for everything (many grants pay, names are
    /// long), the reason is left out: no charge depends on it.
    ///
    /// # Errors
    ///
    /// `out` has not the room.
    pub(crate) fn write_record(&self, out: &mut &mut [u8]) -> io::Result<()> {
        let room = std::mem::take(out);
        let written = match self.write_into(room, self.reason.as_deref()) {
            Err(_) if self.reason.is_some() => self.write_into(room, None)?,
            written => written?,
        };
        *out = room.get_mut(written..).unwrap_or_default();
        Ok(())
    }

    /// How much of `room` it takes.
    fn write_into(&self, room: &mut [u8], reason: Option<&str>) -> io::Result<usize> {
        let len = room.len();
        let mut left = room;
        layout::write(self, reason, &mut left)?;
        Ok(len.saturating_sub(left.len()))
    }

    /// As JSON, so that the operator can see why it could not be entered.
    pub(crate) fn to_json(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    /// Reads a record of the settlement file.
    pub(crate) fn from_record(record: &[u8]) -> Option<Self> {
        layout::read(record)
    }
}

/// A request id in JSON.
fn request_id<S: Serializer>(id: &RequestId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(id.as_str())
}

/// A model's name as it is kept: plain characters, of bounded length.
pub(crate) fn kept_name(model: &Arc<str>) -> Arc<str> {
    let is_legal = |byte: u8| byte.is_ascii_graphic();
    match kept(model, MAX_MODEL_LEN, is_legal) {
        Some(kept) => kept.into(),
        None => Arc::clone(model),
    }
}

/// A reason as it is kept, in the same way; it has blanks in it.
pub(crate) fn kept_reason(reason: &str) -> String {
    let is_legal = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    kept(reason, MAX_REASON_LEN, is_legal).unwrap_or_else(|| reason.to_owned())
}

/// A text without illegal bytes and within its length; `None` if it fits as it is.
fn kept(text: &str, most: usize, is_legal: impl Fn(u8) -> bool) -> Option<String> {
    let is_plain = |byte: u8| is_legal(byte) && byte != b'"' && byte != b'\\';
    // Without a short circuit, so that the compiler can vectorize the loop.
    let is_kept = |all: bool, byte| all & is_plain(byte);
    if text.len() <= most && text.bytes().fold(true, is_kept) {
        return None;
    }
    let plain = |c: char| match u8::try_from(c) {
        Ok(byte) if is_plain(byte) => c,
        _ => '?',
    };
    Some(text.chars().map(plain).take(most).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::journal::MAX_RECORD;

    pub(crate) fn largest() -> Entry {
        Entry {
            request: RequestId::from_text(&"r".repeat(30)).expect("an id"),
            key: i64::MAX,
            at: u64::MAX,
            asked: kept_name(&"\"\u{1}é".repeat(100).into()),
            served: kept_name(&"m".repeat(500).into()),
            reason: Some(kept_reason(&"\\ é".repeat(100))),
            format: Some(Format::Responses),
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
            paid: vec![(9_999_999_999, 999_999_999_999_999); pieces_in(1)].into(),
            overdraft: u64::MAX,
            cost: Some(Money::from_nanos(u64::MAX)),
            cost_paid: Payments::new(),
            cost_overdraft: None,
            first_byte_ms: Some(u32::MAX),
            duration_ms: u32::MAX,
            is_progress: false,
        }
    }

    /// An entry as it is written into a slot.
    fn record(entry: &Entry) -> Vec<u8> {
        let mut slot = [0; MAX_RECORD];
        let mut left = &mut slot[..];
        entry.write_record(&mut left).expect("it fits");
        let unused = left.len();
        slot[..MAX_RECORD - unused].to_vec()
    }

    fn there_and_back(entry: &Entry) -> Option<Entry> {
        Entry::from_record(&record(entry))
    }

    #[test]
    fn the_largest_record_fits_into_its_slot_and_comes_back_without_its_reason() {
        let entry = Entry {
            reason: None,
            ..largest()
        };
        assert_eq!(there_and_back(&largest()), Some(entry));
    }

    #[test]
    fn there_is_room_for_all_pieces_in_the_slots_that_are_taken_for_them() {
        for pieces in 0..=MOST_PIECES {
            let entry = Entry {
                paid: vec![(i64::MAX, u64::MAX); pieces.min(MAX_PIECES)].into(),
                cost_paid: vec![(i64::MAX, 1); pieces.saturating_sub(MAX_PIECES)].into(),
                reason: None,
                ..largest()
            };
            let slots = slots_for(pieces);
            let mut room = vec![0; crate::journal::room_in(slots)];
            assert!(entry.write_record(&mut &mut room[..]).is_ok(), "{pieces}");
            assert!(pieces_in(slots) >= pieces, "{pieces} in {slots}");
        }
        assert_eq!((slots_for(8), slots_for(MAX_PIECES)), (1, 4));
        assert_eq!(slots_for(MOST_PIECES), 6);
    }

    #[test]
    fn the_longest_reason_comes_back_where_names_are_short_or_few_grants_have_paid() {
        let many = Entry {
            asked: "auto".into(),
            served: "m".repeat(32).into(),
            error: None,
            paid: largest().paid.iter().skip(1).copied().collect(),
            ..largest()
        };
        assert_eq!(there_and_back(&many).as_ref(), Some(&many));
        let long = Entry {
            asked: "auto".into(),
            paid: largest().paid.iter().take(4).copied().collect(),
            error: None,
            ..largest()
        };
        assert_eq!(there_and_back(&long).as_ref(), Some(&long));
    }

    #[test]
    fn a_whole_record_is_read_back_and_a_part_of_it_is_not() {
        for (place, state) in BillingState::ALL.into_iter().enumerate() {
            for format in Format::ALL.map(Some).into_iter().chain([None]) {
                for error in ErrorCode::ALL.iter().map(|code| Some(*code)).chain([None]) {
                    let entry = Entry {
                        asked: "asked".into(),
                        served: ["asked", "served"][place % 2].into(),
                        reason: (place == 2).then(|| "because".to_owned()),
                        format,
                        streamed: place % 2 == 0,
                        error,
                        state,
                        source: [CountSource::Reported, CountSource::Estimated][place % 2],
                        clamped: place % 2 == 1,
                        paid: vec![(1, 2); place].into(),
                        cost: error.map(|_| Money::ZERO),
                        cost_paid: vec![(3, 4); 2 * place % 3].into(),
                        cost_overdraft: error.map(|_| Money::from_nanos(5)),
                        first_byte_ms: error.map(|_| 0),
                        is_progress: place % 3 == 1,
                        ..largest()
                    };
                    let record = record(&entry);
                    assert_eq!(Entry::from_record(&record).as_ref(), Some(&entry));
                    for end in 0..record.len() {
                        assert_eq!(Entry::from_record(&record[..end]), None, "{entry:?} {end}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_record_is_shown_to_people_as_json() {
        let json = largest().to_json().expect("it is written");
        assert!(json.starts_with(br#"{"request":"rrr"#));
        assert_eq!(Entry::from_record(&json), None);
    }

    #[test]
    fn other_bytes_are_no_record() {
        for bytes in [&b"{}"[..], b"\xff", b"", b"\x01", &[1; 500], &[0xFF; 500]] {
            assert_eq!(Entry::from_record(bytes), None, "{bytes:?}");
        }
    }
}
