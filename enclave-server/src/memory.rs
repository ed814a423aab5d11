//! How much memory this process has needed at most, as the kernel counts it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Reads `VmHWM` at most once a second: a receipt must not cost a system call.
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

    /// Peak resident set in KiB, 0 where the kernel does not tell.
    pub fn peak_kib(&self) -> u64 {
        let second = self.started.elapsed().as_secs();
        if self.read_at.swap(second, Ordering::Relaxed) != second
            && let Some(kib) = read()
        {
            self.kib.store(kib, Ordering::Relaxed);
        }
        self.kib.load(Ordering::Relaxed)
    }

    /// Peak resident set in MiB, rounded up.
    pub fn peak_mb(&self) -> u64 {
        self.peak_kib().div_ceil(1024)
    }
}

impl Default for PeakMemory {
    fn default() -> Self {
        Self::new()
    }
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
        assert!(PeakMemory::new().peak_mb() > 0);
    }
}
