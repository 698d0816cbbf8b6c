//! What the API says of requests that it does not take, and of itself.

use super::*;

#[tokio::test]
async fn unknown_parameters_are_refused_by_name() {
    let office = Office::open().await;
    let (key, record) = office.create(&json!({"name": "ci"})).await;
    let at = |rest: &str| format!("/api/v1/keys/{}{rest}", id(&record));
    let keys = "/api/v1/keys".to_owned();
    for (target, body, status, part) in [
        (keys.clone(), json!({}), 400, "name"),
        (keys.clone(), json!({"name": ""}), 400, "the name must have"),
        (keys.clone(), json!({"name": 5}), 400, "'name'"),
        (
            keys.clone(),
            json!({"name": "x", "plans": "pro"}),
            400,
            "plans",
        ),
        (
            keys.clone(),
            json!({"name": "x", "plan": "prp"}),
            400,
            "did you mean 'pro'",
        ),
        (
            keys.clone(),
            json!({"name": "x", "groups": ["othr"]}),
            400,
            "did you mean 'other'",
        ),
        (
            keys.clone(),
            json!({"name": "x", "groups": []}),
            400,
            "list of groups is empty",
        ),
        (
            keys.clone(),
            json!({"name": "x", "endpoints": ["/v1/x"]}),
            400,
            "no endpoint '/v1/x'",
        ),
        (
            keys.clone(),
            json!({"name": "x", "limits": {"requests": 0}}),
            400,
            "expected a whole number from 1 to 4294967295",
        ),
        (
            "/api/v1/explain".to_owned(),
            json!([]),
            400,
            "the body: expected a mapping",
        ),
        (
            keys.clone(),
            json!({"name": "x", "limits": {"rpm": 1}}),
            400,
            "rpm",
        ),
        (
            keys.clone(),
            json!({"name": "x", "expires_after": "7"}),
            400,
            "a duration such as",
        ),
        (
            keys.clone(),
            json!(["name"]),
            400,
            "the body: value is not of type",
        ),
        (
            keys.clone(),
            json!({"name": "x", "limits": [60]}),
            400,
            "'limits': value is not of type",
        ),
        (at("/extend"), json!({"by": "0d"}), 400, "'by'"),
        (at("/extend"), json!({"days": 5}), 400, "days"),
        (
            at("/grants"),
            json!({}),
            400,
            "either 'plan', or 'tokens' or 'money' or both, and 'validity'",
        ),
        (
            at("/grants"),
            json!({"plan": "pro", "tokens": 5}),
            400,
            "either",
        ),
        (
            at("/grants"),
            json!({"tokens": 0, "validity": "1d"}),
            400,
            "between 1 and",
        ),
        (
            at("/grants"),
            json!({"tokens": -1, "validity": "1d"}),
            400,
            "'tokens'",
        ),
        (at("/revoke"), json!({"why": "?"}), 400, "takes no body"),
        (at("/revoke"), json!([]), 400, "takes no body"),
        (
            "/api/v1/reload".to_owned(),
            json!({"dry_run": true}),
            400,
            "parameters in the query",
        ),
        (
            "/api/v1/keys/key_%/revoke".to_owned(),
            Value::Null,
            400,
            "names no key",
        ),
        (
            "/api/v1/keys/sk-%25/extend".to_owned(),
            json!({"by": "1d"}),
            400,
            "names no key",
        ),
        (
            "/api/v1/keys/key_0123456789abcdefghij/extend".to_owned(),
            json!({"by": "1d"}),
            404,
            "no such key",
        ),
        (
            format!("/api/v1/keys/{key}/extend"),
            json!({"by": "1d"}),
            400,
            "a whole key must not be",
        ),
        ("/api/v1/nothing".to_owned(), json!({}), 404, "openapi.json"),
    ] {
        let request = if body.is_null() {
            Request::new("POST", &target).key(TOKEN)
        } else {
            Request::post(&target, &body).key(TOKEN)
        };
        let refused = office.send(&request).await;
        assert_eq!(refused.status, status, "{target} {body}: {refused:?}");
        let message = refused.message();
        assert!(message.contains(part), "{target} {body}: {message}");
        assert!(!message.contains(&key), "{message}");
    }
    for (query, part) in [
        ("limit=0", "from 1 to 1000"),
        ("limit=1001", "from 1 to 1000"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("state=gone", "state"),
        ("after=5", "'after'"),
        ("after=key_0123456789abcdefghij", "no such key"),
        ("page=2", "page"),
    ] {
        let refused = office.get(&format!("/api/v1/keys?{query}")).await;
        let message = refused.message();
        assert!(message.contains(part), "{query}: {message}");
    }
    let strict = office.get(&at("?x=1")).await;
    strict.assert_error(400, "invalid_request");
    let kept = office.get(&at("")).await.json();
    assert_eq!(kept, record, "nothing of that changed the key");
}

#[tokio::test]
async fn a_malformed_request_gets_the_reason() {
    let office = Office::open().await;
    let post = || Request::post("/api/v1/keys", &json!({"name": "x"})).key(TOKEN);
    let large = json!({"name": "x".repeat(70_000)}).to_string();
    for (request, status, code) in [
        (post().without("content-type"), 415, "invalid_request"),
        (
            post()
                .without("content-type")
                .header("content-type", "text/plain"),
            415,
            "invalid_request",
        ),
        (post().body(large.clone()), 413, "request_too_large"),
        (
            post().body(large).in_chunks_of(1000),
            413,
            "request_too_large",
        ),
        (post().body("{\"name\": \"x\""), 400, "invalid_request"),
        (post().body("{\"name\": \"x\"} {}"), 400, "invalid_request"),
        (
            post().body("{\"name\": \"x\", \"name\": \"y\"}"),
            400,
            "invalid_request",
        ),
        (post().body("\u{0}"), 400, "invalid_request"),
        (post().body(""), 400, "invalid_request"),
    ] {
        let refused = office.send(&request).await;
        assert_eq!(refused.error(), (status, code.to_owned()), "{refused:?}");
    }
    let wrong = Request::new("DELETE", "/api/v1/keys").key(TOKEN);
    let wrong = office.send(&wrong).await;
    wrong.assert_error(405, "method_not_allowed");
    let allow = wrong.header("allow").unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    assert!(wrong.header("x-request-id").unwrap().starts_with("req_"));
    let only_the_first = office.get("/api/v1/keys").await.json();
    assert_eq!(only_the_first["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_api_does_what_its_description_says() {
    let office = Office::open().await;
    let description = office.get("/api/v1/openapi.json").await;
    description.assert_ok();
    let description = description.json();
    assert_eq!(description["openapi"], "3.1.0");
    // There must be a configuration to go back to.
    let config = office.gateway.config();
    let next = config.model("another", json!(["sim/upstream-model"]));
    office.gateway.rewrite(next);
    let reload = Request::new("POST", "/api/v1/reload").key(TOKEN);
    office.send(&reload).await.assert_ok();

    let mut operations = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            // One of its own for each: what is revoked takes nothing more.
            let (_, record) = office.create(&json!({"name": "described"})).await;
            let answer = office.try_out(path, method, operation, id(&record)).await;
            let name = &operation["operationId"];
            let responses = operation["responses"].as_object().unwrap();
            let described = responses.get(&answer.status.to_string());
            let described = described.unwrap_or_else(|| panic!("{name}: {answer:?}"));
            assert_valid(&description, described, &answer);
            // As described, too: what goes wrong.
            let strange = Request::new(&method.to_uppercase(), path).key(TOKEN);
            let strange = office.send(&strange.body("?")).await;
            assert!(strange.status >= 400, "{name}: {strange:?}");
            assert_valid(
                &description,
                &description["components"]["responses"]["Error"],
                &strange,
            );
        }
    }
    assert_eq!(operations, 14, "{description}");
}

/// Whether an answer has the shape that a response of the description says, in full.
fn assert_valid(description: &Value, response: &Value, answer: &Answer) {
    let schema = &response["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{response}");
    let schema = json!({
        "allOf": [schema],
        "unevaluatedProperties": false,
        "components": description["components"],
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let body = answer.json();
    let faults: Vec<_> = validator
        .iter_errors(&body)
        .map(|it| it.to_string())
        .collect();
    assert_eq!(faults, [""; 0], "{body}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
}
