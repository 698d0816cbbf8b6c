//! What operators see and do: metrics, health, the access log, signals, and files that are
//! wrong.

use crate::support::{
    self, AT_ONCE, Authority, CHAT, Config, Ending, FORMATS, Gateway, MESSAGES, Output, Ports,
    Provider, Request, bounded, eventually, prompt, tollgate,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixDatagram};

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

#[tokio::test]
async fn metrics_have_labels_of_the_configuration_alone() {
    let (_provider, gateway) = gateway().await;
    for _ in 0..3 {
        gateway
            .ask(CHAT, "test-model", "", json!({}))
            .await
            .assert_ok();
    }
    gateway
        .ask(MESSAGES, "test-model", "status-429", json!({}))
        .await;
    for number in 0..20 {
        let name = format!("made-up-{number}");
        gateway
            .ask(CHAT, &name, "", json!({}))
            .await
            .assert_error(404, "invalid_model");
        gateway
            .get(&format!("/made-up-{number}"))
            .await
            .assert_error(404, "not_found");
    }
    for (sample, value) in [
        (
            r#"tollgate_requests_total{code="",format="chat",model="test-model",provider="sim",status="200"}"#,
            3.0,
        ),
        (
            r#"tollgate_requests_total{code="rate_limit_exceeded",format="messages",model="test-model",provider="sim",status="429"}"#,
            1.0,
        ),
        (
            r#"tollgate_requests_total{code="invalid_model",format="chat",model="",provider="",status="404"}"#,
            20.0,
        ),
        (
            r#"tollgate_upstream_faults_total{class="rate_limit",provider="sim"}"#,
            1.0,
        ),
        (
            r#"tollgate_request_duration_seconds_count{format="chat",model="test-model",provider="sim"}"#,
            3.0,
        ),
        (
            r#"tollgate_time_to_first_byte_seconds_count{format="chat",model="test-model",provider="sim"}"#,
            3.0,
        ),
        ("tollgate_requests_in_flight", 0.0),
        ("tollgate_streams_open", 0.0),
        ("tollgate_request_body_bytes", 0.0),
    ] {
        gateway.sample_is(sample, value).await;
    }
    let page = gateway.operator("/metrics").await;
    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
    assert!(!page.text().contains("made-up"), "{}", page.text());
    assert!(!page.text().contains(&gateway.key));
}

#[tokio::test]
async fn counters_are_there_before_the_first_request() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with(
        "auto",
        json!({"family": "test", "candidates": ["test-model"]}),
    );
    let gateway = Gateway::start(config).await;
    for sample in [
        r#"tollgate_requests_total{code="",format="none",model="",provider="sim",status="200"}"#,
        r#"tollgate_requests_total{code="upstream_error",format="none",model="",provider="sim",status="502"}"#,
        r#"tollgate_requests_total{code="upstream_error",format="none",model="",provider="sim",status="200"}"#,
        r#"tollgate_requests_total{code="invalid_model",format="chat",model="",provider="",status="404"}"#,
        r#"tollgate_tokens_total{format="none",kind="cache_write",model="",provider="sim"}"#,
        r#"tollgate_reasoning_tokens_total{format="none",model="",provider="sim"}"#,
        r#"tollgate_upstream_faults_total{class="rate_limit",provider="sim"}"#,
        r#"tollgate_upstream_faults_total{class="context_length",provider="sim"}"#,
        r#"tollgate_breaker_opened_total{credential="",deployment="",provider="sim",scope="provider"}"#,
        r#"tollgate_auto_choices_total{model="test-model",profile="auto",why="default"}"#,
        r#"tollgate_configuration_reloads_total{outcome="failed"}"#,
        r#"tollgate_token_counts_total{source="local"}"#,
        r#"tollgate_requests_shed_total{reason="memory"}"#,
        r#"tollgate_connections_refused_total{reason="proxy_header"}"#,
        r#"tollgate_heads_refused_total{reason="framing"}"#,
    ] {
        assert_eq!(gateway.sample(sample).await, Some(0.0), "{sample}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let build = format!(
        "tollgate_build_info{{arch=\"{}\",os=\"{}\",version=\"{version}\"}}",
        std::env::consts::ARCH,
        std::env::consts::OS,
    );
    assert_eq!(gateway.sample(&build).await, Some(1.0), "{build}");
    for sample in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(gateway.sample(sample).await > Some(0.0), "{sample}");
    }
}

