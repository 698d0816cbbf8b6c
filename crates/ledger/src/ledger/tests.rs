use super::*;
use crate::{
    charge::{BillingState, CountSource},
    clock::Timestamp,
    history::{History, HistoryQuery},
    key::KeyHasher,
    record::NewKey,
    store::{GrantTerms, KeySelector, database::Retention, sqlite::testing},
};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, AtomicU64},
    time::Instant,
};
use tempfile::TempDir;
use tollgate_types::{
    ErrorCode, Money, Prices, ReservationGuard as _, Unit, Usage, UsageDetails, Weights,
};

mod by_use;
mod commits;
mod corruption;
mod grants;
mod late;
mod leftover;
mod money;
mod processes;
mod progress;
mod properties;

const DAY: Duration = Duration::from_secs(86_400);
/// Longest wait for anything that happens in the background.
const PATIENCE: Duration = Duration::from_secs(20);

struct House {
    folder: TempDir,
    clock: Clock,
    requests: AtomicU64,
    /// Processes lease what they need, as on a server.
    lease_by_use: bool,
}

impl House {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            clock: Clock::manual(Timestamp::from_unix_ms(1_790_000_000_000)),
            requests: AtomicU64::new(0),
            lease_by_use: false,
        }
    }

    fn by_use() -> Self {
        Self {
            lease_by_use: true,
            ..Self::new()
        }
    }

    fn store(&self) -> Store {
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        Store::open(
            self.folder.path().join("ledger.db"),
            hasher,
            self.clock.clone(),
        )
        .unwrap()
    }

    fn ledger(&self) -> Ledger {
        self.ledger_with(64)
    }

    fn ledger_with(&self, open_requests: u32) -> Ledger {
        let settings = LedgerSettings {
            open_requests,
            lease_by_use: self.lease_by_use,
            ..LedgerSettings::default()
        };
        Ledger::open(&self.store(), settings).unwrap()
    }

    /// A key with these many tokens, valid for a day.
    fn key(&self, tokens: u64) -> KeyId {
        let made = self.store().create_key(&NewKey::named("ci")).unwrap();
        let id = made.record.id().clone();
        self.top_up(&id, tokens);
        id
    }

    fn top_up(&self, key: &KeyId, tokens: u64) {
        let terms = GrantTerms {
            tokens,
            validity: DAY,
            ..GrantTerms::default()
        };
        let selector = KeySelector::Id(key.clone());
        self.store().top_up(&selector, &terms).unwrap();
    }

    fn request(&self) -> RequestInfo {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        RequestInfo {
            id: RequestId::from_parts(1_790_000_000_000, u128::from(number)),
            model: "alpha-sonnet-5".into(),
            reason: None,
            format: Some(Format::Chat),
            streamed: true,
        }
    }

    /// Reserves `output` tokens, waiting for the account where it must.
    async fn reserve(
        &self,
        ledger: &Ledger,
        key: &KeyId,
        output: u64,
    ) -> Result<Reservation, Shortage> {
        let (bound, weights) = (bound(output), Weights::default());
        match ledger.reserve(key, self.request(), bound, weights) {
            Reserve::Reserved(reservation) => Ok(reservation),
            Reserve::Refused(refused) => Err(refused),
            Reserve::Wait(account) => {
                let request = self.request();
                ledger.reserve_after(account, request, bound, weights).await
            }
        }
    }

    /// Reserves again and again until it succeeds.
    async fn eventually(&self, ledger: &Ledger, key: &KeyId, output: u64) -> Reservation {
        let start = Instant::now();
        loop {
            match self.reserve(ledger, key, output).await {
                Ok(reservation) => return reservation,
                Err(refused) => assert!(start.elapsed() < PATIENCE, "still {refused}"),
            }
            tokio::task::yield_now().await;
        }
    }

    fn used(&self, key: &KeyId) -> u64 {
        let grants = self.store().grants(key).unwrap();
        grants.iter().map(|grant| grant.used).sum()
    }

    /// Everything adds up, and this many requests are on record.
    fn check(&self, requests: u64) {
        let found = self.store().verify().unwrap();
        assert_eq!(found.faults, [""; 0]);
        assert_eq!(found.requests, requests);
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    fn sql<T: testing::Value>(&self, sql: &str) -> T {
        testing::value(&self.path(), sql)
    }

    fn settlement_files(&self) -> usize {
        let is_one = |path: &Path| path.to_string_lossy().contains(".settlements-");
        std::fs::read_dir(self.folder.path())
            .unwrap()
            .filter(|file| is_one(&file.as_ref().unwrap().path()))
            .count()
    }
}

