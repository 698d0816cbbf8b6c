//! When a key works, as lists and the key itself show it.

use super::*;
use tollgate_types::KeyId;

const fn only(id: &KeyId) -> &[KeyId] {
    std::slice::from_ref(id)
}

#[test]
fn a_key_is_expired_when_all_of_its_grants_are_in_lists_and_by_itself() {
    let home = Home::new();
    let store = home.store();
    let make = |name: &str| {
        let made = store.create_key(&NewKey::named(name)).unwrap().record;
        made.id().clone()
    };
    let [one, two, three, four] = ["over", "begun", "both", "bare"].map(make);
    let number = |id: &KeyId| format!("(SELECT number FROM keys WHERE id = '{id}')");
    let end = |id: &KeyId, nth: u32, end: &str| {
        home.sql(&format!(
            "INSERT INTO grants (id, key, tokens, validity_ms, created_at, first_used_at,
                 expires_at)
             VALUES ('grant-{nth}', {}, 10, 1000, 1, {end}, {end})",
            number(id)
        ));
    };
    let now = home.clock.now().unix_ms();
    let (past, future) = (now.to_string(), (now + 1).to_string());
    end(&one, 1, &past);
    end(&one, 2, &past);
    end(&two, 3, &past);
    end(&two, 4, &future);
    end(&three, 5, &past);
    end(&three, 6, "NULL");
    let in_state = |state, after: Option<&KeyId>, limit| -> Vec<KeyId> {
        let filter = KeyFilter {
            state: Some(state),
            ..KeyFilter::default()
        };
        let keys = store.filter_keys(&filter, after, limit).unwrap();
        assert!(keys.iter().all(|key| key.state(home.clock.now()) == state));
        keys.iter().map(|key| key.id().clone()).collect()
    };
    assert_eq!(in_state(KeyState::Expired, None, 9), only(&one));
    let active = [two.clone(), three.clone(), four.clone()];
    assert_eq!(in_state(KeyState::Active, None, 9), active);
    // Page by page, as time goes on.
    home.clock.advance(Duration::from_millis(1));
    assert_eq!(in_state(KeyState::Expired, None, 1), only(&one));
    assert_eq!(in_state(KeyState::Expired, Some(&one), 1), only(&two));
    assert_eq!(in_state(KeyState::Expired, Some(&two), 1), []);
    assert_eq!(in_state(KeyState::Active, None, 1), only(&three));
    assert_eq!(in_state(KeyState::Active, Some(&three), 9), [four]);
    // What is given or lengthened makes it work again; what is revoked stays so.
    let select = |id: &KeyId| KeySelector::Id(id.clone());
    let longer = store.extend_key(&select(&one), Duration::from_secs(1), None);
    assert_eq!(longer.unwrap().state(home.clock.now()), KeyState::Active);
    let revoked = store.revoke_key(&select(&two)).unwrap().record;
    assert_eq!(revoked.state(home.clock.now()), KeyState::Revoked);
    assert_eq!(in_state(KeyState::Expired, None, 9), []);
}
