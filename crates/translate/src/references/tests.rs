use super::*;
use serde_json::{Value as Json, json};

/// Turns by number, each of which went on from the one before it.
#[derive(Default)]
struct Kept(Vec<(RequestId, Turn)>);

fn request(number: u128) -> RequestId {
    RequestId::from_parts(1_790_000_000_000, number)
}

fn id(kind: &str, number: u128) -> String {
    let request = request(number);
    let end = if kind == "resp" { "" } else { "_0" };
    format!("{kind}_{}{end}", &request.as_str()[4..])
}

fn bytes(value: &Json) -> Bytes {
    value.to_string().into()
}

impl Kept {
    fn with(mut self, number: u128, input: &Json, output: &Json) -> Self {
        let previous = self.0.last().map(|(id, _)| *id);
        let response = json!({"id": id("resp", number), "output": output});
        let turn = Turn {
            previous,
            input: bytes(input),
            response: bytes(&response),
        };
        self.0.push((request(number), turn));
        self
    }
}

impl Turns for Kept {
    type Error = ();

    fn response(&self, id: RequestId) -> Result<Option<Bytes>, ()> {
        Ok(self.turn(id)?.map(|turn| turn.response))
    }

    fn turn(&self, id: RequestId) -> Result<Option<Turn>, ()> {
        let found = self.0.iter().find(|(known, _)| *known == id);
        Ok(found.map(|(_, turn)| turn.clone()))
    }
}

fn said(number: u128, text: &str) -> Json {
    json!({"id": id("msg", number), "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn without_id(mut item: Json) -> Json {
    item.as_object_mut().unwrap().remove("id");
    item
}

fn resolved(kept: &Kept, body: &Json) -> (Json, Resolved) {
    let resolved = resolve(&bytes(body), 1 << 20, kept).unwrap();
    (serde_json::from_slice(&resolved.body).unwrap(), resolved)
}

#[test]
fn a_chain_of_answers_becomes_the_conversation() {
    let kept = Kept::default()
        .with(1, &json!("Hi."), &json!([said(1, "Hello.")]))
        .with(
            2,
            &json!([{"role": "user", "content": "And?"}]),
            &json!([said(2, "Well.")]),
        );
    let body = json!({"model": "m", "previous_response_id": id("resp", 2), "input": "Go on.",
        "store": true});
    let (found, resolved) = resolved(&kept, &body);
    let expected = json!({"model": "m", "store": true, "input": [
        {"role": "user", "content": "Hi."}, without_id(said(1, "Hello.")),
        {"role": "user", "content": "And?"}, without_id(said(2, "Well.")),
        {"role": "user", "content": "Go on."},
    ]});
    assert_eq!(found, expected);
    assert_eq!(resolved.previous, Some(request(2)));
    assert_eq!(resolved.input, r#""Go on.""#);
    assert_eq!(resolved.unknown, []);
}

#[test]
fn references_become_their_items_and_what_is_whole_stays() {
    let thought = |state: Option<&str>| {
        let mut item = json!({"id": id("rs", 1), "type": "reasoning", "summary": []});
        if let Some(state) = state {
            item["encrypted_content"] = json!(state);
        }
        item
    };
    let kept = Kept::default()
        .with(1, &json!("Hi."), &json!([thought(Some("tg1.x"))]))
        .with(2, &json!("Hi."), &json!([said(2, "Hello.")]));
    let whole = said(9, "Whole.");
    let native = json!({"type": "item_reference", "id": "msg_made_elsewhere"});
    let body = json!({"model": "m", "input": [
        thought(None), {"type": "item_reference", "id": id("msg", 2)},
        {"id": id("msg", 2)}, whole, native,
        {"type": "reasoning", "id": id("rs", 5), "summary": []},
    ]});
    let (found, resolved) = resolved(&kept, &body);
    let answer = without_id(said(2, "Hello."));
    let expected = json!([thought(Some("tg1.x")), answer, answer, whole, native]);
    assert_eq!(found["input"], expected);
    assert_eq!(resolved.unknown, []);
    assert!(resolved.forgot_reasoning);
}

#[test]
fn references_in_an_earlier_request_are_followed() {
    let reference = json!([{"type": "item_reference", "id": id("msg", 1)}]);
    let mut kept = Kept::default()
        .with(1, &json!("Hi."), &json!([said(1, "Hello.")]))
        .with(2, &reference, &json!([said(2, "Well.")]));
    kept.0[1].1.previous = None;
    let body = json!({"model": "m", "previous_response_id": id("resp", 2), "input": []});
    let (found, _) = resolved(&kept, &body);
    let expected = json!([without_id(said(1, "Hello.")), without_id(said(2, "Well."))]);
    assert_eq!(found["input"], expected);
}

#[test]
fn forgotten_items_are_named_with_their_place() {
    let kept = Kept::default().with(1, &json!("Hi."), &json!([said(1, "Hello.")]));
    let body = json!({"model": "m", "previous_response_id": id("resp", 7), "input": [
        {"role": "user", "content": "Hi."}, {"type": "item_reference", "id": id("msg", 8)},
    ]});
    let (found, resolved) = resolved(&kept, &body);
    assert_eq!(found["previous_response_id"], body["previous_response_id"]);
    let reference = |path: &str, id: String| Reference {
        path: path.to_owned(),
        id,
    };
    let expected = [
        reference("previous_response_id", id("resp", 7)),
        reference("input[1].id", id("msg", 8)),
    ];
    assert_eq!(resolved.unknown, expected);
    // A chain of which the beginning is forgotten is forgotten.
    let mut torn = kept.with(2, &json!("Hi."), &json!([]));
    torn.0.remove(0);
    let body = json!({"model": "m", "previous_response_id": id("resp", 2), "input": "x"});
    assert_eq!(self::resolved(&torn, &body).1.unknown.len(), 1);
}

#[test]
fn a_conversation_is_bounded_in_bytes_and_answers() {
    let long = "x".repeat(600);
    let kept = Kept::default()
        .with(1, &json!(long), &json!([]))
        .with(2, &json!(long), &json!([]));
    let body = bytes(&json!({"model": "m", "previous_response_id": id("resp", 2), "input": "x"}));
    assert!(resolve(&body, 2000, &kept).is_ok());
    let refused = resolve(&body, 1000, &kept).map(|_| ());
    assert_eq!(refused, Err(Unresolved::TooLarge));
    let mut chain = Kept::default();
    for number in 0..=MOST_TURNS {
        chain = chain.with(number as u128, &json!(""), &json!([]));
    }
    let last = id("resp", MOST_TURNS as u128);
    let body = bytes(&json!({"model": "m", "previous_response_id": last, "input": "x"}));
    let refused = resolve(&body, 1 << 20, &chain).map(|_| ());
    assert_eq!(refused, Err(Unresolved::TooLarge));
}

#[test]
fn the_sealed_state_is_shown_on_request() {
    let response = json!({"id": "resp_1", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "tg1.x"},
        {"type": "message", "id": "msg_1"},
    ], "store": true});
    let shown = |with_state| -> Json {
        let shown = shown(response.to_string().as_bytes(), with_state).unwrap();
        serde_json::from_slice(&shown).unwrap()
    };
    assert_eq!(shown(true), response);
    let mut expected = response.clone();
    expected["output"][0]
        .as_object_mut()
        .unwrap()
        .remove("encrypted_content");
    assert_eq!(shown(false), expected);
}
