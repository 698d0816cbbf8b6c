//! Connections, their time-outs, and the bounded set of them.

use super::error;
use crate::store::StoreError;
use parking_lot::{Condvar, Mutex};
use postgres::{Client, Config, NoTls, Transaction, error::SqlState};
use std::{sync::Arc, time::Duration};

/// How often a transaction is tried that the database aborts because of another one.
const TRIES: usize = 5;
/// How long a connection may take to open, a statement to run, and a lock to come free.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const STATEMENT_TIMEOUT_MS: u32 = 10_000;
const LOCK_TIMEOUT_MS: u32 = 5_000;
/// Connections besides those of processes, and how long a caller waits for one.
const MOST_CONNECTIONS: usize = 8;
const POOL_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection, opened again after it was lost.
pub(super) struct Connection {
    config: Arc<Config>,
    client: Option<Client>,
}

impl Connection {
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            client: None,
        }
    }

    /// Runs one statement.
    pub(super) fn run<T>(
        &mut self,
        run: impl FnOnce(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        let done = self.client().and_then(run);
        self.checked(done)
    }

    /// Runs a transaction, again if the database aborted it in favour of another one.
    pub(super) fn change<T>(
        &mut self,
        mut change: impl FnMut(&mut Transaction<'_>) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            let done = self.client().and_then(|client| {
                let mut transaction = client.transaction()?;
                let result = change(&mut transaction)?;
                transaction.commit()?;
                Ok(result)
            });
            match done {
                Err(fault) if is_conflict(&fault) && tries < TRIES => tries += 1,
                done => return self.checked(done),
            }
        }
    }

    pub(super) fn place(&self) -> String {
        error::place(&self.config)
    }

    fn client(&mut self) -> Result<&mut Client, postgres::Error> {
        let client = match self.client.take() {
            Some(client) if !client.is_closed() => client,
            _ => {
                let mut client = self.config.connect(NoTls)?;
                client.batch_execute(&format!(
                    "SET statement_timeout = {STATEMENT_TIMEOUT_MS};
                     SET lock_timeout = {LOCK_TIMEOUT_MS};"
                ))?;
                client
            }
        };
        Ok(self.client.insert(client))
    }

    fn checked<T>(&self, done: Result<T, postgres::Error>) -> Result<T, StoreError> {
        done.map_err(|fault| error::describe(&fault, &self.config))
    }
}

fn is_conflict(fault: &postgres::Error) -> bool {
    fault.code().is_some_and(|code| {
        *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE
    })
}

/// A bounded set of connections.
pub(super) struct Pool {
    config: Arc<Config>,
    free: Mutex<(Vec<Connection>, usize)>,
    returned: Condvar,
}

impl Pool {
    pub(super) fn new(mut config: Config) -> Self {
        config.connect_timeout(CONNECT_TIMEOUT);
        config.application_name("tollgate");
        Self {
            config: Arc::new(config),
            free: Mutex::new((Vec::new(), 0)),
            returned: Condvar::new(),
        }
    }

    /// A connection outside of the set.
    pub(super) fn separate(&self) -> Connection {
        Connection::new(Arc::clone(&self.config))
    }

    pub(super) fn with<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut taken = Taken {
            pool: self,
            connection: Some(self.take()?),
        };
        match &mut taken.connection {
            Some(connection) => run(connection),
            None => Err(error::busy(&self.config)),
        }
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let mut free = self.free.lock();
        let is_full = |free: &mut (Vec<Connection>, usize)| free.1 >= MOST_CONNECTIONS;
        let waited = self
            .returned
            .wait_while_for(&mut free, is_full, POOL_TIMEOUT);
        if waited.timed_out() && is_full(&mut free) {
            return Err(error::busy(&self.config));
        }
        free.1 = free.1.saturating_add(1);
        Ok(free.0.pop().unwrap_or_else(|| self.separate()))
    }
}

/// Goes back into the set when it is dropped.
struct Taken<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock();
        free.0.extend(self.connection.take());
        free.1 = free.1.saturating_sub(1);
        self.pool.returned.notify_one();
    }
}
