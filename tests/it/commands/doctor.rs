//! `tollgate doctor`: each finding with what to do, and nothing that costs anything.

use super::{command, gateway, json_of, run};
use crate::support::{
    Authority, Config, Output, Ports, Provider, closed_port, in_front_of, is_missing, provider_at,
    tollgate,
};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A folder with a configuration on free ports.
fn folder_with(config: Config) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    let text = config.on(Ports::free()).0.to_string();
    fs::write(folder.path().join("tollgate.yaml"), text).unwrap();
    folder
}

/// The findings of a check, each as verdict, message and advice.
fn findings(report: &Value, check: &str) -> Vec<[String; 3]> {
    let findings = report["findings"].as_array().unwrap();
    let of_check = findings.iter().filter(|it| it["check"] == check);
    of_check
        .map(|it| {
            ["verdict", "message", "advice"].map(|name| it[name].as_str().unwrap_or("").to_owned())
        })
        .collect()
}

/// The only finding of a check.
fn finding(report: &Value, check: &str) -> [String; 3] {
    let mut found = findings(report, check);
    assert_eq!(found.len(), 1, "{check}: {report:#}");
    found.remove(0)
}

/// The report, whether checks have failed or not.
async fn report(arguments: &[&str], folder: &Path) -> Value {
    let arguments = [&["doctor", "--json"], arguments].concat();
    let output = run(&arguments, folder).await;
    let report: Value = serde_json::from_str(&output.stdout).expect(&output.stderr);
    assert_eq!(output.status.success(), report["ok"] == true, "{output:?}");
    report
}

#[tokio::test]
async fn a_gateway_that_lacks_nothing_passes_and_its_provider_sees_no_credential() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let front = in_front_of(provider.address, &authority.issue("localhost")).await;
    let mut settings = provider_at(&format!("https://localhost:{}", front.port()));
    settings["tls"] = json!({"ca": "ca.pem"});
    let config = Config::new()
        .provider("near", settings)
        .model("m", json!(["near"]));
    let folder = folder_with(config);
    fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let file = folder.path().join("tollgate.yaml");
    fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    assert!(
        run(&["keys", "create", "one"], folder.path())
            .await
            .status
            .success()
    );

    let report = report(&[], folder.path()).await;
    assert_eq!(report["ok"], true, "{report:#}");
    for (check, wanted) in [
        ("configuration", "tollgate.yaml: models 1, providers 1"),
        ("files", "the modes of 2 files are right"),
        ("ledger", "tollgate.db: keys 1, structure sound"),
        ("provider near", ", TLS 1.3, answers in "),
        ("clock", "agrees with the providers"),
    ] {
        let [verdict, message, _] = finding(&report, check);
        assert_eq!(verdict, "ok", "{report:#}");
        assert!(message.contains(wanted), "{wanted}: {message}");
    }
    let [verdict, message, advice] = finding(&report, "gateway");
    assert_eq!(verdict, "warn");
    assert_eq!(message, "does not run; its addresses are free");
    assert_eq!(advice, "start it: tollgate serve");

    let received = provider.last();
    assert_eq!(
        (received.method.as_str(), received.uri.path()),
        ("HEAD", "/")
    );
    assert!(received.headers.get("authorization").is_none());
    assert_eq!(provider.received().len(), 1);
    // Offline it asks nobody.
    self::report(&["--offline"], folder.path()).await;
    assert_eq!(provider.received().len(), 1);
}

#[tokio::test]
async fn offline_it_connects_to_no_server_of_the_store_or_the_limits() {
    let (closed, _socket) = closed_port();
    let config = Config::new()
        .provider("p", provider_at("http://127.0.0.1:9"))
        .model("m", json!(["p"]))
        .with("limits", json!({"shared": {"url": "file:redis"}}))
        .with(
            "store.postgres",
            json!({"url": "file:postgres", "tls": false}),
        );
    let folder = folder_with(config);
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("redis", format!("redis://{closed}"));
    write("postgres", format!("postgres://u:p@{closed}/d"));
    let online = report(&[], folder.path()).await;
    let offline = report(&["--offline"], folder.path()).await;
    for check in ["ledger", "limits"] {
        assert_eq!(finding(&online, check)[0], "fail", "{online:#}");
        assert!(findings(&offline, check).is_empty(), "{offline:#}");
    }
}

