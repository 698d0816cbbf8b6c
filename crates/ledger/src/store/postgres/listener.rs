//! Changes that the server announces (`LISTEN`), over a connection of its own.
//!
//! An announcement says only that something has changed. One that is lost costs time and nothing else,
//! because its readers look from time to time as well.

use super::server::Server;
use crate::{
    directory::spawn,
    store::{StoreError, database::Wake},
};
use parking_lot::Mutex;
use postgres::fallible_iterator::FallibleIterator;
use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// The triggers of the tables announce changes here.
const LISTEN: &str = "LISTEN tollgate_changes";
/// The name of the connection among the server's sessions.
pub(super) const NAME: &str = "tollgate changes";
/// How long a lost connection stays lost at most before it is opened again, and the longest time until the
/// thread ends.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest time between two calls, so that a flood of changes is not looked at one by one.
const LEAST_PAUSE: Duration = Duration::from_millis(10);
/// How often a connection over which nothing comes is tested.
const TEST_EVERY: Duration = Duration::from_secs(10);
const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The thread that listens, from the first reader on. It ends with this value.
pub(super) struct Listener {
    server: Arc<Server>,
    readers: Mutex<Option<Arc<Readers>>>,
}

#[derive(Default)]
struct Readers(Mutex<Vec<Weak<dyn Fn() + Send + Sync>>>);

impl Listener {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            readers: Mutex::default(),
        }
    }

    /// Calls `wake` after each announcement, and when some may have been missed.
    pub(super) fn add(&self, wake: &Wake) -> Result<(), StoreError> {
        let mut readers = self.readers.lock();
        let readers = match &*readers {
            Some(readers) => readers,
            None => readers.insert(self.start()?),
        };
        readers.0.lock().push(Arc::downgrade(wake));
        Ok(())
    }

    fn start(&self) -> Result<Arc<Readers>, StoreError> {
        let readers = Arc::new(Readers::default());
        let (server, heard) = (Arc::clone(&self.server), Arc::downgrade(&readers));
        spawn("ledger-changes", self.server.place(), move || {
            run(&server, &heard);
        })?;
        Ok(readers)
    }
}

fn run(server: &Server, readers: &Weak<Readers>) {
    let mut is_reported = false;
    loop {
        let mut has_listened = false;
        let ended = listen(server, readers, &mut has_listened);
        if readers.strong_count() == 0 {
            return;
        }
        if has_listened || !is_reported {
            is_reported = true;
            let cause = match ended {
                Ok(()) => "the server has closed the connection".to_owned(),
                Err(fault) => server.describe(&fault).to_string(),
            };
            log::warn!("the database does not announce changes, which are polled for: {cause}");
        }
        // Gateways that lost their connections together come back at different times.
        while readers.strong_count() > 0 {
            std::thread::park_timeout(PAUSE.mul_f64(0.5 + fastrand::f64() / 2.0));
            if server.may_connect().is_ok() {
                break;
            }
        }
    }
}

/// Listens until the connection or the listener is gone.
fn listen(
    server: &Server,
    readers: &Weak<Readers>,
    has_listened: &mut bool,
) -> Result<(), postgres::Error> {
    let mut client = server.connect_as(NAME)?;
    client.batch_execute(LISTEN)?;
    *has_listened = true;
    let mut heard_at = Instant::now();
    // Something may have changed before.
    let mut is_changed = true;
    while let Some(readers) = readers.upgrade() {
        if is_changed {
            heard_at = Instant::now();
            readers.wake();
            std::thread::park_timeout(LEAST_PAUSE);
        }
        drop(readers);
        let first = client.notifications().timeout_iter(PAUSE).next()?;
        is_changed = first.is_some();
        // Announcements that came together are one.
        while client.notifications().iter().next()?.is_some() {}
        if !is_changed && client.is_closed() {
            return Ok(());
        }
        if heard_at.elapsed() >= TEST_EVERY {
            heard_at = Instant::now();
            client.is_valid(TEST_TIMEOUT)?;
        }
    }
    Ok(())
}

impl Readers {
    fn wake(&self) {
        let mut readers = self.0.lock();
        readers.retain(|wake| wake.strong_count() > 0);
        let wakes: Vec<Wake> = readers.iter().filter_map(Weak::upgrade).collect();
        // A reader may come or go meanwhile.
        drop(readers);
        wakes.iter().for_each(|wake| wake());
    }
}
