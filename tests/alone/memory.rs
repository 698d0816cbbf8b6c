//! The memory of the whole program stays under its bound, whatever callers send at once: requests
//! without room get 503, and all others are served. Reads `/proc`, so it takes
//! Linux.

use crate::support::{
    Act, Answer, CHAT, Config, Connection, Gateway, MESSAGES, Mounts, PATIENCE, Provider, Request,
    Upstream, bounded, eventually,
};
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const MIB: u64 = 1 << 20;
/// Callers that send at once.
const CALLERS: usize = 24;
/// What the program may have beyond its bound: what is no body and comes between two looks.
const SLACK: u64 = 32 * MIB;

/// A provider of chat that takes any request and answers on a signal.
struct Patient {
    address: SocketAddr,
    held: Arc<AtomicUsize>,
    reported: watch::Sender<bool>,
}

impl Patient {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (reported, wait) = watch::channel(false);
        let it = Self {
            address: listener.local_addr().unwrap(),
            held: Arc::default(),
            reported,
        };
        let held = Arc::clone(&it.held);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(hold(stream, Arc::clone(&held), wait.clone()));
            }
        });
        it
    }
}

/// Reads a request and keeps none of it.
async fn hold(mut stream: TcpStream, held: Arc<AtomicUsize>, mut wait: watch::Receiver<bool>) {
    const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    let (end, length) = loop {
        match stream.read(&mut buffer[filled..]).await {
            Ok(read @ 1..) => filled += read,
            _ => return,
        }
        let text = String::from_utf8_lossy(&buffer[..filled]).to_ascii_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let line = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "));
        break (head.len() + 4, line.unwrap().parse::<usize>().unwrap());
    };
    let mut left = length - (filled - end);
    while left > 0 {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => left -= read,
            _ => return,
        }
    }
    held.fetch_add(1, Ordering::SeqCst);
    wait.wait_for(|reported| *reported).await.unwrap();
    held.fetch_sub(1, Ordering::SeqCst);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        ANSWER.len()
    );
    stream.write_all((head + ANSWER).as_bytes()).await.ok();
}

/// A gateway whose large requests go to the one provider, and small ones to the other.
fn config(limits: serde_json::Value, patient: &Patient, provider: &Provider) -> Config {
    let large = json!({"address": format!("http://{}", patient.address), "formats": ["chat"]});
    Config::of(provider)
        .with("server.limits", limits)
        .with("server.threads", json!(2))
        .provider("patient", large)
        .model("large-model", json!(["patient"]))
}

/// One long text, of 28 million bytes.
fn long_text() -> String {
    let text = "word ".repeat(5_600_000);
    format!(
        r#"{{"model":"large-model","max_tokens":9,"messages":[{{"role":"user","content":"{text}"}}]}}"#
    )
}

/// So many short messages: each takes many times its thirty bytes to translate.
fn messages(count: usize) -> String {
    let messages = vec![r#"{"role":"user","content":"a"}"#; count].join(",");
    format!(r#"{{"model":"large-model","max_tokens":9,"messages":[{messages}]}}"#)
}

fn post(path: &str, body: &str, key: &str) -> Request {
    Request::new("POST", path)
        .header("content-type", "application/json")
        .key(key)
        .body(body)
}

/// Sends a request whose body may not be wanted; `None` where the answer was lost with the connection.
async fn send(address: SocketAddr, request: &Request) -> Option<Answer> {
    let mut connection = Connection::open(address).await;
    let written = connection.try_write(&request.bytes()).await;
    if written.is_err() {
        return None;
    }
    Some(connection.answer(request).await)
}

/// The most memory that a process has had, in bytes.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|it| it.split_whitespace().next()).unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}

/// What became of callers that all sent the same at once.
#[derive(Debug, Default)]
struct Outcome {
    served: usize,
    refused: usize,
    lost: usize,
}

/// Has all callers send at once, small ones beside them, and the provider answer once it holds all
/// that were let through.
async fn crowd(gateway: &Gateway, patient: &Patient, path: &str, body: &str) -> Outcome {
    patient.reported.send_replace(false);
    let over = Arc::new(AtomicUsize::new(0));
    let request = Arc::new(post(path, body, &gateway.key));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (request, over) = (Arc::clone(&request), Arc::clone(&over));
            let address = gateway.address;
            tokio::spawn(async move {
                let answer = send(address, &request).await;
                over.fetch_add(1, Ordering::SeqCst);
                answer
            })
        })
        .collect();
    eventually("all callers are refused or held", async || {
        let small = gateway.ask(CHAT, "test-model", "", json!({})).await;
        small.assert_ok();
        let known = over.load(Ordering::SeqCst) + patient.held.load(Ordering::SeqCst);
        (known == CALLERS).then_some(())
    })
    .await;
    patient.reported.send_replace(true);
    let mut outcome = Outcome::default();
    for caller in callers {
        match bounded("a caller's answer", caller).await.unwrap() {
            None => outcome.lost += 1,
            Some(answer) if answer.status == 200 => outcome.served += 1,
            Some(answer) => {
                // All are of one key, which gets 429 first.
                match answer.status {
                    429 => answer.assert_error(429, "rate_limit_exceeded"),
                    _ => answer.assert_error(503, "service_unavailable"),
                }
                assert!(answer.header("retry-after").is_some(), "{answer:?}");
                outcome.refused += 1;
            }
        }
    }
    outcome
}

