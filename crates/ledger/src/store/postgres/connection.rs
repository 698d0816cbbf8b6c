//! Connections: their time-outs, their transactions, and the bounded set of them.

use super::{copy::Cell, error, server::Server};
use crate::store::StoreError;
use parking_lot::{Condvar, Mutex};
use postgres::{
    Client, Error, Row, Statement, binary_copy::BinaryCopyInWriter, error::SqlState,
    fallible_iterator::FallibleIterator, types::ToSql,
};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// How often a transaction is tried that the database aborts because of another one.
const TRIES: u32 = 5;
/// How long a statement may take, and how long it waits for a lock of another transaction.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a caller waits for a connection of the set.
const POOL_TIMEOUT: Duration = Duration::from_secs(5);

/// Values of a statement.
pub(super) type Values<'a> = [&'a (dyn ToSql + Sync)];

/// A connection in use: all statements go through here. Their plans are kept, by their texts.
pub(super) struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
    /// The week of the history that was last found or created.
    pub(super) week: Option<i64>,
}

impl Session {
    fn open(server: &Server) -> Result<Self, Error> {
        let mut session = Self {
            client: server.connect()?,
            statements: HashMap::new(),
            week: None,
        };
        // Whatever the configuration of the server is: a commit that was acknowledged must survive it, and a
        // statement that has waited for a lock must see what was committed meanwhile.
        session.batch(&format!(
            "SET statement_timeout = {time}; SET idle_in_transaction_session_timeout = {time};
             SET lock_timeout = {lock}; SET default_transaction_isolation = 'read committed';
             SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') = 'off'",
            time = STATEMENT_TIMEOUT.as_millis(),
            lock = LOCK_TIMEOUT.as_millis(),
        ))?;
        Ok(session)
    }

    /// Runs statements without values.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql)
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(super) fn query(&mut self, sql: &str, values: &Values<'_>) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql)?;
        self.client.query(&statement, values)
    }

    /// Gives each row to `each` as it comes, until that returns `false`.
    pub(super) fn for_each(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        mut each: impl FnMut(&Row) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let statement = self.prepare(sql)?;
        let mut rows = self.client.query_raw(&statement, values.iter().copied())?;
        while let Some(row) = rows.next()? {
            if !each(&row)? {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn query_opt(
        &mut self,
        sql: &str,
        values: &Values<'_>,
    ) -> Result<Option<Row>, Error> {
        let statement = self.prepare(sql)?;
        self.client.query_opt(&statement, values)
    }

    pub(super) fn query_one(&mut self, sql: &str, values: &Values<'_>) -> Result<Row, Error> {
        let statement = self.prepare(sql)?;
        self.client.query_one(&statement, values)
    }

    pub(super) fn execute(&mut self, sql: &str, values: &Values<'_>) -> Result<u64, Error> {
        let statement = self.prepare(sql)?;
        self.client.execute(&statement, values)
    }

    /// Inserts rows, the values of each in the order of the table's columns.
    pub(super) fn insert_rows(&mut self, table: &str, rows: &[Vec<Cell>]) -> Result<(), Error> {
        let columns = self.prepare(&format!("SELECT * FROM {table} LIMIT 0"))?;
        let types: Vec<_> = columns
            .columns()
            .iter()
            .map(|it| it.type_().clone())
            .collect();
        let copy = format!("COPY {table} FROM STDIN BINARY");
        let mut writer = BinaryCopyInWriter::new(self.client.copy_in(&copy)?, &types);
        for row in rows {
            let cells: Vec<&(dyn ToSql + Sync)> = row.iter().map(|cell| cell as _).collect();
            writer.write(&cells)?;
        }
        writer.finish().map(|_| ())
    }

    /// A week that was created in what is rolled back is gone.
    fn forget_if_failed<T>(&mut self, result: &Result<T, Error>) {
        if result.is_err() {
            self.week = None;
        }
    }

    /// Runs `change` in a savepoint, and rolls back to it if `change` fails.
    pub(super) fn attempt<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Result<T, Error>, Error> {
        self.batch("SAVEPOINT attempt")?;
        let result = change(self);
        self.forget_if_failed(&result);
        self.batch(match result {
            Ok(_) => "RELEASE attempt",
            Err(_) => "ROLLBACK TO attempt; RELEASE attempt",
        })?;
        Ok(result)
    }
}

/// A connection that is opened when it is needed, and again after it was lost.
pub(super) struct Connection {
    server: Arc<Server>,
    session: Option<Session>,
}

impl Connection {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            session: None,
        }
    }

    /// Another connection to the same server.
    pub(super) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.server))
    }

    /// Runs statements that can be repeated, each a transaction of its own.
    pub(super) fn run<T>(
        &mut self,
        mut run: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.check()?;
        let begun = self.begin(&mut run);
        let (session, done) = begun.map_err(|fault| self.server.describe(&fault))?;
        self.session = Some(session);
        Ok(done)
    }

    /// Runs statements that see one snapshot and change nothing.
    pub(super) fn read<T>(
        &mut self,
        read: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", read)
    }

    /// Runs a transaction, again if the database aborted it in favour of another one. Each statement
    /// sees what was committed before it. The server avoids plans that read a table whole: it would choose them
    /// for the week that has just begun, which it takes for small until it is analyzed.
    pub(super) fn change<T>(
        &mut self,
        change: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL enable_seqscan = off";
        self.transaction(begin, change)
    }

    fn transaction<T>(
        &mut self,
        begin: &str,
        mut run: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.check()?;
        for tries in 1.. {
            match self.try_transaction(begin, &mut run) {
                Err(fault) if is_conflict(&fault) && tries < TRIES => {}
                Err(fault) => return Err(self.server.describe(&fault)),
                Ok(done) => return Ok(done),
            }
        }
        Err(error::busy(&self.server))
    }

    /// Fails without a try if a connection is needed and it is too early for one.
    fn check(&self) -> Result<(), StoreError> {
        match self.session {
            Some(_) => Ok(()),
            None => self.server.may_connect(),
        }
    }

    /// The session is kept if its transaction is over; a panic or a lost connection drops it.
    fn try_transaction<T>(
        &mut self,
        begin: &str,
        run: &mut impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (mut session, ()) = self.begin(|session| session.batch(begin))?;
        let done = run(&mut session);
        session.forget_if_failed(&done);
        let ended = session.batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        match (done, ended) {
            (Ok(done), Ok(())) => {
                self.session = Some(session);
                Ok(done)
            }
            (Err(fault), Ok(())) if !is_of_the_session(&fault) => {
                self.session = Some(session);
                Err(fault)
            }
            (Err(fault), _) | (Ok(_), Err(fault)) => Err(fault),
        }
    }

    /// Takes the session, opens one if there is none, and runs the first statement. A connection that
    /// was lost while it was idle shows only then: another one takes its place.
    fn begin<T>(
        &mut self,
        mut first: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<(Session, T), Error> {
        if let Some(mut session) = self.session.take() {
            match first(&mut session) {
                Ok(done) => return Ok((session, done)),
                Err(fault) if is_of_the_session(&fault) => {}
                Err(fault) => {
                    self.session = Some(session);
                    return Err(fault);
                }
            }
        }
        let mut session = Session::open(&self.server)?;
        let done = first(&mut session)?;
        Ok((session, done))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The client ends on a runtime of its own, which panics on a thread that runs another one.
        if let Some(session) = self.session.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            // Without a thread the closure is dropped here; there is no better place.
            let _ = std::thread::Builder::new().spawn(move || drop(session));
        }
    }
}

