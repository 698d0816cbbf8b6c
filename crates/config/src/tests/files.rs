//! Files: where they are found, and whether they have changed.

use super::*;

#[test]
fn a_fault_in_an_included_file_is_reported_there_and_an_absent_file_where_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.yaml", "server:\n  threads: none\n  thread: 1\n");
    write("loop.yaml", "include: loop.yaml\n");
    let reported = |text: &str| {
        let path = folder.path().join("x.yaml");
        let faults = Loader::new(&Workshop).parse(text, &path).unwrap_err();
        let folder = format!("{}/", folder.path().display());
        faults.to_string().replace(&folder, "")
    };
    assert_eq!(
        reported("include: base.yaml\nserver:\n  threads: 0\n"),
        "base.yaml:3:3: server.thread: unknown key; did you mean 'threads'?\n\
         x.yaml:3:12: server.threads: must be at least 1"
    );
    assert_eq!(
        reported("include: [absent.yaml, 7]\n"),
        "x.yaml:1:11: include: absent.yaml: the file cannot be read: No such file or directory (os error 2)\n\
         x.yaml:1:24: include: expected the name of a file, or a list of them"
    );
    assert_eq!(
        reported("include: loop.yaml\n"),
        "loop.yaml:1:10: include: 'loop.yaml' includes this file in turn"
    );
}

#[test]
fn a_path_is_taken_from_the_folder_of_the_file_in_which_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("shared")).unwrap();
    write("shared/secret", "of-the-shared-folder-and-long-enough\n");
    write("secret", "of-the-top-folder-and-long-enough\n");
    write(
        "shared/base.yaml",
        "keys: {pepper: 'file:secret'}\nstore: {path: base.db}\n",
    );
    let load = |text: &str| {
        write("x.yaml", text);
        let config = crate::load(&folder.path().join("x.yaml")).unwrap();
        let path = config.store.path.strip_prefix(folder.path()).unwrap();
        (
            config.pepper.expose().to_owned(),
            path.display().to_string(),
        )
    };
    assert_eq!(
        load("include: shared/base.yaml\n"),
        (
            "of-the-shared-folder-and-long-enough".to_owned(),
            "shared/base.db".to_owned()
        )
    );
    assert_eq!(
        load("include: shared/base.yaml\nkeys: {pepper: 'file:secret'}\nstore: {path: x.db}\n"),
        (
            "of-the-top-folder-and-long-enough".to_owned(),
            "x.db".to_owned()
        )
    );
}

#[test]
fn an_access_log_into_another_file_of_the_gateway_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    std::fs::write(folder.path().join("pepper"), SECRET).unwrap();
    std::fs::write(folder.path().join("real.db"), "").unwrap();
    std::os::unix::fs::symlink("real.db", folder.path().join("tollgate.db")).unwrap();
    let load = |file: &str| {
        let text = format!("{GOOD}keys: {{pepper: 'file:pepper'}}\nlog: {{access_file: {file}}}\n");
        std::fs::write(&path, text).unwrap();
        let loaded = Loader::new(&Workshop).load(&path);
        loaded.map(|_| ()).map_err(|faults| faults.to_string())
    };
    for (file, purpose) in [
        ("tollgate.db", "ledger"),
        ("./real.db", "ledger"),
        ("real.db.sequence", "ledger"),
        ("real.db-wal", "ledger"),
        ("real.db.settlements-1", "ledger"),
        ("pepper", "configuration"),
        ("x.yaml", "configuration"),
    ] {
        let expected = format!("log.access_file: this is a file of the {purpose}: name another");
        let fault = load(file).unwrap_err();
        assert!(fault.contains(&expected), "{file}: {fault}");
    }
    for file in ["access.log", "real.db.log"] {
        assert_eq!(load(file), Ok(()), "{file}");
    }
}

/// A configuration in a folder, and what is otherwise in it than in `earlier`.
fn changed(path: &Path, earlier: Option<&Config>) -> (Config, Vec<String>) {
    let config = Loader::new(&Workshop).load(path).unwrap();
    let changes = earlier.map_or_else(Vec::new, |earlier| config.changes_since(earlier));
    let reported = changes.iter().map(ToString::to_string).collect();
    (config, reported)
}

