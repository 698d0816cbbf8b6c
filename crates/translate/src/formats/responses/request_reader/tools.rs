//! Reads the tools of a responses request: offered, in namespaces or not, and chosen.

use super::search;
use crate::request::read::{
    openai::{self, choice_word},
    search::take_offer,
    shared::{array, keep_allowed, take_word},
};
use crate::{
    Refusal,
    document::{Text, Value},
    formats::responses::request_fields as table,
    request::{
        conversation::{Choice, Conversation, Grammar, Takes, Tool},
        path::Path,
        scope::{Scope, refuse},
    },
};

/// The longest name of a namespace, in bytes as it is written: each of its tools repeats it.
const LONGEST_NAMESPACE: usize = 128;

/// The most bytes of namespace descriptions, counted once per tool. The memory permit does not cover them.
const MOST_DESCRIPTIONS: usize = 256 * 1024;

/// Checks that the tools do not repeat too much of their namespaces.
pub(crate) fn check_descriptions(tools: &[Tool<'_>]) -> Result<(), Refusal> {
    let lengths = tools
        .iter()
        .filter_map(|tool| tool.namespace_description)
        .map(|description| description.json().len());
    match lengths.fold(0, usize::saturating_add) {
        ..=MOST_DESCRIPTIONS => Ok(()),
        _ => {
            let message = format!(
                "is repeated for each tool of its namespace: all repetitions together must have at \
                 most {MOST_DESCRIPTIONS} bytes"
            );
            Err(Refusal::new("tools[].description", message))
        }
    }
}

/// The namespace that tools stand in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Namespace<'d> {
    name: Text<'d>,
    description: Option<Text<'d>>,
}

/// Reads a list of tools; namespaces hold tools, and no namespaces.
pub(crate) fn tools<'d>(
    scope: &mut Scope<'_>,
    offered: Value<'d>,
    path: &Path<'_>,
    namespace: Option<Namespace<'d>>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    for (at, tool) in offered.elements().enumerate() {
        let path = path.index(at);
        let read = match scope.kind(tool, &table::TOOLS, &path)? {
            None => {
                conversation.lost_tools = true;
                continue;
            }
            Some("function") => function(scope, tool, namespace, &path)?,
            Some("custom") => custom(scope, tool, namespace, &path)?,
            Some(kind) if kind != "namespace" => {
                take_offer(scope, tool, kind, &path, conversation, |scope| {
                    search::offer(scope, tool, kind, &path)
                })?;
                continue;
            }
            Some(_) if namespace.is_some() => {
                return Err(refuse(&path, "must be a tool: namespaces do not nest"));
            }
            Some(_) => {
                let mut fields = scope.open(tool, &table::NAMESPACE, &path)?;
                let namespace = Namespace {
                    name: fields.require_text("name")?,
                    description: fields.text("description")?,
                };
                let inner = fields.require("tools")?;
                fields.close()?;
                if namespace.name.json().len() > LONGEST_NAMESPACE {
                    let message =
                        format!("must have at most {LONGEST_NAMESPACE} bytes for this model");
                    return Err(refuse(&path.field("name"), message));
                }
                let path = path.field("tools");
                let inner = array(inner, &path)?;
                tools(scope, inner, &path, Some(namespace), conversation)?;
                continue;
            }
        };
        conversation.tools.push(read);
    }
    Ok(())
}

fn function<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    namespace: Option<Namespace<'d>>,
    path: &Path<'_>,
) -> Result<Tool<'d>, Refusal> {
    let mut fields = scope.open(tool, &table::FUNCTION_TOOL, path)?;
    fields.bool("defer_loading")?;
    Ok(Tool {
        namespace: namespace.map(|it| it.name),
        namespace_description: namespace.and_then(|it| it.description),
        ..openai::function(fields)?
    })
}

fn custom<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    namespace: Option<Namespace<'d>>,
    path: &Path<'_>,
) -> Result<Tool<'d>, Refusal> {
    let mut fields = scope.open(tool, &table::CUSTOM_TOOL, path)?;
    fields.bool("defer_loading")?;
    let name = fields.require_text("name")?;
    let description = fields.text("description")?;
    let format = fields.take("format");
    fields.close()?;
    let grammar = match format {
        Some(format) => grammar(scope, format, &path.field("format"))?,
        None => None,
    };
    Ok(Tool {
        name,
        namespace: namespace.map(|it| it.name),
        namespace_description: namespace.and_then(|it| it.description),
        description,
        takes: Takes::Free(grammar),
        cache: None,
    })
}

fn grammar<'d>(
    scope: &mut Scope<'_>,
    format: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<Grammar<'d>>, Refusal> {
    if scope.kind(format, &table::CUSTOM_FORMATS, path)? != Some("grammar") {
        scope.open(format, &table::CUSTOM_TEXT, path)?.close()?;
        return Ok(None);
    }
    openai::grammar(scope.open(format, &table::CUSTOM_GRAMMAR, path)?).map(Some)
}

/// Reads `tool_choice`: a word or an object.
pub(crate) fn choice<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("tool_choice");
    if let Some(word) = value.text() {
        conversation.choice = Some(choice_word(word, &path)?);
        return Ok(());
    }
    match scope.kind(value, &table::CHOICES, &path)? {
        None => Ok(()),
        Some("allowed_tools") => allowed_tools(scope, value, conversation),
        Some("function" | "custom") => {
            let (name, namespace) = named(scope, value, &path)?;
            conversation.choice = Some(Choice::Tool { name, namespace });
            Ok(())
        }
        Some(kind) => chosen_search(scope, value, kind, &path, conversation),
    }
}

/// The choice of the provider's search.
fn chosen_search<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    kind: &str,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    if conversation.search.is_none() {
        return scope.refuse_kind(&table::CHOICES, kind, "it has no such tool", path);
    }
    scope.open(value, &table::CHOICE_SEARCH, path)?.close()?;
    conversation.choice = Some(Choice::Search);
    Ok(())
}

fn named<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
) -> Result<(Text<'d>, Option<Text<'d>>), Refusal> {
    let mut fields = scope.open(value, &table::CHOICE_NAMED, path)?;
    let named = (fields.require_text("name")?, fields.text("namespace")?);
    fields.close()?;
    Ok(named)
}

/// Some of the tools may be called: the others are not offered.
fn allowed_tools<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("tool_choice");
    let mut fields = scope.open(value, &table::CHOICE_ALLOWED, &path)?;
    let mode = take_word(&mut fields, "mode", &["auto", "required"])?;
    let list = fields.require("tools")?;
    fields.close()?;
    let path = path.field("tools");
    let list = array(list, &path)?;
    let mut names = Vec::new();
    let mut keeps_search = false;
    for (at, tool) in list.elements().enumerate() {
        let path = path.index(at);
        match scope.kind(tool, &table::ALLOWED, &path)? {
            Some("function" | "custom") => names.push(named(scope, tool, &path)?),
            Some(_) => {
                scope.open(tool, &table::CHOICE_SEARCH, &path)?.close()?;
                keeps_search = true;
            }
            None => {}
        }
    }
    keep_allowed(
        conversation,
        &names,
        keeps_search,
        mode.unwrap_or("auto"),
        &path,
    )
}
