//! The output of `tollgate status`, and its warnings.

use super::metrics::Metrics;
use crate::Failure;
use crate::operator::Operator;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a gateway is.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    /// The operator port.
    at: String,
    ready: bool,
    /// The gateway's answer to `/readyz`.
    readiness: String,
    version: Option<String>,
    uptime_seconds: Option<u64>,
    requests_in_flight: u64,
    streams_open: u64,
    connections: u64,
    ledger: LedgerStatus,
    /// Null without the admin token.
    configuration: Option<Configuration>,
    /// Null without the admin token.
    providers: Option<Vec<ProviderStatus>>,
    warnings: Vec<String>,
}

/// How the ledger is, since the gateway started.
#[derive(Debug, Serialize)]
struct LedgerStatus {
    fenced: bool,
    accounts: u64,
    open_requests: u64,
    quarantined_records: u64,
    failed_commits: u64,
    failed_writes: u64,
    failed_syncs: u64,
}

/// The configuration that is served.
#[derive(Debug, Deserialize, Serialize)]
struct Configuration {
    number: u64,
    hash: String,
    since: String,
    cause: String,
    needs_restart: Vec<String>,
    last_failure: Option<ReloadFailure>,
}

#[derive(Debug, Deserialize, Serialize)]
struct ReloadFailure {
    at: String,
    message: String,
}

/// A provider, with all of its breakers that are not closed.
#[derive(Debug, Serialize)]
struct ProviderStatus {
    name: String,
    addresses: Vec<String>,
    in_flight: u64,
    breaker: Breaker,
    open: Vec<Open>,
    /// Warnings of credentials without a token.
    #[serde(skip)]
    without_token: Vec<String>,
}

