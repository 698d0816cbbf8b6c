//! What becomes of each field of each format, in every direction: one table that the
//! readers are driven by, that the tests walk, and that `docs/translation.md` is written from.
//!
//! A [`Shape`] is one kind of object, a [`Row`] one field of it. Readers open an object by
//! its shape: what the table refuses or drops never reaches them. A field that has no row is
//! refused at the top level and dropped with notice below. [`Kinds`] do the same for objects that say what they are in their `type`.

mod page;

pub use page::page;

use crate::{
    document::{Value, is_word},
    formats,
};
use std::collections::BTreeSet;
use tollgate_types::Format;

/// What becomes of a field in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It says the same there, under the same or another name.
    Carried,
    /// It is said in another way, or within limits: how.
    Mapped(&'static str),
    /// It says nothing that the translation does not say by itself: why. Left out without
    /// notice, because nothing is lost.
    Implied(&'static str),
    /// A hint that the target has no word for: left out with notice, and why.
    Dropped(&'static str),
    /// It cannot be said there: 400 with its name, and why. An operator may allow it to be
    /// dropped with notice.
    Refused(&'static str),
}

impl Fate {
    /// Whether a reader gets to see the field.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Carried | Self::Mapped(_))
    }

    /// The fate in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::Mapped(_) => "mapped",
            Self::Implied(_) => "implied",
            Self::Dropped(_) => "dropped",
            Self::Refused(_) => "refused",
        }
    }

    /// How or why; empty for a field that is just carried.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Carried => "",
            Self::Mapped(text)
            | Self::Implied(text)
            | Self::Dropped(text)
            | Self::Refused(text) => text,
        }
    }
}

/// One field, or one value of `type`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The field's name, or the value of `type`.
    pub name: &'static str,
    /// What becomes of it in the two other formats, in the order of [`Format::ALL`].
    fates: [Fate; 2],
    /// Values (as JSON) that ask for nothing: they pass where the field is refused or
    /// dropped, however they are written. `null` always does.
    pub neutral: &'static [&'static str],
    /// Whether the value is passed on or judged as a whole, so that no table describes
    /// what is in it.
    pub whole: bool,
    /// Whether the field is known from providers and not from the official SDKs.
    pub extra: bool,
}

impl Row {
    /// The same row, with values that ask for nothing.
    pub(crate) const fn unless(mut self, neutral: &'static [&'static str]) -> Self {
        self.neutral = neutral;
        self
    }

    /// The same row, of a value that is taken as a whole.
    pub(crate) const fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// The same row, of a field that the SDKs do not know.
    pub(crate) const fn extra(mut self) -> Self {
        self.extra = true;
        self
    }

    /// What becomes of the field on its way from `from` to `to`. Within a format
    /// everything is carried: nothing is translated.
    pub fn fate(&self, from: Format, to: Format) -> Fate {
        let [first, second] = self.fates;
        match (from, to) {
            (Format::Chat, Format::Responses)
            | (Format::Responses | Format::Messages, Format::Chat) => first,
            (Format::Chat | Format::Responses, Format::Messages)
            | (Format::Messages, Format::Responses) => second,
            _ => Fate::Carried,
        }
    }

    /// Whether a value asks for nothing, however it is written.
    pub(crate) fn is_neutral(&self, value: Value<'_>) -> bool {
        self.neutral.iter().any(|neutral| value.says(neutral))
    }
}

/// One kind of object.
#[derive(Debug)]
pub struct Shape {
    /// The format it belongs to.
    pub format: Format,
    /// Where it stands: paths like `messages[].content[]`, the body itself being `""`. Readers
    /// open objects of this shape there and nowhere else.
    pub at: &'static [&'static str],
    /// Which of the objects there: the values of `type`, or of `role`. Empty: all.
    pub tags: &'static [&'static str],
    /// Its fields.
    pub rows: &'static [Row],
}

