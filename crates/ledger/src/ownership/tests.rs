use super::*;
use crate::{
    clock::{Clock, Timestamp},
    key::KeyHasher,
    ledger::LedgerSettings,
    lookups,
};
use std::time::Duration;
use tempfile::TempDir;
use tollgate_types::RequestId;

struct House {
    _folder: TempDir,
    store: Store,
}

impl House {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let clock = Clock::manual(Timestamp::from_unix_ms(1_790_000_000_000));
        let store = Store::open(folder.path().join("ledger.db"), hasher, clock).unwrap();
        Self {
            _folder: folder,
            store,
        }
    }

    fn open(&self) -> (Ledger, Ownership) {
        let ledger = Ledger::open(&self.store, LedgerSettings::default()).unwrap();
        (ledger.clone(), Ownership::new(&self.store, ledger, 100))
    }
}

fn stored(key: &str, id: &str) -> Stored {
    Stored {
        id: id.into(),
        key: KeyId::new(key),
        provider: "east".into(),
        credential: "first".into(),
        tokens: None,
        request: None,
        tariff: None,
    }
}

async fn ask(ownership: &Ownership, key: &str, id: &str) -> Result<Arc<Stored>, OwnerFailure> {
    ownership.owner(&KeyId::new(key), id).await
}

const fn is_ready<T>(answer: &MaybeReady<T>) -> bool {
    matches!(answer, MaybeReady::Ready(_))
}

#[tokio::test]
async fn stored_things_are_owned_at_once_and_after_a_restart() {
    let house = House::new();
    let (ledger, ownership) = house.open();
    let made = stored("key_a", "resp_1");
    ownership.remember(made.clone());
    assert_eq!(*ask(&ownership, "key_a", "resp_1").await.unwrap(), made);
    drop(ownership);
    assert!(ledger.close(Duration::from_secs(20)));

    let (_ledger, again) = house.open();
    assert_eq!(*ask(&again, "key_a", "resp_1").await.unwrap(), made);
    let second = again.owner(&KeyId::new("key_a"), "resp_1");
    assert!(is_ready(&second), "not kept in memory");
    assert!(second.await.is_ok());
}

#[tokio::test]
async fn a_stored_thing_grows_by_its_maker_alone_and_never_shrinks() {
    let house = House::new();
    let (ledger, ownership) = house.open();
    let sized = |key: &str, tokens| Stored {
        tokens,
        ..stored(key, "conv_1")
    };
    let size = async |ownership: &Ownership| {
        let answer = ask(ownership, "key_a", "conv_1").await;
        answer.unwrap().tokens
    };
    ownership.remember(sized("key_a", None));
    assert_eq!(size(&ownership).await, None);
    for (key, tokens, expected) in [
        ("key_a", Some(70), 70),
        ("key_a", Some(165_000), 165_000),
        ("key_a", Some(9), 165_000),
        ("key_a", None, 165_000),
        ("key_b", Some(u64::MAX), 165_000),
    ] {
        ownership.remember(sized(key, tokens));
        assert_eq!(size(&ownership).await, Some(expected), "{key} {tokens:?}");
    }
    drop(ownership);
    assert!(ledger.close(Duration::from_secs(20)));
    let (ledger, again) = house.open();
    assert_eq!(size(&again).await, Some(165_000));
    again.remember(sized("key_a", Some(u64::MAX)));
    drop(again);
    assert!(ledger.close(Duration::from_secs(20)));
    let (_ledger, again) = house.open();
    assert_eq!(size(&again).await, Some(i64::MAX.unsigned_abs()));
}

