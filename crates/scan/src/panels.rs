//! The order of numbers in memory: panels of 16 rows.
//!
//! A panel holds its rows' numbers dimension by dimension, so that one vector register has the same dimension of 16 rows. Every
//! lane then sums its own row: no sum crosses lanes, a search reads memory strictly in order, and the exact sums of 16 rows are
//! computed in the order of the dimensions by vector instructions too.
//!
//! f32 and f16: the numbers of dimension `d` are at `16 · d` of their panel. int8: four dimensions at a time, the four codes of a
//! row next to each other, each as an unsigned number (code + 128), which is the form that the processor's dot products take.

use zeroize::Zeroize;

/// Rows of a panel.
pub(crate) const ROWS: usize = 16;

/// Dimensions of int8 that are next to each other.
pub(crate) const GROUP: usize = 4;

/// The code 0.
pub(crate) const ZERO_CODE: u8 = 128;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Plain numbers that start on a cache line. They are overwritten when they are dropped.
pub(crate) struct Aligned<T: Zeroize> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Zeroize> Aligned<T> {
    pub(crate) fn filled(value: T, len: usize) -> Self {
        let spare = LINE / size_of::<T>();
        let memory = vec![value; len + spare];
        // `align_offset` may fail, as it does under Miri; the numbers are then unaligned, and reading them only slower.
        let start = Some(memory.as_ptr().align_offset(LINE))
            .filter(|start| *start <= spare)
            .unwrap_or(0);
        Self { memory, start, len }
    }

    /// Bytes allocated.
    pub(crate) fn memory(&self) -> usize {
        self.memory.capacity() * size_of::<T>()
    }
}

impl<T: Zeroize> Drop for Aligned<T> {
    fn drop(&mut self) {
        self.memory.zeroize();
    }
}

impl<T: Zeroize> std::ops::Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl<T: Zeroize> std::ops::DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
