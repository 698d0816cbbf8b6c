//! The values are what any other parser makes of the same body.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn value(document: &Document<'_>) -> Value {
    serde_json::from_str(&Json::of(document).to_line()).unwrap()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~\\n\\t\"\\\\é漢😀]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-z\"é]{0,5}", inner), 0..6)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn values_are_what_another_parser_reads(wanted in any_json()) {
        let body = wanted.to_string();
        let document = parse(body.as_bytes()).unwrap();
        prop_assert_eq!(value(&document), wanted);
    }
}

#[test]
fn half_a_surrogate_pair_is_read_as_a_replacement_character() {
    let document = parse(br#"{"a":"x\ud83d"}"#).unwrap();
    assert_eq!(Json::of(&document).text_of("a"), "x\u{fffd}");
}

#[test]
fn a_body_of_countless_values_is_refused_instead_of_grown() {
    let dense = format!("[{}1]", "1,".repeat(MAX_NODES));
    assert!(matches!(
        parse(dense.as_bytes()),
        Err(DocumentError::TooDense)
    ));
}
