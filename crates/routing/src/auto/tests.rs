//! How a profile chooses, each rule shown by a small catalog.

use super::*;
use crate::CatalogSettings;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use tollgate_settings::Environment;
use tollgate_types::{ConversationFacts, Effort, MediaFacts, RequestNeeds, TextSample};

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

/// One model of each tier, the middle one the best; `strong-2` has no images.
fn tiered(more: &Value) -> Catalog {
    let mut auto = json!({
        "family": "f",
        "candidates": ["middle", "light", "strong", "strong-2"],
        "weights": {"base": 0.15, "effort": 0.5},
        "thresholds": {"middle": 0.3, "strong": 0.55},
    });
    for (key, value) in more.as_object().unwrap() {
        auto[key] = value.clone();
    }
    build(&tiered_models(), &auto).unwrap()
}

fn tiered_models() -> Value {
    json!({
        "light": {"family": "f", "tier": "light", "price": {"input": 1, "output": 5}, "unsupported": ["images"], "context_window": 10_000},
        "middle": {"family": "f", "tier": "middle", "price": {"input": 3, "output": 15}},
        "strong": {"family": "f", "tier": "strong", "price": {"input": 5, "output": 25}},
        "strong-2": {"family": "f", "tier": "strong", "price": {"input": 5, "output": 30}},
    })
}

/// A request whose score is the effort's alone: 0.15, and half of the effort.
fn with_effort(effort: Effort) -> RequestFacts {
    RequestFacts {
        effort: Some(effort),
        ..RequestFacts::default()
    }
}

fn everyone(_: &Model) -> bool {
    true
}

fn ask<'a>(facts: &'a RequestFacts) -> Ask<'a> {
    Ask {
        facts,
        allowed: &everyone,
        available: &everyone,
        before: None,
    }
}

fn told(catalog: &Catalog, ask: &Ask<'_>) -> String {
    let profile = catalog.profile("auto").unwrap();
    match profile.choose(ask) {
        Some(decision) => format!("{}: {decision}", decision.model.id),
        None => "nobody".to_owned(),
    }
}

#[test]
fn without_tiers_the_first_candidate_that_is_allowed_and_fits_is_taken() {
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
        (facts(30, None, none), "", "small: auto: first choice"),
        (facts(30, None, none), "small", "plain: auto: first choice"),
        (
            facts(30, None, images),
            "",
            "plain: auto: passed over small (images)",
        ),
        (
            facts(30, Some(501), none),
            "",
            "plain: auto: passed over small (output limit)",
        ),
        (
            facts(1200, Some(400), none),
            "",
            "small: auto: first choice",
        ),
        (
            facts(1201, Some(400), none),
            "",
            "plain: auto: passed over small (context)",
        ),
        (
            facts(9000, None, reasoning),
            "",
            "large: auto: passed over small (context), plain (reasoning)",
        ),
    ] {
        let allowed = |model: &Model| &*model.id != denied;
        let ask = Ask {
            allowed: &allowed,
            ..ask(&facts)
        };
        assert_eq!(told(&catalog, &ask), expected, "{facts:?}");
    }
    let any = facts(30, None, none);
    let nobody = Ask {
        allowed: &|_| false,
        ..ask(&any)
    };
    assert_eq!(told(&catalog, &nobody), "nobody");
}

