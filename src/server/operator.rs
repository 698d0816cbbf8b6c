//! What happens beside the requests: the admin listener, the names of providers, reloads,
//! and the signals that end the program.

use super::listeners::Sockets;
use super::reload::{RESOLVE_LIMIT, Reloader};
use super::stop::{Deadline, Signals};
use crate::accounts::Accounts;
use crate::admin::{self, Api, Control, Readiness};
use crate::snapshot::Current;
use pingora_core::server::ExecutionPhase;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, mpsc, watch};

/// The most orders of operators that wait for one another.
const MOST_ORDERS: usize = 4;

/// What it needs for that.
pub(super) struct Operator {
    pub(super) current: Arc<Current>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) reloader: Reloader,
    pub(super) readiness: Readiness,
    /// What operators reach over HTTP.
    pub(super) api: Arc<Api>,
    /// Tells when callers are served.
    pub(super) accepting: broadcast::Receiver<ExecutionPhase>,
    /// Where they are served.
    pub(super) sockets: Sockets,
    /// How long requests under way may take to end.
    pub(super) grace: Duration,
    pub(super) stop: watch::Sender<Deadline>,
}

impl Operator {
    /// Does all of it, for as long as the program lives.
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
            sockets,
            grace,
            stop,
        } = self;
        let Signals { mut end, hangup } = signals;
        let (orders, ordered) = mpsc::channel(MOST_ORDERS);
        let control = Control::new(orders, Arc::clone(reloader.serving()));
        api.operations().set_control(control);
        let admin = async {
            let (ready, end) = (readiness.clone(), std::future::pending());
            let ledger = accounts.ledger().clone();
            let serving = admin::serve(listener, ready, &api, ledger, end);
            if let Err(fault) = serving.await {
                log::error!("the admin listener has ended: {fault}");
            }
        };
        let mut sockets = Some(sockets);
        let end = async {
            loop {
                let grace = end.recv(grace).await;
                let deadline = Instant::now() + grace;
                readiness.set(false);
                // Nobody comes in any more, once Pingora has let go of them too.
                sockets.take();
                // A later signal can bring the end forward, and never puts it off.
                stop.send_modify(|known| {
                    *known = Some(known.map_or(deadline, |known| known.min(deadline)));
                });
            }
        };
        let work = async {
            begin(&current, accepting).await;
            if stop.borrow().is_none() {
                readiness.set(true);
            }
            announce();
            tokio::join!(
                keep_names_resolved(&current),
                reloader.serve(hangup, ordered)
            );
        };
        tokio::join!(admin, end, work);
    }
}

/// Waits until requests can be served.
async fn begin(current: &Current, mut accepting: broadcast::Receiver<ExecutionPhase>) {
    let snapshot = current.load_full();
    snapshot.upstreams.resolve(RESOLVE_LIMIT).await;
    loop {
        match accepting.recv().await {
            Ok(ExecutionPhase::Running) | Err(broadcast::error::RecvError::Closed) => return,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
        }
    }
}

async fn keep_names_resolved(current: &Current) {
    loop {
        let wait = current.load().upstreams.resolve_in();
        tokio::time::sleep(wait).await;
        let snapshot = current.load_full();
        snapshot.upstreams.resolve(RESOLVE_LIMIT).await;
    }
}
