//! Old heads are thinned: a head a second is worth keeping for a day, not for a year.
//!
//! Of a log whose newest head is older than [`RECENT`], the newest stays, and before it one for each hour of its life.
//! Receipts, nodes and evidence stay: inclusion in the newest tree, and consistency from any earlier head that somebody
//! kept, can be proven as before.

use merkle::Hash;
use merkle::head::TreeHead;
use redb::{Database, ReadableDatabase as _};

use super::LogError;
use super::store::HEADS;

/// Seconds after which a log's heads are thinned.
pub(super) const RECENT: u64 = 24 * 3600;
/// Seconds between the heads that stay.
const SPACING: u64 = 3600;
/// A log with no more heads than this is left alone.
const FEW: usize = 4;

/// Thins the heads of `log` as of `now` (Unix seconds). Returns how many went.
pub(super) fn thin(database: &Database, log: &Hash, now: u64) -> Result<u64, LogError> {
    let (first, last) = ((log, 0), (log, u64::MAX));
    let mut kept: Option<u64> = None;
    let mut surplus = Vec::new();
    {
        let heads = database.begin_read()?.open_table(HEADS)?;
        if heads.range(first..=last)?.nth(FEW).is_none() {
            return Ok(0);
        }
        // From the newest on: that one always stays.
        for entry in heads.range(first..=last)?.rev() {
            let (key, bytes) = entry?;
            let Ok((head, _)) = TreeHead::parse(bytes.value()) else {
                // Not ours to throw away: a check has to find it.
                continue;
            };
            match kept {
                None if head.time.saturating_add(RECENT) > now => return Ok(0),
                Some(time) if head.time.saturating_add(SPACING) > time => {
                    surplus.push(key.value().1);
                }
                _ => kept = Some(head.time),
            }
        }
    }
    if surplus.is_empty() {
        return Ok(0);
    }
    let transaction = database.begin_write()?;
    {
        let mut heads = transaction.open_table(HEADS)?;
        for size in &surplus {
            heads.remove((log, *size))?;
        }
    }
    transaction.commit()?;
    Ok(surplus.len() as u64)
}
