//! What a message, an item or a content part is, by its `type` and its members.

use super::location::Medium;

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
    Film,
    /// Its payload is text: the source of a document.
    TextSource,
    /// Refers to an item that the provider has stored.
    ItemReference,
    ImageGeneration,
    /// A skill made by a customer of the provider.
    CustomSkill,
}

impl Kind {
    pub(super) fn of(word: &[u8]) -> Self {
        match word {
            b"image" | b"image_url" | b"input_image" | b"computer_screenshot" => Self::Image,
            b"document" | b"document_url" | b"file" | b"input_file" => Self::Document,
            b"input_audio" | b"audio" | b"audio_url" => Self::Audio,
            b"input_video" | b"media" | b"video" | b"video_url" => Self::Film,
            b"text" | b"content" => Self::TextSource,
            b"item_reference" => Self::ItemReference,
            b"image_generation_call" => Self::ImageGeneration,
            b"custom" => Self::CustomSkill,
            _ => Self::Other,
        }
    }

    /// Of a media type, such as `image/png`.
    pub(super) fn of_media_type(word: &[u8]) -> Self {
        let class = word.split(|byte| *byte == b'/').next();
        match class.unwrap_or_default() {
            b"image" => Self::Image,
            b"audio" => Self::Audio,
            b"text" => Self::TextSource,
            _ if word == b"application/pdf" => Self::Document,
            _ => Self::Film,
        }
    }

    /// Whether a type is about tools: a call, its result, or more tools.
    pub(super) fn is_tool_traffic(self, word: &[u8]) -> bool {
        self == Self::Other
            && (word.ends_with(b"_call")
                || word.ends_with(b"_call_output")
                || word.ends_with(b"tool_use")
                || word.ends_with(b"tool_result")
                || word.ends_with(b"_tools")
                || word.starts_with(b"tool_"))
    }

    /// Whether the `id` alone of an item of this kind says what the item is.
    pub(super) fn is_known_by_id(self, members: NodeFlags) -> bool {
        match self {
            Self::ItemReference | Self::CustomSkill => true,
            Self::Untyped => !members.contains(NodeFlags::ROLE),
            Self::ImageGeneration => !members.contains(NodeFlags::RESULT),
            _ => false,
        }
    }

    /// The media in a node with these members.
    pub(super) fn media(self, members: NodeFlags) -> NodeFlags {
        let held = members.only(NodeFlags::MEDIA);
        if held != NodeFlags::default() {
            return held;
        }
        let by_source = members.contains(NodeFlags::SOURCE);
        let by_file = members.contains(NodeFlags::FILE);
        match self {
            Self::ImageGeneration if members.contains(NodeFlags::RESULT) => NodeFlags::IMAGE,
            Self::Image if by_source || by_file => NodeFlags::IMAGE,
            Self::Document if by_source || by_file => NodeFlags::DOCUMENT,
            Self::Film => NodeFlags::OTHER,
            _ if by_source => NodeFlags::OTHER,
            _ => NodeFlags::default(),
        }
    }
}

/// The members of a node that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFlags(u16);

impl NodeFlags {
    pub(crate) const IMAGE: Self = Self(1);
    pub(crate) const DOCUMENT: Self = Self(1 << 1);
    pub(crate) const AUDIO: Self = Self(1 << 2);
    /// Other media.
    pub(crate) const OTHER: Self = Self(1 << 3);
    const MEDIA: Self = Self(0b1111);
    /// A `source` that is not text.
    pub(crate) const SOURCE: Self = Self(1 << 4);
    /// A payload that may be an image.
    pub(crate) const RESULT: Self = Self(1 << 5);
    /// A `role`.
    pub(crate) const ROLE: Self = Self(1 << 6);
    /// The identifier of a stored file.
    pub(crate) const FILE: Self = Self(1 << 7);
    /// Of an item: more than its type, role, id and status.
    pub(crate) const SUBSTANCE: Self = Self(1 << 8);
    /// Of a message: a `content`.
    pub(crate) const CONTENT: Self = Self(1 << 9);
    /// A `type`.
    pub(crate) const TYPED: Self = Self(1 << 10);
    /// Of a tool: a name.
    pub(crate) const NAMED: Self = Self(1 << 11);
    /// Of a tool: an object `function`.
    pub(crate) const FUNCTION: Self = Self(1 << 12);
    /// Of a tool: the type `function`.
    pub(crate) const IS_FUNCTION: Self = Self(1 << 13);
    /// Of a tool: the type `custom`.
    pub(crate) const IS_CUSTOM: Self = Self(1 << 14);

    pub(super) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl From<Medium> for NodeFlags {
    fn from(medium: Medium) -> Self {
        match medium {
            Medium::Image => Self::IMAGE,
            Medium::Document => Self::DOCUMENT,
            Medium::Audio => Self::AUDIO,
            Medium::Other => Self::OTHER,
        }
    }
}
