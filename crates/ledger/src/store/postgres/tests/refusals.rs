//! What is wrong with a server or a database is named in one line, without the password.

use super::{
    super::{Server, ServerTls, schema},
    Empty, Leasing, migrate,
    server::{primary, standby},
    settled, terms,
};
use crate::{
    key::{KeyHash, KeyHasher},
    store::{StoreError, conformance::Fixture, database::Retention},
};
use std::{sync::Arc, time::Duration};

const PASSWORD: &str = "correct-horse-battery";

fn pepper() -> KeyHash {
    KeyHasher::new(b"a pepper for tests").unwrap().fingerprint()
}

/// Why a database cannot be opened.
fn refusal(case: &Empty, url: &str, tls: &ServerTls) -> String {
    let server = Server::new(url, tls).map(Arc::new);
    let refused = server.and_then(|server| {
        let mut settings = case.settings();
        settings.server = server;
        super::Postgres::open(settings, &pepper())
    });
    message(&refused.err().unwrap())
}

fn message(fault: &StoreError) -> String {
    let (shown, debugged) = (fault.to_string(), format!("{fault:?}"));
    for text in [&shown, &debugged] {
        assert!(!text.contains(PASSWORD) && !text.contains('\n'), "{text}");
    }
    shown
}

/// A database with tables, and a role that may connect to it and nothing else.
fn with_role(name: &str) -> Option<Empty> {
    let case = Empty::on(primary()?);
    case.open(&pepper());
    case.sql(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'"));
    Some(case)
}

#[test]
fn a_url_that_cannot_be_read_is_refused_without_the_password() {
    for url in [
        PASSWORD,
        &format!("mysql://user:{PASSWORD}@host/db"),
        &format!("postgres://user:a@{PASSWORD}@host/db"),
        &format!("postgres://user:x/{PASSWORD}@host:port/db"),
        &format!("postgres://user:x@host/db?{PASSWORD}=1"),
        &format!("postgres://user:x@host/db?connect_timeout={PASSWORD}"),
        "postgres://",
        "",
    ] {
        let fault = message(&Server::new(url, &ServerTls::Off).unwrap_err());
        assert!(fault.contains("postgres://USER:PASSWORD@HOST"), "{fault}");
    }
    let url = format!("postgres://user:{PASSWORD}@a.example,b.example:5433/tolls");
    let server = Server::new(&url, &ServerTls::Off).unwrap();
    let shown = format!("{server:?}");
    assert!(
        shown.contains("a.example:5432,b.example:5433/tolls"),
        "{shown}"
    );
    assert!(!shown.contains(PASSWORD));
    let missing = ServerTls::Authorities("/nowhere/ca.pem".into());
    let fault = message(&Server::new(&url, &missing).unwrap_err());
    assert!(
        fault.contains("/nowhere/ca.pem cannot be opened"),
        "{fault}"
    );
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let Some(case) = with_role("no_listener") else {
        return;
    };
    let url = format!("postgres://user:{PASSWORD}@127.0.0.1:1/tolls");
    let fault = refusal(&case, &url, &ServerTls::Off);
    let wanted = "127.0.0.1:1/tolls: the server cannot be reached";
    assert!(fault.starts_with(wanted), "{fault}");
}

#[test]
fn wrong_credentials_and_names_are_told_apart() {
    let Some(case) = with_role("clerk") else {
        return;
    };
    let tls = case.server.tls();
    let url = |credentials: &str, database: &str| case.server.url(credentials, database);
    let right = format!("clerk:{PASSWORD}");
    for (url, wanted) in [
        (
            url("clerk:wrong", &case.name),
            "the server refuses the role 'clerk' or its password",
        ),
        (
            url(&format!("unknown:{PASSWORD}"), &case.name),
            "the server refuses the role 'unknown' or its password",
        ),
        (url(&right, "nowhere"), "the server has no such database"),
        (
            url(&right, &case.name),
            "the role 'clerk' lacks a permission",
        ),
    ] {
        let fault = refusal(&case, &url, &tls);
        assert!(fault.contains(wanted), "{fault}");
        assert!(fault.starts_with("127.0.0.1:"), "{fault}");
    }
    // Making tables takes more.
    let server = Server::new(&url(&right, &case.name), &tls).unwrap();
    let fault = message(&migrate(&Arc::new(server)).unwrap_err());
    assert!(fault.contains("lacks a permission"), "{fault}");
}

#[test]
fn a_role_needs_no_more_than_to_read_and_write_rows() {
    let Some(case) = with_role("worker") else {
        return;
    };
    case.sql(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO worker;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO worker",
    );
    let url = case.server.url(&format!("worker:{PASSWORD}"), &case.name);
    let mut settings = case.settings();
    settings.server = Arc::new(Server::new(&url, &case.server.tls()).unwrap());
    let database = super::Postgres::open(settings, &pepper()).unwrap();
    let is_encrypted = database.ask(|session| {
        let ssl = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        session.query_one(ssl, &[])?.try_get::<_, bool>(0)
    });
    assert!(is_encrypted.unwrap());
    let store = super::store_over(Arc::new(database));
    let mut leasing = Leasing::on(&store, terms(100));
    leasing.settle(&[&settled(&leasing.share, 1, 30)]);
    let found = store.verify().unwrap();
    assert_eq!((found.requests, found.faults.len()), (1, 0), "{found:?}");
    let month = Duration::from_secs(30 * 86_400);
    let retention = Retention {
        history: Some(month),
        stored: month,
        most_stored: 10,
    };
    // It may take longer than one purge waits.
    let later = leasing.now.plus(2 * month);
    let mut gone = (0..100).map(|_| leasing.process.maintain(&retention, later).unwrap());
    assert_eq!(gone.find(|gone| *gone > 0), Some(1));
    let found = store.verify().unwrap();
    assert_eq!((found.requests, found.faults.len()), (0, 0), "{found:?}");
}

#[test]
fn a_permission_that_is_missing_is_named_before_a_gateway_starts() {
    let Some(case) = with_role("half") else {
        return;
    };
    let all = [
        "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public",
        "USAGE ON ALL SEQUENCES IN SCHEMA public",
    ];
    let url = case.server.url(&format!("half:{PASSWORD}"), &case.name);
    for (missing, name) in [
        ("UPDATE ON leases", "leases"),
        ("DELETE ON usage", "usage"),
        ("INSERT ON memory_bytes", "memory_bytes"),
        ("USAGE ON SEQUENCE usage_numbers", "usage_numbers"),
    ] {
        for all in all {
            case.sql(&format!("GRANT {all} TO half"));
        }
        case.sql(&format!("REVOKE {missing} FROM half"));
        let fault = refusal(&case, &url, &case.server.tls());
        let wanted = format!("the role 'half' lacks a permission (permission denied for {name})");
        assert!(fault.contains(&wanted), "{fault}");
    }
}

#[test]
fn a_role_that_only_reads_can_neither_create_nor_drop_a_week_of_the_history() {
    let Some(case) = with_role("reader") else {
        return;
    };
    case.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    let url = case.server.url(&format!("reader:{PASSWORD}"), &case.name);
    let server = Server::new(&url, &case.server.tls()).unwrap();
    let mut client = server.connect().unwrap();
    for sql in [
        "SELECT make_history_part(1)",
        "SELECT drop_history_part(9999)",
    ] {
        let fault = client.batch_execute(sql).unwrap_err();
        let fault = fault.as_db_error().unwrap();
        assert_eq!(
            fault.message(),
            "permission denied for table usage",
            "{sql}"
        );
    }
    case.sql(
        "CREATE ROLE writer; ALTER ROLE reader NOINHERIT; GRANT writer TO reader;
         GRANT DELETE ON usage TO writer",
    );
    client
        .batch_execute("SET ROLE writer; SELECT make_history_part(1)")
        .unwrap();
}

#[test]
fn tls_that_does_not_fit_the_server_is_told_with_what_would() {
    let Some((case, standby)) = with_role("tls_only").zip(standby()) else {
        return;
    };
    let credentials = format!("tls_only:{PASSWORD}");
    let url = case.server.url(&credentials, &case.name);
    let fault = refusal(&case, &url, &ServerTls::System);
    assert!(fault.contains("store.postgres.ca"), "{fault}");
    let fault = refusal(&case, &url, &ServerTls::Off);
    assert!(fault.contains("no encryption"), "{fault}");
    let fault = refusal(
        &case,
        &standby.url(&credentials, "postgres"),
        &ServerTls::System,
    );
    assert!(fault.contains("store.postgres.tls: false"), "{fault}");
}

#[test]
fn a_standby_is_refused_unless_the_primary_is_named_as_well() {
    let Some((primary, standby)) = primary().zip(standby()) else {
        return;
    };
    let case = Empty::on(primary);
    let place = |home: &std::path::Path| home.to_str().unwrap().replace('/', "%2F");
    let (first, second) = (place(&standby.home), place(&primary.home));
    let url = format!("postgres://postgres@{first}:{}/postgres", standby.port);
    let fault = refusal(&case, &url, &ServerTls::System);
    assert!(fault.contains("standby or read-only"), "{fault}");
    let url = format!(
        "postgres://postgres@{first}:{},{second}:{}/{}",
        standby.port, primary.port, case.name
    );
    let server = Arc::new(Server::new(&url, &ServerTls::System).unwrap());
    assert_eq!(migrate(&server).unwrap(), 1);
}

#[test]
fn a_database_of_another_version_or_pepper_is_refused() {
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let why = |case: &Empty| message(&case.database(&pepper()).err().unwrap());
    let fault = why(&case);
    assert!(fault.contains("has format 0"), "{fault}");
    assert!(fault.contains("run tollgate ledger migrate"), "{fault}");
    let settings = case.settings();
    assert_eq!(migrate(&settings.server).unwrap(), 1);
    assert_eq!(migrate(&settings.server).unwrap(), 0);
    case.database(&pepper()).unwrap();
    let other = KeyHasher::new(b"another pepper for tests").unwrap();
    let refused = case.database(&other.fingerprint()).err().unwrap();
    assert!(matches!(refused, StoreError::WrongPepper), "{refused}");
    // A later version that only adds something is usable, one that changes something is not.
    case.sql("INSERT INTO schema_version (version, usable_from) VALUES (2, 1)");
    case.database(&pepper()).unwrap();
    assert_eq!(migrate(&settings.server).unwrap(), 0);
    case.sql("INSERT INTO schema_version (version, usable_from) VALUES (3, 3)");
    let fault = why(&case);
    let wanted = format!(
        "has format 3, this program knows up to {}",
        schema::supported()
    );
    assert!(fault.contains(&wanted), "{fault}");
    let fault = message(&migrate(&settings.server).unwrap_err());
    assert!(fault.contains(&wanted), "{fault}");
}
