//! Each source against a service that refuses what the real ones refuse.

#![cfg(test)]

#[path = "support/issuer.rs"]
#[allow(dead_code, reason = "the end-to-end tests use the rest")]
mod issuer;

use http::header::AUTHORIZATION;
use issuer::{AZURE_SCOPE, CERTIFICATE, CLIENT, CLIENT_SECRET, Issuer, KEY, SUBJECT_TOKEN, TENANT};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tollgate_providers::{Building, FetchFault, Proof, Refresher, Report, Source, Token};
use tollgate_settings::{Fault, KeyPath, ProcessEnvironment};

type Build<T> = fn(&T, &KeyPath, &mut Building<'_>) -> Option<Source>;

/// Builds a source with the files of a folder.
fn source<T: DeserializeOwned>(
    build: Build<T>,
    settings: Value,
    folder: &Path,
) -> Result<Source, Vec<Fault>> {
    let settings = serde_json::from_value(settings).unwrap();
    let mut faults = Vec::new();
    let mut building = Building {
        environment: &ProcessEnvironment,
        folder: &|_| folder.to_owned(),
        faults: &mut faults,
    };
    let built = build(&settings, &KeyPath::root(), &mut building);
    match built {
        Some(built) if faults.is_empty() => Ok(built),
        _ => Err(faults),
    }
}

/// Fetches a token once.
async fn fetched(source: Source) -> (Arc<Token>, Report) {
    let names = ["provider".into(), "credential".into()];
    let token = Arc::new(Token::new(Arc::new(source), AUTHORIZATION, names));
    let refresher = Refresher::new(Arc::new(ProcessEnvironment), || 1);
    let report = refresher.begin(&token).unwrap().await;
    (token, report)
}

/// The token that a source fetches, and how long it is valid.
async fn issued<T: DeserializeOwned>(
    build: Build<T>,
    settings: Value,
    folder: &Path,
) -> (String, u64) {
    let (token, report) = fetched(source(build, settings, folder).unwrap()).await;
    assert_eq!(report.failure, None);
    let Some(Proof::Header(_, value)) = token.proof() else {
        panic!("no token");
    };
    let valid = report.valid_for.unwrap().as_secs();
    (value.to_str().unwrap().to_owned(), valid)
}

/// Why a source fetches no token.
async fn failed<T: DeserializeOwned>(
    build: Build<T>,
    settings: Value,
    folder: &Path,
) -> (FetchFault, String) {
    let (token, report) = fetched(source(build, settings, folder).unwrap()).await;
    assert!(token.proof().is_none());
    let failure = report.failure.expect("a failure");
    assert_eq!(token.failure().as_ref(), Some(&failure));
    (failure.fault, failure.to_string())
}

fn write(folder: &TempDir, name: &str, content: &str) {
    std::fs::write(folder.path().join(name), content).unwrap();
}

#[tokio::test]
async fn a_service_account_proves_itself_as_google_documents_it() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    write(&folder, "sa.json", &issuer.service_account().to_string());
    let settings = json!({"service_account": "file:sa.json"});
    let (header, valid) = issued(Source::google, settings, folder.path()).await;
    assert_eq!((&*header, valid), ("Bearer issued-token-1", 3600));

    // Another key, another account, another scope: the service says what it has against it.
    let mut other = issuer.service_account();
    other["client_email"] = json!("other@project.iam.gserviceaccount.com");
    write(&folder, "sa.json", &other.to_string());
    let settings = json!({"service_account": "file:sa.json"});
    let (fault, message) = failed(Source::google, settings, folder.path()).await;
    assert_eq!(fault, FetchFault::Refused);
    assert!(
        message.contains("answers 400: invalid_request: iss is"),
        "{message}"
    );
}

