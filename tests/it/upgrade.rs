//! Another process takes over while the gateway runs: no connection is refused, no stream is
//! cut, no token is lost or charged twice, and one that cannot start changes nothing.

use crate::support::{
    self, Answer, Authority, CHAT, Caller, Config, Connection, Ending, FORMATS, Gateway, Http2,
    MESSAGES, Ports, Provider, Request, Way, bounded, eventually, prompt, tollgate,
};
use serde_json::json;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

/// A streamed request whose answer takes some two seconds.
fn long_stream(key: &str) -> Request {
    let body = prompt(MESSAGES, "test-model", "Hello!", json!({"stream": true}));
    let orders = "chunks-40, chunk-delay-100ms";
    Request::post(MESSAGES, &body).key(key).orders(orders)
}

/// Whether a process runs; a zombie does not.
fn runs(id: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = state.rsplit(") ").next().unwrap_or_default();
    !(state.is_empty() || state.starts_with('Z'))
}

async fn has_ended(id: u32) {
    eventually("the end of a process", async || (!runs(id)).then_some(())).await;
}

/// Waits until the gateway listens for upgrades: once it serves.
async fn hands_over(gateway: &Gateway) {
    let socket = gateway.folder.path().join("tollgate.db.upgrade.sock");
    let there = eventually("the gateway's socket", async || {
        UnixStream::connect(&socket).await.ok()
    });
    drop(there.await);
}

#[tokio::test]
async fn a_stream_that_outlasts_an_upgrade_ends_as_if_nothing_had_been() {
    let (_provider, mut gateway) = gateway().await;
    let mut open = gateway.connect().await;
    open.write(&long_stream(&gateway.key).bytes()).await;
    let mut answer = open.head().await;
    let mut idle = gateway.connect().await;
    let status = Request::get("/v1").key(&gateway.key);
    idle.send(&status).await.assert_ok();

    let old = gateway.id();
    let new = gateway.upgrade().await;
    assert_ne!(old, new);
    gateway.log_line("this process has taken over").await;
    assert_eq!(gateway.operator("/readyz").await.status, 200);
    gateway.get("/v1").await.assert_ok();
    // A connection to the old process serves one more request, whose answer closes it.
    let last = idle.send(&status).await;
    last.assert_ok();
    assert_eq!(last.header("connection"), Some("close"), "{last:?}");

    assert!(runs(old), "the old process has left its stream behind");
    open.read_body(&mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert!(answer.text().contains("message_stop"), "{answer:?}");
    // It counts on no more of that caller, whose connection has not been closed.
    drop(open);
    let over = Instant::now();
    assert_eq!(gateway.ended().await.code(), Some(0));
    assert!(
        over.elapsed() < Duration::from_secs(5),
        "{:?}",
        over.elapsed()
    );
    gateway.has_spent(&gateway.key, answer.reported()).await;
    gateway.verify().await;
    assert!(runs(new));
}

#[tokio::test]
async fn a_process_that_cannot_start_changes_nothing_and_says_why() {
    let (_provider, gateway) = gateway().await;
    let good = gateway.config();
    gateway.rewrite_text("surprise: true\n");
    let output = gateway.try_upgrade().await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains("surprise"), "{output:?}");

    gateway.signal("QUIT").await;
    let line = gateway
        .log_line("no other process takes over, and this one continues")
        .await;
    assert!(line.contains("surprise"), "{line}");

    // What is only found out by the new process.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut elsewhere = good.clone();
    elsewhere.0["server"]["listen"][0]["address"] = json!(address);
    gateway.rewrite_text(&elsewhere.0.to_string());
    let output = gateway.try_upgrade().await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for words in ["continues unchanged", "cannot listen on", &address] {
        assert!(output.stderr.contains(words), "{words}: {output:?}");
    }

    gateway.get("/v1").await.assert_ok();
    assert_eq!(gateway.operator("/readyz").await.status, 200);
    gateway.rewrite(good);
    let mut gateway = gateway;
    gateway.upgrade().await;
    gateway.get("/v1").await.assert_ok();
}

/// As a second gateway on the same ledger does.
#[tokio::test]
async fn a_look_at_the_socket_is_no_failed_upgrade() {
    let (_provider, mut gateway) = gateway().await;
    hands_over(&gateway).await;
    // Requests are answered in turn.
    gateway.upgrade().await;
    let output = gateway.output();
    assert!(!output.contains("no other process takes over"), "{output}");
}

