//! The comparison itself: the order of the contenders, and the recorded figures.
//!
//! Contenders alternate within every round, in an order that turns from round to round, so
//! that a machine that gets slower or busier does so to all of them. The primary figure is
//! work per second of the proxy's own CPU time: it stays true when the client is the
//! bottleneck. A window begins when the load has warmed up and ends before it is stopped.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::{self, Load, Target, Totals};
use crate::contender::{Contender, Running, own_binary};
use crate::failure::{Failure, Result};
use crate::machine::{self, Machine, Side};
use crate::process::Process;
use crate::procfs;
use crate::record::Record;
use crate::statistics::percentile_of_sorted;
use crate::syscalls;
use crate::workload::{LARGE_REQUEST, RATES, SILENT_STREAMS, SMALL, Workload};

/// Load before a window opens: connections are made, caches and pools are warm.
const WARM_UP: Duration = Duration::from_millis(200);
/// Quiet time between the first answer and the look at idle memory.
pub(crate) const SETTLE: Duration = Duration::from_millis(300);
/// How many times as many silent streams are opened: recycled memory is touched memory.
const STREAM_WAVES: usize = 3;
/// Rounds after which processes are replaced. How a process's heap has come to lie can change
/// what it costs by half, for as long as it lives; one life would be one draw of a lot.
const ROUNDS_PER_LIFE: usize = 3;
/// Files that a proxy needs besides two for each stream.
const SPARE_FILES: u64 = 64;

/// How long and how often.
#[derive(Debug, Clone)]
pub(crate) struct Effort {
    /// Alternating rounds of every load.
    pub(crate) rounds: usize,
    /// Fresh starts of every contender, for start-up time and memory.
    pub(crate) starts: usize,
    /// Length of a window.
    pub(crate) window: Duration,
    /// Parts to run: workload ids, `latency`, `start`; empty for all.
    pub(crate) only: Vec<String>,
    /// Count system calls with strace at the end.
    pub(crate) syscalls: bool,
}

impl Effort {
    fn includes(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == part)
    }
}

/// Runs everything and fills in `record`.
///
/// # Errors
/// Only when nothing can be measured at all; what goes wrong for one contender is noted in
/// the record.
pub(crate) async fn run(
    machine: &Machine,
    contenders: &[Contender],
    effort: &Effort,
    record: &mut Record,
) -> Result<()> {
    let provider = Provider::start(machine, 1).await?;
    let mut run = Run {
        machine,
        contenders,
        effort,
        record,
        provider,
    };
    if effort.includes("start") {
        run.measure_starts().await?;
    }
    for workload in &RATES {
        if effort.includes(workload.id) {
            run.measure_rates(workload).await?;
        }
    }
    for (part, workload) in [("latency", &SMALL), ("latency-100k", &LARGE_REQUEST)] {
        if effort.includes(part) {
            run.measure_latencies(part, workload).await?;
        }
    }
    if effort.syscalls {
        run.count_syscalls().await;
    }
    Ok(())
}

/// The items, beginning with another one in every round and backwards in every second.
pub(crate) fn in_turn<T>(items: &[T], round: usize) -> impl Iterator<Item = &T> {
    let count = items.len();
    (0..count).filter_map(move |place| {
        let place = if round.is_multiple_of(2) {
            place
        } else {
            count - 1 - place
        };
        items.get((place + round / 2) % count)
    })
}

/// The provider behind every contender.
pub(crate) struct Provider {
    process: Process,
    target: Target,
    /// Where it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    _folder: tempfile::TempDir,
}

impl Provider {
    /// Starts one that listens on this many addresses.
    pub(crate) async fn start(machine: &Machine, addresses: usize) -> Result<Self> {
        let folder = tempfile::tempdir()
            .map_err(|source| Failure::io("create a temporary folder", source))?;
        let addresses = machine::free_addresses(addresses)?;
        let listen: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let arguments = ["provider", "--listen", &listen.join(",")].map(str::to_owned);
        let command = machine.command(Side::Provider, &own_binary()?, &arguments);
        let mut process = Process::start("provider", command, folder.path())?;
        let target = Target {
            address: *addresses.first().ok_or_else(no_address)?,
            credential: None,
        };
        process.until_first_answer(&target, &SMALL).await?;
        Ok(Self {
            process,
            target,
            addresses,
            _folder: folder,
        })
    }

    /// Without one every contender fails, and none is to blame.
    pub(crate) fn fail_if_ended(&mut self) -> Result<()> {
        self.process.fail_if_ended()
    }
}

fn no_address() -> Failure {
    Failure::Usage("the provider needs an address".to_owned())
}

