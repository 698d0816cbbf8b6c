//! Plans: what a token package gives, as it stands in the file.
//!
//! The ledger decides the effect of a plan on a key; here are its shape and the checks that
//! need the catalog.

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::borrow::Cow;
use tollgate_ledger::{GrantTerms, NewKey};
use tollgate_routing::Catalog;
use tollgate_settings::{Duration, Fault, KeyPath, TokenCount, unknown_name};
use tollgate_types::Money;

/// The name for all model groups in plans and keys.
pub const ALL_GROUPS: &str = "all";

/// A package of tokens, of money, or of both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSettings {
    /// Tokens of a grant: at most 4503599627370496. Default: none.
    pub tokens: Option<TokenCount>,
    /// Money of a grant, in the currency of the prices: at most 4503599.627370496. Its key can only use
    /// models with a price. Default: none.
    pub money: Option<Money>,
    /// Validity from the first use: from a second to a hundred years.
    pub validity: Duration,
    /// The model groups of the plan; `all` means every configured one.
    #[serde(default = "all_groups")]
    #[schemars(length(min = 1, max = 64))]
    pub groups: Vec<String>,
    /// How much may be asked for in which time. Default: no limit.
    #[serde(default)]
    pub limits: PlanLimits,
    /// What it costs; for information.
    pub price: Option<Price>,
    /// The support level: under overload, keys of plans with priority are refused last.
    #[serde(default)]
    pub support: Support,
    /// Whether it is shown as the most popular plan.
    #[serde(default)]
    pub popular: bool,
}

fn all_groups() -> Vec<String> {
    vec![ALL_GROUPS.to_owned()]
}

/// How much may be asked for in which time. What is not given is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlanLimits {
    /// Most requests per minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// Input tokens per minute: at most 4294967295.
    pub input_tokens_per_minute: Option<TokenCount>,
    /// Output tokens per minute: at most 4294967295.
    pub output_tokens_per_minute: Option<TokenCount>,
    /// Concurrent requests.
    #[schemars(range(min = 1))]
    pub concurrent_requests: Option<u32>,
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The amount, in quotes so that no digit is lost.
    pub amount: Decimal,
    /// The currency, by its three letters (ISO 4217).
    #[schemars(
        regex(pattern = "^[A-Z]{3}$"),
        extend("x-expected" = "three capital letters such as USD")
    )]
    pub currency: String,
}

/// The support that comes with a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// In its turn.
    #[default]
    Standard,
    /// Ahead of others.
    Priority,
}

/// A decimal number kept as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Decimal(String);

impl Decimal {
    const EXPECTED: &'static str = "an amount in quotes such as \"2.49\"";

    /// The number as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_valid(text: &str) -> bool {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        is_number(whole) && whole.len() <= 12 && is_number(part) && part.len() <= 6
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if Self::is_valid(&text) {
            return Ok(Self(text));
        }
        Err(de::Error::custom(format_args!(
            "expected {}",
            Self::EXPECTED
        )))
    }
}

impl JsonSchema for Decimal {
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "amount",
            "description": "A decimal number in quotes.",
            "type": "string",
            "pattern": r"^[0-9]{1,12}(\.[0-9]{1,6})?$",
            "x-expected": Self::EXPECTED,
        })
    }
}

/// The faults for which the ledger would refuse a key with this plan.
fn faults_of_plan(plan: &PlanSettings, path: &KeyPath) -> Vec<Fault> {
    let mut faults = Vec::new();
    if plan.tokens.is_none() && plan.money.is_none() {
        faults.push(path.fault("must have tokens, money or both: it serves no request"));
    }
    match plan.tokens.map(TokenCount::get) {
        Some(0) => faults.push(
            path.key("tokens")
                .fault("must be at least 1: a plan without tokens serves no request"),
        ),
        Some(tokens) if tokens > GrantTerms::MAX_TOKENS => {
            let message = format!("must be at most {}", GrantTerms::MAX_TOKENS);
            faults.push(path.key("tokens").fault(message));
        }
        _ => {}
    }
    match plan.money {
        Some(Money::ZERO) => faults.push(
            path.key("money")
                .fault("must be more than 0; leave it out for no money"),
        ),
        Some(money) if money > GrantTerms::MAX_MONEY => {
            let message = format!("must be at most {}", GrantTerms::MAX_MONEY);
            faults.push(path.key("money").fault(message));
        }
        _ => {}
    }
    let valid = GrantTerms::MIN_VALIDITY..=GrantTerms::MAX_VALIDITY;
    if !valid.contains(&plan.validity.get()) {
        let message = "what a key is given is valid for a second at least and for a hundred years \
                       at most";
        faults.push(path.key("validity").fault(message));
    }
    let limits = [
        (
            "input_tokens_per_minute",
            plan.limits.input_tokens_per_minute,
        ),
        (
            "output_tokens_per_minute",
            plan.limits.output_tokens_per_minute,
        ),
    ];
    for (name, limit) in limits {
        if limit.is_some_and(|limit| limit.a_minute().is_none()) {
            let path = path.key("limits").key(name);
            faults.push(path.fault(TokenCount::A_MINUTE));
        }
    }
    faults
}

