//! The ready files of providers: each boots by one line, offers all of its models, and asks its
//! provider where and with what the provider's documentation says.

mod prices;
mod recorded;
mod refusals;
mod speaker;
mod table;

use crate::support::issuer::Issuer;
use crate::support::{
    CHAT, Config, FORMATS, Gateway, MESSAGES, PROVIDER_KEY, Provider, RESPONSES, eventually, prompt,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// The provider's host, and for each of its formats the path and the header with the credential.
pub(crate) struct Documented {
    pub(crate) file: &'static str,
    address: &'static str,
    paths: &'static [&'static str],
    pub(crate) header: &'static str,
    /// A model that it offers, and its name at the provider.
    pub(crate) model: (&'static str, &'static str),
}

const fn documented(
    file: &'static str,
    address: &'static str,
    paths: &'static [&'static str],
    header: &'static str,
    model: (&'static str, &'static str),
) -> Documented {
    Documented {
        file,
        address,
        paths,
        header,
        model,
    }
}

pub(crate) const BEARER: &str = "authorization";
pub(crate) const NONE: &str = "";
const OPENAI: &[&str] = &["/v1/chat/completions", "/v1/responses"];
const ALL: &[&str] = &["/v1/chat/completions", "/v1/responses", "/v1/messages"];

#[rustfmt::skip]
pub(crate) const FILES: &[Documented] = &[
    documented("anthropic", "https://api.anthropic.com", &["/v1/messages"], "x-api-key", ("claude-opus-5-5", "claude-opus-5-5")),
    documented("azure-openai", "https://your-resource.openai.azure.com", &["/openai/v1/chat/completions", "/openai/v1/responses"], "api-key", ("gpt-5.5", "gpt-5.5")),
    documented("bedrock", "https://bedrock-mantle.us-east-1.api.aws", &["/anthropic/v1/messages"], "x-api-key", ("anthropic.claude-opus-5-5", "anthropic.claude-opus-5-5")),
    documented("bedrock-runtime", "https://bedrock-runtime.us-east-1.amazonaws.com", &["/model/global.anthropic.claude-opus-4-6-v1/invoke"], BEARER, ("global.anthropic.claude-opus-4-6-v1", "global.anthropic.claude-opus-4-6-v1")),
    documented("bedrock-runtime", "https://bedrock-runtime.us-east-1.amazonaws.com", &["/model/global.moonshotai.kimi-k3/converse"], BEARER, ("global.moonshotai.kimi-k3", "global.moonshotai.kimi-k3")),
    documented("cohere", "https://api.cohere.ai", &["/compatibility/v1/chat/completions"], BEARER, ("command-a-plus-05-2026", "command-a-plus-05-2026")),
    documented("deepseek", "https://api.deepseek.com", &["/chat/completions", "/anthropic/v1/messages"], BEARER, ("deepseek-v4-pro", "deepseek-v4-pro")),
    documented("fireworks", "https://api.fireworks.ai", &["/inference/v1/chat/completions"], BEARER, ("accounts/fireworks/models/kimi-k3", "accounts/fireworks/models/kimi-k3")),
    documented("gemini", "https://generativelanguage.googleapis.com", &["/v1beta/models/gemini-4-argon:generateContent"], "x-goog-api-key", ("gemini-4-argon", "gemini-4-argon")),
    documented("groq", "https://api.groq.com", &["/openai/v1/chat/completions"], BEARER, ("openai/gpt-oss-120b", "openai/gpt-oss-120b")),
    documented("llama-cpp", "http://127.0.0.1:8081", ALL, NONE, ("llama-cpp/qwen3-8b", "qwen3-8b")),
    documented("mistral", "https://api.mistral.ai", &["/v1/chat/completions"], BEARER, ("mistral-large-latest", "mistral-large-latest")),
    documented("ollama", "http://127.0.0.1:11434", ALL, NONE, ("ollama/qwen3:8b", "qwen3:8b")),
    documented("openai", "https://api.openai.com", OPENAI, BEARER, ("gpt-5.5", "gpt-5.5")),
    documented("openrouter", "https://openrouter.ai", &["/api/v1/chat/completions", "/api/v1/responses", "/api/v1/messages"], BEARER, ("anthropic/claude-opus-5.5", "anthropic/claude-opus-5.5")),
    documented("sglang", "http://127.0.0.1:30000", &["/v1/chat/completions", "/v1/messages"], NONE, ("sglang/qwen3-8b", "qwen3-8b")),
    documented("together", "https://api.together.xyz", &["/v1/chat/completions"], BEARER, ("zai-org/GLM-5.3", "zai-org/GLM-5.3")),
    documented("vertex", "https://aiplatform.googleapis.com/v1/projects/your-project/locations/global/publishers/anthropic", &["/models/claude-opus-5-5:rawPredict"], BEARER, ("vertex/claude-opus-5-5", "claude-opus-5-5")),
    documented("vllm", "http://127.0.0.1:8000", ALL, NONE, ("vllm/Qwen/Qwen3-8B", "Qwen/Qwen3-8B")),
    documented("xai", "https://api.x.ai", OPENAI, BEARER, ("grok-4.5", "grok-4.5")),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/providers")
}

