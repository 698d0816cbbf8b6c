//! The messages from request threads to the writer: settlements gather without waking it.
//!
//! A channel whose receiver sleeps in it is woken by every message, which costs a settlement
//! more than all else. Here the writer is woken by the first message after it has found
//! nothing, and by those that cannot wait. Messages lie one behind the other in memory that is
//! used again, so that none is allocated by one thread and freed by another.

use super::writer::Command;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// The senders' end. Cheap to clone.
#[derive(Clone)]
pub(super) struct Commands {
    inbox: Arc<Inbox>,
    /// By it the writer knows whether a sender is left.
    _sender: Arc<()>,
}

/// The writer's end.
pub(super) struct Queue {
    inbox: Arc<Inbox>,
    senders: Weak<()>,
    /// What was fetched from the inbox and has not been handed over.
    fetched: VecDeque<Command>,
}

#[derive(Default)]
struct Inbox {
    letters: Mutex<Letters>,
    writer: OnceLock<Thread>,
    /// The writer has found nothing, and the next message must wake it.
    is_idle: AtomicBool,
}

#[derive(Default)]
struct Letters {
    waiting: VecDeque<Command>,
    /// The writer has ended.
    refused: bool,
}

/// What came while the writer waited.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(super) enum Next {
    /// A message.
    Command(Command),
    /// Nothing in time.
    Nothing,
    /// No sender is left.
    Ended,
}

/// Room for so many messages is kept when a burst is over.
const KEPT: usize = 4096;

/// Both ends. Unbounded by itself: settlements are bounded by slots, loads by waiting callers.
pub(super) fn commands() -> (Commands, Queue) {
    let inbox = Arc::new(Inbox::default());
    let sender = Arc::new(());
    let queue = Queue {
        inbox: Arc::clone(&inbox),
        senders: Arc::downgrade(&sender),
        fetched: VecDeque::new(),
    };
    let commands = Commands {
        inbox,
        _sender: sender,
    };
    (commands, queue)
}

impl Commands {
    /// Leaves a message; `false` when the writer has ended.
    pub(super) fn send(&self, command: Command) -> bool {
        let is_urgent = command.is_urgent();
        {
            let mut letters = self.inbox.letters.lock();
            if letters.refused {
                return false;
            }
            letters.waiting.push_back(command);
        }
        if self.inbox.is_idle.swap(false, Ordering::AcqRel) || is_urgent {
            self.inbox.wake();
        }
        true
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // The writer finds out by looking; the last sender may be gone by then, or it looks
        // again at its next tick.
        self.inbox.wake();
    }
}

impl Inbox {
    fn wake(&self) {
        if let Some(thread) = self.writer.get() {
            thread.unpark();
        }
    }
}

impl Queue {
    /// Waits for a message until then. To be called by one thread alone.
    pub(super) fn wait(&mut self, until: Instant) -> Next {
        let _ = self.inbox.writer.set(thread::current());
        loop {
            // A sender sends before it is dropped.
            let is_last_look = self.senders.strong_count() == 0;
            match self.next() {
                Some(command) => return Next::Command(command),
                None if is_last_look => return Next::Ended,
                None => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::Nothing;
            }
            // One more look finds what was sent before `is_idle` was set; a later message wakes this
            // thread.
            if self.inbox.is_idle.swap(true, Ordering::AcqRel) {
                thread::park_timeout(left);
            }
        }
    }

    /// Hands over what has come, and sleeps for what more comes until the moment that `take`
    /// names; none: it has enough. `take` may leave what it is handed.
    pub(super) fn gather(
        &mut self,
        mut take: impl FnMut(&mut dyn Iterator<Item = Command>) -> Option<Instant>,
    ) {
        while let Some(until) = take(self) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Only urgent messages wake it: it comes back anyway.
            thread::park_timeout(left.min(LONGEST_NAP));
        }
    }
}

/// What has come, without a wait for more.
impl Iterator for Queue {
    type Item = Command;

    fn next(&mut self) -> Option<Command> {
        if self.fetched.is_empty() {
            self.fetched.shrink_to(KEPT);
            let mut letters = self.inbox.letters.lock();
            std::mem::swap(&mut letters.waiting, &mut self.fetched);
        }
        self.fetched.pop_front()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // A caller that waits for an answer to a message that is left notices that its sender is dropped.
        let left = {
            let mut letters = self.inbox.letters.lock();
            letters.refused = true;
            std::mem::take(&mut letters.waiting)
        };
        drop(left);
    }
}

/// A message that came in the moment before a nap is not later than this.
const LONGEST_NAP: Duration = Duration::from_millis(20);
