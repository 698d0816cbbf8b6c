//! Writes a messages request: its conversation. `options` writes its settings.

mod options;
pub(crate) mod thinking;
mod tools;

use crate::request::write::{
    Writer,
    shared::{base64, is_said, misplaced, reminder, text, words},
};
use crate::{
    Refusal,
    request::conversation::{
        Block, CacheMark, CallResult, Conversation, File, Role, Source, TextBlock, Thought, Turn,
    },
    seal::ReasoningForm,
};

impl Writer<'_, '_> {
    /// Writes the members of the body.
    pub(crate) fn messages(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let lost_thought = self.loses_thought(conversation);
        let plan = thinking::plan(conversation, lost_thought, self.scope)?;
        self.out.key("model").string(self.scope.target.model);
        self.limit("max_tokens", plan.max_tokens);
        self.automatic_caching(conversation);
        let (system, turns) = split(&conversation.turns);
        let mut said = turns.iter().filter(|turn| turn.has_content());
        let only_instructs = said.all(|turn| turn.role.instructs());
        self.system(system)?;
        self.messages_tools(conversation)?;
        self.out.key("messages").begin_array();
        let start = self.out.as_bytes().len();
        for turn in turns {
            self.messages_turn(turn, only_instructs)?;
        }
        self.end_turns(start)?;
        self.messages_sampling(conversation, &plan)?;
        self.thinking(conversation, &plan);
        self.output_config(conversation, &plan)?;
        self.messages_extras(conversation)?;
        if conversation.stream {
            self.out.key("stream").bool(true);
        }
        Ok(())
    }

    /// Whether the answer continues a loop of calls whose first reasoning is missing. Without interleaved
    /// thinking, a model thinks only before the first call.
    pub(crate) fn loses_thought(&mut self, conversation: &Conversation<'_>) -> bool {
        let is_answer = |turn: &&Turn<'_>| turn.role == Role::Assistant;
        let is_result = |block: &Block<'_>| matches!(block, Block::Result(_));
        let mut answers = conversation
            .turns
            .iter()
            .rev()
            .skip_while(|turn| !is_answer(turn))
            .take_while(|turn| is_answer(turn) || turn.blocks.iter().all(is_result))
            .filter(is_answer);
        let Some(last) = answers.next() else {
            return false;
        };
        let first = answers.last().unwrap_or(last);
        let calls = last.blocks.iter().any(|it| matches!(it, Block::Call(_)));
        let is_thinking = |form| matches!(form, ReasoningForm::Signature | ReasoningForm::Redacted);
        let is_kept = match first.blocks.first() {
            Some(Block::Thought(thought)) => thought
                .state
                .and_then(|state| crate::seal::open(self.backend(), &state.decode()))
                .is_some_and(|native| is_thinking(native.form)),
            _ => false,
        };
        calls && !is_kept
    }

    /// Chat and responses cache what requests share without marks; a caller that says so
    /// gets the same here.
    fn automatic_caching(&mut self, conversation: &Conversation<'_>) {
        let cache = &conversation.cache;
        if cache.is_automatic() && self.scope.target.cache_breakpoints {
            self.out.key("cache_control").begin_object();
            self.out.key("type").string("ephemeral");
            self.out.end_object();
            return;
        }
        if cache.key.is_some() {
            self.scope.note_dropped("prompt_cache_key");
        }
        if cache.mode.is_some_and(|mode| mode.is("implicit")) {
            self.scope.note_dropped("prompt_cache_options.mode");
        }
    }

