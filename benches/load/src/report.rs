//! The run as people and programs read it: a table on standard output, JSON in a file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::contender::YARDSTICK;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::metric::{Bar, Comparison, Metric, Verdict, metrics};
use crate::record::{FailedPart, Record};
use crate::statistics::Estimate;

/// Percent of the proxy's CPU used by others above which figures are called rough.
const ROUGH_ABOVE: f64 = 10.0;

/// Everything that the reports show.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    machine: &'a Machine,
    finished_unix_seconds: u64,
    contenders: Vec<&'a str>,
    yardsticks: Vec<&'a str>,
    results: Vec<Row<'a>>,
    record: &'a Record,
}

/// One contender under one metric.
#[derive(Debug, Serialize)]
struct Row<'a> {
    metric: &'a Metric,
    contender: &'a str,
    own: Estimate,
    compared: Vec<Compared<'a>>,
    verdict: Option<Verdict>,
}

/// A row in terms of a yardstick.
#[derive(Debug, Serialize)]
struct Compared<'a> {
    yardstick: &'a str,
    estimate: Estimate,
}

impl<'a> Report<'a> {
    /// Sums a record up. Every contender is compared to bare Pingora and to the others that
    /// are named: another build of the gateway, the gateway without its ledger.
    pub(crate) fn new(
        machine: &'a Machine,
        record: &'a Record,
        contenders: Vec<&'a str>,
        others: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let yardsticks: Vec<&str> = std::iter::once(YARDSTICK).chain(others).collect();
        let mut results = Vec::new();
        for metric in metrics() {
            for contender in contenders.iter().chain([&"direct"]) {
                results.extend(Row::new(metric, contender, &yardsticks, record));
            }
        }
        let finished_unix_seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        Self {
            machine,
            finished_unix_seconds,
            contenders,
            yardsticks,
            results,
            record,
        }
    }

    /// Writes the whole report, samples included.
    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        let write = |source| Failure::io(format!("write {}", path.display()), source);
        let text = serde_json::to_string_pretty(self).map_err(|fault| write(fault.into()))?;
        fs::write(path, text + "\n").map_err(write)
    }

    /// The table.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        self.write_machine(text)?;
        for metric in metrics() {
            let rows: Vec<&Row<'_>> = self
                .results
                .iter()
                .filter(|row| row.metric.id == metric.id)
                .collect();
            if !rows.is_empty() {
                self.write_metric(text, metric, &rows)?;
            }
        }
        for (contender, counts) in self.record.syscalls() {
            write!(
                text,
                "\n{contender}: {:.1} system calls per request:",
                counts.total
            )?;
            for (name, count) in counts.by_name.iter().filter(|(_, count)| **count >= 0.05) {
                write!(text, " {name} {count:.1}")?;
            }
            writeln!(text)?;
        }
        for failed in self.record.failures() {
            let FailedPart {
                contender,
                part,
                reason,
                times,
            } = failed;
            writeln!(text, "\nFAILED {contender}, {part}, {times} ×: {reason}")?;
        }
        Ok(())
    }

    fn write_machine(&self, text: &mut String) -> std::fmt::Result {
        if let (Some(proxy), Some(client)) = (self.machine.proxy_cpu, self.machine.client_cpu) {
            writeln!(
                text,
                "Proxy alone on CPU {proxy}; provider and load client on CPU {client}."
            )?;
        }
        for shortcoming in &self.machine.shortcomings {
            writeln!(text, "{shortcoming}.")?;
        }
        if let Some(share) = self.other_load().filter(|share| *share > ROUGH_ABOVE) {
            writeln!(
                text,
                "ROUGH: other processes used {share:.0}% of the proxy's CPU. Repeat on a quiet machine."
            )?;
        }
        writeln!(
            text,
            "Median [95% interval of the median], compared round by round."
        )
    }

    /// The largest share of the proxy's CPU that processes from outside had under any load.
    fn other_load(&self) -> Option<f64> {
        self.results
            .iter()
            .filter(|row| row.metric.id.ends_with(".others"))
            .map(|row| row.own.median)
            .max_by(f64::total_cmp)
    }

    fn write_metric(
        &self,
        text: &mut String,
        metric: &Metric,
        rows: &[&Row<'_>],
    ) -> std::fmt::Result {
        writeln!(text, "\n{}{}", metric.title, bar_text(metric.bar))?;
        for row in rows {
            let own = format!("{} {}", number(row.own.median), metric.unit);
            write!(text, "  {:<16}{own:>16}", row.contender)?;
            for compared in &row.compared {
                let shown = compared.to_text(metric.comparison);
                match self.yardsticks.as_slice() {
                    [_] => write!(text, "   {shown:<30}")?,
                    _ => write!(text, "   {}: {shown:<30}", compared.yardstick)?,
                }
            }
            if let Some(verdict) = row.verdict {
                write!(text, " {}", verdict_text(verdict))?;
            }
            while text.ends_with(' ') {
                text.pop();
            }
            writeln!(text)?;
        }
        Ok(())
    }
}

