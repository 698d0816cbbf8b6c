use super::*;
use crate::{key::KeyHasher, store::sqlite::testing};
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);
const LIMITS: MemoryLimits = MemoryLimits {
    bytes_per_key: 10_000,
    bytes: 20_000,
    time: Duration::from_secs(3600),
};
const START: u64 = 1_790_000_000_000;

struct House {
    _folder: TempDir,
    clock: Clock,
    store: Store,
}

impl House {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let clock = Clock::manual(Timestamp::from_unix_ms(START));
        let store = Store::open(folder.path().join("l.db"), hasher, clock.clone()).unwrap();
        Self {
            _folder: folder,
            clock,
            store,
        }
    }

    fn open(&self) -> Memory {
        Memory::open(&self.store, Some(LIMITS)).unwrap()
    }

    fn count(&self, sql: &str) -> i64 {
        testing::value(self.store.path(), sql)
    }
}

fn id(number: u128) -> RequestId {
    RequestId::from_parts(START, number)
}

fn answer(key: &str, number: u128, size: usize) -> Remembered {
    Remembered {
        id: id(number),
        key: KeyId::new(key),
        previous: number.checked_sub(1).map(id),
        input: format!("\"input {number}\"").into(),
        response: "r".repeat(size).into(),
    }
}

async fn find(memory: &Memory, key: &str, number: u128) -> Option<Remembered> {
    let key = KeyId::new(key);
    let found = memory.look_up(&key, move |lookup| {
        let (found, response) = (lookup.answer(id(number)), lookup.response(id(number)));
        let (found, response) = (found.unwrap(), response.unwrap());
        assert_eq!(found.as_ref().map(|it| it.response.clone()), response);
        found
    });
    found.await.unwrap()
}

