//! Parts that several writers share: words, ids, marks for caching, reasoning that returns.

use super::Writer;
use crate::{
    Refusal,
    capabilities::too_many_stops,
    document::{Text, Value},
    fingerprint::fingerprint,
    names::{NameLimits, ToolKind, ToolName},
    output::Output,
    request::{
        conversation::{
            Block, CacheMark, Call, Conversation, File, Input, Source, Takes, Thought, Tool, User,
            Words,
        },
        scope::{Scope, shown},
    },
    seal::{self, Backend, NativeReasoning},
};
use memchr::memchr2;
use std::borrow::Cow;
use tollgate_wire::json::Lexer;

/// How many marks for caching a target takes: the last ones count.
const MAX_MARKS: usize = 4;

/// Which of the marks for caching are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkBudget {
    /// So many are left out before the first is written.
    skip: usize,
    is_known: bool,
}

impl MarkBudget {
    pub(crate) fn of(conversation: &Conversation<'_>, scope: &Scope<'_>) -> Self {
        let is_marked = |block: &&Block<'_>| match block {
            Block::Text(text) => text.cache.is_some(),
            _ => false,
        };
        let marked = |blocks: &[Block<'_>]| blocks.iter().filter(is_marked).count();
        let in_turns: usize = conversation
            .turns
            .iter()
            .flat_map(|turn| &turn.blocks)
            .map(|block| match block {
                Block::Result(result) => marked(&result.content).min(scope.rules.marks_of_result),
                other => usize::from(is_marked(&other)),
            })
            .sum();
        let has_tool_marks = scope.rules.has_tool_marks;
        let tools = conversation.tools.iter();
        let on_tools = tools.filter(|tool| has_tool_marks && tool.cache.is_some());
        let on_tools = on_tools.count();
        // Caching without marks takes the place of one.
        let is_automatic = has_tool_marks && conversation.cache.is_automatic();
        let most = MAX_MARKS.saturating_sub(usize::from(is_automatic));
        Self {
            skip: in_turns.saturating_add(on_tools).saturating_sub(most),
            is_known: scope.target.cache_breakpoints,
        }
    }
}

impl Writer<'_, '_> {
    /// Whether a mark is written here; one that is not is noted.
    pub(crate) fn is_marked(&mut self, mark: Option<CacheMark<'_>>) -> bool {
        let Some(mark) = mark else {
            return false;
        };
        if self.marks.is_known && self.marks.skip == 0 {
            return true;
        }
        self.marks.skip = self.marks.skip.saturating_sub(1);
        self.scope.note_dropped(mark.path);
        false
    }

    /// The mark of chat and responses, where it is written.
    pub(crate) fn breakpoint(&mut self, mark: Option<CacheMark<'_>>) {
        if !self.is_marked(mark) {
            return;
        }
        self.out.key("prompt_cache_breakpoint").begin_object();
        self.out.key("mode").string("explicit");
        // Times to live of messages mean nothing here, and the table leaves them out.
        if let Some(ttl) = mark.and_then(|mark| mark.ttl) {
            text(self.out.key("ttl"), ttl);
        }
        self.out.end_object();
    }

    /// Checks the number of stop sequences. `usual`: the most that the format's own provider takes.
    pub(crate) fn check_stops(&self, stops: usize, usual: Option<usize>) -> Result<(), Refusal> {
        match self.scope.target.max_stop_sequences.or(usual) {
            Some(most) if stops > most => Err(too_many_stops(self.scope.source.paths.stop, most)),
            _ => Ok(()),
        }
    }

    /// Writes the output limit, and remembers it.
    pub(crate) fn limit(&mut self, field: &str, tokens: u64) {
        self.output_limit = Some(tokens);
        self.out.key(field).number(tokens);
    }

    /// The provider's name in seals; made when the first seal is read.
    pub(crate) fn backend(&mut self) -> Backend {
        let scope = &self.scope;
        *self
            .backend
            .get_or_insert_with(|| Backend::new(&scope.backend()))
    }