/// The faults of the plans, given the catalog.
pub(super) fn check(plans: &IndexMap<String, PlanSettings>, catalog: &Catalog) -> Vec<Fault> {
    let section = KeyPath::root().key("plans");
    let mut faults = Vec::new();
    for (name, plan) in plans {
        let path = section.key(name);
        if let Err(fault) = NewKey::check_plan(name) {
            faults.push(path.fault(fault.to_string()));
        }
        faults.extend(faults_of_plan(plan, &path));
        for (place, group) in plan.groups.iter().enumerate() {
            let known = catalog.groups().iter().map(|known| &**known);
            if group != ALL_GROUPS && !known.clone().any(|known| known == group) {
                let message = unknown_name("model group", group, known);
                faults.push(path.key("groups").index(place).fault(message));
            }
        }
    }
    faults.extend(unknown_plans(plans, catalog));
    let popular: Vec<_> = plans.iter().filter(|(_, plan)| plan.popular).collect();
    if let [(first, _), others @ ..] = popular.as_slice() {
        for (name, _) in others {
            let message =
                format!("only one plan can be the most popular, and '{first}' already is");
            faults.push(section.key(*name).key("popular").fault(message));
        }
    }
    faults
}

/// The plans that open paths of providers name and that do not exist.
fn unknown_plans<'a>(
    plans: &'a IndexMap<String, PlanSettings>,
    catalog: &'a Catalog,
) -> impl Iterator<Item = Fault> + 'a {
    let known = move || plans.keys().map(String::as_str);
    catalog.providers().iter().flat_map(move |provider| {
        let section = KeyPath::root().key("providers").key(&*provider.name);
        let rules = provider.passthrough.iter().flat_map(|open| &open.rules);
        rules.enumerate().flat_map(move |(number, rule)| {
            let at = section.key("passthrough").index(number).key("plans");
            let unknown = rule.plans.iter().enumerate();
            let unknown = unknown.filter(move |(_, name)| !plans.contains_key(*name));
            unknown.map(move |(place, name)| {
                at.index(place).fault(unknown_name("plan", name, known()))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::Loader;
    use std::path::Path;
    use tollgate_settings::ProcessEnvironment;

    const CATALOG: &str = "\
providers: {a: {address: 'http://localhost:1', formats: [chat]}}
families: {f: {group: g, deployments: [a]}}
models: {m: {family: f}}
";

    /// The faults of the plans in a file.
    fn reported(plans: &str) -> Vec<String> {
        let text = format!("{CATALOG}plans:\n{plans}");
        let loader = Loader::new(&ProcessEnvironment);
        let Err(faults) = loader.parse(&text, Path::new("x.yaml")) else {
            return Vec::new();
        };
        let faults = faults.to_string();
        let lines = faults.lines().filter(|line| !line.contains("pepper"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn a_plan_that_no_key_can_have_is_a_fault() {
        let plans = "  p: {tokens: 4503599627370497, validity: 1ms}
  q: {tokens: 5, validity: 999999d, limits: {input_tokens_per_minute: 5G, output_tokens_per_minute: 0}}
  'no name': {tokens: 5, validity: 1d}
  r: {validity: 1d}
  s: {money: 4503600, validity: 1d}
  t: {money: '0', validity: 1d}
";
        let long =
            "what a key is given is valid for a second at least and for a hundred years at most";
        assert_eq!(
            reported(plans),
            [
                "x.yaml:5:15: plans.p.tokens: must be at most 4503599627370496".to_owned(),
                format!("x.yaml:5:43: plans.p.validity: {long}"),
                format!("x.yaml:6:28: plans.q.validity: {long}"),
                "x.yaml:6:71: plans.q.limits.input_tokens_per_minute: must be from 1 to 4294967295; \
                 leave it out for no limit"
                    .to_owned(),
                "x.yaml:6:101: plans.q.limits.output_tokens_per_minute: must be from 1 to 4294967295; \
                 leave it out for no limit"
                    .to_owned(),
                "x.yaml:7:3: plans.\"no name\": plan \"no name\" is no name: 1 to 64 letters, digits and \
                 any of . _ - / : { } are allowed"
                    .to_owned(),
                "x.yaml:8:3: plans.r: must have tokens, money or both: it serves no request".to_owned(),
                "x.yaml:9:14: plans.s.money: must be at most 4503599.627370496".to_owned(),
                "x.yaml:10:14: plans.t.money: must be more than 0; leave it out for no money".to_owned(),
            ]
        );
        let most = "  p: {tokens: 4503599627370496, validity: 1s, limits: {input_tokens_per_minute: 4294967295}}
  q: {tokens: 1, validity: 36600d}
  r: {money: '25.00', validity: 30d}
";
        assert_eq!(reported(most), Vec::<String>::new());
    }

    #[test]
    fn an_open_path_is_for_plans_that_exist() {
        let text = CATALOG.replace(
            "formats: [chat]",
            "formats: [chat], passthrough: [{path: /v1/files, methods: [GET], charge: 0, plans: [p, q]}]",
        );
        let text = format!("{text}plans: {{p: {{tokens: 1, validity: 1d}}}}\n");
        let loaded = Loader::new(&ProcessEnvironment).parse(&text, Path::new("x.yaml"));
        let faults = loaded.err().map(|it| it.to_string()).unwrap_or_default();
        let expected = "providers.a.passthrough[0].plans[1]: no plan 'q'";
        assert!(faults.contains(expected), "{faults}");
    }
}
