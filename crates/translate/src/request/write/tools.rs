//! Writes the tools: offered and chosen, in each of the formats.

use super::{Writer, schema, shared::text};
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    names::ToolKind,
    request::{
        conversation::{Block, Call, Choice, Conversation, Grammar, Takes, Tool},
        scope::member,
    },
};
use std::{borrow::Cow, collections::HashSet};

/// A schema for a tool that takes nothing.
const EMPTY_SCHEMA: &[u8] = br#"{"type":"object","properties":{}}"#;
/// The schema of a function that stands for a custom tool.
const FREE_SCHEMA: &[u8] = br#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;

/// Whether each object of a schema allows its own members alone and needs all of them, as
/// chat and responses want it of a schema that they are to keep to.
pub(crate) fn is_closed(schema: Value<'_>) -> bool {
    /// More members than chat and responses take.
    const MANY: usize = 5000;
    if let Some(properties) = member(schema, "properties") {
        let required = member(schema, "required");
        let names = required.into_iter().flat_map(Value::elements).take(MANY);
        let needed: HashSet<Cow<'_, str>> = names.filter_map(Value::as_str).collect();
        let is_needed = |name: Text<'_>| needed.contains(&name.decode());
        let allows_others =
            member(schema, "additionalProperties").and_then(Value::as_bool) != Some(false);
        if allows_others || !properties.members().all(|(name, _)| is_needed(name)) {
            return false;
        }
    }
    schema.members().all(|(_, inner)| is_closed(inner)) && schema.elements().all(is_closed)
}

