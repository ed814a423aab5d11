//! Describes the machine and the build, from the kernel and from git only.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::record::{Machine, Setup};

/// Describes this machine.
pub fn machine() -> Machine {
    let cpu = read("/proc/cpuinfo");
    let field = |name: &str| {
        cpu.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim())
    };
    let features = field("flags").unwrap_or_default();
    let release = read("/etc/os-release");
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"'));
    let kernel = read("/proc/sys/kernel/osrelease");
    let os = [name.unwrap_or("Linux"), kernel.trim()].join(", kernel ");
    Machine {
        cpu: field("model name").map(str::to_owned),
        vcpus: std::thread::available_parallelism()
            .ok()
            .and_then(|count| u32::try_from(count.get()).ok()),
        memory_mib: kib(&read("/proc/meminfo"), "MemTotal:").map(|kib| kib / 1024),
        cpu_features: FEATURES
            .into_iter()
            .filter(|name| features.split(' ').any(|feature| feature == *name))
            .map(str::to_owned)
            .collect(),
        os: Some(os),
        busy_processors: None,
        load_average: None,
    }
}

/// Processors that were busy during the next `while_waiting`. Time that the host gave to other machines counts as busy.
///
/// The load average is not used: it covers a minute, and would include the compiler that built this program.
pub fn busy_processors(while_waiting: Duration) -> Option<f64> {
    let before = ticks(&read("/proc/stat"))?;
    std::thread::sleep(while_waiting);
    busy_between(before, ticks(&read("/proc/stat"))?)
}

/// Idle time and total time of all processors since the machine started (proc(5)).
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let all: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        // Guest time, in the two fields after these, is already included in its owner's.
        .take(8)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let idle = all.get(3)? + all.get(4)?;
    Some((idle, all.iter().sum()))
}

fn busy_between(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let idle = after.0.checked_sub(before.0)?;
    let all = after.1.checked_sub(before.1).filter(|all| *all > 0)?;
    let processors = std::thread::available_parallelism().ok()?.get();
    let share = all.saturating_sub(idle) as f64 / all as f64;
    let busy = share * processors as f64;
    Some((busy * 100.0).round() / 100.0)
}

/// Instruction sets between which the measured code chooses.
const FEATURES: [&str; 10] = [
    "aes",
    "avx",
    "avx2",
    "avx512bw",
    "avx512f",
    "avx512_bf16",
    "avx512_vnni",
    "fma",
    "sha_ni",
    "vaes",
];

/// Describes how this program was built and is run.
pub fn setup(threads: u32, repetitions: u64, warmups: u64) -> Setup {
    Setup {
        threads: Some(threads),
        allocator: Some("mimalloc".to_owned()),
        build: Some(format!(
            "{}, {}",
            if cfg!(debug_assertions) {
                "development profile"
            } else {
                "release profile"
            },
            if cfg!(target_env = "musl") {
                "static with musl"
            } else {
                "dynamic with glibc"
            }
        )),
        repetitions: Some(repetitions),
        warmups: Some(warmups),
        dirty: git(&["status", "--porcelain"]).map(|changes| !changes.is_empty()),
    }
}

/// A short hash of this program, to distinguish builds independently of their path.
pub fn build() -> String {
    let program = std::env::current_exe().ok();
    let build = program.and_then(|program| build_of(&program));
    build.unwrap_or_else(|| "build unknown".to_owned())
}

/// A short hash of a program.
pub fn build_of(program: &Path) -> Option<String> {
    let digest = Sha256::digest(std::fs::read(program).ok()?);
    let hash = base16ct::lower::encode_string(&digest[..6]);
    Some(format!("build {hash}"))
}

/// The commit that is checked out, if this is a git checkout.
pub fn commit() -> Option<String> {
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Peak memory of process `id` in MiB, and the field of `/proc/PID/status` that it came from.
pub fn peak_memory(id: u32) -> Option<(f64, &'static str)> {
    peak_of(&read(&format!("/proc/{id}/status")))
}

/// Resources that another process of this user has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Peak resident memory in MiB.
    pub peak_mib: f64,
    /// Page faults that needed no disk access.
    pub minor_faults: f64,
    /// Processor time in milliseconds, in user and kernel mode.
    pub cpu_ms: f64,
    /// Context switches of its threads, voluntary or not.
    pub switches: f64,
}

