//! The errors of PostgreSQL, as errors of the store. They name the server and the database, never the
//! password.

use crate::store::StoreError;
use postgres::{Config, config::Host, error::SqlState};

/// Where a database is, without its password.
pub(super) fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{host}:{port}/{}", config.get_dbname().unwrap_or_default())
}

/// The words of the server, or of the connection.
pub(super) fn words(fault: &postgres::Error) -> String {
    match fault.as_db_error() {
        Some(fault) => fault.message().to_owned(),
        None => {
            let cause = std::error::Error::source(fault);
            cause.map_or_else(|| fault.to_string(), |cause| format!("{fault}: {cause}"))
        }
    }
}

pub(super) fn describe(fault: &postgres::Error, config: &Config) -> StoreError {
    let path = place(config).into();
    match fault.code() {
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::Other {
            path,
            cause: "the server is a read-only standby: connect to the primary".to_owned(),
        },
        _ => StoreError::Other {
            path,
            cause: words(fault),
        },
    }
}

pub(super) fn busy(config: &Config) -> StoreError {
    StoreError::Other {
        path: place(config).into(),
        cause: "all connections are in use; retry in a few seconds".to_owned(),
    }
}
