//! The state of a reader: the direction, the target, and the fields that were left out.
//!
//! It decides how a field that the table refuses, drops or does not know is reported. Which
//! fields those are is the [table](crate::table)'s; what the others mean is the readers'.

use super::{fields::Fields, path::Path};
use crate::{
    Refusal, Target,
    document::{Kind, Text, Value, is_word},
    formats::{SourceRules, TargetRules, rules, source},
    table::{Fate, Kinds, Row, Shape, field_path},
};
use std::borrow::Cow;
use tollgate_types::Format;

/// The direction of a translation and what it has left out so far.
#[derive(Debug)]
pub(crate) struct Scope<'t> {
    pub(crate) from: Format,
    pub(crate) to: Format,
    /// The source's format.
    pub(crate) source: &'static SourceRules,
    /// The target's format.
    pub(crate) rules: &'static TargetRules,
    pub(crate) target: &'t Target<'t>,
    dropped: Vec<String>,
    /// Unknown fields among them.
    unknown: usize,
    /// The first of them that the operator does not allow to be dropped.
    forbidden: Option<String>,
}

/// How much of a caller's own word a message repeats, in characters.
const MAX_NAME: usize = 64;

/// How many unknown fields the notice names one by one. Their names are the caller's, so this
/// bounds the header in which they leave.
const MAX_UNKNOWN: usize = 16;

/// The name that stands in the notice for unknown fields without a name of their own there.
const ANY: &str = "*";

impl<'t> Scope<'t> {
    /// # Errors
    /// No client speaks the source's format.
    pub(crate) fn new(from: Format, to: Format, target: &'t Target<'t>) -> Result<Self, Refusal> {
        let Some(source) = source(from) else {
            let message = format!(
                "requests in the {from} format are not translated, and the model has a provider \
                 that does not speak it: choose a model whose providers do"
            );
            return Err(Refusal::new("", message));
        };
        Ok(Self {
            from,
            to,
            source,
            rules: &rules(to).target,
            target,
            dropped: Vec::new(),
            unknown: 0,
            forbidden: None,
        })
    }

    /// The paths of the fields that were left out with notice, each once, in the order of the request.
    ///
    /// # Errors
    /// The operator does not allow one of the fields to be dropped.
    pub(crate) fn into_dropped(self) -> Result<Vec<String>, Refusal> {
        match &self.forbidden {
            None => Ok(self.dropped),
            Some(path) => {
                let why = "and it must not be dropped (`translation.strict`)";
                Err(Refusal::new(path.as_str(), self.cannot(why)))
            }
        }
    }

