//! `kill -9` under load, many times. The ledger has every request whose answer was fully received,
//! once and at its price; everything else in it was in flight; and the ledger adds up.
//!
//! `TOLLGATE_CRASH_ROUNDS` sets the number of kills, `TOLLGATE_CRASH_SEED` repeats their moments.

use crate::support::{
    Answer, CHAT, Config, Ending, FORMATS, Gateway, LONG, PATIENCE, Provider, Request, bounded,
    prompt,
};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;
use tollgate_ledger::{History, HistoryQuery, KeySelector, Timestamp, UsageRecord};

const CALLERS: usize = 32;

/// What callers have fully received: request ids, and what each answer said it cost.
type Received = BTreeMap<String, u64>;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_received_before_kill_9_are_in_the_ledger_once() {
    let _alone = crate::alone().await;
    let rounds = from_environment("TOLLGATE_CRASH_ROUNDS").unwrap_or(4);
    let seed = from_environment("TOLLGATE_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("TOLLGATE_CRASH_SEED={seed}");
    let mut moments = fastrand::Rng::with_seed(seed);
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("server.threads", json!(2))
        .with("log.access", json!("none"));
    let mut folder = TempDir::new().unwrap();
    let mut keys = Vec::new();
    let (mut received, mut sent) = (Received::new(), 0);
    let mut under_load = Duration::ZERO;
    for round in 0..rounds {
        let gateway = Gateway::start_in(folder, config.clone()).await;
        keys.resize_with(3, || gateway.key_with(1 << 40, LONG));
        let span = Duration::from_millis(moments.u64(50..600));
        let load = Load::begin(gateway.address, &keys).await;
        let begun = Instant::now();
        // Lets time pass on purpose: the kill must come at a random moment of the load.
        tokio::time::sleep(span).await;
        folder = gateway.killed().await;
        under_load += begun.elapsed();
        let (new, tried) = load.end().await;
        println!(
            "round {round}: {} of {tried} received in {span:?}",
            new.len()
        );
        received.extend(new);
        sent += tried;

        let gateway = Gateway::start_in(folder, config.clone()).await;
        compare(&gateway, &keys, &received, sent).await;
        folder = gateway.killed().await;
    }
    let rate = received.len() as f64 / under_load.as_secs_f64();
    println!("{} received, {rate:.0} a second", received.len());
    assert!(received.len() as u64 > 10 * rounds, "hardly any load");

    // A process that ends without a kill gives all leases back.
    let mut gateway = Gateway::start_in(folder, config).await;
    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    let found = gateway.verify().await;
    assert_eq!(found["leased"], 0, "{found}");
}

/// Streams that send a token every few milliseconds, and are cut by a kill: each is charged what it
/// had delivered, except the tokens of its last quarter of a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_delivered_before_kill_9_is_charged_but_for_a_quarter_second() {
    let _alone = crate::alone().await;
    const STREAMS: usize = 8;
    /// Milliseconds between two pieces of a stream.
    const DELAY: u64 = 20;
    /// The pieces of a quarter of a second, and as many again for a machine that is busy.
    const UNKNOWN: u64 = 2 * 250 / DELAY;
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let config = gateway.config();
    let key = gateway.key.clone();
    let body = prompt(CHAT, "test-model", "Hi", json!({"stream": true}));
    let orders = format!("tokens-1000,chunk-delay-{DELAY}ms");
    let request = Request::post(CHAT, &body).key(&key).orders(&orders);
    let mut streams = JoinSet::new();
    let begun = Arc::new(Barrier::new(STREAMS + 1));
    for _ in 0..STREAMS {
        let (mut connection, request) = (gateway.connect().await, request.clone());
        let begun = Arc::clone(&begun);
        streams.spawn(async move {
            connection.write(&request.bytes()).await;
            let mut answer = connection.head().await;
            begun.wait().await;
            connection.read_body(&mut answer).await;
            answer
        });
    }
    // Lets time pass on purpose: the kill must come at a random moment of the streams.
    bounded("the streams' heads", begun.wait()).await;
    tokio::time::sleep(Duration::from_millis(900 + fastrand::u64(..600))).await;
    let folder = gateway.killed().await;
    let received = bounded("the streams' end", streams.join_all()).await;

    let gateway = Gateway::start_in(folder, config).await;
    gateway.verify().await;
    let (mut delivered, mut charged) = (0, 0);
    for answer in &received {
        let id = answer.header("x-request-id").expect("an id");
        let pieces = answer.events();
        let pieces = pieces
            .iter()
            .filter_map(|it| it["choices"][0]["delta"]["content"].as_str());
        let pieces: Vec<usize> = pieces.map(str::len).collect();
        let most = pieces.iter().max().copied().unwrap_or(0) as u64;
        let tokens = (pieces.iter().sum::<usize>() as u64).div_ceil(4);
        let record = record_of(&gateway.store(), &key, id);
        let record = record.unwrap_or_else(|| panic!("{id} is not on record: {tokens} tokens"));
        let source = record.source.as_deref();
        let how = (record.state.as_str(), source, record.status);
        assert_eq!(
            how,
            ("upstream_failed", Some("estimated"), 200),
            "{record:?}"
        );
        assert_eq!(record.error.as_deref(), Some("service_unavailable"));
        assert_eq!(record.charged, record.usage.total(), "{record:?}");
        let output = record.usage.output;
        // A piece is noted before it leaves.
        let known = tokens.saturating_sub(UNKNOWN * most.div_ceil(4))..=tokens + most;
        assert!(known.contains(&output), "{output} is not of {known:?}");
        (delivered, charged) = (delivered + tokens, charged + output);
    }
    println!("{delivered} tokens delivered, {charged} charged");
}

