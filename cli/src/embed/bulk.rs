//! `clearseal embed --bulk`: all batches over one channel, which reconnects after a failure. Without a channel, in sealed requests.

use std::process::ExitCode;

use anyhow::Result;
use clearseal_client::{Batch, Error, Part, blocking};
use tokio::sync::mpsc;

use super::batch::LineBatch;
use super::sink::Sink;
use crate::failure::report_failure;
use crate::notice::notice;

/// Maximum number of batches that are read but not sent yet.
const READ_AHEAD: usize = 4;
/// Exit status of a program that SIGINT ended.
const INTERRUPTED: u8 = 128 + 2;

/// Embeds all batches. If anything ends the run early, the rows that were written are whole and in order.
pub(crate) fn embed_batches(
    client: &blocking::Client,
    batches: impl Iterator<Item = Result<LineBatch>> + Send + 'static,
    sink: &mut Sink,
) -> Result<ExitCode> {
    let (send, mut receive) = mpsc::channel(READ_AHEAD);
    // A separate thread: reading blocks, and answers must not wait for a slow standard input. It ends with the process at the latest.
    let reader = std::thread::spawn(move || -> Result<()> {
        for batch in batches {
            let LineBatch { numbers, texts } = batch?;
            let batch = Batch {
                texts,
                tag: numbers,
            };
            if send.blocking_send(batch).is_err() {
                break;
            }
        }
        Ok(())
    });
    let (mut failed, mut is_told) = (None, false);
    let outcome = client.bulk(
        &mut receive,
        |batch: &Batch<Vec<usize>>, part| {
            let Part {
                texts,
                outcome,
                without_channel,
            } = part;
            if let Some(problem) = without_channel
                && !std::mem::replace(&mut is_told, true)
            {
                notice(&format!(
                    "{problem} ({}); continuing in sealed requests, which are slower. {}",
                    problem.code, problem.remedy
                ));
            }
            let (numbers, lines) = (&batch.tag[texts.clone()], &batch.texts[texts]);
            let written = match outcome {
                Ok(embedded) => sink.write(numbers, lines, &embedded),
                Err(error) => sink.report_refused(numbers, &error),
            };
            written.map_err(|error| {
                failed = Some(error);
                Error::Stopped
            })
        },
        async {
            // Without a handler, SIGINT ends the process.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        },
    );
    match (outcome, failed) {
        (_, Some(error)) => Err(error),
        (Ok(_), None) => match reader.join() {
            Ok(read) => read.and_then(|()| sink.end()),
            Err(panic) => std::panic::resume_unwind(panic),
        },
        (Err(Error::Stopped), None) => {
            notice("");
            notice("stopped; the rows that were written are complete and in order");
            Ok(ExitCode::from(INTERRUPTED))
        }
        (Err(error), None) => report_failure(error),
    }
}
