use super::*;
use crate::document::Document;

fn closed(mut schema: Value) -> Result<Value, (String, &'static str)> {
    close(&mut schema).map_err(|it| (it.path, it.why))?;
    Ok(schema)
}

#[test]
fn each_object_of_a_schema_is_closed_and_nothing_else_changes() {
    let open = json!({
        "type": "object",
        "description": "d",
        "properties": {
            "additionalProperties": {"type": "string", "default": {"type": "object"}},
            "list": {"type": "array", "items": {"type": ["object", "null"], "properties": {"a": {"enum": [{"properties": 1}]}}}},
            "either": {"anyOf": [{"$ref": "#/$defs/one"}, {"type": "null"}]}
        },
        "required": ["list"],
        "$defs": {"one": {"properties": {"x": {"type": "integer"}}, "additionalProperties": true}}
    });
    let mut expected = open.clone();
    for place in ["", "/properties/list/items", "/$defs/one"] {
        expected.pointer_mut(place).unwrap()["additionalProperties"] = json!(false);
    }
    assert_eq!(closed(open), Ok(expected.clone()));
    assert_eq!(close(&mut expected), Ok(false), "closed already");
}

#[test]
fn bounds_are_described() {
    let bounded = json!({
        "type": "object",
        "properties": {
            "minimum": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Its score."},
            "names": {"type": "array", "minItems": 2, "items": {"type": "string", "maxLength": 9}},
            "kinds": {"type": "array", "minItems": 1, "items": {"const": "a", "pattern": "a"}}
        },
        "additionalProperties": false
    });
    let mut expected = json!({
        "type": "object",
        "properties": {
            "minimum": {"type": "integer", "description": "Its score.\n\n{minimum: 1, maximum: 10}"},
            "names": {"type": "array", "items": {"type": "string", "description": "{maxLength: 9}"},
                "description": "{minItems: 2}"},
            "kinds": {"type": "array", "minItems": 1, "items": {"const": "a", "pattern": "a"}}
        },
        "additionalProperties": false
    });
    assert_eq!(close(&mut bounded.clone()), Ok(true));
    assert_eq!(closed(bounded), Ok(expected.clone()));
    assert_eq!(close(&mut expected), Ok(false), "described already");
}

#[test]
fn bounds_are_found_wherever_they_stand() {
    let found = |schema: Value| {
        let schema = schema.to_string();
        has_bounds(Document::parse(schema.as_bytes()).unwrap().root())
    };
    for bound in [
        json!({"maximum": 1}),
        json!({"uniqueItems": true}),
        json!({"minItems": 2}),
    ] {
        assert!(
            found(json!({"properties": {"a": {"anyOf": [bound]}}})),
            "{bound}"
        );
    }
    let named = json!({"properties": {"maximum": {"type": "array", "minItems": 1}}});
    assert!(!found(named));
}

#[test]
fn a_schema_that_cannot_be_closed_is_named() {
    let of = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
    for (schema, path, why) in [
        (
            of(json!({"type": "object"})),
            ".properties.a",
            "is an object that may have any members",
        ),
        (
            of(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            ".properties.a",
            "has members that are not named",
        ),
        (
            json!({"$defs": {"m": {"type": "object", "patternProperties": {"x": {}}}}}),
            ".$defs.m",
            "has members that are not named",
        ),
        (
            of(json!({"allOf": [{"properties": {"b": {}}, "allOf": [{"$ref": "#/$defs/m"}]}]})),
            ".properties.a.allOf[0]",
            "names its members in several places",
        ),
    ] {
        assert_eq!(closed(schema), Err((path.to_owned(), why)));
    }
}

#[test]
fn a_tool_with_several_schemas_takes_the_members_of_all() {
    let mut several = json!({
        "description": "d",
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
            {"properties": {"kind": {"const": "b"}, "x": {"type": "string"}}, "required": ["kind"]},
            {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}
        ]
    });
    assert_eq!(merge(&mut several), Ok(()));
    let expected = json!({
        "type": "object",
        "description": "d",
        "properties": {
            "id": {"type": "string"},
            "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
            "x": {"type": "string"}
        },
        "required": ["id", "kind"]
    });
    assert_eq!(several, expected);

    let mut all = json!({"allOf": [
        {"properties": {"a": {}}, "required": ["a"]},
        {"required": ["b"]}
    ]});
    assert_eq!(merge(&mut all), Ok(()));
    assert_eq!(all["required"], json!(["a", "b"]));

    for (schema, path) in [
        (json!({"anyOf": [{"$ref": "#/$defs/a"}]}), ".anyOf[0]"),
        (json!({"anyOf": [{}], "allOf": [{}]}), ".anyOf"),
        (json!({"oneOf": [{}, {"type": "string"}]}), ".oneOf[1]"),
    ] {
        let found = merge(&mut schema.clone()).map_err(|it| it.path);
        assert_eq!(found, Err(path.to_owned()));
    }
}

#[test]
fn many_names_are_merged_and_many_schemas_are_refused() {
    let names: Vec<_> = (0..50_000).map(|number| format!("a{number}")).collect();
    let mut named = json!({"required": names, "anyOf": [{"required": names}]});
    assert_eq!(merge(&mut named), Ok(()));
    assert_eq!(
        named["required"].as_array().map(Vec::len),
        Some(names.len())
    );
    let schema = |number: usize| json!({"properties": {"a": {"const": number}}});
    let of = |count| json!({"anyOf": (0..count).map(schema).collect::<Vec<_>>()});
    assert_eq!(merge(&mut of(MOST_BRANCHES)), Ok(()));
    let found = merge(&mut of(MOST_BRANCHES + 1)).map_err(|it| it.why);
    assert_eq!(found, Err("has more than 64 schemas"));
}
