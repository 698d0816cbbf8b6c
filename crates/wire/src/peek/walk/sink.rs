//! What the walk asks of the lexer, and where each report of the lexer goes.

use super::{
    super::{PeekError, SEAL_TAG, location::Slot},
    IMAGE_SCHEME, Value, WORD_BYTES, Walk,
};
use crate::json::{Container, Literal, Number, Sink, Span, Text, Want};

impl Sink for Walk {
    type Error = PeekError;

    #[inline]
    fn want_key(&mut self) -> Want {
        if self.unread > 0 {
            Want::Nothing
        } else {
            Want::Prefix(self.limits.key_bytes)
        }
    }

    #[inline]
    fn want_string(&mut self) -> Want {
        if self.unread > 0 {
            return Want::Nothing;
        }
        match self.slot() {
            Some(Slot::Model | Slot::PathModel(_) | Slot::ToolModel) => {
                Want::Prefix(self.limits.model_bytes)
            }
            Some(
                Slot::StoredId
                | Slot::FileUri
                | Slot::Reference
                | Slot::Container
                | Slot::Skills
                | Slot::Prompt
                | Slot::ItemId,
            ) => Want::Prefix(self.limits.stored_id_bytes),
            Some(Slot::Link(_)) => Want::Prefix(IMAGE_SCHEME.len()),
            Some(Slot::Seal) => Want::Prefix(SEAL_TAG.len()),
            Some(
                Slot::Type
                | Slot::ToolType
                | Slot::MediaType
                | Slot::Thinks
                | Slot::Role
                | Slot::Effort(_)
                | Slot::ThinkingType
                | Slot::PluginId
                | Slot::Switch
                | Slot::ChangeKind
                | Slot::AnswerFormatType
                | Slot::AnswerMediaType
                | Slot::Tier(_)
                | Slot::InferenceGeo
                | Slot::Modalities,
            ) => Want::Prefix(WORD_BYTES),
            _ => Want::Nothing,
        }
    }

    #[inline]
    fn key(&mut self, key: Text<'_>) -> Result<(), PeekError> {
        self.found.values = self.found.values.saturating_add(1);
        if self.unread > 0 {
            if self.unread_is_text {
                self.add_text(key.len);
            }
            return Ok(());
        }
        self.read_key(key)
    }

    #[inline]
    fn string(&mut self, text: Text<'_>) -> Result<(), PeekError> {
        self.value(Value::Text(text), text.span)
    }

    #[inline]
    fn number(&mut self, number: Number<'_>) -> Result<(), PeekError> {
        self.value(Value::Number(number), number.span)
    }

    #[inline]
    fn literal(&mut self, literal: Literal, span: Span) -> Result<(), PeekError> {
        let value = match literal {
            Literal::Null => Value::Null,
            Literal::True => Value::Bool(true),
            Literal::False => Value::Bool(false),
        };
        self.value(value, span)
    }

    #[inline]
    fn begin(&mut self, container: Container, at: u64) -> Result<(), PeekError> {
        let bracket = Span {
            start: at,
            end: at.saturating_add(1),
        };
        self.value(Value::Open(container), bracket)
    }

    #[inline]
    fn end(&mut self, _: Container, end: u64) -> Result<(), PeekError> {
        if self.unread > 0 {
            self.unread -= 1;
            return Ok(());
        }
        self.close(end)
    }
}
