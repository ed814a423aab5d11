//! Threads that help one caller with one piece of work at a time.
//!
//! A [`Team`] of n is the calling thread and n − 1 helpers. [`Team::run`] makes a job known to all of
//! them; the job takes pieces from a [`Queue`](super::panels::Queue) until none is left. A helper
//! that is late finds the job closed and nobody has waited for it: the caller waits for helpers that
//! have begun, and for no other. Waiting is a bounded spin and then sleep: sleeping and waking up again takes longer than
//! most jobs, so a thread goes to sleep only when the others are held up, or after [`Team::rest`].

// The only `unsafe` outside the kernels: lending a closure to threads that outlive it.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::processors::Processors;

/// Longest spin between two jobs of one request, and for the last piece of a job: several pieces' time, and no longer,
/// because a thread that has lost its processor may not come back for a while.
const PATIENCE: Duration = Duration::from_millis(1);

/// Longest spin when no job is expected: the next request may follow at once.
const LINGER: Duration = Duration::from_micros(50);

/// Turns of a spin between two looks at the clock.
const SPINS: u32 = 50;

/// What every thread of the team runs, each with a state of its own.
type Job<S> = dyn Fn(&mut S) + Sync;

/// The calling thread and its helpers; `S` is what each of them owns.
pub(super) struct Team<S> {
    own: S,
    shared: Arc<Shared<S>>,
    helpers: Vec<JoinHandle<()>>,
    processors: Processors,
}

struct Shared<S> {
    /// Counts jobs; helpers watch it.
    generation: AtomicUsize,
    /// Helpers inside the current job.
    inside: AtomicUsize,
    /// Whether another job is about to come.
    expecting: AtomicBool,
    ending: AtomicBool,
    /// Whether a helper panicked in the current job.
    panicked: AtomicBool,
    open: Mutex<Option<Open<S>>>,
}

/// A job that helpers may join, and who to wake when the last of them leaves.
struct Open<S> {
    job: Lent<S>,
    caller: Thread,
}

/// A job borrowed for as long as [`Team::run`] is on the caller's stack.
struct Lent<S>(*const Job<S>);

impl<S> Clone for Lent<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Lent<S> {}

// SAFETY: what it points to is `Sync`, so any thread may call it.
unsafe impl<S> Send for Lent<S> {}

impl<S: Send + 'static> Team<S> {
    /// Starts one helper for each of `states` but the first, which the caller uses.
    ///
    /// # Errors
    /// Whatever the system says where a thread cannot be started.
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
                    // Nobody listens where the team could not be started.
                    let _ = named.send(Processors::this_thread());
                    help(&shared, state);
                })?;
            team.helpers.push(helper);
            team.processors.extend(name.recv().ok().flatten());
        }
        Ok(team)
    }

    /// How many threads work on a job.
    pub(super) fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs `job` on the calling thread and on every helper that comes in time; returns when all
    /// that began have returned.
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
        let job_for_helpers =
            Lent(unsafe { std::mem::transmute::<&(dyn Fn(&mut S) + Sync), &'static Job<S>>(job) });
        self.processors.part();
        self.shared.open(job_for_helpers);
        for helper in &self.helpers {
            helper.thread().unpark();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| job(&mut self.own)));
        self.shared.close();
        // Asked for in any case, so that the next job does not answer for this one.
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

    /// Lets the helpers go to sleep: no job is about to come.
    pub(super) fn rest(&self) {
        self.shared.expecting.store(false, Ordering::Relaxed);
    }
}

impl<S> Drop for Team<S> {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // Helpers catch panics, so there is nothing to learn from the result.
            let _ = helper.join();
        }
    }
}

impl<S> Shared<S> {
    fn current(&self) -> MutexGuard<'_, Option<Open<S>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, job: Lent<S>) {
        *self.current() = Some(Open {
            job,
            caller: std::thread::current(),
        });
        self.expecting.store(true, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Lets nobody else in, and waits for those inside to leave.
    fn close(&self) {
        // From here on nobody enters: entering is only possible under the lock with a job open.
        *self.current() = None;
        wait_until(|| self.inside.load(Ordering::Acquire) == 0, || PATIENCE);
    }

    /// Joins the current job, if there still is one.
    fn enter(&self) -> Option<(Lent<S>, Thread)> {
        let current = self.current();
        let open = current.as_ref()?;
        self.inside.fetch_add(1, Ordering::Relaxed);
        Some((open.job, open.caller.clone()))
    }

    fn leave(&self, caller: &Thread) {
        // Release: what the job wrote is visible to the caller, who reads zero with Acquire.
        if self.inside.fetch_sub(1, Ordering::Release) == 1 {
            caller.unpark();
        }
    }
}

/// The life of a helper.
fn help<S>(shared: &Shared<S>, mut state: S) {
    let mut seen = 0;
    loop {
        wait_until(
            || {
                shared.generation.load(Ordering::Acquire) != seen
                    || shared.ending.load(Ordering::Acquire)
            },
            || match shared.expecting.load(Ordering::Relaxed) {
                true => PATIENCE,
                false => LINGER,
            },
        );
        if shared.ending.load(Ordering::Acquire) {
            return;
        }
        seen = shared.generation.load(Ordering::Acquire);
        if let Some((job, caller)) = shared.enter() {
            // SAFETY: this thread is counted `inside`, so `run` has not returned and the job lives.
            let job = unsafe { &*job.0 };
            if catch_unwind(AssertUnwindSafe(|| job(&mut state))).is_err() {
                shared.panicked.store(true, Ordering::Relaxed);
            }
            shared.leave(&caller);
        }
    }
}

/// Spins for as long as `patience` says, then sleeps until somebody unparks this thread, over and over.
fn wait_until(condition: impl Fn() -> bool, patience: impl Fn() -> Duration) {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() < patience() {
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
            // Both threads panic, if the helper comes in time: no trace of it may be left.
            let failed = catch_unwind(AssertUnwindSafe(|| team.run(&|()| panic!("on purpose"))));
            assert!(failed.is_err());
            let calls = AtomicUsize::new(0);
            team.run(&|()| {
                calls.fetch_add(1, Ordering::Relaxed);
            });
            assert!(calls.into_inner() >= 1);
        }
    }

    /// A job that the caller does not leave before a helper has come.
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
    fn a_helper_that_sleeps_is_woken() {
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
            team.run(&|()| until_joined(&joined, || panic!("on purpose")));
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
        // A helper may come too late for one job, and not for all of them.
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
