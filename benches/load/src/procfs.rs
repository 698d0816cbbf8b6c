//! What the kernel says about a process: CPU time, resident memory, allowed CPUs.
//!
//! The parsers are pure; the readers beside them open files of `/proc` and nothing else.
//! See proc(5) for the formats.

use std::fs;
use std::time::Duration;

use crate::failure::{Failure, Result};

/// Clock ticks a second in `/proc/PID/stat`. The kernel's USER_HZ is 100 on every platform
/// that Linux supports today, whatever its internal tick is.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time that a process and all its threads, also those that ended, have used: user plus
/// system, in steps of 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    parse_cpu_time(&read(&path)?).ok_or_else(|| Failure::unreadable(&path))
}

/// Time that a CPU has spent on anything but idling, in steps of 10 ms; what the hypervisor
/// gave to others counts too.
pub(crate) fn busy_time(cpu: usize) -> Result<Duration> {
    let path = "/proc/stat";
    parse_busy_time(&read(path)?, cpu).ok_or_else(|| Failure::unreadable(path))
}

/// Resident memory of a process in bytes, shared pages included.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    parse_resident_bytes(&read(&path)?).ok_or_else(|| Failure::unreadable(&path))
}

/// The CPUs on which this process may run, ascending.
pub(crate) fn allowed_cpus() -> Result<Vec<usize>> {
    let path = "/proc/self/status";
    parse_allowed_cpus(&read(path)?).ok_or_else(|| Failure::unreadable(path))
}

/// The highest number of open files to which this process may raise its limit.
pub(crate) fn hard_open_files_limit() -> Result<u64> {
    let path = "/proc/self/limits";
    parse_hard_open_files_limit(&read(path)?).ok_or_else(|| Failure::unreadable(path))
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Failure::io(format!("read {path}"), source))
}

/// Fields 14 and 15 of `/proc/PID/stat`. The command in field 2 may itself hold spaces and
/// brackets, so fields are counted from the last closing one.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let (_, after_command) = stat.rsplit_once(')')?;
    let mut fields = after_command.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    from_ticks(user.checked_add(system)?)
}

/// Columns of a `cpuN` line: user, nice, system, idle, iowait, irq, softirq, steal; guests are
/// part of user already.
fn parse_busy_time(stat: &str, cpu: usize) -> Option<Duration> {
    let columns: Vec<u64> = field(stat, &format!("cpu{cpu} "))?
        .split_ascii_whitespace()
        .take(8)
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()
        .ok()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *columns.as_slice() else {
        return None;
    };
    let busy = [nice, system, irq, softirq, steal];
    from_ticks(
        busy.iter()
            .try_fold(user, |sum, ticks| sum.checked_add(*ticks))?,
    )
}

fn from_ticks(ticks: u64) -> Option<Duration> {
    Some(Duration::from_millis(
        ticks.checked_mul(1_000 / TICKS_PER_SECOND)?,
    ))
}

fn parse_resident_bytes(status: &str) -> Option<u64> {
    let kibibytes = field(status, "VmRSS:")?.strip_suffix("kB")?.trim_end();
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}

fn parse_allowed_cpus(status: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in field(status, "Cpus_allowed_list:")?.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(cpus)
}

fn parse_hard_open_files_limit(limits: &str) -> Option<u64> {
    match field(limits, "Max open files")?
        .split_ascii_whitespace()
        .nth(1)?
    {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a) b (c d) S 1 4242 4242 0 -1 4194560 311 22 0 0 150 75 900 800 20 \
                        0 3 0 12345 228098048 1777 18446744073709551615 1 1 0 0 0 0 0 4096 0";

    #[test]
    fn cpu_time_is_user_plus_system_and_leaves_out_waited_children() {
        assert_eq!(parse_cpu_time(STAT), Some(Duration::from_millis(2_250)));
    }

    #[test]
    fn a_command_with_brackets_and_spaces_does_not_shift_the_fields() {
        let plain = STAT.replace("(a) b (c d)", "(nginx)");
        assert_eq!(parse_cpu_time(&plain), parse_cpu_time(STAT));
    }

    #[test]
    fn a_truncated_stat_is_refused() {
        assert_eq!(parse_cpu_time("4242 (nginx) S 1 2 3"), None);
        assert_eq!(parse_cpu_time(""), None);
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        let status = "Name:\tnginx\nVmHWM:\t   20000 kB\nVmRSS:\t   14336 kB\nRssAnon:\t 5 kB\n";
        assert_eq!(parse_resident_bytes(status), Some(14 * 1024 * 1024));
        assert_eq!(parse_resident_bytes("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn a_cpu_is_busy_with_all_but_idling_and_waiting() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 4 1000 500 8 16 32 1 0\ncpu10 9 9 9 9 9 9 9 9\n";
        assert_eq!(parse_busy_time(stat, 1), Some(Duration::from_millis(630)));
        assert_eq!(parse_busy_time(stat, 2), None);
    }

    #[test]
    fn allowed_cpus_are_ranges_and_single_numbers() {
        let status = "Cpus_allowed:\tff\nCpus_allowed_list:\t0-2,5,7-8\n";
        assert_eq!(parse_allowed_cpus(status), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_allowed_cpus("Cpus_allowed_list:\tall\n"), None);
    }

    #[test]
    fn the_hard_limit_is_the_second_number() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  524288  files\n";
        assert_eq!(parse_hard_open_files_limit(limits), Some(524_288));
        assert_eq!(
            parse_hard_open_files_limit("Max open files  1024  unlimited  files\n"),
            Some(u64::MAX)
        );
    }

    #[test]
    fn this_process_burns_cpu_and_holds_memory() {
        let pid = std::process::id();
        let before = cpu_time(pid).unwrap();
        let mut rounds = 0_u32;
        while cpu_time(pid).unwrap() == before {
            rounds += 1;
            assert!(rounds < 10_000_000, "CPU time never moved");
        }
        let cpu = *allowed_cpus().unwrap().first().unwrap();
        assert!(busy_time(cpu).unwrap() > Duration::ZERO);
        assert!(resident_bytes(pid).unwrap() > 100 * 1024);
        assert!(!allowed_cpus().unwrap().is_empty());
        assert!(hard_open_files_limit().unwrap() > 0);
    }
}
