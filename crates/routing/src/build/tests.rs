//! The rules of the catalog, each shown by a small configuration.

use super::*;
use crate::Purpose;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use tollgate_providers::Proof;
use tollgate_types::Format;

struct Variables;

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        (name != "UNSET").then(|| format!("secret-of-{name}"))
    }

    fn read_bytes(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn build(settings: Value) -> Result<Catalog, Vec<String>> {
    let settings: CatalogSettings = serde_json::from_value(settings).unwrap();
    Catalog::build(&settings, &Variables, &|_| "/etc".into())
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// A catalog with two providers, and `models` in the family `f` that both serve.
fn with_models(models: &Value) -> Catalog {
    build(base(&json!({"models": models}))).unwrap()
}

/// Two providers and a family, with `more` laid over them.
fn base(more: &Value) -> Value {
    let mut settings = json!({
        "providers": {
            "a": {"address": "http://a.example", "formats": ["chat", "responses"]},
            "b": {"address": "https://b.example:8443/x/", "formats": ["messages"]},
        },
        "families": {"f": {"group": "g", "deployments": ["a", "b"]}},
    });
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    settings
}

fn id<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a str> {
    catalog.resolve(name).map(|model| &*model.id)
}

#[test]
fn a_name_is_found_exactly_then_by_alias_then_in_its_dotted_form_then_by_pattern() {
    let catalog = build(base(&json!({
        "models": {
            "opus-4-8": {"family": "f"},
            "opus-4.7": {"family": "f"},
            "opus-4-7": {"family": "f"},
            "opus-latest": {"alias_of": "opus-4-8"},
            "op*": {"family": "f"},
            "opus-x-*": {"family": "f"},
        },
        "aliases": {"big-1-0": "opus-4-8"},
    })))
    .unwrap();
    for (name, expected) in [
        ("opus-4-8", Some("opus-4-8")),
        ("opus-4.8", Some("opus-4-8")),
        // An exact name is never taken for the dotted form of another.
        ("opus-4.7", Some("opus-4.7")),
        ("opus-4-7", Some("opus-4-7")),
        ("opus-latest", Some("opus-4-8")),
        ("big-1-0", Some("opus-4-8")),
        ("big-1.0", Some("opus-4-8")),
        // Only a dot between digits is one for a hyphen.
        ("opus.4-8", Some("op*")),
        ("big.1-0", None),
        ("big-1.0.", None),
        ("opus-x-1", Some("opus-x-*")),
        ("op", Some("op*")),
        ("OPUS-4-8", None),
        ("", None),
        ("*", None),
    ] {
        assert_eq!(id(&catalog, name), expected, "{name}");
    }
    assert_eq!(id(&catalog, &format!("op{}", "x".repeat(300))), None);
}

#[test]
fn a_switch_in_a_name_under_a_pattern_does_not_avoid_an_exact_name() {
    let catalog = build(base(&json!({
        "models": {
            "openai/gpt-5.5": {"family": "f"},
            "openai/gpt-5-4": {"family": "f"},
            "openai/gpt-5-3:free": {"family": "f"},
            "openai/*": {"family": "f"},
            "openai/gpt-5.5:n*": {"family": "f"},
        },
        "aliases": {"openai/big": "openai/gpt-5.5"},
    })))
    .unwrap();
    for (name, expected) in [
        ("openai/gpt-5.5:online", None),
        ("openai/gpt-5.5:online:nitro", None),
        ("openai/gpt-5.4:online", None),
        ("openai/big:floor", None),
        ("openai/other@preset/mine", None),
        ("openai/@preset/mine", None),
        ("openai/gpt-5-3:free", Some("openai/gpt-5-3:free")),
        ("openai/gpt-5-3:online", Some("openai/*")),
        ("openai/other:online", Some("openai/*")),
        ("openai/gpt-5.5-mini:online", Some("openai/*")),
        ("openai/other@20260101", Some("openai/*")),
        // A pattern with the colon means the suffixes.
        ("openai/gpt-5.5:nitro", Some("openai/gpt-5.5:n*")),
    ] {
        assert_eq!(id(&catalog, name), expected, "{name}");
    }
}

#[test]
fn a_pattern_matches_no_name_that_leaves_none_for_the_provider() {
    let catalog = with_models(&json!({"loc/*": {"family": "f", "deployments": ["a/*"]}}));
    assert_eq!(id(&catalog, "loc/x"), Some("loc/*"));
    assert_eq!(id(&catalog, "loc/"), None);
}

#[test]
fn a_pattern_is_no_name_of_a_model_but_usage_records_have_it() {
    let catalog = with_models(&json!({"loc/*": {"family": "f", "deployments": ["a/*"]}}));
    for name in ["loc/*", "loc/x*", "loc/*x"] {
        assert_eq!(id(&catalog, name), None, "{name}");
    }
    let served = |id: &str| catalog.served(id).map(|model| &*model.id);
    assert_eq!(served("loc/*"), Some("loc/*"));
    assert_eq!(served("loc/x*"), None);
}

#[test]
fn the_listing_keeps_the_order_of_the_file_and_leaves_out_patterns_and_models_without_deployments()
{
    let catalog = build(base(&json!({
        "models": {
            "z": {"family": "f"},
            "latest": {"alias_of": "z", "display_name": "The latest"},
            "y-*": {"family": "f"},
            "alone": {"family": "f", "deployments": []},
            "a": {"family": "f", "recommended": true, "context_window": "1M"},
        },
        "aliases": {"other-name": "z"},
        "auto": {"candidates": ["alone", "a"], "family": "f"},
    })))
    .unwrap();
    let listed: Vec<_> = catalog.models().iter().map(|model| &*model.id).collect();
    assert_eq!(listed, ["z", "latest", "a", "auto"]);
    assert_eq!(catalog.unserved(), [Arc::from("alone")]);
    assert_eq!(id(&catalog, "alone"), None);

    let z = catalog.resolve("latest").unwrap();
    assert_eq!(z.aliases, [Arc::from("latest"), Arc::from("other-name")]);
    let latest = catalog.entry("latest").unwrap();
    assert_eq!(&*latest.display_name, "The latest");
    assert_eq!(latest.kind, ModelKind::Alias { of: "z".into() });
    assert_eq!(catalog.entry("a").unwrap().context_window, Some(1_000_000));
    assert!(catalog.resolve("auto").unwrap().is_auto());
}

#[test]
fn access_to_auto_and_to_an_alias_depends_on_their_models() {
    let catalog = build(base(&json!({
        "models": {
            "z": {"family": "f"},
            "latest": {"alias_of": "z"},
            "a": {"family": "f", "group": "special"},
        },
        "auto": {"candidates": ["a"], "family": "f"},
    })))
    .unwrap();
    let usable = |group: &str| -> Vec<_> {
        let models = catalog.models().iter();
        models
            .filter(|model| catalog.is_usable(model, |it| &*it.group == group))
            .map(|model| &*model.id)
            .collect()
    };
    assert_eq!(usable("g"), ["z", "latest"]);
    assert_eq!(usable("special"), ["a", "auto"]);
    assert_eq!(catalog.groups(), [Arc::from("g"), Arc::from("special")]);
}

#[test]
fn a_provider_keeps_its_address_paths_and_credentials_apart() {
    let catalog = build(json!({
        "providers": {
            "p": {
                "address": "https://[::1]:8443/prefix/",
                "formats": [
                    "chat",
                    {"name": "messages", "path": "/m", "count_tokens": "/m/count"},
                ],
                "credentials": [
                    "env:KEY",
                    {"name": "own", "secret": "env:OTHER", "header": "api-key"},
                ],
                "headers": {"x-team": "blue"},
                "pass_headers": ["X-Sim"],
                "tls": {"ca": "ca.pem", "server_name": "models.example"},
                "timeouts": {"connect": "200ms", "read": "30s", "first_token": "5s"},
            },
        },
    }))
    .unwrap();
    let provider = &catalog.providers()[0];
    assert_eq!((&*provider.host, provider.port), ("::1", 8443));
    assert_eq!(provider.authority, "[::1]:8443");
    let chat = provider.endpoint(Format::Chat).unwrap();
    assert_eq!(&*chat.whole.path, "/prefix/v1/chat/completions");
    assert_eq!(chat.streamed, chat.whole);
    let messages = provider.endpoint(Format::Messages).unwrap();
    assert_eq!(&*messages.whole.path, "/prefix/m");
    let count = messages.count_tokens.as_ref().unwrap();
    assert_eq!(&*count.path, "/prefix/m/count");
    assert!(provider.endpoint(Format::Responses).is_none());
    let tls = provider.tls.as_ref().unwrap();
    assert_eq!(tls.ca.as_deref(), Some(Path::new("/etc/ca.pem")));
    assert_eq!((&*tls.server_name, tls.verify), ("models.example", true));
    assert_eq!(provider.timeouts.connect.as_millis(), 200);
    let answer = provider.timeouts.answer;
    assert_eq!(
        (answer.first_byte.as_secs(), answer.between_events.as_secs()),
        (30, 30)
    );
    assert_eq!(answer.first_token.as_secs(), 5);
    let own = serde_json::from_value(json!({"first_byte": "1m"})).unwrap();
    let own = answer.under(&own);
    assert_eq!(
        (own.first_byte.as_secs(), own.first_token.as_secs()),
        (60, 5)
    );
    assert_eq!(provider.pass_headers[0], "x-sim");

    let sent = |place: usize, format| {
        let Some(Proof::Header(name, value)) = provider.credentials[place].proof(format) else {
            panic!("no header");
        };
        assert!(value.is_sensitive());
        format!("{name}: {}", value.to_str().unwrap())
    };
    assert_eq!(sent(0, Format::Chat), "authorization: Bearer secret-of-KEY");
    assert_eq!(sent(0, Format::Messages), "x-api-key: secret-of-KEY");
    assert_eq!(sent(1, Format::Chat), "api-key: secret-of-OTHER");
    assert_eq!(&*provider.credentials[0].name, "KEY");
    assert!(!format!("{catalog:?}").contains("secret-of"));
}

#[test]
fn every_fault_in_providers_is_reported() {
    let faults = build(json!({
        "providers": {
            "bad name": {"address": "http://x", "formats": ["chat"]},
            "a": {"address": "ftp://x", "formats": ["chat", "chat"]},
            "b": {"address": "http://x/v1?y", "formats": [{"name": "chat", "path": "x", "count_tokens": "/c"}]},
            "c": {
                "address": "http://x:99999",
                "formats": ["chat"],
                "credentials": ["env:UNSET", "env:K", "env:K", "file:k", {"secret": "env:L", "header": "a b"}, {"secret": "env:M", "header": "Host"}],
                "headers": {"Authorization": "x", "host": "y", "x-ok": "a\nb", "ö": ""},
                "pass_headers": ["cookie", "x-api-key", "Anthropic-Beta"],
            },
            "d": {"address": "http://x", "formats": ["chat"], "tls": {"verify": false},
                "capabilities": {"stream_events": ["vendor.chunk", "", "two words", "error"]}},
            "e": {"address": "https://x", "formats": ["chat"], "tls": {"server_name": ""}},
            "f": {"address": "http://x/v1#y", "formats": ["chat"]},
        },
    }))
    .unwrap_err();
    let expected = [
        "providers.\"bad name\": a provider's name begins with a letter or digit and holds letters, digits and . - _ only, at most 128 of them",
        "providers.a.address: expected http:// or https://, a host, and where needed a port and a path prefix",
        "providers.a.formats[1]: 'chat' is given twice",
        "providers.b.address: an address has no query",
        "providers.b.formats[0].path: expected a path that begins with '/'",
        "providers.b.formats[0].count_tokens: only the formats messages and gemini have a token counter",
        "providers.c.address: expected http:// or https://, a host, and where needed a port and a path prefix",
        "providers.c.credentials[0]: the environment variable UNSET is not set",
        "providers.c.credentials[2]: another credential has the name 'K'",
        "providers.c.credentials[3]: the file /etc/k cannot be read: entity not found",
        "providers.c.credentials[4].header: expected the name of a header",
        "providers.c.credentials[5].header: 'host' is set by the gateway alone",
        "providers.c.headers.Authorization: 'authorization' carries a credential: put it under `credentials`",
        "providers.c.headers.host: 'host' is set by the gateway alone",
        "providers.c.headers.x-ok: the value holds a character that no header can carry",
        "providers.c.headers.ö: expected the name of a header",
        "providers.c.pass_headers[0]: 'cookie' is set by the gateway alone",
        "providers.c.pass_headers[1]: 'x-api-key' carries a credential: put it under `credentials`",
        "providers.c.pass_headers[2]: list 'anthropic-beta' in `pass_to_provider` of the filter `headers` instead",
        "providers.d.capabilities.stream_events[1]: expected a name of 1 to 64 letters, digits and . _ : -",
        "providers.d.capabilities.stream_events[2]: expected a name of 1 to 64 letters, digits and . _ : -",
        "providers.d.capabilities.stream_events[3]: 'error' is an error of the provider, which never passes",
        "providers.d.tls: the address is not https, so these settings would do nothing",
        "providers.e.tls.server_name: an empty name would turn verification off",
        "providers.f.address: an address has no fragment (#)",
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}

#[test]
fn a_field_by_which_requests_are_counted_cannot_be_refused() {
    let refused = |names: Value| json!({"refused_fields": names});
    let chat =
        |more: Value| json!({"address": "http://a", "formats": ["chat"], "capabilities": more});
    let deployment = |provider: &str, names: Value| json!([{"provider": provider, "capabilities": refused(names)}]);
    let faults = build(json!({
        "providers": {
            "a": chat(refused(json!(["n", "store", "max_completion_tokens", "stream_options"]))),
            "b": chat(json!({})),
            "r": {"address": "http://r", "formats": ["responses"]},
        },
        "families": {"f": {"group": "g", "deployments": ["b", "r"]}},
        "models": {
            "m": {"family": "f", "capabilities": refused(json!(["background", "model", "store"]))},
            "n": {"family": "f", "deployments": deployment("b", json!(["store", "messages"]))},
        },
    }))
    .unwrap_err();
    let fault = |path: &str, name: &str| {
        format!("{path}: the gateway counts or routes by '{name}': it cannot be dropped")
    };
    let expected = [
        fault(
            "providers.a.capabilities.refused_fields[2]",
            "max_completion_tokens",
        ),
        "providers.a.capabilities.refused_fields[3]: set `capabilities.chat.stream_options: false` instead"
            .to_owned(),
        fault("models.m.capabilities.refused_fields[1]", "model"),
        fault("models.m.capabilities.refused_fields[2]", "store"),
        fault(
            "models.n.deployments[0].capabilities.refused_fields[1]",
            "messages",
        ),
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}

#[test]
fn an_address_does_not_end_with_the_beginning_of_a_path() {
    let build = |address: &str, format: Value| {
        let address = format!("http://x{address}");
        let built = build(json!({"providers": {"a": {"address": address, "formats": [format]}}}));
        built.map(|_| ()).map_err(|faults| faults.join("\n"))
    };
    let own = |path: &str| json!({"name": "chat", "path": path});
    for (address, format, end) in [
        ("/v1", json!("chat"), "/v1"),
        (
            "/v1/chat/completions/",
            json!("chat"),
            "/v1/chat/completions",
        ),
        ("/x/v1beta", json!("gemini"), "/v1beta"),
        (
            "/openai/v1",
            own("/openai/v1/chat/completions"),
            "/openai/v1",
        ),
        ("/v2", own("/v2?api=1"), "/v2"),
    ] {
        let fault = build(address, format).unwrap_err();
        let expected = format!(" which already ends the address: remove {end} from the address");
        assert!(fault.ends_with(&expected), "{address}: {fault}");
    }
    for (address, format) in [
        ("/v1", json!("converse")),
        (
            "/v1",
            json!({"name": "embeddings", "api": "vertex_predict"}),
        ),
        ("/v1", own("/v1beta/chat")),
        ("/v1/openai", own("/v1/chat")),
        ("/base", json!("chat")),
    ] {
        assert_eq!(build(address, format.clone()), Ok(()), "{address} {format}");
    }
}

#[test]
fn fields_are_removed_only_where_the_path_has_what_they_said() {
    let catalog = build(json!({
        "providers": {
            "vertex": {
                "address": "https://vertex.example/v1",
                "formats": [{
                    "name": "messages",
                    "path": "/models/{model}:rawPredict",
                    "stream_path": "/models/{model}:streamRawPredict?alt=sse",
                    "count_tokens": "/models/count-tokens:rawPredict",
                    "set": {"anthropic_version": "vertex-2023-10-16"},
                    "remove": ["model", "stream", "metadata"],
                }],
            },
        },
    }))
    .unwrap();
    let endpoint = catalog.providers()[0].endpoint(Format::Messages).unwrap();
    let of = |purpose| {
        let target = endpoint.target(purpose).unwrap();
        let removed: Vec<_> = target.patch.remove.iter().map(|it| &**it).collect();
        let set = target
            .patch
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let set: Vec<_> = set.collect();
        assert_eq!(set, ["anthropic_version=\"vertex-2023-10-16\""]);
        (&*target.path, removed)
    };
    let without_model = vec!["model", "stream", "metadata"];
    assert_eq!(
        of(Purpose::Answer),
        ("/v1/models/{model}:rawPredict", without_model.clone())
    );
    assert_eq!(
        of(Purpose::Stream),
        ("/v1/models/{model}:streamRawPredict?alt=sse", without_model)
    );
    assert_eq!(
        of(Purpose::Count),
        (
            "/v1/models/count-tokens:rawPredict",
            vec!["stream", "metadata"]
        )
    );
}

#[test]
fn gemini_has_a_usual_path_for_each_kind_of_answer() {
    let catalog = build(json!({
        "providers": {"google": {"address": "https://google.example/base", "formats": ["gemini"]}},
    }))
    .unwrap();
    let endpoint = catalog.providers()[0].endpoint(Format::Gemini).unwrap();
    let path = |purpose| endpoint.target(purpose).map(|target| &*target.path);
    assert_eq!(
        path(Purpose::Answer),
        Some("/base/v1beta/models/{model}:generateContent")
    );
    assert_eq!(
        path(Purpose::Stream),
        Some("/base/v1beta/models/{model}:streamGenerateContent?alt=sse")
    );
    assert_eq!(path(Purpose::Count), None);
}

#[test]
fn every_fault_in_endpoints_is_reported() {
    let chat =
        |path: &str| json!({"address": "http://x", "formats": [{"name": "chat", "path": path}]});
    let faults = build(json!({
        "providers": {
            "a": chat("/d/{deployment}/chat?v=1"),
            "b": chat("/chat#top"),
            "c": chat("/chat completions"),
            "d": chat("/{model}}/chat"),
            "e": {"address": "http://x", "formats": [
                {"name": "responses", "path": "/{model}/responses"},
                {"name": "messages", "stream_path": "s", "set": {
                    "messages": [], "model": "m", "stream": true, "stream_options": {}, "": 1, "user": 1, "ok": null,
                }, "remove": ["model", "stream", "max_tokens", "user"]},
            ]},
            "f": {"address": "http://x/{model}", "formats": ["chat"]},
            "g": {"address": "http://x", "formats": [
                {"name": "gemini", "path": "/models:generateContent", "set": {"contents": []}},
            ]},
            "h": {"address": "http://x", "formats": [
                {"name": "responses", "set": {
                    "best_of": 2, "max_tokens": 5, "extra_body": {"n": 3}, "service_tier": "priority", "n_predict": "all",
                }},
                {"name": "gemini", "set": {"generation_config": {"maxOutputTokens": 5}}},
            ]},
            "i": {"address": "http://x", "formats": [{
                "name": "embeddings", "api": "vertex_predict",
                "set": {"task_type": "RETRIEVAL_QUERY", "parameters": {"autoTruncate": false}},
            }]},
        },
    }))
    .unwrap_err();
    let expected = [
        "providers.a.formats[0].path: {deployment} is unknown: the only placeholder is {model}",
        "providers.b.formats[0].path: a fragment (#) is not sent to a provider: leave it out",
        "providers.c.formats[0].path: ' ' cannot stand in an address: percent-encode it",
        "providers.d.formats[0].path: '}' stands alone: the only placeholder is {model}",
        "providers.e.formats[0].path: {model} cannot stand in a path for responses: a stored response is read without its model",
        "providers.e.formats[1].stream_path: expected a path that begins with '/'",
        "providers.e.formats[1].set.messages: 'messages' is set by the gateway alone",
        "providers.e.formats[1].set.model: 'model' is set by the gateway alone",
        "providers.e.formats[1].set.stream: 'stream' is set by the gateway alone",
        "providers.e.formats[1].set.stream_options: 'stream_options' is set by the gateway alone",
        "providers.e.formats[1].set.\"\": expected the name of a field, of 1 to 64 bytes",
        "providers.e.formats[1].set.user: 'user' stands under `remove`, too",
        "providers.e.formats[1].remove[0]: without 'model' the request would name no model: put {model} into `path`",
        "providers.e.formats[1].remove[2]: no request can be sent without 'max_tokens'",
        "providers.f.address: an address names no model: put {model} into `path` of a format",
        "providers.g.formats[0].path: requests of gemini name the model in the path: put {model} into it",
        "providers.g.formats[0]: gemini has one path for whole answers and one for streams: give `path` and `stream_path`, or neither",
        "providers.g.formats[0].set.contents: 'contents' is set by the gateway alone",
        "providers.h.formats[0].set.best_of: 'best_of' changes how much output is paid for, which the gateway alone sets: leave it out",
        "providers.h.formats[0].set.max_tokens: 'max_tokens' changes how much output is paid for, which the gateway alone sets: leave it out",
        "providers.h.formats[0].set.extra_body: 'n' is not taken from 'extra_body' (at byte 15): put it into the request itself",
        "providers.h.formats[0].set.n_predict: 'n_predict' must be an integer (at byte 13)",
        "providers.h.formats[1].set.generation_config: 'generation_config' is set by the gateway alone",
        "providers.i.formats[0].set.parameters: no field of this `api` 'parameters'; known are dimensions, encoding_format, task_type",
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}

#[test]
fn every_fault_in_models_is_reported_once() {
    let faults = build(base(&json!({
        "families": {
            "f": {"group": "g", "deployments": ["a", "nowhere"]},
            "n": {},
            "long": {"group": "g".repeat(65)},
        },
        "models": {
            "auto": {"family": "f"},
            "two": {"family": "f"},
            "three": {"family": "f"},
            "sp ace": {"family": "f"},
            "none": {},
            "tight": {"family": "f", "context_window": 10, "max_output_tokens": 11},
            "mute": {"family": "f", "context_window": 0, "max_output_tokens": 0},
            "d": {
                "family": "f",
                "group": "all",
                "deployments": [
                    {"provider": "a", "formats": ["messages"]},
                    {"provider": "b", "formats": []},
                    "b/x",
                    "b/x",
                ],
            },
            "alias": {"alias_of": "nothing", "reasoning": "none"},
            "chain": {"alias_of": "alias"},
            "itself": {"alias_of": "itself"},
        },
        "aliases": {"two": "three", "x": "alias", "auto": "two"},
        "auto": {"candidates": ["two", "missing"], "family": "other"},
    })))
    .unwrap_err();
    let expected = [
        "families.n: 'group' is missing",
        "families.long.group: a group begins with a letter or digit and holds letters, digits and . - _ only, at most 64 of them",
        "models.d.group: 'all' means every group; give this one a name of its own",
        "families.f.deployments[1]: no provider 'nowhere'; known are a, b",
        "models.auto: 'auto' is reserved; configure its candidates under `auto`",
        "models.\"sp ace\": a model name begins with a letter or digit and holds letters, digits and . - _ : / @ + only, at most 96 of them",
        "models.none: 'family' is missing",
        "models.tight.max_output_tokens: 11 tokens do not fit into the context window of 10",
        "models.mute.context_window: must be at least 1",
        "models.mute.max_output_tokens: must be at least 1",
        "models.d.deployments[0].formats[0]: provider 'a' does not speak messages, only chat, responses",
        "models.d.deployments[1].formats: a deployment without a format serves no request",
        "models.d.deployments[3]: 'b/x' is given twice",
        "models.alias.reasoning: an alias has no reasoning of its own: 'nothing' gives it",
        "models.alias.alias_of: no model 'nothing'; known are auto, two, three, sp ace, none, tight, mute, d",
        "models.chain.alias_of: no model 'alias'; known are auto, two, three, sp ace, none, tight, mute, d",
        "models.itself.alias_of: a model cannot be an alias of itself",
        "aliases.two: 'two' is a model of its own; an alias must be a name that is free",
        "aliases.x: no model 'alias'; known are auto, two, three, sp ace, none, tight, mute, d",
        "aliases.auto: 'auto' is reserved; configure its candidates under `auto`",
        "auto.family: no family 'other'; known are f, n, long",
        "auto.candidates[1]: no model 'missing' among the 11 known",
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}

#[test]
fn a_model_of_a_family_is_checked_with_the_deployments_of_the_family() {
    let faults = build(json!({
        "providers": {
            "a": {"address": "http://a", "formats": ["chat"]},
            "b": {"address": "http://b", "formats": [{"name": "embeddings", "api": "bedrock"}]},
        },
        "families": {
            "f": {"group": "g", "deployments": ["a", "a/known"]},
            "e": {"group": "g", "deployments": ["b"]},
            "twice": {"group": "g", "deployments": ["a", "a"]},
        },
        "models": {
            "known": {"family": "f"},
            "unknown": {"family": "f"},
            "empty": {"family": "f", "upstream_model": ""},
            "amazon.titan-embed": {"family": "e"},
            "acme.embed": {"family": "e"},
            "acme.*": {"family": "e"},
            "one": {"family": "twice"},
            "two": {"family": "twice"},
        },
    }))
    .unwrap_err();
    let expected = [
        "families.twice.deployments[1]: 'a/*' is given twice",
        "families.f.deployments[1]: 'a/known' is given twice",
        "models.empty.upstream_model: the upstream model's name is empty or holds a control character",
        "families.e.deployments[0]: 'acme.embed' names neither a model of Titan nor one of \
         Cohere: give the provider 'api: bedrock_titan' or 'api: bedrock_cohere'",
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}

#[test]
fn a_limit_of_tokens_that_would_be_another_is_a_fault() {
    let limits = |tokens: Value| json!({"tokens_per_minute": tokens});
    let build_with = |credential: Value, deployment: Value| {
        let credential = json!({"secret": "env:K", "limits": limits(credential)});
        let deployment = json!({"provider": "a", "limits": limits(deployment)});
        build(base(&json!({
            "providers": {"a": {
                "address": "http://a", "formats": ["chat"], "credentials": [credential],
            }},
            "families": {"f": {"group": "g", "deployments": [deployment]}},
            "models": {"m": {"family": "f"}},
        })))
    };
    assert_eq!(
        build_with(json!(0), json!("5G")).unwrap_err(),
        [
            "providers.a.credentials[0].limits.tokens_per_minute: must be from 1 to 4294967295; \
             leave it out for no limit",
            "families.f.deployments[0].limits.tokens_per_minute: must be from 1 to 4294967295; \
             leave it out for no limit",
        ]
    );
    let most = build_with(json!(1), json!(u32::MAX)).unwrap();
    let deployment = &most.resolve("m").unwrap().deployments[0];
    let tokens = |limits: crate::health::Limits| limits.tokens.map(std::num::NonZeroU32::get);
    assert_eq!(tokens(deployment.limits), Some(u32::MAX));
    assert_eq!(tokens(deployment.provider.credentials[0].limits), Some(1));
}

#[test]
fn the_name_sent_upstream_is_the_deployments_then_the_models_then_the_one_asked_for() {
    let catalog = with_models(&json!({
        "m": {"family": "f", "deployments": ["a", "b/other"], "upstream_model": "real"},
        "plain": {"family": "f"},
        "sim-*": {"family": "f"},
    }));
    let sent = |name: &str| -> Vec<_> {
        let deployments = catalog.resolve(name).unwrap().deployments.iter();
        deployments
            .map(|it| format!("{} {}", it.name, it.upstream_model(name)))
            .collect()
    };
    assert_eq!(sent("m"), ["a/real real", "b/other other"]);
    assert_eq!(sent("plain"), ["a/plain plain", "b/plain plain"]);
    assert_eq!(sent("sim-7"), ["a/sim-* sim-7", "b/sim-* sim-7"]);
}

#[test]
fn the_star_of_a_deployment_stands_for_the_part_of_a_name_that_a_pattern_of_the_family_matches() {
    let catalog = build(base(&json!({
        "families": {
            "f": {"group": "g", "deployments": [{"provider": "a", "upstream_model": "*"}]},
            "other": {"group": "g", "deployments": ["b"]},
        },
        "models": {
            "local/*": {"family": "f"},
            "local/big/*": {"family": "f"},
            "l*": {"family": "other"},
            "local/qwen3:8b": {"family": "f"},
            "local/big/one": {"family": "f"},
            "small": {"family": "f", "upstream_model": "qwen3:1b"},
            "alone": {"family": "f"},
            "starred": {"family": "f", "upstream_model": "*"},
        },
    })))
    .unwrap();
    for (name, deployment, sent) in [
        ("local/any", "a/*", "any"),
        ("local/qwen3:8b", "a/qwen3:8b", "qwen3:8b"),
        ("local/big/one", "a/one", "one"),
        ("small", "a/qwen3:1b", "qwen3:1b"),
        ("alone", "a/alone", "alone"),
        ("starred", "a/starred", "starred"),
    ] {
        let found = &catalog.resolve(name).unwrap().deployments[0];
        assert_eq!(&*found.name, deployment, "{name}");
        assert_eq!(found.upstream_model(name), sent, "{name}");
    }
}

#[test]
fn a_star_within_a_longer_upstream_name_is_a_fault() {
    let faults = build(base(&json!({
        "models": {
            "x/*": {"family": "f", "deployments": ["a/vendor-*"]},
            "y": {"family": "f", "upstream_model": "vendor/*"},
        },
    })))
    .unwrap_err();
    let expected = [
        "models.x/*.deployments[0]: '*' in 'vendor-*' would be sent as it is: only '*' alone \
         stands for the part that a pattern matches",
        "models.y.upstream_model: '*' in 'vendor/*' would be sent as it is: only '*' alone \
         stands for the part that a pattern matches",
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}

#[test]
fn a_weight_that_would_be_another_is_refused() {
    let faults = build(base(&json!({
        "families": {"f": {"group": "g", "deployments": ["a"],
                           "weights": {"input": 0.0004, "output": 1.0001}}},
        "models": {"m": {"family": "f", "weights": {"cache_read": 0.0005, "cache_write": 999.9999}}},
    })));
    assert_eq!(
        faults.unwrap_err(),
        [
            "families.f.weights.input: three decimal places count: 0.0004 would be 0",
            "families.f.weights.output: three decimal places count: 1.0001 would be 1",
            "models.m.weights.cache_read: three decimal places count: 0.0005 would be 0.001",
            "models.m.weights.cache_write: three decimal places count: 999.9999 would be 1000",
        ]
    );
    // However binary fractions stand for them.
    for thousandths in (0..1200_u32).chain([12_345, 999_999, 1_000_000]) {
        let weight = f64::from(thousandths) / 1000.0;
        let settings = json!({"m": {"family": "f", "weights": {"input": weight}}});
        let model = with_models(&settings);
        let model = model.resolve("m").unwrap();
        assert_eq!(model.weights.input.thousandths(), thousandths);
    }
}

/// What is wrong with an open path of the provider `a`, whose other fields are right.
fn of_open_path(more: &Value) -> Vec<String> {
    let mut entry = json!({"path": "/v1/files", "methods": ["GET"], "charge": 0});
    for (key, value) in more.as_object().unwrap() {
        entry[key] = value.clone();
    }
    let formats = json!(["chat", "gemini", {"name": "responses", "path": "/r?v=1"}]);
    let provider = json!({
        "address": "http://a.example/x", "formats": formats, "passthrough": [entry],
    });
    let settings = json!({
        "providers": {"a": provider},
        "families": {"f": {"group": "g", "deployments": ["a"]}},
    });
    build(settings).map_or_else(|faults| faults, |_| Vec::new())
}

#[test]
fn an_open_path_is_plain_and_serves_no_format() {
    for path in ["/v1/files", "/v1/files/*", "/v1", "/a/b:c/*"] {
        assert_eq!(of_open_path(&json!({"path": path})), [""; 0], "{path}");
    }
    for path in [
        "", "/", "/*", "v1", "/v1/", "/v1/../x", "/v1/*/x", "/v1*", "/v1?a=b", "/v1/%2f",
    ] {
        let faults = of_open_path(&json!({"path": path}));
        let wanted = "providers.a.passthrough[0].path: expected a path";
        // All below the root is not plain, and has the formats.
        assert_eq!(
            faults.len(),
            if path == "/*" { 2 } else { 1 },
            "{path}: {faults:?}"
        );
        assert!(faults[0].contains(wanted), "{faults:?}");
    }
    let long = |bytes| of_open_path(&json!({"path": format!("{:x<bytes$}", "/")}));
    assert_eq!(long(95), [""; 0]);
    assert!(
        long(96)[0].contains("at most 96 bytes together"),
        "{:?}",
        long(96)
    );
    for path in [
        "/v1/*",
        "/v1/chat/*",
        "/v1/chat/completions",
        "/v1/chat/completions/*",
        "/r",
        "/v1beta/*",
        "/v1beta/models/*",
        "/v1beta/models/x:generateContent",
    ] {
        let faults = of_open_path(&json!({"path": path, "methods": ["GET", "POST"]}));
        assert!(
            faults[0].contains("serves the format"),
            "{path}: {faults:?}"
        );
    }
    for path in [
        "/v1/chat",
        "/v1/files/*",
        "/v1beta/files/*",
        "/r/x",
        "/v1/chat/completionsx",
    ] {
        let faults = of_open_path(&json!({"path": path, "methods": ["POST"]}));
        assert_eq!(faults, [""; 0], "{path}");
    }
}

#[test]
fn an_open_path_passes_no_header_of_the_gateways() {
    for (field, header) in [
        ("pass_headers", "authorization"),
        ("pass_headers", "x-api-key"),
        ("pass_headers", "cookie"),
        ("pass_headers", "transfer-encoding"),
        ("answer_headers", "set-cookie"),
        ("answer_headers", "x-request-id"),
        ("answer_headers", "transfer-encoding"),
        ("answer_headers", "no name"),
    ] {
        let faults = of_open_path(&json!({field: [header]}));
        assert_eq!(faults.len(), 1, "{header}: {faults:?}");
        assert!(faults[0].contains(field), "{faults:?}");
    }
    let faults = of_open_path(&json!({"methods": []}));
    assert!(faults[0].contains("at least one method"), "{faults:?}");
}
