//! A primary and its synchronous standby, which change roles.

use super::network::{Network, Side};
use crate::support::{eventually, skip_without};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const PASSWORD: &str = "of-the-cluster";
/// Of the two machines, by name and address.
const MACHINES: [(&str, u8); 2] = [("db1", 101), ("db2", 102)];
const RULES: &str = "local all all trust
host replication postgres 10.78.0.0/24 trust
host all all 10.78.0.0/24 scram-sha-256
";

pub struct Database {
    folder: TempDir,
    programs: PathBuf,
    user: (u32, u32),
    primary: usize,
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

impl Database {
    /// Starts both machines. `None`: PostgreSQL is not installed, and a line says so.
    pub async fn start(network: &mut Network) -> Option<Self> {
        let folders = fs::read_dir("/usr/lib/postgresql").ok();
        let folders = folders.into_iter().flatten().flatten();
        let programs = folders.map(|it| it.path().join("bin")).max();
        let programs = programs.filter(|it| it.join("postgres").is_file());
        let Some(programs) = programs else {
            skip_without("PostgreSQL");
            return None;
        };
        for (name, host) in MACHINES {
            network.add(name, host, &[Side::Back]);
        }
        let id = |flag: &str| {
            let output = run(Command::new("id").args([flag, "postgres"]));
            let text = String::from_utf8(output.stdout).unwrap();
            text.trim().parse().unwrap()
        };
        let database = Self {
            folder: TempDir::new().unwrap(),
            programs,
            user: (id("-u"), id("-g")),
            primary: 0,
        };
        fs::set_permissions(database.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for place in [0, 1] {
            let home = database.home(place);
            fs::create_dir(&home).unwrap();
            chown(&home, Some(database.user.0), Some(database.user.1)).unwrap();
        }
        database.initialise();
        database.launch(network, 0).await;
        database.sql(&format!("CREATE ROLE tollgate LOGIN PASSWORD '{PASSWORD}'"));
        database.sql("CREATE DATABASE tollgate OWNER tollgate");
        database.follow(network).await;
        Some(database)
    }

    /// The URL of both machines: the one that takes writes is used.
    pub fn url() -> String {
        let hosts = MACHINES.map(|(_, host)| format!("{}:5432", Side::Back.address(host)));
        format!(
            "postgres://tollgate:{PASSWORD}@{}/tollgate",
            hosts.join(",")
        )
    }

    pub fn primary(&self) -> &'static str {
        MACHINES[self.primary].0
    }

    fn home(&self, place: usize) -> PathBuf {
        self.folder.path().join(MACHINES[place].0)
    }

    fn data(&self, place: usize) -> PathBuf {
        self.home(place).join("data")
    }

    /// A program of PostgreSQL, on its machine and as its user.
    fn program(&self, network: &Network, place: usize, name: &str) -> Command {
        let mut command = network.command(MACHINES[place].0, "setpriv");
        let (user, group) = self.user;
        command.arg(format!("--reuid={user}"));
        command.arg(format!("--regid={group}"));
        command.args(["--clear-groups", "--"]);
        command.arg(self.programs.join(name));
        command.current_dir(self.home(place));
        command
    }

    fn initialise(&self) {
        let (user, group) = self.user;
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}"));
        command.arg(format!("--regid={group}"));
        command.args(["--clear-groups", "--"]);
        command.arg(self.programs.join("initdb"));
        command.current_dir(self.home(0));
        command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8"]);
        command.args(["--locale=C.UTF-8", "--no-sync", "-D"]);
        run(command.arg(self.data(0)));
        fs::write(self.data(0).join("pg_hba.conf"), RULES).unwrap();
    }

