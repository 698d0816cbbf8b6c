//! `tollgate check`: whether the gateway would start with a configuration, and if not, why.

use super::operator::{self, Operator};
use super::{ConfigFile, Edge, Failure, Outcome, http, print, print_line};
use clap::Args;
use rustix::fs::{Access, access};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_config::{self as config, Answering, Change, Config};
use tollgate_engine::keys::{self, OpenError};
use tollgate_ledger::StoreError;
use tollgate_settings::{Fault, KeyPath};

/// How long the structure of the ledger's file is looked at.
const PATIENCE: Duration = Duration::from_secs(1);

/// The arguments of `check`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// The configuration file; the same as `--config FILE`.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Connect to the database, too, if it is on a server: check its tables, the pepper and the plans. And
    /// to the server that limits are shared through.
    #[arg(long)]
    online: bool,
    /// List the differences to another file, or to a running gateway, by the address of its
    /// operator port (`http://127.0.0.1:9080`). The token comes from TOLLGATE_ADMIN_TOKEN.
    #[arg(long, value_name = "FILE|URL")]
    against: Option<String>,
    /// The admin token for `--against URL`.
    #[arg(
        long,
        env = "TOLLGATE_ADMIN_TOKEN",
        hide_env_values = true,
        hide = true
    )]
    token: Option<String>,
}

pub(super) fn run(arguments: &Arguments, edge: &Edge) -> Outcome {
    let file = arguments.file.as_ref().unwrap_or(&arguments.config.path);
    let config = config::load(file)?;
    (edge.check)(&config)?;
    keys::check_servers(&config)?;
    match config.store.postgres {
        Some(_) if arguments.online => keys::check_plans(&config, &keys::open_store(&config)?)?,
        Some(_) => keys::check_folder(&config)?,
        None => check_file(&config)?,
    }
    note_folder(&config.store.path)?;
    let (lasting, passing): (Vec<_>, Vec<_>) =
        obstacles(&config).into_iter().partition(|it| it.is_lasting);
    let located = |obstacles: Vec<CredentialObstacle>| {
        config.locate(obstacles.into_iter().map(|it| it.fault))
    };
    if !lasting.is_empty() {
        return Err(located(lasting).into());
    }
    if arguments.online {
        keys::check_limit_server(&config)?;
    }
    print(summary(file, &config))?;
    for warning in located(passing).iter() {
        print_line(format_args!("WARNING  {warning}"))?;
    }
    if let Some(against) = &arguments.against {
        let difference = if against.contains("://") {
            let authority = operator::authority(against)?.to_owned();
            let token = arguments.token.clone().filter(|it| !it.is_empty());
            let token = token.ok_or("the admin token is expected in TOLLGATE_ADMIN_TOKEN")?;
            let gateway = Operator {
                authority,
                token: Some(token),
            };
            Difference::to_running(&config, &gateway)?
        } else {
            Difference::to_file(&config, &config::load(Path::new(against))?)
        };
        print(difference.reported())?;
    }
    Ok(())
}

/// Checks that the store can be used with this configuration, without changing it. It may belong to
/// another user: a file that cannot be read is no fault of the configuration.
fn check_file(config: &Config) -> Outcome {
    keys::check_folder(config)?;
    if !config.store.path.exists() {
        return Ok(());
    }
    let checked = keys::check_pepper(config)
        .and_then(|()| keys::glance(config, PATIENCE))
        .and_then(|_| keys::check_plans_of_file(config));
    match checked {
        Err(OpenError::Store(fault)) if !is_unusable(&fault) => print_line(format_args!(
            "not checked: whether the file is whole, and the pepper and the plans of the keys are right ({fault})"
        )),
        checked => Ok(checked?),
    }
}

/// What prevents a credential from giving tokens.
pub(super) struct CredentialObstacle {
    pub(super) provider: String,
    pub(super) fault: Fault,
    pub(super) is_lasting: bool,
}

/// Looks at the programs and files from which credentials get tokens. Runs no program.
pub(super) fn obstacles(config: &Config) -> Vec<CredentialObstacle> {
    let mut found = Vec::new();
    for provider in config.catalog.providers() {
        let path = KeyPath::root().key("providers").key(&*provider.name);
        let path = path.key("credentials");
        for (index, credential) in provider.credentials.iter().enumerate() {
            let Some(obstacle) = credential.obstacle(&Answering) else {
                continue;
            };
            let [source, setting] = obstacle.setting;
            let path = path.index(index).key(source).key(setting);
            found.push(CredentialObstacle {
                provider: provider.name.to_string(),
                fault: path.fault(obstacle.message),
                is_lasting: obstacle.is_lasting,
            });
        }
    }
    found
}

/// Reports a folder that this user cannot write to: the gateway may run as another user.
fn note_folder(store: &Path) -> Outcome {
    let folder = store.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(fault) => print_line(format_args!(
            "not checked: whether the gateway can write to {} ({fault})",
            folder.display()
        )),
    }
}

