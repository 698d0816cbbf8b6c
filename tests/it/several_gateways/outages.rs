//! The database is away, slow, or has too few connections.

use super::{Site, ask, charge, committed, history, is_known, until};
use crate::support::{Config, Gateway, Postgres, SlowLink, eventually};
use serde_json::json;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The output of a request whose bound decides how much is leased.
const MUCH: u64 = 20_000;

/// Makes a gateway lease for hundreds of requests of its key. Returns an instant before a commit, which renews it.
async fn leases_much(gateway: &Gateway) -> Instant {
    is_known(gateway, &gateway.key).await;
    let before = Instant::now();
    ask(gateway, &gateway.key, MUCH).await.assert_ok();
    committed(gateway).await;
    before
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
    const TERM: Duration = Duration::from_secs(12);
    let Some(site) = Site::new().await else {
        return;
    };
    let term = |config: Config| config.with("store.postgres.lease_term", json!("12s"));
    let gateway = site.gateway_with(term).await;
    let (key, fresh) = (gateway.key.clone(), gateway.create_key(&[]).await);
    let before_renewal = leases_much(&gateway).await;
    site.server.admit(false);
    let begun = Instant::now();
    let mut answered = Vec::new();
    let refused = loop {
        let answer = ask(&gateway, &key, 20).await;
        if answer.status != 200 {
            break answer;
        }
        answered.push(answer);
        // Lets time pass on purpose: it must end before the tokens do.
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let (served, since_renewal) = (begun.elapsed(), before_renewal.elapsed());
    println!("served {} requests for {served:?}", answered.len());
    assert!(since_renewal >= TERM / 2, "{since_renewal:?}: {refused:?}");
    assert!(served < TERM * 2 / 3, "{served:?}");
    // A key that is not in memory may be valid.
    let unknown = ask(&gateway, &fresh, 20).await;
    for refused in [refused, unknown] {
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
    }
    site.server.admit(true);
    until(&gateway, &key, 200).await;
    committed(&gateway).await;
    let recorded = history(&gateway, &key).await;
    for answer in &answered {
        let id = answer.header("x-request-id").unwrap();
        let of_answer = recorded.iter().filter(|(request, _)| request == id);
        assert_eq!(of_answer.count(), 1, "{id}");
    }
    for none in [
        "tollgate_ledger_fenced",
        "tollgate_ledger_late_settlements_total",
    ] {
        assert_eq!(gateway.sample(none).await, Some(0.0), "{none}");
    }
}

/// Two seconds for each statement: a commit takes longer than a gateway waits for a renewal.
#[tokio::test]
async fn a_slow_database_delays_charges_and_no_request_of_a_known_key() {
    const A_STATEMENT: Duration = Duration::from_secs(2);
    let Some(site) = Site::new().await else {
        return;
    };
    let link = SlowLink::to(site.server.address()).await;
    let folder = TempDir::new().unwrap();
    let config = site.config(&folder);
    std::fs::write(
        folder.path().join("url"),
        site.server.url_through(link.address),
    )
    .unwrap();
    let through = json!({"url": "file:url", "tls": false, "lease_term": "30s"});
    let gateway = Gateway::start_in(folder, config.with("store.postgres", through)).await;
    let (key, fresh) = (gateway.key.clone(), gateway.create_key(&[]).await);
    let asked = async || {
        let begun = Instant::now();
        let answer = ask(&gateway, &key, MUCH).await;
        answer.assert_ok();
        (begun.elapsed(), answer)
    };
    leases_much(&gateway).await;
    let before = on_record(&site.server);
    link.delay(A_STATEMENT);
    let begun = Instant::now();
    let (mut longest, mut delayed) = (Duration::ZERO, 0);
    let (mut answers, mut unknown) = (Vec::new(), Vec::new());
    while begun.elapsed() < Duration::from_secs(45) {
        let (took, answer) = asked().await;
        longest = longest.max(took);
        delayed += usize::from(took >= A_STATEMENT / 2);
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
    // The machine can delay one or two of them, the database would delay most.
    assert!(delayed <= 2, "{delayed}, {longest:?}");
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
        charged += charge(&gateway, answer).await;
    }
    committed(&gateway).await;
    let after = on_record(&site.server);
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
    let Some(mut site) = Site::new().await else {
        return;
    };
    let server = &mut site.server;
    let all = CONNECTIONS + OF_THE_OWNER;
    server.sql(&format!("ALTER SYSTEM SET max_connections = {all}"));
    server.sql("ALTER SYSTEM SET log_connections = on");
    server.stop();
    server.start_again();
    let few = |config: Config| {
        config
            .with("store.postgres.connections", json!(2))
            .with("store.postgres.lease_term", json!("30s"))
    };
    let mut gateways = Vec::new();
    for _ in 0..GATEWAYS {
        let gateway = site.gateway_with(few).await;
        let fresh = [gateway.create_key(&[]).await, gateway.create_key(&[]).await];
        gateways.push((gateway, fresh));
    }
    for (gateway, _) in &gateways {
        leases_much(gateway).await;
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
    let server = &mut site.server;
    let before = attempts(server);
    let for_owner = all - FEW;
    server.sql(&format!(
        "ALTER SYSTEM SET superuser_reserved_connections = {for_owner}"
    ));
    server.stop();
    let down = Instant::now();
    while down.elapsed() < Duration::from_secs(1) {
        for (gateway, _) in &gateways {
            ask(gateway, &gateway.key, MUCH).await.assert_ok();
        }
    }
    let starting = Instant::now();
    server.start_again();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        assert!(open(server) <= FEW);
        for (gateway, fresh) in &gateways {
            ask(gateway, &gateway.key, MUCH).await.assert_ok();
            let unknown = ask(gateway, &fresh[0], 20).await;
            assert!([200, 503].contains(&unknown.status), "{unknown:?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let tried = attempts(server) - before;
    // At least those of ten seconds, because the first pauses are shorter.
    let half_seconds = usize::try_from(starting.elapsed().as_millis() / 500 + 1).unwrap();
    let most = CONNECTIONS + GATEWAYS * half_seconds.max(20);
    println!("{tried} attempts to connect, {} connections", open(server));
    // Each lost connection is opened again once; then a gateway tries once in half a second or less often.
    assert!(tried <= most, "{tried} {most}");
    server.sql("ALTER SYSTEM RESET superuser_reserved_connections");
    server.stop();
    server.start_again();
    let begun = Instant::now();
    for (gateway, fresh) in &gateways {
        until(gateway, &fresh[1], 200).await;
        committed(gateway).await;
        open(server);
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
        open(server)
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
    for (gateway, _) in &gateways {
        assert_eq!(gateway.sample("tollgate_ledger_fenced").await, Some(0.0));
    }
    site.adds_up().await;
}
