//! The fate of each field of each format, in every direction. The readers are driven by this
//! table, the tests walk it, and `docs/reference/translation.md` is written from it.
//!
//! A [`Shape`] is one kind of object, a [`Row`] one field of it. Readers open an object by
//! its shape: what the table refuses or drops never reaches them. A field that has no row is
//! refused at the top level and dropped with notice below. [`Kinds`] do the same for objects that say what they are in their `type`.

use crate::{
    document::{Value, is_word},
    features::{Feature, TargetFeatures},
    formats::{rules, source},
};
use std::collections::BTreeSet;
use tollgate_types::Format;

/// The fate of a field in one direction.
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
    feeds: Feeds,
    /// Values (as JSON) that ask for nothing: they pass where the field is refused or
    /// dropped, however they are written. `null` always does.
    pub neutral: &'static [&'static str],
    /// Whether the value is passed on or judged as a whole, so that no table describes
    /// what is in it.
    pub whole: bool,
    /// Whether the field is known from providers and not from the official SDKs.
    pub extra: bool,
}

/// The purpose of a field.
#[derive(Clone, Copy, Debug)]
enum Feeds {
    /// A feature of the conversation. The text says how the field is read, if it is not simply
    /// the feature.
    Feature(Feature, &'static str),
    /// None: the same happens to the field in every other format.
    Nothing(Fate),
}

impl Row {
    /// The same row, with how the field is read.
    pub(crate) const fn how(mut self, how: &'static str) -> Self {
        if let Feeds::Feature(feature, _) = self.feeds {
            self.feeds = Feeds::Feature(feature, how);
        }
        self
    }

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

    /// The feature that the field feeds; `None` if every other format treats it alike.
    pub const fn feature(&self) -> Option<Feature> {
        match self.feeds {
            Feeds::Feature(feature, _) => Some(feature),
            Feeds::Nothing(_) => None,
        }
    }

    /// The fate of the field on its way into another format.
    pub fn fate(&self, to: Format) -> Fate {
        self.fate_in(rules(to).target.features)
    }

    /// The fate of the field in a format with these features.
    pub(crate) fn fate_in(&self, target: &TargetFeatures) -> Fate {
        match self.feeds {
            Feeds::Nothing(fate) => fate,
            Feeds::Feature(feature, how) => match target.fate(feature) {
                Fate::Carried | Fate::Mapped(_) if !how.is_empty() => Fate::Mapped(how),
                fate => fate,
            },
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
    /// Where they stand, as in [`Shape::at`].
    pub at: &'static [&'static str],
    /// One row for each value of `type`.
    pub rows: &'static [Row],
}

/// Declares shapes and lists them: where they stand, their tags, their rows.
macro_rules! declare_shapes {
    ($($(#[$doc:meta])* $name:ident: $at:expr, $tags:expr => $rows:expr;)*) => {
        $($(#[$doc])* pub(crate) static $name: $crate::table::Shape = $crate::table::Shape {
            at: $at,
            tags: $tags,
            rows: $rows,
        };)*

        pub(crate) const SHAPES: &[&$crate::table::Shape] = &[$(&$name),*];
    };
}

/// Declares kinds of objects and lists them: where they stand, their rows.
macro_rules! declare_kinds {
    ($($(#[$doc:meta])* $name:ident: $at:expr => $rows:expr;)*) => {
        $($(#[$doc])* pub(crate) static $name: $crate::table::Kinds = $crate::table::Kinds {
            at: $at,
            rows: $rows,
        };)*

        pub(crate) const KINDS: &[&$crate::table::Kinds] = &[$(&$name),*];
    };
}

pub(crate) use {declare_kinds, declare_shapes};

/// Every shape of a format, the body first.
pub fn shapes(format: Format) -> impl Iterator<Item = &'static Shape> {
    source(format)
        .map_or(&[][..], |source| source.shapes)
        .iter()
        .copied()
        .flatten()
        .copied()
}

/// Every set of kinds of a format.
pub fn kinds(format: Format) -> impl Iterator<Item = &'static Kinds> {
    source(format)
        .map_or(&[][..], |source| source.kinds)
        .iter()
        .copied()
        .flatten()
        .copied()
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
    let fields = Format::OF_CONVERSATIONS
        .into_iter()
        .flat_map(shapes)
        .flat_map(|shape| all(shape.at, shape.rows));
    let objects = Format::OF_CONVERSATIONS
        .into_iter()
        .flat_map(kinds)
        .flat_map(|kinds| all(kinds.at, kinds.rows));
    fields.chain(objects).collect()
}

/// Whether a notice can name a field by this path: one of the table, or an unknown one (`*`: any)
/// in an object below the top level that readers look into.
pub fn is_droppable(path: &str) -> bool {
    let is_below = |place: &str| {
        let mut all = Format::OF_CONVERSATIONS.into_iter().flat_map(shapes);
        !place.is_empty() && all.any(|shape| shape.at.contains(&place))
    };
    paths().contains(path)
        || path
            .rsplit_once('.')
            .is_some_and(|(place, _)| is_below(place))
}

const fn row(name: &'static str, feeds: Feeds) -> Row {
    Row {
        name,
        feeds,
        neutral: &[],
        whole: false,
        extra: false,
    }
}

/// A field that feeds a feature.
pub(crate) const fn field(name: &'static str, feature: Feature) -> Row {
    row(name, Feeds::Feature(feature, ""))
}

/// A field that every format carries.
pub(crate) const fn core(name: &'static str) -> Row {
    field(name, Feature::Core)
}

/// A field that every other format implies.
pub(crate) const fn implied(name: &'static str, why: &'static str) -> Row {
    row(name, Feeds::Nothing(Fate::Implied(why)))
}

/// A field that is dropped whatever the target.
pub(crate) const fn dropped(name: &'static str, why: &'static str) -> Row {
    row(name, Feeds::Nothing(Fate::Dropped(why)))
}

/// A field that is refused whatever the target.
pub(crate) const fn refused(name: &'static str, why: &'static str) -> Row {
    row(name, Feeds::Nothing(Fate::Refused(why)))
}

/// The `type` or `role` by which the shape was chosen.
pub(crate) const fn tag(name: &'static str) -> Row {
    implied(name, "the kind of object says it")
}

/// The user's approximate location, for a search of the web.
pub(crate) const LOCATION: &[Row] = &[
    tag("type"),
    core("city"),
    core("country"),
    core("region"),
    core("timezone"),
];

pub(crate) const CARRIED: Fate = Fate::Carried;

pub(crate) const fn mapped(how: &'static str) -> Fate {
    Fate::Mapped(how)
}

#[cfg(test)]
mod tests;
