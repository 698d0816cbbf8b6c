//! Faults of providers, and what of them a caller sees: the table of docs/reference/faults.md, row by
//! row, and ten thousand requests of which no caller notices that a fifth fails at first.
//!
//! The page is the expectation: each of its faults is requested here, in every format. A row of the page
//! lists all faults with the same results. `TOLLGATE_FAULT_TABLE=1` prints the table as it was found.

use crate::support::{
    self, Answer, CHAT, COUNT_TOKENS, Config, Connection, Ending, FORMATS, Gateway, Http2,
    MESSAGES, Provider, RESPONSES, Request, closed_port, prompt,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const PAGE: &str = include_str!("../../docs/reference/faults.md");

/// What is asked for each row, in the order of the table's columns.
const COLUMNS: [(Candidates, bool); 4] = [
    (Candidates::Alone, false),
    (Candidates::Alone, true),
    (Candidates::Two, false),
    (Candidates::Two, true),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Candidates {
    Alone,
    /// A healthy one behind it.
    Two,
}

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In the caller's own format, over HTTP/1.1.
    Plain,
    /// The same over HTTP/2.
    Http2,
    /// From each format to another one.
    Translated,
}

/// A fault, and what is seen of it.
#[derive(Clone, Debug)]
struct Row {
    fault: String,
    cells: [String; 4],
}

/// The faults of the page's table.
fn table() -> Vec<Row> {
    let begin = "<!-- faults -->";
    let end = "<!-- end of faults -->";
    let at = PAGE.find(begin).expect("the table's beginning");
    let table = &PAGE[at + begin.len()..PAGE.find(end).expect("the table's end")];
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [faults, cells @ ..] = &cells[..] else {
            panic!("{line}");
        };
        let cells: [String; 4] = std::array::from_fn(|at| cells.get(at).expect(line).to_string());
        faults.split(", ").map(move |fault| Row {
            fault: fault.trim_matches('`').to_owned(),
            cells: cells.clone(),
        })
    })
    .collect()
}

/// What the page says of a format: `502 upstream_error; messages: 503 service_unavailable`.
fn expected(cell: &str, format: &str) -> String {
    let mut all = cell.split(';').map(str::trim);
    let usual = all.next().unwrap_or_default();
    let own = all.find_map(|it| it.strip_prefix(format)?.strip_prefix(": "));
    own.unwrap_or(usual).to_owned()
}

fn format_of(path: &str) -> &'static str {
    match path {
        CHAT => "chat",
        RESPONSES => "responses",
        _ => "messages",
    }
}

/// The format that a provider speaks to whom callers of `path` are translated.
fn other_format(path: &str) -> &'static str {
    match path {
        CHAT => "messages",
        RESPONSES => "chat",
        _ => "responses",
    }
}

/// One request of the matrix; each has a provider of its own, so that none has heard of the
/// others' faults.
#[derive(Clone, Copy, Debug)]
struct Case {
    row: usize,
    path: &'static str,
    column: usize,
}

impl Case {
    fn all(rows: usize) -> impl Iterator<Item = Self> {
        (0..rows).flat_map(|row| {
            FORMATS.into_iter().flat_map(move |path| {
                (0..COLUMNS.len()).map(move |column| Self { row, path, column })
            })
        })
    }

    fn name(&self) -> String {
        format!("{}-{}-{}", self.row, format_of(self.path), self.column)
    }

    fn candidates(&self) -> Candidates {
        COLUMNS[self.column].0
    }

    fn streams(&self) -> bool {
        COLUMNS[self.column].1
    }
}