/// The file with the issuer in place of the machine's metadata server.
pub(crate) fn asking(text: &str, issuer: &Issuer) -> String {
    let url = issuer.url("/computeMetadata/v1/instance/service-accounts/default/token");
    text.replace(
        "{ metadata: true }",
        &format!("{{ metadata: true, token_url: \"{url}\" }}"),
    )
}

/// A gateway that includes a copy of a file with the tests' credential, and sends its requests to a
/// stand-in. Everything else is as the file says, the header with the credential among it. Tokens
/// are the issuer's.
async fn including(file: &Documented, stand_in: SocketAddr, issuer: &Issuer) -> Gateway {
    let name = format!("{}.yaml", file.file);
    let mut text = fs::read_to_string(folder().join(&name)).unwrap();
    let home = tempfile::TempDir::new().unwrap();
    text = asking(&text, issuer);
    if let Some((before, behind)) = text.split_once("env:") {
        let is_of_name = |c: char| c.is_ascii_uppercase() || c == '_';
        let rest = behind.trim_start_matches(is_of_name);
        text = format!("{before}env:{}{rest}", PROVIDER_KEY.0);
    }
    fs::write(home.path().join(&name), text).unwrap();
    let address = format!("http://{stand_in}");
    let config = Config::new()
        .with("include", json!(name))
        .with(&format!("providers.{}.address", file.file), json!(address));
    Gateway::start_in(home, config).await
}

