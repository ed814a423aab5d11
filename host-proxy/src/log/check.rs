//! Checks a whole file: rebuilds every tree from its leaves, and compares it with every head.

use merkle::Hash;
use merkle::head::TreeHead;
use merkle::tree::{Frontier, Position, receipt_hash};
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata};

use super::LogError;
use super::file::{EVIDENCE, HEADS, LEAVES, Leaf, NODES, NUMBERS};

/// The tables, open for reading.
struct Tables {
    leaves: ReadOnlyTable<Leaf, &'static Hash>,
    numbers: ReadOnlyTable<(&'static Hash, &'static Hash), u64>,
    nodes: ReadOnlyTable<(&'static Hash, u8, u64), &'static Hash>,
    heads: ReadOnlyTable<Leaf, &'static [u8]>,
    evidence: ReadOnlyTable<&'static Hash, (&'static [u8], &'static [u8])>,
}

/// Numbers of checked items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Logs, one for each key.
    pub logs: u64,
    /// Receipts, and one leaf for each key.
    pub leaves: u64,
    /// Signed heads, each of them verified.
    pub heads: u64,
}

/// Rebuilds every tree from its leaves, and compares it with its stored nodes and heads.
pub(super) fn rebuild(transaction: &ReadTransaction) -> Result<Checked, LogError> {
    let tables = Tables {
        leaves: transaction.open_table(LEAVES)?,
        numbers: transaction.open_table(NUMBERS)?,
        nodes: transaction.open_table(NODES)?,
        heads: transaction.open_table(HEADS)?,
        evidence: transaction.open_table(EVIDENCE)?,
    };
    for entry in tables.evidence.iter()? {
        let (name, value) = entry?;
        if receipt_hash(value.value().0) != *name.value() {
            return Err(corrupt("a document is stored under another name"));
        }
    }
    let mut logs = Vec::new();
    for entry in tables.heads.iter()? {
        let log = *entry?.0.value().0;
        if logs.last() != Some(&log) {
            logs.push(log);
        }
    }
    let (mut leaves, mut nodes) = (0, 0);
    for log in &logs {
        let rebuilt = rebuild_one(&tables, log)?;
        leaves += rebuilt.leaves;
        nodes += rebuilt.inner_nodes;
    }
    if leaves != tables.leaves.len()? || nodes != tables.nodes.len()? {
        return Err(corrupt("no signed head covers some leaves or nodes"));
    }
    if tables.numbers.len()? > leaves {
        return Err(corrupt("some receipts are not leaves"));
    }
    Ok(Checked {
        logs: logs.len() as u64,
        leaves,
        heads: tables.heads.len()?,
    })
}

/// Numbers of one rebuilt tree.
struct Rebuilt {
    leaves: u64,
    inner_nodes: u64,
}

fn rebuild_one(tables: &Tables, log: &Hash) -> Result<Rebuilt, LogError> {
    let mut frontier = Frontier::new();
    let mut leaves = tables.leaves.range((log, 0)..=(log, u64::MAX))?;
    let mut inner_nodes = 0;
    for entry in tables.heads.range((log, 0)..=(log, u64::MAX))? {
        let (key, bytes) = entry?;
        let size = key.value().1;
        while frontier.size() < size {
            let (key, data) = leaves
                .next()
                .ok_or_else(|| corrupt("a leaf is missing"))??;
            if key.value().1 != frontier.size() {
                return Err(corrupt("a leaf is missing"));
            }
            let number = tables.numbers.get((log, data.value()))?;
            let number = number.map(|number| number.value());
            // Of a receipt that is in the log twice, the first index.
            let first = match number {
                Some(number) => tables.leaves.get((log, number))?,
                None => None,
            };
            let is_first = first.is_some_and(|first| first.value() == data.value());
            if !is_first || number > Some(frontier.size()) {
                return Err(corrupt("the index of a receipt is not that of its leaf"));
            }
            let mut completed = Vec::new();
            frontier.append(data.value(), |position, hash| {
                completed.push((position, hash));
            });
            for (Position { level, index }, hash) in completed.into_iter().skip(1) {
                let node = tables.nodes.get((log, level, index))?;
                if node.is_none_or(|node| *node.value() != hash) {
                    return Err(corrupt("a node is not the hash of its leaves"));
                }
                inner_nodes += 1;
            }
        }
        let head = TreeHead::verify(bytes.value())
            .map_err(|_| corrupt("a stored head has no valid signature"))?;
        if head.log != *log || head.size != size || head.root != frontier.root() {
            return Err(corrupt("the root of the leaves is not the signed one"));
        }
        if tables.evidence.get(&head.document)?.is_none() {
            return Err(corrupt("the document of a head is missing"));
        }
    }
    Ok(Rebuilt {
        leaves: frontier.size(),
        inner_nodes,
    })
}

fn corrupt(what: &str) -> LogError {
    LogError::Corrupt(what.to_owned())
}
