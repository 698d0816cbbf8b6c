use super::*;
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};

/// Some of what readers ask for.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Asked<'a> {
    text: Option<RawText<'a>>,
    number: Option<u64>,
    list: Option<Vec<Asked<'a>>>,
    any: Option<Raw<'a>>,
}

fn asked(document: &str) -> Result<Asked<'_>, Unread> {
    read(document)
}

#[test]
fn a_document_is_read_as_it_was_written() {
    let document = r#" { "other" : [1, {"text": "}\"]"}, "\\"] , "te\u0078t":"a\"b\\",
        "list":[ {"number" : 7} , {} ], "any" : {"x":[ "]" , -1.5e+3 , true , null ]} , "number":null } "#;
    let read = asked(document).unwrap();
    assert_eq!(read.text.map(RawText::as_str), Some(r#"a\"b\\"#));
    assert_eq!(read.number, None);
    assert_eq!(
        read.any.map(Raw::get),
        Some(r#"{"x":[ "]" , -1.5e+3 , true , null ]}"#)
    );
    let list = read.list.unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list.first().and_then(|it| it.number), Some(7));
}

#[test]
fn text_that_was_not_asked_for_is_distinguished() {
    for document in [
        "",
        "[]",
        "null",
        r#"{"text":1}"#,
        r#"{"number":-1}"#,
        r#"{"number":1.0}"#,
        r#"{"number":"1"}"#,
        r#"{"list":{}}"#,
        r#"{"list":[1]}"#,
        r#"{"number":1,"number":1}"#,
    ] {
        assert_eq!(asked(document), Err(Unread), "{document}");
    }
}

#[test]
fn malformed_json_ends_the_reading() {
    let whole = r#"{"text":"a\\","list":[{"any":{"b":["c",null]}}],"other":[{}],"number":1}"#;
    for end in 0..whole.len() {
        let cut = whole.get(..end).unwrap();
        assert_eq!(asked(cut), Err(Unread), "{cut}");
    }
    let deep = r#"{"list":["#.repeat(100_000);
    assert_eq!(asked(&deep), Err(Unread));
    let deep = format!(r#"{{"any":{}"#, "[".repeat(100_000));
    assert_eq!(asked(&deep), Err(Unread));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        r#"[a\\"\[\]{},:é😀\n]{0,8}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from);
        let object = prop::collection::btree_map(r#"[a\\"}\]]{0,3}"#, inner, 0..5);
        prop_oneof![list, object.prop_map(|members| json!(members))]
    })
}

proptest! {
    /// Each element of a list is found where another reader of JSON finds it.
    #[test]
    fn values_end_where_another_reader_ends_them(
        list in prop::collection::vec(any_json(), 0..6),
        is_spaced in any::<bool>(),
    ) {
        let written = match is_spaced {
            true => serde_json::to_string_pretty(&list),
            false => serde_json::to_string(&list),
        }.unwrap();
        let found: Vec<Raw<'_>> = read(&written).unwrap();
        let theirs: Vec<&RawValue> = serde_json::from_str(&written).unwrap();
        let theirs: Vec<_> = theirs.into_iter().map(RawValue::get).collect();
        prop_assert_eq!(found.into_iter().map(Raw::get).collect::<Vec<_>>(), theirs);
    }

    /// Whatever stands there, the reading ends.
    #[test]
    fn reading_ends_whatever_it_reads(text in r#"[{}\[\]:,"\\ a1ntex]{0,60}"#) {
        let _: Result<Asked<'_>, Unread> = read(&text);
        let _: Result<Vec<Raw<'_>>, Unread> = read(&text);
    }
}
