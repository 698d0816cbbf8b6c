//! Writes a responses request.

mod tools;

use crate::request::write::{
    Writer,
    shared::{misplaced, text, words},
};
use crate::{
    Refusal,
    names::ToolKind,
    request::{
        conversation::{
            AnswerFormat, Block, Call, CallResult, Conversation, Image, Input, Role, Source,
            TextBlock, Thought, Turn, Words,
        },
        reasoning,
    },
    seal::ReasoningForm,
};
use std::{borrow::Cow, collections::HashSet};
use tollgate_types::{Effort, LEAST_RESPONSES_OUTPUT};

/// The least output limit of the format, in tokens.
const MIN_LIMIT: u64 = LEAST_RESPONSES_OUTPUT;

impl Writer<'_, '_> {
    /// Writes the members of the body.
    pub(crate) fn responses(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let effort = reasoning::effort(conversation, self.scope)?;
        self.out.key("model").string(self.scope.target.model);
        let turns = self.instructions(&conversation.turns);
        self.out.key("input").begin_array();
        let start = self.out.as_bytes().len();
        let custom = custom_calls(conversation);
        for turn in turns {
            self.responses_turn(turn, &custom)?;
        }
        self.end_turns(start)?;
        self.responses_tools(conversation)?;
        if let Some(limit) = conversation.limit {
            let held = self.scope.target.reserved_output;
            if held.is_some_and(|held| held < MIN_LIMIT) {
                let message = format!("must be at least {MIN_LIMIT} for this model");
                return Err(Refusal::new(conversation.limit_field, message));
            }
            self.limit("max_output_tokens", limit.max(MIN_LIMIT));
        }
        self.enforce_stop(conversation)?;
        self.openai_sampling(conversation);
        self.responses_reasoning(conversation, effort);
        self.responses_text(conversation);
        if let Some(top) = conversation.top_logprobs {
            self.out.key("top_logprobs").raw(top.raw());
        }
        self.responses_include(conversation, effort);
        let most = conversation.search.and_then(|search| search.max_uses);
        if let Some(most) = most {
            self.out.key("max_tool_calls").number(most);
        }
        self.openai_extras(conversation);
        // No client could ask for what the provider keeps.
        self.out.key("store").bool(false);
        if conversation.stream {
            self.out.key("stream").bool(true);
        }
        Ok(())
    }

    /// The format has no stop sequences: the gateway ends the answer at them, and notes the field
    /// for the caller.
    fn enforce_stop(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        const MOST: usize = 16;
        /// Bytes of one sequence: as much of an answer may be held.
        const LONGEST: usize = 1024;
        let stop = &conversation.stop;
        if stop.is_empty() {
            return Ok(());
        }
        let field = self.scope.source.paths.stop;
        let lengths: Vec<_> = stop.iter().map(|stop| stop.decode().len()).collect();
        if lengths.contains(&0) {
            return Err(Refusal::new(field, "must not hold an empty string"));
        }
        if lengths.len() > MOST || lengths.iter().any(|length| *length > LONGEST) {
            let message = format!(
                "must hold at most {MOST} sequences of at most {LONGEST} bytes for this model"
            );
            return Err(Refusal::new(field, message));
        }
        self.scope.note_dropped(field);
        Ok(())
    }

