//! Plugin filters: one decision about a request per file
