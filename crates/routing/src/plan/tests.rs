//! The order of candidates, over small catalogs and a simulated clock. Draws are seeded.

use super::*;
use crate::health::{Blame, Fleet, Refusal, Ticket, Transition};
use crate::{Catalog, CatalogSettings, Model};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use tollgate_providers::Missing;
use tollgate_settings::Environment;

struct Variables;

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        Some(format!("secret-of-{name}"))
    }

    fn read_bytes(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A model `m` with these deployments, at providers `a` to `e` with these credentials each, or each with those
/// under its name.
fn catalog(deployments: &Value, credentials: &Value, routing: &Value) -> Catalog {
    let provider = |name: &str| {
        json!({
            "address": format!("http://{name}.example"),
            "formats": if name == "e" { json!(["messages"]) } else { json!(["chat"]) },
            "credentials": match credentials {
                Value::Object(by_provider) => by_provider.get(name).cloned().unwrap_or_else(|| json!([])),
                _ => credentials.clone(),
            },
        })
    };
    let settings: CatalogSettings = serde_json::from_value(json!({
        "providers": {
            "a": provider("a"), "b": provider("b"), "c": provider("c"), "d": provider("d"),
            "e": provider("e"),
        },
        "families": {"f": {"group": "g"}},
        "models": {"m": {"family": "f", "deployments": deployments}},
        "routing": routing,
    }))
    .unwrap();
    Catalog::build(&settings, &Variables, &|_| "/".into()).unwrap()
}

/// A model and its deployments.
struct World {
    model: Arc<Model>,
    fleet: Fleet,
    handles: Arc<[Arc<DeploymentHandle>]>,
}

impl World {
    fn of(catalog: &Catalog, earlier: Option<&Self>) -> Self {
        let fleet = Fleet::new(catalog, earlier.map(|it| &it.fleet));
        let model = Arc::clone(catalog.resolve("m").unwrap());
        let handles = fleet.handles(&model);
        Self {
            model,
            fleet,
            handles,
        }
    }

    fn new(deployments: &Value) -> Self {
        Self::with(deployments, &json!([]), &json!({}))
    }

    fn with(deployments: &Value, credentials: &Value, routing: &Value) -> Self {
        Self::of(&catalog(deployments, credentials, routing), None)
    }

    fn plan(&self, asked: &PlanRequest<'_>) -> (Vec<Choice>, LeftOuts) {
        let mut choices = Vec::new();
        let left_out = plan(&self.handles, &self.model.balancing, asked, |choice| {
            choices.push(choice);
        });
        (choices, left_out)
    }

    /// The names of the candidates, in order.
    fn names(&self, asked: &PlanRequest<'_>) -> Vec<String> {
        let (choices, _) = self.plan(asked);
        choices.iter().map(|it| self.name(it)).collect()
    }

    fn name(&self, choice: &Choice) -> String {
        let handle = &self.handles[choice.deployment];
        match handle.credentials[choice.credential].name() {
            "" => handle.provider.name.to_string(),
            credential => format!("{}:{credential}", handle.provider.name),
        }
    }

    fn first(&self, asked: &PlanRequest<'_>) -> String {
        self.names(asked).remove(0)
    }

    fn enter(&self, deployment: usize, credential: usize, now: u64) -> Result<Ticket, Refusal> {
        self.handles[deployment].enter(credential, 10, now, false)
    }

    /// Lets an attempt fail.
    fn fail(
        &self,
        deployment: usize,
        credential: usize,
        blame: Blame,
        wait: Option<u64>,
        now: u64,
    ) {
        let wait = wait.map(Duration::from_secs);
        let mut ticket = self.handles[deployment]
            .enter(credential, 10, now, true)
            .unwrap();
        ticket.failed(blame, "busy", wait, now, 1 << 63, &mut |_| {});
    }

    fn open_breaker(&self, deployment: usize, now: u64) {
        for _ in 0..5 {
            self.fail(deployment, 0, Blame::Deployment, None, now);
        }
    }
}

fn asked(random: u64) -> PlanRequest<'static> {
    PlanRequest {
        format: Format::Chat,
        counts_tokens: false,
        stored_at: None,
        conversation: None,
        tokens: 10,
        now: 1000,
        random,
    }
}

fn talking(conversation: u64) -> PlanRequest<'static> {
    PlanRequest {
        conversation: Some(conversation),
        ..asked(7)
    }
}

