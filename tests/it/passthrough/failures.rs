//! Failures of the provider: what the client sees, and whether another attempt is made.

use super::{FILES, MIB, SECRET, config, draw, gateway, plain, refusal, send};
use crate::support::{AT_ONCE, Act, Ending, Gateway, LONG, Request, Seen, Service};
use serde_json::json;
use std::time::{Duration, Instant};

/// Two credentials, of which the provider knows both.
async fn two_credentials(service: &Service) -> Gateway {
    let config = config(service)
        .with(
            "providers.sim.credentials",
            json!([
                {"name": "first", "secret": "env:TEST_PROVIDER_KEY"},
                {"name": "second", "secret": "env:TEST_OTHER_KEY"},
            ]),
        )
        .with("providers.sim.health", json!({"enabled": false}));
    Gateway::start(config).await
}

fn is_first(seen: &Seen) -> bool {
    seen.header("authorization") == Some("Bearer credential-of-the-provider")
}

#[tokio::test]
async fn a_refusal_is_free_and_has_no_word_of_the_provider() {
    let service = Service::answering(|seen| {
        let status = seen.target.rsplit('/').next().unwrap().parse().unwrap();
        refusal(status)
    })
    .await;
    let config = config(&service).with("providers.sim.passthrough", json!([
        {"path": "/v1/failing/*", "methods": ["GET", "DELETE"], "charge": 100, "answer_headers": ["location"]},
    ]));
    let gateway =
        Gateway::start(config.with("providers.sim.health", json!({"enabled": false}))).await;
    let key = gateway.key_with(1000, LONG);
    for (status, shown, code) in [
        (302, 502, "upstream_error"),
        (304, 502, "upstream_error"),
        (400, 400, "upstream_error"),
        (404, 404, "not_found"),
        (409, 409, "upstream_error"),
        (401, 502, "upstream_error"),
        (429, 429, "rate_limit_exceeded"),
        (500, 502, "upstream_error"),
    ] {
        let target = format!("/passthrough/sim/v1/failing/{status}");
        let answer = gateway
            .send(&Request::new("DELETE", &target).key(&key))
            .await;
        answer.assert_error(shown, code);
        assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
    }
    assert_eq!(gateway.spent(&key).await, 0);
}

#[tokio::test]
async fn another_credential_is_asked_if_the_first_attempt_cannot_have_had_an_effect() {
    for (status, method, again) in [
        (401, "POST", true),
        (429, "POST", true),
        (500, "POST", false),
        (503, "DELETE", false),
        (500, "GET", true),
    ] {
        let service = Service::answering(move |seen| match is_first(seen) {
            true => refusal(status),
            false => plain(seen),
        })
        .await;
        let gateway = two_credentials(&service).await;
        let (mut served, mut failed) = (0, 0);
        // Either credential may be drawn first.
        for _ in 0..16 {
            let before = service.seen().len();
            let answer = send(&gateway, method, FILES).await;
            let attempts = service.seen().split_off(before);
            match answer.status {
                200 => served += 1,
                _ => failed += 1,
            }
            let met = is_first(&attempts[0]);
            assert_eq!(
                attempts.len(),
                1 + usize::from(met && again),
                "{status} {method}"
            );
            assert_eq!(answer.status == 200, !met || again, "{answer:?}");
        }
        assert!(
            served > 0 && (failed > 0) != again,
            "{status} {method}: {served}, {failed}"
        );
    }
}

#[tokio::test]
async fn a_broken_answer_is_charged_once_its_head_has_passed_and_is_not_made_again() {
    let service = Service::answering(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 1000\r\n\r\nhalf";
        vec![Act::send(head), Act::Reset]
    })
    .await;
    let gateway = gateway(&service).await;
    let key = gateway.key_with(10_000, LONG);
    let answer = gateway.send(&draw().key(&key)).await;
    assert_eq!(answer.status, 200);
    assert_ne!(answer.ending, Ending::Complete);
    gateway.has_spent(&key, 4000).await;
    assert_eq!(service.seen().len(), 1);
}

#[tokio::test]
async fn the_time_of_the_provider_begins_behind_the_body() {
    let service = Service::answering(plain).await;
    let config = config(&service).with("providers.sim.timeouts", json!({"first_byte": "400ms"}));
    let gateway = Gateway::start(config).await;
    let upload = Request::new("POST", FILES)
        .key(&gateway.key)
        .body(vec![b'x'; 4 * MIB]);
    let mut connection = gateway.connect().await;
    connection.write(&upload.head()).await;
    for piece in upload.body.chunks(MIB / 2) {
        connection.write(piece).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    connection.answer(&upload).await.assert_ok();
}

#[tokio::test]
async fn a_silent_provider_is_given_up_after_its_time() {
    let service = Service::answering(|_| vec![Act::Hang]).await;
    let config = config(&service).with("providers.sim.timeouts", json!({"first_byte": "300ms"}));
    let gateway = Gateway::start(config).await;
    let begun = Instant::now();
    let answer = gateway.send(&draw().key(&gateway.key)).await;
    answer.assert_error(504, "upstream_error");
    assert!(begun.elapsed() < AT_ONCE);
    assert_eq!(service.seen().len(), 1);
}
