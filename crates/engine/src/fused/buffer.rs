//! Memory for activations: one allocation, aligned to cache lines.

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Floats per cache line.
const FLOATS: usize = LINE / size_of::<f32>();

/// Floats that start on a cache line, so that no vector load crosses two lines.
pub(super) struct Buffer {
    memory: Vec<f32>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// Allocates `len` floats and writes all of them, so that the pages are mapped before the first request.
    ///
    /// They are NaN, so that reading a value that no kernel wrote shows in the result.
    pub(super) fn poisoned(len: usize) -> Self {
        let memory = vec![f32::NAN; len + FLOATS];
        // `align_offset` may fail, as it does under Miri; the buffer is then unaligned, and only slower.
        let start = Some(memory.as_ptr().align_offset(LINE))
            .filter(|start| *start <= FLOATS)
            .unwrap_or(0);
        Self { memory, start, len }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
