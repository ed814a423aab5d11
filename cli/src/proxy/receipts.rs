//! Audit bundles on disk: JSON lines, in files of a bounded size.
//!
//! | rule | where |
//! | --- | --- |
//! | One process writes a file | `FILE.lock`, an advisory lock |
//! | A bundle is on the disk before its answer is given | [`ReceiptFile::write`]: `fdatasync`, one for all bundles that wait at that time |
//! | A line that broke off is never continued | [`lines`] cuts it off; [`torn`] does so when a file is opened |
//! | No full file is replaced | [`lines`] reserves its number |

mod lines;
mod torn;

use anyhow::{Context, Result, bail};
use lines::LineFile;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// Bundles that wait for the disk; above it those who write wait.
const QUEUE: usize = 1024;

/// The file that is being written. Full ones are kept in the same folder, numbered from 1: `receipts.jsonl.1` is the oldest.
pub(super) struct ReceiptFile {
    queue: mpsc::Sender<Pending>,
}

struct Pending {
    line: Vec<u8>,
    /// Whether the line is on the disk.
    written: oneshot::Sender<bool>,
}

impl ReceiptFile {
    /// Appends to `path`, and begins a new file where it would get longer than `limit` bytes. `report` gets sentences for people.
    pub(super) fn open(
        path: &Path,
        limit: u64,
        report: impl Fn(&str) + Send + 'static,
    ) -> Result<Self> {
        let file = LineFile::open(path, limit, &report)?;
        let (queue, pending) = mpsc::channel(QUEUE);
        // A thread, because writing through to a disk takes milliseconds, and other requests go on meanwhile.
        std::thread::Builder::new()
            .name("receipts".to_owned())
            .spawn(move || write_all(file, pending, &report))
            .context("the operating system gives no thread")?;
        Ok(Self { queue })
    }

    /// Writes one line, and returns when it is on the disk.
    pub(super) async fn write(&self, bundle: &str) -> Result<()> {
        let value: serde_json::Value = serde_json::from_str(bundle)?;
        let line = format!("{value}\n").into_bytes();
        let (written, outcome) = oneshot::channel();
        let sent = self.queue.send(Pending { line, written }).await;
        if sent.is_err() || !outcome.await.unwrap_or(false) {
            bail!("the receipt is not on the disk");
        }
        Ok(())
    }
}

/// Ends when the queue does. Lines that wait together are written through to the disk together.
fn write_all(mut file: LineFile, mut queue: mpsc::Receiver<Pending>, report: &impl Fn(&str)) {
    let mut failing = false;
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        while let Ok(next) = queue.try_recv() {
            group.push(next);
        }
        let lines: Vec<&[u8]> = group.iter().map(|pending| &*pending.line).collect();
        let committed = file.commit(&lines, report);
        match (&committed.failure, failing) {
            (Some(error), false) => report(&format!(
                "no receipt can be written, and requests get RECEIPT_NOT_WRITTEN until it can: {error:#}"
            )),
            (None, true) => report("receipts are written again"),
            _ => {}
        }
        failing = committed.failure.is_some();
        for (pending, written) in group.into_iter().zip(committed.written) {
            // Its request may have been given up; the line is there all the same.
            let _ = pending.written.send(written);
        }
    }
}
