//! How the tokens of a batch are shared out among threads.
//!
//! They are cut into [`Bands`], one for each thread where there are enough of them, and each band is a matrix in panels by
//! itself. A thread stays in its band from one product to the next, and so finds what it reads in its own cache: to fetch
//! what another processor has just written can cost more than to read the weights twice. Attention alone looks across
//! bands.

use std::ops::Range;
use std::slice::ChunksMut;

use super::panels::{Panels, Queue, stride};

/// Most bands: with as many rows as a group has, more would be too small to be worth while.
pub(super) const MAX_BANDS: usize = 8;

/// Rows from which a band for each thread is faster, although each thread then reads all weights. Measured with two threads: 56
/// rows.
/// Fewer are shared out by columns, in one band.
const ROWS_OF_BAND: usize = 28;

/// The rows of a batch, cut into bands of equal height, the last one aside.
#[derive(Clone, Copy)]
pub(super) struct Bands {
    /// Of all bands.
    rows: usize,
    height: usize,
}

impl Bands {
    /// Rows that the matrices of a batch take up at most, over and above the batch's own, for so many `threads`: each
    /// band may be a row short of the others, and has an odd number.
    pub(super) fn spare_rows(threads: usize) -> usize {
        2 * threads.min(MAX_BANDS)
    }

    /// At most one for each of `threads`.
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

    /// Floats of a matrix of `panels` panels.
    pub(super) fn size(self, panels: usize) -> usize {
        self.count() * panels * self.stride()
    }

    /// The bands of a matrix, whose `data` they fill.
    pub(super) fn cut<T>(self, data: &mut [T]) -> ChunksMut<'_, T> {
        data.chunks_mut(data.len() / self.count())
    }

    /// Floats from one panel of a band to the next.
    pub(super) fn stride(self) -> usize {
        stride(self.height)
    }

    /// The rows of each band.
    pub(super) fn iter(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.count()).map(move |band| self.rows(band))
    }

    /// The rows of one.
    pub(super) fn rows(self, band: usize) -> Range<usize> {
        let first = band * self.height;
        first..self.rows.min(first + self.height)
    }

    /// The bands that `rows` are in, and which of their rows these are.
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
    /// From one band to the next.
    distance: usize,
}

impl<'a, T: Copy> Banded<'a, T> {
    /// Of `panels` panels.
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

    /// One of its bands.
    #[inline(always)]
    pub(super) fn band(self, band: usize) -> Panels<'a, T> {
        Panels::new(&self.data[band * self.distance..], self.bands.stride())
    }

    /// What `rows` have in one panel, as much at a time as stands together.
    #[inline(always)]
    pub(super) fn parts(self, panel: usize, rows: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        let parts = self.bands.across(rows);
        parts.map(move |(band, rows)| self.band(band).rows(panel, rows.start, rows.len()))
    }

    pub(super) fn bands(&self) -> Bands {
        self.bands
    }
}

/// Which thread of how many.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    pub(super) number: usize,
    pub(super) of: usize,
}

/// Pieces of work, a list for each band. A thread first takes the pieces of its own band, then those of the others.
pub(super) struct Lots<I> {
    lots: [Option<Queue<I>>; MAX_BANDS],
    count: usize,
}

impl<I: Iterator> Lots<I> {
    /// # Panics
    /// For more than [`MAX_BANDS`].
    pub(super) fn new(lots: impl IntoIterator<Item: IntoIterator<IntoIter = I>>) -> Self {
        let mut given = lots.into_iter();
        let lots = std::array::from_fn(|_| given.next().map(Queue::new));
        assert!(given.next().is_none(), "more than {MAX_BANDS} bands");
        let count = lots.iter().flatten().count();
        Self { lots, count }
    }

    /// The next piece for the thread in `seat`; `None` when all pieces are taken.
    pub(super) fn next(&self, seat: Seat) -> Option<I::Item> {
        let own = seat.number * self.count / seat.of;
        let (before, from_own) = self.lots[..self.count].split_at(own);
        let mut lots = from_own.iter().chain(before).flatten();
        lots.find_map(Queue::next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_all_rows_in_the_room_there_is() {
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
    fn what_crosses_bands_is_found_in_each() {
        let bands = Bands::new(100, 3);
        let parts = |rows| bands.across(rows).collect::<Vec<_>>();
        assert_eq!(bands.iter().collect::<Vec<_>>(), [0..34, 34..68, 68..100]);
        assert_eq!(parts(0..34), [(0, 0..34)]);
        assert_eq!(parts(33..69), [(0, 33..34), (1, 0..34), (2, 0..1)]);
        assert_eq!(parts(70..100), [(2, 2..32)]);
    }

    #[test]
    fn a_thread_helps_the_others_when_it_is_done() {
        let seat = |number, of| Seat { number, of };
        let taken =
            |seat, lots: &Lots<_>| std::iter::from_fn(|| lots.next(seat)).collect::<Vec<i32>>();
        let lots = || Lots::new([vec![1, 2], vec![3], vec![4, 5]]);
        assert_eq!(taken(seat(0, 3), &lots()), [1, 2, 3, 4, 5]);
        assert_eq!(taken(seat(1, 3), &lots()), [3, 4, 5, 1, 2]);
        assert_eq!(taken(seat(5, 6), &lots()), [4, 5, 1, 2, 3]);
        let shared = lots();
        assert_eq!(shared.next(seat(2, 3)), Some(4));
        assert_eq!(taken(seat(0, 3), &shared), [1, 2, 3, 5]);
        assert_eq!(shared.next(seat(2, 3)), None);
    }
}
