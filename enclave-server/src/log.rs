//! The log of the receipts that one key has signed, as an append-only tree (RFC 9162 §2.1). Its first leaf is the key
//! configuration, so that a reader of the log sees which keys were published with this one.
//!
//! The enclave stores the tree's frontier, from which it computes the root itself, and the newest leaves, which the host fetches
//! and stores. Neither contains anything of a text: the other leaves are hashes of receipts, and a receipt contains only salted
//! commitments.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use merkle::Hash;
use merkle::tree::{Frontier, keys_hash, receipt_hash};
use merkle::verify::Tree;

use crate::nsm::Validity;

/// Leaves stored for the host: 2 MiB when full. Older ones are lost to a host that has not fetched them.
pub const MAX_RECENT: usize = 65_536;

/// The log of one receipt key.
pub struct ReceiptLog {
    state: Mutex<State>,
    document: tokio::sync::Mutex<Option<LogDocument>>,
}

struct State {
    frontier: Frontier,
    recent: VecDeque<Hash>,
    capacity: usize,
    /// Number of leaves that the host has acknowledged.
    acknowledged: u64,
}

impl State {
    fn append(&mut self, leaf: Hash) {
        self.frontier.append(&leaf, |_, _| ());
        if self.recent.len() == self.capacity {
            self.recent.pop_front();
        }
        self.recent.push_back(leaf);
    }
}

/// A document that binds the key, for readers who check signed heads.
#[derive(Clone)]
pub(crate) struct LogDocument {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sha256: Hash,
    pub(crate) validity: Validity,
    /// When it was made, on the steady count.
    pub(crate) made_at: Duration,
}

/// A range of leaves, and the tree that contains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Leaves from the requested one on.
    pub leaves: Vec<Hash>,
    /// The whole tree.
    pub tree: Tree,
}

/// The requested leaves are no longer stored, or do not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl ReceiptLog {
    /// A log without receipts that begins with the key configuration and stores `capacity` leaves.
    pub fn new(capacity: usize, manifest: &[u8]) -> Self {
        let mut state = State {
            frontier: Frontier::new(),
            recent: VecDeque::new(),
            capacity,
            acknowledged: 0,
        };
        state.append(keys_hash(manifest));
        Self {
            state: Mutex::new(state),
            document: tokio::sync::Mutex::new(None),
        }
    }

    /// Has `make` sign a receipt with the next sequence number, and appends it. One receipt at a time, so that every number
    /// belongs to a receipt, none is left out, and numbers and leaves have the same order.
    pub fn issue(&self, make: impl FnOnce(u64) -> Vec<u8>) -> Vec<u8> {
        let mut state = self.state();
        let receipt = make(state.frontier.size());
        state.append(receipt_hash(&receipt));
        receipt
    }

    /// At most `most` leaves from number `from` on, and the tree as it is now.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn excerpt(&self, from: u64, most: usize) -> Result<Excerpt, Gone> {
        let state = self.state();
        let tree = Tree {
            size: state.frontier.size(),
            root: state.frontier.root(),
        };
        let first = tree.size - state.recent.len() as u64;
        let skipped = from.checked_sub(first).ok_or(Gone)?;
        if from > tree.size {
            return Err(Gone);
        }
        let skipped = usize::try_from(skipped).map_err(|_| Gone)?;
        let leaves = state.recent.iter().skip(skipped).take(most).copied();
        Ok(Excerpt {
            leaves: leaves.collect(),
            tree,
        })
    }

    /// Records that the host asks for leaves from `from` on. A host asks from the size of the tree only once it has stored every
    /// leaf on disk, which acknowledges them (docs/PROTOCOL.md §6).
    pub fn record_request(&self, from: u64) {
        let mut state = self.state();
        if from == state.frontier.size() {
            state.acknowledged = from;
        }
    }

    /// Whether the host has acknowledged every leaf.
    pub fn is_stored(&self) -> bool {
        let state = self.state();
        state.acknowledged == state.frontier.size()
    }

    /// Locks the document; the holder may replace it by a newer one.
    pub(crate) async fn document(&self) -> tokio::sync::MutexGuard<'_, Option<LogDocument>> {
        self.document.lock().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic inside `make` happens before anything is changed, so a poisoned state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &[u8] = b"manifest";

    #[test]
    fn numbers_rise_by_one_and_the_tree_holds_keys_and_receipts() {
        let log = ReceiptLog::new(10, MANIFEST);
        assert_eq!(log.excerpt(0, 2).unwrap().leaves, [keys_hash(MANIFEST)]);
        let mut frontier = Frontier::new();
        frontier.append(&keys_hash(MANIFEST), |_, _| ());
        for number in 1..25 {
            let receipt = log.issue(|sequence| {
                assert_eq!(sequence, number);
                sequence.to_be_bytes().to_vec()
            });
            frontier.append(&receipt_hash(&receipt), |_, _| ());
            let tree = log.excerpt(number, 1).unwrap().tree;
            assert_eq!((tree.size, tree.root), (number + 1, frontier.root()));
        }
    }

    #[test]
    fn memory_is_bounded_and_dropped_leaves_are_refused() {
        let log = ReceiptLog::new(10, MANIFEST);
        let all: Vec<_> = (1..25_u8)
            .map(|number| log.issue(|_| vec![number]))
            .collect();
        let leaves: Vec<_> = all.iter().map(|receipt| receipt_hash(receipt)).collect();
        assert_eq!(log.state().recent.len(), 10);
        assert_eq!(log.excerpt(14, 5), Err(Gone));
        assert_eq!(log.excerpt(15, 5).unwrap().leaves, leaves[14..19]);
        assert_eq!(log.excerpt(15, 50).unwrap().leaves, leaves[14..]);
        assert_eq!(log.excerpt(25, 5).unwrap().leaves, [[0; 32]; 0]);
        assert_eq!(log.excerpt(26, 5), Err(Gone));
    }

    #[test]
    fn only_a_request_from_the_end_acknowledges_every_leaf() {
        let log = ReceiptLog::new(10, MANIFEST);
        assert!(!log.is_stored(), "the keys are a leaf too");
        log.record_request(0);
        assert!(!log.is_stored());
        log.record_request(1);
        assert!(log.is_stored());
        log.issue(|_| vec![1]);
        assert!(!log.is_stored());
        // From an earlier end, from the start, from the middle, and from beyond the end.
        for from in [1, 0, 3, u64::MAX] {
            log.record_request(from);
            assert!(!log.is_stored(), "{from}");
        }
        log.record_request(2);
        log.record_request(0);
        assert!(
            log.is_stored(),
            "a second host that has less revokes nothing"
        );
    }

    #[test]
    fn concurrent_receipts_get_distinct_numbers() {
        let log = ReceiptLog::new(1000, MANIFEST);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        log.issue(|sequence| sequence.to_be_bytes().to_vec());
                    }
                });
            }
        });
        let leaves = log.excerpt(1, 1000).unwrap().leaves;
        let expected: Vec<_> = (1..=400_u64)
            .map(|number| receipt_hash(&number.to_be_bytes()))
            .collect();
        assert_eq!(leaves, expected);
    }

    #[test]
    fn a_panic_while_signing_takes_no_number() {
        let log = ReceiptLog::new(10, MANIFEST);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            log.issue(|_| panic!("deliberate"))
        }));
        assert!(panicked.is_err());
        log.issue(|sequence| {
            assert_eq!(sequence, 1);
            vec![]
        });
    }
}
