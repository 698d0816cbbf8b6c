//! Changes that the server announces (`LISTEN`), over a connection of its own.
//!
//! An announcement says only that something has changed; whoever hears it looks. One that is lost costs
//! time and nothing else, because everybody looks from time to time as well.

use super::server::Server;
use crate::{
    directory::spawn,
    store::{
        StoreError,
        database::{Subscription, Wake},
    },
};
use parking_lot::Mutex;
use postgres::fallible_iterator::FallibleIterator;
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The statement by which a session hears of changes. The triggers of the tables announce them.
const LISTEN: &str = "LISTEN tollgate_changes";
/// By which others the connection is seen among the server's sessions.
const NAME: &str = "tollgate changes";
/// How long a lost connection stays lost before it is opened again, and the longest time until the end
/// of the thread.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a connection over which nothing comes is tested.
const TEST_EVERY: Duration = Duration::from_secs(10);
const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The thread that listens, from the first subscription on. It ends with this value.
pub(super) struct Listener {
    server: Arc<Server>,
    subscribers: Mutex<Option<Arc<Subscribers>>>,
}

#[derive(Default)]
struct Subscribers {
    wakes: Mutex<Vec<Weak<Wake>>>,
    is_live: Arc<AtomicBool>,
}

impl Listener {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            subscribers: Mutex::new(None),
        }
    }

    /// Calls `wake` with each announcement, and when some may have been missed.
    pub(super) fn subscribe(&self, wake: Wake) -> Result<Subscription, StoreError> {
        let mut subscribers = self.subscribers.lock();
        let subscribers = match &*subscribers {
            Some(subscribers) => subscribers,
            None => subscribers.insert(self.start()?),
        };
        let wake = Arc::new(wake);
        subscribers.wakes.lock().push(Arc::downgrade(&wake));
        Ok(Subscription::new(wake, Arc::clone(&subscribers.is_live)))
    }

    fn start(&self) -> Result<Arc<Subscribers>, StoreError> {
        let subscribers = Arc::new(Subscribers::default());
        let (server, heard) = (Arc::clone(&self.server), Arc::downgrade(&subscribers));
        spawn("ledger-changes", self.server.place(), move || {
            run(&server, &heard);
        })?;
        Ok(subscribers)
    }
}

fn run(server: &Server, heard: &Weak<Subscribers>) {
    let mut was_lost = false;
    loop {
        let ended = listen(server, heard);
        let Some(subscribers) = heard.upgrade() else {
            return;
        };
        let was_live = subscribers.is_live.swap(false, Ordering::AcqRel);
        if was_live || !was_lost {
            let cause = match ended {
                Ok(()) => "the server has closed the connection".to_owned(),
                Err(fault) => server.describe(&fault).to_string(),
            };
            log::warn!("changes in the database are not announced, and are looked for: {cause}");
        }
        was_lost = true;
        drop(subscribers);
        std::thread::park_timeout(PAUSE);
    }
}

/// Listens until the connection or the last subscriber is gone.
fn listen(server: &Server, heard: &Weak<Subscribers>) -> Result<(), postgres::Error> {
    let mut client = server.connect_as(NAME)?;
    client.batch_execute(LISTEN)?;
    let mut is_new = true;
    let mut heard_at = Instant::now();
    while let Some(subscribers) = heard.upgrade() {
        if std::mem::take(&mut is_new) {
            subscribers.is_live.store(true, Ordering::Release);
            // Something may have changed before.
            subscribers.wake();
        }
        drop(subscribers);
        let first = client.notifications().timeout_iter(PAUSE).next()?;
        if first.is_some() {
            heard_at = Instant::now();
            // Those that came together are one.
            while client.notifications().iter().next()?.is_some() {}
            if let Some(subscribers) = heard.upgrade() {
                subscribers.wake();
            }
        } else if client.is_closed() {
            return Ok(());
        } else if heard_at.elapsed() >= TEST_EVERY {
            heard_at = Instant::now();
            client.is_valid(TEST_TIMEOUT)?;
        }
    }
    Ok(())
}

impl Subscribers {
    fn wake(&self) {
        // A subscriber may subscribe or leave meanwhile.
        let mut living = Vec::new();
        self.wakes.lock().retain(|wake| {
            let wake = wake.upgrade();
            let is_living = wake.is_some();
            living.extend(wake);
            is_living
        });
        for wake in living {
            (*wake)();
        }
    }
}
