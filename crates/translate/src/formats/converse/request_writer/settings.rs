//! The tools and settings of a Converse request: sampling, thinking, the form of the answer.

use super::Maker;
use crate::{
    Refusal,
    formats::messages::request_writer::thinking::MessagesPlan,
    request::{
        conversation::{AnswerFormat, Block, Call, Choice, Conversation},
        reasoning::{self, effort_field},
        write::{Writer, shared::schema_name, tools::EMPTY_SCHEMA},
    },
};
use std::collections::HashSet;
use tollgate_types::Effort;

impl Writer<'_, '_> {
    pub(super) fn converse_tools(
        &mut self,
        conversation: &Conversation<'_>,
    ) -> Result<(), Refusal> {
        self.check_choice(conversation)?;
        let calls = conversation.turns.iter().flat_map(|turn| &turn.blocks);
        let calls = calls.filter_map(|block| match block {
            Block::Call(call) => Some(call),
            _ => None,
        });
        let is_forbidden = matches!(conversation.choice, Some(Choice::None));
        let mut calls = calls.peekable();
        if conversation.tools.is_empty() || is_forbidden {
            if calls.peek().is_none() {
                return Ok(());
            }
            if is_forbidden {
                self.scope.note_dropped("tool_choice");
            }
        }
        self.out.key("toolConfig").begin_object();
        self.out.key("tools").begin_array();
        for tool in &conversation.tools {
            self.out.item().begin_object();
            self.out.key("toolSpec").begin_object();
            self.function(tool, "inputSchema.json")?;
            self.out.end_object();
            self.out.end_object();
            self.cache_point(tool.cache);
        }
        if conversation.tools.is_empty() {
            self.converse_stubs(calls);
        }
        self.out.end_array();
        self.converse_choice(conversation);
        self.out.end_object();
        Ok(())
    }

    /// The provider refuses calls in the history if no tools are offered: stand-ins are.
    fn converse_stubs<'c, 'd: 'c>(&mut self, calls: impl Iterator<Item = &'c Call<'d>>) {
        let mut names = HashSet::new();
        for call in calls.filter(|call| names.insert((call.name, call.namespace))) {
            self.out.item().begin_object();
            self.out.key("toolSpec").begin_object();
            self.out.key("name");
            self.called_name(call);
            self.out.key("inputSchema").begin_object();
            self.out.key("json").raw(EMPTY_SCHEMA);
            self.out.end_object();
            self.out.end_object();
            self.out.end_object();
        }
    }

    fn converse_choice(&mut self, conversation: &Conversation<'_>) {
        if conversation.tools.is_empty() {
            return;
        }
        if conversation.parallel == Some(false) {
            self.scope.note_dropped(self.scope.source.paths.parallel);
        }
        let name = match conversation.choice {
            None | Some(Choice::None) => return,
            Some(Choice::Auto) => "auto",
            Some(Choice::Required | Choice::Search) => "any",
            Some(Choice::Tool { .. }) => "tool",
        };
        self.out.key("toolChoice").begin_object();
        self.out.key(name).begin_object();
        if let Some(Choice::Tool { name, namespace }) = conversation.choice {
            let (namespace, kind) = Self::chosen(conversation, name, namespace);
            self.out.key("name");
            self.tool_name(name, namespace, kind);
        }
        self.out.end_object();
        self.out.end_object();
    }

    pub(super) fn converse_settings(
        &mut self,
        conversation: &Conversation<'_>,
        plan: &MessagesPlan,
        maker: Maker,
    ) -> Result<(), Refusal> {
        self.out.key("inferenceConfig").begin_object();
        let limit = match maker {
            Maker::Anthropic => Some(plan.max_tokens),
            _ => conversation.limit,
        };
        if let Some(limit) = limit {
            self.limit("maxTokens", limit);
        }
        self.bounded_sampling(conversation, plan, "topP")?;
        self.stop_sequences(&conversation.stop, "stopSequences")?;
        self.out.end_object();
        self.converse_output(conversation, plan)?;
        self.converse_more(conversation, plan, maker)
    }

    fn converse_output(
        &mut self,
        conversation: &Conversation<'_>,
        plan: &MessagesPlan,
    ) -> Result<(), Refusal> {
        let field = self.scope.source.paths.answer_format;
        let shape = match conversation.format {
            Some(AnswerFormat::Schema {
                schema: Some(schema),
                name,
                ..
            }) => Some((schema, name)),
            Some(_) => return Err(Refusal::new(field, "must have a schema for this model")),
            None => None,
        };
        if shape.is_none() && plan.effort.is_none() {
            return Ok(());
        }
        self.out.key("outputConfig").begin_object();
        if let Some((schema, name)) = shape {
            self.out.key("textFormat").begin_object();
            self.out.key("type").string("json_schema");
            self.out.key("structure").begin_object();
            self.out.key("jsonSchema").begin_object();
            self.out.key("name").string(&schema_name(name));
            let schema = self.closed_schema(schema)?;
            self.out.key("schema").string(&schema);
            self.out.end_object();
            self.out.end_object();
            self.out.end_object();
        }
        if let Some(effort) = plan.effort {
            self.out.key("effort").string(effort.as_str());
        }
        self.out.end_object();
        Ok(())
    }

    /// Writes the settings of models beyond the fields of the format.
    fn converse_more(
        &mut self,
        conversation: &Conversation<'_>,
        plan: &MessagesPlan,
        maker: Maker,
    ) -> Result<(), Refusal> {
        let effort = match maker {
            Maker::Anthropic => None,
            _ => reasoning::effort(conversation, self.scope)?.filter(|it| *it != Effort::None),
        };
        if effort.is_some() && maker == Maker::Other {
            self.scope
                .note_dropped(effort_field(&conversation.reasoning));
        }
        let top_k = conversation.sampling.top_k;
        let takes_top_k = maker == Maker::Anthropic && self.scope.target.sampling && !plan.thinks();
        if top_k.is_some() && !takes_top_k {
            self.scope.note_dropped("top_k");
        }
        let top_k = top_k.filter(|_| takes_top_k);
        let effort = effort.filter(|_| maker != Maker::Other);
        if top_k.is_none() && plan.thinking.is_none() && effort.is_none() {
            return Ok(());
        }
        self.out.key("additionalModelRequestFields").begin_object();
        if let Some(top_k) = top_k {
            self.out.key("top_k").raw(top_k.raw());
        }
        self.thinking(conversation, plan);
        match effort {
            Some(effort) if maker == Maker::Nova => {
                self.out.key("reasoningConfig").begin_object();
                self.out.key("type").string("enabled");
                let effort = effort.clamp(Effort::Low, Effort::High);
                self.out.key("maxReasoningEffort").string(effort.as_str());
                self.out.end_object();
            }
            Some(effort) => self.out.key("reasoning_effort").string(effort.as_str()),
            None => {}
        }
        self.out.end_object();
        Ok(())
    }
}