    /// The instructions before the conversation begins, block by block.
    fn system(&mut self, turns: &[Turn<'_>]) -> Result<(), Refusal> {
        let blocks = self.instruction_texts(turns)?;
        match blocks.as_slice() {
            [] => {}
            [only] if only.cache.is_none() => {
                words(self.out.key("system"), &only.words);
            }
            blocks => {
                self.out.key("system").begin_array();
                for block in blocks {
                    self.text_block(block);
                }
                self.out.end_array();
            }
        }
        Ok(())
    }

    fn text_block(&mut self, said: &TextBlock<'_>) {
        self.out.item().begin_object();
        self.out.key("type").string("text");
        words(self.out.key("text"), &said.words);
        self.messages_citations(&said.words, said.cited);
        if self.is_marked(said.cache) {
            self.cache_control(said.cache);
        }
        self.out.end_object();
    }

    /// A mark for caching.
    pub(crate) fn cache_control(&mut self, mark: Option<CacheMark<'_>>) {
        self.out.key("cache_control").begin_object();
        self.out.key("type").string("ephemeral");
        let ttl = mark.and_then(|mark| mark.ttl);
        if let Some(ttl) = ttl.filter(|ttl| ttl.is("5m") || ttl.is("1h")) {
            text(self.out.key("ttl"), ttl);
        }
        self.out.end_object();
    }

    /// `is_only`: instructions are all that is said.
    fn messages_turn(&mut self, turn: &Turn<'_>, is_only: bool) -> Result<(), Refusal> {
        let (role, is_reminder) = match turn.role {
            Role::User => ("user", false),
            Role::Assistant => ("assistant", false),
            Role::System | Role::Developer => {
                let knows = self.scope.target.messages.system_in_the_middle && !is_only;
                (if knows { "system" } else { "user" }, !knows)
            }
        };
        if !turn.has_content() {
            self.forget_blocks(turn);
            return Ok(());
        }
        self.find_citations(&turn.blocks);
        self.out.item().begin_object();
        self.out.key("role").string(role);
        self.out.key("content");
        match turn.blocks.as_slice() {
            [Block::Text(only)] if only.is_bare() && !is_reminder => {
                words(&mut self.out, &only.words);
            }
            blocks => {
                self.out.begin_array();
                for block in blocks {
                    if let Block::Result(result) = block {
                        self.tool_result(result, turn)?;
                    }
                }
                for (at, block) in blocks.iter().enumerate() {
                    if let Block::Search(search) = block {
                        let rest = blocks.get(at.saturating_add(1)..).unwrap_or_default();
                        if !self.is_search_kept(rest) {
                            self.forget_search(search);
                        }
                        continue;
                    }
                    self.messages_block(block, turn, is_reminder)?;
                }
                self.out.end_array();
            }
        }
        self.out.end_object();
        Ok(())
    }

    fn messages_block(
        &mut self,
        block: &Block<'_>,
        turn: &Turn<'_>,
        is_reminder: bool,
    ) -> Result<(), Refusal> {
        match block {
            // Written before.
            Block::Result(_) => Ok(()),
            Block::Text(block) | Block::Refusal(block) if !is_said(&block.words) => Ok(()),
            Block::Text(block) if is_reminder => {
                self.reminder(block);
                Ok(())
            }
            Block::Text(block) => {
                self.text_block(block);
                Ok(())
            }
            Block::Refusal(refusal) => {
                self.text_block(refusal);
                Ok(())
            }
            Block::Image(_) | Block::Document(_) if turn.role == Role::User => {
                self.media(block);
                Ok(())
            }
            Block::Call(call) if turn.role == Role::Assistant => {
                self.out.item().begin_object();
                self.out.key("type").string("tool_use");
                self.out.key("id");
                self.call_id(call.id);
                self.out.key("name");
                self.called_name(call);
                self.out.key("input");
                self.input(&call.input);
                self.out.end_object();
                Ok(())
            }
            Block::Thought(thought) if turn.role == Role::Assistant => {
                self.thought(thought);
                Ok(())
            }
            other => {
                let message = format!("holds {}, which its role cannot", misplaced(other));
                Err(self.refuse_turn(turn, message))
            }
        }
    }

    /// An instruction in the middle, for models that take them from the user alone.
    fn reminder(&mut self, said: &TextBlock<'_>) {
        self.out.item().begin_object();
        self.out.key("type").string("text");
        reminder(self.out.key("text"), &said.words);
        if self.is_marked(said.cache) {
            self.cache_control(said.cache);
        }
        self.out.end_object();
    }

    fn media(&mut self, block: &Block<'_>) {
        self.out.item().begin_object();
        match block {
            Block::Image(image) => {
                self.out.key("type").string("image");
                self.source(&image.source);
            }
            Block::Document(File { source, name }) => {
                self.out.key("type").string("document");
                self.source(source);
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    text(self.out.key("title"), name);
                }
            }
            _ => {}
        }
        self.out.end_object();
    }

