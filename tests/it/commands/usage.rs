//! `tollgate usage export`: exact sums of what keys have used, as CSV and as Parquet.

use super::{gateway, refused, run};
use crate::support::{CHAT, Gateway, Output, Provider, Request, bounded, eventually, prompt};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;

use tollgate_types::Money;
const EXPORT: [&str; 2] = ["usage", "export"];

async fn export(gateway: &Gateway, arguments: &[&str]) -> Output {
    let arguments = [&EXPORT, arguments].concat();
    run(&arguments, gateway.folder.path()).await
}

/// The lines of an export, each by its cells.
async fn lines(gateway: &Gateway, arguments: &[&str]) -> Vec<Vec<String>> {
    let output = export(gateway, arguments).await;
    assert!(output.status.success(), "{output:?}");
    let lines = output.stdout.split_terminator("\r\n");
    lines
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}

async fn usage_of(gateway: &Gateway, key: &str) -> Value {
    let request = Request::get("/v1/usage").key(key);
    gateway.send(&request).await.json()["models"][0].clone()
}

/// A gateway on which a key has sent three requests and another key one.
async fn busy() -> (Gateway, Provider, [(String, u64); 2]) {
    let (gateway, provider) = gateway().await;
    let keys = [
        (gateway.create_key(&[]).await, 3),
        (gateway.create_key(&[]).await, 1),
    ];
    for (key, requests) in &keys {
        for _ in 0..*requests {
            let body = prompt(CHAT, "test-model", "Say something nice.", json!({}));
            gateway
                .send(&Request::post(CHAT, &body).key(key))
                .await
                .assert_ok();
        }
    }
    eventually("all requests on record", async || {
        let found = lines(&gateway, &["--by", "model"]).await;
        (found.get(1)?.get(1)? == "4").then_some(())
    })
    .await;
    (gateway, provider, keys)
}

#[tokio::test]
async fn sums_are_those_that_the_keys_see_in_a_stable_order() {
    let (gateway, _provider, keys) = busy().await;
    let found = lines(&gateway, &[]).await;
    let head = "key,key_name,plan,model,requests,input,cache_read,cache_write,output,reasoning,charged,overdraft,cost,cost_overdraft";
    assert_eq!(found[0].join(","), head);
    assert_eq!(found.len(), 3, "{found:?}");
    for (key, requests) in &keys {
        let seen = usage_of(&gateway, key).await;
        let requests = requests.to_string();
        let line = found.iter().find(|line| line[4] == requests).unwrap();
        assert_eq!(line[1..4], ["test", "plenty", "test-model"]);
        for (place, name) in [(5, "input"), (8, "output"), (10, "charged")] {
            assert_eq!(line[place], seen[name].to_string(), "{name}: {line:?}");
        }
    }
    for arguments in [&["--output", "-"][..], &[]] {
        assert_eq!(found, lines(&gateway, arguments).await);
    }
    let mut ids: Vec<_> = found[1..].iter().map(|line| &line[0]).collect();
    ids.sort();
    assert_eq!(
        ids,
        found[1..].iter().map(|line| &line[0]).collect::<Vec<_>>()
    );

    let by_month = lines(&gateway, &["--by", "month,plan"]).await;
    assert_eq!(by_month[0][..3], ["month", "plan", "requests"]);
    assert_eq!(by_month[1][1..3], ["plenty", "4"]);
    // Before the period there is nothing.
    let none = lines(&gateway, &["--to", "2026-01-01"]).await;
    assert_eq!(none.len(), 1, "{none:?}");
    let all = lines(&gateway, &["--from", "2026-01-01", "--by", "plan"]).await;
    assert_eq!(all[1][1], "4");
}

