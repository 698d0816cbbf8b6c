//! The counters of the ledger, as metrics. The ledger keeps them itself and knows no registry.

use prometheus::proto::MetricFamily;
use tollgate_ledger::{LedgerStats, MemoryStats, SharedLimitsStats};
use tollgate_telemetry::events::families::{Labels, counters, gauges, histogram};

/// The page's part about the ledger.
pub(super) fn families(stats: &LedgerStats) -> Vec<MetricFamily> {
    let mut families = vec![
        gauge(
            "fenced",
            "1 if this process is fenced, and ends.",
            &[(&[], stats.fenced)],
        ),
        gauge("accounts", "Accounts in memory.", &[(&[], stats.accounts)]),
        gauge(
            "tokens",
            "Tokens of valid grants of the accounts in memory: free, or reserved by requests.",
            &[
                (&[("state", "free")], stats.free_tokens),
                (&[("state", "reserved")], stats.reserved_tokens),
            ],
        ),
        gauges(
            "tollgate_ledger_money",
            "Money of valid grants of the accounts in memory: free, or reserved by requests; in the currency of the prices.",
            [
                (&[("state", "free")] as Labels<'_>, units(stats.free_money)),
                (&[("state", "reserved")], units(stats.reserved_money)),
            ],
        ),
        gauge(
            "open_requests",
            "Requests reserved, or settled and not yet committed: the queue.",
            &[(&[], stats.open_requests)],
        ),
        gauge(
            "quarantined_records",
            "Records that could not be entered and wait for the operator, of all processes; a thousand at most.",
            &[
                (&[("cause", "torn")], stats.quarantined_torn),
                (&[("cause", "unreadable")], stats.quarantined_unreadable),
                (&[("cause", "refused")], stats.quarantined_refused),
            ],
        ),
        counter(
            "settlements",
            "Settlements, by the source of the token count: reported or estimated.",
            &[
                (
                    &[("source", "reported")],
                    stats.settlements.saturating_sub(stats.estimated),
                ),
                (&[("source", "estimated")], stats.estimated),
            ],
        ),
        money(
            "charged_money",
            "Costs charged and paid, in the currency of the prices.",
            stats.charged_money,
        ),
        money(
            "overdraft_money",
            "Costs charged beyond the balance, in the currency of the prices.",
            stats.overdraft_money,
        ),
        commit_times(stats),
    ];
    families.extend(counts(stats).map(|(name, help, value)| counter(name, help, &[(&[], value)])));
    families
}

/// The page's part about remembered answers.
pub(super) fn remembered(stats: &MemoryStats) -> [MetricFamily; 2] {
    let counts: [(Labels<'_>, f64); 2] = [
        (&[("result", "written")], float(stats.remembered)),
        (&[("result", "lost")], float(stats.lost)),
    ];
    [
        counters(
            "tollgate_remembered_answers_total",
            "Translated answers that were to be remembered: written to the database, or lost because too many waited or the database failed.",
            counts,
        ),
        gauges(
            "tollgate_remembered_answers_bytes",
            "Bytes of all remembered answers in the database.",
            [(&[] as Labels<'_>, float(stats.bytes))],
        ),
    ]
}

/// The page's part about limits that gateways share.
pub(super) fn shared_limits(stats: &SharedLimitsStats) -> Vec<MetricFamily> {
    let states: [(Labels<'_>, _); 2] = [
        (&[("through", "server")], stats.by_server),
        (&[("through", "database")], stats.by_database),
    ];
    let states = states
        .into_iter()
        .filter_map(|(labels, state)| Some((labels, f64::from(u8::from(state?)))));
    let mut families = vec![gauges(
        "tollgate_limits_shared",
        "1 if the shared server counts limits, or the database answers, in which gateways lease shares without it; else 0.",
        states,
    )];
    if stats.by_server.is_some() {
        families.push(counters(
            "tollgate_limits_fallbacks_total",
            "How often the shared server was lost.",
            [(&[] as Labels<'_>, float(stats.fallbacks))],
        ));
    }
    families
}

/// The counters without labels.
fn counts(stats: &LedgerStats) -> [(&'static str, &'static str, u64); 11] {
    [
        ("reservations", "Reservations made.", stats.reservations),
        (
            "lease_waits",
            "Requests that waited until more of their key's balance was leased.",
            stats.lease_waits,
        ),
        (
            "late_settlements",
            "Settlements of processes that had lost their leases, paid from free tokens.",
            stats.late_settlements,
        ),
        (
            "recovered_processes",
            "Other processes of the ledger that had crashed, or were taken for crashed, and were closed by this one.",
            stats.recovered_processes,
        ),
        (
            "clamped",
            "Settlements with an implausible report, which was corrected.",
            stats.clamped,
        ),
        (
            "charged_tokens",
            "Tokens charged and paid.",
            stats.charged_tokens,
        ),
        (
            "overdraft_tokens",
            "Tokens charged beyond the balance.",
            stats.overdraft_tokens,
        ),
        (
            "shed",
            "Requests refused because too many were open.",
            stats.shed,
        ),
        (
            "failed_writes",
            "Settlements that could not be recorded in the settlement file.",
            stats.failed_writes,
        ),
        (
            "failed_syncs",
            "Failed syncs of the settlement file, retried 40 times a second; until one succeeds, a power loss loses settlements.",
            stats.failed_syncs,
        ),
        (
            "failed_commits",
            "Commits that failed and were retried; the log has the reason.",
            stats.failed_commits,
        ),
    ]
}

fn commit_times(stats: &LedgerStats) -> MetricFamily {
    let bounds = LedgerStats::COMMIT_BOUNDS.iter().map(|it| seconds(*it));
    histogram(
        "tollgate_ledger_commit_seconds",
        "How long commits to the database take.",
        bounds.zip(stats.commit_classes),
        stats.commits,
        seconds(stats.commit_micros),
    )
}

fn gauge(name: &str, help: &str, samples: &[(Labels<'_>, u64)]) -> MetricFamily {
    let samples = samples
        .iter()
        .map(|(labels, value)| (*labels, float(*value)));
    gauges(&format!("tollgate_ledger_{name}"), help, samples)
}

fn counter(name: &str, help: &str, samples: &[(Labels<'_>, u64)]) -> MetricFamily {
    let samples = samples
        .iter()
        .map(|(labels, value)| (*labels, float(*value)));
    counters(&format!("tollgate_ledger_{name}_total"), help, samples)
}

fn money(name: &str, help: &str, nanos: u64) -> MetricFamily {
    let samples = [(&[] as Labels<'_>, units(nanos))];
    counters(&format!("tollgate_ledger_{name}_total"), help, samples)
}

/// Nano-units in units of the currency.
fn units(nanos: u64) -> f64 {
    float(nanos) / 1e9
}

fn seconds(micros: u64) -> f64 {
    float(micros) / 1e6
}

#[expect(
    clippy::cast_precision_loss,
    reason = "samples are floats; tokens are far below 2^53, and so are microseconds, which are centuries"
)]
const fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::TextEncoder;

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
        TextEncoder::new()
            .encode_to_string(&families(&stats))
            .unwrap()
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
}
