//! Keeps helper threads off their caller's processor.
//!
//! A scheduler wakes a thread where it last ran, and a busy one does not search far for another processor. After a pause this may
//! be the caller's processor: the helper starts late or not at all, and then each of the two spins while the other waits for the
//! processor. A request after a pause of some milliseconds took two to three times as long.

use rustix::thread::{CpuSet, Pid};

/// The processors that the helpers of one caller may use.
///
/// A hint: if the system refuses, its scheduler decides as usual.
pub(super) struct Processors {
    /// All processors that helpers may use; `None` if they are unknown or there is only one.
    allowed: Option<CpuSet>,
    helpers: Vec<Pid>,
    /// The processor that helpers must avoid now.
    avoided: Option<usize>,
}

impl Processors {
    /// Starts with the processors that this thread may use.
    pub(super) fn new() -> Self {
        // Miri does not model processors.
        let known = (!cfg!(miri)).then(|| rustix::thread::sched_getaffinity(None).ok());
        Self {
            allowed: known.flatten().filter(|all| all.count() > 1),
            helpers: Vec::new(),
            avoided: None,
        }
    }

    /// This thread's id, for [`Processors::extend`].
    pub(super) fn this_thread() -> Option<Pid> {
        (!cfg!(miri)).then(rustix::thread::gettid)
    }

    /// Adds helpers.
    pub(super) fn extend(&mut self, helpers: impl IntoIterator<Item = Pid>) {
        self.helpers.extend(helpers);
        self.avoided = None;
    }

    /// Keeps every helper off the calling thread's processor. Makes a system call only if that processor has changed.
    pub(super) fn avoid_caller(&mut self) {
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
    fn a_helper_avoids_its_callers_processor() {
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
            processors.avoid_caller();
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
