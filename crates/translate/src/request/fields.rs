//! The fields of an opened object, taken one by one.
//!
//! It decides whether a value has the type that its field needs. An object is closed at the
//! end, so that a field which the table calls carried and no reader takes is a fault that is
//! seen, and not a loss that is not.

use super::{
    path::Path,
    scope::{must_be, refuse},
};
use crate::{
    Refusal,
    document::{Kind, Text, Value, is_word},
    table::Shape,
};

/// The most fields that a shape has.
const MAX_FIELDS: usize = 48;

/// An object whose fields the table has judged; what is left is to be taken.
#[derive(Debug)]
pub(crate) struct Fields<'d, 'p> {
    shape: &'static Shape,
    /// Where the object stands.
    pub(crate) path: &'p Path<'p>,
    /// The object itself, by which its values are found.
    object: Value<'d>,
    /// Where the values stand in the document; 0 is nowhere.
    places: [u32; MAX_FIELDS],
    /// Fields that stand in the object, one bit each.
    seen: u64,
    /// Fields whose values are kept.
    kept: u64,
    /// Those of them that are still to be taken.
    left: u64,
}

impl<'d, 'p> Fields<'d, 'p> {
    pub(super) const fn new(object: Value<'d>, shape: &'static Shape, path: &'p Path<'p>) -> Self {
        Self {
            shape,
            path,
            object,
            places: [0; MAX_FIELDS],
            seen: 0,
            kept: 0,
            left: 0,
        }
    }

    /// Notes that a field stands in the object; `false` where it did before.
    pub(super) fn see(&mut self, at: usize) -> bool {
        let bit = bit(at);
        let is_first = self.seen & bit == 0;
        self.seen |= bit;
        is_first
    }

    pub(super) fn keep(&mut self, at: usize, value: Value<'d>) {
        if let Some(place) = self.places.get_mut(at) {
            *place = value.place();
            self.kept |= bit(at);
            self.left |= bit(at);
        }
    }

    /// Takes a field; `None`: it is not there, is `null`, or the table has dealt with it.
    /// Objects have few of the fields that they could have, so only those are looked at.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value<'d>> {
        debug_assert!(
            self.shape.row(name).is_some(),
            "{} has no {name}",
            self.shape.path()
        );
        let mut kept = self.kept;
        while kept != 0 {
            let at = kept.trailing_zeros() as usize;
            let row = self.shape.rows.get(at)?;
            if is_word(name.as_bytes(), row.name) {
                self.left &= !bit(at);
                let place = self.places.get(at)?;
                return Some(self.object.at_place(*place));
            }
            kept &= !bit(at);
        }
        None
    }

    /// Takes a field that must be there.
    pub(crate) fn require(&mut self, name: &str) -> Result<Value<'d>, Refusal> {
        self.take(name)
            .ok_or_else(|| refuse(&self.path.field(name), "is missing"))
    }

    /// Takes a string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<Text<'d>>, Refusal> {
        self.take(name)
            .map(|value| text(value, &self.path.field(name)))
            .transpose()
    }

    /// Takes a string that must be there.
    pub(crate) fn require_text(&mut self, name: &str) -> Result<Text<'d>, Refusal> {
        let value = self.require(name)?;
        text(value, &self.path.field(name))
    }

    /// Takes `true` or `false`.
    pub(crate) fn bool(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        let found = self.take(name);
        let read = found.map(|value| {
            value
                .as_bool()
                .ok_or_else(|| must_be(&self.path.field(name), "true or false", value))
        });
        read.transpose()
    }

    /// Whether a field of the object is `true`, whatever the table says of it.
    pub(crate) fn says(&self, name: &str) -> bool {
        let mut members = self.object.members();
        members.any(|(key, value)| key.is(name) && value.as_bool() == Some(true))
    }

    /// Takes a whole number of at least `least`.
    pub(crate) fn integer(&mut self, name: &str, least: u64) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(number) if number >= least => Ok(Some(number)),
            _ => Err(refuse(
                &self.path.field(name),
                format!("must be a whole number of at least {least}"),
            )),
        }
    }

    /// Takes a number within bounds, as it is written.
    pub(crate) fn number(
        &mut self,
        name: &str,
        least: f64,
        most: f64,
    ) -> Result<Option<Value<'d>>, Refusal> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match value.as_f64() {
            Some(number) if (least..=most).contains(&number) => Ok(Some(value)),
            _ => Err(refuse(
                &self.path.field(name),
                format!("must be a number between {least} and {most}"),
            )),
        }
    }

    /// Takes an array.
    pub(crate) fn array(&mut self, name: &str) -> Result<Option<Value<'d>>, Refusal> {
        self.of_kind(name, Kind::Array)
    }

    /// Takes an object, as a whole.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Value<'d>>, Refusal> {
        self.of_kind(name, Kind::Object)
    }

    fn of_kind(&mut self, name: &str, kind: Kind) -> Result<Option<Value<'d>>, Refusal> {
        match self.take(name) {
            Some(value) if value.kind() != kind => {
                Err(must_be(&self.path.field(name), kind.name(), value))
            }
            other => Ok(other),
        }
    }

    /// Ends the reading of the object.
    ///
    /// # Errors
    /// A field was not taken: the table promises what the reader does not keep.
    pub(crate) fn close(self) -> Result<(), Refusal> {
        match self.shape.rows.get(self.left.trailing_zeros() as usize) {
            None => Ok(()),
            Some(row) => {
                debug_assert!(false, "no reader takes {}.{}", self.shape.path(), row.name);
                let message = "cannot be carried to this model by the gateway";
                Err(refuse(&self.path.field(row.name), message))
            }
        }
    }
}

/// The bit of a field. Shapes are smaller than this; a test says so.
const fn bit(at: usize) -> u64 {
    if at < MAX_FIELDS { 1 << at } else { 0 }
}

/// A value that must be a string.
pub(crate) fn text<'d>(value: Value<'d>, path: &Path<'_>) -> Result<Text<'d>, Refusal> {
    value.text().ok_or_else(|| must_be(path, "a string", value))
}
