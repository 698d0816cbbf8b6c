//! Random lives of one key over real files: reservations, progress, settlements,
//! crashes, restarts, a second process, top-ups, extensions, time. After each life
//! everything adds up, and the charges are what the rules say.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    /// In this process, this much output at most.
    Reserve(usize, u64),
    /// The reservation at this place has delivered so much.
    Progress(usize, u64),
    /// It ends so, with this reported.
    Settle(usize, BillingState, Option<u64>),
    /// It is dropped.
    Drop(usize),
    /// This process dies, and another comes in its place.
    Crash(usize),
    /// This process ends, and another comes in its place.
    Restart(usize),
    TopUp(u64),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let state = proptest::sample::select(BillingState::ALL.as_slice());
    let place = any::<usize>();
    let step = prop_oneof![
        6 => (0..2_usize, 1..300_u64).prop_map(|(p, o)| Step::Reserve(p, o)),
        3 => (place, 0..200_u64).prop_map(|(r, d)| Step::Progress(r, d)),
        4 => (place, state, proptest::option::of(0..2000_u64))
            .prop_map(|(r, s, u)| Step::Settle(r, s, u)),
        1 => place.prop_map(Step::Drop),
        1 => (0..2_usize).prop_map(Step::Crash),
        1 => (0..2_usize).prop_map(Step::Restart),
        1 => (1..1000_u64).prop_map(Step::TopUp),
        1 => (0..60_000_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..40)
}

/// A reservation, and what a caller knows of it.
struct Open {
    reservation: Reservation,
    process: usize,
    delivered: u64,
    request: String,
}

/// A key's life, and what is expected to be on record for it.
struct Life {
    house: House,
    key: KeyId,
    granted: u64,
    processes: [Option<Ledger>; 2],
    open: Vec<Open>,
    expected: BTreeMap<String, (u64, u64)>,
}

impl Life {
    fn new(lease_by_use: bool) -> Self {
        let house = House {
            lease_by_use,
            ..House::new()
        };
        let key = house.key(1000);
        let processes = [Some(house.ledger()), Some(house.ledger())];
        Self {
            house,
            key,
            granted: 1000,
            processes,
            open: Vec::new(),
            expected: BTreeMap::new(),
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Reserve(process, tokens) => self.reserve(process, tokens).await,
            Step::Progress(place, delivered) => {
                if let Some(open) = self.at(place) {
                    open.delivered = open.delivered.max(delivered);
                    open.reservation
                        .progress(output(open.delivered), UsageDetails::default());
                }
            }
            Step::Settle(place, state, reported) => self.settle(place, state, reported),
            Step::Drop(place) => {
                if let Some(open) = self.remove(place) {
                    // The part above the balance is not reported, but it is counted.
                    let ledger = self.processes[open.process].as_ref().unwrap();
                    let before = ledger.stats().overdraft_tokens;
                    drop(open.reservation);
                    let overdraft = ledger.stats().overdraft_tokens - before;
                    let due = (open.delivered, overdraft);
                    assert_eq!(self.expected.insert(open.request, due), None);
                }
            }
            Step::Crash(process) => {
                if let Some(ledger) = self.processes[process].take() {
                    ledger.crash();
                }
                // What was open there comes to no end: a dead process drops nothing.
                let died = |open: &mut Open| open.process == process;
                self.open.extract_if(.., died).for_each(std::mem::forget);
                self.processes[process] = Some(self.house.ledger());
            }
            Step::Restart(process) => {
                while let Some(place) = self.open.iter().position(|o| o.process == process) {
                    self.settle(place, BillingState::Rejected, None);
                }
                if let Some(ledger) = self.processes[process].take() {
                    assert!(ledger.close(PATIENCE));
                }
                self.processes[process] = Some(self.house.ledger());
            }
            Step::TopUp(tokens) => {
                self.house.top_up(&self.key, tokens);
                self.granted += tokens;
            }
            Step::Wait(seconds) => self.house.clock.advance(Duration::from_secs(seconds)),
        }
    }

    fn at(&mut self, place: usize) -> Option<&mut Open> {
        let count = self.open.len().max(1);
        self.open.get_mut(place % count)
    }

    fn remove(&mut self, place: usize) -> Option<Open> {
        let count = self.open.len();
        (count > 0).then(|| self.open.swap_remove(place % count))
    }

    async fn reserve(&mut self, process: usize, tokens: u64) {
        let ledger = self.processes[process].clone().unwrap();
        if let Ok(reservation) = self.house.reserve(&ledger, &self.key, tokens).await {
            assert_eq!(reservation.reserved(Unit::Tokens), Some(tokens));
            self.open.push(Open {
                request: reservation.request().to_string(),
                reservation,
                process,
                delivered: 0,
            });
        }
    }

    fn settle(&mut self, place: usize, state: BillingState, reported: Option<u64>) {
        let Some(open) = self.remove(place) else {
            return;
        };
        let due = match (state, reported) {
            (BillingState::Rejected, _) => 0,
            (BillingState::UpstreamFailed, _) if open.delivered == 0 => 0,
            (_, Some(tokens)) if tokens > 0 || open.delivered == 0 => tokens,
            _ => open.delivered,
        };
        let settled = open.reservation.settle(&Ending {
            status: 200,
            reported: reported.map(output),
            ..Ending::unreported(state, output(open.delivered))
        });
        assert_eq!(settled.charged, due);
        let entry = self.expected.entry(open.request).or_default();
        *entry = (due, settled.overdraft);
    }

    /// Ends everything and compares what is on record with what is expected.
    async fn end(mut self) {
        while !self.open.is_empty() {
            self.settle(0, BillingState::Completed, Some(1));
        }
        for process in &mut self.processes {
            if let Some(ledger) = process.take() {
                assert!(ledger.close(PATIENCE));
            }
        }
        let last = self.house.ledger();
        assert!(last.close(PATIENCE));
        let found = self.house.store().verify().unwrap();
        assert_eq!(found.faults, [""; 0]);
        assert_eq!((found.granted, found.leased), (self.granted, 0));
        assert_eq!(self.recorded(), self.expected);
        let paid = |(charged, overdraft): &(u64, u64)| charged - overdraft;
        let spent: u64 = self.expected.values().map(paid).sum();
        assert_eq!(found.spent, spent);
        assert_eq!(self.house.settlement_files(), 0);
    }

    fn recorded(&self) -> BTreeMap<String, (u64, u64)> {
        let rows = "SELECT concat_ws('|', request, charged, overdraft) FROM usage";
        let rows: Vec<String> = testing::values(&self.house.path(), rows).unwrap();
        let read = |row: &String| {
            let mut parts = row.split('|');
            let mut next = || parts.next().unwrap().to_owned();
            let (request, charged, overdraft) = (next(), next(), next());
            (
                request,
                (charged.parse().unwrap(), overdraft.parse().unwrap()),
            )
        };
        rows.iter().map(read).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_request_is_charged_once_and_everything_adds_up(steps in steps(), by_use in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut life = Life::new(by_use);
            for step in steps {
                life.take(step).await;
            }
            life.end().await;
        });
    }
}
