//! PostgreSQL servers for tests.

use super::skip_without;
use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A running server. It stops when this is dropped.
pub struct Postgres {
    home: String,
    port: String,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    child: Child,
}

impl Postgres {
    /// The password of the database's owner.
    pub const PASSWORD: &str = "a password for tests";

    /// Starts a server with an empty database `tollgate`. `None` if PostgreSQL is not installed, which
    /// continuous integration does not accept.
    pub fn start() -> Option<Self> {
        let server = Self::run(&[])?;
        server.sql(&format!(
            "CREATE ROLE tollgate LOGIN PASSWORD '{}'",
            Self::PASSWORD
        ));
        server.sql("CREATE DATABASE tollgate OWNER tollgate");
        Some(server)
    }

    /// Starts a read-only standby of this server, without TLS, to which nothing is replicated synchronously.
    pub fn standby(&self) -> Self {
        Self::run(&["--standby-of", &self.home]).expect("PostgreSQL")
    }

    fn run(arguments: &[&str]) -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/postgres-for-tests");
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
            assert_eq!(ended.code(), Some(3), "the server does not start");
            skip_without("PostgreSQL");
            return None;
        };
        Some(Self {
            home: home.to_owned(),
            port: port.to_owned(),
            input: child.stdin.take(),
            output,
            child,
        })
    }

    /// The URL of the database over TCP, with another password or name if given.
    pub fn url(&self, password: &str, database: &str) -> String {
        let password = password.replace(' ', "%20");
        let port = &self.port;
        format!("postgres://tollgate:{password}@127.0.0.1:{port}/{database}")
    }

    /// The URL over a connection without TLS that leads to the database.
    pub fn url_through(&self, address: SocketAddr) -> String {
        let password = Self::PASSWORD.replace(' ', "%20");
        format!("postgres://tollgate:{password}@{address}/tollgate")
    }

    pub fn address(&self) -> SocketAddr {
        format!("127.0.0.1:{}", self.port).parse().unwrap()
    }

    /// Stops the server, and closes its connections.
    pub fn stop(&mut self) {
        self.order("stop");
    }

    /// Starts it again.
    pub fn start_again(&mut self) {
        self.order("start");
    }

    fn order(&mut self, order: &str) {
        writeln!(self.input.as_mut().unwrap(), "{order}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "done", "{order}");
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(format!("{}/log", self.home)).unwrap()
    }

    /// The authority of its certificate.
    pub fn ca(&self) -> String {
        format!("{}/server.crt", self.home)
    }

    /// Executes statements as the owner of everything, and returns what they print.
    pub fn sql(&self, statements: &str) -> String {
        self.sql_in("postgres", statements)
    }

    /// The same in the database of this name.
    pub fn sql_in(&self, database: &str, statements: &str) -> String {
        let output = Command::new("psql")
            .args(["-h", &self.home, "-p", &self.port, "-U", "postgres"])
            .args(["-d", database])
            .args(["-v", "ON_ERROR_STOP=1", "-qAtc", statements])
            .output()
            .expect("psql");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Opens the database to all clients, or closes it and their connections.
    pub fn admit(&self, is_open: bool) {
        self.sql(&format!(
            "ALTER DATABASE tollgate ALLOW_CONNECTIONS {is_open}"
        ));
        if !is_open {
            self.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'tollgate'",
            );
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The script ends with its input.
        self.input = None;
        let _ = self.child.wait();
    }
}
