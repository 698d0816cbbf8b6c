use super::*;
use serde_json::json;

fn read(text: &str) -> Result<Value, String> {
    parse(text, &Arc::from("x.yaml"))
        .map(|node| node.to_value())
        .map_err(|faults| faults.to_string())
}

#[test]
fn scalars_follow_the_core_schema() {
    let text = "\
[~, null, '', true, False, yes, on, 12, -3, +4, 0x1F, 0o17, 1.5, 1e3, .5, 1.2.3, '12', 12ms, 2026-01-01, 1-2]
";
    assert_eq!(
        read(text).unwrap(),
        json!([
            null,
            null,
            "",
            true,
            false,
            "yes",
            "on",
            12,
            -3,
            4,
            31,
            15,
            1.5,
            1000.0,
            0.5,
            "1.2.3",
            "12",
            "12ms",
            "2026-01-01",
            "1-2"
        ])
    );
}

#[test]
fn every_key_and_value_keeps_its_place() {
    let tree = parse("a:\n  - b: 1\n    ключ:   значение\n", &Arc::from("x.yaml")).unwrap();
    let place = |path: &str, part| {
        let path: KeyPath = path.parse().unwrap();
        let position = tree.locate(&path, part);
        (position.line, position.column)
    };
    use super::super::tree::Part::{Key, Value};
    assert_eq!(place("a", Value), (1, 1));
    assert_eq!(place("a[0]", Value), (2, 5));
    assert_eq!(place("a[0].b", Value), (2, 8));
    assert_eq!(place("a[0].ключ", Value), (3, 13));
    assert_eq!(place("a[0].ключ", Key), (3, 5));
    assert_eq!(place("a[0].absent", Key), (2, 5));
}

#[test]
fn anchors_and_merge_keys_unfold_and_own_keys_win() {
    let text = "\
base: &base {x: 1, y: 2}
more: &more {y: 3, z: 4}
both:
  <<: [*base, *more]
  x: 0
again: *base
";
    assert_eq!(
        read(text).unwrap(),
        json!({
            "base": {"x": 1, "y": 2},
            "more": {"y": 3, "z": 4},
            "both": {"x": 0, "y": 2, "z": 4},
            "again": {"x": 1, "y": 2},
        })
    );
    assert_eq!(
        read("&name key: 1\nof: *name\n").unwrap(),
        json!({"key": 1, "of": "key"})
    );
    assert_eq!(
        read("a: {<<: 1}").unwrap_err(),
        "x.yaml:1:9: '<<' takes a mapping, or a list of them"
    );
}

#[test]
fn all_duplicate_keys_are_reported() {
    assert_eq!(
        read("a: 1\nb: {c: 1, c: 2}\na: 3\n").unwrap_err(),
        "x.yaml:2:11: 'c' is given twice, first on line 2\n\
         x.yaml:3:1: 'a' is given twice, first on line 1"
    );
}

#[test]
fn an_alias_bomb_is_refused_before_it_goes_off() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let below = level - 1;
        let aliases = vec![format!("*a{below}"); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let reported = read(&text).unwrap_err();
    assert!(
        reported.contains("more than 100000 values, with aliases expanded"),
        "{reported}"
    );
}

#[test]
fn aliases_make_no_value_deeper_than_a_file_can_be() {
    let chained = |levels: usize| {
        let mut text = "a0: &a0 [x]\n".to_owned();
        for level in 1..levels {
            let below = level - 1;
            text.push_str(&format!("a{level}: &a{level} [*a{below}]\n"));
        }
        text
    };
    // The mapping around it is a level of its own.
    assert!(read(&chained(MAX_DEPTH - 1)).is_ok());
    let reported = read(&chained(MAX_DEPTH)).unwrap_err();
    assert_eq!(
        reported,
        "x.yaml:64:12: more than 64 levels, with aliases expanded"
    );
    assert!(read(&chained(440)).is_err());
    let merged = format!("{}b: {{<<: {{c: *a62}}}}\n", chained(MAX_DEPTH - 1));
    assert!(read(&merged).is_err());
}

#[test]
fn deep_recursive_tagged_and_several_documents_are_refused() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for (text, wanted) in [
        (deep.as_str(), "not YAML"),
        ("a: &a [*a]", "within its own anchor"),
        ("a: !secret x", "tags are not supported"),
        ("a: !!str 1", "tags are not supported"),
        ("!!str a: 1", "tags are not supported"),
        ("? &a [b]\n: 1\n", "a key is a string"),
        ("a: 1\n---\nb: 2\n", "one document"),
        ("? [a, b]\n: 1\n", "a key is a string"),
        ("a: *b", "not YAML"),
        ("a: \"b", "not YAML"),
        ("a: [1", "not YAML"),
    ] {
        let reported = read(text).unwrap_err();
        assert!(reported.contains(wanted), "{text:.40}: {reported}");
    }
}

#[test]
fn an_empty_file_is_an_empty_value() {
    assert_eq!(read("").unwrap(), Value::Null);
    assert_eq!(read("# nothing\n").unwrap(), Value::Null);
}
