//! Faults of what is around the gateway: a full disk, a name without an address, a certificate
//! that has run out, no files left. Each has its answer, and none needs a restart or a reload.

mod private;

use crate::support::{
    self, Authority, CHAT, Config, FORMATS, Front, Gateway, Http2, Mounts, Output, Provider,
    Request, bounded, eventually, prompt, provider_at, seen_by,
};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::process::Command;

#[tokio::test]
async fn check_mentions_a_folder_that_its_user_cannot_write_to() {
    let Some(mounts) = Mounts::new("a folder that cannot be written to").await else {
        return;
    };
    let folder = tempfile::TempDir::new().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let file = folder.path().join("tollgate.yaml");
    let config = Config::new()
        .provider("p", provider_at("http://127.0.0.1:9"))
        .model("m", json!(["p"]))
        .with("store.path", json!("state/tollgate.db"));
    std::fs::write(&file, config.0.to_string()).unwrap();
    let state = state.display();
    let script = format!(
        "{}\nmount --bind '{state}' '{state}'\nmount -o remount,ro,bind '{state}'\n\
         exec \"$0\" check \"$1\"",
        mounts.script
    );
    let program = support::tollgate();
    let variables = program.as_std().get_envs();
    let variables = variables.filter_map(|(name, value)| Some((name, value?)));
    let mut check = mounts.shell();
    check.arg("-c").arg(script).envs(variables);
    let check = check.arg(program.as_std().get_program()).arg(&file);
    let output = Output::of(check).await;
    assert!(output.status.success(), "{output:?}");
    let expected = format!("not checked: whether the gateway can write to {state} (");
    assert!(output.stdout.contains(&expected), "{output:?}");
}

fn ask(key: &str) -> Request {
    let body = prompt(CHAT, "test-model", "Hi", Value::Null);
    Request::post(CHAT, &body).key(key)
}

/// Bounds a resource of the running gateway, by its name in `prlimit`.
async fn bound(gateway: &Gateway, resource: &str, soft: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &gateway.id().to_string()]);
    prlimit.arg(format!("--{resource}={soft}:"));
    let output = Output::of(&mut prlimit).await;
    assert!(output.status.success(), "{output:?}");
}

/// How many files the gateway has open.
fn open_files(gateway: &Gateway) -> usize {
    let folder = format!("/proc/{}/fd", gateway.id());
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn without_files_the_gateway_waits_and_serves_again_once_there_are_some() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let mut kept = gateway.connect().await;
    kept.send(&ask(&gateway.key)).await.assert_ok();
    // As many as it has, and one to take a connection with that finds no provider.
    let used = open_files(&gateway);
    bound(&gateway, "nofile", &used.to_string()).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(
            bounded("the backlog", TcpStream::connect(gateway.address))
                .await
                .unwrap(),
        );
    }
    gateway.log_line("Too many open files").await;
    // A client with a connection is served over the provider's kept one.
    kept.send(&ask(&gateway.key)).await.assert_ok();
    let lines = |gateway: &Gateway| gateway.output().matches("Too many open files").count();
    let before = lines(&gateway);
    tokio::time::timeout(std::time::Duration::from_secs(2), waiting[0].read_u8())
        .await
        .expect_err("the connection is not refused");
    let spins = lines(&gateway) - before;
    assert!(spins < 20, "{spins} tries in two seconds");

    bound(&gateway, "nofile", "1024").await;
    for stream in waiting {
        let mut connection = support::Connection::over(stream);
        connection.send(&ask(&gateway.key)).await.assert_ok();
    }
}

