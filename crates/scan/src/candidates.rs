//! The rows that may be among the best, and their exact scores.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::isa::Isa;
use crate::kernels::Exact;
use crate::panels::ROWS;
use crate::search::{Block, Hit, Ties, keep_best};

/// Collects the candidates of all queries on one thread.
///
/// A query's *floor* is a score that `k` rows are known to reach: a row whose exact score is below is not among the best. Floors
/// of all threads are shared. Candidates are first bounded from both sides by their margins; those that cannot be excluded get
/// their exact score when the list is full, or at the end.
pub(crate) struct Candidates<'a> {
    search: &'a Shared<'a>,
    /// For each query, the largest float below its floor: sums that round to the floor or more are not below.
    cuts: Vec<f32>,
    lists: Vec<List>,
    block: usize,
}

/// The same for all threads.
pub(crate) struct Shared<'a> {
    pub(crate) isa: Isa,
    pub(crate) blocks: &'a [Block<'a>],
    pub(crate) queries: &'a [&'a [f32]],
    pub(crate) k: usize,
    pub(crate) ties: Ties<'a>,
    /// For each query, its floor in an order-preserving form.
    pub(crate) floors: Vec<AtomicU32>,
}

#[derive(Default)]
struct List {
    bounded: Vec<Bounded>,
    /// At most `k` after each cleaning.
    exact: Vec<Hit>,
}

/// A row, and bounds of its exact score.
#[derive(Clone, Copy)]
struct Bounded {
    block: usize,
    row: usize,
    least: f32,
    most: f32,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(search: &'a Shared<'a>) -> Self {
        Self {
            cuts: vec![f32::NEG_INFINITY; search.queries.len()],
            lists: search.queries.iter().map(|_| List::default()).collect(),
            block: 0,
            search,
        }
    }

    /// Starts with rows of a block, and learns what other threads have found.
    pub(crate) fn enter(&mut self, block: usize) {
        self.block = block;
        for (cut, floor) in self.cuts.iter_mut().zip(&self.search.floors) {
            *cut = decode(floor.load(Ordering::Relaxed)).next_down();
        }
    }

    /// A row whose exact score is below is not among the best.
    #[inline(always)]
    pub(crate) fn cut(&self, query: usize) -> f32 {
        self.cuts[query]
    }

    /// Adds the rows of a panel whose bits are set in `reached`, if they take part. Their exact scores differ from `scores` by at
    /// most `margins`.
    #[inline(never)]
    pub(crate) fn add(
        &mut self,
        query: usize,
        panel: usize,
        reached: u16,
        scores: &[f32; ROWS],
        margins: &[f32; ROWS],
    ) {
        let block = &self.search.blocks[self.block];
        let first = panel * ROWS;
        let mut rows = reached & block.live_of_panel(panel);
        while rows != 0 {
            let lane = rows.trailing_zeros() as usize;
            rows &= rows - 1;
            self.lists[query].bounded.push(Bounded {
                block: self.block,
                row: first + lane,
                least: scores[lane] - margins[lane],
                most: scores[lane] + margins[lane],
            });
        }
        if self.lists[query].bounded.len() >= self.capacity() {
            self.clean(query);
        }
    }

    fn capacity(&self) -> usize {
        self.search.k.saturating_mul(4).max(256)
    }

    /// Drops rows that are excluded by now; scores the others exactly if they are still many.
    fn clean(&mut self, query: usize) {
        let k = self.search.k;
        let list = &self.lists[query];
        let bounded = list.bounded.iter().map(|row| row.least);
        let mut least: Vec<f32> = bounded
            .chain(list.exact.iter().map(|hit| hit.score))
            .collect();
        if least.len() >= k {
            let (_, floor, _) = least.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
            self.raise(query, *floor);
        }
        let cut = self.cuts[query];
        let list = &mut self.lists[query];
        list.bounded.retain(|row| row.most >= cut);
        if list.bounded.len() >= self.capacity() / 2 {
            self.score(query);
        }
    }

    /// Replaces all bounds by exact scores.
    fn score(&mut self, query: usize) {
        let search = self.search;
        let List { bounded, exact } = &mut self.lists[query];
        for same_panel in
            bounded.chunk_by(|a, b| (a.block, a.row / ROWS) == (b.block, b.row / ROWS))
        {
            let (block, panel) = (same_panel[0].block, same_panel[0].row / ROWS);
            let scores = search.isa.run(Exact {
                vectors: search.blocks[block].vectors,
                panel,
                query: search.queries[query],
            });
            exact.extend(same_panel.iter().map(|bounded| Hit {
                block,
                row: bounded.row,
                score: scores[bounded.row % ROWS],
            }));
        }
        bounded.clear();
        keep_best(exact, search.k, search.ties);
        if exact.len() == search.k
            && let Some(last) = exact.last()
        {
            let floor = last.score;
            self.raise(query, floor);
        }
    }

    /// Takes note that `k` rows have a score of at least `floor`.
    fn raise(&mut self, query: usize, floor: f32) {
        let shared = &self.search.floors[query];
        let before = shared.fetch_max(encode(floor), Ordering::Relaxed);
        self.cuts[query] = decode(before).max(floor).next_down();
    }

    /// The best rows of this thread, for each query.
    pub(crate) fn finish(mut self) -> Vec<Vec<Hit>> {
        self.enter(self.block);
        for query in 0..self.lists.len() {
            self.clean(query);
            self.score(query);
        }
        self.lists.into_iter().map(|list| list.exact).collect()
    }
}

/// The code of −∞.
pub(crate) fn no_floor() -> AtomicU32 {
    AtomicU32::new(encode(f32::NEG_INFINITY))
}

/// A number with the order of floats: negative floats have their bits inverted, others their sign.
fn encode(float: f32) -> u32 {
    let bits = float.to_bits();
    if float.is_sign_negative() {
        !bits
    } else {
        bits | SIGN
    }
}

fn decode(code: u32) -> f32 {
    f32::from_bits(if code & SIGN == 0 {
        !code
    } else {
        code & !SIGN
    })
}

const SIGN: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_keep_the_order_of_floats() {
        let floats = [
            f32::NEG_INFINITY,
            f32::MIN,
            -1.0,
            -1e-45,
            -0.0,
            0.0,
            1e-45,
            1.0,
            f32::MAX,
            f32::INFINITY,
        ];
        for pair in floats.windows(2) {
            assert!(encode(pair[0]) < encode(pair[1]));
            assert_eq!(decode(encode(pair[0])).to_bits(), pair[0].to_bits());
        }
    }
}
