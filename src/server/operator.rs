//! What happens beside the requests: the admin listener, the names of providers, reloads,
//! and the signals that end the program.

use super::started::Started;
use super::stop::{Deadline, EndSignals};
use super::{Reload, RunError};
use crate::accounts::Accounts;
use crate::admin::{self, Api, Offer, Readiness};
use crate::snapshot::{Current, Snapshot};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long names of providers may take to be resolved.
const RESOLVE_LIMIT: Duration = Duration::from_secs(5);

/// What it needs for that.
pub(super) struct Operator {
    pub(super) current: Arc<Current>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) reload: Reload,
    pub(super) readiness: Readiness,
    /// What operators reach over HTTP.
    pub(super) api: Arc<Api>,
    /// Where callers are served.
    pub(super) addresses: Vec<SocketAddr>,
    /// How long requests under way may take to end.
    pub(super) grace: Duration,
    pub(super) stop: watch::Sender<Deadline>,
    /// What a reload cannot change.
    pub(super) started: Started,
}

impl Operator {
    /// Does all of it, for as long as the program lives.
    pub(super) async fn serve(
        self,
        listener: TcpListener,
        mut end: EndSignals,
        announce: impl FnOnce(),
    ) {
        let admin = async {
            let (ready, end) = (self.readiness.clone(), std::future::pending());
            let ledger = self.accounts.ledger().clone();
            let serving = admin::serve(listener, ready, &self.api, ledger, end);
            if let Err(fault) = serving.await {
                log::error!("the admin listener has ended: {fault}");
            }
        };
        let end = async {
            loop {
                let grace = end.recv(self.grace).await;
                let deadline = Instant::now() + grace;
                self.readiness.set(false);
                // A later signal can bring the end forward, and never puts it off.
                self.stop.send_modify(|known| {
                    *known = Some(known.map_or(deadline, |known| known.min(deadline)));
                });
            }
        };
        let work = async {
            self.begin().await;
            announce();
            tokio::join!(self.keep_names_resolved(), self.reload_on_signal());
        };
        tokio::join!(admin, end, work);
    }

    /// Waits until requests can be served.
    async fn begin(&self) {
        let current = self.current.load_full();
        current.upstreams.resolve(RESOLVE_LIMIT).await;
        for address in &self.addresses {
            wait_until_taken(*address).await;
        }
        if self.stop.borrow().is_none() {
            self.readiness.set(true);
        }
    }

    async fn keep_names_resolved(&self) {
        loop {
            let wait = self.current.load().upstreams.resolve_in();
            tokio::time::sleep(wait).await;
            self.current
                .load_full()
                .upstreams
                .resolve(RESOLVE_LIMIT)
                .await;
        }
    }

    async fn reload_on_signal(&self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(fault) => return log::error!("SIGHUP cannot be waited for: {fault}"),
        };
        while hangup.recv().await.is_some() {
            match self.load_again().await {
                Ok(()) => log::info!("the configuration was reloaded"),
                Err(fault) => log::error!("the configuration stays as it was:\n{fault}"),
            }
        }
    }

    async fn load_again(&self) -> Result<(), RunError> {
        let config = (self.reload)()?;
        if config.catalog.models().is_empty() {
            return Err(RunError::NoModel);
        }
        let snapshot = Snapshot::build(&config, Some(&self.accounts))?;
        snapshot.upstreams.take_over(&self.current.load().upstreams);
        snapshot.upstreams.resolve(RESOLVE_LIMIT).await;
        self.current.store(Arc::new(snapshot));
        self.api.operations().set_offer(Offer::of(&config));
        self.api.set_token(config.admin_token.clone());
        for path in self.started.differs_from(&Started::with(&config)) {
            log::warn!("{path} has changed: that takes a restart");
        }
        Ok(())
    }
}

/// Waits until connections to an address are taken: Pingora does not tell.
async fn wait_until_taken(mut address: SocketAddr) {
    const AGAIN: Duration = Duration::from_millis(5);
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    while tokio::net::TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
}