/// A configuration with a model for each case.
fn config(rows: &[Row], way: Way, sim: SocketAddr, closed: SocketAddr) -> Config {
    // The table shows the first request that meets a fault, and breakers are for those after.
    let mut config = Config::new()
        .with("failover", json!({"pause": "10ms"}))
        .with("routing.health", json!({"enabled": false}));
    for case in Case::all(rows.len()) {
        let fault = &rows[case.row].fault;
        let name = case.name();
        let (address, model) = match fault.as_str() {
            "unreachable" => (closed, "any".to_owned()),
            orders => (sim, format!("sim-{orders}")),
        };
        // Short where one side is silent, and long where a busy machine may be slow.
        let is_silent = fault.contains("hang") || fault.contains("stall");
        let read = if is_silent { "2s" } else { "60s" };
        let timeouts = json!({"read": read, "connect": "10s"});
        let mut deployments = Vec::new();
        for (role, address, model) in [("f", address, model), ("h", sim, "any".to_owned())] {
            let provider = format!("{role}-{name}");
            let mut settings = support::provider(address);
            settings["timeouts"] = timeouts.clone();
            match way {
                Way::Plain => settings["http2"] = json!("never"),
                Way::Http2 => settings["http2"] = json!("always"),
                Way::Translated => settings["formats"] = json!([other_format(case.path)]),
            }
            if role == "h" {
                settings["timeouts"] = json!({"read": "60s"});
            }
            config = config.provider(&provider, settings);
            let priority = u8::from(role == "h");
            deployments.push(json!({
                "provider": provider, "upstream_model": model, "priority": priority,
            }));
        }
        if case.candidates() == Candidates::Alone {
            deployments.truncate(1);
        }
        config = config.model(&name, json!(deployments));
    }
    config
}

/// What is seen, in the words of the page.
fn seen(path: &str, answer: &Answer) -> String {
    let attempts = answer.header("x-attempts").unwrap_or("1");
    let kind = answer.header("content-type").unwrap_or_default();
    let mut seen = match (answer.status, kind.starts_with("text/event-stream")) {
        (200, true) => match answer.ending {
            Ending::Complete => ending_of_stream(path, answer),
            ending => format!("200, {ending:?}"),
        },
        (200, _) => match answer.ending {
            Ending::Complete => {
                answer.json();
                "200".to_owned()
            }
            _ => "200, cut".to_owned(),
        },
        _ => {
            let (status, code) = answer.error();
            assert_eq!(answer.ending, Ending::Complete, "{answer:?}");
            format!("{status} {code}")
        }
    };
    if attempts != "1" {
        let _ = write!(seen, " ×{attempts}");
    }
    seen
}

/// `200` where the stream is whole, else the code of the error event that ends it.
fn ending_of_stream(path: &str, answer: &Answer) -> String {
    let events = answer.events();
    let last = events.last().unwrap_or_else(|| panic!("{answer:?}"));
    let code = match path {
        RESPONSES => last.pointer("/response/error/code"),
        _ => last.pointer("/error/code"),
    };
    if let Some(code) = code.and_then(Value::as_str) {
        return format!("200, then {code}");
    }
    let is_whole = match path {
        CHAT => *last == json!("[DONE]"),
        RESPONSES => {
            let kind = last["type"].as_str().unwrap_or_default();
            matches!(kind, "response.completed" | "response.incomplete")
        }
        _ => last["type"] == "message_stop",
    };
    assert!(is_whole, "neither whole nor an error: {answer:?}");
    "200".to_owned()
}

/// Asks for every case at once, as far as that is good for a small machine.
async fn ask_all(
    gateway: &Gateway,
    rows: &[Row],
) -> BTreeMap<(usize, usize, &'static str), String> {
    const AT_ONCE: usize = 32;
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut asking = JoinSet::new();
    for case in Case::all(rows.len()) {
        let mut more = json!({"stream": case.streams()});
        if case.path == CHAT && case.streams() {
            more["stream_options"] = json!({"include_usage": true});
        }
        let said = "one two three four five six ".repeat(20);
        let body = prompt(case.path, &case.name(), &said, more);
        let request = Request::post(case.path, &body).key(&gateway.key);
        let (address, permits) = (gateway.address, Arc::clone(&permits));
        asking.spawn(async move {
            let _permit = permits.acquire_owned().await.unwrap();
            let answer = Connection::open(address).await.send(&request).await;
            let format = format_of(case.path);
            ((case.row, case.column, format), seen(case.path, &answer))
        });
    }
    asking.join_all().await.into_iter().collect()
}

