//! Writes a Gemini request: its conversation. `settings` writes its tools and its settings.

mod settings;

use crate::{
    Refusal,
    document::Text,
    request::{
        conversation::{Block, Call, CallResult, Conversation, Role, Source, TextBlock, Turn},
        write::{
            Writer,
            shared::{WriteWords, base64, is_said, misplaced, pieces, reminder, text, words},
        },
    },
    seal::ReasoningForm,
};
use std::{borrow::Cow, collections::HashMap};

/// Stands on a call that the model did not make itself. From Google's documentation on thought
/// signatures (<https://ai.google.dev/gemini-api/docs/thought-signatures>): Gemini 3 refuses calls
/// without a signature, and does not check this one.
pub(crate) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The types of what an address does not name the type of.
const IMAGE: &str = "image/jpeg";
const DOCUMENT: &str = "application/pdf";

/// The calls of the conversation by their ids: a result names the function that was called.
type Calls<'c, 'd> = HashMap<Cow<'d, str>, &'c Call<'d>>;

/// The state of a turn that its next parts depend on.
#[derive(Default)]
struct Signatures {
    /// Of the thought before the call that comes next.
    next: Option<String>,
    has_call: bool,
}

impl Writer<'_, '_> {
    /// Writes the members of the body. The model and the choice of a stream stand in the address.
    pub(crate) fn gemini(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let turns = &conversation.turns;
        let mut leading = turns.iter().take_while(|it| it.role.instructs()).count();
        if leading == turns.len() {
            // A request must have a conversation: the last instruction becomes it.
            leading = leading.saturating_sub(1);
        }
        let (system, turns) = turns.split_at_checked(leading).unwrap_or_default();
        self.gemini_instructions(system)?;
        let mut calls = Calls::new();
        self.out.key("contents").begin_array();
        let start = self.out.as_bytes().len();
        // Results must stand in one content, and providers refuse contents without parts.
        let is_model = |turn: &&Turn<'_>| turn.role == Role::Assistant;
        for turns in self
            .with_content(turns)
            .chunk_by(|one, next| is_model(one) == is_model(next))
        {
            self.gemini_content(turns, &calls)?;
            // A call can have the id of an earlier one, whose results stand before it.
            calls.extend(calls_of(turns));
        }
        self.end_turns(start)?;
        self.gemini_tools(conversation)?;
        self.gemini_settings(conversation)
    }

