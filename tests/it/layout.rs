//! The workspace: dependencies between its crates, features that would build them twice, and what is changed in the
//! crates of others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
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
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// If `make demo` and `make test` select different features of a dependency, cargo builds it and all its
/// dependents twice.
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

#[test]
fn the_edge_alone_depends_on_pingora() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path());
    let crates: Vec<_> = crates.chain([root.join("filters")]).collect();
    assert!(crates.len() > 10, "{crates:?}");
    for folder in crates {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("pingora"), "{}", folder.display());
    }
}

/// A change beside the patches would be lost at the next update.
#[test]
fn a_patched_crate_is_the_release_and_its_patches() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/third-party");
    let output = Command::new(script).arg("check").output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
}
