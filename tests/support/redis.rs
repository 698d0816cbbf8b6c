//! Redis servers for tests.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A running server with a password, and without anything on disk. It stops when this is dropped.
pub struct Redis {
    folder: TempDir,
    pub port: u16,
    settings: String,
    child: Child,
}

impl Redis {
    pub const PASSWORD: &str = "correct-horse-battery";

    /// Starts a server. `None` if Redis is not installed, which continuous integration does not accept.
    pub fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// The same with more lines of its configuration.
    pub fn start_with(settings: &str) -> Option<Self> {
        let is_installed = Command::new("redis-server")
            .arg("--version")
            .output()
            .is_ok();
        if !is_installed {
            let is_required = std::env::var_os("CI").is_some();
            assert!(!is_required, "Redis is not installed: scripts/setup tests");
            println!("SKIPPED: Redis is not installed here; scripts/setup tests installs it");
            return None;
        }
        let folder = TempDir::new().unwrap();
        let port = free_port();
        let child = spawn(folder.path(), port, settings);
        Some(Self {
            folder,
            port,
            settings: settings.to_owned(),
            child,
        })
    }

    /// The URL, with another password if given.
    pub fn url(&self, password: &str) -> String {
        format!("redis://:{password}@127.0.0.1:{}/0", self.port)
    }

    /// Sends the server a signal, by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Kills the server, which forgets everything.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again at the same port.
    pub fn restart(&mut self) {
        self.child = spawn(self.folder.path(), self.port, &self.settings);
    }

    /// Runs a command on it, and returns what it prints.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string(), "--no-auth-warning"])
            .args(["-a", Self::PASSWORD])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A port that was free when asked for, and that the system gives to no other program before the server binds it.
fn free_port() -> u16 {
    /// Below what systems give away, and above the ports of gateways.
    const OURS: std::ops::Range<u16> = 30_100..32_000;
    loop {
        let port = fastrand::u16(OURS);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn spawn(folder: &Path, port: u16, settings: &str) -> Child {
    let password = Redis::PASSWORD;
    let config = format!(
        "bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave \"\"\nappendonly no\n{settings}\n"
    );
    fs::write(folder.join("redis.conf"), config).unwrap();
    let mut child = Command::new("redis-server")
        .arg("redis.conf")
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "redis-server has ended"
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "redis-server");
        #[expect(
            clippy::disallowed_methods,
            reason = "between two looks, before the test begins"
        )]
        sleep(Duration::from_millis(10));
    }
    child
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
