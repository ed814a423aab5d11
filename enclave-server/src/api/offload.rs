//! Large pieces of work, which would block the runtime's few workers.

use tokio::runtime::{Handle, RuntimeFlavor};

/// From this many bytes on, opening, reading, writing or sealing takes about as long as waking another worker.
const LARGE_BYTES: usize = 64 * 1024;

/// Runs `work` on `bytes` bytes. Where they are many, another worker takes over the tasks of this one meanwhile.
pub(super) fn offload<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_other_workers = || {
        Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    if bytes > LARGE_BYTES && has_other_workers() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_tasks_run_during_large_work() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap_or_else(|error| panic!("{error}"));
        let (send, receive) = std::sync::mpsc::channel();
        let waits = runtime.spawn(async move {
            // Ends only if the other task runs on the only worker while this one waits.
            let other = tokio::spawn(async move { send.send(()) });
            let came = offload(LARGE_BYTES + 1, || receive.recv());
            (came, other.await.is_ok())
        });
        let outcome = runtime.block_on(waits);
        assert!(matches!(outcome, Ok((Ok(()), true))), "{outcome:?}");
    }
}
