//! Representative requests and what becomes of them, side by side in `tests/requests`: for
//! `chat/agent.json` the body and notices in `chat/agent.to-messages.json`, reviewed like
//! code. `TOLLGATE_BLESS=1 cargo test -p tollgate-translate --test golden` writes them anew,
//! and `git diff` then shows what has changed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod sdk;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tollgate_translate::{Lossy, Target, request};
use tollgate_types::{
    ChatCapabilities, Effort, Format, MessagesCapabilities, ReasoningMode, ResponsesCapabilities,
};

fn folder(format: Format) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/requests")
        .join(format.as_str())
}

/// The requests of a format: files without `.to-` in their names.
fn cases(format: Format) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder(format)).unwrap();
    let mut cases: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| !path.to_string_lossy().contains(".to-"))
        .collect();
    cases.sort();
    cases
}

/// What a case says of its target that differs from the format's own provider.
struct Setting {
    lossy: Vec<String>,
    efforts: Vec<Effort>,
    reasoning: ReasoningMode,
    max_output_tokens: Option<u64>,
    /// A chat provider that knows the old fields alone.
    plain: bool,
    /// A model that takes budgets for thinking, and of messages no instructions in the middle.
    older: bool,
    /// A provider that searches the web.
    search: bool,
}

impl Setting {
    fn of(case: &Value) -> Self {
        let target = &case["target"];
        let list = |name: &str| match target[name].is_null() {
            true => json!([]),
            false => target[name].clone(),
        };
        let reasoning = match &target["reasoning"] {
            Value::Null => json!("provider_default"),
            mode => mode.clone(),
        };
        Self {
            lossy: serde_json::from_value(list("lossy")).unwrap(),
            efforts: serde_json::from_value(list("efforts")).unwrap(),
            reasoning: serde_json::from_value(reasoning).unwrap(),
            max_output_tokens: target["max_output_tokens"].as_u64(),
            plain: target["plain"] == true,
            older: target["older"] == true,
            search: target["search"] == true,
        }
    }

    fn target(&self, to: Format) -> Target<'_> {
        // Whose model it is decides what a provider of converse is sent.
        let model = match to {
            Format::Converse => "anthropic.claude-upstream",
            _ => "upstream-model",
        };
        let own = Target::new(model, "backend");
        Target {
            efforts: &self.efforts,
            reasoning: self.reasoning,
            max_output_tokens: self.max_output_tokens,
            cache_breakpoints: !self.plain,
            thinking_levels: !self.older,
            lossy: Lossy(&self.lossy),
            chat: match self.plain {
                true => ChatCapabilities {
                    max_completion_tokens: false,
                    stream_options: true,
                    developer_role: false,
                    system_in_the_middle: false,
                    effort_with_tools: true,
                    reasoning_content: true,
                    top_k: true,
                    custom_tools: false,
                    short_call_ids: false,
                    openai: false,
                },
                false => own.chat,
            },
            responses: ResponsesCapabilities {
                web_search: self.search,
                ..own.responses
            },
            messages: MessagesCapabilities {
                system_in_the_middle: !self.older,
                adaptive_thinking: !self.older,
                web_search: self.search,
                ..own.messages
            },
            ..own
        }
    }
}

fn outcome(from: Format, to: Format, case: &Value) -> Value {
    let setting = Setting::of(case);
    let body = serde_json::to_vec(&case["request"]).unwrap();
    match request(from, to, &body, &setting.target(to)) {
        Err(refusal) => json!({"refused": refusal.to_string()}),
        Ok(translated) => {
            let body: Value = serde_json::from_slice(&translated.body).unwrap();
            // The types of the SDKs of the formats that clients speak are at hand.
            if !setting.plain && Format::OF_CLIENTS.contains(&to) {
                sdk::assert_known(to, &body);
            }
            match translated.dropped.as_slice() {
                [] => json!({"body": body}),
                dropped => json!({"dropped": dropped, "body": body}),
            }
        }
    }
}

#[test]
fn every_request_becomes_what_stands_beside_it() {
    let mut stale = Vec::new();
    for from in Format::OF_CLIENTS {
        for path in cases(from) {
            let case = std::fs::read_to_string(&path).unwrap();
            let case: Value = serde_json::from_str(&case).unwrap();
            for to in Format::OF_CONVERSATIONS
                .into_iter()
                .filter(|to| *to != from)
            {
                let found = outcome(from, to, &case);
                let found = serde_json::to_string_pretty(&found).unwrap() + "\n";
                let beside = path.with_extension(format!("to-{to}.json"));
                if std::env::var_os("TOLLGATE_BLESS").is_some() {
                    std::fs::write(&beside, &found).unwrap();
                }
                let expected = std::fs::read_to_string(&beside).unwrap_or_default();
                if expected != found {
                    stale.push(format!("{}\nbut found:\n{found}", beside.display()));
                }
            }
        }
    }
    assert!(
        stale.is_empty(),
        "expected what stands in {}",
        stale.join("\n")
    );
}
