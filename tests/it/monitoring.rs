//! The rules and dashboards in `deploy/`: their tests pass in a real Prometheus, every alert has its
//! section in the guide, and every expression finds its series in a gateway that serves.

use crate::support::collector::{Collector, attributes, hex};
use crate::support::{
    CHAT, Config, Connection, Gateway, Output, Provider, Request, eventually, is_missing, root,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The names of all alerts.
fn alerts() -> Vec<String> {
    let rules = read("deploy/prometheus/alerts.yaml");
    let names = rules
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- alert: "));
    let names: Vec<_> = names.map(str::to_owned).collect();
    assert!(names.len() > 15, "{names:?}");
    names
}

#[test]
fn every_alert_has_its_section_in_the_guide() {
    let rules = read("deploy/prometheus/alerts.yaml");
    let guide = read("docs/guides/alerts.md");
    let sections: BTreeSet<_> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let alerts = alerts();
    for alert in &alerts {
        let (_, rule) = rules.split_once(&format!("- alert: {alert}\n")).unwrap();
        let rule = rule.split("- alert: ").next().unwrap();
        let url = format!(
            "runbook_url: docs/guides/alerts.md#{}\n",
            alert.to_lowercase()
        );
        assert!(rule.contains(&url), "{alert} lacks {url}");
    }
    let alerts: BTreeSet<_> = alerts.iter().map(String::as_str).collect();
    assert_eq!(sections, alerts);
}

#[tokio::test]
async fn every_alert_fires_in_one_test_of_the_rules_and_does_not_in_another() {
    let tests = read("deploy/prometheus/tests/alerts.yaml");
    for alert in alerts() {
        let expected: Vec<_> = tests
            .split(&format!("- alertname: {alert}\n"))
            .skip(1)
            .map(|rest| rest.lines().nth(1).unwrap().trim())
            .collect();
        assert!(expected.contains(&"exp_alerts:"), "{alert} never fires");
        assert!(expected.contains(&"exp_alerts: []"), "{alert} always fires");
    }
    let mut promtool = Command::new("promtool");
    promtool
        .args(["test", "rules", "deploy/prometheus/tests/alerts.yaml"])
        .current_dir(root());
    if is_missing("promtool") {
        return;
    }
    let output = Output::of(&mut promtool).await;
    assert!(output.status.success(), "{output:?}");
}

/// The tests of this program, without a single program in `PATH`.
async fn without_programs(test: &str, ci: Option<&str>) -> Output {
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests
        .args(["--exact", "--nocapture", test])
        .current_dir(root())
        .env("PATH", "/nonexistent")
        .env_remove("CI");
    if let Some(ci) = ci {
        tests.env("CI", ci);
    }
    Output::of(&mut tests).await
}

#[tokio::test]
async fn a_test_whose_program_is_not_installed_fails_in_continuous_integration_only() {
    for (test, program) in [
        (
            "monitoring::every_alert_fires_in_one_test_of_the_rules_and_does_not_in_another",
            "promtool",
        ),
        (
            "monitoring::every_expression_finds_its_series",
            "prometheus",
        ),
        (
            "commands::top::it_draws_until_it_is_interrupted_and_leaves_the_terminal_as_it_was",
            "script",
        ),
        (
            "upgrade::the_unit_is_in_good_order_as_systemd_reads_it",
            "systemd-analyze",
        ),
    ] {
        let skipped = without_programs(test, None).await;
        assert!(skipped.status.success(), "{test}: {skipped:?}");
        let wanted = format!("SKIPPED: {program} is not installed");
        assert!(skipped.stdout.contains(&wanted), "{test}: {skipped:?}");
        let failed = without_programs(test, Some("true")).await;
        assert!(!failed.status.success(), "{test}: {failed:?}");
        let wanted = format!("{program} is not installed: scripts/setup tests");
        assert!(failed.stderr.contains(&wanted), "{test}: {failed:?}");
    }
}

/// A Prometheus that scrapes a gateway every second, with the rules of `deploy/prometheus`.
struct Prometheus {
    address: SocketAddr,
    _folder: TempDir,
    _process: Child,
}

impl Prometheus {
    async fn start(gateway: SocketAddr) -> Self {
        Self::with_alerts(gateway, &read("deploy/prometheus/alerts.yaml")).await
    }

    /// With these alerts instead.
    async fn with_alerts(gateway: SocketAddr, alerts: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("alerts.yaml"), alerts).unwrap();
        let address = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap()
        };
        let recording = root().join("deploy/prometheus/recording.yaml");
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [recording, folder.path().join("alerts.yaml")],
            "scrape_configs": [{
                "job_name": "tollgate",
                "static_configs": [{ "targets": [gateway.to_string()] }],
            }],
        });
        let file = folder.path().join("prometheus.yaml");
        fs::write(&file, config.to_string()).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(["--enable-feature=exemplar-storage", "--log.level=error"])
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("Prometheus", async || {
            let stream = TcpStream::connect(address).await.ok()?;
            let mut connection = Connection::over(stream);
            let answer = connection.send(&Request::get("/-/ready")).await;
            (answer.status == 200).then_some(())
        })
        .await;
        Self {
            address,
            _folder: folder,
            _process: process,
        }
    }

    async fn get(&self, target: &str) -> Value {
        let request = Request::get(target);
        let mut connection = Connection::open(self.address).await;
        connection.send(&request).await.json()
    }

    /// The series of an expression.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let query: String = form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let answer = self.get(&format!("/api/v1/query?query={query}")).await;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    async fn rules(&self) -> Vec<Value> {
        let answer = self.get("/api/v1/rules").await;
        let groups = answer["data"]["groups"].as_array();
        let rules = groups.into_iter().flatten();
        rules
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect()
    }
}