#[tokio::test]
async fn of_a_response_something_may_be_due_and_of_nothing_else() {
    let house = House::new();
    let (_ledger, ownership) = house.open();
    let file = stored("key_a", "file_1");
    let due = ownership.due(&file).await.unwrap();
    assert!(matches!(due, Due::Nothing), "{due:?}");
    let now = house.store.clock().now();
    let made_at = |time: Timestamp, id| Stored {
        request: Some(RequestId::from_parts(time.unix_ms(), 1)),
        ..stored("key_a", id)
    };
    // Its request has crashed before any delivery.
    let old = made_at(now.minus(Duration::from_secs(86_401)), "resp_0");
    let due = ownership.due(&old).await.unwrap();
    assert!(matches!(due, Due::Nothing), "{due:?}");
    let made = made_at(now, "resp_1");
    ownership.remember(made.clone());
    let due = ownership.due(&made).await.unwrap();
    assert!(matches!(due, Due::Unknown), "{due:?}");
    let paying = ownership.begin_paying(&made.id).unwrap();
    assert!(ownership.begin_paying(&made.id).is_none());
    drop(paying);
    ownership.begin_paying(&made.id).unwrap().done();
    let due = ownership.due(&made).await.unwrap();
    assert!(matches!(due, Due::Nothing), "{due:?}");
}