/// How often each is asked first, in so many draws.
fn shares(
    world: &World,
    draws: u64,
    of: impl Fn(u64) -> PlanRequest<'static>,
) -> HashMap<String, f64> {
    let mut counts = HashMap::new();
    for draw in 0..draws {
        *counts.entry(world.first(&of(draw))).or_insert(0.0) += 1.0 / draws as f64;
    }
    counts
}

fn assert_shares(shares: &HashMap<String, f64>, wanted: &[(&str, f64)]) {
    for (name, wanted) in wanted {
        let found = shares.get(*name).copied().unwrap_or(0.0);
        assert!(
            (found - wanted).abs() < 0.02,
            "{name}: {found} in {shares:?}"
        );
    }
}

#[test]
fn a_credential_without_a_token_is_no_candidate_and_no_last_resort() {
    let credentials = json!([{"name": "t", "command": {"run": ["true"]}}, "env:KEY"]);
    let world = World::with(&json!(["a", "b"]), &credentials, &json!({}));
    let (choices, left_out) = world.plan(&asked(7));
    let names: Vec<_> = choices.iter().map(|it| world.name(it)).collect();
    assert!(names.iter().all(|name| name.ends_with(":KEY")), "{names:?}");
    assert_eq!(names.len(), 2);
    let lack = Lack {
        missing: Missing::First,
        retry_in: Duration::from_secs(1),
    };
    let obstacles: Vec<_> = left_out.0.iter().map(|it| it.obstacle).collect();
    assert_eq!(obstacles, [Obstacle::NoToken(lack); 2]);
    assert_eq!(left_out.token_wait(), Some(Duration::from_secs(1)));
    assert_eq!(left_out.wait(asked(7).now), None);
    // Nor can it be entered by force.
    for is_last_resort in [false, true] {
        let entered = world.handles[0].enter(0, 10, asked(7).now, is_last_resort);
        assert_eq!(entered.err(), Some(Refusal::Open));
    }

    let only = json!([{"command": {"run": ["true"]}}]);
    let world = World::with(&json!(["a"]), &only, &json!({}));
    let (choices, left_out) = world.plan(&asked(7));
    assert_eq!(choices, []);
    assert_eq!(left_out.token_wait(), Some(Duration::from_secs(1)));
    assert!(!is_available(&world.handles, &asked(7)));
}

#[test]
fn a_token_stays_as_long_as_its_source_and_header_are_the_same() {
    let of = |command: Value, more: Value| {
        let mut credential = json!({"name": "t", "command": {"run": command}});
        let more = more.as_object().unwrap().clone();
        credential.as_object_mut().unwrap().extend(more);
        catalog(&json!(["a"]), &json!([credential]), &json!({}))
    };
    let token = |world: &World| {
        world.handles[0].credentials[0]
            .account
            .token
            .clone()
            .unwrap()
    };
    let before = World::of(&of(json!(["true"]), json!({})), None);
    for (command, more, is_same) in [
        (json!(["true"]), json!({}), true),
        (
            json!(["true"]),
            json!({"weight": 3, "header": "authorization"}),
            true,
        ),
        (json!(["true"]), json!({"header": "x-token"}), false),
        (json!(["true", "x"]), json!({}), false),
    ] {
        let after = World::of(&of(command.clone(), more.clone()), Some(&before));
        let stays = Arc::ptr_eq(&token(&before), &token(&after));
        assert_eq!(stays, is_same, "{command} {more}");
    }
}

#[test]
fn shares_are_those_of_the_weights_whether_drawn_or_hashed() {
    let world = World::new(&json!([
        {"provider": "a", "weight": 5}, {"provider": "b", "weight": 3}, {"provider": "c", "weight": 2},
    ]));
    let wanted = [("a", 0.5), ("b", 0.3), ("c", 0.2)];
    assert_shares(&shares(&world, 20_000, asked), &wanted);
    assert_shares(&shares(&world, 20_000, talking), &wanted);
}

#[test]
fn credentials_divide_the_share_of_their_deployment_by_their_own_weights() {
    let credentials = json!([
        {"secret": "env:K", "weight": 3}, {"secret": "env:L", "weight": 1},
    ]);
    let world = World::with(&json!(["a", "b"]), &credentials, &json!({}));
    let wanted = [
        ("a:K", 0.375),
        ("a:L", 0.125),
        ("b:K", 0.375),
        ("b:L", 0.125),
    ];
    assert_shares(&shares(&world, 20_000, asked), &wanted);
}

