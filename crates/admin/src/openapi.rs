//! The OpenAPI 3.1 description of the admin API, made from the table of its routes and
//! from the types that go in and out. OpenAPI 3.1 takes JSON Schema (draft 2020-12) as it
//! is, so the library that describes the configuration describes this too.

use super::call::ORDER_NAME;
use super::routes::{ROUTES, Route, SchemaOf};
use once_cell::sync::Lazy;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use tollgate_ledger::OrderName;
use tollgate_types::ErrorCode;

/// Where types are kept in the document.
const COMPONENTS: &str = "#/components/schemas";

/// The document.
pub(super) fn description() -> &'static Value {
    static DESCRIPTION: Lazy<Value> = Lazy::new(describe);
    &DESCRIPTION
}

fn describe() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = COMPONENTS.trim_start_matches('#').into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let error = generator.subschema_for::<ErrorAnswer>();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(operations) = operations.as_object_mut() {
            let method = route.method.as_str().to_ascii_lowercase();
            operations.insert(method, operation(route, &mut generator));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What `tollgate keys` does, over HTTP.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of `admin.token` in the configuration.",
                },
            },
            "responses": {
                "Error": {
                    "description": "Why it was not done.",
                    "content": { "application/json": { "schema": error } },
                },
            },
            "schemas": generator.take_definitions(true),
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let key = key_parameter(route).into_iter();
    let parameters = key.chain(query_parameters(route));
    let parameters: Vec<Value> = parameters.chain(order_parameter(route)).collect();
    let content = |schema| json!({ "application/json": { "schema": schema } });
    let body = route.body.map(|body| {
        let content = content(body(generator));
        json!({ "required": true, "content": content })
    });
    let done = content((route.answer)(generator));
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": parameters,
        "requestBody": body,
        "responses": {
            route.status.as_str(): { "description": "Done.", "content": done },
            "default": { "$ref": "#/components/responses/Error" },
        },
    });
    if let (Some(fields), None) = (operation.as_object_mut(), route.body) {
        fields.remove("requestBody");
    }
    operation
}

fn key_parameter(route: &Route) -> Option<Value> {
    route.path.contains("{key}").then(|| {
        json!({
            "name": "key",
            "in": "path",
            "required": true,
            "description": "The key's id (`key_…`), or the beginning of its text (`sk-` and one \
                            to eight characters) where no other key begins so.",
            "schema": { "type": "string" },
        })
    })
}

fn order_parameter(route: &Route) -> Option<Value> {
    route.once.then(|| {
        json!({
            "name": ORDER_NAME,
            "in": "header",
            "required": false,
            "description": "A name of the caller's own for this order, which is carried out \
                            once under it: tokens are given once, a key is made once, and lives longer \
                            once. Another order of whatever kind gets 409 under it.",
            "schema": {
                "type": "string", "pattern": "^[!-~]+$", "minLength": 1,
                "maxLength": OrderName::MAX_LEN,
            },
        })
    })
}

/// One parameter for each property of the type that reads the query.
fn query_parameters(route: &Route) -> Vec<Value> {
    let Some(query) = route.query else {
        return Vec::new();
    };
    let schema = query(&mut inline());
    let properties = schema.get("properties").and_then(Value::as_object);
    let parameter = |(name, property): (&String, &Value)| {
        let mut schema = property.clone();
        let description = schema
            .as_object_mut()
            .and_then(|schema| schema.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": false,
            "description": description,
            "schema": schema,
        })
    };
    properties.into_iter().flatten().map(parameter).collect()
}

/// A generator of schemas that stand by themselves.
fn inline() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator()
}

/// The first fault of a value against its described shape.
pub(super) fn fault(described: SchemaOf, value: &Value) -> Option<String> {
    let schema = described(&mut inline());
    // Made from types: a test sees that each of them compiles.
    let validator = jsonschema::validator_for(schema.as_value()).ok()?;
    let fault = validator.iter_errors(value).next()?;
    let place = fault.instance_path().as_str();
    let place = place.trim_start_matches('/').replace('/', ".");
    Some(match place.as_str() {
        "" => format!("the body: {}", fault.masked()),
        place => format!("'{place}': {}", fault.masked()),
    })
}

/// The one shape of errors.
#[derive(JsonSchema)]
#[schemars(rename = "Error")]
#[expect(dead_code, reason = "the shape alone matters")]
struct ErrorAnswer {
    error: ErrorObject,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "the shape alone matters")]
struct ErrorObject {
    /// For people.
    message: String,
    /// The kind of fault.
    r#type: String,
    /// The code of the error.
    #[schemars(schema_with = "codes")]
    code: String,
}

fn codes(_: &mut SchemaGenerator) -> schemars::Schema {
    let codes: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    schemars::json_schema!({ "type": "string", "enum": codes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_is_held_against_its_description() {
        for route in ROUTES {
            let Some(body) = route.body else { continue };
            for wrong in [json!([]), json!("x"), Value::Null] {
                assert!(fault(body, &wrong).is_some(), "{}: {wrong}", route.id);
            }
        }
    }

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        let text = description().to_string();
        let references = text.split("\"$ref\":\"#").skip(1);
        let mut seen = 0;
        for reference in references {
            let (pointer, _) = reference.split_once('"').unwrap();
            assert!(description().pointer(pointer).is_some(), "{pointer}");
            seen += 1;
        }
        assert!(seen > 10, "{text}");
    }
}
