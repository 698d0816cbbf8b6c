//! `tollgate keys`: tables for people, JSON for programs, and what is refused.

use crate::support::{Config, Output, tollgate};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with a configuration and no gateway.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let config = Config::new()
            .with("families.alpha-opus", json!({"group": "opus"}))
            .with(
                "plans.pro",
                json!({"tokens": "10M", "validity": "30d", "groups": ["opus"]}),
            )
            .with("models.alpha-opus-5", json!({"family": "alpha-opus"}));
        std::fs::write(folder.path().join("tollgate.yaml"), config.0.to_string()).unwrap();
        Self(folder)
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = tollgate();
        // The configuration is found where it stands by default.
        command.current_dir(self.0.path()).arg("keys");
        Output::of(command.args(arguments)).await
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat()).await;
        assert!(output.status.success(), "{output:?}");
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Makes a key: its text and its id.
    async fn create(&self, arguments: &[&str]) -> (String, String) {
        let made = self.json(&[&["create"], arguments].concat()).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&made["key"]), text(&made["record"]["id"]))
    }

    /// What a refused command says.
    async fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "{output:?}");
        assert_eq!(output.stdout, "", "{output:?}");
        output.stderr
    }
}

#[tokio::test]
async fn a_new_key_is_alone_on_standard_output() {
    let desk = Desk::new();
    let made = desk.run(&["create", "Zoë's laptop", "--plan", "pro"]).await;
    let key = made.stdout.trim_end();
    assert!(key.starts_with("sk-") && key.len() == 52, "{made:?}");
    assert!(made.stderr.contains("is not stored: keep it"), "{made:?}");
    let table = desk.run(&["show", &key[..11]]).await.stdout;
    let [head, row] = table.lines().collect::<Vec<_>>()[..] else {
        panic!("{table}");
    };
    assert!(head.starts_with("ID ") && head.contains("STATE"), "{table}");
    for part in ["Zoë's laptop", "active", "pro", "opus", &key[..11]] {
        assert!(row.contains(part), "{part}: {table}");
    }
    assert!(!table.contains(key));
}

#[tokio::test]
async fn one_key_is_shown_alike_however_it_is_named() {
    let desk = Desk::new();
    let (key, id) = desk.create(&["ci", "--requests", "60"]).await;
    desk.create(&["another"]).await;
    let shown = desk.json(&["show", &id]).await;
    assert_eq!(shown["name"], "ci");
    assert_eq!(shown["limits"]["requests"], 60);
    for name in [&key[..11], &key] {
        assert_eq!(desk.json(&["show", name]).await, shown, "{name}");
    }
}

#[tokio::test]
async fn a_key_lives_its_whole_life_on_the_command_line() {
    let desk = Desk::new();
    let (_, id) = desk.create(&["ci", "--plan", "pro", "--days", "7"]).await;
    let expiry = |record: &Value| record["expires_at"].as_str().unwrap().to_owned();
    let before = desk.json(&["show", &id]).await;
    let extended = desk.json(&["extend", &id, "--days", "30"]).await;
    assert!(expiry(&extended) > expiry(&before), "{extended}");

    let given = ["top-up", &id, "--tokens", "2M", "--days", "1"];
    let grant = &desk.json(&given).await[0];
    assert_eq!(
        (&grant["tokens"], &grant["validity_seconds"], &grant["used"]),
        (&json!(2_000_000), &json!(86_400), &json!(0))
    );
    desk.json(&["top-up", &id, "--plan", "pro"]).await;
    let grants = desk.json(&["grants", &id]).await;
    let tokens: Vec<_> = grants.as_array().unwrap().iter().collect();
    let tokens: Vec<_> = tokens.iter().map(|it| it["tokens"].as_u64()).collect();
    assert_eq!(tokens, [10_000_000, 2_000_000, 10_000_000].map(Some));
    let table = desk.run(&["grants", &id]).await.stdout;
    assert_eq!(table.lines().count(), 4, "{table}");

    let limited = desk.json(&["set-limits", &id, "--concurrent", "3"]).await;
    assert_eq!(limited["limits"]["concurrent"], 3);
    let free = desk.json(&["set-limits", &id]).await;
    assert_eq!(free["limits"]["concurrent"], Value::Null);

    let revoked = desk.json(&["revoke", &id]).await;
    assert_eq!(revoked["state"], "revoked");
    assert_eq!(desk.json(&["revoke", &id]).await, revoked);
}