#[test]
fn priorities_come_before_formats_and_formats_before_weights() {
    let world = World::new(&json!([
        {"provider": "e", "weight": 1000},
        {"provider": "a"},
        {"provider": "b", "priority": 1, "weight": 1000},
    ]));
    for random in 0..100 {
        assert_eq!(world.names(&asked(random)), ["a", "e", "b"]);
    }
}

#[test]
fn a_conversation_keeps_its_candidate_and_an_outage_moves_only_its_own_conversations() {
    let deployments = json!(["a", "b", "c", "d"]);
    let world = World::with(&deployments, &json!(["env:K", "env:L"]), &json!({}));
    let now = |conversation, now| PlanRequest {
        now,
        ..talking(conversation)
    };
    let before: Vec<_> = (0..1000).map(|it| world.first(&talking(it))).collect();
    let again: Vec<_> = (0..1000).map(|it| world.first(&talking(it))).collect();
    assert_eq!(before, again);
    world.open_breaker(1, 1000);
    for (conversation, at) in before.iter().enumerate() {
        let moved = world.first(&now(conversation as u64, 2000));
        match at.starts_with('b') {
            true => assert!(!moved.starts_with('b'), "{moved}"),
            false => assert_eq!(moved, *at),
        }
    }
    // Half-open, one is let back at a time; closed, all are.
    let mut probe = world.enter(1, 0, 7000).unwrap();
    probe.first_content(None, 7000, &mut |_| {});
    drop(probe);
    let back: Vec<_> = (0..1000).map(|it| world.first(&now(it, 7000))).collect();
    assert_eq!(back, before);
}

#[test]
fn a_refused_credential_moves_its_own_conversations_alone() {
    let world = World::with(&json!(["a", "b"]), &json!(["env:K", "env:L"]), &json!({}));
    let before: Vec<_> = (0..1000).map(|it| world.first(&talking(it))).collect();
    world.fail(0, 1, Blame::Credential, None, 1000);
    for (conversation, at) in before.iter().enumerate() {
        let moved = world.first(&talking(conversation as u64));
        match at.as_str() {
            "a:L" => assert_ne!(moved, "a:L"),
            _ => assert_eq!(moved, *at),
        }
    }
}

#[test]
fn other_credentials_move_no_conversation_of_another_deployment() {
    let with = |of_a: Value| {
        let credentials = json!({"a": of_a, "b": ["env:K", "env:L"]});
        World::with(&json!(["a", "b"]), &credentials, &json!({}))
    };
    let three = with(json!(["env:K", "env:L", "env:M"]));
    let weighted = with(json!(["env:K", "env:L", {"secret": "env:M", "weight": 5}]));
    let one = with(json!(["env:K"]));
    for conversation in 0..1000 {
        let [before, heavier, after] =
            [&three, &weighted, &one].map(|it| it.first(&talking(conversation)));
        match &*before {
            "a:M" => assert_eq!(heavier, "a:M"),
            "a:K" | "a:L" => assert!([&before, "a:M"].contains(&&*heavier), "{heavier}"),
            _ => assert_eq!(heavier, before),
        }
        match &*before {
            "b:K" | "b:L" => assert_eq!(after, before),
            _ => assert_eq!(after, "a:K"),
        }
    }
}

#[test]
fn a_new_deployment_takes_its_share_of_the_conversations_and_moves_no_others() {
    let three = World::new(&json!(["a", "b", "c"]));
    let four = World::new(&json!(["a", "b", "c", "d"]));
    let mut moved = 0;
    for conversation in 0..10_000 {
        let (before, after) = (
            three.first(&talking(conversation)),
            four.first(&talking(conversation)),
        );
        if before != after {
            assert_eq!(after, "d");
            moved += 1;
        }
    }
    assert!((2300..2700).contains(&moved), "{moved}");
}

proptest! {
    /// No candidate has more requests in flight than its share times the factor, rounded up, or the slack.
    #[test]
    fn the_load_of_conversations_is_bounded(
        conversations in proptest::collection::vec(0_u64..20, 1..300),
        factor in 1.0_f64..3.0,
        slack in 0_u32..5,
    ) {
        let routing = json!({"affinity": {"load_factor": factor, "slack": slack}});
        let deployments = json!([{"provider": "a", "weight": 2}, "b", "c"]);
        let world = World::with(&deployments, &json!([]), &routing);
        let mut tickets = Vec::new();
        for conversation in conversations {
            let (choices, _) = world.plan(&talking(conversation));
            let choice = choices[0];
            tickets.push(world.enter(choice.deployment, choice.credential, 1000).unwrap());
            let credential = &world.handles[choice.deployment].credentials[choice.credential];
            let share = tickets.len() as f64 * credential.weight / 4.0;
            let most = (factor * share).ceil().max(f64::from(slack));
            prop_assert!(f64::from(credential.health.in_flight()) <= most);
        }
    }
}