    /// Leaves reasoning out, with notice.
    pub(crate) fn forget_thought(&mut self, thought: &Thought<'_>) {
        for path in thought.paths {
            self.scope.note_dropped(*path);
        }
    }

    /// The native form of an earlier thought. Another backend's is left out, with notice.
    pub(crate) fn restore(&mut self, thought: &Thought<'_>) -> Option<NativeReasoning> {
        let state = thought.state?.decode();
        let native = seal::open(self.backend(), &state);
        if native.is_none() {
            self.forget_thought(thought);
        }
        native
    }

    /// Writes the name of a tool as the target takes it.
    pub(crate) fn tool_name(
        &mut self,
        name: Text<'_>,
        namespace: Option<Text<'_>>,
        kind: ToolKind,
    ) {
        let limits = self.scope.rules.tool_names;
        let is_plain = namespace.is_none()
            && kind == ToolKind::Function
            && !self.has_renamed
            && limits.allow(name.json());
        if is_plain {
            text(&mut self.out, name);
            return;
        }
        let tool = ToolName {
            name: name.decode().into_owned(),
            namespace: namespace.map(|it| it.decode().into_owned()),
            kind,
        };
        self.out.string(&self.names.target_name(&tool, limits));
    }

    /// Writes the name of the tool that a call of the past names. What kind of tool it is
    /// the offer says, or where it is offered no more, the call.
    pub(crate) fn called_name(&mut self, call: &Call<'_>) {
        let kind = match call.input {
            Input::Free(_) => ToolKind::Custom,
            Input::Object(_) | Input::Json(_) => ToolKind::Function,
        };
        self.tool_name(call.name, call.namespace, kind);
    }

    /// Writes the id of a call, unique where the target requires it: some providers count calls anew in each
    /// answer, and others refuse repeated ids.
    pub(crate) fn call_id(&mut self, id: Text<'_>) {
        if self.scope.rules.has_plain_ids {
            let id = self.plain_id(id).into_owned();
            let count = self.written_calls.entry(id).or_default();
            *count = count.saturating_add(1);
        }
        self.result_id(id);
    }

    /// Writes the id under which the last call with this id was written.
    pub(crate) fn result_id(&mut self, id: Text<'_>) {
        self.out.begin_string();
        self.result_id_piece(id);
        self.out.end_string();
    }

    /// The same within a string that is open.
    pub(crate) fn result_id_piece(&mut self, id: Text<'_>) {
        let id = self.plain_id(id);
        match self.written_calls.get(id.as_ref()) {
            Some(count) if *count > 1 => {
                let id = fingerprint(&format!("{id}\0{count}"));
                self.out.text(&format!("call_{id}"));
            }
            _ => self.out.text(&id),
        }
    }

