//! What the gateway leaves on the disk is for its own user alone: files, and no core dump.

use super::*;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use support::{Ports, tollgate};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Runs the program by a shell that first runs `setup`.
fn program_after(setup: &str, arguments: &[&str]) -> Command {
    let program = tollgate();
    let program = program.as_std();
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{setup}; exec \"$0\" \"$@\""));
    command.arg(program.get_program()).args(arguments);
    let variables = program.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    command.kill_on_drop(true);
    command
}

/// Every file and folder below `folder`, with its mode; not the configuration, which is the test's.
fn modes(folder: &Path) -> Vec<(String, u32)> {
    let mut modes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "tollgate.yaml" {
            let mode = metadata.permissions().mode() & 0o7777;
            modes.push((name.clone(), mode));
        }
        if metadata.is_dir() {
            let below = self::modes(&path).into_iter();
            modes.extend(below.map(|(below, mode)| (format!("{name}/{below}"), mode)));
        }
    }
    modes
}

fn assert_private(modes: &[(String, u32)]) {
    for (name, mode) in modes {
        println!("{mode:04o} {name}");
        assert_eq!(mode & 0o077, 0, "{name} has mode {mode:o}");
    }
}

/// Waits until the program has written a line that ends so.
async fn wait_for(process: &mut tokio::process::Child, end: &str) {
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    loop {
        let line = bounded(end, lines.next_line()).await.unwrap();
        if line.expect("the program runs").ends_with(end) {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return;
        }
    }
}

#[tokio::test]
async fn every_file_is_private_whatever_the_umask() {
    const OPEN: &str = "umask 000";
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    let ports = Ports::free();
    let file = folder.path().join("tollgate.yaml");
    let config = file.to_str().unwrap();
    std::fs::write(&file, Config::of(&provider).on(ports).0.to_string()).unwrap();
    let run = async |arguments: &[&str]| {
        let output = Output::of(&mut program_after(OPEN, arguments)).await;
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let made = [
        "keys", "--config", config, "create", "x", "--json", "--plan", "plenty",
    ];
    let made: Value = serde_json::from_str(&run(&made).await).unwrap();
    let mut process = program_after(OPEN, &["serve", "--config", config])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut process, "serving").await;
    for _ in 0..3 {
        let mut connection = support::Connection::open(ports.callers).await;
        let request = ask(made["key"].as_str().unwrap());
        connection.send(&request).await.assert_ok();
    }
    let backup = folder.path().join("backup.db");
    let backup = backup.to_str().unwrap();
    run(&["ledger", "--config", config, "backup", backup]).await;
    // It is bound shortly after the gateway serves.
    let socket = folder.path().join("tollgate.db.upgrade.sock");
    support::eventually("the upgrade socket", async || socket.exists().then_some(())).await;
    let found = modes(folder.path());
    for expected in [
        "tollgate.db",
        "tollgate.db-wal",
        "tollgate.db-shm",
        "tollgate.db.upgrade.sock",
        "backup.db",
    ] {
        assert!(
            found.iter().any(|(name, _)| name == expected),
            "{expected}: {found:?}"
        );
    }
    assert!(
        found.iter().any(|(name, _)| name.contains(".settlements-")),
        "{found:?}"
    );
    assert_private(&found);
    // What is written at the end, too.
    let id = process.id().unwrap().to_string();
    Output::of(Command::new("kill").arg(id)).await;
    let status = bounded("the gateway's end", process.wait()).await.unwrap();
    assert!(status.success(), "{status:?}");
    let is_socket = socket.metadata().is_ok_and(|it| it.file_type().is_socket());
    println!("the upgrade socket is there after the end: {is_socket}");
    assert_private(&modes(folder.path()));
}

#[tokio::test]
async fn the_state_of_the_demo_is_private_whatever_the_umask() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/demo.yaml");
    let ports = Ports::free();
    let [port, admin] = [ports.callers, ports.operators].map(|it| it.port().to_string());
    let arguments = [
        "demo",
        "--port",
        &port,
        "--admin-port",
        &admin,
        "--state-dir",
        state.to_str().unwrap(),
        "--file",
        conf.to_str().unwrap(),
    ];
    let mut process = program_after("umask 000", &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    while let Some(line) = bounded("the demo's start", lines.next_line())
        .await
        .unwrap()
    {
        if line.starts_with("Base URL") {
            break;
        }
    }
    let found = modes(folder.path());
    for expected in ["state", "state/key", "state/tollgate.db"] {
        assert!(
            found.iter().any(|(name, _)| name == expected),
            "{expected}: {found:?}"
        );
    }
    assert_private(&found);
    bounded("the demo's end", process.kill()).await.unwrap();
}

#[tokio::test]
async fn a_crash_leaves_no_core_dump() {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    let config = Config::of(&provider).on(Ports::free());
    std::fs::write(&file, config.0.to_string()).unwrap();
    let arguments = ["serve", "--config", file.to_str().unwrap()];
    // As on a machine with core dumps of other programs.
    let mut process = program_after("ulimit -c unlimited", &arguments)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut process, "serving").await;
    let id = process.id().unwrap().to_string();
    let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    // Of one byte no dump is made, and none is piped to another program either.
    let words: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[4..6], ["1", "1"], "{limits}");
    Output::of(Command::new("kill").args(["-s", "ABRT", &id])).await;
    let status = bounded("the gateway's end", process.wait()).await.unwrap();
    assert_eq!(status.signal(), Some(6), "{status:?}");
    assert!(!status.core_dumped(), "{status:?}");
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
    assert!(
        !names
            .iter()
            .any(|it| it.to_string_lossy().starts_with("core")),
        "{names:?}"
    );
}
