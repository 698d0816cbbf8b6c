//! System calls per request, counted with strace.
//!
//! strace slows the proxy several times over, so its run is apart from all measurements; the
//! number of calls per request hardly depends on speed.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::client::{Load, Target};
use crate::failure::{Failure, Result};
use crate::workload::SMALL;

/// How long strace looks on, in seconds, as an argument of timeout(1).
const WATCH_SECONDS: &str = "2";
/// Bound on strace as a whole.
const LIMIT: Duration = Duration::from_secs(10);

/// Calls per answered request, by name.
#[derive(Debug, Serialize)]
pub(crate) struct SyscallCounts {
    /// All calls per request.
    pub(crate) total: f64,
    /// Each call per request.
    pub(crate) by_name: BTreeMap<String, f64>,
}

/// Watches `pid` under the 1 KB load.
pub(crate) async fn count(pid: u32, target: &Target) -> Result<SyscallCounts> {
    let folder =
        tempfile::tempdir().map_err(|source| Failure::io("create a temporary folder", source))?;
    let output = folder.path().join("strace");
    let load = Load::start(target, &SMALL, SMALL.connections);
    sleep(Duration::from_millis(200)).await;
    let before = load.totals();
    let mut strace = Command::new("timeout")
        .args([
            "-s",
            "INT",
            WATCH_SECONDS,
            "strace",
            "-c",
            "-f",
            "-q",
            "-p",
            &pid.to_string(),
        ])
        .arg("-o")
        .arg(&output)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| Failure::io("start strace", source))?;
    timeout(LIMIT, strace.wait())
        .await
        .map_err(|_| Failure::TooSlow {
            what: "strace".to_owned(),
            limit: LIMIT,
        })?
        .map_err(|source| Failure::io("wait for strace", source))?;
    let answers = load.totals().since(&before).answers;
    load.finish().await?;
    let table = std::fs::read_to_string(&output)
        .map_err(|source| Failure::io("read strace's table", source))?;
    let by_name = parse_table(&table);
    if by_name.is_empty() || answers == 0 {
        return Err(Failure::Usage(
            "strace counted nothing; is it installed?".to_owned(),
        ));
    }
    let by_name: BTreeMap<String, f64> = by_name
        .into_iter()
        .map(|(name, calls)| (name, calls as f64 / answers as f64))
        .collect();
    Ok(SyscallCounts {
        total: by_name.values().sum(),
        by_name,
    })
}

/// Name and number of calls from each row of `strace -c`: percent, seconds, µs a call, calls,
/// errors where there were any, name.
fn parse_table(table: &str) -> BTreeMap<String, u64> {
    table
        .lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_ascii_whitespace().collect();
            let name = columns.last().filter(|name| **name != "total")?;
            Some(((*name).to_owned(), columns.get(3)?.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_and_without_an_errors_column() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.90    0.000520           5       104           sendto
 38.10    0.000320           3       200        96 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.000840           2       304        96 total
";
        let counts = parse_table(table);
        assert_eq!(
            counts.into_iter().collect::<Vec<_>>(),
            [("recvfrom".to_owned(), 200), ("sendto".to_owned(), 104)]
        );
    }

    #[test]
    fn an_empty_table_has_no_calls() {
        assert!(parse_table("").is_empty());
    }
}
