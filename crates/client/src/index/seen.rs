//! The newest head of an index that this client has seen.

use std::sync::{Mutex, PoisonError};

use sealed_index::{Head, HistoryError, IndexId, Statement};

use super::heads::{Heads, HeadsError};
use crate::error::Error;

/// The newest head of one index, in memory and, with [`Heads`], in a file.
pub(super) struct Seen {
    index: IndexId,
    newest: Mutex<Option<Head>>,
    heads: Option<Heads>,
}

impl Seen {
    pub(super) fn new(index: IndexId, heads: Option<Heads>) -> Self {
        let newest = heads.as_ref().and_then(|heads| heads.get(&index));
        Self {
            index,
            newest: Mutex::new(newest),
            heads,
        }
    }

    pub(super) fn newest(&self) -> Option<Head> {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that an answer continues the head that its request stated, and remembers the answer's head if it is newer than the newest.
    ///
    /// Requests may overlap, so an answer may be older than one that arrived before it.
    pub(super) fn accept(&self, sent: Option<&Head>, statement: &Statement) -> Result<(), Error> {
        if statement.id != self.index {
            return Err(Error::IndexAnswerInvalid);
        }
        if let Some(sent) = sent {
            check_continues(sent, statement)?;
        }
        let head = statement.head();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = &*newest {
            if head.version < newest.version {
                return Ok(());
            }
            check_continues(newest, statement)?;
        }
        if *newest != Some(head) {
            if let Some(heads) = &self.heads {
                heads.set(self.index, head)?;
            }
            *newest = Some(head);
        }
        Ok(())
    }

    pub(super) fn forget(&self) -> Result<(), HeadsError> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = None;
        match &self.heads {
            Some(heads) => heads.remove(&self.index),
            None => Ok(()),
        }
    }
}

/// Checks the versions whose relation an answer alone shows. The enclave checks the others.
fn check_continues(before: &Head, statement: &Statement) -> Result<(), HistoryError> {
    let head = statement.head();
    let (seen, newest) = (before.version, head.version);
    let is_forked = match newest.checked_sub(seen) {
        None => return Err(HistoryError::RolledBack { seen, newest }),
        Some(0) => head.head != before.head,
        Some(1) => statement.previous != before.head,
        Some(_) => false,
    };
    match is_forked {
        true => Err(HistoryError::Forked { seen }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sealed_index::IndexKey;

    use super::*;

    /// Version 0 and `count` versions after it. Histories of different `rows` are different.
    fn history(count: u64, rows: u64) -> Vec<Statement> {
        let first: Statement = serde_json::from_value(serde_json::json!({
            "id": IndexKey::new(&[7; 32]).id(),
            "version": 0,
            "previous": "00".repeat(32),
            "rows": rows,
            "map": "00".repeat(32),
            "settings": {
                "model": "toy",
                "model_hash": "00".repeat(32),
                "prompt": null,
                "dimensions": 4,
                "precision": "f32",
            },
        }))
        .unwrap();
        let mut history = vec![first];
        for version in 1..=count {
            let mut next = history.last().unwrap().clone();
            (next.previous, next.version) = (next.head().head, version);
            history.push(next);
        }
        history
    }

    fn seen() -> Seen {
        Seen::new(IndexKey::new(&[7; 32]).id(), None)
    }

    fn code(accepted: Result<(), Error>) -> String {
        accepted.map_or_else(|error| error.code().to_owned(), |()| "accepted".to_owned())
    }

    #[test]
    fn an_answer_may_be_older_than_one_that_overtook_it() {
        let (seen, history) = (seen(), history(5, 1));
        seen.accept(None, &history[1]).unwrap();
        let sent = seen.newest();
        // Three requests are on their way; the answer to the last one arrives first.
        for version in [4, 1, 3] {
            seen.accept(sent.as_ref(), &history[version]).unwrap();
            assert_eq!(seen.newest(), Some(history[4].head()), "{version}");
        }
        let sent = seen.newest();
        for version in [0, 3] {
            let accepted = seen.accept(sent.as_ref(), &history[version]);
            assert_eq!(code(accepted), "INDEX_ROLLED_BACK");
        }
        seen.accept(sent.as_ref(), &history[5]).unwrap();
        seen.forget().unwrap();
        assert_eq!(seen.newest(), None);
    }

    #[test]
    fn another_history_is_refused_whichever_answer_is_first() {
        let (ours, theirs) = (history(4, 1), history(4, 2));
        let seen = seen();
        seen.accept(None, &ours[2]).unwrap();
        for (sent, version) in [
            (Some(&ours[2]), 2),
            (Some(&ours[2]), 3),
            (None, 2),
            (None, 3),
        ] {
            let sent = sent.map(Statement::head);
            let accepted = seen.accept(sent.as_ref(), &theirs[version]);
            assert_eq!(code(accepted), "INDEX_FORKED", "{version}");
        }
        assert_eq!(seen.newest(), Some(ours[2].head()));
        let mut other = ours[3].clone();
        other.id = IndexKey::new(&[8; 32]).id();
        assert_eq!(code(seen.accept(None, &other)), "INDEX_ANSWER_INVALID");
    }
}
