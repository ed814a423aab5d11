//! Where the system does not let a thread be kept off a processor, as on macOS: its scheduler decides.

/// The same as on Linux, without any effect.
pub(super) struct Processors;

impl Processors {
    /// Those that this thread may use, of which nothing is known.
    pub(super) fn new() -> Self {
        Self
    }

    /// Threads have no names here that others could use.
    pub(super) fn this_thread() -> Option<u32> {
        None
    }

    /// Does nothing: no helper has a name here.
    pub(super) fn extend(&mut self, _helpers: impl IntoIterator<Item = u32>) {}

    /// Does nothing.
    pub(super) fn part(&mut self) {}
}
