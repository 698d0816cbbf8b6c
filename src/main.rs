//! The `tollgate` program.
fn main() {}
