//! Records that are longer than a slot: cut into parts, each in a slot of its own, and joined again. A
//! record is whole only with all of its parts. Each part names its request, so that the rest of a
//! record that was entered is recognized.

use super::{
    frame::{HEADER_LEN, SLOT_LEN},
    leftover::LostSlot,
};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};
use tollgate_types::RequestId;

/// The first bytes of a slot with a part.
pub(super) const MARK: [u8; 4] = *b"TOL4";
/// The length of the head of a part: identity of the record, number of the part, number of parts.
const PART_LEN: usize = 12;
/// After it, the request.
const NAME_LEN: usize = 30;
/// The bytes of a record in one slot.
const ROOM: usize = SLOT_LEN - HEADER_LEN - PART_LEN - NAME_LEN;
/// The longest record.
pub(super) const MOST_BYTES: usize = MOST_PARTS * ROOM;
const MOST_PARTS: usize = 8;

/// The number of slots for a record that does not fit into one.
pub(super) const fn parts(bytes: usize) -> usize {
    bytes.div_ceil(ROOM)
}

/// The longest record that is cut into so many parts.
pub(super) const fn room_in(parts: usize) -> usize {
    let parts = if parts < MOST_PARTS {
        parts
    } else {
        MOST_PARTS
    };
    parts.saturating_mul(ROOM)
}

/// The identity of a record, which its parts share: the first slot, the checksum and the length of
/// the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    first: [u8; 4],
    crc: [u8; 4],
    len: [u8; 2],
}

/// Writes the parts of a request's record one after the other; `first` is its first slot.
///
/// # Errors
/// The record is too long, or a part cannot be written.
pub(super) fn cut(
    first: u32,
    request: RequestId,
    record: &[u8],
    mut put: impl FnMut(&dyn Fn(&mut &mut [u8]) -> io::Result<()>) -> io::Result<()>,
) -> io::Result<()> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let count = u8::try_from(parts(record.len())).map_err(too_long)?;
    let crc = crc32fast::hash(record).to_le_bytes();
    let len = u16::try_from(record.len()).map_err(too_long)?;
    for (index, bytes) in (0..count).zip(record.chunks(ROOM)) {
        put(&|out| {
            out.write_all(&first.to_le_bytes())?;
            out.write_all(&crc)?;
            out.write_all(&len.to_le_bytes())?;
            out.write_all(&[index, count])?;
            out.write_all(request.as_str().as_bytes())?;
            out.write_all(bytes)
        })?;
    }
    Ok(())
}

/// Parts that were found, with the slots that they were found in.
#[derive(Default)]
pub(super) struct Parts(BTreeMap<Record, Vec<Part>>);

struct Part {
    index: u8,
    count: u8,
    bytes: Vec<u8>,
    slot: LostSlot,
}

impl Parts {
    /// Adds a part. `false` if the bytes are not a part.
    pub(super) fn take(&mut self, part: &[u8], slot: &[u8]) -> bool {
        let Some((header, rest)) = part.split_first_chunk::<PART_LEN>() else {
            return false;
        };
        let Some((name, bytes)) = rest.split_first_chunk::<NAME_LEN>() else {
            return false;
        };
        let name = std::str::from_utf8(name).ok();
        let request = name.and_then(RequestId::from_text);
        let [f0, f1, f2, f3, c0, c1, c2, c3, l0, l1, index, count] = *header;
        let of = Record {
            first: [f0, f1, f2, f3],
            crc: [c0, c1, c2, c3],
            len: [l0, l1],
        };
        self.0.entry(of).or_default().push(Part {
            index,
            count,
            bytes: bytes.to_vec(),
            slot: LostSlot {
                bytes: slot.to_vec(),
                request,
            },
        });
        true
    }

    /// The records that are whole, and the slots of those that are not.
    pub(super) fn join(self) -> (Vec<Vec<u8>>, Vec<LostSlot>) {
        let (mut whole, mut torn) = (Vec::new(), Vec::new());
        for (of, mut parts) in self.0 {
            parts.sort_unstable_by_key(|part| part.index);
            let indices = parts.iter().map(|part| usize::from(part.index));
            let is_whole = indices.eq(0..parts.len())
                && parts
                    .iter()
                    .all(|part| usize::from(part.count) == parts.len());
            let record: Vec<u8> = parts.iter().flat_map(|part| &part.bytes).copied().collect();
            if is_whole
                && record.len() == usize::from(u16::from_le_bytes(of.len))
                && crc32fast::hash(&record).to_le_bytes() == of.crc
            {
                whole.push(record);
            } else {
                torn.extend(parts.into_iter().map(|part| part.slot));
            }
        }
        (whole, torn)
    }
}
