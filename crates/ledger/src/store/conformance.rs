//! Cases that every database passes, for `conformance_tests!` to run on each.
//!
//! A case sees a database through the trait, or through the [`Store`] over it, never through
//! statements of its own. What only one database has (files, damage, its log) is tested beside it.

pub(crate) mod cost;
pub(crate) mod keys;
pub(crate) mod money;
pub(crate) mod processes;
pub(crate) mod reads;

use super::{GrantTerms, KeyFilter, KeySelector, Store, database::Database};
use crate::{
    balance::{Grant, Piece},
    clock::{Clock, Timestamp},
    entry::{Entry, tests::largest},
    key::{KeyHash, KeyHasher},
    ownership::Stored,
    record::{KeyRecord, NewKey},
    store::database::{Batch, Committed, Lease, LeaseMode, Process, Retention, Share},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_types::{KeyId, Money, PerUnit, RequestId, Usage};

/// An empty database that is made for one case.
pub(crate) trait Fixture {
    /// Opens it: the first time it is made. Each time as another program would, under this pepper.
    fn open(&self, pepper: &KeyHash) -> Arc<dyn Database>;
}

/// Defines a test for each case. `$make` makes a [`Fixture`].
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::store::conformance::conformance_tests! { @ $make;
            keys::plans_of_keys_that_work_are_reported,
            keys::a_key_is_found_by_id_by_prefix_and_by_itself_after_reopening,
            keys::of_concurrent_orders_with_one_name_one_makes_a_key_and_the_others_return_it,
            keys::an_order_repeated_after_its_key_has_expired_names_the_key,
            keys::keys_are_listed_in_order_page_by_page,
            keys::keys_are_filtered_by_what_they_are_and_no_wildcard_counts,
            keys::revoking_twice_keeps_the_first_time,
            keys::a_key_expires_at_its_time_and_not_before,
            keys::wildcards_and_quotes_name_no_key,
            keys::every_field_survives_storage,
            keys::a_grant_is_what_was_given_and_begins_unused,
            keys::a_key_and_its_first_grant_are_made_together_or_not_at_all,
            keys::a_revoked_key_is_given_nothing_more,
            keys::a_key_that_has_expired_is_given_nothing_until_it_is_extended,
            keys::an_order_of_one_name_is_one_order_of_whatever_kind,
            processes::a_lease_is_one_processs_until_it_ends,
            processes::no_more_is_leased_than_is_asked_for,
            processes::a_unit_of_which_nothing_is_leased_is_requested,
            processes::tokens_that_are_given_back_are_free_for_others,
            processes::a_lease_request_is_news_for_the_others_until_it_is_withdrawn,
            processes::a_process_hears_of_top_ups_and_not_of_spending,
            processes::a_request_is_charged_once_however_often_it_is_committed,
            processes::a_request_that_costs_nothing_begins_its_grants_once,
            processes::what_is_leased_for_a_request_that_another_process_has_entered_is_free_again,
            processes::a_record_that_is_refused_is_quarantined_and_delays_no_other,
            processes::a_charge_above_the_lease_is_paid_from_free_tokens,
            processes::a_fenced_process_leases_nothing_more,
            processes::records_of_a_crashed_process_are_entered_once,
            processes::a_panic_at_a_record_undoes_what_was_entered_with_it,
            processes::processes_that_have_ended_are_no_peers,
            processes::old_records_go_and_what_they_charged_stays,
            processes::the_cost_of_a_batch_is_exact,
            processes::keys_that_are_used_up_most_come_first,
            money::one_order_makes_a_grant_of_each_unit_once,
            money::both_units_are_leased_and_charged_and_add_up,
            money::what_is_leased_adds_up_to_the_nano_unit,
            money::several_grants_of_money_pay_one_request,
            money::a_fenced_process_pays_what_is_free_and_overdraws_the_rest,
            money::a_key_pays_in_money_once_it_was_given_some,
            money::the_larger_share_of_both_units_counts,
            reads::a_key_is_looked_up_by_its_hash_with_the_newest_change,
            reads::every_change_of_a_key_and_its_grants_is_seen,
            reads::a_history_is_read_page_by_page_newest_first,
            reads::records_are_added_up_by_what_is_asked_for_and_in_its_order,
            reads::a_reader_that_has_enough_ends_a_report,
            reads::a_request_is_found_by_its_id_whatever_key_sent_it,
            reads::a_stored_thing_stays_its_first_owners_and_only_grows,
            reads::owners_with_a_future_time_delay_the_expiry_of_no_other,
            reads::what_the_input_of_a_response_shows_is_found,
            reads::an_answer_is_its_keys_until_it_is_forgotten_or_too_old,
            reads::answers_with_a_future_time_delay_the_expiry_of_no_other,
            reads::changes_of_answers_end_with_the_bytes_that_fit,
        }
    };
    (@ $make:expr; $($group:ident :: $case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::store::conformance::$group::$case(&$make);
            }
        )*
    };
}
pub(crate) use conformance_tests;

