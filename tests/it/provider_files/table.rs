//! What each ready file promises, driven against a stand-in that speaks its provider's formats. The page of
//! providers is made of what happens.

use super::recorded::{self, is_recorded};
use super::refusals::refused;
use super::speaker::{REFUSE, SAID, TOOL, refuse, speak};
use super::{BEARER, Documented, FILES, NONE, including};
use crate::support::issuer::Issuer;
use crate::support::{
    Answer, CHAT, COUNT_TOKENS, Gateway, MESSAGES, RESPONSES, Service, eventually, prompt, root,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use tollgate_sim::vendors::{VENDORS, VendorError};

const PAGE: &str = "docs/reference/providers.md";

/// An image of one dot.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// What the test of clients shows with the real server of a provider, by file.
const REAL: &[(&str, &[&str])] = &[("llama-cpp", &["Chat", "Stream", "Count", "Errors"])];
const OF_REAL: &str = "tests/clients/test_llama_cpp.py";

fn is_real(file: &str, cell: &str) -> bool {
    REAL.iter()
        .any(|(name, cells)| *name == file && cells.contains(&cell))
}

/// The columns.
pub const CELLS: [&str; 7] = [
    "Chat", "Stream", "Tools", "Images", "Thinking", "Count", "Errors",
];

/// The vendor whose errors the provider sends, as the simulated provider knows them.
fn vendor(file: &str) -> &str {
    match file {
        "azure-openai" => "azure",
        "bedrock-runtime" => "bedrock",
        "bedrock" | "vertex" => "anthropic",
        "gemini" => "google",
        "llama-cpp" => "llamacpp",
        other => other,
    }
}

/// The errors of a provider.
fn errors_of(file: &str) -> Vec<&'static VendorError> {
    let errors = VENDORS.iter();
    let errors = errors.filter(|it| it.name.split('-').next() == Some(vendor(file)));
    errors.collect()
}

/// Stands for the path of a Gemini client, which names the model.
const GEMINI: &str = "gemini";
/// The clients.
const CLIENTS: [&str; 4] = [CHAT, RESPONSES, MESSAGES, GEMINI];

/// A gateway with a file, and its provider.
struct Row {
    file: &'static Documented,
    gateway: Gateway,
    service: Service,
    _issuer: Issuer,
}

impl Row {
    async fn of(file: &'static Documented, refusal: &'static VendorError) -> Self {
        let service = Service::answering(move |seen| match refused(file, seen) {
            None => speak(seen, refusal),
            Some((status, reason)) => {
                eprintln!("{}: {reason}", file.file);
                refuse(status)
            }
        })
        .await;
        let issuer = Issuer::start().await;
        let gateway = including(file, service.address, &issuer).await;
        let row = Self {
            file,
            gateway,
            service,
            _issuer: issuer,
        };
        // Until it has a token, the gateway answers 503.
        let ready = async || (row.ask(CHAT, json!({})).await.status == 200).then_some(());
        eventually("a token", ready).await;
        row
    }

    async fn ask(&self, path: &str, mut more: Value) -> Answer {
        let (model, said) = (self.file.model.0, "Say hello.");
        if path != GEMINI {
            return self
                .gateway
                .post(path, &prompt(path, model, said, more))
                .await;
        }
        let method = match more.as_object_mut().unwrap().remove("stream") {
            Some(Value::Bool(true)) => "streamGenerateContent?alt=sse",
            _ => "generateContent",
        };
        let model = model.replace('/', "%2F").replace(':', "%3A");
        more["contents"] = json!([{"role": "user", "parts": [{"text": said}]}]);
        let path = format!("/v1beta/models/{model}:{method}");
        self.gateway.post(&path, &more).await
    }

    fn sent(&self) -> Value {
        serde_json::from_slice(&self.service.last().body).unwrap()
    }

