//! Summary of one item of an audit, and its link.

use attestation::RowState;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64UrlUnpadded, Encoding};
use protocol::commitment::request_hash;

use super::report::AuditSummary;
use super::{Entry, Reports, Subject};

pub(super) fn summarise(index: u32, entry: &Entry, judged: &Reports) -> AuditSummary {
    let Reports {
        attestation,
        receipt,
        basis,
        claimed: _,
    } = judged;
    let sha256 = match &entry.subject {
        Subject::Bundle { receipt, .. } | Subject::Receipt(receipt) => {
            Some(hex(&request_hash(receipt)))
        }
        Subject::Unreadable(_) => None,
    };
    let unsettled = receipt.checks.iter().filter(|row| match row.state {
        RowState::Passed => false,
        RowState::Skipped => row.stage != "policy",
        RowState::NotRun | RowState::Failed | RowState::Warning => row.required,
    });
    let claims = receipt.claims.as_ref();
    let document = attestation
        .as_ref()
        .and_then(|report| report.document.as_ref());
    let signer = match (document, basis) {
        // Sequence numbers are per key, and an enclave has a new key after each rotation.
        (Some(document), _) => match attestation.as_ref().and_then(|it| it.manifest.as_ref()) {
            Some(manifest) => {
                let key: String = manifest.receipt_key.chars().take(16).collect();
                format!("{}, key {key}…", document.module_id)
            }
            None => document.module_id.clone(),
        },
        (None, _) => "the key that you named".to_owned(),
    };
    AuditSummary {
        index,
        line: entry.line,
        verdict: receipt.verdict,
        attested: attestation.as_ref().map(|report| report.verdict),
        basis: *basis,
        unsettled: u32::try_from(unsettled.count()).unwrap_or(u32::MAX),
        code: receipt.code.clone(),
        sha256,
        signer: claims.map(|_| signer),
        sequence: claims.map(|claims| claims.sequence_number),
        issued_at: claims.map(|claims| claims.issued_at),
        model_id: claims.map(|claims| claims.model_id.clone()),
    }
}

/// Receipt and evidence without any content, for a link.
pub(super) fn link(subject: &Subject) -> Option<String> {
    let encode = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
    match subject {
        Subject::Bundle {
            receipt, evidence, ..
        } => Some(format!(
            "{}.{}.{}",
            encode(receipt),
            encode(&evidence.document),
            encode(&evidence.manifest)
        )),
        Subject::Receipt(receipt) => Some(encode(receipt)),
        Subject::Unreadable(_) => None,
    }
}