/// A comparison under way.
struct Run<'a> {
    machine: &'a Machine,
    contenders: &'a [Contender],
    effort: &'a Effort,
    record: &'a mut Record,
    provider: Provider,
}

impl<'a> Run<'a> {
    async fn measure_starts(&mut self) -> Result<()> {
        for start in 0..self.effort.starts {
            self.begin("start", start, self.effort.starts)?;
            for contender in in_turn(self.contenders, start) {
                let measured = self.measure_start(contender).await;
                self.record.note_failure(&contender.name, "start", measured);
            }
        }
        Ok(())
    }

    /// One fresh start: time to the first answer, idle memory, memory per silent stream.
    async fn measure_start(&mut self, contender: &Contender) -> Result<()> {
        let mut running = contender
            .start(self.machine, self.provider.target.address)
            .await?;
        let answered = running
            .process
            .until_first_answer(&running.target, &SMALL)
            .await?;
        let first_answer = answered.duration_since(running.started).as_secs_f64() * 1e3;
        running.until_watched().await?;
        sleep(SETTLE).await;
        let idle = running.process.resident_bytes()? as f64;
        let streams = silent_streams(self.machine);
        let mut per_stream = Vec::new();
        for _ in 0..STREAM_WAVES {
            let mut load = Load::start(&running.target, &SILENT_STREAMS, streams);
            load.until_events(streams as u64).await?;
            let loaded = running.process.resident_bytes()? as f64;
            per_stream.push((loaded - idle) / 1024.0 / streams as f64);
            drop(load);
            sleep(SETTLE).await;
        }
        self.record
            .add("start.first_answer", &contender.name, first_answer);
        self.record
            .add("start.idle", &contender.name, idle / (1024.0 * 1024.0));
        if let [fresh, .., later] = *per_stream.as_slice() {
            self.record.add("start.per_stream", &contender.name, fresh);
            self.record
                .add("start.per_stream_later", &contender.name, later);
        }
        Ok(())
    }

    async fn measure_rates(&mut self, workload: &Workload) -> Result<()> {
        let mut running = Vec::new();
        for round in 0..self.effort.rounds {
            self.begin(workload.id, round, self.effort.rounds)?;
            if round.is_multiple_of(ROUNDS_PER_LIFE) {
                self.restart(&mut running, workload).await;
            }
            for (name, contender) in in_turn(&running, round) {
                let load = Load::start(&contender.target, workload, workload.connections);
                let process = &contender.process;
                let measured =
                    measure_window(self.machine, process, load, self.effort.window).await;
                let measured = contender.check_watched().and(measured);
                let measured =
                    measured.map(|window| add_rates(self.record, name, workload, &window));
                self.record.note_failure(name, workload.id, measured);
            }
        }
        Ok(())
    }

    async fn measure_latencies(&mut self, part: &str, workload: &Workload) -> Result<()> {
        let mut running = Vec::new();
        let length = self.effort.window / 2;
        for round in 0..self.effort.rounds {
            self.begin(part, round, self.effort.rounds)?;
            if round.is_multiple_of(ROUNDS_PER_LIFE) {
                self.restart(&mut running, workload).await;
            }
            let direct = latencies(&self.provider.target, workload, length).await?;
            self.record
                .add(&format!("{part}.p50"), "direct", direct.p50);
            for (name, contender) in in_turn(&running, round) {
                let measured = latencies(&contender.target, workload, length).await;
                let measured = contender.check_watched().and(measured).map(|measured| {
                    let mut add =
                        |what: &str, value| self.record.add(&format!("{part}.{what}"), name, value);
                    add("p50", measured.p50);
                    add("added_p50", measured.p50 - direct.p50);
                    add("added_p99", measured.p99 - direct.p99);
                });
                self.record.note_failure(name, part, measured);
            }
        }
        Ok(())
    }

    async fn count_syscalls(&mut self) {
        let mut running = Vec::new();
        self.restart(&mut running, &SMALL).await;
        for (name, contender) in &running {
            let counted = syscalls::count(contender.process.pid(), &contender.target).await;
            let counted = counted.map(|counts| self.record.add_syscalls(name, counts));
            self.record.note_failure(name, "syscalls", counted);
        }
    }

    /// Says where the run is, and ends it when the provider is gone.
    fn begin(&mut self, part: &str, round: usize, rounds: usize) -> Result<()> {
        eprintln!("… {part}: {} of {rounds}", round + 1);
        self.record.begin_round(part);
        self.provider.fail_if_ended()
    }

