//! Messages are lost or late while one process takes over from another, and one of them
//! crashes: in the end exactly one of them serves. One side is the gateway; the other is played here,
//! word by word, as `src/server/handover.rs` has them.

use crate::support::{
    self, Config, Connection, Ending, Gateway, LONG, MESSAGES, Ports, Provider, Request, bounded,
    eventually, prompt, store_in, tollgate,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::json;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Child;
use tollgate_ledger::{
    KeySelector, Ledger, LedgerSettings, RequestInfo, Reserve, Shortage, Store, UpperBound,
};
use tollgate_types::{Format, KeyId, RequestId, Weights};

/// The other end of a hand-over.
struct Peer(BufReader<UnixStream>);

impl Peer {
    async fn say(&mut self, word: &str) {
        self.try_say(word).await.unwrap();
    }

    async fn try_say(&mut self, word: &str) -> std::io::Result<()> {
        let line = format!("{word}\n");
        let saying = self.0.get_mut().write_all(line.as_bytes());
        bounded("a word to be taken", saying).await
    }

    /// The next line; empty where there is none.
    async fn hear(&mut self) -> String {
        let mut line = String::new();
        let hearing = self.0.read_line(&mut line);
        // One that has left what was said unread resets the stream.
        let _ = bounded("a word", hearing).await;
        line.trim_end().to_owned()
    }
}

/// The messages of the new process, one after the other, and each answer.
const NEW: [(&str, &str); 4] = [
    ("take 1", "{"),
    ("ready", "go"),
    ("serving 4711", "commit"),
    ("acknowledge", "drained"),
];

/// A new process that has come so far.
async fn new_process(gateway: &Gateway, steps: usize) -> Peer {
    let socket = gateway.folder.path().join("tollgate.db.upgrade.sock");
    // It listens there once it serves.
    let there = eventually("the gateway's socket", async || {
        UnixStream::connect(&socket).await.ok()
    });
    let mut new = Peer(BufReader::new(there.await));
    for (word, shown) in &NEW[..steps] {
        new.say(word).await;
        let heard = new.hear().await;
        assert!(heard.starts_with(shown), "{word}: {heard}");
    }
    new
}

async fn goes_on(gateway: &Gateway, failures: usize) {
    let shown = async || {
        let output = gateway.output();
        (output.matches("and this one continues").count() == failures).then_some(())
    };
    eventually("the gateway goes on", shown).await;
    gateway.get("/v1").await.assert_ok();
    assert_eq!(gateway.operator("/readyz").await.status, 200);
}

async fn gateway(timeout: &str) -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.upgrade", json!({"timeout": timeout}));
    (provider, Gateway::start(config).await)
}

#[tokio::test]
async fn wherever_the_new_process_dies_the_old_one_goes_on() {
    let (_provider, mut gateway) = gateway("30s").await;
    let mut failures = 0;
    for steps in 0..NEW.len() {
        drop(new_process(&gateway, steps).await);
        // Without a word it is no failure: a process that starts looks in this way whether a gateway listens.
        failures += usize::from(steps > 0);
        goes_on(&gateway, failures).await;
    }
    // And where its last message is not answered yet.
    for (steps, (word, _)) in NEW.iter().enumerate().take(3) {
        let mut new = new_process(&gateway, steps).await;
        new.say(word).await;
        drop(new);
        failures += 1;
        goes_on(&gateway, failures).await;
    }
    let new = gateway.upgrade().await;
    assert_eq!(gateway.id(), new);
    gateway.get("/v1").await.assert_ok();
}

#[tokio::test]
async fn a_late_new_process_is_refused_and_the_old_one_goes_on() {
    let (_provider, mut gateway) = gateway("2s").await;
    for (failures, steps) in (1..NEW.len() - 1).enumerate() {
        let mut new = new_process(&gateway, steps).await;
        let shown = new.hear().await;
        assert!(shown.starts_with("failed "), "after {steps} steps: {shown}");
        // It says the next word all the same, too late.
        let _ = new.try_say(NEW[steps].0).await;
        assert_eq!(new.hear().await, "", "after {steps} steps");
        goes_on(&gateway, failures + 1).await;
    }
    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
}