/// Resident memory of process `id`, in MiB.
pub fn resident(id: u32) -> Option<f64> {
    kib(&read(&format!("/proc/{id}/status")), "VmRSS:").map(|kib| kib as f64 / 1024.0)
}

/// Resources that process `id` has used so far, if the kernel reports them.
pub fn usage(id: u32) -> Option<Usage> {
    let (peak_mib, _) = peak_of(&read(&format!("/proc/{id}/status")))?;
    let stat = read(&format!("/proc/{id}/stat"));
    let (minor_faults, ticks) = parse_faults_and_time(&stat)?;
    // In nanoseconds where the kernel counts them: a request takes less than a tick.
    let nanoseconds: f64 = read_thread_files(id, "schedstat")
        .filter_map(|line| line.split(' ').next()?.parse::<f64>().ok())
        .sum();
    let cpu_ms = if nanoseconds > 0.0 {
        nanoseconds / 1e6
    } else {
        ticks
    };
    let switches = read_thread_files(id, "status")
        .flat_map(|status| {
            status
                .lines()
                .filter(|line| line.contains("voluntary_ctxt_switches:"))
                .filter_map(|line| line.rsplit(char::is_whitespace).next()?.parse::<f64>().ok())
                .collect::<Vec<_>>()
        })
        .sum();
    Some(Usage {
        peak_mib,
        minor_faults,
        cpu_ms,
        switches,
    })
}

/// Reads a file of each thread of process `id`. Threads that have ended are missing; a server keeps its threads.
fn read_thread_files(id: u32, file: &'static str) -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task"));
    threads
        .into_iter()
        .flatten()
        .filter_map(move |thread| std::fs::read_to_string(thread.ok()?.path().join(file)).ok())
}

/// Fields 10, 14 and 15 of `/proc/PID/stat`. The second field, in parentheses, may contain spaces. A tick is 10 ms on Linux.
fn parse_faults_and_time(stat: &str) -> Option<(f64, f64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some((field(10)?, (field(14)? + field(15)?) * 10.0))
}

fn peak_of(status: &str) -> Option<(f64, &'static str)> {
    [("VmHWM:", "VmHWM"), ("VmRSS:", "VmRSS")]
        .into_iter()
        .find_map(|(field, source)| Some((kib(status, field)? as f64 / 1024.0, source)))
}

/// Peak mapped memory of process `id`, in MiB.
pub fn peak_mapped(id: u32) -> Option<f64> {
    kib(&read(&format!("/proc/{id}/status")), "VmPeak:").map(|kib| kib as f64 / 1024.0)
}

/// Bytes that could be allocated without swapping.
pub fn available_bytes() -> u64 {
    kib(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(0) * 1024
}

fn kib(text: &str, field: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(field))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()
}

/// Reads a file of the kernel; empty if it does not exist.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_peak_is_preferred_and_named() {
        assert_eq!(
            peak_of("VmHWM:\t 2048 kB\nVmRSS:\t 1024 kB\n"),
            Some((2.0, "VmHWM"))
        );
        assert_eq!(peak_of("VmRSS:\t 1024 kB\n"), Some((1.0, "VmRSS")));
        assert_eq!(peak_of("Name: x\n"), None);
        assert!(peak_memory(std::process::id()).unwrap().0 > 0.1);
    }

    #[test]
    fn busy_is_what_is_not_idle() {
        let stat = "cpu  10 1 5 100 20 1 1 2 7 3\ncpu0 1 2 3 4\n";
        assert_eq!(ticks(stat), Some((120, 140)));
        assert_eq!(ticks("cpu  10 1"), None);
        assert_eq!(ticks("intr 1"), None);
        let processors = std::thread::available_parallelism().unwrap().get() as f64;
        assert_eq!(busy_between((120, 140), (220, 240)), Some(0.0));
        assert_eq!(busy_between((120, 140), (120, 240)), Some(processors));
        assert_eq!(busy_between((120, 140), (120, 140)), None);
        assert!(busy_processors(Duration::from_millis(50)).unwrap() <= processors);
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4 321 0 2 0 5 6 0 0 20 0 3 0";
        assert_eq!(parse_faults_and_time(stat), Some((321.0, 110.0)));
        assert_eq!(parse_faults_and_time("7"), None);
        assert!(usage(std::process::id()).unwrap().peak_mib > 0.1);
    }
}
