//! The cases of the conformance suite, and what only PostgreSQL has, on a server that the tests start.

mod changes;
mod copy;
mod cost;
mod history;
mod leases;
mod limit_locks;
mod limits;
mod partition;
mod purge;
mod refusals;
mod rolling;
mod server;
mod transactions;

use super::{Postgres, ServerSettings, migrate};
use crate::{
    balance::Piece,
    clock::{Clock, Timestamp},
    entry::{Entry, tests::largest},
    history::{History, HistoryQuery},
    key::{KeyHash, KeyHasher},
    record::NewKey,
    store::{
        GrantTerms, Store, StoreError,
        conformance::{EVERYTHING, Fixture, keys_of},
        database::{Batch, BeyondLease, Committed, Database, Lease, LeaseMode, Process, Share},
    },
};
use server::{TestServer, primary};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tollgate_types::{KeyId, Money, PerUnit, RequestId, Unit};

/// A database of its own on the server of all tests.
struct Empty {
    folder: TempDir,
    name: String,
    server: &'static TestServer,
    lease_term: Duration,
}

impl Empty {
    fn on(server: &'static TestServer) -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            name: server.create_database(),
            server,
            lease_term: Duration::from_secs(30),
        }
    }

    fn settings(&self) -> ServerSettings {
        ServerSettings {
            server: self.server.local(&self.name),
            local: self.folder.path().join("ledger"),
            connections: 8,
            lease_term: self.lease_term,
        }
    }

    fn database(&self, pepper: &KeyHash) -> Result<Postgres, StoreError> {
        Postgres::open(self.settings(), pepper)
    }

    /// From now on the answer to each COMMIT of new leases is an error.
    fn fail_commits(&self) {
        self.sql(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
             CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON leases DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION fail()",
        );
    }

    /// Ends the connections of a role and refuses new ones. In one transaction, the role could connect again before the
    /// commit.
    fn cut_off(&self, role: &str) {
        self.sql(&format!("ALTER ROLE {role} NOLOGIN"));
        self.sql(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
        ));
    }

    fn sql(&self, sql: &str) {
        self.server.sql(&self.name, sql);
    }
}

impl Fixture for Empty {
    fn open(&self, pepper: &KeyHash) -> Arc<dyn Database> {
        let settings = self.settings();
        if migrate(&settings.server).unwrap() > 0 {
            // Cases have clocks of their own.
            self.sql(
                "CREATE OR REPLACE FUNCTION now_ms() RETURNS bigint LANGUAGE sql STABLE
                 AS 'SELECT 9223372036854775807'",
            );
        }
        Arc::new(self.database(pepper).unwrap())
    }
}

fn hasher() -> KeyHasher {
    KeyHasher::new(b"a pepper for tests").unwrap()
}

fn store_over(database: Arc<dyn Database>) -> Store {
    Store::over(database, hasher(), Clock::system())
}

#[test]
fn a_connection_that_was_lost_is_opened_again() {
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let now = Timestamp::from_unix_ms(1);
    let mut process = store.database().begin_process("one", now).unwrap();
    for _ in 0..2 {
        store.create_key(&NewKey::named("ci")).unwrap();
        assert!(!process.check_in().unwrap().is_fenced);
        server.sql(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
                case.name
            ),
        );
    }
    assert_eq!(keys_of(&store).len(), 2);
}

#[test]
fn a_process_elsewhere_keeps_its_leases_as_long_as_it_is_renewed() {
    const TERM: Duration = Duration::from_secs(2);
    let Some(server) = primary() else {
        return;
    };
    let case = Empty {
        lease_term: TERM,
        ..Empty::on(server)
    };
    let store = store_over(case.open(&hasher().fingerprint()));
    let now = store.clock().now();
    let mut one = store.database().begin_process("one", now).unwrap();
    let mut two = store.database().begin_process("two", now).unwrap();
    let begun = Instant::now();
    let mut renewed = begun;
    while begun.elapsed() < TERM * 3 / 2 {
        renewed = Instant::now();
        assert!(!one.check_in().unwrap().is_fenced);
        let peers = two.check_in().unwrap().peers;
        assert!(!peers[0].is_silent);
        std::thread::park_timeout(TERM / 10);
    }
    let mut peer = two.check_in().unwrap().peers.remove(0);
    while !peer.is_silent {
        std::thread::park_timeout(TERM / 10);
        peer = two.check_in().unwrap().peers.remove(0);
    }
    assert!(renewed.elapsed() >= TERM);
    // Renewed at the last moment, it is not ended.
    assert!(!one.check_in().unwrap().is_fenced);
    two.recover(Some(peer.number), None, now).unwrap();
    assert!(!one.check_in().unwrap().is_fenced);
    while !two.check_in().unwrap().peers[0].is_silent {
        std::thread::park_timeout(TERM / 10);
    }
    two.recover(Some(peer.number), None, now).unwrap();
    assert!(one.check_in().unwrap().is_fenced);
    assert_eq!(two.check_in().unwrap().peers, []);
}

