//! The sources of keys of AWS against a service that refuses what the real ones refuse.

#![cfg(test)]

#[path = "support/aws.rs"]
#[allow(dead_code, reason = "the end-to-end tests use the rest")]
mod aws;

use aws::{Aws, CONTAINER_TOKEN, ID, ROLE, SECRET, WEB_TOKEN};
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tempfile::TempDir;
use tollgate_providers::{AwsLogIn, Building, FetchFault, Proof, Refresher, Report, Signer, Token};
use tollgate_settings::{Environment, KeyPath, ProcessEnvironment};

/// The file system of this process, with variables of the test's own.
#[derive(Clone, Default)]
struct Variables(HashMap<&'static str, String>);

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> std::io::Result<Vec<u8>> {
        ProcessEnvironment.read_bytes(path, max_bytes)
    }
}

fn built(settings: &Value, variables: &Variables, folder: &Path) -> Result<AwsLogIn, String> {
    let mut settings = settings.clone();
    settings["region"] = json!("us-east-1");
    let settings = serde_json::from_value(settings).unwrap();
    let mut faults = Vec::new();
    let mut building = Building {
        environment: variables,
        folder: &|_| folder.to_owned(),
        faults: &mut faults,
    };
    let built = AwsLogIn::build(&settings, &KeyPath::root(), &mut building);
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    built.filter(|_| faults.is_empty()).ok_or(faults.join("; "))
}

async fn fetched(settings: &Value, variables: &Variables, folder: &Path) -> (Arc<Token>, Report) {
    let Ok(AwsLogIn::Fetched(source)) = built(settings, variables, folder) else {
        panic!("no source of keys");
    };
    let names = ["provider".into(), "credential".into()];
    let token = Arc::new(Token::new(Arc::new(*source), AUTHORIZATION, names));
    let refresher = Refresher::new(Arc::new(variables.clone()), || 1);
    let report = refresher.begin(&token).unwrap().await;
    (token, report)
}

/// Fetches keys, has the service verify a signature of them, and returns how long they are valid in seconds.
async fn lent(service: &Aws, settings: Value, variables: &Variables, folder: &Path) -> u64 {
    let (token, report) = fetched(&settings, variables, folder).await;
    assert_eq!(report.failure, None);
    let Some(Proof::Signature(signer)) = token.proof() else {
        panic!("no keys");
    };
    assert_eq!(ask(service, &signer).await, 200);
    report.valid_for.unwrap().as_secs()
}

/// The status of a signed request.
async fn ask(service: &Aws, signer: &Signer) -> u16 {
    use http_body_util::Full;
    use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    let body = "{\"a\": \"ä\"}";
    let request = http::Request::post("/model/a%3Ab%2F0/invoke?z=1&a=%20")
        .header("host", service.address.to_string())
        .header("content-type", "application/json");
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    signer
        .sign(&mut head, body.as_bytes(), SystemTime::now())
        .unwrap();
    head.uri = service.url(&head.uri.to_string()).parse().unwrap();
    let request = http::Request::from_parts(head, Full::<hyper::body::Bytes>::from(body));
    let client = Client::builder(TokioExecutor::new()).build_http();
    client.request(request).await.unwrap().status().as_u16()
}

async fn failed(settings: Value, variables: &Variables, folder: &Path) -> (FetchFault, String) {
    let (token, report) = fetched(&settings, variables, folder).await;
    assert!(token.proof().is_none());
    let failure = report.failure.expect("a failure");
    (failure.fault, failure.to_string())
}

#[tokio::test]
async fn a_web_identity_assumes_a_role_at_sts() {
    let (service, folder) = (Aws::start().await, TempDir::new().unwrap());
    let token = folder.path().join("token");
    std::fs::write(&token, format!("{WEB_TOKEN}\n")).unwrap();
    let settings = json!({"web_identity_token_file": "file:token", "role": ROLE, "sts_url": service.url("/sts")});
    let none = Variables::default();
    let valid = lent(&service, settings.clone(), &none, folder.path()).await;
    assert!((3595..=3600).contains(&valid), "{valid}");

    // The file is read for each key, and the error does not repeat what is in it.
    std::fs::write(&token, "another-token").unwrap();
    let (fault, message) = failed(settings.clone(), &none, folder.path()).await;
    assert_eq!(fault, FetchFault::Refused);
    let expected = "answers 400: InvalidIdentityToken: the token […] is not known";
    assert!(message.contains(expected), "{message}");

    // Keys that have ended already are none.
    std::fs::write(&token, WEB_TOKEN).unwrap();
    service.lend_for(-1);
    let (fault, _) = failed(settings, &none, folder.path()).await;
    assert_eq!(fault, FetchFault::Answer);
}

#[tokio::test]
async fn the_metadata_server_of_a_machine_is_asked_by_its_second_version() {
    let (service, folder) = (Aws::start().await, TempDir::new().unwrap());
    let none = Variables::default();
    let settings = json!({"instance": true, "metadata_url": service.url("/")});
    lent(&service, settings.clone(), &none, folder.path()).await;
    service.fail(true);
    let (fault, message) = failed(settings, &none, folder.path()).await;
    assert_eq!(fault, FetchFault::Refused);
    assert!(
        message.contains("answers 503: ServiceUnavailable"),
        "{message}"
    );
}

