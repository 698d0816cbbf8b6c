//! A child process that never outlives its guard.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::{self, Target};
use crate::failure::{Failure, Result};
use crate::procfs;
use crate::workload::Workload;

/// Longest wait for a started process to answer its first request.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How much of a failed process's output is shown.
const SHOWN_OUTPUT: usize = 1_500;

/// A running child; dropping it kills and reaps it, by its process id.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts `command` with its standard error in a file of `folder`. Standard output is
    /// dropped: an access log of every request of a load would fill the disk.
    pub(crate) fn start(name: &str, mut command: Command, folder: &Path) -> Result<Self> {
        let output = folder.join("stderr.log");
        let file = File::create(&output)
            .map_err(|source| Failure::io(format!("create {}", output.display()), source))?;
        let child = command
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|source| Failure::io(format!("start {name}"), source))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            output,
        })
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time used so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        procfs::cpu_time(self.pid())
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        procfs::resident_bytes(self.pid())
    }

    /// Asks every millisecond until the first right answer; hands out when it came.
    ///
    /// # Errors
    /// When the process ends, or gives nothing right within 20 s.
    pub(crate) async fn until_first_answer(
        &mut self,
        target: &Target,
        workload: &Workload,
    ) -> Result<Instant> {
        let begun = Instant::now();
        loop {
            let fault = match client::ask_once(target, workload).await {
                Ok(_) => return Ok(Instant::now()),
                Err(fault) => fault,
            };
            self.fail_if_ended()?;
            if begun.elapsed() > START_LIMIT {
                let what = format!("the first answer of {} ({fault}{})", self.name, self.tail());
                return Err(Failure::TooSlow {
                    what,
                    limit: START_LIMIT,
                });
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// An error with its status and output when the process is gone.
    pub(crate) fn fail_if_ended(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Failure::Ended {
                name: self.name.clone(),
                status: status.to_string(),
                output: self.tail(),
            }),
            Err(source) => Err(Failure::io(format!("wait for {}", self.name), source)),
        }
    }

    fn tail(&self) -> String {
        let text = fs::read(&self.output).unwrap_or_default();
        let from = text.len().saturating_sub(SHOWN_OUTPUT);
        match String::from_utf8_lossy(text.get(from..).unwrap_or_default()).trim() {
            "" => String::new(),
            shown => format!("\n{shown}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; the signal then has no receiver.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;
    use crate::workload::SMALL;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn dropping_the_guard_ends_and_reaps_the_child() {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start("sleeper", shell("exec sleep 60"), folder.path()).unwrap();
        let pid = process.pid();
        assert!(process.cpu_time().is_ok());
        drop(process);
        assert!(
            procfs::cpu_time(pid).is_err(),
            "process {pid} is still there"
        );
    }

    #[tokio::test]
    async fn a_process_that_ends_early_is_reported_with_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo no such option >&2; exit 3";
        let mut process = Process::start("broken", shell(script), folder.path()).unwrap();
        process.child.wait().unwrap();
        let target = Target {
            address: machine::free_address().unwrap(),
            credential: None,
        };
        let fault = process
            .until_first_answer(&target, &SMALL)
            .await
            .unwrap_err()
            .to_string();
        assert!(fault.contains("broken ended early"), "{fault}");
        assert!(fault.contains("no such option"), "{fault}");
    }
}
