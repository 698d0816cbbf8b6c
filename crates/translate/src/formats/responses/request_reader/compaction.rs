//! Reads what a responses request says about compaction: a client asks for a summary of a long
//! conversation, and sends that in place of the conversation from then on.

use crate::request::read::shared::{made_block, text_block};
use crate::{
    Refusal,
    document::{Text, Value},
    formats::responses::request_fields as table,
    request::{
        conversation::{Block, Choice, Conversation},
        path::Path,
        scope::Scope,
    },
    seal,
};

/// The instruction for the summary.
const INSTRUCTION: &str = "The conversation so far is about to be replaced by a summary. Write that summary now, for the assistant who continues the work: what the user asked for and which limits they set, decisions and findings with their exact names, paths and values, what is done, what is left to do, and the next step. Write only the summary and call no tool.";

/// Reads the item that asks for a summary: what the user says with it.
pub(crate) fn trigger<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    scope
        .open(item, &table::COMPACTION_TRIGGER, path)?
        .close()?;
    Ok(text_block(Text::of_word(INSTRUCTION), None))
}

/// Makes a request with such an item one for text alone.
pub(crate) fn ask_for_text(scope: &mut Scope<'_>, conversation: &mut Conversation<'_>) {
    if conversation.format.take().is_some() {
        scope.note_dropped("text.format");
    }
    conversation.choice = Some(Choice::None);
}

/// Reads a summary that the gateway had made. `None`: another made it, and the operator lets
/// that be dropped.
pub(crate) fn summary<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<Block<'d>>, Refusal> {
    let mut fields = scope.open(item, &table::COMPACTION, path)?;
    let content = fields.require_text("encrypted_content")?;
    fields.close()?;
    match seal::summary(&content.decode()) {
        Some(summary) => Ok(Some(made_block(summary))),
        None => {
            let why = "only the provider that compacted a history can read it";
            scope.refuse_kind(&table::ITEMS, "compaction", why, path)?;
            Ok(None)
        }
    }
}
