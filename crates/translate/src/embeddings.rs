//! Embeddings of Amazon Titan for clients of the API of OpenAI: the body of InvokeModel, and its answer.
//!
//! Source: the model parameters of Amazon Titan Text Embeddings in the user's guide of Amazon Bedrock.
//! Titan takes one text in a request.

use crate::{
    Refusal, Strict,
    document::{Document, Kind, Value},
    output::Output,
    request::scope::member,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;

/// A request for Titan, and what must be remembered until its answer comes.
#[derive(Clone, Debug)]
pub struct TitanRequest {
    /// The body to send.
    pub body: Bytes,
    /// The fields that were left out, by their names; `*` for those that the API does not define.
    pub dropped: Vec<&'static str>,
    /// What the answer needs.
    pub notes: TitanNotes,
}

/// What the answer of Titan does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitanNotes {
    /// The model as the client named it.
    pub model: String,
    /// Whether the client takes vectors in base64.
    pub is_packed: bool,
}

/// Writes a request for embeddings as Titan reads it. `model`: its name for the client.
///
/// # Errors
/// The input is not exactly one text, a field has a value that the API does not define, or the operator does
/// not allow a field to be dropped.
pub fn titan_request(
    body: &[u8],
    model: &str,
    strict: Strict<'_>,
) -> Result<TitanRequest, Refusal> {
    let document = Document::parse(body).map_err(|fault| Refusal::new("", fault.to_string()))?;
    let mut out = Output::with_capacity(body.len());
    let mut dropped = Vec::new();
    let mut is_packed = false;
    out.begin_object();
    for (key, value) in document.root().members() {
        match &*key.decode() {
            "input" => out.key("inputText").raw(one_text(value)?.raw()),
            "model" => {}
            _ if value.is_null() => {}
            "dimensions" => out.key("dimensions").raw(value.raw()),
            "normalize" => out.key("normalize").raw(value.raw()),
            "encoding_format" => {
                is_packed = match value.as_str().as_deref() {
                    Some("base64") => true,
                    Some("float") => false,
                    _ => {
                        let why = "must be 'float' or 'base64'";
                        return Err(Refusal::new("encoding_format", why));
                    }
                };
            }
            "user" => dropped.push("user"),
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
    Ok(TitanRequest {
        body: out.into_bytes().into(),
        dropped,
        notes: TitanNotes {
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

/// Writes an answer of Titan as OpenAI does. `None`: it has no vector.
pub fn titan_answer(body: &[u8], notes: &TitanNotes) -> Option<Bytes> {
    let document = Document::parse(body).ok()?;
    let vector = member(document.root(), "embedding").filter(|it| it.kind() == Kind::Array)?;
    let tokens = member(document.root(), "inputTextTokenCount").and_then(Value::as_u64);
    let mut out = Output::with_capacity(body.len());
    out.begin_object();
    out.key("object").string("list");
    out.key("data").begin_array();
    out.item().begin_object();
    out.key("object").string("embedding");
    out.key("index").number(0);
    match notes.is_packed {
        true => out.key("embedding").string(&packed(vector)?),
        false => out.key("embedding").raw(vector.raw()),
    }
    out.end_object();
    out.end_array();
    out.key("model").string(&notes.model);
    if let Some(tokens) = tokens {
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

    fn asked(body: &Json) -> Result<TitanRequest, Refusal> {
        titan_request(body.to_string().as_bytes(), "vectors", Strict(&[]))
    }

    #[test]
    fn one_text_is_sent_with_the_settings_that_titan_has() {
        for input in [json!("a\n\"b\""), json!(["a\n\"b\""])] {
            let body = json!({"model": "m", "input": input, "dimensions": 256, "normalize": false,
                "encoding_format": "base64", "user": "u", "other": 1, "more": 2});
            let request = asked(&body).unwrap();
            let sent: Json = serde_json::from_slice(&request.body).unwrap();
            let expected = json!({"inputText": "a\n\"b\"", "dimensions": 256, "normalize": false});
            assert_eq!(sent, expected);
            assert_eq!(request.dropped, ["user", "*"]);
            assert!(request.notes.is_packed);
        }
    }

    #[test]
    fn several_texts_tokens_and_unknown_encodings_are_refused_by_name() {
        for input in [json!(["a", "b"]), json!([1, 2]), json!([[1]]), json!([])] {
            assert_eq!(asked(&json!({"input": input})).unwrap_err().path, "input");
        }
        let body = json!({"input": "a", "encoding_format": "int8"});
        assert_eq!(asked(&body).unwrap_err().path, "encoding_format");
        let strict = ["user".to_owned()];
        let body = json!({"input": "a", "user": "u"}).to_string();
        let refused = titan_request(body.as_bytes(), "m", Strict(&strict));
        assert_eq!(refused.unwrap_err().path, "user");
    }

    #[test]
    fn a_vector_is_answered_in_numbers_or_packed() {
        let body = br#"{"embedding":[0.5,-1.25e-1],"embeddingsByType":{"float":[0.5,-0.125]},"inputTextTokenCount":3}"#;
        let answer = |is_packed| {
            let model = "vectors".to_owned();
            let answer = titan_answer(body, &TitanNotes { model, is_packed }).unwrap();
            serde_json::from_slice::<Json>(&answer).unwrap()
        };
        let of = |embedding: Json| {
            json!({"object": "list", "model": "vectors",
                "data": [{"object": "embedding", "index": 0, "embedding": embedding}],
                "usage": {"prompt_tokens": 3, "total_tokens": 3}})
        };
        assert_eq!(answer(false), of(json!([0.5, -0.125])));
        let bytes = [0.5_f32.to_le_bytes(), (-0.125_f32).to_le_bytes()].concat();
        assert_eq!(answer(true), of(json!(BASE64_STANDARD.encode(bytes))));
        let notes = TitanNotes {
            model: String::new(),
            is_packed: true,
        };
        for body in [r#"{"message":"no"}"#, r#"{"embedding":["a"]}"#, "{"] {
            assert_eq!(titan_answer(body.as_bytes(), &notes), None, "{body}");
        }
    }
}
