//! The way from request threads to the writer: settlements gather without waking anybody.
//!
//! A channel whose receiver sleeps in it is woken by every message, which costs a settlement
//! more than all else. Here the writer is woken by the first message after it has found
//! nothing, and by those that cannot wait.

use super::writer::Command;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, TryRecvError, channel},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// The senders' end. Cheap to clone.
#[derive(Clone)]
pub(super) struct Commands {
    queue: Sender<Command>,
    sleeper: Arc<Sleeper>,
}

/// The writer's end.
pub(super) struct Queue {
    queue: Receiver<Command>,
    sleeper: Arc<Sleeper>,
}

#[derive(Default)]
struct Sleeper {
    thread: OnceLock<Thread>,
    /// The writer has found nothing, and the next message must wake it.
    is_idle: AtomicBool,
}

/// What came while the writer waited.
pub(super) enum Next {
    /// A message.
    Command(Command),
    /// Nothing in time.
    Nothing,
    /// Nobody can send any more.
    Ended,
}

/// Both ends. Unbounded by itself: settlements are bounded by slots, loads by waiting callers.
pub(super) fn commands() -> (Commands, Queue) {
    let (sender, receiver) = channel();
    let sleeper = Arc::new(Sleeper::default());
    let commands = Commands {
        queue: sender,
        sleeper: Arc::clone(&sleeper),
    };
    let queue = Queue {
        queue: receiver,
        sleeper,
    };
    (commands, queue)
}

impl Commands {
    /// Leaves a message; `false` when the writer has ended.
    pub(super) fn send(&self, command: Command) -> bool {
        let is_urgent = command.is_urgent();
        if self.queue.send(command).is_err() {
            return false;
        }
        if self.sleeper.is_idle.swap(false, Ordering::AcqRel) || is_urgent {
            self.sleeper.wake();
        }
        true
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // The writer finds out by looking; the last sender may be gone by then, or it looks
        // again at its next tick.
        self.sleeper.wake();
    }
}

impl Sleeper {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Queue {
    /// Waits for a message until then. To be called by one thread alone.
    pub(super) fn wait(&self, until: Instant) -> Next {
        let _ = self.sleeper.thread.set(thread::current());
        loop {
            match self.queue.try_recv() {
                Ok(command) => return Next::Command(command),
                Err(TryRecvError::Disconnected) => return Next::Ended,
                Err(TryRecvError::Empty) => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::Nothing;
            }
            // Who has sent before this was said is found by one more look; who sends after it
            // wakes this thread.
            if self.sleeper.is_idle.swap(true, Ordering::AcqRel) {
                thread::park_timeout(left);
            }
        }
    }

    /// Hands over what has come, and sleeps for what more comes until the moment that `take`
    /// names; none: it has enough. `take` may leave what it is handed.
    pub(super) fn gather(
        &self,
        mut take: impl FnMut(&mut dyn Iterator<Item = Command>) -> Option<Instant>,
    ) {
        while let Some(until) = take(&mut self.queue.try_iter()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Nobody but the urgent wakes it: it is known to come back.
            thread::park_timeout(left.min(LONGEST_NAP));
        }
    }
}

/// A message that came in the moment before a nap is not later than this.
const LONGEST_NAP: Duration = Duration::from_millis(20);