/// A commit whose answer is lost with its connection may have been carried out or not.
#[test]
fn a_process_that_does_not_know_what_it_leases_ends() {
    let Some(server) = primary() else {
        return;
    };
    for was_carried_out in [false, true] {
        let case = Empty::on(server);
        let store = store_over(case.open(&hasher().fingerprint()));
        let made = store.create_key(&NewKey::named("ci")).unwrap();
        let key = made.record.id().clone();
        let terms = GrantTerms {
            tokens: 100,
            validity: Duration::from_secs(60),
            ..GrantTerms::default()
        };
        store
            .top_up(&crate::store::KeySelector::Id(key.clone()), &terms)
            .unwrap();
        let now = store.clock().now();
        let mut process = store.database().begin_process("one", now).unwrap();
        case.fail_commits();
        try_lease(&mut *process, &key, EVERYTHING, now).unwrap_err();
        case.sql("DROP FUNCTION fail CASCADE");
        if was_carried_out {
            case.sql(
                "UPDATE processes SET commits = commits + 1;
                 INSERT INTO leases SELECT grants.number, processes.number, 60
                 FROM grants, processes",
            );
        }
        let committed = try_lease(&mut *process, &key, EVERYTHING, now).unwrap();
        assert_eq!(committed.is_fenced, was_carried_out);
        let leased: u64 = store.verify().unwrap().leased;
        assert_eq!(leased, if was_carried_out { 0 } else { 100 });
        assert_eq!(process.check_in().unwrap().is_fenced, was_carried_out);
        assert_eq!(store.verify().unwrap().faults, [""; 0]);
    }
}

#[test]
fn what_was_given_adds_up_beyond_63_bits() {
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let new = NewKey {
        grant: Some(terms(1000)),
        ..NewKey::named("ci")
    };
    for _ in 0..3 {
        store.create_key(&new).unwrap();
    }
    case.sql("UPDATE grants SET tokens = 5000000000000000001");
    assert_eq!(store.verify().unwrap().granted, 15_000_000_000_000_000_003);
}

#[test]
fn a_charge_beyond_the_lease_is_paid_from_what_is_free_of_any_grant() {
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let both = |amount| GrantTerms {
        money: Money::from_nanos(amount),
        ..terms(amount)
    };
    let new = NewKey {
        grant: Some(both(100)),
        ..NewKey::named("ci")
    };
    let key = store.create_key(&new).unwrap().record.id().clone();
    let selector = crate::store::KeySelector::Id(key.clone());
    store.top_up(&selector, &both(20)).unwrap();
    let now = store.clock().now();
    let mut process = store.database().begin_process("one", now).unwrap();
    let half = PerUnit::from_fn(|_| 50);
    let share = lease_at_most(&mut *process, &key, half, now);
    assert_eq!(share.of.iter().map(|of| of.unleased).sum::<u64>(), 2 * 70);
    let leased = |unit| {
        let mut grants = share.grants.iter();
        let grant = grants.find(|grant| grant.unit == unit && grant.free == 50);
        grant.unwrap().number.0
    };
    for (request, overdraft, used, beyond) in
        [(1, 60, [100, 10], [60, 0]), (2, 30, [100, 20], [10, 20])]
    {
        let amount = if request == 1 { 50 } else { 0 };
        let entry = Entry {
            paid: vec![(leased(Unit::Tokens), amount)].into(),
            overdraft,
            cost: Some(Money::from_nanos(amount + overdraft)),
            cost_paid: vec![(leased(Unit::Money), amount)].into(),
            cost_overdraft: Some(Money::from_nanos(overdraft)),
            ..settled(&share, request, 0)
        };
        let committed = commit(&mut *process, &[&entry], &[], now);
        let [paid, overdraft] = beyond.map(|amount| PerUnit::from_fn(|_| amount));
        let beyond = BeyondLease {
            request: entry.request,
            key: entry.key,
            paid,
            overdraft,
        };
        assert_eq!(committed.beyond, [beyond]);
        let grants = store.grants(&key).unwrap();
        let tokens = grants.iter().map(|it| it.used).filter(|used| *used > 0);
        assert_eq!(tokens.collect::<Vec<_>>(), used);
        let money = grants.iter().map(|it| it.money_used.nanos());
        assert_eq!(money.filter(|used| *used > 0).collect::<Vec<_>>(), used);
    }
    // Totals, records and grants agree on what no grant has paid.
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
}

#[test]
fn text_with_a_zero_byte_is_kept_without_it() {
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let mut leasing = Leasing::on(&store, terms(100));
    let entry = Entry {
        asked: "gpt\0".into(),
        ..settled(&leasing.share, 1, 10)
    };
    leasing.settle(&[&entry]);
    let history = History::new(&store);
    let page = history
        .page(&leasing.key, &HistoryQuery::default())
        .unwrap();
    assert_eq!(page.data[0].model_asked, "gpt\u{FFFD}");
    let checked = leasing.process.check_in().unwrap();
    assert_eq!(checked.quarantined.refused, 0);
}

