//! The key store of the gateway: opened by the configuration, used by filters.

use crate::client::ClientNetwork;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tollgate_config::{Config, Faults};
use tollgate_filter::{KeyDirectory, KeyLookup};
use tollgate_ledger::{
    Clock, Denied, DirectorySettings, Glance, KeyHasher, KeyRecord, KeyedSemaphore, LimitServer,
    LimitServerError, Limiter, LookupFailure, PlanInUse, Server, ServerSettings, ServerTls, Store,
    StoreError, plans_beyond,
};
use tollgate_settings::KeyPath;
use tollgate_types::{KeyId, Limits, MaybeReady};

/// Why the store of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration is at fault.
    #[error("{0}")]
    Config(#[from] Faults),
    /// The key store cannot be used.
    #[error("the key store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// Limits cannot be shared through the server.
    #[error("limits cannot be shared through {0}")]
    Limits(#[from] LimitServerError),
    /// Keys have plans that the configuration does not have.
    #[error(
        "keys that are not revoked have plans that the configuration does not have; they would \
         be limited by nothing:{0}\nkeep these plans under 'plans', or revoke the keys first \
         ('tollgate keys list --plan NAME' shows them)"
    )]
    PlansInUse(String),
}

/// Opens the store that a configuration names.
///
/// # Errors
///
/// The pepper or the file cannot be used.
pub fn open_store(config: &Config) -> Result<Store, OpenError> {
    check_folder(config)?;
    let (hasher, clock) = (hasher(config)?, Clock::system());
    Ok(match server(config)? {
        Some(server) => Store::open_on_server(server, hasher, clock)?,
        None => Store::open(&config.store.path, hasher, clock)?,
    })
}

/// Creates the tables of a database on a server, or migrates them. Returns the number of steps taken; `None` if the
/// configuration has a file.
///
/// # Errors
///
/// The server cannot be reached or refuses a change, or a newer version has created the tables.
pub fn migrate(config: &Config) -> Result<Option<usize>, OpenError> {
    let server = server(config)?;
    Ok(server
        .map(|it| tollgate_ledger::migrate(&it.server))
        .transpose()?)
}

/// How a configuration uses a database on a server; `None` if it has a file.
fn server(config: &Config) -> Result<Option<ServerSettings>, OpenError> {
    let Some((settings, url)) = config
        .store
        .postgres
        .as_ref()
        .zip(config.store_url.as_ref())
    else {
        return Ok(None);
    };
    let tls = match (settings.tls, &settings.ca) {
        (false, _) => ServerTls::Off,
        (true, None) => ServerTls::System,
        (true, Some(file)) => ServerTls::Authorities(file.clone()),
    };
    Ok(Some(ServerSettings {
        server: Arc::new(Server::new(url.expose(), &tls)?),
        local: config.store.path.clone(),
        connections: usize::try_from(settings.connections.get()).unwrap_or(usize::MAX),
        lease_term: settings.lease_term.get(),
    }))
}

/// The server through which the gateways of a configuration share limits, and how long a request waits
/// for it. `None`: there is none.
///
/// # Errors
///
/// Its URL or the file with its authorities cannot be read.
pub fn limit_server(config: &Config) -> Result<Option<(LimitServer, Duration)>, OpenError> {
    let settings = config.limits.shared.as_ref();
    let Some((settings, url)) = settings.zip(config.limits_url.as_ref()) else {
        return Ok(None);
    };
    let server = LimitServer::new(url.expose(), settings.ca.as_deref())?;
    Ok(Some((server, settings.timeout.get())))
}

/// Connects to that server, and checks that limits can be shared through it. Blocks. Returns its address.
///
/// # Errors
///
/// The server cannot be reached, or cannot share limits.
pub fn check_limit_server(config: &Config) -> Result<Option<String>, OpenError> {
    let Some((server, _)) = limit_server(config)? else {
        return Ok(None);
    };
    server.check()?;
    Ok(Some(server.address().to_owned()))
}

/// Opens the store of a configuration although it lacks commits or has damaged rows, and accepts its contents.
///
/// # Errors
///
/// As [`open_store`] for any other reason.
pub fn accept_loss(config: &Config) -> Result<Store, OpenError> {
    Ok(Store::accept_loss(
        &config.store.path,
        hasher(config)?,
        Clock::system(),
    )?)
}

/// Checks the URLs of the database and of the server that limits are shared through, and the files with
/// their authorities. Connects to neither.
///
/// # Errors
///
/// One of them cannot be read.
pub fn check_servers(config: &Config) -> Result<(), OpenError> {
    server(config)?;
    limit_server(config)?;
    Ok(())
}

