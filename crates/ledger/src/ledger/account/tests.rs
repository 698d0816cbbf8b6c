use super::*;
use crate::{
    balance::{Grant, GrantNumber},
    store::database::UnitShare,
};
use std::time::Duration;

#[test]
fn one_unit_that_is_used_up_decides_before_leases_that_could_come() {
    let here = |short| Some(Lack::Here(short));
    let (unleased, elsewhere) = (Some(Lack::Unleased), Some(Lack::LeasedElsewhere));
    let exhausted = |unit| Remedy::Refuse(Shortage::Exhausted(unit));
    for (tokens, money, required, expected) in [
        (
            here(Short::Expired),
            None,
            1,
            Remedy::Refuse(Shortage::Expired),
        ),
        (
            here(Short::Expired),
            here(Short::Expired),
            2,
            Remedy::Refuse(Shortage::Expired),
        ),
        (here(Short::Expired), None, 2, exhausted(Unit::Tokens)),
        (unleased, here(Short::Exhausted), 2, exhausted(Unit::Money)),
        (here(Short::Busy), unleased, 2, Remedy::LeaseMore),
        (elsewhere, unleased, 2, Remedy::LeaseMore),
        (here(Short::Busy), elsewhere, 2, Remedy::RequestFromOthers),
        (here(Short::Busy), None, 2, Remedy::Refuse(Shortage::Busy)),
    ] {
        let lacks = PerUnit { tokens, money };
        assert_eq!(remedy(&lacks, required), expected, "{lacks:?}");
    }
}

#[test]
fn a_released_request_leaves_the_refill_to_the_next_one() {
    let now = Timestamp::from_unix_ms(1_790_000_000_000);
    let mut share = Share {
        key: 1,
        grants: vec![Grant {
            number: GrantNumber(1),
            unit: Unit::Tokens,
            validity: Duration::from_secs(86_400),
            expires_at: None,
            free: 100,
            reserved: 0,
        }],
        of: PerUnit::from_fn(|_| UnitShare::default()),
        has_more: false,
    };
    share.of.tokens.unleased = 1000;
    share.of.tokens.left = 1100;
    let account = Account::new(KeyId::new("key_1"), &share, true, now);
    let need = Need {
        wanted: 10,
        useful: 1,
    };
    let needs = PerUnit {
        tokens: Some(need),
        money: None,
    };
    let reserve = || match account.reserve(&needs, &|| true, now) {
        ReserveOutcome::Reserved {
            reserved,
            must_refill,
        } => (reserved, must_refill),
        _ => panic!("not reserved"),
    };
    let (reserved, must_refill) = reserve();
    assert!(!must_refill);
    account.give_up_all();
    account.release(&reserved, now);
    assert!(reserve().1);
}
