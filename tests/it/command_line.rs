//! What all commands have in common, and what they say of faults.

use crate::support::{
    self, CHAT, Config, Connection, Gateway, Output, Ports, Provider, Request, bounded, eventually,
    tollgate,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// The least that serves.
const MINIMAL: &str = "\
providers: { local: { address: 'http://127.0.0.1:9', formats: [chat] } }
families: { local: { group: other, deployments: [local] } }
models: { my-model: { family: local } }
";

fn folder_with(name: &str, text: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join(name), text).unwrap();
    folder
}

fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = tollgate();
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("TOLLGATE_CONFIG")
        .stdin(Stdio::null());
    command
}

/// Runs a command whose output cannot be written: its reader has left, or the disk is full.
async fn unwritten(arguments: &[&str], folder: &Path, is_full: bool) -> std::process::Output {
    let mut command = command(arguments, folder);
    match is_full {
        true => command.stdout(fs::File::create("/dev/full").unwrap()),
        false => {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            command.stdout(writer)
        }
    };
    let process = command.stderr(Stdio::piped()).spawn().unwrap();
    bounded("its end", process.wait_with_output())
        .await
        .unwrap()
}

#[tokio::test]
async fn every_command_finds_its_configuration_in_the_same_way() {
    let here = folder_with("tollgate.yaml", "here: true\n");
    let elsewhere = folder_with("other.yaml", "elsewhere: true\n");
    let given = folder_with("given.yaml", "given: true\n");
    let other = elsewhere.path().join("other.yaml");
    let given = given.path().join("given.yaml");
    for arguments in [
        &["check"][..],
        &["serve"],
        &["upgrade"],
        &["keys", "list"],
        &["ledger", "verify"],
        &["explain", "--key", "key_01"],
        &["status"],
        &["usage", "export"],
        &["logs", "--request", "req_00000000000000000000000000"],
    ] {
        // The key that only this file has is refused by name.
        let refused = async |command: &mut Command, file: &str, key: &str| {
            let output = Output::of(command).await;
            assert!(!output.status.success(), "{arguments:?}");
            let wanted = format!("{file}:1:1: {key}");
            assert!(output.stderr.contains(&wanted), "{wanted}: {output:?}");
        };
        let run = || command(arguments, here.path());
        refused(&mut run(), "tollgate.yaml", "here").await;
        refused(
            run().env("TOLLGATE_CONFIG", &other),
            "other.yaml",
            "elsewhere",
        )
        .await;
        refused(
            run()
                .env("TOLLGATE_CONFIG", &other)
                .arg("--config")
                .arg(&given),
            "given.yaml",
            "given",
        )
        .await;
    }
    let mut empty = command(&["check"], here.path());
    let output = Output::of(empty.env("TOLLGATE_CONFIG", "")).await;
    let wanted = "--config or TOLLGATE_CONFIG is empty: name a file";
    assert!(output.stderr.contains(wanted), "{output:?}");
    let mut check = command(&["check", given.to_str().unwrap()], here.path());
    let output = Output::of(check.env("TOLLGATE_CONFIG", &other)).await;
    assert!(
        output.stderr.contains("given.yaml:1:1: given"),
        "{output:?}"
    );
}

#[tokio::test]
async fn a_reader_that_leaves_ends_a_command_quietly() {
    let ports = "server: {listen: [{address: '127.0.0.1:0'}]}\nadmin: {listen: '127.0.0.1:0'}\n";
    let folder = folder_with("tollgate.yaml", &format!("{MINIMAL}{ports}"));
    let created = Output::of(&mut command(&["keys", "create", "one"], folder.path())).await;
    assert!(created.status.success(), "{created:?}");
    for arguments in [
        &["schema"][..],
        &["check"],
        &["keys", "list"],
        &["doctor", "--offline"],
        &["usage", "export"],
        &["completions", "bash"],
    ] {
        let output = unwritten(arguments, folder.path(), false).await;
        let reported = String::from_utf8(output.stderr).unwrap();
        assert_eq!(reported, "", "{arguments:?}");
        assert!(output.status.success(), "{arguments:?}: {}", output.status);
    }
}

