//! Embeddings and the order of documents: numbers that follow from the words alone. Texts with words
//! in common have similar vectors.

use crate::{
    fields::{Fields, Vendor},
    format::Fault,
    seed::Seed,
    tokens,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// Numbers in a vector, unless the request says another.
const USUAL: u64 = 64;
const MOST: u64 = 4096;

/// The vectors of the texts of a request.
///
/// # Errors
/// A fault in the words of OpenAI.
pub(crate) fn embeddings(request: &Value) -> Result<Value, Fault> {
    let fields = Fields::of(request, "", Vendor::OpenAi)?;
    fields.only(&["model", "input", "dimensions", "encoding_format", "user"])?;
    let model = fields.required("model")?;
    let texts = match fields.required("input")? {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) if list.is_empty() => return Err(invalid("input")),
        Value::Array(list) if list.iter().all(Value::is_number) => vec![words(list)],
        Value::Array(list) => list.iter().map(text).collect::<Result<_, _>>()?,
        _ => return Err(invalid("input")),
    };
    let size = match fields.get("dimensions") {
        None => USUAL,
        Some(size) => size
            .as_u64()
            .filter(|size| (1..=MOST).contains(size))
            .ok_or_else(|| invalid("dimensions"))?,
    };
    let is_packed = match fields.text("encoding_format")? {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(invalid("encoding_format")),
    };
    let data = texts.iter().enumerate().map(|(index, text)| {
        let vector = vector(text, size);
        let embedding = match is_packed {
            true => {
                let bytes: Vec<_> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
                json!(BASE64_STANDARD.encode(bytes))
            }
            false => json!(vector),
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    });
    let tokens: u64 = texts.iter().map(|text| tokens::count(text)).sum();
    Ok(json!({
        "object": "list", "data": data.collect::<Vec<_>>(), "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

/// The documents of a request by the share of the query's words that they have.
///
/// # Errors
/// A fault in the words of OpenAI: each vendor of the API has its own.
pub(crate) fn rerank(request: &Value) -> Result<Value, Fault> {
    let fields = Fields::of(request, "", Vendor::OpenAi)?;
    let model = fields.required("model")?;
    fields.required("query")?;
    let query = fields.text("query")?.unwrap_or_default();
    fields.required("documents")?;
    let documents = fields.list("documents")?.into_iter().flatten();
    let documents: Vec<_> = documents
        .map(|it| text(it.get("text").unwrap_or(it)))
        .collect::<Result<_, _>>()?;
    let wanted: Vec<_> = query.split_whitespace().collect();
    let share = |document: &str| {
        let found = wanted.iter().filter(|word| document.contains(**word));
        ratio(found.count(), wanted.len())
    };
    let mut order: Vec<_> = documents.iter().map(|it| share(it)).enumerate().collect();
    order.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let most = fields.get("top_n").and_then(Value::as_u64);
    let most = most.and_then(|most| usize::try_from(most).ok());
    let results = order.into_iter().take(most.unwrap_or(usize::MAX));
    let results = results.map(|(index, score)| json!({"index": index, "relevance_score": score}));
    // As vLLM and Voyage count: each document with the query.
    let query = tokens::count(query);
    let read = documents
        .iter()
        .map(|it| query + tokens::count(it))
        .sum::<u64>();
    Ok(json!({
        "model": model, "results": results.collect::<Vec<_>>(),
        "usage": {"total_tokens": read},
    }))
}

fn text(value: &Value) -> Result<String, Fault> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(tokens) if tokens.iter().all(Value::is_number) => Ok(words(tokens)),
        _ => Err(invalid("input")),
    }
}

/// A text with a word for each token.
fn words(tokens: &[Value]) -> String {
    let words: Vec<_> = tokens.iter().map(Value::to_string).collect();
    words.join(" ")
}

fn invalid(field: &str) -> Fault {
    Fault::bad_request(format!("'$.{field}' is invalid.")).at(field)
}

/// The sum of a direction for each word, of length 1.
fn vector(text: &str, size: u64) -> Vec<f32> {
    let words = || {
        text.split_whitespace()
            .map(|word| Seed::of(word.as_bytes()))
    };
    let sums = (0..usize::try_from(size).unwrap_or_default())
        .map(|place| {
            let parts = words().map(|word| f32::from(direction(word, place)));
            parts.sum::<f32>()
        })
        .collect::<Vec<_>>();
    let length = sums.iter().map(|it| it * it).sum::<f32>().sqrt();
    let length = if length > 0.0 { length } else { 1.0 };
    sums.into_iter().map(|it| it / length).collect()
}

fn direction(word: Seed, place: usize) -> i16 {
    let number = word.fork("direction", place).number(2001);
    i16::try_from(number).unwrap_or_default() - 1000
}

fn ratio(part: usize, whole: usize) -> f64 {
    let of = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    of(part) / of(whole.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_words_in_common_are_similar() {
        let input = ["red apples", "green apples", "fast cars"];
        let answer = embeddings(&json!({"model": "m", "input": input})).unwrap();
        let vector = |at: usize| -> Vec<f64> {
            let vector = answer["data"][at]["embedding"].as_array().unwrap();
            vector.iter().map(|it| it.as_f64().unwrap()).collect()
        };
        let product = |one: usize, other: usize| -> f64 {
            vector(one)
                .iter()
                .zip(vector(other))
                .map(|(a, b)| a * b)
                .sum()
        };
        assert!((product(0, 0) - 1.0).abs() < 1e-5);
        assert!(product(0, 1) > product(0, 2) + 0.2, "{answer}");
        assert_eq!(answer["usage"]["prompt_tokens"], 6);
    }

    #[test]
    fn a_packed_vector_has_the_same_numbers() {
        let ask = |format: &str| {
            let request =
                json!({"model": "m", "input": "a b", "dimensions": 3, "encoding_format": format});
            embeddings(&request).unwrap()["data"][0]["embedding"].clone()
        };
        let packed = BASE64_STANDARD
            .decode(ask("base64").as_str().unwrap())
            .unwrap();
        let (numbers, rest) = packed.as_chunks::<4>();
        let numbers: Vec<_> = numbers.iter().map(|it| f32::from_le_bytes(*it)).collect();
        assert_eq!((json!(numbers), rest.len()), (ask("float"), 0));
    }

    #[test]
    fn documents_come_in_the_order_of_relevance() {
        let request = json!({
            "model": "m", "query": "red apples", "top_n": 2,
            "documents": ["fast cars", {"text": "red apples"}, "green apples"],
        });
        let answer = rerank(&request).unwrap();
        let order = [0, 1].map(|at| answer["results"][at]["index"].clone());
        assert_eq!(order, [json!(1), json!(2)], "{answer}");
        assert_eq!(answer["results"].as_array().unwrap().len(), 2);
        // The query of two tokens is read with each of the three documents.
        assert_eq!(answer["usage"]["total_tokens"], 3 * 2 + 6);
    }

    #[test]
    fn requests_without_texts_are_refused() {
        for request in [json!({}), json!({"input": []}), json!({"input": [{}]})] {
            let mut request = request;
            request["model"] = json!("m");
            assert!(embeddings(&request).is_err(), "{request}");
        }
        assert!(rerank(&json!({"model": "m", "query": "q"})).is_err());
    }
}
