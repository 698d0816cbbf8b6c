//! The insides that the fuzz targets in `fuzz/` call. Not a part of the library's interface.

pub use crate::server::fuzzing::{Read, passing_frames, read_request};
