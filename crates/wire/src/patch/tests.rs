use super::apply;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn patched(body: &str, set: &[(&str, &str)], remove: &[&str]) -> Option<String> {
    let set: Vec<_> = set
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    let remove: Vec<_> = remove.iter().map(|name| (*name).into()).collect();
    let made = apply(&Bytes::copy_from_slice(body.as_bytes()), &set, &remove, &[])?;
    Some(String::from_utf8(made.to_vec()).unwrap())
}

#[test]
fn everything_but_the_patched_members_stays_as_it_was_written() {
    let cases = [
        (r#"{"a":1}"#, r#"{"s":0,"a":1}"#),
        (
            r#"{ "r" : {"r":[1]} , "a" : 1.50 }"#,
            r#"{"s":0, "a" : 1.50 }"#,
        ),
        (r#"{"a":"\u00e9" , "r":"x" }"#, r#"{"s":0,"a":"\u00e9" }"#),
        (r#"{"r":1,"r":2,"a":3,"r":4}"#, r#"{"s":0,"a":3}"#),
        (r#"{"r":1,"r":2}"#, r#"{"s":0}"#),
        (r#"{}"#, r#"{"s":0}"#),
        (
            r#"{"a":{"s":1,"r":2}, "s" : [9] }"#,
            r#"{"a":{"s":1,"r":2}, "s" : 0 }"#,
        ),
        (r#"{"\u0073":1,"\u0072":2}"#, r#"{"\u0073":0}"#),
        (r#"{"s":1,"a":2,"s":3}"#, r#"{"s":0,"a":2,"s":0}"#),
    ];
    for (body, expected) in cases {
        let made = patched(body, &[("s", "0")], &["r"]);
        assert_eq!(made.as_deref(), Some(expected), "{body}");
    }
    assert_eq!(patched("[1]", &[("s", "0")], &[]), None);
    assert_eq!(patched(r#"{"a":1"#, &[("s", "0")], &[]), None);
}

#[test]
fn a_body_without_the_members_is_not_copied() {
    let body = Bytes::from_static(br#"{"a":1}"#);
    let made = apply(&body, &[], &["r".into()], &[]).unwrap();
    assert_eq!(made.as_ptr(), body.as_ptr());
}

fn name() -> impl Strategy<Value = String> {
    "[a-e]".prop_map(String::from)
}

proptest! {
    #[test]
    fn the_patched_document_has_the_members_that_were_asked_for(
        members in prop::collection::btree_map(name(), 0_u8..3, 0..5),
        set in prop::collection::btree_map(name(), 3_u8..6, 0..3),
        remove in prop::collection::btree_set(name(), 0..3),
    ) {
        let value = |kind: u8| match kind {
            0 => json!({"a": [1, {"b": null}]}),
            1 => json!("\"é,}"),
            2 => json!(false),
            kind => json!(kind),
        };
        let body: Map<_, _> = members.into_iter().map(|(name, kind)| (name, value(kind))).collect();
        let mut expected = body.clone();
        let set: Vec<_> = set.into_iter().filter(|(name, _)| !remove.contains(name)).collect();
        remove.iter().for_each(|name| drop(expected.shift_remove(name)));
        for (name, kind) in &set {
            expected.insert(name.clone(), value(*kind));
        }
        let texts: Vec<_> = set.iter().map(|(name, kind)| (name.as_str(), kind.to_string())).collect();
        let set: Vec<_> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let remove: Vec<_> = remove.iter().map(String::as_str).collect();
        for body in [serde_json::to_string(&body), serde_json::to_string_pretty(&body)] {
            let made = patched(&body.unwrap(), &set, &remove).unwrap();
            let made: Value = serde_json::from_str(&made).unwrap();
            prop_assert_eq!(made, Value::Object(expected.clone()));
        }
    }
}

#[test]
fn a_renamed_member_keeps_its_value_and_yields_to_one_that_has_the_name_and_a_value() {
    let rename = [("new".into(), "old".into())];
    for (body, expected) in [
        (r#"{"new" : 5,"a":[]}"#, r#"{"old" : 5,"a":[]}"#),
        (
            r#"{"a":{"new":1},"new":null}"#,
            r#"{"a":{"new":1},"old":null}"#,
        ),
        (r#"{"new":5,"old":3}"#, r#"{"old":3}"#),
        (r#"{"old":3, "new":5}"#, r#"{"old":3}"#),
        (r#"{"new":5,"old":null}"#, r#"{"old":5}"#),
        (r#"{"old":null,"a":1,"new":5}"#, r#"{"a":1,"old":5}"#),
        (r#"{"new":null,"old":3}"#, r#"{"old":3}"#),
        (r#"{"new":null,"old":null}"#, r#"{"old":null}"#),
        (r#"{"old":null}"#, r#"{"old":null}"#),
        (r#"{"a":1}"#, r#"{"a":1}"#),
    ] {
        let patched = apply(&Bytes::from(body), &[], &[], &rename).unwrap();
        assert_eq!(patched, expected.as_bytes(), "{body}");
    }
}
