//! Where the texts stand that `auto` looks at: the first instructions, the first question and the
//! last message of the user. Tool results are left out, although some formats put them into
//! messages of the user.

use crate::json::Span;

/// Texts of one message that are noted; further ones are ignored.
const MOST: usize = 32;

/// The part of a body in which a text stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// Neither of the following.
    #[default]
    Other,
    /// The instructions, if they have a field of their own.
    Instructions,
    /// The list of messages or items.
    Conversation,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Author {
    /// The model, a tool, or not known yet.
    #[default]
    Other,
    Instructions,
    User,
}

/// The texts of one body, each with its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Messages or items of the conversation.
    pub(crate) messages: u32,
    /// The first text of the instructions.
    pub(crate) instructions: Option<Span>,
    /// The texts of the user before the first answer.
    pub(crate) question: Vec<Span>,
    /// The texts of the user's last message.
    pub(crate) last: Vec<Span>,
    is_answered: bool,
    /// The texts of the message that is open.
    open: Vec<Span>,
    author: Author,
}

impl Texts {
    /// Notes a text.
    pub(super) fn note(&mut self, span: Span, part: Part) {
        match part {
            Part::Instructions => {
                self.instructions.get_or_insert(span);
            }
            Part::Conversation if self.open.len() < MOST => self.open.push(span),
            Part::Conversation | Part::Other => {}
        }
    }

    /// Notes a conversation that is one text of the user.
    pub(super) fn note_only_message(&mut self, span: Span) {
        self.messages = 1;
        self.question = vec![span];
        self.last = vec![span];
    }

    /// How many texts of the open message are noted.
    pub(super) const fn noted(&self) -> usize {
        self.open.len()
    }

    /// Forgets the texts of the open message but for the first `noted`.
    pub(super) fn forget_from(&mut self, noted: usize) {
        self.open.truncate(noted);
    }

    pub(super) fn begin_message(&mut self) {
        self.messages = self.messages.saturating_add(1);
        self.open.clear();
        self.author = Author::Other;
    }

    /// Notes the role of the open message.
    pub(super) fn note_role(&mut self, role: &[u8]) {
        self.author = match role {
            b"user" => Author::User,
            b"system" | b"developer" => Author::Instructions,
            _ => Author::Other,
        };
    }

    /// Ends the open message. Its role may have come last, so that its texts are sorted only now.
    pub(super) fn end_message(&mut self) {
        match self.author {
            Author::Instructions => {
                self.instructions = self.instructions.or(self.open.first().copied());
            }
            Author::User if !self.open.is_empty() => {
                if !self.is_answered {
                    let room = MOST.saturating_sub(self.question.len());
                    self.question.extend(self.open.iter().take(room));
                }
                std::mem::swap(&mut self.last, &mut self.open);
            }
            Author::User => {}
            Author::Other => self.is_answered |= !self.question.is_empty(),
        }
        self.open.clear();
    }
}
