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
            self.chat_tool(tool)?;
        }
        self.out.end_array();
        if let Some(choice) = conversation.choice {
            self.chat_choice(choice, conversation);
        }
        if let Some(parallel) = conversation.parallel {
            self.out.key("parallel_tool_calls").bool(parallel);
        }
        Ok(())
    }

    fn chat_tool(&mut self, tool: &Tool<'_>) -> Result<(), Refusal> {
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
        Ok(())
    }

    fn chat_choice(&mut self, choice: Choice<'_>, conversation: &Conversation<'_>) {
        match choice {
            Choice::Auto => self.out.key("tool_choice").string("auto"),
            Choice::None => self.out.key("tool_choice").string("none"),
            Choice::Required => self.out.key("tool_choice").string("required"),
            // Chat has no search that could be chosen.
            Choice::Search => {}
            Choice::Tool { name, namespace } => {
                let (namespace, kind) = Self::chosen(conversation, name, namespace);
                let word = match kind == ToolKind::Custom && self.has_custom_tools() {
                    true => "custom",
                    false => "function",
                };
                self.out.key("tool_choice").begin_object();
                self.out.key("type").string(word);
                self.out.key(word).begin_object();
                self.out.key("name");
                self.tool_name(name, namespace, kind);
                self.out.end_object();
                self.out.end_object();
            }
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
}
