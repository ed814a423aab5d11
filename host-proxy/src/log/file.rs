//! The file's tables: leaves, inner nodes of complete subtrees, signed heads, and the evidence for the keys that signed them.

use std::path::Path;

use merkle::prove::Nodes;
use merkle::tree::{Position, leaf_hash};
use merkle::{Hash, json};
use redb::{Builder, Database, ReadOnlyTable, ReadTransaction, TableDefinition, WriteTransaction};

use super::LogError;

pub(super) type Leaf = (&'static Hash, u64);

/// Log and index → data of a leaf.
pub(super) const LEAVES: TableDefinition<'_, Leaf, &'static Hash> = TableDefinition::new("leaves");
/// Log and data of a leaf → its first index.
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

/// Bytes of the file that are cached in memory. The library's default is 1 GiB, which a growing log would fill.
const CACHE: usize = 16 << 20;

pub(crate) fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder
}

/// Begins a write. Every write goes through here, because the last one before a crash decides how the file is repaired.
pub(crate) fn begin_write(database: &Database) -> Result<WriteTransaction, LogError> {
    let mut transaction = database.begin_write()?;
    // Otherwise the library reads the whole file to find its free pages.
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Creates a file with its tables.
pub(super) fn create(path: &Path) -> Result<(), LogError> {
    let database = builder().create(path)?;
    let transaction = begin_write(&database)?;
    transaction.open_table(LEAVES)?;
    transaction.open_table(NUMBERS)?;
    transaction.open_table(NODES)?;
    transaction.open_table(HEADS)?;
    transaction.open_table(EVIDENCE)?;
    transaction.commit()?;
    Ok(())
}

/// Reads nodes of one log in one transaction.
pub(super) struct NodeReader<'a> {
    log: &'a Hash,
    leaves: ReadOnlyTable<Leaf, &'static Hash>,
    nodes: ReadOnlyTable<(&'static Hash, u8, u64), &'static Hash>,
}

impl<'a> NodeReader<'a> {
    pub(super) fn new(transaction: &ReadTransaction, log: &'a Hash) -> Result<Self, LogError> {
        Ok(Self {
            log,
            leaves: transaction.open_table(LEAVES)?,
            nodes: transaction.open_table(NODES)?,
        })
    }
}

impl Nodes for NodeReader<'_> {
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
            let log = json::hex(self.log);
            LogError::Corrupt(format!("node {level}/{index} of {log} is missing"))
        })
    }
}
