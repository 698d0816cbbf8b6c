//! Two to five gateways on one database and its standby, each on a machine of its own, while the network,
//! the machines and the processes fail at random. No token is lost, and none is spent twice.
//!
//! `TOLLGATE_CLUSTER_ROUNDS` sets the number of rounds, `TOLLGATE_CLUSTER_SEED` repeats their faults,
//! `TOLLGATE_CLUSTER_NODES` sets the number of gateways. What is checked after each round: [`audit`].

mod audit;
mod callers;
mod database;
mod faults;
mod machines;
mod network;
mod node;
mod provider;
mod report;

use crate::support::{PATIENCE, bounded};
use audit::{Account, Found, Record};
use callers::{Call, Load, Target};
use faults::Fault;
use machines::Machines;
use network::Space;
use node::{SMALL, TERM};
use provider::Counted;
use report::Report;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After how many rounds there are new keys.
const GENERATION: usize = 4;
/// The keys of a generation: two that never run out, and one that does.
const PLANS: [(&str, u64); 3] = [
    ("plenty", 1_000_000_000),
    ("plenty", 1_000_000_000),
    ("small", SMALL),
];

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

/// Keys and everything that was done with them.
struct Generation {
    target: Target,
    accounts: Vec<Account>,
    calls: Vec<Call>,
}

#[test]
fn a_cluster_under_faults_loses_no_token_and_spends_none_twice() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let _alone = crate::alone().await;
        let rounds = from_environment("TOLLGATE_CLUSTER_ROUNDS").unwrap_or(5);
        let seed = from_environment("TOLLGATE_CLUSTER_SEED").unwrap_or_else(|| fastrand::u64(..));
        println!("TOLLGATE_CLUSTER_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = random.u8(2..=5);
        let nodes = from_environment("TOLLGATE_CLUSTER_NODES")
            .map_or(nodes, |it| u8::try_from(it).unwrap());
        let Some(machines) = Machines::start(nodes).await else {
            return;
        };
        let rounds = usize::try_from(rounds).unwrap();
        Run::new(machines, random).await.rounds(rounds).await;
    });
}

struct Run {
    machines: Machines,
    random: fastrand::Rng,
    callers: Space,
    _provider: Space,
    counted: Counted,
    generation: Generation,
    report: Report,
}

impl Run {
    async fn new(machines: Machines, random: fastrand::Rng) -> Self {
        let counted = Counted::default();
        let provider = machines.network.runtime("provider");
        provider
            .handle()
            .spawn(provider::serve(machines.provider, counted.clone()));
        let generation = generation(&machines);
        Self {
            callers: machines.network.runtime("callers"),
            machines,
            random,
            _provider: provider,
            counted,
            generation,
            report: Report::default(),
        }
    }

    async fn rounds(mut self, rounds: usize) {
        let begun = Instant::now();
        for (number, fault) in Fault::draw(rounds, &mut self.random)
            .into_iter()
            .enumerate()
        {
            if number > 0 && number % GENERATION == 0 {
                self.finish_generation().await;
                self.generation = generation(&self.machines);
            }
            let round = Instant::now();
            self.round(fault).await;
            println!("round {number}: {fault:?}, {:.1?}", round.elapsed());
        }
        self.finish_generation().await;
        for node in &mut self.machines.nodes {
            node.stop().await;
        }
        println!(
            "{rounds} rounds in {:.0?}: {:#?}",
            begun.elapsed(),
            self.report
        );
        assert_eq!(self.report.lost, 0);
    }

    async fn round(&mut self, fault: Fault) {
        *self.report.faults.entry(fault).or_default() += 1;
        let load = Load::begin(self.callers.handle(), &self.generation.target);
        let span = |random: &mut fastrand::Rng, ms| Duration::from_millis(random.u64(ms));
        // Lets time pass on purpose: the fault must come at a random moment of the load.
        tokio::time::sleep(span(&mut self.random, 200..500)).await;
        let begun = Instant::now();
        let node = self.random.usize(..self.machines.nodes.len());
        let span = match fault.is_long() {
            true => TERM + span(&mut self.random, 1_500..2_500),
            false => span(&mut self.random, 300..1_500),
        };
        self.machines
            .inject(fault, node, span, &mut self.random)
            .await;
        let mut fenced = self.machines.revive().await;
        let healed = Instant::now();
        let (mut calls, ended) = self.serve_again().await;
        let back_after = healed.elapsed();
        fenced += ended + self.machines.revive().await;
        calls.extend(bounded("the callers' end", load.end()).await);
        self.report.fenced += fenced;
        // A gateway is renewed once a second, and again soon after the fault.
        let accident = fenced > 0 || healed - begun >= TERM - Duration::from_secs(2);
        let longest = report::longest_refusal(&calls, PLANS.len() - 1);
        self.report.back_after = self.report.back_after.max((back_after, Some(fault)));
        self.report.refused_for = self.report.refused_for.max((longest, Some(fault)));
        self.report.note(&calls);
        self.generation.calls.append(&mut calls);
        self.drain().await;
        for account in &mut self.generation.accounts {
            // What a gateway gets back that starts again is no accident.
            let unreturned = self.machines.database.take_unreturned(&account.id);
            account.bound += if accident { unreturned } else { 0 };
        }
        for found in self.compare().await {
            self.report.lost += found.lost;
            assert!(found.faults.is_empty(), "{fault:?}: {:#?}", found.faults);
        }
    }

