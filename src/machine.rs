//! What the machine gives this program, and what of it is used: files and memory, as Linux
//! tells them under `/proc` and `/sys`. Where they are not told, nothing is bounded by them.

use crate::events;
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

/// How many connections of callers the system's bound on open files allows: each request
/// may need one to a provider besides, and some files are needed whatever happens.
pub fn most_connections() -> u32 {
    const OWN_FILES: u64 = 128;
    let files = fs::read_to_string("/proc/self/limits")
        .ok()
        .and_then(|text| open_files(&text));
    let most = files.map_or(u64::MAX, |files| {
        files.saturating_sub(OWN_FILES).div_euclid(2).max(1)
    });
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// The soft bound in a table of bounds.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
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
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 1048576              files\n";
        assert_eq!(open_files(limits), Some(1024));
        let none = "Max open files            unlimited            unlimited            files\n";
        assert_eq!(open_files(none), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        assert!(look_up_resident().unwrap() > 1 << 20);
        assert!(usual_memory() > 1 << 20);
        assert!(most_connections() >= 1);
    }
}
