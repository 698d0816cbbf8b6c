//! How a profile chooses, each promise shown by a small catalog.

use super::*;
use crate::CatalogSettings;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use tollgate_settings::Environment;
use tollgate_types::{ConversationFacts, Effort, RequestNeeds, Script};

struct NoVariables;

impl Environment for NoVariables {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn read_bytes(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn build(models: &Value, auto: &Value) -> Result<Catalog, Vec<String>> {
    let settings: CatalogSettings = serde_json::from_value(json!({
        "providers": {"p": {"address": "http://p", "formats": ["chat"]}},
        "families": {"f": {"group": "g", "deployments": ["p"]}},
        "models": models,
        "auto": auto,
    }))
    .unwrap();
    Catalog::build(&settings, &NoVariables, &|_| "/".into())
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// Three models; `light` has no images. Rules for code and for short texts.
fn catalog(more: &Value) -> Catalog {
    let mut auto = json!({
        "family": "f",
        "candidates": ["middle", "light", "strong"],
        "rules": [
            {"name": "code", "when": {"code": true}, "use": ["strong"]},
            {"when": {"max_text": 1000}, "use": ["light"]},
        ],
    });
    for (key, value) in more.as_object().unwrap() {
        auto[key] = value.clone();
    }
    build(&models(), &auto).unwrap()
}

fn models() -> Value {
    json!({
        "light": {"family": "f", "price": {"input": 1, "output": 5}, "unsupported": ["images"], "context_window": 10_000},
        "middle": {"family": "f", "price": {"input": 3, "output": 15}},
        "strong": {"family": "f", "price": {"input": 5, "output": 25}},
    })
}

fn short() -> RequestFacts {
    RequestFacts::default()
}

fn long() -> RequestFacts {
    RequestFacts {
        text_bytes: 1001,
        ..RequestFacts::default()
    }
}

fn conversation(facts: ConversationFacts) -> RequestFacts {
    RequestFacts {
        conversation: Some(Box::new(facts)),
        ..RequestFacts::default()
    }
}

fn code() -> RequestFacts {
    conversation(ConversationFacts {
        code: true,
        ..ConversationFacts::default()
    })
}

fn images() -> RequestFacts {
    RequestFacts {
        needs: RequestNeeds {
            images: true,
            ..RequestNeeds::default()
        },
        ..RequestFacts::default()
    }
}

fn any_model(_: &Model) -> bool {
    true
}

fn request(facts: &RequestFacts) -> ChoiceRequest<'_> {
    ChoiceRequest {
        facts,
        allowed: &any_model,
        available: &any_model,
        before: None,
    }
}

fn choice(catalog: &Catalog, request: &ChoiceRequest<'_>) -> String {
    let profile = catalog.profile("auto").unwrap();
    match profile.choose(request) {
        Some(decision) => format!("{}: {decision}", decision.model.id),
        None => "none".to_owned(),
    }
}

#[test]
fn without_rules_the_first_candidate_answers_that_is_allowed_and_can() {
    let models = json!({
        "small": {
            "family": "f", "reasoning": "adaptive",
            "context_window": 1000, "max_output_tokens": 500, "unsupported": ["images"],
        },
        "plain": {"family": "f", "group": "p", "reasoning": "none"},
        "large": {"family": "f", "reasoning": "adaptive"},
    });
    let candidates = json!({"candidates": ["small", "plain", "small", "large"], "family": "f"});
    let catalog = build(&models, &candidates).unwrap();
    let facts = |text_bytes, output_limit, needs| RequestFacts {
        text_bytes,
        output_limit,
        needs,
        ..RequestFacts::default()
    };
    let none = RequestNeeds::default();
    let images = RequestNeeds {
        images: true,
        ..none
    };
    let reasoning = RequestNeeds {
        reasoning: true,
        ..none
    };
    for (facts, denied, expected) in [
        (facts(30, None, none), "", "small: auto: default"),
        (facts(30, None, none), "small", "plain: auto: default"),
        (
            facts(30, None, images),
            "",
            "plain: auto: default, passed over small (images)",
        ),
        (
            facts(30, Some(501), none),
            "",
            "plain: auto: default, passed over small (output limit)",
        ),
        (facts(1200, Some(400), none), "", "small: auto: default"),
        (
            facts(1201, Some(400), none),
            "",
            "plain: auto: default, passed over small (context)",
        ),
        (
            facts(9000, None, reasoning),
            "",
            "large: auto: default, passed over small (context), plain (reasoning)",
        ),
    ] {
        let allowed = |model: &Model| &*model.id != denied;
        let request = ChoiceRequest {
            allowed: &allowed,
            ..request(&facts)
        };
        assert_eq!(choice(&catalog, &request), expected, "{facts:?}");
    }
    let any = facts(30, None, none);
    let none_allowed = ChoiceRequest {
        allowed: &|_| false,
        ..request(&any)
    };
    assert_eq!(choice(&catalog, &none_allowed), "none");
}

#[test]
fn the_first_rule_decides_whose_conditions_hold() {
    let catalog = catalog(&json!({}));
    for (facts, expected) in [
        (short(), "light: auto: rule 2"),
        (code(), "strong: auto: rule code"),
        (long(), "middle: auto: default"),
    ] {
        assert_eq!(choice(&catalog, &request(&facts)), expected, "{facts:?}");
    }
}

#[test]
fn a_rule_whose_models_cannot_answer_leaves_the_decision_to_the_next() {
    let catalog = catalog(&json!({}));
    let without =
        |names: &'static [&'static str]| move |model: &Model| !names.contains(&&*model.id);
    for (facts, down, expected) in [
        (
            code(),
            &["strong"][..],
            "light: auto: rule 2, passed over strong (unavailable)",
        ),
        (
            code(),
            &["strong", "light"],
            "middle: auto: default, passed over strong (unavailable), light (unavailable)",
        ),
        (
            images(),
            &[],
            "middle: auto: default, passed over light (images)",
        ),
        (code(), &["strong", "light", "middle"], "none"),
    ] {
        let available = without(down);
        let request = ChoiceRequest {
            available: &available,
            ..request(&facts)
        };
        assert_eq!(choice(&catalog, &request), expected, "{facts:?}");
    }
}

#[test]
fn each_condition_holds_for_what_it_says() {
    let needs = RequestNeeds::default();
    let with_needs = |needs| RequestFacts {
        needs,
        ..RequestFacts::default()
    };
    let text = |text_bytes| RequestFacts {
        text_bytes,
        ..RequestFacts::default()
    };
    let messages = |messages| {
        conversation(ConversationFacts {
            messages,
            ..ConversationFacts::default()
        })
    };
    let effort = |effort| RequestFacts {
        effort: Some(effort),
        ..RequestFacts::default()
    };
    let budget = |budget| RequestFacts {
        thinking_budget: Some(budget),
        ..RequestFacts::default()
    };
    let chinese = conversation(ConversationFacts {
        script: Script::NotLatin,
        ..ConversationFacts::default()
    });
    let tools = with_needs(RequestNeeds {
        tools: true,
        ..needs
    });
    let documents = with_needs(RequestNeeds {
        documents: true,
        ..needs
    });
    let audio = with_needs(RequestNeeds {
        audio: true,
        ..needs
    });
    for (when, holds, fails) in [
        (json!({"min_text": "1kB"}), text(1000), text(999)),
        (json!({"max_text": "1kB"}), text(1000), text(1001)),
        (json!({"min_messages": 3}), messages(3), messages(2)),
        (json!({"max_messages": 3}), messages(3), messages(4)),
        (json!({"tools": true}), tools.clone(), short()),
        (json!({"tools": false}), short(), tools),
        (json!({"images": true}), images(), short()),
        (json!({"documents": true}), documents, short()),
        (json!({"audio": true}), audio, short()),
        (json!({"code": true}), code(), short()),
        (json!({"code": false}), short(), code()),
        (json!({"script": "not_latin"}), chinese.clone(), short()),
        (json!({"script": "latin"}), short(), chinese),
        (
            json!({"min_effort": "high"}),
            effort(Effort::High),
            effort(Effort::Medium),
        ),
        (json!({"min_effort": "high"}), budget(8192), budget(8191)),
        (json!({"min_effort": "none"}), effort(Effort::None), short()),
        (
            json!({"max_effort": "low"}),
            effort(Effort::Minimal),
            effort(Effort::Medium),
        ),
        (json!({"max_effort": "low"}), budget(2047), short()),
        // All conditions of a rule must hold.
        (
            json!({"code": true, "max_text": 10}),
            code(),
            RequestFacts {
                text_bytes: 11,
                ..code()
            },
        ),
    ] {
        let rules = json!([{"when": when, "use": ["strong"]}]);
        let catalog = catalog(&json!({"rules": rules}));
        for (facts, expected) in [(holds, "rule 1"), (fails, "default")] {
            let profile = catalog.profile("auto").unwrap();
            let decision = profile.choose(&request(&facts)).unwrap();
            assert_eq!(decision.label(), expected, "{when}: {facts:?}");
        }
    }
}

type Available<'a> = &'a dyn Fn(&Model) -> bool;

#[test]
fn a_conversation_stays_with_its_model_unless_it_must_move() {
    let catalog = catalog(&json!({}));
    let up = |model: &Model| &*model.id != "middle";
    let (all, up): (Available<'_>, Available<'_>) = (&any_model, &up);
    for (before, facts, available, expected) in [
        // Whatever the rules decide for the beginning of a conversation.
        (
            "strong",
            short(),
            all,
            "strong: auto: stays with the conversation's model",
        ),
        (
            "light",
            code(),
            all,
            "light: auto: stays with the conversation's model",
        ),
        // Away from a model that cannot answer, and then by the rules.
        (
            "light",
            images(),
            all,
            "middle: auto: moved from light (images), default",
        ),
        (
            "middle",
            code(),
            up,
            "strong: auto: moved from middle (unavailable), rule code",
        ),
        // As at the beginning, if the model is no candidate any more.
        ("gone", short(), all, "light: auto: rule 2"),
    ] {
        let request = ChoiceRequest {
            before: Some(before),
            available,
            ..request(&facts)
        };
        assert_eq!(choice(&catalog, &request), expected, "from {before}");
    }
}

#[test]
fn a_key_hears_nothing_of_models_that_it_may_not_use() {
    let catalog = catalog(&json!({}));
    let code = code();
    let allowed = |model: &Model| &*model.id != "strong";
    let down = |model: &Model| &*model.id != "light";
    for before in [None, Some("strong")] {
        let request = ChoiceRequest {
            allowed: &allowed,
            available: &down,
            before,
            ..request(&code)
        };
        let decision = catalog.profile("auto").unwrap().choose(&request).unwrap();
        let text = format!("{decision:?} {decision}");
        assert!(!text.contains("\"strong"), "{text}");
        assert!(!decision.to_string().contains("strong"), "{decision}");
    }
}

#[test]
fn profiles_are_names_with_rules_of_their_own_over_those_of_auto() {
    let catalog = catalog(&json!({
        "profiles": {
            "auto-cheap": {"max_price": {"output": 15}},
            "auto-max-4-8": {"candidates": ["strong"]},
            "auto-free": {"max_price": {"input": 0.5}},
            "auto-plain": {"rules": []},
        },
    }));
    let listed: Vec<_> = catalog.models().iter().map(|model| &*model.id).collect();
    assert_eq!(
        listed,
        [
            "light",
            "middle",
            "strong",
            "auto",
            "auto-cheap",
            "auto-max-4-8",
            "auto-plain"
        ]
    );
    assert_eq!(catalog.unserved(), [Arc::from("auto-free")]);
    let chosen = |name: &str| {
        let facts = RequestFacts {
            text_bytes: 1001,
            ..code()
        };
        let profile = catalog.profile(name).unwrap();
        let decision = profile.choose(&request(&facts)).unwrap();
        format!("{} {decision}", decision.model.id)
    };
    assert_eq!(chosen("auto"), "strong auto: rule code");
    assert_eq!(
        chosen("auto-cheap"),
        "middle auto-cheap: default, passed over strong (price)"
    );
    assert_eq!(chosen("auto-plain"), "middle auto-plain: default");
    assert_eq!(
        chosen("auto-max-4.8"),
        "strong auto-max-4-8: rule code",
        "a dotted name, and a rule of `auto`"
    );
    assert!(catalog.profile("middle").is_none());
    // Keys may use a profile if they may use a model that it can choose.
    let usable = |allowed: &str| {
        let cheap = catalog.resolve("auto-cheap").unwrap();
        catalog.is_usable(cheap, |model| &*model.id == allowed)
    };
    assert!(usable("light") && usable("middle") && !usable("strong"));
}

#[test]
fn rules_name_models_by_any_of_their_names_and_pass_over_those_without_a_deployment() {
    let mut models = models();
    models["short"] = json!({"alias_of": "light"});
    models["unserved"] = json!({"family": "f", "deployments": []});
    let auto = json!({
        "family": "f",
        "candidates": ["middle", "light", "unserved"],
        "rules": [{"when": {"max_text": 1000}, "use": ["unserved", "short"]}],
    });
    let catalog = build(&models, &auto).unwrap();
    assert_eq!(choice(&catalog, &request(&short())), "light: auto: rule 1");
}

#[test]
fn every_fault_in_profiles_is_reported() {
    let mut models = models();
    models["plain"] = json!({"family": "f"});
    models["any/*"] = json!({"family": "f", "price": {"input": 1, "output": 1}});
    models["bad"] = json!({"family": "f", "price": {
        "input": 1, "output": 1,
        "changes": [
            {"from": "2026-12-02", "input": 1, "output": 1},
            {"from": "2026-12-01", "input": 1, "output": 1},
        ],
    }});
    let auto = json!({
        "family": "f",
        "candidates": ["light", "plain"],
        "max_price": {"input": 1},
        "rules": [
            {"name": "1st", "when": {}, "use": ["lihgt"]},
            {"name": "small", "when": {"min_text": 2000, "max_text": "1kB"}, "use": ["middle"]},
            {"name": "small", "when": {"min_messages": 2, "max_messages": 1}, "use": ["light"]},
            {"name": "a b", "when": {"min_effort": "high", "max_effort": "low"}, "use": ["light"]},
        ],
        "profiles": {
            "auto": {},
            "light": {},
            "sp ace": {},
            "other": {
                "candidates": ["middle", "strnog", "any/*"],
                "rules": [{"when": {"code": true}, "use": ["light", "any/*"]}],
            },
            "unpriced": {"candidates": ["plain"], "max_price": {"output": 1}},
        },
    });
    let faults = build(&models, &auto).unwrap_err();
    let expected = [
        "models.bad.price.changes[1].from: expected a later date than the one before",
        "auto.profiles.auto: 'auto' is reserved; configure its candidates under `auto`",
        "auto.profiles.light: 'light' is a model; a profile needs a name that is free",
        "auto.profiles.\"sp ace\": a model name begins with a letter or digit and holds letters, digits and . - _ : / @ + only, at most 96 of them",
        "auto.rules[0].name: the name of a rule begins with a letter",
        "auto.rules[0].when: a rule needs a condition; `candidates` decides if no rule does",
        "auto.rules[0].use[0]: no model 'lihgt'; did you mean 'light'?",
        "auto.rules[1].when: 'min_text' is above 'max_text': no request matches",
        "auto.rules[1].use[0]: 'middle' is not a candidate: add it to `candidates`",
        "auto.rules[2].name: 'small' is the name of an earlier rule",
        "auto.rules[2].when: 'min_messages' is above 'max_messages': no request matches",
        "auto.rules[3].name: the name of a rule begins with a letter or digit and holds letters, digits and - _ only, at most 128 of them",
        "auto.rules[3].when: 'min_effort' is above 'max_effort': no request matches",
        "auto.max_price: the candidate 'plain' has no price to compare with the cap: set `models.plain.price`",
        "auto.profiles.other.candidates[1]: no model 'strnog'; did you mean 'strong'?",
        "auto.profiles.other.candidates[2]: 'any/*' is a pattern; a candidate is one model",
        "auto.profiles.other.rules[0].use[1]: 'any/*' is a pattern; a candidate is one model",
        "auto.profiles.other.rules[0].use[0]: 'light' is not a candidate: add it to `candidates`",
        "auto.profiles.unpriced.max_price: the candidate 'plain' has no price to compare with the cap: set `models.plain.price`",
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}