#[test]
fn the_score_says_which_tier_answers_and_in_doubt_the_best_does() {
    let catalog = tiered(&json!({"thresholds": {"middle": 0.3, "strong": 0.55, "doubt": 0.02}}));
    for (effort, expected) in [
        (Effort::Minimal, "light: auto: score 0.00, light"),
        (Effort::Low, "light: auto: score 0.00, light"),
        (Effort::Medium, "light: auto: score 0.15, light"),
        (Effort::High, "middle: auto: score 0.40, middle"),
        (Effort::Max, "strong: auto: score 0.65, strong"),
    ] {
        assert_eq!(told(&catalog, &ask(&with_effort(effort))), expected);
    }
    let near = tiered(&json!({"thresholds": {"middle": 0.16, "strong": 0.66}}));
    for effort in [Effort::Medium, Effort::Max] {
        let told = told(&near, &ask(&with_effort(effort)));
        assert!(
            told.starts_with("middle: ") && told.ends_with("in doubt the best single model"),
            "{told}"
        );
    }
    // Another best one, and one that cannot answer.
    let best = tiered(&json!({"best": "strong-2", "thresholds": {"middle": 0.16, "strong": 0.66}}));
    let medium = with_effort(Effort::Medium);
    assert!(told(&best, &ask(&medium)).starts_with("strong-2: "));
    let down = |model: &Model| &*model.id != "strong-2";
    let ask = Ask {
        available: &down,
        ..ask(&medium)
    };
    assert_eq!(told(&best, &ask), "light: auto: score 0.15, light");
}

#[test]
fn where_a_tier_has_nobody_the_next_stronger_one_answers_and_last_a_weaker_one() {
    let catalog = tiered(&json!({}));
    let max = with_effort(Effort::Max);
    let low = with_effort(Effort::Low);
    let without =
        |names: &'static [&'static str]| move |model: &Model| !names.contains(&&*model.id);
    for (facts, down, expected) in [
        (&max, &["strong"][..], "strong-2: auto: score 0.65, strong"),
        (
            &max,
            &["strong", "strong-2"],
            "middle: auto: score 0.65, strong wanted, middle to be had",
        ),
        (
            &low,
            &["light"],
            "middle: auto: score 0.00, light wanted, middle to be had",
        ),
        (
            &low,
            &["light", "middle"],
            "strong: auto: score 0.00, light wanted, strong to be had",
        ),
    ] {
        let available = without(down);
        let ask = Ask {
            available: &available,
            ..ask(facts)
        };
        assert_eq!(told(&catalog, &ask), expected);
    }
}

#[test]
fn what_a_request_needs_comes_before_its_score() {
    let catalog = tiered(&json!({}));
    let image = RequestFacts {
        needs: RequestNeeds {
            images: true,
            ..RequestNeeds::default()
        },
        media: MediaFacts {
            parts: 1,
            bytes: 1000,
            ..MediaFacts::default()
        },
        ..with_effort(Effort::Low)
    };
    assert!(told(&catalog, &ask(&image)).starts_with("middle: "));
    let long = RequestFacts {
        text_bytes: 100_000,
        ..with_effort(Effort::Low)
    };
    assert!(told(&catalog, &ask(&long)).starts_with("middle: "));
    let decision = catalog
        .profile("auto")
        .unwrap()
        .choose(&ask(&long))
        .unwrap();
    let obstacles: Vec<_> = decision
        .considered
        .iter()
        .map(|it| (&*it.model.id, it.obstacle))
        .collect();
    assert_eq!(
        obstacles,
        [
            ("middle", None),
            ("light", Some(Obstacle::Context)),
            ("strong", None),
            ("strong-2", None)
        ]
    );
}

type Available<'a> = &'a dyn Fn(&Model) -> bool;

#[test]
fn a_conversation_stays_with_its_model_unless_it_must_move() {
    let catalog =
        tiered(&json!({"thresholds": {"middle": 0.3, "strong": 0.55, "hysteresis": 0.1}}));
    let of = |effort| with_effort(effort);
    let up = |model: &Model| &*model.id != "middle";
    let (all, up): (Available<'_>, Available<'_>) = (&everyone, &up);
    for (before, effort, available, expected) in [
        // Never down.
        (
            "strong",
            Effort::Low,
            all,
            "strong: auto: score 0.00, stays with the conversation's model",
        ),
        (
            "strong-2",
            Effort::Max,
            all,
            "strong-2: auto: score 0.65, stays with the conversation's model",
        ),
        // Up, but only where the score is well beyond the threshold: 0.40 asks for the
        // middle tier and is 0.1 above it, 0.65 is for the strong one.
        (
            "light",
            Effort::High,
            all,
            "middle: auto: score 0.40, moved up from light",
        ),
        (
            "middle",
            Effort::High,
            all,
            "middle: auto: score 0.40, stays with the conversation's model",
        ),
        // Away from who cannot answer, and not to a weaker one.
        (
            "middle",
            Effort::Low,
            up,
            "strong: auto: score 0.00, moved from middle (unavailable)",
        ),
        (
            "gone",
            Effort::Low,
            all,
            "light: auto: score 0.00, moved, the conversation's model is no candidate any more",
        ),
    ] {
        let facts = of(effort);
        let ask = Ask {
            before: Some(before),
            available,
            ..ask(&facts)
        };
        assert_eq!(told(&catalog, &ask), expected, "from {before}");
    }
    let wary = tiered(&json!({"thresholds": {"middle": 0.3, "strong": 0.55, "hysteresis": 0.11}}));
    let high = of(Effort::High);
    let ask = Ask {
        before: Some("light"),
        ..ask(&high)
    };
    assert!(told(&wary, &ask).starts_with("light: "));
}

