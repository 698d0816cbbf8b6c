//! A gateway of one size: its ledger, which lives as long as the run, and its processes, one after
//! the other.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::dimension::{ASKED, Dimension, KEPT_OPEN};
use super::ledger;
use crate::client::{Load, Target};
use crate::compare::{SETTLE, measure_window};
use crate::contender::write_file;
use crate::failure::{Failure, Result};
use crate::gateway::create_key;
use crate::machine::{self, Machine, Side};
use crate::process::Process;

/// Streams that are opened at once: fewer than connections that the kernel lets wait.
const WAVE: u64 = 100;

const MIB: f64 = 1024.0 * 1024.0;

pub(super) struct Subject {
    dimension: Dimension,
    size: u64,
    keys: Vec<String>,
    requests: Arc<[Vec<u8>]>,
    running: Option<Running>,
    folder: tempfile::TempDir,
}

/// The streams are dropped before the process that serves them.
struct Running {
    listen: SocketAddr,
    _streams: Vec<Load>,
    process: Process,
}

/// Figures of a start.
pub(super) struct Started {
    /// Milliseconds from the start of the process to the first answer.
    pub(super) first_answer: f64,
    /// MiB after it.
    pub(super) idle: f64,
}

/// Figures of a window.
pub(super) struct Loaded {
    /// Microseconds of CPU time per request.
    pub(super) cpu_us: f64,
    /// MiB at its end.
    pub(super) resident: f64,
    /// Percent of the CPU that other processes used.
    pub(super) others: f64,
}

impl Subject {
    /// Makes the ledger.
    pub(super) async fn new(
        binary: &Path,
        dimension: Dimension,
        size: u64,
        provider: &[SocketAddr],
    ) -> Result<Self> {
        if !binary.is_file() {
            let what = format!("there is no gateway at {}", binary.display());
            return Err(Failure::Usage(what));
        }
        let folder = tempfile::tempdir()
            .map_err(|source| Failure::io("create a temporary folder", source))?;
        let mut subject = Self {
            dimension,
            size,
            keys: Vec::new(),
            requests: Arc::new([]),
            running: None,
            folder,
        };
        let (file, _) = subject.configure(provider)?;
        let first = create_key(binary, &file, &["--plan", "plenty"]).await?;
        let (keys, used) = (dimension.keys(size), dimension.used_keys(size));
        let path = subject.folder.path().join("tollgate.db");
        subject.keys = ledger::fill(&path, first, keys, used, dimension.records(size))?;
        subject.requests = dimension.requests(size, &subject.keys).into();
        Ok(subject)
    }

    fn configure(&self, provider: &[SocketAddr]) -> Result<(String, SocketAddr)> {
        let [listen, admin] = *machine::free_addresses(2)?.as_slice() else {
            return Err(Failure::Usage("there are no free ports".to_owned()));
        };
        let yaml = (self.dimension).configuration(self.size, listen, admin, provider);
        let file = write_file(self.folder.path(), "tollgate.yaml", &yaml)?;
        Ok((file, listen))
    }

    pub(super) fn stop(&mut self) {
        self.running = None;
    }

    /// Starts a process, sends every request once and opens the streams.
    pub(super) async fn start(
        &mut self,
        machine: &Machine,
        binary: &Path,
        provider: &[SocketAddr],
    ) -> Result<Started> {
        let (file, listen) = self.configure(provider)?;
        let arguments = ["serve", "--config", &file].map(str::to_owned);
        let command = machine.command(Side::Proxy, &binary.display().to_string(), &arguments);
        let begun = Instant::now();
        let name = format!("the gateway with {} {}", self.size, self.dimension.name());
        let mut process = Process::start(&name, command, self.folder.path())?;
        let target = Target {
            address: listen,
            credential: self.keys.first().cloned(),
        };
        let answered = process.until_first_answer(&target, &ASKED).await?;
        sleep(SETTLE).await;
        let idle = process.resident_bytes()? as f64 / MIB;
        let mut load = self.ask(listen);
        load.until_answers(self.requests.len() as u64).await?;
        load.finish().await?;
        let mut streams = Vec::new();
        let mut missing = self.dimension.streams(self.size);
        let mut keys = self.keys.iter().cycle();
        while missing > 0 {
            let wave = missing.min(WAVE);
            let target = Target {
                address: listen,
                credential: keys.next().cloned(),
            };
            let mut opening = Load::start(&target, &KEPT_OPEN, usize::try_from(wave).unwrap_or(0));
            opening.until_events(wave).await?;
            streams.push(opening);
            missing = missing.saturating_sub(wave);
        }
        self.running = Some(Running {
            listen,
            _streams: streams,
            process,
        });
        Ok(Started {
            first_answer: answered.duration_since(begun).as_secs_f64() * 1e3,
            idle,
        })
    }

    fn ask(&self, listen: SocketAddr) -> Load {
        Load::of_requests(listen, &self.requests, ASKED.answer, ASKED.connections)
    }

    /// One window of requests.
    pub(super) async fn load(&self, machine: &Machine, window: Duration) -> Result<Loaded> {
        let Some(running) = &self.running else {
            return Err(Failure::Usage("the gateway was not started".to_owned()));
        };
        let load = self.ask(running.listen);
        let window = measure_window(machine, &running.process, load, window).await?;
        let others = window.others.unwrap_or_default().as_secs_f64();
        Ok(Loaded {
            cpu_us: window.cpu.as_secs_f64() * 1e6 / window.totals.answers as f64,
            resident: running.process.resident_bytes()? as f64 / MIB,
            others: others / window.elapsed.as_secs_f64() * 100.0,
        })
    }
}
