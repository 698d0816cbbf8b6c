//! What a newcomer does: the README to the letter, and the demo from any folder.

use crate::support::{Network, Output, Page, Ports, bounded, eventually, root, tollgate};
use serde_json::Value;
use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

#[tokio::test]
async fn the_readme_leads_from_an_empty_folder_to_a_gateway() {
    let Some(network) = Network::new("the_readme_leads_from_an_empty_folder").await else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let page = Page::section("README.md", "A real provider");
    let output = page.run(&network, folder.path()).await;
    let log = fs::read_to_string(folder.path().join("serve.log")).unwrap_or_default();
    assert!(output.status.success(), "{output:?}\n{log}");
    assert!(output.stdout.contains("no fault (13 models,"), "{output:?}");
    assert!(
        output.stdout.contains(r#""id":"claude-opus-5-5""#),
        "{output:?}"
    );
    let key = fs::read_to_string(folder.path().join("my-app.key")).unwrap();
    assert!(key.starts_with("sk-"), "{key}");
    for line in [
        "listening on http://127.0.0.1:8080 for callers",
        "listening on http://127.0.0.1:9080 for operators",
        "the host 'api.anthropic.com' cannot be resolved (",
        "stopped",
    ] {
        assert!(log.contains(line), "{line}:\n{log}");
    }
}

/// What `conf/default.yaml` needs beside it is all that the README says.
#[tokio::test]
async fn the_whole_catalog_is_two_files_and_a_folder() {
    let folder = TempDir::new().unwrap();
    let default = fs::read_to_string(root().join("conf/default.yaml")).unwrap();
    let file = folder.path().join("default.yaml");
    fs::copy(
        root().join("conf/catalog.yaml"),
        folder.path().join("catalog.yaml"),
    )
    .unwrap();
    let check = || {
        let mut command = tollgate();
        command.arg("check").arg(&file);
        for name in ["ALPHA", "BETA", "GAMMA", "DELTA"] {
            command.env(format!("{name}_API_KEY"), "a-credential");
        }
        command
    };
    let store = folder.path().join("store");
    let own = default.replace("/var/lib/tollgate/", &format!("{}/", store.display()));
    assert_ne!(own, default);
    fs::write(&file, own).unwrap();
    let output = Output::of(&mut check()).await;
    assert!(!output.status.success());
    let reported = format!("store.path: there is no folder {}", store.display());
    assert!(output.stderr.contains(&reported), "{output:?}");
    fs::create_dir(&store).unwrap();
    let output = Output::of(&mut check()).await;
    assert!(output.status.success(), "{output:?}");
}

/// `make` with a target folder in which the program stands already, and a cargo that builds nothing.
struct Make {
    target: TempDir,
    state: TempDir,
    elsewhere: TempDir,
    ports: Ports,
}

impl Make {
    fn new() -> Self {
        let target = TempDir::new().unwrap();
        fs::create_dir(target.path().join("debug")).unwrap();
        let program = PathBuf::from(tollgate().as_std().get_program());
        symlink(program, target.path().join("debug/tollgate")).unwrap();
        Self {
            target,
            state: TempDir::new().unwrap(),
            elsewhere: TempDir::new().unwrap(),
            ports: Ports::free(),
        }
    }

    /// `make demo` by arguments that find the Makefile from another folder.
    fn demo(&self, arguments: &[&str], cargo: &str) -> Command {
        let mut command = Command::new("make");
        let set = |name: &str, value: &dyn std::fmt::Display| format!("{name}={value}");
        command
            .args(arguments)
            .arg("demo")
            .arg(set("CARGO", &cargo))
            .arg(set("DEMO_PORT", &self.ports.callers.port()))
            .arg(set("DEMO_ADMIN_PORT", &self.ports.operators.port()))
            .arg(set("DEMO_STATE", &self.state.path().display()))
            .current_dir(&self.elsewhere)
            .env("CARGO_TARGET_DIR", self.target.path())
            .env_remove("MAKEFLAGS")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// A process with all that it has started.
struct Group(Child);

impl Group {
    fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        let Some(id) = self.0.id() else { return };
        let mut kill = std::process::Command::new("kill");
        // The group may have ended.
        let _ = kill
            .args([&format!("-{name}"), "--", &format!("-{id}")])
            .status();
    }

    /// Ends it as Ctrl-C does, and waits until it has.
    async fn interrupt(mut self) {
        self.signal("INT");
        bounded("the demo's end", self.0.wait()).await.unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal("KILL");
    }
}

#[tokio::test]
async fn the_demo_runs_from_any_folder() {
    let root = root().to_str().unwrap();
    let makefile = format!("{root}/Makefile");
    for arguments in [["-C", root], ["-f", &makefile]] {
        let make = Make::new();
        let mut process = Group::start(&mut make.demo(&arguments, "true"));
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        loop {
            let line = bounded("the demo's start", lines.next_line())
                .await
                .unwrap();
            let line = line.unwrap_or_else(|| panic!("{arguments:?}: it ends"));
            if line.starts_with("Base URL") {
                break;
            }
        }
        assert!(make.state.path().join("key").exists());
        assert_eq!(fs::read_dir(&make.elsewhere).unwrap().count(), 0);
        process.interrupt().await;
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported_before_the_demo_is_built() {
    let root = root().to_str().unwrap();
    let make = Make::new();
    for (address, variable) in [
        (make.ports.callers, "DEMO_PORT"),
        (make.ports.operators, "DEMO_ADMIN_PORT"),
    ] {
        let _taken = TcpListener::bind(address).unwrap();
        // A cargo that fails: the build would be the next step.
        let output = Output::of(&mut make.demo(&["-C", root], "false")).await;
        assert!(!output.status.success());
        let reported = format!("port {} is in use: choose another one", address.port());
        assert!(output.stderr.contains(&reported), "{output:?}");
        let example = format!("make demo {variable}=");
        assert!(output.stderr.contains(&example), "{output:?}");
    }
}

#[tokio::test]
async fn the_demo_needs_no_file_of_the_repository() {
    let make = Make::new();
    let [port, admin] = [make.ports.callers, make.ports.operators].map(|it| it.port().to_string());
    let demo = || {
        let mut command = tollgate();
        command
            .args(["demo", "--port", &port, "--admin-port", &admin])
            .current_dir(&make.elsewhere);
        command
    };
    let taken = TcpListener::bind(make.ports.callers).unwrap();
    let output = Output::of(&mut demo()).await;
    assert!(!output.status.success());
    assert!(
        output.stderr.contains("choose another port with --port"),
        "{output:?}"
    );
    drop(taken);
    let mut process = demo().stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    loop {
        let line = bounded("the demo's start", lines.next_line())
            .await
            .unwrap();
        if line.expect("it serves").starts_with("Base URL") {
            break;
        }
    }
    assert!(make.elsewhere.path().join(".demo/key").exists());
    bounded("the demo's end", process.kill()).await.unwrap();
}

#[tokio::test]
async fn the_program_is_installed_under_a_prefix() {
    let make = Make::new();
    let prefix = TempDir::new().unwrap();
    let mut command = Command::new("make");
    command
        .args(["-C", root().to_str().unwrap(), "install"])
        .arg(format!("PREFIX={}", prefix.path().display()))
        .env("CARGO_TARGET_DIR", make.target.path());
    let output = Output::of(&mut command).await;
    assert!(output.status.success(), "{output:?}");
    let mut installed = Command::new(prefix.path().join("bin/tollgate"));
    let output = Output::of(installed.arg("--version")).await;
    assert!(output.stdout.starts_with("tollgate "), "{output:?}");
}

#[tokio::test]
async fn a_package_is_staged_below_destdir_and_needs_no_right_to_write_elsewhere() {
    let make = Make::new();
    let stage = TempDir::new().unwrap();
    let mut command = Command::new("make");
    command
        .args(["-C", root().to_str().unwrap(), "install"])
        .arg(format!("DESTDIR={}", stage.path().display()))
        .arg("PREFIX=/opt/tollgate-of-the-tests")
        .env("CARGO_TARGET_DIR", make.target.path());
    let output = Output::of(&mut command).await;
    assert!(output.status.success(), "{output:?}");
    let program = stage.path().join("opt/tollgate-of-the-tests/bin/tollgate");
    let installed = fs::metadata(&program).unwrap();
    // For every user, whatever the builder's umask is: a package is built by root.
    assert_eq!(installed.permissions().mode() & 0o7777, 0o755);
    assert_eq!(installed.uid(), fs::metadata(&stage).unwrap().uid());
    assert!(!Path::new("/opt/tollgate-of-the-tests").exists());
}

/// A port of which the next five, and those that are 1,000 above, are free, too.
fn free_ports() -> u16 {
    /// Above those of `Ports::free`.
    const OURS: std::ops::Range<u16> = 20_000..29_000;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let first = fastrand::u16(OURS);
        if (first..first + 6).all(|port| is_free(port) && is_free(port + 1000)) {
            return first;
        }
    }
}

/// Runs a line of the demo's text, as its reader does.
async fn run_line(line: &str) -> String {
    let output = Output::of(Command::new("bash").args(["-c", line])).await;
    assert!(output.status.success(), "{line}: {output:?}");
    output.stdout
}

#[tokio::test]
async fn the_lines_of_the_cluster_demo_work_and_a_killed_gateway_is_not_missed() {
    let make = Make::new();
    let port = free_ports();
    let mut command = Command::new("make");
    command
        .args(["-C", root().to_str().unwrap(), "demo-cluster", "CARGO=true"])
        .arg(format!("CLUSTER_PORT={port}"))
        .arg(format!(
            "CLUSTER_STATE={}/cluster",
            make.state.path().display()
        ))
        .env("CARGO_TARGET_DIR", make.target.path())
        .env_remove("MAKEFLAGS")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut process = Group::start(&mut command);
    let mut output = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let mut lines = Vec::new();
    let is_last = |line: &String| line.starts_with("Logs and settlement files");
    while !lines.last().is_some_and(is_last) {
        let line = bounded("the demo's start", output.next_line()).await;
        let Some(line) = line.unwrap() else {
            let mut cause = String::new();
            let mut stderr = process.0.stderr.take().unwrap();
            stderr.read_to_string(&mut cause).await.unwrap();
            let is_skipped = cause.contains("scripts/setup tests") && env::var_os("CI").is_none();
            assert!(is_skipped, "{lines:?}: {cause}");
            return println!("SKIPPED: {cause}");
        };
        lines.push(line);
    }
    let of = |command: &str| -> Vec<&String> {
        lines
            .iter()
            .filter(|line| line.starts_with(command))
            .collect()
    };
    let [balanced, single, usage, other_usage] = of("curl ")[..] else {
        panic!("{lines:#?}");
    };
    for line in [balanced, single] {
        assert!(run_line(line).await.contains("You said: Hello!"), "{line}");
    }
    let usage = eventually("the same usage at both", async || {
        let usage = run_line(usage).await;
        let used = serde_json::from_str::<Value>(&usage).unwrap()["tokens"]["used"].clone();
        (used.as_u64() >= Some(18) && run_line(other_usage).await == usage).then_some(used)
    })
    .await;
    assert!(usage.as_u64() < Some(1000), "{usage}");
    run_line(of("kill ")[0]).await;
    // Until the system has closed its sockets, they take requests that nobody answers.
    eventually("the killed gateway's end", async || {
        TcpStream::connect(("127.0.0.1", port + 2)).err()
    })
    .await;
    for _ in 0..6 {
        assert!(run_line(balanced).await.contains("You said: Hello!"));
    }
    // Limits hold for all together.
    let [_, limit] = of("TOLLGATE_DATABASE=")[..] else {
        panic!("{lines:#?}");
    };
    run_line(limit).await;
    eventually("the limit", async || {
        let answer = run_line(balanced).await;
        answer.contains("rate_limit").then_some(())
    })
    .await;
    process.interrupt().await;
    for port in port..port + 6 {
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "{port}");
    }
}