#[test]
fn a_key_hears_nothing_of_models_that_it_may_not_use() {
    let catalog = tiered(&json!({}));
    let max = with_effort(Effort::Max);
    let allowed = |model: &Model| !model.id.starts_with("strong");
    for before in [None, Some("strong")] {
        let ask = Ask {
            allowed: &allowed,
            before,
            ..ask(&max)
        };
        let decision = catalog.profile("auto").unwrap().choose(&ask).unwrap();
        let told = format!("{decision:?} {decision}");
        assert!(!told.contains("\"strong"), "{told}");
    }
}

#[test]
fn every_signal_counts_for_what_its_weight_says() {
    let sample = TextSample {
        bytes: 1000,
        words: 100,
        letters: 400,
        other_letters: 100,
        symbols: 20,
        fences: 2,
        identifiers: 5,
        code_words: 5,
        math_marks: 2,
        math_words: 1,
        hard_words: 2,
        easy_words: 1,
        list_items: 4,
    };
    let facts = RequestFacts {
        effort: Some(Effort::High),
        needs: RequestNeeds {
            tools: true,
            ..RequestNeeds::default()
        },
        media: MediaFacts {
            parts: 1,
            bytes: 1,
            ..MediaFacts::default()
        },
        conversation: Some(Box::new(ConversationFacts {
            messages: 8,
            user_messages: 4,
            tools: 2,
            tool_traffic: 7,
            text_bytes: 7936,
            beginning: 1,
            sample,
        })),
        ..RequestFacts::default()
    };
    let all = [
        0.5,
        0.5 + 2.0 * 0.1 + 4.0 * 0.02,
        0.5,
        1.0,
        0.5,
        0.5,
        0.25,
        0.5,
        1.0,
        0.5,
        0.5,
        0.5,
    ];
    for (place, signal) in Signal::ALL.into_iter().enumerate() {
        let mut weights = serde_json::Map::new();
        weights.insert("base".into(), json!(0));
        for other in Signal::ALL {
            weights.insert(
                other.as_str().into(),
                json!(f64::from(u8::from(other == signal))),
            );
        }
        let catalog = tiered(&json!({"weights": weights}));
        let decision = catalog
            .profile("auto")
            .unwrap()
            .choose(&ask(&facts))
            .unwrap();
        let score = decision.score.unwrap();
        assert!(
            (score.value - all[place]).abs() < 1e-9,
            "{signal:?}: {score:?}"
        );
        assert!(
            (score.parts[place] - all[place]).abs() < 1e-9,
            "{signal:?}: {score:?}"
        );
    }
    // Whatever is counted, a score is a score.
    let most = RequestFacts {
        conversation: Some(Box::new(ConversationFacts {
            text_bytes: u64::MAX,
            messages: u32::MAX,
            tool_traffic: u32::MAX,
            ..ConversationFacts::default()
        })),
        thinking_budget: Some(u64::MAX),
        ..RequestFacts::default()
    };
    let decision = tiered(&json!({}))
        .profile("auto")
        .unwrap()
        .choose(&ask(&most))
        .unwrap();
    assert!((0.0..=1.0).contains(&decision.score.unwrap().value));
}