#[tokio::test]
async fn every_token_is_counted_in_one_kind() {
    let (_provider, gateway) = gateway().await;
    let said = "word ".repeat(4000);
    let body = json!({
        "model": "test-model",
        "reasoning_effort": "high",
        "messages": [
            {"role": "user", "content": said},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "Go on."},
        ],
    });
    let answer = gateway.post(CHAT, &body).await;
    answer.assert_ok();
    let usage = &answer.json()["usage"];
    let count = |pointer| {
        let count = usage.pointer(pointer).and_then(Value::as_f64);
        count
            .filter(|it| *it > 0.0)
            .unwrap_or_else(|| panic!("no {pointer}: {usage}"))
    };
    let cached = count("/prompt_tokens_details/cached_tokens");
    let kinds = [
        ("input", count("/prompt_tokens") - cached),
        ("cache_read", cached),
        ("cache_write", 0.0),
        ("output", count("/completion_tokens")),
    ];
    for (kind, tokens) in kinds {
        let sample = format!(
            r#"tollgate_tokens_total{{format="chat",kind="{kind}",model="test-model",provider="sim"}}"#
        );
        gateway.sample_is(&sample, tokens).await;
    }
    let sum = gateway.total("tollgate_tokens_total").await;
    assert_eq!(sum, count("/total_tokens"), "{usage}");
    gateway
        .sample_is(
            r#"tollgate_reasoning_tokens_total{format="chat",model="test-model",provider="sim"}"#,
            count("/completion_tokens_details/reasoning_tokens"),
        )
        .await;
}

#[tokio::test]
async fn open_streams_are_counted_while_they_are_open() {
    let (_provider, gateway) = gateway().await;
    let body = prompt(
        CHAT,
        "test-model",
        "one two three four five",
        json!({"stream": true}),
    );
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("stall-after-4");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    connection.read_until(b"data: ").await;
    gateway.sample_is("tollgate_streams_open", 1.0).await;
    gateway.sample_is("tollgate_requests_in_flight", 1.0).await;
    drop(connection);
    gateway.sample_is("tollgate_streams_open", 0.0).await;
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
}

#[tokio::test]
async fn health_is_for_operators_alone() {
    let (_provider, gateway) = gateway().await;
    for page in ["/healthz", "/readyz"] {
        assert_eq!(gateway.operator(page).await.status, 200);
        gateway.get(page).await.assert_error(404, "not_found");
    }
    assert_eq!(gateway.operator("/v1").await.status, 404);
}

