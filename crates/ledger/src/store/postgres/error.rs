//! The errors of PostgreSQL, as errors of the store. They name the server and the database, never the
//! password.

use super::{connection, server::Server};
use crate::store::StoreError;
use postgres::{Error, error::SqlState};
use std::{error::Error as _, io};

/// The words of the server, or of the connection.
pub(super) fn words(fault: &Error) -> String {
    match (fault.as_db_error(), fault.source()) {
        (Some(fault), _) => fault.message().to_owned(),
        (None, Some(cause)) => format!("{fault}: {cause}"),
        (None, None) => fault.to_string(),
    }
}

/// Whether the network or the operating system is at fault.
pub(super) fn is_of_the_network(fault: &Error) -> bool {
    system_error(fault).is_some()
}

fn system_error(fault: &Error) -> Option<&io::Error> {
    fault.source()?.downcast_ref()
}

/// What is wrong, and what would be right. A cause that needs no words of its own is the server's.
pub(super) fn describe(fault: &Error, server: &Server) -> StoreError {
    let path = server.place().to_owned();
    let message = words(fault);
    let cause = match fault.code().map(SqlState::code) {
        // Invalid password, and invalid authorization.
        Some("28P01" | "28000") => format!(
            "the server refuses the role '{}' or its password ({message}): correct store.postgres.url",
            server.user()
        ),
        Some("3D000") => {
            format!("the server has no such database ({message}): create it, or correct the URL")
        }
        Some("42501") => return lacks_permission(server, &message),
        Some("25006") => STANDBY.to_owned(),
        Some("53300") => format!(
            "the server has no connection left ({message}): raise its max_connections, or lower \
             store.postgres.connections"
        ),
        Some("55P03") => {
            return StoreError::Locked {
                path,
                waited: connection::LOCK_TIMEOUT,
            };
        }
        Some("57014") => format!(
            "a statement took longer than {} s",
            connection::STATEMENT_TIMEOUT.as_secs()
        ),
        Some("XX001" | "XX002") => {
            return StoreError::Damaged {
                path,
                cause: message,
            };
        }
        Some("53100") => return StoreError::DiskFull { path },
        Some(_) => message,
        None => match system_error(fault).map(io::Error::kind) {
            // As the client reports a session that is not read-write.
            Some(io::ErrorKind::PermissionDenied) if message.contains("does not allow writes") => {
                STANDBY.to_owned()
            }
            Some(io::ErrorKind::InvalidData) if message.contains("certificate") => format!(
                "the certificate of the server is not trusted ({message}): name its authority with \
                 store.postgres.ca"
            ),
            _ if message.contains("server does not support TLS") => {
                "the server does not support TLS: set 'ssl = on' there, or, on a network that is \
                 trusted, store.postgres.tls: false here"
                    .to_owned()
            }
            _ => format!("the server cannot be reached ({message})"),
        },
    };
    StoreError::Other { path, cause }
}

pub(super) fn lacks_permission(server: &Server, message: &str) -> StoreError {
    StoreError::Other {
        path: server.place().to_owned(),
        cause: format!(
            "the role '{}' lacks a permission ({message}): GRANT it, or use the role that owns the \
             tables",
            server.user()
        ),
    }
}

const STANDBY: &str =
    "the server is a standby or read-only: name the primary, or all servers separated by commas";

pub(super) fn busy(server: &Server) -> StoreError {
    StoreError::Other {
        path: server.place().to_owned(),
        cause: "all connections are in use: retry in a few seconds, or raise \
                store.postgres.connections"
            .to_owned(),
    }
}
