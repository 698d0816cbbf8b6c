//! Faults, all at once and each at its place.

use super::*;

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
fn a_fault_in_a_mapping_in_place_of_a_name_is_reported_in_the_mapping() {
    for (format, expected) in [
        (
            "{name: embeddings, api: bedrok}",
            vec![
                "formats[0].api: expected one of bedrock, bedrock_titan, bedrock_cohere, gemini, \
                 vertex_predict, vertex_embed_content; did you mean 'bedrock'?",
            ],
        ),
        (
            "{name: chat, pth: x}",
            vec!["formats[0].pth: unknown key; did you mean 'path'?"],
        ),
        (
            "{name: chat, path: 5}",
            vec!["formats[0].path: expected a string, found a number"],
        ),
        (
            "{name: Chat}",
            vec![
                "formats[0].name: expected one of chat, responses, messages, gemini, converse, \
                 embeddings, rerank; did you mean 'chat'?",
            ],
        ),
        (
            "{nam: chat}",
            vec![
                "formats[0].nam: unknown key; did you mean 'name'?",
                "formats[0]: 'name' is missing",
            ],
        ),
        (
            "caht",
            vec![
                "formats[0]: expected one of chat, responses, messages, gemini, converse, \
                 embeddings, rerank; did you mean 'chat'?",
            ],
        ),
        (
            "5",
            vec![
                "formats[0]: expected one of chat, responses, messages, gemini, converse, \
                 embeddings, rerank; found a number",
            ],
        ),
    ] {
        let text = GOOD.replace("formats: [chat]", &format!("formats: [{format}]"));
        let reported = faults(&text);
        let reported = reported
            .iter()
            .map(|it| it.split_once("providers.a.").unwrap().1);
        let mut reported: Vec<_> = reported.collect();
        reported.sort_unstable();
        assert_eq!(reported, expected, "{format}");
    }
}

#[test]
fn limits_that_refuse_every_request_are_faults() {
    let limits = "{requests_in_flight: 1, memory: 1, head_bytes: 0, body_bytes: 0}";
    let reported = faults(&format!("{GOOD}server: {{limits: {limits}}}\n")).join("\n");
    for expected in [
        "limits.head_bytes: must be at least 1",
        "limits.body_bytes: must be at least 1",
        "limits.memory: must be at least 1MiB: an idle process already uses more",
        "limits.requests_in_flight: with 10% reserved for priority keys (reserved_for_priority), 1 leaves no request for other keys",
    ] {
        assert!(reported.contains(expected), "{expected}: {reported}");
    }
    let least = "{requests_in_flight: 1, reserved_for_priority: 0}";
    let least = faults(&format!("{GOOD}server: {{limits: {least}}}\n"));
    assert!(least.is_empty(), "{least:?}");
}

