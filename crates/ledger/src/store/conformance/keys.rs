//! Keys and grants, as administration sees them.

use super::{DAY, Fixture, Home, keys_of, select, terms};
use crate::{
    record::{KeyState, NewKey, allowance},
    store::{GrantTerms, KeyFilter, KeySelector, OrderName, StoreError},
};
use std::time::Duration;
use tollgate_types::Allowance;

pub(crate) fn a_key_is_found_by_id_by_prefix_and_by_itself_after_reopening(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let mut new = NewKey::named("Zoë's laptop");
    new.plan = Some("pro".into());
    new.groups = allowance(["opus", "codex"]);
    new.endpoints = allowance(["/v1beta/models/{id}:generateContent"]);
    new.expires_at = Some(home.clock.now().plus(Duration::from_secs(60)));
    let made = home.store().create_key(&new).unwrap();

    let store = home.store();
    for name in [
        made.record.id().as_str(),
        made.key.prefix(),
        &made.key.prefix()[..6],
        made.key.expose(),
    ] {
        assert_eq!(
            store.find_key(&select(name)).unwrap(),
            made.record,
            "{name}"
        );
    }
    assert_eq!(made.record.identity.groups, allowance(["codex", "opus"]));
    assert_eq!(made.record.identity.endpoints, new.endpoints);
}

pub(crate) fn of_concurrent_orders_with_one_name_one_makes_a_key_and_the_others_return_it(
    fixture: &dyn Fixture,
) {
    let home = Home::on(fixture);
    const CALLERS: usize = 8;
    let store = home.store();
    for round in 0..20 {
        let order = OrderName::new(&format!("order-{round}")).unwrap();
        let together = std::sync::Barrier::new(CALLERS);
        let create = || {
            together.wait();
            store.create_key_once(&NewKey::named("twin"), &order)
        };
        let answers: Vec<_> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(create)).collect();
            callers.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(made.len(), 1, "{refused:?}");
        let made = made.into_iter().next().unwrap().unwrap().record;
        for answer in refused {
            let reported =
                matches!(&answer, Err(StoreError::KeyMade { id, .. }) if id == made.id().as_str());
            assert!(reported, "round {round}: {answer:?}");
        }
    }
    assert_eq!(keys_of(&store).len(), 20);
}

pub(crate) fn an_order_repeated_after_its_key_has_expired_names_the_key(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let order = OrderName::new("order-1").unwrap();
    let mut new = NewKey::named("ci");
    new.expires_at = Some(home.clock.now().plus(Duration::from_secs(60)));
    let made = store.create_key_once(&new, &order).unwrap().record;
    let again = |new: &NewKey| store.create_key_once(new, &order).unwrap_err().to_string();
    let reported = again(&new);
    assert!(
        reported.contains(made.id().as_str()) && reported.contains("it is active"),
        "{reported}"
    );
    home.clock.advance(Duration::from_secs(60));
    let reported = again(&new);
    assert!(
        reported.contains(made.id().as_str()) && reported.contains("it is expired"),
        "{reported}"
    );
    assert!(!reported.contains("revoke"), "{reported}");

    // Another order under that name is refused for the name; an unknown order is too late.
    let other = NewKey {
        name: "cd".to_owned(),
        ..new.clone()
    };
    let reported = again(&other);
    assert!(
        reported.contains("another operation") && reported.contains(made.id().as_str()),
        "{reported}"
    );
    let late = store.create_key_once(&new, &OrderName::new("order-2").unwrap());
    let late = late.unwrap_err().to_string();
    assert!(late.contains("has already passed"), "{late}");
    assert_eq!(keys_of(&store).len(), 1);
}

