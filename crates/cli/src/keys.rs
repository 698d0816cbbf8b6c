//! `tollgate keys`: arguments in, a table or JSON out. The operations are in
//! `admin::operations`, which the admin API shares.

use super::ledger::existing;
use super::{ConfigFile, Failure, Outcome, note, print, print_line};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::num::NonZeroU32;
use std::sync::Arc;
use tollgate_admin::operations::{
    CreateKey, CreatedView, Extension, KeyLimits, KeyQuery, Offer, Operations, TopUp,
};
use tollgate_config as config;
use tollgate_engine::keys;
use tollgate_ledger::{KeyRecord, KeySelector, KeyState, KeyView, grants_table, keys_table};
use tollgate_settings::{Duration, TokenCount};
use tollgate_types::Money;

/// The arguments of `keys`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a key. Its text is printed once and not stored.
    Create {
        /// The name of the key, for people.
        name: String,
        /// The plan of the key.
        #[arg(long)]
        plan: Option<String>,
        /// A model group that the key may use; repeat for several. Default: those of its plan,
        /// else all.
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// The path of an endpoint that the key may use; repeat for several. Default: all.
        #[arg(long = "endpoint", value_name = "PATH")]
        endpoints: Vec<String>,
        #[command(flatten)]
        limits: LimitArguments,
        /// Days until the key expires. Default: never.
        #[arg(long, value_name = "DAYS", value_parser = days())]
        days: Option<u64>,
        /// Money for the key, for example 10.00, in the currency of the prices. Default: that of its
        /// plan. Without a plan it is valid as long as the key.
        #[arg(long, value_name = "AMOUNT")]
        money: Option<Money>,
    },
    /// List keys in the order of their creation.
    List {
        /// Only keys in this state.
        #[arg(long)]
        state: Option<State>,
        /// Only keys of this plan.
        #[arg(long)]
        plan: Option<String>,
        /// Only keys with this text in their names.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Only keys created after the key with this id.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// At most this many. Default: all.
        #[arg(long, value_name = "NUMBER")]
        limit: Option<NonZeroU32>,
    },
    /// Show one key.
    Show(Named),
    /// Revoke a key. The gateway refuses it within a second, on open connections too.
    Revoke(Named),
    /// Give a key tokens and money, by a plan or by amount.
    TopUp {
        #[command(flatten)]
        key: Named,
        /// The plan that sets tokens, money and validity.
        #[arg(
            long,
            conflicts_with_all = ["tokens", "money", "days"],
            required_unless_present_any = ["tokens", "money"],
        )]
        plan: Option<String>,
        /// Tokens, for example 500000 or 10M.
        #[arg(long, value_name = "TOKENS", requires = "days", value_parser = tokens)]
        tokens: Option<TokenCount>,
        /// Money, for example 10.00, in the currency of the prices.
        #[arg(long, value_name = "AMOUNT", requires = "days")]
        money: Option<Money>,
        /// Days that the tokens and the money are valid, from the first use.
        #[arg(long, value_name = "DAYS", value_parser = days())]
        days: Option<u64>,
    },
    /// Show the grants of a key and their usage.
    Grants(Named),
    /// Extend the validity of a key and of its grants.
    Extend {
        #[command(flatten)]
        key: Named,
        /// Days to add.
        #[arg(long, value_name = "DAYS", value_parser = days())]
        days: u64,
    },
    /// Set all limits of a key; the plan's limits apply to those that are left out.
    SetLimits {
        #[command(flatten)]
        key: Named,
        #[command(flatten)]
        limits: LimitArguments,
    },
}

/// A key by name.
#[derive(Args)]
struct Named {
    /// The id (`key_…`) or the beginning of the text (`sk-…`) of the key.
    key: String,
}

impl Named {
    fn selector(&self) -> Result<KeySelector, Failure> {
        Ok(KeySelector::parse(&self.key)?)
    }
}

/// Limits of a key's own.
#[derive(Args)]
struct LimitArguments {
    /// Requests a minute.
    #[arg(long, value_name = "NUMBER")]
    requests: Option<NonZeroU32>,
    /// Input tokens a minute, for example 50000 or 10M.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    input_tokens: Option<TokenCount>,
    /// Output tokens a minute.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    output_tokens: Option<TokenCount>,
    /// Concurrent requests.
    #[arg(long, value_name = "NUMBER")]
    concurrent: Option<NonZeroU32>,
}

impl LimitArguments {
    const fn order(&self) -> KeyLimits {
        KeyLimits {
            requests: self.requests,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            concurrent: self.concurrent,
        }
    }
}

/// A state as it is typed.
#[derive(Clone, Copy, ValueEnum)]
enum State {
    /// The key works.
    Active,
    /// The operator revoked the key.
    Revoked,
    /// The key or all of its grants have expired.
    Expired,
}

impl From<State> for KeyState {
    fn from(state: State) -> Self {
        match state {
            State::Active => Self::Active,
            State::Revoked => Self::Revoked,
            State::Expired => Self::Expired,
        }
    }
}

