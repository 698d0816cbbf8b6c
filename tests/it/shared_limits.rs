//! Limits of keys that several gateways share.

use crate::support::{
    AT_ONCE, Answer, Authority, CHAT, Config, Gateway, LONG, Output, Postgres, Provider, Redis,
    Request, eventually, in_front_of, prompt, tollgate,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SERVER: &str = "tollgate_limits_shared{through=\"server\"}";
const DATABASE: &str = "tollgate_limits_shared{through=\"database\"}";
const LIMIT: &str = "x-ratelimit-limit-requests";

/// Gateways on one database, and a provider.
struct Cluster {
    gateways: Vec<Gateway>,
    database: Postgres,
    _provider: Provider,
}

impl Cluster {
    /// So many gateways with this section `limits`, and the URL of Redis in a file. `None` if PostgreSQL is
    /// not installed.
    async fn with(number: usize, limits: Value, redis: &str) -> Option<Self> {
        Self::of(number, json!({"limits": limits}), redis).await
    }

    /// The same with these sections of the configuration.
    async fn of(number: usize, sections: Value, redis: &str) -> Option<Self> {
        let database = Postgres::start()?;
        let provider = Provider::start().await;
        let url = database.url(Postgres::PASSWORD, "tollgate");
        let mut gateways = Vec::new();
        for place in 0..number {
            let folder = TempDir::new().unwrap();
            std::fs::write(folder.path().join("url"), &url).unwrap();
            std::fs::write(folder.path().join("redis"), redis).unwrap();
            let store = json!({
                "path": "ledger",
                "postgres": {"url": "file:url", "ca": database.ca(), "lease_term": "6s"},
            });
            let mut config = Config::of(&provider).with("store", store);
            for (name, section) in sections.as_object().unwrap() {
                config = config.with(name, section.clone());
            }
            if place == 0 {
                let done = run(&config, &["ledger", "migrate"], &folder).await;
                assert!(done.status.success(), "{done:?}");
            }
            gateways.push(Gateway::start_in(folder, config).await);
        }
        Some(Self {
            gateways,
            database,
            _provider: provider,
        })
    }

    async fn through(number: usize, redis: &Redis) -> Option<Self> {
        let limits = json!({"shared": {"url": "file:redis", "timeout": "500ms"}});
        let cluster = Self::with(number, limits, &redis.url(Redis::PASSWORD)).await?;
        cluster.are_shared(1.0).await;
        Some(cluster)
    }

    async fn are_shared(&self, value: f64) {
        for gateway in &self.gateways {
            gateway.sample_is(SERVER, value).await;
        }
    }

    /// Waits until each gateway knows the others: it counts them once a second, when it renews its row.
    async fn know_each_other(&self) {
        let renewals = || -> Vec<u64> {
            let rows = "SELECT renewals FROM processes WHERE ended_at IS NULL ORDER BY number";
            let rows = self.database.sql_in("tollgate", rows);
            rows.lines().map(|row| row.parse().unwrap()).collect()
        };
        let before = renewals();
        assert_eq!(before.len(), self.gateways.len());
        eventually("two renewals of each gateway", async || {
            let mut both = before.iter().zip(renewals());
            both.all(|(before, now)| now >= before + 2).then_some(())
        })
        .await;
    }

    async fn key(&self, limits: &[&str]) -> String {
        let key = self.gateways[0].create_key(&[]).await;
        let arguments = [&["set-limits", &key], limits].concat();
        let output = self.gateways[0].keys(&arguments).await;
        assert!(output.status.success(), "{output:?}");
        key
    }

    /// One gateway alone is admitted the limit, and all of them together not much more.
    async fn gets_the_limit(&self, key: &str, limit: usize) {
        let (begun, mut admitted) = (Instant::now(), 0);
        eventually("the limit", async || {
            admitted += usize::from(ask(&self.gateways[0], key).await.status == 200);
            (admitted == limit).then_some(())
        })
        .await;
        println!("{limit} admitted after {:?}", begun.elapsed());
        let admitted = admitted + self.admitted(key, 2 * limit).await;
        let most = self.most(limit, begun);
        assert!(admitted <= most, "{admitted} {most}");
    }

    /// The most that gateways without a server admit of so many requests a minute: the limit, what flows back,
    /// what they exceed it by, and what each admits before its first lease.
    fn most(&self, limit: usize, since: Instant) -> usize {
        // A gateway takes a second's worth ahead of the reports.
        let elapsed = since.elapsed() + Duration::from_secs(1);
        let flown = (limit * usize::try_from(elapsed.as_millis()).unwrap()).div_ceil(60_000);
        let nodes = self.gateways.len();
        limit + flown + nodes * (limit / (10 * nodes)).max(1)
    }

    /// So many requests to each gateway in turn; how many were admitted.
    async fn admitted(&self, key: &str, requests: usize) -> usize {
        let mut admitted = 0;
        for gateway in self.gateways.iter().cycle().take(requests) {
            let answer = ask(gateway, key).await;
            match answer.status {
                200 => admitted += 1,
                429 => {}
                other => panic!("{other}: {answer:?}"),
            }
        }
        admitted
    }
}

async fn run(config: &Config, arguments: &[&str], folder: &TempDir) -> Output {
    let file = folder.path().join("command.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    Output::of(tollgate().args(arguments).arg("--config").arg(file)).await
}

async fn ask(gateway: &Gateway, key: &str) -> Answer {
    let body = prompt(CHAT, "test-model", "Hi", json!({"max_tokens": 20}));
    gateway.send(&Request::post(CHAT, &body).key(key)).await
}

#[tokio::test]
async fn two_gateways_share_a_limit_and_show_what_is_left() {
    let Some(redis) = Redis::start() else { return };
    let Some(cluster) = Cluster::through(2, &redis).await else {
        return;
    };
    let key = cluster.key(&["--requests", "5"]).await;
    for (gateway, left) in cluster.gateways.iter().zip(["4", "3"]) {
        let answer = ask(gateway, &key).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some(left));
    }
    let [one, two] = &cluster.gateways[..] else {
        panic!()
    };
    assert_eq!(use_up(one, &key).await, 3);
    // It has last seen that three are left, and exceeds the limit by one at most.
    let beyond = use_up(two, &key).await;
    assert!(beyond <= 1, "{beyond}");
    for gateway in &cluster.gateways {
        let refused = ask(gateway, &key).await;
        refused.assert_error(429, "rate_limit_exceeded");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
    }
}

#[tokio::test]
async fn three_gateways_exceed_a_limit_by_one_request_each_at_most() {
    let Some(redis) = Redis::start() else { return };
    let Some(cluster) = Cluster::through(3, &redis).await else {
        return;
    };
    let key = cluster.key(&["--requests", "30"]).await;
    let begun = Instant::now();
    let all = (0..90).map(|place| ask(&cluster.gateways[place % 3], &key));
    let all = futures::future::join_all(all).await;
    let admitted = all.iter().filter(|answer| answer.status == 200).count();
    let refused = all.iter().filter(|answer| answer.status == 429).count();
    assert_eq!(admitted + refused, 90, "{all:?}");
    // One flows back in two seconds, and each gateway may exceed the limit by one.
    let most = 30 + usize::try_from(begun.elapsed().as_secs() / 2).unwrap() + 1 + 3;
    assert!((30..=most).contains(&admitted), "{admitted}");
}

/// During the fault the gateways lease shares of the limit, afterwards they share it exactly again.
async fn survives(
    redis: &mut Redis,
    fault: impl FnOnce(&mut Redis),
    repair: impl FnOnce(&mut Redis),
) {
    let Some(cluster) = Cluster::through(2, redis).await else {
        return;
    };
    cluster.know_each_other().await;
    fault(redis);
    let key = cluster.key(&["--requests", "10"]).await;
    let begun = Instant::now();
    let (admitted, most) = (cluster.admitted(&key, 20).await, cluster.most(10, begun));
    // A gateway admits one request before it has a lease.
    let least = cluster.gateways.len();
    assert!((least..=most).contains(&admitted), "{admitted} {most}");
    // One time-out for each gateway, not one for each request.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    cluster.are_shared(0.0).await;
    let key = cluster.key(&["--requests", "10"]).await;
    cluster.gets_the_limit(&key, 10).await;
    for gateway in &cluster.gateways {
        let line = gateway.log_line("limits are not shared").await;
        assert!(!line.contains(Redis::PASSWORD), "{line}");
    }
    repair(redis);
    cluster.are_shared(1.0).await;
    let key = cluster.key(&["--requests", "7"]).await;
    // Not in turn: what one has admitted ahead of the server, another one would not have seen yet.
    for (gateway, admitted) in cluster.gateways.iter().zip([7, 0]) {
        assert_eq!(use_up(gateway, &key).await, admitted);
    }
    for gateway in &cluster.gateways {
        assert_eq!(gateway.sample(DATABASE).await, Some(1.0));
    }
    let fallbacks = "tollgate_limits_fallbacks_total";
    assert_eq!(cluster.gateways[0].sample(fallbacks).await, Some(1.0));
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    survives(&mut redis, Redis::kill, Redis::restart).await;
}

#[tokio::test]
async fn a_server_that_is_paused_and_continued() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    survives(&mut redis, |it| it.signal("STOP"), |it| it.signal("CONT")).await;
}

