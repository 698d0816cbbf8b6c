//! Writes a chat completions request.

mod extras;
mod tools;

use crate::request::write::{
    Writer,
    shared::{REMINDER, misplaced, pieces, text, words},
};
use crate::{
    Refusal,
    document::{Document, Text},
    names::ToolKind,
    request::{
        conversation::{
            Block, Call, CallResult, Conversation, File, Image, Input, Role, Source, TextBlock,
            Thought, Turn,
        },
        reasoning,
    },
    seal::ReasoningForm,
};

const PARAGRAPH: &str = "\n\n";

/// The texts or the refusals among blocks, each with its separator from the one before: neighbours in one
/// message of an answer are pieces of one.
fn pieces_of<'c, 'd>(
    blocks: &'c [Block<'d>],
    is_answer: bool,
    text_of: impl Fn(&'c Block<'d>) -> Option<&'c TextBlock<'d>>,
) -> impl Iterator<Item = (&'static str, &'c TextBlock<'d>)> {
    let mut follows = false;
    blocks.iter().filter_map(move |block| {
        let found = text_of(block);
        let is_neighbour = std::mem::replace(&mut follows, found.is_some());
        let found = found?;
        let goes_on = is_answer && is_neighbour && !found.begins;
        Some((if goes_on { "" } else { PARAGRAPH }, found))
    })
}

/// The earlier reasoning of a chat provider, in its own words.
#[derive(Default)]
struct Own<'c, 'd> {
    shown: Vec<Text<'d>>,
    hidden: Vec<String>,
    /// Entries of `reasoning_details`, each with the texts that its seal leaves out.
    details: Vec<(String, &'c [Text<'d>])>,
}

impl Writer<'_, '_> {
    /// Writes the members of the body.
    pub(crate) fn chat(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let effort = reasoning::effort(conversation, self.scope)?;
        self.out.key("model").string(self.scope.target.model);
        self.out.key("messages").begin_array();
        let start = self.out.as_bytes().len();
        let mut has_begun = false;
        for turn in self.chat_leading(&conversation.turns)? {
            has_begun |= !turn.role.instructs();
            self.chat_turn(turn, has_begun)?;
        }
        self.end_turns(start)?;
        self.chat_tools(conversation)?;
        if let Some(limit) = conversation.limit {
            let field = match self.scope.target.chat.max_completion_tokens {
                true => "max_completion_tokens",
                false => "max_tokens",
            };
            self.limit(field, limit);
        }
        self.openai_sampling(conversation);
        self.chat_sampling(conversation);
        if let Some(effort) = effort {
            self.out.key("reasoning_effort").string(effort.as_str());
        }
        self.chat_stop(conversation)?;
        self.chat_format(conversation);
        self.chat_extras(conversation)?;
        if conversation.stream {
            self.out.key("stream").bool(true);
            if self.scope.target.chat.stream_options {
                self.out.key("stream_options").begin_object();
                self.out.key("include_usage").bool(true);
                self.out.end_object();
            }
        }
        Ok(())
    }

