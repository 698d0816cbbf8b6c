//! Labelled prompts, as they stand in a file of JSON lines.

use bytes::Bytes;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use tollgate_routing::Profile;
use tollgate_types::{Format, RequestFacts};
use tollgate_wire::peek::{PeekLimits, Peeker};
use tollgate_wire::sample;

/// One line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Names the line in messages.
    #[serde(default)]
    id: String,
    /// Where it is from: sources are kept together when the data is split.
    source: String,
    /// What a user says, or…
    prompt: Option<String>,
    /// …a whole request body…
    request: Option<Value>,
    /// …of this format.
    format: Option<Format>,
    /// What each model makes of it.
    models: IndexMap<String, Label>,
}

/// What a model makes of a prompt.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// From 0 to 1.
    pub quality: f64,
    /// In any unit, the same for all.
    pub cost: f64,
}

/// A labelled prompt.
#[derive(Debug)]
pub struct Row {
    /// Where it is from.
    pub source: String,
    /// What the gateway finds in it.
    pub facts: RequestFacts,
    /// The labels of the profile's candidates, in their order.
    pub labels: Vec<Label>,
}

/// A line that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct RowFault {
    file: String,
    line: usize,
    message: String,
}

/// Reads a file.
///
/// # Errors
///
/// The first line that is not as the format has it, or lacks a label.
pub fn read(path: &Path, text: &str, profile: &Profile) -> Result<Vec<Row>, RowFault> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(place, line)| {
            row(line, profile).map_err(|message| RowFault {
                file: path.display().to_string(),
                line: place.saturating_add(1),
                message,
            })
        })
        .collect()
}

fn row(line: &str, profile: &Profile) -> Result<Row, String> {
    let line: Line = serde_json::from_str(line).map_err(|fault| fault.to_string())?;
    let id = &line.id;
    let labels = profile.candidates.iter().map(|model| {
        let label = line.models.get(&*model.id);
        let label = label.ok_or_else(|| format!("{id}: no label for the model '{}'", model.id))?;
        let is_sound = (0.0..=1.0).contains(&label.quality) && label.cost >= 0.0;
        is_sound
            .then_some(*label)
            .ok_or_else(|| format!("{id}: a quality is from 0 to 1, a cost is not below 0"))
    });
    let labels = labels.collect::<Result<_, _>>()?;
    let (body, format) = match (line.prompt, line.request) {
        (Some(prompt), None) => {
            let message = json!({"role": "user", "content": prompt});
            (
                json!({"model": "auto", "messages": [message]}),
                Format::Chat,
            )
        }
        (None, Some(request)) => (request, line.format.unwrap_or(Format::Chat)),
        _ => return Err(format!("{id}: one of 'prompt' and 'request' is needed")),
    };
    let facts = look(body.to_string(), format).map_err(|fault| format!("{id}: {fault}"))?;
    Ok(Row {
        source: line.source,
        facts,
        labels,
    })
}

/// What the gateway finds in a body.
fn look(body: String, format: Format) -> Result<RequestFacts, String> {
    let body = Bytes::from(body);
    let mut peeker = Peeker::new(format, &PeekLimits::default()).with_texts();
    peeker.push(&body).map_err(|fault| fault.public().message)?;
    let peeked = peeker.finish().map_err(|fault| fault.public().message)?;
    let mut facts = peeked.facts;
    let look = |texts: Box<_>| sample::look(&texts, &[body]);
    facts.conversation = peeked.texts.map(look).map(Box::new);
    Ok(facts)
}
