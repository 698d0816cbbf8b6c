//! Fair shares: whatever one API key or one address holds of a shared resource, other keys are
//! served, and the local endpoints answer.

use crate::support::slow::from;
use crate::support::{
    AT_ONCE, Answer, CHAT, COUNT_TOKENS, Config, Connection, Gateway, Http2, Provider, Request,
    bounded, eventually, prompt,
};
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use tollgate_ledger::ApiKey;

async fn gateway(limits: Value) -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits", limits);
    let gateway = Gateway::start(config).await;
    (provider, gateway)
}

fn ask(key: &str) -> Request {
    Request::post(CHAT, &prompt(CHAT, "test-model", "Hi", Value::Null)).key(key)
}

/// A refusal that is about what this key has under way.
#[track_caller]
fn assert_over_its_share(answer: &Answer) {
    answer.assert_error(429, "rate_limit_exceeded");
    assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
    assert!(answer.text().contains("this API key has"), "{answer:?}");
}

/// Streams of one key that do not end, and the answers to those that were refused.
struct Stalled {
    open: Vec<hyper::Response<hyper::body::Incoming>>,
    refused: Vec<Answer>,
    _connection: Http2,
}

impl Stalled {
    /// Opens so many over one connection.
    async fn open(gateway: &Gateway, key: &str, count: usize) -> Self {
        let mut connection = Http2::open(gateway.address).await;
        let body = prompt(CHAT, "test-model", "Hi", json!({"stream": true}));
        let request = Request::post(CHAT, &body).key(key).orders("stall-after-8");
        let (mut open, mut refused) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let answer = connection.begin(&request).await.unwrap();
            match answer.status().as_u16() {
                200 => open.push(answer),
                _ => refused.push(Http2::rest(answer).await),
            }
        }
        Self {
            open,
            refused,
            _connection: connection,
        }
    }
}

#[tokio::test]
async fn one_key_leaves_requests_for_other_keys_and_local_endpoints_answer() {
    let limits = json!({"requests_in_flight": 300, "http2_streams": 1000});
    let (_provider, gateway) = gateway(limits).await;
    let another = gateway.create_key(&[]).await;
    let streams = Stalled::open(&gateway, &gateway.key, 300).await;
    println!("{} of 300 streams are open", streams.open.len());
    gateway.send(&ask(&another)).await.assert_ok();
    for key in [&gateway.key, &another] {
        for path in ["/v1", "/v1/models", "/v1/usage", "/v1/usage/history"] {
            gateway.send(&Request::get(path).key(key)).await.assert_ok();
        }
    }
    let unknown = Request::get("/v2").key(&another);
    gateway.send(&unknown).await.assert_error(404, "not_found");
    // Half of the 270 that are not reserved for keys with priority.
    assert_eq!(streams.open.len(), 135);
    streams.refused.iter().for_each(assert_over_its_share);
    gateway
        .sample_is(
            "tollgate_requests_shed_total{reason=\"key_requests\"}",
            165.0,
        )
        .await;
    gateway
        .sample_is("tollgate_requests_in_flight", 135.0)
        .await;
}

#[tokio::test]
async fn many_greedy_keys_still_leave_requests_for_the_next_one() {
    let limits =
        json!({"requests_in_flight": 100, "reserved_for_priority": 0, "http2_streams": 1000});
    let (_provider, gateway) = gateway(limits).await;
    let mut held = Vec::new();
    for most in [50, 25, 12, 6, 3] {
        let key = gateway.create_key(&[]).await;
        let streams = Stalled::open(&gateway, &key, most + 5).await;
        // One more where the half is no whole number.
        let open = streams.open.len();
        assert!(open == most || open == most + 1, "{open} of {most}");
        held.push(streams);
    }
    let next = gateway.create_key(&[]).await;
    gateway.send(&ask(&next)).await.assert_ok();
    drop(held);
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
    // What was given back can be taken again.
    let streams = Stalled::open(&gateway, &gateway.key, 60).await;
    assert_eq!(streams.open.len(), 50);
}

#[tokio::test]
async fn local_endpoints_have_a_bound_of_their_own() {
    let limits = json!({"requests_in_flight": 2});
    let (provider, gateway) = gateway(limits).await;
    let another = gateway.create_key(&[]).await;
    let mut held = gateway.connect().await;
    held.write(&ask(&gateway.key).orders("hang").bytes()).await;
    provider.when("it is held", |it| it.open_answers == 1).await;
    gateway
        .send(&ask(&another))
        .await
        .assert_error(503, "service_unavailable");
    // They take nothing from each other.
    let asked = join_all((0..10).map(|_| async {
        let request = Request::get("/v1/models").key(&another);
        gateway.send(&request).await
    }));
    asked.await.iter().for_each(Answer::assert_ok);
    gateway.sample_is("tollgate_requests_in_flight", 1.0).await;
}

/// A request of exactly so many bytes of body.
fn of_length(bytes: usize, key: &str) -> Request {
    let with = |text: &str| prompt(CHAT, "test-model", text, Value::Null).to_string();
    let body = with(&"a".repeat(bytes - with("").len()));
    Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .key(key)
        .body(body)
}

