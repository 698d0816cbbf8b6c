//! What the request path and the endpoints read.

use super::{DAY, Fixture, Home, LeaseMode, START, Work, hasher, settled};
use crate::{
    charge::BillingState,
    clock::Timestamp,
    entry::Entry,
    history::{History, HistoryQuery},
    memory::{MemoryLimits, Remembered},
    ownership::Stored,
    record::NewKey,
    report::{GroupBy, ReportQuery, ReportRow},
    store::{
        KeySelector, Store,
        database::{AnswerChange, Process, Retention},
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_types::{
    KeyId, LongPrompt, Money, Prices, RequestId, SpecialPrices, Tariff, Weight, Weights,
};

pub(crate) fn a_key_is_looked_up_by_its_hash_with_the_newest_change(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let hash = hasher().hash(&made.key);
    let found = store.database().look_up_key(&hash).unwrap();
    assert_eq!(found.record, Some(made.record));
    let changes = store.database().changes_since(Some(found.change)).unwrap();
    assert_eq!(
        (changes.newest, changes.hashes),
        (found.change, Some(vec![]))
    );
    let other = hasher().hash(&crate::key::ApiKey::generate().unwrap());
    let unknown = store.database().look_up_key(&other).unwrap();
    assert_eq!((unknown.change, unknown.record), (found.change, None));
}

pub(crate) fn every_change_of_a_key_and_its_grants_is_seen(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let hash = hasher().hash(&made.key);
    let selector = KeySelector::Id(made.record.id().clone());
    // Without a beginning everything may have changed.
    let mut seen = store.database().changes_since(None).unwrap();
    assert_eq!(seen.hashes, None);
    let other = home.store();
    let changes: [(&str, &dyn Fn()); 4] = [
        ("limits", &|| {
            drop(other.set_limits(&selector, &Default::default()).unwrap())
        }),
        ("grant", &|| {
            drop(other.top_up(&selector, &super::terms(10, 60)).unwrap())
        }),
        ("extension", &|| {
            drop(other.extend_key(&selector, DAY, None).unwrap())
        }),
        ("revocation", &|| drop(other.revoke_key(&selector).unwrap())),
    ];
    for (what, change) in changes {
        change();
        let now = store.database().changes_since(Some(seen.newest)).unwrap();
        let hashes = now.hashes.clone().unwrap_or_default();
        assert!(
            !hashes.is_empty() && hashes.iter().all(|it| *it == hash),
            "{what}"
        );
        assert!(now.newest > seen.newest, "{what}");
        seen = now;
    }
    // One that is ahead of the database has seen another one.
    let ahead = store
        .database()
        .changes_since(Some(seen.newest + 1))
        .unwrap();
    assert_eq!(ahead.hashes, None);
}

pub(crate) fn a_history_is_read_page_by_page_newest_first(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let (key, other) = (home.key(100), home.key(100));
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    for number in 0..5 {
        let mut entry = settled(&share, &share.grants[0], number, 2);
        entry.cost = entry.cost.filter(|_| number > 0);
        let batch = [entry];
        let work = Work {
            settled: &batch,
            ..Work::default()
        };
        home.commit(&mut *process, &work);
        home.clock.advance(std::time::Duration::from_secs(10));
    }
    let history = History::new(&home.store());
    let mut query = HistoryQuery {
        limit: 2,
        ..HistoryQuery::default()
    };
    let (mut ids, mut costs) = (Vec::new(), Vec::new());
    loop {
        let page = history.page(&key, &query).unwrap();
        ids.extend(page.data.iter().map(|record| record.id.clone()));
        costs.extend(page.data.iter().map(|record| record.cost));
        query.after = page.last_cursor;
        if !page.has_more {
            break;
        }
    }
    let expected = (0..5_u64).rev();
    let expected: Vec<_> = expected
        .map(|number| RequestId::from_parts(0, number.into()).to_string())
        .collect();
    assert_eq!(ids, expected);
    let two = Some(Money::from_nanos(2));
    assert_eq!(costs, [two, two, two, two, None], "the first has no price");
    let none = history.page(&other, &HistoryQuery::default()).unwrap();
    assert!(none.data.is_empty());
    let summary = history.summary(&key, home.now()).unwrap();
    let given = summary.given.tokens.unwrap();
    assert_eq!((given.granted, given.used), (100, 10));
    assert_eq!(summary.models[0].cost.nanos(), 8);
    assert!(!history.is_over(&key, home.now()).unwrap());
    home.clock.advance(DAY);
    assert!(history.is_over(&key, home.now()).unwrap());
}

/// A record of a key at the present time: so many tokens, served by this model.
fn add(home: &Home<'_>, process: &mut dyn Process, key: &KeyId, model: &str, tokens: u64) {
    let share = home.lease(process, key, LeaseMode::Take);
    let number = home.store().verify().unwrap().requests;
    let entry = Entry {
        at: home.now().unix_ms(),
        served: model.into(),
        overdraft: 1,
        ..settled(&share, &share.grants[0], number, tokens)
    };
    let work = Work {
        settled: &[entry],
        ..Work::default()
    };
    home.commit(process, &work);
}

fn report(
    home: &Home<'_>,
    by: &[GroupBy],
    [from, to]: [Timestamp; 2],
    most: usize,
) -> Vec<ReportRow> {
    let by = by.to_vec();
    let mut rows = Vec::new();
    let each = &mut |row| {
        rows.push(row);
        rows.len() < most
    };
    let query = ReportQuery { from, to, by };
    home.store().report(&query, each).unwrap();
    rows
}

fn row(group: &[&str], requests: u64, tokens: u64) -> ReportRow {
    let group = group
        .iter()
        .map(|it| (!it.is_empty()).then(|| (*it).to_owned()));
    ReportRow {
        group: group.collect(),
        sums: [
            requests,
            0,
            0,
            0,
            tokens,
            0,
            tokens.saturating_add(requests),
            requests,
        ],
        costs: [Money::from_nanos(tokens), Money::ZERO],
    }
}

pub(crate) fn records_are_added_up_by_what_is_asked_for_and_in_its_order(fixture: &dyn Fixture) {
    use GroupBy::{Day, Key, Model, Month, Plan};
    let home = Home::on(fixture);
    let key = |name: &str, plan: Option<&str>| {
        let new = NewKey {
            plan: plan.map(str::to_owned),
            grant: Some(super::terms(1000, 100 * DAY.as_secs())),
            ..NewKey::named(name)
        };
        home.store().create_key(&new).unwrap().record.id().clone()
    };
    let (one, two) = (key("one", Some("pro")), key("=two", None));
    let mut process = home.process("one");
    let begun = home.now();
    add(&home, &mut *process, &one, "b", 10);
    home.clock.advance(std::time::Duration::from_secs(1));
    let second = home.now();
    add(&home, &mut *process, &one, "A", 20);
    home.clock.advance(DAY);
    add(&home, &mut *process, &two, "A", 30);
    home.clock.advance(20 * DAY);
    let last = home.now();
    add(&home, &mut *process, &one, "A", 40);
    let all = |by: &[GroupBy]| report(&home, by, [begun, Timestamp::MAX], 100);
    assert_eq!(all(&[]), [row(&[], 4, 100)]);
    assert_eq!(all(&[Model]), [row(&["A"], 3, 90), row(&["b"], 1, 10)]);
    assert_eq!(all(&[Plan]), [row(&[""], 1, 30), row(&["pro"], 3, 70)]);
    let mut by_key = [
        row(&[one.as_str(), "one"], 3, 70),
        row(&[two.as_str(), "=two"], 1, 30),
    ];
    by_key.sort_by(|one, other| one.group.cmp(&other.group));
    assert_eq!(all(&[Key]), by_key);
    assert_eq!(
        all(&[Month, Model]),
        [
            row(&["2026-09", "A"], 2, 50),
            row(&["2026-09", "b"], 1, 10),
            row(&["2026-10", "A"], 1, 40),
        ]
    );
    // From a time on, and before another.
    assert_eq!(
        report(&home, &[Day], [second, last], 100),
        [row(&["2026-09-21"], 1, 20), row(&["2026-09-22"], 1, 30)]
    );
    let late = last.plus(DAY);
    assert_eq!(report(&home, &[Day], [late, late.plus(DAY)], 100), []);
}

pub(crate) fn a_reader_that_has_enough_ends_a_report(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let mut process = home.process("one");
    for model in ["a", "b", "c"] {
        add(&home, &mut *process, &key, model, 1);
    }
    let all = [Timestamp::default(), Timestamp::MAX];
    let found = report(&home, &[GroupBy::Model], all, 2);
    assert_eq!(found, [row(&["a"], 1, 1), row(&["b"], 1, 1)]);
    assert_eq!(report(&home, &[], all, 2), [row(&[], 3, 3)]);
}

pub(crate) fn a_request_is_found_by_its_id_whatever_key_sent_it(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let id = RequestId::from_parts(0, 0);
    assert_eq!(home.store().request(&id).unwrap(), None);
    add(&home, &mut *home.process("one"), &key, "m", 10);
    let found = home.store().request(&id).unwrap().unwrap();
    assert_eq!((found.key, found.key_name.as_str()), (key, "ci"));
    assert_eq!(found.plan, None);
    assert_eq!(found.record.id, id.as_str());
    assert_eq!(
        (found.record.time, found.record.usage.output),
        (home.now(), 10)
    );
}

pub(super) fn stored(key: &str, id: &str, tokens: Option<u64>) -> Arc<Stored> {
    let tariff = Tariff {
        weights: Weights {
            output: Weight::from_thousandths(5000),
            ..Weights::default()
        },
        prices: Some(Prices {
            input: Money::from_nanos(3_000_000_000),
            special: SpecialPrices {
                fast: Some(Weight::from_thousandths(1500)),
                long_prompt: Some(LongPrompt {
                    above: 200_000,
                    input: Weight::from_thousandths(2000),
                    output: Weight::ONE,
                }),
                ..SpecialPrices::default()
            },
            ..Prices::default()
        }),
        tool_calls: 0,
    };
    Arc::new(Stored {
        id: id.into(),
        key: KeyId::new(key),
        provider: "east".into(),
        credential: "first".into(),
        tokens,
        request: Some(RequestId::from_parts(0, 1)),
        tariff: Some(Arc::new(tariff)),
    })
}

pub(crate) fn a_stored_thing_stays_its_first_owners_and_only_grows(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let mut process = home.process("one");
    let things = [
        stored("key_a", "conv_1", Some(5)),
        stored("key_b", "conv_1", Some(99)),
        stored("key_a", "conv_1", Some(7)),
        stored("key_a", "conv_1", Some(6)),
    ];
    let work = Work {
        stored: &things,
        ..Work::default()
    };
    home.commit(&mut *process, &work);
    let found = home
        .store()
        .database()
        .stored(&["conv_2", "conv_1"])
        .unwrap();
    assert_eq!(found, [Stored::clone(&things[2])]);
}

pub(crate) fn owners_with_a_future_time_delay_the_expiry_of_no_other(fixture: &dyn Fixture) {
    let (home, fast) = (Home::on(fixture), Home::on(fixture));
    fast.clock.advance(100 * DAY);
    let mut process = home.process("one");
    let mut own = |at: &Home<'_>, ids: &[String]| {
        let things: Vec<_> = ids.iter().map(|id| stored("key_a", id, None)).collect();
        let work = Work {
            stored: &things,
            ..Work::default()
        };
        at.commit(&mut *process, &work);
    };
    let of_fast: Vec<_> = (0..600)
        .map(|number| format!("conv_fast_{number}"))
        .collect();
    own(&fast, &of_fast);
    own(&home, &["conv_old".to_owned()]);
    home.clock.advance(2 * DAY);
    own(&home, &["conv_new".to_owned()]);
    let retention = Retention {
        history: None,
        stored: DAY,
        most_stored: 1000,
    };
    process.maintain(&retention, home.now()).unwrap();
    let ids = ["conv_fast_0", "conv_old", "conv_new"];
    let left = home.store().database().stored(&ids).unwrap();
    let left: Vec<&str> = left.iter().map(|it| &*it.id).collect();
    assert_eq!(left, ["conv_fast_0", "conv_new"]);
    // The oldest go first if there are too many.
    let retention = Retention {
        most_stored: 1,
        ..retention
    };
    process.maintain(&retention, home.now()).unwrap();
    let left = home.store().database().stored(&ids).unwrap();
    let left: Vec<&str> = left.iter().map(|it| &*it.id).collect();
    assert_eq!(left, ["conv_new"]);
}

pub(crate) fn what_the_input_of_a_response_shows_is_found(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let store = home.store();
    let things = [
        stored("key_a", "resp_1", None),
        stored("key_a", "resp_2<resp_1", None),
    ];
    let batch = [settled(&share, &share.grants[0], 1, 3)];
    let work = Work {
        settled: &batch,
        stored: &things,
        ..Work::default()
    };
    home.commit(&mut *process, &work);
    let shown = store.database().shown_by("resp_2").unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(
        (&*shown[0].id, shown[0].request),
        ("resp_1", batch[0].request)
    );
    assert_eq!(store.database().shown_by("resp_1").unwrap(), []);
}

fn answer(key: &str, number: u128, size: usize) -> Remembered {
    Remembered {
        id: RequestId::from_parts(START, number),
        key: KeyId::new(key),
        previous: None,
        input: "\"input\"".into(),
        response: "r".repeat(size).into(),
    }
}

pub(crate) fn an_answer_is_its_keys_until_it_is_forgotten_or_too_old(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let database = store.database();
    let limits = Some(MemoryLimits {
        bytes_per_key: 10_000,
        bytes: 20_000,
        time: DAY,
    });
    let (a, b) = (KeyId::new("key_a"), KeyId::new("key_b"));
    let made = answer("key_a", 1, 100);
    let change = |changes: &[AnswerChange<'_>]| {
        let changed = database.change_answers(changes, limits, u64::MAX, home.now());
        changed.unwrap()
    };
    assert_eq!(change(&[]).bytes, 0);
    let twice = [AnswerChange::Remember(&made), AnswerChange::Remember(&made)];
    let changed = change(&twice);
    assert_eq!(changed.done, [true, false]);
    assert!(changed.bytes > 100);
    let find = |key, since| database.answer(key, made.id, since).unwrap();
    assert_eq!(find(&a, home.now()), Some(made.clone()));
    assert_eq!(find(&b, home.now()), None);
    let later = Timestamp::from_unix_ms(START + 1);
    assert_eq!(find(&a, later), None);
    let response = database.response(&a, made.id, home.now()).unwrap();
    assert_eq!(response, Some(made.response.clone()));
    let forget = [
        AnswerChange::Forget(&b, made.id),
        AnswerChange::Forget(&a, made.id),
    ];
    let changed = change(&forget);
    assert_eq!((changed.done, changed.bytes), (vec![false, true], 0));
    change(&twice);
    let left = database.expire_answers(later, Duration::ZERO, u64::MAX);
    assert_eq!(left.unwrap(), 0);
    // The oldest of a key make room for its newest.
    let many: Vec<_> = (10..15)
        .map(|number| answer("key_a", number, 3000))
        .collect();
    let many: Vec<_> = many.iter().map(AnswerChange::Remember).collect();
    assert!(change(&many).bytes <= 10_000);
}

pub(crate) fn answers_with_a_future_time_delay_the_expiry_of_no_other(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let database = store.database();
    let limits = Some(MemoryLimits {
        bytes_per_key: 1 << 20,
        bytes: 1 << 20,
        time: DAY,
    });
    let remember = |answers: &[Remembered], at| {
        let changes: Vec<_> = answers.iter().map(AnswerChange::Remember).collect();
        let changed = database.change_answers(&changes, limits, u64::MAX, at);
        changed.unwrap();
    };
    let fast: Vec<_> = (0..100).map(|number| answer("key_a", number, 10)).collect();
    remember(&fast, home.now().plus(100 * DAY));
    let (old, new) = (answer("key_a", 1000, 10), answer("key_a", 1001, 10));
    remember(std::slice::from_ref(&old), home.now());
    home.clock.advance(2 * DAY);
    remember(std::slice::from_ref(&new), home.now());
    database.expire_answers(home.now(), DAY, u64::MAX).unwrap();
    let is_left = |answer: &Remembered| {
        let since = Timestamp::from_unix_ms(0);
        let found = database.answer(&answer.key, answer.id, since).unwrap();
        found.is_some()
    };
    let left = [&fast[0], &old, &new].map(is_left);
    assert_eq!(left, [true, false, true]);
}

pub(crate) fn changes_of_answers_end_with_the_bytes_that_fit(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let limits = Some(MemoryLimits {
        bytes_per_key: 1 << 20,
        bytes: 1 << 20,
        time: DAY,
    });
    let made: Vec<_> = (0..4).map(|number| answer("key_a", number, 1000)).collect();
    let change = |changes: &[AnswerChange<'_>], most| {
        let database = store.database();
        let changed = database.change_answers(changes, limits, most, home.now());
        changed.unwrap().done.len()
    };
    let remember: Vec<_> = made.iter().map(AnswerChange::Remember).collect();
    assert_eq!(change(&remember, 2000), 2);
    assert_eq!(change(&remember[2..], u64::MAX), 2);
    let key = KeyId::new("key_a");
    let forget: Vec<_> = made
        .iter()
        .map(|it| AnswerChange::Forget(&key, it.id))
        .collect();
    assert_eq!(change(&forget, 2000), 2);
}

pub(crate) fn a_backup_is_a_whole_database_without_leases(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let mut process = home.process("one");
    home.lease(&mut *process, &key, LeaseMode::Take);
    let folder = tempfile::TempDir::new().unwrap();
    let target = folder.path().join("copy");
    home.store().backup(&target).unwrap();
    assert!(home.store().backup(&target).is_err(), "it exists");
    home.adds_up(0);
}

/// Reads pages of a long history twice with each kind of filter, at many places: the newest one before a time,
/// the older one behind it, and the newer one before that. The history reaches to `end`; it has forty models, and
/// every thousandth record is rejected.
pub(crate) fn pages_come_within_twenty_milliseconds(store: &Store, key: &KeyId, end: Timestamp) {
    const PLACES: usize = 100;
    let history = History::new(store);
    let (rejected, closed) = (BillingState::Rejected, BillingState::ClientClosed);
    // No place is read for two kinds, so that the first reading finds little in memory.
    let mut golden = (0..1_000_000_u64).map(|i| i * 618_034 % 1_000_000);
    for (kind, model, state, status) in [
        ("all", None, None, None),
        ("model", Some("m7"), None, None),
        (
            "state of nearly all",
            None,
            Some(BillingState::Completed),
            None,
        ),
        ("state of few", None, Some(rejected), None),
        ("status of nearly all", None, None, Some(200)),
        ("status of few", None, None, Some(429)),
        ("status that nothing has", None, None, Some(404)),
        ("model and state", Some("m7"), Some(closed), None),
        ("model and status", Some("m0"), None, Some(429)),
        (
            "state and status that fit nothing",
            None,
            Some(BillingState::Completed),
            Some(429),
        ),
        (
            "model and state that fit nothing",
            Some("m7"),
            Some(rejected),
            None,
        ),
        (
            "model, state and status that fit nothing",
            Some("m7"),
            Some(closed),
            Some(429),
        ),
    ] {
        let (mut first, mut again, mut records) = (Vec::new(), Vec::new(), 0);
        let mut read = |query: &HistoryQuery| {
            let [(one, page), (two, _)] = [(); 2].map(|()| {
                let start = Instant::now();
                let page = history.page(key, query).unwrap();
                (start.elapsed(), page)
            });
            first.push(one);
            again.push(two);
            records += page.data.len();
            page
        };
        for place in golden.by_ref().take(PLACES) {
            let query = HistoryQuery {
                model: model.map(str::to_owned),
                state,
                status,
                ..HistoryQuery::default()
            };
            let newest = read(&HistoryQuery {
                to: Some(Timestamp::from_unix_ms(end.unix_ms() / 1_000_000 * place)),
                ..query.clone()
            });
            let older = read(&HistoryQuery {
                after: newest.last_cursor,
                ..query.clone()
            });
            read(&HistoryQuery {
                before: older.first_cursor,
                ..query
            });
        }
        let [first, again] = [first, again].map(|mut took| {
            took.sort_unstable();
            (took[took.len() / 2], took[took.len() - 1])
        });
        eprintln!(
            "{kind}: median {:.1?}, worst {:.1?}; once more {:.1?}, {:.1?}; {records} records",
            first.0, first.1, again.0, again.1
        );
        // The first time depends on the disk, and the worst one on what else the machine does.
        let median = again.0;
        let has_fits = !kind.contains("nothing");
        assert_eq!(records > 0, has_fits, "{kind}: {records}");
        assert!(median < Duration::from_millis(20), "{kind}: {median:?}");
    }
}
