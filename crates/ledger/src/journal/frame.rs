//! The bytes of a slot: mark, length, checksum, and the record.

use super::chain;
use std::io;

/// Bytes of a slot: an eighth of a page, so that no record crosses one and a sync has few pages
/// to write.
pub(super) const SLOT_LEN: usize = 512;
pub(super) const HEADER_LEN: usize = 12;
/// The longest record in one slot.
pub(crate) const MAX_RECORD: usize = SLOT_LEN - HEADER_LEN;
/// How a slot with a record begins.
pub(super) const MARK: [u8; 4] = *b"TOL2";

/// Mark, length, CRC-32 of the record, the record: as much of `frame` as that takes.
pub(super) fn framed(
    frame: &mut [u8; SLOT_LEN],
    mark: [u8; 4],
    record: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
) -> io::Result<&[u8]> {
    let (header, room) = frame
        .split_first_chunk_mut::<HEADER_LEN>()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut left = &mut *room;
    record(&mut left)?;
    let unused = left.len();
    let used = room.len().saturating_sub(unused);
    let written = room.get(..used).unwrap_or_default();
    let len = u32::try_from(used).map_err(|_| io::ErrorKind::InvalidInput)?;
    let crc = crc32fast::hash(written);
    let [m0, m1, m2, m3] = mark;
    let [l0, l1, l2, l3] = len.to_le_bytes();
    let [c0, c1, c2, c3] = crc.to_le_bytes();
    *header = [m0, m1, m2, m3, l0, l1, l2, l3, c0, c1, c2, c3];
    let end = HEADER_LEN.saturating_add(used);
    Ok(frame.get(..end).unwrap_or_default())
}

/// The contents of a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Contents<'a> {
    Nothing,
    Record(&'a [u8]),
    /// A part of a record that is longer than a slot.
    Part(&'a [u8]),
    Torn,
}

/// Reads a slot.
pub(super) fn unframe(slot: &[u8]) -> Contents<'_> {
    let Some((header, rest)) = slot.split_first_chunk::<HEADER_LEN>() else {
        let is_blank = slot.iter().all(|byte| *byte == 0);
        return if is_blank {
            Contents::Nothing
        } else {
            Contents::Torn
        };
    };
    let [m0, m1, m2, m3, l0, l1, l2, l3, c0, c1, c2, c3] = *header;
    let mark = [m0, m1, m2, m3];
    if ![MARK, chain::MARK].contains(&mark) {
        // A frame's first eight bytes are the last that come into a slot.
        return if header.starts_with(&[0; 8]) {
            Contents::Nothing
        } else {
            Contents::Torn
        };
    }
    let len = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    match rest.get(..len) {
        Some(record) if crc32fast::hash(record).to_le_bytes() == [c0, c1, c2, c3] => match mark {
            chain::MARK => Contents::Part(record),
            _ => Contents::Record(record),
        },
        _ => Contents::Torn,
    }
}