#[tokio::test]
async fn one_key_leaves_body_memory_for_other_keys() {
    const MIB: usize = 1 << 20;
    let limits = json!({
        "bodies_in_memory": "8MiB", "body_bytes": "2MiB", "reserved_for_priority": 0,
    });
    let (provider, gateway) = gateway(limits).await;
    let another = gateway.create_key(&[]).await;
    let refused = Arc::new(AtomicUsize::new(0));
    let mut greedy = Vec::new();
    for _ in 0..10 {
        let (address, refused) = (gateway.address, Arc::clone(&refused));
        let request = of_length(MIB, &gateway.key).orders("hang");
        greedy.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await;
            connection.write(&request.bytes()).await;
            let answer = connection.answer(&request).await;
            refused.fetch_add(1, Ordering::SeqCst);
            answer
        }));
    }
    eventually("all are held or refused", async || {
        let all = provider.received().len() + refused.load(Ordering::SeqCst);
        (all == greedy.len()).then_some(())
    })
    .await;
    let held = provider.received().len();
    println!("{held} of 10 bodies of a MiB are held");
    for bytes in [MIB, 100_000, 1000] {
        gateway.send(&of_length(bytes, &another)).await.assert_ok();
    }
    assert!((1..=3).contains(&held), "{held}");
    let shed = "tollgate_requests_shed_total{reason=\"key_bodies\"}";
    assert!(gateway.sample(shed).await > Some(0.0));
    for task in greedy {
        if task.is_finished() {
            assert_over_its_share(&task.await.unwrap());
        } else {
            task.abort();
        }
    }
}

/// A text that takes its time to count.
fn hard_to_count(bytes: usize) -> String {
    "ʬ§ßæ".repeat(bytes / 8)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_leaves_room_for_the_counts_of_other_keys() {
    let provider = Provider::start().await;
    let filters = json!([
        "headers", "key", "stored", "model",
        {"name": "limits", "count_tokens_per_minute": 100_000},
        "quota", "errors",
    ]);
    let config = Config::of(&provider)
        .model("open", json!(["sim/gpt-4o"]))
        .with("providers.sim.formats", json!(["chat"]))
        .with("filters", filters);
    let gateway = Arc::new(Gateway::start(config).await);
    let another = gateway.create_key(&[]).await;
    let body = |said: &str| prompt(COUNT_TOKENS, "open", said, json!({}));
    // Of such a text the length says something else.
    let mine = Request::post(COUNT_TOKENS, &body(&"word ".repeat(1_000))).key(&another);
    let exact = gateway.send(&mine).await.json();
    let hard = Request::post(COUNT_TOKENS, &body(&hard_to_count(400_000))).key(&gateway.key);
    let hard = Arc::new(hard);
    let over = Arc::new(AtomicBool::new(false));
    let greedy: Vec<_> = (0..300)
        .map(|_| {
            let (gateway, hard, over) =
                (Arc::clone(&gateway), Arc::clone(&hard), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    gateway.send(&hard).await.assert_ok();
                }
            })
        })
        .collect();
    let by_length = "tollgate_token_counts_total{source=\"length\"}";
    eventually("too many wait to be counted", async || {
        gateway.sample(by_length).await.filter(|all| *all > 0.0)
    })
    .await;
    for _ in 0..5 {
        let asked = Instant::now();
        let counted = gateway.send(&mine).await.json();
        println!("counted after {:?}", asked.elapsed());
        assert_eq!(counted, exact, "the count is that of an idle gateway");
    }
    over.store(true, Ordering::SeqCst);
    for task in greedy {
        bounded("the end of a count", task).await.unwrap();
    }
}

/// A request with a well-formed key that is not known.
fn guess() -> Request {
    Request::get("/v1").key(ApiKey::generate().unwrap().expose())
}

#[tokio::test]
async fn a_valid_key_gets_in_from_an_address_that_has_guessed_too_often() {
    let (_provider, gateway) = gateway(json!({})).await;
    let mut connection = gateway.connect().await;
    let (mut unknown, mut too_many) = (0, 0);
    let begun = Instant::now();
    // 60 a minute: one more each second.
    let most = || 60 + begun.elapsed().as_secs();
    for _ in 0..100 {
        match connection.send(&guess()).await.status {
            401 => unknown += 1,
            429 => too_many += 1,
            status => panic!("{status}"),
        }
    }
    assert_eq!(unknown + too_many, 100);
    assert!((60..=most()).contains(&unknown), "{unknown}");
    // It is not in memory yet.
    let fresh = gateway.create_key(&[]).await;
    let answer = connection.send(&Request::get("/v1").key(&fresh)).await;
    answer.assert_ok();
    let refused = loop {
        let answer = connection.send(&guess()).await;
        if answer.status != 401 {
            break answer;
        }
        unknown += 1;
        assert!(unknown <= most(), "{unknown}");
    };
    refused.assert_error(429, "rate_limit_exceeded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_unknown_keys_keeps_no_valid_key_out() {
    const FLOOD: usize = 200;
    let (_provider, gateway) = gateway(json!({})).await;
    let mut fresh = Vec::new();
    for _ in 0..6 {
        fresh.push(gateway.create_key(&[]).await);
    }
    let over = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicUsize::new(0));
    let guessers: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (over, refused) = (Arc::clone(&over), Arc::clone(&refused));
            let address = gateway.address;
            tokio::spawn(async move {
                let mut connection = Connection::over(from([127, 0, 0, 1], address).await);
                while !over.load(Ordering::SeqCst) {
                    connection.send(&guess()).await;
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    eventually("the flood is on", async || {
        (refused.load(Ordering::SeqCst) > 2 * FLOOD).then_some(())
    })
    .await;
    for (number, key) in fresh.iter().enumerate() {
        // From the address of the flood, and from another.
        let address = [127, 0, 0, if number % 2 == 0 { 1 } else { 2 }];
        let mut connection = Connection::over(from(address, gateway.address).await);
        let asked = Instant::now();
        let answer = connection.send(&Request::get("/v1").key(key)).await;
        println!("{address:?}: {} after {:?}", answer.status, asked.elapsed());
        answer.assert_ok();
        assert!(asked.elapsed() < AT_ONCE, "{asked:?}");
    }
    over.store(true, Ordering::SeqCst);
    for task in guessers {
        bounded("the end of a guesser", task).await.unwrap();
    }
}
