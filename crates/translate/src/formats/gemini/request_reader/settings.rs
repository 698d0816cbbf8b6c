//! Reads `generationConfig`: sampling, limits, the form of the answer, and thinking.

use super::tools::json_schema;
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::gemini::request_fields as table,
    request::{
        conversation::{AnswerFormat, Conversation, Reasoning, Sampling},
        fields::Fields,
        path::Path,
        read::{rewrites::Rewritten, shared::stops},
        scope::{Scope, must_be, refuse, shown},
    },
};
use tollgate_types::Effort;

/// Penalties, by Google's documentation.
const MOST_PENALTY: f64 = 2.0;

pub(super) fn read<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    rewritten: &Rewritten<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("generationConfig");
    let mut fields = scope.open(value, &table::GENERATION_CONFIG, &path)?;
    conversation.limit = fields.integer("maxOutputTokens", 1)?;
    conversation.sampling = Sampling {
        temperature: fields.number("temperature", 0.0, 2.0)?,
        top_p: fields.number("topP", 0.0, 1.0)?,
        top_k: fields
            .number("topK", 0.0, f64::MAX)?
            .map(|value| rewritten.get(value).unwrap_or(value)),
        seed: fields.number("seed", f64::MIN, f64::MAX)?,
        presence_penalty: fields.number("presencePenalty", -MOST_PENALTY, MOST_PENALTY)?,
        frequency_penalty: fields.number("frequencyPenalty", -MOST_PENALTY, MOST_PENALTY)?,
    };
    if let Some(value) = fields.array("stopSequences")? {
        conversation.stop = stops(value, &path.field("stopSequences"))?;
    }
    conversation.format = format(&mut fields, rewritten)?;
    if let Some(value) = fields.take("thinkingConfig") {
        let path = path.field("thinkingConfig");
        conversation.reasoning = thinking(scope, value, &path)?;
    }
    // Only neutral values can be carried.
    fields.take("candidateCount");
    fields.take("responseModalities");
    fields.close()
}

fn format<'d>(
    fields: &mut Fields<'d, '_>,
    rewritten: &Rewritten<'d>,
) -> Result<Option<AnswerFormat<'d>>, Refusal> {
    let path = fields.path;
    let media_type = fields.text("responseMimeType")?;
    let of_google = fields.take("responseSchema");
    let plain = fields.take("responseJsonSchema");
    let schema = match (plain, of_google) {
        (None, Some(schema)) => Some(json_schema(
            schema,
            rewritten,
            &path.field("responseSchema"),
        )?),
        (schema, _) => schema,
    };
    if let Some(schema) = schema.filter(|schema| schema.kind() != Kind::Object) {
        return Err(must_be(
            &path.field("responseJsonSchema"),
            "an object",
            schema,
        ));
    }
    let is_json = match media_type {
        Some(kind) if kind.is("application/json") => true,
        Some(kind) if kind.is("text/plain") => false,
        Some(kind) => {
            let message = format!(
                "is '{}'; this model answers with application/json or text/plain",
                shown(kind)
            );
            return Err(refuse(&path.field("responseMimeType"), message));
        }
        None => schema.is_some(),
    };
    Ok(match (is_json, schema) {
        (false, _) => None,
        (true, None) => Some(AnswerFormat::JsonObject),
        (true, schema) => Some(AnswerFormat::Schema {
            name: None,
            description: None,
            schema,
            strict: Some(true),
        }),
    })
}

fn thinking(
    scope: &mut Scope<'_>,
    value: Value<'_>,
    path: &Path<'_>,
) -> Result<Reasoning, Refusal> {
    let mut fields = scope.open(value, &table::THINKING_CONFIG, path)?;
    let shown = fields.bool("includeThoughts")?;
    let level = fields.text("thinkingLevel")?;
    let budget = fields.take("thinkingBudget");
    fields.close()?;
    let of_level = level.map(|level| effort_of_level(level, &path.field("thinkingLevel")));
    let of_level = of_level.transpose()?.flatten();
    let of_budget = budget.map(|budget| effort_of_budget(budget, &path.field("thinkingBudget")));
    let of_budget = of_budget.transpose()?;
    Ok(Reasoning {
        effort: of_level.or(of_budget),
        effort_field: match of_level {
            Some(_) => "generationConfig.thinkingConfig.thinkingLevel",
            None => "generationConfig.thinkingConfig.thinkingBudget",
        },
        shown,
        ..Reasoning::default()
    })
}

fn effort_of_level(level: Text<'_>, path: &Path<'_>) -> Result<Option<Effort>, Refusal> {
    Ok(match level.decode().to_ascii_uppercase().as_str() {
        "MINIMAL" => Some(Effort::Minimal),
        "LOW" => Some(Effort::Low),
        "MEDIUM" => Some(Effort::Medium),
        "HIGH" => Some(Effort::High),
        "XHIGH" => Some(Effort::Xhigh),
        "THINKING_LEVEL_UNSPECIFIED" => None,
        _ => {
            let level = shown(level);
            let message =
                format!("is '{level}'; expected one of: MINIMAL, LOW, MEDIUM, HIGH, XHIGH");
            return Err(refuse(path, message));
        }
    })
}

/// A budget is optional, as an effort is: a model that does not think may ignore it.
fn effort_of_budget(budget: Value<'_>, path: &Path<'_>) -> Result<Effort, Refusal> {
    match budget.as_f64() {
        // The model decides how much.
        Some(-1.0) => Ok(Effort::Medium),
        Some(0.0) => Ok(Effort::None),
        _ => match budget.as_u64() {
            Some(tokens) => Ok(Effort::of_thinking_budget(tokens)),
            None => Err(refuse(path, "must be a whole number of at least -1")),
        },
    }
}