#[test]
fn an_overflow_is_reported_and_ends_with_the_load() {
    let routing = json!({"affinity": {"slack": 1}});
    let world = World::with(&json!(["a", "b"]), &json!([]), &routing);
    let home = world.plan(&talking(1)).0[0];
    assert_eq!(home.why, Why::Conversation);
    let tickets = [(); 2].map(|()| world.enter(home.deployment, home.credential, 1000).unwrap());
    let away = world.plan(&talking(1)).0[0];
    assert_eq!(away.why, Why::Overflow);
    assert_ne!(away.deployment, home.deployment);
    drop(tickets);
    assert_eq!(world.plan(&talking(1)).0[0], home);
}

#[test]
fn least_in_flight_prefers_the_fewest_requests_per_weight_then_the_lowest_cost() {
    let deployments = json!([
        {"provider": "a", "weight": 2, "cost": 2}, {"provider": "b", "weight": 2, "cost": 1},
        {"provider": "c", "weight": 1},
    ]);
    let routing = json!({"balance": "least_in_flight"});
    let world = World::with(&deployments, &json!([]), &routing);
    let mut tickets = Vec::new();
    let mut order = Vec::new();
    for random in 0..5 {
        let (choices, _) = world.plan(&asked(random));
        order.push(world.name(&choices[0]));
        tickets.push(world.enter(choices[0].deployment, 0, 1000).unwrap());
    }
    // 1/2, 1/2, then 2/2 of each and 1/1 of the one that names no cost.
    assert_eq!(order[..3], ["b", "a", "c"]);
    assert_eq!(order[3..], ["b", "a"]);
}

#[test]
fn latency_prefers_the_faster_and_sends_one_request_to_measure_the_unknown() {
    let routing = json!({"balance": "latency"});
    let world = World::with(&json!(["a", "b"]), &json!([]), &routing);
    let measure = |deployment: usize, millis| {
        let mut ticket = world.enter(deployment, 0, 1000).unwrap();
        let took = Some(Duration::from_millis(millis));
        ticket.first_content(took, 1000, &mut |_| {});
    };
    measure(0, 400);
    assert_shares(&shares(&world, 1000, asked), &[("b", 1.0)]);
    let measuring = world.enter(1, 0, 1000).unwrap();
    assert_shares(&shares(&world, 1000, asked), &[("a", 1.0)]);
    drop(measuring);
    measure(1, 100);
    assert_shares(&shares(&world, 1000, asked), &[("b", 1.0)]);
    // Four times as fast is worth three more under way, and not four.
    let mut tickets: Vec<_> = (0..3).map(|_| world.enter(1, 0, 1000).unwrap()).collect();
    measure(0, 401);
    assert_shares(&shares(&world, 1000, asked), &[("b", 1.0)]);
    tickets.push(world.enter(1, 0, 1000).unwrap());
    assert_shares(&shares(&world, 1000, asked), &[("a", 1.0)]);
}

#[test]
fn latency_compares_deployments_and_not_credentials_of_one() {
    let routing = json!({"balance": "latency"});
    let world = World::with(&json!(["a", "b"]), &json!(["env:K", "env:L"]), &routing);
    for (deployment, millis) in [(0, 400), (1, 100)] {
        let mut ticket = world.enter(deployment, 0, 1000).unwrap();
        let took = Some(Duration::from_millis(millis));
        ticket.first_content(took, 1000, &mut |_| {});
    }
    assert_shares(&shares(&world, 1000, asked), &[("b:K", 0.5), ("b:L", 0.5)]);
}

#[test]
fn streams_that_break_after_their_first_content_open_the_breaker() {
    let world = World::new(&json!(["a"]));
    let mut changes = Vec::new();
    for _ in 0..5 {
        let mut ticket = world.enter(0, 0, 1000).unwrap();
        ticket.first_content(None, 1000, &mut |_| {});
        let mut note = |it: &Transition<'_>| changes.push(it.scope);
        ticket.failed(Blame::Deployment, "broken", None, 1000, 0, &mut note);
    }
    assert_eq!(changes, [BreakerScope::Deployment]);
}

