//! Where requests to a provider go, and what its configuration changes in their bodies.

use crate::support::hosted::{AZURE_VERSION, Hosted, VERTEX_MODELS, VERTEX_VERSION};
use crate::support::{
    CHAT, COUNT_TOKENS, Config, FORMATS, Gateway, MESSAGES, Output, PATIENCE, Request, prompt,
    root, tollgate,
};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

const SECRET: &str = "env:TEST_PROVIDER_KEY";

fn azure(hosted: &Hosted) -> Value {
    let path =
        format!("/openai/deployments/{{model}}/chat/completions?api-version={AZURE_VERSION}");
    json!({
        "address": format!("http://{}", hosted.address),
        "formats": [{"name": "chat", "path": path}],
        "credentials": [{"secret": SECRET, "header": "api-key"}],
    })
}

fn vertex(hosted: &Hosted) -> Value {
    json!({
        "address": format!("http://{}", hosted.address),
        "formats": [{
            "name": "messages",
            "path": format!("{VERTEX_MODELS}/{{model}}:rawPredict"),
            "stream_path": format!("{VERTEX_MODELS}/{{model}}:streamRawPredict"),
            "count_tokens": format!("{VERTEX_MODELS}/count-tokens:rawPredict"),
            "set": {"anthropic_version": VERTEX_VERSION},
            "remove": ["model"],
        }],
        "credentials": [{"secret": SECRET, "header": "authorization"}],
    })
}

#[tokio::test]
async fn one_provider_serves_many_deployments_with_the_model_in_the_path() {
    let hosted = Hosted::start().await;
    let config = Config::new()
        .provider("azure", azure(&hosted))
        .model("small", json!(["azure/gpt-small-eu"]))
        .model("large", json!(["azure/team/gpt:large"]))
        .model("any-*", json!(["azure"]));
    let gateway = Gateway::start(config).await;
    let models = [
        ("small", "gpt-small-eu"),
        ("large", "team%2Fgpt%3Alarge"),
        ("any-1.5/x?y#z", "any-1.5%2Fx%3Fy%23z"),
    ];
    for (model, sent) in models {
        for (path, stream) in FORMATS
            .into_iter()
            .flat_map(|path| [(path, false), (path, true)])
        {
            let answer = gateway
                .ask(path, model, "", json!({"stream": stream}))
                .await;
            answer.assert_ok();
            let text = answer.text();
            assert!(text.contains("nice."), "{path} {model} {stream}: {text}");
            let last = hosted.last();
            let expected =
                format!("/openai/deployments/{sent}/chat/completions?api-version={AZURE_VERSION}");
            assert_eq!(last.uri, *expected, "{path} {stream}");
            assert_eq!(last.headers["api-key"], "credential-of-the-provider");
            assert!(!last.headers.contains_key("authorization"));
        }
    }
}

#[tokio::test]
async fn fields_are_set_and_removed_for_callers_of_every_format() {
    let hosted = Hosted::start().await;
    let config = Config::new()
        .provider("vertex", vertex(&hosted))
        .model("claude", json!(["vertex/claude-x@20260101"]));
    let gateway = Gateway::start(config).await;
    for (path, stream) in FORMATS
        .into_iter()
        .flat_map(|path| [(path, false), (path, true)])
    {
        let answer = gateway
            .ask(path, "claude", "", json!({"stream": stream}))
            .await;
        answer.assert_ok();
        let predict = if stream {
            "streamRawPredict"
        } else {
            "rawPredict"
        };
        let expected = format!("{VERTEX_MODELS}/claude-x%4020260101:{predict}");
        assert_eq!(hosted.last().uri, *expected, "{path}");
    }
    // The model stays where the path does not name it.
    let body = prompt(COUNT_TOKENS, "claude", "Hello!", json!({}));
    let answer = gateway.post(COUNT_TOKENS, &body).await;
    answer.assert_ok();
    let counted: Value = serde_json::from_slice(&hosted.last().body).unwrap();
    assert_eq!(counted["model"], "claude-x@20260101");
    assert_eq!(counted["anthropic_version"], VERTEX_VERSION);
}