/// The new process has read the files, and would not know of what changes here meanwhile.
#[tokio::test]
async fn nothing_is_reloaded_while_another_process_takes_over_nor_once_it_has() {
    const TOKEN: &str = "0123456789abcdef-admin";
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let config = Config::of(&provider)
        .with("admin.token", json!("file:token"))
        .with("server.upgrade", json!({"timeout": "30s"}))
        .with(
            "providers.sim.check",
            json!({"path": "/v1/models", "every": "50ms"}),
        );
    let mut gateway = Gateway::start_in(folder, config).await;
    let api = async |target: &str| {
        let request = Request::new("POST", target).key(TOKEN);
        Connection::open(gateway.admin).await.send(&request).await
    };
    let write = |model: &str| {
        let config = gateway.config();
        gateway.rewrite(config.model(model, json!(["sim/upstream-model"])));
    };
    write("first");
    api("/api/v1/reload").await.assert_ok();

    let new = new_process(&gateway, 2).await;
    write("second");
    for target in ["/api/v1/reload", "/api/v1/reload/rollback"] {
        let refused = api(target).await;
        refused.assert_error(503, "service_unavailable");
        assert!(refused.message().contains("taking over"), "{refused:?}");
    }
    api("/api/v1/reload?dry_run=true").await.assert_ok();
    gateway.signal("HUP").await;
    gateway.log_line("is not reloaded during an upgrade").await;
    // It fails, and what was put off is done.
    drop(new);
    goes_on(&gateway, 1).await;
    gateway.log_line("was reloaded: number 3,").await;

    let body = prompt(MESSAGES, "test-model", "Hello!", json!({"stream": true}));
    let request = Request::post(MESSAGES, &body).key(&gateway.key);
    let mut open = gateway.connect().await;
    open.write(&request.orders("chunks-40, chunk-delay-100ms").bytes())
        .await;
    let mut answer = open.head().await;
    let _new = new_process(&gateway, NEW.len()).await;
    write("third");
    gateway.signal("HUP").await;
    let requests = || provider.handle.counters().requests;
    let before = requests();
    open.read_body(&mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    // One may have been on its way.
    let checks = requests() - before;
    assert!(checks <= 1, "{checks} checks");
    drop(open);
    assert_eq!(gateway.ended().await.code(), Some(0));
    let output = gateway.output();
    assert!(!output.contains("number 4,"), "{output}");
}

#[tokio::test]
async fn the_old_process_leaves_once_the_new_one_has_the_service() {
    let (_provider, mut gateway) = gateway("30s").await;
    let mut new = new_process(&gateway, NEW.len()).await;
    assert_eq!(new.hear().await, "");
    assert_eq!(gateway.ended().await.code(), Some(0));
}

/// The new process's share of a ledger.
struct Share {
    ledger: Ledger,
    key: KeyId,
}

impl Share {
    fn of(store: &Store, key: &str) -> Self {
        let key = store.find_key(&KeySelector::parse(key).unwrap()).unwrap();
        Self {
            ledger: Ledger::open(store, LedgerSettings::default()).unwrap(),
            key: key.id().clone(),
        }
    }

    async fn reserve(&self, tokens: u64) -> Result<(), Shortage> {
        let request = RequestInfo {
            id: RequestId::from_parts(1, u128::from(tokens)),
            model: "test-model".into(),
            reason: None,
            format: Some(Format::Chat),
            streamed: false,
        };
        let bound = UpperBound {
            input: 0,
            hidden_input: 0,
            plausible_input: u64::MAX,
            plausible_output: u64::MAX,
            output: tokens,
            useful_output: tokens,
        };
        let held = self
            .ledger
            .reserve(&self.key, request.clone(), bound, Weights::default());
        match held {
            Reserve::Reserved(_) => Ok(()),
            Reserve::Refused(refused) => Err(refused),
            Reserve::Wait(account) => {
                bounded("an account", account.wait()).await?;
                Err(Shortage::Busy)
            }
        }
    }

    /// Waits until it can spend all of it, and says in how many portions that has come.
    async fn gets(&self, tokens: u64) -> usize {
        let (mut before, mut portions) = (0, 0);
        let spends = async || {
            let held = self.reserve(tokens).await;
            let free = self
                .ledger
                .holdings(&self.key)
                .and_then(|it| it.tokens)
                .map_or(0, |it| it.free);
            portions += usize::from(free > before);
            before = free;
            held.ok()
        };
        eventually(&format!("{tokens} tokens"), spends).await;
        portions
    }
}

#[tokio::test]
async fn whenever_the_old_process_gets_a_stop_signal_the_new_one_has_all_that_nothing_holds() {
    const TOKENS: u64 = 1_000_000;
    for steps in 0..NEW.len() {
        let (_provider, gateway) = gateway("30s").await;
        let key = gateway.key_with(TOKENS, LONG);
        let body = prompt(MESSAGES, "test-model", "Hello!", json!({}));
        let ask = |key: &str| Request::post(MESSAGES, &body).key(key);
        let spent = gateway.send(&ask(&key)).await.reported();
        gateway.has_spent(&key, spent).await;
        // For this one it stays.
        let mut open = gateway.connect().await;
        open.write(&ask(&gateway.key).orders("hang").bytes()).await;
        gateway
            .sample_is("tollgate_ledger_open_requests", 1.0)
            .await;
        let share = Share::of(&gateway.store(), &key);
        let _new = new_process(&gateway, steps).await;
        gateway.signal("TERM").await;
        let ending = async || (gateway.operator("/readyz").await.status != 200).then_some(());
        eventually("the gateway's end begins", ending).await;
        let portions = share.gets(TOKENS - spent).await;
        // Half of it may have been given before; by halves alone it would take twenty.
        assert!(portions <= 4, "after {steps} steps: {portions} portions");
    }
}

/// What the old process answers, one after the other, to what the new one says.
const OLD: [&str; 5] = ["take 1", "ready", "serving ", "acknowledge", ""];

/// An old process, played, and the gateway that is to take over from it.
struct Succession {
    /// The old one's end, with all that dies with it.
    old: Option<Peer>,
    listener: Option<UnixListener>,
    sockets: Vec<TcpListener>,
    new: Child,
    log: tokio::io::Lines<BufReader<tokio::process::ChildStderr>>,
    callers: SocketAddr,
    key: String,
    folder: TempDir,
    _provider: Provider,
}

impl Succession {
    /// One that waits for the first word of the new process.
    async fn begin() -> Self {
        let provider = Provider::start().await;
        let folder = TempDir::new().unwrap();
        let ports = Ports::free();
        let sockets = [ports.operators, ports.callers].map(|it| TcpListener::bind(it).unwrap());
        for socket in &sockets {
            socket.set_nonblocking(true).unwrap();
        }
        let file = folder.path().join("tollgate.yaml");
        let config = Config::of(&provider).on(ports).0.to_string();
        std::fs::write(&file, config).unwrap();
        let key = key(&file).await;
        let path: PathBuf = folder.path().join("tollgate.db.upgrade.sock");
        let listener = UnixListener::bind(path).unwrap();
        let mut new = tollgate()
            .args(["serve", "--upgrade", "--config"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = new.stderr.take().unwrap();
        let (stream, _) = bounded("the new process", listener.accept()).await.unwrap();
        Self {
            old: Some(Peer(BufReader::new(stream))),
            listener: Some(listener),
            sockets: sockets.into(),
            new,
            log: BufReader::new(stderr).lines(),
            callers: ports.callers,
            key,
            folder,
            _provider: provider,
        }
    }

    /// Hears so many words of the new process, and answers each but the last.
    async fn go(&mut self, words: usize) {
        for (at, word) in OLD.iter().enumerate().take(words) {
            let old = self.old.as_mut().unwrap();
            let heard = old.hear().await;
            assert!(heard.starts_with(word), "{word}: {heard}");
            if at + 1 < words {
                self.answer(at).await;
            }
        }
    }

    /// Answers the word at this place.
    async fn answer(&mut self, at: usize) {
        match at {
            0 => self.give_sockets().await,
            1 => self.old.as_mut().unwrap().say("go").await,
            2 => self.old.as_mut().unwrap().say("commit").await,
            _ => self.old.as_mut().unwrap().say("drained").await,
        }
    }

    async fn give_sockets(&mut self) {
        let addresses: Vec<_> = self
            .sockets
            .iter()
            .map(|it| it.local_addr().unwrap())
            .collect();
        let offer = json!({"admin": addresses[0], "callers": [addresses[1]]});
        let line = format!("{offer}\n");
        let sockets: Vec<_> = self.sockets.iter().map(AsFd::as_fd).collect();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut message = SendAncillaryBuffer::new(&mut space);
            assert!(message.push(SendAncillaryMessage::ScmRights(&sockets)));
            let bytes = [IoSlice::new(line.as_bytes())];
            let stream = self.old.as_ref().unwrap().0.get_ref();
            Ok(sendmsg(stream, &bytes, &mut message, SendFlags::NOSIGNAL)?)
        };
        let stream = self.old.as_ref().unwrap().0.get_ref();
        let sent = bounded(
            "room for sockets",
            stream.async_io(Interest::WRITABLE, send),
        );
        assert_eq!(sent.await.unwrap(), line.len());
    }

    /// The old process dies.
    fn kill_old(&mut self) {
        self.sockets.clear();
        self.listener = None;
        self.old = None;
    }

    /// The new process is the one that serves.
    async fn new_serves(&mut self, when: &str) {
        let mut lines = Vec::new();
        let serving = async {
            while let Ok(Some(line)) = self.log.next_line().await {
                let is_it = line.ends_with("serving");
                // Sent where the old process no longer waits for it.
                println!("{line}");
                lines.push(line);
                if is_it {
                    return true;
                }
            }
            false
        };
        let serves = bounded(&format!("{when}: the new process"), serving).await;
        assert!(serves, "{when}: {lines:?}");
        let request = Request::get("/v1").key(&self.key);
        let mut caller = Connection::open(self.callers).await;
        caller.send(&request).await.assert_ok();
    }

    /// The new process ends, and says that it does not serve.
    async fn new_leaves(&mut self, when: &str) {
        let ended = bounded(&format!("{when}: the new process's end"), self.new.wait()).await;
        assert_eq!(ended.unwrap().code(), Some(1), "{when}");
    }
}

async fn key(file: &std::path::Path) -> String {
    let mut command = tollgate();
    command
        .args(["keys", "--config"])
        .arg(file)
        .args(["create", "test", "--json", "--plan", "plenty"]);
    let output = support::Output::of(&mut command).await;
    let created: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    created["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn wherever_the_old_process_dies_the_new_one_serves() {
    for words in 1..OLD.len() {
        for answered in [false, true] {
            let when = format!("dead after {words} words, the last answered: {answered}");
            let mut succession = Succession::begin().await;
            succession.go(words).await;
            if answered {
                succession.answer(words - 1).await;
            }
            succession.kill_old();
            succession.new_serves(&when).await;
        }
    }
}

#[tokio::test]
async fn a_new_process_that_is_refused_leaves_however_late_that_is() {
    for words in 1..4 {
        for answered in [false, true] {
            if answered && words == 3 {
                // That is the word by which it serves.
                continue;
            }
            let when = format!("refused after {words} words, the last answered: {answered}");
            let mut succession = Succession::begin().await;
            succession.go(words).await;
            if answered {
                succession.answer(words - 1).await;
            }
            let old = succession.old.as_mut().unwrap();
            old.say("failed not now").await;
            // Its messages meanwhile are not read.
            succession.old = None;
            succession.new_leaves(&when).await;
        }
    }
}

async fn hang_up(process: &Child) {
    let id = process.id().expect("it runs").to_string();
    let mut kill = tokio::process::Command::new("kill");
    let output = support::Output::of(kill.args(["-s", "HUP", &id])).await;
    assert!(output.status.success(), "{output:?}");
}

/// A signal for the serving process may reach all processes of its service.
#[tokio::test]
async fn a_new_process_that_gets_a_reload_signal_reloads_once_it_serves() {
    let mut succession = Succession::begin().await;
    succession.go(1).await;
    hang_up(&succession.new).await;
    for (at, word) in OLD.iter().enumerate().skip(1) {
        succession.answer(at - 1).await;
        let heard = succession.old.as_mut().unwrap().hear().await;
        assert!(heard.starts_with(word), "{word}: {heard}");
    }
    succession.kill_old();
    succession.new_serves("with a reload signal").await;
    let reloaded = async {
        while let Ok(Some(line)) = succession.log.next_line().await {
            if line.contains("was reloaded") {
                return;
            }
        }
        panic!("the new process has ended");
    };
    bounded("the reload", reloaded).await;
}

#[tokio::test]
async fn a_process_that_waits_for_an_upgrade_is_not_ended_by_a_reload() {
    let folder = TempDir::new().unwrap();
    let provider = Provider::start().await;
    let file = folder.path().join("tollgate.yaml");
    let config = Config::of(&provider).on(Ports::free());
    std::fs::write(&file, config.0.to_string()).unwrap();
    let socket = folder.path().join("tollgate.db.upgrade.sock");
    let listener = UnixListener::bind(socket).unwrap();
    let client = tollgate()
        .args(["upgrade", "--config"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (stream, _) = bounded("the client", listener.accept()).await.unwrap();
    let mut client_end = Peer(BufReader::new(stream));
    assert_eq!(client_end.hear().await, "upgrade");
    hang_up(&client).await;
    client_end.say("done 4711").await;
    let output = bounded("the client's end", client.wait_with_output())
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"process 4711 has taken over\n");
}

/// It is refused once it has callers, and stays for one of them.
#[tokio::test]
async fn a_new_process_that_is_refused_late_leaves_all_that_nothing_holds() {
    let mut succession = Succession::begin().await;
    succession.go(3).await;
    let store = store_in(succession.folder.path());
    let file = succession.folder.path().join("tollgate.yaml");
    let (key, other) = (succession.key.clone(), key(&file).await);
    let body = prompt(MESSAGES, "test-model", "Hello!", json!({}));
    let ask = |key: &str| Request::post(MESSAGES, &body).key(key);
    let mut caller = Connection::open(succession.callers).await;
    let answer = caller.send(&ask(&key)).await;
    answer.assert_ok();
    caller.write(&ask(&other).orders("hang").bytes()).await;
    let share = Share::of(&store, &key);
    let settled = async || {
        let grants = store.grants(&share.key).unwrap();
        let used: u64 = grants.iter().map(|it| it.used).sum();
        let all: u64 = grants.iter().map(|it| it.tokens).sum();
        (used == answer.reported()).then_some(all - used)
    };
    let left = eventually("the settlement of what was asked", settled).await;
    let old = succession.old.as_mut().unwrap();
    old.say("failed not now").await;
    let portions = share.gets(left).await;
    assert!(portions <= 4, "{portions} portions");
}
