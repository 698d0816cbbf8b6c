//! Keys as people and programs are shown them.

use crate::{
    clock::Timestamp,
    record::{KeyRecord, KeyState},
    store::GrantView,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use std::{fmt::Write, num::NonZeroU32};
use tollgate_types::{Allowance, KeyId, Limits, Unit};

/// A key as JSON: what `--json` prints and the admin API answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Key")]
pub struct KeyView<'a> {
    /// The public identifier.
    #[schemars(with = "String")]
    pub id: &'a KeyId,
    /// The beginning of the key, for people to tell keys apart; not unique.
    pub prefix: &'a str,
    /// What its owner calls it.
    pub name: &'a str,
    /// Whether it works, at the time of asking.
    pub state: KeyState,
    /// The plan, by name.
    pub plan: Option<&'a str>,
    /// The model groups it may use: `"all"`, or their names.
    #[serde(serialize_with = "all_or_names")]
    #[schemars(schema_with = "all_or_names_schema")]
    pub groups: &'a Allowance,
    /// The endpoints it may use: `"all"`, or their paths.
    #[serde(serialize_with = "all_or_names")]
    #[schemars(schema_with = "all_or_names_schema")]
    pub endpoints: &'a Allowance,
    /// Limits of its own; where one is null, its plan's holds.
    pub limits: LimitsView,
    /// It was given money: its requests pay in money.
    pub pays_money: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working, whatever it was given.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl<'a> KeyView<'a> {
    /// The view of `record` at `now`.
    pub fn new(record: &'a KeyRecord, now: Timestamp) -> Self {
        let identity = &record.identity;
        Self {
            id: &identity.key,
            prefix: &record.prefix,
            name: &identity.name,
            state: record.state(now),
            plan: identity.plan.as_deref(),
            groups: &identity.groups,
            endpoints: &identity.endpoints,
            limits: identity.limits.into(),
            pays_money: identity.pays_money,
            created_at: record.created_at,
            expires_at: record.expires_at,
            revoked_at: record.revoked_at,
        }
    }
}

/// The limits of a key as JSON; `null` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Limits")]
pub struct LimitsView {
    /// Requests a minute.
    pub requests: Option<NonZeroU32>,
    /// Input tokens a minute.
    pub input_tokens: Option<NonZeroU32>,
    /// Output tokens a minute.
    pub output_tokens: Option<NonZeroU32>,
    /// Requests at once.
    pub concurrent: Option<NonZeroU32>,
}

impl From<Limits> for LimitsView {
    fn from(limits: Limits) -> Self {
        Self {
            requests: limits.requests,
            input_tokens: limits.input_tokens,
            output_tokens: limits.output_tokens,
            concurrent: limits.concurrent,
        }
    }
}

impl From<LimitsView> for Limits {
    fn from(view: LimitsView) -> Self {
        Self {
            requests: view.requests,
            input_tokens: view.input_tokens,
            output_tokens: view.output_tokens,
            concurrent: view.concurrent,
        }
    }
}

/// `"all"`, or the list of names.
fn all_or_names<S: Serializer>(allowance: &&Allowance, serializer: S) -> Result<S::Ok, S::Error> {
    match allowance {
        Allowance::All => serializer.serialize_str("all"),
        Allowance::Only(names) => names.serialize(serializer),
    }
}

fn all_or_names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "const": "all" },
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        ],
    })
}

/// A table for people: one line per key under a line of headings, columns aligned.
pub fn keys_table(records: &[KeyRecord], now: Timestamp) -> String {
    const HEAD: [&str; 8] = [
        "ID", "KEY", "NAME", "STATE", "PLAN", "GROUPS", "CREATED", "EXPIRES",
    ];
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(records.iter().map(|record| {
        let time = |time: Option<Timestamp>| time.map_or_else(|| "-".into(), |t| t.to_string());
        let identity = &record.identity;
        let groups = match &identity.groups {
            Allowance::All => "all".to_owned(),
            Allowance::Only(names) => names.join(","),
        };
        [
            identity.key.to_string(),
            format!("{}…", record.prefix),
            identity.name.clone(),
            record.state(now).to_string(),
            identity.plan.as_deref().unwrap_or("-").to_owned(),
            groups,
            time(Some(record.created_at)),
            time(record.expires_at),
        ]
    }));
    align(&rows)
}

