//! Starts that fail, and the check of a configuration.

use super::*;

/// Runs `tollgate serve` on a configuration that cannot work.
async fn failed_start(config: &Config) -> Output {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    Output::of(tollgate().args(["serve", "--config"]).arg(file)).await
}

#[tokio::test]
async fn a_port_in_use_is_reported_and_nothing_starts() {
    let (provider, gateway) = gateway().await;
    let free = Ports::free();
    for ports in [
        Ports {
            callers: gateway.address,
            ..free
        },
        Ports {
            operators: gateway.admin,
            ..free
        },
    ] {
        let taken = if ports.callers == gateway.address {
            ports.callers
        } else {
            ports.operators
        };
        let output = failed_start(&Config::of(&provider).on(ports)).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let expected = format!("cannot listen on {taken}");
        assert!(output.stderr.contains(&expected), "{output:?}");
        assert!(!output.stderr.contains("panic"), "{output:?}");
    }
}

#[tokio::test]
async fn a_start_that_fails_makes_no_ledger() {
    let provider = Provider::start().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = Ports {
        callers: taken.local_addr().unwrap(),
        ..Ports::free()
    };
    let config = Config::of(&provider).on(ports);
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    let mut serve = tollgate();
    serve.arg("serve").arg("--config").arg(&file);
    let failed = Output::of(&mut serve).await;
    assert!(failed.stderr.contains("cannot listen on"), "{failed:?}");
    assert!(!folder.path().join("tollgate.db").exists());
}

#[tokio::test]
async fn missing_files_are_reported_at_the_start_with_their_place() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).on(Ports::free());
    let tls = json!({"certificate": "none.crt", "key": "none.key"});
    let mut no_certificate = config.clone();
    no_certificate.0["server"]["listen"][0]["tls"] = tls;
    for (config, words) in [
        (
            config.clone().with("keys.pepper", json!("env:NOT_SET")),
            &["keys.pepper", "NOT_SET"][..],
        ),
        (
            config.clone().with("keys.pepper", json!("literal:short")),
            &[
                "keys.pepper",
                "at least 32 characters",
                "openssl rand -hex 32",
            ],
        ),
        (
            config
                .clone()
                .with("providers.sim.credentials", json!(["env:NOT_SET"])),
            &["providers.sim.credentials", "NOT_SET"],
        ),
        (
            config.with("store.path", json!("/proc/nowhere/tollgate.db")),
            &["/proc/nowhere"],
        ),
        (no_certificate, &["none.crt"]),
    ] {
        let output = failed_start(&config).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        for word in words {
            assert!(output.stderr.contains(word), "{word}: {output:?}");
        }
    }
}

/// Runs `tollgate check` with every variable set that the file names.
async fn check(file: &Path) -> Output {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut command = tollgate();
    for rest in text.split("env:").skip(1) {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name = rest.split(|letter| !is_name(letter)).next().unwrap();
        command.env(
            name,
            match name {
                "TOLLGATE_DATABASE" => "postgres://tollgate:secret@localhost:5432/tollgate",
                _ => "any-value-that-is-long-enough-for-all",
            },
        );
    }
    Output::of(command.arg("check").arg(file)).await
}

#[tokio::test]
async fn every_example_passes_its_check() {
    let home = tempfile::TempDir::new().unwrap();
    // Beside it is the folder of the demo's ledger, as in the repository.
    let folder = home.path().join("conf");
    for folder in [&folder, &home.path().join(".demo")] {
        std::fs::create_dir(folder).unwrap();
    }
    let authority = Authority::new();
    authority.issue("models.example.com").write(&folder, "tls");
    std::fs::write(folder.join("internal-ca.crt"), authority.pem()).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf");
    let mut copies = Vec::new();
    for example in std::fs::read_dir(examples).unwrap() {
        let example = example.unwrap().path();
        // The files of providers are included by others; their own tests boot them.
        if example.is_dir() {
            continue;
        }
        let copy = folder.join(example.file_name().unwrap());
        let text = std::fs::read_to_string(&example).unwrap();
        let here = folder.display().to_string();
        let text = text.replace("/etc/tollgate", &here);
        let text = text.replace("/var/lib/tollgate", &here);
        std::fs::write(&copy, text).unwrap();
        // The catalog serves nothing by itself: others include it.
        let is_whole = copy.extension().unwrap() == "yaml" && !copy.ends_with("catalog.yaml");
        copies.extend(is_whole.then_some(copy));
    }
    assert!(copies.len() > 5, "{copies:?}");
    for file in copies {
        let output = check(&file).await;
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.contains("no fault"), "{output:?}");
    }
}

#[tokio::test]
async fn all_faults_of_a_file_are_reported_with_their_places() {
    let folder = tempfile::TempDir::new().unwrap();
    let bad = folder.path().join("bad.yaml");
    let text = "server:\n  threads: 0\nprovidrs: {}\nmodels:\n  a: { famly: nothing }\n";
    std::fs::write(&bad, text).unwrap();
    let output = check(&bad).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for word in [
        "bad.yaml:2",
        "server.threads",
        "bad.yaml:3",
        "providrs",
        "bad.yaml:5",
        "famly",
    ] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    let missing = check(&folder.path().join("missing.yaml")).await;
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(missing.stderr.contains("missing.yaml"), "{missing:?}");
}
