//! What the series show: tables with verdicts, plots, and all samples.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Serialize;
use tollgate_plot::{Chart, Line};

use super::dimension::Dimension;
use super::subject::{Loaded, Started};
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::metric::{Bar, Verdict};
use crate::statistics::{Estimate, median, paired_ratios};

/// How much a figure may grow for each tenfold size, as a share of the smallest size's.
const PER_TENFOLD: f64 = 0.1;
/// Percent of the gateway's CPU used by others above which figures are called rough.
const ROUGH_ABOVE: f64 = 10.0;

/// The samples of one dimension.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(super) dimension: Dimension,
    pub(super) points: Vec<Point>,
    /// Why it is not complete.
    pub(super) failure: Option<String>,
}

/// The samples of one size, by round and by start.
#[derive(Debug, Default, Serialize)]
pub(super) struct Point {
    size: u64,
    cpu_us: Vec<f64>,
    loaded_mib: Vec<f64>,
    others_percent: Vec<f64>,
    first_answer_ms: Vec<f64>,
    idle_mib: Vec<f64>,
}

/// A figure that has samples.
type Figure = fn(&Point) -> &[f64];

const COST: Figure = |point| &point.cpu_us;
const START: Figure = |point| &point.first_answer_ms;
const IDLE: Figure = |point| &point.idle_mib;
const LOADED: Figure = |point| &point.loaded_mib;

impl Series {
    pub(super) fn new(dimension: Dimension) -> Self {
        Self {
            dimension,
            points: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn begin(&mut self, size: u64) {
        self.points.push(Point {
            size,
            ..Point::default()
        });
    }

    pub(super) fn add_start(&mut self, place: usize, started: &Started) {
        if let Some(point) = self.points.get_mut(place) {
            point.first_answer_ms.push(started.first_answer);
            point.idle_mib.push(started.idle);
        }
    }

    pub(super) fn add_load(&mut self, place: usize, loaded: &Loaded) {
        if let Some(point) = self.points.get_mut(place) {
            point.cpu_us.push(loaded.cpu_us);
            point.loaded_mib.push(loaded.resident);
            point.others_percent.push(loaded.others);
        }
    }

    /// A point's figure as a ratio to the smallest size's, round by round.
    fn growth(&self, point: &Point, figure: Figure) -> Option<Estimate> {
        let smallest = self.points.first()?;
        Estimate::of(&paired_ratios(figure(point), figure(smallest)))
    }

    /// Whether a figure grows no worse than the logarithm of the size: the worst verdict of all sizes.
    fn verdict(&self, figure: Figure) -> Option<Verdict> {
        let smallest = self.points.first()?.size;
        let judge = |point: &Point| {
            let growth = self.growth(point, figure)?;
            Some(Bar::AtMost(bound(point.size, smallest)).judge(&growth))
        };
        let verdicts: Option<Vec<Verdict>> = self.points.iter().map(judge).collect();
        let rank = |verdict: &Verdict| match verdict {
            Verdict::Met => 0,
            Verdict::WithinInterval => 1,
            Verdict::Missed => 2,
        };
        verdicts?.into_iter().max_by_key(rank)
    }

    fn line(&self, value: impl Fn(&Point) -> Option<f64>) -> Line {
        let position = |point: &Point| Some((point.size as f64, value(point)?));
        Line {
            name: self.dimension.name(),
            points: self.points.iter().filter_map(position).collect(),
        }
    }
}

/// The ratio that a size may have to the smallest.
fn bound(size: u64, smallest: u64) -> f64 {
    1.0 + PER_TENFOLD * (size as f64 / smallest as f64).log10()
}

/// All series of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    machine: &'a Machine,
    series: &'a [Series],
}

impl<'a> Report<'a> {
    pub(super) const fn new(machine: &'a Machine, series: &'a [Series]) -> Self {
        Self { machine, series }
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        for shortcoming in &self.machine.shortcomings {
            writeln!(text, "{shortcoming}.")?;
        }
        if let Some(share) = self.other_load().filter(|share| *share > ROUGH_ABOVE) {
            writeln!(
                text,
                "ROUGH: other processes used {share:.0}% of the gateway's CPU. Repeat on a quiet machine."
            )?;
        }
        writeln!(
            text,
            "Medians [95% interval]; × is the ratio to the smallest size, round by round. Bar: {:.0}% more for \
             each tenfold size.",
            PER_TENFOLD * 100.0
        )?;
        for series in self.series {
            write_series(text, series)?;
        }
        Ok(())
    }

