//! Old heads are thinned: several heads a second are worth keeping for a day, not for a year.
//!
//! | age of a head | what stays |
//! | --- | --- |
//! | up to a day | every head |
//! | up to 30 days | the newest of each hour |
//! | more | the newest of each day |
//!
//! The newest head of a log always stays. Receipts, nodes and evidence stay: inclusion in the newest tree, and consistency
//! from any earlier head that somebody kept, are computed from leaves and can be proven as before.

use merkle::Hash;
use merkle::head::TreeHead;
use redb::{Database, ReadableDatabase as _};

use super::LogError;
use super::file::{HEADS, begin_write};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Age in seconds up to which every head stays.
const RECENT: u64 = DAY;
/// Age in seconds up to which a head an hour stays.
const MIDDLE: u64 = 30 * DAY;
/// Heads removed in one transaction: pulling waits for no more than these.
const AT_ONCE: usize = 4096;

/// Thins the heads of `log` as of `now` (Unix seconds). Returns how many were removed.
pub(super) fn thin(database: &Database, log: &Hash, now: u64) -> Result<u64, LogError> {
    let surplus = surplus(database, log, now)?;
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

/// Sizes whose heads can go.
fn surplus(database: &Database, log: &Hash, now: u64) -> Result<Vec<u64>, LogError> {
    let heads = database.begin_read()?.open_table(HEADS)?;
    let mut surplus = Vec::new();
    let mut kept = None;
    // From the newest on; the first is the log's newest, which always stays.
    for (place, entry) in heads.range((log, 0)..=(log, u64::MAX))?.rev().enumerate() {
        let (key, bytes) = entry?;
        // One that cannot be read stays: `log check` has to find it.
        let Ok((head, _)) = TreeHead::parse(bytes.value()) else {
            continue;
        };
        let Some(span) = span(head.time, now) else {
            continue;
        };
        if place > 0 && kept == Some(span) {
            surplus.push(key.value().1);
        }
        kept = Some(span);
    }
    Ok(surplus)
}

/// The hour or the day of which one head stays: its length, and its number. `None` where every head stays.
fn span(time: u64, now: u64) -> Option<(u64, u64)> {
    let length = match now.saturating_sub(time) {
        0..RECENT => return None,
        RECENT..MIDDLE => HOUR,
        _ => DAY,
    };
    Some((length, time / length))
}
