//! Reloads the configuration: reads, checks and compares it, and swaps it in one step, or keeps the
//! current one.
//!
//! `SIGHUP`, a changed file and the admin API ask for a reload. Reloads run one at a time; further
//! requests wait. Files are read on the blocking pool. `config` and `snapshot` decide what a
//! configuration means.

use super::listeners::{self, Certificates};
use super::successor::Service;
use super::tokens::Tokens;
use super::{Reload, RunError};
use crate::snapshot::{Current, Snapshot};
use crate::upstreams::Authorities;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tollgate_admin::{
    Api, Ask, Cause, ConfigurationView, Explainer, FailureView, Offer, Order, PreviousView,
    Refusal, ReloadQuery, ReloadView, Serving,
};
use tollgate_config::{Answering, Change, Config, Faults, Sources, Started};
use tollgate_engine::accounts::Accounts;
use tollgate_engine::keys;
use tollgate_explain::{Ground, explain};
use tollgate_settings::KeyPath;
use tollgate_telemetry::clock;
use tollgate_telemetry::events::{self, ReloadOutcome};

/// How long names of providers may take to be resolved.
pub(super) const RESOLVE_LIMIT: Duration = Duration::from_secs(5);

/// The most differences that are listed one by one.
const MOST_CHANGES: usize = 200;

/// The parts of the process that use a configuration.
pub(super) struct Places {
    /// The current snapshot.
    pub(super) current: Arc<Current>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) certificates: Arc<Certificates>,
    pub(super) api: Arc<Api>,
    pub(super) tokens: Tokens,
    /// The settings that a reload cannot change.
    pub(super) started: Started,
}

/// Carries out reloads.
pub(super) struct Reloader {
    places: Places,
    load: Reload,
    serving: Arc<ArcSwap<Serving>>,
    held: Held,
    previous: Option<Held>,
    last_number: u64,
    watch: Watch,
    /// Earlier work that timed out and has not ended.
    stuck: Option<JoinHandle<()>>,
}

/// A configuration with its files.
#[derive(Clone)]
struct Held {
    number: u64,
    config: Arc<Config>,
    material: Material,
}

/// The certificates of a configuration, read once with it, so that a rollback uses the same ones even if the files
/// have changed.
#[derive(Clone)]
pub(super) struct Material {
    pub(super) certificates: Arc<listeners::Read>,
    pub(super) authorities: Arc<Authorities>,
}

impl Material {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// Every certificate of a listener that cannot be used.
    pub(super) fn of(config: &Config) -> Result<Self, RunError> {
        Ok(Self {
            certificates: Arc::new(listeners::Read::of(config)?),
            authorities: Arc::new(Authorities::read(config.catalog.providers())),
        })
    }
}

impl Reloader {
    /// Starts with the configuration of the process.
    pub(super) fn new(places: Places, load: Reload, config: Config, material: Material) -> Self {
        let held = Held {
            number: 1,
            config: Arc::new(config),
            material,
        };
        let view = held.view(Cause::Start, Vec::new(), &places.started);
        let started = Arc::new(held.config.shown());
        let serving = Arc::new(ArcSwap::from_pointee(held.serving(view, started)));
        Self {
            watch: Watch::over(&held.config),
            places,
            load,
            serving,
            held,
            previous: None,
            last_number: 1,
            stuck: None,
        }
    }

    /// The current configuration, for operators.
    pub(super) const fn serving(&self) -> &Arc<ArcSwap<Serving>> {
        &self.serving
    }

    /// Explains requests by the current configuration.
    pub(super) fn explainer(&self) -> Explainer {
        let serving = Arc::clone(&self.serving);
        let current = Arc::clone(&self.places.current);
        let accounts = Arc::clone(&self.places.accounts);
        Arc::new(move |order| {
            let (serving, snapshot) = (serving.load_full(), current.load_full());
            let ground = Ground {
                config: &serving.config,
                store: accounts.store(),
                accounts: Some(&accounts),
                running: Some(&*snapshot),
            };
            Ok(explain(&ground, order)?)
        })
    }

