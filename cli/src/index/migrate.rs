//! `clearseal index migrate`: embeds the texts of an index again, over the channel of `clearseal embed --bulk`.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use base16ct::lower::encode_string as hex;
use clearseal_client::{Client, Session};
use protocol::items::MAX_ROW;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::folder::{DIGEST, Folder, VECTORS};
use super::identity::{Identity, IndexError, find_precision};
use crate::args::IndexMigrateArgs;
use crate::embed::{Sink, build_client, connect, embed_batches, make_batches};
use crate::failure::report_failure;
use crate::notice::notice;
use crate::vector::lines;

/// Exit status if the service refused some texts, in this run or in an earlier one.
const LINES_REFUSED: u8 = 3;

pub(crate) fn migrate(args: &IndexMigrateArgs) -> Result<ExitCode> {
    let client = Client::builder(&args.url).accept_simulated(args.accept_simulated);
    let client = build_client(client, &args.policy)?;
    let vectors = args.to.join(VECTORS);
    if is_same_file(&args.rows, &vectors) {
        bail!(IndexError::SourceIsTarget(vectors.display().to_string()));
    }
    // Checked first: a wrong file must not leave a folder behind.
    let mut old = read_texts(&args.rows)?;
    let mut folder = Folder::open(&args.to)?;
    let skipped = skip_kept(&mut old, &vectors, folder.rows, &folder.sent)?;
    if folder.rows > 0 {
        notice(&format!("continuing after {} rows", folder.rows));
    }
    let session = match connect(&client) {
        Ok(session) => session,
        Err(error) => return report_failure(error),
    };
    let identity = identify(&session, folder.identity.take())?;
    folder.cut(skipped.recorded)?;
    let mut sent = folder.sent;
    for digest in &skipped.unrecorded {
        sent.write_all(digest)?;
    }
    // Before a text is sent, so that a line without a row is known to be refused if a later one has a row.
    let old = old.map(move |text| {
        let text = text?;
        sent.write_all(&hash(&text))
            .context("cannot record what is sent")?;
        Ok(text)
    });
    let mut sink = Sink::append(folder.vectors, folder.proofs, identity);
    let ended = embed_batches(&client, make_batches(old, args.batch), &mut sink);
    let kept = sink.finish();
    let code = ended?;
    kept?;
    match skipped.refused {
        0 => return Ok(code),
        1 => notice("1 line was refused by an earlier run and has no row"),
        lines => notice(&format!(
            "{lines} lines were refused by earlier runs and have no rows"
        )),
    }
    Ok(match code == ExitCode::SUCCESS {
        true => ExitCode::from(LINES_REFUSED),
        false => code,
    })
}

/// Whether both names are of one file that exists.
fn is_same_file(left: &Path, right: &Path) -> bool {
    let number = |path| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    match (number(left), number(right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

/// The identity of all new rows: the attested model, and the prompt of the rows that are kept.
fn identify(session: &Session, kept: Option<Identity>) -> Result<Identity> {
    let model = &session.manifest().model;
    let mut identity = Identity {
        model: model.id.clone(),
        model_hash: hex(&model.sha256),
        precision: find_precision(&model.version),
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

/// The lines of the old index up to that of the last row that is kept.
#[derive(Default)]
struct Skipped {
    /// Lines whose digests are recorded.
    recorded: u64,
    /// Digests of the others: a run of an older version recorded none.
    unrecorded: Vec<[u8; DIGEST]>,
    /// Lines that the service refused.
    refused: u64,
}

/// Passes over the texts that have a new row, and those that the service refused: they were sent, and a later one has a row.
fn skip_kept(old: &mut Texts, new: &Path, rows: usize, sent: &File) -> Result<Skipped> {
    let mut digests = BufReader::new(sent);
    let mut skipped = Skipped::default();
    for (at, row) in read_texts(new)?.take(rows).enumerate() {
        let row = row?;
        let changed = IndexError::SourceChanged { row: at + 1 };
        loop {
            let Some(text) = old.next().transpose()? else {
                bail!(changed);
            };
            let (digest, has_row) = (hash(&text), text == row);
            match read_digest(&mut digests)? {
                Some(recorded) if recorded == digest => skipped.recorded += 1,
                None if has_row => skipped.unrecorded.push(digest),
                _ => bail!(changed),
            }
            if has_row {
                break;
            }
            skipped.refused += 1;
        }
    }
    Ok(skipped)
}

/// The next digest; `None` at the end, and for a last one that is not whole.
fn read_digest(digests: &mut impl Read) -> Result<Option<[u8; DIGEST]>> {
    let mut digest = [0; DIGEST];
    match digests.read_exact(&mut digest) {
        Ok(()) => Ok(Some(digest)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error).context("cannot read what an interrupted run wrote"),
    }
}

/// Digest of a text and its number.
fn hash((number, text): &(usize, String)) -> [u8; DIGEST] {
    let digest = Sha256::new().chain_update((*number as u64).to_be_bytes());
    digest.chain_update(text).finalize().into()
}
