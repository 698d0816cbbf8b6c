//! Reads the parts of a content.

use crate::{
    Refusal,
    document::{Text, Value},
    features::Feature,
    formats::gemini::{request_fields as table, request_writer::NO_SIGNATURE},
    request::{
        conversation::{Block, Call, CallResult, Image, Input, Source, Thought},
        path::Path,
        read::{
            media::{self, check_image, document_of},
            rewrites::Rewritten,
            shared::{made_block, text_block},
        },
        scope::{Scope, must_be, refuse},
    },
    table::Fate,
};

/// The content of a part, by its name: one of these, besides its signature.
const KINDS: &str = "text, inlineData, fileData, functionCall or functionResponse";

const SIGNATURE: &[&str] = &["contents[].parts[].thoughtSignature"];

pub(super) fn part<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
    rewritten: &Rewritten<'d>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(value, &table::PART, path)?;
    let is_thought = fields.says("thought");
    let signature = fields.take("thoughtSignature");
    let text = fields.text("text")?;
    let inline_data = fields.take("inlineData");
    let file_data = fields.take("fileData");
    let call = fields.take("functionCall");
    let response = fields.take("functionResponse");
    fields.close()?;
    let members = [inline_data, file_data, call, response];
    let count = members.iter().flatten().count();
    if count.saturating_add(usize::from(text.is_some())) > 1 {
        return Err(refuse(path, format!("must hold one of {KINDS}")));
    }
    if let Some(signature) = signature {
        thoughts(signature, path, rewritten, blocks)?;
    }
    if let Some(text) = text {
        // Reasoning is in the signature.
        if !is_thought && !text.is_empty() {
            blocks.push(text_block(text, None));
        }
    } else if let Some(value) = inline_data {
        blocks.push(inline(scope, value, &path.field("inlineData"))?);
    } else if let Some(value) = file_data {
        blocks.push(file(scope, value, &path.field("fileData"))?);
    } else if let Some(value) = call {
        blocks.push(function_call(
            scope,
            value,
            &path.field("functionCall"),
            rewritten,
        )?);
    } else if let Some(value) = response {
        let path = path.field("functionResponse");
        blocks.push(function_response(scope, value, &path, rewritten)?);
    }
    Ok(())
}

/// The reasoning before a part. A signature of another origin is a thought that no target can read.
fn thoughts<'d>(
    signature: Value<'d>,
    path: &Path<'_>,
    rewritten: &Rewritten<'d>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    let path = path.field("thoughtSignature");
    let state = signature.text();
    let state = state.ok_or_else(|| must_be(&path, "a string", signature))?;
    let thought = |state, text: Option<Text<'d>>| {
        Block::Thought(Thought {
            text: text.into_iter().filter(|text| !text.is_empty()).collect(),
            state: Some(state),
            paths: SIGNATURE,
        })
    };
    let Some(seals) = rewritten.get(signature) else {
        if !state.is_empty() && !state.is(NO_SIGNATURE) {
            blocks.push(thought(state, None));
        }
        return Ok(());
    };
    let mut seals = seals.elements().filter_map(Value::text);
    while let Some(state) = seals.next() {
        blocks.push(thought(state, seals.next()));
    }
    Ok(())
}

fn inline<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(value, &table::INLINE, path)?;
    let media_type = fields.require_text("mimeType")?;
    let data = fields.require_text("data")?;
    let name = fields.text("displayName")?;
    fields.close()?;
    let source = media::data(media_type.decode(), data, &path.field("data"))?;
    medium(scope, source, media_type, name, path)
}

fn file<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(value, &table::FILE, path)?;
    let media_type = fields.text("mimeType")?;
    let uri = fields.require_text("fileUri")?;
    let name = fields.text("displayName")?;
    fields.close()?;
    let source = Source::Url(media::address(uri, &path.field("fileUri"))?);
    let media_type = media_type.unwrap_or(Text::of_word("application/pdf"));
    medium(scope, source, media_type, name, path)
}

