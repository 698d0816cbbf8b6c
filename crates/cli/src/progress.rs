//! What long commands show on a terminal while they work.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);
const REDRAW: Duration = Duration::from_millis(120);

/// Shows on standard error that work goes on, from the third second on and until it is dropped. Shows
/// nothing if standard error is no terminal.
pub(super) struct Progress(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// For work that is described so: `adding up records`.
    pub(super) fn of(work: impl Into<Cow<'static, str>>) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let work = work.into();
        let (working, is_done) = mpsc::channel();
        let thread = std::thread::spawn(move || show(work, &is_done));
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

fn show(work: Cow<'static, str>, is_done: &mpsc::Receiver<()>) {
    let goes_on = |span| is_done.recv_timeout(span) == Err(RecvTimeoutError::Timeout);
    if !goes_on(PATIENCE) {
        return;
    }
    let bar =
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_elapsed(PATIENCE);
    // How much there is to do is unknown before it is done.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(work);
    while goes_on(REDRAW) {
        bar.tick();
    }
    bar.finish_and_clear();
}