pub(crate) fn keys_are_listed_in_order_page_by_page(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let made: Vec<_> = (0..5)
        .map(|n| {
            store
                .create_key(&NewKey::named(format!("key {n}")))
                .unwrap()
        })
        .map(|made| made.record)
        .collect();
    let all = KeyFilter::default();
    let page = |after, limit| store.filter_keys(&all, after, limit).unwrap();
    assert_eq!(page(None, 2), made[..2]);
    let after = made[1].id();
    assert_eq!(page(Some(after), 100), made[2..]);
    assert_eq!(page(Some(made[4].id()), 100), []);
}

pub(crate) fn keys_are_filtered_by_what_they_are_and_no_wildcard_counts(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let make = |name: &str, plan: Option<&str>, seconds: Option<u64>| {
        let mut new = NewKey::named(name);
        new.plan = plan.map(str::to_owned);
        let end = |seconds| home.clock.now().plus(Duration::from_secs(seconds));
        new.expires_at = seconds.map(end);
        store.create_key(&new).unwrap().record.id().clone()
    };
    make("Zoë's laptop", Some("pro"), None);
    make("visitor_1%", None, Some(60));
    let gone = make("visitor 2", Some("pro"), None);
    store.revoke_key(&KeySelector::Id(gone)).unwrap();
    home.clock.advance(Duration::from_secs(60));
    let found = |filter: KeyFilter| -> Vec<String> {
        let keys = store.filter_keys(&filter, None, 9).unwrap();
        keys.iter().map(|key| key.identity.name.clone()).collect()
    };
    let state = |state| KeyFilter {
        state: Some(state),
        ..KeyFilter::default()
    };
    let name = |name: &str| KeyFilter {
        name: Some(name.to_owned()),
        ..KeyFilter::default()
    };
    let plan = |plan: &str| KeyFilter {
        plan: Some(plan.to_owned()),
        ..state(KeyState::Active)
    };
    for (filter, wanted) in [
        (state(KeyState::Active), &["Zoë's laptop"][..]),
        (state(KeyState::Expired), &["visitor_1%"]),
        (state(KeyState::Revoked), &["visitor 2"]),
        (name("visitor"), &["visitor_1%", "visitor 2"]),
        (name("r_1%"), &["visitor_1%"]),
        (name("%"), &["visitor_1%"]),
        (name("r_2"), &[]),
        (name("zoë"), &[]),
        (name("' OR 1=1 --"), &[]),
        (plan("pro"), &["Zoë's laptop"]),
        (plan("p_o"), &[]),
    ] {
        assert_eq!(found(filter.clone()), wanted, "{filter:?}");
    }
}

pub(crate) fn revoking_twice_keeps_the_first_time(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let first = store.revoke_key(&select(made.key.prefix())).unwrap();
    assert!(!first.already_revoked);
    assert_eq!(first.record.revoked_at, Some(home.clock.now()));

    home.clock.advance(Duration::from_secs(5));
    let again = store
        .revoke_key(&select(made.record.id().as_str()))
        .unwrap();
    assert!(again.already_revoked);
    assert_eq!(again.record, first.record);
    assert_eq!(again.record.state(home.clock.now()), KeyState::Revoked);
}

pub(crate) fn a_key_expires_at_its_time_and_not_before(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let mut new = NewKey::named("day pass");
    new.expires_at = Some(home.clock.now().plus(Duration::from_millis(2)));
    let record = home.store().create_key(&new).unwrap().record;
    home.clock.advance(Duration::from_millis(1));
    assert_eq!(record.state(home.clock.now()), KeyState::Active);
    home.clock.advance(Duration::from_millis(1));
    assert_eq!(record.state(home.clock.now()), KeyState::Expired);
}

pub(crate) fn wildcards_and_quotes_name_no_key(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    store
        .create_key(&NewKey::named("%_'\"; DROP TABLE keys;--"))
        .unwrap();
    for text in [
        "",
        "%",
        "sk-",
        "sk-%",
        "sk-_______",
        "sk-*",
        "sk-[a-z]",
        "sk-'--",
        "sk-\" OR 1=1",
        "key_%",
        "key_",
        "key_0123456789abcdefghi'",
        "KEY_0123456789abcdefghij",
        "sk-é",
        "sk-0123456789",
    ] {
        let fault = KeySelector::parse(text).unwrap_err();
        assert!(matches!(fault, StoreError::Selector), "{text}: {fault}");
    }
    assert_eq!(keys_of(&store).len(), 1);
}

