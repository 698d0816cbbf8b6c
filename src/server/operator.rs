//! The background work: the admin listener, the names of providers, reloads, and the signals that end
//! the process.

use super::notify;
use super::predecessor::{PATIENCE, Predecessor, Verdict};
use super::reload::{RESOLVE_LIMIT, Reloader};
use super::stop::{End, Ending, Signals, begin_end};
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
        let Self {
            current,
            accounts,
            reloader,
            readiness,
            api,
            accepting,
            predecessor,
            succession,
            refused,
            grace,
            idle,
            stop,
        } = self;
        let Signals {
            mut end,
            quit,
            hangup,
        } = signals;
        let (orders, ordered) = mpsc::channel(MOST_ORDERS);
        let control = Control::new(
            orders,
            Arc::clone(reloader.serving()),
            health(Arc::clone(&current)),
            reloader.explainer(),
        );
        api.operations().set_control(control);
        let (service, whose) = watch::channel(Service::Ours);
        let (leave, mut left) = watch::channel(false);
        let takes_over = predecessor.is_some();
        let (accept, accepts) = oneshot::channel();
        let gone = async move {
            // Without the sender there is no hand-over.
            if left.wait_for(|has_left| *has_left).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let admin = async {
            // Until this process is ready, its predecessor answers at the same address.
            if takes_over && accepts.await.is_err() {
                return;
            }
            let ledger = accounts.ledger().clone();
            let memory = Arc::clone(accounts.memory());
            let limiter = accounts.rate_limiter().clone();
            let serving = tollgate_admin::serve(
                listener,
                readiness.clone(),
                &api,
                ledger,
                memory,
                limiter,
                gone,
            );
            if let Err(fault) = serving.await {
                log::error!("the admin listener has ended: {fault}");
            }
        };
        // This process ends, at any point of a hand-over: the other processes get its unused leases.
        let leave_to_others = |how: End| {
            accounts.ledger().retire();
            begin_end(&stop, how);
        };
        let leave_with = |how: End| {
            readiness.set(false);
            leave_to_others(how);
        };
        let end = async {
            loop {
                let grace = end.recv(grace).await;
                notify::stopping();
                leave_with(End::within(grace, Duration::ZERO));
            }
        };
        let fenced = async {
            accounts.ledger().fenced().await;
            log::error!("this process ends, so that another one can be started in its place");
            // After a hand-over, this process is no longer the service.
            if stop.borrow().is_none() {
                notify::stopping();
            }
            leave_with(End::within(grace, Duration::ZERO));
        };
        let work = async {
            let leave_it = |cause: String| {
                log::error!("the old process continues to serve, and this one ends: {cause}");
                // Set once: there is one verdict.
                let _ = refused.set(cause);
                leave.send_replace(true);
                leave_with(End::within(grace, Duration::ZERO));
            };
            // Before this process reports that it serves: a client may connect at once.
            let be_ready = || {
                let is_to = stop.borrow().is_none();
                if is_to {
                    readiness.set(true);
                    // Without a predecessor there is no receiver.
                    let _ = accept.send(());
                }
                is_to
            };
            let late = match serve_now(accepting, predecessor, be_ready).await {
                Begun::Serving => None,
                Begun::Undecided(verdict) => Some(verdict),
                Begun::Refused(cause) => return leave_it(cause),
                Begun::Ending => return,
            };
            announce();
            let late = async {
                if let Some(verdict) = late
                    && let Ok(Verdict::Theirs(cause)) = verdict.await
                {
                    leave_it(cause);
                }
            };
            let upgrade = async {
                let Some(succeeded) = hand_over(succession, quit, &stop, &service).await else {
                    return leave_with(End::within(grace, Duration::ZERO));
                };
                // The other process answers the operator now. A last probe here gets the state of
                // the gateway: ready.
                leave.send_replace(true);
                leave_to_others(End::within(grace, idle));
                log::info!("process {} has taken over", succeeded.pid());
                succeeded.over().await;
            };
            tokio::join!(
                keep_names_resolved(&current),
                reloader.serve(hangup, ordered, whose.clone()),
                upgrade,
                late,
                keep_checked(&current, whose),
            );
        };
        tokio::join!(admin, end, fenced, work);
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
