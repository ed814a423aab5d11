//! Reads the newest head of each log at start, and the roots of a log's complete subtrees when it is first used. This takes a few
//! look-ups for each log, however many receipts and heads it has; `host-proxy log check` reads the rest.

use std::collections::HashMap;
use std::sync::Arc;

use merkle::Hash;
use merkle::head::TreeHead;
use merkle::prove::Nodes as _;
use merkle::tree::Frontier;
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use super::LogError;
use super::file::{EVIDENCE, HEADS, Leaf, NodeReader};

/// The state of a log in the open file.
pub(super) struct LogState {
    /// The newest head; verified where `tree` is `Some`.
    pub(super) head: TreeHead,
    pub(super) tree: Option<Arc<Frontier>>,
    /// The head that readers are shown. A head that is on disk at start is published.
    pub(super) published: Option<TreeHead>,
}

/// Finds every log, and verifies the one that was signed last.
pub(super) fn load_logs(
    transaction: &ReadTransaction,
) -> Result<HashMap<Hash, LogState>, LogError> {
    let heads = transaction.open_table(HEADS)?;
    let mut logs = HashMap::new();
    let mut after: Option<Hash> = None;
    // One look-up leads to the first head of the next log, one more to its newest.
    while let Some(log) = next_log(&heads, after.as_ref())? {
        let (size, bytes) = newest(&heads, &log)?;
        let (head, _) =
            TreeHead::parse(&bytes).map_err(|_| corrupt("a stored head cannot be read"))?;
        if head.log != log || head.size != size {
            return Err(corrupt(MISPLACED));
        }
        let entry = LogState {
            head,
            tree: None,
            published: Some(head),
        };
        logs.insert(log, entry);
        after = Some(log);
    }
    let latest = logs
        .iter()
        .max_by_key(|(_, state)| state.head.time)
        .map(|(log, _)| *log);
    if let Some(log) = latest
        && let Some(state) = logs.get_mut(&log)
    {
        state.tree = Some(Arc::new(load_tree(transaction, &log)?));
    }
    Ok(logs)
}

/// Restores one log's tree from its newest head and its subtrees. Verifies one signature.
pub(super) fn load_tree(transaction: &ReadTransaction, log: &Hash) -> Result<Frontier, LogError> {
    let heads = transaction.open_table(HEADS)?;
    let (size, bytes) = newest(&heads, log)?;
    let head =
        TreeHead::verify(&bytes).map_err(|_| corrupt("a stored head has no valid signature"))?;
    // An older head is signed too: in the newest one's place it would roll the log back.
    if head.log != *log || head.size != size {
        return Err(corrupt(MISPLACED));
    }
    let nodes = NodeReader::new(transaction, log)?;
    let frontier = Frontier::restore(head.size, |position| nodes.node(position))?;
    if frontier.root() != head.root {
        return Err(corrupt("the root of the leaves is not the signed one"));
    }
    let evidence = transaction.open_table(EVIDENCE)?;
    if evidence.get(&head.document)?.is_none() {
        return Err(corrupt("the document of a head is missing"));
    }
    Ok(frontier)
}

fn next_log(
    heads: &ReadOnlyTable<Leaf, &'static [u8]>,
    after: Option<&Hash>,
) -> Result<Option<Hash>, LogError> {
    let mut range = match after {
        None => heads.iter()?,
        // Beyond every size of that log.
        Some(log) => heads.range((log, u64::MAX)..)?,
    };
    Ok(match range.next() {
        None => None,
        Some(entry) => Some(*entry?.0.value().0),
    })
}

/// Returns the largest size for which a head is stored, and that head.
fn newest(
    heads: &ReadOnlyTable<Leaf, &'static [u8]>,
    log: &Hash,
) -> Result<(u64, Vec<u8>), LogError> {
    let last = heads.range((log, 0)..=(log, u64::MAX))?.next_back();
    match last {
        Some(entry) => {
            let (key, bytes) = entry?;
            Ok((key.value().1, bytes.value().to_vec()))
        }
        None => Err(corrupt("a log has no head")),
    }
}

const MISPLACED: &str = "a head is stored in the place of another one";

fn corrupt(what: &str) -> LogError {
    LogError::Corrupt(what.to_owned())
}
