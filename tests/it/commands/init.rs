//! `tollgate init`: what it writes boots, and what exists stays.

use super::{command, refused, run};
use crate::provider_files::{BEARER, FILES, NONE, asking};
use crate::support::issuer::Issuer;
use crate::support::{
    CHAT, Connection, Output, Ports, Provider, Request, bounded, is_missing, prompt, tollgate,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const CREDENTIAL: &str = "credential-of-the-operator";

/// The variables that the output says to export, apart from those of the gateway itself.
fn exported(output: &Output) -> Vec<&str> {
    let lines = output.stdout.lines();
    let names = lines.filter_map(|line| line.trim().strip_prefix("export ")?.split('=').next());
    names
        .filter(|name| !name.starts_with("TOLLGATE_"))
        .collect()
}

/// A command with the variables that the output says to export.
fn exporting(arguments: &[&str], folder: &Path, variables: &[&str]) -> Command {
    let mut command = command(arguments, folder);
    command.env("TOLLGATE_PEPPER", "p".repeat(64));
    command.env("TOLLGATE_ADMIN_TOKEN", "t".repeat(64));
    command.envs(variables.iter().map(|name| (name, CREDENTIAL)));
    command
}

#[tokio::test]
async fn a_written_configuration_boots_for_every_provider_and_sends_its_requests() {
    for file in FILES {
        let (stand_in, issuer) = (Provider::start().await, Issuer::start().await);
        let is_lent = file.file == "vertex";
        let folder = TempDir::new().unwrap();
        let Ports { callers, operators } = Ports::free();
        let provider = format!("{}=http://{}", file.file, stand_in.address);
        let init = [
            "init",
            "--provider",
            &provider,
            "--listen",
            &callers.to_string(),
            "--admin-listen",
            &operators.to_string(),
        ];
        let output = run(&init, folder.path()).await;
        assert!(output.status.success(), "{}: {output:?}", file.file);
        let variables = exported(&output);
        assert_eq!(
            variables.is_empty(),
            file.header == NONE || is_lent,
            "{output:?}"
        );
        let written = folder.path().join(format!("providers/{}.yaml", file.file));
        let text = fs::read_to_string(&written).unwrap();
        fs::write(written, asking(&text, &issuer)).unwrap();

        let keys = ["keys", "create", "my app", "--plan", "pro"];
        for command in ["check", "serve", "keys create \"my app\" --plan pro"] {
            let line = format!("\n  tollgate {command}\n");
            assert!(output.stdout.contains(&line), "{line}: {output:?}");
        }
        let checked = Output::of(&mut exporting(&["check"], folder.path(), &variables)).await;
        assert!(checked.status.success(), "{}: {checked:?}", file.file);
        let key = Output::of(&mut exporting(&keys, folder.path(), &variables)).await;
        assert!(key.status.success(), "{key:?}");

        let mut gateway = exporting(&["serve"], folder.path(), &variables)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(gateway.stderr.take().unwrap()).lines();
        loop {
            let line = bounded("the start", log.next_line()).await.unwrap();
            if line.expect("it serves").ends_with("serving") {
                break;
            }
        }
        let (model, upstream) = file.model;
        let request = Request::post(CHAT, &prompt(CHAT, model, "Hello!", json!({})));
        let mut connection = Connection::open(callers).await;
        let request = request.key(key.stdout.trim());
        // Until it has a token, the gateway answers 503.
        while connection.send(&request).await.status == 503 {}
        let received = stand_in.last();
        let sent: Value = serde_json::from_slice(&received.body).unwrap();
        let in_path = received.uri.path().contains(upstream);
        assert!(in_path || sent["model"] == upstream, "{}", file.file);
        match file.header {
            NONE => assert!(received.headers.get(BEARER).is_none(), "{}", file.file),
            BEARER if is_lent => assert_eq!(received.headers[BEARER], "Bearer issued-token-1"),
            BEARER => assert_eq!(received.headers[BEARER], format!("Bearer {CREDENTIAL}")),
            header => assert_eq!(received.headers[header], CREDENTIAL),
        }
        bounded("its end", gateway.kill()).await.unwrap();
    }
}

#[tokio::test]
async fn its_files_are_their_owners_and_have_no_secret() {
    let folder = TempDir::new().unwrap();
    let mut init = command(
        &["init", "--provider", "openai", "--provider", "anthropic"],
        folder.path(),
    );
    let output = Output::of(init.env("OPENAI_API_KEY", CREDENTIAL)).await;
    assert!(output.status.success(), "{output:?}");
    assert!(!output.stdout.contains(CREDENTIAL), "{output:?}");
    for name in [
        "tollgate.yaml",
        "providers/openai.yaml",
        "providers/anthropic.yaml",
    ] {
        let file = folder.path().join(name);
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(CREDENTIAL), "{text}");
        for line in text.lines().filter(|it| !it.trim().starts_with('#')) {
            for secret in ["token:", "pepper:", "credentials:"] {
                assert!(!line.contains(secret) || line.contains("env:"), "{line}");
            }
        }
    }
    assert_eq!(exported(&output), ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]);
}