#[tokio::test]
async fn a_server_that_is_full_and_has_room_again() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let memory = |redis: &Redis, most: &str| {
        redis.cli(&["CONFIG", "SET", "maxmemory", most]);
    };
    survives(&mut redis, |it| memory(it, "1"), |it| memory(it, "0")).await;
}

#[tokio::test]
async fn a_gateway_that_is_killed_leaves_its_slots() {
    let Some(redis) = Redis::start() else { return };
    let Some(mut cluster) = Cluster::through(2, &redis).await else {
        return;
    };
    let key = cluster.key(&["--concurrent", "1"]).await;
    let one = cluster.gateways.remove(0);
    let two = &cluster.gateways[0];
    let body = prompt(CHAT, "test-model", "Hi", json!({"max_tokens": 20}));
    let slow = Request::post(CHAT, &body).key(&key).orders("hang");
    let mut connection = one.connect().await;
    connection.write(&slow.bytes()).await;
    // A refusal would come within this time.
    let early = tokio::time::timeout(Duration::from_secs(1), connection.answer(&slow)).await;
    assert!(early.is_err(), "{early:?}");
    eventually("the slot is taken", async || {
        (ask(two, &key).await.status == 429).then_some(())
    })
    .await;
    let _folder = one.killed().await;
    let begun = Instant::now();
    eventually("the slot is free", async || {
        (ask(two, &key).await.status == 200).then_some(())
    })
    .await;
    // The lease of a gateway.
    assert!(
        begun.elapsed() < Duration::from_secs(11) + AT_ONCE,
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn without_a_server_one_gateway_gets_the_limit_and_two_do_not_exceed_it() {
    let Some(cluster) = Cluster::with(2, json!({}), "").await else {
        return;
    };
    let key = cluster.key(&["--requests", "10"]).await;
    cluster.know_each_other().await;
    cluster.gets_the_limit(&key, 10).await;
    let gateway = &cluster.gateways[0];
    assert_eq!(gateway.sample(DATABASE).await, Some(1.0));
    assert_eq!(gateway.sample(SERVER).await, None);
}

#[tokio::test]
async fn without_a_server_the_share_of_a_killed_gateway_goes_to_the_other_one() {
    /// Admitted on the killed gateway: before its last report, and after it.
    const REPORTED: usize = 30;
    const UNREPORTED: usize = 5;
    let Some(mut cluster) = Cluster::with(2, json!({}), "").await else {
        return;
    };
    let key = cluster.key(&["--requests", "60"]).await;
    cluster.know_each_other().await;
    let begun_ms = cluster.database.sql_in("tollgate", "SELECT now_ms()");
    let begun = Instant::now();
    let mut admitted = 0;
    let take = async |gateway: &Gateway| usize::from(ask(gateway, &key).await.status == 200);
    eventually("the first requests", async || {
        admitted += take(&cluster.gateways[0]).await;
        (admitted == REPORTED).then_some(())
    })
    .await;
    // In units of 1/60,000, of which 60 flow back in a millisecond.
    let debts = format!(
        "SELECT coalesce(sum(debt + 60 * greatest(at_ms - {begun_ms}, 0)), 0) FROM limit_debts
         WHERE dimension = 0"
    );
    eventually("a report", async || {
        let debt = cluster.database.sql_in("tollgate", &debts);
        (debt.parse::<usize>().unwrap() > (REPORTED - 5) * 60_000).then_some(())
    })
    .await;
    for _ in 0..UNREPORTED {
        admitted += take(&cluster.gateways[0]).await;
    }
    let _folder = cluster.gateways.remove(0).killed().await;
    let killed = Instant::now();
    let two = &cluster.gateways[0];
    eventually("the whole limit", async || {
        let answer = ask(two, &key).await;
        admitted += usize::from(answer.status == 200);
        (answer.header(LIMIT) == Some("60")).then_some(())
    })
    .await;
    let took = killed.elapsed();
    println!("the whole limit after {took:?}");
    // Less than the rest of the lease term.
    assert!(took < AT_ONCE, "{took:?}");
    // Beyond the lease term, after which the killed gateway no longer counts.
    eventually("the end of the lease term", async || {
        admitted += take(two).await;
        (killed.elapsed() > Duration::from_secs(8)).then_some(())
    })
    .await;
    let most = cluster.most(60, begun) + UNREPORTED;
    println!("{admitted} of 60, at most {most}");
    assert!((60..=most).contains(&admitted), "{admitted} {most}");
}

/// Requests until one is refused by the limit. Returns how many were admitted.
async fn use_up(gateway: &Gateway, key: &str) -> usize {
    let mut admitted = 0;
    loop {
        let answer = ask(gateway, key).await;
        if answer.status != 200 {
            answer.assert_error(429, "rate_limit_exceeded");
            return admitted;
        }
        admitted += 1;
    }
}

#[tokio::test]
async fn without_the_database_the_last_shares_hold() {
    // Without balances, whose leases end before the shares do.
    let filters = json!(["headers", "key", "stored", "model", "limits", "errors"]);
    let Some(cluster) = Cluster::of(2, json!({"filters": filters}), "").await else {
        return;
    };
    let [one, two] = &cluster.gateways[..] else {
        panic!()
    };
    let key = cluster.key(&["--requests", "60"]).await;
    let other = cluster.key(&["--requests", "60"]).await;
    cluster.know_each_other().await;
    let begun = Instant::now();
    let mut admitted = 0;
    eventually("the whole limit", async || {
        let answer = ask(one, &key).await;
        admitted += usize::from(answer.status == 200);
        (answer.header(LIMIT) == Some("60")).then_some(())
    })
    .await;
    // A gateway knows a key without a share of its limits.
    for (gateway, key) in [(one, &other), (two, &key)] {
        let models = Request::get("/v1/models").key(key);
        gateway.send(&models).await.assert_ok();
    }
    cluster.database.admit(false);
    for gateway in [one, two] {
        gateway.sample_is(DATABASE, 0.0).await;
        let line = gateway.log_line("shares of limits cannot be leased").await;
        assert!(line.contains("the last shares hold"), "{line}");
    }
    admitted += use_up(one, &key).await;
    let most = cluster.most(60, begun);
    assert!((60..=most).contains(&admitted), "{admitted} {most}");
    assert_eq!(ask(one, &key).await.header(LIMIT), Some("60"));
    for (gateway, key) in [(one, &other), (two, &key)] {
        let answer = ask(gateway, key).await;
        assert_eq!(answer.header(LIMIT), Some("30"), "{answer:?}");
    }
    cluster.database.admit(true);
    for gateway in [one, two] {
        gateway.sample_is(DATABASE, 1.0).await;
        gateway.log_line("leased from the database again").await;
    }
    eventually("the whole limit", async || {
        let answer = ask(one, &other).await;
        (answer.header(LIMIT) == Some("60")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_gateway_can_have_the_whole_of_each_limit() {
    let limits = json!({"per_node": true});
    let Some(cluster) = Cluster::with(2, limits, "").await else {
        return;
    };
    let key = cluster.key(&["--requests", "10"]).await;
    let begun = Instant::now();
    let admitted = cluster.admitted(&key, 30).await;
    // One flows back in six seconds, at each gateway.
    let flown = 2 * usize::try_from(begun.elapsed().as_secs() / 6).unwrap();
    assert!((20..=20 + flown).contains(&admitted), "{admitted}");
    let shared = cluster.gateways[0].total("tollgate_limits_shared").await;
    assert_eq!(shared, 0.0);
}

#[tokio::test]
async fn each_fault_of_the_server_has_one_line_without_its_password() {
    let Some(redis) = Redis::start() else { return };
    let (folder, provider) = (TempDir::new().unwrap(), Provider::start().await);
    let shared = |url: &str| {
        std::fs::write(folder.path().join("redis"), url).unwrap();
        Config::of(&provider).with("limits", json!({"shared": {"url": "file:redis"}}))
    };
    let check = async |config: &Config| run(config, &["check", "--online"], &folder).await;
    let expect = |output: Output, words: &str| {
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains(words), "{words}: {output:?}");
        assert!(!output.stderr.contains(Redis::PASSWORD), "{output:?}");
        assert_eq!(output.stderr.trim().lines().count(), 1, "{output:?}");
    };
    let right = redis.url(Redis::PASSWORD);
    let good = check(&shared(&right)).await;
    assert!(good.status.success(), "{good:?}");
    expect(
        check(&shared(&redis.url("wrong"))).await,
        "user or the password",
    );
    expect(
        check(&shared("redis://127.0.0.1:1")).await,
        "cannot be reached",
    );
    let encrypted = right.replace("redis:", "rediss:");
    expect(check(&shared(&encrypted)).await, "does not support TLS");
    expect(check(&shared("http://127.0.0.1")).await, "redis://USER");
    let both = shared(&right).with("limits.per_node", json!(true));
    expect(check(&both).await, "leave out one of the two");
    // The other way round, and an authority that is not named.
    let authority = Authority::new();
    let to = ([127, 0, 0, 1], redis.port).into();
    let front = in_front_of(to, &authority.issue("localhost")).await.port();
    let url = |scheme: &str| format!("{scheme}://:{}@localhost:{front}", Redis::PASSWORD);
    expect(check(&shared(&url("rediss"))).await, "limits.shared.ca");
    expect(check(&shared(&url("redis"))).await, "rediss://");
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let trusted = shared(&url("rediss")).with("limits.shared.ca", json!("ca.pem"));
    let good = check(&trusted).await;
    assert!(good.status.success(), "{good:?}");
    // A gateway starts all the same, and says why it shares nothing.
    let config = shared(&redis.url("wrong"));
    let gateway = Gateway::start_in(folder, config).await;
    let line = gateway.log_line("limits are not shared").await;
    assert!(
        line.contains("user or the password") && !line.contains("wrong@"),
        "{line}"
    );
    let key = gateway.key_with(1_000_000, LONG);
    ask(&gateway, &key).await.assert_ok();
}
