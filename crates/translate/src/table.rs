//! What becomes of each field of each format, in every direction.