    /// Writes `instructions` where one text at the start says them; returns the other turns.
    fn instructions<'c, 'd>(&mut self, turns: &'c [Turn<'d>]) -> &'c [Turn<'d>] {
        let Some((first, rest)) = turns.split_first() else {
            return turns;
        };
        let is_field = first.role == Role::System && first.at.is_none();
        let [Block::Text(only)] = first.blocks.as_slice() else {
            return turns;
        };
        let is_bare = only.cache.is_none() || !self.scope.target.cache_breakpoints;
        if !is_field || !is_bare {
            return turns;
        }
        self.is_marked(only.cache);
        words(self.out.key("instructions"), &only.words);
        rest
    }

    fn responses_turn(
        &mut self,
        turn: &Turn<'_>,
        custom: &HashSet<Cow<'_, str>>,
    ) -> Result<(), Refusal> {
        match turn.role {
            Role::Assistant => return self.responses_assistant(turn),
            Role::User => {
                for block in &turn.blocks {
                    if let Block::Result(result) = block {
                        self.call_output(result, turn, custom)?;
                    }
                }
            }
            Role::System | Role::Developer => {}
        }
        let is_said = |block: &&Block<'_>| !matches!(block, Block::Result(_));
        if !turn.blocks.iter().any(|block| is_said(&block)) {
            return Ok(());
        }
        self.out.item().begin_object();
        self.out.key("type").string("message");
        self.out.key("role").string(match turn.role {
            Role::System => "system",
            Role::Developer => "developer",
            _ => "user",
        });
        self.out.key("content");
        let said: Vec<&Block<'_>> = turn.blocks.iter().filter(is_said).collect();
        self.responses_content(&said, turn)?;
        self.out.end_object();
        Ok(())
    }

    /// A string where one says it all, else parts.
    fn responses_content(&mut self, blocks: &[&Block<'_>], turn: &Turn<'_>) -> Result<(), Refusal> {
        if let [Block::Text(only)] = blocks
            && (only.cache.is_none() || !self.scope.target.cache_breakpoints)
            && only.cited.is_none()
        {
            self.is_marked(only.cache);
            words(&mut self.out, &only.words);
            return Ok(());
        }
        self.out.begin_array();
        for block in blocks {
            self.responses_part(block, turn, false)?;
        }
        self.out.end_array();
        Ok(())
    }

    fn responses_part(
        &mut self,
        block: &Block<'_>,
        turn: &Turn<'_>,
        is_error: bool,
    ) -> Result<(), Refusal> {
        self.out.item().begin_object();
        match block {
            Block::Text(TextBlock {
                words,
                cache,
                cited,
                begins: _,
            }) => {
                self.out.key("type").string("input_text");
                self.out.key("text");
                self.result_words(words, is_error);
                self.breakpoint(*cache);
                if cited.is_some() {
                    self.scope.note_dropped("messages[].content[].citations");
                }
            }
            Block::Image(image) => self.responses_image(image),
            Block::Document(file) => {
                self.out.key("type").string("input_file");
                match &file.source {
                    Source::Url(url) => text(self.out.key("file_url"), *url),
                    Source::Data { .. } => {
                        self.file_name(file);
                        self.out.key("file_data");
                        self.link(&file.source);
                    }
                }
            }
            other => {
                let message = format!("holds {} where it cannot stand", misplaced(other));
                return Err(self.refuse_turn(turn, message));
            }
        }
        self.out.end_object();
        Ok(())
    }

    fn responses_image(&mut self, image: &Image<'_>) {
        self.out.key("type").string("input_image");
        match image.detail {
            Some(detail) => text(self.out.key("detail"), detail),
            None => self.out.key("detail").string("auto"),
        }
        self.out.key("image_url");
        self.link(&image.source);
    }

    fn call_output(
        &mut self,
        result: &CallResult<'_>,
        turn: &Turn<'_>,
        custom: &HashSet<Cow<'_, str>>,
    ) -> Result<(), Refusal> {
        let kind = match custom.contains(&result.id.decode()) {
            true => "custom_tool_call_output",
            false => "function_call_output",
        };
        self.out.item().begin_object();
        self.out.key("type").string(kind);
        self.out.key("call_id");
        self.result_id(result.id);
        self.out.key("output");
        let content: Vec<&Block<'_>> = result.content.iter().collect();
        match content.as_slice() {
            [] => {
                let nothing = Words::Made(String::new());
                self.result_words(&nothing, result.is_error);
            }
            [Block::Text(only)] if only.cache.is_none() || !self.scope.target.cache_breakpoints => {
                self.is_marked(only.cache);
                self.result_words(&only.words, result.is_error);
            }
            blocks => {
                let first_text = blocks.iter().position(|it| matches!(it, Block::Text(_)));
                self.out.begin_array();
                if result.is_error && first_text.is_none() {
                    let nothing = Block::Text(TextBlock::of(Words::Made(String::new())));
                    self.responses_part(&nothing, turn, true)?;
                }
                for (at, block) in blocks.iter().enumerate() {
                    let says_error = result.is_error && first_text == Some(at);
                    self.responses_part(block, turn, says_error)?;
                }
                self.out.end_array();
            }
        }
        self.out.end_object();
        Ok(())
    }

    fn responses_assistant(&mut self, turn: &Turn<'_>) -> Result<(), Refusal> {
        let mut leads_on = self.leads_on(&turn.blocks);
        // Reasoning is not there any more that led to what follows.
        let mut is_lost = false;
        for block in &turn.blocks {
            match block {
                // An answer that says nothing has no item.
                Block::Text(said) | Block::Refusal(said) if said.words.is_empty() => {}
                Block::Text(said) | Block::Refusal(said) => self.said(said),
                Block::Call(call) => self.responses_call(call),
                // A search without the reasoning that led to it is refused.
                Block::Search(search) if is_lost => self.forget_search(search),
                Block::Search(search) => self.responses_past_search(search),
                Block::Thought(thought) => {
                    let leads_on = leads_on.pop().unwrap_or_default();
                    is_lost = !self.reasoning_item(thought, leads_on);
                }
                other => {
                    let message = format!("holds {}, which an answer cannot", misplaced(other));
                    return Err(self.refuse_turn(turn, message));
                }
            }
        }
        Ok(())
    }

    /// For each thought of an answer, from the last to the first: whether an item follows it. The provider refuses a
    /// reasoning item without the item that it led to.
    fn leads_on(&mut self, blocks: &[Block<'_>]) -> Vec<bool> {
        let mut is_item = false;
        let mut leads_on = Vec::new();
        for block in blocks.iter().rev() {
            match block {
                Block::Thought(_) => leads_on.push(is_item),
                // An answer that says nothing has no item.
                Block::Text(said) | Block::Refusal(said) if said.words.is_empty() => {}
                Block::Search(search) => is_item = self.search_item(search).is_some(),
                _ => is_item = true,
            }
        }
        leads_on
    }

    fn said(&mut self, said: &TextBlock<'_>) {
        self.out.item().begin_object();
        self.out.key("type").string("message");
        self.out.key("role").string("assistant");
        match self.annotations(said.cited) {
            None => words(self.out.key("content"), &said.words),
            Some(annotations) => {
                self.out.key("content").begin_array();
                self.out.item().begin_object();
                self.out.key("type").string("output_text");
                words(self.out.key("text"), &said.words);
                self.out.key("annotations").begin_array();
                self.out.raw(annotations.as_bytes());
                self.out.end_array();
                self.out.end_object();
                self.out.end_array();
            }
        }
        self.out.end_object();
    }

    fn responses_call(&mut self, call: &Call<'_>) {
        self.out.item().begin_object();
        let is_custom = matches!(call.input, Input::Free(_));
        self.out.key("type").string(match is_custom {
            true => "custom_tool_call",
            false => "function_call",
        });
        self.out.key("call_id");
        self.call_id(call.id);
        self.out.key("name");
        if let Input::Free(input) = call.input {
            self.tool_name(call.name, call.namespace, ToolKind::Custom);
            text(self.out.key("input"), input);
        } else {
            self.called_name(call);
            self.out.key("arguments");
            self.arguments(&call.input);
        }
        self.out.end_object();
    }

    /// Reasoning that this provider made, as the item that it was; `false`: it is left out.
    fn reasoning_item(&mut self, thought: &Thought<'_>, leads_on: bool) -> bool {
        let native = self.restore(thought);
        let native = native.filter(|it| leads_on && it.form == ReasoningForm::Encrypted);
        let Some(native) = native else {
            self.forget_thought(thought);
            return false;
        };
        self.out.item().begin_object();
        self.out.key("type").string("reasoning");
        if !native.item_id.is_empty() {
            self.out.key("id").string(&native.item_id);
        }
        self.out.key("summary").begin_array();
        for piece in &thought.text {
            self.out.item().begin_object();
            self.out.key("type").string("summary_text");
            text(self.out.key("text"), *piece);
            self.out.end_object();
        }
        self.out.end_array();
        self.out.key("encrypted_content").string(&native.payload);
        self.out.end_object();
        true
    }

    fn responses_reasoning(&mut self, conversation: &Conversation<'_>, effort: Option<Effort>) {
        let reasons = self.scope.target.reasoning != tollgate_types::ReasoningMode::None;
        let is_shown = reasons && conversation.reasoning.shown == Some(true);
        if effort.is_none() && !is_shown {
            return;
        }
        self.out.key("reasoning").begin_object();
        if let Some(effort) = effort {
            self.out.key("effort").string(effort.as_str());
        }
        if is_shown {
            self.out.key("summary").string("auto");
        }
        self.out.end_object();
    }

    fn responses_text(&mut self, conversation: &Conversation<'_>) {
        if conversation.format.is_none() && conversation.verbosity.is_none() {
            return;
        }
        self.out.key("text").begin_object();
        if let Some(format) = &conversation.format {
            self.out.key("format").begin_object();
            match format {
                AnswerFormat::JsonObject => self.out.key("type").string("json_object"),
                AnswerFormat::Schema { .. } => {
                    self.out.key("type").string("json_schema");
                    self.schema(format);
                }
            }
            self.out.end_object();
        }
        if let Some(verbosity) = conversation.verbosity {
            text(self.out.key("verbosity"), verbosity);
        }
        self.out.end_object();
    }

    fn responses_include(&mut self, conversation: &Conversation<'_>, effort: Option<Effort>) {
        let wants_state = self.scope.target.responses.encrypted_reasoning
            && conversation.encrypted_reasoning
            && reasoning::is_expected(conversation, effort, self.scope.target);
        let wants_sources = conversation.search.is_some() && conversation.search_sources;
        if !wants_state && !conversation.logprobs && !wants_sources {
            return;
        }
        self.out.key("include").begin_array();
        if wants_sources {
            self.out.item().string("web_search_call.action.sources");
        }
        if wants_state {
            self.out.item().string("reasoning.encrypted_content");
        }
        if conversation.logprobs {
            self.out.item().string("message.output_text.logprobs");
        }
        self.out.end_array();
    }
}

/// The ids of the calls of custom tools.
fn custom_calls<'d>(conversation: &Conversation<'d>) -> HashSet<Cow<'d, str>> {
    let blocks = conversation.turns.iter().flat_map(|turn| &turn.blocks);
    let ids = blocks.filter_map(|block| match block {
        Block::Call(call) if matches!(call.input, Input::Free(_)) => Some(call.id.decode()),
        _ => None,
    });
    ids.collect()
}
