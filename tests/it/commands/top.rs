//! `tollgate top` on a terminal of `script` (util-linux).

use super::{gateway, refused};
use crate::support::{CHAT, bounded, is_missing, tollgate};
use serde_json::json;
use std::process::Stdio;
use tokio::process::Command;

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
    let program = tollgate();
    let program = program.as_std().get_program().to_str().unwrap();
    let run = format!("timeout --foreground --preserve-status -s INT 4 {program} top");
    let mut script = Command::new("script");
    let process = script
        .args(["-qec", &run, "/dev/null"])
        .current_dir(gateway.folder.path())
        .env_remove("TOLLGATE_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
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
async fn without_a_terminal_it_names_the_other_command() {
    let (gateway, _provider) = gateway().await;
    let wanted = "standard output is not a terminal: use tollgate status";
    refused(&["top"], gateway.folder.path(), wanted).await;
}
