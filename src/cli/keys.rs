//! `tollgate keys`.

use super::{Failure, Outcome};
use crate::config::{self, ALL_GROUPS, Config, PlanSettings};
use crate::keys;
use clap::{Args, Subcommand};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use tollgate_ledger::{
    GrantTerms, GrantView, KeyRecord, KeySelector, KeyView, NewKey, Store, allowance, grants_table,
    keys_table,
};
use tollgate_settings::unknown_name;
use tollgate_types::Limits;

/// What `keys` takes.
#[derive(Args)]
pub(super) struct Arguments {
    /// The configuration file, which names the store and the pepper.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        default_value = "tollgate.yaml"
    )]
    config: PathBuf,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key. Its text is printed once and stored nowhere.
    Create {
        /// A label for people.
        name: String,
        /// The plan that the key is made with.
        #[arg(long)]
        plan: Option<String>,
        /// A model group that it may use; several times for several. Default: all.
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// An endpoint that it may use, by path; several times for several. Default: all.
        #[arg(long = "endpoint", value_name = "PATH")]
        endpoints: Vec<String>,
        /// How many days it works. Default: until it is revoked.
        #[arg(long, value_name = "DAYS")]
        days: Option<u64>,
    },
    /// List all keys.
    List,
    /// Show one key.
    Show {
        /// Its identifier (`key_…`) or the beginning of its text (`sk-…`).
        key: String,
    },
    /// Take a key back: it is refused within a second, on every open connection.
    Revoke {
        /// Its identifier (`key_…`) or the beginning of its text (`sk-…`).
        key: String,
    },
    /// Give a key tokens: a plan's, or as many as said.
    TopUp {
        /// Its identifier (`key_…`) or the beginning of its text (`sk-…`).
        key: String,
        /// The plan whose tokens and validity it is given.
        #[arg(long, conflicts_with_all = ["tokens", "days"], required_unless_present = "tokens")]
        plan: Option<String>,
        /// How many tokens.
        #[arg(long, value_name = "TOKENS", requires = "days")]
        tokens: Option<u64>,
        /// How many days they are valid, from the first use.
        #[arg(long, value_name = "DAYS", requires = "tokens")]
        days: Option<u64>,
    },
    /// Show what a key was given and what it has used of it.
    Grants {
        /// Its identifier (`key_…`) or the beginning of its text (`sk-…`).
        key: String,
    },
    /// Let a key and what it was given live longer.
    Extend {
        /// Its identifier (`key_…`) or the beginning of its text (`sk-…`).
        key: String,
        /// By how many days.
        #[arg(long, value_name = "DAYS")]
        days: u64,
    },
    /// Give a key limits of its own; what is left out is its plan's again.
    SetLimits {
        /// Its identifier (`key_…`) or the beginning of its text (`sk-…`).
        key: String,
        /// Requests a minute.
        #[arg(long, value_name = "NUMBER")]
        requests: Option<NonZeroU32>,
        /// Input tokens a minute.
        #[arg(long, value_name = "NUMBER")]
        input_tokens: Option<NonZeroU32>,
        /// Output tokens a minute.
        #[arg(long, value_name = "NUMBER")]
        output_tokens: Option<NonZeroU32>,
        /// Requests at one time.
        #[arg(long, value_name = "NUMBER")]
        concurrent: Option<NonZeroU32>,
    },
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let config = config::load(&arguments.config)?;
    let store = keys::open_store(&config)?;
    let json = arguments.json;
    match &arguments.command {
        Command::Create {
            name,
            plan,
            groups,
            endpoints,
            days,
        } => {
            let now = store.clock().now();
            let plan = plan
                .as_deref()
                .map(|name| find_plan(&config, name))
                .transpose()?;
            let of_plan = plan.map_or(&[][..], |(_, plan)| &plan.groups);
            let groups = if groups.is_empty() { of_plan } else { groups };
            let new = NewKey {
                plan: plan.map(|(name, _)| name.to_owned()),
                groups: allowance(groups.iter().filter(|it| *it != ALL_GROUPS).cloned()),
                endpoints: allowance(endpoints.iter().cloned()),
                expires_at: days.map(|days| now.plus(whole_days(days))),
                grant: plan.map(terms),
                ..NewKey::named(name.clone())
            };
            create(&store, &new, json)
        }
        Command::List => {
            let records = all_keys(&store)?;
            show(&store, &records, json)
        }
        Command::Show { key } => {
            let record = store.find_key(&KeySelector::parse(key)?)?;
            show(&store, &[record], json)
        }
        Command::Revoke { key } => {
            let revocation = store.revoke_key(&KeySelector::parse(key)?)?;
            show(&store, &[revocation.record], json)
        }
        Command::TopUp {
            key,
            plan,
            tokens,
            days,
        } => {
            let terms = match plan {
                Some(plan) => terms(find_plan(&config, plan)?),
                None => GrantTerms {
                    plan: None,
                    tokens: tokens.unwrap_or(0),
                    validity: whole_days(days.unwrap_or(0)),
                },
            };
            let grant = store.top_up(&KeySelector::parse(key)?, &terms)?;
            show_grants(&[grant], json)
        }
        Command::Grants { key } => {
            let record = store.find_key(&KeySelector::parse(key)?)?;
            show_grants(&store.grants(record.id())?, json)
        }
        Command::Extend { key, days } => {
            let record = store.extend_key(&KeySelector::parse(key)?, whole_days(*days))?;
            show(&store, &[record], json)
        }
        Command::SetLimits {
            key,
            requests,
            input_tokens,
            output_tokens,
            concurrent,
        } => {
            let limits = Limits {
                requests: *requests,
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
                concurrent: *concurrent,
            };
            let record = store.set_limits(&KeySelector::parse(key)?, &limits)?;
            show(&store, &[record], json)
        }
    }
}

