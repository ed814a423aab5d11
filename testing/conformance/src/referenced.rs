//! Documents that are stored elsewhere and never copied: genuine ones of AWS, and changed ones with an expected verdict from
//! their authors. Identified by path and hash, and appraised as of their own timestamps.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use attestation::{
    Appraisal, AttestationDocument, CheckLog, ErrorCode, RowId, TrustAnchor, UnixMillis,
};
use base64ct::{Base64, Encoding};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::kit::Question;
use crate::protocol::{Request, Verdict};

/// Folder of the documents: `$CLEARSEAL_VECTORS`, otherwise next to the project; `None` if it is absent.
pub fn folder() -> Option<PathBuf> {
    Some(forge::shared_vectors()?.join("nitro"))
}

/// Every document of `folder` on which sound verifiers agree.
///
/// # Errors
/// If a file is missing, does not match its list, or is of an unknown kind.
pub fn questions(folder: &Path) -> Result<Vec<Question>> {
    let aws = TrustAnchor::aws_nitro_g1();
    let own = std::fs::read(folder.join("testpki/test_root.der")).context("no test root")?;
    let own = TrustAnchor::development(&own).context("the test root is not a certificate")?;
    let mut questions = Vec::new();
    for (list, member, anchor) in [
        ("index.json", "documents", &aws),
        ("derived/cases.json", "cases", &aws),
        ("testpki/cases.json", "cases", &own),
    ] {
        let json = std::fs::read(folder.join(list)).with_context(|| format!("no {list}"))?;
        let json: Value = serde_json::from_slice(&json)?;
        for entry in json[member].as_array().context("a list without entries")? {
            questions.extend(question(folder, entry, anchor)?);
        }
    }
    Ok(questions)
}

fn question(folder: &Path, entry: &Value, anchor: &TrustAnchor) -> Result<Option<Question>> {
    let file = entry["file"].as_str().context("an entry without a file")?;
    let document = std::fs::read(folder.join(file)).with_context(|| format!("no {file}"))?;
    ensure!(
        entry["sha256"].as_str()
            == Some(&base16ct::lower::encode_string(&Sha256::digest(&document))),
        "{file} is not the document that its list names"
    );
    let expected = match entry["expected"].as_str() {
        Some("valid") => Verdict::Accept,
        Some("invalid") => Verdict::Refuse,
        // Sound verifiers may differ, so no verifier is judged by it.
        Some("policy") => return Ok(None),
        _ => anyhow::bail!("{file}: the expected verdict is unknown"),
    };
    let time = AttestationDocument::parse(&document, &mut CheckLog::new())
        .map_or(UnixMillis(1_700_000_000_000), |parsed| {
            parsed.claims().timestamp
        });
    // The authors state the expected verdict; the check is the one with which this project's verifier refuses the document.
    let report = Appraisal::of(&document).inspect(anchor, time);
    let code = ErrorCode::ALL
        .iter()
        .find(|code| report.code.as_deref() == Some(code.code()));
    Ok(Some(Question {
        check: match expected {
            Verdict::Accept => 0,
            _ => code.map_or(0, |code| code.check().number()),
        },
        expected,
        may_differ: false,
        code: None,
        request: Request {
            id: file.to_owned(),
            document: Base64::encode_string(&document),
            time: time.0,
            root: Base64::encode_string(anchor.der()),
            policy: None,
        },
    }))
}
