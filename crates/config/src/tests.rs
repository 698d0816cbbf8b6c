//! The configuration as an operator meets it: good files load, faults are reported.

use super::*;
use std::path::PathBuf;
use std::{collections::BTreeSet, io, sync::Arc};
use tollgate_settings::ProcessEnvironment;
use tollgate_types::{Format, ReasoningMode};

/// Every variable is set, to something that must show nowhere; files are those on disk.
struct Workshop;

const SECRET: &str = "a-s3cret-value-that-must-not-show";

impl Environment for Workshop {
    fn variable(&self, name: &str) -> Option<String> {
        (name != "UNSET").then(|| SECRET.to_owned())
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        ProcessEnvironment.read_bytes(path, max_bytes)
    }
}

fn conf() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf")
}

fn load(name: &str) -> Result<Config, Faults> {
    Loader::new(&Workshop).load(&conf().join(name))
}

fn parse(text: &str) -> Result<Config, Faults> {
    Loader::new(&Workshop).parse(text, Path::new("x.yaml"))
}

/// The faults of `text`, a line each.
fn faults(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.to_string().lines().map(str::to_owned).collect(),
    }
}

const GOOD: &str = "\
providers:
  a: {address: 'http://localhost:1', formats: [chat]}
families:
  f: {group: g, deployments: [a]}
models:
  m-1: {family: f}
";

fn examples() -> Vec<String> {
    let names: BTreeSet<String> = std::fs::read_dir(conf())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    assert!(names.len() >= 9, "{names:?}");
    names.into_iter().collect()
}

#[test]
fn every_example_loads() {
    for name in examples() {
        match load(&name) {
            Ok(config) if name == "catalog.yaml" => {
                assert!(config.catalog.models().is_empty(), "it names no provider");
            }
            Ok(config) => {
                assert!(!config.catalog.models().is_empty(), "{name}");
                assert!(config.catalog.unserved().is_empty(), "{name}");
            }
            Err(faults) => panic!("{name}:\n{faults}"),
        }
    }
}

#[test]
fn the_schema_accepts_every_example_and_no_typing_error() {
    let validator = jsonschema::draft202012::new(schema()).unwrap();
    for name in examples() {
        let text = std::fs::read_to_string(conf().join(&name)).unwrap();
        let tree = yaml::parse(&text, &Arc::from(name.as_str())).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&tree.to_value())
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
    assert!(!validator.is_valid(&serde_json::json!({"sever": {}})));
}

#[test]
fn the_smallest_file_has_sane_defaults() {
    let config = load("minimal.yaml").unwrap();
    assert_eq!(config.server.listen.len(), 1);
    assert_eq!(
        config.server.listen[0].address.to_string(),
        "127.0.0.1:8080"
    );
    assert!(config.server.listen[0].http2);
    assert_eq!(config.server.limits.body_bytes.get(), 32 << 20);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9080");
    assert_eq!(config.store.path, conf().join("tollgate.db"));
    assert_eq!(config.pepper.expose(), SECRET);
    let names: Vec<_> = config.filters.iter().map(|it| it.name.as_str()).collect();
    let all: Vec<_> = tollgate_filters::KINDS
        .iter()
        .map(|kind| kind.name)
        .collect();
    assert_eq!(names, all);
}

#[test]
fn the_limits_example_shows_the_defaults() {
    let shown = load("limits.yaml").unwrap().server;
    let usual = load("minimal.yaml").unwrap().server;
    let without_extra = LimitSettings {
        memory: None,
        bodies_in_memory: None,
        ..shown.limits
    };
    assert_eq!(without_extra, usual.limits);
    assert_eq!(shown.shutdown, usual.shutdown);
    assert_eq!(shown.upstream_keepalive_pool, usual.upstream_keepalive_pool);
}

