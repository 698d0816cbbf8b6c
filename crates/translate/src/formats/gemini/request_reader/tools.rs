//! Reads the tools of a Gemini request: offered and chosen.

use crate::{
    Refusal,
    document::{Text, Value},
    formats::gemini::request_fields as table,
    request::{
        conversation::{Choice, Conversation, Takes, Tool},
        path::Path,
        read::{
            rewrites::Rewritten,
            shared::{keep_allowed, stops},
        },
        scope::{Scope, refuse, shown},
    },
};

pub(super) fn tools<'d>(
    scope: &mut Scope<'_>,
    offered: Value<'d>,
    rewritten: &Rewritten<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let tools = Path::ROOT.field("tools");
    for (at, tool) in offered.elements().enumerate() {
        let path = tools.index(at);
        let mut fields = scope.open(tool, &table::TOOL, &path)?;
        let declarations = fields.array("functionDeclarations")?;
        fields.close()?;
        conversation.lost_tools |= declarations.is_none() && tool.members().next().is_some();
        let path = path.field("functionDeclarations");
        for (at, value) in declarations
            .into_iter()
            .flat_map(Value::elements)
            .enumerate()
        {
            let tool = declaration(scope, value, &path.index(at), rewritten)?;
            conversation.tools.push(tool);
        }
    }
    Ok(())
}

fn declaration<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
    rewritten: &Rewritten<'d>,
) -> Result<Tool<'d>, Refusal> {
    let mut fields = scope.open(value, &table::DECLARATION, path)?;
    let name = fields.require_text("name")?;
    let description = fields.text("description")?;
    let of_google = fields.object("parameters")?;
    let schema = fields.object("parametersJsonSchema")?;
    fields.close()?;
    let schema = match (schema, of_google) {
        (None, Some(schema)) => Some(json_schema(schema, rewritten, &path.field("parameters"))?),
        (schema, _) => schema,
    };
    Ok(Tool {
        name,
        namespace: None,
        namespace_description: None,
        description,
        takes: Takes::Object {
            schema,
            strict: None,
        },
        cache: None,
    })
}

/// The JSON schema that stands for one in Google's dialect.
pub(super) fn json_schema<'d>(
    schema: Value<'_>,
    rewritten: &Rewritten<'d>,
    path: &Path<'_>,
) -> Result<Value<'d>, Refusal> {
    let message = "is too large or nested too deep to be translated";
    rewritten.get(schema).ok_or_else(|| refuse(path, message))
}

pub(super) fn config<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("toolConfig");
    let mut fields = scope.open(value, &table::TOOL_CONFIG, &path)?;
    let calling = fields.take("functionCallingConfig");
    fields.close()?;
    let Some(value) = calling else {
        return Ok(());
    };
    let path = path.field("functionCallingConfig");
    let mut fields = scope.open(value, &table::CALLING_CONFIG, &path)?;
    let mode = fields.text("mode")?;
    let allowed = fields.array("allowedFunctionNames")?;
    fields.close()?;
    let choice = choice(mode, &path.field("mode"))?;
    let allowed = match allowed {
        Some(names) => stops(names, &path.field("allowedFunctionNames"))?,
        None => Vec::new(),
    };
    conversation.choice = match (choice, allowed.as_slice()) {
        (choice, []) => choice,
        (Some(Choice::Required), [name]) => Some(Choice::Tool {
            name: *name,
            namespace: None,
        }),
        (Some(Choice::None), _) => choice,
        (choice, names) => {
            let names: Vec<_> = names.iter().map(|name| (*name, None)).collect();
            let word = match choice {
                Some(Choice::Required) => "required",
                _ => "auto",
            };
            let path = path.field("allowedFunctionNames");
            return keep_allowed(conversation, &names, false, word, &path);
        }
    };
    Ok(())
}

fn choice(mode: Option<Text<'_>>, path: &Path<'_>) -> Result<Option<Choice<'static>>, Refusal> {
    let Some(mode) = mode else {
        return Ok(None);
    };
    match mode.decode().to_ascii_uppercase().as_str() {
        "AUTO" | "VALIDATED" => Ok(Some(Choice::Auto)),
        "ANY" => Ok(Some(Choice::Required)),
        "NONE" => Ok(Some(Choice::None)),
        "MODE_UNSPECIFIED" => Ok(None),
        _ => {
            let mode = shown(mode);
            let message = format!("is '{mode}'; expected one of: AUTO, ANY, NONE, VALIDATED");
            Err(refuse(path, message))
        }
    }
}
