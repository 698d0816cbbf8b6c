//! The configuration changes while the gateway runs: the reported differences, the state
//! after a faulty one, and that no client notices.

use crate::support::{
    Answer, Authority, CHAT, Config, Connection, FORMATS, Gateway, Identity, Output, Provider,
    Request, bounded, eventually, in_front_of, prompt, provider_at, tollgate,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef-admin";

/// A gateway with an admin API; its token is in a file.
async fn gateway(change: impl FnOnce(Config) -> Config) -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let config = Config::of(&provider).with("admin.token", json!("file:token"));
    let gateway = Gateway::start_in(folder, change(config)).await;
    (provider, gateway)
}

async fn api(gateway: &Gateway, method: &str, target: &str) -> Answer {
    let request = Request::new(method, target).key(TOKEN);
    Connection::open(gateway.admin).await.send(&request).await
}

/// The differences of an answer, as `path kind`.
fn paths(answer: &Value) -> Vec<String> {
    let changes = answer["changes"].as_array().expect("changes");
    let printed = |change: &Value| {
        let part = |name: &str| change[name].as_str().expect("a text").to_owned();
        format!("{} {}", part("path"), part("kind"))
    };
    changes.iter().map(printed).collect()
}

#[tokio::test]
async fn a_reload_reports_the_differences_and_a_rollback_undoes_them() {
    let (_provider, gateway) = gateway(|config| config).await;
    let first = api(&gateway, "GET", "/api/v1/configuration").await.json();
    assert_eq!(
        (&first["number"], &first["cause"]),
        (&json!(1), &json!("start"))
    );

    let changed = gateway
        .config()
        .model("new-model", json!(["sim/upstream-model"]))
        .with("server.limits.body_bytes", json!("1MiB"))
        .with("server.threads", json!(2))
        .with("server.limits.keepalive_timeout", json!("5s"));
    gateway.rewrite(changed);

    let dry = api(&gateway, "POST", "/api/v1/reload?dry_run=true").await;
    dry.assert_ok();
    assert_eq!(dry.json()["applied"], false);
    let ask = async |model: &str| gateway.ask(CHAT, model, "", json!({})).await;
    ask("new-model").await.assert_error(404, "invalid_model");

    let done = api(&gateway, "POST", "/api/v1/reload").await;
    done.assert_ok();
    let done = done.json();
    assert_eq!(done["applied"], true);
    assert_eq!(done["changes"], dry.json()["changes"]);
    let printed = paths(&done);
    for wanted in [
        "models.new-model added",
        "server.limits added",
        "server.threads changed",
    ] {
        assert!(
            printed.iter().any(|it| it == wanted),
            "{wanted}: {printed:?}"
        );
    }
    assert_eq!(
        done["needs_restart"],
        json!(["server.threads", "server.limits.keepalive_timeout"])
    );
    let threads = done["changes"].as_array().unwrap().iter();
    let threads = threads.clone().find(|it| it["path"] == "server.threads");
    let threads = threads.unwrap();
    assert_eq!(
        (&threads["before"], &threads["after"]),
        (&json!("1"), &json!("2"))
    );
    gateway
        .log_line("configuration: models.new-model: added")
        .await;
    gateway
        .log_line("server.threads has changed: this needs a restart")
        .await;
    ask("new-model").await.assert_ok();

    let again = api(&gateway, "POST", "/api/v1/reload").await.json();
    assert_eq!(
        (&again["applied"], &again["changes"]),
        (&json!(false), &json!([]))
    );

    let back = api(&gateway, "POST", "/api/v1/reload/rollback").await;
    back.assert_ok();
    ask("new-model").await.assert_error(404, "invalid_model");
    let now = api(&gateway, "GET", "/api/v1/configuration").await.json();
    assert_eq!(
        (&now["number"], &now["cause"]),
        (&json!(3), &json!("rollback"))
    );
    assert_eq!(now["hash"], first["hash"]);
    assert_eq!(now["previous"]["number"], 2);
    // What was rolled back can be rolled forward.
    api(&gateway, "POST", "/api/v1/reload/rollback")
        .await
        .assert_ok();
    ask("new-model").await.assert_ok();
}

