//! `clearseal verify witnessed`: whether enough witnesses cosigned a checkpoint, and whether an entry is in it. Offline.

use std::process::ExitCode;

use ::witness::checkpoint::Checkpoint;
use ::witness::note::{Note, NoteError};
use ::witness::policy::{Policy, Witnessed, WitnessedError};
use ::witness::proof::{MalformedProof, TlogProof};
use ::witness::record;
use anyhow::{Result, bail};
use error_codes::Coded;
use merkle::json::hex;
use merkle::verify::{ProofError, Tree};
use serde::Serialize;

use crate::args::VerifyWitnessedArgs;
use crate::moment::Moment;
use crate::{input, render};

/// Exit status if the checkpoint or the entry is refused.
const REFUSED: u8 = 1;

/// Reason for a refusal.
#[derive(Debug, thiserror::Error, Coded)]
enum Refusal {
    #[error(transparent)]
    #[coded(transparent)]
    Note(#[from] NoteError),
    #[error(transparent)]
    #[coded(transparent)]
    Proof(#[from] MalformedProof),
    #[error(transparent)]
    #[coded(transparent)]
    Witnessed(#[from] WitnessedError),
    /// The earlier checkpoint is of another log.
    #[error("the earlier checkpoint is of {earlier:?}, and this one is of {origin:?}")]
    #[coded(
        "WITNESSED_EARLIER_OTHER_LOG",
        remedy = "Name a checkpoint of the same log with --earlier; if the log changed its origin, it began a new history."
    )]
    OtherLog {
        /// Origin of the earlier checkpoint.
        earlier: String,
        /// Origin of the judged one.
        origin: String,
    },
    /// Of the entry, or of the earlier checkpoint.
    #[error(transparent)]
    #[coded(transparent)]
    Tree(#[from] ProofError),
}

/// Result of the verification.
#[derive(Serialize)]
#[serde(untagged)]
enum Report {
    Witnessed {
        witnessed: bool,
        origin: String,
        size: u64,
        root: String,
        /// Number of the entry that was proven.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<u64>,
        /// Unix seconds at which the quorum had cosigned.
        time: u64,
        witnesses: Vec<Cosigned>,
    },
    Refused {
        witnessed: bool,
        code: String,
        message: String,
        remedy: String,
    },
}

#[derive(Serialize)]
struct Cosigned {
    name: String,
    time: u64,
}

/// Judges a checkpoint by a policy, and the entry of a record in it.
pub(crate) fn verify(args: &VerifyWitnessedArgs) -> Result<ExitCode> {
    let now = match args.at {
        Moment::Evidence => bail!("--at document: say for which moment a checkpoint is judged"),
        at => at.resolve(None).0 / 1000,
    };
    let policy = Policy::parse(&input::read(&args.policy)?)?;
    let file = input::read(&args.file)?;
    let record = args.record.as_deref().map(input::read).transpose()?;
    if record.is_some() != TlogProof::is_one(&file) {
        bail!(
            "the proof of an entry and --record FILE belong together: give both, or a checkpoint alone"
        );
    }
    let earlier = match &args.earlier {
        Some(path) => {
            let note = Note::parse(&input::read(path)?)?;
            Some(Checkpoint::parse(note.text())?)
        }
        None => None,
    };
    let judged = judge(
        &policy,
        &file,
        record.as_deref(),
        earlier.as_ref(),
        now,
        args.max_age,
    );
    let (report, status) = match judged {
        Ok((witnessed, index)) => (accept(witnessed, index), ExitCode::SUCCESS),
        Err(refusal) => (refuse(&refusal), ExitCode::from(REFUSED)),
    };
    print(&report, args.json)?;
    Ok(status)
}

fn judge(
    policy: &Policy,
    file: &[u8],
    record: Option<&[u8]>,
    earlier: Option<&Checkpoint>,
    now: u64,
    max_age: u64,
) -> Result<(Witnessed, Option<u64>), Refusal> {
    let proof = record.map(|_| TlogProof::parse(file)).transpose()?;
    let note = match &proof {
        Some(proof) => proof.note.clone(),
        None => Note::parse(file)?,
    };
    let witnessed = policy.judge(&note, now, max_age)?;
    let tree = witnessed.checkpoint.tree;
    if let (Some(proof), Some(record)) = (&proof, record) {
        proof.verify(&record::entry(record), &tree)?;
    }
    if let Some(earlier) = earlier {
        if earlier.origin != witnessed.checkpoint.origin {
            return Err(Refusal::OtherLog {
                earlier: earlier.origin.clone(),
                origin: witnessed.checkpoint.origin,
            });
        }
        compare(&earlier.tree, &tree)?;
    }
    Ok((witnessed, proof.map(|proof| proof.index)))
}

/// Compares two trees of one log without a consistency path. Witnesses have checked the path of a tree that grew.
fn compare(earlier: &Tree, tree: &Tree) -> Result<(), ProofError> {
    if tree.size < earlier.size {
        return Err(ProofError::Shrunk {
            from: earlier.size,
            to: tree.size,
        });
    }
    match tree.size == earlier.size && tree.root != earlier.root {
        true => Err(ProofError::Forked),
        false => Ok(()),
    }
}

fn accept(witnessed: Witnessed, index: Option<u64>) -> Report {
    let Checkpoint { origin, tree, .. } = witnessed.checkpoint;
    let cosigned = witnessed.cosigned.into_iter();
    Report::Witnessed {
        witnessed: true,
        origin,
        size: tree.size,
        root: hex(&tree.root),
        index,
        time: witnessed.time,
        witnesses: cosigned
            .map(|(name, time)| Cosigned { name, time })
            .collect(),
    }
}

fn refuse(refusal: &Refusal) -> Report {
    Report::Refused {
        witnessed: false,
        code: refusal.code().to_owned(),
        message: refusal.to_string(),
        remedy: refusal.remedy().to_owned(),
    }
}

fn print(report: &Report, json: bool) -> Result<()> {
    if json {
        return render::json(report);
    }
    let time = |seconds: u64| render::time(seconds.saturating_mul(1000));
    let lines = match report {
        Report::Refused {
            code,
            message,
            remedy,
            ..
        } => vec![
            format!("REFUSED  {code}"),
            format!("  {message}"),
            format!("  {remedy}"),
        ],
        Report::Witnessed {
            origin,
            size,
            root,
            index,
            witnesses,
            ..
        } => {
            let mut lines = vec![
                "WITNESSED".to_owned(),
                format!("  log        {origin}"),
                format!("  size       {size}"),
                format!("  root       {root}"),
            ];
            lines.extend(index.map(|index| format!("  entry      {index}")));
            lines.extend(witnesses.iter().map(|witness| {
                format!("  cosigned   {}  by {}", time(witness.time), witness.name)
            }));
            lines
        }
    };
    render::lines(&lines)
}
