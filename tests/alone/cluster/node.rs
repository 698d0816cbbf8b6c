//! A gateway on a machine of its own, which its operator starts again when it has ended.

use super::database::Database;
use super::network::{Network, Side};
use crate::support::{Config, eventually, provider_at, tollgate};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The shortest that the configuration accepts.
pub const TERM: Duration = Duration::from_secs(5);
/// The tokens of a key that is to run out.
pub const SMALL: u64 = 12_000;

pub struct Node {
    pub name: String,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    folder: TempDir,
    process: Option<Child>,
}

impl Node {
    pub fn new(network: &mut Network, number: u8, provider: &str) -> Self {
        let name = format!("node{number}");
        let host = 10 + number;
        network.add(&name, host, &[Side::Front, Side::Back]);
        let at = |port: u16| {
            format!("{}:{port}", Side::Front.address(host))
                .parse()
                .unwrap()
        };
        let (address, admin): (SocketAddr, SocketAddr) = (at(8080), at(9080));
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("url"), Database::url()).unwrap();
        let postgres = json!({"url": "file:url", "tls": false, "lease_term": "5s"});
        let mut sim = provider_at(provider);
        sim["formats"] = json!(["chat"]);
        // Lost packets between the two are no reason to try no more.
        sim["health"] = json!({"enabled": false});
        let config = Config::new()
            .provider("sim", sim)
            .model("test-model", json!(["sim/m"]))
            .with("store", json!({"path": "ledger", "postgres": postgres}))
            .with("plans.small", json!({"tokens": SMALL, "validity": "1d"}))
            .with("log.access", json!("none"))
            .with("server.listen", json!([{"address": address.to_string()}]))
            .with("admin.listen", json!(admin.to_string()));
        fs::write(folder.path().join("tollgate.yaml"), config.0.to_string()).unwrap();
        Self {
            name,
            address,
            admin,
            folder,
            process: None,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `tollgate` on this machine.
    fn command(&self, network: &Network, arguments: &[&str]) -> Command {
        let program = tollgate();
        let program = program.as_std();
        let mut command = network.command(&self.name, program.get_program().to_str().unwrap());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(arguments).arg("--config");
        command.arg(self.file("tollgate.yaml"));
        command
    }

    /// Runs a command of the operator to its end, which must be good.
    pub fn run(&self, network: &Network, arguments: &[&str]) -> String {
        let output = self.command(network, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A new key, as the command prints it.
    pub fn create_key(&self, network: &Network, plan: &str) -> Value {
        let made = self.run(
            network,
            &["keys", "create", "test", "--json", "--plan", plan],
        );
        serde_json::from_str(&made).unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Starts it, and waits until it serves. It is tried again if the database cannot be reached.
    pub async fn start(&mut self, network: &Network) {
        let served = |log: &str| log.matches("serving\n").count();
        let before = served(&self.log());
        eventually(&format!("{} serves", self.name), async || {
            match self.ended() {
                Some(_) => self.launch(network),
                None if served(&self.log()) > before => return Some(()),
                None => {}
            }
            None
        })
        .await;
    }

    fn launch(&mut self, network: &Network) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.file("log"));
        let log = log.unwrap();
        let mut command = self.command(network, &["serve"]);
        let (out, err) = (Stdio::from(log.try_clone().unwrap()), Stdio::from(log));
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        self.process = Some(child.unwrap());
    }

    /// The exit code, if it has ended; 0 if it never ran.
    fn ended(&mut self) -> Option<i32> {
        let Some(child) = &mut self.process else {
            return Some(0);
        };
        let status = child.try_wait().unwrap()?;
        Some(status.code().unwrap_or(-1))
    }

    /// Starts it again if it has ended as a fenced process does. Whether it had.
    pub async fn revive(&mut self, network: &Network) -> bool {
        let Some(code) = self.ended() else {
            return false;
        };
        assert_eq!(code, 1, "{} ended:\n{}", self.name, self.log());
        self.start(network).await;
        true
    }

    pub fn signal(&self, name: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        let output = Command::new("kill").args(["-s", name, &id]).output();
        // It may have ended.
        output.unwrap();
    }

    pub fn kill(&mut self) {
        let mut child = self.process.take().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Ends it as an operator does.
    pub async fn stop(&mut self) {
        self.signal("TERM");
        let ended = eventually("the end", async || self.ended()).await;
        assert_eq!(ended, 0, "{}:\n{}", self.name, self.log());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            println!("--- {}\n{}", self.name, self.log());
        }
    }
}