#[test]
fn a_certificate_is_known_by_its_bytes_be_it_no_text_or_long() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ca) = (folder.path().join("x.yaml"), folder.path().join("ca.pem"));
    let text = GOOD.replace(
        "'http://localhost:1'",
        "'https://localhost:1', tls: {ca: ca.pem}",
    );
    std::fs::write(&path, text).unwrap();
    let long = |last: u8| [vec![b'a'; 2 << 20], vec![last]].concat();
    for (before, after) in [
        (b"\xe9 1".to_vec(), b"\xe9 2".to_vec()),
        (long(b'1'), long(b'2')),
    ] {
        std::fs::write(&ca, before).unwrap();
        let (first, _) = changed(&path, None);
        let (_, reported) = changed(&path, Some(&first));
        assert!(reported.is_empty(), "{reported:?}");
        std::fs::write(&ca, after).unwrap();
        let (_, reported) = changed(&path, Some(&first));
        assert_eq!(reported, ["providers.a.tls.ca: content changed"]);
    }
    // A change of one that is longer still would not be noticed.
    let file = std::fs::File::create(&ca).unwrap();
    file.set_len(MOST_CERTIFICATE_BYTES + 1).unwrap();
    let faults = Loader::new(&Workshop).load(&path).unwrap_err().to_string();
    assert!(
        faults.contains("ca.pem: the file cannot be read"),
        "{faults}"
    );
}

#[test]
fn the_same_name_in_another_folder_is_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    for part in ["one", "two"] {
        let part = folder.path().join(part);
        std::fs::create_dir(&part).unwrap();
        let text = "keys: {pepper: 'file:secret'}\n";
        std::fs::write(part.join("base.yaml"), text).unwrap();
    }
    let secret = |part: &str, text: &str| {
        std::fs::write(folder.path().join(part).join("secret"), text).unwrap();
    };
    let include = |part: &str| {
        std::fs::write(&path, format!("include: {part}/base.yaml\n{GOOD}")).unwrap();
    };
    secret("one", "the first of two that are long enough");
    secret("two", "the second of two that are long enough");
    include("one");
    let (first, _) = changed(&path, None);
    include("two");
    let (_, reported) = changed(&path, Some(&first));
    assert_eq!(reported, ["keys.pepper: content changed"]);
    // Elsewhere, and the same.
    secret("two", "the first of two that are long enough");
    let (_, reported) = changed(&path, Some(&first));
    assert!(reported.is_empty(), "{reported:?}");
}

/// Otherwise a watcher of a refused file would try it again for ever.
#[test]
fn a_file_that_is_refused_looks_the_same_when_it_is_looked_at_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    let text = format!("keys: {{pepper: 'file:secret'}}\n{GOOD}");
    std::fs::write(&path, text).unwrap();
    for secret in [b"\xe9".to_vec(), vec![b'a'; 100 << 10]] {
        std::fs::write(folder.path().join("secret"), secret).unwrap();
        let mut sources = Sources::default();
        let loaded = Loader::new(&Workshop).load_noting(&path, &mut sources);
        assert!(loaded.is_err(), "{loaded:?}");
        assert_eq!(sources.files(), sources.look_again(&Workshop));
    }
}

#[test]
fn a_file_that_is_no_configuration_is_reported_as_such() {
    let reported = |text: &str| faults(text).join("\n");
    assert_eq!(
        reported("- a\n"),
        "x.yaml:1:1: a configuration is a mapping of sections"
    );
    assert_eq!(
        reported("server: {threads: 1\nadmin: {}\n")
            .split(": ")
            .next(),
        Some("x.yaml:2:6")
    );
    let absent = crate::load(Path::new("absent.yaml")).unwrap_err();
    assert_eq!(
        absent.to_string(),
        "absent.yaml: the file cannot be read: No such file or directory (os error 2)"
    );
}