    /// Joins the instructions at the beginning for providers that take one message of them; returns the turns
    /// that are still to be written.
    fn chat_leading<'c, 'd>(&mut self, turns: &'c [Turn<'d>]) -> Result<&'c [Turn<'d>], Refusal> {
        let count = turns.iter().take_while(|it| it.role.instructs()).count();
        let (leading, rest) = turns.split_at_checked(count).unwrap_or_default();
        if count < 2 || self.scope.target.chat.system_in_the_middle {
            return Ok(turns);
        }
        let texts = self.instruction_texts(leading)?;
        if texts.is_empty() {
            return Ok(rest);
        }
        let is_developer = leading.iter().all(|it| it.role == Role::Developer);
        let role = match is_developer && self.scope.target.chat.developer_role {
            true => "developer",
            false => "system",
        };
        self.out.item().begin_object();
        self.out.key("role").string(role);
        self.out.key("content");
        self.chat_joined(texts.into_iter().map(|text| (PARAGRAPH, text)));
        self.out.end_object();
        Ok(rest)
    }

    /// `has_begun`: a user or assistant turn stands before.
    fn chat_turn(&mut self, turn: &Turn<'_>, has_begun: bool) -> Result<(), Refusal> {
        if has_begun && turn.role.instructs() && !self.scope.target.chat.system_in_the_middle {
            return self.chat_reminder(turn);
        }
        match turn.role {
            Role::System => self.chat_instructions(turn, "system"),
            Role::Developer if self.scope.target.chat.developer_role => {
                self.chat_instructions(turn, "developer")
            }
            Role::Developer => self.chat_instructions(turn, "system"),
            Role::User => self.chat_user(turn),
            Role::Assistant => self.chat_assistant(turn),
        }
    }

    fn chat_instructions(&mut self, turn: &Turn<'_>, role: &str) -> Result<(), Refusal> {
        let other = turn.blocks.iter().find(|it| !matches!(it, Block::Text(_)));
        if let Some(other) = other {
            let message = format!("holds {}, which the role {role} cannot", misplaced(other));
            return Err(self.refuse_turn(turn, message));
        }
        if turn.blocks.is_empty() {
            return Ok(());
        }
        self.out.item().begin_object();
        self.out.key("role").string(role);
        self.out.key("content");
        self.chat_content(&turn.blocks, turn)?;
        self.out.end_object();
        Ok(())
    }

    /// An instruction in the middle, for providers that take them from the user alone.
    fn chat_reminder(&mut self, turn: &Turn<'_>) -> Result<(), Refusal> {
        let texts = self.instruction_texts(std::slice::from_ref(turn))?;
        if texts.is_empty() {
            return Ok(());
        }
        self.out.item().begin_object();
        self.out.key("role").string("user");
        self.out.key("content").begin_string();
        let [open, close] = REMINDER;
        self.out.text(open);
        for text in texts {
            pieces(&mut self.out, &text.words);
            self.out.text("\n");
            if let Some(mark) = text.cache {
                self.scope.note_dropped(mark.path);
            }
        }
        // Each text ends its line.
        self.out.text(close.trim_start());
        self.out.end_string();
        self.out.end_object();
        Ok(())
    }

    /// Results first, each a message of its own; then what they could not hold, and what
    /// the user says.
    fn chat_user(&mut self, turn: &Turn<'_>) -> Result<(), Refusal> {
        let mut said = 0_usize;
        for block in &turn.blocks {
            match block {
                Block::Result(result) => self.chat_result(result, turn)?,
                _ => said += 1,
            }
        }
        for block in &turn.blocks {
            if let Block::Result(result) = block {
                self.chat_result_media(result, turn)?;
            }
        }
        if said == 0 {
            return Ok(());
        }
        self.out.item().begin_object();
        self.out.key("role").string("user");
        self.out.key("content");
        self.chat_content(&turn.blocks, turn)?;
        self.out.end_object();
        Ok(())
    }

    fn chat_result(&mut self, result: &CallResult<'_>, turn: &Turn<'_>) -> Result<(), Refusal> {
        self.out.item().begin_object();
        self.out.key("role").string("tool");
        self.out.key("tool_call_id");
        self.result_id(result.id);
        self.out.key("content").begin_string();
        if result.is_error {
            self.out.text("ERROR: ");
        }
        let mut is_first = true;
        for block in &result.content {
            let between = if is_first { "" } else { "\n" };
            match block {
                Block::Text(block) => {
                    self.out.text(between);
                    pieces(&mut self.out, &block.words);
                    // A mark within a result has no place in its one string, and is not counted.
                    if let Some(mark) = block.cache {
                        self.scope.note_dropped(mark.path);
                    }
                    is_first = false;
                }
                Block::Image(_) | Block::Document(_) => {}
                other => {
                    let message = format!("holds {} in the result of a tool", misplaced(other));
                    return Err(self.refuse_turn(turn, message));
                }
            }
        }
        self.out.end_string();
        self.out.end_object();
        Ok(())
    }

    /// Images and documents of a result, in a message of the user's: the role `tool` holds
    /// text alone.
    fn chat_result_media(
        &mut self,
        result: &CallResult<'_>,
        turn: &Turn<'_>,
    ) -> Result<(), Refusal> {
        let is_media = |block: &&Block<'_>| matches!(block, Block::Image(_) | Block::Document(_));
        if !result.content.iter().any(|block| is_media(&block)) {
            return Ok(());
        }
        self.out.item().begin_object();
        self.out.key("role").string("user");
        self.out.key("content").begin_array();
        self.out.item().begin_object();
        self.out.key("type").string("text");
        self.out.key("text").begin_string();
        self.out.text("[from the result of the tool call ");
        self.result_id_piece(result.id);
        self.out.text("]");
        self.out.end_string();
        self.out.end_object();
        for block in result.content.iter().filter(is_media) {
            self.chat_part(block, turn)?;
        }
        self.out.end_array();
        self.out.end_object();
        Ok(())
    }

    /// The content of a message: a string where one says it all, else parts. Results, calls
    /// and reasoning stand elsewhere.
    fn chat_content(&mut self, blocks: &[Block<'_>], turn: &Turn<'_>) -> Result<(), Refusal> {
        let is_content = |block: &&Block<'_>| {
            !matches!(
                block,
                Block::Result(_)
                    | Block::Call(_)
                    | Block::Thought(_)
                    | Block::Refusal(_)
                    | Block::Search(_)
            )
        };
        let mut content = blocks.iter().filter(is_content);
        if let (Some(Block::Text(only)), None) = (content.next(), content.next()) {
            let is_bare = only.cache.is_none() || !self.scope.target.cache_breakpoints;
            if is_bare {
                self.is_marked(only.cache);
                words(&mut self.out, &only.words);
                return Ok(());
            }
        }
        let knows_parts = self.scope.target.chat.openai || turn.role == Role::User;
        if !knows_parts {
            let is_answer = turn.role == Role::Assistant;
            self.chat_joined(pieces_of(blocks, is_answer, |block| match block {
                Block::Text(text) => Some(text),
                _ => None,
            }));
            return Ok(());
        }
        self.out.begin_array();
        for block in blocks.iter().filter(is_content) {
            self.chat_part(block, turn)?;
        }
        self.out.end_array();
        Ok(())
    }

    /// Texts in one string, each with its separator from the one before.
    fn chat_joined<'c, 'd: 'c>(
        &mut self,
        texts: impl IntoIterator<Item = (&'static str, &'c TextBlock<'d>)>,
    ) {
        self.out.begin_string();
        let mut has_any = false;
        for (between, text) in texts {
            if has_any && !text.words.is_empty() {
                self.out.text(between);
            }
            has_any |= !text.words.is_empty();
            pieces(&mut self.out, &text.words);
            if let Some(mark) = text.cache {
                self.scope.note_dropped(mark.path);
            }
        }
        self.out.end_string();
    }

    fn chat_part(&mut self, block: &Block<'_>, turn: &Turn<'_>) -> Result<(), Refusal> {
        self.out.item().begin_object();
        match block {
            Block::Text(block) => {
                self.out.key("type").string("text");
                words(self.out.key("text"), &block.words);
                self.breakpoint(block.cache);
            }
            Block::Image(image) => self.chat_image(image),
            Block::Document(file) => self.chat_file(file, turn)?,
            other => {
                let message = format!("holds {} where it cannot stand", misplaced(other));
                return Err(self.refuse_turn(turn, message));
            }
        }
        self.out.end_object();
        Ok(())
    }

    fn chat_image(&mut self, image: &Image<'_>) {
        self.out.key("type").string("image_url");
        self.out.key("image_url").begin_object();
        self.out.key("url");
        self.link(&image.source);
        if let Some(detail) = image.detail.filter(|detail| !detail.is("auto")) {
            if detail.is("original") {
                self.out.key("detail").string("high");
            } else {
                text(self.out.key("detail"), detail);
            }
        }
        self.out.end_object();
    }

    fn chat_file(&mut self, file: &File<'_>, turn: &Turn<'_>) -> Result<(), Refusal> {
        if matches!(file.source, Source::Url(_)) {
            let message = "holds a document by its address, and this model takes data alone";
            return Err(self.refuse_turn(turn, message));
        }
        self.out.key("type").string("file");
        self.out.key("file").begin_object();
        self.file_name(file);
        self.out.key("file_data");
        self.link(&file.source);
        self.out.end_object();
        Ok(())
    }

    fn chat_assistant(&mut self, turn: &Turn<'_>) -> Result<(), Refusal> {
        let has_calls = turn.blocks.iter().any(|it| matches!(it, Block::Call(_)));
        let mut has_text = false;
        let mut has_refusal = false;
        for block in &turn.blocks {
            match block {
                Block::Text(_) => has_text = true,
                Block::Refusal(_) => has_refusal = true,
                Block::Call(_) | Block::Thought(_) => {}
                Block::Search(search) => self.forget_search(search),
                other => {
                    let message = format!("holds {}, which an answer cannot", misplaced(other));
                    return Err(self.refuse_turn(turn, message));
                }
            }
        }
        if !has_calls && !has_text && !has_refusal {
            self.forget_thoughts(turn);
            return Ok(());
        }
        self.out.item().begin_object();
        self.out.key("role").string("assistant");
        self.chat_thoughts(turn, has_calls);
        self.out.key("content");
        if has_text {
            self.chat_content(&turn.blocks, turn)?;
        } else {
            self.out.raw(b"null");
        }
        if has_refusal {
            self.out.key("refusal");
            self.chat_joined(pieces_of(&turn.blocks, true, |block| match block {
                Block::Refusal(refusal) => Some(refusal),
                _ => None,
            }));
        }
        if has_calls {
            self.chat_calls(turn);
        }
        self.out.end_object();
        Ok(())
    }

    fn chat_calls(&mut self, turn: &Turn<'_>) {
        self.out.key("tool_calls").begin_array();
        let mut signature = None;
        for block in &turn.blocks {
            match block {
                Block::Call(call) => {
                    let signature = signature.take().map(|(signature, _)| signature);
                    self.chat_call(call, signature);
                }
                Block::Thought(thought) => {
                    if let Some(next) = self.call_signature(thought)
                        && let Some((_, unused)) = signature.replace((next, thought))
                    {
                        self.forget_thought(unused);
                    }
                }
                _ => {}
            }
        }
        self.out.end_array();
        if let Some((_, unused)) = signature {
            self.forget_thought(unused);
        }
    }

    /// The signature of the call that follows a thought.
    fn call_signature(&mut self, thought: &Thought<'_>) -> Option<String> {
        let native = self.restore(thought)?;
        (native.form == ReasoningForm::CallSignature).then_some(native.payload)
    }

    fn chat_call(&mut self, call: &Call<'_>, signature: Option<String>) {
        self.out.item().begin_object();
        self.out.key("id");
        self.call_id(call.id);
        if let (Input::Free(input), true) = (&call.input, self.has_custom_tools()) {
            self.out.key("type").string("custom");
            self.out.key("custom").begin_object();
            self.out.key("name");
            self.tool_name(call.name, call.namespace, ToolKind::Custom);
            text(self.out.key("input"), *input);
        } else {
            self.out.key("type").string("function");
            self.out.key("function").begin_object();
            self.out.key("name");
            self.called_name(call);
            self.out.key("arguments");
            self.arguments(&call.input);
        }
        self.out.end_object();
        if let Some(signature) = signature {
            self.out.key("extra_content").begin_object();
            self.out.key("google").begin_object();
            self.out.key("thought_signature").string(&signature);
            self.out.end_object();
            self.out.end_object();
        }
        self.out.end_object();
    }

    /// Writes the reasoning of this provider before its answer.
    fn chat_thoughts(&mut self, turn: &Turn<'_>, has_calls: bool) {
        let own = self.own_reasoning(turn, has_calls);
        if !own.shown.is_empty() || !own.hidden.is_empty() {
            self.out.key("reasoning_content").begin_string();
            for text in own.shown {
                self.out.escaped(text.json());
            }
            for text in own.hidden {
                self.out.text(&text);
            }
            self.out.end_string();
        }
        if !own.details.is_empty() {
            self.out.key("reasoning_details").begin_array();
            for (payload, texts) in own.details {
                self.reasoning_detail(&payload, texts);
            }
            self.out.end_array();
        }
    }

    /// The parts that this provider can verify, unchanged, and the text if it requires that.
    fn own_reasoning<'c, 'd>(&mut self, turn: &'c Turn<'d>, has_calls: bool) -> Own<'c, 'd> {
        let mut own = Own::default();
        let wants_text = self.scope.target.chat.reasoning_content;
        for block in &turn.blocks {
            let Block::Thought(thought) = block else {
                continue;
            };
            let Some(native) = self.restore(thought) else {
                // Reasoning without a seal may be from any provider.
                self.forget_thought(thought);
                continue;
            };
            match native.form {
                ReasoningForm::Details => {
                    own.shown.extend(thought.text.iter().filter(|_| wants_text));
                    own.details.push((native.payload, &thought.text));
                }
                ReasoningForm::Shown if wants_text => own.shown.extend(&thought.text),
                ReasoningForm::Hidden if wants_text => own.hidden.push(native.payload),
                // It stands beside the call.
                ReasoningForm::CallSignature if has_calls => {}
                _ => self.forget_thought(thought),
            }
        }
        let is_silent = own.hidden.is_empty() && own.shown.iter().all(|text| text.is_empty());
        if wants_text && has_calls && is_silent {
            // The calls are another provider's. This one refuses them without, and with an empty text.
            own.hidden.push(" ".to_owned());
        }
        own
    }

    /// An entry of `reasoning_details`, with the text that its seal went without.
    fn reasoning_detail(&mut self, payload: &str, texts: &[Text<'_>]) {
        let Ok(entry) = Document::parse(payload.as_bytes()) else {
            return;
        };
        let entry = entry.root();
        self.out.item().begin_object();
        for (key, value) in entry.members() {
            self.out.escaped_key(key.json()).raw(value.raw());
        }
        let field = match () {
            () if entry.has("type", "reasoning.text") => "text",
            () if entry.has("type", "reasoning.summary") => "summary",
            () => "",
        };
        if !field.is_empty() {
            self.out.key(field).begin_string();
            for text in texts {
                self.out.escaped(text.json());
            }
            self.out.end_string();
        }
        self.out.end_object();
    }

    /// An answer that held reasoning alone is left out.
    fn forget_thoughts(&mut self, turn: &Turn<'_>) {
        for block in &turn.blocks {
            if let Block::Thought(thought) = block {
                self.forget_thought(thought);
            }
        }
    }
}
