//! Entries that are written as a string in short, or as a mapping with all their settings.
//!
//! An untagged enum of serde would be read the same, but would replace every fault inside an entry by
//! one that says nothing.

use super::{CredentialEntry, DeploymentEntry, FormatEntry};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

struct ShortOrFull<T, S, F> {
    short: fn(S) -> T,
    full: fn(F) -> T,
}

impl<'de, T, S: Deserialize<'de>, F: Deserialize<'de>> Visitor<'de> for ShortOrFull<T, S, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a mapping")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        S::deserialize(text.into_deserializer()).map(self.short)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        F::deserialize(MapAccessDeserializer::new(map)).map(self.full)
    }
}

impl<'de> Deserialize<'de> for FormatEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShortOrFull {
            short: Self::Name,
            full: Self::Full,
        })
    }
}

impl<'de> Deserialize<'de> for CredentialEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShortOrFull {
            short: Self::Secret,
            full: Self::Full,
        })
    }
}

impl<'de> Deserialize<'de> for DeploymentEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShortOrFull {
            short: Self::Short,
            full: Self::Full,
        })
    }
}
