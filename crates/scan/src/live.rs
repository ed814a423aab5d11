//! Bitmaps of rows.

/// Rows of a block that take part in a search: one bit per row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Bits at and after `rows` are 0.
    words: Vec<u64>,
    rows: usize,
}

impl Live {
    /// All of `rows` rows.
    #[must_use]
    pub fn all(rows: usize) -> Self {
        let mut words = vec![u64::MAX; rows.div_ceil(BITS)];
        if let (Some(last), used @ 1..) = (words.last_mut(), rows % BITS) {
            *last = (1 << used) - 1;
        }
        Self { words, rows }
    }

    /// None of `rows` rows.
    #[must_use]
    pub fn none(rows: usize) -> Self {
        Self {
            words: vec![0; rows.div_ceil(BITS)],
            rows,
        }
    }

    /// Rows covered, set or not.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Lets a row take part. Does nothing for a row outside the bitmap.
    pub fn set(&mut self, row: usize) {
        if row < self.rows
            && let Some(word) = self.words.get_mut(row / BITS)
        {
            *word |= 1 << (row % BITS);
        }
    }

    /// Excludes a row. Does nothing for a row outside the bitmap.
    pub fn clear(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / BITS) {
            *word &= !(1 << (row % BITS));
        }
    }

    /// Whether a row takes part; false for a row outside the bitmap.
    #[must_use]
    pub fn get(&self, row: usize) -> bool {
        self.words
            .get(row / BITS)
            .is_some_and(|word| word >> (row % BITS) & 1 == 1)
    }

    /// Rows that take part.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Rows that take part in both. Rows that `other` does not cover do not take part in it.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        Self {
            words: self.words.iter().zip(others).map(|(a, b)| a & b).collect(),
            rows: self.rows,
        }
    }

    /// The bits of the 16 rows of a panel, the first row in the lowest bit.
    pub(crate) fn panel(&self, panel: usize) -> u16 {
        let word = self.words.get(panel / PANELS).copied().unwrap_or(0);
        // Keeps the low 16 bits.
        (word >> (panel % PANELS * (BITS / PANELS))) as u16
    }
}

const BITS: usize = u64::BITS as usize;

/// Panels in a word.
const PANELS: usize = BITS / crate::panels::ROWS;