#[tokio::test]
async fn only_the_creation_of_a_key_makes_a_ledger() {
    let folder = folder_with("tollgate.yaml", MINIMAL);
    for arguments in [
        &["keys", "list"][..],
        &["keys", "show", "sk-any"],
        &["keys", "revoke", "sk-any"],
        &["keys", "grants", "sk-any"],
        &["keys", "extend", "sk-any", "--days", "1"],
        &["explain", "--key", "sk-any"],
    ] {
        let output = Output::of(&mut command(arguments, folder.path())).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        let reported = "there is no ledger at tollgate.db\n";
        assert_eq!(output.stderr, reported, "{arguments:?}");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "{arguments:?} made a file");
    }
}

#[tokio::test]
async fn a_secret_of_a_key_that_cannot_be_printed_leaves_the_id_to_revoke() {
    let folder = folder_with("tollgate.yaml", MINIMAL);
    for is_full in [false, true] {
        let output = unwritten(&["keys", "create", "lost"], folder.path(), is_full).await;
        assert!(!output.status.success(), "{}", output.status);
        let stderr = String::from_utf8(output.stderr).unwrap();
        let named = stderr.split_whitespace().find(|it| it.starts_with("key_"));
        let id = named.unwrap_or_else(|| panic!("no key is named: {stderr}"));
        assert!(
            stderr.contains("could not be printed: revoke it"),
            "{stderr}"
        );
        assert_eq!(stderr.contains("No space left"), is_full, "{stderr}");
        let revoke = Output::of(&mut command(&["keys", "revoke", id], folder.path())).await;
        assert!(revoke.status.success(), "{revoke:?}");
    }
}

#[tokio::test]
async fn a_failed_check_of_the_doctor_is_its_exit_code_whether_it_is_read_or_not() {
    let folder = folder_with("tollgate.yaml", MINIMAL);
    for arguments in [&["doctor"][..], &["doctor", "--json"]] {
        for is_full in [false, true] {
            let output = unwritten(arguments, folder.path(), is_full).await;
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
            assert!(stderr.trim_end().ends_with("failed"), "{stderr}");
        }
    }
}

#[tokio::test]
async fn a_file_of_tls_that_cannot_be_used_is_reported_with_its_place() {
    let tls = |certificate: &str, key: &str| {
        format!(
            "server:\n  listen:\n    - address: 127.0.0.1:8443\n      tls:\n        \
             certificate: {certificate}\n        key: {key}\n{MINIMAL}"
        )
    };
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("empty.pem"), "").unwrap();
    for (file, wanted) in [
        (
            tls("none.crt", "none.key"),
            [
                "tollgate.yaml:5:22: server.listen[0].tls.certificate: none.crt cannot be read: No such file",
                "tollgate.yaml:6:14: server.listen[0].tls.key: none.key cannot be read: No such file",
            ],
        ),
        (
            tls("empty.pem", "empty.pem"),
            [
                "tollgate.yaml:5:22: server.listen[0].tls.certificate: empty.pem has no PEM certificate",
                "tollgate.yaml:6:14: server.listen[0].tls.key: empty.pem has no PEM private key",
            ],
        ),
    ] {
        fs::write(folder.path().join("tollgate.yaml"), file).unwrap();
        for arguments in [["check"], ["serve"]] {
            let output = Output::of(&mut command(&arguments, folder.path())).await;
            assert!(!output.status.success(), "{arguments:?}");
            for wanted in wanted {
                assert!(output.stderr.contains(wanted), "{wanted}: {output:?}");
            }
        }
    }
}

