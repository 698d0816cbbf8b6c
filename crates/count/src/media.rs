//! The cost of images, documents and sound: the rules that the families publish, applied to the
//! first bytes of a payload. No payload is decoded whole.

mod header;

use crate::round;
pub(crate) use header::{is_base64, size_of_image};

/// Width and height of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

/// How much of an image the caller wants the model to see: `detail` of chat and responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// A thumbnail.
    Low,
    /// All of it that the model takes; also where the model chooses.
    #[default]
    Full,
}

impl Detail {
    pub(crate) fn of(word: &str) -> Self {
        if word == "low" { Self::Low } else { Self::Full }
    }
}

/// The cost of an image in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ImageRule {
    /// OpenAI, gpt-4o, gpt-4.1, gpt-5, o1, o3: shrunk into 2048 × 2048, then to a short side of
    /// 768; a base and a price for every tile of 512 × 512. Low detail costs the base alone.
    Tiles {
        /// Tokens of every image.
        base: u32,
        /// Tokens of a tile.
        tile: u32,
    },
    /// OpenAI, the small models and those since gpt-5.4: patches of 32 × 32, shrunk until no
    /// more than `most` are left, times a factor.
    Patches {
        /// Patches at most.
        most: u32,
        /// Tokens of a patch.
        factor: f32,
    },
    /// Anthropic: shrunk to a long side, then 750 pixels a token.
    Area {
        /// Pixels of the long side at most.
        long_side: u32,
        /// Tokens at most.
        most: u32,
    },
    /// Google: 258 tokens where both sides have at most 384 pixels, else shrunk into
    /// 3072 × 3072, and as much for every tile, whose side is two thirds of the short side and
    /// from 256 to 768 pixels.
    Crops,
    /// The same for every image.
    Flat {
        /// Tokens of an image.
        tokens: u32,
    },
}

/// The assumed size of an unknown image: it is given by address, stored at the
/// provider, or of a format that is not read here.
const TYPICAL: Size = Size {
    width: 1024,
    height: 1024,
};

impl ImageRule {
    /// The tokens of an image; of one of unknown size, those of a typical one.
    pub fn tokens(self, size: Option<Size>, detail: Detail) -> u64 {
        let Size { width, height } = size.unwrap_or(TYPICAL);
        let (width, height) = (f64::from(width.max(1)), f64::from(height.max(1)));
        match self {
            Self::Tiles { base, .. } if detail == Detail::Low => base.into(),
            Self::Tiles { base, tile } => {
                let scale = shrink(2048.0, width.max(height));
                let scale = scale * shrink(768.0, width.min(height) * scale);
                let tiles = cells(width * scale, 512.0) * cells(height * scale, 512.0);
                u64::from(base).saturating_add(round::nearest(tiles).saturating_mul(tile.into()))
            }
            Self::Patches { most, factor } => {
                // Low detail is the image in 512 × 512.
                let scale = match detail {
                    Detail::Low => shrink(512.0, width.max(height)),
                    Detail::Full => 1.0,
                };
                let patches = patches(width * scale, height * scale, most.into());
                round::up(patches * f64::from(factor))
            }
            Self::Area { long_side, most } => {
                let scale = shrink(long_side.into(), width.max(height));
                let tokens = width * height * scale * scale / 750.0;
                round::up(tokens.min(most.into()))
            }
            Self::Crops if width.max(height) <= 384.0 => CROP,
            Self::Crops => {
                let scale = shrink(CROPPED, width.max(height));
                let (width, height) = (width * scale, height * scale);
                let side = (width.min(height) / 1.5).floor().clamp(256.0, 768.0);
                let crops = cells(width, side) * cells(height, side);
                round::nearest(crops).saturating_mul(CROP)
            }
            Self::Flat { tokens } => tokens.into(),
        }
    }

    /// The most tokens that an image of any size has: at most [`tollgate_types::MOST_OF_A_MEDIUM`].
    pub fn most(self, detail: Detail) -> u64 {
        match (self, detail) {
            (Self::Tiles { .. } | Self::Patches { .. }, Detail::Low) => self.tokens(None, detail),
            // 2048 × 768.
            (Self::Tiles { base, tile }, Detail::Full) => {
                u64::from(base).saturating_add(u64::from(tile).saturating_mul(8))
            }
            (Self::Patches { most, factor }, Detail::Full) => {
                round::up(f64::from(most) * f64::from(factor))
            }
            (Self::Area { most, .. }, _) => most.into(),
            // 3072 × 384: twelve tiles by two.
            (Self::Crops, _) => 24 * CROP,
            (Self::Flat { tokens }, _) => tokens.into(),
        }
    }
}

/// The longest side of an image that Google cuts into tiles.
const CROPPED: f64 = 3072.0;
/// Tokens of a crop of Google's.
const CROP: u64 = 258;

/// The factor that brings a side down to a limit; nothing is made larger.
fn shrink(limit: f64, side: f64) -> f64 {
    (limit / side).min(1.0)
}

fn cells(side: f64, cell: f64) -> f64 {
    // Sides that were scaled to a limit miss it by a rounding.
    (side / cell - 1e-9).ceil().max(1.0)
}

/// Patches of 32 × 32 after shrinking to a number of them.
fn patches(width: f64, height: f64, most: f64) -> f64 {
    let all = cells(width, 32.0) * cells(height, 32.0);
    if all <= most {
        return all;
    }
    let scale = (32.0 * 32.0 * most / (width * height)).sqrt();
    let (across, down) = (width * scale / 32.0, height * scale / 32.0);
    let fit = (across.floor() / across).min(down.floor() / down);
    (cells(width * scale * fit, 32.0) * cells(height * scale * fit, 32.0)).min(most)
}

/// The cost of a document that is sent as a file. Its pages are not counted: it
/// may be compressed, so its size stands for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DocumentRule {
    /// Bytes of a file that make a page.
    pub bytes_per_page: u32,
    /// Tokens of a page: its text, and its picture where the family looks at that too.
    pub tokens_per_page: u32,
}

impl DocumentRule {
    /// The tokens of a file of so many bytes; of an unknown one, those of a few pages.
    pub const fn tokens(self, bytes: Option<u64>) -> u64 {
        const TYPICAL_PAGES: u64 = 5;
        let pages = match bytes {
            Some(bytes) if self.bytes_per_page > 0 => bytes.div_ceil(self.bytes_per_page as u64),
            _ => TYPICAL_PAGES,
        };
        pages.saturating_mul(self.tokens_per_page as u64)
    }
}

#[cfg(test)]
mod tests;