#[test]
fn a_fault_names_the_bound_of_a_number_and_the_form_of_a_host() {
    for (section, expected) in [
        (
            "server: {limits: {connections: 18446744073709551616}}",
            "server.limits.connections: must be at most 4294967295",
        ),
        (
            "server: {limits: {requests_in_flight: 100000000000}}",
            "server.limits.requests_in_flight: must be at most 4294967295",
        ),
        (
            "server: {cors: {origins: ['https://app.example.com/']}}",
            "server.cors.origins[0]: expected an origin such as https://app.example.com, in lower \
             case and without a path, or *, found 'https://app.example.com/'",
        ),
        (
            "admin: {hosts: ['a.example:80']}",
            "admin.hosts[0]: expected a host name without a port, such as gateway.example.com, \
             found 'a.example:80'",
        ),
    ] {
        let reported = faults(&format!("{GOOD}{section}\n"));
        let [fault] = &*reported else {
            panic!("{section}: {reported:?}");
        };
        assert!(fault.ends_with(expected), "{fault}");
    }
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

/// The list of models could not show it.
#[test]
fn a_date_in_milliseconds_is_a_fault() {
    let dated = "m-1: {family: f, created: 1767225600000}";
    let text = GOOD.replace("m-1: {family: f}", dated);
    assert_eq!(
        faults(&text),
        ["x.yaml:6:29: models.m-1.created: must be at most 253402300799"]
    );
}

#[test]
fn a_fault_inside_an_entry_with_a_short_form_keeps_its_message_and_place() {
    let with = |provider: &str, deployment: &str| {
        let provider = format!("address: 'http://localhost:1', {provider}");
        faults(&format!(
            "providers:\n  a: {{{provider}}}\nfamilies:\n  f: {{group: g, deployments: [{deployment}]}}\n"
        ))
    };
    let reported = with(
        "formats: [chat]",
        "{provider: a, capabilities: {stream_events: []}}",
    );
    assert_eq!(
        reported,
        [
            "x.yaml:4:45: families.f.deployments[0].capabilities: 'stream_events' is a capability of the \
             whole provider: set it there"
        ]
    );
    let reported = with(
        "formats: [chat], credentials: [{secret: env:K, weight: 1.0}]",
        "a",
    );
    assert_eq!(
        reported,
        [
            "x.yaml:2:93: providers.a.credentials[0].weight: invalid type: floating point `1.0`, \
             expected a whole number from 0 to 65535"
        ]
    );
}

#[test]
fn listeners_that_cannot_both_be_opened_are_a_fault() {
    let reported = |first: &str, second: &str| {
        let listen = format!("[{{address: '{first}'}}, {{address: '{second}'}}]");
        faults(&format!("{GOOD}server: {{listen: {listen}}}\n"))
    };
    for (first, second) in [
        ("0.0.0.0:8080", "127.0.0.1:8080"),
        ("127.0.0.1:8080", "0.0.0.0:8080"),
        ("[::]:8080", "[::1]:8080"),
        ("[::ffff:127.0.0.1]:8080", "127.0.0.1:8080"),
        ("0.0.0.0:9080", "127.0.0.2:8080"),
    ] {
        let reported = reported(first, second);
        assert_eq!(reported.len(), 1, "{first} {second}: {reported:?}");
        let overlap = "overlaps with the listener";
        assert!(reported[0].contains(overlap), "{reported:?}");
    }
    for (first, second) in [
        ("127.0.0.1:8080", "127.0.0.2:8080"),
        ("127.0.0.1:8080", "0.0.0.0:8081"),
        ("0.0.0.0:0", "127.0.0.1:0"),
        // Whether one socket takes both families is up to the machine.
        ("[::]:8080", "0.0.0.0:8080"),
    ] {
        assert_eq!(reported(first, second), [""; 0], "{first} {second}");
    }
}

#[test]
fn a_trusted_network_of_mapped_addresses_is_the_network_of_ipv4() {
    let with = |network: &str| format!("{GOOD}server: {{trusted_proxies: ['{network}']}}\n");
    for network in ["::ffff:127.0.0.0/104", "::ffff:127.0.0.1", "127.0.0.0/8"] {
        let config = parse(&with(network)).unwrap();
        let trusted = config.server.trusted_proxies[0];
        assert!(trusted.contains([127, 0, 0, 1].into()), "{network}");
        assert!(!trusted.contains([128, 0, 0, 1].into()), "{network}");
    }
    let reported = faults(&with("::ffff:127.0.0.1/104"));
    assert!(
        reported[0].ends_with("127.0.0.0/8 is the network"),
        "{reported:?}"
    );
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
            "x.yaml:3:16: server.listen[0].address: 127.0.0.1:9080 overlaps with the listener 127.0.0.1:9080",
            "x.yaml:4:3: server.limits.bodies_in_memory: 4GiB is less than one body (8GiB) and its copy",
            "x.yaml:5:16: keys.pepper: the environment variable UNSET is not set",
            "x.yaml:7:16: providers.a.address: an address holds no user or password: put a secret under `credentials`",
            "x.yaml:8:49: providers.b.formats[0]: the path /v1/messages begins with /v1, which already ends the address: remove /v1 from the address",
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
fn an_admin_token_that_ends_in_a_space_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let text = format!("admin: {{token: 'file:{}'}}\n{GOOD}", file.display());
    std::fs::write(&file, "0123456789abcdef \n").unwrap();
    assert_eq!(
        faults(&text),
        [
            "x.yaml:1:16: admin.token: the token ends in a space, which no header can carry: remove it"
        ]
    );
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    assert_eq!(faults(&text), [""; 0]);
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
