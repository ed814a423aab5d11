//! The rest of a run in sealed requests, where no channel can be opened.

use std::collections::VecDeque;

use channel::bulk::{Backoff, Work as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Batch, Batches, Failure, Part, halves};
use crate::client::Client;
use crate::embeddings::Embeddings;
use crate::error::Error;

/// Requests at once: few enough that a host does not refuse them as one client's.
const AT_ONCE: usize = 4;

/// Sends the open batches and those that still arrive. Parts that were answered before earlier ones are computed again.
pub(super) async fn run<T, F>(
    work: &mut Batches<'_, T, F>,
    batches: &mut mpsc::Receiver<Batch<T>>,
) -> Result<(), Failure>
where
    F: FnMut(&Batch<T>, Part) -> Result<(), Error>,
{
    work.early.clear();
    let mut waiting = VecDeque::new();
    for piece in work.unanswered() {
        let mut fitting = Vec::new();
        work.fit(piece, &mut fitting)?;
        waiting.extend(fitting);
    }
    let (mut requests, mut is_input_complete) = (JoinSet::new(), false);
    loop {
        while requests.len() < AT_ONCE
            && let Some(piece) = waiting.pop_front()
        {
            let (client, texts) = (work.client.clone(), work.texts(&piece).to_vec());
            requests.spawn(async move { (piece, embed(&client, &texts).await) });
        }
        let has_room = work.has_room() && requests.len() < AT_ONCE;
        tokio::select! {
            Some(answered) = requests.join_next() => {
                let (piece, outcome) = answered.map_err(|_| Error::Internal)?;
                match outcome {
                    // The enclave does not name the text.
                    Err(error) if error.is_about_input() && piece.texts.len() > 1 => {
                        halves(piece).into_iter().rev().for_each(|half| waiting.push_front(half));
                    }
                    Err(error) if !error.is_about_input() => return Err(error.into()),
                    outcome => work.settle(piece, outcome)?,
                }
            }
            batch = batches.recv(), if has_room && !is_input_complete => match batch {
                Some(batch) => waiting.extend(work.admit(batch)?),
                None => is_input_complete = true,
            },
            else => return Ok(()),
        }
    }
}

/// Embeds texts, again after transient failures.
async fn embed(client: &Client, texts: &[String]) -> Result<Embeddings, Error> {
    let Backoff {
        first,
        longest,
        attempts,
    } = Backoff::default();
    let (mut pause, mut left) = (first, attempts);
    loop {
        match client.embed(texts).await {
            Err(error) if error.is_transient() && left > 0 => tokio::time::sleep(pause).await,
            outcome => return outcome,
        }
        (pause, left) = ((pause * 2).min(longest), left - 1);
    }
}