    /// Reloads on request, until another process serves. During a hand-over it does not reload, because the other
    /// process has already read the files.
    pub(super) async fn serve(
        mut self,
        mut hangup: Signal,
        mut orders: mpsc::Receiver<Order>,
        mut service: watch::Receiver<Service>,
    ) {
        let how = ReloadQuery::default();
        // Requests that arrived during a hand-over.
        let mut put_off = None;
        loop {
            let whose = *service.borrow_and_update();
            match (whose, put_off) {
                (Service::Theirs, put_off) => {
                    if put_off == Some(Cause::Signal) {
                        log::warn!(
                            "the configuration was not reloaded in this process: the new process may have read it earlier"
                        );
                    }
                    return;
                }
                (Service::Ours, Some(cause)) => {
                    put_off = None;
                    let _ = self.reload(cause, how).await;
                    continue;
                }
                (Service::Ours | Service::Passing, _) => {}
            }
            let cause = tokio::select! {
                Some(()) = hangup.recv() => Cause::Signal,
                () = self.watch.changed() => Cause::File,
                Some(order) = orders.recv() => {
                    let whose = *service.borrow();
                    self.obey(order, whose).await;
                    continue;
                }
                Ok(()) = service.changed() => continue,
            };
            if *service.borrow() == Service::Ours {
                let _ = self.reload(cause, how).await;
            } else {
                log::warn!("the configuration is not reloaded during an upgrade");
                // A signal gets its answer in the log.
                put_off = put_off.filter(|it| *it == Cause::Signal).or(Some(cause));
            }
        }
    }

    async fn obey(&mut self, order: Order, service: Service) {
        let changes_nothing = matches!(order.ask, Ask::Reload(how) if how.dry_run);
        let outcome = if service == Service::Ours || changes_nothing {
            match order.ask {
                Ask::Reload(how) => self.reload(Cause::Api, how).await,
                Ask::Rollback => self.roll_back().await,
            }
        } else {
            Err(Refusal::Busy(
                "another process is taking over; retry when it serves or has failed",
            ))
        };
        // A client that has left needs no answer.
        let _ = order.answer.send(outcome);
    }

    /// Reads the files again.
    async fn reload(&mut self, cause: Cause, how: ReloadQuery) -> Result<ReloadView, Refusal> {
        let done = self.try_reload(cause, how).await;
        done.map_err(|fault| self.failed(cause, how, fault))
    }

    async fn try_reload(&mut self, cause: Cause, how: ReloadQuery) -> Result<ReloadView, Fault> {
        let load = Arc::clone(&self.load);
        let read = self.blocking(move || {
            let mut sources = Sources::default();
            let loaded = load(&mut sources);
            let is_whole = loaded.is_ok();
            let next = loaded.map_err(RunError::from).and_then(checked);
            (sources, is_whole, next)
        });
        let (sources, is_whole, next) = read.await?;
        if !how.dry_run {
            self.watch.note(&sources, is_whole);
        }
        let next = next?;
        let changes = next.config.changes_since(&self.held.config);
        let same = changes.is_empty() && next.config.hash() == self.held.config.hash();
        if !same {
            self.check_plans(&next.config).await?;
        }
        if how.dry_run || same {
            let (config, material) = (Arc::clone(&next.config), next.material.clone());
            self.blocking(move || Snapshot::check(&config, &material.authorities))
                .await??;
            if !how.dry_run {
                self.note_failure(None);
                events::reloaded(ReloadOutcome::Unchanged);
                log::info!("the configuration was reloaded: nothing has changed");
            }
            return Ok(ReloadView {
                dry_run: how.dry_run,
                ..self.view(false, &changes, &next)
            });
        }
        self.take(cause, next, changes).await
    }

    /// Restores the previous configuration, independent of the files.
    async fn roll_back(&mut self) -> Result<ReloadView, Refusal> {
        let Some(previous) = self.previous.clone() else {
            return Err(Refusal::Conflict("there is no previous configuration"));
        };
        let changes = previous.config.changes_since(&self.held.config);
        let done = match self.check_plans(&previous.config).await {
            Ok(()) => self.take(Cause::Rollback, previous, changes).await,
            Err(fault) => Err(fault),
        };
        done.map_err(|fault| self.failed(Cause::Rollback, ReloadQuery::default(), fault))
    }