/// Checks that the folder of the store exists. The first opening creates the file.
///
/// # Errors
///
/// There is no such folder, or the path of the file is a folder.
pub fn check_folder(config: &Config) -> Result<(), OpenError> {
    let file = &config.store.path;
    let at = KeyPath::root().key("store").key("path");
    let is_folder = file.as_os_str().is_empty() || file.is_dir();
    if config.store.postgres.is_none() && is_folder {
        let fault = at.fault(format!(
            "a folder cannot be the database: name a file, such as {}",
            file.join("tollgate.db").display()
        ));
        return Err(config.locate([fault]).into());
    }
    let folder = file.parent();
    let folder = folder.filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    let shown = folder.display();
    let fault = at.fault(format!(
        "there is no folder {shown}: make it for the user of the gateway alone \
         (install -d -m 700 {shown})"
    ));
    Err(config.locate([fault]).into())
}

/// Checks that the store was created with the pepper of the configuration. Only reads the file.
///
/// # Errors
///
/// It was created with another pepper, or it cannot be read.
pub fn check_pepper(config: &Config) -> Result<(), OpenError> {
    match tollgate_ledger::check_pepper(&config.store.path, &hasher(config)?) {
        Err(fault @ StoreError::WrongPepper) => {
            let path = KeyPath::root().key("keys").key("pepper");
            Err(config.locate([path.fault(fault.to_string())]).into())
        }
        checked => Ok(checked?),
    }
}

/// Checks the file of the ledger without writing to it: its format, its pepper, lost commits and,
/// within `patience`, its structure.
///
/// # Errors
///
/// There is no file, it cannot be used, or something is wrong with it.
pub fn glance(config: &Config, patience: Duration) -> Result<Glance, OpenError> {
    Ok(tollgate_ledger::glance(
        &config.store.path,
        &hasher(config)?,
        patience,
    )?)
}

fn hasher(config: &Config) -> Result<KeyHasher, OpenError> {
    let hasher = KeyHasher::new(config.pepper.expose().as_bytes());
    Ok(hasher.map_err(StoreError::from)?)
}

/// The most plans that are listed: more usually mean that the whole section is missing.
const LISTED: u32 = 8;

/// Checks that a configuration has every plan of the keys of a store: a key without its plan would have no limits.
/// Reads every key; blocks.
///
/// # Errors
///
/// Keys have plans that the configuration does not have, or the store cannot be read.
pub fn check_plans(config: &Config, store: &Store) -> Result<(), OpenError> {
    report_lost(store.plans_beyond(&known_plans(config), LISTED)?)
}

/// The same for the file of the configuration, which it only reads.
///
/// # Errors
///
/// As [`check_plans`].
pub fn check_plans_of_file(config: &Config) -> Result<(), OpenError> {
    let now = Clock::system().now();
    report_lost(plans_beyond(
        &config.store.path,
        &known_plans(config),
        LISTED,
        now,
    )?)
}

fn known_plans(config: &Config) -> Vec<&str> {
    config.plans.keys().map(String::as_str).collect()
}

fn report_lost(lost: Vec<PlanInUse>) -> Result<(), OpenError> {
    if lost.is_empty() {
        return Ok(());
    }
    let lines = lost.into_iter().map(|PlanInUse { plan, keys }| {
        let have = if keys == 1 { "key has" } else { "keys have" };
        format!("\n  {}: {keys} {have} it", plan.escape_debug())
    });
    Err(OpenError::PlansInUse(lines.collect()))
}

/// Concurrent look-ups of one address in the store; more wait.
const LOOKUPS_OF_AN_ADDRESS: usize = 8;
/// Look-ups of all addresses, running or waiting. More than one address may have connections by default.
const CALLERS: usize = 4096;
/// The least time of a look-up that finds nothing, for an address beyond its limit: it allows about 4,000 look-ups
/// per second.
const PAUSE: Duration = Duration::from_millis(2);

/// The keys of a ledger file, for the `key` filter.
///
/// A valid key is accepted even from an address that has sent many invalid ones: a key that is not in memory is
/// always looked up. The limits are on the concurrent look-ups of an address, and on the rate of those that find
/// nothing.
pub struct Directory {
    keys: tollgate_ledger::KeyDirectory,
    /// By address.
    lookups: KeyedSemaphore,
    attempts: Option<Arc<Attempts>>,
}

