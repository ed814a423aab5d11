//! For systems such as macOS that cannot keep a thread off a processor; their scheduler decides.

/// Same interface as on Linux, without any effect.
pub(super) struct Processors;

impl Processors {
    /// Knows no processors.
    pub(super) fn new() -> Self {
        Self
    }

    /// Threads have no usable id here.
    pub(super) fn this_thread() -> Option<u32> {
        None
    }

    /// Does nothing, because helpers have no id here.
    pub(super) fn extend(&mut self, _helpers: impl IntoIterator<Item = u32>) {}

    /// Does nothing.
    pub(super) fn avoid_caller(&mut self) {}
}
