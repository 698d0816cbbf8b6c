//! Writes the tools of a chat request: offered and chosen.

use crate::{
    Refusal,
    names::ToolKind,
    request::{
        conversation::{Choice, Conversation, Grammar, Takes, Tool},
        write::{Writer, shared::text},
    },
};

impl Writer<'_, '_> {
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
                let tool = Self::chosen(conversation, name, namespace);
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
}