#[tokio::test]
async fn without_files_the_gateway_blames_no_provider() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 1});
    let config = Config::first_and_second(a.address, b.address).with("routing.health", health);
    let gateway = Gateway::start(config).await;
    // One for each, for a failure closes its connection of HTTP/1.1.
    let mut kept = Vec::new();
    for path in FORMATS {
        for stream in [false, true] {
            let mut connection = gateway.connect().await;
            let known = Request::get("/v1").key(&gateway.key);
            connection.send(&known).await.assert_ok();
            kept.push((path, stream, connection));
        }
    }
    // Below the numbers of those that it has.
    bound(&gateway, "nofile", "3").await;
    for (path, stream, mut connection) in kept {
        let body = prompt(path, "m", "Hi", json!({"stream": stream}));
        let request = Request::post(path, &body).key(&gateway.key);
        let answer = connection.send(&request).await;
        answer.assert_error(503, "service_unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    bound(&gateway, "nofile", "1024").await;
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
    let answer = gateway.ask(CHAT, "m", "", json!({})).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-attempts"), None);
    assert_eq!((a.received().len(), b.received().len()), (1, 0));
}

#[tokio::test]
async fn without_files_checks_bench_no_provider() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let fetching = json!({"path": "/v1/models", "every": "50ms"});
    let config = Config::first_and_second(a.address, b.address)
        .with("routing.health", json!({"consecutive_failures": 1}))
        .with("providers.a.check", fetching)
        .with("providers.b.check", json!({"every": "50ms"}));
    let gateway = Gateway::start(config).await;
    let checked = async |what: &str| {
        let before = a.received().len();
        let again = async || (a.received().len() > before + 1).then_some(());
        eventually(what, again).await;
    };
    checked("checks are made").await;
    bound(&gateway, "nofile", "3").await;
    // Six looks at what is due, of which two would do.
    let opened = gateway.log_line("breaker opened");
    tokio::time::timeout(std::time::Duration::from_millis(1500), opened)
        .await
        .expect_err("no provider is to blame");
    bound(&gateway, "nofile", "1024").await;
    checked("checks are made again").await;
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
}

#[tokio::test]
async fn streams_over_one_connection_leave_files_for_operators_and_others() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.reserved_for_priority", json!(0));
    let gateway = Gateway::start(config.clone()).await;
    // Of them 128 are the gateway's own, and an eighth is for what is kept.
    bound(&gateway, "nofile", "300").await;
    gateway.rewrite(config.model("another", json!(["sim"])));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    let another = gateway.create_key(&[]).await;
    let mut connection = Http2::open(gateway.address).await;
    let body = prompt(CHAT, "test-model", "Hi", json!({"stream": true}));
    let request = Request::post(CHAT, &body).key(&gateway.key);
    let request = request.orders("stall-after-8");
    let mut open = Vec::new();
    let refused = loop {
        let answer = connection.begin(&request).await.unwrap();
        if answer.status() != 200 {
            break Http2::rest(answer).await;
        }
        open.push(answer);
        assert!(open.len() < 200, "there is no bound");
    };
    refused.assert_error(429, "rate_limit_exceeded");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    // Half of what there is, at two files each, once the connection has its own.
    let most = (300 - 128 - 37 - 1) / 2 / 2 + 1;
    assert_eq!(open.len(), most);
    let others = prompt(CHAT, "test-model", "Hi", Value::Null);
    let others = Request::post(CHAT, &others).key(&another);
    gateway.send(&others).await.assert_ok();
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
    let shed = "tollgate_requests_shed_total{reason=\"key_files\"}";
    assert!(gateway.sample(shed).await >= Some(1.0));
    drop((open, connection));
    eventually("a place is free", async || {
        let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
        (answer.status == 200).then_some(())
    })
    .await;
}

/// In every format the error says that the provider cannot be reached, without the cause.
async fn assert_unavailable(gateway: &Gateway, secret: &str) {
    for path in FORMATS {
        let answer = gateway.ask(path, "test-model", "", json!({})).await;
        answer.assert_error(503, "service_unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        assert!(!answer.text().contains(secret), "{answer:?}");
    }
    gateway.get("/v1").await.assert_ok();
}

async fn assert_served(gateway: &Gateway) {
    for path in FORMATS {
        let answer = gateway.ask(path, "test-model", "", json!({})).await;
        answer.assert_ok();
    }
}

/// A hosts file without any other host.
const LOCALHOST_ONLY: &str = "127.0.0.1 localhost\n";

/// The system's own resolver, by `hosts` in the folder, which this gateway alone sees. `None`: a mount is
/// impossible here.
async fn with_hosts(test: &str, folder: &Path, text: &str) -> Option<Mounts> {
    let mut mounts = Mounts::new(test).await?;
    for (name, text) in [
        ("hosts", text),
        ("nsswitch.conf", "hosts: files\n"),
        ("host.conf", "multi on\n"),
    ] {
        let (ours, theirs) = (folder.join(name), format!("/etc/{name}"));
        std::fs::write(&ours, text).unwrap();
        if Path::new(&theirs).exists() {
            mounts = mounts.file(&ours, &theirs);
        }
    }
    Some(mounts)
}

/// Three addresses, of which two refuse every connection.
const ONE_OF_THREE: &str =
    "127.9.9.1 provider.test\n127.9.9.2 provider.test\n127.0.0.1 provider.test\n";

#[tokio::test]
async fn an_address_that_refuses_costs_no_attempt_if_another_accepts() {
    let folder = tempfile::TempDir::new().unwrap();
    let test = "several addresses of a name";
    let Some(mounts) = with_hosts(test, folder.path(), ONE_OF_THREE).await else {
        return;
    };
    let [a, b] = [Provider::start().await, Provider::start().await];
    let named = provider_at(&format!("http://provider.test:{}", a.address.port()));
    let config = Config::first_and_second(a.address, b.address)
        .with("routing.health", json!({"consecutive_failures": 1}))
        .provider("a", named)
        .model("alone", json!(["a"]));
    let gateway = Gateway::start_on(folder, config, &mounts).await;
    for model in ["alone", "m", "alone", "m"] {
        let answer = gateway.ask(CHAT, model, "", json!({})).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), None, "{model}: {answer:?}");
    }
    gateway.log_line("provider a: unreachable").await;
    assert_eq!((a.received().len(), b.received().len()), (4, 0));
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
}