pub(crate) fn every_field_survives_storage(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let record = store.create_key(&NewKey::named("all")).unwrap().record;
    let found = store.find_key(&select(record.id().as_str())).unwrap();
    assert_eq!(found.identity.groups, Allowance::All);
    assert_eq!(found.identity.endpoints, Allowance::All);
}

pub(crate) fn a_grant_is_what_was_given_and_begins_unused(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let id = store
        .create_key(&NewKey::named("ci"))
        .unwrap()
        .record
        .id()
        .clone();
    let made = store
        .top_up(&KeySelector::Id(id.clone()), &terms(1000, 60))
        .unwrap();
    assert_eq!(store.grants(&id).unwrap(), made);
    for (tokens, seconds) in [(0, 60), (1 << 53, 60), (1000, 0), (1000, u64::MAX)] {
        let bad = store.top_up(&KeySelector::Id(id.clone()), &terms(tokens, seconds));
        assert!(matches!(bad, Err(StoreError::InvalidGrant)), "{bad:?}");
    }
}

pub(crate) fn a_key_and_its_first_grant_are_made_together_or_not_at_all(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let mut new = NewKey::named("ci");
    new.grant = Some(terms(1000, 60));
    let id = store.create_key(&new).unwrap().record.id().clone();
    assert_eq!(store.grants(&id).unwrap()[0].tokens, 1000);
    new.grant = Some(terms(0, 60));
    assert!(store.create_key(&new).is_err());
    assert_eq!(keys_of(&store).len(), 1);
}

pub(crate) fn a_revoked_key_is_given_nothing_more(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let key = KeySelector::Id(made.record.id().clone());
    let order = OrderName::new("first").unwrap();
    let given = store.top_up_once(&key, &terms(1000, 60), &order).unwrap();
    store.revoke_key(&key).unwrap();
    let more = store.top_up(&key, &terms(1000, 60));
    assert!(
        matches!(more, Err(StoreError::KeyRevoked { .. })),
        "{more:?}"
    );
    let longer = store.extend_key(&key, Duration::from_secs(30), None);
    assert!(
        matches!(longer, Err(StoreError::KeyRevoked { .. })),
        "{longer:?}"
    );
    // A repetition of an order that was carried out in time returns what the order made.
    let again = store.top_up_once(&key, &terms(1000, 60), &order).unwrap();
    assert_eq!(again, given);
}

pub(crate) fn a_key_that_has_expired_is_given_nothing_until_it_is_extended(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let mut new = NewKey::named("ci");
    new.expires_at = Some(home.clock.now().plus(Duration::from_secs(60)));
    let made = store.create_key(&new).unwrap();
    let key = KeySelector::Id(made.record.id().clone());
    home.clock.advance(Duration::from_secs(60));
    let refused = store.top_up(&key, &terms(1000, 60));
    assert!(
        matches!(refused, Err(StoreError::KeyExpired { .. })),
        "{refused:?}"
    );
    store
        .extend_key(&key, Duration::from_secs(60), None)
        .unwrap();
    store.top_up(&key, &terms(1000, 60)).unwrap();
}

