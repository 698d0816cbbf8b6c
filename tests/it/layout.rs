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

/// As `docs/guides/write-a-filter.md` describes it.
#[test]
fn a_filter_in_a_crate_elsewhere_gets_the_versions_and_patches_of_this_repository() {
    let root = env!("CARGO_MANIFEST_DIR");
    let read = |path: &str| fs::read_to_string(Path::new(root).join(path)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
    let whole = read("Cargo.toml");
    let (_, copied) = whole.split_once("[profile.dev]").unwrap();
    let (copied, _) = copied.split_once("[package]").unwrap();
    let copied = copied.replace("third_party/", &format!("{root}/third_party/"));
    let manifest = read("examples/own-filter/Cargo.toml").replace("\"../..", &format!("\"{root}"));
    write("Cargo.toml", &format!("{manifest}\n[profile.dev]{copied}"));
    write("Cargo.lock", &read("Cargo.lock"));
    fs::create_dir(folder.path().join("src")).unwrap();
    write("src/main.rs", &read("examples/own-filter/src/main.rs"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(folder.path())
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    let found = String::from_utf8(output.stdout).unwrap();
    let found: BTreeSet<_> = found
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    let patched = format!("({root}/third_party/pingora-core)");
    assert!(found.iter().any(|it| it.ends_with(&patched)), "{found:#?}");
    let lock = read("Cargo.lock");
    let others = found
        .iter()
        .filter(|it| it.contains(' ') && !it.contains('('));
    for line in others {
        let (name, version) = line.split_once(" v").unwrap();
        let locked = format!("name = \"{name}\"\nversion = \"{version}\"");
        assert!(lock.contains(&locked), "{line} is not in the lock file");
    }
}