const START: u64 = 1_790_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);
/// The most to lease if all that is free is to be leased.
pub(crate) const EVERYTHING: PerUnit<u64> = PerUnit {
    tokens: u64::MAX,
    money: u64::MAX,
};

fn hasher() -> KeyHasher {
    KeyHasher::new(b"a pepper for tests").unwrap()
}

/// The keys of a store, in the order in which they were made.
pub(crate) fn keys_of(store: &Store) -> Vec<KeyRecord> {
    let all = KeyFilter::default();
    store.filter_keys(&all, None, 1000).unwrap()
}

fn select(text: &str) -> KeySelector {
    KeySelector::parse(text).unwrap()
}

fn terms(tokens: u64, seconds: u64) -> GrantTerms {
    GrantTerms {
        plan: Some("pro".into()),
        tokens,
        validity: Duration::from_secs(seconds),
        ..GrantTerms::default()
    }
}

/// A database, and a clock for what is done to it.
struct Home<'a> {
    fixture: &'a dyn Fixture,
    clock: Clock,
}

impl<'a> Home<'a> {
    fn on(fixture: &'a dyn Fixture) -> Self {
        Self {
            fixture,
            clock: Clock::manual(Timestamp::from_unix_ms(START)),
        }
    }

    /// A handle of its own, as another program has it.
    fn store(&self) -> Store {
        let database = self.fixture.open(&hasher().fingerprint());
        Store::over(database, hasher(), self.clock.clone())
    }

    /// A key that was given so many tokens, valid for a day.
    fn key(&self, tokens: u64) -> KeyId {
        let store = self.store();
        let key = store.create_key(&NewKey::named("ci")).unwrap();
        let id = key.record.id().clone();
        self.top_up(&id, tokens);
        id
    }

    fn top_up(&self, key: &KeyId, tokens: u64) {
        let day = terms(tokens, DAY.as_secs());
        let selector = KeySelector::Id(key.clone());
        self.store().top_up(&selector, &day).unwrap();
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A process with a journal of this name.
    fn process(&self, journal: &str) -> Box<dyn Process> {
        let store = self.store();
        store.database().begin_process(journal, self.now()).unwrap()
    }

    /// What was charged to a key.
    fn used(&self, key: &KeyId) -> u64 {
        let grants = self.store().grants(key).unwrap();
        grants.iter().map(|grant| grant.used).sum()
    }

    /// Everything adds up, and so many requests are on record.
    fn adds_up(&self, requests: u64) {
        let found = self.store().verify().unwrap();
        assert_eq!(found.faults, [""; 0]);
        assert_eq!(found.requests, requests);
    }
}

/// What a process does in one transaction.
#[derive(Default)]
struct Work<'a> {
    settled: &'a [Entry],
    stored: &'a [Arc<Stored>],
    returned: &'a [Piece],
    leases: &'a [Lease],
}

impl Home<'_> {
    fn commit(&self, process: &mut dyn Process, work: &Work<'_>) -> Committed {
        let settled: Vec<&Entry> = work.settled.iter().collect();
        let batch = Batch {
            settled: &settled,
            stored: work.stored,
            returned: work.returned,
            leases: work.leases,
            now: &|| self.now(),
            pause: &|| (),
        };
        process.commit(&batch).unwrap()
    }

    /// Purges until records are gone, which a server does on a thread of its own. Returns how many.
    fn purge(&self, process: &mut dyn Process, retention: &Retention) -> usize {
        let begun = Instant::now();
        loop {
            let gone = process.maintain(retention, self.now()).unwrap();
            if gone > 0 || begun.elapsed() > Duration::from_secs(30) {
                return gone;
            }
        }
    }

    /// Leases a key's tokens, or looks at them.
    fn lease(&self, process: &mut dyn Process, key: &KeyId, mode: LeaseMode) -> Share {
        self.lease_at_most(process, key, mode, EVERYTHING)
    }

    fn lease_at_most(
        &self,
        process: &mut dyn Process,
        key: &KeyId,
        mode: LeaseMode,
        most: PerUnit<u64>,
    ) -> Share {
        let leases = [Lease {
            key: key.clone(),
            mode,
            most,
        }];
        let work = Work {
            leases: &leases,
            ..Work::default()
        };
        let (_, share) = self.commit(process, &work).shares.pop().unwrap();
        share.unwrap()
    }
}

/// What was newly leased.
fn free(share: &Share) -> u64 {
    share.grants.iter().map(|grant| grant.free).sum()
}

/// A settled request of the key of a share, of so many tokens of one grant.
fn settled(share: &Share, grant: &Grant, number: u64, tokens: u64) -> Entry {
    Entry {
        request: RequestId::from_parts(0, number.into()),
        key: share.key,
        at: START,
        paid: vec![(grant.number.0, tokens)].into(),
        overdraft: 0,
        cost: Some(Money::from_nanos(tokens)),
        usage: Usage {
            output: tokens,
            ..Usage::default()
        },
        ..largest()
    }
}
