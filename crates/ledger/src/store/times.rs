//! The time of a record in the history.
//!
//! Pages of a history follow the time of records. A record that is entered later must have a later
//! time: then a cursor stays right, and a period that was read gets no new records. A record has the
//! time at which its request was settled, with two exceptions. If requests that were settled later
//! were entered before it, it has their time. If it was entered long afterwards (its process had
//! crashed, or the database could not be written), it has the time at which it was entered.

/// How much later a record may be entered and still have the time of its settlement, in
/// milliseconds. Settlements gather for a tenth of that.
const LATE_MS: u64 = 2_000;
/// How far behind the latest record the clock may be, in milliseconds: as far as the clocks of two
/// processes may differ. A time further ahead is that of a clock that was wrong.
const WRONG_MS: u64 = 60_000;

/// Whether a time on record is that of a clock that was wrong.
pub(super) const fn is_wrong(latest_ms: u64, now_ms: u64) -> bool {
    latest_ms > now_ms.saturating_add(WRONG_MS)
}

/// The time of a record that is entered at `now_ms` and whose request was settled at `settled_ms`. No record
/// that was entered before it has a later time than `floor_ms`.
pub(super) fn of_record(settled_ms: u64, now_ms: u64, floor_ms: u64) -> u64 {
    let in_time = now_ms.saturating_sub(LATE_MS)..=now_ms;
    let at = if in_time.contains(&settled_ms) {
        settled_ms
    } else {
        now_ms
    };
    at.max(floor_ms)
}
