//! `tollgate completions` and `tollgate man`.

use super::{refused, run};
use std::fs;
use tempfile::TempDir;

#[tokio::test]
async fn each_shell_gets_a_script_that_knows_every_command() {
    let folder = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell], folder.path()).await;
        assert!(output.status.success(), "{output:?}");
        for name in [
            "doctor",
            "export",
            "accept-loss",
            "--admin-listen",
            "upgrade",
        ] {
            let name = match shell {
                "fish" => name.trim_start_matches("--"),
                _ => name,
            };
            assert!(output.stdout.contains(name), "{shell}: {name}");
        }
    }
    let output = run(&["completions", "tcsh"], folder.path()).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[tokio::test]
async fn each_command_has_a_manual_page() {
    let folder = TempDir::new().unwrap();
    let output = run(&["man", "share/man1"], folder.path()).await;
    assert!(output.status.success(), "{output:?}");
    let pages = folder.path().join("share/man1");
    for name in [
        "tollgate",
        "tollgate-serve",
        "tollgate-usage-export",
        "tollgate-keys-top-up",
    ] {
        let page = fs::read_to_string(pages.join(format!("{name}.1"))).expect(name);
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    fs::write(folder.path().join("file"), "").unwrap();
    refused(&["man", "file"], folder.path(), "file cannot be written: ").await;
    refused(
        &["man", "file/below"],
        folder.path(),
        "file/below cannot be written: Not a directory",
    )
    .await;
}
