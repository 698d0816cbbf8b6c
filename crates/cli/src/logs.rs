//! `tollgate logs`: what is known of one request, from the ledger and from logs.

use super::{ConfigFile, Failure, Outcome, print, print_line};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::{self, Write};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tollgate_config as config;
use tollgate_engine::keys;
use tollgate_ledger::RequestRecord;
use tollgate_types::{RequestId, is_hidden};

/// The longest line that is looked at; the gateway writes shorter ones.
const MOST_BYTES: u64 = 1 << 20;

/// The arguments of `logs`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// The request, by the `x-request-id` of its answer.
    #[arg(long, value_name = "ID", value_parser = request)]
    request: RequestId,
    /// A file with the standard output or standard error of the gateway; repeat for several, `-` is
    /// standard input. Without it only the ledger is searched.
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

fn request(text: &str) -> Result<RequestId, String> {
    let id = text.starts_with("req_").then(|| RequestId::from_text(text));
    id.flatten()
        .ok_or_else(|| "expected the x-request-id of an answer: req_ and 26 characters".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let id = &arguments.request;
    let mut trace = Trace::default();
    for path in &arguments.logs {
        trace.search(path, id.as_str())?;
    }
    let config = config::load(&arguments.config.path)?;
    let (path, is_on_server) = (&config.store.path, config.store.postgres.is_some());
    let ledger = match is_on_server {
        true => "the database of store.postgres".to_owned(),
        false => path.display().to_string(),
    };
    if is_on_server || path.exists() {
        trace.record = keys::open_store(&config)?.request(id)?;
    } else if arguments.logs.is_empty() {
        // Opening it would make an empty one.
        return Err(format!("there is no ledger at {ledger}").into());
    }
    if trace.is_empty() {
        let mut places = vec![ledger];
        places.extend(arguments.logs.iter().map(|path| path.display().to_string()));
        let places = places.join(", ");
        let advice = match arguments.logs.is_empty() {
            true => "; a request that cost nothing is in the log alone (--log FILE)",
            false => "",
        };
        let id = id.as_str();
        return Err(format!("the request {id} is not in {places}{advice}").into());
    }
    match arguments.json {
        true => print_line(serde_json::to_string_pretty(&trace)?),
        false => print(trace),
    }
}

/// The known facts about a request.
#[derive(Default, Serialize)]
struct Trace {
    /// In the ledger.
    record: Option<RequestRecord>,
    /// Its line in the access log.
    access: Option<Map<String, Value>>,
    /// Other lines of the log that name it: its failed attempts among them, in their order.
    lines: Vec<String>,
}

impl Trace {
    const fn is_empty(&self) -> bool {
        self.record.is_none() && self.access.is_none() && self.lines.is_empty()
    }

    /// Reads a log, line by line.
    fn search(&mut self, path: &Path, id: &str) -> Result<(), Failure> {
        let cannot = |fault: io::Error| format!("{} cannot be read: {fault}", path.display());
        let mut log: Box<dyn BufRead> = match path.to_str() {
            Some("-") => Box::new(io::stdin().lock()),
            _ => Box::new(BufReader::new(File::open(path).map_err(cannot)?)),
        };
        let mut line = Vec::new();
        loop {
            line.clear();
            // The rest of a longer line counts as a line.
            let read = log.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line);
            if read.map_err(cannot)? == 0 {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&line);
            if text.contains(id) {
                self.add_line(text.trim_end(), id);
            }
        }
    }

    fn add_line(&mut self, line: &str, id: &str) {
        // A supervisor can put a prefix before the object.
        let object = line.find('{').and_then(|at| line.get(at..));
        let object = object.and_then(|it| serde_json::from_str::<Map<_, _>>(it).ok());
        match object {
            Some(fields) if fields.get("id").and_then(Value::as_str) == Some(id) => {
                self.access = Some(fields);
            }
            _ => self.lines.push(line.to_owned()),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record.as_ref().and_then(|record| {
            let value = serde_json::to_value(record).ok()?;
            value.as_object().cloned()
        });
        let mut is_first = true;
        for (title, fields) in [
            ("LEDGER", record.as_ref()),
            ("ACCESS LOG", self.access.as_ref()),
        ] {
            let Some(fields) = fields else { continue };
            if !std::mem::take(&mut is_first) {
                f.write_char('\n')?;
            }
            writeln!(f, "{title}")?;
            table(f, fields)?;
        }
        if !self.lines.is_empty() {
            if !is_first {
                f.write_char('\n')?;
            }
            writeln!(f, "LOG")?;
            for line in &self.lines {
                writeln!(f, "{}", visible(line))?;
            }
        }
        Ok(())
    }
}

/// A line for each field that has a value; objects by their fields.
fn table(f: &mut fmt::Formatter<'_>, fields: &Map<String, Value>) -> fmt::Result {
    let mut rows = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::Object(inner) => {
                let parts = inner.iter().map(|(name, value)| format!("{name} {value}"));
                rows.push((name, parts.collect::<Vec<_>>().join(", ")));
            }
            Value::String(text) => rows.push((name, text.clone())),
            value => rows.push((name, value.to_string())),
        }
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        writeln!(f, "{name:width$}  {}", visible(&value))?;
    }
    Ok(())
}

/// Escapes control characters, and characters that hide or reorder text: the text may be a client's.
fn visible(text: &str) -> String {
    let escaped = |c: char| match is_hidden(c) {
        true => c.escape_default().collect::<String>(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_request_are_told_apart() {
        let mut trace = Trace::default();
        for line in [
            r#"host tollgate[7]: {"id":"req_1","status":200,"model":"a\u001b[2J\u202eb","error":null}"#,
            r#"{"id":"req_2","path":"/req_1"}"#,
            "[WARN] req_1: provider alpha: server_error, status 500",
        ] {
            trace.add_line(line, "req_1");
        }
        assert_eq!(trace.access.as_ref().unwrap()["status"], 200);
        assert_eq!(trace.lines.len(), 2);
        let shown = trace.to_string();
        assert!(shown.starts_with("ACCESS LOG\n"), "{shown}");
        assert!(shown.contains("model   a\\u{1b}[2J\\u{202e}b\n"), "{shown}");
        assert!(!shown.contains("error  "), "{shown}");
        assert!(shown.contains("\n\nLOG\n{\"id\":\"req_2\""), "{shown}");
    }
}