    /// The formats in which the provider is asked by all clients, each of which gets the text.
    async fn chat(&self, stream: bool) -> String {
        /// What the client says as the system.
        const ADVICE: &str = "Be brief.";
        let mut formats = BTreeSet::new();
        for path in CLIENTS {
            let mut more = match path {
                CHAT => json!({"messages": [{"role": "system", "content": ADVICE},
                    {"role": "user", "content": "Say hello."}]}),
                RESPONSES => json!({"instructions": ADVICE}),
                GEMINI => json!({"systemInstruction": {"parts": [{"text": ADVICE}]}}),
                _ => json!({"system": ADVICE}),
            };
            more["stream"] = json!(stream);
            let answer = self.ask(path, more).await;
            answer.assert_ok();
            assert!(
                self.sent().to_string().contains(ADVICE),
                "{}",
                self.file.file
            );
            assert!(
                answer.text().contains(SAID),
                "{}: {answer:?}",
                self.file.file
            );
            formats.insert(format_of(&self.service.last().target));
        }
        formats.into_iter().collect::<Vec<_>>().join(", ")
    }

    async fn tools(&self) -> String {
        for path in CLIENTS {
            for stream in [false, true] {
                let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
                let tool = match path {
                    CHAT => {
                        json!({"type": "function", "function": {"name": TOOL, "parameters": schema}})
                    }
                    RESPONSES => json!({"type": "function", "name": TOOL, "parameters": schema}),
                    GEMINI => {
                        json!({"functionDeclarations": [{"name": TOOL, "parameters": schema}]})
                    }
                    _ => json!({"name": TOOL, "input_schema": schema}),
                };
                let answer = self
                    .ask(path, json!({"tools": [tool], "stream": stream}))
                    .await;
                answer.assert_ok();
                assert!(
                    answer.text().contains(TOOL),
                    "{}: {answer:?}",
                    self.file.file
                );
            }
        }
        "call returned".to_owned()
    }

    async fn images(&self) -> String {
        let url = format!("data:image/png;base64,{IMAGE}");
        let said = json!([{"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": url}},
        ]}]);
        let body = json!({"model": self.file.model.0, "messages": said});
        let before = self.service.seen().len();
        let answer = self.gateway.post(CHAT, &body).await;
        let was_asked = self.service.seen().len() > before;
        let has_image = was_asked && self.sent().to_string().contains(IMAGE);
        let outcome = match (answer.status, has_image) {
            (200, true) => "passed on",
            (200, false) => "left out",
            (400, false) => "refused",
            _ => panic!("{}: {answer:?}", self.file.file),
        };
        outcome.to_owned()
    }

    /// The field in which the provider is asked to think.
    async fn thinking(&self) -> String {
        const FIELDS: [&str; 8] = [
            "/reasoning_effort",
            "/reasoning/effort",
            "/output_config/effort",
            "/outputConfig/effort",
            "/additionalModelRequestFields/reasoning_effort",
            "/thinking/budget_tokens",
            "/generationConfig/thinkingConfig/thinkingLevel",
            "/generationConfig/thinkingConfig/thinkingBudget",
        ];
        let asked = json!({"reasoning_effort": "high", "max_completion_tokens": 9000});
        let answer = self.ask(CHAT, asked).await;
        if answer.status == 400 {
            return "refused".to_owned();
        }
        answer.assert_ok();
        let sent = self.sent();
        let field = FIELDS.iter().find(|field| sent.pointer(field).is_some());
        field.map_or_else(
            || "left out".to_owned(),
            |field| format!("`{}`", field[1..].replace('/', ".")),
        )
    }

    async fn count(&self) -> String {
        let answer = self.ask(COUNT_TOKENS, json!({})).await;
        answer.assert_ok();
        let by = answer.header("x-token-count-source").expect("a source");
        match by {
            "upstream" => "provider".to_owned(),
            _ => "gateway".to_owned(),
        }
    }

    /// How the credential is sent.
    fn auth(&self) -> String {
        let seen = self.service.last();
        match self.file.header {
            NONE => {
                assert_eq!(seen.header(BEARER), None);
                "none".to_owned()
            }
            BEARER if seen.header(BEARER).unwrap().contains("issued-token") => {
                "access token".to_owned()
            }
            BEARER => "bearer".to_owned(),
            other => {
                assert!(seen.header(other).is_some());
                format!("`{other}`")
            }
        }
    }
}

/// The format of a path.
pub fn format_of(target: &str) -> &'static str {
    let path = target.split('?').next().unwrap();
    match () {
        () if path.ends_with("chat/completions") => "chat",
        () if path.ends_with("responses") => "responses",
        () if path.contains("enerateContent") => "gemini",
        () if path.contains("/converse") => "converse",
        () => "messages",
    }
}