#[test]
fn profiles_are_names_with_rules_of_their_own_over_those_of_auto() {
    let catalog = tiered(&json!({
        "weights": {"base": 0.15, "effort": 0.4},
        "profiles": {
            "auto-cheap": {"max_price": {"output": 15}, "best": "light"},
            "auto-max-4-8": {"candidates": ["strong"]},
            "auto-free": {"max_price": {"input": 0.5}},
        },
    }));
    let listed: Vec<_> = catalog.models().iter().map(|model| &*model.id).collect();
    assert_eq!(
        listed,
        [
            "light",
            "middle",
            "strong",
            "strong-2",
            "auto",
            "auto-cheap",
            "auto-max-4-8"
        ]
    );
    assert_eq!(catalog.unserved(), [Arc::from("auto-free")]);
    let max = with_effort(Effort::Max);
    let chosen = |name: &str| {
        let decision = catalog.profile(name).unwrap().choose(&ask(&max)).unwrap();
        format!("{} {decision}", decision.model.id)
    };
    assert_eq!(
        chosen("auto"),
        "middle auto: score 0.55, in doubt the best single model"
    );
    let cheap = chosen("auto-cheap");
    assert!(cheap.starts_with("light auto-cheap: "), "{cheap}");
    assert!(
        chosen("auto-max-4.8").starts_with("strong auto-max-4-8: score 0.55"),
        "a dotted name"
    );
    assert!(catalog.profile("middle").is_none());
    // Who may use a profile depends on what it can give.
    let usable = |allowed: &str| {
        let cheap = catalog.resolve("auto-cheap").unwrap();
        catalog.is_usable(cheap, |model| &*model.id == allowed)
    };
    assert!(usable("light") && usable("middle") && !usable("strong"));
}

#[test]
fn every_fault_in_profiles_is_told() {
    let mut models = tiered_models();
    models["plain"] = json!({"family": "f"});
    models["other"] = json!({"family": "f"});
    models["bad"] = json!({"family": "f", "price": {"input": -1, "output": 1}});
    let auto = json!({
        "family": "f",
        "candidates": ["light", "plain"],
        "shadow": "auto",
        "max_price": {"input": 1},
        "profiles": {
            "auto": {},
            "light": {"shadow": "nobody"},
            "sp ace": {},
            "upside-down": {"candidates": ["light"], "thresholds": {"middle": 0.9}, "best": "strong"},
            "untiered": {"candidates": ["other"], "best": "other", "weights": {"code": 1}, "max_price": {"output": 1}},
        },
    });
    let faults = build(&models, &auto).unwrap_err();
    let expected = [
        "models.bad.price: expected numbers from 0 on",
        "auto.shadow: a profile is no shadow of itself",
        "auto.max_price: the candidate 'plain' has no price: give it one under `models`, or nobody can say whether it is over the cap",
        "auto.candidates: 'plain' has no tier, and other candidates have: give it one under `models`",
        "auto.profiles.auto: 'auto' is the gateway's own; settle what it chooses from under `auto`",
        "auto.profiles.light: 'light' is a model; a profile needs a name that is free",
        "auto.profiles.light.shadow: no profile 'nobody'; known are auto, auto, light, sp ace, upside-down, untiered",
        "auto.profiles.\"sp ace\": a model name begins with a letter or digit and holds letters, digits and . - _ : / @ + only, at most 128 of them",
        "auto.profiles.upside-down.thresholds: 'middle' is 0.9 and above 'strong', which is 0.4",
        "auto.profiles.upside-down.best: 'strong' is no candidate of this profile",
        "auto.profiles.untiered.max_price: the candidate 'other' has no price: give it one under `models`, or nobody can say whether it is over the cap",
        "auto.profiles.untiered.best: no candidate has a tier, so this would do nothing",
        "auto.profiles.untiered.weights: no candidate has a tier, so this would do nothing",
    ];
    assert_eq!(faults, expected, "{}", faults.join("\n"));
}
