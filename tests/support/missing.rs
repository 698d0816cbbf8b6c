//! Programs that tests need and that may not be installed.

/// Reports that the calling test is skipped because this is not installed.
///
/// # Panics
///
/// In continuous integration, which promises to skip nothing (`.ci/run`).
#[track_caller]
pub fn skip_without(program: &str) {
    let is_required = std::env::var_os("CI").is_some();
    assert!(
        !is_required,
        "{program} is not installed: scripts/setup tests"
    );
    println!("SKIPPED: {program} is not installed here; scripts/setup tests installs it");
}

/// Whether a program is in no folder of `PATH`; the calling test is then skipped.
#[track_caller]
pub fn is_missing(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = std::env::split_paths(&path).any(|it| it.join(program).is_file());
    if !is_here {
        skip_without(program);
    }
    !is_here
}