#[tokio::test]
async fn a_response_is_forgotten_no_later_than_the_record_that_shows_what_is_due() {
    let house = House::new();
    let settings = LedgerSettings {
        keep_history: Some(Duration::from_secs(3600)),
        ..LedgerSettings::default()
    };
    let ledger = Ledger::open(&house.store, settings).unwrap();
    let ownership = Ownership::new(&house.store, ledger.clone(), 100);
    let now = house.store.clock().now();
    let made = Stored {
        request: Some(RequestId::from_parts(now.unix_ms(), 1)),
        ..stored("key_a", "resp_1")
    };
    ownership.remember(made.clone());
    assert!(ledger.caught_up(Duration::from_secs(20)).await);
    assert!(ask(&ownership, "key_a", "resp_1").await.is_ok());
    let is_claimed = async |ownership: &Ownership| {
        let item = NamedItem {
            id: "resp_1".to_owned(),
            has_contents: false,
        };
        ownership.check(&KeyId::new("key_a"), &[item]).await == Claim::Allowed
    };
    assert!(is_claimed(&ownership).await);
    // A day later, a request without a record counts as crashed.
    house.store.clock().advance(Duration::from_secs(86_401));
    for ownership in [
        &ownership,
        &Ownership::new(&house.store, ledger.clone(), 100),
    ] {
        let found = ask(ownership, "key_a", "resp_1").await;
        assert_eq!(found, Err(OwnerFailure::NotOwned));
        assert!(!is_claimed(ownership).await);
        let due = ownership.due(&made).await.unwrap();
        assert!(matches!(due, Due::Unknown), "{due:?}");
    }
    let start = std::time::Instant::now();
    while !house
        .store
        .database()
        .stored(&["resp_1"])
        .unwrap()
        .is_empty()
    {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn things_of_other_keys_and_unknown_things_get_the_same_answer() {
    let house = House::new();
    let (_ledger, ownership) = house.open();
    ownership.remember(stored("key_a", "resp_1"));
    let long = "r".repeat(MAX_ID_LEN + 1);
    for id in ["resp_1", "resp_2", "resp_%", "' OR 1=1 --", "", &long] {
        let answer = ask(&ownership, "key_b", id).await;
        assert_eq!(answer, Err(OwnerFailure::NotOwned), "{id:.40}");
    }
}

#[tokio::test]
async fn items_are_owned_by_their_maker_and_unowned_items_need_contents() {
    let house = House::new();
    let (ledger, ownership) = house.open();
    ownership.remember(stored("key_a", "rs_1"));
    let ask = async |ownership: &Ownership, key: &str, ids: &[(&str, bool)]| {
        let items = ids.iter().map(|(id, has_contents)| NamedItem {
            id: (*id).to_owned(),
            has_contents: *has_contents,
        });
        let claim = ownership.check(&KeyId::new(key), &items.collect::<Vec<_>>());
        let is_looked_up = !is_ready(&claim);
        (claim.await, is_looked_up)
    };
    let not_yours = |id: &str| Claim::NotOwned(id.to_owned());
    let own = [("rs_1", false), ("rs_1", true)];
    assert_eq!(
        ask(&ownership, "key_a", &own).await,
        (Claim::Allowed, false)
    );
    let theirs = [("unknown", true), ("rs_1", true)];
    let found = ask(&ownership, "key_b", &theirs).await;
    assert_eq!(found, (not_yours("rs_1"), false));
    assert!(ledger.close(Duration::from_secs(20)));

    let (_ledger, again) = house.open();
    let found = ask(&again, "key_b", &theirs).await;
    assert_eq!(found, (not_yours("rs_1"), true));
    // Now it is in memory.
    let found = ask(&again, "key_b", &theirs).await;
    assert_eq!(found, (not_yours("rs_1"), false));
    let found = ask(&again, "key_b", &[("whose", false)]).await;
    assert_eq!(found, (not_yours("whose"), true));
    assert_eq!(ask(&again, "key_a", &own).await, (Claim::Allowed, false));
    let unknown = [("unknown_too", true)];
    assert_eq!(ask(&again, "key_b", &unknown).await, (Claim::Allowed, true));
}

#[tokio::test]
async fn an_id_cannot_be_taken_over() {
    let house = House::new();
    let (ledger, ownership) = house.open();
    ownership.remember(stored("key_a", "resp_1"));
    ownership.remember(stored("key_b", "resp_1"));
    assert!(ask(&ownership, "key_a", "resp_1").await.is_ok());
    drop(ownership);
    assert!(ledger.close(Duration::from_secs(20)));
    let (_ledger, again) = house.open();
    assert!(ask(&again, "key_a", "resp_1").await.is_ok());
    assert!(ask(&again, "key_b", "resp_1").await.is_err());
}

/// Whether an id needs a look-up in the file, in either way of asking.
fn is_looked_up(ownership: &Ownership, id: &str) -> [bool; 2] {
    let key = KeyId::new("key_a");
    let one = !is_ready(&ownership.owner(&key, id));
    let item = NamedItem {
        id: id.to_owned(),
        has_contents: false,
    };
    let of_several = !is_ready(&ownership.check(&key, &[item]));
    [one, of_several]
}

#[tokio::test]
async fn an_unknown_id_is_not_looked_up_again_for_a_second() {
    let house = House::new();
    let (_ledger, ownership) = house.open();
    assert_eq!(is_looked_up(&ownership, "resp_1"), [true; 2]);
    let start = std::time::Instant::now();
    assert!(ask(&ownership, "key_a", "resp_1").await.is_err());
    let again = is_looked_up(&ownership, "resp_1");
    assert!(again == [false; 2] || start.elapsed() >= misses::TTL);
    while is_looked_up(&ownership, "resp_1") != [true; 2] {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::task::yield_now().await;
    }
    assert!(start.elapsed() >= misses::TTL);
}

#[tokio::test]
async fn a_thing_made_after_a_failed_look_up_is_owned_at_once() {
    let house = House::new();
    let (_ledger, ownership) = house.open();
    assert!(ask(&ownership, "key_a", "resp_1").await.is_err());
    ownership.remember(stored("key_a", "resp_1"));
    assert!(ask(&ownership, "key_a", "resp_1").await.is_ok());
    // A look-up that had read the file before that ends only now.
    ownership.0.note_miss("resp_1");
    assert!(!ownership.0.misses.has("resp_1"));
    assert!(ask(&ownership, "key_a", "resp_1").await.is_ok());
}

#[tokio::test]
async fn a_key_whose_look_ups_take_long_leaves_room_for_the_others() {
    let house = House::new();
    let (_ledger, ownership) = house.open();
    let key = KeyId::new("key_a");
    let mut held = Vec::new();
    for _ in 0..lookups::AT_ONCE / 4 {
        held.push(ownership.0.lookups.of_keys.acquire(&key).await.unwrap());
    }
    let mut waiting = std::pin::pin!(ask(&ownership, "key_a", "resp_1"));
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("it had no turn: {answer:?}"),
        answer = ask(&ownership, "key_b", "resp_2") => {
            assert_eq!(answer, Err(OwnerFailure::NotOwned));
        }
    }
    drop(held);
    assert_eq!(waiting.await, Err(OwnerFailure::NotOwned));
    assert_eq!(ownership.0.lookups.of_keys.keys(), 0);
}
