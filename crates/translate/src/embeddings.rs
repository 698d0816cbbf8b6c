//! Embeddings of Amazon Titan and Cohere on Amazon Bedrock for clients of the API of OpenAI: the body of
//! InvokeModel, and its answer.
//!
//! Source: the model parameters of Amazon Titan Text Embeddings and of Cohere Embed in the user's guide of
//! Amazon Bedrock. Titan takes one text in a request.

use crate::{
    Refusal, Strict,
    document::{Document, Kind, Value},
    output::Output,
    request::scope::member,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;

/// A request for embeddings through InvokeModel, and what must be remembered until its answer comes.
#[derive(Clone, Debug)]
pub struct BedrockVectorsRequest {
    /// The body to send.
    pub body: Bytes,
    /// The fields that were left out, by their names; `*` for those that the API does not define.
    pub dropped: Vec<&'static str>,
    /// The notes for the answer.
    pub notes: BedrockVectorsNotes,
}

/// Facts that the answer does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BedrockVectorsNotes {
    vendor: Vendor,
    /// The model as the client named it.
    pub model: String,
    /// Whether the client takes vectors in base64.
    pub is_packed: bool,
}

/// The vendor of a model, which decides the form of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Amazon Titan.
    Titan,
    /// Cohere.
    Cohere,
}