async fn matrix(way: Way, rows: Vec<Row>) {
    let provider = Provider::start().await;
    let (closed, _port) = closed_port();
    let gateway = Gateway::start(config(&rows, way, provider.address, closed)).await;
    let found = ask_all(&gateway, &rows).await;
    if std::env::var_os("TOLLGATE_FAULT_TABLE").is_some() {
        print(&rows, &found);
    }
    let mut wrong = String::new();
    for ((row, column, format), seen) in &found {
        let row = &rows[*row];
        let spoken = match way {
            Way::Translated => {
                other_format(&format!("/v1/{format}").replace("chat", "chat/completions"))
            }
            _ => format,
        };
        let cell = expected(&row.cells[*column], spoken);
        let asked = COLUMNS[*column];
        let is_right = cell == *seen
            || way == Way::Http2
                && row.fault.contains("cut-")
                && seems_replaced(asked.0, &cell, seen);
        if !is_right {
            let fault = &row.fault;
            let _ = writeln!(
                wrong,
                "{fault}, {format}, {asked:?}: the page has '{cell}', the test saw '{seen}'"
            );
        }
    }
    assert!(wrong.is_empty(), "{way:?}:\n{wrong}");
    // Whatever happened: nothing is charged twice, and everything adds up.
    gateway.verify().await;
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
}

/// A connection of HTTP/2 that breaks may take what has just come along: then the failure
/// comes before the first content.
fn seems_replaced(candidates: Candidates, shown: &str, seen: &str) -> bool {
    let of_nothing = match candidates {
        Candidates::Alone => "503 service_unavailable",
        Candidates::Two => "200",
    };
    let what = |text: &str| text.split(" ×").next().unwrap_or_default().to_owned();
    [what(shown), of_nothing.to_owned()].contains(&what(seen))
}