    /// The reader of this target's reasoning: the provider, or one model of it.
    pub(crate) fn backend(&self) -> Cow<'t, str> {
        let Target { backend, model, .. } = *self.target;
        match self.rules.binds_reasoning {
            true => [backend, " ", model].concat().into(),
            false => backend.into(),
        }
    }

    /// Notes that a field was left out; `path` is one of the table.
    pub(crate) fn note_dropped(&mut self, path: impl AsRef<str> + Into<String>) {
        if let Some(own) = self.own_path(path.as_ref()) {
            return self.note_dropped(own);
        }
        if !self.dropped.iter().any(|known| known == path.as_ref()) {
            self.forbid(path.as_ref(), path.as_ref());
            self.dropped.push(path.into());
        }
    }

    /// The caller's field that the other formats call by this name.
    fn own_path(&self, path: &str) -> Option<&'static str> {
        let own = self.source.paths.own.iter().find(|(name, _)| *name == path);
        own.map(|(_, own)| *own)
    }

    /// A refusal of the field that the other formats call by this name.
    pub(crate) fn refusal(&self, path: &str, message: impl Into<String>) -> Refusal {
        Refusal::new(self.own_path(path).unwrap_or(path), message)
    }

    /// Remembers the field at `path` if `listed` is what the operator does not allow.
    fn forbid(&mut self, listed: &str, path: &str) {
        if self.forbidden.is_none() && self.target.strict.forbids(listed) {
            self.forbidden = Some(path.to_owned());
        }
    }

    /// Notes that an unknown field was left out. A name that could not stand in a header, or
    /// one too many, is noted as `*`.
    fn note_unknown(&mut self, place: &str, name: &str) {
        let path = field_path(place, name);
        self.forbid(&path, &path);
        self.forbid(&field_path(place, ANY), &path);
        if self.dropped.contains(&path) {
            return;
        }
        if self.unknown < MAX_UNKNOWN && is_plain(name) {
            self.unknown = self.unknown.saturating_add(1);
            self.dropped.push(path);
        } else {
            self.note_dropped(field_path(place, ANY));
        }
    }

    /// Opens an object: judges its fields by the table and keeps those that are read.
    ///
    /// # Errors
    /// It is no object; a field stands twice, is unknown or is refused.
    pub(crate) fn open<'d, 'p>(
        &mut self,
        value: Value<'d>,
        shape: &'static Shape,
        path: &'p Path<'p>,
    ) -> Result<Fields<'d, 'p>, Refusal> {
        if value.kind() != Kind::Object {
            return Err(must_be(path, "an object", value));
        }
        debug_assert!(
            shape.at.contains(&path.place().as_str()),
            "no row for the objects at {path}"
        );
        let mut fields = Fields::new(value, shape, path);
        for (key, value) in value.members() {
            let Some((at, row)) = find_row(shape, key, self.source.spelling) else {
                self.unknown(key, value, shape, path)?;
                continue;
            };
            if !fields.see(at) {
                return Err(refuse(&path.field(row.name), "stands twice in its object"));
            }
            if value.is_null() {
                continue;
            }
            match row.fate_in(self.rules.features) {
                Fate::Carried | Fate::Mapped(_) => fields.keep(at, value),
                Fate::Implied(_) => {}
                Fate::Dropped(_) if row.is_neutral(value) => {}
                Fate::Dropped(_) => {
                    self.note_dropped(field_path(place_of(shape.at, path), row.name))
                }
                Fate::Refused(why) => self.refuse_or_drop(shape.at, row, value, why, path)?,
            }
        }
        Ok(fields)
    }

    /// The meaning of a value of `type`; `None` if the table leaves it out.
    ///
    /// # Errors
    /// The object has no `type`, or one that is unknown or refused.
    pub(crate) fn kind(
        &mut self,
        value: Value<'_>,
        kinds: &'static Kinds,
        path: &Path<'_>,
    ) -> Result<Option<&'static str>, Refusal> {
        debug_assert!(
            kinds.at.contains(&path.place().as_str()),
            "no row for the kinds of objects at {path}"
        );
        let tag = type_of(value, path)?;
        let Some(row) = kinds.rows.iter().find(|row| tag.is(row.name)) else {
            let tag = shown(tag);
            if self.drops(kinds.at, &tag, path) {
                return Ok(None);
            }
            let expected: Vec<_> = kinds
                .rows
                .iter()
                .filter(|row| !matches!(row.fate_in(self.rules.features), Fate::Refused(_)))
                .map(|row| row.name)
                .collect();
            let message = format!("is '{tag}'; expected one of: {}", expected.join(", "));
            return Err(refuse(&path.field("type"), message));
        };
        match row.fate_in(self.rules.features) {
            Fate::Carried | Fate::Mapped(_) => Ok(Some(row.name)),
            Fate::Implied(_) => Ok(None),
            Fate::Dropped(_) => {
                self.note_dropped(field_path(place_of(kinds.at, path), row.name));
                Ok(None)
            }
            Fate::Refused(why) => {
                self.refuse_kind(kinds, row.name, why, path)?;
                Ok(None)
            }
        }
    }

    /// Refuses an object of a kind that the table lets pass, for what it says of itself, unless
    /// the operator lets it be dropped.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn refuse_kind(
        &mut self,
        kinds: &'static Kinds,
        name: &str,
        why: &str,
        path: &Path<'_>,
    ) -> Result<(), Refusal> {
        if self.drops(kinds.at, name, path) {
            return Ok(());
        }
        Err(refuse(
            path,
            format!("of type '{name}' {}", self.cannot(why)),
        ))
    }

    /// Whether the target searches the web by itself.
    pub(crate) fn has_search(&self) -> bool {
        (self.rules.has_search)(self.target)
    }

    /// Whether the operator lets the field or kind of this name be dropped, at one of the places
    /// where the table has it; drops it then.
    fn drops(&mut self, at: &'static [&'static str], name: &str, path: &Path<'_>) -> bool {
        let lossy = self.target.lossy;
        if !at.iter().any(|at| lossy.allows(&field_path(at, name))) {
            return false;
        }
        self.note_dropped(field_path(place_of(at, path), name));
        true
    }

    fn refuse_or_drop(
        &mut self,
        at: &'static [&'static str],
        row: &Row,
        value: Value<'_>,
        why: &str,
        path: &Path<'_>,
    ) -> Result<(), Refusal> {
        if row.is_neutral(value) {
            return Ok(());
        }
        if self.drops(at, row.name, path) {
            return Ok(());
        }
        Err(refuse(&path.field(row.name), self.cannot(why)))
    }

    /// A field that no table has. Of the whole request it may change the meaning, and is refused;
    /// below, where clients keep records of their own in the history, it is dropped with notice.
    fn unknown(
        &mut self,
        key: Text<'_>,
        value: Value<'_>,
        shape: &'static Shape,
        path: &Path<'_>,
    ) -> Result<(), Refusal> {
        if value.is_null() {
            return Ok(());
        }
        let name = shown(key);
        if !shape.path().is_empty() {
            self.note_unknown(place_of(shape.at, path), &name);
            return Ok(());
        }
        if self.drops(shape.at, &name, path) {
            return Ok(());
        }
        let message = format!(
            "is not known to the {} format; take it out, or send the request to a model that is served in it",
            self.from
        );
        Err(refuse(&path.field(&name), message))
    }

    /// "cannot be carried …": why a field is refused in this direction.
    pub(crate) fn cannot(&self, why: &str) -> String {
        format!(
            "cannot be carried to this model, which is served in the {} format: {why}",
            self.to
        )
    }
}