#[tokio::test]
async fn check_finds_what_a_start_would_fail_on() {
    let folder = folder_with("tollgate.yaml", MINIMAL);
    let same = async |file: &str, pepper: Option<&str>, wanted: &str| {
        for arguments in [["check"], ["serve"]] {
            let mut run = command(&arguments, folder.path());
            run.arg("--config").arg(file);
            if let Some(pepper) = pepper {
                run.env("TOLLGATE_PEPPER", pepper);
            }
            let output = Output::of(&mut run).await;
            assert!(!output.status.success(), "{arguments:?}");
            assert!(output.stderr.contains(wanted), "{wanted}: {output:?}");
        }
    };
    // The file of the keys.
    let made = Output::of(&mut command(&["keys", "create", "one"], folder.path())).await;
    assert!(made.status.success(), "{made:?}");
    let other = "another-pepper-than-that-of-the-keys";
    same("tollgate.yaml", Some(other), "created with another pepper").await;

    // An older copy of it.
    let ledger = folder.path().join("tollgate.db");
    let older = fs::read(&ledger).unwrap();
    let made = Output::of(&mut command(&["keys", "create", "two"], folder.path())).await;
    assert!(made.status.success(), "{made:?}");
    let newer = fs::read(&ledger).unwrap();
    fs::write(&ledger, older).unwrap();
    same("tollgate.yaml", None, "tollgate.db lacks ").await;
    fs::write(&ledger, newer).unwrap();

    let text = format!("store: {{ path: nowhere/tollgate.db }}\n{MINIMAL}");
    fs::write(folder.path().join("nowhere.yaml"), text).unwrap();
    let wanted = "nowhere.yaml:1:16: store.path: there is no folder nowhere";
    same("nowhere.yaml", None, wanted).await;

    for (file, text) in [
        ("notes.txt", "These are the notes of the operator.\n"),
        ("database.url", "mysql://somewhere/else"),
        ("limits.url", "http://somewhere"),
    ] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    for (setting, wanted) in [
        (
            "store: { path: . }",
            "store.path: a folder cannot be the database",
        ),
        (
            "store: { path: '' }",
            "store.path: a folder cannot be the database",
        ),
        ("store: { path: notes.txt }", "is not a ledger file"),
        (
            "store: { postgres: { url: 'file:database.url' } }",
            "the URL of the database cannot be read",
        ),
        (
            "limits: { shared: { url: 'file:limits.url' } }",
            "expected redis://",
        ),
        (
            "log: { access_file: nowhere/access.log }",
            "log.access_file: nowhere/access.log: No such file",
        ),
        (
            "log: { access_file: . }",
            "log.access_file: .: Is a directory",
        ),
        (
            "log: { access: journald, journal_socket: nowhere.sock }",
            "log.journal_socket: nowhere.sock: No such file",
        ),
    ] {
        let Ports { callers, operators } = Ports::free();
        let text = format!(
            "server: {{ listen: [{{ address: '{callers}' }}] }}\n\
             admin: {{ listen: '{operators}' }}\n{setting}\n{MINIMAL}"
        );
        fs::write(folder.path().join("unusable.yaml"), text).unwrap();
        same("unusable.yaml", None, wanted).await;
    }

    let text = format!(
        "server: {{ listen: [{{ address: '127.0.0.1:0', tls: {{ certificate: no.crt, key: no.key }} }}] }}\n\
         log: {{ access_file: nowhere/access.log }}\n{MINIMAL}"
    );
    fs::write(folder.path().join("several.yaml"), text).unwrap();
    let check = Output::of(&mut command(&["check", "several.yaml"], folder.path())).await;
    for wanted in ["log.access_file: nowhere/access.log", "no.crt"] {
        assert!(check.stderr.contains(wanted), "{wanted}: {check:?}");
    }

    fs::write(folder.path().join("empty.yaml"), "").unwrap();
    let wanted = "empty.yaml:1:1: models: the file is empty";
    same("empty.yaml", None, wanted).await;
}