#[tokio::test]
async fn a_check_succeeds_if_one_address_accepts() {
    let folder = tempfile::TempDir::new().unwrap();
    let test = "checks of several addresses";
    let Some(mounts) = with_hosts(test, folder.path(), ONE_OF_THREE).await else {
        return;
    };
    let provider = Provider::start().await;
    let named = provider_at(&format!("http://provider.test:{}", provider.address.port()));
    let config = Config::new()
        .provider("a", named)
        .with(
            "providers.a.check",
            json!({"path": "/v1/models", "every": "50ms"}),
        )
        .model("m", json!(["a"]));
    let gateway = Gateway::start_on(folder, config, &mounts).await;
    // More than there are addresses.
    let checked = async || (provider.received().len() > 3).then_some(());
    eventually("checks are made", checked).await;
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
}

#[tokio::test]
async fn a_provider_is_asked_once_its_name_is_known_and_when_it_is_lost_again() {
    let folder = tempfile::TempDir::new().unwrap();
    let hosts = folder.path().join("hosts");
    let test = "names that appear and vanish";
    let Some(mounts) = with_hosts(test, folder.path(), LOCALHOST_ONLY).await else {
        return;
    };
    let provider = Provider::start().await;
    let port = provider.address.port();
    let named = provider_at(&format!("http://provider.test:{port}"));
    let config = Config::new()
        .provider("sim", named)
        .model("test-model", json!(["sim/upstream-model"]));
    let gateway = Gateway::start_on(folder, config.clone(), &mounts).await;
    assert_unavailable(&gateway, "provider.test").await;
    gateway.log_line("provider sim: ").await;

    std::fs::write(&hosts, format!("{LOCALHOST_ONLY}127.0.0.1 provider.test\n")).unwrap();
    eventually("the name is found", async || {
        let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_served(&gateway).await;

    std::fs::write(&hosts, LOCALHOST_ONLY).unwrap();
    // A reload looks all names up anew; the address that was known stays.
    gateway.rewrite(config.model("another", json!(["sim"])));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    assert_served(&gateway).await;
    let answer = gateway.ask(CHAT, "another", "", json!({})).await;
    answer.assert_ok();
}

#[tokio::test]
async fn a_providers_certificate_that_has_run_out_is_trusted_again_once_it_is_renewed() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("own.pem"), authority.pem()).unwrap();
    let expired = authority.issue_expired("provider.test");
    let front = Front::of(provider.address, &expired).await;
    let mut settings = provider_at(&format!("https://{}", front.address));
    settings["tls"] = json!({"ca": "own.pem", "server_name": "provider.test"});
    let config = Config::new()
        .provider("sim", settings)
        .model("test-model", json!(["sim"]));
    let gateway = Gateway::start_in(folder, config).await;
    assert_unavailable(&gateway, "ertificate").await;
    assert_eq!(provider.handle.counters().requests, 0);
    front.renew(&authority.issue("provider.test"));
    assert_served(&gateway).await;
}