    /// An id in the letters and the length that the target takes.
    fn plain_id<'d>(&self, id: Text<'d>) -> Cow<'d, str> {
        if (self.scope.rules.has_short_ids)(self.scope.target) {
            return short_call_id(id);
        }
        let max_len = self.scope.rules.call_id_length;
        let is_plain = match self.scope.rules.has_plain_ids {
            true => NameLimits::up_to(max_len).allow(id.json()),
            false => !id.is_escaped() && (1..=max_len).contains(&id.json().len()),
        };
        match is_plain {
            true => id.decode(),
            false => format!("call_{}", fingerprint(&id.decode())).into(),
        }
    }

    /// Writes the input of a call as the string that chat and responses call `arguments`.
    pub(crate) fn arguments(&mut self, input: &Input<'_>) {
        self.out.begin_string();
        match input {
            Input::Object(object) => match std::str::from_utf8(object.raw()) {
                Ok(object) => self.out.text(object),
                Err(_) => self.out.text("{}"),
            },
            Input::Json(json) if json.is_empty() => self.out.text("{}"),
            Input::Json(json) => self.out.escaped(json.json()),
            Input::Free(free) => {
                self.out.escaped(br#"{\"input\":"#);
                let inner = format!("\"{}\"", utf8(free.json()));
                self.out.text(&inner);
                self.out.text("}");
            }
        }
        self.out.end_string();
    }

    /// Writes the input of a call as an object. Text that holds none is what a model wrote: the
    /// history must go on with it, and the model must see what its tool complained about.
    pub(crate) fn input(&mut self, input: &Input<'_>) {
        match input {
            Input::Object(object) => self.out.raw(object.raw()),
            Input::Json(json) => {
                let decoded = json.decode();
                match decoded.trim() {
                    "" => self.out.raw(b"{}"),
                    object
                        if object.starts_with('{') && Lexer::check(object.as_bytes()).is_ok() =>
                    {
                        self.out.raw(object.as_bytes())
                    }
                    _ => {
                        self.scope.note_dropped(self.scope.source.paths.arguments);
                        self.out.begin_object();
                        text(self.out.key("malformed_arguments"), *json);
                        self.out.end_object();
                    }
                }
            }
            Input::Free(free) => {
                self.out.begin_object();
                text(self.out.key("input"), *free);
                self.out.end_object();
            }
        }
    }

    /// Writes the words of a result, after a sign that the tool failed.
    pub(crate) fn result_words(&mut self, words: &Words<'_>, is_error: bool) {
        self.out.begin_string();
        if is_error {
            self.out.text("ERROR: ");
        }
        pieces(&mut self.out, words);
        self.out.end_string();
    }

    /// Writes a `data:` URL, or the address.
    pub(crate) fn link(&mut self, source: &Source<'_>) {
        match source {
            Source::Url(url) => text(&mut self.out, *url),
            Source::Data { media_type, data } => {
                self.out.begin_string();
                self.out.escaped(b"data:");
                self.out.text(media_type);
                self.out.escaped(b";base64,");
                base64(&mut self.out, data);
                self.out.end_string();
            }
        }
    }

    /// Writes the name of a file, which chat and responses ask for.
    pub(crate) fn file_name(&mut self, file: &File<'_>) {
        match file.name {
            Some(name) if !name.is_empty() => text(self.out.key("filename"), name),
            _ => {
                let format = match &file.source {
                    Source::Data { media_type, .. } => document_format(media_type),
                    Source::Url(_) => None,
                };
                let name = format!("document.{}", format.unwrap_or("pdf"));
                self.out.key("filename").string(&name);
            }
        }
    }

    /// Writes the description of a tool and the grammar of what it takes.
    pub(crate) fn description(&mut self, tool: &Tool<'_>) {
        let grammar = match (&tool.takes, self.has_custom_tools()) {
            (Takes::Free(grammar), false) => Some(*grammar),
            _ => None,
        };
        let before = tool.namespace_description.filter(|it| !it.is_empty());
        let own = tool.description.filter(|it| !it.is_empty());
        if before.is_none() && own.is_none() && grammar.is_none() {
            return;
        }
        self.out.key("description").begin_string();
        let mut is_first = true;
        for part in [before, own].into_iter().flatten() {
            if !is_first {
                self.out.text("\n\n");
            }
            is_first = false;
            self.out.escaped(part.json());
        }
        if let Some(grammar) = grammar {
            if !is_first {
                self.out.text("\n\n");
            }
            self.out
                .text("Put the whole input, as plain text, into `input`.");
            if let Some(grammar) = grammar {
                self.out.text(" It must follow this ");
                self.out.escaped(grammar.syntax.json());
                self.out.text(" grammar:\n");
                self.out.escaped(grammar.definition.json());
            }
        }
        self.out.end_string();
    }

    /// Whether the target has tools that take free text.
    pub(crate) fn has_custom_tools(&self) -> bool {
        (self.scope.rules.has_custom_tools)(self.scope.target)
    }
}