/// Whether the fault is in the file. Otherwise the user may lack permission.
const fn is_unusable(fault: &StoreError) -> bool {
    matches!(
        fault,
        StoreError::NotALedger { .. }
            | StoreError::Newer { .. }
            | StoreError::Damaged { .. }
            | StoreError::CommitsMissing { .. }
    )
}

/// The differences, and those of them that a reload does not apply.
struct Difference {
    changes: Vec<Change>,
    needs_restart: Vec<String>,
}

impl Difference {
    fn to_file(config: &Config, earlier: &Config) -> Self {
        let paths = config::needs_restart(earlier, config).into_iter();
        Self {
            changes: config.changes_since(earlier),
            needs_restart: paths.map(str::to_owned).collect(),
        }
    }

    /// The contents of files and variables are not compared: the gateway does not show them.
    fn to_running(config: &Config, gateway: &Operator) -> Result<Self, Failure> {
        let page: Option<Value> = http::wait(async {
            gateway.metrics().await?;
            gateway.api("/api/v1/configuration").await
        })?;
        let page = page.unwrap_or_default();
        let settings = page.get("settings");
        let settings = settings.ok_or("the gateway did not return its configuration")?;
        // Settings that need a restart keep their values of the start, even after a reload has changed them.
        let started = page.get("started").unwrap_or(settings);
        let since_start = config.changes_since_shown(started);
        let shown = config.shown();
        let parts = since_start.iter().flat_map(|change| {
            let parts = config::takes_restart(&change.path).into_iter();
            // Of what has come or gone as a whole not everything need be new.
            parts.filter(|part| *part == change.path || at(started, part) != at(&shown, part))
        });
        Ok(Self {
            needs_restart: parts.map(str::to_owned).collect(),
            changes: config.changes_since_shown(settings),
        })
    }

    fn reported(&self) -> String {
        let mut text = String::new();
        if self.changes.is_empty() {
            text.push_str("no difference\n");
        }
        for change in &self.changes {
            let _ = writeln!(text, "{change}");
        }
        for path in &self.needs_restart {
            let _ = writeln!(text, "{path}: needs a restart or an upgrade");
        }
        text
    }
}

/// The setting at a key path without places in lists.
fn at<'a>(settings: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(settings, |it, key| it.get(key))
}

/// A summary that the operator can compare with the intention.
fn summary(path: &Path, config: &Config) -> String {
    let catalog = &config.catalog;
    let counts = [
        count(catalog.all().count(), "model"),
        count(catalog.providers().len(), "provider"),
        count(config.plans.len(), "plan"),
        count(config.filters.len(), "filter"),
    ];
    let mut text = format!("{}: no fault ({})\n", path.display(), counts.join(", "));
    if !catalog.unserved().is_empty() {
        let _ = writeln!(
            text,
            "not offered, because no provider serves it: {}",
            catalog.unserved().join(", ")
        );
    }
    text.push_str(&unpriced(config));
    text
}

/// The models that keys of plans with money cannot use.
fn unpriced(config: &Config) -> String {
    let mut plans = config.plans.iter().filter(|(_, plan)| plan.money.is_some());
    let Some((plan, _)) = plans.next() else {
        return String::new();
    };
    let models = config
        .catalog
        .all()
        .filter(|it| !it.is_auto() && !it.deployments.is_empty() && !it.is_priced(&[]));
    let names: Vec<&str> = models.map(|model| &*model.id).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "WARNING  the plan '{plan}' gives money, and keys that pay in money cannot use models without \
         a price: {}\n",
        names.join(", ")
    )
}

fn count(many: usize, what: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{many} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use tollgate_config::Loader;
    use tollgate_settings::{Environment, ProcessEnvironment};

    /// Variables are all set; files are those on disk.
    struct Workshop;

    impl Environment for Workshop {
        fn variable(&self, _: &str) -> Option<String> {
            Some("a-s3cret-that-is-long-enough-for-all".to_owned())
        }

        fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
            ProcessEnvironment.read_bytes(path, max_bytes)
        }
    }

    fn reported(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
        let config = Loader::new(&Workshop).load(&folder.join(name)).unwrap();
        summary(Path::new(name), &config)
    }

    #[test]
    fn a_good_file_is_summed_up() {
        assert_eq!(
            reported("default.yaml"),
            "default.yaml: no fault (44 models, 4 providers, 3 plans, 8 filters)\n"
        );
    }

    #[test]
    fn a_model_without_a_server_is_mentioned_and_is_no_fault() {
        let reported = reported("catalog.yaml");
        let wanted = "not offered, because no provider serves it: alpha-fable-5-1, ";
        assert!(reported.contains(wanted), "{reported}");
    }
}