/// The place of a path as the table writes it, out of those of a shape.
pub(crate) fn place_of(at: &'static [&'static str], path: &Path<'_>) -> &'static str {
    let place = path.place();
    let here = at.iter().find(|at| **at == place);
    here.or(at.first()).copied().unwrap_or_default()
}

/// Whether a name can stand in the notice: the caller chose it, and the notice is a header in
/// which commas part the names.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && name.bytes().all(is_plain)
}

/// The row of a field. Keys are compared as they stand; escaped ones are rare.
fn find_row(
    shape: &'static Shape,
    key: Text<'_>,
    spelling: Option<fn(&str) -> Cow<'_, str>>,
) -> Option<(usize, &'static Row)> {
    if let Some(spelling) = spelling {
        return shape.row(&spelling(&key.decode()));
    }
    if key.is_escaped() {
        return shape.row(&key.decode());
    }
    let name = key.json();
    shape
        .rows
        .iter()
        .enumerate()
        .find(|(_, row)| is_word(name, row.name))
}

/// The `type` of an object, before it is opened.
///
/// # Errors
/// It is no object, or has no `type` that is a string.
fn type_of<'d>(value: Value<'d>, path: &Path<'_>) -> Result<Text<'d>, Refusal> {
    if value.kind() != Kind::Object {
        return Err(must_be(path, "an object", value));
    }
    let Some(tag) = value.get("type") else {
        return Err(refuse(&path.field("type"), "is missing"));
    };
    tag.text()
        .ok_or_else(|| must_be(&path.field("type"), "a string", tag))
}

/// A word of the caller's as a message repeats it.
pub(crate) fn shown(text: Text<'_>) -> String {
    let text = text.decode();
    if text.len() <= MAX_NAME {
        return text.into_owned();
    }
    let mut cut: String = text.chars().take(MAX_NAME).collect();
    cut.push('…');
    cut
}

/// A refusal of what stands at `path`.
pub(crate) fn refuse(path: &Path<'_>, message: impl Into<String>) -> Refusal {
    Refusal::new(path.to_string(), message)
}

/// A refusal of a value of the wrong kind.
pub(crate) fn must_be(path: &Path<'_>, wanted: &str, found: Value<'_>) -> Refusal {
    refuse(
        path,
        format!("must be {wanted}, not {}", found.kind().name()),
    )
}