impl Writer<'_, '_> {
    /// Refuses a choice that cannot be made among the tools that are offered.
    fn check_choice(&self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let may_call = !matches!(conversation.choice, Some(Choice::None));
        let is_empty = conversation.tools.is_empty() && conversation.search.is_none();
        if conversation.lost_tools && is_empty && may_call {
            let message = "offers nothing but the provider's own tools, and this model has none";
            return Err(Refusal::new("tools", message));
        }
        match conversation.choice {
            Some(Choice::Required) if is_empty => Err(Refusal::new(
                "tool_choice",
                "demands a call, and no tool is offered",
            )),
            Some(Choice::Tool { name, namespace }) => {
                let is_chosen = |tool: &Tool<'_>| {
                    tool.name.is_same(name)
                        && namespace.is_none_or(|chosen| {
                            tool.namespace.is_some_and(|it| it.is_same(chosen))
                        })
                };
                match conversation.tools.iter().any(is_chosen) {
                    true => Ok(()),
                    false => Err(self.unknown_choice(name)),
                }
            }
            _ => Ok(()),
        }
    }

    /// The tool that a choice names, for its namespace and kind.
    fn chosen<'c, 'd>(conversation: &'c Conversation<'d>, name: Text<'d>) -> Option<&'c Tool<'d>> {
        conversation
            .tools
            .iter()
            .find(|tool| tool.name.is_same(name))
    }

    fn kind(tool: &Tool<'_>) -> ToolKind {
        match tool.takes {
            Takes::Object { .. } => ToolKind::Function,
            Takes::Free(_) => ToolKind::Custom,
        }
    }

    /// `tools`, `tool_choice` and `parallel_tool_calls` of a chat request.
    pub(crate) fn chat_tools(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        self.check_choice(conversation)?;
        if conversation.tools.is_empty() {
            return Ok(());
        }
        self.out.key("tools").begin_array();
        for tool in &conversation.tools {
            self.out.item().begin_object();
            if let (Takes::Free(grammar), true) = (&tool.takes, self.has_custom_tools()) {
                self.out.key("type").string("custom");
                self.out.key("custom").begin_object();
                self.chat_custom(tool, *grammar);
            } else {
                self.out.key("type").string("function");
                self.out.key("function").begin_object();
                self.function(tool, "parameters")?;
            }
            self.out.end_object();
            if tool.cache.is_some() {
                self.scope.note_dropped("tools[].cache_control");
            }
            self.out.end_object();
        }
        self.out.end_array();
        match conversation.choice {
            None => {}
            Some(Choice::Auto) => self.out.key("tool_choice").string("auto"),
            Some(Choice::None) => self.out.key("tool_choice").string("none"),
            Some(Choice::Required) => self.out.key("tool_choice").string("required"),
            // Chat has no search that could be chosen.
            Some(Choice::Search) => {}
            Some(Choice::Tool { name, namespace }) => {
                let tool = Self::chosen(conversation, name);
                let kind = tool.map(Self::kind).unwrap_or_default();
                let word = match kind == ToolKind::Custom && self.has_custom_tools() {
                    true => "custom",
                    false => "function",
                };
                self.out.key("tool_choice").begin_object();
                self.out.key("type").string(word);
                self.out.key(word).begin_object();
                self.out.key("name");
                let namespace = namespace.or(tool.and_then(|tool| tool.namespace));
                self.tool_name(name, namespace, kind);
                self.out.end_object();
                self.out.end_object();
            }
        }
        if let Some(parallel) = conversation.parallel {
            self.out.key("parallel_tool_calls").bool(parallel);
        }
        Ok(())
    }

    /// The members that describe a function in every format.
    fn function(&mut self, tool: &Tool<'_>, schema_field: &str) -> Result<(), Refusal> {
        self.out.key("name");
        self.tool_name(tool.name, tool.namespace, Self::kind(tool));
        self.description(tool);
        self.out.key(schema_field);
        match tool.takes {
            Takes::Object { schema, strict } => {
                match schema {
                    Some(schema) => self.object_schema(schema)?,
                    None => self.out.raw(EMPTY_SCHEMA),
                }
                if let Some(strict) = self.strictness(strict, schema) {
                    self.out.key("strict").bool(strict);
                }
            }
            Takes::Free(_) => self.out.raw(FREE_SCHEMA),
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
        match member(schema, "type") {
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

    /// What the target is told of keeping to a schema. Chat and responses keep to fewer
    /// schemas than messages, and refuse the others.
    fn strictness(&mut self, asked: Option<bool>, schema: Option<Value<'_>>) -> Option<bool> {
        let is_asked = asked == Some(true);
        let can = !self.scope.source.has_open_schemas || schema.is_some_and(is_closed);
        if is_asked && !can {
            self.scope.note_dropped("tools[].strict");
        }
        match self.scope.rules.declares_strictness {
            true => Some(is_asked && can),
            false => (is_asked && can).then_some(true),
        }
    }

    fn chat_custom(&mut self, tool: &Tool<'_>, grammar: Option<Grammar<'_>>) {
        self.out.key("name");
        self.tool_name(tool.name, tool.namespace, ToolKind::Custom);
        self.description(tool);
        if let Some(grammar) = grammar {
            self.out.key("format").begin_object();
            self.out.key("type").string("grammar");
            self.out.key("grammar").begin_object();
            text(self.out.key("definition"), grammar.definition);
            text(self.out.key("syntax"), grammar.syntax);
            self.out.end_object();
            self.out.end_object();
        }
    }

    /// `tools`, `tool_choice` and `parallel_tool_calls` of a responses request.
    pub(crate) fn responses_tools(
        &mut self,
        conversation: &Conversation<'_>,
    ) -> Result<(), Refusal> {
        self.check_choice(conversation)?;
        if conversation.tools.is_empty() && conversation.search.is_none() {
            return Ok(());
        }
        self.out.key("tools").begin_array();
        for tool in &conversation.tools {
            self.out.item().begin_object();
            match tool.takes {
                Takes::Free(grammar) => {
                    self.out.key("type").string("custom");
                    self.responses_custom(tool, grammar);
                }
                Takes::Object { .. } => {
                    self.out.key("type").string("function");
                    self.function(tool, "parameters")?;
                }
            }
            if tool.cache.is_some() {
                self.scope.note_dropped("tools[].cache_control");
            }
            self.out.end_object();
        }
        if let Some(search) = &conversation.search {
            self.responses_search(search);
        }
        self.out.end_array();
        match conversation.choice {
            None => {}
            Some(Choice::Auto) => self.out.key("tool_choice").string("auto"),
            Some(Choice::None) => self.out.key("tool_choice").string("none"),
            Some(Choice::Required) => self.out.key("tool_choice").string("required"),
            Some(Choice::Search) => {
                self.out.key("tool_choice").begin_object();
                self.out.key("type").string("web_search");
                self.out.end_object();
            }
            Some(Choice::Tool { name, namespace }) => {
                let tool = Self::chosen(conversation, name);
                let kind = tool.map(Self::kind).unwrap_or_default();
                self.out.key("tool_choice").begin_object();
                self.out.key("type").string(match kind {
                    ToolKind::Custom => "custom",
                    ToolKind::Function => "function",
                });
                self.out.key("name");
                self.tool_name(name, namespace, kind);
                self.out.end_object();
            }
        }
        if let Some(parallel) = conversation.parallel {
            self.out.key("parallel_tool_calls").bool(parallel);
        }
        Ok(())
    }

    fn responses_custom(&mut self, tool: &Tool<'_>, grammar: Option<Grammar<'_>>) {
        self.out.key("name");
        self.tool_name(tool.name, tool.namespace, ToolKind::Custom);
        self.description(tool);
        if let Some(grammar) = grammar {
            self.out.key("format").begin_object();
            self.out.key("type").string("grammar");
            text(self.out.key("definition"), grammar.definition);
            text(self.out.key("syntax"), grammar.syntax);
            self.out.end_object();
        }
    }

    /// `tools` and `tool_choice` of a messages request.
    pub(crate) fn messages_tools(
        &mut self,
        conversation: &Conversation<'_>,
    ) -> Result<(), Refusal> {
        self.check_choice(conversation)?;
        if conversation.tools.is_empty() && conversation.search.is_none() {
            self.stub_tools(conversation);
            return Ok(());
        }
        self.out.key("tools").begin_array();
        for tool in &conversation.tools {
            self.out.item().begin_object();
            self.function(tool, "input_schema")?;
            if self.is_marked(tool.cache) {
                self.cache_control(tool.cache);
            }
            self.out.end_object();
        }
        if let Some(search) = &conversation.search {
            self.messages_search(search, conversation)?;
        }
        self.out.end_array();
        let is_single = conversation.parallel == Some(false);
        let choice = match conversation.choice {
            None if is_single => Some(Choice::Auto),
            choice => choice,
        };
        let Some(choice) = choice else { return Ok(()) };
        self.out.key("tool_choice").begin_object();
        match choice {
            Choice::Auto => self.out.key("type").string("auto"),
            Choice::None => self.out.key("type").string("none"),
            Choice::Required => self.out.key("type").string("any"),
            Choice::Search => {
                self.out.key("type").string("tool");
                self.out.key("name").string("web_search");
            }
            Choice::Tool { name, namespace } => {
                let tool = Self::chosen(conversation, name);
                self.out.key("type").string("tool");
                self.out.key("name");
                let namespace = namespace.or(tool.and_then(|tool| tool.namespace));
                self.tool_name(name, namespace, tool.map(Self::kind).unwrap_or_default());
            }
        }
        if let Some(parallel) = conversation.parallel
            && !matches!(choice, Choice::None)
        {
            self.out.key("disable_parallel_tool_use").bool(!parallel);
        }
        self.out.end_object();
        Ok(())
    }

    /// Messages refuses a history with calls where no tools are offered: stand-ins are, and
    /// none of them may be called.
    fn stub_tools(&mut self, conversation: &Conversation<'_>) {
        let mut names = HashSet::new();
        let calls = conversation.turns.iter().flat_map(|turn| &turn.blocks);
        let called: Vec<&Call<'_>> = calls
            .filter_map(|block| match block {
                Block::Call(call) if names.insert((call.name, call.namespace)) => Some(call),
                _ => None,
            })
            .collect();
        if called.is_empty() {
            return;
        }
        self.out.key("tools").begin_array();
        for call in called {
            self.out.item().begin_object();
            self.out.key("name");
            self.called_name(call);
            self.out.key("input_schema").raw(EMPTY_SCHEMA);
            self.out.end_object();
        }
        self.out.end_array();
        self.out.key("tool_choice").begin_object();
        self.out.key("type").string("none");
        self.out.end_object();
    }
}