    fn source(&mut self, source: &Source<'_>) {
        self.out.key("source").begin_object();
        match source {
            Source::Url(url) => {
                self.out.key("type").string("url");
                text(self.out.key("url"), *url);
            }
            Source::Data { media_type, data } => {
                self.out.key("type").string("base64");
                self.out.key("media_type").string(media_type);
                self.out.key("data").begin_string();
                base64(&mut self.out, data);
                self.out.end_string();
            }
        }
        self.out.end_object();
    }

    fn tool_result(&mut self, result: &CallResult<'_>, turn: &Turn<'_>) -> Result<(), Refusal> {
        self.out.item().begin_object();
        self.out.key("type").string("tool_result");
        self.out.key("tool_use_id");
        self.result_id(result.id);
        match result.content.as_slice() {
            [] => {}
            [Block::Text(only)] if only.words.is_empty() => {}
            [Block::Text(only)] if only.cache.is_none() => {
                words(self.out.key("content"), &only.words);
            }
            blocks => {
                self.out.key("content").begin_array();
                for block in blocks {
                    match block {
                        Block::Text(block) if is_said(&block.words) => {
                            self.text_block(block);
                        }
                        Block::Text(_) => {}
                        Block::Image(_) | Block::Document(_) => self.media(block),
                        other => {
                            let message =
                                format!("holds {} in the result of a tool", misplaced(other));
                            return Err(self.refuse_turn(turn, message));
                        }
                    }
                }
                self.out.end_array();
            }
        }
        if result.is_error {
            self.out.key("is_error").bool(true);
        }
        self.out.end_object();
        Ok(())
    }

    /// Reasoning that this provider made, as the block that it was.
    fn thought(&mut self, thought: &Thought<'_>) {
        let Some(native) = self.restore(thought) else {
            self.forget_thought(thought);
            return;
        };
        match native.form {
            ReasoningForm::Signature => {
                self.out.item().begin_object();
                self.out.key("type").string("thinking");
                self.out.key("thinking").begin_string();
                for piece in &thought.text {
                    self.out.escaped(piece.json());
                }
                self.out.end_string();
                self.out.key("signature").string(&native.payload);
                self.out.end_object();
            }
            ReasoningForm::Redacted => {
                self.out.item().begin_object();
                self.out.key("type").string("redacted_thinking");
                self.out.key("data").string(&native.payload);
                self.out.end_object();
            }
            ReasoningForm::SearchBlocks => {
                self.messages_past_search(&native, thought);
            }
            // Its texts have been written with what they cite.
            ReasoningForm::Citations => {}
            ReasoningForm::Encrypted
            | ReasoningForm::Details
            | ReasoningForm::Shown
            | ReasoningForm::Hidden
            | ReasoningForm::SearchItem
            | ReasoningForm::Annotation
            | ReasoningForm::Summary
            | ReasoningForm::CallSignature => {
                self.forget_thought(thought);
            }
        }
    }
}

/// The instructions before the conversation, and the conversation. A request must have a
/// conversation: if it has instructions only, the last message with content becomes the
/// conversation, unless it was no message of the caller's list.
fn split<'c, 'd>(turns: &'c [Turn<'d>]) -> (&'c [Turn<'d>], &'c [Turn<'d>]) {
    let mut leading = turns
        .iter()
        .take_while(|turn| turn.role.instructs())
        .count();
    if leading == turns.len()
        && let Some(last) = turns.iter().rposition(Turn::has_content)
        && turns.get(last).is_some_and(|it| it.at.is_some())
    {
        leading = last;
    }
    turns.split_at_checked(leading).unwrap_or_default()
}