    /// Starts the server of a machine and waits until it answers.
    async fn launch(&self, network: &Network, place: usize) {
        let address = Side::Back.address(MACHINES[place].1);
        let home = self.home(place);
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(home.join("log"));
        let log = log.unwrap();
        let socket = home.display();
        let mut command = self.program(network, place, "postgres");
        command.arg("-D").arg(self.data(place));
        for setting in [
            format!("listen_addresses={address}"),
            format!("unix_socket_directories={socket}"),
            // No test takes the power from this machine: pages of the kernel survive.
            "fsync=off".to_owned(),
            "max_connections=150".to_owned(),
            "shared_buffers=32MB".to_owned(),
            "wal_sender_timeout=3s".to_owned(),
            "wal_receiver_timeout=3s".to_owned(),
            "wal_retrieve_retry_interval=200ms".to_owned(),
        ] {
            command.args(["-c", &setting]);
        }
        let (out, err) = (Stdio::from(log.try_clone().unwrap()), Stdio::from(log));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let mut child = command.spawn().unwrap();
        eventually("the database", async || {
            if let Some(status) = child.try_wait().unwrap() {
                let log = fs::read_to_string(home.join("log")).unwrap();
                panic!("the database ended with {status}:\n{log}");
            }
            psql(&home, "postgres", "SELECT 1").is_ok().then_some(())
        })
        .await;
        // Ended by its namespace; this only collects it.
        std::thread::spawn(move || child.wait());
    }

    /// Executes statements on the primary.
    pub fn sql(&self, statements: &str) -> String {
        psql(&self.home(self.primary), "postgres", statements).unwrap()
    }

    /// Notes from now on what processes have leased when they end, by the keys: all others have returned it.
    pub fn note_unreturned(&self) {
        self.ledger_sql(
            "CREATE TABLE unreturned (key text, tokens bigint);
             CREATE FUNCTION note_unreturned() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
             BEGIN
                 INSERT INTO public.unreturned SELECT keys.id, OLD.tokens
                 FROM public.grants JOIN public.keys ON keys.number = key
                 WHERE grants.number = OLD.grant_number;
                 RETURN NULL;
             END $$;
             CREATE TRIGGER note_unreturned AFTER DELETE ON leases FOR EACH ROW WHEN (OLD.tokens > 0)
             EXECUTE FUNCTION note_unreturned()",
        );
    }

    /// What was noted of a key since the last call.
    pub fn take_unreturned(&self, key: &str) -> u64 {
        let taken = self.ledger_sql(&format!(
            "WITH taken AS (DELETE FROM unreturned WHERE key = '{key}' RETURNING tokens)
             SELECT coalesce(sum(tokens), 0) FROM taken"
        ));
        taken.parse().unwrap()
    }

    fn ledger_sql(&self, statements: &str) -> String {
        psql(&self.home(self.primary), "tollgate", statements).unwrap()
    }

    /// Makes the other machine a standby anew, and waits until it is synchronous.
    pub async fn follow(&self, network: &Network) {
        let place = 1 - self.primary;
        let data = self.data(place);
        let _ = fs::remove_dir_all(&data);
        let address = Side::Back.address(MACHINES[self.primary].1);
        let mut copy = self.program(network, place, "pg_basebackup");
        copy.args(["-h", &address, "-U", "postgres", "-R", "-X", "stream"]);
        run(copy.args(["-c", "fast", "-N", "-D"]).arg(&data));
        self.launch(network, place).await;
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.sql("SELECT pg_reload_conf()");
        eventually("a synchronous standby", async || {
            let found = self.sql(
                "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'",
            );
            (found == "1").then_some(())
        })
        .await;
    }

    pub fn kill(&self, network: &Network) {
        network.kill_all(self.primary());
    }

    pub async fn restart(&self, network: &Network) {
        self.launch(network, self.primary).await;
    }

    /// Makes the standby the primary. The other machine must be gone.
    pub fn promote(&mut self, network: &Network) {
        let place = 1 - self.primary;
        let mut command = self.program(network, place, "pg_ctl");
        run(command
            .arg("promote")
            .arg("-w")
            .arg("-D")
            .arg(self.data(place)));
        self.primary = place;
        // There is no standby to wait for.
        self.sql("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.sql("SELECT pg_reload_conf()");
    }
}

fn psql(home: &Path, database: &str, statements: &str) -> Result<String, String> {
    let mut command = Command::new("psql");
    command.arg("-h").arg(home).args(["-U", "postgres"]);
    command.args(["-d", database]);
    let output = command.args(["-v", "ON_ERROR_STOP=1", "-qAtc", statements]);
    let output = output.output().expect("psql");
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
