//! Whole tokens out of fractions of them, in one place: what does not fit becomes the nearest
//! number that does, what is no number becomes none.

/// The nearest whole number of tokens.
pub(crate) fn nearest(tokens: f64) -> u64 {
    whole(tokens.round())
}

/// The whole number of tokens at or above.
pub(crate) fn up(tokens: f64) -> u64 {
    whole(tokens.ceil())
}

/// Casts saturate, and nothing here is more exact than a token.
#[allow(clippy::cast_possible_truncation)]
const fn whole(tokens: f64) -> u64 {
    tokens as u64
}

/// A relative error as the gateway reports it.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn error(relative: f64) -> f32 {
    relative.clamp(0.0, 1.0) as f32
}

/// One number of tokens as a part of another.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn ratio(part: u64, whole: u64) -> f32 {
    (part as f64 / whole as f64) as f32
}