#[tokio::test]
async fn a_faulty_configuration_changes_nothing_and_every_fault_is_reported() {
    let (_provider, gateway) = gateway(|config| config).await;
    gateway.rewrite_text("models:\n  x: { famly: nothing }\nsurprise: 1\n");
    for target in ["/api/v1/reload?dry_run=true", "/api/v1/reload"] {
        let answer = api(&gateway, "POST", target).await;
        answer.assert_error(400, "invalid_request");
        for word in ["famly", "surprise"] {
            assert!(answer.message().contains(word), "{word}: {answer:?}");
        }
    }
    let now = api(&gateway, "GET", "/api/v1/configuration").await.json();
    assert_eq!(now["number"], 1);
    let failure = now["last_failure"]["message"].as_str().unwrap();
    assert!(failure.contains("famly"), "{failure}");
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    let none = api(&gateway, "POST", "/api/v1/reload/rollback").await;
    none.assert_error(409, "invalid_request");
    let failed = r#"tollgate_configuration_reloads_total{outcome="failed"}"#;
    assert_eq!(gateway.sample(failed).await, Some(1.0));

    // The files are correct again.
    gateway.rewrite(gateway.config());
    api(&gateway, "POST", "/api/v1/reload").await.assert_ok();
    let now = api(&gateway, "GET", "/api/v1/configuration").await.json();
    assert_eq!(now["last_failure"], Value::Null, "{now}");
}

#[tokio::test]
async fn a_ledger_that_cannot_be_read_is_no_fault_of_the_configuration() {
    let (_provider, gateway) = gateway(|config| config).await;
    let file = gateway.folder.path().join("tollgate.db");
    let rename = |from: &str, to: &str| {
        let file = rusqlite::Connection::open(&file).unwrap();
        let renamed = file.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"));
        renamed.unwrap();
    };
    let config = gateway.config();
    gateway.rewrite(config.model("new-model", json!(["sim/upstream-model"])));
    rename("keys", "elsewhere");
    let failed = api(&gateway, "POST", "/api/v1/reload").await;
    failed.assert_error(500, "internal_error");
    rename("elsewhere", "keys");
    api(&gateway, "POST", "/api/v1/reload").await.assert_ok();
}

