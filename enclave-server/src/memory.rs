//! Peak memory of this process, as the kernel counts it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The peak is rounded up to a multiple of this, in MiB: the size of the largest request or answer with its copies.
pub const STEP_MIB: u64 = 64;

/// Reads `VmHWM` at most once a second, because a receipt must not cost a system call.
pub struct PeakMemory {
    started: Instant,
    read_at: AtomicU64,
    kib: AtomicU64,
}

impl PeakMemory {
    /// Reads for the first time.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            read_at: AtomicU64::new(0),
            kib: AtomicU64::new(read().unwrap_or(0)),
        }
    }

    /// Peak resident set in MiB, rounded up to a multiple of [`STEP_MIB`]; 0 where the kernel does not report it. Receipts and
    /// metrics state this value. A change of the exact peak would reveal the size of the request that caused it.
    pub fn rounded_peak_mib(&self) -> u64 {
        round_up_mib(self.peak_kib())
    }

    fn peak_kib(&self) -> u64 {
        let second = self.started.elapsed().as_secs();
        if self.read_at.swap(second, Ordering::Relaxed) != second
            && let Some(kib) = read()
        {
            self.kib.store(kib, Ordering::Relaxed);
        }
        self.kib.load(Ordering::Relaxed)
    }
}

impl Default for PeakMemory {
    fn default() -> Self {
        Self::new()
    }
}

fn round_up_mib(kib: u64) -> u64 {
    kib.div_ceil(1024).next_multiple_of(STEP_MIB)
}

fn read() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn parse(status: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        assert_eq!(
            parse("Name:\tx\nVmHWM:\t   12345 kB\nVmRSS:\t 1 kB\n"),
            Some(12_345)
        );
        assert_eq!(parse("Name:\tx\n"), None);
        assert!(PeakMemory::new().rounded_peak_mib() > 0);
    }

    #[test]
    fn a_peak_is_rounded_up_to_a_step() {
        let kib = |mib: u64| mib * 1024;
        for (exact, stated) in [
            (0, 0),
            (1, 64),
            (kib(64), 64),
            (kib(64) + 1, 128),
            (kib(170), 192),
        ] {
            assert_eq!(round_up_mib(exact), stated, "{exact} KiB");
        }
    }
}
