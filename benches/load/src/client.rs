//! The load client: closed-loop connections that send prebuilt requests and check answers.
//!
//! It shares its core with the provider, so it does as little as it can per answer: one write,
//! as many reads as the kernel makes of it, one scan of the framing. Counters are read from
//! outside while the load runs, so that a window of measurement needs no start or stop of its
//! own. One wrong answer ends the load: a proxy that fails quickly must not look fast.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::failure::{Failure, Result};
use crate::response::{Answer, ResponseReader};
use crate::workload::{Expected, Workload};

/// Longest wait for one answer to begin, go on, or be taken in.
const PATIENCE: Duration = Duration::from_secs(10);
/// Read buffer of a connection that moves data.
const READ_BUFFER: usize = 64 * 1024;
/// Bytes of a wrong answer's body that its fault shows.
const SHOWN: usize = 300;

/// The contender under load, and how it is asked.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Where to connect.
    pub(crate) address: SocketAddr,
    /// Bearer token, for a gateway that needs one.
    pub(crate) credential: Option<String>,
}

/// Running totals over all connections of a load.
#[derive(Debug, Default)]
struct Counters {
    answers: AtomicU64,
    events: AtomicU64,
    http_chunks: AtomicU64,
    recording: AtomicBool,
    stopped: AtomicBool,
}

/// Totals at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Complete, right answers.
    pub(crate) answers: u64,
    /// Server-sent events, wherever they stood in chunks.
    pub(crate) events: u64,
    /// HTTP chunks; fewer than events when a proxy joins them.
    pub(crate) http_chunks: u64,
}

impl Totals {
    /// What has come in since an earlier look.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            answers: self.answers.saturating_sub(earlier.answers),
            events: self.events.saturating_sub(earlier.events),
            http_chunks: self.http_chunks.saturating_sub(earlier.http_chunks),
        }
    }
}

/// Connections under way. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Load {
    counters: Arc<Counters>,
    connections: JoinSet<Result<Vec<f64>>>,
}

impl Load {
    /// Opens the workload's connections, or `connections` of them, and begins to ask.
    pub(crate) fn start(target: &Target, workload: &Workload, connections: usize) -> Self {
        let request = workload.request(target.credential.as_deref());
        Self::of_requests(
            target.address,
            &vec![request].into(),
            workload.answer,
            connections,
        )
    }

    /// Opens `connections` that together send every one of the requests, again and again.
    pub(crate) fn of_requests(
        address: SocketAddr,
        requests: &Arc<[Vec<u8>]>,
        expected: Expected,
        connections: usize,
    ) -> Self {
        let counters = Arc::new(Counters::default());
        let mut tasks = JoinSet::new();
        for first in 0..connections {
            let connection = Connection {
                address,
                requests: Arc::clone(requests),
                first,
                step: connections,
                expected,
                counters: Arc::clone(&counters),
            };
            tasks.spawn(connection.ask_until_stopped());
        }
        Self {
            counters,
            connections: tasks,
        }
    }

