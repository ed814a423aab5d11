//! The file of an answer, and its verification without the index key.
//!
//! The request holds the key, so it is not disclosed. The answer repeats what was asked, and the receipt commits to the answer.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use base64ct::{Base64UrlUnpadded, Encoding};
use clearseal_client::{IndexAnswer, IndexHit, Statement};
use protocol::bundle::AuditBundle;
use protocol::commitment::response_hash;
use sealed_index::{Disclosed, Metadata};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::VerifyBundleArgs;
use crate::attestation::{policy, stopwatch};
use crate::{input, receipt, render};

const FORMAT: &str = "clearseal-index-answer/1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFile {
    format: String,
    /// Receipt, evidence and salt.
    bundle: Box<RawValue>,
    /// Content of the answer, base64url without padding.
    response: String,
}

/// Writes the file of an answer.
pub(super) fn write(path: &Path, answer: &IndexAnswer) -> Result<()> {
    let bundle = answer.bundle().context("the answer has no receipt")?;
    let file = AnswerFile {
        format: FORMAT.to_owned(),
        bundle: RawValue::from_string(bundle.to_json()?)?,
        response: Base64UrlUnpadded::encode_string(answer.answer.content()),
    };
    let cannot = || format!("cannot write {}", path.display());
    let mut options = crate::private::options();
    let opened = options.write(true).create(true).truncate(true).open(path);
    let mut opened = opened.with_context(cannot)?;
    writeln!(opened, "{}", serde_json::to_string(&file)?).with_context(cannot)
}

/// The members of an answer that a verifier reads.
#[derive(Deserialize)]
struct Content {
    clearseal: Wrapped,
    object: String,
    k: u64,
    searched: u64,
    results: Value,
    asked: Option<Value>,
}

#[derive(Deserialize)]
struct Wrapped {
    index: Statement,
}

/// `clearseal verify answer`.
pub(crate) fn verify(args: &VerifyBundleArgs) -> Result<ExitCode> {
    let not_one = || format!("{} is not the answer of an index", args.file.display());
    let file: AnswerFile =
        serde_json::from_slice(&input::read(&args.file)?).with_context(not_one)?;
    if file.format != FORMAT {
        bail!("{}", not_one());
    }
    let mut bundle = AuditBundle::from_json(file.bundle.get())?;
    bundle.crls.extend(input::read_crls(&args.crls)?);
    let response = Base64UrlUnpadded::decode_vec(&file.response);
    let response = response.ok().with_context(not_one)?;
    let judged = bundle.verify(
        &policy(&args.policy)?,
        || Some(stopwatch()),
        &mut attestation::SignatureMemory::new(),
    );
    let status = render::status(judged.receipt.verdict, args.outcome.accepted());
    let refused = match &judged.receipt.claims {
        None => None,
        Some(claims) => {
            let salt = bundle.salt.context("the bundle has no salt")?;
            let hash = base16ct::lower::encode_string(&response_hash(&salt, &response));
            match hash == claims.response_hash {
                false => Some(Refusal::new(
                    "INDEX_ANSWER_ALTERED",
                    "the receipt is about another answer",
                )),
                true => check(&response, &claims.model_hash).err(),
            }
        }
    };
    if args.outcome.json {
        render::json(&serde_json::json!({
            "receipt": judged.receipt,
            "attestation": judged.attestation,
            "answer": match (&refused, &judged.receipt.claims) {
                (None, Some(_)) => "proved",
                _ => "refused",
            },
            "code": refused.as_ref().map(|refusal| &refusal.code),
        }))?;
    } else {
        receipt::print_receipt(&judged.receipt)?;
        render::blank()?;
        render::attestation(&judged.attestation)?;
        render::blank()?;
        match &refused {
            Some(refusal) => render::lines(&[format!(
                "answer: refused, {} [{}]",
                refusal.message, refusal.code
            )])?,
            None if judged.receipt.claims.is_some() => print_content(&response)?,
            None => {}
        }
    }
    Ok(match refused {
        Some(_) => ExitCode::FAILURE,
        None => status,
    })
}

/// Why the content of a genuine answer proves nothing about an index.
struct Refusal {
    code: String,
    message: String,
}

impl Refusal {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

/// Checks that the content is an answer to a query, of an index of the receipt's model, with a valid proof of every row.
fn check(response: &[u8], model_hash: &str) -> Result<(), Refusal> {
    let malformed = || {
        Refusal::new(
            "INDEX_ANSWER_MALFORMED",
            "it is not the answer to a query of an index",
        )
    };
    let content: Content = serde_json::from_slice(response).map_err(|_| malformed())?;
    if content.object != "index.results" {
        return Err(malformed());
    }
    let statement = &content.clearseal.index;
    if base16ct::lower::encode_string(&statement.settings.model_hash) != model_hash {
        return Err(Refusal::new(
            "INDEX_ANSWER_MODEL",
            "the index is not of the receipt's model",
        ));
    }
    let hits = read_hits(content.results).ok_or_else(malformed)?;
    for (number, hit) in hits.iter().enumerate() {
        let Some(proof) = &hit.proof else {
            return Err(Refusal::new(
                "INDEX_PROOF_MISSING",
                format!("result {number} has no proof"),
            ));
        };
        let metadata: Option<Metadata> = hit
            .metadata
            .clone()
            .map(serde_json::from_value)
            .transpose()
            .map_err(|_| malformed())?;
        let disclosed = Disclosed {
            text: hit.text.as_deref(),
            vector: hit.vector.as_deref(),
            metadata: metadata.as_ref(),
        };
        let verified = proof.verify(statement, &hit.id, disclosed);
        verified
            .map_err(|error| Refusal::new(error.code(), format!("result {number}: {error}")))?;
    }
    Ok(())
}

/// The results of one query or of several.
fn read_hits(results: Value) -> Option<Vec<IndexHit>> {
    match results.get(0).is_some_and(Value::is_array) {
        false => serde_json::from_value(results).ok(),
        true => {
            let lists: Vec<Vec<IndexHit>> = serde_json::from_value(results).ok()?;
            Some(lists.into_iter().flatten().collect())
        }
    }
}

fn print_content(response: &[u8]) -> Result<()> {
    let content: Content = serde_json::from_slice(response)?;
    let statement = &content.clearseal.index;
    let hits = read_hits(content.results).map_or(0, |hits| hits.len());
    let asked = content.asked.map_or_else(
        || "not stated in the answer".to_owned(),
        |asked| asked.to_string(),
    );
    render::facts(
        "Answer",
        &[
            (
                "index",
                format!("{}, version {}", statement.id, statement.version),
            ),
            ("root", base16ct::lower::encode_string(&statement.root())),
            (
                "head",
                base16ct::lower::encode_string(&statement.head().head),
            ),
            ("model", statement.settings.model.clone()),
            ("asked", asked),
            (
                "searched",
                format!(
                    "{} of {} rows, for the best {}",
                    content.searched, statement.rows, content.k
                ),
            ),
            (
                "proved",
                format!("{hits} rows are in the index as the answer states them"),
            ),
        ],
    )
}
