//! The CPU of each process, and how a process is started so that it stays there.
//!
//! Pinning, open-file limits and the end of a child with its parent are all left to the small
//! programs of util-linux that exist for them (`taskset`, `prlimit`, `setpriv`): each sets its
//! one thing and then becomes the next program, so the process id stays that of the program
//! under test. Where one is missing, the comparison still runs and says what it lacks.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::procfs;

/// Open files that every process of a comparison gets where the hard limit allows it: two for each
/// stream.
pub(crate) const OPEN_FILES: u64 = 8_192;

/// Which CPU the proxy has for itself, and which the others share.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// CPU of the proxy under test; `None` when nothing is pinned.
    pub(crate) proxy_cpu: Option<usize>,
    /// CPU of provider and load client.
    pub(crate) client_cpu: Option<usize>,
    /// What could not be had, for the report.
    pub(crate) shortcomings: Vec<String>,
    #[serde(skip)]
    open_files: Option<u64>,
    #[serde(skip)]
    dies_with_parent: bool,
}

/// Which side of the comparison a process is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The proxy under test.
    Proxy,
    /// The provider.
    Provider,
}

impl Machine {
    /// Looks at what this machine offers and, unless all processes are to share its CPUs, pins the
    /// calling process, which must not have started other threads yet, to the client's.
    /// Every process, this one included, may have `open_files` where the hard limit allows it.
    pub(crate) fn prepare(shared: bool, open_files: u64) -> Result<Self> {
        let mut machine = Self {
            proxy_cpu: None,
            client_cpu: None,
            shortcomings: Vec::new(),
            open_files: None,
            dies_with_parent: is_installed("setpriv"),
        };
        if shared {
            machine.lacks("NOT PINNED, as asked for: all processes share every CPU");
        } else {
            machine.pin()?;
        }
        if is_installed("prlimit") {
            let limit = open_files.min(procfs::hard_open_files_limit()?);
            let pid = std::process::id().to_string();
            run_quietly("prlimit", &[&format!("--nofile={limit}:"), "--pid", &pid]);
            machine.open_files = Some(limit);
        } else {
            machine.lacks("prlimit is missing: many streams may run out of open files");
        }
        if !machine.dies_with_parent {
            machine.lacks("setpriv is missing: a killed comparison may leave proxies behind");
        }
        Ok(machine)
    }

    fn pin(&mut self) -> Result<()> {
        let cpus = procfs::allowed_cpus()?;
        let (Some(proxy), Some(client)) = (cpus.first(), cpus.get(1)) else {
            self.lacks("NOT PINNED: only one CPU; everything shares it");
            return Ok(());
        };
        let pid = std::process::id().to_string();
        if run_quietly("taskset", &["-c", "-p", &client.to_string(), &pid]) {
            (self.proxy_cpu, self.client_cpu) = (Some(*proxy), Some(*client));
        } else {
            self.lacks("NOT PINNED: taskset does not work here; ratios are rough");
        }
        Ok(())
    }

    fn lacks(&mut self, what: &str) {
        self.shortcomings.push(what.to_owned());
    }

    /// Open files that a started process may have.
    pub(crate) fn open_files(&self) -> Option<u64> {
        self.open_files
    }

    /// A command that runs `program` on its side's CPU.
    pub(crate) fn command(&self, side: Side, program: &str, arguments: &[String]) -> Command {
        let mut words = self.wrappers(side);
        words.push(program.to_owned());
        words.extend_from_slice(arguments);
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stdin(Stdio::null());
        command
    }

    fn wrappers(&self, side: Side) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(limit) = self.open_files {
            words.extend(["prlimit".to_owned(), format!("--nofile={limit}:")]);
        }
        if self.dies_with_parent {
            words.extend(["setpriv", "--pdeathsig", "KILL"].map(str::to_owned));
        }
        let cpu = match side {
            Side::Proxy => self.proxy_cpu,
            Side::Provider => self.client_cpu,
        };
        if let Some(cpu) = cpu {
            words.extend(["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
        }
        words
    }
}

/// A loopback address that was free when it was looked up.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let found = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    address_of(found)
}

/// As many different ones.
pub(crate) fn free_addresses(count: usize) -> Result<Vec<SocketAddr>> {
    // All are bound until the last is found.
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let found: Vec<_> = (0..count).map(bind).collect();
    found.into_iter().map(address_of).collect()
}

fn address_of(found: io::Result<TcpListener>) -> Result<SocketAddr> {
    found
        .and_then(|listener| listener.local_addr())
        .map_err(|source| Failure::io("find a free port", source))
}

/// Whether `program --version` runs.
pub(crate) fn is_installed(program: &str) -> bool {
    run_quietly(program, &["--version"])
}

/// Runs a short helper to its end; true when it succeeded.
pub(crate) fn run_quietly(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    impl Machine {
        /// A machine that lacks everything, for tests of what is made of one.
        pub(crate) fn unpinned(shortcoming: &str) -> Self {
            let shortcomings = vec![shortcoming.to_owned()];
            Self {
                shortcomings,
                ..machine(None, None)
            }
        }
    }

    fn machine(proxy_cpu: Option<usize>, open_files: Option<u64>) -> Machine {
        Machine {
            proxy_cpu,
            client_cpu: proxy_cpu.map(|cpu| cpu + 1),
            shortcomings: Vec::new(),
            open_files,
            dies_with_parent: proxy_cpu.is_some(),
        }
    }

    #[test]
    fn the_proxy_and_the_provider_run_on_different_cpus() {
        let machine = machine(Some(0), Some(64));
        let proxy = machine.command(Side::Proxy, "nginx", &["-c".to_owned(), "x".to_owned()]);
        assert_eq!(
            words(&proxy).join(" "),
            "prlimit --nofile=64: setpriv --pdeathsig KILL taskset -c 0 nginx -c x"
        );
        let provider = machine.command(Side::Provider, "sim", &[]);
        assert!(words(&provider).join(" ").ends_with("taskset -c 1 sim"));
    }

    #[test]
    fn without_the_small_programs_the_command_runs_as_it_is() {
        let command = machine(None, None).command(Side::Proxy, "nginx", &[]);
        assert_eq!(words(&command), ["nginx"]);
    }

    #[test]
    fn free_addresses_are_on_loopback_and_can_be_bound() {
        let address = free_address().unwrap();
        assert!(address.ip().is_loopback());
        TcpListener::bind(address).unwrap();
    }
}