#[tokio::test]
async fn a_workload_identity_exchanges_the_token_of_a_file_and_is_another_account_if_it_says_so() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    let mut identity = issuer.workload_identity(&json!({"file": "subject"}));
    write(&folder, "wi.json", &identity.to_string());
    write(&folder, "subject", &format!("{SUBJECT_TOKEN}\n"));
    let settings = json!({"workload_identity": "file:wi.json"});
    let (header, valid) = issued(Source::google, settings.clone(), folder.path()).await;
    assert_eq!((&*header, valid), ("Bearer issued-token-1", 3600));

    identity["service_account_impersonation_url"] = json!(issuer.url("/impersonate"));
    identity["service_account_impersonation"] = json!({"token_lifetime_seconds": 1800});
    write(&folder, "wi.json", &identity.to_string());
    let (header, valid) = issued(Source::google, settings.clone(), folder.path()).await;
    assert_eq!(&*header, "Bearer issued-token-3");
    assert!((1795..=1800).contains(&valid), "{valid}");

    // The file is read for each token; the error does not repeat what is in it.
    let source = source(Source::google, settings, folder.path()).unwrap();
    write(&folder, "subject", "expired-subject-token");
    let (_, report) = fetched(source).await;
    let message = report.failure.unwrap().to_string();
    assert!(message.contains("subject_token is"), "{message}");
    assert!(!message.contains("expired-subject-token"), "{message}");
}

#[tokio::test]
async fn a_workload_identity_gets_its_token_from_an_address() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    let at = json!({
        "url": issuer.url("/subject"),
        "headers": {"x-token": "of-the-machine"},
        "format": {"type": "json", "subject_token_field_name": "id_token"},
    });
    write(
        &folder,
        "wi.json",
        &issuer.workload_identity(&at).to_string(),
    );
    let settings = json!({"workload_identity": "file:wi.json"});
    let (header, _) = issued(Source::google, settings, folder.path()).await;
    assert_eq!(header, "Bearer issued-token-1");
}

#[tokio::test]
async fn the_metadata_server_of_google_is_asked_as_documented() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    let url = issuer.url("/computeMetadata/v1/instance/service-accounts/default/token");
    for scopes in [
        json!([issuer::SCOPE]),
        json!(["https://scope/a", "https://scope/b"]),
    ] {
        let settings = json!({"metadata": true, "token_url": url, "scopes": scopes});
        let (header, _) = issued(Source::google, settings, folder.path()).await;
        assert!(header.starts_with("Bearer issued-token-"), "{header}");
    }
    // Any other server that answers is no metadata server.
    let settings = json!({"metadata": true, "token_url": issuer.url("/subject")});
    let (fault, _) = failed(Source::google, settings, folder.path()).await;
    assert_eq!(fault, FetchFault::Refused);
}

#[tokio::test]
async fn an_application_of_entra_proves_itself_by_secret_certificate_and_federated_token() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    write(&folder, "secret", CLIENT_SECRET);
    write(&folder, "certificate.pem", &format!("{CERTIFICATE}{KEY}"));
    write(&folder, "federated", SUBJECT_TOKEN);
    let with = |name: &str, source: &str| {
        let mut settings = json!({
            "tenant": TENANT, "client": CLIENT, "authority": issuer.url(""), "scope": AZURE_SCOPE,
        });
        settings[name] = json!(source);
        settings
    };
    for (name, source) in [
        ("secret", "file:secret"),
        ("certificate", "file:certificate.pem"),
        ("federated_token_file", "file:federated"),
    ] {
        let (header, valid) = issued(Source::azure, with(name, source), folder.path()).await;
        assert_eq!(valid, 3600, "{name}");
        assert!(header.starts_with("Bearer issued-token-"), "{header}");
    }
    // Entra repeats what it was sent; the error does not.
    write(&folder, "secret", "zzz9Q~wrong-secret");
    let wrong = with("secret", "file:secret");
    let (fault, message) = failed(Source::azure, wrong, folder.path()).await;
    assert_eq!(fault, FetchFault::Refused);
    assert!(message.contains("client_secret is"), "{message}");
    assert!(!message.contains("zzz9Q"), "{message}");
}