#[tokio::test]
async fn parquet_has_the_same_rows() {
    let (gateway, _provider, _keys) = busy().await;
    let csv = lines(&gateway, &[]).await;
    let file = gateway.folder.path().join("usage.parquet");
    fs::write(&file, "an earlier export").unwrap();
    let arguments = ["--format", "parquet", "--output", "usage.parquet"];
    let output = export(&gateway, &arguments).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, "");
    let reader = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    let rows: Vec<Vec<_>> = rows
        .map(|row| {
            let columns = row.get_column_iter();
            columns
                .map(|(name, field)| match field {
                    Field::Str(text) => (name.clone(), text.clone()),
                    Field::Long(number) => (name.clone(), number.to_string()),
                    Field::Decimal(_) => {
                        let amount: Money = field.to_string().parse().unwrap();
                        (name.clone(), amount.to_string())
                    }
                    other => panic!("{name}: {other}"),
                })
                .collect()
        })
        .collect();
    let expected: Vec<Vec<_>> = csv[1..]
        .iter()
        .map(|line| csv[0].iter().cloned().zip(line.iter().cloned()).collect())
        .collect();
    assert_eq!(rows, expected);
    let left = fs::read_dir(gateway.folder.path()).unwrap();
    let left = left.map(|it| it.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.starts_with("usage.")).collect();
    assert_eq!(left, ["usage.parquet"]);
}

#[tokio::test]
async fn a_name_of_a_key_is_no_formula_of_a_spreadsheet() {
    let (gateway, _provider) = gateway().await;
    let create = [
        "create",
        "=HYPERLINK(\"http://x\",1)",
        "--plan",
        "plenty",
        "--json",
    ];
    let output = gateway.keys(&create).await;
    let created: Value = serde_json::from_str(&output.stdout).unwrap();
    let body = prompt(CHAT, "test-model", "Hello.", json!({}));
    let request = Request::post(CHAT, &body).key(created["key"].as_str().unwrap());
    gateway.send(&request).await.assert_ok();
    let wanted = ",\"'=HYPERLINK(\"\"http://x\"\",1)\",plenty,";
    eventually("the record", async || {
        let output = export(&gateway, &[]).await;
        output.stdout.contains(wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_exported_is_refused_and_leaves_no_file() {
    let (gateway, _provider) = gateway().await;
    let folder = gateway.folder.path();
    for (arguments, wanted) in [
        (
            &["--from", "2026-11-02", "--to", "2026-11-01"][..],
            "--from 2026-11-02T00:00:00.000Z is not before --to 2026-11-01T00:00:00.000Z",
        ),
        (&["--by", "key,key"], "--by names a group twice"),
        (
            &["--output", "none/usage.csv"],
            "none/usage.csv cannot be written: No such file",
        ),
        (
            &["--output", "/dev/null"],
            "/dev/null is not a regular file",
        ),
        (&["--output", "."], ". is not a regular file"),
        (
            &["--output", "tollgate.db"],
            "tollgate.db is a file of the ledger",
        ),
        (
            &["--output", "./tollgate.db.sequence"],
            "./tollgate.db.sequence is a file of the ledger",
        ),
        (
            &["--output", "tollgate.yaml"],
            "tollgate.yaml is a file of the configuration",
        ),
    ] {
        refused(&[&EXPORT, arguments].concat(), folder, wanted).await;
    }
    for wrong in [
        ["--by", "colour"],
        ["--from", "yesterday"],
        ["--format", "xlsx"],
    ] {
        let output = export(&gateway, &wrong).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stderr.contains(wrong[1]), "{output:?}");
    }
    let left = fs::read_dir(folder).unwrap();
    let left = left.map(|it| it.unwrap().file_name().into_string().unwrap());
    assert!(!left.collect::<Vec<_>>().join(" ").contains("csv"));

    // A ledger that is none, and none at all.
    let elsewhere = tempfile::TempDir::new().unwrap();
    fs::copy(
        folder.join("tollgate.yaml"),
        elsewhere.path().join("tollgate.yaml"),
    )
    .unwrap();
    fs::copy(folder.join("token"), elsewhere.path().join("token")).unwrap();
    refused(
        &EXPORT,
        elsewhere.path(),
        "there is no ledger at tollgate.db",
    )
    .await;
    let ledger = elsewhere.path().join("tollgate.db");
    fs::write(
        &ledger,
        "no database at all, but long enough to have a head",
    )
    .unwrap();
    refused(&EXPORT, elsewhere.path(), "is not a ledger file").await;
}

#[tokio::test]
async fn a_reader_that_leaves_ends_an_export_quietly() {
    let (gateway, _provider) = gateway().await;
    for format in ["csv", "parquet"] {
        let arguments = ["usage", "export", "--format", format];
        let mut process = super::command(&arguments, gateway.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Before the command has had the time to write.
        drop(process.stdout.take());
        let output = bounded("its end", process.wait_with_output())
            .await
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert!(output.status.success(), "{format}: {}", output.status);
    }
}
