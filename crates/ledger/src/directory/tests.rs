use super::*;
use crate::{
    key::ApiKey,
    record::NewKey,
    store::{CreatedKey, KeySelector, sqlite::testing},
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};
use tempfile::TempDir;
use tollgate_types::Resource;

/// The promise: every change is seen within a second.
const PROMISE: Duration = Duration::from_secs(1);
/// Longest wait for one change, which other load can delay.
const PATIENCE: Duration = Duration::from_secs(20);

struct House {
    folder: TempDir,
    clock: Clock,
}

impl House {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            clock: Clock::manual(Timestamp::from_unix_ms(1_790_000_000_000)),
        }
    }

    /// A handle of its own on the one file, as another process would have.
    fn store(&self) -> Store {
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let path = self.folder.path().join("ledger.db");
        Store::open(path, hasher, self.clock.clone()).unwrap()
    }

    fn directory(&self) -> KeyDirectory {
        self.directory_with(DirectorySettings::default())
    }

    fn directory_with(&self, settings: DirectorySettings) -> KeyDirectory {
        KeyDirectory::open(&self.store(), settings).unwrap()
    }

    fn key(&self) -> CreatedKey {
        self.store().create_key(&NewKey::named("ci")).unwrap()
    }
}

/// Looks up and waits, as a request does.
async fn ask(directory: &KeyDirectory, credential: &str) -> Result<Arc<KeyRecord>, LookupFailure> {
    directory.lookup(credential).await
}

/// Asks again and again until `wanted`. Returns how long that took.
async fn becomes(
    directory: &KeyDirectory,
    key: &ApiKey,
    wanted: impl Fn(&Result<Arc<KeyRecord>, LookupFailure>) -> bool,
) -> Duration {
    let start = Instant::now();
    loop {
        let answer = ask(directory, key.expose()).await;
        if wanted(&answer) {
            return start.elapsed();
        }
        assert!(start.elapsed() < PATIENCE, "still {answer:?}");
        tokio::task::yield_now().await;
    }
}

/// The median keeps the promise: other load can delay one change.
fn assert_kept(mut took: [Duration; 5]) {
    took.sort();
    assert!(took[2] < PROMISE, "{took:?}");
}

fn refused(answer: &Result<Arc<KeyRecord>, LookupFailure>) -> Option<&'static str> {
    match answer {
        Err(LookupFailure::Refused(refusal)) => Some(refusal.as_str()),
        _ => None,
    }
}

fn in_memory(directory: &KeyDirectory, key: &ApiKey) -> bool {
    matches!(directory.lookup(key.expose()), MaybeReady::Ready(_))
}

#[tokio::test]
async fn a_key_is_loaded_once_and_then_known_from_memory() {
    let house = House::new();
    let made = house.key();
    let directory = house.directory();
    assert!(!in_memory(&directory, &made.key));
    let record = ask(&directory, made.key.expose()).await.unwrap();
    assert_eq!(*record, made.record);
    assert!(in_memory(&directory, &made.key));
    let again = ask(&directory, made.key.expose()).await.unwrap();
    assert_eq!(*again, made.record);
}

#[tokio::test]
async fn a_malformed_key_never_reaches_the_store() {
    let directory = House::new().directory();
    let key = ApiKey::generate().unwrap();
    let typo = key.expose().replace(key.prefix(), "sk-00000000");
    for text in ["", "sk-", "Bearer x", "sk-'; DROP TABLE keys", &typo] {
        let MaybeReady::Ready(answer) = directory.lookup(text) else {
            panic!("{text} is looked up");
        };
        assert_eq!(refused(&answer.into_inner()), Some("malformed"), "{text}");
    }
}

#[tokio::test]
async fn an_unknown_key_is_remembered_as_unknown_until_it_is_made() {
    let house = House::new();
    let store = house.store();
    let directory = house.directory();
    let made = house.key();
    // The same key without an owner: taken out behind the program's back.
    testing::execute(
        store.path(),
        "CREATE TABLE aside AS SELECT * FROM keys; DELETE FROM keys",
    );
    becomes(&directory, &made.key, |answer| {
        refused(answer) == Some("unknown")
    })
    .await;
    becomes(&directory, &made.key, |_| in_memory(&directory, &made.key)).await;

    testing::execute(store.path(), "INSERT INTO keys SELECT * FROM aside");
    becomes(&directory, &made.key, Result::is_ok).await;
}

