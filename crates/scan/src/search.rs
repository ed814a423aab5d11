//! The search over blocks.

use std::cmp::Ordering;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{self, AtomicUsize};
use std::thread;

use crate::candidates::{Candidates, Shared, no_floor};
use crate::error::ScanError;
use crate::isa::Isa;
use crate::kernels::{Exact, Scan};
use crate::live::Live;
use crate::panels::ROWS;
use crate::precision::Precision;
use crate::query::Queries;
use crate::vectors::Vectors;

/// Vectors to search, and the rows that take part: all, if `live` is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The vectors.
    pub vectors: &'a Vectors,
    /// The rows that take part.
    pub live: Option<&'a Live>,
}

/// A row of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Number of its block.
    pub block: usize,
    /// Number of the row in the block.
    pub row: usize,
    /// Score, as the [crate's documentation](crate#exactness) defines it.
    pub score: f32,
}

/// Decides which of two rows with equal scores, each as block and row, comes first. Must be a total order.
pub type Ties<'a> = &'a (dyn Fn((usize, usize), (usize, usize)) -> Ordering + Sync);

/// Finds, for each query, the `k` rows with the largest scores, the largest first; fewer if fewer rows take part.
///
/// Rows of equal score are in the order of `ties`. At most `threads` threads compute, the caller's among them. The
/// [crate's documentation](crate#exactness) defines the score.
///
/// # Errors
/// [`ScanError`] if a query has another number of dimensions than a block or a number that is not finite, or a bitmap another
/// number of rows than its block.
pub fn search(
    blocks: &[Block<'_>],
    queries: &[&[f32]],
    k: usize,
    threads: NonZeroUsize,
    ties: Ties<'_>,
) -> Result<Vec<Vec<Hit>>, ScanError> {
    search_on(Isa::best(), blocks, queries, k, threads, ties)
}

/// Like [`search`], with the kernels of an instruction set: for tests and benchmarks, because the result is the same.
///
/// # Errors
/// As for [`search`].
pub fn search_on(
    isa: Isa,
    blocks: &[Block<'_>],
    queries: &[&[f32]],
    k: usize,
    threads: NonZeroUsize,
    ties: Ties<'_>,
) -> Result<Vec<Vec<Hit>>, ScanError> {
    check(blocks, queries)?;
    let parts = divide(blocks);
    if k == 0 || parts.is_empty() || queries.is_empty() {
        return Ok(vec![Vec::new(); queries.len()]);
    }
    let shared = Shared {
        isa,
        blocks,
        queries,
        k,
        ties,
        floors: queries.iter().map(|_| no_floor()).collect(),
    };
    let stored = |int8| {
        let mut precisions = blocks.iter().map(|block| block.vectors.precision());
        precisions.any(|precision| (precision == Precision::Int8) == int8)
    };
    let dimensions = blocks.first().map_or(0, |block| block.vectors.dimensions());
    let sizes = isa.tile_sizes();
    let prepared = Queries::prepare(queries, dimensions, sizes, stored(false), stored(true));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut candidates = Candidates::new(&shared);
        while let Some(part) = parts.get(next.fetch_add(1, atomic::Ordering::Relaxed)) {
            scan_part(&shared, &prepared, part, &mut candidates);
        }
        candidates.finish()
    };
    let mut results = in_threads(threads.get().min(parts.len()), &work).into_iter();
    let mut hits = results.next().unwrap_or_default();
    for others in results {
        for (hits, others) in hits.iter_mut().zip(others) {
            hits.extend(others);
        }
    }
    for hits in &mut hits {
        keep_best(hits, k, ties);
    }
    Ok(hits)
}

/// Panels of a block that one thread scans without a pause.
struct Part {
    block: usize,
    panels: Range<usize>,
}

/// Divides all blocks into parts of about equal size, which threads take one after the other: a thread that the operating system
/// interrupts takes fewer.
fn divide(blocks: &[Block<'_>]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (block, Block { vectors, .. }) in blocks.iter().enumerate() {
        let panel = vectors.precision().row_bytes(vectors.dimensions()) * ROWS;
        let step = (PART / panel).next_multiple_of(PANELS);
        let starts = (0..vectors.panels()).step_by(step);
        parts.extend(starts.map(|start| Part {
            block,
            panels: start..vectors.panels().min(start + step),
        }));
    }
    parts
}

/// Bytes of a part: a hundred microseconds, much longer than to take the next one.
const PART: usize = 1 << 20;

/// A part's number of panels is a multiple, so that kernels find whole groups of panels.
const PANELS: usize = 12;

fn scan_part(shared: &Shared<'_>, queries: &Queries<'_>, part: &Part, to: &mut Candidates<'_>) {
    let vectors = shared.blocks[part.block].vectors;
    to.enter(part.block);
    if !queries.may_overflow(vectors.longest) {
        return shared.isa.run(Scan {
            vectors,
            panels: part.panels.clone(),
            queries,
            candidates: to,
        });
    }
    for panel in part.panels.clone() {
        for (number, query) in shared.queries.iter().enumerate() {
            let scores = shared.isa.run(Exact {
                vectors,
                panel,
                query,
            });
            to.add(number, panel, u16::MAX, &scores, &[0.0; ROWS]);
        }
    }
}

/// Runs `work` on this thread and on up to `threads - 1` others.
fn in_threads<T: Send>(threads: usize, work: &(impl Fn() -> T + Sync)) -> Vec<T> {
    std::thread::scope(|scope| {
        // Without a thread, the others do its work.
        let others: Vec<_> = (1..threads)
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut results = vec![work()];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

impl Block<'_> {
    /// The rows of a panel that take part, the first in the lowest bit.
    pub(crate) fn live_of_panel(&self, panel: usize) -> u16 {
        if let Some(live) = self.live {
            return live.panel(panel);
        }
        match self.vectors.len() - panel * ROWS {
            rows @ 0..ROWS => (1 << rows) - 1,
            _ => u16::MAX,
        }
    }
}

fn check(blocks: &[Block<'_>], queries: &[&[f32]]) -> Result<(), ScanError> {
    for (block, Block { vectors, live }) in blocks.iter().enumerate() {
        if live.is_some_and(|live| live.rows() != vectors.len()) {
            return Err(ScanError::Live { block });
        }
        if let Some(query) = queries
            .iter()
            .position(|query| query.len() != vectors.dimensions())
        {
            return Err(ScanError::Query { query, block });
        }
    }
    for (row, query) in queries.iter().enumerate() {
        if !query.iter().all(|number| number.is_finite()) {
            return Err(ScanError::NotFinite { row });
        }
    }
    Ok(())
}

/// Keeps the `k` best hits, in order.
pub(crate) fn keep_best(hits: &mut Vec<Hit>, k: usize, ties: Ties<'_>) {
    let compare = |a: &Hit, b: &Hit| {
        // Scores are not NaN and never −0, so equal numbers have equal bits.
        let order = b.score.total_cmp(&a.score);
        order.then_with(|| ties((a.block, a.row), (b.block, b.row)))
    };
    if 0 < k && k < hits.len() {
        hits.select_nth_unstable_by(k - 1, compare);
    }
    hits.truncate(k);
    hits.sort_unstable_by(compare);
}