#[tokio::test]
async fn silent_connections_of_operators_block_no_others() {
    const FAR_TOO_MANY: usize = 400;
    let (_provider, gateway) = gateway().await;
    let mut idle = Vec::new();
    for _ in 0..FAR_TOO_MANY {
        idle.push(bounded("a connection", TcpStream::connect(gateway.admin)).await);
    }
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    // The first one was closed, and the last one is served.
    let mut last = idle.pop().unwrap().unwrap();
    let mut first = idle.swap_remove(0).unwrap();
    let read = bounded("the end of a connection", first.read(&mut [0])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let request = Request::get("/healthz");
    last.write_all(&request.bytes()).await.unwrap();
    let answer = support::Connection::over(last).answer(&request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn every_request_leaves_one_line_that_says_what_matters_and_no_secret() {
    let (_provider, gateway) = gateway().await;
    for path in FORMATS {
        for more in [json!({}), json!({"stream": true})] {
            gateway.ask(path, "test-model", "", more).await.assert_ok();
        }
    }
    let refused = Request::get("/v1").key("sk-somebodys-secret");
    let refused = gateway.send(&refused).await;
    let id = refused.header("x-request-id").unwrap();
    let line = gateway.access_line(|line| line["id"] == id).await;
    for (field, value) in [
        ("method", json!("GET")),
        ("path", json!("/v1")),
        ("status", json!(401)),
        ("code", json!("invalid_api_key")),
        ("outcome", json!("rejected")),
        ("attempts", json!(0)),
        ("key", Value::Null),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }

    let answer = gateway
        .ask(MESSAGES, "test-model", "", json!({"stream": true}))
        .await;
    let id = answer.header("x-request-id").unwrap();
    let line = gateway.access_line(|line| line["id"] == id).await;
    for (field, value) in [
        ("method", json!("POST")),
        ("path", json!(MESSAGES)),
        ("format", json!("messages")),
        ("model_asked", json!("test-model")),
        ("model", json!("test-model")),
        ("provider", json!("sim")),
        ("status", json!(200)),
        ("code", Value::Null),
        ("outcome", json!("completed")),
        ("stream", json!(true)),
        ("attempts", json!(1)),
        ("answer_bytes", json!(answer.body().len())),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }
    assert!(
        line["key"]
            .as_str()
            .is_some_and(|key| key.starts_with("key_")),
        "{line}"
    );
    assert!(
        line["usage"]["output"].as_u64().is_some_and(|it| it > 0),
        "{line}"
    );
    assert!(
        line["duration_ms"].as_f64() >= line["first_byte_ms"].as_f64(),
        "{line}"
    );

    let output = gateway.output();
    for secret in [
        &*gateway.key,
        "somebodys-secret",
        "credential-of-the-provider",
        "pepper-of-the-tests",
    ] {
        assert!(!output.contains(secret), "{secret}: {output}");
    }
}

#[tokio::test]
async fn a_providers_failure_is_logged_without_its_text() {
    let (_provider, gateway) = gateway().await;
    let answer = gateway
        .ask(CHAT, "test-model", "vendor-openai-auth", json!({}))
        .await;
    let id = answer.header("x-request-id").unwrap();
    let line = gateway.log_line(id).await;
    for word in ["sim", "credential", "401", "invalid_api_key"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert!(!gateway.output().contains("Incorrect API key"));
}

#[tokio::test]
async fn a_stop_lets_a_stream_end_and_then_is_prompt() {
    let (provider, mut gateway) = gateway().await;
    let said = "one two three four five six seven eight nine ten";
    let body = prompt(CHAT, "test-model", said, json!({"stream": true}));
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("chunk-delay-60ms");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let mut answer = connection.head().await;
    gateway.signal("TERM").await;
    let draining = async || (gateway.operator("/readyz").await.status == 503).then_some(());
    eventually("it is not ready any more", draining).await;
    assert_eq!(gateway.operator("/healthz").await.status, 200);
    connection.read_body(&mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");
    let over = Instant::now();
    let status = gateway.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(over.elapsed() < AT_ONCE, "{:?}", over.elapsed());
    assert_eq!(provider.handle.counters().left_early, 0);
    let line = gateway.access_line(|line| line["path"] == CHAT).await;
    assert_eq!(line["outcome"], "completed", "{line}");
}

#[tokio::test]
async fn a_stop_without_requests_is_immediate() {
    for signal in ["TERM", "INT"] {
        let (_provider, mut gateway) = gateway().await;
        let mut idle = gateway.connect().await;
        idle.send(&Request::get("/v1").key(&gateway.key))
            .await
            .assert_ok();
        let begun = Instant::now();
        gateway.signal(signal).await;
        assert_eq!(gateway.ended().await.code(), Some(0), "{signal}");
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        let again = tokio::net::TcpListener::bind(gateway.address).await;
        assert!(again.is_ok(), "the port is free again: {again:?}");
    }
}

#[tokio::test]
async fn a_stream_that_outlasts_the_grace_is_cut() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.shutdown.grace", json!("1s"));
    let mut gateway = Gateway::start(config).await;
    let body = prompt(
        CHAT,
        "test-model",
        "one two three four",
        json!({"stream": true}),
    );
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("stall-after-4");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    connection.read_until(b"data: ").await;
    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    gateway.log_line("1 requests were cut").await;
}

#[tokio::test]
async fn a_reload_takes_a_changed_catalog_and_a_bad_file_changes_nothing() {
    let (provider, gateway) = gateway().await;
    // A request that began before keeps what it began with.
    let body = prompt(
        CHAT,
        "test-model",
        "one two three four",
        json!({"stream": true}),
    );
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("chunk-delay-50ms");
    let mut open = gateway.connect().await;
    open.write(&request.bytes()).await;
    let mut answer = open.head().await;

    let changed = Config::new()
        .provider("sim", support::provider(provider.address))
        .model("new-model", json!(["sim"]));
    gateway.rewrite(changed);
    gateway.signal("HUP").await;
    gateway.log_line("was reloaded").await;
    gateway
        .ask(CHAT, "new-model", "", json!({}))
        .await
        .assert_ok();
    let gone = gateway.ask(CHAT, "test-model", "", json!({})).await;
    gone.assert_error(404, "invalid_model");
    open.read_body(&mut answer).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");

    for (bad, reported) in [
        ("providers: [", "configuration is unchanged"),
        ("surprise: true\n", "surprise"),
        // As it is while an editor writes it.
        ("keys: { pepper: env:TOLLGATE_PEPPER }\n", "serves no model"),
        ("models:\n  x: { family: nothing }\n", "models.x"),
    ] {
        gateway.rewrite_text(bad);
        gateway.signal("HUP").await;
        gateway.log_line(reported).await;
    }
    gateway
        .ask(CHAT, "new-model", "", json!({}))
        .await
        .assert_ok();
    assert_eq!(gateway.operator("/readyz").await.status, 200);
}

/// Runs `tollgate serve` on a configuration that cannot work.
async fn failed_start(config: &Config) -> Output {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    Output::of(tollgate().args(["serve", "--config"]).arg(file)).await
}

#[tokio::test]
async fn a_port_in_use_is_reported_and_nothing_starts() {
    let (provider, gateway) = gateway().await;
    let free = Ports::free();
    for ports in [
        Ports {
            callers: gateway.address,
            ..free
        },
        Ports {
            operators: gateway.admin,
            ..free
        },
    ] {
        let taken = if ports.callers == gateway.address {
            ports.callers
        } else {
            ports.operators
        };
        let output = failed_start(&Config::of(&provider).on(ports)).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let expected = format!("cannot listen on {taken}");
        assert!(output.stderr.contains(&expected), "{output:?}");
        assert!(!output.stderr.contains("panic"), "{output:?}");
    }
}

#[tokio::test]
async fn a_start_that_fails_makes_no_ledger() {
    let provider = Provider::start().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = Ports {
        callers: taken.local_addr().unwrap(),
        ..Ports::free()
    };
    let config = Config::of(&provider).on(ports);
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    let mut serve = tollgate();
    serve.arg("serve").arg("--config").arg(&file);
    let failed = Output::of(&mut serve).await;
    assert!(failed.stderr.contains("cannot listen on"), "{failed:?}");
    assert!(!folder.path().join("tollgate.db").exists());
}

#[tokio::test]
async fn missing_files_are_reported_at_the_start_with_their_place() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).on(Ports::free());
    let tls = json!({"certificate": "none.crt", "key": "none.key"});
    let mut no_certificate = config.clone();
    no_certificate.0["server"]["listen"][0]["tls"] = tls;
    for (config, words) in [
        (
            config.clone().with("keys.pepper", json!("env:NOT_SET")),
            &["keys.pepper", "NOT_SET"][..],
        ),
        (
            config.clone().with("keys.pepper", json!("literal:short")),
            &[
                "keys.pepper",
                "at least 32 characters",
                "openssl rand -hex 32",
            ],
        ),
        (
            config
                .clone()
                .with("providers.sim.credentials", json!(["env:NOT_SET"])),
            &["providers.sim.credentials", "NOT_SET"],
        ),
        (
            config.with("store.path", json!("/proc/nowhere/tollgate.db")),
            &["/proc/nowhere"],
        ),
        (no_certificate, &["none.crt"]),
    ] {
        let output = failed_start(&config).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        for word in words {
            assert!(output.stderr.contains(word), "{word}: {output:?}");
        }
    }
}

/// Runs `tollgate check` with every variable set that the file names.
async fn check(file: &Path) -> Output {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut command = tollgate();
    for rest in text.split("env:").skip(1) {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name = rest.split(|letter| !is_name(letter)).next().unwrap();
        command.env(name, "any-value-that-is-long-enough-for-all");
    }
    Output::of(command.arg("check").arg(file)).await
}

#[tokio::test]
async fn every_example_passes_its_check() {
    let home = tempfile::TempDir::new().unwrap();
    // Beside it is the folder of the demo's ledger, as in the repository.
    let folder = home.path().join("conf");
    for folder in [&folder, &home.path().join(".demo")] {
        std::fs::create_dir(folder).unwrap();
    }
    let authority = Authority::new();
    authority.issue("models.example.com").write(&folder, "tls");
    std::fs::write(folder.join("internal-ca.crt"), authority.pem()).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf");
    let mut copies = Vec::new();
    for example in std::fs::read_dir(examples).unwrap() {
        let example = example.unwrap().path();
        // The files of providers are included by others; their own tests boot them.
        if example.is_dir() {
            continue;
        }
        let copy = folder.join(example.file_name().unwrap());
        let text = std::fs::read_to_string(&example).unwrap();
        let here = folder.display().to_string();
        let text = text.replace("/etc/tollgate", &here);
        let text = text.replace("/var/lib/tollgate", &here);
        std::fs::write(&copy, text).unwrap();
        // The catalog serves nothing by itself: others include it.
        let is_whole = copy.extension().unwrap() == "yaml" && !copy.ends_with("catalog.yaml");
        copies.extend(is_whole.then_some(copy));
    }
    assert!(copies.len() > 5, "{copies:?}");
    for file in copies {
        let output = check(&file).await;
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.contains("no fault"), "{output:?}");
    }
}

#[tokio::test]
async fn all_faults_of_a_file_are_reported_with_their_places() {
    let folder = tempfile::TempDir::new().unwrap();
    let bad = folder.path().join("bad.yaml");
    let text = "server:\n  threads: 0\nprovidrs: {}\nmodels:\n  a: { famly: nothing }\n";
    std::fs::write(&bad, text).unwrap();
    let output = check(&bad).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for word in [
        "bad.yaml:2",
        "server.threads",
        "bad.yaml:3",
        "providrs",
        "bad.yaml:5",
        "famly",
    ] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    let missing = check(&folder.path().join("missing.yaml")).await;
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(missing.stderr.contains("missing.yaml"), "{missing:?}");
}

#[tokio::test]
async fn a_burst_of_callers_is_served_to_the_last() {
    const CALLERS: usize = 60;
    let (provider, gateway) = gateway().await;
    let body = prompt(CHAT, "test-model", "Hello!", json!({"stream": true}));
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("delay-50ms");
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (address, request) = (gateway.address, request.clone());
        callers.spawn(async move {
            support::Connection::open(address)
                .await
                .send(&request)
                .await
                .assert_ok();
        });
    }
    bounded("all callers", callers.join_all()).await;
    assert_eq!(provider.handle.counters().requests, CALLERS as u64);
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
}

