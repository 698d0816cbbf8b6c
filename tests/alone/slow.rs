//! What a thousand slow callers cost other callers, measured: the slowest hundredth of other
//! callers' requests beside them and without them, in rounds that alternate, and the ratio with
//! its interval. `make test-overload` prints it.
//!
//! Times are printed and not judged, since others may use the machine; the test asserts that
//! all others are served, and that nothing is left of the attack.

use crate::support::slow::from;
use crate::support::{CHAT, Config, Connection, Crowd, Gateway, Provider, Request, prompt};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

const CONNECTIONS: usize = 1000;
/// Requests of other callers in each measurement.
const REQUESTS: usize = 1000;

/// A gateway that lets slow callers be slow: what is measured is what it costs to hold them.
async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let patient = json!({
        "connections_per_address": null,
        "head_timeout": "5m",
        "body_timeout": "5m",
        "min_body_rate": null,
        "downstream_write_timeout": "5m",
    });
    // As many models as make a list that does not fit the window of a slow reader.
    let models = (0..300).map(|number| format!("model-{number}"));
    let config = Config::of(&provider).with("server.limits", patient);
    let config = models.fold(config, |config, name| config.model(&name, json!(["sim"])));
    (provider, Gateway::start(config).await)
}

/// The slowest hundredth of requests over connections that are kept, in milliseconds. All of
/// them are served.
async fn p99(gateway: &Gateway) -> f64 {
    const CALLERS: usize = 4;
    let body = prompt(CHAT, "test-model", "Hi", Value::Null);
    let request = Request::post(CHAT, &body).key(&gateway.key);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        // Not where slow callers come from.
        let mut connection = Connection::over(from([127, 0, 0, 2], gateway.address).await);
        let request = request.clone();
        callers.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..REQUESTS / CALLERS {
                let begun = Instant::now();
                connection.send(&request).await.assert_ok();
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            times
        });
    }
    let mut times: Vec<f64> = callers.join_all().await.concat();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

/// Pairs of measurements, one without the attack and one beside it.
#[derive(Default)]
struct Rounds {
    alone: Vec<f64>,
    beside: Vec<f64>,
    held: Vec<f64>,
}

impl Rounds {
    /// One round: two pairs, in the order alone, beside, beside, alone, so that what drifts
    /// falls on both.
    async fn add<A>(&mut self, gateway: &Gateway, attack: impl AsyncFn() -> A) {
        self.alone.push(p99(gateway).await);
        let attack = attack().await;
        for _ in 0..2 {
            self.beside.push(p99(gateway).await);
            let held = gateway.sample("tollgate_connections").await;
            self.held.push(held.unwrap_or_default());
        }
        drop(attack);
        gateway.sample_is("tollgate_connections", 0.0).await;
        self.alone.push(p99(gateway).await);
    }

    fn tell(&self, what: &str) {
        let pairs = self.beside.iter().zip(&self.alone);
        let ratios: Vec<f64> = pairs.map(|(beside, alone)| beside / alone).collect();
        let (low, high, sure) = interval(&ratios);
        let least = self.held.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{what}: at least {least} connections held; p99 {:.2} ms alone, {:.2} ms beside; ratio \
             {:.2} ({low:.2} to {high:.2}, {:.0} % sure, {} pairs of {REQUESTS} requests)",
            median(&self.alone),
            median(&self.beside),
            median(&ratios),
            sure * 100.0,
            ratios.len(),
        );
    }
}

/// How many rounds: `TOLLGATE_OVERLOAD_ROUNDS` for more. Below five, fewer than 95 % are sure.
fn rounds() -> usize {
    let asked = std::env::var("TOLLGATE_OVERLOAD_ROUNDS").ok();
    asked.map_or(5, |text| text.parse().expect("a number"))
}