#[tokio::test]
async fn each_fault_of_a_provider_is_named_with_what_to_do() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let expired = in_front_of(provider.address, &authority.issue_expired("localhost")).await;
    let foreign = in_front_of(provider.address, &Authority::new().issue("localhost")).await;
    let (closed, _socket) = closed_port();
    let trusted = |port: u16| {
        let mut settings = provider_at(&format!("https://localhost:{port}"));
        settings["tls"] = json!({"ca": "ca.pem"});
        settings
    };
    let config = Config::new()
        .provider("unknown", provider_at("https://provider.invalid"))
        .provider("closed", provider_at(&format!("http://{closed}")))
        .provider("expired", trusted(expired.port()))
        .provider("foreign", trusted(foreign.port()))
        .provider(
            "plain",
            provider_at(&format!("http://{}", provider.address)),
        )
        .model(
            "m",
            json!(["unknown", "closed", "expired", "foreign", "plain"]),
        );
    let folder = folder_with(config);
    fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let report = report(&[], folder.path()).await;
    for (name, wanted, advice) in [
        (
            "unknown",
            "the host 'provider.invalid' cannot be resolved (",
            "resolv.conf",
        ),
        (
            "closed",
            "cannot be reached: Connection refused",
            "firewalls",
        ),
        ("expired", "TLS with 'localhost' fails: ", "the clock"),
        ("foreign", "TLS with 'localhost' fails: ", "tls.ca"),
    ] {
        let [verdict, message, what] = finding(&report, &format!("provider {name}"));
        assert_eq!(verdict, "fail", "{name}: {message}");
        assert!(message.contains(wanted), "{wanted}: {message}");
        assert!(what.contains(advice), "{advice}: {what}");
    }
    assert_eq!(finding(&report, "provider plain")[0], "ok", "{report:#}");
    // No provider with https has answered.
    assert_eq!(finding(&report, "clock")[0], "warn", "{report:#}");

    let output = run(&["doctor"], folder.path()).await;
    assert_eq!(output.stderr, "4 checks failed\n");
    let line = "fail  provider closed: ";
    assert!(output.stdout.contains(line), "{output:?}");
}

#[tokio::test]
async fn on_a_terminal_it_shows_that_it_waits_and_elsewhere_nothing_but_text() {
    if is_missing("script") {
        return;
    }
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_at = format!("http://{}", silent.local_addr().unwrap());
    let config = Config::new()
        .provider("silent", provider_at(&silent_at))
        .model("m", json!(["silent"]));
    let folder = folder_with(config);
    let working = "connecting to the providers";
    let elsewhere = run(&["doctor"], folder.path());
    let program = tollgate();
    let program = program.as_std().get_program().to_str().unwrap();
    let mut script = tokio::process::Command::new("script");
    let variables = tollgate();
    let variables = variables.as_std().get_envs();
    script
        .args(["-qec", &format!("{program} doctor"), "/dev/null"])
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .current_dir(folder.path())
        .stdin(std::process::Stdio::null());
    let (elsewhere, on_terminal) = tokio::join!(elsewhere, Output::of(&mut script));
    assert!(on_terminal.stdout.contains(working), "{on_terminal:?}");
    let text = elsewhere.stdout + &elsewhere.stderr;
    assert!(text.contains("provider silent"), "{text}");
    assert!(
        !text.contains(working) && !text.contains('\u{1b}'),
        "{text}"
    );
}

/// Answers every connection with a date of long ago.
async fn a_server_of_long_ago() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let _ = connection.read(&mut head).await;
            let answer = "HTTP/1.1 404 Not Found\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n";
            let _ = connection.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn the_clock_is_compared_with_the_provider_that_agrees_most() {
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    let provider = Provider::start().await;
    let right = in_front_of(provider.address, &identity).await.port();
    let wrong = in_front_of(a_server_of_long_ago().await, &identity)
        .await
        .port();
    let report_of = async |ports: &[u16]| {
        let names: Vec<_> = ports.iter().map(|port| format!("at-{port}")).collect();
        let mut config = Config::new().model("m", json!(names));
        for (name, port) in names.iter().zip(ports) {
            let mut settings = provider_at(&format!("https://localhost:{port}"));
            settings["tls"] = json!({"ca": "ca.pem"});
            config = config.provider(name, settings);
        }
        let folder = folder_with(config);
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        report(&[], folder.path()).await
    };
    let alone = report_of(&[wrong]).await;
    // A status of 404 is an answer.
    assert_eq!(finding(&alone, &format!("provider at-{wrong}"))[0], "ok");
    let [verdict, message, advice] = finding(&alone, "clock");
    assert_eq!(verdict, "fail", "{message}");
    assert!(message.ends_with(" s ahead of the providers"), "{message}");
    assert!(advice.contains("timedatectl set-ntp true"), "{advice}");
    let both = report_of(&[wrong, right]).await;
    assert_eq!(finding(&both, "clock")[0], "ok", "{both:#}");
}

