//! Keeps helpers off the processor that their caller runs on.
//!
//! A scheduler wakes a thread where it ran last, and a busy one does not look far for another place. After a pause that
//! may be the caller's own processor: the helper comes late or not at all, and when it comes, each of the two spins while
//! the other waits for the processor. A request after a pause of some milliseconds took two to three times as long.

use rustix::thread::{CpuSet, Pid};

/// Where the helpers of one caller may run.
///
/// A hint: whatever the system refuses, it decides as it would have.
pub(super) struct Processors {
    /// All that helpers may use; nothing where the system does not say, or has no choice.
    allowed: Option<CpuSet>,
    helpers: Vec<Pid>,
    /// Where no helper may be now.
    avoided: Option<usize>,
}

impl Processors {
    /// Those that this thread may use.
    pub(super) fn new() -> Self {
        // Miri has no processors to tell apart.
        let known = (!cfg!(miri)).then(|| rustix::thread::sched_getaffinity(None).ok());
        Self {
            allowed: known.flatten().filter(|all| all.count() > 1),
            helpers: Vec::new(),
            avoided: None,
        }
    }

    /// This thread, for [`Processors::extend`].
    pub(super) fn this_thread() -> Option<Pid> {
        (!cfg!(miri)).then(rustix::thread::gettid)
    }

    /// Takes care of more helpers.
    pub(super) fn extend(&mut self, helpers: impl IntoIterator<Item = Pid>) {
        self.helpers.extend(helpers);
        self.avoided = None;
    }

    /// Keeps every helper off the processor that the calling thread is on; costs a system call only where that is
    /// another one than before.
    pub(super) fn part(&mut self) {
        let Some(mut others) = self.allowed else {
            return;
        };
        let here = rustix::thread::sched_getcpu();
        if self.avoided == Some(here) {
            return;
        }
        if here < CpuSet::MAX_CPU {
            others.unset(here);
        }
        for helper in &self.helpers {
            let _ = rustix::thread::sched_setaffinity(Some(*helper), &others);
        }
        self.avoided = Some(here);
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there are no processors")]
    fn a_helper_follows_no_caller() {
        let all = sched_getaffinity(None).unwrap();
        let (named, name) = std::sync::mpsc::channel();
        let helper = std::thread::spawn(move || {
            named.send(Processors::this_thread()).unwrap();
            std::thread::park();
        });
        let tid = name.recv().unwrap().unwrap();
        let mut processors = Processors::new();
        processors.extend([tid]);
        for here in (0..CpuSet::MAX_CPU).filter(|one| all.is_set(*one)) {
            let mut only = CpuSet::new();
            only.set(here);
            sched_setaffinity(None, &only).unwrap();
            processors.part();
            let mut expected = all;
            if all.count() > 1 {
                expected.unset(here);
            }
            assert!(sched_getaffinity(Some(tid)).unwrap() == expected, "{here}");
        }
        helper.thread().unpark();
        helper.join().unwrap();
    }
}