#[tokio::test]
async fn the_access_log_follows_a_rotated_file_and_has_the_form_of_web_servers_if_asked() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with(
        "log",
        json!({"access_file": "access.log", "access_format": "common"}),
    );
    let gateway = Gateway::start(config).await;
    let (file, old) = ["access.log", "access.log.1"]
        .map(|name| gateway.folder.path().join(name))
        .into();
    let line = async |answers: usize| {
        eventually("a line of the access log", async || {
            let text = std::fs::read_to_string(&file).ok()?;
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            (lines.len() == answers).then(|| lines.last().cloned())?
        })
        .await
    };
    let send = async || {
        let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
        answer.assert_ok();
        answer.body().len()
    };
    let bytes = send().await;
    let first = line(1).await;
    assert!(first.starts_with("127.0.0.1 - key_"), "{first}");
    let end = format!("] \"POST {CHAT} HTTP/1.1\" 200 {bytes}");
    assert!(first.ends_with(&end), "{first}");
    std::fs::rename(&file, &old).unwrap();
    gateway.signal("USR1").await;
    send().await;
    line(1).await;
    let kept = std::fs::read_to_string(old).unwrap();
    assert_eq!(kept.lines().collect::<Vec<_>>(), [first]);
}

#[tokio::test]
async fn the_journal_gets_an_entry_with_fields_for_each_request_also_after_its_restart() {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("journal");
    let journal = UnixDatagram::bind(&socket).unwrap();
    let log = json!({"access": "journald", "journal_socket": "journal"});
    let config = Config::of(&provider).with("log", log);
    let gateway = Gateway::start_in(folder, config).await;
    let entry = async |journal: &UnixDatagram| {
        let mut buffer = vec![0; 65_536];
        let size = bounded("an entry", journal.recv(&mut buffer)).await;
        buffer.truncate(size.unwrap());
        String::from_utf8(buffer).unwrap()
    };
    let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
    answer.assert_ok();
    let id = answer.header("x-request-id").unwrap();
    let fields = entry(&journal).await;
    let (message, fields) = fields.split_once('\n').unwrap();
    let line: Value = serde_json::from_str(message.strip_prefix("MESSAGE=").unwrap()).unwrap();
    let fields: Vec<_> = fields.lines().collect();
    for field in [
        "PRIORITY=6".to_owned(),
        "SYSLOG_IDENTIFIER=tollgate".to_owned(),
        format!("TOLLGATE_ID={id}"),
        "TOLLGATE_MODEL=test-model".to_owned(),
        "TOLLGATE_STATUS=200".to_owned(),
        format!("TOLLGATE_USAGE_OUTPUT={}", line["usage"]["output"]),
    ] {
        assert!(fields.contains(&&*field), "{field}: {fields:#?}");
    }
    assert!(!fields.concat().contains("TOLLGATE_CODE"), "{fields:#?}");

    let lost = "tollgate_access_lines_lost_total";
    assert_eq!(gateway.sample(lost).await, Some(0.0));
    drop(journal);
    gateway.ask(CHAT, "test-model", "", json!({})).await;
    gateway.sample_is(lost, 1.0).await;
    std::fs::remove_file(&socket).unwrap();
    let journal = UnixDatagram::bind(&socket).unwrap();
    gateway
        .ask(CHAT, "test-model", "status-500", json!({}))
        .await;
    let fields = entry(&journal).await;
    for field in ["PRIORITY=4", "TOLLGATE_CODE=upstream_error"] {
        assert!(fields.lines().any(|it| it == field), "{field}: {fields}");
    }
    assert!(!gateway.output().contains("TOLLGATE_"));
}

#[tokio::test]
async fn an_access_log_that_cannot_be_opened_is_named_at_the_start() {
    for (log, expected) in [
        (
            json!({"access_file": "missing/access.log"}),
            "log.access_file: missing/access.log: No such file",
        ),
        (
            json!({"access": "journald", "journal_socket": "missing"}),
            "log.journal_socket: missing: No such file",
        ),
    ] {
        let folder = TempDir::new().unwrap();
        let config = Config::of(&Provider::start().await)
            .with("log", log)
            .on(Ports::free());
        std::fs::write(folder.path().join("tollgate.yaml"), config.0.to_string()).unwrap();
        let mut serve = tollgate();
        let output = Output::of(serve.arg("serve").current_dir(&folder)).await;
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    }
}