#[tokio::test]
async fn exposed_files_and_missing_secrets_are_found() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("admin.token", json!("file:token"));
    let folder = folder_with(config);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("token"), super::TOKEN).unwrap();
    assert!(
        run(&["keys", "create", "one"], folder.path())
            .await
            .status
            .success()
    );
    for (name, mode) in [
        ("token", 0o644),
        ("tollgate.yaml", 0o666),
        ("tollgate.db", 0o604),
    ] {
        fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
    }
    let report = report(&["--offline"], folder.path()).await;
    let files = findings(&report, "files");
    let messages: Vec<_> = files.iter().map(|it| it[1].as_str()).collect();
    assert_eq!(
        messages,
        [
            "token has a secret that every user can read",
            "tollgate.yaml can be changed by other users",
        ]
    );
    assert_eq!(files[0][2], "chmod o-rwx token");
    let [verdict, message, _] = &findings(&report, "ledger")[0];
    assert_eq!(verdict, "warn");
    assert!(
        message.ends_with("tollgate.db has a secret that every user can read"),
        "{message}"
    );

    let mut bare = command(&["doctor", "--offline", "--json"], folder.path());
    let output = Output::of(bare.env_remove("TOLLGATE_PEPPER")).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let [verdict, message, advice] = finding(&report, "configuration");
    assert_eq!(verdict, "fail");
    assert!(message.contains("TOLLGATE_PEPPER is not set"), "{message}");
    assert!(advice.contains("export it"), "{advice}");
    // The rest is checked all the same.
    let last = findings(&report, "ledger").pop().unwrap();
    assert_eq!(last[1], "not checked without the pepper");
}

#[tokio::test]
async fn certificates_that_every_user_can_read_are_no_secrets() {
    let provider = Provider::start().await;
    let tls = json!({"certificate": "tls.crt", "key": "tls.key", "client_ca": "clients.pem"});
    let config = Config::of(&provider).with("server.listen", json!([{"tls": tls}]));
    let folder = folder_with(config);
    let identity = Authority::new().issue("localhost");
    identity.write(folder.path(), "tls");
    fs::write(folder.path().join("clients.pem"), Authority::new().pem()).unwrap();
    for name in ["tls.crt", "clients.pem", "tollgate.yaml", "tls.key"] {
        let path = folder.path().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    let report = report(&["--offline"], folder.path()).await;
    let files = findings(&report, "files");
    let messages: Vec<_> = files.iter().map(|it| it[1].as_str()).collect();
    let expected = ["tls.key has a secret that every user can read"];
    assert_eq!(messages, expected, "{report:#}");
}

#[tokio::test]
async fn a_ledger_that_cannot_be_used_is_found_and_not_changed() {
    let provider = Provider::start().await;
    let folder = folder_with(Config::of(&provider));
    let ledger = folder.path().join("tollgate.db");
    assert!(
        run(&["keys", "create", "one"], folder.path())
            .await
            .status
            .success()
    );
    let mut other = command(&["doctor", "--offline", "--json"], folder.path());
    let other = other.env(
        "TOLLGATE_PEPPER",
        "another-pepper-of-the-tests-and-of-nothing",
    );
    let output = Output::of(other).await;
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let [verdict, message, advice] = finding(&report, "ledger");
    assert_eq!((verdict.as_str(), output.status.code()), ("fail", Some(1)));
    assert!(message.contains("created with another pepper"), "{message}");
    assert!(advice.contains("keys.pepper"), "{advice}");

    fs::write(
        &ledger,
        "no database at all, but long enough to have a head",
    )
    .unwrap();
    let report = self::report(&["--offline"], folder.path()).await;
    let [verdict, message, _] = finding(&report, "ledger");
    assert_eq!(verdict, "fail");
    assert!(message.contains("is not a ledger file"), "{message}");
    assert!(
        fs::read_to_string(&ledger)
            .unwrap()
            .starts_with("no database")
    );
}

#[tokio::test]
async fn a_gateway_that_runs_is_found_and_few_files_are_a_warning() {
    let (gateway, _provider) = gateway().await;
    let report = report(&["--offline"], gateway.folder.path()).await;
    let [verdict, message, _] = finding(&report, "gateway");
    assert_eq!(verdict, "ok");
    assert_eq!(message, format!("runs and is ready at {}", gateway.admin));

    let program = tollgate();
    let program = program.as_std().get_program().to_str().unwrap();
    let mut limited = tokio::process::Command::new("sh");
    limited
        .args([
            "-c",
            &format!("ulimit -n 512 && exec {program} doctor --offline --json"),
        ])
        .envs(
            tollgate()
                .as_std()
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(gateway.folder.path());
    let report = json_of(&Output::of(&mut limited).await);
    let [verdict, message, advice] = finding(&report, "open files");
    assert_eq!(verdict, "warn", "{message}");
    assert_eq!(
        message,
        "a limit of 512, enough for 106 of the 10000 connections that are configured"
    );
    assert!(advice.contains("LimitNOFILE="), "{advice}");
}
