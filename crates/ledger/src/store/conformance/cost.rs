//! The recurring statements of a running process, on a database with many keys.

use super::{Fixture, Home, LeaseMode, Work, reads::stored, settled};
use crate::{
    history::Direction,
    history::HistoryQuery,
    store::database::{Look, Retention},
};
use std::{collections::HashSet, time::Duration};
use tollgate_types::{KeyId, RequestId};

/// How many keys the database has, each with a grant, a record and a stored item.
pub(crate) const KEYS: u32 = 20_000;

/// Does what a gateway repeats as long as it runs. `fill` adds keys with the numbers 2 to [`KEYS`]. Of a
/// quarter of them the process 1 leases tokens, of another quarter the process 2, which requests some of the
/// first keys.
pub(crate) fn run_recurring_statements(fixture: &dyn Fixture, fill: &dyn Fn()) {
    let home = Home::on(fixture);
    let own = home.key(1000);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    fill();
    let store = home.store();
    let database = store.database();
    let newest = database.changes_since(None).unwrap().newest;
    let key = |number: u32| KeyId::new(format!("key_{number}"));
    for round in 0..3_u32 {
        let share = home.lease(&mut *one, &own, LeaseMode::Take);
        let entries =
            [0, 1].map(|it| settled(&share, &share.grants[0], (round * 2 + it).into(), 1));
        let work = Work {
            settled: &entries,
            stored: &[stored("key_7", &format!("resp_{round}"), None)],
            ..Work::default()
        };
        home.commit(&mut *one, &work);
        home.lease(&mut *one, &key(KEYS / 2 - round), LeaseMode::Need);
        home.lease(&mut *two, &key(7 + round), LeaseMode::Need);
        let news = one.news(newest, Look::Always).unwrap().unwrap();
        assert!(!news.requested.is_empty());
        one.news(news.newest, Look::IfChanged).unwrap();
        one.keep_lease_requests(&HashSet::from([key(KEYS / 2)]))
            .unwrap();
        one.check_in().unwrap();
        let retention = Retention {
            history: Some(Duration::from_secs(90 * 86_400)),
            stored: Duration::from_secs(35 * 86_400),
            most_stored: 1_000_000,
        };
        one.maintain(&retention, home.now()).unwrap();
        database.changes_since(Some(newest)).unwrap();
        database
            .look_up_key(&super::hasher().fingerprint())
            .unwrap();
        database.summary(&own, home.now()).unwrap();
        let query = HistoryQuery::default();
        let page = database.history(&own, &query, Direction::Older(None), 50);
        assert_eq!(
            u32::try_from(page.unwrap().records.len()).unwrap(),
            2 * round + 2
        );
        let ids = [entries[0].request, entries[1].request];
        assert!(database.request(&ids[0]).unwrap().is_some());
        assert_eq!(database.stored(&["resp_0", "item_7"]).unwrap().len(), 2);
        database
            .answer(&own, RequestId::from_parts(0, 1), home.now())
            .unwrap();
    }
}