/// The expressions of the dashboards, with values for the variables.
fn dashboards() -> Vec<String> {
    let mut expressions = Vec::new();
    for entry in fs::read_dir(root().join("deploy/grafana")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let expression = expression
                    .replace("$job", "tollgate")
                    .replace("$instance", ".*")
                    .replace("$__rate_interval", "1m");
                assert!(!expression.contains('$'), "{expression}");
                expressions.push(expression);
            }
        }
    }
    assert!(expressions.len() > 40, "{expressions:?}");
    expressions
}

/// The metrics of an expression, each with its matchers.
fn selectors(expression: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(begin) = rest.find(is_name) {
        rest = &rest[begin..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        let matchers = match after.strip_prefix('{').and_then(|it| it.split_once('}')) {
            Some((matchers, behind)) => {
                rest = behind;
                format!("{{{matchers}}}")
            }
            None => String::new(),
        };
        let is_metric = ["tollgate_", "tollgate:", "process_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if is_metric || name == "up" {
            found.insert(format!("{name}{matchers}"));
        }
    }
    found
}

#[test]
fn selectors_are_found_with_their_matchers() {
    let found =
        selectors(r#"sum by (job) (rate(tollgate_a_total{b=~"c|d"}[5m])) / up > tollgate:e:f"#);
    let expected = [r#"tollgate_a_total{b=~"c|d"}"#, "tollgate:e:f", "up"];
    assert_eq!(found, expected.map(str::to_owned).into());
}

#[tokio::test]
async fn every_expression_finds_its_series() {
    if is_missing("prometheus") {
        return;
    }
    let provider = Provider::start().await;
    let print = r#"echo '{"token": "abc", "expires_in": 3600}'"#;
    let credential = json!({"name": "main", "command": {"run": ["sh", "-c", print]}});
    let config = Config::of(&provider)
        .with(
            "auto",
            json!({"family": "test", "candidates": ["test-model"]}),
        )
        // Metrics of tokens appear with the first credential that has one.
        .with(
            "providers.tokens",
            json!({
                "address": "http://127.0.0.1:9", "formats": ["chat"], "credentials": [credential],
            }),
        )
        .model("with-token", json!(["tokens/with-token"]))
        .with("limits.shared.url", json!("file:limits"));
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("limits"), "redis://127.0.0.1:1").unwrap();
    let gateway = Gateway::start_in(folder, config).await;
    let prometheus = Prometheus::start(gateway.admin).await;
    let load = async {
        loop {
            for (model, orders) in [
                ("test-model", ""),
                ("auto", ""),
                ("test-model", "status-400"),
            ] {
                let more = json!({"stream": model == "auto"});
                gateway.ask(CHAT, model, orders, more).await;
            }
        }
    };
    let check = async {
        // Every recording rule has its series once Prometheus has scraped answers twice.
        let recorded = async || {
            let rules = prometheus.rules().await;
            for rule in &rules {
                assert_ne!(rule["health"], "err", "{rule}");
                if rule["type"] == "recording" {
                    let name = rule["name"].as_str().unwrap();
                    if prometheus.query(name).await.is_empty() {
                        return None;
                    }
                } else if rule["health"] != "ok" {
                    return None;
                }
            }
            (!rules.is_empty()).then_some(rules)
        };
        let rules = eventually("the series of every recording rule", recorded).await;
        let rules = rules.iter().map(|rule| rule["query"].as_str().unwrap());
        let dashboards = dashboards();
        let mut empty = BTreeSet::new();
        let mut searched = BTreeSet::new();
        for expression in rules.chain(dashboards.iter().map(String::as_str)) {
            searched.extend(selectors(expression));
        }
        searched.extend(dashboards);
        for expression in searched {
            if prometheus.query(&expression).await.is_empty() {
                empty.insert(expression);
            }
        }
        assert!(empty.is_empty(), "without series: {empty:#?}");
        let firing = prometheus.query(r#"ALERTS{alertstate="firing"}"#).await;
        assert!(firing.is_empty(), "{firing:#?}");
    };
    tokio::select! {
        () = load => {}
        () = check => {}
    }
}

#[tokio::test]
async fn an_alert_fires_and_resolves_and_the_failed_request_is_found_by_its_id() {
    const TOKEN: &str = "0123456789abcdef-the-token-of-the-tests";
    const ALERT: &str = r#"ALERTS{alertname="TollgateBreakerOpen",alertstate="firing"}"#;
    if is_missing("prometheus") {
        return;
    }
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("token"), TOKEN).unwrap();
    let traces = json!({
        "endpoint": format!("http://{}", collector.address), "sample": {"share": 0},
    });
    let health = json!({"consecutive_failures": 1, "cooldown": "1s", "max_cooldown": "1s"});
    let config = Config::of(&provider)
        .with("admin.token", json!("file:token"))
        .with("traces", traces)
        .with("routing.health", health);
    let gateway = Gateway::start_in(folder, config).await;
    // As they are, but at once.
    let mut alerts = String::new();
    for line in read("deploy/prometheus/alerts.yaml").lines() {
        let is_wait = line.trim_start().starts_with("for: ");
        alerts += if is_wait { "        for: 0s" } else { line };
        alerts += "\n";
    }
    let prometheus = Prometheus::with_alerts(gateway.admin, &alerts).await;
    assert_eq!(prometheus.query(ALERT).await, [] as [Value; 0]);

    let failed = gateway
        .ask(CHAT, "test-model", "status-500", json!({}))
        .await;
    failed.assert_error(502, "upstream_error");
    let id = failed.header("x-request-id").unwrap();
    let request = Request::get(&format!("/api/v1/dashboard/requests/{id}")).key(TOKEN);
    let shown = async || {
        let answer = Connection::open(gateway.admin).await.send(&request).await;
        (answer.status == 200).then(|| answer.json()["recent"].clone())
    };
    let shown = eventually("the request in the dashboard", shown).await;
    assert_eq!(shown["code"], "upstream_error", "{shown}");
    let attempt = &shown["failed"][0];
    assert_eq!(attempt["class"], "server_error", "{shown}");
    assert_eq!(attempt["status"], 500, "{shown}");
    let line = gateway.access_line(|line| line["id"] == id).await;
    assert_eq!(line["code"], "upstream_error", "{line}");
    let cause = gateway.log_line(id).await;
    assert!(cause.contains("sim") && cause.contains("500"), "{cause}");
    let trace = collector.trace_of(id).await;
    assert_eq!(line["trace_id"], hex(&trace[0].trace_id));
    assert_eq!(attributes(&trace[1])["error.type"], "server_error");

    let fires = async || {
        gateway
            .ask(CHAT, "test-model", "status-500", json!({}))
            .await;
        let firing = prometheus.query(ALERT).await;
        (!firing.is_empty()).then_some(firing)
    };
    let firing = eventually("the alert", fires).await;
    assert_eq!(firing[0]["metric"]["provider"], "sim", "{firing:#?}");
    let resolves = async || {
        gateway.ask(CHAT, "test-model", "", json!({})).await;
        prometheus.query(ALERT).await.is_empty().then_some(())
    };
    eventually("the end of the alert", resolves).await;
}

/// Prometheus asks for OpenMetrics. In the text format the page has no exemplars.
#[tokio::test]
async fn requests_with_an_exported_trace_are_exemplars_of_their_buckets() {
    if is_missing("prometheus") {
        return;
    }
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let endpoint = format!("http://{}", collector.address);
    // Three seconds are slow, and the request before it is not exported.
    let sample = json!({"share": 0, "slower_than": "2s"});
    let traces = json!({"endpoint": endpoint, "sample": sample});
    let gateway = Gateway::start(Config::of(&provider).with("traces", traces)).await;
    let prometheus = Prometheus::start(gateway.admin).await;
    gateway
        .ask(CHAT, "test-model", "", Value::Null)
        .await
        .assert_ok();
    gateway
        .ask(CHAT, "test-model", "delay-3000ms", Value::Null)
        .await
        .assert_ok();
    let found = async || {
        let target = "/api/v1/query_exemplars?query=tollgate_request_duration_seconds_bucket\
                      &start=0&end=9999999999";
        let answer = prometheus.get(target).await;
        let series = answer["data"].as_array().unwrap().clone();
        (!series.is_empty()).then_some(series)
    };
    let series = eventually("an exemplar", found).await;
    let exemplars = series[0]["exemplars"].as_array().unwrap();
    assert!(series.len() == 1 && exemplars.len() == 1, "{series:#?}");
    // The request is an exemplar before its spans are exported.
    let trace_id = eventually("the span", async || {
        Some(hex(&collector.spans().first()?.trace_id))
    })
    .await;
    assert_eq!(exemplars[0]["labels"]["trace_id"], trace_id, "{series:#?}");
    let seconds: f64 = exemplars[0]["value"].as_str().unwrap().parse().unwrap();
    assert!((3.0..60.0).contains(&seconds), "{series:#?}");
    let page = gateway.operator("/metrics").await.text();
    assert!(!page.contains("trace_id"), "{page}");
}
