//! The cases of the conformance suite on a PostgreSQL that this test starts.

use super::Postgres;
use crate::{
    key::KeyHash,
    store::{conformance::Fixture, database::Database},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};
use tempfile::TempDir;

static SERVER: LazyLock<PathBuf> = LazyLock::new(|| {
    let home = tempfile::Builder::new()
        .prefix("pg")
        .tempdir()
        .unwrap()
        .keep();
    let run = |command: &str| {
        let home = home.display();
        let script = format!(
            "chown postgres {home}; cd {home}; setpriv --reuid=postgres --regid=postgres --clear-groups /usr/lib/postgresql/15/bin/{command}"
        );
        let done = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let place = home.display();
    run(&format!(
        "initdb -D {place}/data -A trust -E UTF8 --no-sync"
    ));
    run(&format!(
        "pg_ctl -D {place}/data -w -l {place}/log -o '-k {place} -h \"\" -c fsync=off -c max_connections=500' start"
    ));
    home
});
static NUMBER: AtomicU32 = AtomicU32::new(0);

struct Empty {
    folder: TempDir,
    config: ::postgres::Config,
}

fn config(server: &Path, name: &str) -> ::postgres::Config {
    let mut config = ::postgres::Config::new();
    config.host_path(server).user("postgres").dbname(name);
    config
}

impl Empty {
    fn new() -> Self {
        let name = format!("case{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut client = config(&SERVER, "postgres")
            .connect(::postgres::NoTls)
            .unwrap();
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .unwrap();
        Self {
            folder: TempDir::new().unwrap(),
            config: config(&SERVER, &name),
        }
    }
}

impl Fixture for Empty {
    fn open(&self, pepper: &KeyHash) -> Arc<dyn Database> {
        let path = self.folder.path().join("ledger");
        Arc::new(Postgres::open(path, self.config.clone(), pepper).unwrap())
    }
}

mod conformance {
    use super::Empty;

    crate::store::conformance::conformance_tests!(Empty::new());
}