impl Shape {
    /// The first of its places: for the body `""`.
    pub fn path(&self) -> &'static str {
        self.at.first().copied().unwrap_or_default()
    }

    /// The row of a field and its place.
    pub fn row(&self, name: &str) -> Option<(usize, &'static Row)> {
        self.rows
            .iter()
            .enumerate()
            .find(|(_, row)| is_word(name.as_bytes(), row.name))
    }
}

/// The kinds of objects that stand at a place, by the value of `type`.
#[derive(Debug)]
pub struct Kinds {
    /// The format.
    pub format: Format,
    /// Where they stand, as in [`Shape::at`].
    pub at: &'static [&'static str],
    /// One row for each value of `type`.
    pub rows: &'static [Row],
}

/// Every shape of a format, the body first.
pub fn shapes(format: Format) -> &'static [&'static Shape] {
    match format {
        Format::Chat => formats::chat::request_fields::SHAPES,
        Format::Responses => formats::responses::request_fields::SHAPES,
        Format::Messages => formats::messages::request_fields::SHAPES,
    }
}

/// Every set of kinds of a format.
pub fn kinds(format: Format) -> &'static [&'static Kinds] {
    match format {
        Format::Chat => formats::chat::request_fields::KINDS,
        Format::Responses => formats::responses::request_fields::KINDS,
        Format::Messages => formats::messages::request_fields::KINDS,
    }
}

/// The path under which a field is dropped, and which an operator lists under `lossy: allow`.
pub fn field_path(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

/// The path of every field and of every kind of object, for an operator's list to be checked
/// against.
pub fn paths() -> BTreeSet<String> {
    let all = |at: &'static [&'static str], rows: &'static [Row]| {
        let at = at.iter();
        at.flat_map(move |path| rows.iter().map(move |row| field_path(path, row.name)))
    };
    let fields = Format::ALL
        .into_iter()
        .flat_map(shapes)
        .flat_map(|shape| all(shape.at, shape.rows));
    let objects = Format::ALL
        .into_iter()
        .flat_map(kinds)
        .flat_map(|kinds| all(kinds.at, kinds.rows));
    fields.chain(objects).collect()
}

/// Whether a notice can name a field by this path: one of the table, or an unknown one (`*`: any)
/// in an object below the top level that readers look into.
pub fn is_droppable(path: &str) -> bool {
    let is_below = |place: &str| {
        let mut all = Format::ALL.into_iter().flat_map(shapes);
        !place.is_empty() && all.any(|shape| shape.at.contains(&place))
    };
    paths().contains(path)
        || path
            .rsplit_once('.')
            .is_some_and(|(place, _)| is_below(place))
}

/// A row with a fate for each of the two other formats, in the order of [`Format::ALL`].
pub(crate) const fn row(name: &'static str, first: Fate, second: Fate) -> Row {
    Row {
        name,
        fates: [first, second],
        neutral: &[],
        whole: false,
        extra: false,
    }
}

/// A row with the same fate in both directions.
pub(crate) const fn both(name: &'static str, fate: Fate) -> Row {
    row(name, fate, fate)
}

/// The `type` or `role` by which the shape was chosen.
pub(crate) const fn tag(name: &'static str) -> Row {
    both(name, Fate::Implied("the kind of object says it"))
}

pub(crate) const CARRIED: Fate = Fate::Carried;

/// What becomes of stop sequences where the target's format has none.
pub(crate) const STOPS: &str =
    "the gateway ends the answer at the sequence (16 at most, of 1,024 bytes at most), with notice";

/// About where the user is, for a search of the web: both formats that have one say it alike.
pub(crate) const LOCATION: &[Row] = &[
    tag("type"),
    both("city", CARRIED),
    both("country", CARRIED),
    both("region", CARRIED),
    both("timezone", CARRIED),
];

pub(crate) const fn mapped(how: &'static str) -> Fate {
    Fate::Mapped(how)
}

pub(crate) const fn implied(why: &'static str) -> Fate {
    Fate::Implied(why)
}

pub(crate) const fn dropped(why: &'static str) -> Fate {
    Fate::Dropped(why)
}

pub(crate) const fn refused(why: &'static str) -> Fate {
    Fate::Refused(why)
}

#[cfg(test)]
mod tests;