async fn shed(gateway: &Gateway) -> f64 {
    let mut all = 0.0;
    for reason in ["bodies", "memory", "key_bodies"] {
        let sample = format!("tollgate_requests_shed_total{{reason=\"{reason}\"}}");
        all += gateway.sample(&sample).await.unwrap_or(0.0);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_bodies_at_once_leave_the_program_under_its_bound() {
    let _alone = crate::alone().await;
    let (patient, provider) = (Patient::start().await, Provider::start().await);
    let config = config(json!({"memory": "200MiB"}), &patient, &provider);
    let gateway = Gateway::start(config).await;
    let (long, many) = (long_text(), messages(100_000));
    for (path, body) in [(CHAT, &long), (MESSAGES, &long), (MESSAGES, &many)] {
        let before = shed(&gateway).await;
        let outcome = crowd(&gateway, &patient, path, body).await;
        let peak = peak(gateway.id());
        println!(
            "{path}, {} bytes: {outcome:?}, peak {} MiB",
            body.len(),
            peak / MIB
        );
        assert!(peak <= 200 * MIB + SLACK, "{peak} bytes at {path}");
        assert!(outcome.served > 0, "{outcome:?}");
        let refused = outcome.refused + outcome.lost;
        assert_eq!(shed(&gateway).await - before, refused as f64, "{outcome:?}");
        // Nothing is left of it.
        gateway.sample_is("tollgate_request_body_bytes", 0.0).await;
        patient.reported.send_replace(true);
        let again = send(gateway.address, &post(path, body, &gateway.key)).await;
        again.expect("room for one").assert_ok();
    }
}

#[tokio::test]
async fn released_memory_is_no_reason_to_refuse_with_little_memory() {
    let _alone = crate::alone().await;
    let (patient, provider) = (Patient::start().await, Provider::start().await);
    patient.reported.send_replace(true);
    let config = config(json!({"memory": "100MiB"}), &patient, &provider);
    let gateway = Gateway::start(config).await;
    // One after the other, so that all but the last was let go.
    for round in 0..4 {
        for body in [of_length(12 * MIB), messages(30_000)] {
            for path in [CHAT, MESSAGES] {
                let answer = send(gateway.address, &post(path, &body, &gateway.key)).await;
                let answer = answer.expect("an answer");
                assert_eq!(answer.status, 200, "round {round}, {path}: {answer:?}");
            }
        }
    }
    let peak = peak(gateway.id());
    assert!(peak <= 100 * MIB + SLACK, "{peak} bytes");
}

/// A provider of chat whose every answer says so many bytes.
async fn telling(bytes: usize) -> Upstream {
    let answer = json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": "word ".repeat(bytes / 5)},
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14},
    });
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    Upstream::playing([Act::send(head + &answer)]).await
}

/// A body of exactly so many bytes.
fn of_length(bytes: u64) -> String {
    let with = |text: &str| {
        format!(
            r#"{{"model":"large-model","max_tokens":9,"messages":[{{"role":"user","content":"{text}"}}]}}"#
        )
    };
    with(&"a".repeat(usize::try_from(bytes).unwrap() - with("").len()))
}

/// Providers of chat: one that never takes a request, and those with short and long answers.
fn with_one_that_takes_nothing(deaf: SocketAddr, little: &Upstream, much: &Upstream) -> Config {
    let chat =
        |address: SocketAddr| json!({"address": format!("http://{address}"), "formats": ["chat"]});
    let limits = json!({
        "bodies_in_memory": "48MiB", "body_bytes": "21MiB", "reserved_for_priority": 0,
    });
    Config::new()
        .with("server.limits", limits)
        .provider("deaf", chat(deaf))
        .provider("little", chat(little.address))
        .provider("much", chat(much.address))
        .model("large-model", json!(["deaf/other-model"]))
        .model("little", json!(["little"]))
        .model("much", json!(["much"]))
}

