//! The contents of one transaction of the writer, and the time for which it gathers.

use super::Writer;
use crate::{entry::Entry, journal::Slot, ownership::Stored};
use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_types::KeyId;

/// How long settlements gather if a reader waits for them. Otherwise they gather until the next tick: the
/// more records a commit has, the less it costs per record (index pages, sync). They are safe meanwhile,
/// because the settlement file has them.
const GATHER: Duration = Duration::from_millis(20);
/// The most records of one transaction, which limits how long it locks the file. With a small settlement
/// file, a quarter of the slots.
const MAX_BATCH: usize = 2000;

/// A message to the writer.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are the large one, and a box would be freed by another thread"
)]
pub(in super::super) enum Command {
    /// A request has ended. Its record is in the slot.
    Settle(Slot, Entry),
    /// A provider has stored an item.
    Remember(Arc<Stored>),
    /// A request needs this key's account, or more of its tokens.
    Load(KeyId),
    /// The account of this key runs low: lease more with the next commit.
    Refill(KeyId),
    /// Other processes have made changes.
    Look,
    /// A reader needs all earlier settlements. Answered when they are committed.
    CatchUp(tokio::sync::oneshot::Sender<()>),
    /// Another process is about to serve the same keys: give it half of the tokens that no request
    /// reserves. Answered when the other process can lease them.
    GiveUpHalf(tokio::sync::oneshot::Sender<()>),
    /// This process ends: give the other processes the tokens that no request reserves.
    Retire,
    /// Commit everything and give all leases back. Answered when that is done.
    Close(std::sync::mpsc::SyncSender<bool>),
    /// Panics.
    #[cfg(test)]
    Panic,
}

impl Command {
    /// Whether a request waits for the answer.
    pub(in super::super) const fn is_urgent(&self) -> bool {
        matches!(
            self,
            Self::Load(_) | Self::Look | Self::GiveUpHalf(_) | Self::Close(_)
        )
    }
}

/// The changes of one transaction.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) settled: Vec<(Slot, Entry)>,
    pub(super) made: Vec<Arc<Stored>>,
    pub(super) loads: HashSet<KeyId>,
    pub(super) refills: HashSet<KeyId>,
    pub(super) readers: Vec<tokio::sync::oneshot::Sender<()>>,
    pub(super) sharing: Vec<tokio::sync::oneshot::Sender<()>>,
    pub(super) look: bool,
    pub(super) retire: bool,
    pub(super) close: Option<std::sync::mpsc::SyncSender<bool>>,
}

impl Batch {
    fn add(&mut self, command: Command) {
        match command {
            Command::Settle(slot, entry) => self.settled.push((slot, entry)),
            Command::Remember(stored) => self.made.push(stored),
            Command::Load(key) => {
                self.loads.insert(key);
            }
            Command::Refill(key) => {
                self.refills.insert(key);
            }
            Command::Look => self.look = true,
            Command::CatchUp(done) => self.readers.push(done),
            Command::GiveUpHalf(done) => self.sharing.push(done),
            Command::Retire => self.retire = true,
            Command::Close(done) => self.close = Some(done),
            #[cfg(test)]
            Command::Panic => panic!("as a test has requested"),
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.settled.iter().map(|(_, entry)| entry)
    }

    fn is_urgent(&self) -> bool {
        let is_waited_for = !self.loads.is_empty() || !self.sharing.is_empty();
        is_waited_for || self.look || self.close.is_some()
    }

    /// Whether a reader waits, or another process can get a request for a stored item.
    fn is_waited_for(&self) -> bool {
        !self.readers.is_empty() || !self.made.is_empty()
    }

    /// Whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        let nothing = self.settled.is_empty() && self.made.is_empty() && self.loads.is_empty();
        nothing && self.refills.is_empty() && self.close.is_none()
    }

    fn len(&self) -> usize {
        let all = [
            self.settled.len(),
            self.made.len(),
            self.loads.len(),
            self.refills.len(),
        ];
        all.into_iter().fold(0, usize::saturating_add)
    }
}

impl Writer {
    /// Gathers a batch that begins with a message.
    pub(super) fn gather(&mut self, first: Command, next_tick: Instant) -> Batch {
        let mut batch = Batch {
            settled: std::mem::take(&mut self.room),
            ..Batch::default()
        };
        batch.add(first);
        let most = MAX_BATCH.min(self.shared.journal.slots() / 4);
        let now = Instant::now();
        let early = now.checked_add(GATHER).unwrap_or(now);
        self.commands.gather(|come| {
            let room = most.saturating_sub(batch.len());
            come.take(room).for_each(|command| batch.add(command));
            if batch.is_urgent() || batch.len() >= most {
                None
            } else if batch.is_waited_for() || self.shared.journal.is_scarce() {
                Some(early)
            } else {
                Some(early.max(next_tick))
            }
        });
        batch
    }
}
