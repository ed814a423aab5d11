//! Threads that help one caller with one job at a time.
//!
//! A [`Team`] of n threads is the calling thread and n − 1 helpers. [`Team::run`] announces a job to all of them; the job takes
//! pieces from a [`Queue`](super::panels::Queue) until none is left. A late helper finds the job closed: the caller waits only
//! for helpers that have started. Waiting is a bounded spin followed by sleep. Sleeping and waking up takes longer than most
//! jobs, so a thread sleeps only if the others are delayed, or after [`Team::rest`].

// The only `unsafe` code outside the kernels: it lends a closure to threads that outlive it.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::processors::Processors;

/// Longest spin between two jobs of one request, and for the last piece of a job. Longer than several pieces take, but bounded,
/// because a thread that has lost its processor may not return for a while.
const MAX_SPIN: Duration = Duration::from_millis(1);

/// Longest spin when no job is expected: the next request may follow immediately.
const MAX_IDLE_SPIN: Duration = Duration::from_micros(50);

/// Iterations of a spin between two readings of the clock.
const SPINS: u32 = 50;

/// A job that every thread of the team runs with its own state.
type Job<S> = dyn Fn(&mut S) + Sync;

/// The calling thread and its helpers; `S` is the state of each.
pub(super) struct Team<S> {
    own: S,
    shared: Arc<Shared<S>>,
    helpers: Vec<JoinHandle<()>>,
    processors: Processors,
}

struct Shared<S> {
    /// Counts jobs; helpers watch it.
    generation: AtomicUsize,
    /// Helpers that run the current job.
    inside: AtomicUsize,
    /// Whether another job is expected soon.
    expecting: AtomicBool,
    ending: AtomicBool,
    /// Whether a helper panicked in the current job.
    panicked: AtomicBool,
    open: Mutex<Option<OpenJob<S>>>,
}

/// A job that helpers may join, and the thread to wake when the last of them leaves.
struct OpenJob<S> {
    job: JobPointer<S>,
    caller: Thread,
}

/// A job, borrowed while [`Team::run`] is on the caller's stack.
struct JobPointer<S>(*const Job<S>);

impl<S> Clone for JobPointer<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for JobPointer<S> {}

// SAFETY: the job is `Sync`, so any thread may call it.
unsafe impl<S> Send for JobPointer<S> {}

impl<S: Send + 'static> Team<S> {
    /// Starts one helper for each of `others`; the caller uses `own`.
    ///
    /// # Errors
    /// The system's error if a thread cannot be started.
    pub(super) fn new(own: S, others: impl IntoIterator<Item = S>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            generation: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            expecting: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            open: Mutex::new(None),
        });
        let mut team = Self {
            own,
            shared,
            helpers: Vec::new(),
            processors: Processors::new(),
        };
        for state in others {
            let shared = Arc::clone(&team.shared);
            let (named, name) = mpsc::channel();
            let helper = std::thread::Builder::new()
                .name("encoder".to_owned())
                .spawn(move || {
                    // The receiver is gone if the team could not be started.
                    let _ = named.send(Processors::this_thread());
                    help(&shared, state);
                })?;
            team.helpers.push(helper);
            team.processors.extend(name.recv().ok().flatten());
        }
        Ok(team)
    }

    /// Number of threads, including the caller.
    pub(super) fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs `job` on the calling thread and on every helper that joins in time; returns when all of them have finished.
    ///
    /// # Panics
    /// If the job panics, on any thread.
    pub(super) fn run(&mut self, job: &(dyn Fn(&mut S) + Sync)) {
        if self.helpers.is_empty() {
            return self.run_alone(job);
        }
        // SAFETY: only the lifetime changes. Helpers call the job only after counting themselves
        // `inside` while it is open, and `close` neither leaves it open nor returns before they
        // have left; it runs before this function returns, and before it unwinds.
        let job_for_helpers = JobPointer(unsafe {
            std::mem::transmute::<&(dyn Fn(&mut S) + Sync), &'static Job<S>>(job)
        });
        self.processors.avoid_caller();
        self.shared.open(job_for_helpers);
        for helper in &self.helpers {
            helper.thread().unpark();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| job(&mut self.own)));
        self.shared.close();
        // Always reset, so that the next job does not report this one's panic.
        let helper_panicked = self.shared.panicked.swap(false, Ordering::Relaxed);
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        assert!(!helper_panicked, "a helper panicked");
    }
}

impl<S> Team<S> {
    /// Runs `job` on the calling thread only.
    pub(super) fn run_alone(&mut self, job: &(dyn Fn(&mut S) + Sync)) {
        job(&mut self.own);
    }

    /// Lets the helpers sleep: no job is expected.
    pub(super) fn rest(&self) {
        self.shared.expecting.store(false, Ordering::Relaxed);
    }
}

impl<S> Drop for Team<S> {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // Helpers catch panics, so the result carries no information.
            let _ = helper.join();
        }
    }
}

