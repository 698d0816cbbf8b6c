//! What becomes of keys: made, found, given to, taken back.

use super::*;

#[tokio::test]
async fn a_key_lives_its_whole_life_over_http() {
    let office = Office::open().await;
    let order = json!({"name": "Zoë's laptop", "plan": "pro", "expires_after": "7d"});
    let made = office.post("/api/v1/keys", &order).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let (key, record) = (made.json()["key"].clone(), made.json()["record"].clone());
    let key = key.as_str().unwrap();
    assert_eq!(record["groups"], json!(["other"]), "{record}");
    assert_eq!(record["state"], "active");
    office.caller(key).await.assert_ok();

    // By id, by its beginning, and as the command line shows it.
    let at = |rest: &str| format!("/api/v1/keys/{}{rest}", id(&record));
    let shown = office.get(&at("")).await.json();
    assert_eq!(shown, record);
    assert_eq!(
        office
            .get(&format!("/api/v1/keys/{}", &key[..11]))
            .await
            .json(),
        record
    );
    let printed = office.gateway.keys(&["show", id(&record), "--json"]).await;
    assert_eq!(
        serde_json::from_str::<Value>(&printed.stdout).unwrap(),
        record
    );

    let limits = json!({"requests": 60, "output_tokens": "20k"});
    let put = Request::post(&at("/limits"), &limits).key(TOKEN);
    let put = Request {
        method: "PUT".to_owned(),
        ..put
    };
    let limited = office.send(&put).await.json();
    assert_eq!(
        limited["limits"],
        json!({"requests": 60, "input_tokens": null, "output_tokens": 20000, "concurrent": null})
    );

    let grant = json!({"tokens": "2M", "validity": "12h"});
    let grant = office.post(&at("/grants"), &grant).await;
    assert_eq!(grant.status, 201, "{grant:?}");
    let grants = office.get(&at("/grants")).await.json();
    let tokens = |number: usize| grants["data"][number]["tokens"].as_u64().unwrap();
    assert_eq!((tokens(0), tokens(1)), (10_000_000, 2_000_000), "{grants}");
    assert_eq!(grants["data"][1], grant.json()["data"][0]);
    assert_eq!(grants["data"][1]["validity_seconds"], 12 * 3600);

    let extended = office.post(&at("/extend"), &json!({"by": "30d"})).await;
    extended.assert_ok();
    assert!(
        extended.json()["expires_at"].as_str() > record["expires_at"].as_str(),
        "{extended:?}"
    );

    let revoke = Request::new("POST", &at("/revoke")).key(TOKEN);
    let revoked = office.send(&revoke).await;
    revoked.assert_ok();
    assert_eq!(revoked.json()["state"], "revoked");
    let since = Instant::now();
    let refused = async || (office.caller(key).await.status == 401).then_some(());
    eventually("the key is refused", refused).await;
    assert!(since.elapsed() < support::AT_ONCE, "{:?}", since.elapsed());
    let again = office.send(&revoke).await;
    assert_eq!(again.json()["revoked_at"], revoked.json()["revoked_at"]);

    let log = office.gateway.log_line("admin API: revokeKey key_").await;
    assert!(
        log.contains(revoked.header("x-request-id").unwrap()),
        "{log}"
    );
    assert!(!office.gateway.output().contains(key));
    assert!(!office.gateway.output().contains(TOKEN));
}

