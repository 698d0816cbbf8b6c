//! PostgreSQL servers that the tests start, one of each kind for all tests of the process.

use super::super::{Server, ServerTls};
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A running server. It stops when the process ends, because its input ends then.
pub(super) struct TestServer {
    /// The folder of its socket and its certificate.
    pub(super) home: PathBuf,
    pub(super) port: u16,
    _input: ChildStdin,
}

static PRIMARY: LazyLock<Option<TestServer>> = LazyLock::new(|| TestServer::start(&[]));
static STANDBY: LazyLock<Option<TestServer>> = LazyLock::new(|| {
    let home = primary()?.home.to_str().unwrap();
    TestServer::start(&["--standby-of", home])
});

/// The server of all tests; `None` where PostgreSQL is not installed.
pub(super) fn primary() -> Option<&'static TestServer> {
    PRIMARY.as_ref()
}

/// A read-only standby of it, without TLS.
pub(super) fn standby() -> Option<&'static TestServer> {
    STANDBY.as_ref()
}

impl TestServer {
    fn start(arguments: &[&str]) -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres-for-tests");
        let mut child = Command::new(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let Some((home, port)) = line.trim().split_once(' ') else {
            let ended = child.wait().unwrap();
            assert_eq!(
                ended.code(),
                Some(3),
                "the server of the tests did not start"
            );
            assert!(
                std::env::var_os("CI").is_none(),
                "PostgreSQL is not installed: scripts/setup tests"
            );
            println!("skipped: PostgreSQL is not installed (scripts/setup tests)");
            return None;
        };
        Some(Self {
            home: home.into(),
            port: port.parse().unwrap(),
            _input: child.stdin.take().unwrap(),
        })
    }

    /// A database on its socket, as its owner.
    pub(super) fn local(&self, database: &str) -> Arc<Server> {
        self.local_as("postgres", database)
    }

    /// The same, as another role.
    pub(super) fn local_as(&self, role: &str, database: &str) -> Arc<Server> {
        let home = self.home.to_str().unwrap().replace('/', "%2F");
        let url = format!("postgres://{role}@{home}:{}/{database}", self.port);
        Arc::new(Server::new(&url, &ServerTls::System).unwrap())
    }

    /// The URL of a database over TCP.
    pub(super) fn url(&self, credentials: &str, database: &str) -> String {
        format!(
            "postgres://{credentials}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// TLS with the certificate of the server.
    pub(super) fn tls(&self) -> ServerTls {
        ServerTls::Authorities(self.home.join("server.crt"))
    }

    pub(super) fn create_database(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("case_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Executes statements as the owner of everything.
    pub(super) fn sql(&self, database: &str, sql: &str) {
        let mut client = self.local(database).connect().unwrap();
        client.batch_execute(sql).unwrap();
    }
}
