//! The states of the slots of a settlement file: which of them have records that are not needed any
//! more, and may be emptied while others are written.

use std::sync::atomic::{AtomicU8, Ordering};

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlotState {
    /// It has no record.
    Empty,
    /// A record that is not in the database yet.
    Open,
    /// A record that is in the database.
    Spent,
    /// The same, and it was so when the file was last tidied.
    Old,
    /// It is being emptied.
    Emptying,
}

/// One for each slot.
pub(super) struct SlotStates(Box<[AtomicU8]>);

impl SlotStates {
    pub(super) fn of_empty(slots: u32) -> Self {
        let empty = |_| AtomicU8::new(SlotState::Empty as u8);
        Self((0..slots).map(empty).collect())
    }

    /// Sets the state of a slot, for its owner.
    pub(super) fn set(&self, slot: u32, state: SlotState) {
        let index = usize::try_from(slot).unwrap_or(usize::MAX);
        let Some(known) = self.0.get(index) else {
            return;
        };
        loop {
            let before = known.load(Ordering::Acquire);
            if before == SlotState::Emptying as u8 {
                // What is written now would be emptied. It takes no longer than a write.
                std::thread::yield_now();
            } else if exchange(known, before, state as u8) {
                return;
            }
        }
    }

    /// Has old slots emptied (`wipe` returns whether it succeeded), and makes spent slots old. To be called by
    /// one thread.
    pub(super) fn tidy(&self, wipe: impl Fn(u32) -> bool) {
        for (slot, state) in (0..).zip(&self.0) {
            if grow_old(state) {
                // A slot that could not be emptied is tried again.
                let next = if wipe(slot) {
                    SlotState::Empty
                } else {
                    SlotState::Old
                };
                state.store(next as u8, Ordering::Release);
            }
        }
    }
}

/// Makes a spent slot an old one, and an old one one to be emptied: `true`.
fn grow_old(state: &AtomicU8) -> bool {
    let now = state.load(Ordering::Relaxed);
    if now == SlotState::Spent as u8 {
        // Its owner may be writing: then it is not spent any more.
        let _ = exchange(state, now, SlotState::Old as u8);
    }
    now == SlotState::Old as u8 && exchange(state, now, SlotState::Emptying as u8)
}

/// Changes a state, unless it is another one meanwhile.
fn exchange(state: &AtomicU8, from: u8, to: u8) -> bool {
    state
        .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}
