//! Simulates 10 to 10,000 gateways that share the tokens of one key, far more than one machine can run.
//!
//!     cargo run --release -p tollgate-ledger --example cluster -- FOLDER [SEED]
//!
//! It prints tables and writes plots into the folder. It models the protocol that docs/internals/ledger.md
//! describes, and no code of the ledger runs: what the database does with the load is measured by
//! `cargo bench -p tollgate-ledger --bench settlements`.

#![expect(clippy::print_stdout, reason = "its tables are its purpose")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "the numbers of the model are small"
)]

mod model;

use model::{Outcome, Policy, Settings};
use std::path::Path;
use tollgate_plot::{Chart, Line};

const SIZES: [usize; 7] = [10, 30, 100, 300, 1_000, 3_000, 10_000];
const POLICIES: [Policy; 2] = [Policy::All, Policy::ByUse];

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| ".".to_owned());
    let seed = arguments.next().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let folder = Path::new(&folder);
    let runs = POLICIES.map(|policy| SIZES.map(|nodes| run(nodes, policy, false, seed)));
    table(&runs);
    let lines = |of: fn(&Outcome) -> f64| {
        let line = |(policy, runs): (Policy, &[Outcome; 7])| Line {
            name: policy.name(),
            points: SIZES
                .iter()
                .map(|it| *it as f64)
                .zip(runs.iter().map(of))
                .collect(),
        };
        POLICIES.into_iter().zip(&runs).map(line).collect()
    };
    let traffic = Chart {
        title: "Lease changes per gateway and second",
        across: "gateways",
        lines: lines(Outcome::traffic_per_node),
        marks: vec![10.0, 100.0, 1_000.0, 10_000.0],
        is_logarithmic: true,
    };
    traffic.write(&folder.join("scaling-traffic.svg"))?;
    let refusals = Chart {
        title: "Requests refused with 429 while more than 2% of the balance is left, percent",
        across: "gateways",
        lines: lines(Outcome::refused_early_percent),
        marks: vec![10.0, 100.0, 1_000.0, 10_000.0],
        is_logarithmic: true,
    };
    refusals.write(&folder.join("scaling-refusals.svg"))?;
    let failed = POLICIES.map(|policy| run(100, policy, true, seed));
    let line = |(policy, outcome): (Policy, &Outcome)| Line {
        name: policy.name(),
        points: outcome
            .refused_by_second
            .iter()
            .enumerate()
            .map(|(second, count)| (second as f64, *count as f64))
            .collect(),
    };
    for (policy, outcome) in POLICIES.iter().zip(&failed) {
        println!(
            "{}: {} tokens of failed gateways, {} refused in all",
            policy.name(),
            outcome.locked,
            outcome.refused
        );
    }
    let reclaim = Chart {
        title: "Refusals per second; 10 of 100 gateways fail after 20 s, the term is 30 s",
        across: "seconds",
        lines: POLICIES.into_iter().zip(&failed).map(line).collect(),
        marks: vec![0.0, 20.0, 40.0, 60.0],
        is_logarithmic: false,
    };
    reclaim.write(&folder.join("scaling-reclaim.svg"))
}

fn run(nodes: usize, policy: Policy, fails: bool, seed: u64) -> Outcome {
    let settings = Settings {
        nodes,
        policy,
        fails,
    };
    model::run(&settings, &mut fastrand::Rng::with_seed(seed))
}

fn table(runs: &[[Outcome; 7]; 2]) {
    println!(
        "| gateways | leases | changes per second | at most | refused with more than 2% left | refused later | left at the end |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (policy, runs) in POLICIES.iter().zip(runs) {
        for (nodes, run) in SIZES.iter().zip(runs) {
            println!(
                "| {nodes} | {} | {:.1} | {} | {:.2}% | {:.2}% | {:.2}% |",
                policy.name(),
                run.traffic_per_second(),
                run.busiest_second,
                run.refused_early_percent(),
                run.refused_late_percent(),
                run.left * 100.0,
            );
        }
    }
}