    fn other_load(&self) -> Option<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let shares = points.filter_map(|point| median(&point.others_percent));
        shares.max_by(f64::total_cmp)
    }

    /// Writes the plots.
    pub(super) fn draw(&self, folder: &Path) -> Result<()> {
        let charts = [
            (
                "growth-cost.svg",
                "CPU time per request, relative to the smallest size",
                COST,
                true,
            ),
            (
                "growth-start.svg",
                "Milliseconds from the start to the first answer",
                START,
                false,
            ),
            (
                "growth-memory.svg",
                "MiB of resident memory under load",
                LOADED,
                false,
            ),
        ];
        for (name, title, figure, is_relative) in charts {
            let line = |series: &Series| {
                series.line(|point| match is_relative {
                    true => Some(series.growth(point, figure)?.median),
                    false => median(figure(point)),
                })
            };
            let chart = Chart {
                title,
                across: "keys, models, deployments, records or streams",
                lines: self.series.iter().map(line).collect(),
                marks: self.powers_of_ten(),
                is_logarithmic: true,
            };
            let path = folder.join(name);
            chart
                .write(&path)
                .map_err(|source| Failure::io(format!("write {}", path.display()), source))?;
        }
        Ok(())
    }

    /// Those within the sizes.
    fn powers_of_ten(&self) -> Vec<f64> {
        let sizes = || self.series.iter().flat_map(|series| &series.points);
        let most = sizes().map(|point| point.size).max().unwrap_or(1) as f64;
        let least = sizes().map(|point| point.size).min().unwrap_or(1) as f64;
        let powers = (0..=12).map(|power| 10_f64.powi(power));
        powers
            .filter(|power| (least..=most).contains(power))
            .collect()
    }

    /// Writes everything, samples included.
    pub(super) fn write_json(&self, path: &Path) -> Result<()> {
        let write = |source| Failure::io(format!("write {}", path.display()), source);
        let text = serde_json::to_string_pretty(self).map_err(|fault| write(fault.into()))?;
        fs::write(path, text + "\n").map_err(write)
    }
}

fn write_series(text: &mut String, series: &Series) -> std::fmt::Result {
    writeln!(
        text,
        "\n{:>11}  {:>13}  {:<22}  {:>9}  {:<22}  {:>8}  {:>10}  {:>8}",
        series.dimension.name(),
        "requests/CPU-s",
        "× CPU per request",
        "start, ms",
        "× start",
        "idle MiB",
        "loaded MiB",
        "KiB each"
    )?;
    let ratio = |point, figure| {
        let Estimate { median, low, high } = series.growth(point, figure)?;
        Some(format!("{median:.2} [{low:.2}, {high:.2}]"))
    };
    for point in &series.points {
        let Some(cost) = median(&point.cpu_us) else {
            continue;
        };
        let value = |figure: Figure| median(figure(point)).unwrap_or(f64::NAN);
        writeln!(
            text,
            "{:>11}  {:>13.0}  {:<22}  {:>9.1}  {:<22}  {:>8.1}  {:>10.1}  {:>8}",
            point.size,
            1e6 / cost,
            ratio(point, COST).unwrap_or_default(),
            value(START),
            ratio(point, START).unwrap_or_default(),
            value(IDLE),
            value(LOADED),
            each(series, point)
                .map(|kib| format!("{kib:.1}"))
                .unwrap_or_default()
        )?;
    }
    let mut judged = vec![("CPU per request", COST), ("start", START)];
    if series.dimension.is_on_disk() {
        judged.extend([("idle memory", IDLE), ("memory under load", LOADED)]);
    }
    for (name, figure) in judged {
        let verdict = match series.verdict(figure) {
            Some(Verdict::Met) => "met",
            Some(Verdict::WithinInterval) => "met by the interval's better end",
            Some(Verdict::Missed) => "MISSED",
            None => "not measured",
        };
        writeln!(text, "{:>11}  {name}: {verdict}", "")?;
    }
    if let Some(reason) = &series.failure {
        writeln!(text, "FAILED {}: {reason}", series.dimension.name())?;
    }
    Ok(())
}

