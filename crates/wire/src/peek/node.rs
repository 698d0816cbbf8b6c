//! What a message, an item or a content part is, told by its `type` and by what it holds.

use super::place::Medium;

/// The types of nodes that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No `type` was given.
    Untyped,
    /// A type without a rule.
    Other,
    Image,
    Document,
    Audio,
    /// A payload is text: the source of a document.
    TextSource,
    /// Stands for an item that the provider has stored.
    ItemReference,
    ImageGeneration,
    /// A skill that a customer of the provider made.
    CustomSkill,
}

impl Kind {
    pub(super) fn of(word: &[u8]) -> Self {
        match word {
            b"image" | b"image_url" | b"input_image" | b"computer_screenshot" => Self::Image,
            b"document" | b"document_url" | b"file" | b"input_file" => Self::Document,
            b"input_audio" | b"audio" | b"audio_url" => Self::Audio,
            b"text" | b"content" => Self::TextSource,
            b"item_reference" => Self::ItemReference,
            b"image_generation_call" => Self::ImageGeneration,
            b"custom" => Self::CustomSkill,
            _ => Self::Other,
        }
    }

    /// Whether a type tells of tools: a call, its result, or more tools.
    pub(super) fn is_tool_traffic(self, word: &[u8]) -> bool {
        self == Self::Other
            && (word.ends_with(b"_call")
                || word.ends_with(b"_call_output")
                || word.ends_with(b"tool_use")
                || word.ends_with(b"tool_result")
                || word.ends_with(b"_tools")
                || word.starts_with(b"tool_"))
    }

    /// Whether an item of this kind says with its `id` alone what it is.
    pub(super) fn is_known_by_id(self, marks: Marks) -> bool {
        match self {
            Self::ItemReference | Self::CustomSkill => true,
            Self::Untyped => !marks.contains(Marks::ROLE),
            Self::ImageGeneration => !marks.contains(Marks::RESULT),
            _ => false,
        }
    }

    /// The media that a node with these marks has in it.
    pub(super) fn media(self, marks: Marks) -> Marks {
        let held = marks.only(Marks::MEDIA);
        if held != Marks::default() {
            return held;
        }
        let by_source = marks.contains(Marks::SOURCE);
        let by_file = marks.contains(Marks::FILE);
        match self {
            Self::ImageGeneration if marks.contains(Marks::RESULT) => Marks::IMAGE,
            Self::Image if by_source || by_file => Marks::IMAGE,
            Self::Document if by_source || by_file => Marks::DOCUMENT,
            _ if by_source => Marks::OTHER,
            _ => Marks::default(),
        }
    }
}

/// What a node was seen to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u16);

impl Marks {
    pub(super) const IMAGE: Self = Self(1);
    pub(super) const DOCUMENT: Self = Self(1 << 1);
    pub(super) const AUDIO: Self = Self(1 << 2);
    /// Media of another sort.
    pub(super) const OTHER: Self = Self(1 << 3);
    const MEDIA: Self = Self(0b1111);
    /// A `source` that is no text.
    pub(super) const SOURCE: Self = Self(1 << 4);
    /// A payload that may be an image.
    pub(super) const RESULT: Self = Self(1 << 5);
    /// A `role`.
    pub(super) const ROLE: Self = Self(1 << 6);
    /// The identifier of a stored file.
    pub(super) const FILE: Self = Self(1 << 7);
    /// Of an item: more than what it is and which.
    pub(super) const CONTENTS: Self = Self(1 << 8);
    /// Of a message: a `content`.
    pub(super) const SAID: Self = Self(1 << 9);
    /// A `type`.
    pub(super) const TYPED: Self = Self(1 << 10);
    /// Of a tool: a name.
    pub(super) const NAMED: Self = Self(1 << 11);
    /// Of a tool: an object `function`.
    pub(super) const FUNCTION: Self = Self(1 << 12);
    /// Of a tool: the type `function`.
    pub(super) const IS_FUNCTION: Self = Self(1 << 13);
    /// Of a tool: the type `custom`.
    pub(super) const IS_CUSTOM: Self = Self(1 << 14);

    pub(super) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl From<Medium> for Marks {
    fn from(medium: Medium) -> Self {
        match medium {
            Medium::Image => Self::IMAGE,
            Medium::Document => Self::DOCUMENT,
            Medium::Audio => Self::AUDIO,
            Medium::Other => Self::OTHER,
        }
    }
}
