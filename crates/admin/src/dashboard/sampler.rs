//! One sampler for all viewers. It runs while there is a viewer.

use super::sample::{History, Sample, Sources};
use crate::api::{Api, Rights};
use axum::body::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// From one sample to the next.
const INTERVAL: Duration = Duration::from_secs(2);

/// The sampler that all viewers share.
#[derive(Default)]
pub(crate) struct Sampler(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    viewers: usize,
    /// Those of them that see the overview only.
    overviews: usize,
    /// The running sampler's events. `None`: it does not run.
    events: Option<watch::Receiver<Sample>>,
    is_closed: bool,
}

/// One open stream.
pub(super) struct Viewer {
    events: watch::Receiver<Sample>,
    state: Arc<Mutex<State>>,
    rights: Rights,
}

impl Sampler {
    /// The most streams at one time. They leave connections for metrics and health.
    const MOST_VIEWERS: usize = 16;
    /// The most streams of viewers without the token. The rest is for operators.
    const MOST_OVERVIEWS: usize = 12;

    /// The most streams of viewers with these rights.
    pub(super) const fn most_viewers(rights: Rights) -> usize {
        match rights {
            Rights::All => Self::MOST_VIEWERS,
            Rights::Overview => Self::MOST_OVERVIEWS,
        }
    }

    /// Opens a stream. `None`: as many as possible are open, or the listener ends.
    pub(super) fn join(&self, api: &Arc<Api>, rights: Rights) -> Option<Viewer> {
        let mut state = self.0.lock();
        let is_overview = rights == Rights::Overview;
        if state.is_closed
            || state.viewers >= Self::MOST_VIEWERS
            || (is_overview && state.overviews >= Self::MOST_OVERVIEWS)
        {
            return None;
        }
        state.viewers = state.viewers.saturating_add(1);
        state.overviews = state.overviews.saturating_add(is_overview.into());
        let mut events = if let Some(events) = &state.events {
            events.clone()
        } else {
            let (sender, events) = watch::channel(Sample::default());
            tokio::spawn(run(Arc::clone(&self.0), Arc::clone(api), sender));
            state.events = Some(events.clone());
            events
        };
        // The last sample is news for a new viewer.
        if !events.borrow().all.is_empty() {
            events.mark_changed();
        }
        Some(Viewer {
            events,
            state: Arc::clone(&self.0),
            rights,
        })
    }

    /// Ends all streams, and opens no more.
    pub(crate) fn close(&self) {
        self.0.lock().is_closed = true;
    }
}

impl Viewer {
    /// The next event. `None`: the sampler has ended.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        self.events.changed().await.ok()?;
        let sample = self.events.borrow_and_update();
        Some(match self.rights {
            Rights::All => sample.all.clone(),
            Rights::Overview => sample.overview.clone(),
        })
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.viewers = state.viewers.saturating_sub(1);
        let is_overview = self.rights == Rights::Overview;
        state.overviews = state.overviews.saturating_sub(is_overview.into());
    }
}

async fn run(state: Arc<Mutex<State>>, api: Arc<Api>, events: watch::Sender<Sample>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut history = History::default();
    loop {
        ticks.tick().await;
        {
            let mut state = state.lock();
            if state.is_closed || state.viewers == 0 {
                state.events = None;
                return;
            }
        }
        let sources = Sources::of(&api);
        let sampled = tokio::task::spawn_blocking(move || {
            let event = history.sample(&sources);
            (history, event)
        });
        let Ok((kept, event)) = sampled.await else {
            log::error!("the dashboard cannot be sampled");
            state.lock().events = None;
            return;
        };
        history = kept;
        events.send_replace(event);
    }
}
