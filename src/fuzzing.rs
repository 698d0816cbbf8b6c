//! The insides that the fuzz targets in `fuzz/` call. Not a part of the library's interface.

pub use crate::server::fuzzing::{
    LONGEST_PROXY_HEADER, ProxyHeader, Read, passing_frames, read_proxy_header, read_request,
};