/// Writes a request for embeddings, which a lexer has checked, as InvokeModel reads it. `model`: its name
/// for the client.
///
/// # Errors
/// The model does not take such an input, a field has a value that OpenAI's API does not define, or the operator
/// does not allow a field to be dropped.
pub fn bedrock_vectors_request(
    vendor: Vendor,
    body: &[u8],
    model: &str,
    strict: Strict<'_>,
) -> Result<BedrockVectorsRequest, Refusal> {
    let document = Document::of_valid(body).map_err(|fault| Refusal::new("", fault.to_string()))?;
    let root = document.root();
    let mut out = Output::with_capacity(body.len());
    let mut dropped = Vec::new();
    let mut is_packed = false;
    out.begin_object();
    if vendor == Vendor::Cohere {
        out.key("embedding_types").raw(br#"["float"]"#);
        if member(root, "input_type").is_none_or(|it| it.is_null()) {
            out.key("input_type").string("search_document");
        }
    }
    for (key, value) in root.members() {
        match (vendor, &*key.decode()) {
            (Vendor::Titan, "input") => out.key("inputText").raw(one_text(value)?.raw()),
            (Vendor::Cohere, "input") => write_texts(&mut out, value)?,
            (_, "model") => {}
            _ if value.is_null() => {}
            (Vendor::Titan, "dimensions") => out.key("dimensions").raw(value.raw()),
            (Vendor::Titan, "normalize") => out.key("normalize").raw(value.raw()),
            (Vendor::Cohere, "dimensions") => out.key("output_dimension").raw(value.raw()),
            (Vendor::Cohere, "input_type") => out.key("input_type").raw(value.raw()),
            (Vendor::Cohere, "truncate") => out.key("truncate").raw(value.raw()),
            (_, "encoding_format") => {
                is_packed = match value.as_str().as_deref() {
                    Some("base64") => true,
                    Some("float") => false,
                    _ => {
                        let why = "must be 'float' or 'base64'";
                        return Err(Refusal::new("encoding_format", why));
                    }
                };
            }
            (_, "user") => dropped.push("user"),
            _ if dropped.contains(&"*") => {}
            _ => dropped.push("*"),
        }
    }
    out.end_object();
    if let Some(path) = dropped.iter().find(|path| strict.forbids(path)) {
        let why =
            "is not accepted by this provider, and it must not be dropped (`translation.strict`)";
        return Err(Refusal::new(*path, why));
    }
    Ok(BedrockVectorsRequest {
        body: out.into_bytes().into(),
        dropped,
        notes: BedrockVectorsNotes {
            vendor,
            model: model.to_owned(),
            is_packed,
        },
    })
}

/// The only text of an input.
fn one_text(input: Value<'_>) -> Result<Value<'_>, Refusal> {
    let mut elements = input.elements();
    let only = match (input.kind(), elements.next(), elements.next()) {
        (Kind::String, ..) => Some(input),
        (Kind::Array, Some(only), None) if only.kind() == Kind::String => Some(only),
        _ => None,
    };
    only.ok_or_else(|| {
        let why = "must be one text for this model: send each text in a request of its own, and text \
                   instead of tokens";
        Refusal::new("input", why)
    })
}

/// The texts of an input, as Cohere takes them.
fn write_texts(out: &mut Output, input: Value<'_>) -> Result<(), Refusal> {
    let is_texts = input.kind() == Kind::Array
        && input.elements().next().is_some()
        && input.elements().all(|it| it.kind() == Kind::String);
    out.key("texts");
    match input.kind() {
        Kind::String => {
            out.begin_array();
            out.item().raw(input.raw());
            out.end_array();
        }
        _ if is_texts => out.raw(input.raw()),
        _ => {
            let why =
                "must be a text or a list of texts for this model: send text instead of tokens";
            return Err(Refusal::new("input", why));
        }
    }
    Ok(())
}

/// Writes an answer of InvokeModel as OpenAI does. `input_tokens`: the number in its head. Returns `None` if it has
/// no vector.
pub fn bedrock_vectors_answer(
    body: &[u8],
    input_tokens: Option<u64>,
    notes: &BedrockVectorsNotes,
) -> Option<Bytes> {
    let document = Document::parse(body).ok()?;
    let root = document.root();
    let (vectors, tokens) = match notes.vendor {
        Vendor::Titan => {
            let tokens = member(root, "inputTextTokenCount").and_then(Value::as_u64);
            (vec![member(root, "embedding")?], tokens)
        }
        Vendor::Cohere => {
            let vectors = member(root, "embeddings")?;
            // Older models leave the kind of numbers out.
            let vectors = member(vectors, "float").unwrap_or(vectors);
            (vectors.elements().collect(), None)
        }
    };
    if vectors.is_empty() || vectors.iter().any(|it| it.kind() != Kind::Array) {
        return None;
    }
    let mut out = Output::with_capacity(body.len());
    out.begin_object();
    out.key("object").string("list");
    out.key("data").begin_array();
    for (index, vector) in (0..).zip(vectors) {
        out.item().begin_object();
        out.key("object").string("embedding");
        out.key("index").number(index);
        match notes.is_packed {
            true => out.key("embedding").string(&packed(vector)?),
            false => out.key("embedding").raw(vector.raw()),
        }
        out.end_object();
    }
    out.end_array();
    out.key("model").string(&notes.model);
    if let Some(tokens) = tokens.or(input_tokens) {
        out.key("usage").begin_object();
        out.key("prompt_tokens").number(tokens);
        out.key("total_tokens").number(tokens);
        out.end_object();
    }
    out.end_object();
    Some(out.into_bytes().into())
}

/// The numbers as 32 bits each, the lowest first, in base64. `None`: one of them is no number.
fn packed(vector: Value<'_>) -> Option<String> {
    let mut bytes = Vec::new();
    for number in vector.elements() {
        let is_number = number.kind() == Kind::Number;
        let digits = std::str::from_utf8(number.raw())
            .ok()
            .filter(|_| is_number)?;
        bytes.extend_from_slice(&digits.parse::<f32>().ok()?.to_le_bytes());
    }
    Some(BASE64_STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    const TITAN: Vendor = Vendor::Titan;
    const COHERE: Vendor = Vendor::Cohere;

    fn asked(vendor: Vendor, body: &Json) -> Result<BedrockVectorsRequest, Refusal> {
        let body = body.to_string();
        bedrock_vectors_request(vendor, body.as_bytes(), "vectors", Strict(&[]))
    }

    fn sent(request: &BedrockVectorsRequest) -> Json {
        serde_json::from_slice(&request.body).unwrap()
    }

    fn notes(vendor: Vendor, is_packed: bool) -> BedrockVectorsNotes {
        BedrockVectorsNotes {
            vendor,
            model: "vectors".to_owned(),
            is_packed,
        }
    }

    #[test]
    fn one_text_is_sent_with_the_settings_that_titan_has() {
        for input in [json!("a\n\"b\""), json!(["a\n\"b\""])] {
            let body = json!({"model": "m", "input": input, "dimensions": 256, "normalize": false,
                "encoding_format": "base64", "user": "u", "other": 1, "more": 2});
            let request = asked(TITAN, &body).unwrap();
            let expected = json!({"inputText": "a\n\"b\"", "dimensions": 256, "normalize": false});
            assert_eq!(sent(&request), expected);
            assert_eq!(request.dropped, ["user", "*"]);
            assert!(request.notes.is_packed);
        }
    }

    #[test]
    fn texts_are_sent_with_the_settings_that_cohere_has() {
        let body = json!({"model": "m", "input": "a", "user": "u", "dimensions": null});
        let request = asked(COHERE, &body).unwrap();
        let expected =
            json!({"texts": ["a"], "input_type": "search_document", "embedding_types": ["float"]});
        assert_eq!(sent(&request), expected);
        assert_eq!(request.dropped, ["user"]);
        let body = json!({"input": ["a", "b"], "dimensions": 256, "input_type": "search_query",
            "truncate": "END"});
        let request = asked(COHERE, &body).unwrap();
        let expected = json!({"texts": ["a", "b"], "input_type": "search_query", "truncate": "END",
            "embedding_types": ["float"], "output_dimension": 256});
        assert_eq!(sent(&request), expected);
        assert!(request.dropped.is_empty());
    }

    #[test]
    fn inputs_that_an_api_does_not_take_and_unknown_encodings_are_refused_by_name() {
        let refused = |vendor, body: &Json| asked(vendor, body).unwrap_err().path;
        for input in [json!([1, 2]), json!([[1]]), json!([]), json!(1)] {
            assert_eq!(refused(TITAN, &json!({"input": input})), "input");
            assert_eq!(refused(COHERE, &json!({"input": input})), "input");
        }
        assert_eq!(refused(TITAN, &json!({"input": ["a", "b"]})), "input");
        let body = json!({"input": "a", "encoding_format": "int8"});
        assert_eq!(refused(TITAN, &body), "encoding_format");
        let strict = ["user".to_owned()];
        let body = json!({"input": "a", "user": "u"}).to_string();
        let refused = bedrock_vectors_request(Vendor::Titan, body.as_bytes(), "m", Strict(&strict));
        assert_eq!(refused.unwrap_err().path, "user");
    }

    #[test]
    fn vectors_are_answered_in_numbers_or_packed() {
        let titan = r#"{"embedding":[0.5,-1.25e-1],"embeddingsByType":{"float":[0.5,-0.125]},"inputTextTokenCount":3}"#;
        let by_kind = r#"{"embeddings":{"float":[[0.5,-1.25e-1],[0.5,-1.25e-1]]},"response_type":"embeddings_by_type"}"#;
        let plain = r#"{"embeddings":[[0.5,-1.25e-1],[0.5,-1.25e-1]],"texts":["a","b"]}"#;
        for (vendor, body, count) in [(TITAN, titan, 1), (COHERE, by_kind, 2), (COHERE, plain, 2)] {
            let answer = |is_packed| {
                let answer =
                    bedrock_vectors_answer(body.as_bytes(), Some(3), &notes(vendor, is_packed));
                serde_json::from_slice::<Json>(&answer.unwrap()).unwrap()
            };
            let of = |embedding: &Json| {
                let vector =
                    |index| json!({"object": "embedding", "index": index, "embedding": embedding});
                json!({"object": "list", "model": "vectors",
                    "data": (0..count).map(vector).collect::<Vec<_>>(),
                    "usage": {"prompt_tokens": 3, "total_tokens": 3}})
            };
            assert_eq!(answer(false), of(&json!([0.5, -0.125])));
            let bytes = [0.5_f32.to_le_bytes(), (-0.125_f32).to_le_bytes()].concat();
            assert_eq!(answer(true), of(&json!(BASE64_STANDARD.encode(bytes))));
        }
        for body in [
            r#"{"message":"no"}"#,
            r#"{"embedding":["a"],"embeddings":["a"]}"#,
            r#"{"embedding":3,"embeddings":[]}"#,
            "{",
        ] {
            for vendor in [TITAN, COHERE] {
                let answer = bedrock_vectors_answer(body.as_bytes(), None, &notes(vendor, true));
                assert_eq!(answer, None, "{body}");
            }
        }
    }
}