#[test]
fn every_file_is_documented_and_names_its_provider_and_no_secret() {
    let files = fs::read_dir(folder()).unwrap().map(|it| it.unwrap().path());
    let found: BTreeSet<_> = files
        .map(|it| it.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let known: BTreeSet<_> = FILES.iter().map(|it| it.file.to_owned()).collect();
    assert_eq!(found, known);
    for file in FILES {
        let text = fs::read_to_string(folder().join(format!("{}.yaml", file.file))).unwrap();
        let address = format!("    address: {}\n", file.address);
        assert!(text.contains(&address), "{}: {text}", file.file);
        for line in text.lines().filter(|line| line.contains("credentials:")) {
            let has_variable = line.contains("env:");
            let is_lent = line.contains("metadata: true");
            assert!(has_variable || is_lent, "{}: {line}", file.file);
            assert!(
                !has_variable || text.contains("The variable"),
                "{}: the head names the variable",
                file.file
            );
        }
    }
}

#[tokio::test]
async fn each_file_boots_and_asks_its_provider_as_the_provider_documents_it() {
    for file in FILES {
        let (stand_in, issuer) = (Provider::start().await, Issuer::start().await);
        let gateway = including(file, stand_in.address, &issuer).await;
        let (model, upstream) = file.model;
        let mut paths = BTreeSet::new();
        for path in FORMATS {
            let body = prompt(path, model, "Hello!", json!({"stream": false}));
            // Until it has a token, the gateway answers 503.
            let ask = async || Some(gateway.post(path, &body).await).filter(|it| it.status != 503);
            let answer = eventually("an answer", ask).await;
            // The stand-in serves the usual paths alone; where the file names another one, the
            // request itself is what counts.
            let received = stand_in.last();
            let asked: Value = serde_json::from_slice(&received.body).unwrap();
            let asked_path = received.uri.path();
            let names_model = asked["model"] == upstream || asked_path.contains(upstream);
            assert!(names_model, "{}: {answer:?}", file.file);
            paths.insert(asked_path.to_owned());
            let sent = received.headers.get(file.header);
            match file.header {
                NONE => assert!(received.headers.get(BEARER).is_none(), "{}", file.file),
                BEARER if issuer.issued() > 0 => assert_eq!(sent.unwrap(), "Bearer issued-token-1"),
                BEARER => assert_eq!(sent.unwrap(), &format!("Bearer {}", PROVIDER_KEY.1)),
                _ => assert_eq!(sent.unwrap(), PROVIDER_KEY.1),
            }
        }
        let expected: BTreeSet<_> = file.paths.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(paths, expected, "{}", file.file);
    }
}

#[tokio::test]
async fn vectors_are_asked_for_where_the_provider_documents_them() {
    for (name, model, path, upstream) in [
        (
            "openai",
            "text-embedding-3-small",
            "/v1/embeddings",
            "/v1/embeddings",
        ),
        (
            "azure-openai",
            "text-embedding-3-small",
            "/v1/embeddings",
            "/openai/v1/embeddings",
        ),
        (
            "gemini",
            "gemini-embedding-001",
            "/v1/embeddings",
            "/v1beta/models/gemini-embedding-001:batchEmbedContents",
        ),
        (
            "mistral",
            "mistral-embed",
            "/v1/embeddings",
            "/v1/embeddings",
        ),
        (
            "cohere",
            "embed-v4.0",
            "/v1/embeddings",
            "/compatibility/v1/embeddings",
        ),
        (
            "bedrock-runtime",
            "amazon.titan-embed-text-v1",
            "/v1/embeddings",
            "/model/amazon.titan-embed-text-v1/invoke",
        ),
        (
            "bedrock-runtime",
            "global.cohere.embed-v4:0",
            "/v1/embeddings",
            "/model/global.cohere.embed-v4%3A0/invoke",
        ),
        ("cohere", "rerank-v4.0-fast", "/v1/rerank", "/v2/rerank"),
        ("vllm", "vllm/bge-m3", "/v1/embeddings", "/v1/embeddings"),
        ("vllm", "vllm/bge-reranker", "/v1/rerank", "/v1/rerank"),
        (
            "llama-cpp",
            "llama-cpp/bge-m3",
            "/v1/embeddings",
            "/v1/embeddings",
        ),
        (
            "llama-cpp",
            "llama-cpp/bge-reranker",
            "/v1/rerank",
            "/v1/rerank",
        ),
        (
            "ollama",
            "ollama/bge-m3",
            "/v1/embeddings",
            "/v1/embeddings",
        ),
        (
            "sglang",
            "sglang/bge-m3",
            "/v1/embeddings",
            "/v1/embeddings",
        ),
    ] {
        let stand_in = Provider::start().await;
        let file = FILES.iter().find(|it| it.file == name).unwrap();
        let gateway = including(file, stand_in.address, &Issuer::start().await).await;
        let body = json!({"model": model, "input": "a", "query": "a", "documents": ["b"]});
        gateway.post(path, &body).await;
        let received = stand_in.last();
        assert_eq!(received.uri.path(), upstream, "{name}");
        let sent = received.headers.get(BEARER);
        assert_eq!(
            sent.is_some(),
            file.header == BEARER,
            "{name}: {received:?}"
        );
        let asked: Value = serde_json::from_slice(&received.body).unwrap();
        let known = model.rsplit('/').next().unwrap();
        match known.split_once('.').map(|it| it.0) {
            Some("amazon") => assert_eq!(asked, json!({"inputText": "a"})),
            Some("global") => assert_eq!(asked["texts"], json!(["a"])),
            _ if name == "gemini" => {
                let model = format!("models/{known}");
                assert_eq!(asked["requests"][0]["model"], model);
            }
            _ => assert_eq!(asked["model"], known, "{name}"),
        }
        let body = prompt(CHAT, model, "Hello!", Value::Null);
        let status = gateway.post(CHAT, &body).await.status;
        let serves_all = model.contains('/');
        assert_eq!(status == 404, !serves_all, "{name}");
    }
}

/// Mistral refuses fields that it does not know, and the SDKs send two of them.
#[tokio::test]
async fn a_provider_gets_no_field_of_chat_that_it_does_not_know_from_clients_of_any_format() {
    let stand_in = Provider::start().await;
    let mistral = FILES.iter().find(|it| it.file == "mistral").unwrap();
    let gateway = including(mistral, stand_in.address, &Issuer::start().await).await;
    let of_chat = json!({"max_completion_tokens": 64, "stream_options": {"include_usage": true}});
    for (path, more) in [
        (CHAT, of_chat),
        (CHAT, json!({"max_tokens": 64})),
        (RESPONSES, json!({"max_output_tokens": 64})),
        (MESSAGES, json!({"max_tokens": 64})),
    ] {
        for is_streamed in [true, false] {
            let mut body = prompt(path, mistral.model.0, "Hello!", more.clone());
            body["stream"] = json!(is_streamed);
            if !is_streamed {
                body.as_object_mut().unwrap().remove("stream_options");
            }
            gateway.post(path, &body).await.assert_ok();
            let sent: Value = serde_json::from_slice(&stand_in.last().body).unwrap();
            assert_eq!(sent["max_tokens"], 64, "{path}: {sent}");
            assert_eq!(sent["max_completion_tokens"], Value::Null, "{path}: {sent}");
            assert_eq!(sent["stream_options"], Value::Null, "{path}: {sent}");
        }
    }
}

#[tokio::test]
async fn a_model_gets_only_what_its_provider_documents_for_it() {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let later = json!([
        {"role": "user", "content": "Hello!"},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go on."},
    ]);
    let effort = json!({"tools": tools, "reasoning_effort": "high"});
    // A request of chat, and a member of the body that is sent, by its JSON pointer.
    for (name, model, more, at, expected) in [
        (
            "anthropic",
            "claude-opus-5-5",
            json!({"messages": later}),
            "/messages/1/role",
            json!("system"),
        ),
        (
            "anthropic",
            "claude-haiku-4-5",
            json!({"messages": later}),
            "/messages/1/role",
            json!("user"),
        ),
        (
            "openai",
            "gpt-5.6-sol",
            json!({"tools": tools}),
            "/reasoning_effort",
            json!("none"),
        ),
        (
            "openai",
            "gpt-5.5",
            effort.clone(),
            "/reasoning_effort",
            json!("none"),
        ),
        (
            "openai",
            "gpt-5.5",
            json!({"tools": tools}),
            "/reasoning_effort",
            Value::Null,
        ),
        (
            "openai",
            "gpt-6-sol",
            effort,
            "/reasoning_effort",
            json!("high"),
        ),
        (
            "xai",
            "grok-4.20-non-reasoning",
            json!({"stop": "END"}),
            "/stop",
            json!("END"),
        ),
    ] {
        let stand_in = Provider::start().await;
        let file = FILES.iter().find(|it| it.file == name).unwrap();
        let gateway = including(file, stand_in.address, &Issuer::start().await).await;
        let answer = gateway
            .post(CHAT, &prompt(CHAT, model, "Hello!", more))
            .await;
        answer.assert_ok();
        let sent: Value = serde_json::from_slice(&stand_in.last().body).unwrap();
        let found = sent.pointer(at).unwrap_or(&Value::Null);
        assert_eq!(found, &expected, "{model}: {sent}");
        if name == "xai" {
            let body = prompt(CHAT, "grok-4.5", "Hello!", json!({"stop": "END"}));
            let refused = gateway.post(CHAT, &body).await;
            assert_eq!(refused.status, 400);
            assert_eq!(refused.json()["error"]["param"], "stop");
        }
    }
}

/// Claude Code marks what is worth caching and names calls in its own way; it asks for much output, for more
/// effort than most models have, and for management of the context.
#[tokio::test]
async fn a_model_gets_no_habit_of_an_agent_that_its_provider_refuses() {
    const MARK: &str = "prompt_cache_breakpoint";
    let agent = |model: &str, effort: &str| {
        json!({
            "model": model, "max_tokens": 128_000, "thinking": {"type": "adaptive"},
            "output_config": {"effort": effort},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "toolu_01", "name": "look", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_01", "content": "Seen."}]},
            ],
        })
    };
    let (effort, chat) = ("/reasoning/effort", "/reasoning_effort");
    let of_claude = "/output_config/effort";
    let none = Value::Null;
    // An effort, and a member of the body that is sent, by its JSON pointer.
    for (name, model, asked, at, expected) in [
        ("openai", "gpt-5.5", "max", effort, json!("xhigh")),
        ("openai", "gpt-5.6-sol", "max", effort, json!("max")),
        ("openai", "gpt-5.1", "xhigh", effort, json!("high")),
        ("azure-openai", "gpt-5.5", "max", effort, json!("xhigh")),
        (
            "openai",
            "gpt-4o",
            "max",
            "/max_output_tokens",
            json!(16_384),
        ),
        (
            "mistral",
            "mistral-small-latest",
            "low",
            chat,
            json!("high"),
        ),
        ("mistral", "devstral-latest", "max", chat, none.clone()),
        ("groq", "openai/gpt-oss-20b", "max", chat, json!("high")),
        ("groq", "qwen/qwen3.8-27b", "max", chat, none.clone()),
        ("xai", "grok-4.3", "max", effort, json!("high")),
        (
            "anthropic",
            "claude-opus-4-6",
            "xhigh",
            of_claude,
            json!("high"),
        ),
        (
            "anthropic",
            "claude-opus-4-6",
            "max",
            of_claude,
            json!("max"),
        ),
        (
            "anthropic",
            "claude-opus-4-7",
            "xhigh",
            of_claude,
            json!("xhigh"),
        ),
        (
            "bedrock-runtime",
            "global.anthropic.claude-opus-4-6-v1",
            "max",
            "/context_management",
            none,
        ),
    ] {
        let stand_in = Provider::start().await;
        let file = FILES.iter().find(|it| it.file == name).unwrap();
        let gateway = including(file, stand_in.address, &Issuer::start().await).await;
        let answer = gateway.post(MESSAGES, &agent(model, asked)).await;
        let sent: Value = serde_json::from_slice(&stand_in.last().body).unwrap();
        let found = sent.pointer(at).unwrap_or(&Value::Null);
        assert_eq!(found, &expected, "{name} {model}: {sent}\n{answer:?}");
        let is_marked = sent.to_string().contains(MARK);
        assert_eq!(is_marked, model == "gpt-5.6-sol", "{model}: {sent}");
        if name == "mistral" {
            let id = &sent["messages"][1]["tool_calls"][0]["id"];
            assert_eq!(id.as_str().unwrap().len(), 9, "{sent}");
            assert_eq!(id, &sent["messages"][2]["tool_call_id"], "{sent}");
        }
    }
}

