//! How an answer ends: decided by its parts and by the reason that its provider reports.

use crate::{
    AnswerCheck, TranslationNotes,
    answer::{
        arguments::Arguments,
        parts::{
            Ending,
            Failure::{self, Broken, Unfit},
            Stop,
        },
        text::RawText,
    },
};
use tollgate_types::Usage;
use tollgate_wire::answer::StopReason;

/// The facts about an answer so far that decide how it ends.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) has_calls: bool,
    pub(super) has_refusal: bool,
    /// The client cannot read the arguments of a call.
    pub(super) has_bad_arguments: bool,
    /// Searches that found something.
    pub(super) searches: u64,
    may_search: bool,
    check: AnswerCheck,
    /// The text, if it is checked.
    text: Arguments,
}

impl Outcome {
    pub(super) fn new(notes: &TranslationNotes) -> Self {
        Self {
            may_search: notes.search.is_some(),
            check: notes.check,
            ..Self::default()
        }
    }

    /// Checks that the text can still become the JSON object that the client was promised. If no call can follow,
    /// a text that cannot become one ends the answer before any of it is sent.
    pub(super) fn check_text(&mut self, piece: RawText<'_>) -> Result<(), Failure> {
        if self.check == AnswerCheck::None {
            return Ok(());
        }
        self.text.push(piece);
        let is_lost = self.text.is_over() && !self.text.is_object();
        match is_lost && self.check == AnswerCheck::JsonObject {
            true => Err(Unfit),
            false => Ok(()),
        }
    }

    /// The end of an answer with this reason, or at a stop sequence of the client's.
    pub(super) fn ending(
        &self,
        reported: Option<StopReason>,
        sequence: Option<&str>,
        usage: Option<Usage>,
    ) -> Result<Ending, Failure> {
        let reported = match sequence {
            Some(_) => Some(StopReason::Done),
            None => reported,
        };
        Ok(Ending {
            stop: self.stop(reported)?,
            sequence: sequence.map(ToOwned::to_owned),
            usage,
            searches: self.searches,
        })
    }

    /// The stop reason for the client, by the reported reason and the parts of the answer. Many providers report
    /// `stop` with calls of tools, and some report calls of tools without any.
    fn stop(&self, reported: Option<StopReason>) -> Result<Stop, Failure> {
        match reported {
            // A limit or a filter may cut a call anywhere, as it does with any provider.
            Some(StopReason::MaxTokens) => return Ok(Stop::MaxTokens),
            Some(StopReason::Refused) => return Ok(Stop::Refused),
            // A provider pauses among its own tools. More would come if it were asked to go on.
            Some(StopReason::Paused) if self.may_search => return Ok(Stop::MaxTokens),
            Some(StopReason::Paused) => return Err(Broken),
            Some(StopReason::Done | StopReason::ToolCalls | StopReason::Other) | None => {}
        }
        let lacks_object = self.check != AnswerCheck::None && !self.text.is_object();
        match (self.has_calls, self.has_refusal) {
            _ if self.has_bad_arguments => Err(Unfit),
            (true, _) => Ok(Stop::ToolCalls),
            (false, true) => Ok(Stop::Declined),
            (false, false) if lacks_object => Err(Unfit),
            (false, false) => Ok(Stop::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StopReason::{Done, MaxTokens, Other, Paused, Refused, ToolCalls};

    #[test]
    fn the_end_follows_from_the_parts_and_the_reported_reason() {
        let plain = Outcome::default;
        let calls = || Outcome {
            has_calls: true,
            ..plain()
        };
        let declined = || Outcome {
            has_refusal: true,
            ..plain()
        };
        let bad_call = || Outcome {
            has_bad_arguments: true,
            ..calls()
        };
        let searching = || Outcome {
            may_search: true,
            ..plain()
        };
        let checked = |check, text| {
            let mut outcome = Outcome { check, ..plain() };
            let is_lost = outcome.check_text(RawText::escaped(text)).is_err();
            assert_eq!(is_lost, text == "no" && check == AnswerCheck::JsonObject);
            outcome
        };
        let object = || checked(AnswerCheck::JsonObject, "{}");
        let half = || checked(AnswerCheck::JsonObject, "{");
        let prose = || checked(AnswerCheck::JsonObjectOrCall, "no");
        let prose_and_call = || Outcome {
            has_calls: true,
            ..prose()
        };
        let _ = checked(AnswerCheck::JsonObject, "no");
        for (outcome, reported, expected) in [
            (plain(), None, Ok(Stop::Done)),
            (plain(), Some(ToolCalls), Ok(Stop::Done)),
            (calls(), Some(Done), Ok(Stop::ToolCalls)),
            (calls(), Some(MaxTokens), Ok(Stop::MaxTokens)),
            (declined(), Some(Other), Ok(Stop::Declined)),
            (declined(), Some(Refused), Ok(Stop::Refused)),
            (plain(), Some(Paused), Err(Broken)),
            (searching(), Some(Paused), Ok(Stop::MaxTokens)),
            (bad_call(), Some(ToolCalls), Err(Unfit)),
            (bad_call(), Some(MaxTokens), Ok(Stop::MaxTokens)),
            (bad_call(), Some(Refused), Ok(Stop::Refused)),
            (object(), Some(Done), Ok(Stop::Done)),
            (half(), Some(Done), Err(Unfit)),
            (half(), Some(MaxTokens), Ok(Stop::MaxTokens)),
            (prose(), Some(Done), Err(Unfit)),
            (prose_and_call(), Some(Done), Ok(Stop::ToolCalls)),
        ] {
            assert_eq!(outcome.stop(reported), expected, "{outcome:?} {reported:?}");
        }
    }
}
