//! The file: leaves, inner nodes of complete subtrees, signed heads, and the evidence for the keys that signed them.
//!
//! One transaction takes leaves, nodes and head together and is on disk before anybody is told of them. At start every
//! tree is made again from its leaves, and compared with its nodes and with every head that was signed.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use merkle::exchange::{Consistency, Inclusion, SignedHead};
use merkle::head::TreeHead;
use merkle::prove::{self, Nodes};
use merkle::tree::{Frontier, Position, leaf_hash, receipt_hash};
use merkle::{Hash, exchange};
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
};

use super::LogError;
use super::check::rebuild;

pub(super) type Leaf = (&'static Hash, u64);

/// Log and number of the leaf → SHA-256 of the receipt.
pub(super) const LEAVES: TableDefinition<'_, Leaf, &'static Hash> = TableDefinition::new("leaves");
/// Log and SHA-256 of a receipt → number of its leaf.
pub(super) const NUMBERS: TableDefinition<'_, (&'static Hash, &'static Hash), u64> =
    TableDefinition::new("numbers");
/// Log, level (1 or above) and index → hash of a complete subtree.
pub(super) const NODES: TableDefinition<'_, (&'static Hash, u8, u64), &'static Hash> =
    TableDefinition::new("nodes");
/// Log and size → the newest signed head of that size.
pub(super) const HEADS: TableDefinition<'_, Leaf, &'static [u8]> = TableDefinition::new("heads");
/// SHA-256 of an attestation document → the document, and the manifest that it binds.
pub(super) const EVIDENCE: TableDefinition<'_, &'static Hash, (&'static [u8], &'static [u8])> =
    TableDefinition::new("evidence");

/// Leaves that were pulled, up to a head that covers exactly them.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The log that was asked for.
    pub log: Hash,
    /// SHA-256 of receipts, from the first that is not stored.
    pub leaves: Vec<Hash>,
    /// The signed head over everything, and its evidence.
    pub head: SignedHead,
}

/// An open log file. One process at a time has it.
pub struct Store {
    database: Database,
    trees: Mutex<HashMap<Hash, Arc<Grown>>>,
}

/// A tree as it is on disk.
pub(super) struct Grown {
    pub(super) frontier: Frontier,
    pub(super) head: TreeHead,
}

/// A log, for a list of them.
pub(super) struct Summary {
    pub(super) head: TreeHead,
}

