//! The rows of the table of answers, and the fates that many of them share.

use super::{
    AnswerFate::{self, Implied, LeftOut, Mapped},
    AnswerFeature, AnswerRow, Feeds,
};

/// Declares the fields of a format's answers: `ROWS`, one a line.
macro_rules! answer_rows {
    ($($row:expr),* $(,)?) => {
        /// The fields of a provider's answer.
        pub(crate) const ROWS: &[$crate::table::AnswerRow] = &[$($row),*];
    };
}
pub(crate) use answer_rows;

const fn row(path: &'static str, feeds: Feeds) -> AnswerRow {
    AnswerRow {
        path,
        feeds,
        whole: false,
        extra: false,
    }
}

/// A field that feeds a feature.
pub(crate) const fn feeds(path: &'static str, feature: AnswerFeature) -> AnswerRow {
    row(path, Feeds::Feature(feature, AnswerFate::Carried))
}

/// A field that every other format treats alike.
pub(crate) const fn both(path: &'static str, fate: AnswerFate) -> AnswerRow {
    row(path, Feeds::Nothing(fate))
}

impl AnswerRow {
    /// The same row, with what becomes of the field where its feature is carried.
    pub(crate) const fn by(mut self, fate: AnswerFate) -> Self {
        if let Feeds::Feature(feature, _) = self.feeds {
            self.feeds = Feeds::Feature(feature, fate);
        }
        self
    }

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
pub(crate) const STOP: AnswerFate = Mapped(
    "to the format's reasons; an answer with calls has the reason of calls, whatever the provider says",
);
pub(crate) const CALL_ID: AnswerFate =
    Mapped("kept where the format takes it and it is the only one, else made up");
pub(crate) const NAME: AnswerFate = Mapped("to the caller's name and namespace");
pub(crate) const ONE_CALL: AnswerFate = Mapped("a tool call");
pub(crate) const FILES: AnswerFate =
    LeftOut("a file is known at the provider that stores it alone");
pub(crate) const SEALED: AnswerFate =
    Mapped("sealed, where the caller takes it: it returns to this provider alone");
pub(crate) const SOUND: AnswerFate = LeftOut("sound is not asked for");
