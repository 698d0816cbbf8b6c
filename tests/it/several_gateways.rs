//! Gateways on several machines that share one PostgreSQL database.

use crate::conversations::{turn, who};
use crate::support::{
    Answer, CHAT, Config, Gateway, Output, Postgres, Provider, RESPONSES, Request, SlowLink,
    eventually, prompt, tollgate,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TERM: Duration = Duration::from_secs(6);

/// The settings of a store on this server. Each gateway has a folder of its own.
fn config(server: &Postgres, folder: &TempDir, provider: &Provider) -> Config {
    let url = server.url(Postgres::PASSWORD, "tollgate");
    std::fs::write(folder.path().join("url"), url).unwrap();
    let store = json!({
        "path": "ledger",
        "postgres": {"url": "file:url", "ca": server.ca(), "lease_term": "6s"},
    });
    Config::of(provider).with("store", store)
}

async fn run(config: &Config, arguments: &[&str], folder: &TempDir) -> Output {
    let file = folder.path().join("command.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    Output::of(tollgate().args(arguments).arg("--config").arg(file)).await
}

async fn migrated() -> Option<Postgres> {
    let server = Postgres::start()?;
    let (folder, provider) = (TempDir::new().unwrap(), Provider::start().await);
    let config = config(&server, &folder, &provider);
    let done = run(&config, &["ledger", "migrate"], &folder).await;
    assert!(done.status.success(), "{done:?}");
    Some(server)
}

async fn start(server: &Postgres, provider: &Provider) -> Gateway {
    let folder = TempDir::new().unwrap();
    let config = config(server, &folder, provider);
    let small = json!({"tokens": 2000, "validity": "1d"});
    Gateway::start_in(folder, config.with("plans.small", small)).await
}

async fn ask(gateway: &Gateway, key: &str, most: u64) -> Answer {
    let body = prompt(CHAT, "test-model", "Hi", json!({"max_tokens": most}));
    gateway.send(&Request::post(CHAT, &body).key(key)).await
}

async fn usage(gateway: &Gateway, key: &str) -> Value {
    let page = Request::get("/v1/usage").key(key);
    gateway.send(&page).await.json()
}

#[tokio::test]
async fn a_key_works_on_every_gateway_and_its_balance_is_spent_once() {
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let (one, two) = (
        start(&server, &provider).await,
        start(&server, &provider).await,
    );
    let key = one.create_key(&["--plan", "small"]).await;
    let mut charged = 0;
    let mut refused = 0;
    // Each gateway spends until no token is left for either.
    for number in 0..400 {
        let gateway = if number % 2 == 0 { &one } else { &two };
        let answer = ask(gateway, &key, 20).await;
        match answer.status {
            200 => charged += gateway.line_of(&answer).await["charged"].as_u64().unwrap(),
            402 => refused += 1,
            // The last tokens are on their way from one to the other.
            429 | 503 => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            other => panic!("{other}: {answer:?}"),
        }
        if refused > 6 {
            break;
        }
    }
    assert!(refused > 6, "{charged}");
    for gateway in [&one, &two] {
        let seen = eventually("the charges", async || {
            let usage = usage(gateway, &key).await;
            (usage["tokens"]["used"] == charged).then_some(usage)
        });
        assert_eq!(seen.await["tokens"]["granted"], 2000);
    }
    assert!((1900..=2000).contains(&charged), "{charged}");
    // Revoking reaches the other gateway.
    let output = two.keys(&["revoke", &key]).await;
    assert!(output.status.success(), "{output:?}");
    for gateway in [&one, &two] {
        eventually("the revocation", async || {
            (ask(gateway, &key, 20).await.status == 401).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_request_is_found_in_the_database() {
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let gateway = start(&server, &provider).await;
    let key = gateway.create_key(&["--plan", "small"]).await;
    let answer = ask(&gateway, &key, 20).await;
    answer.assert_ok();
    let id = answer.header("x-request-id").unwrap();
    // A folder of its own: no ledger file is there.
    let folder = TempDir::new().unwrap();
    let config = config(&server, &folder, &provider);
    let found = async || {
        let output = run(&config, &["logs", "--request", id, "--json"], &folder).await;
        let found: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        assert!(!output.stderr.contains("there is no ledger"), "{output:?}");
        (found["record"]["id"] == *id).then_some(())
    };
    eventually("the record in the database", found).await;
    let unknown = format!("req_{}", "0".repeat(26));
    let output = run(&config, &["logs", "--request", &unknown], &folder).await;
    let wanted = "is not in the database of store.postgres";
    assert!(output.stderr.contains(wanted), "{output:?}");
}

/// How long it takes after `begun` until the gateway answers with this status.
async fn until(gateway: &Gateway, key: &str, status: u16) -> Duration {
    let begun = Instant::now();
    eventually("another answer", async || {
        (ask(gateway, key, 20).await.status == status).then_some(())
    })
    .await;
    begun.elapsed()
}

#[tokio::test]
async fn a_change_of_a_key_reaches_the_other_gateway_within_a_second() {
    const SECOND: Duration = Duration::from_secs(1);
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let (one, two) = (
        start(&server, &provider).await,
        start(&server, &provider).await,
    );
    let key = one.create_key(&["--plan", "small"]).await;
    ask(&one, &key, 20).await.assert_ok();
    // All of it is spent or leased at the other gateway.
    let spent = eventually("an empty balance", async || {
        let answer = ask(&one, &key, 20).await;
        (answer.status == 402).then_some(answer)
    });
    spent.await.assert_error(402, "quota_exhausted");
    let change = async |arguments: &[&str], status| {
        let output = two.keys(arguments).await;
        assert!(output.status.success(), "{output:?}");
        let took = until(&one, &key, status).await;
        assert!(took < SECOND, "{arguments:?}: {took:?}");
    };
    change(&["top-up", &key, "--tokens", "100000", "--days", "1"], 200).await;
    change(&["set-limits", &key, "--requests", "1"], 429).await;
    change(&["set-limits", &key, "--requests", "1000"], 200).await;
    change(&["revoke", &key], 401).await;
    let waits = one.sample("tollgate_ledger_lease_waits_total").await;
    assert!(waits.is_some_and(|it| it < 10.0), "{waits:?}");
}

#[tokio::test]
async fn a_budget_of_money_is_spent_once_on_all_gateways() {
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let mut gateways = Vec::new();
    for _ in 0..2 {
        let folder = TempDir::new().unwrap();
        let config = config(&server, &folder, &provider)
            .with("plans.small", json!({"money": "2.00", "validity": "1d"}))
            .with(
                "models.test-model.price",
                json!({"input": 1000, "output": 1000}),
            );
        gateways.push(Gateway::start_in(folder, config).await);
    }
    let key = gateways[0].create_key(&["--plan", "small"]).await;
    // In thousandths: a token costs one.
    let (mut charged, mut refused) = (0, 0);
    for number in 0..400 {
        let gateway = &gateways[number % 2];
        let answer = ask(gateway, &key, 20).await;
        match answer.status {
            200 => {
                let usage = &gateway.line_of(&answer).await["usage"];
                let used = |kind: &str| usage[kind].as_u64().unwrap();
                charged += used("input") + used("output");
            }
            402 => refused += 1,
            429 | 503 => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            other => panic!("{other}: {answer:?}"),
        }
        if refused > 6 {
            break;
        }
    }
    assert!(refused > 6, "{charged}");
    assert!((1900..=2000).contains(&charged), "{charged}");
    let money = |thousandths: u64| {
        let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        text.to_owned()
    };
    for gateway in &gateways {
        eventually("the charges", async || {
            let usage = usage(gateway, &key).await;
            (usage["money"]["used"] == money(charged)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_gateway_that_is_killed_loses_no_charge_and_leaves_its_tokens_to_the_others() {
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let (one, two) = (
        start(&server, &provider).await,
        start(&server, &provider).await,
    );
    let key = one.create_key(&["--plan", "small"]).await;
    let first = ask(&one, &key, 20).await;
    first.assert_ok();
    let charged = one.line_of(&first).await["charged"].as_u64().unwrap();
    let own = one.config();
    let folder = one.killed().await;
    // A part of the balance was leased there.
    let begun = Instant::now();
    let rest = eventually("the tokens of the other", async || {
        let answer = ask(&two, &key, 1500).await;
        (answer.status == 200).then_some(answer)
    });
    let rest = rest.await;
    assert!(begun.elapsed() < 3 * TERM, "{:?}", begun.elapsed());
    let charged = charged + two.line_of(&rest).await["charged"].as_u64().unwrap();
    let again = Gateway::start_in(folder, own).await;
    for gateway in [&again, &two] {
        eventually("all charges", async || {
            // What no token was left for is charged beyond the balance.
            let page = Request::get("/v1/usage/history").key(&key);
            let page = gateway.send(&page).await.json();
            let records = page["data"].as_array().unwrap().iter();
            let sum: u64 = records.map(|it| it["charged"].as_u64().unwrap()).sum();
            (sum == charged).then_some(())
        })
        .await;
    }
    let folder = TempDir::new().unwrap();
    let verified = run(
        &config(&server, &folder, &provider),
        &["ledger", "verify"],
        &folder,
    )
    .await;
    assert!(verified.status.success(), "{verified:?}");
}

/// Waits until all charges are in the database.
async fn committed(gateway: &Gateway) {
    gateway
        .sample_is("tollgate_ledger_open_requests", 0.0)
        .await;
}

/// Makes a key stay in memory.
async fn is_known(gateway: &Gateway, key: &str) {
    ask(gateway, key, 20).await.assert_ok();
    // The first charge begins the time of the grant: a change, after which the key is read again.
    committed(gateway).await;
    // An announced change arrives within half a second.
    tokio::time::sleep(Duration::from_millis(500)).await;
    ask(gateway, key, 20).await.assert_ok();
}

/// How many answers are on record, of how many requests, and what they charged.
fn on_record(server: &Postgres) -> [u64; 3] {
    let records = "SELECT count(*), count(DISTINCT request), coalesce(sum(charged), 0) FROM usage
                   WHERE status = 200";
    let row = server.sql_in("tollgate", records);
    let mut numbers = row.split('|').map(|number| number.parse().unwrap());
    [(); 3].map(|()| numbers.next().unwrap())
}

#[tokio::test]
async fn without_the_database_leased_tokens_are_spent_for_half_of_the_term() {
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let gateway = start(&server, &provider).await;
    let (key, fresh) = (gateway.key.clone(), gateway.create_key(&[]).await);
    is_known(&gateway, &key).await;
    server.admit(false);
    let begun = Instant::now();
    ask(&gateway, &key, 20).await.assert_ok();
    let refused = eventually("an end", async || {
        let answer = ask(&gateway, &key, 20).await;
        (answer.status != 200).then_some(answer)
    });
    let refused = refused.await;
    assert!(begun.elapsed() < TERM, "{:?}", begun.elapsed());
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    // A key that is not in memory may be valid.
    let unknown = ask(&gateway, &fresh, 20).await;
    assert_eq!(unknown.status, 503, "{unknown:?}");
    server.admit(true);
    eventually("an answer", async || {
        (ask(&gateway, &key, 20).await.status == 200).then_some(())
    })
    .await;
    let lines = gateway
        .sample("tollgate_ledger_late_settlements_total")
        .await;
    assert_eq!(lines, Some(0.0));
}

/// Two seconds for each statement: a commit takes longer than a gateway waits for a renewal.
#[tokio::test]
async fn a_slow_database_delays_charges_and_no_request_of_a_known_key() {
    const A_STATEMENT: Duration = Duration::from_secs(2);
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let link = SlowLink::to(server.address()).await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("url"), server.url_through(link.address)).unwrap();
    let store = json!({"path": "ledger", "postgres": {"url": "file:url", "tls": false, "lease_term": "30s"}});
    let gateway = Gateway::start_in(folder, Config::of(&provider).with("store", store)).await;
    let (key, fresh) = (gateway.key.clone(), gateway.create_key(&[]).await);
    // Its bound decides how much is leased.
    let asked = async || {
        let begun = Instant::now();
        let answer = ask(&gateway, &key, 20_000).await;
        answer.assert_ok();
        (begun.elapsed(), answer)
    };
    is_known(&gateway, &key).await;
    asked().await;
    committed(&gateway).await;
    let before = on_record(&server);
    link.delay(A_STATEMENT);
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    let (mut answers, mut unknown) = (Vec::new(), Vec::new());
    while begun.elapsed() < Duration::from_secs(45) {
        let (took, answer) = asked().await;
        longest = longest.max(took);
        answers.push(answer);
        // A key that is not in memory is looked up, and then leases.
        if unknown.len() < 8 && begun.elapsed() > Duration::from_secs(5 * unknown.len() as u64) {
            let begun = Instant::now();
            let answer = ask(&gateway, &fresh, 20).await;
            println!("unknown key: {} after {:?}", answer.status, begun.elapsed());
            assert!(begun.elapsed() < Duration::from_secs(6), "{answer:?}");
            unknown.push(answer);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{} requests, the longest took {longest:?}", answers.len());
    assert!(longest < A_STATEMENT / 2, "{longest:?}");
    let late = gateway.sample("tollgate_ledger_open_requests").await;
    assert!(late.is_some_and(|late| late > 10.0), "{late:?}");
    assert_eq!(unknown[0].status, 503, "{unknown:?}");
    for answer in &unknown {
        assert!([200, 503].contains(&answer.status), "{answer:?}");
        let is_repeatable = answer.header("retry-after").is_some();
        assert_eq!(is_repeatable, answer.status == 503, "{answer:?}");
    }
    link.delay(Duration::ZERO);
    let known = eventually("the unknown key", async || {
        let answer = ask(&gateway, &fresh, 20).await;
        (answer.status == 200).then_some(answer)
    });
    answers.push(known.await);
    answers.extend(unknown.into_iter().filter(|answer| answer.status == 200));
    let mut charged = 0;
    for answer in &answers {
        charged += gateway.line_of(answer).await["charged"].as_u64().unwrap();
    }
    committed(&gateway).await;
    let after = on_record(&server);
    let requests = answers.len() as u64;
    let new: [u64; 3] = std::array::from_fn(|place| after[place] - before[place]);
    assert_eq!(new, [requests, requests, charged]);
    for none in [
        "tollgate_ledger_fenced",
        "tollgate_ledger_late_settlements_total",
    ] {
        assert_eq!(gateway.sample(none).await, Some(0.0), "{none}");
    }
}

/// The server restarts with too few connections for all gateways, then with enough.
#[tokio::test]
async fn gateways_that_reconnect_at_once_keep_their_bounds_and_take_turns() {
    const GATEWAYS: usize = 4;
    // Two for look-ups, and at most six of its own.
    const CONNECTIONS: usize = GATEWAYS * (2 + 6);
    const OF_THE_OWNER: usize = 3;
    const FEW: usize = 8;
    const MOST: u64 = 20_000;
    let Some(mut server) = migrated().await else {
        return;
    };
    let all = CONNECTIONS + OF_THE_OWNER;
    server.sql(&format!("ALTER SYSTEM SET max_connections = {all}"));
    server.sql("ALTER SYSTEM SET log_connections = on");
    server.stop();
    server.start_again();
    let provider = Provider::start().await;
    let mut gateways = Vec::new();
    for _ in 0..GATEWAYS {
        let folder = TempDir::new().unwrap();
        let config = config(&server, &folder, &provider)
            .with("store.postgres.connections", json!(2))
            .with("store.postgres.lease_term", json!("30s"));
        let gateway = Gateway::start_in(folder, config).await;
        let fresh = [gateway.create_key(&[]).await, gateway.create_key(&[]).await];
        gateways.push((gateway, fresh));
    }
    for (gateway, _) in &gateways {
        is_known(gateway, &gateway.key).await;
        // Its bound decides how much is leased.
        ask(gateway, &gateway.key, MOST).await.assert_ok();
        committed(gateway).await;
    }
    let open = |server: &Postgres| {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'tollgate'";
        let open: usize = server.sql(open).parse().unwrap();
        assert!(open <= CONNECTIONS, "{open}");
        open
    };
    let attempts = |server: &Postgres| {
        let log = server.log();
        log.matches("connection received: host=127.0.0.1").count()
    };
    let before = attempts(&server);
    let for_owner = all - FEW;
    server.sql(&format!(
        "ALTER SYSTEM SET superuser_reserved_connections = {for_owner}"
    ));
    server.stop();
    let down = Instant::now();
    while down.elapsed() < Duration::from_secs(1) {
        for (gateway, _) in &gateways {
            ask(gateway, &gateway.key, MOST).await.assert_ok();
        }
    }
    server.start_again();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        assert!(open(&server) <= FEW);
        for (gateway, fresh) in &gateways {
            ask(gateway, &gateway.key, MOST).await.assert_ok();
            let unknown = ask(gateway, &fresh[0], 20).await;
            assert!([200, 503].contains(&unknown.status), "{unknown:?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let tried = attempts(&server) - before;
    println!("{tried} attempts to connect, {} connections", open(&server));
    // Each lost connection is opened again once; then a gateway tries once in half a second or less often.
    assert!(tried <= CONNECTIONS + GATEWAYS * 20, "{tried}");
    server.sql("ALTER SYSTEM RESET superuser_reserved_connections");
    server.stop();
    server.start_again();
    let begun = Instant::now();
    for (gateway, fresh) in &gateways {
        until(gateway, &fresh[1], 200).await;
        committed(gateway).await;
        open(&server);
    }
    let listening =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tollgate changes'";
    eventually("announced changes", async || {
        (server.sql(listening) == GATEWAYS.to_string()).then_some(())
    })
    .await;
    let took = begun.elapsed();
    println!(
        "all work again after {took:?}, with {} connections",
        open(&server)
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
    for (gateway, _) in &gateways {
        assert_eq!(gateway.sample("tollgate_ledger_fenced").await, Some(0.0));
    }
    let folder = TempDir::new().unwrap();
    let verify = config(&server, &folder, &provider);
    let verified = run(&verify, &["ledger", "verify"], &folder).await;
    assert!(verified.status.success(), "{verified:?}");
}

#[tokio::test]
async fn a_ledger_moves_from_a_file_to_the_server_with_its_keys_and_its_history() {
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let small = json!({"tokens": 2000, "validity": "1d"});
    let of_file = Config::of(&provider).with("plans.small", small.clone());
    let mut file = Gateway::start(of_file).await;
    let key = file.create_key(&["--plan", "small"]).await;
    let asked = async |gateway: &Gateway| {
        let answer = ask(gateway, &key, 20).await;
        let line = gateway.line_of(&answer).await;
        (answer.status, line["charged"].as_u64().unwrap())
    };
    let (status, first) = asked(&file).await;
    assert_eq!(status, 200);
    let folder = TempDir::new().unwrap();
    let config = config(&server, &folder, &provider).with("plans.small", small);
    let to = folder.path().join("server.yaml");
    std::fs::write(&to, config.0.to_string()).unwrap();
    let from = file.folder.path().join("tollgate.yaml");
    let copy = async || {
        let mut command = tollgate();
        command.args(["ledger", "copy", "--from"]).arg(&from);
        Output::of(command.arg("--to").arg(&to)).await
    };
    let begun = copy().await;
    assert!(!begun.status.success(), "{begun:?}");
    assert!(begun.stderr.contains("stop all gateways"), "{begun:?}");
    let (status, second) = asked(&file).await;
    assert_eq!(status, 200);
    file.signal("TERM").await;
    assert!(file.ended().await.success());
    let done = copy().await;
    assert!(done.status.success(), "{done:?}");
    assert!(done.stdout.contains("everything adds up"), "{done:?}");
    let gateway = Gateway::start_in(folder, config).await;
    let (status, third) = asked(&gateway).await;
    assert_eq!(status, 200);
    eventually("the charges", async || {
        let used = usage(&gateway, &key).await["tokens"]["used"].as_u64();
        (used == Some(first + second + third)).then_some(())
    })
    .await;
    let again = copy().await;
    assert!(again.stderr.contains("it is in use"), "{again:?}");
}

#[tokio::test]
async fn what_is_wrong_with_the_database_is_said_in_one_line_without_its_password() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (folder, provider) = (TempDir::new().unwrap(), Provider::start().await);
    let config = config(&server, &folder, &provider);
    let check = async |config: &Config| run(config, &["check", "--online"], &folder).await;
    let url = |url: String| std::fs::write(folder.path().join("url"), url).unwrap();
    let expect = |output: Output, words: &str| {
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains(words), "{words}: {output:?}");
        assert!(!output.stderr.contains("password for tests"), "{output:?}");
        let lines = output.stderr.trim().lines();
        let lines = lines.filter(|line| !line.contains("WARN"));
        assert_eq!(lines.count(), 1, "{output:?}");
    };
    expect(check(&config).await, "tollgate ledger migrate");
    let serve = run(&config, &["serve"], &folder).await;
    expect(serve, "tollgate ledger migrate");
    let done = run(&config, &["ledger", "migrate"], &folder).await;
    assert!(done.stdout.contains("steps taken: 1"), "{done:?}");
    let done = run(&config, &["ledger", "migrate"], &folder).await;
    assert!(done.stdout.contains("up to date"), "{done:?}");
    assert!(check(&config).await.status.success());
    url(server.url("another password for tests", "tollgate"));
    expect(check(&config).await, "store.postgres.url");
    url(server.url(Postgres::PASSWORD, "nowhere"));
    expect(check(&config).await, "no such database");
    url("mysql://localhost/x".to_owned());
    expect(check(&config).await, "postgres://");
    url(server.url(Postgres::PASSWORD, "tollgate"));
    let untrusted = config
        .clone()
        .with("store.postgres", json!({"url": "file:url"}));
    expect(check(&untrusted).await, "store.postgres.ca");
    server.admit(false);
    expect(check(&config).await, "not currently accepting connections");
    let short = config
        .clone()
        .with("store.postgres.lease_term", json!("1s"));
    expect(check(&short).await, "at least 5s");
    let short = config.with("store.history", json!("59m"));
    expect(check(&short).await, "store.history");
}

#[tokio::test]
async fn what_a_key_has_made_on_one_gateway_is_there_on_another() {
    let Some(server) = migrated().await else {
        return;
    };
    let provider = Provider::start().await;
    let start = async || {
        let folder = TempDir::new().unwrap();
        let mut of_chat = crate::support::provider(provider.address);
        of_chat["formats"] = json!(["chat"]);
        let config = config(&server, &folder, &provider)
            .provider("chat", of_chat)
            .model("translated", json!(["chat"]));
        Gateway::start_in(folder, config).await
    };
    let (one, two) = (start().await, start().await);
    // The provider stores the first response, and the gateway remembers the second.
    for model in ["test-model", "translated"] {
        let body = json!({"model": model, "input": "Hello!"});
        let made = one.post(RESPONSES, &body).await;
        made.assert_ok();
        let id = made.json()["id"].as_str().unwrap().to_owned();
        let page = Request::get(&format!("{RESPONSES}/{id}"));
        eventually("the response", async || {
            let found = two.send(&page.clone().key(&one.key)).await;
            (found.status == 200).then_some(())
        })
        .await;
        let more = json!({"model": model, "input": "And now?", "previous_response_id": id});
        let next = Request::post(RESPONSES, &more);
        two.send(&next.clone().key(&one.key)).await.assert_ok();
        let foreign = two.send(&next.key(&two.key)).await;
        assert_eq!(foreign.status, 404, "{foreign:?}");
    }
}

#[tokio::test]
async fn a_conversation_goes_to_the_same_place_from_every_gateway() {
    let Some(server) = migrated().await else {
        return;
    };
    let [a, b] = [Provider::start().await, Provider::start().await];
    let start = async || {
        let folder = TempDir::new().unwrap();
        let config = config(&server, &folder, &a)
            .provider("b", crate::support::provider(b.address))
            .model("m", json!(["sim", "b"]));
        Gateway::start_in(folder, config).await
    };
    let (one, two) = (start().await, start().await);
    let (both, mut seen) = ([&a, &b], [0, 0]);
    let mut homes = [0, 0];
    for conversation in 0..12 {
        let first = Request::post(CHAT, &turn(CHAT, conversation, &[])).key(&one.key);
        one.send(&first).await.assert_ok();
        let home = who(&both, &mut seen);
        homes[home] += 1;
        let next = turn(CHAT, conversation, &["Indeed.", "And then?"]);
        let next = Request::post(CHAT, &next).key(&one.key);
        two.send(&next).await.assert_ok();
        assert_eq!(who(&both, &mut seen), home, "{conversation} has moved");
    }
    assert!(homes.iter().all(|it| *it > 0), "{homes:?}");
}
