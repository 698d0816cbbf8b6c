//! The files and memory of this process, and their limits, as Linux reports them under `/proc` and `/sys`. Without
//! a report there is no limit.

use crate::allocator;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tollgate_telemetry::events;

/// Resident bytes of the process at the last check, at most 100 ms ago; 0 if unknown.
static RESIDENT: AtomicU64 = AtomicU64::new(0);

/// Bytes that requests had at that check.
static HELD: AtomicU64 = AtomicU64::new(0);

/// A request found no memory: before the next check, the allocator returns freed memory to the system.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// The interval of the checks. A body of 32 MiB takes 100 ms over the fastest links.
const LOOK: Duration = Duration::from_millis(100);

/// Resident bytes of the process at the last check, at most 100 ms ago; 0 if unknown.
pub fn resident() -> u64 {
    RESIDENT.load(Ordering::Relaxed)
}

/// Whether the process has at most `most` bytes of memory if requests have `held` bytes now.
pub fn has_room(held: u64, most: u64) -> bool {
    // Memory that they took since the last check may not be included.
    let grown = held.saturating_sub(HELD.load(Ordering::Relaxed));
    let has_room = resident().saturating_add(grown) <= most;
    if !has_room {
        schedule_give_back();
    }
    has_room
}

/// Requests that freed memory is returned to the system before the next check.
pub fn schedule_give_back() {
    IS_SHORT.store(true, Ordering::Relaxed);
}

/// Notes the result of a check, and the bytes that requests had then.
pub fn note_resident(bytes: u64, held: u64) {
    HELD.store(held, Ordering::Relaxed);
    RESIDENT.store(bytes, Ordering::Relaxed);
}

/// Keeps [`resident`] and its metric up to date, for as long as it is polled.
pub async fn watch_memory() {
    let mut crowd = Crowd::default();
    loop {
        let has_left = crowd.has_left(events::InFlight::count());
        if IS_SHORT.swap(false, Ordering::Relaxed) || has_left {
            allocator::give_back();
        }
        // Before the check, so that memory in between is counted twice rather than not at all.
        let held = events::held();
        // Without a free descriptor, the last value stays.
        let bytes = look_up_resident().unwrap_or_else(resident);
        note_resident(bytes, held);
        events::resident_memory(bytes);
        tokio::time::sleep(LOOK).await;
    }
}

/// Notices that many requests have ended. By default the allocator keeps their memory for ten seconds, and longer
/// in an arena whose threads allocate nothing meanwhile.
#[derive(Default)]
struct Crowd {
    /// The most concurrent requests since the last return.
    most: u64,
    /// Checks until memory that is freed late is returned, too.
    looks: u8,
}

impl Crowd {
    /// Whether to return freed memory at this check: when more than half of the requests have ended, and a second
    /// later.
    fn has_left(&mut self, under_way: u64) -> bool {
        /// Fewer requests have little memory.
        const MANY: u64 = 16;
        const SECOND: u8 = 10;
        self.most = self.most.max(under_way);
        let is_last_look = self.looks == 1;
        self.looks = self.looks.saturating_sub(1);
        if self.most < MANY || under_way > self.most / 2 {
            return is_last_look;
        }
        self.most = under_way;
        self.looks = SECOND;
        true
    }
}

fn look_up_resident() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The default memory limit: three quarters of the container's memory, else of the machine's; none if that is
/// unknown.
pub fn usual_memory() -> u64 {
    let machine = || kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:");
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let containers = memory_files(&groups).into_iter();
    let containers =
        containers.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    let all = containers.chain(machine()).min();
    all.map_or(u64::MAX, |all: u64| all.div_euclid(4).saturating_mul(3))
}

/// The files with the memory limits of the process's control group and its parents (cgroups(7)). `groups`: the
/// text of `/proc/self/cgroup`. In a container, the path is often that of the host, and the container's own group
/// is at the root.
fn memory_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, names): (_, &[&str]) = match controllers {
            "" => ("/sys/fs/cgroup", &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"])
            }
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = Path::new(root).join(group);
            files.extend(names.iter().map(|name| folder.join(name)));
        }
    }
    files
}

/// Hides the process's data from other users: only its own user can read its files, SQLite's included, and it
/// leaves no core dump, which would contain keys and prompts.
pub fn keep_private() {
    umask(Mode::RWXG | Mode::RWXO);
    // A core dump is larger than one byte. A limit of 0 has no effect if the kernel pipes dumps to a
    // program: it then checks for exactly 1 (`coredump_pipe` in Linux' `fs/coredump.c`).
    let no_dump = Rlimit {
        current: Some(1),
        maximum: Some(1),
    };
    // Refused only if the hard limit is 0, which leaves no dump unless dumps are piped.
    let _ = setrlimit(Resource::Core, no_dump);
}

/// Files that the process always needs: the ledger, operators, listeners.
const OWN_FILES: u64 = 128;

/// The limit of open files; `u64::MAX` without one.
fn most_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit on open files to the hard limit. Returns the limits before and after, or `None`
/// if they were equal.
pub fn raise_open_files() -> Option<(u64, u64)> {
    let found = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: found.maximum,
        maximum: found.maximum,
    };
    let before = found.current?;
    let is_higher = found.maximum.is_none_or(|maximum| before < maximum);
    // If it is refused, the present limit applies.
    (is_higher && setrlimit(Resource::Nofile, most).is_ok()).then(|| (before, most_files()))
}

/// The files for the connections of clients and those to providers together.
pub fn files_for_callers() -> u64 {
    callers_share(most_files())
}

/// The client connections that these files allow: a request on each can take two more, for the connection to its
/// provider and for the watch over it.
pub fn most_connections() -> u32 {
    u32::try_from(files_for_callers().div_euclid(3).max(1)).unwrap_or(u32::MAX)
}

/// The most unused connections to providers.
pub fn most_kept() -> usize {
    usize::try_from(kept_share(most_files()).max(1)).unwrap_or(usize::MAX)
}

/// The part of `files` for clients.
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
    fn the_groups_of_either_version_are_looked_through_up_to_their_root() {
        let reported = |groups: &str| -> Vec<String> {
            let files = memory_files(groups);
            files.iter().map(|it| it.display().to_string()).collect()
        };
        assert_eq!(
            reported("5:cpu,cpuacct:/a\n4:memory:/docker/b\n"),
            [
                "/sys/fs/cgroup/memory/docker/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        );
        assert_eq!(
            reported("0::/system.slice\n"),
            [
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/system.slice/memory.high",
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/memory.high",
            ]
        );
        assert!(reported("nonsense\n3:cpu:/\n").is_empty());
    }

    #[test]
    fn a_crowd_that_leaves_is_noticed_at_once_and_a_second_later() {
        let mut crowd = Crowd::default();
        let mut looks = |under_way, times| -> Vec<bool> {
            (0..times).map(|_| crowd.has_left(under_way)).collect()
        };
        assert_eq!(looks(15, 1), [false]);
        assert_eq!(looks(0, 3), [false; 3], "they were few");
        assert_eq!(looks(200, 2), [false; 2]);
        assert_eq!(looks(101, 2), [false; 2]);
        assert_eq!(looks(3, 1), [true]);
        let later = looks(3, 12);
        assert!(
            later[9] && later.iter().filter(|it| **it).count() == 1,
            "{later:?}"
        );
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
