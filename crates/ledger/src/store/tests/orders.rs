//! Orders by name, of every kind.

use super::*;

#[test]
fn an_order_of_one_name_is_one_order_of_whatever_kind() {
    let home = Home::new();
    let store = home.store();
    let name = |name: &str| OrderName::new(name).unwrap();
    let key = |name: &str| {
        let made = store.create_key(&NewKey::named(name)).unwrap();
        KeySelector::Id(made.record.id().clone())
    };
    let (one, two) = (key("one"), key("two"));
    let terms = GrantTerms {
        plan: None,
        tokens: 10,
        validity: Duration::from_secs(60),
    };
    let day = Duration::from_secs(86_400);
    let made = store
        .create_key_once(&NewKey::named("made"), &name("key"))
        .unwrap();
    store.top_up_once(&one, &terms, &name("grant")).unwrap();
    store.extend_key_once(&one, day, &name("life")).unwrap();
    let create = |order| {
        store
            .create_key_once(&NewKey::named("x"), &name(order))
            .err()
    };
    let give = |key, order| store.top_up_once(key, &terms, &name(order)).err();
    let extend = |key, by, order| store.extend_key_once(key, by, &name(order)).err();
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
    assert_eq!(store.list_keys(None, 9).unwrap().len(), 3);
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
