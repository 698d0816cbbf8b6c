//! What the operator has set up wrongly at a provider: the log says where and what to do, the client gets an error
//! that is not its own, and neither shows the secret.

use crate::errors::reported;
use crate::support::{
    Act, CHAT, Config, Gateway, PROVIDER_KEY, Upstream, json_answer, prompt, provider,
};
use serde_json::{Value, json};
use tollgate_sim::vendors::VENDORS;

/// A gateway whose provider `wrong` refuses every request in this way.
async fn refusing(status: &str, headers: &str, body: &str) -> (Upstream, Gateway) {
    let upstream = Upstream::playing([Act::send(json_answer(status, headers, body))]).await;
    let config = Config::new()
        .provider("wrong", provider(upstream.address))
        .model("m", json!(["wrong/some-deployment"]));
    (upstream, Gateway::start(config).await)
}

/// The line of the log that says what to do. Neither it nor the answer shows the secret.
async fn advice(gateway: &Gateway, expected: (u16, &str)) -> String {
    let answer = gateway
        .post(CHAT, &prompt(CHAT, "m", "Hello!", Value::Null))
        .await;
    assert_eq!(
        answer.error(),
        (expected.0, expected.1.to_owned()),
        "{answer:?}"
    );
    let line = gateway.log_line(" ERROR ").await;
    assert!(line.contains("provider wrong: "), "{line}");
    for shown in [answer.text(), gateway.output()] {
        assert!(!shown.contains(PROVIDER_KEY.1), "{shown}");
    }
    line
}

/// The body of an error with the secret in place of what a provider repeats, else in a field of its own.
fn repeating(body: &str) -> String {
    let secret = PROVIDER_KEY.1;
    let mut words = ["sk-wrong", "xa***ng", "gpt-0", "gemini-0"].into_iter();
    match words.find(|word| body.contains(word)) {
        Some(word) => body.replace(word, secret),
        None => body.replacen('{', &format!(r#"{{"key":"{secret}","#), 1),
    }
}

#[tokio::test]
async fn the_log_says_what_is_wrong_with_the_key_the_model_or_the_account() {
    for (name, expected) in [
        ("openai-auth", "credential is refused"),
        ("azure-auth", "credential is refused"),
        ("anthropic-auth", "credential is refused"),
        ("xai-auth", "credential is refused"),
        ("bedrock-auth", "access to the model"),
        ("anthropic-permission", "access to the model"),
        ("openai-model", "'wrong/some-deployment'"),
        ("azure-model", "'wrong/some-deployment'"),
        ("bedrock-model", "'wrong/some-deployment'"),
        ("google-model", "'wrong/some-deployment'"),
        ("openai-quota", "no credit left"),
    ] {
        let vendor = VENDORS.iter().find(|it| it.name == name).unwrap();
        let headers = vendor.headers.iter();
        let headers: String = headers
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let status = format!("{} Refused", vendor.status);
        let (_upstream, gateway) = refusing(&status, &headers, &repeating(vendor.body)).await;
        let line = advice(&gateway, reported(name)).await;
        assert!(line.contains(expected), "{name}: {line}");
    }
}

#[tokio::test]
async fn advice_is_logged_once_a_minute_for_a_provider_and_a_reason() {
    let vendor = VENDORS.iter().find(|it| it.name == "openai-auth").unwrap();
    let refusal = json_answer("401 Refused", "", vendor.body);
    let upstream = Upstream::playing([Act::send(refusal)]).await;
    let config = Config::new()
        .provider("a", provider(upstream.address))
        .provider("b", provider(upstream.address))
        .with("providers.a.health", json!({"enabled": false}))
        .with("providers.b.health", json!({"enabled": false}))
        .model("m", json!(["a"]))
        .model("n", json!(["b"]));
    let gateway = Gateway::start(config).await;
    for model in ["m", "n", "m", "n"] {
        let body = prompt(CHAT, model, "Hello!", Value::Null);
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_error(502, "upstream_error");
        // Each failure has a line of its own.
        let id = answer.header("x-request-id").unwrap();
        gateway.log_line(&format!("{id}: provider")).await;
    }
    for provider in ["a", "b"] {
        let advice = format!("provider {provider}: the credential is refused");
        let output = gateway.output();
        assert_eq!(output.matches(&advice).count(), 1, "{output}");
    }
}

#[tokio::test]
async fn the_log_says_what_is_wrong_with_keys_and_regions_of_amazon() {
    for (kind, expected) in [
        ("InvalidSignatureException", "'region'"),
        ("UnrecognizedClientException", "the access key is refused"),
        ("ExpiredTokenException", "the access key is refused"),
    ] {
        let headers = format!("x-amzn-errortype: {kind}\r\n");
        let (_upstream, gateway) = refusing("403 Refused", &headers, r#"{"message":"no"}"#).await;
        let line = advice(&gateway, (502, "upstream_error")).await;
        assert!(line.contains(expected), "{kind}: {line}");
    }
}

/// The gateway renews such tokens by itself: there is no access key to replace.
#[tokio::test]
async fn an_expired_token_of_google_or_azure_is_no_access_key() {
    let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "ACCESS_TOKEN_EXPIRED", "domain": "googleapis.com"});
    let google = json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "details": [info],
        "message": "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential."}});
    let azure = json!({"error": {"code": "401", "message": "Unauthorized. Access token is missing, invalid, audience is incorrect (https://cognitiveservices.azure.com), or have expired."}});
    for body in [google, azure] {
        let (_upstream, gateway) = refusing("401 Refused", "", &body.to_string()).await;
        let line = advice(&gateway, (502, "upstream_error")).await;
        assert!(line.contains("the credential is refused"), "{line}");
    }
}