impl<'a> Row<'a> {
    fn new(
        metric: &'a Metric,
        contender: &'a str,
        yardsticks: &[&'a str],
        record: &Record,
    ) -> Option<Self> {
        let own = record.estimate(metric, contender)?;
        let compared: Vec<Compared<'_>> = yardsticks
            .iter()
            .filter(|yardstick| **yardstick != contender)
            .filter_map(|yardstick| {
                let estimate = record.compared(metric, contender, yardstick)?;
                Some(Compared {
                    yardstick,
                    estimate,
                })
            })
            .collect();
        let against_bare = compared
            .iter()
            .find(|compared| compared.yardstick == YARDSTICK);
        let verdict = metric
            .bar
            .zip(against_bare)
            .map(|(bar, compared)| bar.judge(&compared.estimate));
        Some(Self {
            metric,
            contender,
            own,
            compared,
            verdict,
        })
    }
}

impl Compared<'_> {
    fn to_text(&self, comparison: Comparison) -> String {
        let Estimate { median, low, high } = self.estimate;
        match comparison {
            Comparison::Ratio => format!("{median:.3} × [{low:.3}, {high:.3}]"),
            _ => format!("{} [{}, {}]", signed(median), signed(low), signed(high)),
        }
    }
}

fn bar_text(bar: Option<Bar>) -> String {
    match bar {
        Some(Bar::AtLeast(bound)) => format!("  (bar: at least {bound} × {YARDSTICK})"),
        Some(Bar::AtMost(bound)) => format!("  (bar: at most {bound} over {YARDSTICK})"),
        None => String::new(),
    }
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::WithinInterval => "met by the interval's better end",
        Verdict::Missed => "MISSED",
    }
}

/// Three significant digits or all whole ones.
fn number(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { 2 };
    format!("{value:.digits$}")
}

fn signed(value: f64) -> String {
    let plus = if value >= 0.0 { "+" } else { "" };
    format!("{plus}{}", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut record = Record::default();
        for round in 1..=10 {
            record.begin_round("1k");
            record.begin_round("latency");
            let drift = f64::from(round) * 100.0;
            record.add("1k.per_cpu_second", YARDSTICK, 20_000.0 + drift);
            record.add("1k.per_cpu_second", "tollgate", (20_000.0 + drift) * 0.9);
            record.add("1k.per_cpu_second", "slow", (20_000.0 + drift) * 0.5);
            record.add("latency.added_p50", YARDSTICK, 140.0 + drift);
            record.add("latency.added_p50", "tollgate", 165.0 + drift);
        }
        record
    }

    fn machine() -> Machine {
        Machine::unpinned("NOT PINNED: taskset does not work here")
    }

    #[test]
    fn the_table_shows_ratio_interval_bar_and_verdict() {
        let (machine, record) = (machine(), record());
        let report = Report::new(&machine, &record, vec![YARDSTICK, "tollgate", "slow"], None);
        let text = report.to_text();
        assert!(text.contains("bar: at least 0.85 × bare Pingora"), "{text}");
        assert!(text.contains("0.900 × [0.900, 0.900]"), "{text}");
        assert!(text.contains("+25.00 [+25.00, +25.00]"), "{text}");
        let slow = text.lines().find(|line| line.contains("slow")).unwrap();
        assert!(slow.ends_with("MISSED"), "{slow}");
        assert!(text.contains("NOT PINNED"), "{text}");
    }

    #[test]
    fn two_builds_are_compared_with_each_other_too() {
        let (machine, record) = (machine(), record());
        let report = Report::new(
            &machine,
            &record,
            vec![YARDSTICK, "tollgate", "slow"],
            Some("slow"),
        );
        assert!(
            report.to_text().contains("slow: 1.800 × [1.800, 1.800]"),
            "{}",
            report.to_text()
        );
    }

    #[test]
    fn a_busy_machine_is_reported_and_a_quiet_one_is_not() {
        for (share, reported) in [(4.0, false), (35.0, true)] {
            let (machine, mut record) = (machine(), record());
            record.add("1k.others", YARDSTICK, share);
            let text = Report::new(&machine, &record, vec![YARDSTICK], None).to_text();
            assert_eq!(
                text.contains("ROUGH: other processes used 35%"),
                reported,
                "{text}"
            );
        }
    }

    #[test]
    fn json_holds_the_samples_of_every_round() {
        let (machine, record) = (machine(), record());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        Report::new(&machine, &record, vec![YARDSTICK, "tollgate"], None)
            .write_json(&path)
            .unwrap();
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let samples = &json["record"]["samples"]["1k.per_cpu_second"]["tollgate"];
        assert_eq!(samples.as_object().unwrap().len(), 10);
        assert_eq!(json["results"][1]["verdict"], "met");
    }
}