impl Directory {
    /// The keys of a store. `failed_per_minute`: the limit of invalid keys from one address.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn open(store: &Store, failed_per_minute: Option<NonZeroU32>) -> Result<Self, StoreError> {
        let attempts = failed_per_minute.map(|limit| Attempts::new(limit, store.clock().clone()));
        Ok(Self {
            keys: tollgate_ledger::KeyDirectory::open(store, DirectorySettings::default())?,
            lookups: KeyedSemaphore::new(LOOKUPS_OF_AN_ADDRESS, CALLERS),
            attempts: attempts.map(Arc::new),
        })
    }
}

impl KeyDirectory for Directory {
    fn lookup(&self, credential: &str, from: Option<IpAddr>) -> MaybeReady<KeyLookup> {
        let caller = || Caller {
            // Connections without an address count together.
            address: from.map_or_else(
                || KeyId::new(""),
                |it| KeyId::new(ClientNetwork::from(it).to_string()),
            ),
            attempts: self.attempts.clone(),
        };
        match self.keys.lookup(credential) {
            MaybeReady::Ready(found) => MaybeReady::ready(answer(found.into_inner(), caller)),
            pending @ MaybeReady::Pending(_) => {
                MaybeReady::pending(look_up(pending, caller(), self.lookups.clone()))
            }
        }
    }
}

/// The result of a look-up by the ledger.
type Found = Result<Arc<KeyRecord>, LookupFailure>;

/// The answer to a caller. Counts an invalid key.
fn answer(found: Found, caller: impl FnOnce() -> Caller) -> KeyLookup {
    match found {
        Ok(record) => KeyLookup::Known(record.identity.clone()),
        Err(LookupFailure::Refused(refusal)) => caller().refuse(refusal.as_str()),
        Err(LookupFailure::Unavailable(cause)) => {
            log::error!("a key cannot be looked up: {cause}");
            KeyLookup::Unavailable
        }
    }
}

/// Looks up a key that is not in memory, once its address is within its limit of concurrent look-ups.
async fn look_up(pending: MaybeReady<Found>, caller: Caller, lookups: KeyedSemaphore) -> KeyLookup {
    let Ok(_permit) = lookups.acquire(&caller.address).await else {
        return KeyLookup::Unavailable;
    };
    let answer = answer(pending.await, || caller);
    if matches!(answer, KeyLookup::TooManyAttempts(_)) {
        // With the permit, so that the next look-up of this address waits as long.
        tokio::time::sleep(PAUSE).await;
    }
    answer
}

/// The client that has sent a key.
struct Caller {
    address: KeyId,
    attempts: Option<Arc<Attempts>>,
}

impl Caller {
    /// Counts an invalid key.
    fn refuse(&self, reason: &'static str) -> KeyLookup {
        let attempts = self.attempts.as_ref();
        let over = attempts.and_then(|attempts| attempts.note(&self.address));
        over.map_or(KeyLookup::Refused(reason), KeyLookup::TooManyAttempts)
    }
}

/// Counts the invalid keys of each address.
struct Attempts {
    limiter: Limiter,
    limits: Limits,
}

impl Attempts {
    /// The most addresses that are remembered; of more, the least recent start again.
    const ADDRESSES: usize = 20_000;

    fn new(limit: NonZeroU32, clock: Clock) -> Self {
        Self {
            limiter: Limiter::new(Self::ADDRESSES, clock),
            limits: Limits {
                requests: Some(limit),
                ..Limits::default()
            },
        }
    }

    /// Counts an invalid key. Returns how long the client should wait if the limit is exceeded.
    fn note(&self, from: &KeyId) -> Option<Duration> {
        match self.limiter.admit(from, &self.limits, 0, 0) {
            Ok(admission) => {
                admission.finish(0, 0);
                None
            }
            Err(limited) => match limited.denied {
                Denied::Wait(wait) => Some(wait),
                Denied::NeverFits => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_ledger::Timestamp;

    #[test]
    fn an_address_may_be_wrong_so_often_and_then_has_to_wait() {
        let clock = Clock::manual(Timestamp::from_unix_ms(1_790_000_000_000));
        let limit = NonZeroU32::new(2).unwrap();
        let attempts = Attempts::new(limit, clock.clone());
        let (here, there) = (KeyId::new("192.0.2.1"), KeyId::new("192.0.2.2"));
        assert_eq!(attempts.note(&here), None);
        assert_eq!(attempts.note(&here), None);
        assert_eq!(attempts.note(&here), Some(Duration::from_secs(30)));
        assert_eq!(attempts.note(&there), None);
        clock.advance(Duration::from_secs(30));
        assert_eq!(attempts.note(&here), None);
    }
}