/// A table of grants for people, like [`keys_table`].
pub fn grants_table(grants: &[GrantView]) -> String {
    const HEAD: [&str; 7] = [
        "ID",
        "PLAN",
        "UNIT",
        "GIVEN",
        "USED",
        "VALID FROM",
        "VALID UNTIL",
    ];
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(grants.iter().map(|grant| {
        let time = |time: Option<Timestamp>| time.map_or_else(|| "-".into(), |t| t.to_string());
        let (given, used) = match grant.unit() {
            Unit::Tokens => (grant.tokens.to_string(), grant.used.to_string()),
            Unit::Money => (grant.money.to_string(), grant.money_used.to_string()),
        };
        [
            grant.id.clone(),
            grant.plan.clone().unwrap_or_else(|| "-".to_owned()),
            grant.unit().as_str().to_owned(),
            given,
            used,
            time(grant.valid_from),
            time(grant.valid_until),
        ]
    }));
    align(&rows)
}

/// Pads every column to its widest cell; no blanks at the ends of lines.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::allowance;
    use std::sync::Arc;
    use tollgate_types::Identity;

    fn record(name: &str) -> KeyRecord {
        KeyRecord {
            identity: Arc::new(Identity {
                key: KeyId::new("key_0123456789abcdefghij"),
                name: name.into(),
                plan: Some("pro".into()),
                groups: allowance(["sonnet", "opus"]),
                endpoints: Allowance::All,
                limits: Limits {
                    requests: std::num::NonZeroU32::new(60),
                    ..Limits::default()
                },
                pays_money: false,
                shares: Default::default(),
            }),
            prefix: "sk-AbCdEfGh".into(),
            created_at: Timestamp::from_unix_ms(1_790_000_000_000),
            expires_at: None,
            revoked_at: Some(Timestamp::from_unix_ms(1_790_000_001_000)),
            granted_until: None,
        }
    }

    #[test]
    fn a_table_has_a_line_per_key_and_aligned_columns() {
        let table = keys_table(&[record("Zoë's laptop"), record("ci")], Timestamp::MAX);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        let column = |line: &str, text: &str| line[..line.find(text).unwrap()].chars().count();
        assert_eq!(
            column(lines[1], "revoked"),
            column(lines[0], "STATE"),
            "{table}"
        );
        assert_eq!(
            column(lines[2], "revoked"),
            column(lines[0], "STATE"),
            "{table}"
        );
        assert!(lines[1].contains("opus,sonnet"), "{table}");
    }

    #[test]
    fn json_has_names_and_rfc_3339_times() {
        let json =
            serde_json::to_string(&KeyView::new(&record("Zoë's laptop"), Timestamp::MAX)).unwrap();
        assert_eq!(
            json,
            "{\"id\":\"key_0123456789abcdefghij\",\"prefix\":\"sk-AbCdEfGh\",\
             \"name\":\"Zoë's laptop\",\"state\":\"revoked\",\"plan\":\"pro\",\
             \"groups\":[\"opus\",\"sonnet\"],\"endpoints\":\"all\",\
             \"limits\":{\"requests\":60,\"input_tokens\":null,\"output_tokens\":null,\
             \"concurrent\":null},\"pays_money\":false,\
             \"created_at\":\"2026-09-21T14:13:20.000Z\",\"expires_at\":null,\
             \"revoked_at\":\"2026-09-21T14:13:21.000Z\"}"
        );
    }
}