#[test]
fn the_default_catalog_is_that_of_the_specification() {
    use ReasoningMode::{Adaptive, Extended, None, ProviderDefault};
    let expected: &[(&str, ReasoningMode, &str)] = &[
        ("alpha-fable-5-1", Adaptive, "opus"),
        ("alpha-fable-5", Adaptive, "opus"),
        ("alpha-opus-5-5", Adaptive, "opus"),
        ("alpha-opus-5", Adaptive, "opus"),
        ("alpha-opus-5-thinking", Extended, "opus"),
        ("alpha-opus-4-8", Adaptive, "opus"),
        ("alpha-opus-4-8-thinking", Extended, "opus"),
        ("alpha-opus-4-7", Adaptive, "opus"),
        ("alpha-opus-4-7-thinking", Extended, "opus"),
        ("alpha-opus-4-6", Adaptive, "opus"),
        ("alpha-opus-4-6-thinking", Extended, "opus"),
        ("alpha-opus-4-5", Adaptive, "opus"),
        ("alpha-opus-4-5-thinking", Extended, "opus"),
        ("alpha-sonnet-5", Adaptive, "sonnet"),
        ("alpha-sonnet-4-6", Adaptive, "sonnet"),
        ("alpha-sonnet-4-6-thinking", Extended, "sonnet"),
        ("alpha-sonnet-4-5", Adaptive, "sonnet"),
        ("alpha-sonnet-4-5-thinking", Extended, "sonnet"),
        ("alpha-sonnet-4", Adaptive, "sonnet"),
        ("alpha-sonnet-4-thinking", Extended, "sonnet"),
        ("alpha-haiku-4-5", Adaptive, "haiku"),
        ("alpha-haiku-4-5-thinking", Extended, "haiku"),
        ("beta-5.6-terra", ProviderDefault, "codex"),
        ("beta-5.6-sol", ProviderDefault, "codex"),
        ("beta-5.6-luna", ProviderDefault, "codex"),
        ("beta-5.5", ProviderDefault, "codex"),
        ("beta-5.4", ProviderDefault, "codex"),
        ("beta-5.4-mini", ProviderDefault, "codex"),
        ("epsilon-auto-review", ProviderDefault, "codex"),
        ("gamma-4.5", Adaptive, "gamma"),
        ("gamma-4.5-latest", Adaptive, "gamma"),
        ("gamma-build-latest", Adaptive, "gamma"),
        ("gamma-4.3", Adaptive, "gamma"),
        ("gamma-4.20-0309-reasoning", Adaptive, "gamma"),
        ("gamma-4.20-0309-non-reasoning", None, "gamma"),
        ("gamma-4.20-multi-agent-0309", Adaptive, "gamma"),
        ("gamma-build-0.1", Adaptive, "gamma"),
        ("gamma-composer-2.5-fast", None, "gamma"),
        ("gamma-3-mini", None, "gamma"),
        ("gamma-3-mini-fast", None, "gamma"),
        ("beta-4o", None, "other"),
        ("beta-4", None, "other"),
        ("delta3.7-max", None, "other"),
        ("auto", None, "other"),
    ];
    for name in ["default.yaml", "demo.yaml"] {
        let catalog = load(name).unwrap().catalog;
        let listed: Vec<_> = catalog
            .models()
            .iter()
            .map(|model| (&*model.id, model.reasoning, &*model.group))
            .collect();
        assert_eq!(listed, expected, "{name}");
        let recommended: Vec<_> = catalog
            .models()
            .iter()
            .filter(|model| model.recommended)
            .map(|model| &*model.id)
            .collect();
        assert_eq!(
            recommended,
            [
                "alpha-opus-5-5",
                "alpha-sonnet-5",
                "beta-5.6-terra",
                "gamma-4.5"
            ]
        );
        let known: Vec<_> = catalog
            .models()
            .iter()
            .filter_map(|model| Some((&*model.id, model.context_window?)))
            .collect();
        assert_eq!(known, [("gamma-4.3", 1_000_000)], "no window is invented");
        let dotted = catalog.resolve("alpha-opus-4.8").unwrap();
        assert_eq!(&*dotted.id, "alpha-opus-4-8");
        assert_eq!(
            &*catalog.resolve("gamma-4.5-latest").unwrap().id,
            "gamma-4.5"
        );
    }
}

