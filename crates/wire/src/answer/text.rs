//! How much text an answer has. Streams repeat text; each text counts once.

/// What the text of an event is to that of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TextClass {
    /// A piece that follows the pieces before.
    #[default]
    Piece,
    /// A text whose pieces may have come before: `response.output_text.done` and its like.
    Text,
    /// A part of an item; its text may have come before.
    Part,
    /// An item that begins.
    Item,
    /// An item that ends, with all its text.
    ItemEnd,
    /// The whole answer.
    Whole,
    /// Sound in base64: no text.
    Sound,
}

/// The classes of text within an item.
const WITHIN: usize = 4;

impl TextClass {
    /// The class of every document of a format that repeats no text.
    pub(crate) const fn piece(_name: &[u8]) -> Self {
        Self::Piece
    }
}

/// The text of one event, or of one body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventText {
    pub(crate) class: TextClass,
    plain: u64,
    /// The same reasoning under up to three names.
    reasoning: [u64; 3],
}

impl EventText {
    /// Adds bytes: of the reasoning under one of its names, or of any other text.
    pub(super) fn add(&mut self, reasoning: Option<usize>, bytes: u64) {
        let place = reasoning.and_then(|place| self.reasoning.get_mut(place));
        let place = place.unwrap_or(&mut self.plain);
        *place = place.saturating_add(bytes);
    }

    /// Bytes of text, unescaped.
    pub(crate) fn bytes(self) -> u64 {
        let reasoning = self.reasoning.into_iter().max().unwrap_or_default();
        self.plain.saturating_add(reasoning)
    }
}

/// How much text a stream had so far.
///
/// Text that an item repeats at its end replaces its pieces, and the whole answer replaces
/// everything before; the greater counts. Items are assumed to follow each other: if two are open
/// at once, text that the first one repeats late can count twice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamText {
    /// Of the items that have ended.
    ended: u64,
    /// Since then, by class.
    within: [u64; WITHIN],
    whole: u64,
}

impl StreamText {
    /// Adds the text of an event of this class.
    #[inline]
    pub(crate) fn add(&mut self, class: TextClass, bytes: u64) {
        let place = match class {
            TextClass::Piece => 0,
            TextClass::Text => 1,
            TextClass::Part => 2,
            TextClass::Item => 3,
            TextClass::ItemEnd => {
                self.ended = self.ended.saturating_add(self.within().max(bytes));
                self.within = [0; WITHIN];
                return;
            }
            TextClass::Whole => {
                self.whole = self.whole.max(bytes);
                return;
            }
            TextClass::Sound => return,
        };
        if let Some(sum) = self.within.get_mut(place) {
            *sum = sum.saturating_add(bytes);
        }
    }

    fn within(&self) -> u64 {
        self.within.into_iter().max().unwrap_or_default()
    }

    /// Bytes of text so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.ended.saturating_add(self.within()).max(self.whole)
    }
}