#[tokio::test]
async fn a_certificate_of_the_gateway_that_has_run_out_is_renewed_on_the_disk_and_no_more() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let folder = tempfile::TempDir::new().unwrap();
    let expired = authority.issue_expired("gateway.test");
    expired.write(folder.path(), "own");
    let tls = json!([{"tls": {"certificate": "own.crt", "key": "own.key"}}]);
    let config = Config::of(&provider)
        .with("server.listen", tls)
        .with("server.reload", json!({"watch": true, "interval": "20ms"}));
    let gateway = Gateway::start_in(folder, config).await;
    let connect = async |protocol| {
        let protocols = [protocol];
        let connecting = authority.try_connect(gateway.address, "gateway.test", &protocols);
        connecting.await
    };
    for protocol in ["http/1.1", "h2"] {
        let fault = connect(protocol).await.expect_err("it is not trusted");
        assert!(fault.to_string().contains("xpired"), "{fault}");
    }
    let renewed = authority.issue("gateway.test");
    renewed.write(gateway.folder.path(), "own");
    let session = eventually("the new certificate", async || {
        connect("http/1.1").await.ok()
    });
    let mut connection = support::Connection::over(session.await);
    connection.send(&ask(&gateway.key)).await.assert_ok();
    let mut connection = Http2::over(connect("h2").await.unwrap()).await;
    connection.send(&ask(&gateway.key)).await.assert_ok();
}

#[tokio::test]
async fn on_a_full_disk_nothing_settled_is_lost_and_the_gateway_goes_on_when_there_is_room() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    gateway.send(&ask(&gateway.key)).await.assert_ok();
    // Files do not grow any more, as on a disk that is full. The settlement file is there
    // already, and what it holds of so few requests lies within.
    bound(&gateway, "fsize", &(512 << 10).to_string()).await;
    let mut answers = Vec::new();
    let mut connection = gateway.connect().await;
    eventually("the disk is full", async || {
        answers.push(connection.send(&ask(&gateway.key)).await.status);
        let failed = gateway.sample("tollgate_ledger_failed_commits_total");
        (failed.await > Some(0.0)).then_some(())
    })
    .await;
    for _ in 0..50 {
        answers.push(connection.send(&ask(&gateway.key)).await.status);
    }
    answers.sort_unstable();
    answers.dedup();
    println!("on a full disk callers get {answers:?}");
    assert!(
        answers.iter().all(|status| [200, 503].contains(status)),
        "{answers:?}"
    );
    gateway.get("/v1").await.assert_ok();

    bound(&gateway, "fsize", "unlimited").await;
    eventually("requests are served again", async || {
        let answer = gateway.send(&ask(&gateway.key)).await;
        (answer.status == 200).then_some(())
    })
    .await;
    gateway
        .sample_is("tollgate_ledger_open_requests", 0.0)
        .await;
    let asked = provider.handle.counters().requests;
    let history = gateway.get("/v1/usage").await;
    history.assert_ok();
    let mut verify = support::tollgate();
    verify
        .args(["ledger", "verify", "--config"])
        .arg(gateway.folder.path().join("tollgate.yaml"));
    let verified = Output::of(&mut verify).await;
    assert!(verified.status.success(), "{verified:?}");
    assert!(
        verified.stdout.contains("everything adds up"),
        "{verified:?}"
    );
    let on_record = verified
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("requests on record"))
        .and_then(|count| count.trim().parse::<u64>().ok());
    assert!(
        on_record.is_some_and(|count| count >= asked),
        "{on_record:?} of {asked}"
    );
}

