//! What the slots of a settlement file hold: which of them have records that nobody needs any
//! more, and may be emptied while others are written.

use std::sync::atomic::{AtomicU8, Ordering};

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Holds {
    Nothing,
    /// A record that is not in the database yet.
    Open,
    /// A record that is in the database.
    Spent,
    /// The same, and it was so when the file was last tidied.
    Old,
    /// What is being emptied.
    Zeros,
}

/// One for each slot.
pub(super) struct Marks(Box<[AtomicU8]>);

impl Marks {
    pub(super) fn of_empty(slots: u32) -> Self {
        let empty = |_| AtomicU8::new(Holds::Nothing as u8);
        Self((0..slots).map(empty).collect())
    }

    /// Says of a slot, for its owner, what it holds from here on.
    pub(super) fn set(&self, slot: u32, holds: Holds) {
        let place = usize::try_from(slot).unwrap_or(usize::MAX);
        let Some(mark) = self.0.get(place) else {
            return;
        };
        loop {
            let before = mark.load(Ordering::Acquire);
            if before == Holds::Zeros as u8 {
                // What is written now would be emptied. It takes no longer than a write.
                std::thread::yield_now();
            } else if exchange(mark, before, holds as u8) {
                return;
            }
        }
    }

    /// Has what is old emptied (`wipe` says whether it was), and takes for old what is spent. To be
    /// called by one thread.
    pub(super) fn tidy(&self, wipe: impl Fn(u32) -> bool) {
        for (slot, mark) in (0..).zip(&self.0) {
            if grow_old(mark) {
                // What could not be emptied is tried again.
                let holds = if wipe(slot) {
                    Holds::Nothing
                } else {
                    Holds::Old
                };
                mark.store(holds as u8, Ordering::Release);
            }
        }
    }
}

/// Takes a spent slot for an old one, and an old one to be emptied: `true`.
fn grow_old(mark: &AtomicU8) -> bool {
    let holds = mark.load(Ordering::Relaxed);
    if holds == Holds::Spent as u8 {
        // Its owner may be writing: then it is not spent any more.
        let _ = exchange(mark, holds, Holds::Old as u8);
    }
    holds == Holds::Old as u8 && exchange(mark, holds, Holds::Zeros as u8)
}

/// Changes a mark, unless it is another one meanwhile.
fn exchange(mark: &AtomicU8, from: u8, to: u8) -> bool {
    mark.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}
