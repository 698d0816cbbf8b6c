//! Embeddings of Amazon Bedrock and Google for clients of the API of OpenAI: requests and answers of their own APIs.
//!
//! Sources: the model parameters of Amazon Titan Text Embeddings and of Cohere Embed in the user's guide of Amazon
//! Bedrock (InvokeModel); the reference of the Gemini API (`batchEmbedContents`); the references of Vertex AI
//! (`predict` for text embeddings, `embedContent`). Titan and `embedContent` take one text in a request.

use crate::{
    Refusal, Strict,
    document::{Document, Kind, Value},
    output::Output,
    request::most_memory,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;

/// The most texts of a request, as in the API of OpenAI. Google's bodies repeat the settings for each text.
const MOST_TEXTS: usize = 2048;

/// A request for embeddings in another API, and what must be remembered until its answer comes.
#[derive(Clone, Debug)]
pub struct EmbeddingsRequest {
    /// The body to send.
    pub body: Bytes,
    /// The fields that were left out, by their names; `*` for those that the API does not define.
    pub dropped: Vec<&'static str>,
    /// The notes for the answer.
    pub notes: EmbeddingsNotes,
}

/// Facts that the answer does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingsNotes {
    format: EmbeddingsFormat,
    /// The texts of the request, of which each has a vector in the answer.
    texts: usize,
    /// The model as the client named it.
    pub model: String,
    /// Whether the client takes vectors in base64.
    pub is_packed: bool,
}

/// The form of the bodies in an API of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingsFormat {
    /// InvokeModel of Amazon Bedrock with a model of Amazon Titan.
    Titan,
    /// The same with a model of Cohere.
    Cohere,
    /// `batchEmbedContents` of the Gemini API.
    Gemini,
    /// `predict` of Vertex AI.
    VertexPredict,
    /// `embedContent` of Vertex AI.
    VertexEmbedContent,
}

/// Bytes of memory that [`embeddings_request`] takes at most, its result included: for a body of `length` bytes with so
/// many keys and values, and so many texts.
pub fn most_embeddings_memory(length: u64, values: u64, texts: u64, upstream_model: &str) -> u64 {
    let repeated = u64::try_from(repeated_length(upstream_model)).unwrap_or(u64::MAX);
    most_memory(length, values).saturating_add(repeated.saturating_mul(texts.max(1)))
}

/// The longest settings of a text in Google's APIs, with the name of the model.
const fn repeated_length(upstream_model: &str) -> usize {
    const SETTINGS: usize = 256;
    /// A control character of the name is escaped.
    const ESCAPED: usize = 6;
    let name = upstream_model.len().saturating_mul(ESCAPED);
    name.saturating_add(SETTINGS)
}

