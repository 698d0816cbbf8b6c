//! Who pays: keys, and where they are kept
