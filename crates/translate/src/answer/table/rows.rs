//! The rows of the table of answers, and the fates that many of them share.

pub(super) mod chat;
pub(super) mod messages;
pub(super) mod responses;

use super::{
    AnswerFate::{self, Implied, LeftOut, Mapped},
    AnswerRow,
};

const fn each(path: &'static str, first: AnswerFate, second: AnswerFate) -> AnswerRow {
    AnswerRow {
        path,
        fates: [first, second],
        whole: false,
        extra: false,
    }
}

const fn both(path: &'static str, fate: AnswerFate) -> AnswerRow {
    each(path, fate, fate)
}

impl AnswerRow {
    const fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    const fn extra(mut self) -> Self {
        self.extra = true;
        self
    }
}

const STRUCTURE: AnswerFate = Implied("the structure of the format");
const ID: AnswerFate = Mapped("in the style of the format");
const MODEL: AnswerFate = Mapped("the name that the caller asked for");
const ONE_CHOICE: AnswerFate = Implied("there is one answer; a second one fails");
const REQUEST: AnswerFate = Implied("it repeats the request");
const PROVIDER: AnswerFate = LeftOut("the provider's own affair");
const HOSTED: AnswerFate =
    LeftOut("what the provider's own tools did; such tools are not offered to it");
const TOTAL: AnswerFate =
    Mapped("in the format's way of counting: with or without the cached tokens");
const SUM: AnswerFate = Implied("the sum of the others");
const PART: AnswerFate = LeftOut("counted in the totals");
const STOP: AnswerFate =
    Mapped("to the format's reasons; calls are told as calls whatever the provider says");
const CALL_ID: AnswerFate =
    Mapped("kept where the format takes it and it is the only one, else made up");
const NAME: AnswerFate = Mapped("to the caller's name and namespace");
const ARGUMENTS_TO_MESSAGES: AnswerFate =
    Mapped("the object; what is none fails, unless the output limit cut it");
const ONE_CALL: AnswerFate = Mapped("a tool call");
const PAGES: AnswerFate = LeftOut("a citation there names a place in what its provider searched");
const CITED: AnswerFate = Mapped(
    "a citation where the provider was to search the web, without the words that it quotes, its annotation sealed in it; else left out, since a citation there names a place in what its provider searched",
);
const FILES: AnswerFate = LeftOut("a file is known at the provider that stores it alone");
const LOGPROBS: AnswerFate = LeftOut("callers cannot ask for log probabilities");
const SEALED: AnswerFate =
    Mapped("sealed, where the caller takes it: it returns to this provider alone");
const REFUSAL: AnswerFate = Mapped("text, with the stop reason `refusal`");
const SOUND: AnswerFate = LeftOut("sound is not asked for");
