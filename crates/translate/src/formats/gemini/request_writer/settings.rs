//! The tools and settings of a Gemini request: sampling, thinking, the form of the answer.

use crate::{
    Refusal,
    document::Value,
    formats::{ReasoningUse, gemini::level},
    request::{
        conversation::{AnswerFormat, Choice, Conversation, Reasoning, ThinkingMode},
        reasoning::{self, effort_field},
        write::{Writer, shared::text},
    },
};
use tollgate_types::{Effort, ReasoningMode};

/// Stop sequences that a provider takes.
const MOST_STOPS: usize = 5;

impl Writer<'_, '_> {
    pub(super) fn gemini_tools(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        self.check_choice(conversation)?;
        if conversation.tools.is_empty() {
            return Ok(());
        }
        self.out.key("tools").begin_array();
        self.out.item().begin_object();
        self.out.key("functionDeclarations").begin_array();
        for tool in &conversation.tools {
            self.out.item().begin_object();
            self.function(tool, "parametersJsonSchema")?;
            self.out.end_object();
        }
        self.out.end_array();
        self.out.end_object();
        self.out.end_array();
        if conversation.parallel == Some(false) {
            self.scope.note_dropped(self.scope.source.paths.parallel);
        }
        let Some(choice) = conversation.choice else {
            return Ok(());
        };
        self.out.key("toolConfig").begin_object();
        self.out.key("functionCallingConfig").begin_object();
        let mode = match choice {
            Choice::Auto => "AUTO",
            Choice::None => "NONE",
            Choice::Required | Choice::Tool { .. } | Choice::Search => "ANY",
        };
        self.out.key("mode").string(mode);
        if let Choice::Tool { name, namespace } = choice {
            let (namespace, kind) = Self::chosen(conversation, name, namespace);
            self.out.key("allowedFunctionNames").begin_array();
            self.out.item();
            self.tool_name(name, namespace, kind);
            self.out.end_array();
        }
        self.out.end_object();
        self.out.end_object();
        Ok(())
    }

    pub(super) fn gemini_settings(
        &mut self,
        conversation: &Conversation<'_>,
    ) -> Result<(), Refusal> {
        let effort = self.gemini_effort(conversation)?;
        self.out.key("generationConfig").begin_object();
        if let Some(limit) = conversation.limit {
            self.limit("maxOutputTokens", limit);
        }
        self.gemini_sampling(conversation);
        self.gemini_stop(conversation)?;
        self.gemini_format(conversation);
        self.gemini_thinking(conversation, effort);
        self.out.end_object();
        Ok(())
    }

    fn gemini_sampling(&mut self, conversation: &Conversation<'_>) {
        let sampling = &conversation.sampling;
        let is_taken = self.scope.target.sampling;
        let has_seed = |seed: Value<'_>| {
            let seed = std::str::from_utf8(seed.raw()).unwrap_or_default();
            seed.parse::<i32>().is_ok()
        };
        for (path, name, value, is_taken) in [
            ("temperature", "temperature", sampling.temperature, is_taken),
            ("top_p", "topP", sampling.top_p, is_taken),
            ("top_k", "topK", sampling.top_k, is_taken),
            (
                "seed",
                "seed",
                sampling.seed,
                sampling.seed.is_some_and(has_seed),
            ),
        ] {
            match value {
                Some(value) if is_taken => self.out.key(name).raw(value.raw()),
                Some(_) => self.scope.note_dropped(path),
                None => {}
            }
        }
    }

    fn gemini_stop(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let stop = &conversation.stop;
        self.check_stops(stop.len(), Some(MOST_STOPS))?;
        if !stop.is_empty() {
            self.out.key("stopSequences").begin_array();
            for entry in stop {
                text(self.out.item(), *entry);
            }
            self.out.end_array();
        }
        Ok(())
    }

    fn gemini_format(&mut self, conversation: &Conversation<'_>) {
        let Some(format) = conversation.format else {
            return;
        };
        self.out.key("responseMimeType").string("application/json");
        if let AnswerFormat::Schema {
            schema: Some(schema),
            ..
        } = format
        {
            self.out.key("responseJsonSchema").raw(schema.raw());
        }
    }

    fn gemini_thinking(&mut self, conversation: &Conversation<'_>, effort: Option<Effort>) {
        let asked = &conversation.reasoning;
        let thinks = effort.is_some_and(|it| it != Effort::None) && !asks_for_none(asked);
        let is_read =
            (self.scope.source.asked_reasoning)(conversation, ReasoningUse::default()).text;
        let is_shown = self.scope.target.reasoning != ReasoningMode::None
            && (thinks || asked.shown == Some(true))
            && is_read;
        if effort.is_none() && !is_shown {
            return;
        }
        self.out.key("thinkingConfig").begin_object();
        match effort {
            Some(effort) if self.scope.target.thinking_levels => {
                let level = level(effort, self.scope.target.efforts);
                self.out.key("thinkingLevel").string(level);
            }
            Some(Effort::None) => self.out.key("thinkingBudget").number(0),
            Some(effort) => {
                if let Some(budget) = asked.budget.or(effort.thinking_budget()) {
                    self.out.key("thinkingBudget").number(budget);
                }
            }
            None => {}
        }
        if is_shown {
            self.out.key("includeThoughts").bool(true);
        }
        self.out.end_object();
    }

    /// The effort that a model is asked for. One that takes levels thinks always, and its least
    /// level comes nearest to none.
    fn gemini_effort(
        &mut self,
        conversation: &Conversation<'_>,
    ) -> Result<Option<Effort>, Refusal> {
        let asked = &conversation.reasoning;
        let effort = reasoning::effort(conversation, self.scope)?;
        let target = self.scope.target;
        if !asks_for_none(asked)
            || !target.thinking_levels
            || target.reasoning == ReasoningMode::None
        {
            return Ok(effort);
        }
        self.scope.note_dropped(effort_field(asked));
        let known = target.efforts.iter().copied();
        let least = known.filter(|it| *it != Effort::None).min();
        Ok(Some(least.unwrap_or(Effort::Minimal)))
    }
}

fn asks_for_none(asked: &Reasoning) -> bool {
    asked.effort == Some(Effort::None) || asked.mode == Some(ThinkingMode::Disabled)
}