#[tokio::test]
async fn keys_are_listed_whole_or_in_part() {
    let desk = Desk::new();
    let mut ids = Vec::new();
    for name in ["desk 1", "desk 2", "visitor_%"] {
        ids.push(desk.create(&[name]).await.1);
    }
    desk.run(&["revoke", &ids[1]]).await;
    let listed = async |arguments: &[&str]| -> Vec<String> {
        let found = desk.json(&[&["list"], arguments].concat()).await;
        let found = found.as_array().unwrap().iter();
        found
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(listed(&[]).await, ids);
    assert_eq!(listed(&["--limit", "2"]).await, ids[..2]);
    assert_eq!(listed(&["--after", &ids[0]]).await, ids[1..]);
    assert_eq!(listed(&["--state", "revoked"]).await, ids[1..2]);
    assert_eq!(listed(&["--name", "desk"]).await, ids[..2]);
    assert_eq!(listed(&["--name", "_%"]).await, ids[2..]);
    assert_eq!(listed(&["--name", "d_sk"]).await, [""; 0]);
    let table = desk.run(&["list"]).await.stdout;
    assert_eq!(table.lines().count(), 4, "{table}");
}

#[tokio::test]
async fn an_unknown_name_is_refused_with_the_nearest_one() {
    let desk = Desk::new();
    let (_, id) = desk.create(&["ci"]).await;
    for (arguments, part) in [
        (&["create", "x", "--plan", "prp"][..], "did you mean 'pro'"),
        (&["create", "x", "--group", "opsu"], "did you mean 'opus'"),
        (&["create", "x", "--endpoint", "/v1/chat"], "no endpoint"),
        (&["create", "  "], "the name must have"),
        (&["create", "x", "--days", "0"], "1..=36500"),
        (&["create", "x", "--requests", "0"], "--requests"),
        (&["top-up", &id], "--plan"),
        (&["top-up", &id, "--tokens", "5"], "--days"),
        (
            &[
                "top-up", &id, "--tokens", "5", "--days", "1", "--plan", "pro",
            ],
            "cannot be used with",
        ),
        (
            &["top-up", &id, "--tokens", "many", "--days", "1"],
            "a number of tokens such as",
        ),
        (
            &["top-up", &id, "--tokens", "0", "--days", "1"],
            "between 1 and",
        ),
        (&["extend", &id, "--days", "-1"], "--days"),
        (&["show", "%"], "names no key"),
        (&["show", "sk-*"], "names no key"),
        (&["revoke", "key_0123456789abcdefghi_"], "names no key"),
        (&["show", "key_0123456789abcdefghij"], "no such key"),
        (&["list", "--after", "5"], "the id of a key"),
        (&["list", "--state", "gone"], "possible values"),
    ] {
        let reported = desk.refusal(arguments).await;
        assert!(reported.contains(part), "{arguments:?}: {reported}");
    }
    assert_eq!(desk.json(&["list"]).await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_beginning_that_several_keys_share_names_them_all() {
    let desk = Desk::new();
    let (_, one) = desk.create(&["one"]).await;
    let (_, two) = desk.create(&["two"]).await;
    let file = rusqlite::Connection::open(desk.0.path().join("tollgate.db")).unwrap();
    file.execute_batch("UPDATE keys SET prefix = 'sk-AAAAAAAA'")
        .unwrap();
    for command in ["show", "revoke", "grants"] {
        let reported = desk.refusal(&[command, "sk-AAAA"]).await;
        assert!(
            reported.contains(&one) && reported.contains(&two),
            "{reported}"
        );
    }
    let states = desk.json(&["list", "--state", "active"]).await;
    assert_eq!(states.as_array().unwrap().len(), 2);
}
