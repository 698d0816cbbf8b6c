//! Counts of tokens, as the gateway uses them: where a body is counted, what providers have
//! reported, and what of it outlives the program.
//!
//! How a body is counted and how a fit learns is the count crate's. Here is decided on which
//! thread that happens ([`Desk`]), which requests teach ([`Learnt`]), which fit belongs to whom,
//! and where they are kept (`file`). None of it is money: a fit that is lost costs accuracy.

mod cache;
mod desk;
mod file;
mod learnt;
mod of_catalog;
mod view;

pub use cache::{CountCache, CountKey};
pub use desk::Desk;
pub use learnt::Learnt;
pub use of_catalog::{CatalogCounts, How};
pub use view::{CountView, exposition};

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use tollgate_routing::{Deployment, UpstreamModel};
use tollgate_types::Format;

/// Whose reports a fit is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The model of the catalog.
    pub model: Arc<str>,
    /// The provider.
    pub provider: Arc<str>,
    /// The model's name there; `*` for a wildcard's.
    pub upstream_model: Arc<str>,
    /// The format in which it was asked: each frames a request in its own way.
    pub format: Format,
}

impl Source {
    /// That of a deployment of `model` for callers of a format.
    pub fn of(model: &Arc<str>, deployment: &Deployment, caller: Format) -> Self {
        Self {
            model: Arc::clone(model),
            provider: Arc::clone(&deployment.provider.name),
            upstream_model: match &deployment.upstream_model {
                UpstreamModel::Fixed(name) => Arc::clone(name),
                UpstreamModel::AsRequested => "*".into(),
            },
            format: deployment.format_for(caller).unwrap_or(caller),
        }
    }
}

/// Sources of which something is remembered; of more nothing is learnt.
const MOST_SOURCES: usize = 2_000;
/// How often what was learnt is written down.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// What was learnt of all models, and the desk where bodies are counted. Outlives every
/// configuration.
pub struct Counts {
    desk: Desk,
    sources: RwLock<HashMap<Source, Arc<Learnt>, foldhash::fast::RandomState>>,
    file: PathBuf,
    keeper: Mutex<Option<Keeper>>,
}

/// The thread that writes down what was learnt.
struct Keeper {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Counts {
    /// With what an earlier program has learnt, kept beside the ledger's file.
    pub fn open(store: &Path) -> Arc<Self> {
        let file = file::beside(store);
        let known = file::read(&file).into_iter().take(MOST_SOURCES);
        let counts = Arc::new(Self {
            desk: Desk::default(),
            sources: RwLock::new(known.map(|(it, fits)| (it, Arc::new(fits))).collect()),
            file,
            keeper: Mutex::new(None),
        });
        *counts.keeper.lock() = counts.keep();
        counts
    }

    /// Where bodies are counted.
    pub const fn desk(&self) -> &Desk {
        &self.desk
    }

    /// What was learnt of a source; `None` where there are too many.
    pub fn of(&self, source: &Source) -> Option<Arc<Learnt>> {
        if let Some(known) = self.sources.read().get(source) {
            return Some(Arc::clone(known));
        }
        let mut sources = self.sources.write();
        if sources.len() >= MOST_SOURCES && !sources.contains_key(source) {
            // Those that no configuration names any more make room.
            sources.retain(|_, learnt| Arc::strong_count(learnt) > 1);
            if sources.len() >= MOST_SOURCES {
                return None;
            }
        }
        Some(Arc::clone(sources.entry(source.clone()).or_default()))
    }

    /// Everything that was learnt, in order.
    pub fn all(&self) -> Vec<(Source, Arc<Learnt>)> {
        let sources = self.sources.read();
        let entries = sources.iter();
        let mut all: Vec<_> = entries
            .map(|(source, learnt)| (source.clone(), Arc::clone(learnt)))
            .collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    fn keep(self: &Arc<Self>) -> Option<Keeper> {
        let (stop, stopped) = mpsc::channel();
        let counts = Arc::downgrade(self);
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(SAVE_EVERY) {
                let Some(counts) = counts.upgrade() else {
                    return;
                };
                counts.save();
            }
        };
        let thread = std::thread::Builder::new().name("counts".to_owned());
        match thread.spawn(work) {
            Ok(thread) => Some(Keeper { stop, thread }),
            Err(fault) => {
                log::error!("what is learnt of counts is written at the end alone: {fault}");
                None
            }
        }
    }

    /// Writes down what was learnt since the last time, if anything.
    fn save(&self) {
        let all = self.all();
        let is_new = all.iter().fold(false, |any, (_, it)| it.take_news() || any);
        if !is_new {
            return;
        }
        if let Err(fault) = file::write(&self.file, &all) {
            log::error!("{}: cannot be written: {fault}", self.file.display());
        }
    }

    /// Writes everything down. Blocks.
    pub fn close(&self) {
        if let Some(keeper) = self.keeper.lock().take() {
            // It may have ended by itself.
            let _ = keeper.stop.send(());
            let _ = keeper.thread.join();
        }
        self.save();
    }
}