#[tokio::test]
async fn the_log_says_that_a_path_is_unknown_and_leaves_out_a_repeated_secret() {
    let secret = PROVIDER_KEY.1;
    // The line of the log is cut after 300 characters, within the secret.
    for before in ["", &"word ".repeat(54)] {
        let message = format!("Resource not found: {before}{secret}");
        let body = json!({"error": {"code": "404", "message": message}});
        let (_upstream, gateway) = refusing("404 Not Found", "", &body.to_string()).await;
        let line = advice(&gateway, (404, "upstream_error")).await;
        assert!(line.contains("does not know the path"), "{line}");
        let line = gateway.log_line("Resource not found").await;
        assert!(line.contains("[…]"), "{line}");
        assert!(!line.contains(&secret[..10]), "{line}");
    }
}

/// The client has chosen the path.
#[tokio::test]
async fn an_unknown_path_below_an_open_one_is_no_fault_of_the_operator() {
    let body = json!({"error": {"code": "404", "message": "Resource not found"}});
    let answer = json_answer("404 Not Found", "", &body.to_string());
    let upstream = Upstream::playing([Act::send(answer)]).await;
    let open = json!([{"path": "/v1/files/*", "methods": ["GET"], "charge": 0}]);
    let config = Config::new()
        .provider("wrong", provider(upstream.address))
        .with("providers.wrong.passthrough", open)
        .model("m", json!(["wrong"]));
    let gateway = Gateway::start(config).await;
    let answer = gateway.get("/passthrough/wrong/v1/files/made-up").await;
    answer.assert_error(404, "not_found");
    gateway.log_line("Resource not found").await;
    let output = gateway.output();
    assert!(!output.contains("does not know the path"), "{output}");
}

#[tokio::test]
async fn a_name_that_a_client_has_made_up_is_no_fault_of_the_operator() {
    let vendor = VENDORS.iter().find(|it| it.name == "openai-model").unwrap();
    let answer = json_answer("404 Refused", "", vendor.body);
    let upstream = Upstream::playing([Act::send(answer)]).await;
    let config = Config::new()
        .provider("wrong", provider(upstream.address))
        .model(
            "any/*",
            json!([{"provider": "wrong", "upstream_model": "*"}]),
        );
    let gateway = Gateway::start(config).await;
    let body = prompt(CHAT, "any/made-up", "Hello!", Value::Null);
    gateway
        .post(CHAT, &body)
        .await
        .assert_error(404, "invalid_model");
    gateway.log_line("provider wrong: invalid_model").await;
    assert!(
        !gateway.output().contains("does not serve"),
        "{}",
        gateway.output()
    );
}
