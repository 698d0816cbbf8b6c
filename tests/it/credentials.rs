//! Credentials whose tokens the gateway fetches: they are there before they end, and what happens while they
//! are not. How each source proves itself is tested in `crates/providers`.

use crate::support::issuer::{CLIENT, CLIENT_SECRET, Issuer, KEY, TENANT};
use crate::support::{
    self, Act, Answer, Authority, CHAT, Config, Connection, Doorman, FORMATS, Gateway, MESSAGES,
    Output, Provider, Request, Service, breaker, eventually, in_front_of, json_answer, prompt,
    provider, tollgate,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ADMIN: &str = "0123456789abcdef-admin";
const REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\n\
    content-length: 90\r\n\r\n{\"error\":{\"message\":\"expired\",\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\"}}    ";

/// A provider `a` with the tokens of a service account in `sa.json`, and a model `m` there.
fn config(at: SocketAddr) -> Config {
    Config::new()
        .with("admin.token", json!("file:admin.token"))
        .provider("a", provider(at))
        .with("providers.a.credentials", credentials())
        .model("m", json!(["a"]))
}

fn credentials() -> Value {
    json!([{"name": "main", "google": {"service_account": "file:sa.json"}}])
}

/// A folder with what the configuration names.
fn folder(issuer: &Issuer) -> TempDir {
    let folder = TempDir::new().unwrap();
    let account = issuer.service_account().to_string();
    std::fs::write(folder.path().join("sa.json"), account).unwrap();
    std::fs::write(folder.path().join("admin.token"), ADMIN).unwrap();
    folder
}

async fn start(issuer: &Issuer, config: Config) -> Gateway {
    Gateway::start_in(folder(issuer), config).await
}

async fn ask(gateway: &Gateway, model: &str) -> Answer {
    gateway.ask(CHAT, model, "", json!({})).await
}

/// Waits until a model is served.
async fn served(gateway: &Gateway, model: &str) {
    let look = async || (ask(gateway, model).await.status == 200).then_some(());
    eventually("an answer", look).await;
}

async fn api(gateway: &Gateway, request: Request) -> Answer {
    let request = request.key(ADMIN);
    Connection::open(gateway.admin).await.send(&request).await
}

async fn explained(gateway: &Gateway, model: &str) -> Value {
    let body = prompt(CHAT, model, "Hello!", json!({}));
    let order = json!({"key": gateway.key, "path": CHAT, "request": body});
    let answer = api(gateway, Request::post("/api/v1/explain", &order)).await;
    answer.assert_ok();
    answer.json()
}

/// The tokens that a provider has been sent.
fn sent(provider: &Provider) -> Vec<String> {
    let received = provider.received().into_iter();
    let header = |it: tollgate_sim::Received| {
        let value = it.headers.get("authorization").expect("a token");
        value.to_str().unwrap().to_owned()
    };
    received.map(header).collect()
}

/// Looks for secrets in everything that an operator can see.
async fn shows_no_secret(gateway: &Gateway) {
    let mut pages = vec![gateway.output(), gateway.operator("/metrics").await.text()];
    for page in ["/api/v1/health", "/api/v1/configuration"] {
        let answer = api(gateway, Request::get(page)).await;
        answer.assert_ok();
        pages.push(answer.text());
    }
    pages.push(explained(gateway, "m").await.to_string());
    let key = KEY.lines().nth(3).unwrap();
    for page in pages {
        for secret in ["issued-token-", key, "eyJ"] {
            assert!(!page.contains(secret), "{secret} in {page}");
        }
    }
}

const LEFT: &str = "tollgate_credential_token_seconds{provider=\"a\",credential=\"main\"}";

fn refreshes(outcome: &str) -> String {
    format!(
        "tollgate_credential_refreshes_total{{credential=\"main\",outcome=\"{outcome}\",provider=\"a\"}}"
    )
}

#[tokio::test]
async fn a_token_is_fetched_once_and_sent_in_every_format() {
    let (issuer, provider) = (Issuer::start().await, Provider::start().await);
    let gateway = start(&issuer, config(provider.address)).await;
    served(&gateway, "m").await;
    for path in FORMATS {
        gateway.ask(path, "m", "", json!({})).await.assert_ok();
        let last = provider.last();
        assert_eq!(last.headers["authorization"], "Bearer issued-token-1");
        assert!(!last.headers.contains_key("x-api-key"), "{path}");
    }
    assert_eq!(issuer.issued(), 1);
    let line = gateway.log_line("a token was fetched").await;
    assert!(line.contains("provider a, credential 'main'"), "{line}");
    assert!(line.contains("valid for 3600s"), "{line}");
    let left = gateway.sample(LEFT).await.unwrap();
    assert!((3500.0..=3600.0).contains(&left), "{left}");
    gateway.sample_is(&refreshes("ok"), 1.0).await;
    let health = api(&gateway, Request::get("/api/v1/health")).await.json();
    let token = &health["providers"][0]["credentials"][0]["token"];
    assert!(token["valid_for_ms"].as_u64() > Some(3_500_000), "{health}");
    assert_eq!(token["failure"], Value::Null, "{health}");
    shows_no_secret(&gateway).await;
}

#[tokio::test]
async fn tokens_are_fetched_anew_before_their_end_while_requests_run() {
    let (issuer, provider) = (Issuer::start().await, Provider::start().await);
    issuer.valid_for(8);
    let gateway = start(&issuer, config(provider.address)).await;
    served(&gateway, "m").await;
    let mut asked = 0;
    while issuer.issued() < 3 {
        ask(&gateway, "m").await.assert_ok();
        asked += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let tokens: BTreeSet<_> = sent(&provider).into_iter().collect();
    assert!(asked > 20, "{asked} requests");
    let known = (1..=3).map(|number| format!("Bearer issued-token-{number}"));
    assert!(tokens.is_subset(&known.collect()), "{tokens:?}");
    // The stand-in remembers the last requests alone.
    assert!(tokens.contains("Bearer issued-token-2"), "{tokens:?}");
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_is_used_to_its_end_and_then_its_candidates_are_left_out() {
    let (issuer, one, two) = (
        Issuer::start().await,
        Provider::start().await,
        Provider::start().await,
    );
    issuer.valid_for(4);
    let config = config(one.address)
        .provider("b", provider(two.address))
        .with("routing.explain", json!("on_request"))
        .model("both", json!(["a", {"provider": "b", "priority": 1}]));
    // Before the token is issued.
    let begun = Instant::now();
    let gateway = start(&issuer, config).await;
    served(&gateway, "m").await;
    issuer.fail(true);
    let line = gateway.log_line("no new token").await;
    assert!(
        line.contains("answers 503: unavailable: the service is down"),
        "{line}"
    );
    if begun.elapsed() < Duration::from_secs(3) {
        ask(&gateway, "m").await.assert_ok();
        assert_eq!(sent(&one).pop().unwrap(), "Bearer issued-token-1");
    }
    gateway.sample_is(LEFT, 0.0).await;
    let line = gateway.log_line("credential 'main': no token").await;
    assert!(line.contains("the service is down"), "{line}");

    // Alone it is a temporary failure that says when to retry; another candidate takes over.
    let refused = ask(&gateway, "m").await;
    refused.assert_error(503, "service_unavailable");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let body = prompt(CHAT, "both", "Hello!", json!({}));
    let request = Request::post(CHAT, &body).key(&gateway.key);
    let answer = gateway.send(&request.header("x-explain", "1")).await;
    answer.assert_ok();
    let reason = answer.header("x-route-reason").unwrap();
    assert!(
        reason.contains("left out: deployment 1 credential 1 (without a token)"),
        "{reason}"
    );
    let told = explained(&gateway, "both").await;
    assert_eq!(told["outcome"]["provider"], "b", "{told}");
    let left_out = &told["candidates"][1];
    assert_eq!(left_out["asked"], false, "{told}");
    let reason = left_out["reason"].as_str().unwrap();
    assert!(reason.starts_with("it has no valid token"), "{reason}");
    assert!(reason.contains("the service is down"), "{reason}");
    let told = explained(&gateway, "m").await;
    assert_eq!(told["outcome"]["status"], 503, "{told}");
    assert!(gateway.sample(&refreshes("refused")).await.unwrap() > 0.0);
    let health = api(&gateway, Request::get("/api/v1/health")).await.text();
    assert!(health.contains("the service is down"), "{health}");
    let mut status = tollgate();
    status.args(["status", "--at", &format!("http://{}", gateway.admin)]);
    let status = Output::of(status.env("TOLLGATE_ADMIN_TOKEN", ADMIN)).await;
    let warning = "WARNING  provider a, credential main: no token (";
    let line = status.stdout.lines().find(|it| it.starts_with(warning));
    assert!(
        line.is_some_and(|it| it.contains("the service is down")),
        "{status:?}"
    );
    shows_no_secret(&gateway).await;

    // It recovers without a restart.
    issuer.valid_for(3600);
    issuer.fail(false);
    served(&gateway, "m").await;
    assert!(gateway.sample(LEFT).await.unwrap() > 3000.0);
}

#[tokio::test]
async fn a_gateway_serves_other_providers_while_a_token_is_fetched() {
    let (issuer, slow, other) = (
        Issuer::start().await,
        Provider::start().await,
        Provider::start().await,
    );
    let folder = folder(&issuer);
    let token = json!({"token": "printed-token", "expires_in": 3600});
    let script = format!(
        "cd '{}'; while [ ! -e go ]; do sleep 0.05; done; echo '{token}'",
        folder.path().display()
    );
    let command = json!({"run": ["sh", "-c", script], "timeout": "30s"});
    let config = config(slow.address)
        .with(
            "providers.a.credentials",
            json!([{"command": command, "header": "x-api-key"}]),
        )
        .provider("b", provider(other.address))
        .model("n", json!(["b"]))
        .model("both", json!(["a", {"provider": "b", "priority": 1}]));
    let gateway = Gateway::start_in(folder, config).await;
    ask(&gateway, "n").await.assert_ok();
    ask(&gateway, "both").await.assert_ok();
    let refused = ask(&gateway, "m").await;
    refused.assert_error(503, "service_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let told = explained(&gateway, "m").await;
    assert_eq!(
        told["candidates"][0]["reason"], "its first token is being fetched",
        "{told}"
    );
    assert!(slow.received().is_empty());
    std::fs::write(gateway.folder.path().join("go"), "").unwrap();
    // Chat at this provider would ask for the other header.
    let ask = async || gateway.ask(MESSAGES, "m", "", json!({})).await;
    let look = async || (ask().await.status == 200).then_some(());
    eventually("an answer", look).await;
    let last = slow.last();
    assert_eq!(last.headers["x-api-key"], "printed-token");
    assert!(!last.headers.contains_key("authorization"));
    assert!(!gateway.output().contains("printed-token"));
}

/// A service that accepts connections and answers nothing delays neither the admin listener nor the token of another
/// credential, and the operator's thread delays no token.
#[tokio::test]
async fn a_token_service_that_hangs_delays_neither_the_operator_nor_other_tokens() {
    let (issuer, provider) = (Issuer::start().await, Provider::start().await);
    let hanging = Service::answering(|_| vec![Act::Hang]).await;
    let folder = folder(&issuer);
    let mut account = issuer.service_account();
    account["token_uri"] = json!(format!("http://{}/token", hanging.address));
    std::fs::write(folder.path().join("hanging.json"), account.to_string()).unwrap();
    let hangs = json!([{"google": {"service_account": "file:hanging.json"}}]);
    let config = config(provider.address)
        .provider("b", support::provider(provider.address))
        .with("providers.b.credentials", hangs)
        .model("n", json!(["b"]));
    let gateway = Gateway::start_in(folder, config).await;
    served(&gateway, "m").await;
    eventually("the service is asked", async || {
        (!hanging.seen().is_empty()).then_some(())
    })
    .await;
    let began = Instant::now();
    for _ in 0..20 {
        explained(&gateway, "n").await;
        ask(&gateway, "m").await.assert_ok();
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    ask(&gateway, "n")
        .await
        .assert_error(503, "service_unavailable");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    let names: BTreeSet<_> = names.map(|it| it.unwrap().trim().to_owned()).collect();
    for thread in ["operator", "tokens"] {
        assert!(names.contains(thread), "{names:?}");
    }
}

#[tokio::test]
async fn a_reload_keeps_the_token_of_an_unchanged_source_and_fetches_another_one_first() {
    let (issuer, provider) = (Issuer::start().await, Provider::start().await);
    let gateway = start(&issuer, config(provider.address)).await;
    served(&gateway, "m").await;
    gateway.rewrite(config(provider.address).model("n", json!(["a"])));
    api(&gateway, Request::new("POST", "/api/v1/reload"))
        .await
        .assert_ok();
    ask(&gateway, "n").await.assert_ok();
    assert_eq!(issuer.issued(), 1);

    // The same account with another key, as the operator replaces it.
    let mut account = issuer.service_account();
    account["private_key"] = json!(format!("{KEY}\n"));
    std::fs::write(gateway.folder.path().join("sa.json"), account.to_string()).unwrap();
    api(&gateway, Request::new("POST", "/api/v1/reload"))
        .await
        .assert_ok();
    // The first request is sent with the new token: the reload has waited for it.
    ask(&gateway, "m").await.assert_ok();
    assert_eq!(sent(&provider).pop().unwrap(), "Bearer issued-token-2");
    assert_eq!(issuer.issued(), 2);
}

#[tokio::test]
async fn an_upgrade_leaves_no_moment_without_a_token() {
    let (issuer, provider) = (Issuer::start().await, Provider::start().await);
    let mut gateway = start(&issuer, config(provider.address)).await;
    served(&gateway, "m").await;
    gateway.upgrade().await;
    // The old process may still accept a connection.
    let look = async || {
        ask(&gateway, "m").await.assert_ok();
        let last = sent(&provider).pop();
        (last.as_deref() == Some("Bearer issued-token-2")).then_some(())
    };
    eventually("a request by the new process", look).await;
}

#[tokio::test]
async fn a_token_that_the_provider_refuses_is_replaced_once() {
    let issuer = Issuer::start().await;
    // The provider takes neither the first token nor the third.
    let doorman = Doorman::start(|head| !head.contains("bearer issued-token-2"), REFUSED);
    let doorman = doorman.await;
    let gateway = start(&issuer, config(doorman.address)).await;
    let refused = async || {
        let answer = ask(&gateway, "m").await;
        (answer.status == 502).then_some(())
    };
    eventually("a refusal", refused).await;
    gateway.sample_is(&refreshes("ok"), 2.0).await;
    // The breaker was for the token that is not sent any more.
    gateway
        .sample_is(&breaker("credential", "a", "", "main"), 0.0)
        .await;
    ask(&gateway, "m").await.assert_ok();
    assert_eq!(issuer.issued(), 2);
}

#[tokio::test]
async fn a_provider_that_refuses_every_token_causes_one_refresh_a_minute() {
    let issuer = Issuer::start().await;
    let doorman = Doorman::start(|_| true, REFUSED).await;
    let gateway = start(&issuer, config(doorman.address)).await;
    let refused = async || (ask(&gateway, "m").await.status == 502).then_some(());
    eventually("a refusal", refused).await;
    gateway.sample_is(&refreshes("ok"), 2.0).await;
    for _ in 0..20 {
        ask(&gateway, "m").await.assert_error(502, "upstream_error");
    }
    // Longer than the gateway takes to look for what is due.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(issuer.issued(), 2);
}

#[tokio::test]
async fn tokens_are_fetched_over_tls_from_services_that_the_system_trusts() {
    let (issuer, provider) = (Issuer::start().await, Provider::start().await);
    let authority = Authority::new();
    let address = in_front_of(issuer.address, &authority.issue("localhost")).await;
    let folder = folder(&issuer);
    std::fs::write(folder.path().join("secret"), CLIENT_SECRET).unwrap();
    let trusted = folder.path().join("authorities.pem");
    std::fs::write(&trusted, authority.pem()).unwrap();
    let azure = json!({
        "tenant": TENANT, "client": CLIENT, "secret": "file:secret",
        "authority": format!("https://localhost:{}", address.port()),
    });
    let config =
        config(provider.address).with("providers.a.credentials", json!([{"azure": azure}]));
    let variables = [("SSL_CERT_FILE", trusted.to_str().unwrap())];
    let gateway = Gateway::start_with(folder, config.clone(), &variables).await;
    served(&gateway, "m").await;
    assert_eq!(sent(&provider).pop().unwrap(), "Bearer issued-token-1");
    assert!(!gateway.output().contains(CLIENT_SECRET));

    // Another authority vouches for nothing.
    let folder = self::folder(&issuer);
    std::fs::write(folder.path().join("secret"), CLIENT_SECRET).unwrap();
    let other = folder.path().join("authorities.pem");
    std::fs::write(&other, Authority::new().pem()).unwrap();
    let variables = [("SSL_CERT_FILE", other.to_str().unwrap())];
    let gateway = Gateway::start_with(folder, config, &variables).await;
    let line = gateway.log_line("credential 'azure': no token").await;
    assert!(line.contains("certificate"), "{line}");
    ask(&gateway, "m")
        .await
        .assert_error(503, "service_unavailable");
}

#[tokio::test]
async fn a_check_finds_faults_offline_with_their_place_and_without_a_secret() {
    let issuer = Issuer::start().await;
    let folder = folder(&issuer);
    let file = folder.path().join("tollgate.yaml");
    let write = |credentials: &Value| {
        let config = config(issuer.address).with("providers.a.credentials", credentials.clone());
        std::fs::write(&file, config.0.to_string()).unwrap();
    };
    let check = async || {
        let mut command = tollgate();
        Output::of(command.args(["check", "--config"]).arg(&file)).await
    };
    write(&credentials());
    let output = check().await;
    assert!(output.status.success(), "{output:?}");
    let mut account = issuer.service_account();
    account["private_key"] = json!(KEY.replace("BEGIN", "s3cret"));
    std::fs::write(folder.path().join("sa.json"), account.to_string()).unwrap();
    let both = json!([{"secret": "env:TEST_PROVIDER_KEY", "command": {"run": ["true"]}}]);
    for (credentials, wanted) in [
        (
            credentials(),
            "providers.a.credentials[0].google.service_account: its private_key",
        ),
        (
            json!([{"name": "x"}]),
            "expected one of secret, google, azure, aws and command",
        ),
        (
            both,
            "expected one of secret, google, azure, aws and command",
        ),
        (
            json!([{"command": {"run": []}}]),
            "providers.a.credentials[0].command.run",
        ),
        (
            json!([{"google": {"service_acount": "file:x"}}]),
            "service_acount",
        ),
        (
            json!([{"azure": {"secret": "s3cret"}}]),
            "env:NAME or file:PATH",
        ),
    ] {
        write(&credentials);
        let output = check().await;
        assert!(!output.status.success(), "{output:?}");
        let place = format!("{}:1:", file.display());
        assert!(output.stderr.contains(&place), "{output:?}");
        assert!(output.stderr.contains(wanted), "{wanted}: {output:?}");
        assert!(!output.stderr.contains("s3cret"), "{output:?}");
    }
    std::fs::write(folder.path().join("plain"), "#!/bin/sh\n").unwrap();
    let web_identity = json!({"region": "us-east-1", "web_identity_token_file": "file:later",
                              "role": "arn:aws:iam::123456789012:role/gateway"});
    let profile = json!({"region": "us-east-1", "profile_file": "file:later"});
    let federated = json!({"tenant": "t", "client": "c", "federated_token_file": "file:later"});
    for (credential, is_fault, wanted) in [
        (
            json!({"command": {"run": ["./nope"]}}),
            true,
            "command.run: ",
        ),
        (
            json!({"command": {"run": ["./plain"]}}),
            true,
            "plain is not executable",
        ),
        (
            json!({"command": {"run": ["no-such-program-anywhere"]}}),
            false,
            "command.run: no-such-program-anywhere is in no folder of PATH",
        ),
        (
            json!({"aws": web_identity}),
            false,
            "aws.web_identity_token_file: ",
        ),
        (json!({"aws": profile}), false, "aws.profile_file: "),
        (
            json!({"azure": federated}),
            false,
            "azure.federated_token_file: ",
        ),
    ] {
        write(&json!([credential]));
        let output = check().await;
        assert_eq!(output.status.success(), !is_fault, "{output:?}");
        let said = match is_fault {
            true => &output.stderr,
            false => &output.stdout,
        };
        let place = format!("{}:1:", file.display());
        assert!(said.contains(&place), "{output:?}");
        assert!(said.contains("providers.a.credentials[0]."), "{output:?}");
        assert!(said.contains(wanted), "{wanted}: {output:?}");
        assert_eq!(said.contains("WARNING"), !is_fault, "{output:?}");
        let mut doctor = tollgate();
        doctor.args(["doctor", "--offline", "--config"]).arg(&file);
        let output = Output::of(&mut doctor).await;
        let verdict = if is_fault { "fail" } else { "warn" };
        let wanted = format!("{verdict}  provider a: providers.a.credentials[0].");
        assert!(output.stdout.contains(&wanted), "{wanted}: {output:?}");
    }
    assert_eq!(issuer.asked(), 0, "a check asks nobody");
}

/// A secret with characters that a query cannot have as they are.
const IN_QUERY: &str = "AIzaSyC0nspicu0us/Secret+Of=Tests&More";
const ENCODED: &str = "AIzaSyC0nspicu0us%2FSecret%2BOf%3DTests%26More";

#[tokio::test]
async fn a_secret_in_the_query_reaches_the_provider_and_nothing_else() {
    // A provider that repeats the address of what it refuses.
    let service = Service::answering(|seen| {
        let text = String::from_utf8_lossy(&seen.body);
        let (status, body) = match text.contains("refuse") {
            true => ("400 Bad Request", json!({"error": {"code": 400, "status": "INVALID_ARGUMENT",
                "message": format!("Bad request to http://host{}", seen.target)}})),
            false => ("200 OK", json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]},
                "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1}})),
        };
        let body = body.to_string();
        vec![Act::send(json_answer(status, "", &body))]
    })
    .await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("key"), IN_QUERY).unwrap();
    std::fs::write(folder.path().join("admin.token"), ADMIN).unwrap();
    let mut settings = provider(service.address);
    settings["formats"] = json!(["gemini"]);
    settings["credentials"] = json!([{"secret": "file:key", "query": "key"}]);
    let config = Config::new()
        .with("admin.token", json!("file:admin.token"))
        .provider("a", settings)
        .model("m", json!(["a"]));
    let gateway = Gateway::start_in(folder, config).await;
    let mut shown = Vec::new();
    for (text, status) in [("Hello!", 200), ("refuse", 400)] {
        let answer = gateway
            .post(CHAT, &prompt(CHAT, "m", text, Value::Null))
            .await;
        assert_eq!(answer.status, status, "{text}: {answer:?}");
        shown.push(format!("{answer:?} {}", answer.text()));
        let seen = service.last();
        assert!(
            seen.target.ends_with(&format!("?key={ENCODED}")),
            "{}",
            seen.target
        );
        for name in ["authorization", "x-goog-api-key", "x-api-key"] {
            assert_eq!(seen.header(name), None, "{name}");
        }
    }
    let body = prompt(CHAT, "m", "Hello!", json!({"stream": true}));
    gateway.post(CHAT, &body).await;
    let target = service.last().target;
    assert!(
        target.ends_with(&format!("?alt=sse&key={ENCODED}")),
        "{target}"
    );
    shown.push(explained(&gateway, "m").await.to_string());
    shown.push(gateway.operator("/metrics").await.text());
    for path in ["/api/v1/health", "/api/v1/configuration"] {
        shown.push(api(&gateway, Request::get(path)).await.text());
    }
    shown.push(gateway.output());
    for text in shown {
        for part in [IN_QUERY, ENCODED, "C0nspicu0us"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }
}
