//! Conversations stay where their prompt cache is, and move when that is down.

use crate::support::{
    CHAT, Config, FORMATS, Gateway, MESSAGES, Provider, RESPONSES, Request, breaker, prompt,
};
use serde_json::{Value, json};

/// A body large enough to be kept where its prompt cache is.
pub fn turn(path: &str, conversation: usize, more: &[&str]) -> Value {
    let said = format!(
        "This is conversation {conversation}. {}",
        "word ".repeat(1000)
    );
    let mut body = prompt(path, "m", &said, Value::Null);
    let list = if path == RESPONSES {
        "input"
    } else {
        "messages"
    };
    if path == RESPONSES {
        body[list] = json!([{"role": "user", "content": said}]);
    }
    for (place, text) in more.iter().enumerate() {
        let role = if place % 2 == 0 { "assistant" } else { "user" };
        let message = json!({"role": role, "content": text});
        body[list].as_array_mut().unwrap().push(message);
    }
    body
}

/// Which of the providers got the last of `count` requests.
pub fn who<const N: usize>(providers: &[&Provider; N], before: &mut [u64; N]) -> usize {
    let now = providers.map(|it| it.handle.counters().requests);
    let who = (0..N)
        .find(|it| now[*it] > before[*it])
        .expect("no provider was asked");
    *before = now;
    who
}

#[tokio::test]
async fn a_conversation_stays_in_every_format_and_others_go_elsewhere() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::side_by_side(a.address, b.address);
    let gateway = Gateway::start(config).await;
    let (both, mut seen) = ([&a, &b], [0, 0]);
    for path in FORMATS {
        let mut homes = [0, 0];
        for conversation in 0..24 {
            gateway
                .post(path, &turn(path, conversation, &[]))
                .await
                .assert_ok();
            let home = who(&both, &mut seen);
            homes[home] += 1;
            let more = ["Indeed.", "And then?", "Nothing.", "Go on."];
            for length in [2, 4] {
                let body = turn(path, conversation, &more[..length]);
                gateway.post(path, &body).await.assert_ok();
                assert_eq!(
                    who(&both, &mut seen),
                    home,
                    "{path} {conversation} has moved"
                );
            }
        }
        assert!(homes.iter().all(|it| *it > 0), "{homes:?}");
    }
}

#[tokio::test]
async fn a_session_that_a_client_names_stays_whatever_it_says() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::side_by_side(a.address, b.address);
    let gateway = Gateway::start(config).await;
    let other_key = gateway.create_key(&[]).await;
    let (both, mut seen) = ([&a, &b], [0, 0]);
    let mut homes = [0, 0];
    let mut apart = 0;
    for session in 0..16 {
        let mut home = None;
        for word in ["one", "two", "three"] {
            let session = format!("session-{session}");
            let body = prompt(MESSAGES, "m", word, Value::Null);
            let request = Request::post(MESSAGES, &body)
                .key(&gateway.key)
                .header("x-claude-code-session-id", &session);
            gateway.send(&request).await.assert_ok();
            let here = who(&both, &mut seen);
            assert_eq!(*home.get_or_insert(here), here);
            let body = prompt(RESPONSES, "m", word, json!({"prompt_cache_key": session}));
            let request = Request::post(RESPONSES, &body).key(&other_key);
            gateway.send(&request).await.assert_ok();
            apart += usize::from(who(&both, &mut seen) != here);
        }
        homes[home.unwrap()] += 1;
    }
    assert!(homes.iter().all(|it| *it > 0), "{homes:?}");
    assert!(apart > 0 && apart % 3 == 0, "keys and names mix: {apart}");
}

#[tokio::test]
async fn an_empty_name_names_no_session() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::side_by_side(a.address, b.address);
    let gateway = Gateway::start(config).await;
    let (both, mut seen) = ([&a, &b], [0, 0]);
    let mut homes = [0, 0];
    for conversation in 0..24 {
        let mut body = turn(RESPONSES, conversation, &[]);
        body["prompt_cache_key"] = json!("");
        gateway.post(RESPONSES, &body).await.assert_ok();
        homes[who(&both, &mut seen)] += 1;
    }
    assert!(homes.iter().all(|it| *it > 0), "{homes:?}");
}

#[tokio::test]
async fn a_conversation_moves_when_its_place_is_down_and_comes_back_with_it() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 1, "cooldown": "3s", "max_cooldown": "3s"});
    let config = Config::side_by_side(a.address, b.address).with("routing.health", health);
    let gateway = Gateway::start(config).await;
    let (both, mut seen) = ([&a, &b], [0, 0]);
    let mut at_a = Vec::new();
    let mut at_b = Vec::new();
    for conversation in 0..16 {
        gateway
            .post(CHAT, &turn(CHAT, conversation, &[]))
            .await
            .assert_ok();
        match who(&both, &mut seen) {
            0 => at_a.push(conversation),
            _ => at_b.push(conversation),
        }
    }
    assert!(!at_a.is_empty() && !at_b.is_empty(), "{at_a:?} {at_b:?}");
    let state = breaker("deployment", "a", "a/m", "");
    let body = turn(CHAT, at_a[0], &[]);
    let failing = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("status-500");
    gateway.send(&failing).await.assert_ok();
    assert_eq!(gateway.sample(&state).await, Some(2.0));
    gateway
        .post(CHAT, &turn(CHAT, at_a[0], &[]))
        .await
        .assert_ok();
    seen = both.map(|it| it.handle.counters().requests);
    gateway.sample_is(&state, 1.0).await;
    for conversation in at_a {
        gateway
            .post(CHAT, &turn(CHAT, conversation, &[]))
            .await
            .assert_ok();
        assert_eq!(who(&both, &mut seen), 0, "{conversation} is not back");
    }
    for conversation in at_b {
        gateway
            .post(CHAT, &turn(CHAT, conversation, &[]))
            .await
            .assert_ok();
        assert_eq!(who(&both, &mut seen), 1, "{conversation} has moved");
    }
}