#[test]
fn candidates_in_cooldown_come_last_in_the_order_in_which_cooldowns_end() {
    let world = World::new(&json!(["a", "b", "c"]));
    world.open_breaker(0, 1000);
    world.open_breaker(1, 2000);
    let at = |now| PlanRequest { now, ..asked(3) };
    assert_eq!(world.names(&at(2500)), ["c", "a", "b"]);
    assert!(is_available(&world.handles, &at(2500)));
    world.open_breaker(2, 2500);
    assert!(!is_available(&world.handles, &at(2500)));
    let (choices, left_out) = world.plan(&at(2500));
    assert_eq!(world.names(&at(2500)), ["a", "b", "c"]);
    assert!(choices.iter().all(|it| it.why == Why::LastResort));
    assert_eq!(left_out.0.len(), 3);
    assert_eq!(left_out.wait(2500), None);
    let (scope, until) = (BreakerScope::Deployment, 6000);
    assert_eq!(left_out.0[0].obstacle, Obstacle::Open { scope, until });
}

#[test]
fn a_single_candidate_is_asked_even_in_cooldown() {
    let world = World::new(&json!(["a"]));
    assert_eq!(world.plan(&asked(1)).0[0].why, Why::Only);
    world.open_breaker(0, 1000);
    assert_eq!(world.plan(&asked(1)).0[0].why, Why::LastResort);
}

#[test]
fn a_wait_that_a_provider_asks_for_applies_to_one_credential_at_one_deployment() {
    let deployments = json!(["a", "a/other"]);
    let world = World::with(&deployments, &json!(["env:K", "env:L"]), &json!({}));
    world.fail(0, 0, Blame::DeploymentCredential, Some(30), 1000);
    let (choices, left_out) = world.plan(&asked(1));
    assert_eq!(choices.len(), 3);
    let until = 31_000;
    assert_eq!(left_out.0[0].obstacle, Obstacle::Resting { until });
    for (deployment, credential) in [(0, 1), (1, 0), (1, 1)] {
        world.fail(
            deployment,
            credential,
            Blame::DeploymentCredential,
            Some(20),
            1000,
        );
    }
    let (choices, left_out) = world.plan(&asked(1));
    assert_eq!(choices, []);
    let wait = left_out.wait(1000).unwrap().wait;
    assert_eq!(wait, Some(Duration::from_secs(20)));
}

#[test]
fn each_failure_opens_only_the_breaker_that_it_counts_against() {
    let names = |blame| {
        let credentials = json!(["env:K", "env:L"]);
        let world = World::with(&json!(["a", "a/other", "b"]), &credentials, &json!({}));
        for _ in 0..5 {
            world.fail(0, 0, blame, None, 1000);
        }
        let (_, left_out) = world.plan(&asked(1));
        let out = left_out.0.iter().map(|it| (it.deployment, it.credential));
        out.collect::<Vec<_>>()
    };
    assert_eq!(names(Blame::None), []);
    let of_provider = [(0, 0), (0, 1), (1, 0), (1, 1)];
    assert_eq!(names(Blame::Provider), of_provider);
    assert_eq!(names(Blame::Deployment), [(0, 0), (0, 1)]);
    assert_eq!(names(Blame::Model), [(0, 0), (0, 1)]);
    assert_eq!(names(Blame::Credential), [(0, 0), (1, 0)]);
    assert_eq!(names(Blame::DeploymentCredential), [(0, 0)]);
}

#[test]
fn a_refused_request_is_a_sign_of_life() {
    let world = World::new(&json!(["a"]));
    world.open_breaker(0, 1000);
    let mut changes = Vec::new();
    let mut probe = world.enter(0, 0, 7000).unwrap();
    let mut tell = |it: &Transition<'_>| changes.push(it.change);
    probe.failed(Blame::None, "busy", None, 7000, 0, &mut tell);
    assert_eq!(changes, [crate::health::Change::Closed]);
}

