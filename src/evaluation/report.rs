//! The figures: means with 95% intervals, and the differences that matter.

use super::Settings;
use super::policy::{Outcome, Policy, mean};
use super::rows::{Label, Row};
use std::collections::BTreeMap;
use std::fmt;
use tollgate_routing::Profile;

/// How often the rows are drawn anew.
const DRAWS: usize = 2000;

/// What came out.
#[derive(Debug)]
pub struct Report {
    profile: String,
    /// Sources with their numbers of rows.
    sources: BTreeMap<String, usize>,
    settings: Settings,
    lines: Vec<Line>,
    differences: Vec<(String, Interval)>,
}

#[derive(Debug)]
struct Line {
    name: String,
    quality: Interval,
    /// Of the best single model's.
    cost: Interval,
}

/// A figure with the range in which 95% of the draws lie.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Report {
    /// The quality of a line, by its name.
    #[cfg(test)]
    pub fn quality(&self, name: &str) -> Option<Interval> {
        let line = self.lines.iter().find(|line| line.name == name);
        line.map(|line| line.quality)
    }

    /// A difference in quality, by its name.
    #[cfg(test)]
    pub fn difference(&self, name: &str) -> Option<Interval> {
        let found = self.differences.iter().find(|(it, _)| it == name);
        found.map(|(_, difference)| *difference)
    }
}

/// One draw: every policy's mean.
type Means = Vec<Label>;

pub fn report(
    profile: &Profile,
    rows: &[Row],
    outcomes: &[(Policy, Vec<Outcome>)],
    settings: Settings,
) -> Report {
    let all: Vec<usize> = (0..rows.len()).collect();
    let whole = means(outcomes, &all);
    let draws: Vec<Means> = draws(rows, settings.seed)
        .map(|draw| means(outcomes, &draw))
        .collect();
    let best = best_single(outcomes, &whole);
    let interval = |of: &dyn Fn(&Means) -> f64| Interval::of(of(&whole), draws.iter().map(of));
    let cost = |means: &Means, place: usize| {
        at(means, place).cost / at(means, best).cost.max(f64::MIN_POSITIVE)
    };
    let mut lines: Vec<Line> = outcomes
        .iter()
        .enumerate()
        .map(|(place, (policy, _))| Line {
            name: name(policy, profile),
            quality: interval(&|means| at(means, place).quality),
            cost: interval(&|means| cost(means, place)),
        })
        .collect();
    let tuned = place_of(outcomes, &Policy::Tuned);
    let by_chance = |means: &Means| by_chance(outcomes, means, at(means, tuned).cost);
    lines.insert(
        3,
        Line {
            name: "random at equal cost".to_owned(),
            quality: interval(&|means| by_chance(means)),
            cost: interval(&|means| cost(means, tuned)),
        },
    );
    let of_tuned =
        |other: &dyn Fn(&Means) -> f64| interval(&|means| at(means, tuned).quality - other(means));
    let length = place_of(outcomes, &Policy::LengthOnly);
    let oracle = place_of(outcomes, &Policy::Oracle);
    let differences = vec![
        (
            "best single model".to_owned(),
            of_tuned(&|means| at(means, best).quality),
        ),
        ("random at equal cost".to_owned(), of_tuned(&by_chance)),
        (
            "length only".to_owned(),
            of_tuned(&|means| at(means, length).quality),
        ),
        (
            "oracle".to_owned(),
            of_tuned(&|means| at(means, oracle).quality),
        ),
    ];
    let mut sources = BTreeMap::new();
    for row in rows {
        *sources.entry(row.source.clone()).or_insert(0) += 1;
    }
    Report {
        profile: profile.name.to_string(),
        sources,
        settings,
        lines,
        differences,
    }
}

fn name(policy: &Policy, profile: &Profile) -> String {
    match policy {
        Policy::Configured => "as configured".to_owned(),
        Policy::Tuned => "tuned on the other sources".to_owned(),
        Policy::LengthOnly => "length only".to_owned(),
        Policy::Oracle => "oracle".to_owned(),
        Policy::Single(place) => {
            let model = profile.candidates.get(*place);
            format!("always {}", model.map_or("", |model| &model.id))
        }
    }
}

fn place_of(outcomes: &[(Policy, Vec<Outcome>)], wanted: &Policy) -> usize {
    let place = outcomes.iter().position(|(policy, _)| policy == wanted);
    place.unwrap_or(0)
}

