//! The pages of the reference that are written from what the program does. `TOLLGATE_BLESS=1` writes
//! them anew.

use super::rust_files;
use crate::support::{
    self, CHAT, COUNT_TOKENS, Config, Connection, Gateway, Output, Provider, Request, eventually,
    prompt, root, tollgate,
};
use http::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use tempfile::TempDir;
use tollgate_filter::Endpoint;

/// Compares a page in `docs/` with what it should be, or writes it.
fn compare(name: &str, page: &str) {
    let path = root().join("docs").join(name);
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        fs::write(&path, page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/{name} is stale: TOLLGATE_BLESS=1 cargo test -p tollgate --test it documentation"
    );
}

/// Compares the table between two comments of a page in `docs/`, or writes it.
fn compare_table(page: &str, name: &str, table: &str) {
    let kept = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (before, rest) = kept.split_once(&begin).expect(&begin);
    let (_, after) = rest.split_once(&end).expect(&end);
    compare(page, &format!("{before}{begin}{table}{end}{after}"));
}

#[test]
fn the_page_of_the_api_lists_every_endpoint() {
    let mut table = "| Method | Path | Purpose |\n|---|---|---|\n".to_owned();
    for row in Endpoint::TABLE {
        let methods = row.methods.iter().map(Method::as_str);
        // The page says that HEAD is answered wherever GET is.
        let methods: Vec<_> = methods.filter(|method| *method != "HEAD").collect();
        let (methods, path, purpose) = (methods.join(", "), row.path, row.purpose);
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {methods} | `{path}` | {purpose} |");
    }
    compare_table("reference/http-api.md", "endpoints", &table);
}

#[tokio::test]
async fn the_guide_to_the_admin_api_lists_every_operation() {
    let provider = Provider::start().await;
    let token = "token-of-an-operator";
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("token"), token).unwrap();
    let config = Config::of(&provider).with("admin.token", json!("file:token"));
    let gateway = Gateway::start_in(folder, config).await;
    let request = Request::get("/api/v1/openapi.json").key(token);
    let mut connection = Connection::open(gateway.admin).await;
    let described = connection.send(&request).await.json();
    let mut table = "| Operation | Method | Path | Purpose |\n|---|---|---|---|\n".to_owned();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let [id, summary] =
                ["operationId", "summary"].map(|name| operation[name].as_str().unwrap());
            let (method, summary) = (method.to_uppercase(), summary.trim_end_matches('.'));
            // Writing to a string cannot fail.
            let _ = writeln!(table, "| `{id}` | {method} | `{path}` | {summary} |");
        }
    }
    compare_table("guides/admin-api.md", "operations", &table);
}

const COMMAND_LINE: &str = "\
# Command line

<!-- Written by `TOLLGATE_BLESS=1 cargo test -p tollgate --test it documentation` from the help of the program. -->

Every command that needs a configuration reads `--config FILE`, else the file that `TOLLGATE_CONFIG` names, else
`tollgate.yaml` in the current folder. A command that fails exits with 1, and prints the reason to standard error.
";

/// The help of a command, and behind it that of each command below it.
async fn help(command: &[&str], page: &mut String) {
    let mut process = tollgate();
    process
        .env_remove("TOLLGATE_CONFIG")
        .args(command)
        .arg("--help");
    let output = Output::of(&mut process).await;
    assert!(output.status.success(), "{output:?}");
    let title = [&["tollgate"], command].concat().join(" ");
    let help = output.stdout.trim_end();
    // Writing to a string cannot fail.
    let _ = write!(page, "\n## `{title}`\n\n```text\n{help}\n```\n");
    let below = help
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest);
    let below = below.lines().map_while(|line| line.strip_prefix("  "));
    for name in below.filter_map(|line| line.split(' ').next()) {
        if !name.is_empty() && name != "help" {
            Box::pin(help_of(command, name, page)).await;
        }
    }
}

