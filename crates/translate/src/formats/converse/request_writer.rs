//! Writes a Converse request: its conversation. `settings` writes its tools and its settings.

mod settings;

use crate::{
    Refusal,
    formats::messages::request_writer::thinking::{self, MessagesPlan},
    request::{
        conversation::{
            Block, CacheMark, Call, CallResult, Conversation, File, Image, Role, Source, TextBlock,
            Thought, Turn,
        },
        write::{
            Writer,
            shared::{
                WriteWords, base64, document_format, is_said, misplaced, reminder, text, words,
            },
        },
    },
    seal::ReasoningForm,
};

/// Whose model it is, as far as requests differ. Inference profiles have the name of the model in theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Anthropic,
    /// Amazon's Nova from its second generation on, which reasons.
    Nova,
    /// Of several makers: their models take `reasoning_effort`.
    ByEffort,
    Other,
}

impl Maker {
    fn of(model: &str) -> Self {
        match () {
            () if model.contains("claude") => Self::Anthropic,
            () if model.contains("nova-2") => Self::Nova,
            () if takes_effort(model) => Self::ByEffort,
            () => Self::Other,
        }
    }
}

fn takes_effort(model: &str) -> bool {
    ["gpt-oss", "kimi-k3", "glm-5"]
        .iter()
        .any(|it| model.contains(it))
}

/// The documents of the request so far: their names must differ.
#[derive(Default)]
struct Documents(usize);

impl Writer<'_, '_> {
    /// Writes the members of the body. The model and the choice of a stream stand in the address.
    pub(crate) fn converse(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        let mut documents = Documents::default();
        let maker = Maker::of(self.scope.target.model);
        let plan = match maker {
            Maker::Anthropic => {
                let lost_thought = self.loses_thought(conversation);
                thinking::plan(conversation, lost_thought, self.scope)?
            }
            _ => MessagesPlan::default(),
        };
        let turns = &conversation.turns;
        let mut leading = turns.iter().take_while(|it| it.role.instructs()).count();
        if leading == turns.len() {
            // A request must have a conversation: the last instruction becomes it.
            leading = leading.saturating_sub(1);
        }
        let (system, turns) = turns.split_at_checked(leading).unwrap_or_default();
        self.converse_system(system)?;
        self.converse_tools(conversation)?;
        self.out.key("messages").begin_array();
        let start = self.out.as_bytes().len();
        // The two sides must take turns.
        let is_model = |turn: &&Turn<'_>| turn.role == Role::Assistant;
        let turns = self.with_content(turns);
        if let Some(first) = turns.first().filter(|turn| is_model(turn)) {
            let message =
                "begins the conversation, which the user must begin for this model's provider";
            return Err(self.refuse_turn(first, message));
        }
        for turns in turns.chunk_by(|one, next| is_model(one) == is_model(next)) {
            self.converse_message(turns, &mut documents)?;
        }
        self.end_turns(start)?;
        self.converse_settings(conversation, &plan, maker)
    }

