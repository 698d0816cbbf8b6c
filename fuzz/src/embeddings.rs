//! Embeddings in other APIs.

use crate::{
    input::Input,
    requests::{MODEL, is_json, peek},
};
use serde_json::{Value, json};
use tollgate_translate::{
    EmbeddingsFormat, Strict, embeddings_answer, embeddings_request, most_embeddings_memory,
    with_usage,
};
use tollgate_types::Format;
use tollgate_wire::peek::PeekLimits;

/// The APIs that have a form of their own for embeddings.
const EMBEDDINGS: [EmbeddingsFormat; 5] = [
    EmbeddingsFormat::Titan,
    EmbeddingsFormat::Cohere,
    EmbeddingsFormat::Gemini,
    EmbeddingsFormat::VertexPredict,
    EmbeddingsFormat::VertexEmbedContent,
];

/// A request for embeddings that goes to another API, or the answer to one.
///
/// - A refusal has a message. The result is JSON.
/// - A request is not larger than the memory that is reserved for it.
/// - An answer has a vector for each text, and stays JSON with a usage.
pub fn embeddings(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let api = EMBEDDINGS[usize::from(input.formats) % EMBEDDINGS.len()];
    match input.chooses(0) {
        true => vectors(api, input),
        false => texts(api, input),
    }
}

fn texts(api: EmbeddingsFormat, input: Input<'_>) {
    let Ok(peeked) = peek(Format::Embeddings, &PeekLimits::default(), [input.data]) else {
        return;
    };
    let (length, texts) = (input.data.len() as u64, peeked.facts.documents);
    let most = most_embeddings_memory(length, peeked.values, texts, MODEL);
    match embeddings_request(api, input.data, "a", MODEL, Strict::default()) {
        Ok(made) => {
            let text = String::from_utf8_lossy(&made.body);
            assert!(is_json(&made.body), "{text}");
            assert!(made.body.len() as u64 <= most, "{text}");
        }
        Err(refusal) => assert!(!refusal.message.is_empty()),
    }
}

fn vectors(api: EmbeddingsFormat, input: Input<'_>) {
    let texts = vec!["x"; 1 + usize::from(input.sizes[0]) % 3];
    let encoding = ["float", "base64"][usize::from(input.chooses(1))];
    let asked = json!({ "model": "a", "input": texts, "encoding_format": encoding }).to_string();
    let made = embeddings_request(api, asked.as_bytes(), "a", MODEL, Strict::default());
    // An API that takes one text at a time.
    let Ok(made) = made else { return };
    let tokens = input.chooses(2).then_some(1);
    let Some(answer) = embeddings_answer(input.data, tokens, &made.notes) else {
        return;
    };
    assert!(is_json(&answer));
    assert!(is_json(&with_usage(&answer, 7)));
    // JSON has numbers that this reader refuses.
    let Ok(answer) = serde_json::from_slice::<Value>(&answer) else {
        return;
    };
    let vectors = answer["data"].as_array().expect("vectors");
    assert_eq!(vectors.len(), texts.len());
    let is_vector = |it: &Value| it.is_array() || (it.is_string() && encoding == "base64");
    assert!(vectors.iter().all(|it| is_vector(&it["embedding"])));
}