/// What the client gets for an error of a vendor.
fn expected(error: &VendorError) -> (u16, &'static str) {
    crate::errors::reported(error.name)
}

async fn errors(file: &'static Documented) -> String {
    let errors = errors_of(file.file);
    assert!(!errors.is_empty(), "{}", file.file);
    for error in &errors {
        let row = Row::of(file, error).await;
        let body = prompt(CHAT, file.model.0, REFUSE, json!({}));
        let answer = row.gateway.post(CHAT, &body).await;
        let (status, code) = expected(error);
        assert_eq!(
            answer.error(),
            (status, code.to_owned()),
            "{}: {}",
            file.file,
            error.name
        );
    }
    errors.len().to_string()
}

async fn cells(file: &'static Documented) -> (String, [String; 7]) {
    let row = Row::of(file, &VENDORS[0]).await;
    let auth = row.auth();
    let cells = [
        row.chat(false).await,
        row.chat(true).await,
        row.tools().await,
        row.images().await,
        row.thinking().await,
        row.count().await,
        errors(file).await,
    ];
    (auth, cells)
}

#[tokio::test]
async fn the_page_of_providers_is_what_the_files_do() {
    let mut table = String::new();
    for file in FILES {
        let (auth, cells) = cells(file).await;
        // One file with two ways of asking has a row for each.
        let way = match file.paths {
            [path] if path.ends_with("/invoke") => ", InvokeModel",
            [path] if path.ends_with("/converse") => ", Converse",
            _ => "",
        };
        table.push_str(&format!(
            "| `{}`{way} | `{}` | {auth} ○ |",
            file.file, file.model.0
        ));
        for (cell, column) in cells.iter().zip(CELLS) {
            let mark = match () {
                () if is_recorded(file.file, column) => '●',
                () if is_real(file.file, column) => '◆',
                () => '○',
            };
            table.push_str(&format!(" {cell} {mark} |"));
        }
        table.push('\n');
    }
    let columns = CELLS.join(" | ");
    let lines = "|---".repeat(3 + CELLS.len());
    let test = |name: &'static str| name.trim_start_matches("it::");
    assert!(root().join(OF_REAL).is_file(), "{OF_REAL}");
    let foot = FOOT.replace("OF_REAL", OF_REAL);
    let signed = crate::bedrock::signed().map(test).join("` and `");
    let foot = foot.replace("SIGNED", &signed);
    let foot = foot.replace("RECORDED", test(recorded::test())).replace(
        "TABLE",
        test(std::any::type_name_of_val(
            &the_page_of_providers_is_what_the_files_do,
        )),
    );
    let page =
        format!("{HEAD}\n| File | Model | Credential | {columns} |\n{lines}|\n{table}{foot}");
    let path = root().join(PAGE);
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{PAGE} is not what the files do. Write it with TOLLGATE_BLESS=1:\n{page}"
    );
}

const HEAD: &str = "\
# Providers

<!-- Written by `TOLLGATE_BLESS=1 cargo test -p tollgate --test it provider_files` from what the ready files do. -->

What each [ready file](../guides/providers.md) does for clients of chat, responses, messages and Gemini. Each cell has the mark of the test
that holds it.
";

const FOOT: &str = "
- **○**: by the provider's documentation only. `TABLE` drives the cell against a stand-in that was written after the documentation, and
  writes this page.
- **●**: the same, and recorded traffic of the provider agrees: `RECORDED`.
- **◆**: the same, and the provider's real server agrees: `make test-clients`, `OF_REAL`.
- **Credential**: `SIGNED` sign the requests of `bedrock-runtime` (SigV4) instead.
- **Chat**, **Stream**: the formats in which the provider is asked; other clients are [translated](translation.md).
- **Tools**: `call returned`: a client of each format offers a tool, which is passed on, and gets the provider's call, streamed or not.
- **Images**: `passed on`: the bytes of an image in chat reach the provider; `refused`: the client gets 400. Whether the model accepts the
  image is not tested.
- **Thinking**: the field that `reasoning_effort` of chat becomes.
- **Count**: what counts `POST /v1/messages/count_tokens`; the gateway counts for every provider.
- **Errors**: how many errors in the provider's own words are [classified](errors.md).
";
