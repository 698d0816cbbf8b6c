//! `tollgate top` on a terminal of `script` (util-linux).

use super::{gateway, refused};
use crate::support::{CHAT, bounded, is_missing, tollgate};
use serde_json::json;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// `top` on a terminal, until an interrupt after some seconds.
fn on_a_terminal(folder: &Path) -> Command {
    let program = tollgate();
    let program = program.as_std().get_program().to_str().unwrap();
    let run = format!("timeout --foreground --preserve-status -s INT 10 {program} top");
    let mut script = Command::new("script");
    script
        .args(["-qec", &run, "/dev/null"])
        .current_dir(folder)
        .env_remove("TOLLGATE_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    script
}

#[tokio::test]
async fn it_draws_until_it_is_interrupted_and_leaves_the_terminal_as_it_was() {
    if is_missing("script") {
        return;
    }
    let (gateway, _provider) = gateway().await;
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    let process = on_a_terminal(gateway.folder.path()).spawn().unwrap();
    let output = bounded("its end", process.wait_with_output())
        .await
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {shown}", output.status);
    let ready = format!("{}: ready", gateway.admin);
    for wanted in [&*ready, "PROVIDER", "REQUESTS/S", "\ntest-model "] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    assert!(shown.starts_with("\u{1b}[?1049h"), "{shown}");
    assert!(shown.trim_end().ends_with("\u{1b}[?1049l"), "{shown}");
}

#[tokio::test]
async fn a_gateway_that_hangs_does_not_delay_its_end() {
    if is_missing("script") {
        return;
    }
    let (gateway, _provider) = gateway().await;
    let mut script = on_a_terminal(gateway.folder.path());
    let mut process = script.spawn().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains(": ready") {
        let read = bounded("a screen", stdout.read_buf(&mut shown)).await;
        assert!(read.unwrap() > 0, "{}", String::from_utf8_lossy(&shown));
    }
    gateway.signal("STOP").await;
    let stopped = Instant::now();
    let rest = bounded("its end", stdout.read_to_end(&mut shown)).await;
    rest.unwrap();
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(25), "{took:?}");
    let status = bounded("its end", process.wait()).await.unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn without_a_terminal_it_names_the_other_command() {
    let (gateway, _provider) = gateway().await;
    let wanted = "standard output is not a terminal: use tollgate status";
    refused(&["top"], gateway.folder.path(), wanted).await;
}
