//! How good the choices of a profile are, on labelled prompts: `tollgate eval-auto`.
//!
//! What is compared is told here; how a profile chooses is the very code that serves
//! requests. Labels are taken as they come: the figures are no better than these.

mod policy;
mod report;
mod rows;
#[cfg(test)]
mod tests;

pub use report::Report;
pub use rows::{Row, read};

use policy::{Outcome, Policies, Policy};
use tollgate_routing::Profile;

/// How an evaluation is made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What the cost of the best single model is worth, as a quality.
    pub cost_weight: f64,
    /// The seed of the bootstrap.
    pub seed: u64,
}

/// Evaluates a profile on rows, of which there is at least one.
pub fn evaluate(profile: &Profile, rows: &[Row], settings: Settings) -> Report {
    let policies = Policies::new(profile, rows, settings.cost_weight);
    let outcomes: Vec<(Policy, Vec<Outcome>)> = policies.outcomes();
    report::report(profile, rows, &outcomes, settings)
}
