//! The access log and the program's own log.

use super::*;

#[tokio::test]
async fn every_request_leaves_one_line_that_says_what_matters_and_no_secret() {
    let (_provider, gateway) = gateway().await;
    for path in FORMATS {
        for more in [json!({}), json!({"stream": true})] {
            gateway.ask(path, "test-model", "", more).await.assert_ok();
        }
    }
    let refused = Request::get("/v1").key("sk-somebodys-secret");
    let refused = gateway.send(&refused).await;
    let id = refused.header("x-request-id").unwrap();
    let line = gateway.access_line(|line| line["id"] == id).await;
    for (field, value) in [
        ("method", json!("GET")),
        ("path", json!("/v1")),
        ("status", json!(401)),
        ("code", json!("invalid_api_key")),
        ("outcome", json!("rejected")),
        ("attempts", json!(0)),
        ("key", Value::Null),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }

    let answer = gateway
        .ask(MESSAGES, "test-model", "", json!({"stream": true}))
        .await;
    let id = answer.header("x-request-id").unwrap();
    let line = gateway.access_line(|line| line["id"] == id).await;
    for (field, value) in [
        ("method", json!("POST")),
        ("path", json!(MESSAGES)),
        ("format", json!("messages")),
        ("model_asked", json!("test-model")),
        ("model", json!("test-model")),
        ("provider", json!("sim")),
        ("status", json!(200)),
        ("code", Value::Null),
        ("outcome", json!("completed")),
        ("stream", json!(true)),
        ("attempts", json!(1)),
        ("answer_bytes", json!(answer.body().len())),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }
    assert!(
        line["key"]
            .as_str()
            .is_some_and(|key| key.starts_with("key_")),
        "{line}"
    );
    assert!(
        line["usage"]["output"].as_u64().is_some_and(|it| it > 0),
        "{line}"
    );
    assert!(
        line["duration_ms"].as_f64() >= line["first_byte_ms"].as_f64(),
        "{line}"
    );

    let output = gateway.output();
    for secret in [
        &*gateway.key,
        "somebodys-secret",
        "credential-of-the-provider",
        "pepper-of-the-tests",
    ] {
        assert!(!output.contains(secret), "{secret}: {output}");
    }
}

#[tokio::test]
async fn a_providers_failure_is_logged_without_its_text() {
    let (_provider, gateway) = gateway().await;
    let answer = gateway
        .ask(CHAT, "test-model", "vendor-openai-auth", json!({}))
        .await;
    let id = answer.header("x-request-id").unwrap();
    let line = gateway.log_line(id).await;
    for word in ["sim", "credential", "401", "invalid_api_key"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert!(!gateway.output().contains("Incorrect API key"));
}

#[tokio::test]
async fn the_access_log_follows_a_rotated_file_and_has_the_form_of_web_servers_if_asked() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with(
        "log",
        json!({"access_file": "access.log", "access_format": "common"}),
    );
    let gateway = Gateway::start(config).await;
    let (file, old) = ["access.log", "access.log.1"]
        .map(|name| gateway.folder.path().join(name))
        .into();
    let line = async |answers: usize| {
        eventually("a line of the access log", async || {
            let text = std::fs::read_to_string(&file).ok()?;
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            (lines.len() == answers).then(|| lines.last().cloned())?
        })
        .await
    };
    let send = async || {
        let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
        answer.assert_ok();
        answer.body().len()
    };
    let bytes = send().await;
    let first = line(1).await;
    assert!(first.starts_with("127.0.0.1 - key_"), "{first}");
    let end = format!("] \"POST {CHAT} HTTP/1.1\" 200 {bytes}");
    assert!(first.ends_with(&end), "{first}");
    std::fs::rename(&file, &old).unwrap();
    gateway.signal("USR1").await;
    send().await;
    line(1).await;
    let kept = std::fs::read_to_string(old).unwrap();
    assert_eq!(kept.lines().collect::<Vec<_>>(), [first]);
}

#[tokio::test]
async fn the_journal_gets_an_entry_with_fields_for_each_request_also_after_its_restart() {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("journal");
    let journal = UnixDatagram::bind(&socket).unwrap();
    let log = json!({"access": "journald", "journal_socket": "journal"});
    let config = Config::of(&provider).with("log", log);
    let gateway = Gateway::start_in(folder, config).await;
    let entry = async |journal: &UnixDatagram| {
        let mut buffer = vec![0; 65_536];
        let size = bounded("an entry", journal.recv(&mut buffer)).await;
        buffer.truncate(size.unwrap());
        String::from_utf8(buffer).unwrap()
    };
    let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
    answer.assert_ok();
    let id = answer.header("x-request-id").unwrap();
    let fields = entry(&journal).await;
    let (message, fields) = fields.split_once('\n').unwrap();
    let line: Value = serde_json::from_str(message.strip_prefix("MESSAGE=").unwrap()).unwrap();
    let fields: Vec<_> = fields.lines().collect();
    for field in [
        "PRIORITY=6".to_owned(),
        "SYSLOG_IDENTIFIER=tollgate".to_owned(),
        format!("TOLLGATE_ID={id}"),
        "TOLLGATE_MODEL=test-model".to_owned(),
        "TOLLGATE_STATUS=200".to_owned(),
        format!("TOLLGATE_USAGE_OUTPUT={}", line["usage"]["output"]),
    ] {
        assert!(fields.contains(&&*field), "{field}: {fields:#?}");
    }
    assert!(!fields.concat().contains("TOLLGATE_CODE"), "{fields:#?}");

    let lost = "tollgate_access_lines_lost_total";
    assert_eq!(gateway.sample(lost).await, Some(0.0));
    drop(journal);
    gateway.ask(CHAT, "test-model", "", json!({})).await;
    gateway.sample_is(lost, 1.0).await;
    std::fs::remove_file(&socket).unwrap();
    let journal = UnixDatagram::bind(&socket).unwrap();
    gateway
        .ask(CHAT, "test-model", "status-500", json!({}))
        .await;
    let fields = entry(&journal).await;
    for field in ["PRIORITY=4", "TOLLGATE_CODE=upstream_error"] {
        assert!(fields.lines().any(|it| it == field), "{field}: {fields}");
    }
    assert!(!gateway.output().contains("TOLLGATE_"));
}

#[tokio::test]
async fn an_access_log_that_cannot_be_opened_is_named_at_the_start() {
    for (log, expected) in [
        (
            json!({"access_file": "missing/access.log"}),
            "log.access_file: missing/access.log: No such file",
        ),
        (
            json!({"access": "journald", "journal_socket": "missing"}),
            "log.journal_socket: missing: No such file",
        ),
    ] {
        let folder = TempDir::new().unwrap();
        let config = Config::of(&Provider::start().await)
            .with("log", log)
            .on(Ports::free());
        std::fs::write(folder.path().join("tollgate.yaml"), config.0.to_string()).unwrap();
        let mut serve = tollgate();
        let output = Output::of(serve.arg("serve").current_dir(&folder)).await;
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    }
}
