//! The tools that are offered, and the schema of an answer, as the provider shows them to the
//! model.
//!
//! OpenAI declares its functions in the manner of TypeScript: a namespace, a type for each
//! function, a line for each property, descriptions as comments. Anthropic's pages say that
//! name, description and schema are put into the system prompt as JSON; the others are taken
//! to do the same.

use super::Reading;
use crate::{ToolStyle, json::Json};
use std::{borrow::Cow, collections::HashSet};
use tollgate_wire::document::Kind;

/// How deep a schema is declared; below that it is any type.
const MAX_DEPTH: usize = 24;

impl<'j> Reading<'j> {
    pub(super) fn offered(&mut self, tools: impl Iterator<Item = Json<'j>>) {
        let mut tools = tools.peekable();
        if tools.peek().is_none() {
            return;
        }
        if !self.tools {
            self.tools = true;
            self.frame(self.rules.tools_constant);
            if self.rules.tool_style == ToolStyle::Declarations {
                self.texts.push(Cow::Borrowed(NAMESPACE));
            }
        }
        tools.for_each(|tool| self.tool(tool));
    }

    fn tool(&mut self, tool: Json<'j>) {
        let inner = tool.get("tools");
        if let Some(inner) = inner.filter(|it| it.kind() == Kind::Array) {
            self.text(tool.text_of("name"));
            self.text(tool.text_of("description"));
            self.rest_of_tool(tool, "tools");
            return inner.elements().for_each(|tool| self.tool(tool));
        }
        self.frame(self.rules.per_tool);
        let function = tool.get("function").unwrap_or(tool);
        let schemas = ["parameters", "input_schema"].into_iter();
        let schemas = schemas.filter_map(|key| Some((key, function.get(key)?)));
        // A provider reads one of two.
        let schema = schemas.max_by_key(|(_, schema)| schema.len());
        let name = function.text_of("name");
        let (true, Some((key, schema))) = (!name.is_empty(), schema) else {
            // A tool that the provider runs brings prompts and results of its own.
            self.assumed |= function
                .get("type")
                .is_some_and(|it| it.as_text().as_deref() != Some("custom"));
            return self.json(tool);
        };
        let description = function.text_of("description");
        let text = match self.rules.tool_style {
            ToolStyle::Declarations => declaration(&name, &description, schema),
            ToolStyle::Json => definition(&name, &description, schema),
        };
        // Of a schema not every word is shown.
        let shown = text
            .len()
            .saturating_sub(name.len())
            .saturating_sub(description.len());
        self.add_uncounted(schema.len().saturating_sub(shown));
        self.rest_of_tool(function, key);
        if tool.get("function").is_some() {
            self.reserve_for_rest(tool, &["function"]);
        }
        self.texts.push(Cow::Owned(text));
    }

    /// The members of a tool that are not read: all but this one, its name and its description.
    fn rest_of_tool(&mut self, tool: Json<'_>, read: &str) {
        for (key, value) in tool.members() {
            let is_named = matches!(&*key, "name" | "description") && value.kind() == Kind::String;
            if !is_named && key != read {
                self.reserve_for_member(&key, value);
            }
        }
    }

    /// The schema that an answer must follow.
    pub(super) fn answer_schema(&mut self, format: Json<'j>) {
        let named = format.get("json_schema").unwrap_or(format);
        let Some(schema) = named.get("schema") else {
            return self.reserve_for_rest(format, &[]);
        };
        let text = match self.rules.tool_style {
            ToolStyle::Declarations => {
                let mut text = String::new();
                kind(schema, 0, &mut text);
                text
            }
            ToolStyle::Json => schema.to_line(),
        };
        let (name, description) = (named.text_of("name"), named.text_of("description"));
        let shown = [&*name, &*description, &*text].map(str::len);
        let shown = shown.into_iter().fold(0, usize::saturating_add);
        self.add_uncounted(format.len().saturating_sub(shown));
        self.text(name);
        self.text(description);
        self.frame(self.rules.answer_schema);
        self.texts.push(Cow::Owned(text));
    }
}

/// What stands around all declarations.
const NAMESPACE: &str =
    "# Tools\n\n## functions\n\nnamespace functions {\n\n} // namespace functions\n\n";

fn definition(name: &str, description: &str, schema: Json<'_>) -> String {
    let mut text =
        format!("{{\"name\": \"{name}\", \"description\": \"{description}\", \"parameters\": ");
    schema.write(&mut text);
    text.push('}');
    text
}

fn declaration(name: &str, description: &str, schema: Json<'_>) -> String {
    let mut out = String::new();
    comment(description, &mut out);
    out.push_str("type ");
    out.push_str(name);
    if schema
        .get("properties")
        .is_none_or(|it| it.members().next().is_none())
    {
        out.push_str(" = () => any;\n\n");
        return out;
    }
    out.push_str(" = (_: {\n");
    properties(schema, 0, &mut out);
    out.push_str("}) => any;\n\n");
    out
}

fn comment(text: &str, out: &mut String) {
    for line in text.lines() {
        out.push_str("// ");
        out.push_str(line);
        out.push('\n');
    }
}

fn properties(schema: Json<'_>, depth: usize, out: &mut String) {
    // Not searched as a list: a schema may have a hundred thousand of both.
    let required = schema.elements_of("required");
    let required: HashSet<_> = required.filter_map(Json::as_text).collect();
    let members = schema.get("properties").into_iter().flat_map(Json::members);
    for (name, property) in members {
        comment(&property.text_of("description"), out);
        out.push_str(&name);
        let is_required = required.contains(&name);
        out.push_str(if is_required { ": " } else { "?: " });
        kind(property, depth, out);
        out.push(',');
        if let Some(default) = property.get("default") {
            out.push_str(" // default: ");
            default.write(out);
        }
        out.push('\n');
    }
}

/// The type of a schema.
fn kind(schema: Json<'_>, depth: usize, out: &mut String) {
    if depth >= MAX_DEPTH {
        return out.push_str("any");
    }
    let list = |key| schema.get(key).filter(|it| it.kind() == Kind::Array);
    if let Some(choices) = list("enum") {
        return either(choices, out, |choice, out| choice.write(out));
    }
    if let Some(choices) = list("anyOf").or_else(|| list("oneOf")) {
        return either(choices, out, |choice, out| kind(choice, depth + 1, out));
    }
    if let Some(names) = list("type") {
        return either(names, out, |name, out| {
            out.push_str(name.as_text().as_deref().unwrap_or("any"));
        });
    }
    match schema.get("type").and_then(Json::as_text) {
        Some(name) => match &*name {
            "integer" | "number" => out.push_str("number"),
            "array" => {
                match schema.get("items") {
                    Some(items) => kind(items, depth + 1, out),
                    None => out.push_str("any"),
                }
                out.push_str("[]");
            }
            "object" if schema.get("properties").is_some() => {
                out.push_str("{\n");
                properties(schema, depth + 1, out);
                out.push('}');
            }
            other => out.push_str(other),
        },
        None => out.push_str("any"),
    }
}

fn either(choices: Json<'_>, out: &mut String, write: impl Fn(Json<'_>, &mut String)) {
    for (place, choice) in choices.elements().enumerate() {
        if place > 0 {
            out.push_str(" | ");
        }
        write(choice, out);
    }
}