#[tokio::test]
async fn a_start_does_not_wait_for_the_reader_of_a_pipe() {
    let text = format!("log: {{ access_file: pipe }}\n{MINIMAL}");
    let folder = folder_with("tollgate.yaml", &text);
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(pipe).status().await.unwrap();
    assert!(made.success());
    let output = Output::of(&mut command(&["serve"], folder.path())).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let wanted = "log.access_file: pipe: no process reads this pipe";
    assert!(output.stderr.contains(wanted), "{output:?}");
    // The reader may come before the start.
    let output = Output::of(&mut command(&["check"], folder.path())).await;
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn a_new_key_is_said_to_be_shown_once() {
    let folder = folder_with("tollgate.yaml", MINIMAL);
    let output = Output::of(&mut command(&["keys", "create", "one"], folder.path())).await;
    assert!(output.stdout.starts_with("sk-"), "{output:?}");
    let reported = "The key above is shown only once and is not stored: keep it. Its id is key_";
    assert!(output.stderr.starts_with(reported), "{output:?}");
}

#[tokio::test]
async fn the_help_of_explain_says_where_the_request_comes_from() {
    let folder = TempDir::new().unwrap();
    let output = Output::of(&mut command(&["explain", "--help"], folder.path())).await;
    assert!(
        output.stdout.contains("is read from standard input"),
        "{output:?}"
    );
}

#[tokio::test]
async fn a_host_without_an_address_is_reported_in_one_sentence() {
    let folder = folder_with("tollgate.yaml", MINIMAL);
    let mut check = command(
        &["check", "--against", "http://gateway.invalid:9080"],
        folder.path(),
    );
    let output = Output::of(check.env("TOLLGATE_ADMIN_TOKEN", "a-token-for-the-test")).await;
    let reported = output.stderr.trim_end();
    let begin = "the host of 'gateway.invalid:9080' cannot be resolved (";
    assert!(
        reported.starts_with(begin) && reported.ends_with(')'),
        "{output:?}"
    );
    assert!(!reported.contains("lookup"), "{output:?}");

    let config = Config::new()
        .provider("far", support::provider_at("http://provider.invalid"))
        .model("far-model", json!(["far"]));
    let gateway = Gateway::start(config).await;
    let line = gateway.log_line("provider far").await;
    let begin = "provider far: the host 'provider.invalid' cannot be resolved (";
    assert!(line.contains(begin) && line.ends_with(')'), "{line}");
    assert!(!line.contains("lookup"), "{line}");

    // The host is looked up every second; the same failure is logged once.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let lines = gateway.output();
    let failures = lines.lines().filter(|it| it.contains(begin)).count();
    assert_eq!(failures, 1, "{lines}");
}

#[tokio::test]
async fn a_start_logs_what_it_serves_and_a_stop_leaves_the_ledger_in_one_file() {
    let provider = Provider::start().await;
    let mut gateway = Gateway::start(Config::of(&provider)).await;
    let (callers, operators) = (gateway.address, gateway.admin);
    gateway
        .log_line(&format!(
            "listening on http://{callers} for callers (HTTP/1.1 and HTTP/2)"
        ))
        .await;
    gateway
        .log_line(&format!("listening on http://{operators} for operators"))
        .await;
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    let socket = gateway.folder.path().join("tollgate.db.upgrade.sock");
    // It is bound shortly after the gateway serves.
    eventually("the upgrade socket", async || socket.exists().then_some(())).await;
    gateway.signal("TERM").await;
    assert!(gateway.ended().await.success());
    gateway.log_line("stopped").await;
    assert!(!socket.exists(), "the upgrade socket stays behind");

    // The database alone, at another place.
    let copy = TempDir::new().unwrap();
    for name in ["tollgate.yaml", "tollgate.db"] {
        fs::copy(gateway.folder.path().join(name), copy.path().join(name)).unwrap();
    }
    let verify = |folder: &Path| command(&["ledger", "verify", "--json"], folder);
    let found = Output::of(&mut verify(copy.path())).await;
    assert!(found.status.success(), "{found:?}");
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["requests"], 1, "{found}");
    assert!(found["spent"].as_u64().unwrap() > 0, "{found}");
    assert_eq!(found["leased"], 0, "{found}");
}

#[tokio::test]
async fn a_refused_head_has_a_line_in_the_access_log() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let mut connection = tokio::net::TcpStream::connect(gateway.address)
        .await
        .unwrap();
    let head = b"GET /v1/models HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut connection, head)
        .await
        .unwrap();
    let mut answer = String::new();
    bounded("the answer", connection.read_to_string(&mut answer))
        .await
        .unwrap();
    let id = answer
        .lines()
        .find_map(|line| line.strip_prefix("x-request-id: "));
    let id = id.expect("an id");
    let line = gateway.access_line(|line| line["id"] == id).await;
    assert_eq!(line["status"], 400, "{line}");
    assert_eq!(line["code"], "invalid_request", "{line}");
    assert_eq!(line["outcome"], "rejected", "{line}");
    assert_eq!(line["reason"], "host", "{line}");
    assert_eq!(line["client"], "127.0.0.1", "{line}");
    assert_eq!(line["path"], "/v1/models", "{line}");
}

