//! The orders of an operator to the running gateway: to show its configuration, and to serve another one.
//! The gateway decides how to carry them out.

use super::health::HealthView;
use super::operations::Refusal;
use arc_swap::ArcSwap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tollgate_config::{Change, Config};
use tollgate_explain::{ExplainOrder, Explanation};

/// The configuration that is served, as operators see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigurationView {
    /// Its number in this process: 1 is the one that it started with.
    pub number: u64,
    /// The same settings have the same hash in every process.
    pub hash: String,
    /// Since when it is served, in RFC 3339.
    pub since: String,
    /// The cause of its being served.
    pub cause: Cause,
    /// The differences from the one before; the first 200.
    pub changes: Vec<Change>,
    /// Key paths whose values in the file differ from the running process, and that need a restart
    /// or an upgrade.
    pub needs_restart: Vec<String>,
    /// The one before, which a rollback brings back.
    pub previous: Option<PreviousView>,
    /// The last reload, if it has failed.
    pub last_failure: Option<FailureView>,
}

/// The configuration before.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PreviousView {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: String,
}

/// A configuration that was not taken.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FailureView {
    /// When, in RFC 3339.
    pub at: String,
    /// The cause of the attempt to serve it.
    pub cause: Cause,
    /// Every fault in it, a line each.
    pub message: String,
}

/// The cause of a configuration's being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The start of the process.
    Start,
    /// `SIGHUP`.
    Signal,
    /// A file has changed.
    File,
    /// The admin API.
    Api,
    /// A rollback.
    Rollback,
}

/// The configuration with its settings.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Configuration")]
pub struct SettingsView {
    #[serde(flatten)]
    view: ConfigurationView,
    /// The settings as they stand in the files, merged. Of what may be a secret there is a
    /// digest.
    settings: serde_json::Value,
    /// The settings that the process has started with.
    started: serde_json::Value,
}

/// How a reload is to be done.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReloadQuery {
    /// Check and compare, and change nothing.
    pub dry_run: bool,
}

/// The outcome of a reload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReloadView {
    /// Whether the configuration is served now.
    pub applied: bool,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
    /// Its differences; the first 200.
    pub changes: Vec<Change>,
    /// How many more there are.
    pub more_changes: usize,
    /// Key paths of what takes a restart or an upgrade.
    pub needs_restart: Vec<String>,
    /// The configuration that is served now.
    pub serving: ConfigurationView,
}

/// A request to the reloader.
pub enum Ask {
    /// Reads the file again.
    Reload(ReloadQuery),
    /// Brings the configuration before back.
    Rollback,
}

/// An order, and where its answer goes.
pub struct Order {
    /// The order.
    pub ask: Ask,
    /// The outcome.
    pub answer: oneshot::Sender<Result<ReloadView, Refusal>>,
}

/// The configuration that is served, for all to see.
pub struct Serving {
    /// The result.
    pub view: ConfigurationView,
    /// Its settings, masked.
    pub settings: serde_json::Value,
    /// The settings that the process has started with, masked.
    pub started: Arc<serde_json::Value>,
    /// Itself.
    pub config: Arc<Config>,
}

/// Explains requests by what is served. Blocks.
pub type Explainer = Arc<dyn Fn(&ExplainOrder) -> Result<Explanation, Refusal> + Send + Sync>;

/// Returns the health of the providers.
pub type HealthSource = Arc<dyn Fn() -> HealthView + Send + Sync>;

/// The way to the gateway that runs.
#[derive(Clone)]
pub struct Control {
    orders: mpsc::Sender<Order>,
    serving: Arc<ArcSwap<Serving>>,
    health: HealthSource,
    explainer: Explainer,
}

impl Control {
    /// Orders go to `orders`; what is served stands in `serving`.
    pub const fn new(
        orders: mpsc::Sender<Order>,
        serving: Arc<ArcSwap<Serving>>,
        health: HealthSource,
        explainer: Explainer,
    ) -> Self {
        Self {
            orders,
            serving,
            health,
            explainer,
        }
    }

    /// The health of all deployments.
    pub(super) fn health(&self) -> HealthView {
        (self.health)()
    }

    /// Explains a request. Blocks.
    ///
    /// # Errors
    ///
    /// The key or the path is not known, or the store cannot be read.
    pub(super) fn explain(&self, order: &ExplainOrder) -> Result<Explanation, Refusal> {
        (self.explainer)(order)
    }

    /// The configuration that is served.
    pub(super) fn configuration(&self) -> SettingsView {
        let serving = self.serving.load();
        SettingsView {
            view: serving.view.clone(),
            settings: serving.settings.clone(),
            started: serde_json::Value::clone(&serving.started),
        }
    }

    /// Has something done, and waits for it. Blocks.
    ///
    /// # Errors
    ///
    /// The configuration has faults; too many orders came at once; another process is taking over,
    /// or the gateway is ending.
    pub(super) fn order(&self, ask: Ask) -> Result<ReloadView, Refusal> {
        let (answer, outcome) = oneshot::channel();
        let order = Order { ask, answer };
        self.orders
            .try_send(order)
            .map_err(|_| Refusal::Busy("other reloads are running, or the gateway is ending"))?;
        match outcome.blocking_recv() {
            Ok(outcome) => outcome,
            Err(_) => Err(Refusal::Busy("the gateway is ending")),
        }
    }
}