/// KiB of memory under load that each item adds to the smallest size's.
fn each(series: &Series, point: &Point) -> Option<f64> {
    let smallest = series.points.first()?;
    let more = point.size.checked_sub(smallest.size).filter(|it| *it > 0)?;
    let memory = median(&point.loaded_mib)? - median(&smallest.loaded_mib)?;
    Some(memory * 1024.0 / more as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes with a cost each, in three rounds that drift.
    fn series(dimension: Dimension, costs: &[(u64, f64)]) -> Series {
        let mut series = Series::new(dimension);
        for (place, (size, cost)) in costs.iter().enumerate() {
            series.begin(*size);
            for drift in [1.0, 1.3, 0.9] {
                let figure = cost * drift;
                series.add_load(
                    place,
                    &Loaded {
                        cpu_us: figure,
                        resident: 30.0 * cost,
                        others: 0.0,
                    },
                );
                series.add_start(
                    place,
                    &Started {
                        first_answer: 20.0,
                        idle: 30.0,
                    },
                );
            }
        }
        series
    }

    fn verdict(costs: &[(u64, f64)]) -> Option<Verdict> {
        series(Dimension::Keys, costs).verdict(COST)
    }

    #[test]
    fn growth_as_the_logarithm_is_met_and_faster_growth_is_missed() {
        let logarithmic = [(10, 1.0), (1_000, 1.19), (100_000, 1.39)];
        assert_eq!(verdict(&logarithmic), Some(Verdict::Met));
        let linear = [(10, 1.0), (1_000, 1.01), (100_000, 1.9)];
        assert_eq!(verdict(&linear), Some(Verdict::Missed));
        let in_the_middle = [(10, 1.0), (1_000, 1.5), (100_000, 1.0)];
        assert_eq!(verdict(&in_the_middle), Some(Verdict::Missed));
    }

    #[test]
    fn a_series_without_samples_has_no_verdict() {
        let mut series = series(Dimension::Keys, &[(10, 1.0)]);
        series.begin(1_000);
        assert_eq!(series.verdict(COST), None);
        let report = Report::new(&Machine::unpinned(""), &[series]).to_text();
        assert!(report.contains("CPU per request: not measured"), "{report}");
    }

    #[test]
    fn the_table_has_a_line_per_size_and_the_verdicts() {
        let keys = series(Dimension::Keys, &[(10, 1.0), (1_000, 2.0)]);
        let models = series(Dimension::Models, &[(10, 1.0), (1_000, 1.1)]);
        let machine = Machine::unpinned("NOT PINNED");
        let text = Report::new(&machine, &[keys, models]).to_text();
        assert!(text.contains("2.00 [2.00, 2.00]"), "{text}");
        assert!(text.contains("  CPU per request: MISSED\n"), "{text}");
        assert!(text.contains("  start: met\n"), "{text}");
        assert!(text.contains("  memory under load: MISSED\n"), "{text}");
        // Models are in memory.
        assert_eq!(text.matches("memory under load:").count(), 1, "{text}");
        // 30 MiB for 990 more keys.
        assert!(text.contains("  31.0\n"), "{text}");
    }

    #[test]
    fn the_plots_have_a_line_per_series() {
        let folder = tempfile::tempdir().unwrap();
        let keys = series(Dimension::Keys, &[(10, 1.0), (1_000, 2.0)]);
        let models = series(Dimension::Models, &[(10, 1.0), (100, 1.1)]);
        let machine = Machine::unpinned("NOT PINNED");
        let all = [keys, models];
        Report::new(&machine, &all).draw(folder.path()).unwrap();
        for name in ["growth-cost.svg", "growth-start.svg", "growth-memory.svg"] {
            let svg = fs::read_to_string(folder.path().join(name)).unwrap();
            assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
            for mark in [">10<", ">100<", ">1000<"] {
                assert!(svg.contains(mark), "{mark}: {svg}");
            }
        }
    }
}
