//! `clearseal embed --bulk`: all batches over one channel, which is made again where it breaks.

use super::{Sink, batches, note, refused};
use anyhow::Result;
use clearseal_client::{Batch, Error, Part, blocking};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Batches that are read and not sent yet.
const READ_AHEAD: usize = 4;
/// As of a program that SIGINT ended.
const INTERRUPTED: u8 = 128 + 2;

/// Embeds standard input. Whatever ends it early, the rows that were written are whole and in order.
pub(super) fn embed(client: &blocking::Client, size: u16, sink: &mut Sink) -> Result<ExitCode> {
    let (send, mut receive) = mpsc::channel(READ_AHEAD);
    // Reading blocks, and standard input may be slow: answers must not wait for it. Ends with the process at the latest.
    let reader = std::thread::spawn(move || -> Result<()> {
        for batch in batches(std::io::stdin().lock(), size) {
            let (tag, texts) = batch?;
            if send.blocking_send(Batch { texts, tag }).is_err() {
                break;
            }
        }
        Ok(())
    });
    let mut failed = None;
    let outcome = client.bulk(
        &mut receive,
        |batch: &Batch<Vec<usize>>, Part { texts, outcome }| {
            let (numbers, lines) = (&batch.tag[texts.clone()], &batch.texts[texts]);
            let taken = match outcome {
                Ok(embedded) => sink.take(numbers, lines, &embedded),
                Err(error) => {
                    sink.leave_out(numbers, &error);
                    Ok(())
                }
            };
            taken.map_err(|error| {
                failed = Some(error);
                Error::Stopped
            })
        },
        async {
            // Where there is no handler, the system ends the process as it always did.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        },
    );
    match (outcome, failed) {
        (_, Some(error)) => Err(error),
        (Ok(_), None) => match reader.join() {
            Ok(read) => read.map(|()| sink.status()),
            Err(panic) => std::panic::resume_unwind(panic),
        },
        (Err(Error::Stopped), None) => {
            note("");
            note("stopped; the rows that were written are complete and in order");
            Ok(ExitCode::from(INTERRUPTED))
        }
        (Err(error), None) => refused(error),
    }
}
