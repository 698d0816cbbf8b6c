//! Has the linker lay the program text of a release out as `build/text-layout.ld` says: what
//! starting and serving need together, and the rest behind it (`docs/performance.md`).
//!
//! The layout changes no instruction. Where it is left out, more of the program is resident.

use std::env;
use std::path::Path;

const LAYOUT: &str = "build/text-layout.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LAYOUT}");
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let layout = Path::new(&root).join(LAYOUT);
    if is_wanted() {
        println!("cargo::rustc-link-arg-bin=tollgate=-T{}", layout.display());
    }
}

/// In releases, for the linkers that Rust takes by itself on Linux: lld and GNU's. Others that
/// somebody chooses may not know the command `INSERT`.
fn is_wanted() -> bool {
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|value| value == wanted);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var_os("RUSTC_LINKER").is_none()
        && !flags
            .split('\x1f')
            .any(|it| it.contains("link") && !it.starts_with("-Cprofile"))
}
