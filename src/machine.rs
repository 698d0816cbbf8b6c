//! What the machine gives this program, and what of it is used: files and memory, as Linux
//! tells them under `/proc` and `/sys`. Where they are not told, nothing is bounded by them.

use crate::events;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of memory that the program has, as of a moment ago; 0 where nobody knows.
static RESIDENT: AtomicU64 = AtomicU64::new(0);

/// How often that is looked up. A body of 32 MiB takes a tenth of a second over the fastest
/// links there are.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes of memory that the program has, as of a moment ago; 0 where nobody knows.
pub fn resident() -> u64 {
    RESIDENT.load(Ordering::Relaxed)
}

/// Keeps [`resident`] and its metric up to date, for as long as it is polled.
pub async fn watch_memory() {
    loop {
        let bytes = look_up_resident().unwrap_or(0);
        RESIDENT.store(bytes, Ordering::Relaxed);
        events::resident_memory(bytes);
        tokio::time::sleep(LOOK).await;
    }
}

fn look_up_resident() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The memory that the program may use where its configuration says nothing: three quarters
/// of the container's, else of the machine's; without a bound where nobody knows.
pub fn usual_memory() -> u64 {
    let container = || {
        let text = fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
        text.trim().parse::<u64>().ok()
    };
    let machine = || kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:");
    let all = container().into_iter().chain(machine()).min();
    all.map_or(u64::MAX, |all| all.div_euclid(4).saturating_mul(3))
}

/// Files that the program needs whatever happens: the ledger, operators, what it listens to.
const OWN_FILES: u64 = 128;

/// How many files the program may have open; `u64::MAX` without a bound.
fn most_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the bound on open files to the highest that the system grants the program without
/// asking anybody. Tells from what to what; `None` where it stands there already.
pub fn raise_open_files() -> Option<(u64, u64)> {
    let found = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: found.maximum,
        maximum: found.maximum,
    };
    let before = found.current?;
    let is_higher = found.maximum.is_none_or(|maximum| before < maximum);
    // Where it is refused nothing has changed, and what there is is reckoned with.
    (is_higher && setrlimit(Resource::Nofile, most).is_ok()).then(|| (before, most_files()))
}

/// How many files the connections of callers and those to providers for their requests may
/// take together.
pub fn files_for_callers() -> u64 {
    callers_share(most_files())
}

/// How many connections of callers that allows: a request on each may take two files more,
/// one for the connection to its provider and one for the watch over that.
pub fn most_connections() -> u32 {
    u32::try_from(files_for_callers().div_euclid(3).max(1)).unwrap_or(u32::MAX)
}

/// How many connections to providers may be kept unused.
pub fn most_kept() -> usize {
    usize::try_from(kept_share(most_files()).max(1)).unwrap_or(usize::MAX)
}

/// What is left of so many files for callers.
fn callers_share(files: u64) -> u64 {
    match files {
        u64::MAX => u64::MAX,
        files => files
            .saturating_sub(OWN_FILES)
            .saturating_sub(kept_share(files)),
    }
}

const fn kept_share(files: u64) -> u64 {
    files.div_euclid(8)
}

/// The value of a line in kibibytes, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_system_are_read() {
        let status = "Name:\ttollgate\nVmHWM:\t   9 kB\nVmRSS:\t    1024 kB\nThreads:\t4\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
    }

    #[test]
    fn some_files_are_left_for_what_is_no_callers() {
        assert_eq!(callers_share(1024), 1024 - 128 - 128);
        assert_eq!(callers_share(64), 0);
        assert_eq!(callers_share(u64::MAX), u64::MAX);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        assert!(look_up_resident().unwrap() > 1 << 20);
        assert!(usual_memory() > 1 << 20);
        assert!(most_connections() >= 1);
        assert!(most_kept() >= 1);
    }
}