#[tokio::test]
async fn keys_are_listed_page_by_page_and_by_what_they_are() {
    let office = Office::open().await;
    for number in 0..5 {
        let plan = (number % 2 == 0).then_some("pro");
        let order = json!({"name": format!("desk {number}%"), "plan": plan});
        office.create(&order).await;
    }
    let names = |page: &Answer| -> Vec<String> {
        let page = page.json();
        let names = page["data"].as_array().unwrap().iter();
        names
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut found = Vec::new();
    let mut target = "/api/v1/keys?limit=2".to_owned();
    loop {
        let page = office.get(&target).await;
        page.assert_ok();
        found.extend(names(&page));
        let page = page.json();
        if page["has_more"] == false {
            break;
        }
        let last = page["last_id"].as_str().unwrap();
        target = format!("/api/v1/keys?limit=2&after={last}");
        assert!(found.len() < 20, "{found:?}");
    }
    assert_eq!(found[0], "test");
    assert_eq!(
        found[1..],
        ["desk 0%", "desk 1%", "desk 2%", "desk 3%", "desk 4%"]
    );

    let pro = office.get("/api/v1/keys?plan=pro&state=active").await;
    assert_eq!(names(&pro), ["desk 0%", "desk 2%", "desk 4%"]);
    let one = office.get("/api/v1/keys?name=k%203%25").await;
    assert_eq!(names(&one), ["desk 3%"]);
    for nothing in ["name=%25d", "name=d_sk", "plan=p%25", "state=revoked"] {
        let none = office.get(&format!("/api/v1/keys?{nothing}")).await;
        assert_eq!(none.json()["data"], json!([]), "{nothing}");
        assert_eq!(none.json()["last_id"], Value::Null);
    }
}

#[tokio::test]
async fn a_beginning_that_two_keys_share_names_them_and_changes_none() {
    let office = Office::open().await;
    let (_, one) = office.create(&json!({"name": "one"})).await;
    let (_, two) = office.create(&json!({"name": "two"})).await;
    office.sql("UPDATE keys SET prefix = 'sk-AAAAAAAA' WHERE name IN ('one', 'two')");
    let revoke = Request::new("POST", "/api/v1/keys/sk-AAAA/revoke").key(TOKEN);
    let refused = office.send(&revoke).await;
    refused.assert_error(400, "invalid_request");
    for record in [&one, &two] {
        assert!(refused.message().contains(id(record)), "{refused:?}");
    }
    let printed = office.gateway.keys(&["revoke", "sk-AAAA"]).await;
    assert!(!printed.status.success());
    assert!(printed.stderr.contains(id(&two)), "{printed:?}");
    let active = office.get("/api/v1/keys?state=active").await.json();
    assert_eq!(active["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_plan_of_a_reload_can_be_given() {
    let office = Office::open().await;
    let order = json!({"name": "x", "plan": "max"});
    let before = office.post("/api/v1/keys", &order).await;
    before.assert_error(400, "invalid_request");
    let plan = json!({"tokens": 500, "validity": "1d"});
    let config = office.gateway.config().with("plans.max", plan);
    office.gateway.rewrite(config);
    office.gateway.signal("HUP").await;
    office.gateway.log_line("was reloaded").await;
    office.create(&order).await;
    // As programs send it that have nothing to say.
    let again = office.post("/api/v1/reload", &json!({})).await;
    again.assert_ok();
}

#[tokio::test]
async fn an_order_with_a_name_is_carried_out_once() {
    let office = Office::open().await;
    let send = async |target: &str, order: &Value, name: &str| {
        let request = Request::post(target, order).key(TOKEN);
        office.send(&request.header("idempotency-key", name)).await
    };
    let order = json!({"name": "laptop"});
    let made = send("/api/v1/keys", &order, "new-laptop").await;
    assert_eq!(made.status, 201, "{made:?}");
    let record = made.json()["record"].clone();
    let again = send("/api/v1/keys", &order, "new-laptop").await;
    again.assert_error(409, "invalid_request");
    for words in [id(&record), "another Idempotency-Key"] {
        assert!(again.message().contains(words), "{}", again.message());
    }
    assert_eq!(
        office.get("/api/v1/keys?name=laptop").await.json()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let grants = format!("/api/v1/keys/{}/grants", id(&record));
    let tokens = json!({"tokens": "2M", "validity": "12h"});
    let first = send(&grants, &tokens, "invoice-7").await;
    let second = send(&grants, &tokens, "invoice-7").await;
    assert_eq!((first.status, second.status), (201, 201), "{second:?}");
    assert_eq!(first.json(), second.json());
    assert_eq!(first.json()["data"].as_array().unwrap().len(), 1);
    // The same name for something else is a slip.
    let other = json!({"tokens": "3M", "validity": "12h"});
    send(&grants, &other, "invoice-7")
        .await
        .assert_error(409, "invalid_request");
    assert_eq!(send(&grants, &tokens, "invoice-8").await.status, 201);
    let given = office.get(&grants).await.json();
    assert_eq!(given["data"].as_array().unwrap().len(), 2, "{given}");

    let extend = format!("/api/v1/keys/{}/extend", id(&record));
    let longer = json!({"by": "2h"});
    for _ in 0..3 {
        send(&extend, &longer, "extend-1").await.assert_ok();
    }
    let given = office.get(&grants).await.json();
    assert_eq!(given["data"][0]["validity_seconds"], 14 * 3600, "{given}");
    send(&extend, &longer, "extend-2").await.assert_ok();
    let given = office.get(&grants).await.json();
    assert_eq!(given["data"][0]["validity_seconds"], 16 * 3600, "{given}");

    // A name is one order's, whatever the order is for.
    let (_, other_key) = office.create(&json!({"name": "tablet"})).await;
    let theirs = format!("/api/v1/keys/{}", id(&other_key));
    for (target, order, name) in [
        (&extend, &json!({"by": "3h"}), "extend-1"),
        (&format!("{theirs}/extend"), &longer, "extend-1"),
        (&extend, &longer, "invoice-7"),
        (&extend, &longer, "new-laptop"),
        (&grants, &tokens, "extend-1"),
        (&grants, &tokens, "new-laptop"),
        (&format!("{theirs}/grants"), &tokens, "invoice-7"),
        (&"/api/v1/keys".to_owned(), &order, "invoice-7"),
        (&"/api/v1/keys".to_owned(), &order, "extend-1"),
    ] {
        let refused = send(target, order, name).await;
        refused.assert_error(409, "invalid_request");
        assert!(
            refused.message().contains("another operation"),
            "{refused:?}"
        );
    }
    let all = office.get("/api/v1/keys?limit=1000").await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 3, "{all}");
    let given = office.get(&grants).await.json();
    assert_eq!(given["data"].as_array().unwrap().len(), 2, "{given}");
    assert_eq!(given["data"][0]["validity_seconds"], 16 * 3600, "{given}");
    for name in ["", "a b", &"x".repeat(256)] {
        let refused = send(&grants, &tokens, name).await;
        refused.assert_error(400, "invalid_request");
    }
    office.get("/api/v1/ledger/verify").await.assert_ok();
}

/// Characters that are not seen, or that change how the text around them looks.
const HIDDEN: [char; 10] = [
    '\n', '\t', '\u{1b}', '\u{85}', '\u{200b}', '\u{200f}', '\u{202e}', '\u{2066}', '\u{2069}',
    '\u{feff}',
];

#[tokio::test]
async fn a_name_with_a_hidden_character_is_refused_by_the_api_and_the_command_line() {
    let office = Office::open().await;
    for hidden in HIDDEN {
        let name = format!("ci{hidden}admin");
        let code = format!("U+{:04X}", u32::from(hidden));
        for order in [json!({"name": name}), json!({"name": "ci", "plan": name})] {
            let refused = office.post("/api/v1/keys", &order).await;
            refused.assert_error(400, "invalid_request");
            assert!(!refused.message().contains(hidden), "{code}: {refused:?}");
        }
        let refused = office.post("/api/v1/keys", &json!({"name": name})).await;
        assert!(refused.message().contains(&code), "{code}: {refused:?}");
        let output = office.gateway.keys(&["create", &name]).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr.contains(&code), "{code}: {output:?}");
    }
    // What people are called has no bounds but these.
    for name in ["Zoë's laptop", "開発", "команда-1", "🚀 launch"] {
        office.create(&json!({"name": name})).await;
    }
}

#[tokio::test]
async fn a_configuration_with_a_hidden_character_in_a_name_is_refused_with_its_place() {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    for hidden in HIDDEN {
        let name = format!("a{hidden}b");
        let code = format!("U+{:04X}", u32::from(hidden));
        let plan = json!({"tokens": 1000, "validity": "1d"});
        let deployments = json!(["sim"]);
        let config = Config::of(&provider);
        for config in [
            config.clone().with(&format!("plans.{name}"), plan),
            config.clone().with("families.test.group", json!(name)),
            config.clone().model(&name, deployments),
            config
                .clone()
                .provider(&name, support::provider(provider.address)),
            config.with("admin.hosts", json!([name])),
        ] {
            std::fs::write(&file, config.0.to_string()).unwrap();
            let output = support::Output::of(tollgate().arg("check").arg(&file)).await;
            assert!(!output.status.success(), "{code}: {output:?}");
            assert!(output.stderr.contains(&code), "{code}: {output:?}");
            assert!(
                !output.stderr.trim().contains(hidden) || hidden == '\n',
                "{output:?}"
            );
        }
    }
}