fn bound(output: u64) -> UpperBound {
    UpperBound {
        hidden_input: 0,
        plausible_input: u64::MAX,
        plausible_output: u64::MAX,
        input: 0,
        output,
        useful_output: output,
    }
}

fn output(output: u64) -> Usage {
    Usage {
        output,
        ..Usage::default()
    }
}

fn completed(tokens: u64) -> Ending {
    Ending {
        status: 200,
        reported: Some(output(tokens)),
        ..Ending::unreported(BillingState::Completed, output(tokens))
    }
}

#[tokio::test]
async fn used_tokens_are_charged_and_the_rest_is_free_again() {
    let house = House::new();
    let key = house.key(100);
    let ledger = house.ledger();
    let reservation = house.reserve(&ledger, &key, 60).await.unwrap();
    assert_eq!(reservation.reserved(Unit::Tokens), Some(60));
    let held = Holdings {
        free: 40,
        reserved: 60,
    };
    assert_eq!(ledger.holdings(&key).unwrap().tokens, Some(held));

    let settled = reservation.settle(&completed(25));
    assert_eq!((settled.charged, settled.overdraft), (25, 0));
    assert_eq!(settled.cost, None, "no price is known");
    let held = Holdings {
        free: 75,
        reserved: 0,
    };
    assert_eq!(ledger.holdings(&key).unwrap().tokens, Some(held));
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.used(&key), 25);
    assert_eq!(house.settlement_files(), 0);
    house.check(1);
}

/// 15 for a million tokens of output.
fn prices() -> Prices {
    let of = |text: &str| text.parse().unwrap();
    Prices {
        input: of("3"),
        cache_read: of("0.3"),
        cache_write: of("3.75"),
        output: of("15"),
        ..Prices::default()
    }
}

#[tokio::test]
async fn the_cost_is_that_of_what_is_charged_at_the_last_prices() {
    let house = House::new();
    let key = house.key(100);
    let ledger = house.ledger();
    let mut settled = house.reserve(&ledger, &key, 50).await.unwrap();
    settled.set_prices(None);
    settled.set_prices(Some(prices()));
    let settled = settled.settle(&completed(25));
    assert_eq!(settled.cost.unwrap().to_string(), "0.000375");
    let mut dropped = house.reserve(&ledger, &key, 50).await.unwrap();
    dropped.set_prices(Some(prices()));
    dropped.progress(output(2), UsageDetails::default());
    drop(dropped);
    let mut free = house.reserve(&ledger, &key, 5).await.unwrap();
    free.set_prices(Some(prices()));
    drop(free);
    assert!(ledger.close(PATIENCE));
    let costs: String = house.sql("SELECT group_concat(cost ORDER BY cost) FROM usage");
    assert_eq!(costs, "0,30000,375000");
    assert_eq!(house.sql::<i64>("SELECT cost FROM totals"), 405_000);
    house.check(3);
}

#[tokio::test]
async fn a_dropped_reservation_charges_what_was_delivered() {
    let house = House::new();
    let key = house.key(100);
    let ledger = house.ledger();
    let mut streamed = house.reserve(&ledger, &key, 50).await.unwrap();
    streamed.first_byte();
    streamed.progress(output(7), UsageDetails::default());
    drop(streamed);
    drop(house.reserve(&ledger, &key, 50).await.unwrap());
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.used(&key), 7);
    let states: String = house.sql("SELECT group_concat(state || ':' || source) FROM usage");
    assert_eq!(states, "client_closed:estimated,upstream_failed:reported");
    house.check(2);
}