#[tokio::test]
async fn the_metadata_server_of_a_container_is_asked_with_its_token() {
    let (service, folder) = (Aws::start().await, TempDir::new().unwrap());
    let settings = json!({"container": true});
    let uri = (
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        service.url("/container"),
    );
    let token = (
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        CONTAINER_TOKEN.to_owned(),
    );
    let variables = Variables(HashMap::from([uri.clone(), token]));
    lent(&service, settings.clone(), &variables, folder.path()).await;

    let file = folder.path().join("token");
    std::fs::write(&file, CONTAINER_TOKEN).unwrap();
    let file = file.to_str().unwrap().to_owned();
    let file = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file);
    let variables = Variables(HashMap::from([uri, file]));
    lent(&service, settings.clone(), &variables, folder.path()).await;

    // A token goes to no other machine in cleartext.
    let elsewhere = "http://credentials.example/".to_owned();
    let variables = Variables(HashMap::from([(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        elsewhere,
    )]));
    let faults = built(&settings, &variables, folder.path()).err().unwrap();
    assert!(
        faults.contains("would send a secret in cleartext"),
        "{faults}"
    );
    let faults = built(&settings, &Variables::default(), folder.path())
        .err()
        .unwrap();
    assert!(
        faults.contains("neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor"),
        "{faults}"
    );
}

/// In a network of its own, in which ECS has the address that the SDKs of AWS know.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_metadata_server_of_ecs_is_asked_at_its_address() {
    const INSIDE: &str = "TOLLGATE_TEST_IN_NETWORK";
    const ADDRESS: &str = "ip link set lo up && ip address add 169.254.170.2/32 dev lo";
    if std::env::var_os(INSIDE).is_none() {
        let unshare = |script: &str| {
            let mut command = std::process::Command::new("unshare");
            command.args(["--user", "--map-root-user", "--net", "sh", "-c", script]);
            command
        };
        if !unshare(ADDRESS).status().is_ok_and(|it| it.success()) {
            assert!(std::env::var_os("CI").is_none(), "no network namespace");
            println!("SKIPPED: it needs a network namespace, and `ip` of iproute2");
            return;
        }
        let this = std::env::current_exe().unwrap();
        let inside = unshare(&format!("{ADDRESS} && exec \"$0\" ecs_is_asked_at"))
            .arg(this)
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(inside.status.success(), "{inside:?}");
        return;
    }
    let service = Aws::start_at("169.254.170.2:80").await;
    let folder = TempDir::new().unwrap();
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/container"),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", CONTAINER_TOKEN),
        // The relative one takes precedence.
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/"),
    ];
    let variables = variables.map(|(name, value)| (name, value.to_owned()));
    let variables = Variables(HashMap::from(variables));
    let settings = json!({"container": true});
    lent(&service, settings, &variables, folder.path()).await;
}

#[tokio::test]
async fn a_profile_is_read_for_each_key() {
    let (service, folder) = (Aws::start().await, TempDir::new().unwrap());
    let file = folder.path().join("credentials");
    let profile = format!("[work]\naws_access_key_id={ID}\naws_secret_access_key={SECRET}\n");
    std::fs::write(&file, profile).unwrap();
    let settings = json!({"profile_file": "file:credentials", "profile": "work"});
    let none = Variables::default();
    assert_eq!(
        lent(&service, settings.clone(), &none, folder.path()).await,
        3600
    );
    std::fs::remove_file(&file).unwrap();
    let (fault, message) = failed(settings, &none, folder.path()).await;
    assert_eq!(fault, FetchFault::Local);
    assert!(message.contains("credentials"), "{message}");
}

#[tokio::test]
async fn fixed_keys_sign_at_once_and_wrong_ones_are_refused() {
    let (service, folder) = (Aws::start().await, TempDir::new().unwrap());
    let settings = json!({"access_key": "env:ID", "secret_key": "env:SECRET"});
    for (secret, status) in [(SECRET, 200), ("another", 403)] {
        let variables = [("ID", ID.to_owned()), ("SECRET", secret.to_owned())];
        let variables = Variables(HashMap::from(variables));
        let Ok(AwsLogIn::Fixed(signer)) = built(&settings, &variables, folder.path()) else {
            panic!("no signer");
        };
        assert_eq!(ask(&service, &signer).await, status, "{secret}");
    }
}

/// A second copy of the body would be as large as the body.
#[cfg(target_os = "linux")]
#[test]
fn a_large_body_is_signed_where_it_lies() {
    const BODY: usize = 256 << 20;
    let highest = || -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<usize>().unwrap() << 10
    };
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("id"), ID).unwrap();
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let settings = json!({"access_key": "file:id", "secret_key": "file:secret"});
    let Ok(AwsLogIn::Fixed(signer)) = built(&settings, &Variables::default(), folder.path()) else {
        panic!("no fixed keys");
    };
    let body = vec![b'x'; BODY];
    let before = highest();
    assert!(before >= BODY, "the body is in memory");
    let request = http::Request::post("/model/m/invoke").header("host", "bedrock");
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    signer.sign(&mut head, &body, SystemTime::now()).unwrap();
    let grown = highest() - before;
    assert!(grown < BODY / 8, "{grown} bytes more");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let folder = TempDir::new().unwrap();
    for (settings, expected) in [
        (json!({}), "expected one of access_key with secret_key"),
        (
            json!({"container": true, "instance": true}),
            "expected one of access_key",
        ),
        (
            json!({"secret_key": "env:SECRET"}),
            "'access_key' is missing",
        ),
        (
            json!({"instance": true, "role": ROLE}),
            "role: only web_identity_token_file uses it",
        ),
        (
            json!({"web_identity_token_file": "file:t"}),
            "expected the ARN of a role",
        ),
        (
            json!({"instance": true, "service": "Bedrock/x"}),
            "service: expected a name such as",
        ),
        (
            json!({"web_identity_token_file": "file:t", "role": ROLE, "sts_url": "http://sts.example"}),
            "would send a secret in cleartext",
        ),
    ] {
        let variables = Variables(HashMap::from([("SECRET", "s".to_owned())]));
        let faults = built(&settings, &variables, folder.path()).err().unwrap();
        assert!(faults.contains(expected), "{settings}: {faults}");
    }
}