    /// Asks each gateway with each key that has a balance until all are served. Returns the calls, and how many
    /// gateways had to be started again meanwhile.
    async fn serve_again(&mut self) -> (Vec<Call>, usize) {
        /// How often is looked for gateways that have ended.
        const LOOK: Duration = Duration::from_millis(200);
        let mut asking = tokio::task::JoinSet::new();
        for node in 0..self.machines.nodes.len() {
            for key in 0..PLANS.len() - 1 {
                let target = self.generation.target.clone();
                asking.spawn_on(served(target, node, key), self.callers.handle());
            }
        }
        let (mut calls, mut fenced) = (Vec::new(), 0);
        loop {
            match tokio::time::timeout(LOOK, asking.join_next()).await {
                Ok(Some(done)) => calls.extend(done.unwrap()),
                Ok(None) => return (calls, fenced),
                Err(_) => fenced += self.machines.revive().await,
            }
        }
    }

    async fn page(
        &self,
        node: usize,
        port: Port,
        path: String,
        key: Option<String>,
    ) -> Option<String> {
        let node = &self.machines.nodes[node];
        let address = match port {
            Port::Callers => node.address,
            Port::Operators => node.admin,
        };
        let page = callers::page(address, path, key);
        self.callers.handle().spawn(page).await.unwrap().ok()
    }

    /// Waits until every gateway has entered everything.
    async fn drain(&self) {
        const OPEN: &str = "tollgate_ledger_open_requests 0";
        for node in 0..self.machines.nodes.len() {
            crate::support::eventually("an empty journal", async || {
                let page = self
                    .page(node, Port::Operators, "/metrics".to_owned(), None)
                    .await?;
                page.lines().any(|line| line == OPEN).then_some(())
            })
            .await;
        }
    }

    /// Compares the records of each key with its calls.
    async fn compare(&self) -> Vec<Found> {
        let generation = &self.generation;
        let mut all = Vec::new();
        for (number, account) in generation.accounts.iter().enumerate() {
            let records = self.history(&generation.target.keys[number]).await;
            let calls = generation.calls.iter().filter(|call| call.key == number);
            let calls: Vec<&Call> = calls.collect();
            all.push(audit::compare(account, &calls, &records, &self.counted));
        }
        all
    }

    /// All records of a key, as a client reads them.
    async fn history(&self, key: &str) -> Vec<Record> {
        let mut records = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!("/v1/usage/history?limit=500{after}");
            let page = crate::support::eventually("a page of the history", async || {
                self.page(0, Port::Callers, path.clone(), Some(key.to_owned()))
                    .await
            });
            let page: Value = serde_json::from_str(&page.await).unwrap();
            records.extend(page["data"].as_array().unwrap().iter().map(Record::read));
            if page["has_more"] == false {
                return records;
            }
            after = format!("&after={}", page["last_cursor"].as_str().unwrap());
        }
    }

    /// The last look at keys: the ledger adds up.
    async fn finish_generation(&mut self) {
        for found in self.compare().await {
            self.report.overdraft += found.overdraft;
            self.report.bound += found.bound;
        }
        self.machines.verify();
    }
}

#[derive(Clone, Copy)]
enum Port {
    Callers,
    Operators,
}

/// Calls until one is served.
async fn served(target: Target, node: usize, key: usize) -> Vec<Call> {
    let begun = Instant::now();
    let mut calls = Vec::new();
    loop {
        let call = callers::call(&target, node, key).await;
        let is_served = call.reported.is_some();
        calls.push(call);
        if is_served {
            return calls;
        }
        let last = calls.last();
        assert!(
            begun.elapsed() < 2 * PATIENCE,
            "node {node} does not serve key {key}: {last:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn generation(machines: &Machines) -> Generation {
    let made = PLANS.map(|(plan, _)| machines.nodes[0].create_key(&machines.network, plan));
    let nodes = machines.nodes.iter().map(|node| node.address);
    let text = |made: &Value, name: &str| made[name].as_str().unwrap().to_owned();
    let account = |((_, granted), made): (&(&str, u64), &Value)| Account {
        granted: *granted,
        id: text(&made["record"], "id"),
        bound: 0,
    };
    Generation {
        target: Target {
            keys: Arc::new(made.iter().map(|it| text(it, "key")).collect()),
            nodes: Arc::new(nodes.collect()),
        },
        accounts: PLANS.iter().zip(&made).map(account).collect(),
        calls: Vec::new(),
    }
}