#[tokio::test]
async fn a_balance_caps_a_request_and_says_what_fits() {
    let house = House::new();
    let key = house.key(100);
    let ledger = house.ledger();
    let bound = UpperBound {
        hidden_input: 0,
        plausible_input: u64::MAX,
        plausible_output: u64::MAX,
        input: 30,
        output: 1000,
        useful_output: 16,
    };
    drop(house.reserve(&ledger, &key, 1).await.unwrap());
    let Reserve::Reserved(reservation) =
        ledger.reserve(&key, house.request(), bound, Weights::default())
    else {
        panic!("refused");
    };
    assert_eq!(reservation.reserved(Unit::Tokens), Some(100));
    assert_eq!(reservation.output_limit(), Some(70));
    let other = ledger.reserve(&key, house.request(), bound, Weights::default());
    assert!(
        matches!(other, Reserve::Refused(Shortage::Busy)),
        "{other:?}"
    );
}

#[tokio::test]
async fn each_way_of_having_nothing_has_its_name() {
    let house = House::new();
    let key = house.key(10);
    let ledger = house.ledger();
    house
        .reserve(&ledger, &key, 10)
        .await
        .unwrap()
        .settle(&completed(9));
    let refused = house.reserve(&ledger, &key, 2).await.unwrap_err();
    assert_eq!(refused, Shortage::Exhausted(Unit::Tokens));
    house.clock.advance(DAY);
    let refused = house.reserve(&ledger, &key, 1).await.unwrap_err();
    assert_eq!(refused, Shortage::Expired);
    let unknown = KeyId::new("key_0123456789abcdefghij");
    let refused = house.reserve(&ledger, &unknown, 1).await.unwrap_err();
    assert_eq!(refused, Shortage::Expired);
}

#[tokio::test]
async fn a_charge_above_the_balance_is_overdraft() {
    let house = House::new();
    let key = house.key(10);
    let ledger = house.ledger();
    let settled = house
        .reserve(&ledger, &key, 10)
        .await
        .unwrap()
        .settle(&completed(25));
    assert_eq!((settled.charged, settled.overdraft), (25, 15));
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.sql::<i64>("SELECT overdraft FROM usage"), 15);
    house.check(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_balance_for_ten_admits_ten_of_two_hundred() {
    let house = Arc::new(House::new());
    let ledger = house.ledger_with(1024);
    for _ in 0..20 {
        let key = house.key(1000);
        let admitted = Arc::new(AtomicU32::new(0));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let (house, ledger) = (Arc::clone(&house), ledger.clone());
            let (key, admitted) = (key.clone(), Arc::clone(&admitted));
            callers.spawn(async move {
                if let Ok(reservation) = house.reserve(&ledger, &key, 100).await {
                    admitted.fetch_add(1, Ordering::Relaxed);
                    reservation.settle(&completed(100));
                }
            });
        }
        callers.join_all().await;
        assert_eq!(admitted.load(Ordering::Relaxed), 10);
    }
    assert!(ledger.close(PATIENCE));
    house.check(200);
}

#[tokio::test]
async fn a_record_that_comes_twice_is_charged_once() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let request = house.request();
    for expected in [5, 5] {
        let account = house.reserve(&ledger, &key, 1).await.unwrap();
        drop(account);
        let twin = ledger.reserve(&key, request.clone(), bound(10), Weights::default());
        let Reserve::Reserved(reservation) = twin else {
            panic!("{twin:?}");
        };
        reservation.settle(&completed(expected));
    }
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.used(&key), 5);
}

#[tokio::test]
async fn a_top_up_is_spent_by_a_running_process() {
    let house = House::new();
    let key = house.key(10);
    let ledger = house.ledger();
    house
        .reserve(&ledger, &key, 10)
        .await
        .unwrap()
        .settle(&completed(10));
    assert_eq!(
        house.reserve(&ledger, &key, 10).await.unwrap_err(),
        Shortage::Exhausted(Unit::Tokens)
    );
    house.top_up(&key, 50);
    drop(house.eventually(&ledger, &key, 50).await);
}