/// Writes a request for embeddings, which a lexer has checked, as the API reads it. `model`: its name for the client,
/// `upstream_model`: its name for the provider.
///
/// # Errors
/// The model does not take such an input, a field has a value that OpenAI's API does not define, or the operator
/// does not allow a field to be dropped.
pub fn embeddings_request(
    format: EmbeddingsFormat,
    body: &[u8],
    model: &str,
    upstream_model: &str,
    strict: Strict<'_>,
) -> Result<EmbeddingsRequest, Refusal> {
    use EmbeddingsFormat as F;
    let document = Document::of_valid(body).map_err(|fault| Refusal::new("", fault.to_string()))?;
    let root = document.root();
    let mut asked = Asked::default();
    let mut dropped = Vec::new();
    let mut is_packed = false;
    for (key, value) in root.members() {
        match (format, &*key.decode()) {
            (_, "input") => asked.texts = texts(format, value)?,
            (_, "model") => {}
            _ if value.is_null() => {}
            (_, "dimensions") => asked.dimensions = Some(dimensions(value)?),
            (F::Titan, "normalize") => asked.set("normalize", value),
            (F::Cohere, "input_type") => asked.set("input_type", value),
            (F::Cohere, "truncate") => asked.set("truncate", value),
            (F::Gemini | F::VertexEmbedContent, "task_type") => asked.set("taskType", task(value)?),
            (F::VertexPredict, "task_type") => asked.set("task_type", task(value)?),
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
    if let Some(path) = dropped.iter().find(|path| strict.forbids(path)) {
        let why =
            "is not accepted by this provider, and it must not be dropped (`translation.strict`)";
        return Err(Refusal::new(*path, why));
    }
    // All that it can need: while it grows, it would take twice as much.
    let repeated = repeated_length(upstream_model).saturating_mul(asked.texts.len());
    let mut out = Output::with_capacity(body.len().saturating_add(repeated));
    out.begin_object();
    asked.write(format, upstream_model, &mut out);
    out.end_object();
    Ok(EmbeddingsRequest {
        body: out.into_bytes().into_boxed_slice().into(),
        dropped,
        notes: EmbeddingsNotes {
            format,
            texts: asked.texts.len(),
            model: model.to_owned(),
            is_packed,
        },
    })
}

/// The parts of a request.
#[derive(Default)]
struct Asked<'d> {
    texts: Vec<Value<'d>>,
    dimensions: Option<u64>,
    /// Settings of the API alone, by their names there.
    own: Vec<(&'static str, Value<'d>)>,
}

impl<'d> Asked<'d> {
    /// The last of several values counts.
    fn set(&mut self, name: &'static str, value: Value<'d>) {
        self.own.retain(|(known, _)| *known != name);
        self.own.push((name, value));
    }

    fn write(&self, format: EmbeddingsFormat, upstream_model: &str, out: &mut Output) {
        let Some(first) = self.texts.first() else {
            return;
        };
        match format {
            EmbeddingsFormat::Titan => {
                out.key("inputText").raw(first.raw());
                self.write_settings("dimensions", out);
            }
            EmbeddingsFormat::Cohere => {
                out.key("texts").begin_array();
                for text in &self.texts {
                    out.item().raw(text.raw());
                }
                out.end_array();
                out.key("embedding_types").raw(br#"["float"]"#);
                if !self.own.iter().any(|(name, _)| *name == "input_type") {
                    out.key("input_type").string("search_document");
                }
                self.write_settings("output_dimension", out);
            }
            EmbeddingsFormat::Gemini => {
                let model = format!("models/{upstream_model}");
                out.key("requests").begin_array();
                for text in &self.texts {
                    out.item().begin_object();
                    out.key("model").string(&model);
                    self.write_content(*text, out);
                    out.end_object();
                }
                out.end_array();
            }
            EmbeddingsFormat::VertexPredict => {
                out.key("instances").begin_array();
                for text in &self.texts {
                    out.item().begin_object();
                    out.key("content").raw(text.raw());
                    self.write_own(out);
                    out.end_object();
                }
                out.end_array();
                if let Some(dimensions) = self.dimensions {
                    out.key("parameters").begin_object();
                    out.key("outputDimensionality").number(dimensions);
                    out.end_object();
                }
            }
            EmbeddingsFormat::VertexEmbedContent => self.write_content(*first, out),
        }
    }

    /// A text and its settings, as `embedContent` takes them.
    fn write_content(&self, text: Value<'_>, out: &mut Output) {
        out.key("content").begin_object();
        out.key("parts").begin_array();
        out.item().begin_object();
        out.key("text").raw(text.raw());
        out.end_object();
        out.end_array();
        out.end_object();
        self.write_settings("outputDimensionality", out);
    }

    /// The settings, with the name that the API has for the dimensions.
    fn write_settings(&self, dimensions: &str, out: &mut Output) {
        if let Some(number) = self.dimensions {
            out.key(dimensions).number(number);
        }
        self.write_own(out);
    }

    fn write_own(&self, out: &mut Output) {
        for (name, value) in &self.own {
            out.key(name).raw(value.raw());
        }
    }
}

/// The texts of an input.
fn texts(format: EmbeddingsFormat, input: Value<'_>) -> Result<Vec<Value<'_>>, Refusal> {
    let texts: Vec<_> = match input.kind() {
        Kind::String => vec![input],
        Kind::Array => input
            .elements()
            .take(MOST_TEXTS.saturating_add(1))
            .collect(),
        _ => Vec::new(),
    };
    let is_texts = !texts.is_empty() && texts.iter().all(|it| it.kind() == Kind::String);
    let takes_one = matches!(
        format,
        EmbeddingsFormat::Titan | EmbeddingsFormat::VertexEmbedContent
    );
    let why = match texts.len() {
        1 if is_texts => return Ok(texts),
        _ if takes_one => {
            "must be one text for this model: send each text in a request of its own, and text \
             instead of tokens"
        }
        ..=MOST_TEXTS if is_texts => return Ok(texts),
        ..=MOST_TEXTS => {
            "must be a text or a list of texts for this model: send text instead of tokens"
        }
        _ => "has more than 2048 texts: send them in several requests",
    };
    Err(Refusal::new("input", why))
}

fn dimensions(value: Value<'_>) -> Result<u64, Refusal> {
    let why = "must be a whole number";
    value
        .as_u64()
        .ok_or_else(|| Refusal::new("dimensions", why))
}

/// A task of Google, such as `RETRIEVAL_QUERY`.
fn task(value: Value<'_>) -> Result<Value<'_>, Refusal> {
    /// The body repeats it for each text.
    const LONGEST: usize = 64;
    let is_task = value.kind() == Kind::String && value.raw().len() <= LONGEST;
    let why = "must be the name of a task of Google, such as 'RETRIEVAL_QUERY'";
    match is_task {
        true => Ok(value),
        false => Err(Refusal::new("task_type", why)),
    }
}

/// Writes an answer as OpenAI does. `input_tokens`: the number in its head. Returns `None`
/// if it does not have a vector for each text.
pub fn embeddings_answer(
    body: &[u8],
    input_tokens: Option<u64>,
    notes: &EmbeddingsNotes,
) -> Option<Bytes> {
    let document = Document::parse(body).ok()?;
    let (vectors, tokens) = vectors(notes.format, document.root())?;
    if vectors.len() != notes.texts || vectors.iter().any(|it| it.kind() != Kind::Array) {
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

/// Adds the input tokens to an [answer](embeddings_answer) without a report of the provider.
pub fn with_usage(answer: &[u8], tokens: u64) -> Bytes {
    let members = answer.strip_suffix(b"}").unwrap_or(answer);
    let usage = format!(r#","usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}"#);
    [members, usage.as_bytes()].concat().into()
}

/// The vectors of an answer, and its input tokens if it has them.
fn vectors(format: EmbeddingsFormat, root: Value<'_>) -> Option<(Vec<Value<'_>>, Option<u64>)> {
    let usage = || root.get("usageMetadata")?.get("promptTokenCount")?.as_u64();
    Some(match format {
        EmbeddingsFormat::Titan => {
            let tokens = root.get("inputTextTokenCount").and_then(Value::as_u64);
            (vec![root.get("embedding")?], tokens)
        }
        EmbeddingsFormat::Cohere => {
            let vectors = root.get("embeddings")?;
            // Older models leave the kind of numbers out.
            let vectors = vectors.get("float").unwrap_or(vectors);
            (vectors.elements().collect(), None)
        }
        EmbeddingsFormat::Gemini => {
            let vectors = root.get("embeddings")?.elements();
            let vectors = vectors.map(|it| it.get("values"));
            (vectors.collect::<Option<_>>()?, usage())
        }
        EmbeddingsFormat::VertexPredict => {
            let embeddings = root.get("predictions")?.elements();
            let embeddings: Vec<_> = embeddings
                .map(|it| it.get("embeddings"))
                .collect::<Option<_>>()?;
            // Unknown if one is missing: the gateway counts the input then.
            let tokens = embeddings.iter().try_fold(0_u64, |sum, it| {
                let tokens = it.get("statistics")?.get("token_count")?;
                sum.checked_add(tokens.as_u64()?)
            });
            let vectors = embeddings.iter().map(|it| it.get("values"));
            (vectors.collect::<Option<_>>()?, tokens)
        }
        EmbeddingsFormat::VertexEmbedContent => {
            (vec![root.get("embedding")?.get("values")?], usage())
        }
    })
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

    const TITAN: EmbeddingsFormat = EmbeddingsFormat::Titan;
    const COHERE: EmbeddingsFormat = EmbeddingsFormat::Cohere;
    const GEMINI: EmbeddingsFormat = EmbeddingsFormat::Gemini;
    const PREDICT: EmbeddingsFormat = EmbeddingsFormat::VertexPredict;
    const EMBED_CONTENT: EmbeddingsFormat = EmbeddingsFormat::VertexEmbedContent;
    const ALL: [EmbeddingsFormat; 5] = [TITAN, COHERE, GEMINI, PREDICT, EMBED_CONTENT];

    /// Cohere alone has the tokens in the head.
    fn in_head(format: EmbeddingsFormat) -> Option<u64> {
        (format == COHERE).then_some(3)
    }

    fn asked(format: EmbeddingsFormat, body: &Json) -> Result<EmbeddingsRequest, Refusal> {
        let body = body.to_string();
        embeddings_request(format, body.as_bytes(), "vectors", "m", Strict(&[]))
    }

    fn sent(request: &EmbeddingsRequest) -> Json {
        serde_json::from_slice(&request.body).unwrap()
    }

    fn notes(format: EmbeddingsFormat, texts: usize, is_packed: bool) -> EmbeddingsNotes {
        EmbeddingsNotes {
            format,
            texts,
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
    fn each_text_is_a_request_of_its_own_for_gemini_and_an_instance_for_vertex() {
        let body = json!({"model": "m", "input": ["a", "b"], "dimensions": 256, "user": "u",
            "task_type": "RETRIEVAL_QUERY", "encoding_format": "float"});
        let request = asked(GEMINI, &body).unwrap();
        let one = |text| {
            json!({"model": "models/m", "content": {"parts": [{"text": text}]},
                "outputDimensionality": 256, "taskType": "RETRIEVAL_QUERY"})
        };
        assert_eq!(sent(&request), json!({"requests": [one("a"), one("b")]}));
        assert_eq!(request.dropped, ["user"]);
        let request = asked(PREDICT, &body).unwrap();
        let one = |text| json!({"content": text, "task_type": "RETRIEVAL_QUERY"});
        let expected = json!({"instances": [one("a"), one("b")],
            "parameters": {"outputDimensionality": 256}});
        assert_eq!(sent(&request), expected);
        let request = asked(PREDICT, &json!({"input": "a"})).unwrap();
        assert_eq!(sent(&request), json!({"instances": [{"content": "a"}]}));
        let request = asked(EMBED_CONTENT, &json!({"input": ["a"], "dimensions": 9})).unwrap();
        let expected = json!({"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 9});
        assert_eq!(sent(&request), expected);
    }

    #[test]
    fn a_setting_that_is_given_twice_is_sent_once() {
        let body = r#"{"input":"a","task_type":"CLUSTERING","task_type":"RETRIEVAL_QUERY"}"#;
        let request = embeddings_request(GEMINI, body.as_bytes(), "v", "m", Strict(&[])).unwrap();
        let expected = r#"{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY"}]}"#;
        assert_eq!(request.body, expected);
    }

    #[test]
    fn no_request_takes_more_memory_than_stated() {
        let model = "\u{1}".repeat(100);
        let most = u64::MAX;
        let body =
            json!({"input": vec![""; MOST_TEXTS], "dimensions": most, "task_type": "T".repeat(62)});
        let body = body.to_string();
        let length = u64::try_from(body.len()).unwrap();
        for format in [GEMINI, PREDICT] {
            let made = embeddings_request(format, body.as_bytes(), "v", &model, Strict(&[]));
            let made = u64::try_from(made.unwrap().body.len()).unwrap();
            let stated = most_embeddings_memory(length, 0, MOST_TEXTS as u64, &model);
            assert!(
                made > 10 * length && length + made <= stated,
                "{made} {stated}"
            );
        }
    }

    #[test]
    fn inputs_that_an_api_does_not_take_and_unknown_encodings_are_refused_by_name() {
        let refused = |format, body: &Json| asked(format, body).unwrap_err().path;
        for input in [json!([1, 2]), json!([[1]]), json!([]), json!(1)] {
            for format in ALL {
                assert_eq!(refused(format, &json!({"input": input})), "input");
            }
        }
        for format in [TITAN, EMBED_CONTENT] {
            assert_eq!(refused(format, &json!({"input": ["a", "b"]})), "input");
        }
        for format in ALL {
            let body = json!({"input": vec!["a"; MOST_TEXTS + 1]});
            assert_eq!(refused(format, &body), "input");
            let body = json!({"input": "a", "dimensions": "many"});
            assert_eq!(refused(format, &body), "dimensions");
        }
        for task in [json!(1), json!("T".repeat(100))] {
            let body = json!({"input": "a", "task_type": task});
            assert_eq!(refused(GEMINI, &body), "task_type");
        }
        let body = json!({"input": "a", "encoding_format": "int8"});
        assert_eq!(refused(TITAN, &body), "encoding_format");
        let strict = ["user".to_owned()];
        let body = json!({"input": "a", "user": "u"}).to_string();
        let refused = embeddings_request(TITAN, body.as_bytes(), "m", "m", Strict(&strict));
        assert_eq!(refused.unwrap_err().path, "user");
    }

    #[test]
    fn vectors_are_answered_in_numbers_or_packed() {
        let titan = r#"{"embedding":[0.5,-1.25e-1],"embeddingsByType":{"float":[0.5,-0.125]},"inputTextTokenCount":3}"#;
        let by_kind = r#"{"embeddings":{"float":[[0.5,-1.25e-1],[0.5,-1.25e-1]]},"response_type":"embeddings_by_type"}"#;
        let plain = r#"{"embeddings":[[0.5,-1.25e-1],[0.5,-1.25e-1]],"texts":["a","b"]}"#;
        let gemini = r#"{"embeddings":[{"values":[0.5,-1.25e-1]},{"values":[0.5,-1.25e-1]}],"usageMetadata":{"promptTokenCount":3}}"#;
        let predict = r#"{"predictions":[{"embeddings":{"statistics":{"token_count":1,"truncated":false},"values":[0.5,-1.25e-1]}},{"embeddings":{"statistics":{"token_count":2},"values":[0.5,-1.25e-1]}}],"metadata":{"billableCharacterCount":9}}"#;
        let embed_content =
            r#"{"embedding":{"values":[0.5,-1.25e-1]},"usageMetadata":{"promptTokenCount":3}}"#;
        for (format, body, count) in [
            (TITAN, titan, 1),
            (COHERE, by_kind, 2),
            (COHERE, plain, 2),
            (GEMINI, gemini, 2),
            (PREDICT, predict, 2),
            (EMBED_CONTENT, embed_content, 1),
        ] {
            let answer = |is_packed| {
                let answer = embeddings_answer(
                    body.as_bytes(),
                    in_head(format),
                    &notes(format, count, is_packed),
                );
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
        let unreported = r#"{"embeddings":[{"values":[0.5]}]}"#;
        let unreported = embeddings_answer(unreported.as_bytes(), None, &notes(GEMINI, 1, false));
        let counted: Json = serde_json::from_slice(&with_usage(&unreported.unwrap(), 7)).unwrap();
        let expected = json!({"prompt_tokens": 7, "total_tokens": 7});
        assert_eq!(counted["usage"], expected, "{counted}");
        let too_few = embeddings_answer(gemini.as_bytes(), None, &notes(GEMINI, 3, false));
        assert_eq!(too_few, None, "one text has no vector");
        for body in [
            r#"{"message":"no"}"#,
            r#"{"embedding":["a"],"embeddings":["a"]}"#,
            r#"{"embedding":3,"embeddings":[]}"#,
            r#"{"embedding":{"values":3},"embeddings":[{}],"predictions":[{}]}"#,
            r#"{"embeddings":[{"values":["a"]}],"predictions":[{"embeddings":{"values":["a"]}}]}"#,
            "{",
        ] {
            for format in ALL {
                let answer = embeddings_answer(body.as_bytes(), None, &notes(format, 1, true));
                assert_eq!(answer, None, "{body}");
            }
        }
    }
}
