//! The search over blocks.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use crate::error::ScanError;
use crate::exact::score_row;
use crate::live::Live;
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
    check(blocks, queries)?;
    let _ = threads;
    Ok(queries
        .iter()
        .map(|query| {
            let mut hits = Vec::new();
            for (number, block) in blocks.iter().enumerate() {
                hits.extend(
                    (0..block.vectors.len())
                        .filter(|row| block.live.is_none_or(|live| live.get(*row)))
                        .map(|row| Hit {
                            block: number,
                            row,
                            score: score_row(block.vectors, row, query),
                        }),
                );
            }
            keep_best(&mut hits, k, ties);
            hits
        })
        .collect())
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
fn keep_best(hits: &mut Vec<Hit>, k: usize, ties: Ties<'_>) {
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