/// A breaker below that of the provider.
#[derive(Debug, Serialize)]
struct Open {
    deployment: Option<String>,
    credential: Option<String>,
    breaker: Breaker,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Breaker {
    state: String,
    since: Option<String>,
    cooldown_left_ms: Option<u64>,
    last_failure: Option<LastFailure>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct LastFailure {
    class: String,
    at: String,
}

/// The health that the admin API reports.
#[derive(Deserialize)]
struct Health {
    providers: Vec<Provider>,
    deployments: Vec<Deployment>,
}

#[derive(Deserialize)]
struct Provider {
    name: String,
    addresses: Vec<String>,
    breaker: Breaker,
    credentials: Vec<Credential>,
}

#[derive(Deserialize)]
struct Deployment {
    name: String,
    provider: String,
    breaker: Breaker,
    in_flight: u64,
    credentials: Vec<Credential>,
}

#[derive(Deserialize)]
struct Credential {
    /// Its name; the admin API calls it so at a provider and `credential` at a deployment.
    #[serde(alias = "credential")]
    name: Option<String>,
    breaker: Breaker,
    /// Only of a provider.
    token: Option<Token>,
}

#[derive(Deserialize)]
struct Token {
    valid_for_ms: Option<u64>,
    failure: Option<String>,
}

impl Status {
    /// Asks a gateway.
    ///
    /// # Errors
    ///
    /// The gateway cannot be reached, or refuses the token.
    pub(crate) async fn of(operator: &Operator) -> Result<Self, Failure> {
        let (ready, readiness) = operator.open_page("/readyz").await?;
        // Before the token is sent.
        let page = operator.metrics().await?;
        let configuration: Option<Configuration> = operator.api("/api/v1/configuration").await?;
        let health: Option<Health> = operator.api("/api/v1/health").await?;
        let metrics = Metrics(&page);
        let started = metrics.sum("process_start_time_seconds");
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let uptime = started
            .zip(now.ok())
            .map(|(started, now)| (now.as_secs_f64() - started).max(0.0));
        let mut status = Self {
            at: operator.authority.clone(),
            ready: ready.is_success(),
            readiness: readiness.trim().to_owned(),
            version: metrics
                .samples("tollgate_build_info")
                .find_map(|sample| sample.label("version"))
                .map(str::to_owned),
            uptime_seconds: uptime.map(whole),
            requests_in_flight: metrics.count("tollgate_requests_in_flight"),
            streams_open: metrics.count("tollgate_streams_open"),
            connections: metrics.count("tollgate_connections"),
            ledger: LedgerStatus {
                fenced: metrics.count("tollgate_ledger_fenced") > 0,
                accounts: metrics.count("tollgate_ledger_accounts"),
                open_requests: metrics.count("tollgate_ledger_open_requests"),
                quarantined_records: metrics.count("tollgate_ledger_quarantined_records"),
                failed_commits: metrics.count("tollgate_ledger_failed_commits_total"),
                failed_writes: metrics.count("tollgate_ledger_failed_writes_total"),
                failed_syncs: metrics.count("tollgate_ledger_failed_syncs_total"),
            },
            configuration,
            providers: health.map(providers),
            warnings: Vec::new(),
        };
        status.warnings = status.find_warnings(&metrics);
        Ok(status)
    }

    /// Why the gateway is not ready, if it is not.
    pub(super) fn not_ready(&self) -> Option<&str> {
        (!self.ready).then_some(&self.readiness)
    }

    fn find_warnings(&self, metrics: &Metrics<'_>) -> Vec<String> {
        const OURS: &str = env!("CARGO_PKG_VERSION");
        let mut warnings = Vec::new();
        if let Some(version) = self.version.as_deref().filter(|it| *it != OURS) {
            warnings.push(format!(
                "the gateway has version {version}, this command {OURS}"
            ));
        }
        let ledger = &self.ledger;
        let counts = [
            (
                ledger.quarantined_records,
                "records are in quarantine (tollgate ledger verify)",
            ),
            (
                ledger.failed_commits,
                "commits to the ledger failed and were retried; see the log",
            ),
            (
                ledger.failed_writes,
                "settlements could not be recorded; see the log and the disk",
            ),
            (
                ledger.failed_syncs,
                "syncs of the settlement file failed; see the log and the disk",
            ),
            (
                metrics.count("tollgate_access_lines_lost_total"),
                "lines of the access log were lost because its reader is too slow",
            ),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        warnings.extend(counts.map(|(count, what)| format!("{count} {what}")));
        let (open, most) = (
            metrics.count("process_open_fds"),
            metrics.count("process_max_fds"),
        );
        if most > 0 && open > most.div_euclid(5).saturating_mul(4) {
            warnings.push(format!("{open} of {most} files are open: raise the limit"));
        }
        if let Some(configuration) = &self.configuration {
            warnings.extend(configuration.warnings());
        } else {
            warnings.push(
                "providers and configuration are not shown: the admin token is expected in \
                 TOLLGATE_ADMIN_TOKEN"
                    .to_owned(),
            );
        }
        for provider in self.providers.iter().flatten() {
            if provider.addresses.is_empty() {
                let name = &provider.name;
                warnings.push(format!("the host of provider {name} cannot be resolved"));
            }
            warnings.extend(provider.without_token.iter().cloned());
        }
        warnings
    }
}

impl Configuration {
    fn warnings(&self) -> impl Iterator<Item = String> {
        let restart = (!self.needs_restart.is_empty()).then(|| {
            let settings = self.needs_restart.join(", ");
            format!("these settings need a restart or an upgrade: {settings}")
        });
        let failed = self.last_failure.as_ref().map(|failure| {
            let first = failure.message.lines().next().unwrap_or_default();
            format!("the last reload failed at {}: {first}", failure.at)
        });
        restart.into_iter().chain(failed)
    }
}

fn providers(health: Health) -> Vec<ProviderStatus> {
    let Health {
        providers,
        deployments,
    } = health;
    let view = |provider: Provider| {
        let mut open = Vec::new();
        let mut note = |deployment: Option<&str>, credential: Option<&str>, breaker: &Breaker| {
            if breaker.state != "closed" {
                open.push(Open {
                    deployment: deployment.map(str::to_owned),
                    credential: credential.map(str::to_owned),
                    breaker: breaker.clone(),
                });
            }
        };
        for credential in &provider.credentials {
            note(None, credential.name.as_deref(), &credential.breaker);
        }
        let mut in_flight = 0_u64;
        for deployment in deployments.iter().filter(|it| it.provider == provider.name) {
            in_flight = in_flight.saturating_add(deployment.in_flight);
            note(Some(&deployment.name), None, &deployment.breaker);
            for credential in &deployment.credentials {
                let name = credential.name.as_deref();
                note(Some(&deployment.name), name, &credential.breaker);
            }
        }
        let mut without_token = Vec::new();
        for credential in &provider.credentials {
            if let Some(token) = &credential.token
                && token.valid_for_ms.is_none()
            {
                let credential = credential.name.as_deref().unwrap_or_default();
                let reason = token.failure.as_deref().unwrap_or("none was fetched yet");
                let name = &provider.name;
                without_token.push(format!(
                    "provider {name}, credential {credential}: no token ({reason})"
                ));
            }
        }
        ProviderStatus {
            without_token,
            name: provider.name,
            addresses: provider.addresses,
            in_flight,
            breaker: provider.breaker,
            open,
        }
    };
    providers.into_iter().map(view).collect()
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("unknown");
        writeln!(f, "gateway        {}: {}", self.at, self.readiness)?;
        write!(f, "version        {version}")?;
        match self.uptime_seconds {
            Some(seconds) => writeln!(f, ", up {}", Span(seconds))?,
            None => writeln!(f)?,
        }
        if let Some(configuration) = &self.configuration {
            writeln!(
                f,
                "configuration  number {}, since {} ({})",
                configuration.number, configuration.since, configuration.cause
            )?;
        }
        writeln!(
            f,
            "in flight      requests {}, streams {}, connections {}",
            self.requests_in_flight, self.streams_open, self.connections
        )?;
        let ledger = &self.ledger;
        writeln!(
            f,
            "ledger         {}, accounts {}, open requests {}, quarantined records {}",
            if ledger.fenced { "FENCED" } else { "open" },
            ledger.accounts,
            ledger.open_requests,
            ledger.quarantined_records
        )?;
        if let Some(providers) = &self.providers {
            table(f, providers)?;
        }
        if !self.warnings.is_empty() {
            writeln!(f)?;
        }
        for warning in &self.warnings {
            writeln!(f, "WARNING  {warning}")?;
        }
        Ok(())
    }
}

fn table(f: &mut fmt::Formatter<'_>, providers: &[ProviderStatus]) -> fmt::Result {
    let mut rows = vec![(
        "PROVIDER".to_owned(),
        "IN FLIGHT".to_owned(),
        "BREAKER".to_owned(),
    )];
    for provider in providers {
        let in_flight = provider.in_flight.to_string();
        rows.push((provider.name.clone(), in_flight, provider.breaker.told()));
        for open in &provider.open {
            let parts = [
                ("deployment", &open.deployment),
                ("credential", &open.credential),
            ];
            let parts = parts.iter().filter_map(|(what, name)| {
                let name = name.as_ref()?;
                Some(format!("{what} {name}"))
            });
            let name = parts.collect::<Vec<_>>().join(", ");
            rows.push((format!("  {name}"), String::new(), open.breaker.told()));
        }
    }
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    writeln!(f)?;
    for (name, in_flight, breaker) in rows {
        writeln!(f, "{name:width$}  {in_flight:>9}  {breaker}")?;
    }
    Ok(())
}

impl Breaker {
    /// The state, and the reason unless it is closed.
    fn told(&self) -> String {
        if self.state == "closed" {
            return self.state.clone();
        }
        let mut text = self.state.replace('_', "-");
        if let Some(since) = &self.since {
            text += &format!(" since {since}");
        }
        if let Some(left) = self.cooldown_left_ms {
            text += &format!(", {} left", Span(left.div_ceil(1000)));
        }
        if let Some(failure) = &self.last_failure {
            text += &format!(": {} at {}", failure.class, failure.at);
        }
        text
    }
}

/// Seconds, shown in their two largest units.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours) = (self.0 / 86_400, self.0 / 3600 % 24);
        let (minutes, seconds) = (self.0 / 60 % 60, self.0 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds}s"),
            (0, 0, _) => write!(f, "{minutes}m {seconds}s"),
            (0, ..) => write!(f, "{hours}h {minutes}m"),
            _ => write!(f, "{days}d {hours}h"),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds since a start are far below 2^53 and never below 0"
)]
fn whole(seconds: f64) -> u64 {
    seconds as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_two_largest_units() {
        let told = |seconds| Span(seconds).to_string();
        assert_eq!(told(59), "59s");
        assert_eq!(told(61), "1m 1s");
        assert_eq!(told(3_661), "1h 1m");
        assert_eq!(told(90_000), "1d 1h");
    }
}
