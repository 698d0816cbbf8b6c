//! Gateways on several machines that share one PostgreSQL database.

mod failover;
mod moving;
mod outages;

use crate::conversations::{turn, who};
use crate::support::{
    AT_ONCE, Answer, CHAT, Config, Gateway, Output, Postgres, Provider, RESPONSES, Request,
    eventually, prompt, provider, tollgate,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TERM: Duration = Duration::from_secs(6);
/// The tokens of a key of the plan `small`.
const SMALL: u64 = 2000;

/// A database with tables, and a provider.
struct Site {
    server: Postgres,
    provider: Provider,
}

impl Site {
    /// `None` if PostgreSQL is not installed.
    async fn new() -> Option<Self> {
        let site = Self::without_tables().await?;
        let done = site.run(&["ledger", "migrate"]).await;
        assert!(done.status.success(), "{done:?}");
        Some(site)
    }

    async fn without_tables() -> Option<Self> {
        Some(Self {
            server: Postgres::start()?,
            provider: Provider::start().await,
        })
    }

    /// The configuration of a gateway with a folder of its own.
    fn config(&self, folder: &TempDir) -> Config {
        let url = self.server.url(Postgres::PASSWORD, "tollgate");
        std::fs::write(folder.path().join("url"), url).unwrap();
        let store = json!({
            "path": "ledger",
            "postgres": {"url": "file:url", "ca": self.server.ca(), "lease_term": "6s"},
        });
        Config::of(&self.provider)
            .with("store", store)
            .with("plans.small", json!({"tokens": SMALL, "validity": "1d"}))
    }

    async fn gateway(&self) -> Gateway {
        self.gateway_with(|config| config).await
    }

    async fn gateway_with(&self, change: impl FnOnce(Config) -> Config) -> Gateway {
        let folder = TempDir::new().unwrap();
        let config = change(self.config(&folder));
        Gateway::start_in(folder, config).await
    }

    async fn two(&self) -> (Gateway, Gateway) {
        (self.gateway().await, self.gateway().await)
    }

    /// Runs a command to its end, with a folder of its own.
    async fn run(&self, arguments: &[&str]) -> Output {
        let folder = TempDir::new().unwrap();
        run(&self.config(&folder), arguments, &folder).await
    }

    async fn adds_up(&self) {
        let verified = self.run(&["ledger", "verify"]).await;
        assert!(verified.status.success(), "{verified:?}");
    }
}

async fn run(config: &Config, arguments: &[&str], folder: &TempDir) -> Output {
    let file = folder.path().join("command.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    Output::of(tollgate().args(arguments).arg("--config").arg(file)).await
}

async fn ask(gateway: &Gateway, key: &str, most: u64) -> Answer {
    let body = prompt(CHAT, "test-model", "Hi", json!({"max_tokens": most}));
    gateway.send(&Request::post(CHAT, &body).key(key)).await
}

/// What the request of an answer was charged.
async fn charge(gateway: &Gateway, answer: &Answer) -> u64 {
    answer.assert_ok();
    gateway.line_of(answer).await["charged"].as_u64().unwrap()
}

async fn usage(gateway: &Gateway, key: &str) -> Value {
    let page = Request::get("/v1/usage").key(key);
    gateway.send(&page).await.json()
}

/// Asks one gateway after the other with a key until all refuse it. Returns what `charged` says of the answers. A
/// request is refused only if what is left on all gateways together, as `given` in an option of the command line, would
/// be too little for it in any case.
async fn spend_all(
    gateways: [&Gateway; 2],
    key: &str,
    charged: impl AsyncFn(&Gateway, &Answer) -> u64,
    given: impl Fn(u64) -> [String; 2],
) -> u64 {
    let (mut spent, mut refused, mut refused_at) = (0, 0, None);
    for number in 0..400 {
        let gateway = gateways[number % 2];
        let answer = ask(gateway, key, 20).await;
        match answer.status {
            200 => spent += charged(gateway, &answer).await,
            402 if refused_at.replace(spent) == Some(spent) => refused += 1,
            402 => {
                let [option, amount] = given(SMALL - spent);
                let made = gateway.keys(&["create", "rest", "--json"]).await;
                let made: Value = serde_json::from_str(&made.stdout).unwrap();
                let rest = made["key"].as_str().unwrap();
                let output = gateway
                    .keys(&["top-up", rest, &option, &amount, "--days", "1"])
                    .await;
                assert!(output.status.success(), "{output:?}");
                let alone = ask(gateway, rest, 20).await;
                assert_eq!(alone.status, 402, "{amount} are left: {alone:?}");
            }
            // The last tokens are on their way from one to the other.
            429 | 503 => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            other => panic!("{other}: {answer:?}"),
        }
        if refused > 6 {
            return spent;
        }
    }
    panic!("{spent} are spent, {refused} refused")
}

fn thousandths(amount: u64) -> String {
    let money = format!("{}.{:03}", amount / 1000, amount % 1000);
    let money = money.trim_end_matches('0').trim_end_matches('.');
    money.to_owned()
}

#[tokio::test]
async fn a_key_works_on_every_gateway_and_its_balance_is_spent_once() {
    let Some(site) = Site::new().await else {
        return;
    };
    let (one, two) = site.two().await;
    let key = one.create_key(&["--plan", "small"]).await;
    let tokens = |rest: u64| ["--tokens".to_owned(), rest.to_string()];
    let charged = spend_all([&one, &two], &key, charge, tokens).await;
    for gateway in [&one, &two] {
        let seen = eventually("the charges", async || {
            let usage = usage(gateway, &key).await;
            (usage["tokens"]["used"] == charged).then_some(usage)
        });
        assert_eq!(seen.await["tokens"]["granted"], SMALL);
    }
    // Revoking reaches the other gateway.
    let output = two.keys(&["revoke", &key]).await;
    assert!(output.status.success(), "{output:?}");
    for gateway in [&one, &two] {
        until(gateway, &key, 401).await;
    }
}

#[tokio::test]
async fn a_request_is_found_in_the_database() {
    let Some(site) = Site::new().await else {
        return;
    };
    let gateway = site.gateway().await;
    let key = gateway.create_key(&["--plan", "small"]).await;
    let answer = ask(&gateway, &key, 20).await;
    answer.assert_ok();
    let id = answer.header("x-request-id").unwrap();
    let found = async || {
        let output = site.run(&["logs", "--request", id, "--json"]).await;
        let found: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        assert!(!output.stderr.contains("there is no ledger"), "{output:?}");
        (found["record"]["id"] == *id).then_some(())
    };
    eventually("the record in the database", found).await;
    let unknown = format!("req_{}", "0".repeat(26));
    let output = site.run(&["logs", "--request", &unknown]).await;
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
    let Some(site) = Site::new().await else {
        return;
    };
    let (one, two) = site.two().await;
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
        assert!(took < AT_ONCE, "{arguments:?}: {took:?}");
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
    let Some(site) = Site::new().await else {
        return;
    };
    // A token costs a thousandth.
    let of_money = |config: Config| {
        let price = json!({"input": 1000, "output": 1000});
        config
            .with("plans.small", json!({"money": "2.00", "validity": "1d"}))
            .with("models.test-model.price", price)
    };
    let one = site.gateway_with(of_money).await;
    let two = site.gateway_with(of_money).await;
    let key = one.create_key(&["--plan", "small"]).await;
    let cost = async |gateway: &Gateway, answer: &Answer| {
        let usage = &gateway.line_of(answer).await["usage"];
        let used = |kind: &str| usage[kind].as_u64().unwrap();
        used("input") + used("output")
    };
    let money = |rest: u64| ["--money".to_owned(), thousandths(rest)];
    let spent = spend_all([&one, &two], &key, cost, money).await;
    for gateway in [&one, &two] {
        eventually("the charges", async || {
            (usage(gateway, &key).await["money"]["used"] == thousandths(spent)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_gateway_that_is_killed_loses_no_charge_and_leaves_its_tokens_to_the_others() {
    let Some(site) = Site::new().await else {
        return;
    };
    let (one, two) = site.two().await;
    let key = one.create_key(&["--plan", "small"]).await;
    let first = ask(&one, &key, 20).await;
    let charged = charge(&one, &first).await;
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
    let charged = charged + charge(&two, &rest).await;
    let again = Gateway::start_in(folder, own).await;
    for gateway in [&again, &two] {
        eventually("all charges", async || {
            // What no token was left for is charged beyond the balance.
            let on_record = history(gateway, &key).await;
            let sum: u64 = on_record.iter().map(|(_, charged)| charged).sum();
            (sum == charged).then_some(())
        })
        .await;
    }
    site.adds_up().await;
}

/// The records of a key: request ids and charges.
async fn history(gateway: &Gateway, key: &str) -> Vec<(String, u64)> {
    let page = Request::get("/v1/usage/history?limit=500").key(key);
    let page = gateway.send(&page).await.json();
    let records = page["data"].as_array().unwrap().iter();
    let record = |it: &Value| {
        let id = it["id"].as_str().unwrap().to_owned();
        (id, it["charged"].as_u64().unwrap())
    };
    records.map(record).collect()
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
    // Changes arrive in their order: once this one has, so has that of the grant.
    let probe = gateway.create_key(&[]).await;
    let look = Request::get("/v1").key(&probe);
    gateway.send(&look).await.assert_ok();
    let revoked = gateway.keys(&["revoke", &probe]).await;
    assert!(revoked.status.success(), "{revoked:?}");
    eventually("the probe to be refused", async || {
        (gateway.send(&look).await.status == 401).then_some(())
    })
    .await;
    ask(gateway, key, 20).await.assert_ok();
}

#[tokio::test]
async fn what_is_wrong_with_the_database_is_said_in_one_line_without_its_password() {
    let Some(site) = Site::without_tables().await else {
        return;
    };
    let (server, folder) = (&site.server, TempDir::new().unwrap());
    let config = site.config(&folder);
    // Both the check and the start name it.
    let expect = async |config: &Config, words: &str| {
        for arguments in [&["check", "--online"][..], &["serve"]] {
            let output = run(config, arguments, &folder).await;
            assert!(!output.status.success(), "{output:?}");
            assert!(output.stderr.contains(words), "{words}: {output:?}");
            assert!(!output.stderr.contains("password for tests"), "{output:?}");
            let lines = output.stderr.trim().lines();
            let lines = lines.filter(|line| !line.contains("WARN"));
            assert_eq!(lines.count(), 1, "{output:?}");
        }
    };
    let url = |url: String| std::fs::write(folder.path().join("url"), url).unwrap();
    let right = || url(server.url(Postgres::PASSWORD, "tollgate"));
    expect(&config, "tollgate ledger migrate").await;
    let done = run(&config, &["ledger", "migrate"], &folder).await;
    assert!(done.stdout.contains("steps taken: 1"), "{done:?}");
    let done = run(&config, &["ledger", "migrate"], &folder).await;
    assert!(done.stdout.contains("up to date"), "{done:?}");
    let checked = run(&config, &["check", "--online"], &folder).await;
    assert!(checked.status.success(), "{checked:?}");
    for (wrong, words) in [
        (
            server.url("another password for tests", "tollgate"),
            "store.postgres.url",
        ),
        (
            server.url(Postgres::PASSWORD, "nowhere"),
            "no such database",
        ),
        ("mysql://localhost/x".to_owned(), "postgres://"),
    ] {
        url(wrong);
        expect(&config, words).await;
    }
    right();
    let of = |settings: Value| config.clone().with("store.postgres", settings);
    expect(&of(json!({"url": "file:url"})), "store.postgres.ca").await;
    let standby = server.standby();
    url(server.url_through(standby.address()));
    expect(&of(json!({"url": "file:url"})), "store.postgres.tls: false").await;
    let without_tls = of(json!({"url": "file:url", "tls": false}));
    expect(&without_tls, "standby or read-only").await;
    right();
    let sql = |sql: &str| server.sql_in("tollgate", sql);
    sql("REVOKE UPDATE ON leases FROM tollgate");
    expect(&config, "permission denied for leases").await;
    sql("GRANT UPDATE ON leases TO tollgate");
    sql("INSERT INTO schema_version VALUES (99, 99)");
    expect(&config, "has format 99").await;
    sql("DELETE FROM schema_version WHERE version = 99");
    server.admit(false);
    expect(&config, "not currently accepting connections").await;
    let term = config
        .clone()
        .with("store.postgres.lease_term", json!("1s"));
    expect(&term, "at least 5s").await;
    let short = config.with("store.history", json!("59m"));
    expect(&short, "store.history").await;
}

#[tokio::test]
async fn what_a_key_has_made_on_one_gateway_is_there_on_another() {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut of_chat = provider(site.provider.address);
    of_chat["formats"] = json!(["chat"]);
    let translated = |config: Config| {
        config
            .provider("chat", of_chat.clone())
            .model("translated", json!(["chat"]))
    };
    let one = site.gateway_with(translated).await;
    let two = site.gateway_with(translated).await;
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
    let Some(site) = Site::new().await else {
        return;
    };
    let other = Provider::start().await;
    let with_other = |config: Config| {
        config
            .provider("b", provider(other.address))
            .model("m", json!(["sim", "b"]))
    };
    let one = site.gateway_with(with_other).await;
    let two = site.gateway_with(with_other).await;
    let (both, mut seen) = ([&site.provider, &other], [0, 0]);
    let mut homes = [0, 0];
    for conversation in 0..32 {
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
