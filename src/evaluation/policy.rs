//! What is compared: a profile and simpler ways to choose.

use super::rows::{Label, Row};
use std::collections::BTreeSet;
use tollgate_routing::{Ask, Profile, Signal};

/// A way to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The profile with its thresholds as configured.
    Configured,
    /// The profile with thresholds found on the other sources.
    Tuned,
    /// A score of the length alone, with thresholds found in the same way.
    LengthOnly,
    /// Whoever is best for the prompt, and of these the cheapest: nobody can know that.
    Oracle,
    /// One model for everything: the place of a candidate.
    Single(usize),
}

/// What a policy chose for a row: the quality and the cost of it.
pub type Outcome = Label;

/// Everything that is compared.
pub struct Policies<'a> {
    profile: &'a Profile,
    rows: &'a [Row],
    /// What a unit of cost is worth.
    cost_weight: f64,
}

impl<'a> Policies<'a> {
    /// `cost_weight` is what the mean cost of the best single model is worth.
    pub fn new(profile: &'a Profile, rows: &'a [Row], cost_weight: f64) -> Self {
        let mut policies = Self {
            profile,
            rows,
            cost_weight: 0.0,
        };
        let best = policies.best_single();
        let cost = mean(&policies.single(best)).cost;
        policies.cost_weight = if cost > 0.0 { cost_weight / cost } else { 0.0 };
        policies
    }

    /// What each policy chose for each row.
    pub fn outcomes(&self) -> Vec<(Policy, Vec<Outcome>)> {
        let length = self.profile.by_signal(Signal::Length);
        let mut outcomes = vec![
            (Policy::Configured, self.by(self.profile)),
            (Policy::Tuned, self.tuned(self.profile)),
            (Policy::LengthOnly, self.tuned(&length)),
            (Policy::Oracle, self.oracle()),
        ];
        let singles = 0..self.profile.candidates.len();
        outcomes.extend(singles.map(|place| (Policy::Single(place), self.single(place))));
        outcomes
    }

    /// The candidate to choose for everything.
    fn best_single(&self) -> usize {
        let quality = |place: &usize| mean(&self.single(*place)).quality;
        (0..self.profile.candidates.len())
            .max_by(|a, b| quality(a).total_cmp(&quality(b)))
            .unwrap_or(0)
    }

    fn single(&self, place: usize) -> Vec<Outcome> {
        self.rows.iter().map(|row| label(row, place)).collect()
    }

    fn oracle(&self) -> Vec<Outcome> {
        let best = |row: &Row| {
            row.labels.iter().copied().max_by(|a, b| {
                let cheaper = b.cost.total_cmp(&a.cost);
                a.quality.total_cmp(&b.quality).then(cheaper)
            })
        };
        let rows = self.rows.iter();
        rows.map(|row| best(row).unwrap_or(NOTHING)).collect()
    }

    fn by(&self, profile: &Profile) -> Vec<Outcome> {
        self.rows.iter().map(|row| chosen(profile, row)).collect()
    }

    /// Each source is judged by thresholds that were found on all others.
    fn tuned(&self, profile: &Profile) -> Vec<Outcome> {
        let sources: BTreeSet<&str> = self.rows.iter().map(|row| &*row.source).collect();
        let mut outcomes = vec![NOTHING; self.rows.len()];
        for source in sources {
            let others = self.rows.iter().filter(|row| row.source != source);
            let tuned = self.tune(profile, &others.collect::<Vec<_>>());
            for (outcome, row) in outcomes.iter_mut().zip(self.rows) {
                if row.source == source {
                    *outcome = chosen(&tuned, row);
                }
            }
        }
        outcomes
    }

    /// The thresholds under which quality, less what it costs, is greatest.
    fn tune(&self, profile: &Profile, rows: &[&Row]) -> Profile {
        /// Steps of a threshold from 0 to 1.
        const STEPS: u32 = 25;
        let steps = || (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS));
        let candidates = steps().flat_map(|middle| {
            let above = steps().filter(move |strong| *strong >= middle);
            above.map(move |strong| profile.with_thresholds(middle, strong))
        });
        let worth = |profile: &Profile| {
            let labels: Vec<_> = rows.iter().map(|row| chosen(profile, row)).collect();
            self.worth(mean(&labels))
        };
        let mut best = (f64::NEG_INFINITY, profile.clone());
        for candidate in candidates {
            let worth = worth(&candidate);
            if worth > best.0 {
                best = (worth, candidate);
            }
        }
        best.1
    }

    fn worth(&self, label: Label) -> f64 {
        label.quality - self.cost_weight * label.cost
    }
}

/// Nothing at all, at no cost.
const NOTHING: Label = Label {
    quality: 0.0,
    cost: 0.0,
};

fn label(row: &Row, place: usize) -> Label {
    row.labels.get(place).copied().unwrap_or(NOTHING)
}

/// What a profile makes of a row; nothing, where nobody can answer it.
fn chosen(profile: &Profile, row: &Row) -> Label {
    let decision = profile.choose(&Ask {
        facts: &row.facts,
        allowed: &|_| true,
        available: &|_| true,
        before: None,
    });
    let place = decision.and_then(|decision| {
        let mut candidates = profile.candidates.iter();
        candidates.position(|it| it.id == decision.model.id)
    });
    place.map_or(NOTHING, |place| label(row, place))
}

/// The mean of both.
pub fn mean(labels: &[Label]) -> Label {
    let many = labels.len().max(1) as f64;
    let sum = |of: fn(&Label) -> f64| labels.iter().map(of).sum::<f64>() / many;
    Label {
        quality: sum(|it| it.quality),
        cost: sum(|it| it.cost),
    }
}
