//! The rows of the table of answers, and the fates that many of them share.

use super::{
    AnswerFate::{self, Implied, LeftOut, Mapped},
    AnswerRow,
};

pub(crate) const fn each(path: &'static str, first: AnswerFate, second: AnswerFate) -> AnswerRow {
    AnswerRow {
        path,
        fates: [first, second],
        whole: false,
        extra: false,
    }
}

pub(crate) const fn both(path: &'static str, fate: AnswerFate) -> AnswerRow {
    each(path, fate, fate)
}

impl AnswerRow {
    pub(crate) const fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    pub(crate) const fn extra(mut self) -> Self {
        self.extra = true;
        self
    }
}

pub(crate) const STRUCTURE: AnswerFate = Implied("the structure of the format");
pub(crate) const ID: AnswerFate = Mapped("in the style of the format");
pub(crate) const MODEL: AnswerFate = Mapped("the name that the caller asked for");
pub(crate) const ONE_CHOICE: AnswerFate = Implied("there is one answer; a second one fails");
pub(crate) const REQUEST: AnswerFate = Implied("it repeats the request");
pub(crate) const PROVIDER: AnswerFate = LeftOut("the provider's own affair");
pub(crate) const HOSTED: AnswerFate =
    LeftOut("what the provider's own tools did; such tools are not offered to it");
pub(crate) const TOTAL: AnswerFate =
    Mapped("in the format's way of counting: with or without the cached tokens");
pub(crate) const SUM: AnswerFate = Implied("the sum of the others");
pub(crate) const PART: AnswerFate = LeftOut("counted in the totals");
pub(crate) const STOP: AnswerFate =
    Mapped("to the format's reasons; calls are told as calls whatever the provider says");
pub(crate) const CALL_ID: AnswerFate =
    Mapped("kept where the format takes it and it is the only one, else made up");
pub(crate) const NAME: AnswerFate = Mapped("to the caller's name and namespace");
pub(crate) const ARGUMENTS_TO_MESSAGES: AnswerFate =
    Mapped("the object; what is none fails, unless the output limit cut it");
pub(crate) const ONE_CALL: AnswerFate = Mapped("a tool call");
pub(crate) const PAGES: AnswerFate =
    LeftOut("a citation there names a place in what its provider searched");
pub(crate) const CITED: AnswerFate = Mapped(
    "a citation where the provider was to search the web, without the words that it quotes, its annotation sealed in it; else left out, since a citation there names a place in what its provider searched",
);
pub(crate) const FILES: AnswerFate =
    LeftOut("a file is known at the provider that stores it alone");
pub(crate) const LOGPROBS: AnswerFate = LeftOut("callers cannot ask for log probabilities");
pub(crate) const SEALED: AnswerFate =
    Mapped("sealed, where the caller takes it: it returns to this provider alone");
pub(crate) const REFUSAL: AnswerFate = Mapped("text, with the stop reason `refusal`");
pub(crate) const SOUND: AnswerFate = LeftOut("sound is not asked for");