fn at(means: &Means, place: usize) -> Label {
    means.get(place).copied().unwrap_or(Label {
        quality: 0.0,
        cost: 0.0,
    })
}

fn singles<'a>(
    outcomes: &'a [(Policy, Vec<Outcome>)],
    means: &'a Means,
) -> impl Iterator<Item = (usize, Label)> + Clone + 'a {
    let places = outcomes.iter().enumerate();
    places
        .filter(|(_, (policy, _))| matches!(policy, Policy::Single(_)))
        .map(|(place, _)| (place, at(means, place)))
}

fn best_single(outcomes: &[(Policy, Vec<Outcome>)], means: &Means) -> usize {
    singles(outcomes, means)
        .max_by(|(_, a), (_, b)| a.quality.total_cmp(&b.quality))
        .map_or(0, |(place, _)| place)
}

/// The most quality that tossing a coin between two models gives at this cost.
fn by_chance(outcomes: &[(Policy, Vec<Outcome>)], means: &Means, cost: f64) -> f64 {
    let all = singles(outcomes, means).map(|(_, label)| label);
    let pairs = all
        .clone()
        .flat_map(|cheap| all.clone().map(move |dear| (cheap, dear)));
    let mixed = pairs.filter(|(cheap, dear)| cheap.cost <= cost && dear.cost >= cost);
    let qualities = mixed.map(|(cheap, dear)| {
        let span = dear.cost - cheap.cost;
        let share = if span > 0.0 {
            (cost - cheap.cost) / span
        } else {
            0.0
        };
        let of_dear = cheap.quality + share * (dear.quality - cheap.quality);
        // Nobody has to spend what is left.
        of_dear.max(cheap.quality)
    });
    qualities.fold(0.0, f64::max)
}

fn means(outcomes: &[(Policy, Vec<Outcome>)], draw: &[usize]) -> Means {
    let of = |labels: &Vec<Outcome>| {
        let drawn = draw.iter().filter_map(|place| labels.get(*place).copied());
        mean(&drawn.collect::<Vec<_>>())
    };
    outcomes.iter().map(|(_, labels)| of(labels)).collect()
}

/// Rows drawn with replacement, as many of each source as it has.
fn draws(rows: &[Row], seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let mut by_source: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        by_source.entry(&row.source).or_default().push(place);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    (0..DRAWS).map(move |_| {
        let mut draw = Vec::new();
        for places in by_source.values() {
            let drawn = (0..places.len()).filter_map(|_| random.choice(places));
            draw.extend(drawn);
        }
        draw
    })
}

impl Interval {
    fn of(value: f64, draws: impl Iterator<Item = f64>) -> Self {
        let mut draws: Vec<f64> = draws.collect();
        draws.sort_by(f64::total_cmp);
        let last = draws.len().saturating_sub(1);
        // A fortieth on either side.
        let low = last / 40;
        let quantile = |place: usize| draws.get(place).copied().unwrap_or(value);
        Self {
            value,
            low: quantile(low),
            high: quantile(last - low),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>6.3} [{:>6.3}, {:>6.3}]",
            self.value, self.low, self.high
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: usize = self.sources.values().sum();
        let sources: Vec<_> = self
            .sources
            .iter()
            .map(|(name, rows)| format!("{name} ({rows})"))
            .collect();
        writeln!(
            f,
            "profile {}: {rows} prompts out of {} sources: {}",
            self.profile,
            sources.len(),
            sources.join(", ")
        )?;
        writeln!(
            f,
            "cost is of the best single model's; {DRAWS} draws with seed {}, a cost weight of {}\n",
            self.settings.seed, self.settings.cost_weight
        )?;
        writeln!(
            f,
            "{:<30} {:<26} {:<26}",
            "", "quality, 95% interval", "cost, 95% interval"
        )?;
        for line in &self.lines {
            writeln!(
                f,
                "{:<30} {:<26} {:<26}",
                line.name,
                line.quality.to_string(),
                line.cost.to_string()
            )?;
        }
        writeln!(
            f,
            "\nquality of the profile tuned on the other sources, less that of"
        )?;
        for (name, difference) in &self.differences {
            writeln!(f, "  {name:<28} {difference}")?;
        }
        Ok(())
    }
}