#[tokio::test]
async fn sigquit_hands_over() {
    let (_provider, mut gateway) = gateway().await;
    let old = gateway.id();
    gateway.signal("QUIT").await;
    let line = gateway.log_line(" has taken over").await;
    let id = line.split_whitespace().find_map(|word| word.parse().ok());
    gateway.taken_over_by(id.expect(&line));
    gateway.get("/v1").await.assert_ok();
    has_ended(old).await;
    gateway.get("/v1").await.assert_ok();
}

#[tokio::test]
async fn a_process_that_is_started_by_hand_takes_over() {
    let (_provider, mut gateway) = gateway().await;
    let file = gateway.folder.path().join("tollgate.yaml");
    hands_over(&gateway).await;
    let mut new = tollgate()
        .args(["serve", "--upgrade", "--config"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(new.stderr.take().unwrap()).lines();
    let serving = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line.ends_with("serving") {
                return;
            }
        }
        panic!("the new process has ended");
    };
    bounded("the new process", serving).await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    gateway.get("/v1").await.assert_ok();

    // Without a running process there is none to take over from.
    new.kill().await.unwrap();
    let mut alone = tollgate();
    alone.args(["serve", "--upgrade", "--config"]).arg(&file);
    let output = support::Output::of(&mut alone).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        output.stderr.contains("no gateway hands over"),
        "{output:?}"
    );
}

