//! Gateways on one database, one of which loses its way to it.

use super::{Empty, hasher};
use crate::{
    Ending, Ledger, LedgerSettings, RequestInfo, Reservation, Reserve, Shortage, UpperBound,
    charge::BillingState,
    clock::Clock,
    history::{History, HistoryQuery},
    record::NewKey,
    store::{GrantTerms, KeySelector, ServerSettings, Store, migrate},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};
use tollgate_types::{Format, KeyId, RequestId, Unavailable, Unit, Usage, Weights};

const TERM: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits on a runtime: the client of the database must not be used on one.
pub(super) fn wait_for<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(what)
}

/// A gateway with a role of its own, without which it does not reach the database.
pub(super) struct Node<'a> {
    case: &'a Empty,
    role: String,
    pub(super) ledger: Ledger,
    clock: Clock,
    /// Without it nothing is announced to the ledger.
    _store: Store,
}

impl<'a> Node<'a> {
    pub(super) fn start(case: &'a Empty, number: u32) -> Self {
        Self::start_at(case, number, Clock::system())
    }

    fn start_at(case: &'a Empty, number: u32, clock: Clock) -> Self {
        let role = format!("{}_node_{number}", case.name);
        case.sql(&format!("CREATE ROLE {role} LOGIN SUPERUSER"));
        let settings = ServerSettings {
            server: case.server.local_as(&role, &case.name),
            // A machine of its own.
            local: case.folder.path().join(&role).join("ledger"),
            ..case.settings()
        };
        std::fs::create_dir(case.folder.path().join(&role)).unwrap();
        let store = Store::open_on_server(settings, hasher(), clock.clone()).unwrap();
        let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
        Self {
            case,
            role,
            ledger,
            clock,
            _store: store,
        }
    }

    pub(super) fn cut_off(&self) {
        self.case.cut_off(&self.role);
    }

    pub(super) fn join_again(&self) {
        self.case.sql(&format!("ALTER ROLE {} LOGIN", self.role));
    }

    pub(super) fn reserve(&self, key: &KeyId, output: u64) -> Result<Reservation, Shortage> {
        self.reserve_of(key, bound(output), Weights::default())
    }

