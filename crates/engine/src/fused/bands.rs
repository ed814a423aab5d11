//! Distributes the tokens of a batch among threads.
//!
//! The rows are cut into [`Bands`], one per thread if there are enough rows, and each band is a separate matrix in panels. A
//! thread computes the same band in successive products and so finds its input in its own cache: fetching data that another
//! processor has just written can cost more than reading the weights twice. Only attention reads across bands.

use std::ops::Range;
use std::slice::ChunksMut;

use super::panels::{Panels, Queue, stride};

/// Most bands. A group has too few rows for more bands to pay off.
pub(super) const MAX_BANDS: usize = 8;

/// Rows per band from which one band per thread is faster, although each thread then reads all weights. Measured with two
/// threads: 56 rows. Fewer rows are one band, distributed by columns.
const ROWS_OF_BAND: usize = 28;

/// The rows of a batch, cut into bands of equal height; the last band may be shorter.
#[derive(Clone, Copy)]
pub(super) struct Bands {
    /// Total of all bands.
    rows: usize,
    height: usize,
}

impl Bands {
    /// Upper bound on the rows that a batch's matrices need in addition to the batch's own, with `threads` threads: bands have
    /// equal, odd heights, so each may have unused rows.
    pub(super) fn spare_rows(threads: usize) -> usize {
        2 * threads.min(MAX_BANDS)
    }

    /// At most one band per thread.
    pub(super) fn new(rows: usize, threads: usize) -> Self {
        let count = (rows / ROWS_OF_BAND).clamp(1, threads.min(MAX_BANDS));
        Self {
            rows,
            height: rows.div_ceil(count),
        }
    }

    pub(super) fn count(self) -> usize {
        self.rows.div_ceil(self.height)
    }

    /// Floats in a matrix of `panels` panels.
    pub(super) fn size(self, panels: usize) -> usize {
        self.count() * panels * self.stride()
    }

    /// Splits the `data` of a matrix into its bands.
    pub(super) fn cut<T>(self, data: &mut [T]) -> ChunksMut<'_, T> {
        data.chunks_mut(data.len() / self.count())
    }

    /// Floats from one panel of a band to the next.
    pub(super) fn stride(self) -> usize {
        stride(self.height)
    }

    /// The rows of each band, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.count()).map(move |band| self.rows(band))
    }

    /// The rows of one band.
    pub(super) fn rows(self, band: usize) -> Range<usize> {
        let first = band * self.height;
        first..self.rows.min(first + self.height)
    }

    /// The bands that contain `rows`, each with the rows' positions in it.
    #[inline(always)]
    pub(super) fn across(self, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let bands = rows.start / self.height..rows.end.div_ceil(self.height);
        bands.map(move |band| {
            let first = band * self.height;
            let end = rows.end.min(first + self.height);
            (band, rows.start.max(first) - first..end - first)
        })
    }
}

/// Read access to a matrix in bands.
#[derive(Clone, Copy)]
pub(super) struct Banded<'a, T = f32> {
    data: &'a [T],
    bands: Bands,
    /// Offset from one band to the next.
    distance: usize,
}

impl<'a, T: Copy> Banded<'a, T> {
    /// A matrix of `panels` panels.
    pub(super) fn new(data: &'a [T], bands: Bands, panels: usize) -> Self {
        Self {
            data,
            bands,
            distance: panels * bands.stride(),
        }
    }

    /// The matrix without its first `panels` panels.
    #[inline(always)]
    pub(super) fn without_panels(self, panels: usize) -> Self {
        Self {
            data: &self.data[panels * self.bands.stride()..],
            ..self
        }
    }

    /// Returns one band.
    #[inline(always)]
    pub(super) fn band(self, band: usize) -> Panels<'a, T> {
        Panels::new(&self.data[band * self.distance..], self.bands.stride())
    }

    /// Returns the values of `rows` in one panel, in contiguous parts.
    #[inline(always)]
    pub(super) fn parts(self, panel: usize, rows: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        let parts = self.bands.across(rows);
        parts.map(move |(band, rows)| self.band(band).rows(panel, rows.start, rows.len()))
    }

    pub(super) fn bands(&self) -> Bands {
        self.bands
    }
}

/// The index of a thread and the number of threads.
#[derive(Clone, Copy)]
pub(super) struct ThreadIndex {
    pub(super) number: usize,
    pub(super) of: usize,
}

/// Queues of work, one per band. A thread takes the work of its own band first, then that of the others.
pub(super) struct BandQueues<I> {
    queues: [Option<Queue<I>>; MAX_BANDS],
    count: usize,
}

impl<I: Iterator> BandQueues<I> {
    /// # Panics
    /// For more than [`MAX_BANDS`].
    pub(super) fn new(queues: impl IntoIterator<Item: IntoIterator<IntoIter = I>>) -> Self {
        let mut given = queues.into_iter();
        let queues = std::array::from_fn(|_| given.next().map(Queue::new));
        assert!(given.next().is_none(), "more than {MAX_BANDS} bands");
        let count = queues.iter().flatten().count();
        Self { queues, count }
    }

    /// Returns the next piece of work for a thread; `None` when all pieces are taken.
    pub(super) fn next(&self, thread: ThreadIndex) -> Option<I::Item> {
        let own = thread.number * self.count / thread.of;
        let (before, from_own) = self.queues[..self.count].split_at(own);
        let mut queues = from_own.iter().chain(before).flatten();
        queues.find_map(Queue::next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_all_rows_within_the_allocated_memory() {
        for threads in 1..=2 * MAX_BANDS {
            for rows in 1..=600 {
                let bands = Bands::new(rows, threads);
                assert!(bands.count() <= threads.min(MAX_BANDS));
                assert!(bands.size(1) <= stride(rows + Bands::spare_rows(threads)));
                let all: Vec<usize> = bands.iter().flatten().collect();
                assert_eq!(all, (0..rows).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn rows_across_bands_are_found_in_each() {
        let bands = Bands::new(100, 3);
        let parts = |rows| bands.across(rows).collect::<Vec<_>>();
        assert_eq!(bands.iter().collect::<Vec<_>>(), [0..34, 34..68, 68..100]);
        assert_eq!(parts(0..34), [(0, 0..34)]);
        assert_eq!(parts(33..69), [(0, 33..34), (1, 0..34), (2, 0..1)]);
        assert_eq!(parts(70..100), [(2, 2..32)]);
    }

    #[test]
    fn a_thread_takes_the_others_work_once_its_own_is_done() {
        let thread = |number, of| ThreadIndex { number, of };
        let taken = |thread, queues: &BandQueues<_>| {
            std::iter::from_fn(|| queues.next(thread)).collect::<Vec<i32>>()
        };
        let queues = || BandQueues::new([vec![1, 2], vec![3], vec![4, 5]]);
        assert_eq!(taken(thread(0, 3), &queues()), [1, 2, 3, 4, 5]);
        assert_eq!(taken(thread(1, 3), &queues()), [3, 4, 5, 1, 2]);
        assert_eq!(taken(thread(5, 6), &queues()), [4, 5, 1, 2, 3]);
        let shared = queues();
        assert_eq!(shared.next(thread(2, 3)), Some(4));
        assert_eq!(taken(thread(0, 3), &shared), [1, 2, 3, 5]);
        assert_eq!(shared.next(thread(2, 3)), None);
    }
}
