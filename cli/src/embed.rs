//! `clearseal embed`: embeds the lines of standard input, each batch through a verified and sealed channel.

mod batch;
mod bulk;
mod output;
mod progress;
mod retry;
mod sink;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clearseal_client::{Client, Embeddings, Error, Session, State, blocking};

use crate::args::{EmbedArgs, PolicyFlags};
use crate::failure::{describe, report_failure};
use crate::follow;
use crate::notice::notice;
use batch::{BATCH_BYTES, read_batches};
pub(crate) use retry::retry;

pub(crate) use batch::make_batches;
pub(crate) use bulk::embed_batches;
pub(crate) use sink::{EmptyLines, Sink};

/// Embeds standard input to its end.
pub(crate) fn embed(args: &EmbedArgs) -> Result<ExitCode> {
    let client = Client::builder(&args.url)
        .accept_simulated(args.accept_simulated)
        .candidates(args.candidates.into());
    let client = build_client(client, &args.policy)?;
    let session = match connect(&client) {
        Ok(session) => session,
        Err(error) => return report_failure(error),
    };
    let dimension = usize::try_from(session.manifest().model.dimension)?;
    let mut sink = Sink::new(args, dimension)?;
    let ended = match args.bulk {
        true => {
            // Not locked: a locked standard input cannot be passed to another thread.
            let input = std::io::BufReader::new(std::io::stdin());
            let batches = read_batches(input, args.batch, sink.line_counter());
            embed_batches(&client, batches, &mut sink)
        }
        false => embed_requests(&client, args.batch, &mut sink),
    };
    // Keep the rows that were embedded before a failure, each of them whole.
    let kept = sink.finish();
    let code = ended?;
    kept.map(|()| code)
}

/// Gives the client its policy, and follows the changes of that policy.
pub(crate) fn build_client(
    client: clearseal_client::ClientBuilder,
    policy: &PolicyFlags,
) -> Result<blocking::Client> {
    let mut source = policy.source()?;
    let client = match &mut source {
        Some(source) => {
            let first = blocking::Client::load(source);
            client.policy(first.map_err(|error| follow::describe(&error))?)
        }
        None => client,
    };
    let client = client.build().map_err(|error| describe(&error))?;
    let client = blocking::Client::new(client).map_err(|error| describe(&error))?;
    if let Some(source) = source {
        let following = client.follow(source, follow::report_news);
        following.map_err(|error| describe(&error))?;
    }
    Ok(client)
}

/// Verifies the enclave, and warns of a simulated one.
pub(crate) fn connect(client: &blocking::Client) -> Result<Arc<Session>, Error> {
    let session = client.connect()?;
    warn_if_simulated(client);
    Ok(session)
}

/// Embeds standard input with one request per batch.
fn embed_requests(client: &blocking::Client, size: u16, sink: &mut Sink) -> Result<ExitCode> {
    for batch in read_batches(std::io::stdin().lock(), size, sink.line_counter()) {
        let batch = batch?;
        // The service does not name the line that it refuses; halving the batch finds it.
        let mut ranges = Vec::new();
        ranges.push(0..batch.texts.len());
        while let Some(range) = ranges.pop() {
            let (numbers, texts) = (&batch.numbers[range.clone()], &batch.texts[range.clone()]);
            match retry(|| embed_part(client, texts)) {
                Ok(embedded) => sink.write(numbers, texts, &embedded)?,
                Err(error) if !error.is_about_input() => return report_failure(error),
                Err(error) if texts.len() <= 1 => sink.report_refused(numbers, &error)?,
                Err(_) => {
                    let middle = range.start.midpoint(range.end);
                    ranges.extend([middle..range.end, range.start..middle]);
                }
            }
        }
    }
    sink.end()
}

/// Embeds `texts`, and refuses a line that may not fit into a request. [`read_batches`] gives such a line its own batch.
fn embed_part(client: &blocking::Client, texts: &[String]) -> Result<Embeddings, Error> {
    match texts {
        [text] if text.len() > BATCH_BYTES => Err(Error::TextTooLong { bytes: text.len() }),
        _ => client.embed(texts),
    }
}

fn warn_if_simulated(client: &blocking::Client) {
    if client
        .states()
        .iter()
        .any(|(_, state)| matches!(state, State::Simulated(_)))
    {
        notice("SIMULATED: this enclave proves nothing about hardware. Send nothing private.");
    }
}
