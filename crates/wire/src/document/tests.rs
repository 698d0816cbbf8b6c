use super::*;

/// The same document as serde_json reads it.
fn tree(value: Value<'_>) -> serde_json::Value {
    match value.kind() {
        Kind::Null => serde_json::Value::Null,
        Kind::Bool => value.as_bool().unwrap().into(),
        Kind::Number => serde_json::from_slice(value.raw()).unwrap(),
        Kind::String => value.as_str().unwrap().into(),
        Kind::Array => value.elements().map(tree).collect(),
        Kind::Object => value
            .members()
            .map(|(key, value)| (key.decode().into_owned(), tree(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[test]
fn a_document_says_what_another_parser_says() {
    for json in [
        r#"{"a":[1,-2.5e3,{"b":null}],"c":"\u00e9\n\"é😀","":{},"d":[[],[true,false]]}"#,
        r#"[]"#,
        r#""text""#,
        r#" { "deep" : { "deeper" : [ { "x" : "y" } , 1 ] } } "#,
    ] {
        let document = Document::parse(json.as_bytes()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(tree(document.root()), expected, "{json}");
    }
}

#[test]
fn a_number_alone_is_a_document() {
    assert_eq!(Document::parse(b"12").unwrap().root().as_u64(), Some(12));
}

#[test]
fn malformed_json_is_refused() {
    for json in ["", " ", "{", "{\"a\":1,}", "[1 2]", "\"\\x\""] {
        assert!(Document::parse(json.as_bytes()).is_err(), "{json}");
    }
}

#[test]
fn the_source_of_a_value_is_kept_as_it_stands() {
    let document = Document::parse(br#"{"a": {"k" : [1, 2 ]} ,"t":"x\/y"}"#).unwrap();
    let values: Vec<_> = document.root().members().map(|(_, value)| value).collect();
    assert_eq!(values[0].raw(), br#"{"k" : [1, 2 ]}"#);
    assert_eq!(values[1].text().unwrap().json(), br"x\/y");
    assert_eq!(values[1].as_str().unwrap(), "x/y");
    assert!(values[1].text().unwrap().is("x/y"));
}

#[test]
fn texts_are_the_same_however_they_are_escaped() {
    let document =
        Document::parse(br#"["aa","\u0061\u0061","a\u0061","\u0061\u0061\u0061","a",""]"#);
    let document = document.unwrap();
    let texts: Vec<_> = document.root().elements().filter_map(Value::text).collect();
    for (one, another) in [(0, 1), (1, 0), (1, 2), (2, 2)] {
        assert!(texts[one].is_same(texts[another]), "{one} {another}");
    }
    for (one, another) in [(0, 3), (3, 2), (1, 4), (4, 1), (1, 5), (5, 1)] {
        assert!(!texts[one].is_same(texts[another]), "{one} {another}");
    }
}

#[test]
fn a_surrogate_without_its_partner_is_no_fault() {
    let document = Document::parse(br#""a\ud83d""#).unwrap();
    assert_eq!(document.root().as_str().unwrap(), "a\u{fffd}");
}

#[test]
fn a_blank_text_is_white_space_however_it_is_written() {
    for (json, blank) in [
        (r#""""#, true),
        (r#"" \n\t\r ""#, true),
        (r#""\u0020\n\u3000""#, true),
        ("\"\u{3000}\u{a0}\"", true),
        (r#"" \n x \n""#, false),
        (r#""\n\"""#, false),
        (r#""\n\\n""#, false),
        (r#""\u0041""#, false),
        ("\"\u{e9}\"", false),
    ] {
        let document = Document::parse(json.as_bytes()).unwrap();
        let text = document.root().text().unwrap();
        assert_eq!(text.is_blank(), blank, "{json}");
        assert_eq!(text.decode().trim().is_empty(), blank, "{json}");
    }
}

#[test]
fn strings_end_at_the_quote_that_no_backslash_escapes() {
    let json = r#" { "ends in backslashes" : "\\\\" , "and a quote" : [ "\\\"" , "\"" , "" ] } "#;
    let document = Document::of_valid(json.as_bytes()).unwrap();
    let expected: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(tree(document.root()), expected);
}

#[test]
fn a_document_of_too_many_values_is_refused() {
    let json = br#"{"a":[1,2]}"#;
    let nodes = 5;
    assert!(Document::parse_within(json, nodes).is_ok());
    let refused = Document::parse_within(json, nodes - 1);
    assert_eq!(refused.err(), Some(DocumentError::TooDense));
}

#[test]
fn contents_end_before_an_escape_that_is_none() {
    for (json, contents) in [
        (r#""a\,""#, "a"),
        (r#""a\u12""#, "a"),
        (r#""\ud800\q""#, "\u{fffd}"),
    ] {
        let document = Document::of_valid(json.as_bytes()).unwrap();
        let found = document.root().as_str();
        assert_eq!(found.as_deref(), Some(contents), "{json}");
    }
}

proptest::proptest! {
    #[test]
    fn any_value_is_what_another_parser_reads(
        texts in proptest::collection::vec(r#"["\\\\\n{}\[\],:a-fé]{0,12}"#, 0..8),
        number in proptest::num::f64::NORMAL,
        flag in proptest::bool::ANY,
    ) {
        let mut value = serde_json::json!({ "number": number, "flag": flag, "none": null });
        for text in texts {
            value = serde_json::json!({ text.clone(): [value, text], "x": {} });
        }
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let document = Document::parse(json.as_bytes()).unwrap();
            proptest::prop_assert_eq!(tree(document.root()), value.clone(), "{}", json);
        }
    }

    #[test]
    fn unread_parts_are_walked_to_their_end(
        json in r#"["\\{}\[\],:tfn0-9 x]{0,40}"#,
    ) {
        fn walk(value: Value<'_>) -> usize {
            let _ = (value.as_str(), value.as_f64(), value.as_bool());
            let elements: usize = value.elements().map(walk).sum();
            let members: usize = value.members().map(|(_, value)| walk(value)).sum();
            1 + elements + members
        }
        if let Ok(document) = Document::of_valid(json.as_bytes()) {
            proptest::prop_assert!(walk(document.root()) <= document.nodes.len(), "{}", json);
        }
    }
}
