//! The wire formats, and a value for each of them.

use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::fmt;
use std::ops::{Index, IndexMut};

/// A wire format: how a client or a provider writes requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Format {
    /// OpenAI Chat Completions, `POST /v1/chat/completions`.
    Chat,
    /// OpenAI Responses, `POST /v1/responses`.
    Responses,
    /// Anthropic Messages, `POST /v1/messages`.
    Messages,
    /// Google Gemini, `POST /v1beta/models/{model}:generateContent`.
    Gemini,
    /// Amazon Bedrock Converse, `POST /model/{model}/converse`. Only providers use it.
    Converse,
    /// Vectors of texts, `POST /v1/embeddings`. For providers with another API, the gateway translates.
    Embeddings,
    /// Documents in the order of their relevance to a query, `POST /v1/rerank`.
    Rerank,
}

impl Format {
    /// The number of formats.
    pub const COUNT: usize = 7;

    /// Every format, in the order in which documents and metrics list them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Chat,
        Self::Responses,
        Self::Messages,
        Self::Gemini,
        Self::Converse,
        Self::Embeddings,
        Self::Rerank,
    ];

    /// The formats of conversations, in the same order. Requests of the others are never translated
    /// into another format.
    pub const OF_CONVERSATIONS: [Self; 5] = [
        Self::Chat,
        Self::Responses,
        Self::Messages,
        Self::Gemini,
        Self::Converse,
    ];

    /// The formats of clients whose requests are translated.
    pub const OF_CLIENTS: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    /// The name of a request that is charged, in records and metrics: `passthrough` for one that is
    /// forwarded unread.
    pub const fn name_of(format: Option<Self>) -> &'static str {
        match format {
            Some(format) => format.as_str(),
            None => "passthrough",
        }
    }

    /// The name used in configuration, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
            Self::Converse => "converse",
            Self::Embeddings => "embeddings",
            Self::Rerank => "rerank",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A value for every format.
///
/// A literal names each format, so a new format is a compile error wherever one
/// is missing. This replaces arrays that rely on the order of [`Format::ALL`] and
/// matches that stand far from the format.
///
/// ```
/// use tollgate_types::{Format, PerFormat};
///
/// let paths = PerFormat {
///     chat: "/v1/chat/completions",
///     responses: "/v1/responses",
///     messages: "/v1/messages",
///     gemini: "/v1beta/models/{model}:generateContent",
///     converse: "/model/{model}/converse",
///     embeddings: "/v1/embeddings",
///     rerank: "/v1/rerank",
/// };
/// assert_eq!(paths[Format::Messages], "/v1/messages");
/// let lengths = PerFormat::from_fn(|format| paths[format].len());
/// assert_eq!(lengths.iter().map(|(_, length)| length).max(), Some(&38));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PerFormat<T> {
    /// The value for [`Format::Chat`].
    pub chat: T,
    /// The value for [`Format::Responses`].
    pub responses: T,
    /// The value for [`Format::Messages`].
    pub messages: T,
    /// The value for [`Format::Gemini`].
    pub gemini: T,
    /// The value for [`Format::Converse`].
    pub converse: T,
    /// The value for [`Format::Embeddings`].
    pub embeddings: T,
    /// The value for [`Format::Rerank`].
    pub rerank: T,
}

impl<T> PerFormat<T> {
    /// Builds the value of each format, in the order of [`Format::ALL`].
    pub fn from_fn(mut value: impl FnMut(Format) -> T) -> Self {
        let Ok(values) = Self::try_from_fn(|format| Ok::<_, Infallible>(value(format)));
        values
    }

    /// Like [`PerFormat::from_fn`]; stops at the first error.
    ///
    /// # Errors
    ///
    /// The first error that `value` returns.
    pub fn try_from_fn<E>(mut value: impl FnMut(Format) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self {
            chat: value(Format::Chat)?,
            responses: value(Format::Responses)?,
            messages: value(Format::Messages)?,
            gemini: value(Format::Gemini)?,
            converse: value(Format::Converse)?,
            embeddings: value(Format::Embeddings)?,
            rerank: value(Format::Rerank)?,
        })
    }

    /// The value of `format`, for constants; elsewhere `values[format]` is shorter.
    #[inline]
    pub const fn get(&self, format: Format) -> &T {
        match format {
            Format::Chat => &self.chat,
            Format::Responses => &self.responses,
            Format::Messages => &self.messages,
            Format::Gemini => &self.gemini,
            Format::Converse => &self.converse,
            Format::Embeddings => &self.embeddings,
            Format::Rerank => &self.rerank,
        }
    }

    /// The formats with their values, in the order of [`Format::ALL`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Format, &T)> {
        Format::ALL
            .into_iter()
            .map(|format| (format, &self[format]))
    }
}

impl<T> Index<Format> for PerFormat<T> {
    type Output = T;

    #[inline]
    fn index(&self, format: Format) -> &T {
        self.get(format)
    }
}

impl<T> IndexMut<Format> for PerFormat<T> {
    #[inline]
    fn index_mut(&mut self, format: Format) -> &mut T {
        match format {
            Format::Chat => &mut self.chat,
            Format::Responses => &mut self.responses,
            Format::Messages => &mut self.messages,
            Format::Gemini => &mut self.gemini,
            Format::Converse => &mut self.converse,
            Format::Embeddings => &mut self.embeddings,
            Format::Rerank => &mut self.rerank,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_its_own_value() {
        let mut names = PerFormat::from_fn(|format| format.as_str().to_owned());
        for format in Format::ALL {
            assert_eq!(names[format], format.as_str());
            assert_eq!(names.get(format), format.as_str());
            names[format].push('!');
        }
        let listed: Vec<_> = names.iter().collect();
        assert_eq!(listed.len(), Format::COUNT);
        for ((format, name), expected) in listed.into_iter().zip(Format::ALL) {
            assert_eq!(format, expected, "the order is that of the list");
            assert_eq!(*name, format!("{format}!"));
        }
    }

    #[test]
    fn the_first_error_ends_the_building() {
        let mut asked = Vec::new();
        let built = PerFormat::try_from_fn(|format| {
            asked.push(format);
            if format == Format::Responses {
                Err(format)
            } else {
                Ok(())
            }
        });
        assert_eq!(built, Err(Format::Responses));
        assert_eq!(asked, [Format::Chat, Format::Responses]);
    }
}