#[tokio::test]
async fn a_gateway_is_found_by_its_own_socket_when_the_file_names_another() {
    for (path, value) in [
        ("server.upgrade.socket", "another.sock"),
        ("store.path", "another.db"),
    ] {
        let (_provider, mut gateway) = gateway().await;
        hands_over(&gateway).await;
        let config = gateway.config();
        gateway.rewrite(config.with(path, json!(value)));
        let output = gateway.try_upgrade().await;
        assert_eq!(output.status.code(), Some(1), "{path}: {output:?}");
        for words in ["no gateway hands over", value, "--socket", "SIGQUIT"] {
            assert!(output.stderr.contains(words), "{path}, {words}: {output:?}");
        }
        let file = gateway.folder.path().join("tollgate.yaml");
        let mut upgrade = tollgate();
        upgrade.args(["upgrade", "--config"]).arg(file);
        let socket = gateway.folder.path().join("tollgate.db.upgrade.sock");
        upgrade.arg("--socket").arg(socket);
        let output = support::Output::of(&mut upgrade).await;
        assert!(output.status.success(), "{path}: {output:?}");
        assert_eq!(gateway.ended().await.code(), Some(0), "{path}");
        // What serves now listens where the file says.
        let id = output
            .stdout
            .split_whitespace()
            .find_map(|it| it.parse().ok());
        gateway.taken_over_by(id.expect(&output.stdout));
        gateway.upgrade().await;
        assert_eq!(gateway.operator("/readyz").await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_file_in_the_place_of_the_socket_is_left_alone() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.upgrade.socket", json!("tollgate.db"));
    let mut gateway = Gateway::start(config).await;
    let line = gateway.log_line("the upgrade socket").await;
    assert!(line.contains("is not a socket"), "{line}");
    // The ledger is still there.
    let key = gateway.create_key(&[]).await;
    let request = Request::get("/v1").key(&key);
    gateway.send(&request).await.assert_ok();
    // What can be done without the socket.
    gateway.signal("QUIT").await;
    let line = gateway.log_line(" has taken over").await;
    let id = line.split_whitespace().find_map(|word| word.parse().ok());
    gateway.taken_over_by(id.expect(&line));
    gateway.send(&request).await.assert_ok();
}

#[tokio::test]
async fn an_upgrade_takes_other_addresses_and_lets_go_of_the_old_ones() {
    let (_provider, mut gateway) = gateway().await;
    let more = Ports::free().callers;
    let mut config = gateway.config();
    let old = config.0["server"]["listen"][0].clone();
    config.0["server"]["listen"] = json!([old, {"address": more.to_string()}]);
    gateway.rewrite(config);
    gateway.upgrade().await;
    for address in [gateway.address, more] {
        let request = Request::get("/v1").key(&gateway.key);
        Connection::open(address)
            .await
            .send(&request)
            .await
            .assert_ok();
    }
    gateway.rewrite(gateway.config());
    gateway.upgrade().await;
    let refused = async || tokio::net::TcpStream::connect(more).await.err().map(drop);
    eventually("the other address is given back", refused).await;
}

#[tokio::test]
async fn the_service_manager_knows_the_main_process() {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify.sock");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_nonblocking(true).unwrap();
    let manager = tokio::net::UnixDatagram::from_std(manager).unwrap();
    let notice = async || {
        let mut datagram = [0; 1024];
        let size = bounded("word for the manager", manager.recv(&mut datagram)).await;
        String::from_utf8(datagram[..size.unwrap()].to_vec()).unwrap()
    };
    let variables = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let mut gateway = Gateway::start_with(folder, Config::of(&provider), &variables).await;
    let old = gateway.id();
    let first = notice().await;
    assert!(
        first.contains("READY=1") && first.contains(&format!("MAINPID={old}")),
        "{first}"
    );

    gateway.rewrite_text("surprise: true\n");
    gateway.signal("QUIT").await;
    assert!(notice().await.contains("RELOADING=1"));
    let failed = notice().await;
    assert!(
        failed.contains("READY=1") && failed.contains("upgrade failed"),
        "{failed}"
    );
    // The other one may have said that it is the service.
    assert!(failed.contains(&format!("MAINPID={old}\n")), "{failed}");

    gateway.rewrite(gateway.config());
    let new = gateway.upgrade().await;
    assert!(notice().await.contains("RELOADING=1"));
    // The manager hears only its main process: the old one has to name it.
    let (named, ready) = (notice().await, notice().await);
    assert_eq!(named, format!("MAINPID={new}"));
    assert!(
        ready.contains("READY=1") && ready.contains(&format!("MAINPID={new}")),
        "{ready}"
    );
    gateway.signal("TERM").await;
    assert!(notice().await.contains("STOPPING=1"));
}

/// How many upgrades: `TOLLGATE_UPGRADES` for more.
fn rounds() -> usize {
    let asked = std::env::var("TOLLGATE_UPGRADES").ok();
    asked.map_or(3, |text| text.parse().expect("a number"))
}

/// What callers have received: answers, and the tokens that these say they cost.
#[derive(Clone, Copy, Default)]
struct Served {
    answers: u64,
    tokens: u64,
}

impl Served {
    /// One more answer, which must be the one that the same request got before any upgrade.
    fn add(&mut self, answer: &Answer, expected: &str) {
        answer.assert_ok();
        assert_eq!(answer.text(), expected, "events are missing, or others");
        self.answers += 1;
        self.tokens += answer.reported();
    }
}

fn question(path: &str, streamed: bool, key: &str) -> Request {
    let more = match (path, streamed) {
        (CHAT, true) => json!({"stream": true, "stream_options": {"include_usage": true}}),
        _ => json!({"stream": streamed}),
    };
    let body = prompt(path, "test-model", "one two three four five", more);
    Request::post(path, &body)
        .key(key)
        .orders("chunk-delay-3ms")
}

/// A gateway that listens without TLS and with it, and the four ways in: HTTP/1.1 and
/// HTTP/2 over each.
async fn with_four_ways() -> (Provider, Gateway, Vec<Way>) {
    let provider = Provider::start().await;
    let authority = Arc::new(Authority::new());
    let folder = TempDir::new().unwrap();
    authority.issue("gateway.test").write(folder.path(), "tls");
    let tls_at = Ports::free().callers;
    let tls = json!({"certificate": "tls.crt", "key": "tls.key"});
    let listen = json!([{}, {"address": tls_at.to_string(), "tls": tls}]);
    let config = Config::of(&provider).with("server.listen", listen);
    let gateway = Gateway::start_in(folder, config).await;
    let of = |tls: Option<&Arc<Authority>>, http2| Way {
        address: tls.map_or(gateway.address, |_| tls_at),
        http2,
        tls: tls.cloned(),
    };
    let ways = [None, Some(&authority)]
        .into_iter()
        .flat_map(|tls| [false, true].map(|http2| of(tls, http2)))
        .collect();
    (provider, gateway, ways)
}

/// A stream that has begun: the head of its answer is there, and two seconds of it are not.
async fn begin(way: &Way, request: &Request) -> JoinHandle<Answer> {
    let wire = way.open().await;
    let (http2, request) = (way.http2, request.clone());
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let stream = tokio::spawn(async move {
        if http2 {
            let mut connection = Http2::over(wire).await;
            let answer = connection.begin(&request).await.unwrap();
            begun.send(()).unwrap();
            return Http2::rest(answer).await;
        }
        let mut connection = Connection::over(wire);
        connection.write(&request.bytes()).await;
        let mut answer = connection.head().await;
        begun.send(()).unwrap();
        connection.read_body(&mut answer).await;
        answer
    });
    bounded("a stream's beginning", has_begun).await.unwrap();
    stream
}

#[tokio::test]
async fn no_request_notices_any_of_many_upgrades() {
    let (_provider, mut gateway, ways) = with_four_ways().await;
    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let key = gateway.key.clone();
    let mut all = Served::default();
    let mut first = async |request: &Request| {
        let answer = gateway.send(request).await;
        let expected: Arc<str> = answer.text().into();
        all.add(&answer, &expected);
        expected
    };
    let mut questions = Vec::new();
    for path in FORMATS {
        for streamed in [false, true] {
            let request = question(path, streamed, &key);
            let expected = first(&request).await;
            questions.push((request, expected));
        }
    }
    let long = long_stream(&key);
    let whole = first(&long).await;
    let mut callers = tokio::task::JoinSet::new();
    for way in &ways {
        for (request, expected) in questions.clone() {
            let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
            let mut caller = Caller::new(way.clone());
            callers.spawn(async move {
                let mut served = Served::default();
                while !over.load(Ordering::Acquire) {
                    served.add(&caller.send(&request).await, &expected);
                    answered.fetch_add(1, Ordering::AcqRel);
                }
                served
            });
        }
        // A connection for each request.
        let (way, over) = (way.clone(), Arc::clone(&over));
        let (request, expected) = questions[0].clone();
        callers.spawn(async move {
            let mut served = Served::default();
            while !over.load(Ordering::Acquire) {
                let answer = Caller::new(way.clone()).send(&request).await;
                served.add(&answer, &expected);
            }
            served
        });
    }
    let rounds = rounds();
    let mut processes = vec![gateway.id()];
    let mut outlasting = 0;
    for _ in 0..rounds {
        // Begun before each upgrade, ended long after it.
        let streams = ways.iter().map(|way| begin(way, &long));
        let streams = futures::future::join_all(streams).await;
        processes.push(gateway.upgrade().await);
        outlasting += streams.iter().filter(|it| !it.is_finished()).count();
        for stream in streams {
            let whole = Arc::clone(&whole);
            callers.spawn(async move {
                let mut served = Served::default();
                served.add(&stream.await.unwrap(), &whole);
                served
            });
        }
        assert_eq!(gateway.operator("/healthz").await.status, 200);
        // Each of them has something to do.
        let begun = answered.load(Ordering::Acquire);
        let busy = async || (answered.load(Ordering::Acquire) > begun + 100).then_some(());
        eventually("answers of the new process", busy).await;
    }
    over.store(true, Ordering::Release);
    let ended = tokio::time::timeout(Duration::from_secs(60), callers.join_all()).await;
    for served in ended.expect("all callers end") {
        all.answers += served.answers;
        all.tokens += served.tokens;
    }
    let Served { answers, tokens } = all;
    println!(
        "{rounds} upgrades, {answers} answers, {tokens} tokens; \
         {outlasting} streams were open longer than their upgrade"
    );
    assert!(outlasting > 0, "no stream lasts longer than an upgrade");
    let last = processes.pop().unwrap();
    for id in processes {
        has_ended(id).await;
    }
    gateway.has_spent(&key, tokens).await;
    let found = gateway.verify().await;
    assert!(runs(last), "{found}");
    gateway.signal("TERM").await;
    has_ended(last).await;
    assert_eq!(gateway.spent(&key).await, tokens);
    let left = settlement_files(gateway.folder.path());
    assert!(left.is_empty(), "{left:?}");
}

fn settlement_files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.contains(".settlements-"))
        .collect()
}

#[tokio::test]
async fn the_unit_is_in_good_order_as_systemd_reads_it() {
    const INSTALLED: &str = "/usr/local/bin/tollgate";
    let folder = TempDir::new().unwrap();
    let unit = folder.path().join("tollgate.service");
    let text = include_str!("../../deploy/systemd/tollgate.service");
    assert!(text.contains(INSTALLED));
    // With any other a stop after an upgrade cuts all streams.
    assert!(text.contains("\nKillMode=control-group\n"));
    let program = env!("CARGO_BIN_EXE_tollgate");
    std::fs::write(&unit, text.replace(INSTALLED, program)).unwrap();
    let mut verify = tokio::process::Command::new("systemd-analyze");
    let socket = folder.path().join("tollgate.socket");
    let text = include_str!("../../deploy/systemd/tollgate.socket");
    std::fs::write(&socket, text).unwrap();
    verify.args(["verify", "--man=no"]).args([&unit, &socket]);
    if support::is_missing("systemd-analyze") {
        return;
    }
    let output = support::Output::of(&mut verify).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&*output.stdout, &*output.stderr), ("", ""));
}