#[tokio::test]
async fn a_managed_identity_asks_the_metadata_server_of_azure() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    let url = issuer.url("/metadata/identity/oauth2/token");
    let settings = json!({"managed_identity": true, "client": CLIENT, "metadata_url": url});
    let (header, valid) = issued(Source::azure, settings, folder.path()).await;
    assert_eq!((&*header, valid), ("Bearer issued-token-1", 3600));
}

#[tokio::test]
async fn a_command_prints_a_token_with_its_end() {
    let folder = TempDir::new().unwrap();
    let ends = time::OffsetDateTime::now_utc() + Duration::from_secs(1000);
    let ends = ends.format(&time::format_description::well_known::Rfc3339);
    let ends = ends.unwrap();
    for (output, least, most) in [
        (json!({"token": "secret-token", "expires_in": 60}), 60, 60),
        (
            json!({"token": "secret-token", "expires_at": ends}),
            990,
            1000,
        ),
    ] {
        let settings = json!({"run": ["echo", output.to_string()]});
        let (header, valid) = issued(Source::command, settings, folder.path()).await;
        assert_eq!(header, "Bearer secret-token");
        assert!((least..=most).contains(&valid), "{valid}");
    }
    let past = json!({"token": "secret-token", "expires_at": "2020-01-01T00:00:00Z"});
    let fails = "echo secret-token; echo secret-token >&2; exit 3";
    for (run, fault, words) in [
        (
            json!(["sh", "-c", fails]),
            FetchFault::Local,
            "exit status: 3",
        ),
        (
            json!(["./no-such-program"]),
            FetchFault::Local,
            "cannot be run",
        ),
        (
            json!(["echo", "secret-token"]),
            FetchFault::Answer,
            "prints something else",
        ),
        (
            json!(["echo", "{\"token\": \"secret-token\"}"]),
            FetchFault::Answer,
            "expires_in",
        ),
        (
            json!(["echo", past.to_string()]),
            FetchFault::Answer,
            "still valid",
        ),
        (json!(["sleep", "100"]), FetchFault::Timeout, "within 200ms"),
    ] {
        // A program that starts slowly must not meet the time-out of another one.
        let timeout = if fault == FetchFault::Timeout {
            "200ms"
        } else {
            "20s"
        };
        let settings = json!({"run": run, "timeout": timeout});
        let (found, message) = failed(Source::command, settings, folder.path()).await;
        assert_eq!(found, fault, "{message}");
        assert!(message.contains(words), "{message}");
        assert!(!message.contains("secret-token"), "{message}");
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_the_programs_that_it_has_started() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("id");
    let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let settings = json!({"run": ["sh", "-c", script], "timeout": "3s"});
    let (fault, message) = failed(Source::command, settings, folder.path()).await;
    assert_eq!(fault, FetchFault::Timeout, "{message}");
    let started = std::fs::read_to_string(file).unwrap();
    let status = Path::new("/proc").join(started.trim()).join("status");
    let begun = std::time::Instant::now();
    // Killed, a process stays a zombie until its parent or the system waits for it.
    while std::fs::read_to_string(&status).is_ok_and(|it| !it.contains("State:\tZ")) {
        assert!(begun.elapsed() < Duration::from_secs(10), "it still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_service_that_is_gone_or_says_nonsense_is_reported_without_its_words() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    write(&folder, "sa.json", &issuer.service_account().to_string());
    let at = |url: String| json!({"service_account": "file:sa.json", "token_url": url});
    let settings = at(format!("http://{address}/token"));
    let (fault, message) = failed(Source::google, settings, folder.path()).await;
    assert_eq!(fault, FetchFault::Unreachable);
    assert!(
        message.contains("cannot be reached: Connection refused"),
        "{message}"
    );
    // The assertion is for another audience there.
    let (fault, message) = failed(Source::google, at(issuer.url("/sts")), folder.path()).await;
    assert_eq!(fault, FetchFault::Refused);
    assert!(message.contains("answers 400"), "{message}");
    issuer.fail(true);
    let settings = at(issuer.url("/google/token"));
    let (_, message) = failed(Source::google, settings, folder.path()).await;
    assert!(
        message.ends_with("answers 503: unavailable: the service is down"),
        "{message}"
    );
}

/// The faults of settings, as `path: message`.
fn faults<T: DeserializeOwned>(build: Build<T>, settings: Value, folder: &Path) -> String {
    let faults = source(build, settings, folder).expect_err("faults");
    let told = faults
        .iter()
        .map(|it| format!("{}: {}", it.path, it.message));
    told.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn files_at_fault_are_found_without_a_network_and_not_repeated() {
    let (issuer, folder) = (Issuer::start().await, TempDir::new().unwrap());
    let with = |name: &str, value: Value| {
        let mut account = issuer.service_account();
        account[name] = value;
        account.to_string()
    };
    for (text, wanted) in [
        (
            "{\"type\": \n \"s3cret",
            "expected a file of JSON; line 2, column 8 is not",
        ),
        ("[\"s3cret\"]", "expected a file with a JSON object"),
        (
            "{\"type\": \"s3cret\"}",
            "expected a file with \"type\": \"service_account\"",
        ),
        (
            &with("client_email", json!({"s3cret": 1})),
            "the file has no 'client_email'",
        ),
        (
            &with("private_key", json!("s3cret")),
            "its private_key: expected a private key in PEM",
        ),
        (
            &with("token_uri", json!("http://tokens.example/")),
            "its token_uri: 'http://tokens.example/' would send a secret in cleartext: expected https://",
        ),
    ] {
        write(&folder, "sa.json", text);
        let settings = json!({"service_account": "file:sa.json"});
        let told = faults(Source::google, settings, folder.path());
        assert!(
            told.contains(&format!("service_account: {wanted}")),
            "{told}"
        );
        assert!(!told.contains("s3cret"), "{told}");
    }
    let aws = json!({"environment_id": "aws1", "url": "http://169.254.169.254/"});
    write(
        &folder,
        "wi.json",
        &issuer.workload_identity(&aws).to_string(),
    );
    write(&folder, "key.pem", KEY);
    let none = json!({});
    let two = json!({"metadata": true, "service_account": "file:sa.json"});
    let tokens = json!({"workload_identity": "file:wi.json"});
    for (settings, wanted) in [
        (
            none,
            ": expected one of service_account, workload_identity and metadata: true",
        ),
        (
            two,
            ": expected one of service_account, workload_identity and metadata: true",
        ),
        (
            tokens,
            "workload_identity: its credential_source has neither file nor url",
        ),
        (
            json!({"service_account": "file:none"}),
            "none cannot be read",
        ),
    ] {
        let told = faults(Source::google, settings, folder.path());
        assert!(told.contains(wanted), "{told}");
    }
    let of = |more: Value| {
        let mut settings = json!({"tenant": TENANT, "client": CLIENT});
        let more = more.as_object().unwrap().clone();
        settings.as_object_mut().unwrap().extend(more);
        settings
    };
    for (settings, wanted) in [
        (
            of(json!({})),
            "expected one of secret, certificate, federated_token_file",
        ),
        (json!({"secret": "file:key.pem"}), "'tenant' is missing"),
        (
            of(json!({"certificate": "file:key.pem"})),
            "expected a certificate in PEM",
        ),
        (
            of(json!({"managed_identity": true})),
            "tenant: a managed identity has its own",
        ),
        (of(json!({"secret": "file:key.pem"})), "control character"),
        (
            of(json!({"federated_token_file": "file:x", "authority": "http://login.example"})),
            "would send a secret in cleartext",
        ),
    ] {
        let told = faults(Source::azure, settings, folder.path());
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn sources_are_equal_if_settings_and_secrets_are() {
    let folder = TempDir::new().unwrap();
    let build = |secret: &str, client: &str| {
        write(&folder, "secret", secret);
        let settings = json!({"tenant": TENANT, "client": client, "secret": "file:secret"});
        source(Source::azure, settings, folder.path()).unwrap()
    };
    let one = build("one-secret", CLIENT);
    assert!(one == build("one-secret", CLIENT));
    assert!(one != build("another-secret", CLIENT));
    assert!(one != build("one-secret", "another-client"));
}
