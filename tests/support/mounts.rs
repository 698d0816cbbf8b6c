//! A gateway that has mounts of its own: its disk can be full and its hosts file can change
//! without any other process on the machine seeing it.
//!
//! It takes a mount namespace, which root has, and every user where the system lets users have
//! namespaces of their own. Where there is none, a test says that it is skipped.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// What is mounted for a gateway before it starts.
#[derive(Clone, Debug)]
pub struct Mounts {
    unshare: Vec<&'static str>,
    /// Commands of a shell.
    pub script: String,
}

impl Mounts {
    /// None yet. `None`, and a line that says so, where the system does not allow any.
    pub async fn new(test: &str) -> Option<Self> {
        const AS_ROOT: &[&str] = &["--mount"];
        const AS_ANYBODY: &[&str] = &["--user", "--map-root-user", "--mount"];
        for arguments in [AS_ROOT, AS_ANYBODY] {
            let probe = Command::new("unshare")
                .args(arguments)
                .args(["sh", "-c", "mount -t tmpfs tmpfs /mnt"])
                .stderr(Stdio::null())
                .status();
            if probe.await.is_ok_and(|status| status.success()) {
                return Some(Self {
                    unshare: arguments.to_vec(),
                    script: "set -e".to_owned(),
                });
            }
        }
        eprintln!("SKIPPED: {test}: this system gives us no mount namespace");
        None
    }

    /// Puts a file in the place of another. It can be written later, and not be replaced.
    #[must_use]
    pub fn file(mut self, ours: &Path, theirs: &str) -> Self {
        let line = format!("\nmount --bind '{}' {theirs}", ours.display());
        self.script.push_str(&line);
        self
    }

    /// Makes a folder a disk of so many MiB, with what is in it.
    #[must_use]
    pub fn disk(mut self, folder: &Path, mebibytes: u32) -> Self {
        let folder = folder.display();
        let lines = format!(
            "\ncp -a '{folder}' '{folder}.before'\
             \nmount -t tmpfs -o size={mebibytes}m tmpfs '{folder}'\
             \ncp -a '{folder}.before/.' '{folder}/'"
        );
        self.script.push_str(&lines);
        self
    }

    /// The command that runs `script` and what follows it among them.
    pub fn shell(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(&self.unshare).arg("sh");
        command
    }
}

/// A file as a process sees it.
pub fn seen_by(process: u32, file: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{process}/root"));
    root.join(file.strip_prefix("/").unwrap())
}
