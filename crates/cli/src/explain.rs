//! `tollgate explain`: a request from the standard input, and what would happen to it.

use super::ledger::existing;
use super::{ConfigFile, Failure, Outcome, note, print, print_line};
use clap::Args;
use std::io::{self, IsTerminal, Read};
use std::sync::Arc;
use tollgate_engine::keys;
use tollgate_explain::{ExplainOrder, Ground, explain};

/// The longest request that is read.
const MOST_BYTES: u64 = 64 << 20;

/// The arguments of `explain`; the request's body comes from the standard input.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// The key of the request: its id, the beginning of its text, or its text.
    #[arg(long)]
    key: String,
    /// The path of the endpoint, and its query.
    #[arg(long, default_value = "/v1/chat/completions")]
    path: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let config = existing(&arguments.config.path)?;
    let store = Arc::new(keys::open_store(&config)?);
    if io::stdin().is_terminal() {
        note("reading the body of the request from standard input; Ctrl-D ends it");
    }
    let mut request = Vec::new();
    let read = io::stdin()
        .lock()
        .take(MOST_BYTES)
        .read_to_end(&mut request);
    read.map_err(|fault| format!("the request cannot be read: {fault}"))?;
    let order = ExplainOrder {
        key: arguments.key.clone(),
        path: arguments.path.clone(),
        // Only the running gateway knows which model answers a conversation.
        session: None,
        request: match request.is_empty() {
            true => serde_json::Value::Null,
            false => serde_json::from_slice(&request)
                .map_err(|fault| format!("the request on the standard input: {fault}"))?,
        },
    };
    let ground = Ground {
        config: &config,
        store: &store,
        accounts: None,
        running: None,
    };
    let explanation = explain(&ground, &order).map_err(Failure::from)?;
    if arguments.json {
        print_line(serde_json::to_string_pretty(&explanation)?)
    } else {
        print(explanation)
    }
}
