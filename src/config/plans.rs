//! Plans: what a token package gives, as it stands in the file.
//!
//! What a plan means for a key is the ledger's; here are its shape and the checks that
//! need the catalog.

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::borrow::Cow;
use tollgate_routing::Catalog;
use tollgate_settings::{Duration, Fault, KeyPath, TokenCount, unknown_name};

/// What plans and keys write for every model group.
pub const ALL_GROUPS: &str = "all";

/// A token package.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSettings {
    /// Tokens that it gives.
    pub tokens: TokenCount,
    /// How long they are valid, from the first use.
    pub validity: Duration,
    /// The model groups that it admits; `all` means every configured one.
    #[serde(default = "all_groups")]
    #[schemars(length(min = 1))]
    pub groups: Vec<String>,
    /// How much may be asked for in which time. Default: no limit.
    #[serde(default)]
    pub limits: PlanLimits,
    /// What it costs; for information.
    pub price: Option<Price>,
    /// The support that comes with it: keys of plans with priority are the last to be refused
    /// when there is too much to do.
    #[serde(default)]
    pub support: Support,
    /// Whether it is shown as the most popular one.
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
    /// Requests a minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// Input tokens a minute.
    pub input_tokens_per_minute: Option<TokenCount>,
    /// Output tokens a minute.
    pub output_tokens_per_minute: Option<TokenCount>,
    /// Requests at one time.
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

/// What is wrong with the plans, given the catalog.
pub(super) fn check(plans: &IndexMap<String, PlanSettings>, catalog: &Catalog) -> Vec<Fault> {
    let section = KeyPath::root().key("plans");
    let mut faults = Vec::new();
    for (name, plan) in plans {
        let path = section.key(name);
        if plan.tokens.get() == 0 {
            faults.push(
                path.key("tokens")
                    .fault("a plan without tokens admits nothing"),
            );
        }
        for (place, group) in plan.groups.iter().enumerate() {
            let known = catalog.groups().iter().map(|known| &**known);
            if group != ALL_GROUPS && !known.clone().any(|known| known == group) {
                let message = unknown_name("model group", group, known);
                faults.push(path.key("groups").index(place).fault(message));
            }
        }
    }
    let popular: Vec<_> = plans.iter().filter(|(_, plan)| plan.popular).collect();
    if let [(first, _), others @ ..] = popular.as_slice() {
        for (name, _) in others {
            let message = format!("only one plan is the most popular, and '{first}' is it");
            faults.push(section.key(*name).key("popular").fault(message));
        }
    }
    faults
}
