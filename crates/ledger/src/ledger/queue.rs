//! The messages from request threads to the writer: settlements gather without waking it.
//!
//! With a channel, every message would wake a sleeping receiver, which would be the largest cost of a
//! settlement. Here, only urgent messages and the first message after an idle period wake the writer.
//! Messages are stored in memory that is reused, so that no thread frees the allocations of another.

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
    /// Shows the writer whether a sender is left.
    _sender: Arc<()>,
}

/// The writer's end.
pub(super) struct Queue {
    inbox: Arc<Inbox>,
    senders: Weak<()>,
    /// Messages fetched from the inbox, but not processed yet.
    fetched: VecDeque<Command>,
}

#[derive(Default)]
struct Inbox {
    messages: Mutex<Messages>,
    writer: OnceLock<Thread>,
    /// The writer has found no message, so the next one must wake it.
    is_idle: AtomicBool,
}

#[derive(Default)]
struct Messages {
    waiting: VecDeque<Command>,
    /// The writer has ended.
    refused: bool,
}

/// The result of a wait.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(super) enum Next {
    /// A message.
    Command(Command),
    /// No message in time.
    Nothing,
    /// No sender is left.
    Ended,
}

/// The number of messages for which memory is kept after a burst.
const KEPT: usize = 4096;

/// Both ends of the queue. It has no limit itself: slots limit settlements, waiting callers limit loads.
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
    /// Adds a message; `false` if the writer has ended.
    pub(super) fn send(&self, command: Command) -> bool {
        let is_urgent = command.is_urgent();
        {
            let mut messages = self.inbox.messages.lock();
            if messages.refused {
                return false;
            }
            messages.waiting.push_back(command);
        }
        if self.inbox.is_idle.swap(false, Ordering::AcqRel) || is_urgent {
            self.inbox.wake();
        }
        true
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // The writer sees by looking that the last sender is gone, now or at its next tick.
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
    /// Waits for a message until this time. Must always be called by the same thread.
    pub(super) fn wait(&mut self, until: Instant) -> Next {
        let _ = self.inbox.writer.set(thread::current());
        loop {
            // A sender sends before it is dropped, so this look finds the last message.
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
            // Looks again for messages sent before `is_idle` was set; a later message wakes this thread.
            if self.inbox.is_idle.swap(true, Ordering::AcqRel) {
                thread::park_timeout(left);
            }
        }
    }

    /// Adds a message that the writer sends to itself.
    pub(super) fn put_back(&mut self, command: Command) {
        self.fetched.push_back(command);
    }

    /// Passes messages to `take`, and sleeps for more until the time that `take` returns; `None`: it has
    /// enough. `take` can leave messages.
    pub(super) fn gather(
        &mut self,
        mut take: impl FnMut(&mut dyn Iterator<Item = Command>) -> Option<Instant>,
    ) {
        while let Some(until) = take(self) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Only urgent messages wake the writer: it wakes at this time anyway.
            thread::park_timeout(left.min(LONGEST_NAP));
        }
    }
}

/// The next message, without waiting.
impl Iterator for Queue {
    type Item = Command;

    fn next(&mut self) -> Option<Command> {
        if self.fetched.is_empty() {
            self.fetched.shrink_to(KEPT);
            let mut messages = self.inbox.messages.lock();
            std::mem::swap(&mut messages.waiting, &mut self.fetched);
        }
        self.fetched.pop_front()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // A caller that waits for the answer to a dropped message notices it.
        let left = {
            let mut messages = self.inbox.messages.lock();
            messages.refused = true;
            std::mem::take(&mut messages.waiting)
        };
        drop(left);
    }
}

/// The longest delay of a message that arrives just before a sleep.
const LONGEST_NAP: Duration = Duration::from_millis(20);