    pub(super) fn reserve_of(
        &self,
        key: &KeyId,
        bound: UpperBound,
        weights: Weights,
    ) -> Result<Reservation, Shortage> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        loop {
            let request = RequestInfo {
                id: RequestId::from_parts(self.clock.now().unix_ms(), number.into()),
                model: "m".into(),
                reason: None,
                format: Some(Format::Chat),
                streamed: false,
            };
            match self.ledger.reserve(key, request, bound, weights) {
                Reserve::Reserved(reservation) => return Ok(reservation),
                Reserve::Refused(refused) => return Err(refused),
                Reserve::Wait(account) => wait_for(account.wait())?,
            }
        }
    }

    pub(super) fn eventually(&self, key: &KeyId, output: u64) -> Reservation {
        let start = Instant::now();
        loop {
            match self.reserve(key, output) {
                Ok(reservation) => return reservation,
                Err(refused) => assert!(start.elapsed() < PATIENCE, "still {refused}"),
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

pub(super) fn bound(output: u64) -> UpperBound {
    UpperBound {
        input: 0,
        hidden_input: 0,
        output,
        useful_output: output,
        plausible_input: u64::MAX,
        plausible_output: u64::MAX,
    }
}

pub(super) fn completed(output: u64) -> Ending {
    let usage = Usage {
        output,
        ..Usage::default()
    };
    Ending {
        status: 200,
        error: None,
        reported: Some(usage),
        ..Ending::unreported(BillingState::Completed, usage)
    }
}

pub(super) fn key_with(store: &Store, tokens: u64) -> KeyId {
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let terms = GrantTerms {
        tokens,
        validity: Duration::from_secs(86_400),
        ..GrantTerms::default()
    };
    let key = made.record.id().clone();
    store.top_up(&KeySelector::Id(key.clone()), &terms).unwrap();
    key
}

/// Waits until a gateway admits nothing, and returns when the last request came that it has admitted.
fn admits_nothing(node: &Node<'_>, key: &KeyId) -> Instant {
    let start = Instant::now();
    let mut last = start;
    loop {
        let came = Instant::now();
        match node.reserve(key, 1) {
            Ok(reservation) => {
                reservation.settle(&completed(1));
                last = came;
            }
            Err(Shortage::Unavailable(Unavailable::Stalled(_) | Unavailable::TimedOut)) => {
                return last;
            }
            Err(other) => panic!("{other}"),
        }
        assert!(start.elapsed() < PATIENCE);
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

fn case() -> Option<Empty> {
    let case = Empty {
        lease_term: TERM,
        ..Empty::on(super::primary()?)
    };
    migrate(&case.settings().server).unwrap();
    Some(case)
}

#[test]
fn a_gateway_that_is_cut_off_stops_before_others_get_its_tokens_and_settles_late() {
    let Some(case) = case() else { return };
    let store = Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap();
    let key = key_with(&store, 1000);
    let (one, two) = (Node::start(&case, 1), Node::start(&case, 2));
    // It leases all.
    let open = one.reserve(&key, 300).unwrap();
    assert_eq!(two.reserve(&key, 900).unwrap_err(), Shortage::Busy);
    let leased = one.ledger.holdings(&key).unwrap().tokens.unwrap().all();
    one.cut_off();
    let cut_off = Instant::now();
    let last = admits_nothing(&one, &key);
    let served = last - cut_off;
    assert!(served <= TERM * 3 / 4, "{served:?}");
    // What was spent there in the meantime is not entered yet.
    let held = two.eventually(&key, 900);
    // From its last renewal on, it admits requests for half the term, and keeps its tokens for all of it.
    let between = last.elapsed();
    assert!(between >= TERM * 2 / 5, "{between:?}");
    held.settle(&completed(900));
    assert!(wait_for(two.ledger.caught_up(PATIENCE)));
    // Its settlements wait for the database.
    open.settle(&completed(300));
    one.join_again();
    wait_for(async { tokio::time::timeout(PATIENCE, one.ledger.fenced()).await }).unwrap();
    assert!(wait_for(one.ledger.caught_up(PATIENCE)));
    let stats = one.ledger.stats();
    assert_eq!(stats.late_settlements, stats.settlements);
    let found = store.verify().unwrap();
    assert_eq!(found.faults, [""; 0]);
    let summary = store.database().summary(&key, store.clock().now()).unwrap();
    let model = &summary.models[0];
    // Everything that callers received is on record, once. What no token was left for is overdraft: at
    // most what the gateway had leased.
    let received = 900 + 300 + stats.settlements - 1;
    assert_eq!(model.output, received);
    let overdraft = received - 900;
    assert!(overdraft <= leased, "{overdraft} beyond {leased}");
    assert_eq!(found.requests, stats.settlements + 1);
    // The rest of the tokens is leased where they were taken over.
    assert_eq!(store.grants(&key).unwrap()[0].used, 900);
}

#[test]
fn a_gateway_that_comes_back_within_its_term_goes_on_with_its_tokens() {
    let Some(case) = case() else { return };
    let store = Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap();
    let key = key_with(&store, 1000);
    let one = Node::start(&case, 1);
    drop(one.reserve(&key, 1).unwrap());
    one.cut_off();
    admits_nothing(&one, &key);
    one.join_again();
    one.eventually(&key, 500).settle(&completed(500));
    assert!(wait_for(one.ledger.caught_up(PATIENCE)));
    assert!(!one.ledger.is_fenced());
    let stats = one.ledger.stats();
    assert_eq!(stats.late_settlements, 0);
    assert_eq!(
        store.grants(&key).unwrap()[0].used,
        500 + stats.settlements - 2
    );
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
}

#[test]
fn a_key_is_not_exhausted_for_a_gateway_that_cannot_hear_of_a_top_up() {
    let Some(case) = case() else { return };
    let store = Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap();
    let key = key_with(&store, 10);
    let one = Node::start(&case, 1);
    one.reserve(&key, 10).unwrap().settle(&completed(10));
    let exhausted = Shortage::Exhausted(Unit::Tokens);
    assert_eq!(one.reserve(&key, 10).unwrap_err(), exhausted);
    assert!(wait_for(one.ledger.caught_up(PATIENCE)));
    one.cut_off();
    store
        .top_up(&KeySelector::Id(key.clone()), &super::terms(10))
        .unwrap();
    // It checks in once a second.
    let start = Instant::now();
    loop {
        match one.reserve(&key, 10).unwrap_err() {
            Shortage::Unavailable(Unavailable::Stalled(_)) => break,
            refused => assert!(start.elapsed() < PATIENCE, "still {refused}"),
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    one.join_again();
    drop(one.eventually(&key, 10));
}

/// A gateway whose machine is gone leaves its records there; when the machine starts again, they are
/// entered once.
#[test]
fn what_a_crashed_gateway_has_settled_is_entered_when_its_machine_starts_again() {
    let Some(case) = case() else { return };
    let store = Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap();
    let key = key_with(&store, 1000);
    let (one, two) = (Node::start(&case, 1), Node::start(&case, 2));
    one.reserve(&key, 300).unwrap().settle(&completed(300));
    let Node { role, ledger, .. } = one;
    ledger.crash();
    // More than the 400 that it has not leased. 300 are spent if its settlement was committed before the crash.
    drop(two.eventually(&key, 700));
    assert!(two.ledger.close(PATIENCE));
    let local = case.folder.path().join(&role).join("ledger");
    let settings = ServerSettings {
        local,
        ..case.settings()
    };
    for _ in 0..2 {
        let again = Store::open_on_server(settings.clone(), hasher(), Clock::system()).unwrap();
        let ledger = Ledger::open(&again, LedgerSettings::default()).unwrap();
        assert!(ledger.close(PATIENCE));
        assert_eq!(store.grants(&key).unwrap()[0].used, 300);
    }
    let found = store.verify().unwrap();
    // A request that is given up is on record, too.
    assert_eq!((found.faults, found.requests), (vec![], 2));
}

#[test]
fn clocks_that_differ_by_ten_minutes_change_no_balance() {
    let Some(case) = case() else { return };
    let store = Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap();
    let key = key_with(&store, 1000);
    let now = store.clock().now();
    let clocks = [now, now.plus(Duration::from_secs(600))].map(Clock::manual);
    let mut number = 0..;
    let nodes = clocks.map(|clock| Node::start_at(&case, number.next().unwrap(), clock));
    for _ in 0..50 {
        for node in &nodes {
            node.eventually(&key, 10).settle(&completed(10));
        }
    }
    for node in &nodes {
        assert!(wait_for(node.ledger.caught_up(PATIENCE)));
    }
    for node in &nodes {
        // Busy as long as the other one has not committed.
        let start = Instant::now();
        while node.reserve(&key, 10).unwrap_err() != Shortage::Exhausted(Unit::Tokens) {
            assert!(start.elapsed() < PATIENCE);
        }
    }
    let found = store.verify().unwrap();
    assert_eq!(found.faults, [""; 0]);
    assert_eq!((found.requests, found.spent), (100, 1000));
    let given = store.database().summary(&key, now).unwrap().given.tokens;
    assert_eq!(given.map(|it| (it.granted, it.used)), Some((1000, 1000)));
    let query = HistoryQuery {
        limit: HistoryQuery::MAX_LIMIT,
        ..HistoryQuery::default()
    };
    let page = History::new(&store).page(&key, &query).unwrap();
    assert_eq!(page.data.len(), 100);
    assert!(page.data.iter().all(|record| record.overdraft == 0));
}