/// An id of nine letters and digits: `id` if it is one, else the beginning of its hash.
pub(crate) fn short_call_id(id: Text<'_>) -> Cow<'_, str> {
    const LENGTH: usize = 9;
    let json = id.json();
    if json.len() == LENGTH && json.iter().all(u8::is_ascii_alphanumeric) {
        return id.decode();
    }
    let mut short = fingerprint(&id.decode());
    short.truncate(LENGTH);
    short.into()
}

/// The text around an instruction in the middle of a conversation, for targets that take instructions only at
/// its beginning.
pub(crate) const REMINDER: [&str; 2] = ["<system-reminder>\n", "\n</system-reminder>"];

/// The format of a document of this media type, as its name ends.
pub(crate) fn document_format(media_type: &str) -> Option<&'static str> {
    Some(match media_type {
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/markdown" => "md",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        _ => return None,
    })
}

/// Whether words are worth sending.
pub(crate) fn is_said(words: &Words<'_>) -> bool {
    !words.is_blank()
}

/// Writes a string that stands in the request.
pub(crate) fn text(out: &mut Output, text: Text<'_>) {
    out.begin_string();
    out.escaped(text.json());
    out.end_string();
}

/// Writes base64 into a string that is open, in the usual alphabet: Google's SDKs write that of
/// URLs, which other providers refuse.
pub(crate) fn base64(out: &mut Output, data: &[u8]) {
    let mut rest = data;
    while let Some(at) = memchr2(b'-', b'_', rest) {
        let (plain, after) = rest.split_at_checked(at).unwrap_or((rest, &[]));
        out.escaped(plain);
        let (digit, after) = after.split_first().unwrap_or((&b'_', &[]));
        out.escaped(if *digit == b'-' { b"+" } else { b"/" });
        rest = after;
    }
    out.escaped(rest);
}

/// How words become a string: [`words`] or [`reminder`].
pub(crate) type WriteWords = fn(&mut Output, &Words<'_>);

/// Writes words as a string.
pub(crate) fn words(out: &mut Output, words: &Words<'_>) {
    out.begin_string();
    pieces(out, words);
    out.end_string();
}

/// Writes an instruction in the middle of a conversation as a string.
pub(crate) fn reminder(out: &mut Output, words: &Words<'_>) {
    let [open, close] = REMINDER;
    out.begin_string();
    out.text(open);
    pieces(out, words);
    out.text(close);
    out.end_string();
}

/// Writes words into a string that is open.
pub(crate) fn pieces(out: &mut Output, words: &Words<'_>) {
    match words {
        Words::Asked(text) => out.escaped(text.json()),
        Words::Made(text) => out.text(text),
    }
}

fn utf8(json: &[u8]) -> &str {
    // The lexer has seen that strings are UTF-8.
    std::str::from_utf8(json).unwrap_or_default()
}

/// The end user's id in a form for a provider of another format: never the name itself.
pub(crate) fn hashed_user(user: &User<'_>) -> Option<String> {
    let in_metadata = user
        .metadata
        .and_then(|metadata| metadata.get("user_id"))
        .and_then(Value::text);
    let name = user
        .user_id
        .or(user.safety_identifier)
        .or(user.user)
        .or(in_metadata)?;
    let name = name.decode();
    (!name.is_empty()).then(|| fingerprint(&name))
}

/// The name of a JSON schema, where the target asks for one.
pub(crate) fn schema_name(name: Option<Text<'_>>) -> Cow<'_, str> {
    const NAME: &str = "answer";
    name.map_or(Cow::Borrowed(NAME), Text::decode)
}

/// The name of a part that its role cannot have, for the message of an error.
pub(crate) fn misplaced(block: &Block<'_>) -> &'static str {
    match block {
        Block::Text(_) => "a text",
        Block::Refusal(_) => "a refusal",
        Block::Image(_) => "an image",
        Block::Document(_) => "a document",
        Block::Call(_) => "a call of a tool",
        Block::Result(_) => "the result of a tool",
        Block::Thought(_) => "reasoning",
        Block::Search(_) => "a search of the web",
    }
}

/// A caller's word in a message.
pub(crate) fn quoted(text: Text<'_>) -> String {
    format!("'{}'", shown(text))
}