/// From a day to a century.
fn days() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=36_500)
}

fn span(days: u64) -> Duration {
    Duration::from_secs(days.saturating_mul(86_400))
}

/// A plain number, or one with a unit as in the configuration.
fn tokens(text: &str) -> Result<TokenCount, String> {
    match text.parse() {
        Ok(count) => Ok(TokenCount::new(count)),
        Err(_) => text
            .parse()
            .map_err(|fault: tollgate_settings::UnitError| fault.to_string()),
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.config.path;
    let config = match arguments.command {
        Command::Create { .. } => config::load(path)?,
        _ => existing(path)?,
    };
    let store = Arc::new(keys::open_store(&config)?);
    let desk = Desk {
        operations: Operations::new(store, Offer::of(&config)),
        json: arguments.json,
    };
    desk.run(&arguments.command)
}

/// Where orders become operations, and results are shown.
struct Desk {
    operations: Operations,
    json: bool,
}

impl Desk {
    fn run(&self, command: &Command) -> Outcome {
        let operations = &self.operations;
        match command {
            Command::Create {
                name,
                plan,
                groups,
                endpoints,
                limits,
                days,
                money,
            } => self.create(&CreateKey {
                name: name.clone(),
                plan: plan.clone(),
                groups: given(groups),
                endpoints: given(endpoints),
                limits: limits.order(),
                expires_after: days.map(span),
                money: *money,
            }),
            Command::List {
                state,
                plan,
                name,
                after,
                limit,
            } => {
                let query = KeyQuery {
                    limit: None,
                    after: after.clone(),
                    state: state.map(KeyState::from),
                    plan: plan.clone(),
                    name: name.clone(),
                };
                self.list(query, *limit)
            }
            Command::Show(key) => self.show(&operations.store().find_key(&key.selector()?)?),
            Command::Revoke(key) => {
                self.show(&operations.store().revoke_key(&key.selector()?)?.record)
            }
            Command::TopUp {
                key,
                plan,
                tokens,
                money,
                days,
            } => {
                let order = TopUp {
                    plan: plan.clone(),
                    tokens: *tokens,
                    money: *money,
                    validity: days.map(span),
                };
                let grants = operations.top_up(&key.selector()?, &order, None)?;
                self.print(&grants, || grants_table(&grants))
            }
            Command::Grants(key) => {
                let grants = operations.grants(&key.selector()?)?;
                self.print(&grants, || grants_table(&grants))
            }
            Command::Extend { key, days } => {
                let by = span(*days);
                self.show(&operations.extend(&key.selector()?, &Extension { by }, None)?)
            }
            Command::SetLimits { key, limits } => {
                self.show(&operations.set_limits(&key.selector()?, &limits.order())?)
            }
        }
    }

    fn create(&self, order: &CreateKey) -> Outcome {
        let created = self.operations.create(order, None)?;
        let view = CreatedView {
            key: created.key.expose(),
            record: KeyView::new(&created.record, self.operations.now()),
        };
        if let Err(failure) = self.print(&view, || format!("{}\n", view.key)) {
            let cause = match failure {
                Failure::Fault(cause) => format!(" ({cause})"),
                Failure::ReaderLeft => String::new(),
            };
            let id = view.record.id;
            return Err(format!(
                "the key {id} was created, but its secret could not be printed: revoke it{cause}"
            )
            .into());
        }
        if !self.json {
            note(format_args!(
                "The key above is shown only once and is not stored: keep it. Its id is {}.",
                view.record.id
            ));
        }
        Ok(())
    }

    /// Page after page, so that no other writer waits while a long list is read.
    fn list(&self, mut query: KeyQuery, most: Option<NonZeroU32>) -> Outcome {
        let mut missing = most.map_or(u32::MAX, NonZeroU32::get);
        let mut found: Vec<KeyRecord> = Vec::new();
        loop {
            query.limit = Some(missing.min(KeyQuery::MAX_LIMIT));
            let page = self.operations.list(&query)?;
            let count = u32::try_from(page.records.len()).unwrap_or(u32::MAX);
            missing = missing.saturating_sub(count);
            found.extend(page.records);
            query.after = found.last().map(|record| record.id().to_string());
            if !page.has_more || missing == 0 {
                break;
            }
        }
        let now = self.operations.now();
        let views: Vec<_> = found
            .iter()
            .map(|record| KeyView::new(record, now))
            .collect();
        self.print(&views, || keys_table(&found, now))
    }

    fn show(&self, record: &KeyRecord) -> Outcome {
        let now = self.operations.now();
        self.print(&KeyView::new(record, now), || {
            keys_table(std::slice::from_ref(record), now)
        })
    }

    /// JSON for programs, or a table for people.
    fn print(&self, view: &impl Serialize, table: impl FnOnce() -> String) -> Outcome {
        if self.json {
            print_line(serde_json::to_string_pretty(view)?)
        } else {
            print(table())
        }
    }
}

/// The given names; `None` if there are none.
fn given(names: &[String]) -> Option<Vec<String>> {
    (!names.is_empty()).then(|| names.to_vec())
}