pub(crate) fn an_order_of_one_name_is_one_order_of_whatever_kind(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let name = |name: &str| OrderName::new(name).unwrap();
    let key = |name: &str| {
        let made = store.create_key(&NewKey::named(name)).unwrap();
        KeySelector::Id(made.record.id().clone())
    };
    let (one, two) = (key("one"), key("two"));
    let terms = GrantTerms {
        tokens: 10,
        validity: Duration::from_secs(60),
        ..GrantTerms::default()
    };
    let day = Duration::from_secs(86_400);
    let made = store
        .create_key_once(&NewKey::named("made"), &name("key"))
        .unwrap();
    store.top_up_once(&one, &terms, &name("grant")).unwrap();
    store.extend_key(&one, day, Some(&name("life"))).unwrap();
    let create = |order| {
        store
            .create_key_once(&NewKey::named("x"), &name(order))
            .err()
    };
    let give = |key, order| store.top_up_once(key, &terms, &name(order)).err();
    let extend = |key, by, order| store.extend_key(key, by, Some(&name(order))).err();
    for (what, refused) in [
        ("a key for tokens", create("grant")),
        ("a key for a life", create("life")),
        ("tokens for a key", give(&one, "key")),
        ("tokens for a life", give(&one, "life")),
        ("tokens for another", give(&two, "grant")),
        ("a life for a key", extend(&one, day, "key")),
        ("a life for tokens", extend(&one, day, "grant")),
        ("a life for another", extend(&two, day, "life")),
        ("another life", extend(&one, day * 2, "life")),
    ] {
        let is_other = matches!(&refused, Some(StoreError::OtherOrder { .. }));
        assert!(is_other, "{what}: {refused:?}");
    }
    assert_eq!(keys_of(&store).len(), 3);
    let KeySelector::Id(id) = &one else {
        panic!("{one:?}")
    };
    let extended = |days: u64| {
        let grants = store.grants(id).unwrap();
        assert_eq!(grants.len(), 1, "{grants:?}");
        assert_eq!(grants[0].validity_seconds, 60 + days * 86_400);
    };
    extended(1);
    // The same order again changes nothing, whatever has become of the key.
    assert_eq!(extend(&one, day, "life").map(|it| it.to_string()), None);
    extended(1);
    store.revoke_key(&one).unwrap();
    assert_eq!(extend(&one, day, "life").map(|it| it.to_string()), None);
    let refused = extend(&one, day, "later");
    assert!(
        matches!(refused, Some(StoreError::KeyRevoked { .. })),
        "{refused:?}"
    );
    extended(1);
    let again = store.create_key_once(&NewKey::named("made"), &name("key"));
    let is_made =
        matches!(&again, Err(StoreError::KeyMade { id, .. }) if id == made.record.id().as_str());
    assert!(is_made, "{again:?}");
}

pub(crate) fn plans_of_keys_that_work_are_reported(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let store = home.store();
    let make = |plan: Option<&str>, expires_at| {
        let new = NewKey {
            plan: plan.map(str::to_owned),
            expires_at,
            ..NewKey::named("x")
        };
        store.create_key(&new).unwrap().record
    };
    for plan in [None, Some("a"), Some("b"), Some("b"), Some("c/{d}")] {
        make(plan, None);
    }
    let reported = |known: &[&str], most, now| {
        let found = store.database().plans_beyond(known, most, now).unwrap();
        let pairs = found.into_iter().map(|it| (it.plan, it.keys));
        pairs.collect::<Vec<_>>()
    };
    let of = |plan: &str, keys: u32| (plan.to_owned(), keys);
    let now = home.now();
    assert_eq!(reported(&["b", "c/{d}", "d"], 9, now), [of("a", 1)]);
    assert_eq!(reported(&[], 2, now), [of("b", 2), of("a", 1)]);
    let all = ["a", "b", "c/{d}"];
    assert_eq!(reported(&all, 9, now), []);
    let gone = make(Some("gone"), None);
    let gone = KeySelector::Id(gone.id().clone());
    store.revoke_key(&gone).unwrap();
    assert_eq!(reported(&all, 9, now), []);
    let end = now.plus(DAY);
    make(Some("trial"), Some(end));
    assert_eq!(reported(&all, 9, now), [of("trial", 1)]);
    assert_eq!(reported(&all, 9, end), []);
}