#[tokio::test]
async fn on_a_full_disk_callers_get_503_until_there_is_room() {
    /// Room for the settlement file (8 MiB), the ledger, and little besides.
    const MEBIBYTES: u32 = 16;
    const CALLERS: usize = 16;
    let Some(mounts) = Mounts::new("a disk that is full to the last byte").await else {
        return;
    };
    let provider = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounts = mounts.disk(&disk, MEBIBYTES);
    let config = Config::of(&provider).with("store.path", json!("disk/tollgate.db"));
    let gateway = Gateway::start_on(folder, config, &mounts).await;
    gateway.send(&ask(&gateway.key)).await.assert_ok();
    let ballast = seen_by(gateway.id(), &disk.join("ballast"));
    fill(&ballast);
    let filled = std::time::Instant::now();

    // Settlements have places made for them, thousands of them; then there is no more.
    let request = ask(&gateway.key);
    let callers = (0..CALLERS).map(|_| until_refused(&gateway, &request));
    let served = futures::future::join_all(callers).await;
    let tokens: u64 = served.iter().map(|(_, tokens)| tokens).sum();
    let served: usize = served.iter().map(|(served, _)| served).sum();
    println!("{served} requests were served on the full disk before one was refused");
    let refused = gateway.send(&request).await;
    refused.assert_error(503, "service_unavailable");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    for path in FORMATS {
        let answer = gateway.ask(path, "test-model", "", json!({})).await;
        answer.assert_error(503, "service_unavailable");
    }
    gateway.get("/v1").await.assert_ok();
    gateway.get("/v1/models").await.assert_ok();
    let asked = provider.handle.counters().requests;
    let lines = faults_logged(&gateway);
    let full = format!(
        "{} cannot grow: the disk is full",
        disk.join("tollgate.db").display()
    );
    assert!(!lines.is_empty(), "nothing is logged");
    assert!(lines.iter().all(|line| line.contains(&full)), "{lines:?}");
    let seconds = filled.elapsed().as_secs();
    assert!(
        lines.len() as u64 <= seconds + 1,
        "{} in {seconds} s",
        lines.len()
    );

    std::fs::remove_file(&ballast).unwrap();
    let answer = eventually("requests are served again", async || {
        let answer = gateway.send(&request).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    gateway
        .sample_is("tollgate_ledger_open_requests", 0.0)
        .await;
    assert_eq!(
        usize::try_from(asked).unwrap(),
        served + 1,
        "no request was sent without an answer"
    );
    let usage = gateway.get("/v1/usage").await.json();
    let each = answer.reported();
    assert_eq!(usage["tokens"]["used"], tokens + 2 * each, "{usage}");
}

/// The errors in the log.
fn faults_logged(gateway: &Gateway) -> Vec<String> {
    let output = gateway.output();
    let lines = output.lines().filter(|line| !line.starts_with('{'));
    let errors = lines.filter(|line| line.contains(" ERROR "));
    errors.map(str::to_owned).collect()
}

/// Writes until the disk is full.
fn fill(file: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(file).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Asks until it is refused: how often it was served before, and for how many tokens.
async fn until_refused(gateway: &Gateway, request: &Request) -> (usize, u64) {
    let mut connection = gateway.connect().await;
    let (mut served, mut tokens) = (0, 0);
    loop {
        let answer = connection.send(request).await;
        if answer.status == 503 {
            answer.assert_error(503, "service_unavailable");
            return (served, tokens);
        }
        answer.assert_ok();
        served += 1;
        tokens += answer.reported();
    }
}

/// A line that the disk takes half of is lost alone, and the next one does not continue it.
#[tokio::test]
async fn on_a_full_disk_only_the_lines_that_are_not_written_count_as_lost() {
    /// Larger than every other file of the gateway, which all have the same limit.
    const BEFORE: u64 = 32 << 20;
    const LOST: &str = "tollgate_access_lines_lost_total";
    let provider = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("access.log");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(BEFORE).unwrap();
    // It ends with a whole line.
    file.write_at(b"\n", BEFORE - 1).unwrap();
    let config = Config::of(&provider).with("log", json!({"access_file": "access.log"}));
    let gateway = Gateway::start_in(folder, config).await;
    let lines = || {
        let text = std::fs::read(&path).unwrap();
        String::from_utf8(text[usize::try_from(BEFORE).unwrap()..].to_vec()).unwrap()
    };
    let written = async |count: usize| {
        let text = async || Some(lines()).filter(|text| text.lines().count() == count);
        eventually("the lines", text).await
    };
    gateway.send(&ask(&gateway.key)).await.assert_ok();
    let length = written(1).await.len() as u64;
    let room = BEFORE + 2 * length + length / 2;
    bound(&gateway, "fsize", &room.to_string()).await;
    let mut connection = gateway.connect().await;
    for _ in 0..3 {
        connection.send(&ask(&gateway.key)).await.assert_ok();
    }
    gateway.sample_is(LOST, 2.0).await;
    bound(&gateway, "fsize", "unlimited").await;
    gateway.send(&ask(&gateway.key)).await.assert_ok();
    let text = written(4).await;
    let whole = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
    assert_eq!(
        whole.collect::<Vec<_>>(),
        [true, true, false, true],
        "{text}"
    );
}
