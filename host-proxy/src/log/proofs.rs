//! Reads heads and proofs from the file, as of the published head.
//!
//! Leaves are stored soon after their receipts were issued, and published at fixed intervals ([`Store::publish`]): a head for every
//! request would reveal when each request came.

use std::cmp::Reverse;

use merkle::Hash;
use merkle::head::TreeHead;
use merkle::json::{Consistency, Format, Inclusion, SignedHead};
use merkle::prove::{self, Nodes as _};
use merkle::tree::Frontier;
use merkle::verify::Tree;
use redb::ReadableDatabase as _;

use super::file::{EVIDENCE, HEADS, NUMBERS, NodeReader};
use super::{LogError, Store};

impl Store {
    /// Returns the published heads of at most `count` logs, the newest first: from the newest log on, or from the one that follows
    /// `after`. `None` where `after` is not published.
    pub(crate) fn summaries(&self, after: Option<&Hash>, count: usize) -> Option<Vec<TreeHead>> {
        let order = |head: &TreeHead| (Reverse(head.time), head.log);
        let logs = self.logs();
        let after = match after {
            Some(log) => Some(order(&logs.get(log)?.published?)),
            None => None,
        };
        let mut page: Vec<_> = logs
            .values()
            .filter_map(|state| state.published)
            .filter(|head| after.is_none_or(|after| order(head) > after))
            .collect();
        drop(logs);
        page.sort_by_key(order);
        page.truncate(count);
        Some(page)
    }

    /// Whether a log of this name is published.
    pub(super) fn is_published(&self, log: &Hash) -> bool {
        self.published(log).is_some()
    }

    fn published(&self, log: &Hash) -> Option<TreeHead> {
        self.logs().get(log)?.published
    }

    /// Returns the published head, or the newest published one of `size` leaves, with its evidence.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn head(&self, log: &Hash, size: Option<u64>) -> Result<Option<SignedHead>, LogError> {
        self.close_on_failure(self.read_head(log, size))
    }

    fn read_head(&self, log: &Hash, size: Option<u64>) -> Result<Option<SignedHead>, LogError> {
        let Some(newest) = self.verified_head(log)? else {
            return Ok(None);
        };
        let size = size.unwrap_or(newest.size);
        if size > newest.size {
            return Ok(None);
        }
        let transaction = self.database()?.begin_read()?;
        let heads = transaction.open_table(HEADS)?;
        let Some(head) = heads.get((log, size))? else {
            return Ok(None);
        };
        let head = head.value().to_vec();
        let (parsed, _) = TreeHead::parse(&head)?;
        let evidence = transaction.open_table(EVIDENCE)?;
        let evidence = evidence
            .get(&parsed.document)?
            .ok_or_else(|| LogError::Corrupt("the document of a head is missing".to_owned()))?;
        let (document, manifest) = evidence.value();
        Ok(Some(SignedHead {
            format: Format::new(),
            head,
            document: document.to_vec(),
            manifest: manifest.to_vec(),
        }))
    }

    /// Proves that a receipt, given by its SHA-256, is in the published tree of `log`.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn inclusion(&self, log: &Hash, receipt: &Hash) -> Result<Option<Inclusion>, LogError> {
        self.close_on_failure(self.read_inclusion(log, receipt))
    }

    fn read_inclusion(&self, log: &Hash, receipt: &Hash) -> Result<Option<Inclusion>, LogError> {
        let Some(newest) = self.verified_head(log)? else {
            return Ok(None);
        };
        let transaction = self.database()?.begin_read()?;
        let numbers = transaction.open_table(NUMBERS)?;
        let Some(index) = numbers
            .get((log, receipt))?
            .map(|number| number.value())
            // A leaf beyond the head is not published yet.
            .filter(|index| *index < newest.size)
        else {
            return Ok(None);
        };
        let path = prove::inclusion(&NodeReader::new(&transaction, log)?, index, newest.size)?;
        let heads = transaction.open_table(HEADS)?;
        let head = heads
            .get((log, newest.size))?
            .ok_or_else(|| LogError::Corrupt("the head of a tree is missing".to_owned()))?;
        // A file that was damaged since its check gives an error, never a wrong proof.
        merkle::verify::inclusion(receipt, index, newest.size, &path, &newest.root).map_err(
            |_| LogError::Corrupt("a proof does not lead to the signed root".to_owned()),
        )?;
        Ok(Some(Inclusion {
            format: Format::new(),
            index,
            path,
            head: head.value().to_vec(),
        }))
    }

    /// Proves that the tree of the first `from` leaves is a prefix of the tree of the first `to`; `None` where fewer are published.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn consistency(
        &self,
        log: &Hash,
        from: u64,
        to: Option<u64>,
    ) -> Result<Option<Consistency>, LogError> {
        self.close_on_failure(self.read_consistency(log, from, to))
    }

    fn read_consistency(
        &self,
        log: &Hash,
        from: u64,
        to: Option<u64>,
    ) -> Result<Option<Consistency>, LogError> {
        let Some(newest) = self.verified_head(log)? else {
            return Ok(None);
        };
        let to = to.unwrap_or(newest.size);
        if from > to || to > newest.size {
            return Ok(None);
        }
        let transaction = self.database()?.begin_read()?;
        let nodes = NodeReader::new(&transaction, log)?;
        let path = prove::consistency(&nodes, from, to)?;
        let tree_of = |size| {
            let frontier = Frontier::restore(size, |position| nodes.node(position))?;
            let root = frontier.root();
            Ok::<_, LogError>(Tree { size, root })
        };
        let (old, new) = (tree_of(from)?, tree_of(to)?);
        let heads = transaction.open_table(HEADS)?;
        let is_signed = match heads.get((log, to))? {
            Some(head) => TreeHead::parse(head.value())?.0.root == new.root,
            None => true,
        };
        // As for inclusion. A wrong proof would accuse the enclave of a second history.
        if !is_signed || merkle::verify::consistency(&old, &new, &path).is_err() {
            let damaged = "a proof is not one between the stored trees".to_owned();
            return Err(LogError::Corrupt(damaged));
        }
        Ok(Some(Consistency {
            format: Format::new(),
            from,
            to,
            path,
        }))
    }

    /// Returns the published head of `log`, after its tree has been verified.
    fn verified_head(&self, log: &Hash) -> Result<Option<TreeHead>, LogError> {
        self.tree(log)?;
        Ok(self.published(log))
    }
}