#[tokio::test]
async fn a_small_request_gets_its_long_answer_where_a_large_one_has_taken_its_share() {
    let _alone = crate::alone().await;
    // Its answer is not read.
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (little, much) = (telling(21_000).await, telling(4_000_000).await);
    let config = with_one_that_takes_nothing(deaf.local_addr().unwrap(), &little, &much);
    let gateway = Gateway::start(config).await;
    // With its edited copy it takes all that there is for large ones, to the byte.
    let large = post(CHAT, &of_length(21 * MIB), &gateway.key);
    let mut connection = Connection::open(gateway.address).await;
    connection.write(&large.bytes()).await;
    let held = (42 * MIB) as f64;
    gateway.sample_is("tollgate_request_body_bytes", held).await;

    let answer = gateway.ask(MESSAGES, "little", "", json!({})).await;
    answer.assert_ok();
    assert!(answer.text().len() > 21_000, "{answer:?}");

    // What is too long for the rest of it is lost, which is no fault of its caller's.
    let answer = gateway.ask(MESSAGES, "much", "", json!({})).await;
    answer.assert_error(503, "service_unavailable");
    let line = gateway.access_line(|line| line["model"] == "much").await;
    assert_eq!(
        (&line["outcome"], &line["charged"]),
        (&json!("upstream_failed"), &json!(0)),
        "{line}"
    );
}

#[tokio::test]
async fn a_body_too_large_for_an_edited_copy_that_thinks_gets_413() {
    let _alone = crate::alone().await;
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", deaf.local_addr().unwrap());
    let limits = json!({
        "bodies_in_memory": "48MiB", "body_bytes": "21MiB", "reserved_for_priority": 0,
    });
    let mut config = Config::new()
        .with("server.limits", limits)
        .provider("deaf", json!({"address": address, "formats": ["messages"]}))
        .model("large-model", json!(["deaf/other-model"]));
    config.0["models"]["large-model"]["reasoning"] = json!("extended");
    let gateway = Gateway::start(config).await;
    // Itself, its copy, and what is read of that and written anew: four times 14 MiB at the most.
    let large = post(MESSAGES, &of_length(14 * MIB), &gateway.key);
    let answer = send(gateway.address, &large).await.expect("an answer");
    answer.assert_error(413, "request_too_large");
    gateway.sample_is("tollgate_request_body_bytes", 0.0).await;
}

/// A control group with a bound on its memory, of either version.
struct Group(PathBuf);

impl Group {
    fn of(bytes: u64) -> Option<Self> {
        let name = format!("tollgate-test-{}", std::process::id());
        let kinds = [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ];
        kinds.into_iter().find_map(|(root, limit)| {
            let group = Self(Path::new(root).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            // Making it of nothing would make a plain file of it where this is no control group.
            let limit = group.0.join(limit);
            let is_bound = limit.exists() && std::fs::write(&limit, bytes.to_string()).is_ok();
            is_bound.then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once the gateway in it has ended.
        let ends = std::time::Instant::now() + PATIENCE;
        while std::fs::remove_dir(&self.0).is_err() && std::time::Instant::now() < ends {
            std::thread::yield_now();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_container_of_half_a_gibibyte_large_bodies_do_not_kill_the_process_by_default() {
    let _alone = crate::alone().await;
    let name = "in_a_container_of_half_a_gibibyte_large_bodies_do_not_kill_the_process_by_default";
    let Some(mut mounts) = Mounts::new(name).await else {
        return;
    };
    let Some(group) = Group::of(512 * MIB) else {
        eprintln!("SKIPPED: {name}: this system gives us no control group");
        return;
    };
    let line = format!("\necho $$ > '{}/cgroup.procs'", group.0.display());
    mounts.script.push_str(&line);
    let (patient, provider) = (Patient::start().await, Provider::start().await);
    let config = config(json!({}), &patient, &provider);
    let folder = tempfile::TempDir::new().unwrap();
    let gateway = Gateway::start_on(folder, config, &mounts).await;
    let outcome = crowd(&gateway, &patient, MESSAGES, &long_text()).await;
    let peak = peak(gateway.id());
    println!("{outcome:?}, peak {} MiB", peak / MIB);
    assert!(peak <= 384 * MIB + SLACK, "{peak} bytes");
    assert!(
        outcome.served > 0 && outcome.served < CALLERS,
        "{outcome:?}"
    );
    drop(gateway);
    drop(group);
}