/// Without its plan a key would have no limits, unnoticed.
#[tokio::test]
async fn a_plan_that_keys_have_is_not_lost_by_a_reload_or_a_start() {
    let (_provider, mut gateway) = gateway(|config| {
        let limits = json!({"requests_per_minute": 1});
        let plan = json!({"tokens": "1M", "validity": "1d", "limits": limits});
        config.with("plans.small", plan)
    })
    .await;
    let key = gateway.create_key(&["--plan", "small"]).await;
    let request = prompt(CHAT, "test-model", "Hi", json!({}));
    let request = Request::post(CHAT, &request).key(&key);
    gateway.send(&request).await.assert_ok();
    let with = gateway.config();
    let plan = with.0["plans"]["small"].clone();
    let mut without = with.clone();
    without.0["plans"].as_object_mut().unwrap().remove("small");
    let without = without.with("plans.tiny", plan);
    gateway.rewrite(without.clone());

    let printed = "\n  small: 1 key has it\n";
    for how in ["?dry_run=true", ""] {
        let refused = api(&gateway, "POST", &format!("/api/v1/reload{how}")).await;
        refused.assert_error(400, "invalid_request");
        assert!(refused.message().contains(printed), "{refused:?}");
    }
    // As it was.
    let limited = gateway.send(&request).await;
    limited.assert_error(429, "rate_limit_exceeded");
    let file = gateway.folder.path().join("tollgate.yaml");
    let check = async || Output::of(tollgate().arg("check").arg(&file)).await;
    let checked = check().await;
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    assert!(checked.stderr.contains(printed), "{checked:?}");
    let upgraded = gateway.try_upgrade().await;
    assert!(!upgraded.status.success(), "{upgraded:?}");
    let limited = gateway.send(&request).await;
    limited.assert_error(429, "rate_limit_exceeded");

    // A plan that is in the file and is not served yet limits no key: its keys have to wait for it.
    let tiny = gateway.create_key(&["--plan", "tiny"]).await;
    let of_tiny = Request::post(CHAT, &prompt(CHAT, "test-model", "Hi", json!({}))).key(&tiny);
    let early = gateway.send(&of_tiny).await;
    early.assert_error(503, "service_unavailable");
    assert!(early.message().contains("plan"), "{early:?}");

    // A revoked key needs no plan.
    let revoked = gateway.keys(&["revoke", &key]).await;
    assert!(revoked.status.success(), "{revoked:?}");
    assert!(check().await.status.success());
    api(&gateway, "POST", "/api/v1/reload").await.assert_ok();
    gateway.send(&of_tiny).await.assert_ok();
    let limited = gateway.send(&of_tiny).await;
    limited.assert_error(429, "rate_limit_exceeded");
    // What was served before does not know the plans of keys that were made since.
    let refused = api(&gateway, "POST", "/api/v1/reload/rollback").await;
    refused.assert_error(400, "invalid_request");
    assert!(
        refused.message().contains("tiny: 1 key has it"),
        "{refused:?}"
    );

    gateway.rewrite(with);
    gateway.signal("TERM").await;
    gateway.ended().await;
    let mut again = tollgate();
    again.args(["serve", "--config"]).arg(&file);
    let started = Output::of(&mut again).await;
    assert_eq!(started.status.code(), Some(1), "{started:?}");
    assert!(started.stderr.contains("tiny: 1 key has it"), "{started:?}");
}

#[tokio::test]
async fn secrets_are_reported_as_changed_and_never_shown() {
    let (_provider, gateway) = gateway(|config| {
        config.with(
            "providers.sim.headers",
            json!({"x-inner": "hidden-header-value"}),
        )
    })
    .await;
    let secret = "another-admin-token-of-length";
    std::fs::write(gateway.folder.path().join("token"), secret).unwrap();
    let headers = json!({"x-inner": "1-other-hidden-value"});
    gateway.rewrite(gateway.config().with("providers.sim.headers", headers));
    let done = api(&gateway, "POST", "/api/v1/reload").await;
    done.assert_ok();
    let printed = paths(&done.json());
    assert_eq!(
        printed,
        [
            "providers.sim.headers.x-inner changed",
            "admin.token content"
        ]
    );
    api(&gateway, "GET", "/api/v1/configuration")
        .await
        .assert_error(401, "invalid_api_key");
    let request = Request::get("/api/v1/configuration").key(secret);
    let shown = Connection::open(gateway.admin).await.send(&request).await;
    shown.assert_ok();
    for text in [shown.text(), done.text(), gateway.output()] {
        for hidden in [TOKEN, secret, "hidden", support_key()] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }
}

fn support_key() -> &'static str {
    "credential-of-the-provider"
}