/// An image or a document, by its type.
fn medium<'d>(
    scope: &Scope<'_>,
    source: Source<'d>,
    media_type: Text<'d>,
    name: Option<Text<'d>>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let kind = media_type.decode();
    let family = kind.split('/').next().unwrap_or_default();
    let mime_path = path.field("mimeType");
    match family {
        "audio" | "video" => {
            let message = scope.cannot("the gateway translates images and documents alone");
            Err(refuse(&mime_path, message))
        }
        "image" => {
            if let Source::Data { media_type, .. } = &source {
                check_image(scope, media_type, &mime_path)?;
            }
            Ok(Block::Image(Image {
                source,
                detail: None,
            }))
        }
        _ => {
            let addresses = scope.rules.features.fate(Feature::FileAddresses);
            if let (Source::Url(_), Fate::Refused(why)) = (&source, addresses) {
                return Err(refuse(&path.field("fileUri"), scope.cannot(why)));
            }
            document_of(scope, source, name, path)
        }
    }
}

fn function_call<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
    rewritten: &Rewritten<'d>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(value, &table::FUNCTION_CALL, path)?;
    let id = fields.text("id")?;
    let name = fields.require_text("name")?;
    let args = fields.object("args")?;
    fields.close()?;
    let id = rewritten.get(value).and_then(Value::text).or(id);
    Ok(Block::Call(Call {
        id: id.ok_or_else(|| refuse(&path.field("id"), "is missing"))?,
        name,
        namespace: None,
        input: match args {
            Some(args) => Input::Object(args),
            None => Input::Json(Text::of_word("")),
        },
    }))
}

fn function_response<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
    rewritten: &Rewritten<'d>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(value, &table::FUNCTION_RESPONSE, path)?;
    let id = fields.text("id")?.filter(|id| !id.is_empty());
    let response = fields.object("response")?;
    let parts = fields.array("parts")?;
    fields.close()?;
    let id = rewritten.get(value).and_then(Value::text).or(id);
    let (said, is_error) = response.map(said).unwrap_or_default();
    let mut content = Vec::from_iter(said);
    let parts_path = path.field("parts");
    for (at, part) in parts.into_iter().flat_map(Value::elements).enumerate() {
        content.push(response_part(scope, part, &parts_path.index(at))?);
    }
    Ok(Block::Result(CallResult {
        id: id.ok_or_else(|| refuse(path, "answers no call of its name that is open"))?,
        content,
        is_error,
    }))
}

/// The text of a result, and whether the tool failed. Google's documentation has the result under
/// `output` and a failure under `error`; its Python SDK writes `result`.
fn said(response: Value<'_>) -> (Option<Block<'_>>, bool) {
    let mut members = response.members();
    let only = members.next().filter(|_| members.next().is_none());
    let Some((key, value)) = only else {
        let is_empty = response.members().next().is_none();
        return ((!is_empty).then(|| json(response)), false);
    };
    let is_error = key.is("error");
    if !is_error && !key.is("output") && !key.is("result") {
        return (Some(json(response)), false);
    }
    let block = match value.text() {
        Some(text) => text_block(text, None),
        None => json(value),
    };
    (Some(block), is_error)
}

fn json<'d>(value: Value<'_>) -> Block<'d> {
    made_block(String::from_utf8_lossy(value.raw()).into_owned())
}

fn response_part<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(value, &table::RESPONSE_PART, path)?;
    let inline_data = fields.take("inlineData");
    let file_data = fields.take("fileData");
    fields.close()?;
    match (inline_data, file_data) {
        (Some(value), None) => inline(scope, value, &path.field("inlineData")),
        (None, Some(value)) => file(scope, value, &path.field("fileData")),
        _ => Err(refuse(path, "must hold one of inlineData or fileData")),
    }
}