#[tokio::test]
async fn more_open_requests_than_slots_are_shed_and_none_is_lost() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger_with(3);
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(house.reserve(&ledger, &key, 1).await.unwrap());
    }
    let refused = house.reserve(&ledger, &key, 1).await.unwrap_err();
    assert_eq!(refused, Shortage::Unavailable(Unavailable::Backlog));
    for reservation in open {
        reservation.settle(&completed(1));
    }
    drop(house.eventually(&ledger, &key, 1).await);
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.used(&key), 3);
}

/// Fills the settlement file with settled requests, which no commit frees before the returned lock ends.
async fn fill(house: &House, ledger: &Ledger, key: &KeyId) -> testing::Other {
    drop(house.reserve(ledger, key, 1).await.unwrap());
    let lock = testing::Other::lock(&house.path());
    for _ in 0..16 {
        let held = house.reserve(ledger, key, 1).await.unwrap();
        held.settle(&completed(1));
        if ledger.stats().open_requests == 16 {
            break;
        }
    }
    lock
}

#[tokio::test]
async fn a_request_waits_for_a_commit_that_makes_room() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger_with(16);
    let lock = fill(&house, &ledger, &key).await;
    let next = ledger.reserve(&key, house.request(), bound(1), Weights::default());
    let Reserve::Wait(commit) = next else {
        panic!("{next:?}");
    };
    lock.end();
    commit.wait().await.unwrap();
    drop(house.reserve(&ledger, &key, 1).await.unwrap());
    assert_eq!(ledger.stats().shed, 0);
    assert!(ledger.close(PATIENCE));
}

#[tokio::test]
async fn a_request_that_no_commit_makes_room_for_is_shed_and_counted() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger_with(16);
    let lock = fill(&house, &ledger, &key).await;
    let shed = house.reserve(&ledger, &key, 1).await.err();
    lock.end();
    assert_eq!(shed, Some(Unavailable::Backlog.into()));
    assert_eq!(ledger.stats().shed, 1);
    assert!(ledger.close(PATIENCE));
}

#[tokio::test]
async fn an_idle_account_gives_everything_back() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    drop(house.reserve(&ledger, &key, 1).await.unwrap());
    house
        .clock
        .advance(LedgerSettings::default().idle_after + DAY / 2);
    let start = Instant::now();
    while house.sql::<i64>("SELECT count(*) FROM leases") > 0 {
        assert!(start.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    assert_eq!(ledger.stats().accounts, 0);
    drop(house.reserve(&ledger, &key, 1000).await.unwrap());
}

#[tokio::test]
async fn a_reader_that_catches_up_reads_earlier_settlements() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    for round in 1..=20 {
        house
            .reserve(&ledger, &key, 10)
            .await
            .unwrap()
            .settle(&completed(10));
        assert!(ledger.caught_up(PATIENCE).await);
        assert_eq!(house.used(&key), round * 10);
    }
    let commits = ledger.stats().commits;
    assert!(ledger.caught_up(PATIENCE).await);
    assert_eq!(
        ledger.stats().commits,
        commits,
        "there was nothing to commit"
    );
    let lock = testing::Other::lock(&house.path());
    drop(house.reserve(&ledger, &key, 10).await.unwrap());
    assert!(!ledger.caught_up(Duration::from_millis(50)).await);
    lock.end();
}

#[tokio::test]
async fn a_stopped_disk_stops_no_settlement() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    drop(house.reserve(&ledger, &key, 1).await.unwrap());
    let lock = testing::Other::lock(&house.path());
    for _ in 0..10 {
        house
            .reserve(&ledger, &key, 10)
            .await
            .unwrap()
            .settle(&completed(10));
    }
    lock.end();
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.used(&key), 100);
}

#[tokio::test]
async fn a_record_says_what_happened() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let mut reservation = house.reserve(&ledger, &key, 100).await.unwrap();
    reservation.first_byte();
    let settled = reservation.settle(&Ending {
        status: 200,
        error: Some(ErrorCode::UpstreamError),
        model_served: Some("alpha-opus-5".into()),
        ..Ending::unreported(BillingState::Incomplete, output(12))
    });
    assert_eq!(settled.source, CountSource::Estimated);
    assert!(ledger.close(PATIENCE));
    let record: String = house.sql(
        "SELECT json_array(model_asked, model_served, format, streamed, status, error, state,
             output, charged, source, first_byte_ms IS NOT NULL) FROM usage",
    );
    assert_eq!(
        record,
        "[\"alpha-sonnet-5\",\"alpha-opus-5\",\"chat\",1,200,\"upstream_error\",\
         \"incomplete\",12,12,\"estimated\",1]"
    );
    let stats = ledger_counts(&house);
    assert_eq!(stats, (1, 12));
}