async fn help_of(command: &[&str], name: &str, page: &mut String) {
    help(&[command, &[name]].concat(), page).await;
}

#[tokio::test]
async fn the_page_of_the_command_line_is_its_help() {
    let mut page = COMMAND_LINE.to_owned();
    help(&[], &mut page).await;
    compare("reference/cli.md", &page);
}

const METRICS: &str = "\
# Metrics

<!-- Written by `TOLLGATE_BLESS=1 cargo test -p tollgate --test it documentation` from `/metrics`. -->

`GET /metrics` on the operator port returns these in the text format of Prometheus, or in OpenMetrics 1.0 if `accept` asks
for it. Values are those of one process.
Each counter has a series at 0 from the start, if the configuration has what it counts. Those with a `model` appear with
the first request of their format, model and provider, except `tollgate_auto_choices_total`; until then `model` is empty.
Histograms appear with their first value.
[Monitor](../guides/monitoring.md) says what to watch.

| Metric | Kind | Labels | Meaning |
|---|---|---|---|
";

/// A family of metrics.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    meaning: String,
    labels: BTreeSet<String>,
}

/// The families of a page of metrics.
fn families(page: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    let mut name = String::new();
    for line in page.lines() {
        if let Some((of, meaning)) = line
            .strip_prefix("# HELP ")
            .and_then(|it| it.split_once(' '))
        {
            of.clone_into(&mut name);
            meaning.clone_into(&mut families.entry(name.clone()).or_default().meaning);
        } else if let Some((_, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|it| it.split_once(' '))
        {
            kind.clone_into(&mut families.entry(name.clone()).or_default().kind);
        } else if let Some((_, labels)) = line.split_once('{') {
            let names = labels
                .split("=\"")
                .map(|it| it.rsplit([',', '"']).next().unwrap());
            let labels = &mut families.entry(name.clone()).or_default().labels;
            let is_name = |it: &&str| !it.is_empty() && !it.contains(['}', ' ']) && *it != "le";
            labels.extend(names.filter(is_name).map(str::to_owned));
        }
    }
    families
}

/// Names of metrics in the code.
fn names_in_code() -> BTreeSet<String> {
    let mut files = Vec::new();
    for folder in ["src", "crates"] {
        rust_files(&root().join(folder), &mut files).unwrap();
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        for rest in text.split("\"tollgate_").skip(1) {
            let name: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            let is_whole = rest[name.len()..].starts_with('"');
            // Names of crates in paths of the log are no metrics.
            if is_whole && name.contains('_') {
                names.insert(format!("tollgate_{name}"));
            }
        }
    }
    names
}

/// Whether something was counted.
async fn has(gateway: &Gateway, name: &str) -> Option<()> {
    (gateway.total(name).await > 0.0).then_some(())
}

async fn counted(gateway: &Gateway, name: &str) {
    eventually(name, async || has(gateway, name).await).await;
}

/// A gateway with everything that is counted.
async fn counting() -> (Gateway, Provider) {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("server.limits.connections_per_address", json!(40))
        .provider("tokens", support::provider(provider.address))
        .with(
            "providers.tokens.credentials",
            json!([{"command": {"run": ["false"]}}]),
        )
        .with("server.limits.requests_in_flight", json!(2))
        .with("traces", json!({"endpoint": "http://127.0.0.1:1"}))
        .with("limits.shared.url", json!("file:limits"))
        .with(
            "auto",
            json!({"family": "test", "candidates": ["test-model"]}),
        );
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("limits"), "redis://127.0.0.1:1").unwrap();
    (Gateway::start_in(folder, config).await, provider)
}

