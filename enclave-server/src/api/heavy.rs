//! Work of a request that would keep the runtime's few workers from everybody else.

use tokio::runtime::{Handle, RuntimeFlavor};

/// From this many bytes on, opening, reading, writing or sealing takes about as long as waking another worker.
const HEAVY_BYTES: usize = 64 * 1024;

/// Does `work` on `bytes` bytes; where they are many, another worker takes over meanwhile what this one was to do.
pub(super) fn heavy<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let others = || {
        Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    if bytes > HEAVY_BYTES && others() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_go_on_while_much_is_worked_on() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap_or_else(|error| panic!("{error}"));
        let (send, receive) = std::sync::mpsc::channel();
        let waits = runtime.spawn(async move {
            // Ends only if the other task runs, on the only worker, while this one waits.
            let other = tokio::spawn(async move { send.send(()) });
            let came = heavy(HEAVY_BYTES + 1, || receive.recv());
            (came, other.await.is_ok())
        });
        let outcome = runtime.block_on(waits);
        assert!(matches!(outcome, Ok((Ok(()), true))), "{outcome:?}");
    }
}
