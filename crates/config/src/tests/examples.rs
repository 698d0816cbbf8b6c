//! The examples, their defaults and the generated page.

use super::*;

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
fn the_schema_for_editors_accepts_a_section_that_completes_an_included_one() {
    let schema = serde_json::from_str(&schema_text()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for (section, key) in [
        (
            "providers",
            serde_json::json!({"a": {"address": "http://x"}}),
        ),
        ("plans", serde_json::json!({"a": {"tokens": "1M"}})),
        ("auto", serde_json::json!({})),
        ("traces", serde_json::json!({})),
        ("store", serde_json::json!({"postgres": {"connections": 2}})),
        ("limits", serde_json::json!({"shared": {}})),
    ] {
        let file = serde_json::json!({"include": "base.yaml", section: key});
        let fault = validator.validate(&file).map_err(|fault| fault.to_string());
        assert_eq!(fault, Ok(()), "{file}");
    }
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
        let counts_tokens = model.deployments.iter().any(|it| {
            let endpoint = it.provider.endpoint(Format::Messages);
            endpoint.is_some_and(|it| it.count_tokens.is_some())
        });
        assert!(counts_tokens, "{}", model.id);
    }
    let model = catalog.resolve("sim-cut-300").unwrap();
    let deployment = &model.deployments[0];
    assert_eq!(deployment.upstream_model("sim-cut-300"), "sim-cut-300");
    assert_eq!(&*deployment.name, "sim/sim-*", "metrics stay bounded");
}

#[test]
fn the_operators_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = reference::reference();
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/reference/configuration.md is not what the types say; TOLLGATE_BLESS=1 writes it anew"
    );
}