#[tokio::test]
async fn why_a_model_was_chosen_is_in_the_history_even_after_a_crash() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let named = house.reserve(&ledger, &key, 10).await.unwrap();
    let _ = named.settle(&completed(2));
    let chosen = RequestInfo {
        reason: Some("auto: score 0.10, light".into()),
        ..house.request()
    };
    match ledger.reserve(&key, chosen, bound(10), Weights::default()) {
        Reserve::Reserved(reservation) => drop(reservation.settle(&completed(2))),
        other => panic!("{other:?}"),
    }
    ledger.crash();
    assert!(house.ledger().close(PATIENCE));
    let page = History::new(&house.store())
        .page(&key, &HistoryQuery::default())
        .unwrap();
    let reasons = page.data.iter().map(|it| it.route_reason.as_deref());
    let mut reasons: Vec<_> = reasons.collect();
    reasons.sort_unstable();
    assert_eq!(reasons, [None, Some("auto: score 0.10, light")]);
}

/// Requests and tokens in the totals.
fn ledger_counts(house: &House) -> (i64, i64) {
    (
        house.sql("SELECT sum(requests) FROM totals"),
        house.sql("SELECT sum(charged) FROM totals"),
    )
}

#[test]
fn of_stored_things_the_oldest_go_as_fast_as_they_come() {
    let house = House::new();
    let store = house.store();
    let insert = "WITH RECURSIVE times (at) AS
            (SELECT 1 UNION ALL SELECT at + 1 FROM times WHERE at < 6000)
        INSERT INTO owned (id, key, provider, credential, at)
        SELECT at, 'k', 'p', 'c', at FROM times";
    testing::edit(&house.path(), insert);
    let now = Timestamp::from_unix_ms(6000);
    let mut process = store.database().begin_process("a", now).unwrap();
    let left = || house.sql::<i64>("SELECT count(*) FROM owned");
    // Purges until so many are left. Returns the most that one round has deleted.
    let mut purge = |most_stored, rest| {
        let retention = Retention {
            history: None,
            stored: Duration::from_millis(500),
            most_stored,
        };
        let mut most = 0;
        for _ in 0..20 {
            let before = left();
            process.maintain(&retention, now).unwrap();
            most = most.max(before - left());
            if left() <= rest {
                break;
            }
        }
        assert_eq!(left(), rest);
        most
    };
    // A slow transaction ends its round, but not every one is slow: some round has more than one.
    let most = purge(10_000, 501);
    assert!(most > 500, "{most}");
    purge(100, 100);
    assert_eq!(house.sql::<i64>("SELECT min(at) FROM owned"), 5901);
}

#[tokio::test]
async fn old_records_go_and_everything_still_adds_up() {
    let house = House::new();
    let key = house.key(10_000);
    let ledger = house.ledger_with(2048);
    for _ in 0..700 {
        house
            .reserve(&ledger, &key, 2)
            .await
            .unwrap()
            .settle(&completed(2));
    }
    assert!(ledger.caught_up(PATIENCE).await);
    house.clock.advance(DAY / 2);
    house
        .reserve(&ledger, &key, 2)
        .await
        .unwrap()
        .settle(&completed(2));
    assert!(ledger.close(PATIENCE));
    house.check(701);
    let ledger = house.ledger();
    let age = LedgerSettings::default().keep_history.unwrap();
    house.clock.advance(age - DAY / 4);
    let start = Instant::now();
    while house.sql::<i64>("SELECT count(*) FROM usage") > 1 {
        assert!(start.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    assert!(ledger.close(PATIENCE));
    house.check(1);
    assert_eq!(house.used(&key), 1402);
    assert_eq!(ledger_counts(&house), (701, 1402));
}
