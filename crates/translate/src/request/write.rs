//! Writers: a [`Conversation`] becomes a body in the target's format.

pub(crate) mod openai;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod shared;
pub(crate) mod tools;

use super::{
    conversation::{Block, Conversation, Takes, TextBlock, Tool, Turn},
    scope::Scope,
};
use crate::{Refusal, names::ToolNames, output::Output, seal::Backend};
use shared::{MarkBudget, is_said, misplaced};
use std::collections::HashMap;

/// A body on its way out.
#[derive(Debug)]
pub(crate) struct Writer<'w, 't> {
    pub(crate) out: Output,
    pub(crate) scope: &'w mut Scope<'t>,
    pub(crate) names: ToolNames,
    /// Whether a tool goes by another name there, so that no two may get the same.
    pub(crate) has_renamed: bool,
    pub(crate) marks: MarkBudget,
    pub(crate) backend: Option<Backend>,
    /// The output limit that was written, in tokens.
    pub(crate) output_limit: Option<u64>,
    /// Whether the target is offered its own search of the web.
    pub(crate) offers_search: bool,
    /// How many calls are written with each id, if the target refuses ids that repeat.
    pub(crate) written_calls: HashMap<String, usize>,
    /// Messages: what the texts of the turn that is written cite, by their fingerprints.
    pub(crate) citations: HashMap<String, Option<String>>,
}

/// A body that is written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) body: Vec<u8>,
    pub(crate) names: ToolNames,
    pub(crate) output_limit: Option<u64>,
}

/// Writes the target's body.
///
/// # Errors
/// Something cannot be said to this target.
pub(crate) fn write(
    conversation: &Conversation<'_>,
    scope: &mut Scope<'_>,
    capacity: usize,
) -> Result<Written, Refusal> {
    let marks = MarkBudget::of(conversation, scope);
    let mut writer = Writer {
        out: Output::with_capacity(capacity),
        scope,
        names: ToolNames::default(),
        has_renamed: conversation.tools.iter().any(is_renamed),
        marks,
        backend: None,
        output_limit: None,
        offers_search: conversation.search.is_some(),
        written_calls: HashMap::new(),
        citations: HashMap::new(),
    };
    writer.out.begin_object();
    (writer.scope.rules.write)(&mut writer, conversation)?;
    writer.out.end_object();
    Ok(Written {
        body: writer.out.into_bytes(),
        names: writer.names,
        output_limit: writer.output_limit,
    })
}

/// Whether a tool may be known by another name, or as another kind, to some target.
const fn is_renamed(tool: &Tool<'_>) -> bool {
    tool.namespace.is_some() || matches!(tool.takes, Takes::Free(_))
}

impl Writer<'_, '_> {
    /// Ends the list of messages or items, which began at `start`. Every format refuses an empty
    /// one.
    pub(crate) fn end_turns(&mut self, start: usize) -> Result<(), Refusal> {
        if self.out.as_bytes().len() == start {
            let message = "must hold a message with content for this model";
            return Err(Refusal::new(self.scope.source.paths.turns, message));
        }
        self.out.end_array();
        Ok(())
    }

    /// Drops the searches and thoughts of a turn without content.
    pub(crate) fn forget_blocks(&mut self, turn: &Turn<'_>) {
        for block in &turn.blocks {
            match block {
                Block::Search(search) => self.forget_search(search),
                Block::Thought(thought) => self.forget_thought(thought),
                _ => {}
            }
        }
    }

    /// The turns with content: if one without were left out later, both of its neighbours could be of one
    /// side.
    pub(crate) fn with_content<'c, 'd>(&mut self, turns: &'c [Turn<'d>]) -> Vec<&'c Turn<'d>> {
        let (said, silent): (Vec<_>, Vec<_>) = turns.iter().partition(|turn| turn.has_content());
        for turn in silent {
            self.forget_blocks(turn);
        }
        said
    }

    /// The texts of instructions, without empty ones.
    ///
    /// # Errors
    /// They hold something else.
    pub(crate) fn instruction_texts<'c, 'd>(
        &self,
        turns: &'c [Turn<'d>],
    ) -> Result<Vec<&'c TextBlock<'d>>, Refusal> {
        let mut texts = Vec::new();
        for turn in turns {
            for block in &turn.blocks {
                match block {
                    Block::Text(text) if is_said(&text.words) => texts.push(text),
                    Block::Text(_) => {}
                    other => {
                        let message =
                            format!("holds {}, which instructions cannot", misplaced(other));
                        return Err(self.refuse_turn(turn, message));
                    }
                }
            }
        }
        Ok(texts)
    }

    pub(crate) fn refuse_turn(&self, turn: &Turn<'_>, message: impl Into<String>) -> Refusal {
        super::calls::refuse_turn(turn, self.scope, message.into())
    }
}