#[tokio::test]
async fn an_answer_is_its_keys_at_once_and_in_another_process() {
    let house = House::new();
    let memory = house.open();
    let made = answer("key_a", 1, 100);
    memory.remember(made.clone());
    assert_eq!(find(&memory, "key_a", 1).await, Some(made.clone()));
    assert_eq!(find(&memory, "key_b", 1).await, None);
    assert!(memory.close(PATIENCE));
    assert_eq!(find(&memory, "key_b", 1).await, None);

    let again = house.open();
    assert_eq!(find(&again, "key_a", 1).await, Some(made));
    assert_eq!(find(&again, "key_b", 1).await, None);
    assert_eq!(find(&again, "key_a", 2).await, None);
    let mode = std::fs::metadata(house.store.path()).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_key_forgets_its_own_oldest_and_no_other_keys() {
    let house = House::new();
    let memory = house.open();
    memory.remember(answer("key_b", 100, 100));
    for number in 0..9 {
        memory.remember(answer("key_a", number, 2000));
    }
    // It fits no bounds at all.
    memory.remember(answer("key_a", 50, 10_000));
    assert!(memory.close(PATIENCE));
    for number in 0..9 {
        let is_there = find(&memory, "key_a", number).await.is_some();
        assert_eq!(is_there, number >= 5, "{number}");
    }
    assert!(find(&memory, "key_b", 100).await.is_some());
    assert_eq!(find(&memory, "key_a", 50).await, None);
    let stats = memory.stats();
    assert_eq!((stats.remembered, stats.lost), (10, 1));
    let rows = house.count("SELECT sum(bytes) FROM memory");
    let counted = house.count("SELECT bytes FROM memory_bytes WHERE key = ''");
    assert_eq!(rows, counted);
    assert_eq!(stats.bytes, rows.unsigned_abs());
}

#[tokio::test]
async fn of_all_keys_the_oldest_are_forgotten() {
    let house = House::new();
    let memory = house.open();
    for number in 0..4_u32 {
        memory.remember(answer(&format!("key_{number}"), number.into(), 6000));
    }
    assert!(memory.close(PATIENCE));
    for number in 0..4_u32 {
        let found = find(&memory, &format!("key_{number}"), number.into()).await;
        assert_eq!(found.is_some(), number >= 1, "{number}");
    }
    assert_eq!(house.count("SELECT count(*) FROM memory_bytes"), 4);
}

#[tokio::test]
async fn time_and_the_switch_forget() {
    let house = House::new();
    let memory = house.open();
    memory.remember(answer("key_a", 1, 100));
    assert!(memory.close(PATIENCE));
    house.clock.advance(Duration::from_secs(3601));
    assert_eq!(find(&memory, "key_a", 1).await, None);
    let again = house.open();
    assert!(again.close(PATIENCE));
    assert_eq!(house.count("SELECT count(*) FROM memory"), 0);

    let again = house.open();
    again.remember(answer("key_a", 2, 100));
    again.set_limits(None);
    assert_eq!(find(&again, "key_a", 3).await, None);
    again.remember(answer("key_a", 3, 100));
    assert!(again.close(PATIENCE));
    assert_eq!(house.count("SELECT count(*) FROM memory"), 0);
}

#[tokio::test]
async fn forgotten_answers_leave_nothing_in_the_file() {
    let house = House::new();
    let memory = house.open();
    let mut secret = answer("key_a", 1, 0);
    secret.response = "an unusual secret ".repeat(400).into();
    memory.remember(secret);
    let (a, b) = (KeyId::new("key_a"), KeyId::new("key_b"));
    assert_eq!(memory.forget(&b, id(1)).await, Ok(false));
    assert!(find(&memory, "key_a", 1).await.is_some());
    assert_eq!(memory.forget(&a, id(1)).await, Ok(true));
    assert_eq!(memory.forget(&a, id(1)).await, Ok(false));
    assert_eq!(find(&memory, "key_a", 1).await, None);
    assert!(memory.close(PATIENCE));
    testing::checkpoint(house.store.path());
    let bytes = std::fs::read(house.store.path()).unwrap();
    let wanted = b"an unusual secret";
    assert!(!bytes.windows(wanted.len()).any(|part| part == wanted));
}

#[tokio::test]
async fn a_damaged_answer_is_not_there_and_breaks_no_sums() {
    let house = House::new();
    let memory = house.open();
    memory.remember(answer("key_a", 1, 100));
    memory.remember(answer("key_a", 2, 100));
    assert!(memory.close(PATIENCE));
    let change = format!("UPDATE memory SET response = x'78' WHERE id = '{}'", id(1));
    testing::execute(house.store.path(), &change);
    assert_eq!(find(&memory, "key_a", 1).await, None);
    assert!(find(&memory, "key_a", 2).await.is_some());
    let found = house.store.verify().unwrap();
    assert!(found.holds(), "{:?}", found.faults);
}

#[tokio::test]
async fn waiting_answers_of_one_key_leave_as_much_room_for_the_others() {
    const SIZE: usize = 8 << 20;
    let house = House::new();
    let limits = MemoryLimits {
        bytes_per_key: u64::MAX,
        bytes: u64::MAX,
        ..LIMITS
    };
    let memory = Memory::open(&house.store, Some(limits)).unwrap();
    // Nothing is written meanwhile.
    let other = testing::Other::lock(house.store.path());
    for number in 1..=8 {
        memory.remember(answer("key_a", number, SIZE));
    }
    // Of eight places the fourth would take half, and a little more for its row.
    assert_eq!(memory.stats().lost, 5);
    memory.remember(answer("key_b", 11, SIZE));
    assert_eq!(memory.stats().lost, 5);
    assert!(find(&memory, "key_a", 3).await.is_some());
    assert_eq!(find(&memory, "key_a", 4).await, None);
    assert!(find(&memory, "key_b", 11).await.is_some());
    other.end();
    assert!(memory.close(PATIENCE));
    assert_eq!(house.count("SELECT count(*) FROM memory"), 4);
}

#[tokio::test]
async fn many_large_answers_are_forgotten_in_several_transactions() {
    let house = House::new();
    let limits = MemoryLimits {
        bytes_per_key: 64 << 20,
        bytes: 64 << 20,
        time: Duration::from_secs(3600),
    };
    let memory = Memory::open(&house.store, Some(limits)).unwrap();
    let key = KeyId::new("key_a");
    for number in 0..4 {
        memory.remember(answer("key_a", number, 600 << 10));
    }
    let forget = |number| memory.forget(&key, id(number));
    let all = tokio::join!(forget(0), forget(1), forget(2), forget(3));
    assert_eq!(all, (Ok(true), Ok(true), Ok(true), Ok(true)));
    assert!(memory.close(PATIENCE));
    assert_eq!(memory.stats().bytes, 0);
}
