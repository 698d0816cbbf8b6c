//! The background work: the admin listener, the names of providers, reloads, and the signals that end
//! the process.

use super::notify;
use super::predecessor::{PATIENCE, Predecessor, Verdict};
use super::reload::{RESOLVE_LIMIT, Reloader};
use super::stop::{End, EndSignals, Ending, Signals, begin_end};
use super::successor::{Service, Succeeded, Succession};
use crate::snapshot::Current;
use crate::upstreams::Checks;
use once_cell::sync::OnceCell;
use pingora_core::server::ExecutionPhase;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::Signal;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tollgate_admin::{Api, Control, HealthSource, HealthView, Readiness};
use tollgate_engine::accounts::Accounts;

/// The most waiting orders of operators.
const MOST_ORDERS: usize = 4;

/// The dependencies of this work.
pub(super) struct Operator {
    pub(super) current: Arc<Current>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) reloader: Reloader,
    pub(super) readiness: Readiness,
    /// The HTTP API for operators.
    pub(super) api: Arc<Api>,
    /// Notified when clients are served.
    pub(super) accepting: broadcast::Receiver<ExecutionPhase>,
    /// The process from which this one takes over.
    pub(super) predecessor: Option<Predecessor>,
    /// The parts for the process that takes over from this one.
    pub(super) succession: Option<Succession>,
    /// Why the predecessor continues, if this process ends for that.
    pub(super) refused: Arc<OnceCell<String>>,
    /// How long running requests may take to end.
    pub(super) grace: Duration,
    /// How long unused connections are kept once another process serves.
    pub(super) idle: Duration,
    pub(super) stop: watch::Sender<Ending>,
}

impl Operator {
    /// Does this work until the process ends.
    pub(super) async fn serve(
        self,
        listener: TcpListener,
        signals: Signals,
        announce: impl FnOnce(),
    ) {
        let (orders, ordered) = mpsc::channel(MOST_ORDERS);
        self.api.operations().set_control(Control::new(
            orders,
            Arc::clone(self.reloader.serving()),
            health(Arc::clone(&self.current)),
            self.reloader.explainer(),
        ));
        let (accept, accepts) = oneshot::channel();
        let (leave, left) = watch::channel(false);
        let admin = Admin {
            listener,
            // Until this process is ready, its predecessor answers at the same address.
            accepts: self.predecessor.is_some().then_some(accepts),
            left,
            api: self.api,
            accounts: Arc::clone(&self.accounts),
            readiness: self.readiness.clone(),
        };
        let exit = Exit {
            accounts: self.accounts,
            readiness: self.readiness,
            stop: self.stop,
            leave,
            refused: self.refused,
            grace: self.grace,
        };
        let (service, whose) = watch::channel(Service::Ours);
        let work = async {
            let be_ready = || exit.be_ready(accept);
            let late = match serve_now(self.accepting, self.predecessor, be_ready).await {
                Begun::Serving => None,
                Begun::Undecided(verdict) => Some(verdict),
                Begun::Refused(cause) => return exit.give_way(cause),
                Begun::Ending => return,
            };
            announce();
            tokio::join!(
                keep_names_resolved(&self.current),
                self.reloader.serve(signals.hangup, ordered, whose.clone()),
                exit.after_hand_over(self.succession, signals.quit, &service, self.idle),
                exit.after_late_verdict(late),
                keep_checked(&self.current, whose),
            );
        };
        tokio::join!(
            admin.serve(),
            exit.on_signals(signals.end),
            exit.when_fenced(),
            work
        );
    }
}

/// The admin listener.
struct Admin {
    listener: TcpListener,
    /// Done when this process is ready. `None`: it answers at once.
    accepts: Option<oneshot::Receiver<()>>,
    /// Whether another process answers operators.
    left: watch::Receiver<bool>,
    api: Arc<Api>,
    accounts: Arc<Accounts>,
    readiness: Readiness,
}

impl Admin {
    async fn serve(self) {
        if let Some(accepts) = self.accepts
            && accepts.await.is_err()
        {
            return;
        }
        let mut left = self.left;
        let gone = async move {
            // Without the sender there is no hand-over.
            if left.wait_for(|has_left| *has_left).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let serving = tollgate_admin::serve(
            self.listener,
            self.readiness,
            &self.api,
            self.accounts.ledger().clone(),
            Arc::clone(self.accounts.memory()),
            self.accounts.rate_limiter().clone(),
            gone,
        );
        if let Err(fault) = serving.await {
            log::error!("the admin listener has ended: {fault}");
        }
    }
}

/// Ends this process: one method for each reason.
struct Exit {
    accounts: Arc<Accounts>,
    readiness: Readiness,
    stop: watch::Sender<Ending>,
    /// Set to `true` when another process answers operators.
    leave: watch::Sender<bool>,
    /// See [`Operator::refused`].
    refused: Arc<OnceCell<String>>,
    grace: Duration,
}

impl Exit {
    /// Marks this process as ready, before it reports so: a client may connect at once. Returns `false` if it already
    /// ends.
    fn be_ready(&self, accept: oneshot::Sender<()>) -> bool {
        let is_to = self.stop.borrow().is_none();
        if is_to {
            self.readiness.serve();
            // Without a predecessor there is no receiver.
            let _ = accept.send(());
        }
        is_to
    }

    /// Ends the process within this time. The other processes get its unused leases.
    fn begin(&self, grace: Duration) {
        self.readiness.end();
        self.begin_ready(End::within(grace, Duration::ZERO));
    }