#[test]
fn the_default_plans_are_those_of_the_specification() {
    let plans = load("default.yaml").unwrap().plans;
    let reported: Vec<_> = plans
        .iter()
        .map(|(name, plan)| {
            let price = plan.price.as_ref().unwrap();
            format!(
                "{name} {} {} {} {} {:?} {:?} {}",
                plan.tokens.unwrap(),
                plan.validity,
                price.amount.as_str(),
                price.currency,
                plan.groups,
                plan.support,
                plan.popular
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            r#"trial 10M 1d 2.49 USD ["all"] Standard false"#,
            r#"pro 100M 5d 11.99 USD ["all"] Priority true"#,
            r#"max 100M 7d 14.99 USD ["all"] Priority false"#,
        ]
    );
}

#[test]
fn the_demo_answers_every_model_in_every_format_and_takes_orders_by_name() {
    let catalog = load("demo.yaml").unwrap().catalog;
    for model in catalog.models().iter().filter(|model| !model.is_auto()) {
        assert!(
            model.formats().iter().eq([
                Format::Chat,
                Format::Responses,
                Format::Messages,
                Format::Embeddings,
                Format::Rerank,
            ]),
            "{}",
            model.id
        );
        assert!(model.counts_tokens(), "{}", model.id);
    }
    let model = catalog.resolve("sim-cut-300").unwrap();
    let deployment = model.candidates(Format::Chat, 0).next().unwrap();
    assert_eq!(deployment.upstream_model("sim-cut-300"), "sim-cut-300");
    assert_eq!(&*deployment.name, "sim/sim-*", "metrics stay bounded");
}

#[test]
fn a_value_of_the_command_line_replaces_that_of_the_file() {
    let config = Loader::new(&Workshop)
        .with(
            "providers.sim.address".parse().unwrap(),
            "http://127.0.0.1:4711",
        )
        .with("server.listen[0].address".parse().unwrap(), "127.0.0.1:0")
        .with("server.threads".parse().unwrap(), 3)
        .load(&conf().join("demo.yaml"))
        .unwrap();
    assert_eq!(config.catalog.providers()[0].port, 4711);
    assert_eq!(config.server.listen[0].address.get().port(), 0);
    assert_eq!(config.server.threads, Some(3));
}

#[test]
fn a_wrong_value_of_the_command_line_is_reported_as_such() {
    let reported = |path: &str, value: &str| {
        Loader::new(&Workshop)
            .with(path.parse().unwrap(), value)
            .parse(GOOD, Path::new("x.yaml"))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        reported("providers.a.address", "nowhere"),
        "override of providers.a.address: providers.a.address: expected http:// or https://, a \
         host, and where needed a port and a path prefix"
    );
    assert_eq!(
        reported("providers.a.address.port", "1"),
        "override of providers.a.address.port: there is no such place in the configuration"
    );
}

#[test]
fn every_fault_of_shape_is_reported_at_once_with_its_place() {
    let text = "\
server:
  listen: 127.0.0.1:8080
  thread: 4
  limits:
    body_bytes: 32 megabytes
    body_timeout: 10
    min_send_rate: -1
admin: {listen: localhost:9080}
keys:
  pepper: hunter2
log: {access: stdot}
providers:
  a:
    adress: http://localhost:1
    formats: [chat, telepathy]
    credentials: [sk-live-hunter2]
models:
  m-1: {family: [f], reasoning: adaptiv, recommended: yes}
  m-1: {family: f}
store: 7
plans:
  p: {tokens: 10M, price: {amount: 2.49, currency: usd}}
filters: [key, modell, {nam: x}]
";
    // A key that stands twice keeps the rest from being read: which one counts?
    assert_eq!(
        faults(text),
        ["x.yaml:19:3: 'm-1' is given twice, first on line 18"]
    );
    let text = text.replace("  m-1: {family: f}\n", "");
    let reported = faults(&text);
    assert_eq!(
        reported,
        [
            "x.yaml:2:11: server.listen: expected a list, found a string",
            "x.yaml:3:3: server.thread: unknown key; did you mean 'threads'?",
            "x.yaml:5:17: server.limits.body_bytes: expected a size in bytes such as 4096, 64KiB or 32MiB, found '32 megabytes'",
            "x.yaml:6:19: server.limits.body_timeout: expected a duration such as 200ms, 5s, 10m, 2h or 1d, found 10",
            "x.yaml:7:20: server.limits.min_send_rate: must be at least 0",
            "x.yaml:8:17: admin.listen: expected an IP address and a port such as 127.0.0.1:8080, 0.0.0.0:443 or [::]:8080, found 'localhost:9080'",
            "x.yaml:10:11: keys.pepper: expected env:NAME or file:PATH, so that the secret itself does not stand in this file",
            "x.yaml:11:15: log.access: expected one of stdout, stderr, journald, none; did you mean 'stdout'?",
            "x.yaml:13:3: providers.a: 'address' is missing",
            "x.yaml:14:5: providers.a.adress: unknown key; did you mean 'address'?",
            "x.yaml:15:21: providers.a.formats[1]: expected one of chat, responses, messages, gemini, converse, embeddings, rerank",
            "x.yaml:16:19: providers.a.credentials[0]: expected env:NAME or file:PATH, so that the secret itself does not stand in this file",
            "x.yaml:18:9: models.m-1.family: expected a string, found a list",
            "x.yaml:18:33: models.m-1.reasoning: expected one of adaptive, extended, provider_default, none; did you mean 'adaptive'?",
            "x.yaml:18:55: models.m-1.recommended: expected true or false, found a string",
            "x.yaml:19:8: store: expected a mapping, found a number",
            "x.yaml:21:3: plans.p: 'validity' is missing",
            "x.yaml:21:36: plans.p.price.amount: expected an amount in quotes such as \"2.49\", found 2.49",
            "x.yaml:21:52: plans.p.price.currency: expected three capital letters such as USD, found 'usd'",
            "x.yaml:22:16: filters[1]: expected one of headers, key, stored, model, context, limits, quota, errors; did you mean 'model'?",
            "x.yaml:22:24: filters[2]: 'name' is missing",
        ],
        "{}",
        reported.join("\n")
    );
    assert!(!reported.concat().contains("hunter2"));
}

#[test]
fn a_reservation_that_leaves_no_room_for_a_body_of_others_is_a_fault() {
    let limits = "bodies_in_memory: 200MiB, body_bytes: 95MiB";
    let with = |reserved: u8| {
        let text =
            format!("{GOOD}server: {{limits: {{{limits}, reserved_for_priority: {reserved}}}}}\n");
        let reported = faults(&text);
        reported.iter().any(|fault| {
            fault.contains("server.limits.reserved_for_priority: 10% of bodies_in_memory (200MiB)")
        })
    };
    assert!(with(10));
    assert!(!with(5));
}

#[test]
fn bodies_that_may_take_more_than_the_program_are_a_fault() {
    let reported = |limits: &str| faults(&format!("{GOOD}server: {{limits: {{{limits}}}}}\n"));
    let faults = reported("memory: 600MiB, bodies_in_memory: 1GiB");
    assert!(
        faults[0].ends_with(
            "server.limits.bodies_in_memory: 1GiB is more than the process may use (memory: 600MiB)"
        ),
        "{faults:?}"
    );
    let fine = format!("{GOOD}server: {{limits: {{memory: 600MiB}}}}\n");
    let limits = parse(&fine).unwrap().server.limits;
    assert_eq!(limits.bodies_within(600 << 20).get(), 300 << 20);
    assert_eq!(limits.bodies_within(u64::MAX).get(), 4 << 30);
}

#[test]
fn every_fault_of_meaning_is_reported_at_once_with_its_place() {
    let text = "\
server:
  listen:
    - address: 127.0.0.1:9080
  limits: {body_bytes: 8GiB}
keys: {pepper: env:UNSET}
providers:
  a: {address: 'https://u:hunter2@host/', formats: [chat]}
  b: {address: 'http://localhost/v1', formats: [messages], credentials: [file:absent]}
families:
  f: {group: all}
models:
  m-1:
    family: g
  m-2:
    family: f
    deployments:
      - c
      - {provider: b, formats: [messages]}
aliases:
  x: m-3
auto: {candidates: [m-9], family: f}
filters: [key, headers, errors]
";
    let reported = faults(text);
    assert_eq!(
        reported,
        [
            "x.yaml:3:16: server.listen[0].address: 127.0.0.1:9080 is also the address of another listener",
            "x.yaml:4:3: server.limits.bodies_in_memory: 4GiB is less than one body (8GiB) and its copy",
            "x.yaml:5:16: keys.pepper: the environment variable UNSET is not set",
            "x.yaml:7:16: providers.a.address: an address holds no user or password: put a secret under `credentials`",
            "x.yaml:8:49: providers.b.formats[0]: the usual path /v1/messages would follow the /v1 at the end of the address: leave that out",
            "x.yaml:8:74: providers.b.credentials[0]: the file absent cannot be read: No such file or directory (os error 2)",
            "x.yaml:10:14: families.f.group: 'all' means every group; give this one a name of its own",
            "x.yaml:13:13: models.m-1.family: no family 'g'; the only one is 'f'",
            "x.yaml:17:9: models.m-2.deployments[0]: no provider 'c'; known are a, b",
            "x.yaml:20:6: aliases.x: no model 'm-3'; did you mean 'm-1'?",
            "x.yaml:21:21: auto.candidates[0]: no model 'm-9'; did you mean 'm-1'?",
            "x.yaml:22:1: filters: the filter 'stored' is required; add it to the list",
            "x.yaml:22:1: filters: the filter 'model' is required; add it to the list",
            "x.yaml:22:11: filters[0]: 'key' must stand after 'headers'",
        ],
        "{}",
        reported.join("\n")
    );
    assert!(!reported.concat().contains("hunter2"));
}

#[test]
fn fields_that_may_or_must_not_be_dropped_are_paths_that_a_notice_can_name() {
    let with = |section: &str| faults(&format!("{GOOD}translation: {section}\n"));
    let good = "{lossy: [stop, 'system[].cache_control'], strict: [seed, 'messages[].name', \
        'input[].internal_chat_message_metadata_passthrough', 'messages[].content[].*', \
        'input[].compaction_trigger']}";
    assert_eq!(with(good), Vec::<String>::new());
    let reported = with("{lossy: [stopp], strict: [sead, 'input[].content.a', stop]}");
    assert_eq!(reported.len(), 3, "{reported:#?}");
    assert!(
        reported[0].contains("translation.lossy[0]: no field of a request 'stopp'"),
        "{reported:#?}"
    );
    assert!(
        reported[1].contains("translation.strict[0]: no field of a request 'sead'"),
        "{reported:#?}"
    );
    assert!(
        reported[2].contains("translation.strict[1]"),
        "{reported:#?}"
    );
    let reported = with("{lossy: [stop], strict: [stop]}");
    assert!(
        reported
            .concat()
            .contains("translation.strict[0]: must not stand in `translation.lossy` too"),
        "{reported:#?}"
    );
}

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
        let config = super::load(&folder.path().join("x.yaml")).unwrap();
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
    let absent = super::load(Path::new("absent.yaml")).unwrap_err();
    assert_eq!(
        absent.to_string(),
        "absent.yaml: the file cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn no_secret_shows_in_what_the_configuration_prints() {
    let config = load("two-providers.yaml").unwrap();
    let deployment = &config.catalog.models()[0].deployments[0];
    let proof = deployment.provider.credentials[0].proof(Format::Chat);
    let Some(tollgate_providers::Proof::Header(_, value)) = proof else {
        panic!("no header");
    };
    assert_eq!(value.to_str().unwrap(), format!("Bearer {SECRET}"));
    assert!(!format!("{config:?}").contains(SECRET));
    assert!(!format!("{config:#?}").contains(SECRET));
    let demo = load("demo.yaml").unwrap();
    assert!(demo.pepper.expose().contains("demo"));
    assert!(!format!("{:?}", demo.pepper).contains("demo"));
}

#[test]
fn a_secret_that_can_be_guessed_is_refused_with_what_makes_a_better_one() {
    let pepper = |pepper: &str| faults(&format!("keys: {{pepper: 'literal:{pepper}'}}\n{GOOD}"));
    let reported = "x.yaml:1:16: keys.pepper: the secret needs at least 32 characters, so that it cannot \
                be guessed: `openssl rand -hex 32` makes one";
    assert_eq!(pepper(&"p".repeat(31)), [reported]);
    assert_eq!(pepper(&format!("{:40}", "mostly spaces")), [reported]);
    assert_eq!(pepper(&"p".repeat(32)), [""; 0]);
    assert_eq!(pepper(&"ü".repeat(32)), [""; 0]);
}

#[test]
fn a_hidden_character_is_a_fault_in_every_key_and_in_every_value_but_texts_for_callers() {
    let hidden = "control characters and invisible characters are not allowed here; found";
    let text = GOOD
        .replace("  a:", "  \"a\\u202e\":")
        .replace("group: g", "group: \"g\\u200b\"")
        .replace("[a]", "[\"a\\u202e\"]");
    assert_eq!(
        faults(&text),
        [
            format!("x.yaml:2:3: providers.\"a\\u{{202e}}\": {hidden} U+202E"),
            format!("x.yaml:4:14: families.f.group: {hidden} U+200B"),
            format!("x.yaml:4:39: families.f.deployments[0]: {hidden} U+202E"),
        ]
    );
    let filters = "filters:\n  - headers\n  - key\n  - stored\n  - model\n  - name: errors\n    \
                   messages: {not_found: \"نمی\\u200cشود\"}\n";
    assert_eq!(faults(&format!("{GOOD}{filters}")), [""; 0]);
}

#[test]
fn a_fault_that_a_filter_finds_in_its_settings_gets_its_place() {
    let text = format!(
        "{GOOD}filters:\n  - headers\n  - key\n  - stored\n  - model\n  - name: errors\n    messages:\n      not_found: ''\n"
    );
    let config = parse(&text).unwrap();
    let errors = &config.filters[4];
    assert_eq!(errors.settings["messages"]["not_found"], "");
    let reported = config.locate([errors.fault("messages.not_found", "a message cannot be empty")]);
    assert_eq!(
        reported.to_string(),
        "x.yaml:14:18: filters[4].messages.not_found: a message cannot be empty"
    );
}

#[test]
fn the_operators_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = reference();
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/reference/configuration.md is not what the types say; TOLLGATE_BLESS=1 writes it anew"
    );
}

#[test]
fn content_of_traces_needs_keys_and_patterns_that_are_valid() {
    let with = |content: &str| {
        let endpoint = "endpoint: http://127.0.0.1:4317";
        faults(&format!(
            "{GOOD}traces: {{{endpoint}, content: {{{content}}}}}\n"
        ))
    };
    assert_eq!(with("keys: [key_1]"), [] as [&str; 0]);
    for (content, fault) in [
        ("redact: [x]", "traces.content: 'keys' is missing"),
        ("keys: []", "traces.content.keys: "),
        ("keys: [sk-abc]", "traces.content.keys[0]: "),
        (
            "keys: [key_1], redact: [a, '(']",
            "traces.content.redact[1]: not a regular expression: ",
        ),
        (
            "keys: [key_1], max_bytes: 1MiB",
            "traces.content.max_bytes: expected a size from 1KiB to 512KiB",
        ),
    ] {
        let reported = with(content);
        let is_reported = reported.len() == 1 && reported[0].contains(fault);
        assert!(is_reported, "{content}: {reported:?}");
    }
}