#[tokio::test]
async fn all_files_together_boot_and_list_every_model() {
    let stand_in = Provider::start().await;
    // Together they have one model twice; the file that is included later has it.
    let mut files: Vec<_> = FILES
        .iter()
        .map(|it| folder().join(format!("{}.yaml", it.file)))
        .collect();
    files.dedup();
    let mut config = Config::new().with("include", json!(files.clone()));
    for file in FILES {
        let address = format!("http://{}", stand_in.address);
        config = config.with(&format!("providers.{}.address", file.file), json!(address));
        config = config.with(
            &format!("providers.{}.credentials", file.file),
            json!([format!("env:{}", PROVIDER_KEY.0)]),
        );
    }
    let gateway = Gateway::start(config).await;
    let list = gateway.get("/v1/models").await.json();
    let listed = list["data"].as_array().unwrap();
    let listed: BTreeSet<_> = listed.iter().map(|it| it["id"].as_str().unwrap()).collect();
    for path in files {
        let text = fs::read_to_string(path).unwrap();
        let (_, models) = text.split_once("\nmodels:\n").unwrap();
        for line in models.lines() {
            let (model, _) = line.trim().split_once(": {").unwrap();
            let model = model.trim_matches('"');
            assert!(model.ends_with('*') || listed.contains(model), "{model}");
        }
    }
    let body = prompt(CHAT, "gpt-5.5", "Hello!", json!({}));
    gateway.post(CHAT, &body).await.assert_ok();
}
