//! The gateway as its operator runs it: the program, a file, a folder, signals.

use super::config::{PEPPER, PLENTY, PROVIDER_KEY};
use super::{
    Answer, Config, Connection, Mounts, PATIENCE, Ports, Request, bounded, eventually, prompt,
};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// The program with the variables that the tests' configurations name.
pub fn tollgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .env_remove("RUST_LOG")
        .env(PEPPER.0, PEPPER.1)
        .env(PROVIDER_KEY.0, PROVIDER_KEY.1)
        .env("TEST_OTHER_KEY", "another-credential-of-the-provider")
        .kill_on_drop(true);
    command
}

/// The program as it serves. A write beyond a bound on the size of files is an error for it,
/// as a full disk is, and no signal that ends it.
fn serve(mounts: Option<&Mounts>) -> Command {
    let program = tollgate();
    let run = "trap '' XFSZ; exec \"$0\" serve --config \"$1\"";
    let (mut command, run) = match mounts {
        None => (Command::new("sh"), run.to_owned()),
        Some(mounts) => (mounts.shell(), format!("{}\n{run}", mounts.script)),
    };
    command
        .arg("-c")
        .arg(run)
        .arg(program.as_std().get_program());
    for (name, value) in program.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.kill_on_drop(true);
    command
}

/// What a run of the program left behind.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Runs a command to its end.
    pub async fn of(command: &mut Command) -> Self {
        Self::within(PATIENCE, command).await
    }

    /// The same with another patience, for work that takes as long as there is to be looked at.
    pub async fn within(patience: Duration, command: &mut Command) -> Self {
        let ended = tokio::time::timeout(patience, command.output()).await;
        let output = ended.expect("a command's end").unwrap();
        Self {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A gateway that runs until the test is over.
pub struct Gateway {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    /// The text of an API key that may use everything.
    pub key: String,
    pub folder: TempDir,
    config: Config,
    process: Child,
    /// Those that have taken over from it, the last one last.
    successors: Successors,
    stdout: watch::Receiver<Lines>,
    stderr: watch::Receiver<Lines>,
}

/// Processes that a gateway has started and that no other code ends.
#[derive(Default)]
struct Successors(Vec<u32>);

impl Drop for Successors {
    fn drop(&mut self) {
        for id in &self.0 {
            // One that has ended is no fault.
            let _ = std::process::Command::new("kill")
                .args(["-KILL", &id.to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Lines that a process has written, and whether it has closed the pipe.
#[derive(Clone, Debug, Default)]
struct Lines {
    lines: Vec<String>,
    ended: bool,
}

impl Gateway {
    pub async fn start(config: Config) -> Self {
        Self::start_in(TempDir::new().unwrap(), config).await
    }

    /// Starts it with a folder that may hold files already.
    pub async fn start_in(folder: TempDir, config: Config) -> Self {
        Self::start_with(folder, config, &[]).await
    }

    /// Starts it with variables of its own.
    pub async fn start_with(folder: TempDir, config: Config, variables: &[(&str, &str)]) -> Self {
        Self::start_among(folder, config, variables, None).await
    }

    /// Starts it with mounts of its own.
    pub async fn start_on(folder: TempDir, config: Config, mounts: &Mounts) -> Self {
        Self::start_among(folder, config, &[], Some(mounts)).await
    }

    async fn start_among(
        folder: TempDir,
        config: Config,
        variables: &[(&str, &str)],
        mounts: Option<&Mounts>,
    ) -> Self {
        const TRIES: usize = 5;
        let mut folder = folder;
        for _ in 0..TRIES {
            let ports = Ports::free();
            match Self::try_start(folder, config.clone(), ports, variables, mounts).await {
                Ok(gateway) => return gateway,
                // Another test was quicker.
                Err((unused, output)) if output.contains("cannot listen on") => folder = unused,
                Err((_, output)) => panic!("the gateway does not start:\n{output}"),
            }
        }
        panic!("no free ports")
    }

    async fn try_start(
        folder: TempDir,
        config: Config,
        ports: Ports,
        variables: &[(&str, &str)],
        mounts: Option<&Mounts>,
    ) -> Result<Self, (TempDir, String)> {
        let config = config.on(ports);
        std::fs::write(file(&folder), config.0.to_string()).unwrap();
        let key = create_key(&folder, &[]).await;
        let mut process = serve(mounts)
            .arg(file(&folder))
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = collect(process.stderr.take().unwrap());
        let stdout = collect(process.stdout.take().unwrap());
        let begun = bounded(
            "the gateway's start",
            stderr.wait_for(|it| it.ended || it.lines.iter().any(|it| it.ends_with("serving"))),
        )
        .await
        .unwrap()
        .clone();
        if begun.ended {
            return Err((folder, begun.lines.join("\n")));
        }
        Ok(Self {
            address: ports.callers,
            admin: ports.operators,
            key,
            folder,
            config,
            process,
            successors: Successors::default(),
            stdout,
            stderr,
        })
    }

    pub async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Sends one request over a connection of its own, as it is.
    pub async fn send(&self, request: &Request) -> Answer {
        self.connect().await.send(request).await
    }

    /// Sends a body to a model endpoint, with the key.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&Request::post(path, body).key(&self.key)).await
    }

    /// Asks `model` a short question, with orders for the provider.
    pub async fn ask(&self, path: &str, model: &str, orders: &str, more: Value) -> Answer {
        let body = prompt(path, model, "Say something nice.", more);
        let mut request = Request::post(path, &body).key(&self.key);
        if !orders.is_empty() {
            request = request.orders(orders);
        }
        self.send(&request).await
    }

    /// Gets what stands at a path, with the key.
    pub async fn get(&self, target: &str) -> Answer {
        self.send(&Request::get(target).key(&self.key)).await
    }

    /// Gets a page of the operator's.
    pub async fn operator(&self, target: &str) -> Answer {
        let request = Request::get(target);
        Connection::open(self.admin).await.send(&request).await
    }

    /// Makes a key with further arguments of `keys create`.
    pub async fn create_key(&self, arguments: &[&str]) -> String {
        create_key(&self.folder, arguments).await
    }

    /// Runs `tollgate keys` on this gateway's store.
    pub async fn keys(&self, arguments: &[&str]) -> Output {
        keys(&self.folder, arguments).await
    }

    /// The process that serves.
    pub fn id(&self) -> u32 {
        let last = self.successors.0.last().copied();
        last.unwrap_or_else(|| self.process.id().expect("the gateway runs"))
    }

    /// From now on this process serves, and is ended with the test.
    pub fn taken_over_by(&mut self, id: u32) {
        self.successors.0.push(id);
    }

    /// Runs `tollgate upgrade` on it.
    pub async fn try_upgrade(&self) -> Output {
        let mut command = tollgate();
        command
            .args(["upgrade", "--config"])
            .arg(file(&self.folder));
        Output::of(&mut command).await
    }

    /// The same, which must succeed: the process that serves from now on.
    pub async fn upgrade(&mut self) -> u32 {
        // A process that has just taken over does not listen for another upgrade yet.
        let output = eventually("an upgrade", async || {
            let output = self.try_upgrade().await;
            (!output.stderr.contains("no gateway hands over")).then_some(output)
        })
        .await;
        assert!(output.status.success(), "{output:?}\n{}", self.output());
        let words = output.stdout.split_whitespace();
        let id = words.filter_map(|word| word.parse().ok()).next();
        let id = id.unwrap_or_else(|| panic!("no process: {output:?}"));
        self.taken_over_by(id);
        id
    }

    /// Sends the process a signal, by its name.
    pub async fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let mut kill = Command::new("kill");
        let output = Output::of(kill.args(["-s", name, &id])).await;
        assert!(output.status.success(), "{output:?}");
    }

    /// Kills the process as nothing else does, and leaves its folder.
    pub async fn killed(mut self) -> TempDir {
        bounded("the gateway's death", self.process.kill())
            .await
            .unwrap();
        self.folder
    }

    /// Waits for the process to end by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        bounded("the gateway's end", self.process.wait())
            .await
            .unwrap()
    }

    /// Writes another configuration into the file, for the same addresses.
    pub fn rewrite(&self, config: Config) {
        let ports = Ports {
            callers: self.address,
            operators: self.admin,
        };
        self.rewrite_text(&config.on(ports).0.to_string());
    }

    /// Puts any text in the place of the configuration file, in one step.
    pub fn rewrite_text(&self, text: &str) {
        let aside = self.folder.path().join("next.yaml");
        std::fs::write(&aside, text).unwrap();
        std::fs::rename(aside, file(&self.folder)).unwrap();
    }

    /// The configuration as it was started with.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// Waits for a line of the access log.
    pub async fn access_line(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let parsed = |line: &String| serde_json::from_str::<Value>(line).expect(line);
        let mut stdout = self.stdout.clone();
        let lines = bounded(
            "a line of the access log",
            stdout.wait_for(|it| it.lines.iter().map(parsed).any(|line| wanted(&line))),
        )
        .await
        .unwrap()
        .lines
        .clone();
        lines.iter().map(parsed).find(|it| wanted(it)).unwrap()
    }

    /// Waits for a line of the log that holds `text`.
    pub async fn log_line(&self, text: &str) -> String {
        let mut stderr = self.stderr.clone();
        let found = stderr.wait_for(|it| it.lines.iter().any(|line| line.contains(text)));
        let lines = bounded(text, found).await.unwrap().lines.clone();
        lines.into_iter().find(|it| it.contains(text)).unwrap()
    }

    /// Everything that was written so far, access log and log.
    pub fn output(&self) -> String {
        let [out, err] = [&self.stdout, &self.stderr].map(|it| it.borrow().lines.join("\n"));
        format!("{out}\n{err}")
    }

    /// The value of a sample on the page of metrics, as long as it stands there.
    pub async fn sample(&self, sample: &str) -> Option<f64> {
        let page = self.operator("/metrics").await.text();
        let line = page.lines().find_map(|line| line.strip_prefix(sample));
        line.map(|value| value.trim().parse().unwrap())
    }

    /// The sum of all samples of a metric.
    pub async fn total(&self, metric: &str) -> f64 {
        let page = self.operator("/metrics").await.text();
        let samples = page.lines().filter_map(|line| {
            let rest = line.strip_prefix(metric)?;
            let rest = rest.starts_with(['{', ' ']).then_some(rest)?;
            rest.rsplit(' ').next()
        });
        samples.map(|value| value.parse::<f64>().unwrap()).sum()
    }

    /// Waits until a sample on the page of metrics has a value.
    pub async fn sample_is(&self, sample: &str, value: f64) {
        let look = async || (self.sample(sample).await == Some(value)).then_some(());
        eventually(&format!("{sample} {value}"), look).await;
    }
}

/// The sample of a breaker on the metrics page.
pub fn breaker(scope: &str, provider: &str, deployment: &str, credential: &str) -> String {
    format!(
        "tollgate_breaker_state{{scope=\"{scope}\",provider=\"{provider}\",\
         deployment=\"{deployment}\",credential=\"{credential}\"}}"
    )
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("tollgate.yaml")
}

async fn keys(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = tollgate();
    command.args(["keys", "--config"]).arg(file(folder));
    Output::of(command.args(arguments)).await
}

async fn create_key(folder: &TempDir, arguments: &[&str]) -> String {
    let plan: &[&str] = match arguments.contains(&"--plan") {
        true => &[],
        false => &["--plan", PLENTY],
    };
    let arguments = [&["create", "test", "--json"], plan, arguments].concat();
    let output = keys(folder, &arguments).await;
    assert!(output.status.success(), "{output:?}");
    let created: Value = serde_json::from_str(&output.stdout).unwrap();
    created["key"].as_str().expect("a key").to_owned()
}

fn collect(pipe: impl AsyncRead + Send + Unpin + 'static) -> watch::Receiver<Lines> {
    let (sender, receiver) = watch::channel(Lines::default());
    tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            sender.send_modify(|it| it.lines.push(line));
        }
        sender.send_modify(|it| it.ended = true);
    });
    receiver
}