#[tokio::test]
async fn a_changed_file_is_taken_when_that_is_asked_for() {
    let watch = json!({"watch": true, "interval": "20ms"});
    let (_provider, gateway) = gateway(|config| config.with("server.reload", watch)).await;
    let with_model = |name: &str| gateway.config().model(name, json!(["sim/upstream-model"]));
    gateway.rewrite(with_model("second"));
    let served = async |name: &str| {
        let answer = gateway.ask(CHAT, name, "", json!({})).await;
        (answer.status == 200).then_some(())
    };
    eventually("the new model", async || served("second").await).await;

    // A mistake is reported once, and its correction is applied.
    gateway.rewrite_text("models: [");
    gateway.log_line("configuration is unchanged").await;
    gateway.rewrite(with_model("third"));
    eventually("the mended file", async || served("third").await).await;
    let failed = r#"tollgate_configuration_reloads_total{outcome="failed"}"#;
    assert_eq!(gateway.sample(failed).await, Some(1.0));

    // A secret in another file is looked at too.
    let secret = "another-admin-token-of-length";
    std::fs::write(gateway.folder.path().join("token"), secret).unwrap();
    let request = Request::get("/api/v1/configuration").key(secret);
    let view = eventually("the new token", async || {
        let answer = Connection::open(gateway.admin).await.send(&request).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    assert_eq!(view["cause"], "file");
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_restart_and_one_that_does_not_fit_is_not() {
    let provider = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    old.issue("gateway.test").write(folder.path(), "tls");
    let mut config = Config::of(&provider);
    let tls = json!({"certificate": "tls.crt", "key": "tls.key"});
    config.0["server"]["listen"] = json!([{ "tls": tls }]);
    let gateway = Gateway::start_in(folder, config).await;
    let ask = async |authority: &Authority| {
        let session = authority
            .connect(gateway.address, "gateway.test", &["http/1.1"])
            .await;
        let request = Request::get("/v1").key(&gateway.key);
        let mut connection = Connection::over(session);
        let answer = connection.send(&request).await;
        answer.assert_ok();
        connection
    };
    let mut open = ask(&old).await;

    // The key of another certificate.
    let next = new.issue("gateway.test");
    std::fs::write(gateway.folder.path().join("tls.crt"), &next.certificate).unwrap();
    gateway.signal("HUP").await;
    gateway.log_line("cannot be used").await;
    ask(&old).await;

    next.write(gateway.folder.path(), "tls");
    gateway.signal("HUP").await;
    gateway
        .log_line("server.listen[0].tls.key: content changed")
        .await;
    ask(&new).await;
    // Sessions that are open go on.
    open.send(&Request::get("/v1").key(&gateway.key))
        .await
        .assert_ok();
}

/// Authorities name themselves in files of theirs, in whatever letters.
#[tokio::test]
async fn a_renewed_certificate_that_is_no_text_is_served_too() {
    let provider = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    let write = |folder: &std::path::Path, identity: &Identity| {
        for (name, pem) in [
            ("tls.crt", &identity.certificate),
            ("tls.key", &identity.key),
        ] {
            let text = [b"Autorit\xe9\n", pem.as_bytes()].concat();
            std::fs::write(folder.join(name), text).unwrap();
        }
    };
    let (old, new) = (Authority::new(), Authority::new());
    write(folder.path(), &old.issue("gateway.test"));
    let mut config = Config::of(&provider);
    let tls = json!({"certificate": "tls.crt", "key": "tls.key"});
    config.0["server"]["listen"] = json!([{ "tls": tls }]);
    let gateway = Gateway::start_in(folder, config).await;
    let open = async |authority: &Authority| {
        let alpn = &["http/1.1"];
        let session = authority.try_connect(gateway.address, "gateway.test", alpn);
        session.await.map(drop)
    };
    open(&old).await.unwrap();
    write(gateway.folder.path(), &new.issue("gateway.test"));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was").await;
    open(&new).await.unwrap();
}

/// An operator who withdraws an authority must learn that its clients are still served.
#[tokio::test]
async fn other_authorities_of_clients_are_reported_to_need_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let provider = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    old.issue("gateway.test").write(folder.path(), "tls");
    for (name, authority) in [
        ("clients.pem", &old),
        ("same.pem", &old),
        ("other.pem", &new),
    ] {
        std::fs::write(folder.path().join(name), authority.pem()).unwrap();
    }
    let tls = json!({"certificate": "tls.crt", "key": "tls.key", "client_ca": "clients.pem"});
    let config = Config::of(&provider)
        .with("admin.token", json!("file:token"))
        .with("server.listen", json!([{"tls": tls}]));
    let gateway = Gateway::start_in(folder, config).await;
    let folder = gateway.folder.path();

    let running = std::fs::read_to_string(folder.join("tollgate.yaml")).unwrap();
    for (name, needs_restart) in [("same.pem", false), ("other.pem", true)] {
        let next = running.replace("clients.pem", name);
        std::fs::write(folder.join("next.yaml"), next).unwrap();
        let mut check = tollgate();
        check.args(["check", "next.yaml", "--against", "tollgate.yaml"]);
        let output = Output::of(check.current_dir(folder)).await;
        assert!(output.status.success(), "{output:?}");
        let line = "server.listen: needs a restart or an upgrade";
        assert_eq!(output.stdout.contains(line), needs_restart, "{output:?}");
    }

    std::fs::write(folder.join("clients.pem"), new.pem()).unwrap();
    let done = api(&gateway, "POST", "/api/v1/reload").await;
    done.assert_ok();
    let done = done.json();
    assert_eq!(paths(&done), ["server.listen[0].tls.client_ca content"]);
    assert_eq!(done["needs_restart"], json!(["server.listen"]));
    gateway
        .log_line("server.listen has changed: this needs a restart")
        .await;
}

#[tokio::test]
async fn a_rollback_trusts_the_authority_of_then_whatever_its_file_holds() {
    let provider = Provider::start().await;
    let (own, other) = (Authority::new(), Authority::new());
    let address = in_front_of(provider.address, &own.issue("provider.test")).await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    std::fs::write(folder.path().join("ca.pem"), own.pem()).unwrap();
    let mut settings = provider_at(&format!("https://{address}"));
    settings["tls"] = json!({"ca": "ca.pem", "server_name": "provider.test"});
    let config = Config::new()
        .provider("sim", settings)
        .with("admin.token", json!("file:token"))
        .with("failover", json!({"again": 0}))
        .with("routing.health", json!({"enabled": false}))
        .model("test-model", json!(["sim"]));
    let gateway = Gateway::start_in(folder, config).await;
    let ca = gateway.folder.path().join("ca.pem");
    let ask = async || gateway.ask(CHAT, "test-model", "", json!({})).await;
    let roll_back = async || {
        let back = api(&gateway, "POST", "/api/v1/reload/rollback").await;
        back.assert_ok();
    };
    ask().await.assert_ok();

    std::fs::write(&ca, other.pem()).unwrap();
    let done = api(&gateway, "POST", "/api/v1/reload").await;
    done.assert_ok();
    assert_eq!(paths(&done.json()), ["providers.sim.tls.ca content"]);
    ask().await.assert_error(503, "service_unavailable");
    roll_back().await;
    ask().await.assert_ok();

    // Forward and back again, where there is no file at all any more.
    std::fs::remove_file(&ca).unwrap();
    roll_back().await;
    ask().await.assert_error(503, "service_unavailable");
    roll_back().await;
    ask().await.assert_ok();

    // The file is mended, and it is what is served.
    std::fs::write(&ca, own.pem()).unwrap();
    api(&gateway, "POST", "/api/v1/reload").await.assert_ok();
    ask().await.assert_ok();
}

#[tokio::test]
async fn a_check_reports_the_difference_to_a_file_and_to_the_served_configuration() {
    let (_provider, gateway) = gateway(|config| config).await;
    let next = gateway
        .config()
        .model("new-model", json!(["sim/upstream-model"]))
        .with("store.path", json!("elsewhere.db"))
        .with("server.limits", json!({"body_bytes": "1MiB"}));
    let file = gateway.folder.path().join("next.yaml");
    std::fs::write(&file, next.0.to_string()).unwrap();
    let running = gateway.folder.path().join("tollgate.yaml");
    let running = running.to_str().unwrap();
    let served = format!("http://{}", gateway.admin);
    for against in [running, &served] {
        let mut check = tollgate();
        check.arg("check").arg(&file).args(["--against", against]);
        let output = Output::of(check.env("TOLLGATE_ADMIN_TOKEN", TOKEN)).await;
        assert!(output.status.success(), "{output:?}");
        for line in [
            "models.new-model: added",
            "store.path: changed",
            "server.limits",
        ] {
            assert!(output.stdout.contains(line), "{line}: {output:?}");
        }
        let lines = output.stdout.lines();
        let restarts: Vec<_> = lines.filter(|line| line.contains("restart")).collect();
        let takes = |part: &str| format!("{part}: needs a restart or an upgrade");
        assert!(
            restarts == [takes("store.path")] || restarts == [takes("store")],
            "{restarts:?}"
        );
    }
    for served in [&served, &served.replace("http", "HTTP")] {
        let mut same = tollgate();
        same.arg("check").arg(running).args(["--against", served]);
        let output = Output::of(same.env("TOLLGATE_ADMIN_TOKEN", TOKEN)).await;
        assert!(output.stdout.contains("no difference"), "{output:?}");
    }
    let secure = served.replace("http", "https");
    let mut secured = tollgate();
    secured
        .arg("check")
        .arg(running)
        .args(["--against", &secure]);
    let output = Output::of(&mut secured).await;
    assert!(output.stderr.contains("has no TLS"), "{output:?}");
    let mut wrong = tollgate();
    wrong.arg("check").arg(running).args(["--against", &served]);
    let output = Output::of(wrong.env("TOLLGATE_ADMIN_TOKEN", "wrong")).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains("answers 401"), "{output:?}");
}

#[tokio::test]
async fn a_check_lists_what_needs_a_restart_though_a_reload_has_changed_it() {
    let (_provider, gateway) = gateway(|config| config).await;
    let file = gateway.folder.path().join("tollgate.yaml");
    let served = format!("http://{}", gateway.admin);
    let checked = async || {
        let mut check = tollgate();
        check.arg("check").arg(&file).args(["--against", &served]);
        let output = Output::of(check.env("TOLLGATE_ADMIN_TOKEN", TOKEN)).await;
        output.stdout
    };
    gateway.rewrite(gateway.config().with("server.threads", json!(2)));
    api(&gateway, "POST", "/api/v1/reload").await.assert_ok();
    let reloaded = checked().await;
    let wanted = "no difference\nserver.threads: needs a restart or an upgrade\n";
    assert!(reloaded.ends_with(wanted), "{reloaded}");
    gateway.rewrite(gateway.config());
    let put_back = checked().await;
    assert!(put_back.contains("server.threads: changed"), "{put_back}");
    assert!(!put_back.contains("restart"), "{put_back}");
}

/// How many reloads: `TOLLGATE_RELOADS` for more.
fn rounds() -> usize {
    let asked = std::env::var("TOLLGATE_RELOADS").ok();
    asked.map_or(20, |text| text.parse().expect("a number"))
}

#[tokio::test]
async fn no_request_notices_any_of_many_reloads() {
    let (_provider, gateway) = gateway(|config| config).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = tokio::task::JoinSet::new();
    for path in FORMATS {
        for streamed in [false, true] {
            let over = Arc::clone(&over);
            let (address, key) = (gateway.address, gateway.key.clone());
            let more = match (path, streamed) {
                (CHAT, true) => json!({"stream": true, "stream_options": {"include_usage": true}}),
                _ => json!({"stream": streamed}),
            };
            let body = prompt(path, "test-model", "one two three four five", more);
            let request = Request::post(path, &body)
                .key(&key)
                .orders("chunk-delay-3ms");
            callers.spawn(async move {
                let mut connection = Connection::open(address).await;
                let mut served = 0_u64;
                let mut tokens = 0;
                while !over.load(Ordering::Acquire) {
                    let answer = connection.send(&request).await;
                    answer.assert_ok();
                    tokens += answer.reported();
                    served += 1;
                }
                (served, tokens)
            });
        }
    }
    let rounds = rounds();
    for round in 0..rounds {
        let name = format!("model-{round}");
        gateway.rewrite(gateway.config().model(&name, json!(["sim/upstream-model"])));
        let number = round + 2;
        gateway.signal("HUP").await;
        gateway
            .log_line(&format!("was reloaded: number {number},"))
            .await;
    }
    over.store(true, Ordering::Release);
    let ended = callers.join_all();
    let ended = tokio::time::timeout(Duration::from_secs(30), ended)
        .await
        .expect("all ended");
    let served: u64 = ended.iter().map(|(served, _)| served).sum();
    let tokens: u64 = ended.iter().map(|(_, tokens)| tokens).sum();
    println!("{rounds} reloads, {served} requests, {tokens} tokens");
    assert!(served > 6, "{served}");
    gateway.has_spent(&gateway.key, tokens).await;
    bounded("the ledger", gateway.verify()).await;
}

/// A gateway whose provider's credential is in a pipe from now on.
fn name_a_pipe(gateway: &Gateway, name: &str) -> std::path::PathBuf {
    let path = gateway.folder.path().join(name);
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let credentials = json!([format!("file:{name}")]);
    gateway.rewrite(
        gateway
            .config()
            .with("providers.sim.credentials", credentials),
    );
    path
}

#[tokio::test]
async fn a_file_that_does_not_answer_stops_neither_the_operator_nor_the_end() {
    let (_provider, mut gateway) = gateway(|config| config).await;
    name_a_pipe(&gateway, "silent");
    let answer = {
        let mut reload = std::pin::pin!(api(&gateway, "POST", "/api/v1/reload"));
        let mut answered = 0;
        let answer = loop {
            let health = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                gateway.operator("/healthz").await.status
            };
            tokio::select! {
                answer = &mut reload => break answer,
                status = health => {
                    assert_eq!(status, 200);
                    answered += 1;
                }
            }
        };
        assert!(answered > 1, "no request came in between");
        answer
    };
    answer.assert_error(400, "invalid_request");
    let text = answer.text();
    for words in ["silent cannot be read", "has not answered for 5s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // It is not waited for again.
    let again = api(&gateway, "POST", "/api/v1/reload").await.text();
    assert!(again.contains("of an earlier reload"), "{again}");
    gateway.get("/v1").await.assert_ok();

    name_a_pipe(&gateway, "another");
    gateway.signal("HUP").await;
    assert_eq!(gateway.operator("/healthz").await.status, 200);
    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_secret_may_come_through_a_pipe() {
    let (provider, gateway) = gateway(|config| config).await;
    let pipe = name_a_pipe(&gateway, "pipe");
    let writer = std::thread::spawn(move || std::fs::write(pipe, "through-a-pipe\n"));
    api(&gateway, "POST", "/api/v1/reload").await.assert_ok();
    writer.join().unwrap().unwrap();
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    let sent = provider.last();
    assert_eq!(sent.headers["authorization"], "Bearer through-a-pipe");
}

#[tokio::test]
async fn open_breakers_close_when_health_is_switched_off() {
    let provider = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let health = json!({"consecutive_failures": 1, "cooldown": "60s", "max_cooldown": "60s"});
    let config = Config::first_and_second(provider.address, provider.address)
        .with("admin.token", json!("file:token"))
        .with("providers.a.health", health);
    let gateway = Gateway::start_in(folder, config).await;
    // The first one alone fails.
    let attempts = async || {
        let answer = gateway.ask(CHAT, "m", "status-500", json!({})).await;
        answer.assert_ok();
        answer.header("x-attempts").map(str::to_owned)
    };
    assert_eq!(attempts().await.as_deref(), Some("2"));
    assert_eq!(attempts().await, None, "it is in cooldown");
    let off = json!({"enabled": false});
    gateway.rewrite(gateway.config().with("providers.a.health", off));
    api(&gateway, "POST", "/api/v1/reload").await.assert_ok();
    for _ in 0..2 {
        assert_eq!(attempts().await.as_deref(), Some("2"));
    }
}
