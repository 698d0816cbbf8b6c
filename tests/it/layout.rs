//! What `make demo` builds is what `make test` builds: a dependency that the two want with different
//! features would be built for each of them anew, and everything that stands on it.

use std::collections::BTreeSet;
use std::process::Command;

/// The packages of a selection, each with its version and its features.
fn packages(selection: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["tree", "--offline", "--locked", "--no-dedupe"])
        .args(["--prefix", "none", "--format", "{p} [{f}]"])
        .args(selection)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_demo_and_the_tests_share_what_is_built() {
    let demo = packages(&["--edges", "normal,build", "--features", "demo"]);
    let tests = packages(&["--workspace", "--edges", "normal,build,dev"]);
    let twice: Vec<_> = demo.difference(&tests).collect();
    assert!(
        demo.len() > 200 && twice.is_empty(),
        "of {} packages these have other features in the tests: {twice:#?}",
        demo.len()
    );
}