    /// The totals so far.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            answers: self.counters.answers.load(Relaxed),
            events: self.counters.events.load(Relaxed),
            http_chunks: self.counters.http_chunks.load(Relaxed),
        }
    }

    /// From now on, latencies are kept.
    pub(crate) fn record_latencies(&self) {
        self.counters.recording.store(true, Relaxed);
    }

    /// Waits until `events` events have come in.
    pub(crate) async fn until_events(&mut self, events: u64) -> Result<()> {
        self.until("streams to begin", events, |totals| totals.events)
            .await
    }

    /// Waits until `answers` answers have come in.
    pub(crate) async fn until_answers(&mut self, answers: u64) -> Result<()> {
        self.until("answers", answers, |totals| totals.answers)
            .await
    }

    /// Gives up when nothing has come in for [`PATIENCE`].
    async fn until(&mut self, what: &str, all: u64, count: fn(&Totals) -> u64) -> Result<()> {
        let (mut before, mut changed) = (0, Instant::now());
        loop {
            let now = count(&self.totals());
            if now >= all {
                return Ok(());
            }
            if let Some(ended) = self.connections.try_join_next() {
                flatten(ended)?;
            }
            if now != before {
                (before, changed) = (now, Instant::now());
            }
            if changed.elapsed() > PATIENCE {
                return Err(Failure::TooSlow {
                    what: format!("{now} of {all} {what}"),
                    limit: PATIENCE,
                });
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Lets requests in flight end and hands out the latencies in microseconds, ascending.
    ///
    /// # Errors
    /// The first wrong answer or broken connection of the whole load.
    pub(crate) async fn finish(mut self) -> Result<Vec<f64>> {
        self.counters.stopped.store(true, Relaxed);
        let mut latencies = Vec::new();
        while let Some(ended) = self.connections.join_next().await {
            latencies.append(&mut flatten(ended)?);
        }
        latencies.sort_by(f64::total_cmp);
        Ok(latencies)
    }
}

fn flatten<T>(ended: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    ended.map_err(|fault| Failure::WrongAnswer(format!("a connection's task failed: {fault}")))?
}

/// Asks once and returns the answer with its body, checked.
pub(crate) async fn ask_once(target: &Target, workload: &Workload) -> Result<Vec<u8>> {
    let mut stream = connect(target.address).await?;
    let request = workload.request(target.credential.as_deref());
    let mut reader = reader_for(&workload.answer);
    let mut buffer = vec![0; READ_BUFFER];
    let mut body = Vec::new();
    bounded("the request to be taken", stream.write_all(&request)).await?;
    while !reader.is_done() {
        let piece = read_some(&mut stream, &mut buffer).await?;
        reader.feed(piece, |bytes| body.extend_from_slice(bytes))?;
    }
    check(reader.answer(), &workload.answer)
        .map_err(|fault| with_body(fault, &body))
        .map(|()| body)
}

/// A refusal usually says why.
fn with_body(fault: Failure, body: &[u8]) -> Failure {
    let shown = String::from_utf8_lossy(body.get(..body.len().min(SHOWN)).unwrap_or_default());
    match fault {
        Failure::WrongAnswer(what) => Failure::WrongAnswer(format!("{what} {}", shown.trim())),
        other => other,
    }
}

struct Connection {
    address: SocketAddr,
    requests: Arc<[Vec<u8>]>,
    /// The place of its first request, and how many the connections send together in a turn.
    first: usize,
    step: usize,
    expected: Expected,
    counters: Arc<Counters>,
}

impl Connection {
    async fn ask_until_stopped(self) -> Result<Vec<f64>> {
        let mut stream = connect(self.address).await?;
        let mut reader = reader_for(&self.expected);
        let mut buffer = vec![0; READ_BUFFER];
        let mut latencies = Vec::new();
        let mut shown = Vec::with_capacity(SHOWN);
        let places = (self.first..).step_by(self.step);
        let mut requests =
            places.map(|place| self.requests.get(place % self.requests.len().max(1)));
        while !self.counters.stopped.load(Relaxed) {
            let Some(request) = requests.next().flatten() else {
                break;
            };
            let begun = Instant::now();
            reader.reset();
            shown.clear();
            bounded("the request to be taken", stream.write_all(request)).await?;
            while !reader.is_done() {
                let before = *reader.answer();
                let piece = read_some(&mut stream, &mut buffer).await?;
                reader.feed(piece, |bytes| {
                    let room = SHOWN.saturating_sub(shown.len()).min(bytes.len());
                    shown.extend_from_slice(bytes.get(..room).unwrap_or_default());
                })?;
                self.count(&before, reader.answer());
                if self.is_cut_short() {
                    return Ok(latencies);
                }
            }
            check(reader.answer(), &self.expected).map_err(|fault| with_body(fault, &shown))?;
            self.counters.answers.fetch_add(1, Relaxed);
            if self.counters.recording.load(Relaxed) {
                latencies.push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(latencies)
    }

    fn count(&self, before: &Answer, now: &Answer) {
        if matches!(self.expected, Expected::Stream { .. }) {
            self.counters
                .events
                .fetch_add(now.events - before.events, Relaxed);
            self.counters
                .http_chunks
                .fetch_add(now.http_chunks - before.http_chunks, Relaxed);
        }
    }

    /// Streams are long: the client does not wait for their end once the load is stopped.
    fn is_cut_short(&self) -> bool {
        matches!(self.expected, Expected::Stream { .. }) && self.counters.stopped.load(Relaxed)
    }
}

fn reader_for(expected: &Expected) -> ResponseReader {
    match expected {
        Expected::Whole { .. } | Expected::Translated { .. } => ResponseReader::default(),
        Expected::Stream { .. } => ResponseReader::counting_events(),
    }
}

pub(crate) async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = bounded("a connection", TcpStream::connect(address)).await?;
    stream
        .set_nodelay(true)
        .map_err(|source| Failure::io("set TCP_NODELAY", source))?;
    Ok(stream)
}

pub(crate) async fn read_some<'a>(
    stream: &mut TcpStream,
    buffer: &'a mut [u8],
) -> Result<&'a [u8]> {
    let read = bounded("the answer", stream.read(buffer)).await?;
    match buffer.get(..read) {
        Some(piece) if !piece.is_empty() => Ok(piece),
        _ => Err(Failure::WrongAnswer(
            "the connection was closed inside an answer".to_owned(),
        )),
    }
}

pub(crate) async fn bounded<T>(
    what: &str,
    step: impl Future<Output = std::io::Result<T>>,
) -> Result<T> {
    timeout(PATIENCE, step)
        .await
        .map_err(|_| Failure::TooSlow {
            what: what.to_owned(),
            limit: PATIENCE,
        })?
        .map_err(|source| Failure::io(format!("wait for {what}"), source))
}

fn whole(answer: &Answer) -> usize {
    usize::try_from(answer.body_bytes).unwrap_or(usize::MAX)
}

fn check(answer: &Answer, expected: &Expected) -> Result<()> {
    if answer.status != 200 {
        return Err(Failure::WrongAnswer(format!("status {}", answer.status)));
    }
    match *expected {
        // A gateway may rename the model in the answer, which moves the length by a few bytes.
        Expected::Whole { bytes } if answer.body_bytes.abs_diff(bytes as u64) > 64 => Err(
            Failure::WrongAnswer(format!("{} bytes instead of {bytes}", answer.body_bytes)),
        ),
        Expected::Translated { bytes } if !(bytes / 4..bytes * 4).contains(&whole(answer)) => Err(
            Failure::WrongAnswer(format!("{} bytes from {bytes}", answer.body_bytes)),
        ),
        Expected::Stream { events } if answer.events < events => Err(Failure::WrongAnswer(
            format!("{} events instead of {events}", answer.events),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