    /// The same, but `/readyz` continues to report the state of the gateway, which another process serves.
    fn begin_ready(&self, how: End) {
        self.accounts.ledger().retire();
        begin_end(&self.stop, how);
    }

    async fn on_signals(&self, mut signals: EndSignals) {
        loop {
            let grace = signals.recv(self.grace).await;
            notify::stopping();
            self.begin(grace);
        }
    }

    async fn when_fenced(&self) {
        self.accounts.ledger().fenced().await;
        log::error!("this process ends, so that another one can be started in its place");
        // After a hand-over, this process is no longer the service.
        if self.stop.borrow().is_none() {
            notify::stopping();
        }
        self.begin(self.grace);
    }

    /// Ends this process, because the predecessor continues to serve.
    fn give_way(&self, cause: String) {
        log::error!("the old process continues to serve, and this one ends: {cause}");
        // Set once: there is one verdict.
        let _ = self.refused.set(cause);
        self.leave.send_replace(true);
        self.begin(self.grace);
    }

    async fn after_late_verdict(&self, late: Option<oneshot::Receiver<Verdict>>) {
        if let Some(verdict) = late
            && let Ok(Verdict::Theirs(cause)) = verdict.await
        {
            self.give_way(cause);
        }
    }

    /// `idle`: how long unused connections are kept.
    async fn after_hand_over(
        &self,
        succession: Option<Succession>,
        quit: Signal,
        service: &watch::Sender<Service>,
        idle: Duration,
    ) {
        let Some(succeeded) = hand_over(succession, quit, &self.stop, service).await else {
            return self.begin(self.grace);
        };
        // The other process answers the operator now. A last probe here gets the state of the gateway: ready.
        self.leave.send_replace(true);
        self.begin_ready(End::within(self.grace, idle));
        log::info!("process {} has taken over", succeeded.pid());
        succeeded.over().await;
    }
}

/// How this process starts.
enum Begun {
    /// It serves.
    Serving,
    /// It serves, and the predecessor has not decided yet.
    Undecided(oneshot::Receiver<Verdict>),
    /// The predecessor has refused, for this reason.
    Refused(String),
    /// It already ends.
    Ending,
}

/// Waits until clients are served, and reports it to the predecessor and the service manager. `be_ready` returns
/// whether this process continues.
async fn serve_now(
    mut accepting: broadcast::Receiver<ExecutionPhase>,
    predecessor: Option<Predecessor>,
    be_ready: impl FnOnce() -> bool,
) -> Begun {
    loop {
        match accepting.recv().await {
            Ok(ExecutionPhase::Running) | Err(broadcast::error::RecvError::Closed) => break,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
        }
    }
    let is_to_serve = be_ready();
    let pid = std::process::id();
    let mut begun = Begun::Serving;
    if let Some(predecessor) = predecessor {
        if !is_to_serve {
            log::info!("this process ends before it has served");
            predecessor.fail("it received a stop signal before it served");
            return Begun::Ending;
        }
        let (tell, mut verdict) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            // The receiver is gone if this process has ended meanwhile.
            let _ = tell.send(predecessor.serving(pid));
        });
        begun = match tokio::time::timeout(PATIENCE, &mut verdict).await {
            Ok(Ok(Verdict::Ours)) => Begun::Serving,
            Ok(Ok(Verdict::Theirs(cause))) => Begun::Refused(cause),
            Ok(Err(fault)) => {
                log::error!("the old process cannot be reached: {fault}");
                Begun::Serving
            }
            Err(_) => {
                log::warn!("the old process did not report that it ends");
                Begun::Undecided(verdict)
            }
        };
        match begun {
            Begun::Refused(_) | Begun::Ending => return begun,
            Begun::Serving | Begun::Undecided(_) => log::info!("this process has taken over"),
        }
    }
    notify::serving(pid);
    begun
}

/// Waits until another process serves; `None`: this process ends without one. Then it has closed the sockets,
/// except those on which Pingora still accepts.
async fn hand_over(
    succession: Option<Succession>,
    mut quit: Signal,
    stop: &watch::Sender<Ending>,
    service: &watch::Sender<Service>,
) -> Option<Succeeded> {
    let Some(succession) = succession else {
        quit.recv().await;
        return None;
    };
    let mut ending = stop.subscribe();
    tokio::select! {
        succeeded = succession.wait(&mut quit, service) => Some(succeeded),
        _ = ending.wait_for(Option::is_some) => None,
    }
}

/// Returns the health of the providers of the current snapshot.
fn health(current: Arc<Current>) -> HealthSource {
    Arc::new(move || {
        let snapshot = current.load();
        HealthView::new(&snapshot.fleet, &|provider| {
            let pool = snapshot.upstreams.pool(provider);
            pool.map(|it| it.addresses()).unwrap_or_default()
        })
    })
}

async fn keep_names_resolved(current: &Current) {
    /// The longest delay of the look-up of a name that a reload added.
    const LOOK: Duration = Duration::from_secs(1);
    let mut resolved = Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        let snapshot = current.load_full();
        if resolved.elapsed() >= snapshot.upstreams.resolve_in() {
            snapshot.upstreams.resolve(RESOLVE_LIMIT).await;
            resolved = Instant::now();
        }
    }
}

/// Checks providers until another process takes over.
async fn keep_checked(current: &Current, mut service: watch::Receiver<Service>) {
    let mut checks = Checks::default();
    let checking = async {
        loop {
            let snapshot = current.load_full();
            checks.step(&snapshot.upstreams, &snapshot.fleet).await;
        }
    };
    tokio::select! {
        () = checking => {}
        _ = service.wait_for(|it| *it == Service::Theirs) => {}
    }
    checks.end();
}
