//! Writes what tools have in common in all formats: names, schemas, and the check of the choice.

use super::{Writer, schema, shared::quoted};
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    names::ToolKind,
    request::conversation::{Choice, Conversation, Takes, Tool},
};
use std::{borrow::Cow, collections::HashSet};

/// A schema for a tool that takes nothing.
pub(crate) const EMPTY_SCHEMA: &[u8] = br#"{"type":"object","properties":{}}"#;
/// The schema of a function that stands for a custom tool.
const FREE_SCHEMA: &[u8] = br#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;

/// Whether each object of a schema allows its own members alone and needs all of them, as
/// chat and responses require of a strict schema.
pub(crate) fn is_closed(schema: Value<'_>) -> bool {
    /// More members than chat and responses take.
    const MANY: usize = 5000;
    if let Some(properties) = schema.get("properties") {
        let required = schema.get("required");
        let names = required.into_iter().flat_map(Value::elements).take(MANY);
        let needed: HashSet<Cow<'_, str>> = names.filter_map(Value::as_str).collect();
        let is_needed = |name: Text<'_>| needed.contains(&name.decode());
        let allows_others =
            schema.get("additionalProperties").and_then(Value::as_bool) != Some(false);
        if allows_others || !properties.members().all(|(name, _)| is_needed(name)) {
            return false;
        }
    }
    schema.members().all(|(_, inner)| is_closed(inner)) && schema.elements().all(is_closed)
}

impl Writer<'_, '_> {
    /// Refuses a choice that cannot be made among the tools that are offered.
    pub(crate) fn check_choice(&self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let may_call = !matches!(conversation.choice, Some(Choice::None));
        let is_empty = conversation.tools.is_empty() && conversation.search.is_none();
        if conversation.lost_tools && is_empty && may_call {
            let message = "offers nothing but the provider's own tools, and this model has none";
            return Err(Refusal::new("tools", message));
        }
        match conversation.choice {
            Some(Choice::Required) if is_empty => Err(self
                .scope
                .refusal("tool_choice", "demands a call, and no tool is offered")),
            Some(Choice::Tool { name, namespace }) => {
                match Self::find_chosen(conversation, name, namespace) {
                    Some(_) => Ok(()),
                    None => Err(self.unknown_choice(name)),
                }
            }
            _ => Ok(()),
        }
    }

    /// A refusal about the tool that `tool_choice` names.
    fn unknown_choice(&self, name: Text<'_>) -> Refusal {
        let message = format!("names {}, which is not offered", quoted(name));
        self.scope.refusal("tool_choice", message)
    }

    /// The namespace and the kind of the tool that a choice names.
    pub(crate) fn chosen<'d>(
        conversation: &Conversation<'d>,
        name: Text<'d>,
        namespace: Option<Text<'d>>,
    ) -> (Option<Text<'d>>, ToolKind) {
        match Self::find_chosen(conversation, name, namespace) {
            Some(tool) => (namespace.or(tool.namespace), Self::kind(tool)),
            None => (namespace, ToolKind::default()),
        }
    }

    /// A choice without a namespace means a tool without one, or the first of that name.
    fn find_chosen<'c, 'd>(
        conversation: &'c Conversation<'d>,
        name: Text<'d>,
        namespace: Option<Text<'d>>,
    ) -> Option<&'c Tool<'d>> {
        let named = || {
            let tools = conversation.tools.iter();
            tools.filter(|tool| tool.name.is_same(name))
        };
        let exact = named().find(|tool| match (tool.namespace, namespace) {
            (None, None) => true,
            (Some(own), Some(chosen)) => own.is_same(chosen),
            _ => false,
        });
        exact.or_else(|| named().next().filter(|_| namespace.is_none()))
    }

    pub(crate) fn kind(tool: &Tool<'_>) -> ToolKind {
        match tool.takes {
            Takes::Object { .. } => ToolKind::Function,
            Takes::Free(_) => ToolKind::Custom,
        }
    }

    /// The members that describe a function in every format. The schema can stand in an object:
    /// `inputSchema.json`.
    pub(crate) fn function(&mut self, tool: &Tool<'_>, schema_field: &str) -> Result<(), Refusal> {
        self.out.key("name");
        self.tool_name(tool.name, tool.namespace, Self::kind(tool));
        self.description(tool);
        let within = schema_field.split_once('.');
        if let Some((outer, inner)) = within {
            self.out.key(outer).begin_object();
            self.out.key(inner);
        } else {
            self.out.key(schema_field);
        }
        match tool.takes {
            Takes::Object {
                schema: Some(schema),
                ..
            } => self.object_schema(schema)?,
            Takes::Object { schema: None, .. } => self.out.raw(EMPTY_SCHEMA),
            Takes::Free(_) => self.out.raw(FREE_SCHEMA),
        }
        if within.is_some() {
            self.out.end_object();
        }
        if let Takes::Object { schema, strict } = tool.takes
            && let Some(strict) = self.strictness(strict, schema)
        {
            self.out.key("strict").bool(strict);
        }
        Ok(())
    }

    /// The schema of a tool's input, which is of type object everywhere.
    fn object_schema(&mut self, schema: Value<'_>) -> Result<(), Refusal> {
        let field = self.scope.source.paths.tool_schema;
        if self.scope.rules.merges_schemas && schema::is_several(schema) {
            let mut merged = schema::parse(schema, field)?;
            schema::merge(&mut merged).map_err(|it| it.refusal(field))?;
            self.scope.note_dropped(field);
            self.out.raw(merged.to_string().as_bytes());
            return Ok(());
        }
        match schema.get("type") {
            Some(kind) if kind.text().is_some_and(|kind| kind.is("object")) => {
                self.out.raw(schema.raw());
            }
            Some(kind) if kind.kind() == Kind::String => {
                return Err(Refusal::new(field, "must be of type object"));
            }
            // A list of types that allows objects says no more than that.
            Some(_) => self.out.raw(schema.raw()),
            None => {
                self.out.begin_object();
                self.out.key("type").string("object");
                if schema.members().next().is_none() {
                    self.out.key("properties").raw(b"{}");
                }
                for (key, value) in schema.members() {
                    self.out.escaped_key(key.json()).raw(value.raw());
                }
                self.out.end_object();
            }
        }
        Ok(())
    }

    /// Whether to ask the target to enforce a schema. Chat and responses enforce closed schemas; messages
    /// and Converse enforce schemas without bounds. They refuse other schemas.
    fn strictness(&mut self, asked: Option<bool>, schema: Option<Value<'_>>) -> Option<bool> {
        let is_asked = asked == Some(true);
        let takes_bounds = !is_asked || !self.scope.rules.merges_schemas;
        let is_taken = takes_bounds || !schema.is_some_and(schema::has_bounds);
        let is_closed = !self.scope.source.has_open_schemas || schema.is_some_and(is_closed);
        let can = is_taken && is_closed;
        if is_asked && !can {
            self.scope.note_dropped("tools[].strict");
        }
        match self.scope.rules.declares_strictness {
            true => Some(is_asked && can),
            false => (is_asked && can).then_some(true),
        }
    }
}