#[test]
fn a_full_deployment_is_passed_over_and_when_all_are_full_the_shortest_wait_is_reported() {
    let deployments = json!([
        {"provider": "a", "limits": {"in_flight": 2}},
        {"provider": "b", "priority": 1, "limits": {"requests_per_minute": 2}},
        {"provider": "c", "priority": 2, "limits": {"tokens_per_minute": 40}},
    ]);
    let world = World::new(&deployments);
    let mut tickets = Vec::new();
    let mut order = Vec::new();
    while let Some(choice) = world.plan(&asked(1)).0.first() {
        order.push(world.name(choice));
        let mut ticket = world
            .enter(choice.deployment, choice.credential, 1000)
            .unwrap();
        ticket.used(20, 1000);
        tickets.push(ticket);
    }
    assert_eq!(order, ["a", "a", "b", "b", "c", "c"]);
    let (_, left_out) = world.plan(&asked(1));
    assert_eq!(left_out.wait(1000), Some(Full { wait: None }));
    let full = Err(Refusal::Full(Full { wait: None }));
    assert_eq!(world.enter(0, 0, 1000).map(drop), full);
    tickets.remove(0);
    assert_eq!(world.first(&asked(1)), "a");
    let at = |now| PlanRequest { now, ..asked(1) };
    let ticket = world.enter(0, 0, 1000).unwrap();
    assert_eq!(world.first(&at(16_000)), "c", "ten tokens have flowed off");
    assert_eq!(world.first(&at(31_000)), "b", "a request has flowed off");
    drop(ticket);
}

#[test]
fn limits_of_a_credential_hold_over_all_models_of_its_provider() {
    let credentials = json!([{"secret": "env:K", "limits": {"in_flight": 1}}, "env:L"]);
    let world = World::with(&json!(["a", "a/other"]), &credentials, &json!({}));
    let _ticket = world.enter(0, 0, 1000).unwrap();
    let (choices, left_out) = world.plan(&asked(1));
    assert!(choices.iter().all(|it| it.credential == 1));
    assert_eq!(left_out.0.len(), 2);
}

#[test]
fn a_request_for_something_stored_goes_to_its_provider_alone_even_in_cooldown() {
    let world = World::with(&json!(["a", "b"]), &json!(["env:K", "env:L"]), &json!({}));
    let there = PlanRequest {
        stored_at: Some(("b", "L")),
        ..asked(1)
    };
    assert_eq!(world.names(&there), ["b:L"]);
    world.open_breaker(1, 1000);
    assert_eq!(world.names(&there), ["b:L"]);
    let gone = PlanRequest {
        stored_at: Some(("b", "M")),
        ..asked(1)
    };
    assert_eq!(world.names(&gone), Vec::<String>::new());
}

#[test]
fn a_deployment_without_a_format_for_the_request_is_no_candidate() {
    let world = World::new(&json!(["a", "e"]));
    for (format, choices) in [
        (Format::Chat, 2),
        (Format::Converse, 2),
        (Format::Embeddings, 0),
        (Format::Rerank, 0),
    ] {
        let asked = PlanRequest { format, ..asked(1) };
        let (found, left_out) = world.plan(&asked);
        assert_eq!(found.len(), choices, "{format:?}");
        let obstacles: Vec<_> = left_out.0.iter().map(|it| it.obstacle).collect();
        assert_eq!(obstacles, vec![Obstacle::OtherFormat; 2 - choices]);
        assert_eq!(is_available(&world.handles, &asked), choices > 0);
    }
}

#[test]
fn health_survives_a_reload_but_not_another_secret_or_address() {
    let (deployments, credentials) = (json!(["a", "b"]), json!(["env:K", "env:L"]));
    let before = World::with(&deployments, &credentials, &json!({}));
    before.open_breaker(0, 1000);
    before.fail(1, 0, Blame::Credential, None, 1000);
    before.fail(1, 1, Blame::DeploymentCredential, Some(60), 1000);
    let ticket = before.enter(1, 1, 70_000).unwrap();
    let changed = json!([
        {"name": "K", "secret": "env:OTHER"}, {"secret": "env:L", "limits": {"in_flight": 1}},
    ]);
    let catalog = catalog(&deployments, &changed, &json!({"balance": "latency"}));
    let after = World::of(&catalog, Some(&before));
    let (_, left_out) = after.plan(&asked(1));
    let out: Vec<_> = left_out
        .0
        .iter()
        .map(|it| (it.deployment, it.credential))
        .collect();
    assert_eq!(
        out,
        [(0, 0), (0, 1), (1, 1)],
        "K is another secret: it is tried again"
    );
    // What began before the reload is under way after it.
    assert_eq!(after.handles[1].health.load.in_flight(), 1);
    drop(ticket);
    assert_eq!(after.handles[1].health.load.in_flight(), 0);
}