    /// Replaces the processes by new ones that answer the workload rightly.
    async fn restart(&mut self, running: &mut Vec<(&'a str, Running)>, workload: &Workload) {
        running.clear();
        for contender in self.contenders {
            match self.start_and_check(contender, workload).await {
                Ok(process) => running.push((contender.name.as_str(), process)),
                Err(fault) => self
                    .record
                    .note_failure(&contender.name, workload.id, Err(fault)),
            }
        }
    }

    async fn start_and_check(&self, contender: &Contender, workload: &Workload) -> Result<Running> {
        let mut running = contender
            .start(self.machine, self.provider.target.address)
            .await?;
        running
            .process
            .until_first_answer(&running.target, &SMALL)
            .await?;
        running.until_watched().await?;
        let answer = client::ask_once(&running.target, workload).await?;
        workload.check_text(&answer, contender.writes(workload.speaks))?;
        Ok(running)
    }
}

/// As many streams as the open-file limit allows, at most the workload's.
fn silent_streams(machine: &Machine) -> usize {
    let by_files = machine
        .open_files()
        .unwrap_or(1_024)
        .saturating_sub(SPARE_FILES)
        / 2;
    SILENT_STREAMS
        .connections
        .min(usize::try_from(by_files).unwrap_or(usize::MAX))
}

/// What happened between two looks at a load and at the proxy under it.
pub(crate) struct Window {
    /// What came in.
    pub(crate) totals: Totals,
    /// CPU time of the proxy.
    pub(crate) cpu: Duration,
    /// Time between the looks.
    pub(crate) elapsed: Duration,
    /// CPU time that processes from outside took on the proxy's CPU, where it has one.
    pub(crate) others: Option<Duration>,
}

/// Measures a load that begins, and ends it.
pub(crate) async fn measure_window(
    machine: &Machine,
    proxy: &Process,
    load: Load,
    length: Duration,
) -> Result<Window> {
    let busy = || machine.proxy_cpu.map(procfs::busy_time).transpose();
    sleep(WARM_UP).await;
    let (begun, totals) = (Instant::now(), load.totals());
    let (cpu_before, busy_before) = (proxy.cpu_time()?, busy()?);
    sleep(length).await;
    let (totals, elapsed) = (load.totals().since(&totals), begun.elapsed());
    let cpu = proxy.cpu_time()?.saturating_sub(cpu_before);
    let others = busy()?
        .zip(busy_before)
        .map(|(now, before)| now.saturating_sub(before).saturating_sub(cpu));
    load.finish().await?;
    Ok(Window {
        totals,
        cpu,
        elapsed,
        others,
    })
}

fn add_rates(record: &mut Record, name: &str, workload: &Workload, window: &Window) {
    let work = if workload.is_stream() {
        window.totals.events
    } else {
        window.totals.answers
    };
    let (work, cpu, elapsed) = (
        work as f64,
        window.cpu.as_secs_f64(),
        window.elapsed.as_secs_f64(),
    );
    let mut add = |what: &str, value| record.add(&format!("{}.{what}", workload.id), name, value);
    add("per_cpu_second", work / cpu);
    add("cpu_us", cpu / work * 1e6);
    add("busy", cpu / elapsed * 100.0);
    if let Some(others) = window.others {
        add("others", others.as_secs_f64() / elapsed * 100.0);
    }
    if workload.is_stream() {
        add("joined", work / window.totals.http_chunks as f64);
    } else {
        add("per_second", work / elapsed);
    }
}

struct Latencies {
    p50: f64,
    p99: f64,
}

async fn latencies(target: &Target, workload: &Workload, length: Duration) -> Result<Latencies> {
    let load = Load::start(target, workload, 1);
    sleep(WARM_UP / 2).await;
    load.record_latencies();
    sleep(length).await;
    let sorted = load.finish().await?;
    let at = |percent| percentile_of_sorted(&sorted, percent).unwrap_or(f64::NAN);
    Ok(Latencies {
        p50: at(50.0),
        p99: at(99.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(count: usize, round: usize) -> Vec<usize> {
        in_turn(&(0..count).collect::<Vec<_>>(), round)
            .copied()
            .collect()
    }

    #[test]
    fn every_contender_has_one_turn_in_every_round() {
        for round in 0..10 {
            let mut turns = order(4, round);
            turns.sort_unstable();
            assert_eq!(turns, [0, 1, 2, 3]);
        }
        assert!(order(0, 3).is_empty());
    }

    #[test]
    fn two_contenders_take_turns_in_going_first() {
        assert_eq!([order(2, 0), order(2, 1)], [[0, 1], [1, 0]]);
    }

    #[test]
    fn with_more_contenders_none_always_follows_the_same_one() {
        let firsts: Vec<usize> = (0..6)
            .filter_map(|round| order(3, round).first().copied())
            .collect();
        for contender in 0..3 {
            assert!(firsts.contains(&contender), "{firsts:?}");
        }
    }
}
