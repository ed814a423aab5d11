//! The memory layout of activations, and how parts of them are distributed to threads.
//!
//! A matrix of `rows` tokens and `n` features is split into panels of [`PANEL`] features. A panel holds those features of all
//! tokens, token after token; panels are `stride` floats apart. A matrix product thus writes whole panels, and attention finds a
//! head in one or two.

use std::sync::{Mutex, PoisonError};

/// Features per panel.
pub(super) const PANEL: usize = 32;

/// Most panels of a row of the residual stream.
pub(super) const MAX_PANELS: usize = 32;

/// Most panels of a row of the wide layer.
pub(super) const MAX_WIDE_PANELS: usize = 128;

/// Offset from one panel to the next for `rows` tokens, in floats.
///
/// Uses an odd number of rows, so that a token's panels do not all map to the same cache set.
pub(super) fn stride(rows: usize) -> usize {
    (rows | 1) * PANEL
}

/// Read access to a matrix in panels.
#[derive(Clone, Copy)]
pub(super) struct Panels<'a, T = f32> {
    pub(super) data: &'a [T],
    pub(super) stride: usize,
}

impl<'a, T> Panels<'a, T> {
    pub(super) fn new(data: &'a [T], stride: usize) -> Self {
        Self { data, stride }
    }

    /// Returns `rows` consecutive rows of one panel, from `row` on.
    #[inline(always)]
    pub(super) fn rows(&self, panel: usize, row: usize, rows: usize) -> &'a [T] {
        &self.data[panel * self.stride + row * PANEL..][..rows * PANEL]
    }
}

/// A queue of work that hands out one piece at a time to any thread.
///
/// The lock is held only while a slice is split off.
pub(super) struct Queue<I>(Mutex<I>);

impl<I: Iterator> Queue<I> {
    pub(super) fn new(pieces: impl IntoIterator<IntoIter = I>) -> Self {
        Self(Mutex::new(pieces.into_iter()))
    }

    pub(super) fn next(&self) -> Option<I::Item> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.next()
    }
}

/// Exclusive access to consecutive rows in all panels.
pub(super) struct RowBlock<'a, T = f32, const PANELS: usize = MAX_PANELS> {
    /// Index of the first row in its band.
    pub(super) first: usize,
    pub(super) rows: usize,
    /// The rows' numbers in each panel; empty beyond the last panel.
    pub(super) panels: [&'a mut [T]; PANELS],
}

/// Splits a matrix in panels into blocks of rows that different threads may write.
pub(super) struct RowBlocks<'a, T = f32, const PANELS: usize = MAX_PANELS> {
    rest: [&'a mut [T]; PANELS],
    first: usize,
    rows: usize,
    rows_per_block: usize,
}

impl<'a, T, const PANELS: usize> RowBlocks<'a, T, PANELS> {
    /// `data` has at most `PANELS` panels of `rows` rows, `stride` numbers apart.
    pub(super) fn new(
        data: &'a mut [T],
        stride: usize,
        rows: usize,
        rows_per_block: usize,
    ) -> Self {
        let mut rest: [&mut [T]; PANELS] = std::array::from_fn(|_| <&mut [T]>::default());
        for (rest, panel) in rest.iter_mut().zip(data.chunks_mut(stride)) {
            *rest = &mut panel[..rows * PANEL];
        }
        Self {
            rest,
            first: 0,
            rows,
            rows_per_block: rows_per_block.max(1),
        }
    }
}

impl<'a, T, const PANELS: usize> Iterator for RowBlocks<'a, T, PANELS> {
    type Item = RowBlock<'a, T, PANELS>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, rows) = (self.first, self.rows_per_block.min(self.rows - self.first));
        if rows == 0 {
            return None;
        }
        self.first += rows;
        let panels = self.rest.each_mut().map(|rest| {
            let at = rest.len().min(rows * PANEL);
            let (block, tail) = std::mem::take(rest).split_at_mut(at);
            *rest = tail;
            block
        });
        Some(RowBlock {
            first,
            rows,
            panels,
        })
    }
}
