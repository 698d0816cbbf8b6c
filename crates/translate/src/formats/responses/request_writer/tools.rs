//! Writes the tools of a responses request: offered and chosen.

use crate::{
    Refusal,
    names::ToolKind,
    request::{
        conversation::{Choice, Conversation, Grammar, Search, Takes, Tool, WebSearch},
        write::{Writer, shared::text},
    },
};

impl Writer<'_, '_> {
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
            self.responses_tool(tool)?;
        }
        if let Some(search) = &conversation.search {
            self.responses_search(search);
        }
        self.out.end_array();
        if let Some(choice) = conversation.choice {
            self.responses_choice(choice, conversation);
        }
        if let Some(parallel) = conversation.parallel {
            self.out.key("parallel_tool_calls").bool(parallel);
        }
        Ok(())
    }

    fn responses_tool(&mut self, tool: &Tool<'_>) -> Result<(), Refusal> {
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
        Ok(())
    }

    fn responses_choice(&mut self, choice: Choice<'_>, conversation: &Conversation<'_>) {
        match choice {
            Choice::Auto => self.out.key("tool_choice").string("auto"),
            Choice::None => self.out.key("tool_choice").string("none"),
            Choice::Required => self.out.key("tool_choice").string("required"),
            Choice::Search => {
                self.out.key("tool_choice").begin_object();
                self.out.key("type").string("web_search");
                self.out.end_object();
            }
            Choice::Tool { name, namespace } => {
                let (namespace, kind) = Self::chosen(conversation, name, namespace);
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

    /// The tool of a responses request, and how often it may be called.
    pub(crate) fn responses_search(&mut self, search: &WebSearch<'_>) {
        self.out.item().begin_object();
        self.out.key("type").string("web_search");
        if search.allowed.is_some() || search.blocked.is_some() {
            self.out.key("filters").begin_object();
            self.domains(search);
            self.out.end_object();
        }
        self.user_location(search.location);
        self.out.end_object();
    }

    /// Writes a search of the past as the item that it was.
    pub(crate) fn responses_past_search(&mut self, search: &Search<'_>) {
        match self.search_item(search) {
            Some(item) => self.out.item().raw(item.as_bytes()),
            None => self.forget_search(search),
        }
    }
}
