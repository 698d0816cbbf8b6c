//! What the ledger counts of itself, in the text format of Prometheus (version 0.0.4).
//!
//! The ledger keeps its own counters and knows no registry, so they are written here as they
//! are read, after those of `events`.

use std::fmt::{Display, Write};
use tollgate_ledger::LedgerStats;

/// The page's part about the ledger.
pub(super) fn exposition(stats: &LedgerStats) -> String {
    let mut page = Page(String::with_capacity(4 * 1024));
    page.gauges(
        "fenced",
        "1: another process has closed this one, which admits nothing more and ends.",
        &[("", stats.fenced)],
    );
    page.gauges("accounts", "Accounts in memory.", &[("", stats.accounts)]);
    page.gauges(
        "tokens",
        "Tokens of valid grants of the accounts in memory.",
        &[
            ("state=\"free\"", stats.free_tokens),
            ("state=\"reserved\"", stats.reserved_tokens),
        ],
    );
    page.gauges(
        "open_requests",
        "Requests reserved, or settled and not yet committed.",
        &[("", stats.open_requests)],
    );
    let counter = |page: &mut Page, name, help, value| page.counters(name, help, &[("", value)]);
    counter(
        &mut page,
        "reservations",
        "Reservations made.",
        stats.reservations,
    );
    page.counters(
        "settlements",
        "Settlements, by where the count of tokens came from.",
        &[
            (
                "source=\"reported\"",
                stats.settlements.saturating_sub(stats.estimated),
            ),
            ("source=\"estimated\"", stats.estimated),
        ],
    );
    for (name, help, value) in [
        (
            "clamped",
            "Settlements whose report was not believed.",
            stats.clamped,
        ),
        (
            "charged_tokens",
            "Tokens charged and paid.",
            stats.charged_tokens,
        ),
        (
            "overdraft_tokens",
            "Tokens charged that nothing was left for.",
            stats.overdraft_tokens,
        ),
        (
            "shed",
            "Requests turned away because too many were open.",
            stats.shed,
        ),
        (
            "failed_writes",
            "Settlements that could not be written ahead.",
            stats.failed_writes,
        ),
        (
            "failed_syncs",
            "Times that settlements could not be brought to the disk, and were tried again.",
            stats.failed_syncs,
        ),
        (
            "failed_commits",
            "Commits that failed and were tried again.",
            stats.failed_commits,
        ),
    ] {
        counter(&mut page, name, help, value);
    }
    page.gauges(
        "quarantined_records",
        "What could not be entered and waits for a person, of all processes; a thousand at most.",
        &[
            ("cause=\"torn\"", stats.quarantined_torn),
            ("cause=\"unreadable\"", stats.quarantined_unreadable),
            ("cause=\"refused\"", stats.quarantined_refused),
        ],
    );
    page.commit_times(stats);
    page.0
}

struct Page(String);

impl Page {
    fn gauges(&mut self, name: &str, help: &str, samples: &[(&str, u64)]) {
        self.family(name, "gauge", help);
        for (labels, value) in samples {
            self.sample(name, labels, value);
        }
    }

    fn counters(&mut self, name: &str, help: &str, samples: &[(&str, u64)]) {
        let name = format!("{name}_total");
        self.family(&name, "counter", help);
        for (labels, value) in samples {
            self.sample(&name, labels, value);
        }
    }

    /// A histogram: each bucket holds those before it too.
    fn commit_times(&mut self, stats: &LedgerStats) {
        const NAME: &str = "commit_seconds";
        const BUCKET: &str = "commit_seconds_bucket";
        self.family(NAME, "histogram", "How long commits to the database take.");
        let mut sum = 0_u64;
        for (bound, count) in LedgerStats::COMMIT_BOUNDS.iter().zip(stats.commit_classes) {
            sum = sum.saturating_add(count);
            self.sample(BUCKET, &format!("le=\"{}\"", seconds(*bound)), &sum);
        }
        self.sample(BUCKET, "le=\"+Inf\"", &stats.commits);
        self.sample("commit_seconds_sum", "", &seconds(stats.commit_micros));
        self.sample("commit_seconds_count", "", &stats.commits);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = write!(
            self.0,
            "# HELP tollgate_ledger_{name} {help}\n# TYPE tollgate_ledger_{name} {kind}\n"
        );
    }

    fn sample(&mut self, name: &str, labels: &str, value: &impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "tollgate_ledger_{name} {value}"),
            labels => writeln!(self.0, "tollgate_ledger_{name}{{{labels}}} {value}"),
        };
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "far below 2^53 microseconds, which are centuries"
)]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let mut stats = LedgerStats {
            settlements: 10,
            estimated: 3,
            quarantined_torn: 2,
            commits: 6,
            commit_micros: 1_500_000,
            ..LedgerStats::default()
        };
        stats.commit_classes[0] = 2;
        stats.commit_classes[2] = 3;
        stats.commit_classes[LedgerStats::COMMIT_BOUNDS.len()] = 1;
        exposition(&stats)
    }

    #[test]
    fn a_histogram_adds_up() {
        let page = page();
        for line in [
            "# TYPE tollgate_ledger_commit_seconds histogram",
            "tollgate_ledger_commit_seconds_bucket{le=\"0.00025\"} 2",
            "tollgate_ledger_commit_seconds_bucket{le=\"0.0005\"} 2",
            "tollgate_ledger_commit_seconds_bucket{le=\"0.001\"} 5",
            "tollgate_ledger_commit_seconds_bucket{le=\"5\"} 5",
            "tollgate_ledger_commit_seconds_bucket{le=\"+Inf\"} 6",
            "tollgate_ledger_commit_seconds_sum 1.5",
            "tollgate_ledger_commit_seconds_count 6",
            "tollgate_ledger_settlements_total{source=\"reported\"} 7",
            "tollgate_ledger_settlements_total{source=\"estimated\"} 3",
            "tollgate_ledger_quarantined_records{cause=\"torn\"} 2",
            "tollgate_ledger_quarantined_records{cause=\"refused\"} 0",
        ] {
            assert!(page.lines().any(|it| it == line), "{line}:\n{page}");
        }
    }

    #[test]
    fn every_sample_follows_the_type_of_its_family() {
        let page = page();
        let mut family = String::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, _) = rest.split_once(' ').unwrap();
                family = name.to_owned();
            } else if !line.starts_with('#') {
                assert!(line.starts_with(&family), "{line} after {family}");
            }
        }
    }

    #[test]
    fn the_page_for_operators_has_every_family() {
        let told = include_str!("../../docs/operations.md");
        let page = page();
        let families = page.lines().filter_map(|it| it.strip_prefix("# TYPE "));
        let names: Vec<_> = families.map(|it| it.split(' ').next().unwrap()).collect();
        for name in &names {
            assert!(told.contains(&format!("| `{name}")), "{name}");
        }
        let rows = told
            .lines()
            .filter(|it| it.starts_with("| `tollgate_ledger_"));
        assert_eq!(rows.count(), names.len());
    }
}
