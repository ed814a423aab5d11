//! `clearseal index migrate`: embeds the texts of an index again, over the channel of `clearseal embed --bulk`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use base16ct::lower::encode_string as hex;
use clearseal_client::{Client, Session};
use protocol::items::MAX_ROW;
use serde::Deserialize;

use super::folder::{Folder, VECTORS};
use super::identity::{Identity, IndexError};
use crate::args::IndexMigrateArgs;
use crate::embed::{Sink, build_client, connect, embed_batches, make_batches};
use crate::failure::report_failure;
use crate::notice::notice;
use crate::vector::lines;

pub(crate) fn migrate(args: &IndexMigrateArgs) -> Result<ExitCode> {
    let client = Client::builder(&args.url).accept_simulated(args.accept_simulated);
    let client = build_client(client, &args.policy)?;
    // Checked first: a wrong file must not leave a folder behind.
    let mut old = read_texts(&args.rows)?;
    let folder = Folder::open(&args.to)?;
    skip_kept(&mut old, &args.to.join(VECTORS), folder.rows)?;
    if folder.rows > 0 {
        notice(&format!("continuing after {} rows", folder.rows));
    }
    let session = match connect(&client) {
        Ok(session) => session,
        Err(error) => return report_failure(error),
    };
    let identity = identify(&session, folder.identity)?;
    let mut sink = Sink::append(folder.vectors, folder.proofs, identity);
    let ended = embed_batches(&client, make_batches(old, args.batch), &mut sink);
    let kept = sink.finish();
    let code = ended?;
    kept.map(|()| code)
}

/// The identity of all new rows: the attested model, and the prompt of the rows that are kept.
fn identify(session: &Session, kept: Option<Identity>) -> Result<Identity> {
    let model = &session.manifest().model;
    let mut identity = Identity {
        model: model.id.clone(),
        model_hash: hex(&model.sha256),
        dimension: usize::try_from(model.dimension)?,
        prompt: None,
    };
    if let Some(kept) = kept {
        let kept = Identity {
            dimension: identity.dimension,
            ..kept
        };
        kept.check(&identity)?;
        identity.prompt = kept.prompt;
    }
    Ok(identity)
}

/// A row of an index, as far as it is embedded again.
#[derive(Deserialize)]
struct OldRow {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    text: Option<String>,
}

type Texts = Box<dyn Iterator<Item = Result<(usize, String)>> + Send>;

/// Texts of a file of rows, with their numbers.
fn read_texts(path: &Path) -> Result<Texts> {
    let name = path.display().to_string();
    Ok(Box::new(lines(path, MAX_ROW)?.map(move |line| {
        let (line, row) = line?;
        let row: OldRow =
            serde_json::from_str(&row).with_context(|| format!("line {line} of {name}"))?;
        let text = row.text.ok_or(IndexError::NoText { line });
        let text = text.with_context(|| name.clone())?;
        Ok((row.index.unwrap_or(line - 1), text))
    })))
}

/// Passes over the texts that have a new row. A text that the service refused has none.
fn skip_kept(old: &mut Texts, new: &Path, rows: usize) -> Result<()> {
    for (at, row) in read_texts(new)?.take(rows).enumerate() {
        let (number, text) = row?;
        let is_there = loop {
            match old.next().transpose()? {
                Some((old_number, old_text)) if old_number == number => break old_text == text,
                Some(_) => {}
                None => break false,
            }
        };
        if !is_there {
            bail!(IndexError::SourceChanged { row: at + 1 });
        }
    }
    Ok(())
}