fn median(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The narrowest interval between two samples in which the median lies with 95 % confidence,
/// whatever the distribution (the sign test, inverted), and how sure that is; the whole range
/// where there are too few samples.
fn interval(samples: &[f64]) -> (f64, f64, f64) {
    let sorted = sorted(samples);
    let count = u32::try_from(sorted.len()).unwrap();
    let mut found = (0, 1.0 - f64::powi(0.5, i32::try_from(count).unwrap() - 1));
    let (mut ways, mut outside) = (1.0, 0.0);
    for cut in 0..count / 2 {
        outside += ways * f64::powi(0.5, i32::try_from(count).unwrap());
        ways *= f64::from(count - cut) / f64::from(cut + 1);
        let sure = 1.0 - 2.0 * outside;
        if sure >= 0.95 {
            found = (usize::try_from(cut).unwrap(), sure);
        }
    }
    let (cut, sure) = found;
    (sorted[cut], sorted[sorted.len() - 1 - cut], sure)
}

#[test]
fn an_interval_of_a_median_is_that_of_the_tables() {
    let samples: Vec<f64> = (1..=10).map(f64::from).collect();
    let (low, high, sure) = interval(&samples);
    assert_eq!((low, high), (2.0, 9.0));
    assert!((sure - 0.9785).abs() < 1e-3, "{sure}");
    let (low, high, sure) = interval(&samples[..4]);
    assert_eq!((low, high), (1.0, 4.0));
    assert!((sure - 0.875).abs() < 1e-9, "{sure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make test-overload"]
async fn a_thousand_slow_callers_of_our_own_kind() {
    let _alone = crate::alone().await;
    let (_provider, gateway) = gateway().await;
    p99(&gateway).await;
    let mut measured = Rounds::default();
    for _ in 0..rounds() {
        let gather = async || {
            let crowd = Crowd::gather(&gateway, CONNECTIONS / 3).await;
            // What fits their sockets is sent first; that is work, and no slowness.
            p99(&gateway).await;
            crowd
        };
        measured.add(&gateway, gather).await;
    }
    measured.tell("heads, bodies with a key and readers that trickle");
    assert!(measured.held.iter().all(|held| *held >= 999.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes, and slowhttptest: make test-overload"]
async fn slowhttptest_with_a_thousand_connections() {
    let _alone = crate::alone().await;
    let (_provider, gateway) = gateway().await;
    // It has no option for a header, but the value of this option goes into one as it is.
    let key = format!("authorization: Bearer {}", gateway.key);
    let with_key = [
        format!("application/json\r\n{key}"),
        format!("a=b\r\n{key}"),
    ];
    let [body, read] = with_key.each_ref().map(String::as_str);
    let window = ["-w", "512", "-y", "1024", "-n", "5", "-z", "32", "-k", "3"];
    for (mode, path, more) in [
        ("-H", CHAT, &["-x", "24"][..]),
        ("-B", CHAT, &["-s", "8192", "-t", "POST", "-f", body]),
        ("-X", "/v1/models", &[&["-j", read][..], &window].concat()),
    ] {
        p99(&gateway).await;
        let mut measured = Rounds::default();
        for _ in 0..rounds() {
            let attack = async || slowhttptest(&gateway, mode, path, more).await;
            measured.add(&gateway, attack).await;
        }
        measured.tell(&format!("slowhttptest {mode}"));
    }
}

/// Starts it, and waits until it has opened as many connections as it is going to hold.
async fn slowhttptest(gateway: &Gateway, mode: &str, path: &str, more: &[&str]) -> Child {
    /// It opens 400 a second, as its options say, if it gets the time.
    const LEAST: Duration = Duration::from_secs(3);
    const MOST: Duration = Duration::from_secs(20);
    let url = format!("http://{}{path}", gateway.address);
    let connections = CONNECTIONS.to_string();
    let attack = Command::new("slowhttptest")
        .args([
            mode,
            "-c",
            &connections,
            "-r",
            "400",
            "-i",
            "2",
            "-l",
            "120",
        ])
        .args(["-p", "3", "-u", &url])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("slowhttptest is installed: scripts/setup overload");
    let begun = Instant::now();
    let mut held = None;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = gateway.sample("tollgate_connections").await;
        let is_settled = begun.elapsed() > LEAST && now == held;
        if is_settled || begun.elapsed() > MOST {
            break;
        }
        held = now;
    }
    // Opening them is work, and no slowness.
    p99(gateway).await;
    attack
}