#[tokio::test]
async fn what_exists_stays_unless_it_is_to_be_overwritten() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    fs::write(&file, "mine: true\n").unwrap();
    let init = ["init", "--provider", "ollama"];
    refused(&init, folder.path(), "tollgate.yaml exists: choose").await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine: true\n");
    assert!(!folder.path().join("providers").exists());

    // Another file, which says itself where it is.
    let elsewhere = [&init[..], &["--config", "my gateway.yaml"]].concat();
    let output = run(&elsewhere, folder.path()).await;
    assert!(output.status.success(), "{output:?}");
    let next = "\n  tollgate check --config 'my gateway.yaml'\n";
    assert!(output.stdout.contains(next), "{output:?}");
    // The same files again are no change.
    let output = run(&elsewhere, folder.path()).await;
    assert!(output.status.success(), "{output:?}");

    let forced = [&init[..], &["--force"]].concat();
    let output = run(&forced, folder.path()).await;
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("providers/ollama.yaml"), "{text}");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "only the files that it names");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_before_anything_is_written() {
    let folder = TempDir::new().unwrap();
    for (arguments, wanted) in [
        (
            &[][..],
            "no provider is given: name each with --provider (anthropic,",
        ),
        (
            &["--provider", "opnai"],
            "no provider 'opnai'; did you mean 'openai'?",
        ),
        (
            &["--provider", "OpenAI"],
            "no provider 'OpenAI'; did you mean 'openai'?",
        ),
        (
            &["--provider", "nonsense"],
            "no provider 'nonsense'; known are anthropic,",
        ),
        (
            &["--provider", "groq=https://api.groq.com/openai/v1"],
            "which already ends the address: remove /openai/v1 from the address",
        ),
        (
            &["--provider", "azure-openai"],
            "needs the address of your resource",
        ),
        (
            &["--provider", "xai", "--provider", "xai"],
            "the provider xai is given twice",
        ),
        (
            &["--provider", "openai=ftp://x"],
            "tollgate.yaml:24:22: providers.openai.address",
        ),
        (
            &["--provider", "ollama", "--config", ".", "--force"],
            ". is not a regular file",
        ),
        (
            &["--provider", "ollama", "--config", "none/tollgate.yaml"],
            "none/providers/ollama.yaml cannot be written: No such file",
        ),
    ] {
        let arguments = [&["init"], arguments].concat();
        refused(&arguments, folder.path(), wanted).await;
    }
    let listen = ["init", "--provider", "xai", "--listen", "localhost:80"];
    let output = run(&listen, folder.path()).await;
    assert!(!output.status.success());
    let wanted = "expected an IP address and a port";
    assert!(output.stderr.contains(wanted), "{output:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// `script` of util-linux gives a command a terminal.
#[tokio::test]
async fn on_a_terminal_it_asks_for_providers() {
    if is_missing("script") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = tollgate();
    let program = program.as_std().get_program().to_str().unwrap();
    let mut script = Command::new("script");
    let mut process = script
        .args(["-qec", &format!("{program} init"), "/dev/null"])
        .current_dir(folder.path())
        .env_remove("TOLLGATE_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let answers = b"nonsense\ngroq, mistral\n";
    tokio::io::AsyncWriteExt::write_all(&mut input, answers)
        .await
        .unwrap();
    let output = bounded("its end", process.wait_with_output())
        .await
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("no provider 'nonsense'"), "{told}");
    assert!(told.contains("export MISTRAL_API_KEY=..."), "{told}");
    let text = fs::read_to_string(folder.path().join("tollgate.yaml")).unwrap();
    let included = "  - providers/groq.yaml\n  - providers/mistral.yaml\n";
    assert!(text.contains(included), "{text}");
}

#[tokio::test]
async fn beside_the_secrets_of_a_package_it_makes_no_others() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("environment"), "TOLLGATE_PEPPER=x\n").unwrap();
    let output = run(&["init", "--provider", "xai"], folder.path()).await;
    assert!(output.status.success(), "{output:?}");
    // As they are for a command that systemd runs in another folder.
    let at = folder.path().canonicalize().unwrap();
    let at = at.display();
    for wanted in [
        format!("secrets of the gateway are in {at}/environment"),
        "  XAI_API_KEY=...\n".to_owned(),
        format!("chmod -R g+rX {at}/tollgate.yaml {at}/providers\n"),
        format!(
            "EnvironmentFile={at}/environment tollgate keys create \"my app\" --plan pro \
             --config {at}/tollgate.yaml\n"
        ),
    ] {
        assert!(output.stdout.contains(&wanted), "{wanted}: {output:?}");
    }
    assert!(!output.stdout.contains("openssl"), "{output:?}");
}

#[tokio::test]
async fn a_variable_of_two_files_is_exported_once() {
    let folder = TempDir::new().unwrap();
    let both = ["--provider", "bedrock", "--provider", "bedrock-runtime"];
    let output = run(&[&["init"], &both[..]].concat(), folder.path()).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(exported(&output), ["AWS_BEARER_TOKEN_BEDROCK"]);
}
