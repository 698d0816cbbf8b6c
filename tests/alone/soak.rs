//! A gateway under mixed load with faults, for as long as one likes: memory stays flat, nothing
//! is left behind, and counters and ledger agree.
//!
//! `TOLLGATE_SOAK_SECONDS` says how long (half a minute by itself), `TOLLGATE_SOAK_SEED`
//! repeats the load. Reads `/proc`, so elsewhere than on Linux memory and descriptors are not
//! looked at.

use crate::support::{
    self, Answer, CHAT, Config, Connection, Ending, FORMATS, Gateway, Http2, Provider, RESPONSES,
    Request, eventually, prompt,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CALLERS: usize = 12;
/// Bytes that memory may grow by after the warm-up, over the whole run: what the allocator
/// needs to be left in peace.
const GROWTH: f64 = 8.0 * 1024.0 * 1024.0;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

/// Models whose callers never see a fault, and such whose callers may.
const WHOLE: [&str; 5] = [
    "plain",
    "replaced",
    "only-chat",
    "only-responses",
    "only-messages",
];
const BROKEN: [&str; 4] = ["breaks", "errs", "fails", "refuses"];

fn config(provider: &Provider) -> Config {
    // More than the fastest machine spends: of the usual 1G it would be out after twenty minutes.
    let mut config = Config::new()
        .with("plans.plenty.tokens", json!("1000G"))
        .with("server.threads", json!(2))
        .with("server.upstream_keepalive_pool", json!(16))
        .with("log.access", json!("none"))
        .with(
            "failover",
            json!({"pause": "10ms", "budget": {"percent": 100}}),
        )
        .model("plain", json!(["plain"]));
    let model = |config: Config, name: &str, first: Value, second: Option<&str>| {
        let mut settings = support::provider(provider.address);
        if let Some(format) = name.strip_prefix("only-") {
            settings["formats"] = json!([format]);
        }
        let mut deployments = vec![first];
        let mut config = config.provider(name, settings);
        if let Some(second) = second {
            config = config.provider(second, support::provider(provider.address));
            deployments.push(json!({"provider": second, "priority": 1}));
        }
        config.model(name, json!(deployments))
    };
    let at = |name: &str, orders: &str| json!({"provider": name, "upstream_model": format!("sim-{orders}")});
    config = model(config, "plain", json!("plain"), None);
    let fault = at("replaced", "fail-rate-20+error-first");
    config = model(config, "replaced", fault, Some("healthy"));
    for name in ["only-chat", "only-responses", "only-messages"] {
        config = model(config, name, json!(name), None);
    }
    config = model(config, "breaks", at("breaks", "fail-rate-50+cut-700"), None);
    config = model(
        config,
        "errs",
        at("errs", "fail-rate-50+error-after-5"),
        None,
    );
    config = model(
        config,
        "fails",
        at("fails", "fail-rate-70+status-503"),
        None,
    );
    model(
        config,
        "refuses",
        at("refuses", "fail-rate-50+status-422"),
        None,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_grows_and_everything_adds_up() {
    let _alone = crate::alone().await;
    let seconds = from_environment("TOLLGATE_SOAK_SECONDS").unwrap_or(30);
    let seed = from_environment("TOLLGATE_SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("TOLLGATE_SOAK_SEED={seed}");
    let provider = Provider::with(tollgate_sim::Sim::builder()).await;
    let gateway = Gateway::start(config(&provider)).await;
    let [whole, broken] = [gateway.key.clone(), gateway.create_key(&[]).await];
    let idle = Footprint::of(gateway.id());

    let ends = Instant::now() + Duration::from_secs(seconds);
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let caller = Caller {
            address: gateway.address,
            whole: whole.clone(),
            broken: broken.clone(),
            random: fastrand::Rng::with_seed(seed.wrapping_add(number as u64)),
            done: Done::default(),
        };
        callers.spawn(caller.run(ends, number % 3 == 0));
    }
    let samples = watch(&gateway, ends).await;
    let done = callers
        .join_all()
        .await
        .into_iter()
        .fold(Done::default(), Done::and);
    println!("{done:?}");
    assert!(
        done.requests > 100 && done.left > 10 && done.seen_broken > 10,
        "{done:?}"
    );

    flat(&samples);
    nothing_is_left(&gateway, &provider, idle).await;
    adds_up(&gateway, &done, [&whole, &broken]).await;
}

/// What callers have done and seen.
#[derive(Clone, Debug, Default)]
struct Done {
    requests: u64,
    /// Of those, whose caller left in the middle.
    left: u64,
    /// Of those, that ended in an error or an error event.
    seen_broken: u64,
    /// By status, of those that had a head.
    statuses: BTreeMap<u16, u64>,
    /// Tokens of whole answers with the key that gets no others.
    reported: u64,
}

impl Done {
    fn and(mut self, other: Self) -> Self {
        self.requests += other.requests;
        self.left += other.left;
        self.seen_broken += other.seen_broken;
        self.reported += other.reported;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self
    }
}

struct Caller {
    address: SocketAddr,
    /// For what ends as it should.
    whole: String,
    /// For the rest.
    broken: String,
    random: fastrand::Rng,
    done: Done,
}

impl Caller {
    async fn run(mut self, ends: Instant, over_http2: bool) -> Done {
        let mut kept = Connection::open(self.address).await;
        let mut http2 = Http2::open(self.address).await;
        while Instant::now() < ends {
            let path = FORMATS[self.random.usize(..FORMATS.len())];
            let stream = self.random.bool();
            self.done.requests += 1;
            match self.random.u8(..10) {
                0 => self.leave(path).await,
                1..4 => {
                    let model = BROKEN[self.random.usize(..BROKEN.len())];
                    let request = self.request(path, model, stream, &self.broken.clone());
                    let answer = Connection::open(self.address).await.send(&request).await;
                    self.note(&answer);
                    self.done.seen_broken += u64::from(!is_whole(path, &answer));
                }
                _ => {
                    let model = WHOLE[self.random.usize(..WHOLE.len())];
                    let request = self.request(path, model, stream, &self.whole.clone());
                    let answer = match over_http2 {
                        true => http2.send(&request).await,
                        false => kept.send(&request).await,
                    };
                    self.note(&answer);
                    assert!(is_whole(path, &answer), "{model} {path}: {answer:?}");
                    self.done.reported += answer.reported();
                }
            }
        }
        self.done
    }

    fn request(&mut self, path: &str, model: &str, stream: bool, key: &str) -> Request {
        let mut more = json!({"stream": stream});
        if path == CHAT && stream {
            more["stream_options"] = json!({"include_usage": true});
        }
        // Mostly small, now and then what an agent sends.
        let words = match self.random.u8(..20) {
            0 => 20_000,
            _ => self.random.usize(1..40),
        };
        let body = prompt(path, model, &"word ".repeat(words), more);
        let request = Request::post(path, &body).key(key).orders("tokens-20");
        match self.random.u8(..8) {
            0 if words < 1000 => request.in_chunks_of(100),
            _ => request,
        }
    }

    /// Leaves as soon as something has come.
    async fn leave(&mut self, path: &str) {
        let key = self.broken.clone();
        let request = self.request(path, "plain", true, &key);
        let request = request
            .without("x-sim")
            .orders("chunk-delay-5ms,tokens-100");
        let mut connection = Connection::open(self.address).await;
        connection.write(&request.bytes()).await;
        let head = connection.head().await;
        connection.read_until(b"data: ").await;
        self.done.left += 1;
        *self.done.statuses.entry(head.status).or_default() += 1;
    }

    fn note(&mut self, answer: &Answer) {
        *self.done.statuses.entry(answer.status).or_default() += 1;
    }
}

/// Whether an answer is one, to its end.
fn is_whole(path: &str, answer: &Answer) -> bool {
    if answer.status != 200 || answer.ending != Ending::Complete {
        return false;
    }
    let kind = answer.header("content-type").unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        return true;
    }
    let events = answer.events();
    let last = events.last().unwrap_or(&Value::Null);
    match path {
        CHAT => *last == "[DONE]",
        RESPONSES => last["type"] == "response.completed" || last["type"] == "response.incomplete",
        _ => last["type"] == "message_stop",
    }
}

/// What the process takes of the machine.
#[derive(Clone, Copy, Debug, Default)]
struct Footprint {
    /// Bytes.
    resident: f64,
    descriptors: usize,
    threads: usize,
}

impl Footprint {
    fn of(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        let status = status.unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or(0_usize)
        };
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"));
        Self {
            resident: field("VmRSS:") as f64 * 1024.0,
            descriptors: descriptors.map_or(0, Iterator::count),
            threads: field("Threads:"),
        }
    }
}

/// Looks at the process every now and then, until the load ends.
async fn watch(gateway: &Gateway, ends: Instant) -> Vec<Footprint> {
    const SAMPLES: u32 = 100;
    let every = ends.saturating_duration_since(Instant::now()) / SAMPLES;
    let mut ticks = tokio::time::interval(every.max(Duration::from_millis(10)));
    let mut samples = Vec::new();
    while Instant::now() < ends {
        ticks.tick().await;
        samples.push(Footprint::of(gateway.id()));
    }
    samples
}

/// The straight line through memory after the warm-up does not rise.
fn flat(samples: &[Footprint]) {
    let settled = &samples[samples.len() / 3..];
    let count = settled.len() as f64;
    let times = (0..settled.len()).map(|it| it as f64);
    let mean_time = (count - 1.0) / 2.0;
    let mean = settled.iter().map(|it| it.resident).sum::<f64>() / count;
    let (mut above, mut below) = (0.0, 0.0);
    for (time, sample) in times.zip(settled) {
        above += (time - mean_time) * (sample.resident - mean);
        below += (time - mean_time) * (time - mean_time);
    }
    let growth = above / below * count;
    let most = settled.iter().map(|it| it.descriptors).max();
    println!(
        "{mean:.0} bytes, {growth:+.0} over the run after the warm-up; at most {most:?} descriptors"
    );
    assert!(growth < GROWTH, "memory grows: {samples:?}");
}

async fn nothing_is_left(gateway: &Gateway, provider: &Provider, idle: Footprint) {
    for gauge in [
        "tollgate_requests_in_flight",
        "tollgate_streams_open",
        "tollgate_request_body_bytes",
        "tollgate_ledger_open_requests",
    ] {
        gateway.sample_is(gauge, 0.0).await;
    }
    let seen = provider
        .when("no answer is open", |it| it.open_answers == 0)
        .await;
    // What is kept: connections to the provider, and the admin listener's and the ledger's own.
    const FEW: usize = 8;
    let kept = usize::try_from(seen.open_connections).unwrap();
    let look = async || {
        let now = Footprint::of(gateway.id());
        (now.descriptors <= idle.descriptors + kept + FEW).then_some(now)
    };
    let now = eventually("the descriptors are given back", look).await;
    println!("idle before {idle:?}, after {now:?}, {kept} connections kept");
    // The one that looks at deadlines comes with the first stream, the runtime's own for files
    // and names come and go.
    assert!(now.threads <= idle.threads + FEW, "{idle:?} {now:?}");
}

async fn adds_up(gateway: &Gateway, done: &Done, keys: [&str; 2]) {
    let page = gateway.operator("/metrics").await.text();
    let sum = |name: &str| {
        let lines = page.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        let values = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        values.sum::<u64>()
    };
    assert_eq!(sum("tollgate_requests_total"), done.requests, "{done:?}");
    let found = gateway.verify().await;
    println!("{found}");
    assert_eq!(
        found["requests"],
        sum("tollgate_ledger_reservations_total"),
        "{page}"
    );
    assert_eq!(found["requests"], done.requests, "{done:?}");
    let charged = sum("tollgate_ledger_charged_tokens_total");
    assert_eq!(found["spent"], charged, "{page}");
    // To the token: what whole answers said they cost.
    gateway.has_spent(keys[0], done.reported).await;
    let of_broken = gateway.spent(keys[1]).await;
    assert_eq!(done.reported + of_broken, charged);
}
