//! Requests that are signed with keys of AWS, at a provider that verifies signatures as the real one does. How
//! keys are fetched is tested in `crates/providers`.

use crate::support::aws::{Aws, ID, SECRET};
use crate::support::{Answer, CHAT, Config, Gateway, Request, eventually, provider};
use serde_json::{Value, json};
use tempfile::TempDir;

async fn start(aws: &Aws, settings: Value) -> Gateway {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("id"), ID).unwrap();
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let config = Config::new()
        .provider("a", provider(aws.address))
        .with(
            "providers.a.credentials",
            json!([{"name": "main", "aws": settings}]),
        )
        .with(
            "providers.a.passthrough",
            json!([{"path": "/v1/files", "methods": ["POST"], "charge": 0}]),
        )
        .model("m", json!(["a"]));
    Gateway::start_in(folder, config).await
}

fn fixed(region: &str) -> Value {
    json!({"region": region, "access_key": "file:id", "secret_key": "file:secret"})
}

async fn ask(gateway: &Gateway, text: &str) -> Answer {
    let message = json!([{"role": "user", "content": text}]);
    gateway
        .ask(CHAT, "m", "", json!({"messages": message}))
        .await
}

#[tokio::test]
async fn requests_are_signed_from_the_first_one_on_whatever_their_size() {
    let aws = Aws::start().await;
    let gateway = start(&aws, fixed("us-east-1")).await;
    for size in [10, 100_000, 3_000_000] {
        ask(&gateway, &"word ".repeat(size / 5)).await.assert_ok();
    }
    assert_eq!(aws.verified(), 3);
}

#[tokio::test]
async fn keys_of_the_machine_are_renewed_while_requests_run_and_missing_ones_are_a_503() {
    let aws = Aws::start().await;
    aws.fail(true);
    let settings = json!({"region": "us-east-1", "instance": true, "metadata_url": aws.url("")});
    let gateway = start(&aws, settings).await;
    gateway.log_line("no token: ").await;
    let answer = ask(&gateway, "Hello!").await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
    aws.lend_for(8);
    aws.fail(false);
    let look = async || (ask(&gateway, "Hello!").await.status == 200).then_some(());
    eventually("an answer", look).await;
    while aws.lent() < 3 {
        ask(&gateway, "Hello!").await.assert_ok();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let output = gateway.output();
    assert!(
        !output.contains("lent-secret") && !output.contains("lent-token"),
        "{output}"
    );
}

#[tokio::test]
async fn a_header_that_no_signature_covers_is_the_callers_error() {
    let aws = Aws::start().await;
    let gateway = start(&aws, fixed("us-east-1")).await;
    let request = Request::new("POST", "/passthrough/a/v1/files").key(&gateway.key);
    for (media_type, status) in [("text/plain; x=\u{e9}", 400), ("text/plain", 200)] {
        let request = request.clone().header("content-type", media_type);
        let answer = gateway.send(&request.body("text")).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(gateway.total("tollgate_upstream_faults_total").await, 0.0);
}

#[tokio::test]
async fn a_clock_that_is_off_and_a_wrong_region_are_named_in_the_log_alone() {
    let aws = Aws::start().await;
    aws.set_clock_ahead(600);
    let gateway = start(&aws, fixed("us-east-1")).await;
    let answer = ask(&gateway, "Hello!").await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(!answer.text().contains("ignature"), "{}", answer.text());
    let line = gateway.log_line("the clock of this machine is").await;
    assert!(line.contains("provider a: "), "{line}");
    assert!(line.contains("behind the provider's"), "{line}");
    assert!(!gateway.output().contains(SECRET));

    let aws = Aws::start().await;
    let gateway = start(&aws, fixed("eu-west-1")).await;
    let answer = ask(&gateway, "Hello!").await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    let line = gateway.log_line("InvalidSignatureException").await;
    assert!(
        line.contains("provider a: credential, status 403"),
        "{line}"
    );
    assert!(!gateway.output().contains(SECRET));
    assert_eq!(aws.verified(), 0);
}