fn whole_days(days: u64) -> Duration {
    Duration::from_secs(days.saturating_mul(86_400))
}

/// What a plan of the configuration gives.
fn find_plan<'a>(
    config: &'a Config,
    name: &'a str,
) -> Result<(&'a str, &'a PlanSettings), Failure> {
    let found = config.plans.get(name).map(|plan| (name, plan));
    found.ok_or_else(|| {
        let known = config.plans.keys().map(String::as_str);
        Failure(unknown_name("plan", name, known))
    })
}

fn terms((name, plan): (&str, &PlanSettings)) -> GrantTerms {
    GrantTerms {
        plan: Some(name.to_owned()),
        tokens: plan.tokens.get(),
        validity: plan.validity.get(),
    }
}

fn show_grants(grants: &[GrantView], json: bool) -> Outcome {
    if json {
        println!("{}", serde_json::to_string_pretty(grants)?);
    } else {
        print!("{}", grants_table(grants));
    }
    Ok(())
}

fn create(store: &Store, new: &NewKey, json: bool) -> Outcome {
    let created = store.create_key(new)?;
    let view = KeyView::new(&created.record, store.clock().now());
    if json {
        let line = serde_json::json!({ "key": created.key.expose(), "record": view });
        println!("{}", serde_json::to_string_pretty(&line)?);
    } else {
        println!("{}", created.key.expose());
        eprintln!(
            "{} is shown this once and stored nowhere: keep it.",
            view.id
        );
    }
    Ok(())
}

fn all_keys(store: &Store) -> Result<Vec<KeyRecord>, Failure> {
    const PAGE: u32 = 1000;
    let mut all: Vec<KeyRecord> = Vec::new();
    loop {
        let page = store.list_keys(all.last().map(KeyRecord::id), PAGE)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn show(store: &Store, records: &[KeyRecord], json: bool) -> Outcome {
    let now = store.clock().now();
    if json {
        let views: Vec<_> = records
            .iter()
            .map(|record| KeyView::new(record, now))
            .collect();
        println!("{}", serde_json::to_string_pretty(&views)?);
    } else {
        print!("{}", keys_table(records, now));
    }
    Ok(())
}