    fn converse_system(&mut self, turns: &[Turn<'_>]) -> Result<(), Refusal> {
        let texts = self.instruction_texts(turns)?;
        if texts.is_empty() {
            return Ok(());
        }
        self.out.key("system").begin_array();
        for text in texts {
            self.converse_text(text, words);
        }
        self.out.end_array();
        Ok(())
    }

    /// Turns of one side, as one message.
    fn converse_message(
        &mut self,
        turns: &[&Turn<'_>],
        documents: &mut Documents,
    ) -> Result<(), Refusal> {
        let is_model = turns.iter().any(|turn| turn.role == Role::Assistant);
        self.out.item().begin_object();
        let role = if is_model { "assistant" } else { "user" };
        self.out.key("role").string(role);
        self.out.key("content").begin_array();
        // Results first: the provider refuses a message after calls that does not begin with them.
        for turn in turns {
            for block in &turn.blocks {
                if let Block::Result(result) = block {
                    self.converse_result(result, turn, documents)?;
                }
            }
        }
        for turn in turns {
            for block in &turn.blocks {
                self.converse_block(block, turn, documents)?;
            }
        }
        self.document_text(turns);
        self.out.end_array();
        self.out.end_object();
        Ok(())
    }

    /// Writes the name of the first document as the text of a message that has none: the provider requires a text.
    fn document_text(&mut self, turns: &[&Turn<'_>]) {
        let blocks = || turns.iter().flat_map(|turn| &turn.blocks);
        let mut documents = blocks().filter_map(|block| match block {
            Block::Document(file) => Some(file),
            _ => None,
        });
        let is_text = |block: &Block<'_>| match block {
            Block::Text(text) => is_said(&text.words),
            _ => false,
        };
        let Some(file) = documents.next().filter(|_| !blocks().any(is_text)) else {
            return;
        };
        self.out.item().begin_object();
        match file.name.filter(|name| !name.is_blank()) {
            Some(name) => text(self.out.key("text"), name),
            None => self.out.key("text").string("document"),
        }
        self.out.end_object();
    }

    fn converse_block(
        &mut self,
        block: &Block<'_>,
        turn: &Turn<'_>,
        documents: &mut Documents,
    ) -> Result<(), Refusal> {
        let is_model = turn.role == Role::Assistant;
        match block {
            // Written before.
            Block::Result(_) => {}
            Block::Text(block) | Block::Refusal(block) if !is_said(&block.words) => {}
            Block::Text(block) if turn.role.instructs() => self.converse_text(block, reminder),
            Block::Text(block) | Block::Refusal(block) => self.converse_text(block, words),
            Block::Image(image) if !is_model => self.converse_image(image, turn)?,
            Block::Document(file) if !is_model => self.converse_file(file, turn, documents)?,
            Block::Call(call) if is_model => self.converse_call(call),
            Block::Thought(thought) if is_model => self.converse_thought(thought),
            Block::Search(search) => self.forget_search(search),
            other => {
                let message = format!("holds {}, which its role cannot", misplaced(other));
                return Err(self.refuse_turn(turn, message));
            }
        }
        Ok(())
    }

    fn converse_text(&mut self, said: &TextBlock<'_>, write: WriteWords) {
        self.out.item().begin_object();
        write(self.out.key("text"), &said.words);
        self.out.end_object();
        self.cache_point(said.cache);
    }

    /// A mark for caching what stands before it.
    fn cache_point(&mut self, mark: Option<CacheMark<'_>>) {
        if !self.is_marked(mark) {
            return;
        }
        self.out.item().begin_object();
        self.out.key("cachePoint").begin_object();
        self.out.key("type").string("default");
        let ttl = mark.and_then(|mark| mark.ttl);
        if let Some(ttl) = ttl.filter(|ttl| ttl.is("5m") || ttl.is("1h")) {
            text(self.out.key("ttl"), ttl);
        }
        self.out.end_object();
        self.out.end_object();
    }

    fn converse_image(&mut self, image: &Image<'_>, turn: &Turn<'_>) -> Result<(), Refusal> {
        let Source::Data { media_type, data } = &image.source else {
            let message = "holds an image by its address, which this model's provider does not fetch: send its data";
            return Err(self.refuse_turn(turn, message));
        };
        self.out.item().begin_object();
        self.out.key("image").begin_object();
        // The types that the target takes are those of its formats.
        let format = media_type.strip_prefix("image/").unwrap_or("png");
        self.out.key("format").string(format);
        self.converse_data(data);
        self.out.end_object();
        self.out.end_object();
        Ok(())
    }

    fn converse_data(&mut self, data: &[u8]) {
        self.out.key("source").begin_object();
        self.out.key("bytes").begin_string();
        base64(&mut self.out, data);
        self.out.end_string();
        self.out.end_object();
    }

    fn converse_file(
        &mut self,
        file: &File<'_>,
        turn: &Turn<'_>,
        documents: &mut Documents,
    ) -> Result<(), Refusal> {
        let Source::Data { media_type, data } = &file.source else {
            let message = "holds a document by its address, which this model's provider does not fetch: send its data";
            return Err(self.refuse_turn(turn, message));
        };
        let Some(format) = document_format(media_type) else {
            let message = "holds a document of a type that this model's provider does not take: send PDF, text, CSV, HTML, Markdown, Word or Excel";
            return Err(self.refuse_turn(turn, message));
        };
        documents.0 = documents.0.saturating_add(1);
        self.out.item().begin_object();
        self.out.key("document").begin_object();
        self.out.key("format").string(format);
        let name = document_name(file, documents.0);
        self.out.key("name").string(&name);
        self.converse_data(data);
        self.out.end_object();
        self.out.end_object();
        Ok(())
    }

    fn converse_call(&mut self, call: &Call<'_>) {
        self.out.item().begin_object();
        self.out.key("toolUse").begin_object();
        self.out.key("toolUseId");
        self.call_id(call.id);
        self.out.key("name");
        self.called_name(call);
        self.out.key("input");
        self.input(&call.input);
        self.out.end_object();
        self.out.end_object();
    }

    fn converse_result(
        &mut self,
        result: &CallResult<'_>,
        turn: &Turn<'_>,
        documents: &mut Documents,
    ) -> Result<(), Refusal> {
        // The mark of a text stands behind the whole result.
        let mut mark = None;
        self.out.item().begin_object();
        self.out.key("toolResult").begin_object();
        self.out.key("toolUseId");
        self.result_id(result.id);
        self.out.key("content").begin_array();
        for block in &result.content {
            match block {
                Block::Text(block) => {
                    if is_said(&block.words) {
                        self.out.item().begin_object();
                        words(self.out.key("text"), &block.words);
                        self.out.end_object();
                    }
                    mark = block.cache.or(mark);
                }
                Block::Image(image) => self.converse_image(image, turn)?,
                Block::Document(file) => self.converse_file(file, turn, documents)?,
                other => {
                    let message = format!("holds {} in the result of a tool", misplaced(other));
                    return Err(self.refuse_turn(turn, message));
                }
            }
        }
        self.out.end_array();
        if result.is_error {
            self.out.key("status").string("error");
        }
        self.out.end_object();
        self.out.end_object();
        self.cache_point(mark);
        Ok(())
    }

    /// Reasoning that this model made, as the block that it was.
    fn converse_thought(&mut self, thought: &Thought<'_>) {
        let Some(native) = self.restore(thought) else {
            self.forget_thought(thought);
            return;
        };
        match native.form {
            ReasoningForm::Signature => {
                self.out.item().begin_object();
                self.out.key("reasoningContent").begin_object();
                self.out.key("reasoningText").begin_object();
                self.out.key("text").begin_string();
                for piece in &thought.text {
                    self.out.escaped(piece.json());
                }
                self.out.end_string();
                self.out.key("signature").string(&native.payload);
                self.out.end_object();
                self.out.end_object();
                self.out.end_object();
            }
            ReasoningForm::Redacted => {
                self.out.item().begin_object();
                self.out.key("reasoningContent").begin_object();
                self.out.key("redactedContent").string(&native.payload);
                self.out.end_object();
                self.out.end_object();
            }
            _ => self.forget_thought(thought),
        }
    }
}

/// The name of a document. The provider takes letters, digits, hyphens, brackets and single blanks, and
/// each name once. Names after the first end with their number. So does a first name that could equal such a name.
fn document_name(file: &File<'_>, number: usize) -> String {
    const LONGEST: usize = 200;
    let name = file.name.map(|it| it.decode()).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-()[]".contains(c);
    let parts = name.split(|c| !is_plain(c)).filter(|it| !it.is_empty());
    let mut name = parts.collect::<Vec<_>>().join(" ");
    name.truncate(LONGEST);
    match name.trim() {
        "" => format!("document-{number}"),
        name if number > 1 || name.ends_with(')') || name.starts_with("document-") => {
            format!("{name} ({number})")
        }
        name => name.to_owned(),
    }
}
