//! The progress that long commands show on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);
const REDRAW: Duration = Duration::from_millis(120);

/// How much of the work is done.
#[derive(Default)]
pub(super) struct Done {
    part: AtomicU64,
    /// Zero: unknown.
    all: AtomicU64,
}

impl Done {
    pub(super) fn set(&self, part: u64, all: u64) {
        self.part.store(part, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }
}

/// Shows on standard error that work goes on, from the third second on and until it is dropped. Shows
/// nothing if standard error is no terminal.
pub(super) struct Progress(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// For work that is described so: `adding up records`.
    pub(super) fn of(work: impl Into<Cow<'static, str>>) -> Self {
        Self::counted(work, &Arc::default())
    }

    /// The same, for work of which it is known how much is done.
    pub(super) fn counted(work: impl Into<Cow<'static, str>>, done: &Arc<Done>) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (work, done) = (work.into(), Arc::clone(done));
        let (working, is_done) = mpsc::channel();
        let thread = std::thread::spawn(move || show(work, &done, &is_done));
        Self(Some((working, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((working, thread)) = self.0.take() {
            drop(working);
            // The line is cleared before anything else is printed.
            let _ = thread.join();
        }
    }
}

fn show(work: Cow<'static, str>, done: &Done, is_done: &mpsc::Receiver<()>) {
    let goes_on = |span| is_done.recv_timeout(span) == Err(RecvTimeoutError::Timeout);
    if !goes_on(PATIENCE) {
        return;
    }
    let bar =
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_elapsed(PATIENCE);
    let set_style = |template| {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
    };
    // Of most work it is unknown before the end how much there is to do.
    set_style("{spinner} {msg}, {elapsed}");
    bar.set_message(work);
    while goes_on(REDRAW) {
        let all = done.all.load(Ordering::Relaxed);
        if all > 0 && bar.length().is_none() {
            set_style(
                "{spinner} {msg} [{bar:30}] {human_pos} of {human_len}, {elapsed}, {eta} left",
            );
        }
        if all > 0 {
            bar.set_length(all);
            bar.set_position(done.part.load(Ordering::Relaxed));
        }
        bar.tick();
    }
    bar.finish_and_clear();
}