/// Many processes settle requests of the same keys, each from what it leases, while tokens move among
/// them. Nothing deadlocks for good, and everything adds up.
#[test]
fn processes_that_settle_at_once_agree_on_every_token() {
    const PROCESSES: u64 = 6;
    const ROUNDS: u64 = 25;
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let key = |_| {
        let new = NewKey {
            grant: Some(terms(1_000_000)),
            ..NewKey::named("ci")
        };
        store.create_key(&new).unwrap().record.id().clone()
    };
    let keys: Vec<KeyId> = (0..4).map(key).collect();
    let spend = |number: u64| {
        let now = store.clock().now();
        let name = format!("process-{number}");
        let mut process = store.database().begin_process(&name, now).unwrap();
        let mut spent = 0;
        for round in 0..ROUNDS {
            let shares: Vec<Share> = keys
                .iter()
                .map(|key| lease(&mut *process, key, now))
                .collect();
            let mut entries = Vec::new();
            let mut returned = Vec::new();
            for (place, share) in (0_u64..).zip(&shares) {
                let free = share.grants[0].free;
                let tokens = free.min(7);
                let request = ((number * ROUNDS + round) << 8) + place;
                entries.push(settled(share, request, tokens));
                spent += tokens;
                returned.push(Piece {
                    grant: share.grants[0].number,
                    amount: free - tokens,
                });
            }
            let entries: Vec<&Entry> = entries.iter().collect();
            commit(&mut *process, &entries, &returned, now);
        }
        process.end(now).unwrap();
        spent
    };
    let spent: u64 = std::thread::scope(|scope| {
        let spend = &spend;
        let all: Vec<_> = (0..PROCESSES)
            .map(|number| scope.spawn(move || spend(number)))
            .collect();
        all.into_iter().map(|it| it.join().unwrap()).sum()
    });
    let found = store.verify().unwrap();
    assert_eq!(found.faults, [""; 0]);
    assert_eq!((found.spent, found.leased), (spent, 0));
    assert_eq!(found.requests, PROCESSES * ROUNDS * 4);
    assert!(spent > 0);
}

fn terms(tokens: u64) -> GrantTerms {
    GrantTerms {
        tokens,
        validity: Duration::from_secs(86_400),
        ..GrantTerms::default()
    }
}

/// A key with a grant, and a process that leases all of it.
struct Leasing {
    key: KeyId,
    process: Box<dyn Process>,
    share: Share,
    now: Timestamp,
}

impl Leasing {
    fn on(store: &Store, grant: GrantTerms) -> Self {
        let new = NewKey {
            grant: Some(grant),
            ..NewKey::named("ci")
        };
        let key = store.create_key(&new).unwrap().record.id().clone();
        let now = store.clock().now();
        let mut process = store.database().begin_process("one", now).unwrap();
        let share = lease(&mut *process, &key, now);
        Self {
            key,
            process,
            share,
            now,
        }
    }

    fn settle(&mut self, entries: &[&Entry]) {
        commit(&mut *self.process, entries, &[], self.now);
    }
}

fn lease(process: &mut dyn Process, key: &KeyId, now: Timestamp) -> Share {
    lease_at_most(process, key, EVERYTHING, now)
}

fn lease_at_most(
    process: &mut dyn Process,
    key: &KeyId,
    most: PerUnit<u64>,
    now: Timestamp,
) -> Share {
    let leased = try_lease(process, key, most, now);
    let (_, share) = leased.unwrap().shares.pop().unwrap();
    share.unwrap()
}

fn try_lease(
    process: &mut dyn Process,
    key: &KeyId,
    most: PerUnit<u64>,
    now: Timestamp,
) -> Result<Committed, StoreError> {
    let lease = Lease {
        key: key.clone(),
        mode: LeaseMode::Take,
        most,
    };
    try_commit(process, &[], &[], &[lease], now)
}

fn commit(
    process: &mut dyn Process,
    settled: &[&Entry],
    returned: &[Piece],
    now: Timestamp,
) -> Committed {
    try_commit(process, settled, returned, &[], now).unwrap()
}

fn try_commit(
    process: &mut dyn Process,
    settled: &[&Entry],
    returned: &[Piece],
    leases: &[Lease],
    now: Timestamp,
) -> Result<Committed, StoreError> {
    process.commit(&Batch {
        settled,
        stored: &[],
        returned,
        leases,
        now: &|| now,
        pause: &|| (),
    })
}

fn settled(share: &Share, request: u64, tokens: u64) -> Entry {
    Entry {
        request: RequestId::from_parts(0, request.into()),
        key: share.key,
        paid: vec![(share.grants[0].number.0, tokens)].into(),
        overdraft: 0,
        ..largest()
    }
}

mod conformance {
    use super::{Empty, primary};

    crate::store::conformance::conformance_tests!(match primary() {
        Some(server) => Empty::on(server),
        None => return,
    });
}
