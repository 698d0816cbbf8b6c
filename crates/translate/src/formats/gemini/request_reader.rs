//! Reads a Gemini request. The address has its model and the choice of a stream.

mod call_ids;
mod parts;
pub(crate) mod rewrites;
mod schema;
mod settings;
mod tools;

use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::gemini::request_fields as table,
    request::{
        conversation::{Block, Conversation, Role, Turn, User},
        path::Path,
        read::{
            rewrites::Rewritten,
            shared::{say, text_block},
        },
        scope::{Scope, must_be, refuse, shown},
    },
};
use parts::part;

pub(crate) fn read<'d>(
    body: Value<'d>,
    rewritten: &Rewritten<'d>,
    scope: &mut Scope<'_>,
) -> Result<Conversation<'d>, Refusal> {
    let mut top = scope.open(body, &table::TOP, &Path::ROOT)?;
    let mut conversation = Conversation {
        model: scope.target.asked_model.unwrap_or_default().to_owned(),
        stream: scope.target.asked_stream,
        limit_field: "generationConfig.maxOutputTokens",
        encrypted_reasoning: true,
        ..Conversation::default()
    };
    if let Some(offered) = top.array("tools")? {
        tools::tools(scope, offered, rewritten, &mut conversation)?;
    }
    if let Some(value) = top.take("systemInstruction") {
        let blocks = system(scope, value)?;
        conversation.turns.push(Turn {
            role: Role::System,
            blocks,
            at: None,
        });
    }
    let contents = top.array("contents")?;
    let contents = contents.ok_or_else(|| refuse(&Path::ROOT.field("contents"), "is missing"))?;
    conversation.turns.reserve(contents.elements().count());
    for (at, value) in contents.elements().enumerate() {
        content(scope, value, at, rewritten, &mut conversation)?;
    }
    if let Some(value) = top.take("toolConfig") {
        tools::config(scope, value, &mut conversation)?;
    }
    if let Some(value) = top.take("generationConfig") {
        settings::read(scope, value, rewritten, &mut conversation)?;
    }
    // Google shows no reasoning unless it is asked for.
    conversation.reasoning.shown.get_or_insert(false);
    conversation.user = User {
        metadata: top.object("labels")?,
        ..User::default()
    };
    conversation.service_tier =
        top.text("serviceTier")?.map(
            |tier| match tier.decode().eq_ignore_ascii_case("standard") {
                true => Text::of_word("default"),
                false => tier,
            },
        );
    top.close()?;
    Ok(conversation)
}

fn system<'d>(scope: &mut Scope<'_>, value: Value<'d>) -> Result<Vec<Block<'d>>, Refusal> {
    let path = Path::ROOT.field("systemInstruction");
    let mut fields = scope.open(value, &table::SYSTEM, &path)?;
    let parts = fields.take("parts");
    fields.close()?;
    let path = path.field("parts");
    let mut blocks = Vec::new();
    for (at, value) in parts_of(parts, &path)?.enumerate() {
        let path = path.index(at);
        let mut fields = scope.open(value, &table::SYSTEM_PART, &path)?;
        let text = fields.text("text")?;
        fields.close()?;
        blocks.extend(text.map(|text| text_block(text, None)));
    }
    Ok(blocks)
}

/// The parts of a content. Google takes a single one for a list.
fn parts_of<'d>(
    parts: Option<Value<'d>>,
    path: &Path<'_>,
) -> Result<impl Iterator<Item = Value<'d>> + use<'d>, Refusal> {
    match parts {
        Some(parts) if !matches!(parts.kind(), Kind::Array | Kind::Object) => {
            Err(must_be(path, "an array of parts", parts))
        }
        parts => Ok(parts.into_iter().flat_map(rewrites::parts)),
    }
}

fn content<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    at: usize,
    rewritten: &Rewritten<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let contents = Path::ROOT.field("contents");
    let path = contents.index(at);
    let mut fields = scope.open(value, &table::CONTENT, &path)?;
    let role = match fields.text("role")? {
        // Google takes results of tools from each of these.
        Some(role)
            if ["user", "function", "tool", ""]
                .iter()
                .any(|it| role.is(it)) =>
        {
            Role::User
        }
        Some(role) if role.is("model") => Role::Assistant,
        Some(role) => {
            let message = format!("is '{}'; expected user or model", shown(role));
            return Err(refuse(&path.field("role"), message));
        }
        None => Role::User,
    };
    let parts = fields.take("parts");
    fields.close()?;
    let parts_path = path.field("parts");
    let mut blocks = Vec::new();
    for (at, value) in parts_of(parts, &parts_path)?.enumerate() {
        part(scope, value, &parts_path.index(at), rewritten, &mut blocks)?;
    }
    if role == Role::User {
        for block in &blocks {
            if let Block::Thought(thought) = block {
                thought
                    .paths
                    .iter()
                    .for_each(|path| scope.note_dropped(*path));
            }
        }
        blocks.retain(|block| !matches!(block, Block::Thought(_)));
        // Other formats have the results of tools first.
        blocks.sort_by_key(|block| !matches!(block, Block::Result(_)));
    }
    say(&mut conversation.turns, role, blocks, at);
    Ok(())
}