    fn gemini_instructions(&mut self, turns: &[Turn<'_>]) -> Result<(), Refusal> {
        let texts = self.instruction_texts(turns)?;
        if texts.is_empty() {
            return Ok(());
        }
        self.out.key("systemInstruction").begin_object();
        self.out.key("parts").begin_array();
        for text in texts {
            self.gemini_text(text, words);
        }
        self.out.end_array();
        self.out.end_object();
        Ok(())
    }

    /// Turns of one side, as one content.
    fn gemini_content(
        &mut self,
        turns: &[&Turn<'_>],
        calls: &Calls<'_, '_>,
    ) -> Result<(), Refusal> {
        let is_model = turns.iter().any(|turn| turn.role == Role::Assistant);
        self.out.item().begin_object();
        let role = if is_model { "model" } else { "user" };
        self.out.key("role").string(role);
        self.out.key("parts").begin_array();
        // Results first: the provider refuses other parts between them and the calls.
        for turn in turns {
            for block in &turn.blocks {
                if let Block::Result(result) = block {
                    self.gemini_result(result, turn, calls)?;
                }
            }
        }
        for turn in turns {
            let mut signatures = Signatures::default();
            for block in &turn.blocks {
                self.gemini_block(block, turn, &mut signatures)?;
            }
        }
        self.out.end_array();
        self.out.end_object();
        Ok(())
    }

    fn gemini_block(
        &mut self,
        block: &Block<'_>,
        turn: &Turn<'_>,
        signatures: &mut Signatures,
    ) -> Result<(), Refusal> {
        let is_model = turn.role == Role::Assistant;
        match block {
            Block::Text(block) | Block::Refusal(block) if !is_said(&block.words) => {}
            Block::Text(block) if turn.role.instructs() => self.gemini_text(block, reminder),
            Block::Text(block) | Block::Refusal(block) => self.gemini_text(block, words),
            Block::Image(image) if !is_model => self.gemini_media(&image.source, IMAGE),
            Block::Document(file) if !is_model => self.gemini_media(&file.source, DOCUMENT),
            Block::Call(call) if is_model => self.gemini_call(call, signatures),
            Block::Thought(thought) if is_model => match self.restore(thought) {
                Some(native) if native.form == ReasoningForm::CallSignature => {
                    signatures.next = Some(native.payload);
                }
                _ => self.forget_thought(thought),
            },
            Block::Search(search) => self.forget_search(search),
            // What they hold besides text; the rest is written before.
            Block::Result(result) => self.gemini_result_media(result),
            other => {
                let message = format!("holds {}, which its role cannot", misplaced(other));
                return Err(self.refuse_turn(turn, message));
            }
        }
        Ok(())
    }

    fn gemini_text(&mut self, said: &TextBlock<'_>, write: WriteWords) {
        self.out.item().begin_object();
        write(self.out.key("text"), &said.words);
        self.out.end_object();
    }

    /// An address has the usual type unless its end names another one. What was reserved as an image is sent as one.
    fn gemini_media(&mut self, source: &Source<'_>, usual: &str) {
        self.out.item().begin_object();
        match source {
            Source::Url(url) => {
                self.out.key("fileData").begin_object();
                let fits = |it: &&str| usual != IMAGE || it.starts_with("image/");
                let media_type = guessed_type(*url).filter(fits).unwrap_or(usual);
                self.out.key("mimeType").string(media_type);
                text(self.out.key("fileUri"), *url);
            }
            Source::Data { media_type, data } => {
                self.out.key("inlineData").begin_object();
                self.out.key("mimeType").string(media_type);
                self.out.key("data").begin_string();
                base64(&mut self.out, data);
                self.out.end_string();
            }
        }
        self.out.end_object();
        self.out.end_object();
    }

    /// Of parallel calls the first alone has a signature.
    fn gemini_call(&mut self, call: &Call<'_>, signatures: &mut Signatures) {
        let is_first = !std::mem::replace(&mut signatures.has_call, true);
        self.out.item().begin_object();
        self.out.key("functionCall").begin_object();
        self.out.key("id");
        self.call_id(call.id);
        self.out.key("name");
        self.called_name(call);
        self.out.key("args");
        self.input(&call.input);
        self.out.end_object();
        match signatures.next.take() {
            Some(signature) => self.out.key("thoughtSignature").string(&signature),
            None if is_first && self.scope.target.thinking_levels => {
                self.out.key("thoughtSignature").string(NO_SIGNATURE);
            }
            None => {}
        }
        self.out.end_object();
    }

    fn gemini_result(
        &mut self,
        result: &CallResult<'_>,
        turn: &Turn<'_>,
        calls: &Calls<'_, '_>,
    ) -> Result<(), Refusal> {
        self.out.item().begin_object();
        self.out.key("functionResponse").begin_object();
        self.out.key("id");
        self.result_id(result.id);
        if let Some(call) = calls.get(&result.id.decode()) {
            self.out.key("name");
            self.called_name(call);
        }
        self.out.key("response").begin_object();
        let key = if result.is_error { "error" } else { "output" };
        self.out.key(key).begin_string();
        let mut is_first = true;
        for block in &result.content {
            match block {
                Block::Text(block) => {
                    self.out.text(if is_first { "" } else { "\n" });
                    is_first = false;
                    pieces(&mut self.out, &block.words);
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
        self.out.end_object();
        self.out.end_object();
        Ok(())
    }

    /// Images and documents of a result, which only newer models take within it.
    fn gemini_result_media(&mut self, result: &CallResult<'_>) {
        for block in &result.content {
            match block {
                Block::Image(image) => self.gemini_media(&image.source, IMAGE),
                Block::Document(file) => self.gemini_media(&file.source, DOCUMENT),
                _ => {}
            }
        }
    }
}

fn calls_of<'c, 'd>(turns: &[&'c Turn<'d>]) -> impl Iterator<Item = (Cow<'d, str>, &'c Call<'d>)> {
    let blocks = turns.iter().flat_map(|turn| &turn.blocks);
    blocks.filter_map(|block| match block {
        Block::Call(call) => Some((call.id.decode(), call)),
        _ => None,
    })
}

/// The type that the end of an address names, for providers that ask for one.
fn guessed_type(url: Text<'_>) -> Option<&'static str> {
    const TYPES: [(&str, &str); 8] = [
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("webp", "image/webp"),
        ("heic", "image/heic"),
        ("heif", "image/heif"),
        ("pdf", "application/pdf"),
        ("txt", "text/plain"),
    ];
    let url = url.decode();
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, ending) = path.rsplit_once('.')?;
    let mut types = TYPES.iter();
    types
        .find(|(name, _)| ending.eq_ignore_ascii_case(name))
        .map(|(_, media_type)| *media_type)
}