/// The record of a request.
fn record_of(store: &tollgate_ledger::Store, key: &str, id: &str) -> Option<UsageRecord> {
    let key = store.find_key(&KeySelector::parse(key).unwrap()).unwrap();
    let query = HistoryQuery {
        limit: HistoryQuery::MAX_LIMIT,
        ..HistoryQuery::default()
    };
    let page = History::new(store).page(key.id(), &query).unwrap();
    page.data.into_iter().find(|record| record.id == id)
}

/// All that was received is on record at its price; beyond it there is at most what was sent
/// and not received.
async fn compare(gateway: &Gateway, keys: &[String], received: &Received, sent: usize) {
    let store = gateway.store();
    let recorded: Received = keys.iter().flat_map(|key| records(&store, key)).collect();
    for (id, cost) in received {
        assert_eq!(recorded.get(id), Some(cost), "{id}");
    }
    let beyond = recorded.len() - received.len();
    let in_flight = sent - received.len();
    assert!(beyond <= in_flight, "{beyond} of {in_flight} in flight");
    let found = gateway.verify().await;
    // The request id is the table's key: as many rows as ids, and so each once.
    assert_eq!(found["requests"], recorded.len());
    assert_eq!(found["spent"], recorded.values().sum::<u64>());
}

/// Everything on record of a key: request ids, and what was charged.
fn records(store: &tollgate_ledger::Store, key: &str) -> Received {
    let key = store.find_key(&KeySelector::parse(key).unwrap()).unwrap();
    let history = History::new(store);
    let mut records = Received::new();
    let mut after = None;
    loop {
        let query = HistoryQuery {
            limit: HistoryQuery::MAX_LIMIT,
            after: after.take(),
            from: Some(Timestamp::default()),
            ..HistoryQuery::default()
        };
        let page = history.page(key.id(), &query).unwrap();
        records.extend(page.data.into_iter().map(|it| (it.id, it.charged)));
        after = page.last_cursor.filter(|_| page.has_more);
        if after.is_none() {
            return records;
        }
    }
}

/// Callers that ask as fast as they are answered, until the gateway is gone.
struct Load(JoinSet<(Received, usize)>);

impl Load {
    /// Begins, and waits until answers come.
    async fn begin(address: SocketAddr, keys: &[String]) -> Self {
        let answered = Arc::new(Notify::new());
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            let key = keys[number % keys.len()].clone();
            callers.spawn(call(address, key, number, Arc::clone(&answered)));
        }
        bounded("an answer", answered.notified()).await;
        Self(callers)
    }

    /// Waits until the last has noticed: what was received, and how much was asked.
    async fn end(mut self) -> (Received, usize) {
        let (mut received, mut sent) = (Received::new(), 0);
        while let Some(caller) = bounded("the callers' end", self.0.join_next()).await {
            let (new, tried) = caller.unwrap();
            received.extend(new);
            sent += tried;
        }
        (received, sent)
    }
}

/// One caller: the three formats in turn, streamed and not.
async fn call(
    address: SocketAddr,
    key: String,
    number: usize,
    answered: Arc<Notify>,
) -> (Received, usize) {
    let (mut received, mut sent) = (Received::new(), 0);
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    loop {
        let turn = number + sent;
        let path = FORMATS[turn % FORMATS.len()];
        let mut more = json!({"stream": turn.is_multiple_of(2)});
        if path == CHAT && more["stream"] == true {
            more["stream_options"] = json!({"include_usage": true});
        }
        let body = prompt(path, "test-model", "Hi", more);
        sent += 1;
        let asking = ask(&mut sender, path, &key, &body);
        let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, asking).await else {
            return (received, sent);
        };
        answer.assert_ok();
        let id = answer.header("x-request-id").expect("an id");
        let twice = received.insert(id.to_owned(), answer.reported());
        assert_eq!(twice, None, "{id} was given twice");
        answered.notify_one();
    }
}

/// An answer, where all of it has come.
async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    path: &str,
    key: &str,
    body: &Value,
) -> hyper::Result<Answer> {
    sender.ready().await?;
    let request = hyper::Request::post(path)
        .header("host", "gateway")
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let (head, body) = sender.send_request(request).await?.into_parts();
    let headers = head.headers.iter();
    Ok(Answer {
        status: head.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect(),
        chunks: vec![body.collect().await?.to_bytes().to_vec()],
        ending: Ending::Complete,
    })
}
