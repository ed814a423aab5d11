//! What is read of the file at start, and of one log when it is first used: its newest head, and the roots of its complete
//! subtrees. A few look-ups a log, however many receipts and heads there are; `host-proxy log check` reads the rest.

use std::collections::HashMap;
use std::sync::Arc;

use merkle::Hash;
use merkle::head::TreeHead;
use merkle::prove::Nodes as _;
use merkle::tree::Frontier;
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use super::LogError;
use super::file::{EVIDENCE, HEADS, Leaf, Reading};

/// A log as the open file knows it.
pub(super) struct Known {
    /// The newest head; verified where `tree` is there.
    pub(super) head: TreeHead,
    pub(super) tree: Option<Arc<Frontier>>,
    /// The head that strangers are shown. What is on disk at start is published then.
    pub(super) published: Option<TreeHead>,
}

/// Finds every log, and verifies the one that was signed last.
pub(super) fn logs(transaction: &ReadTransaction) -> Result<HashMap<Hash, Known>, LogError> {
    let heads = transaction.open_table(HEADS)?;
    let mut known = HashMap::new();
    let mut after: Option<Hash> = None;
    // One look-up leads to the first head of the next log, one more to its newest.
    while let Some(log) = next_log(&heads, after.as_ref())? {
        let (size, bytes) = newest(&heads, &log)?;
        let (head, _) =
            TreeHead::parse(&bytes).map_err(|_| corrupt("a stored head cannot be read"))?;
        if head.log != log || head.size != size {
            return Err(corrupt(MISPLACED));
        }
        let entry = Known {
            head,
            tree: None,
            published: Some(head),
        };
        known.insert(log, entry);
        after = Some(log);
    }
    let latest = known
        .iter()
        .max_by_key(|(_, known)| known.head.time)
        .map(|(log, _)| *log);
    if let Some(log) = latest
        && let Some(known) = known.get_mut(&log)
    {
        known.tree = Some(Arc::new(tree(transaction, &log)?));
    }
    Ok(known)
}

/// One log's tree, as its newest head and its subtrees give it. Verifies one signature.
pub(super) fn tree(transaction: &ReadTransaction, log: &Hash) -> Result<Frontier, LogError> {
    let heads = transaction.open_table(HEADS)?;
    let (size, bytes) = newest(&heads, log)?;
    let head = TreeHead::verify(&bytes).map_err(|_| corrupt("a stored head is not signed"))?;
    // An older head is signed as well: in the newest one's place it would roll the log back.
    if head.log != *log || head.size != size {
        return Err(corrupt(MISPLACED));
    }
    let reading = Reading::new(transaction, log)?;
    let frontier = Frontier::restore(head.size, |position| reading.node(position))?;
    if frontier.root() != head.root {
        return Err(corrupt("the leaves do not give a signed root"));
    }
    let evidence = transaction.open_table(EVIDENCE)?;
    if evidence.get(&head.document)?.is_none() {
        return Err(corrupt("a head without its document"));
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

/// The largest size that a head is stored for, and that head.
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
        None => Err(corrupt("a log without a head")),
    }
}

const MISPLACED: &str = "a head in the place of another";

fn corrupt(what: &str) -> LogError {
    LogError::Corrupt(what.to_owned())
}