fn is_conflict(fault: &Error) -> bool {
    fault.code().is_some_and(|code| {
        *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE
    })
}

/// Whether another connection may do better: this one is lost, its server ends (class 57P) or has
/// become a standby.
fn is_of_the_session(fault: &Error) -> bool {
    match fault.code() {
        Some(code) => {
            *code == SqlState::READ_ONLY_SQL_TRANSACTION || code.code().starts_with("57P")
        }
        None => fault.is_closed() || error::is_of_the_network(fault),
    }
}

/// A bounded set of connections.
pub(super) struct Pool {
    server: Arc<Server>,
    most: usize,
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    free: Vec<Connection>,
    for_requests: usize,
    for_others: usize,
}

/// The users of connections. Each leaves some to the other one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// A client's request waits.
    Request,
    /// An operator's command, a report or the upkeep.
    Other,
}

impl PoolState {
    const fn in_use(&mut self, user: User) -> &mut usize {
        match user {
            User::Request => &mut self.for_requests,
            User::Other => &mut self.for_others,
        }
    }
}

impl Pool {
    pub(super) fn new(server: Arc<Server>, most: usize) -> Self {
        Self {
            server,
            most,
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// A connection outside of the set.
    pub(super) fn separate(&self) -> Connection {
        Connection::new(Arc::clone(&self.server))
    }

    /// Runs something for which no client's request waits to be admitted. It leaves a quarter of the
    /// connections to these, at least one of several: a key is found while reports take long.
    pub(super) fn with<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_one_for(User::Other, run)
    }

    /// Runs something for a client's request. It leaves one of several connections: a key is revoked while
    /// look-ups take long.
    pub(super) fn for_request<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_one_for(User::Request, run)
    }

    fn with_one_for<T>(
        &self,
        user: User,
        run: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut connection = self.take(user)?;
        // Counted as free however `run` ends.
        let _taken = Taken(self, user);
        let done = run(&mut connection);
        self.state.lock().free.push(connection);
        done
    }

    fn take(&self, user: User) -> Result<Connection, StoreError> {
        let left = match user {
            User::Request => 1,
            User::Other => (self.most / 4).max(1),
        };
        let most = self.most.saturating_sub(left).max(1);
        let mut state = self.state.lock();
        let is_full = |state: &mut PoolState| {
            let all = state.for_requests.saturating_add(state.for_others);
            all >= self.most || *state.in_use(user) >= most
        };
        self.returned
            .wait_while_for(&mut state, is_full, POOL_TIMEOUT);
        if is_full(&mut state) {
            return Err(error::busy(&self.server));
        }
        let in_use = state.in_use(user);
        *in_use = in_use.saturating_add(1);
        Ok(state.free.pop().unwrap_or_else(|| self.separate()))
    }
}

struct Taken<'a>(&'a Pool, User);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let in_use = state.in_use(self.1);
        *in_use = in_use.saturating_sub(1);
        // Not all that wait may take it.
        self.0.returned.notify_all();
    }
}