#[tokio::test]
async fn a_revocation_through_another_handle_is_seen_within_a_second() {
    let house = House::new();
    let keys = [(); 5].map(|()| house.key());
    let directory = house.directory();
    let other = house.store();
    let mut took = [Duration::ZERO; 5];
    for (made, took) in keys.iter().zip(&mut took) {
        ask(&directory, made.key.expose()).await.unwrap();
        other
            .revoke_key(&KeySelector::Id(made.record.id().clone()))
            .unwrap();
        let is_revoked = |it: &_| refused(it) == Some("revoked");
        *took = becomes(&directory, &made.key, is_revoked).await;
    }
    assert_kept(took);
}

#[tokio::test]
async fn a_key_in_memory_expires_on_time() {
    let house = House::new();
    let mut new = NewKey::named("day pass");
    new.expires_at = Some(house.clock.now().plus(Duration::from_secs(60)));
    let made = house.store().create_key(&new).unwrap();
    let directory = house.directory();
    ask(&directory, made.key.expose()).await.unwrap();
    house.clock.advance(Duration::from_secs(60));
    let answer = ask(&directory, made.key.expose()).await;
    assert_eq!(refused(&answer), Some("expired"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_of_one_key_share_one_answer() {
    let house = House::new();
    let made = house.key();
    let directory = house.directory();
    let found = Arc::new(AtomicUsize::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let (directory, key) = (directory.clone(), made.key.clone());
        let found = Arc::clone(&found);
        callers.spawn(async move {
            ask(&directory, key.expose()).await.unwrap();
            found.fetch_add(1, Ordering::Relaxed);
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    assert_eq!(found.load(Ordering::Relaxed), 500);
    assert_eq!(directory.0.shared.cache.len(), (1, 0));
}

#[tokio::test]
async fn guessing_keys_fills_its_own_cache_and_no_more() {
    let house = House::new();
    let made = house.key();
    let directory = house.directory_with(DirectorySettings {
        known_keys: 10,
        unknown_keys: 50,
        ..Default::default()
    });
    ask(&directory, made.key.expose()).await.unwrap();
    for _ in 0..500 {
        let guess = ApiKey::generate().unwrap();
        let answer = ask(&directory, guess.expose()).await;
        assert_eq!(refused(&answer), Some("unknown"), "{answer:?}");
    }
    let (known, unknown) = directory.0.shared.cache.len();
    assert!(known == 1 && unknown <= 50, "{known} {unknown}");
    assert!(in_memory(&directory, &made.key));
}

#[tokio::test]
async fn more_waiting_callers_than_allowed_are_refused_with_a_retry() {
    let house = House::new();
    let directory = house.directory_with(DirectorySettings {
        waiting_callers: 0,
        ..Default::default()
    });
    let answer = ask(&directory, house.key().key.expose()).await;
    assert_eq!(
        answer.unwrap_err(),
        LookupFailure::Unavailable(Unavailable::Overloaded)
    );
}

#[tokio::test]
async fn a_failing_store_is_no_verdict_and_keys_in_memory_go_on_working() {
    let house = House::new();
    let (warm, cold) = (house.key(), house.key());
    let directory = house.directory();
    ask(&directory, warm.key.expose()).await.unwrap();
    testing::execute(
        &house.folder.path().join("ledger.db"),
        "ALTER TABLE keys RENAME TO lost",
    );
    let answer = ask(&directory, cold.key.expose()).await;
    let unavailable = matches!(
        answer,
        Err(LookupFailure::Unavailable(Unavailable::Store(_)))
    );
    assert!(unavailable, "{answer:?}");
    assert!(ask(&directory, warm.key.expose()).await.is_ok());
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_waited_for_no_longer_than_allowed() {
    let house = House::new();
    let directory = house.directory_with(DirectorySettings {
        load_timeout: Duration::from_millis(50),
        ..Default::default()
    });
    let (_store_that_hangs, answer) = tokio::sync::oneshot::channel();
    let heard = directory.0.shared.wait_for(answer).await;
    assert_eq!(heard.unwrap_err(), Unavailable::TimedOut);
}

#[tokio::test]
async fn the_store_is_not_asked_for_keys_without_a_waiting_caller() {
    let house = House::new();
    let made = house.key();
    let directory = house.directory();
    drop(directory.lookup(made.key.expose()));
    // Had it been asked, that would have been looked up first.
    ask(&directory, house.key().key.expose()).await.unwrap();
    assert!(!in_memory(&directory, &made.key));
}

#[tokio::test]
async fn changes_that_were_pruned_unseen_empty_the_memory() {
    let house = House::new();
    let made = house.key();
    let directory = house.directory();
    ask(&directory, made.key.expose()).await.unwrap();
    testing::execute(
        &house.folder.path().join("ledger.db"),
        "BEGIN; UPDATE keys SET revoked_at = 1; DELETE FROM changes;
             INSERT INTO changes VALUES (5000000, zeroblob(32)); COMMIT",
    );
    becomes(&directory, &made.key, |answer| {
        refused(answer) == Some("revoked")
    })
    .await;
}

#[tokio::test]
async fn a_key_that_changed_goes_on_with_what_its_requests_hold() {
    let house = House::new();
    let made = house.key();
    let directory = house.directory();
    let before = ask(&directory, made.key.expose()).await.unwrap();
    let held = before.identity.shares.take_one(Resource::Requests);
    let path = house.folder.path().join("ledger.db");
    testing::execute(&path, "UPDATE keys SET name = 'other'");
    let is_changed = |it: &Result<Arc<KeyRecord>, LookupFailure>| {
        it.as_ref()
            .is_ok_and(|record| record.identity.name == "other")
    };
    becomes(&directory, &made.key, is_changed).await;
    let after = ask(&directory, made.key.expose()).await.unwrap();
    assert_eq!(after.identity.shares.held(Resource::Requests), 1);
    drop(held);
    assert_eq!(after.identity.shares.held(Resource::Requests), 0);
    let other = ask(&directory, house.key().key.expose()).await.unwrap();
    let held = other.identity.shares.take_one(Resource::Requests);
    assert_eq!(after.identity.shares.held(Resource::Requests), 0);
    drop(held);
}

#[test]
fn an_entry_read_before_a_change_is_not_remembered_after_it() {
    let cache = KeyCache::new(10, 10);
    let key = KeyHasher::new(b"x").unwrap().hash_text("y");
    assert!(cache.remember(key, 7, &Cached::Unknown));
    cache.forget(8, &[key]);
    assert!(
        !cache.remember(key, 7, &Cached::Unknown),
        "an old snapshot was kept"
    );
    assert!(cache.get(&key).is_none());
    assert!(cache.remember(key, 8, &Cached::Unknown));
}

#[tokio::test]
async fn a_directory_reports_that_it_sees_changes() {
    let house = House::new();
    let directory = house.directory();
    let mut took = [Duration::ZERO; 5];
    for took in &mut took {
        house.clock.advance(Duration::from_secs(1));
        let start = Instant::now();
        while directory.health().seen_at < house.clock.now() {
            assert!(start.elapsed() < PATIENCE, "{:?}", directory.health());
            tokio::task::yield_now().await;
        }
        *took = start.elapsed();
    }
    assert_kept(took);
    assert_eq!(directory.health().fault, None);
}

#[tokio::test]
async fn a_reissued_key_that_begins_like_a_revoked_one_shares_nothing_with_it() {
    let house = House::new();
    let (old, new) = (house.key(), house.key());
    let path = house.folder.path().join("ledger.db");
    testing::execute(&path, "UPDATE keys SET prefix = 'sk-AAAAAAAA'");
    let directory = house.directory();
    for revoked in [&old, &new] {
        becomes(&directory, &revoked.key, Result::is_ok).await;
        let selector = KeySelector::Id(revoked.record.id().clone());
        house.store().revoke_key(&selector).unwrap();
        becomes(&directory, &revoked.key, |it| refused(it).is_some()).await;
        if revoked.record.id() == old.record.id() {
            let known = ask(&directory, new.key.expose()).await.unwrap();
            assert_eq!(known.id(), new.record.id());
        }
    }
    // Neither names one by what they share.
    let shared = KeySelector::parse("sk-AAAAAAAA").unwrap();
    assert!(house.store().find_key(&shared).is_err());
}