impl<S> Shared<S> {
    fn current(&self) -> MutexGuard<'_, Option<OpenJob<S>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, job: JobPointer<S>) {
        *self.current() = Some(OpenJob {
            job,
            caller: std::thread::current(),
        });
        self.expecting.store(true, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Lets no more helpers in, and waits until those inside have left.
    fn close(&self) {
        // No helper enters from here on: entering requires the lock and an open job.
        *self.current() = None;
        wait_until(|| self.inside.load(Ordering::Acquire) == 0, || MAX_SPIN);
    }

    /// Joins the current job, if there is one.
    fn enter(&self) -> Option<(JobPointer<S>, Thread)> {
        let current = self.current();
        let open = current.as_ref()?;
        self.inside.fetch_add(1, Ordering::Relaxed);
        Some((open.job, open.caller.clone()))
    }

    fn leave(&self, caller: &Thread) {
        // Release: makes the job's writes visible to the caller, who reads zero with Acquire.
        if self.inside.fetch_sub(1, Ordering::Release) == 1 {
            caller.unpark();
        }
    }
}

/// Runs a helper until the team is dropped.
fn help<S>(shared: &Shared<S>, mut state: S) {
    let mut seen = 0;
    loop {
        wait_until(
            || {
                shared.generation.load(Ordering::Acquire) != seen
                    || shared.ending.load(Ordering::Acquire)
            },
            || match shared.expecting.load(Ordering::Relaxed) {
                true => MAX_SPIN,
                false => MAX_IDLE_SPIN,
            },
        );
        if shared.ending.load(Ordering::Acquire) {
            return;
        }
        seen = shared.generation.load(Ordering::Acquire);
        if let Some((job, caller)) = shared.enter() {
            // SAFETY: this thread is counted in `inside`, so `run` has not returned and the job is alive.
            let job = unsafe { &*job.0 };
            if catch_unwind(AssertUnwindSafe(|| job(&mut state))).is_err() {
                shared.panicked.store(true, Ordering::Relaxed);
            }
            shared.leave(&caller);
        }
    }
}

/// Waits for the condition: spins for the duration that `max_spin` returns, then sleeps until this thread is unparked,
/// repeatedly.
fn wait_until(condition: impl Fn() -> bool, max_spin: impl Fn() -> Duration) {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() < max_spin() {
            for _ in 0..SPINS {
                if condition() {
                    return;
                }
                std::hint::spin_loop();
            }
        } else {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_and_seen_by_the_caller() {
        let mut team = Team::new(0_u64, [0, 0]).unwrap();
        for round in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let mut numbers = vec![0_u64; 97];
            let queue = super::super::panels::Queue::new(numbers.chunks_mut(5).enumerate());
            team.run(&|done| {
                while let Some((piece, numbers)) = queue.next() {
                    for number in numbers {
                        *number += round + piece as u64;
                    }
                    *done += 1;
                }
            });
            for (at, number) in numbers.iter().enumerate() {
                assert_eq!(*number, round + at as u64 / 5);
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let mut team = Team::new((), [()]).unwrap();
        for _ in 0..20 {
            // Both threads panic, if the helper joins in time; neither panic may affect the next job.
            let failed = catch_unwind(AssertUnwindSafe(|| team.run(&|()| panic!("deliberate"))));
            assert!(failed.is_err());
            let calls = AtomicUsize::new(0);
            team.run(&|()| {
                calls.fetch_add(1, Ordering::Relaxed);
            });
            assert!(calls.into_inner() >= 1);
        }
    }

    /// A job in which the caller waits until a helper has joined.
    fn until_joined(joined: &AtomicBool, then: impl Fn()) {
        if std::thread::current().name() == Some("encoder") {
            joined.store(true, Ordering::Release);
            then();
        }
        while !joined.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_sleeping_helper_is_woken() {
        let mut team = Team::new((), [()]).unwrap();
        for _ in 0..2 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let joined = AtomicBool::new(false);
            team.run(&|()| until_joined(&joined, || {}));
        }
        drop(team);
    }

    #[test]
    fn a_panic_of_a_helper_alone_reaches_the_caller() {
        let mut team = Team::new((), [()]).unwrap();
        let joined = AtomicBool::new(false);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            team.run(&|()| until_joined(&joined, || panic!("deliberate")));
        }));
        assert!(failed.is_err());
        let joined = AtomicBool::new(false);
        team.run(&|()| until_joined(&joined, || {}));
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "there are no processors")]
    fn helpers_keep_off_the_callers_processor() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

        let mut team = Team::new((), [()]).unwrap();
        let all = sched_getaffinity(None).unwrap();
        let here = sched_getcpu();
        let mut only = CpuSet::new();
        only.set(here);
        sched_setaffinity(None, &only).unwrap();
        let caller = std::thread::current().id();
        let seen = AtomicBool::new(false);
        // A helper may be late for one job, but not for all of them.
        while !seen.load(Ordering::Relaxed) {
            team.run(&|()| {
                if std::thread::current().id() == caller {
                    std::thread::sleep(Duration::from_millis(1));
                } else {
                    let kept_off = !sched_getaffinity(None).unwrap().is_set(here);
                    assert_eq!(kept_off, all.count() > 1);
                    seen.store(true, Ordering::Relaxed);
                }
            });
        }
    }
}
