//! Writes the tools of a messages request: offered and chosen.

use crate::{
    Refusal,
    document::Document,
    request::{
        conversation::{Block, Call, Choice, Conversation, Thought, WebSearch},
        write::{Writer, search::is_search, tools::EMPTY_SCHEMA},
    },
    seal::NativeReasoning,
};
use std::collections::HashSet;

impl Writer<'_, '_> {
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
        let choice = conversation.choice;
        if let Some(choice) = choice.or(is_single.then_some(Choice::Auto)) {
            self.messages_choice(choice, conversation);
        }
        Ok(())
    }

    fn messages_choice(&mut self, choice: Choice<'_>, conversation: &Conversation<'_>) {
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
                let (namespace, kind) = Self::chosen(conversation, name, namespace);
                self.out.key("type").string("tool");
                self.out.key("name");
                self.tool_name(name, namespace, kind);
            }
        }
        if let Some(parallel) = conversation.parallel
            && !matches!(choice, Choice::None)
        {
            self.out.key("disable_parallel_tool_use").bool(!parallel);
        }
        self.out.end_object();
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

    /// The tool of a messages request, in the version that every model takes which searches.
    pub(crate) fn messages_search(
        &mut self,
        search: &WebSearch<'_>,
        conversation: &Conversation<'_>,
    ) -> Result<(), Refusal> {
        const NAME: &str = "web_search";
        let mut tools = conversation.tools.iter();
        if tools.any(|tool| tool.namespace.is_none() && tool.name.is(NAME)) {
            let message = "offers a tool of the name 'web_search' beside the provider's own, which this model knows by that name";
            return Err(Refusal::new("tools", message));
        }
        self.out.item().begin_object();
        self.out.key("type").string("web_search_20250305");
        self.out.key("name").string(NAME);
        if let Some(most) = search.max_uses {
            self.out.key("max_uses").number(most);
        }
        self.domains(search);
        self.user_location(search.location);
        self.out.end_object();
        Ok(())
    }

    /// Writes a search of the past as the blocks that it was.
    pub(crate) fn messages_past_search(&mut self, native: &NativeReasoning, thought: &Thought<'_>) {
        let blocks = Document::parse(native.payload.as_bytes());
        let blocks = blocks.as_ref().ok().map(Document::root);
        match blocks.filter(|blocks| self.offers_search && is_search(*blocks)) {
            Some(blocks) => {
                for block in blocks.elements() {
                    self.out.item().raw(block.raw());
                }
            }
            None => self.forget_thought(thought),
        }
    }
}