    /// Replaces the current configuration.
    async fn take(
        &mut self,
        cause: Cause,
        next: Held,
        changes: Vec<Change>,
    ) -> Result<ReloadView, Fault> {
        let earlier = self.places.current.load_full();
        let snapshot = {
            let (config, earlier) = (Arc::clone(&next.config), Arc::clone(&earlier));
            let authorities = Arc::clone(&next.material.authorities);
            let accounts = Arc::clone(&self.places.accounts);
            self.blocking(move || Snapshot::build(&config, &authorities, &accounts, Some(&earlier)))
                .await??
        };
        let places = &self.places;
        snapshot.upstreams.take_over(&earlier.upstreams);
        tokio::join!(
            snapshot.upstreams.resolve(RESOLVE_LIMIT),
            places.tokens.fetch_first(&snapshot.fleet),
        );
        events::watch(&snapshot.fleet, snapshot.catalog.catalog());
        let snapshot = Arc::new(snapshot);
        places.current.store(Arc::clone(&snapshot));
        // After the store: requests that began before it open breakers by the earlier configuration.
        snapshot.fleet.release(clock::steady_ms(Instant::now()));
        places.certificates.replace(&next.material.certificates);
        places.api.operations().set_offer(Offer::of(&next.config));
        places.api.set_access(&next.config);

        self.last_number = self.last_number.saturating_add(1);
        let number = self.last_number;
        let before = std::mem::replace(&mut self.held, Held { number, ..next });
        let mut view = self.held.view(cause, first(&changes), &self.places.started);
        view.previous = Some(PreviousView {
            number: before.number,
            hash: before.config.hash(),
        });
        report(&view, &changes);
        self.previous = Some(before);
        let started = Arc::clone(&self.serving.load().started);
        self.serving
            .store(Arc::new(self.held.serving(view, started)));
        self.watch.settings(&self.held.config);
        Ok(self.view(true, &changes, &self.held))
    }

    /// Checks that the configuration has every plan of the keys.
    async fn check_plans(&mut self, config: &Arc<Config>) -> Result<(), Fault> {
        let config = Arc::clone(config);
        let store = Arc::clone(self.places.accounts.store());
        let checked = self.blocking(move || keys::check_plans(&config, &store));
        Ok(checked.await?.map_err(RunError::from)?)
    }

    fn view(&self, applied: bool, changes: &[Change], compared: &Held) -> ReloadView {
        ReloadView {
            applied,
            dry_run: false,
            more_changes: changes.len().saturating_sub(MOST_CHANGES),
            changes: first(changes),
            needs_restart: needs_restart(&self.places.started, &compared.config),
            serving: self.serving.load().view.clone(),
        }
    }

    /// Does work that can wait for files or the ledger, without blocking operators and signals.
    async fn blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, &'static str> {
        /// For all files together; each has its own limit, too.
        const PATIENCE: Duration = Duration::from_secs(30);
        if self.stuck.as_ref().is_some_and(|it| !it.is_finished()) {
            return Err("an earlier reload still waits for its files or the ledger");
        }
        let (answer, answered) = oneshot::channel();
        let working = tokio::task::spawn_blocking(move || {
            // The receiver is gone if it took too long.
            let _ = answer.send(work());
        });
        match timeout(PATIENCE, answered).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err("the gateway failed; see the log"),
            Err(_) => {
                self.stuck = Some(working);
                Err("reading the files or the ledger took longer than 30 seconds")
            }
        }
    }

    /// Reports a configuration that is not applied.
    fn failed(&self, cause: Cause, how: ReloadQuery, fault: impl Into<Fault>) -> Refusal {
        let fault = fault.into();
        let message = fault.to_string();
        let refusal = Refusal::from(fault);
        if how.dry_run {
            return refusal;
        }
        events::reloaded(ReloadOutcome::Failed);
        log::error!("the configuration is unchanged:\n{message}");
        self.note_failure(Some(FailureView {
            at: clock::now().as_str().to_owned(),
            cause,
            message,
        }));
        refusal
    }

    /// Shows operators the outcome of the last reload.
    fn note_failure(&self, last_failure: Option<FailureView>) {
        let serving = self.serving.load();
        let view = ConfigurationView {
            last_failure,
            ..serving.view.clone()
        };
        self.serving.store(Arc::new(Serving {
            view,
            settings: serving.settings.clone(),
            started: Arc::clone(&serving.started),
            config: Arc::clone(&serving.config),
        }));
    }
}

/// Why a configuration is not applied.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// It is at fault, or the ledger.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The same order can succeed later.
    #[error("{0}")]
    Busy(&'static str),
}

impl From<Faults> for Fault {
    fn from(faults: Faults) -> Self {
        Self::Run(faults.into())
    }
}

impl From<&'static str> for Fault {
    fn from(what: &'static str) -> Self {
        Self::Busy(what)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Run(RunError::Store(keys::OpenError::Store(cause))) => Self::Store(cause),
            Fault::Run(other) => Self::Order(other.to_string()),
            Fault::Busy(what) => Self::Busy(what),
        }
    }
}