impl Store {
    /// Opens `path`, or begins it, and checks all of it.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] where the file does not agree with itself; [`LogError::InUse`], [`LogError::Unavailable`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let unavailable = |error: std::io::Error| LogError::Unavailable(error.to_string());
        match std::fs::metadata(path) {
            // A file that was begun is never empty: one that is has lost what was in it.
            Ok(found) if found.len() == 0 => {
                return Err(LogError::Corrupt("it is empty".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Begun beside its place, so that a crash in between leaves no half of a file there.
                let fresh = path.with_added_extension("new");
                match std::fs::remove_file(&fresh) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(unavailable(error));
                    }
                    _ => {}
                }
                begin(&fresh)?;
                std::fs::rename(&fresh, path).map_err(unavailable)?;
            }
            Err(error) => return Err(unavailable(error)),
        }
        // The library's own checks may panic on pages that it did not write; nothing else has seen them yet.
        catch_unwind(AssertUnwindSafe(|| Self::check(path)))
            .unwrap_or_else(|_| Err(LogError::Corrupt("its pages cannot be read".to_owned())))
    }

    fn check(path: &Path) -> Result<Self, LogError> {
        let database = Database::builder()
            .set_check_integrity_on_open(true)
            .open(path)?;
        let trees = rebuild(&database.begin_read()?)?;
        Ok(Self {
            database,
            trees: Mutex::new(trees),
        })
    }

    /// Number of stored leaves of `log`; 0 where there is no such log.
    pub fn size(&self, log: &Hash) -> u64 {
        self.tree(log).map_or(0, |tree| tree.frontier.size())
    }

    /// Whether there is a log of this name.
    pub fn has(&self, log: &Hash) -> bool {
        self.tree(log).is_some()
    }

    /// Number of stored leaves of all logs.
    pub fn leaves(&self) -> u64 {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.values().map(|tree| tree.frontier.size()).sum()
    }

    /// Takes a batch: verifies the head, appends the leaves to the stored ones, compares the root, and commits. When this
    /// returns, everything is on disk.
    ///
    /// # Errors
    /// [`LogError`]; nothing has changed then.
    pub fn extend(&self, batch: &Batch) -> Result<TreeHead, LogError> {
        let head = TreeHead::verify(&batch.head.head)?;
        if head.log != batch.log {
            return Err(LogError::OtherLog);
        }
        if receipt_hash(&batch.head.document) != head.document {
            return Err(LogError::Evidence);
        }
        let mut frontier = self
            .tree(&batch.log)
            .map_or_else(Frontier::new, |tree| tree.frontier.clone());
        if head.size < frontier.size() {
            return Err(LogError::RolledBack {
                size: head.size,
                stored: frontier.size(),
            });
        }
        let first = frontier.size();
        let mut nodes = Vec::new();
        for leaf in &batch.leaves {
            frontier.append(leaf, |position, hash| nodes.push((position, hash)));
        }
        if frontier.size() != head.size || frontier.root() != head.root {
            return Err(LogError::Forked { size: head.size });
        }
        self.write(batch, &head, first, &nodes)?;
        self.trees
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(batch.log, Arc::new(Grown { frontier, head }));
        Ok(head)
    }

    fn write(
        &self,
        batch: &Batch,
        head: &TreeHead,
        first: u64,
        nodes: &[(Position, Hash)],
    ) -> Result<(), LogError> {
        let log = &batch.log;
        let transaction = self.database.begin_write()?;
        {
            let mut leaves = transaction.open_table(LEAVES)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            for (number, leaf) in (first..).zip(&batch.leaves) {
                leaves.insert((log, number), leaf)?;
                // Were a receipt in the log twice, its first place is the one with its own number.
                if numbers.get((log, leaf))?.is_none() {
                    numbers.insert((log, leaf), number)?;
                }
            }
            let mut table = transaction.open_table(NODES)?;
            for (Position { level, index }, hash) in nodes {
                // Level 0 follows from the leaves.
                if *level > 0 {
                    table.insert((log, *level, *index), hash)?;
                }
            }
            let mut heads = transaction.open_table(HEADS)?;
            heads.insert((log, head.size), batch.head.head.as_slice())?;
            let mut evidence = transaction.open_table(EVIDENCE)?;
            let SignedHead {
                document, manifest, ..
            } = &batch.head;
            evidence.insert(&head.document, (document.as_slice(), manifest.as_slice()))?;
        }
        // Durable: it returns after the data has reached the disk.
        transaction.commit()?;
        Ok(())
    }

    /// Every log, by name.
    pub(super) fn logs(&self) -> Vec<Summary> {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = trees
            .values()
            .map(|tree| Summary { head: tree.head })
            .collect();
        all.sort_by_key(|summary| (std::cmp::Reverse(summary.head.time), summary.head.log));
        all
    }

    /// The newest head, or the newest one of `size` leaves, with its evidence.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn head(&self, log: &Hash, size: Option<u64>) -> Result<Option<SignedHead>, LogError> {
        let Some(tree) = self.tree(log) else {
            return Ok(None);
        };
        let transaction = self.database.begin_read()?;
        let heads = transaction.open_table(HEADS)?;
        let Some(head) = heads.get((log, size.unwrap_or(tree.head.size)))? else {
            return Ok(None);
        };
        let head = head.value().to_vec();
        let (parsed, _) = TreeHead::parse(&head)?;
        let evidence = transaction.open_table(EVIDENCE)?;
        let evidence = evidence
            .get(&parsed.document)?
            .ok_or_else(|| LogError::Corrupt("a head without its document".to_owned()))?;
        let (document, manifest) = evidence.value();
        Ok(Some(SignedHead {
            head,
            document: document.to_vec(),
            manifest: manifest.to_vec(),
        }))
    }

    /// That a receipt, by its SHA-256, is in the newest tree of `log`.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn inclusion(&self, log: &Hash, receipt: &Hash) -> Result<Option<Inclusion>, LogError> {
        let Some(tree) = self.tree(log) else {
            return Ok(None);
        };
        let transaction = self.database.begin_read()?;
        let numbers = transaction.open_table(NUMBERS)?;
        let Some(index) = numbers
            .get((log, receipt))?
            .map(|number| number.value())
            // Committed a moment ago, and not yet in the tree that this answer is about.
            .filter(|index| *index < tree.head.size)
        else {
            return Ok(None);
        };
        let path = prove::inclusion(&Reading::new(&transaction, log)?, index, tree.head.size)?;
        let heads = transaction.open_table(HEADS)?;
        let head = heads
            .get((log, tree.head.size))?
            .ok_or_else(|| LogError::Corrupt("a tree without its head".to_owned()))?;
        Ok(Some(Inclusion {
            index,
            path,
            head: head.value().to_vec(),
        }))
    }

    /// That the tree of the first `from` leaves is the start of that of the first `to`; `None` where the log has not so
    /// many.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn consistency(
        &self,
        log: &Hash,
        from: u64,
        to: Option<u64>,
    ) -> Result<Option<Consistency>, LogError> {
        let Some(tree) = self.tree(log) else {
            return Ok(None);
        };
        let to = to.unwrap_or(tree.head.size);
        if from > to || to > tree.head.size {
            return Ok(None);
        }
        let transaction = self.database.begin_read()?;
        let path = prove::consistency(&Reading::new(&transaction, log)?, from, to)?;
        Ok(Some(Consistency { from, to, path }))
    }

    fn tree(&self, log: &Hash) -> Option<Arc<Grown>> {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.get(log).cloned()
    }
}

fn begin(path: &Path) -> Result<(), LogError> {
    let database = Database::create(path)?;
    let transaction = database.begin_write()?;
    transaction.open_table(LEAVES)?;
    transaction.open_table(NUMBERS)?;
    transaction.open_table(NODES)?;
    transaction.open_table(HEADS)?;
    transaction.open_table(EVIDENCE)?;
    transaction.commit()?;
    Ok(())
}

/// Nodes of one log, read in one transaction.
struct Reading<'a> {
    log: &'a Hash,
    leaves: ReadOnlyTable<Leaf, &'static Hash>,
    nodes: ReadOnlyTable<(&'static Hash, u8, u64), &'static Hash>,
}

impl<'a> Reading<'a> {
    fn new(transaction: &ReadTransaction, log: &'a Hash) -> Result<Self, LogError> {
        Ok(Self {
            log,
            leaves: transaction.open_table(LEAVES)?,
            nodes: transaction.open_table(NODES)?,
        })
    }
}

impl Nodes for Reading<'_> {
    type Error = LogError;

    fn node(&self, Position { level, index }: Position) -> Result<Hash, LogError> {
        let found = if level == 0 {
            self.leaves
                .get((self.log, index))?
                .map(|data| leaf_hash(data.value()))
        } else {
            self.nodes
                .get((self.log, level, index))?
                .map(|node| *node.value())
        };
        found.ok_or_else(|| {
            let log = exchange::hex(self.log);
            LogError::Corrupt(format!("node {level}/{index} of {log} is missing"))
        })
    }
}
