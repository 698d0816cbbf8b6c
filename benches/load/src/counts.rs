//! How long a burst of `count_tokens` takes that the gateway answers itself.
//!
//! An agent that is to show its context asks for some twenty-six counts at once, of up to 35 KB
//! each. All are asked here over connections of their own, opened before, and the time is that
//! from the first byte of the first request to the last byte of the last answer. The gateway may
//! use every CPU, and the client takes its part of them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client;
use crate::contender::{own_binary, write_file};
use crate::failure::{Failure, Result};
use crate::gateway::create_key;
use crate::machine;
use crate::process::Process;
use crate::response::ResponseReader;
use crate::statistics::percentile_of_sorted;

/// Counts at once.
const CALLS: usize = 26;
/// Bytes of text in each.
const SIZE: usize = 35_000;
/// Longest wait for the gateway to start and unpack its vocabulary.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Between two bursts: clients pause, too.
const PAUSE: Duration = Duration::from_millis(20);
/// Code and prose, one after the other, of which each call gets a part of its own.
const TEXTS: [&str; 4] = [
    include_str!("compare.rs"),
    include_str!("../../../docs/internals/performance.md"),
    include_str!("workload.rs"),
    include_str!("report.rs"),
];

/// How the burst is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The gateway [default: `tollgate` beside this binary]
    #[arg(long, value_name = "BINARY")]
    gateway: Option<PathBuf>,
    /// Bursts
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: u16,
}

/// Measures and prints.
///
/// # Errors
/// The gateway does not start, or an answer is not a count.
pub(crate) async fn measure(options: &Options) -> Result<bool> {
    let binary = match &options.gateway {
        Some(binary) => binary.clone(),
        None => Path::new(&own_binary()?).with_file_name("tollgate"),
    };
    let folder = tempfile::tempdir().map_err(|source| Failure::io("make a folder", source))?;
    let listen = machine::free_address()?;
    let yaml = configuration(listen, machine::free_address()?, machine::free_address()?);
    let file = write_file(folder.path(), "tollgate.yaml", &yaml)?;
    let key = create_key(&binary, &file, &["--plan", "plenty"]).await?;
    let mut command = Command::new(&binary);
    command.args(["serve", "--config", &file]);
    let mut process = Process::start("the gateway", command, folder.path())?;
    let requests: Vec<Vec<u8>> = (0..CALLS).map(|call| request(call, &key)).collect();
    until_ready(&mut process, listen, &requests).await?;
    let mut taken = Vec::new();
    let mut counted = None;
    for _ in 0..options.rounds {
        let (millis, counts) = burst(listen, &requests).await?;
        let first = counted.get_or_insert_with(|| counts.clone());
        if *first != counts {
            return Err(Failure::WrongAnswer(format!("{first:?}, then {counts:?}")));
        }
        taken.push(millis);
        process.fail_if_ended()?;
        sleep(PAUSE).await;
    }
    taken.sort_by(f64::total_cmp);
    let at = |percent| percentile_of_sorted(&taken, percent).unwrap_or(f64::NAN);
    let reported = format!(
        "{CALLS} count_tokens of {} KB at once, counted by the gateway, {} times: \
         median {:.1} ms, 99th percentile {:.1} ms, longest {:.1} ms\n",
        SIZE / 1000,
        options.rounds,
        at(50.0),
        at(99.0),
        at(100.0),
    );
    std::io::stdout()
        .write_all(reported.as_bytes())
        .map_err(|source| Failure::io("print the figures", source))?;
    Ok(true)
}

/// A model whose provider has no counter, and is never asked.
fn configuration(listen: SocketAddr, admin: SocketAddr, nobody: SocketAddr) -> String {
    format!(
        "\
server: {{ listen: [{{ address: '{listen}' }}] }}
admin: {{ listen: '{admin}' }}
store: {{ path: tollgate.db }}
keys: {{ pepper: 'literal:a pepper for a measurement and nothing else' }}
plans: {{ plenty: {{ tokens: 1G, validity: 365d }} }}
counting: {{ preload: true }}
filters: [headers, key, stored, model, context, {{ name: limits, count_tokens_per_minute: 1000000 }}, quota, errors]
providers: {{ nobody: {{ address: 'http://{nobody}', formats: [chat] }} }}
families: {{ open: {{ group: other, deployments: [nobody/gpt-4o] }} }}
models: {{ open: {{ family: open }} }}
"
    )
}

fn request(call: usize, key: &str) -> Vec<u8> {
    let text: String = TEXTS.concat();
    let said: String = text.chars().cycle().skip(call * 1_009).take(SIZE).collect();
    let body = serde_json::json!({
        "model": "open",
        "messages": [{"role": "user", "content": said}],
    })
    .to_string();
    let mut request = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        request,
        "POST /v1/messages/count_tokens HTTP/1.1\r\nhost: gateway\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    request.into_bytes()
}

/// Waits until the gateway counts.
async fn until_ready(
    process: &mut Process,
    gateway: SocketAddr,
    requests: &[Vec<u8>],
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let fault = match burst(gateway, requests).await {
            Ok(_) => return Ok(()),
            Err(fault) => fault,
        };
        process.fail_if_ended()?;
        if begun.elapsed() > START_LIMIT {
            return Err(fault);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Asks for all at once: milliseconds until the last answer, and the counts.
async fn burst(gateway: SocketAddr, requests: &[Vec<u8>]) -> Result<(f64, Vec<u64>)> {
    let mut connections = Vec::new();
    for request in requests {
        connections.push((client::connect(gateway).await?, request.clone()));
    }
    let begun = Instant::now();
    let mut calls = JoinSet::new();
    for (place, (connection, request)) in connections.into_iter().enumerate() {
        calls.spawn(async move { (place, ask(connection, &request).await) });
    }
    let mut counts = vec![0; requests.len()];
    while let Some(ended) = calls.join_next().await {
        let (place, count) = ended
            .map_err(|fault| Failure::WrongAnswer(format!("a call's task failed: {fault}")))?;
        if let Some(slot) = counts.get_mut(place) {
            *slot = count?;
        }
    }
    Ok((begun.elapsed().as_secs_f64() * 1e3, counts))
}

async fn ask(mut connection: TcpStream, request: &[u8]) -> Result<u64> {
    let mut reader = ResponseReader::default();
    let mut buffer = vec![0; 4 * 1024];
    let mut body = Vec::new();
    client::bounded("the request to be taken", connection.write_all(request)).await?;
    while !reader.is_done() {
        let piece = client::read_some(&mut connection, &mut buffer).await?;
        reader.feed(piece, |bytes| body.extend_from_slice(bytes))?;
    }
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let count = answer.get("input_tokens").and_then(|it| it.as_u64());
    // As many as there can be of such a text; a count by its length says fewer.
    match (reader.answer().status, count) {
        (200, Some(count)) if count > (SIZE / 6) as u64 => Ok(count),
        (status, _) => Err(Failure::WrongAnswer(format!(
            "status {status}: {}",
            String::from_utf8_lossy(&body)
        ))),
    }
}