/// A gateway that has seen one of everything that is counted.
async fn eventful() -> (Gateway, Provider) {
    let (gateway, provider) = counting().await;
    let streamed = gateway
        .ask(CHAT, "test-model", "", json!({"stream": true}))
        .await;
    streamed.assert_ok();
    gateway.ask(CHAT, "auto", "", json!({})).await.assert_ok();
    let body = prompt(COUNT_TOKENS, "test-model", "Hello.", json!({}));
    gateway.post(COUNT_TOKENS, &body).await.assert_ok();
    let failed = gateway
        .ask(CHAT, "test-model", "status-401", json!({}))
        .await;
    failed.assert_error(502, "upstream_error");
    gateway.connect().await.write(b"nonsense\r\n\r\n").await;
    counted(&gateway, "tollgate_heads_refused_total").await;
    gateway.signal("HUP").await;
    counted(&gateway, "tollgate_configuration_reloads_total").await;
    let body = prompt(CHAT, "test-model", "Hello.", json!({}));
    let request = Request::post(CHAT, &body).key(&gateway.key).orders("hang");
    let mut hanging = Vec::new();
    eventually("a request that is refused", async || {
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        hanging.push(connection);
        has(&gateway, "tollgate_requests_shed_total").await
    })
    .await;
    let mut crowd = Vec::new();
    eventually("a connection that is refused", async || {
        crowd.push(gateway.connect().await);
        has(&gateway, "tollgate_connections_refused_total").await
    })
    .await;
    drop((crowd, hanging));
    (gateway, provider)
}

#[tokio::test]
async fn every_counter_is_there_at_0_before_the_first_request() {
    /// They count without a request, too.
    const COUNTING: [&str; 2] = [
        "process_cpu_seconds_total",
        "tollgate_limits_fallbacks_total",
    ];
    let page = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    let counters = page.lines().filter(|line| line.contains(" | counter | "));
    let names: Vec<_> = counters
        .map(|line| line.split('`').nth(1).unwrap())
        .collect();
    assert!(names.len() > 30, "{page}");
    let (gateway, _provider) = counting().await;
    let scrape = gateway.operator("/metrics").await.text();
    for name in names {
        let samples = scrape.lines().filter_map(|line| {
            let value = line.strip_prefix(name)?.rsplit_once(' ')?;
            (value.0.is_empty() || value.0.starts_with('{')).then_some(value.1)
        });
        let mut samples = samples.peekable();
        assert!(samples.peek().is_some(), "no series of {name}");
        let is_zero = samples.any(|value| value == "0");
        assert!(
            is_zero || COUNTING.contains(&name),
            "no series of {name} is 0"
        );
    }
    let routes = scrape
        .lines()
        .filter(|line| line.contains("model=\"test-model\""));
    let routes: Vec<_> = routes.filter(|line| line.contains("format=")).collect();
    assert!(routes.is_empty(), "{routes:#?}");
}

#[tokio::test]
async fn the_page_of_metrics_has_every_metric() {
    let (gateway, _provider) = eventful().await;
    let found = families(&gateway.operator("/metrics").await.text());
    let missing: Vec<_> = names_in_code()
        .into_iter()
        .filter(|name| !found.contains_key(name))
        .collect();
    assert!(missing.is_empty(), "no event counts {missing:#?}");
    let mut page = METRICS.to_owned();
    for (
        name,
        Family {
            kind,
            meaning,
            labels,
        },
    ) in found
    {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| `{name}` | {kind} | {} | {meaning} |",
            labels.join(", ")
        );
    }
    compare("reference/metrics.md", &page);
}

#[tokio::test]
async fn the_page_of_the_access_log_has_every_field() {
    let (gateway, _provider) = eventful().await;
    let chosen = gateway
        .access_line(|it| it["route_reason"].is_string())
        .await;
    let refused = gateway.access_line(|it| it["reason"].is_string()).await;
    let fields = |line: &Value| {
        line.as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    let written = &fields(&chosen) | &fields(&refused);
    let page = fs::read_to_string(root().join("docs/reference/access-log.md")).unwrap();
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let reported: BTreeSet<_> = cells
        .flat_map(|cell| cell.split(", "))
        .map(|name| name.trim_matches('`').to_owned())
        .collect();
    assert_eq!(reported, written);
}
