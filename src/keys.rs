//! The key store as the gateway uses it: opened by the configuration, asked by filters.

use crate::config::Config;
use crate::server::RunError;
use tollgate_filter::{KeyDirectory, KeyLookup};
use tollgate_ledger::{Clock, DirectorySettings, KeyHasher, Lookup, LookupFailure, Store};

/// Opens the store that a configuration names.
///
/// # Errors
///
/// When the pepper or the file cannot be used.
pub fn open_store(config: &Config) -> Result<Store, RunError> {
    let hasher = KeyHasher::new(config.pepper.expose().as_bytes()).map_err(|_| RunError::Pepper)?;
    Ok(Store::open(&config.store.path, hasher, Clock::system())?)
}

/// Opens the store for look-ups by requests.
///
/// # Errors
///
/// As [`open_store`].
pub fn open_directory(config: &Config) -> Result<Directory, RunError> {
    let store = open_store(config)?;
    Ok(Directory(tollgate_ledger::KeyDirectory::open(
        &store,
        DirectorySettings::default(),
    )?))
}

/// The keys of a ledger file, for the `key` filter.
pub struct Directory(tollgate_ledger::KeyDirectory);

impl KeyDirectory for Directory {
    fn lookup(&self, credential: &str) -> KeyLookup {
        match self.0.lookup(credential) {
            Lookup::Known(record) => KeyLookup::Known(record.identity.clone()),
            Lookup::Refused(refusal) => KeyLookup::Refused(refusal.as_str()),
            Lookup::Miss(pending) => KeyLookup::Miss(Box::pin(async {
                match pending.wait().await {
                    Ok(record) => KeyLookup::Known(record.identity.clone()),
                    Err(LookupFailure::Refused(refusal)) => KeyLookup::Refused(refusal.as_str()),
                    Err(LookupFailure::Unavailable(cause)) => {
                        log::error!("a key cannot be looked up: {cause}");
                        KeyLookup::Unavailable
                    }
                }
            })),
        }
    }
}

/// A directory without keys, for configurations that are only checked.
pub struct NoKeys;

impl KeyDirectory for NoKeys {
    fn lookup(&self, _: &str) -> KeyLookup {
        KeyLookup::Unavailable
    }
}