/// Refuses a configuration without models: a file that is read while it is written is empty for an
/// instant.
///
/// # Errors
///
/// There is no model.
pub(super) fn check_models(config: &Config) -> Result<(), Faults> {
    if config.catalog.all().next().is_some() {
        return Ok(());
    }
    let what = match config.is_empty() {
        true => "the file is empty",
        false => "the configuration serves no model",
    };
    let path = KeyPath::root().key("models");
    let fault = path.fault(format!(
        "{what}: it needs a provider, a family that names it, and a model of the family"
    ));
    Err(config.locate([fault]))
}

/// Checks that do not need the running gateway.
fn checked(config: Config) -> Result<Held, RunError> {
    check_models(&config)?;
    Ok(Held {
        number: 0,
        material: Material::of(&config)?,
        config: Arc::new(config),
    })
}

fn needs_restart(started: &Started, config: &Config) -> Vec<String> {
    let paths = started.differs_from(&Started::with(config));
    paths.into_iter().map(str::to_owned).collect()
}

fn first(changes: &[Change]) -> Vec<Change> {
    changes.iter().take(MOST_CHANGES).cloned().collect()
}

/// Logs the differences, one per line, up to a limit.
fn report(view: &ConfigurationView, changes: &[Change]) {
    const MOST_LINES: usize = 50;
    events::reloaded(ReloadOutcome::Applied);
    let (number, hash) = (view.number, &view.hash);
    log::info!("the configuration was reloaded: number {number}, {hash}");
    for change in changes.iter().take(MOST_LINES) {
        log::info!("configuration: {change}");
    }
    if let Some(more @ 1..) = changes.len().checked_sub(MOST_LINES) {
        log::info!("configuration: and {more} more differences");
    }
    for path in &view.needs_restart {
        log::warn!("{path} has changed: this needs a restart or an upgrade");
    }
}

impl Held {
    fn view(&self, cause: Cause, changes: Vec<Change>, started: &Started) -> ConfigurationView {
        ConfigurationView {
            number: self.number,
            hash: self.config.hash(),
            since: clock::now().as_str().to_owned(),
            cause,
            changes,
            needs_restart: needs_restart(started, &self.config),
            previous: None,
            last_failure: None,
        }
    }

    fn serving(&self, view: ConfigurationView, started: Arc<serde_json::Value>) -> Serving {
        Serving {
            view,
            settings: self.config.shown(),
            started,
            config: Arc::clone(&self.config),
        }
    }
}

/// Watches the files of a configuration. Compares their contents, so that every way of replacing them is noticed:
/// an editor's new file, or the symbolic links of a mounted volume.
struct Watch {
    /// The interval; `None`: never.
    every: Option<Duration>,
    /// The contents that were last applied or refused.
    seen: Sources,
    /// Different contents at the last check. They are applied when the next check finds them unchanged, because a
    /// file can be read while it is written.
    pending: Option<Sources>,
    /// The current check.
    looking: Option<JoinHandle<Sources>>,
}

impl Watch {
    fn over(config: &Config) -> Self {
        let mut watch = Self {
            every: None,
            seen: config.sources().files(),
            pending: None,
            looking: None,
        };
        watch.settings(config);
        watch
    }

    fn settings(&mut self, config: &Config) {
        let settings = &config.server.reload;
        self.every = settings.watch.then(|| settings.interval.get());
    }

    /// Notes the files that were read. If the configuration has faults, some files may be missing: those known
    /// before are watched, too.
    fn note(&mut self, sources: &Sources, is_whole: bool) {
        let earlier = std::mem::replace(&mut self.seen, sources.files());
        if !is_whole {
            self.seen.add(&earlier);
        }
        self.pending = None;
        // The current check reads other files.
        self.looking = None;
    }

    /// Waits for a change. May be dropped and called again.
    async fn changed(&mut self) {
        let Some(every) = self.every else {
            return std::future::pending().await;
        };
        loop {
            if self.looking.is_none() {
                tokio::time::sleep(every).await;
                let seen = self.seen.clone();
                let look = tokio::task::spawn_blocking(move || seen.look_again(&Answering));
                self.looking = Some(look);
            }
            let Some(look) = &mut self.looking else {
                continue;
            };
            let looked = look.await;
            self.looking = None;
            let Ok(now) = looked else {
                continue;
            };
            if now == self.seen {
                self.pending = None;
            } else if self.pending.as_ref() == Some(&now) {
                // The same contents are not tried twice.
                self.seen = now;
                self.pending = None;
                return;
            } else {
                self.pending = Some(now);
            }
        }
    }
}