fn print(rows: &[Row], found: &BTreeMap<(usize, usize, &'static str), String>) {
    for (number, row) in rows.iter().enumerate() {
        print!("| `{}` |", row.fault);
        for column in 0..COLUMNS.len() {
            let of = |format| &found[&(number, column, format)];
            let usual = of("chat");
            print!(" {usual}");
            for format in ["responses", "messages"] {
                if of(format) != usual {
                    print!("; {format}: {}", of(format));
                }
            }
            print!(" |");
        }
        println!();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_sees_each_fault_as_the_page_says() {
    matrix(Way::Plain, table()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http2_a_caller_sees_the_same() {
    // What is no HTTP at all is no HTTP/2 either, and looks otherwise.
    let rows = table()
        .into_iter()
        .filter(|row| !matches!(row.fault.as_str(), "garbage" | "reset"));
    matrix(Way::Http2, rows.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_translated_formats_see_the_same() {
    matrix(Way::Translated, table()).await;
}

/// Faults before the first content, each at a fifth of the requests.
const FIFTHS: [&str; 8] = [
    "status-500",
    "status-503",
    "status-429",
    "reset",
    "error-first",
    "cut-20",
    "empty",
    "html-502",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_thousand_requests_no_caller_sees_the_fifth_that_fails_at_first() {
    const REQUESTS: usize = 10_000;
    const CALLERS: usize = 16;
    let provider = Provider::with(tollgate_sim::Sim::builder()).await;
    let mut config = Config::new()
        .with("server.threads", json!(2))
        .with("log.access", json!("none"));
    for name in ["first", "second"] {
        config = config.provider(name, support::provider(provider.address));
    }
    for fault in FIFTHS {
        let deployments = json!([
            {"provider": "first", "upstream_model": format!("sim-fail-rate-20+{fault}")},
            {"provider": "second", "upstream_model": "healthy", "priority": 1},
        ]);
        config = config.model(fault, deployments);
    }
    let gateway = Gateway::start(config).await;
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (address, key) = (gateway.address, gateway.key.clone());
        callers.spawn(async move {
            let (mut spent, mut again) = (0, 0);
            let mut connection = Connection::open(address).await;
            for number in (caller..REQUESTS).step_by(CALLERS) {
                let answer = ask(&mut connection, &key, number).await;
                assert_eq!(seen_once(&answer), "200", "{number}: {answer:?}");
                spent += answer.reported();
                again += usize::from(answer.header("x-attempts").is_some());
            }
            (spent, again)
        });
    }
    let (mut spent, mut again) = (0, 0);
    for (cost, more) in callers.join_all().await {
        spent += cost;
        again += more;
    }
    let took = begun.elapsed();
    println!("{REQUESTS} requests in {took:?}, {again} of them tried again, {spent} tokens");
    assert!(again > 0, "nothing has failed");
    gateway.has_spent(&gateway.key, spent).await;
    let found = gateway.verify().await;
    assert_eq!(found["requests"], REQUESTS, "{found}");
    assert_eq!(
        gateway.sample("tollgate_retries_refused_total").await,
        Some(0.0)
    );
}

async fn ask(connection: &mut Connection, key: &str, number: usize) -> Answer {
    let path = FORMATS[number % FORMATS.len()];
    let model = FIFTHS[number / FORMATS.len() % FIFTHS.len()];
    let mut more = json!({"stream": number.is_multiple_of(2)});
    if path == CHAT && number.is_multiple_of(2) {
        more["stream_options"] = json!({"include_usage": true});
    }
    let body = prompt(path, model, "Hi", more);
    connection.send(&Request::post(path, &body).key(key)).await
}

/// As [`seen`], whatever was tried.
fn seen_once(answer: &Answer) -> String {
    let path = match answer.text() {
        text if text.contains("chat.completion") => CHAT,
        text if text.contains("\"response") => RESPONSES,
        _ => MESSAGES,
    };
    let seen = seen(path, answer);
    seen.split(" ×").next().unwrap_or_default().to_owned()
}

/// A model whose first provider always fails, and a gateway that may try again once a second.
async fn with_one_retry_a_second() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("failover.budget", json!({"percent": 0, "per_second": 1}))
        .with("routing.health", json!({"enabled": false}))
        .provider("other", support::provider(provider.address))
        .model(
            "fails",
            json!(["sim/sim-status-500", {"provider": "other", "priority": 1}]),
        );
    let gateway = Gateway::start(config).await;
    (provider, gateway)
}

#[tokio::test]
async fn an_empty_budget_reports_the_first_failure() {
    let (_provider, gateway) = with_one_retry_a_second().await;
    let mut refused = 0;
    for _ in 0..30 {
        let answer = gateway.ask(CHAT, "fails", "", json!({})).await;
        match answer.status {
            200 => {}
            _ => {
                answer.assert_error(502, "upstream_error");
                refused += 1;
            }
        }
    }
    // One a second, over ten seconds.
    assert!(refused > 0, "the budget has no end");
    gateway
        .sample_is("tollgate_retries_refused_total", f64::from(refused))
        .await;
}

#[tokio::test]
async fn free_failures_take_nothing_from_the_retry_budget() {
    let (_provider, gateway) = with_one_retry_a_second().await;
    for n in 0..30 {
        let body = prompt(COUNT_TOKENS, "fails", &format!("count {n}"), json!({}));
        gateway.post(COUNT_TOKENS, &body).await.assert_ok();
    }
    let refused = gateway.sample("tollgate_retries_refused_total").await;
    assert!(
        refused > Some(0.0),
        "what costs nothing has no end: {refused:?}"
    );
    let answer = gateway.ask(CHAT, "fails", "", json!({})).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-attempts"), Some("2"), "{answer:?}");
}

#[tokio::test]
async fn a_caller_that_leaves_in_the_pause_between_two_attempts_is_noticed_at_once() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("failover", json!({"pause": "5s", "again": 1}))
        .model("fails", json!(["sim/sim-status-503"]));
    let gateway = Gateway::start(config).await;
    // The answer to a hosted tool is read to its end, but not the next one.
    let tools = json!({"tools": [{"type": "web_search"}]});
    for (asked, http2, more) in [
        (1, false, json!({})),
        (2, false, tools.clone()),
        (3, true, tools),
    ] {
        let body = prompt(CHAT, "fails", "Hi", more);
        let request = Request::post(CHAT, &body).key(&gateway.key);
        let mut first = None;
        let mut second = None;
        if http2 {
            let mut connection = Http2::open(gateway.address).await;
            let request = request.clone();
            second = Some(tokio::spawn(async move {
                connection.begin(&request).await.map(drop)
            }));
        } else {
            let mut connection = gateway.connect().await;
            connection.write(&request.bytes()).await;
            first = Some(connection);
        }
        provider.when("an attempt", |it| it.requests == asked).await;
        gateway
            .sample_is(
                "tollgate_upstream_faults_total{class=\"busy\",provider=\"sim\"}",
                f64::from(u32::try_from(asked).unwrap()),
            )
            .await;
        let left = Instant::now();
        drop(first);
        if let Some(asking) = second {
            asking.abort();
        }
        gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
        // Half of the pause is left to chance.
        assert!(
            left.elapsed() < Duration::from_secs(2),
            "{:?}",
            left.elapsed()
        );
        let line = gateway
            .access_line(|line| line["outcome"] == "client_closed")
            .await;
        assert_eq!(line["status"], 499, "{line}");
        assert_eq!(line["charged"], 0, "the provider has stopped: {line}");
        assert_eq!(provider.handle.counters().requests, asked);
    }
}

#[tokio::test]
async fn of_several_failures_the_most_helpful_is_reported() {
    let provider = Provider::start().await;
    let mut config = Config::of(&provider)
        .with("failover", json!({"pause": "10ms"}))
        .with("routing.health", json!({"enabled": false}));
    // In whichever order they come.
    let cases = [
        ("status-429+retry-after-30", "status-503", 429, Some("30")),
        (
            "status-429+retry-after-30",
            "status-429+retry-after-7",
            429,
            Some("7"),
        ),
        ("status-500", "status-503+retry-after-9", 503, Some("9")),
        ("vendor-openai-model", "status-500", 502, None),
        ("status-401", "status-500", 502, None),
        (
            "vendor-openai-quota",
            "status-529+retry-after-3",
            503,
            Some("3"),
        ),
        ("vendor-openai-model", "status-401", 502, None),
        ("status-429", "vendor-anthropic-context", 400, None),
        ("status-503", "status-422", 422, None),
    ];
    let mut asked = Vec::new();
    for (number, (a, b, status, wait)) in cases.into_iter().enumerate() {
        for (order, (first, second)) in [(a, b), (b, a)].into_iter().enumerate() {
            let name = format!("case-{number}-{order}");
            let mut deployments = Vec::new();
            for (priority, orders) in [first, second].into_iter().enumerate() {
                let at = format!("{name}-{priority}");
                config = config.provider(&at, support::provider(provider.address));
                deployments.push(json!({
                    "provider": at, "upstream_model": format!("sim-{orders}"), "priority": priority,
                }));
            }
            config = config.model(&name, json!(deployments));
            asked.push((name, format!("{first}, {second}"), status, wait));
        }
    }
    let gateway = Gateway::start(config).await;
    for (name, what, status, wait) in asked {
        let answer = gateway.ask(CHAT, &name, "", json!({})).await;
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        if wait.is_some() {
            assert_eq!(answer.header("retry-after"), wait, "{what}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn an_only_candidate_is_asked_again_once_and_not_before_its_retry_after() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("failover", json!({"pause": "100ms"}))
        .model("half", json!(["sim/sim-fail-rate-50+status-503"]))
        .model("wants", json!(["sim/sim-status-503+retry-after-1"]))
        .model("busy", json!(["sim/sim-status-503+retry-after-60"]));
    let gateway = Gateway::start(config).await;
    // Of two attempts in turn one fails.
    for _ in 0..6 {
        gateway.ask(CHAT, "half", "", json!({})).await.assert_ok();
    }
    let begun = Instant::now();
    let answer = gateway.ask(CHAT, "wants", "", json!({})).await;
    answer.assert_error(503, "service_unavailable");
    assert_eq!(answer.header("x-attempts"), Some("2"));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let answer = gateway.ask(CHAT, "busy", "", json!({})).await;
    answer.assert_error(503, "service_unavailable");
    assert_eq!(answer.header("x-attempts"), None);
    assert_eq!(answer.header("retry-after"), Some("60"));
}

#[tokio::test]
async fn an_only_candidate_is_asked_again_if_no_other_can_be_asked() {
    let provider = Provider::start().await;
    let busy = json!({"provider": "sim", "upstream_model": "sim-status-503", "priority": 1});
    let mut messages_alone = support::provider(provider.address);
    messages_alone["formats"] = json!(["messages"]);
    let config = Config::of(&provider)
        .with("failover", json!({"pause": "10ms"}))
        .with("routing.health", json!({"enabled": false}))
        .provider("nowhere", support::provider_at("http://nowhere.invalid:81"))
        .provider("messages", messages_alone)
        .model("before", json!(["nowhere", busy]))
        .model(
            "behind",
            json!([busy, {"provider": "nowhere", "priority": 2}]),
        )
        .model(
            "unfit",
            json!([busy, {"provider": "messages", "priority": 2}]),
        );
    let gateway = Gateway::start(config).await;
    for model in ["before", "behind", "unfit"] {
        // A provider of messages gives one answer.
        let answer = gateway.ask(CHAT, model, "", json!({"n": 2})).await;
        answer.assert_error(503, "service_unavailable");
        assert_eq!(
            answer.header("x-attempts"),
            Some("2"),
            "{model}: {answer:?}"
        );
    }
    assert_eq!(provider.received().len(), 6);
}