#[tokio::test]
async fn the_rest_of_a_patched_body_stays_as_the_caller_wrote_it() {
    let hosted = Hosted::start().await;
    let config = Config::new()
        .provider("vertex", vertex(&hosted))
        .model("claude", json!(["vertex/claude-x"]));
    let gateway = Gateway::start(config).await;
    let text = "caf\\u00e9 ".repeat(50_000);
    for text in ["short", &text] {
        let rest = format!(
            r#""max_tokens" : 64,"messages":[ {{"role":"user","content":"{text}"}} ], "temperature": 1.0e0 }}"#
        );
        let body = format!(r#"{{ "model": "claude", {rest}"#);
        let request = Request::post(MESSAGES, &json!({})).key(&gateway.key);
        gateway.send(&request.body(body)).await.assert_ok();
        let sent = hosted.last().body;
        let expected = format!(r#"{{"anthropic_version":"{VERTEX_VERSION}", {rest}"#);
        assert!(
            sent == expected,
            "{}",
            String::from_utf8_lossy(&sent[..100])
        );
    }
}

#[tokio::test]
async fn a_model_name_that_would_leave_its_place_in_the_path_is_refused() {
    let hosted = Hosted::start().await;
    let config = Config::new()
        .provider("azure", azure(&hosted))
        .model("up", json!(["azure/.."]))
        .model("beside", json!(["azure/..."]));
    let gateway = Gateway::start(config).await;
    let answer = gateway.ask(CHAT, "up", "", json!({})).await;
    answer.assert_error(404, "invalid_model");
    gateway.ask(CHAT, "beside", "", json!({})).await.assert_ok();
}

#[tokio::test]
async fn check_reports_bad_addresses_and_patches_with_their_place() {
    let folder = TempDir::new().unwrap();
    let text = r#"
providers:
  a:
    address: https://a.example
    formats:
      - name: chat
        path: /openai/deployments/{deployment}/chat?api-version=1#x
      - name: messages
        path: "/models/{name}:rawPredict"
        stream_path: "/models/a b"
        set: { messages: [] }
        remove: [model]
families: { f: { group: g, deployments: [a] } }
models: { m: { family: f } }
"#;
    fs::write(folder.path().join("tollgate.yaml"), text).unwrap();
    let mut check = tollgate();
    check.arg("check").current_dir(&folder);
    let output = Output::within(PATIENCE, &mut check).await;
    assert!(!output.status.success(), "{output:?}");
    for expected in [
        "tollgate.yaml:7:15: providers.a.formats[0].path: a fragment (#) is not sent to a provider: leave it out",
        "tollgate.yaml:9:15: providers.a.formats[1].path: {name} is unknown: the only placeholder is {model}",
        "tollgate.yaml:10:22: providers.a.formats[1].stream_path: ' ' cannot stand in an address: percent-encode it",
        "tollgate.yaml:11:16: providers.a.formats[1].set.messages: 'messages' is set by the gateway alone",
        "tollgate.yaml:12:18: providers.a.formats[1].remove[0]: without 'model' the request would name no model: put {model} into `path`",
    ] {
        assert!(
            output.stderr.contains(expected),
            "{expected}\n{}",
            output.stderr
        );
    }
}

#[tokio::test]
async fn the_examples_of_the_guide_have_no_fault() {
    let guide = fs::read_to_string(root().join("docs/guides/provider-addresses.md")).unwrap();
    let examples: Vec<_> = guide.split("```yaml\n").skip(1).collect();
    assert_eq!(examples.len(), 5);
    for example in examples {
        let (example, _) = example.split_once("```").unwrap();
        let folder = TempDir::new().unwrap();
        for secret in ["azure.key", "vertex.token"] {
            fs::write(folder.path().join(secret), "secret").unwrap();
        }
        let models = if example.contains("models:") {
            String::new()
        } else {
            let provider = example.lines().nth(1).unwrap().trim().trim_end_matches(':');
            format!(
                "families: {{ f: {{ group: other, deployments: [{provider}] }} }}\nmodels: {{ m: {{ family: f }} }}\n"
            )
        };
        let text = format!("{example}{models}");
        fs::write(folder.path().join("tollgate.yaml"), text).unwrap();
        let mut check = tollgate();
        check.arg("check").current_dir(&folder);
        check.env("TOLLGATE_PEPPER", "pepper-of-the-guide-and-of-nothing-else");
        let output = Output::within(PATIENCE, &mut check).await;
        assert!(output.stdout.contains("no fault"), "{example}{output:?}");
    }
}