#[tokio::test]
async fn a_failure_without_usage_has_no_count() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    gateway
        .ask(CHAT, "test-model", "status-500", json!({}))
        .await
        .assert_error(502, "upstream_error");
    let line = gateway.access_line(|line| line["status"] == 502).await;
    assert_eq!(line["charged"], 0, "{line}");
    assert_eq!(line["count"], Value::Null, "{line}");
    let record = eventually("its record", async || {
        let history = gateway.get("/v1/usage/history").await.json();
        history["data"].get(0).cloned()
    })
    .await;
    assert_eq!(record["status"], 502, "{record}");
    assert_eq!(record["source"], Value::Null, "{record}");
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    let answered = |line: &Value| line["status"] == 200 && line["path"] == CHAT;
    let line = gateway.access_line(answered).await;
    assert_eq!(line["count"], "reported", "{line}");
}

const TOKEN: &str = "0123456789abcdef-the-token-of-the-tests";

#[tokio::test]
async fn the_log_names_the_key_that_an_operator_changes_and_marks_a_dry_run() {
    let provider = Provider::start().await;
    let folder = folder_with("token", TOKEN);
    let config = Config::of(&provider).with("admin.token", json!("file:token"));
    let gateway = Gateway::start_in(folder, config).await;
    let admin = async |method: &str, target: &str, body: Option<Value>| {
        let mut request = Request::new(method, target).key(TOKEN);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let mut connection = Connection::open(gateway.admin).await;
        connection.send(&request).await
    };
    let made = admin("POST", "/api/v1/keys", Some(json!({"name": "one"}))).await;
    let made = made.json();
    let id = made["record"]["id"].as_str().unwrap();
    let prefix = &made["key"].as_str().unwrap()[..11];
    gateway.log_line(&format!("createKey {id} done")).await;
    let target = format!("/api/v1/keys/{prefix}/grants");
    let order = json!({"tokens": "1M", "validity": "1d"});
    let given = admin("POST", &target, Some(order)).await;
    assert_eq!(given.status, 201, "{given:?}");
    gateway.log_line(&format!("topUpKey {id} done")).await;
    let target = format!("/api/v1/keys/{prefix}/revoke");
    admin("POST", &target, None).await.assert_ok();
    gateway.log_line(&format!("revokeKey {id} done")).await;

    let dry = admin("POST", "/api/v1/reload?dry_run=true", None).await;
    dry.assert_ok();
    assert_eq!(dry.json()["dry_run"], true);
    gateway.log_line("reload done (dry run)").await;
    let real = admin("POST", "/api/v1/reload", None).await;
    assert_eq!(real.json()["dry_run"], false);
}

#[tokio::test]
async fn a_failed_start_of_the_simulation_names_the_path_or_the_address() {
    let folder = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, wanted) in [
        (
            &["demo", "--state-dir", "/dev/null/x"][..],
            "/dev/null/x: Not a directory",
        ),
        (&["sim", "--replay", "nope"], "nope: No such file"),
        (
            &["sim", "--listen", &address],
            &format!("cannot listen on {address}: "),
        ),
    ] {
        let output = Output::of(&mut command(arguments, folder.path())).await;
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains(wanted), "{wanted}: {output:?}");
    }
}

#[tokio::test]
async fn a_variable_that_is_no_text_is_not_called_unset() {
    use std::os::unix::ffi::OsStrExt;
    let text = format!("keys: {{ pepper: 'env:BYTES' }}\n{MINIMAL}");
    let folder = folder_with("tollgate.yaml", &text);
    let mut check = command(&["check"], folder.path());
    check.env(
        "BYTES",
        std::ffi::OsStr::from_bytes(b"\xff-and-more-than-sixteen-bytes"),
    );
    let output = Output::of(&mut check).await;
    let wanted = "the environment variable BYTES is not valid UTF-8";
    assert!(output.stderr.contains(wanted), "{output:?}");
}
