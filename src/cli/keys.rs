//! `tollgate keys`.

use super::{Failure, Outcome};
use crate::config::{self, ALL_GROUPS, Config, PlanSettings};
use crate::keys;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;
use tollgate_ledger::{
    GrantTerms, KeyRecord, KeySelector, KeyView, Limits, NewKey, Store, allowance, keys_table,
};
use tollgate_settings::unknown_name;

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
            let lifetime = |days: u64| Duration::from_secs(days.saturating_mul(24 * 60 * 60));
            let new = NewKey {
                name: name.clone(),
                plan: plan.map(|(name, _)| name.to_owned()),
                groups: allowance(groups.iter().filter(|group| *group != ALL_GROUPS).cloned()),
                endpoints: allowance(endpoints.iter().cloned()),
                limits: Limits::default(),
                expires_at: days.map(|days| now.plus(lifetime(days))),
                grant: plan.map(|(name, plan)| GrantTerms {
                    plan: Some(name.to_owned()),
                    tokens: plan.tokens.get(),
                    validity: plan.validity.get(),
                }),
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
    }
}

fn find_plan<'a>(
    config: &'a Config,
    name: &'a str,
) -> Result<(&'a str, &'a PlanSettings), Failure> {
    config
        .plans
        .get(name)
        .map(|plan| (name, plan))
        .ok_or_else(|| {
            Failure(unknown_name(
                "plan",
                name,
                config.plans.keys().map(String::as_str),
            ))
        })
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
