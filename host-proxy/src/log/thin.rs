//! Thins old heads: several heads a second are worth keeping for a day, not for a year.
//!
//! | age of a head | kept |
//! | --- | --- |
//! | up to a day | every head |
//! | up to 30 days | the newest of each hour |
//! | more | the newest of each day |
//!
//! The newest and the published head of a log are always kept, and so are receipts, nodes and evidence: proofs of inclusion in the newest tree, and of
//! consistency from any earlier head that a reader kept, are computed from leaves.

use merkle::Hash;
use merkle::head::TreeHead;
use redb::{Database, ReadableDatabase as _};

use super::LogError;
use super::file::{HEADS, begin_write};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Age in seconds up to which every head is kept.
const RECENT: u64 = DAY;
/// Age in seconds up to which one head an hour is kept.
const MIDDLE: u64 = 30 * DAY;
/// Heads that are removed in one transaction, for which pulling has to wait.
const AT_ONCE: usize = 4096;

/// Thins the heads of `log` as of `now` (Unix seconds), but not the one of size `published`. Returns how many were removed.
pub(super) fn thin(
    database: &Database,
    log: &Hash,
    published: Option<u64>,
    now: u64,
) -> Result<u64, LogError> {
    let mut surplus = find_surplus(database, log, now)?;
    surplus.retain(|size| Some(*size) != published);
    for sizes in surplus.chunks(AT_ONCE) {
        let transaction = begin_write(database)?;
        {
            let mut heads = transaction.open_table(HEADS)?;
            for size in sizes {
                heads.remove((log, *size))?;
            }
        }
        transaction.commit()?;
    }
    Ok(surplus.len() as u64)
}

/// Returns the sizes whose heads can be removed.
fn find_surplus(database: &Database, log: &Hash, now: u64) -> Result<Vec<u64>, LogError> {
    let heads = database.begin_read()?.open_table(HEADS)?;
    let mut surplus = Vec::new();
    let mut kept = None;
    // From the newest on; the first is the log's newest, which is always kept.
    for (position, entry) in heads.range((log, 0)..=(log, u64::MAX))?.rev().enumerate() {
        let (key, bytes) = entry?;
        // An unreadable head is kept, for `log check` to find.
        let Ok((head, _)) = TreeHead::parse(bytes.value()) else {
            continue;
        };
        let Some(span) = span(head.time, now) else {
            continue;
        };
        if position > 0 && kept == Some(span) {
            surplus.push(key.value().1);
        }
        kept = Some(span);
    }
    Ok(surplus)
}

/// Returns the hour or the day of which one head is kept, as its length and its number. `None` where every head is kept.
fn span(time: u64, now: u64) -> Option<(u64, u64)> {
    let length = match now.saturating_sub(time) {
        0..RECENT => return None,
        RECENT..MIDDLE => HOUR,
        _ => DAY,
    };
    Some((length, time / length))
}
