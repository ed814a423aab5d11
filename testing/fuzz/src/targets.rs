//! The fuzz targets, with one file per kind of input.

mod attested;
mod cbor;
mod certificate;
mod channel;
mod container;
mod crl;
mod document;
mod envelope;
mod inner;
mod policy;
mod receipt;
mod sealed;

use crate::Target;

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "document",
        input: "attestation document as received: parse, authenticate, appraise, bind",
        run: document::document,
        seeds: document::document_seeds,
        dictionary: "evidence",
        max_len: attestation::MAX_DOCUMENT + 64,
    },
    Target {
        name: "payload",
        input: "payload of a document, signed by the leaf's key",
        run: document::payload,
        seeds: document::payload_seeds,
        dictionary: "evidence",
        max_len: 16_384 + 64,
    },
    Target {
        name: "certificate",
        input: "one certificate in DER",
        run: certificate::certificate,
        seeds: certificate::certificate_seeds,
        dictionary: "certificate",
        max_len: 1_088,
    },
    Target {
        name: "chain",
        input: "position, then the signed part of the certificate there, signed by its issuer's key",
        run: certificate::chain,
        seeds: certificate::chain_seeds,
        dictionary: "certificate",
        max_len: 1_088,
    },
    Target {
        name: "crl",
        input: "signed part of the root's revocation list, signed by its key",
        run: crl::crl,
        seeds: crl::crl_seeds,
        dictionary: "certificate",
        max_len: 1_088,
    },
    Target {
        name: "manifest",
        input: "service manifest",
        run: attested::manifest,
        seeds: attested::manifest_seeds,
        dictionary: "evidence",
        max_len: attestation::MAX_MANIFEST + 64,
    },
    Target {
        name: "key_list",
        input: "application/ohttp-keys",
        run: attested::key_list,
        seeds: attested::key_list_seeds,
        dictionary: "sealed",
        max_len: attestation::MAX_KEY_LIST + 64,
    },
    Target {
        name: "evidence",
        input: "answer of the attestation endpoint",
        run: attested::evidence,
        seeds: attested::evidence_seeds,
        dictionary: "evidence",
        max_len: attestation::MAX_EVIDENCE + 64,
    },
    Target {
        name: "cbor",
        input: "any CBOR, under all three rules",
        run: cbor::run,
        seeds: cbor::seeds,
        dictionary: "evidence",
        max_len: 4_096,
    },
    Target {
        name: "policy",
        input: "trust policy in JSON",
        run: policy::policy,
        seeds: policy::policy_seeds,
        dictionary: "json",
        max_len: 8_192,
    },
    Target {
        name: "bundle",
        input: "audit bundle in JSON",
        run: policy::bundle,
        seeds: policy::bundle_seeds,
        dictionary: "json",
        max_len: 32_768,
    },
    Target {
        name: "gateway",
        input: "encapsulated request as the enclave receives it",
        run: sealed::gateway,
        seeds: sealed::gateway_seeds,
        dictionary: "sealed",
        max_len: 4_096,
    },
    Target {
        name: "response",
        input: "encapsulated response as the page receives it",
        run: sealed::response,
        seeds: sealed::response_seeds,
        dictionary: "sealed",
        max_len: 4_096,
    },
    Target {
        name: "answer",
        input: "inner response, sealed by the enclave's key",
        run: sealed::answer,
        seeds: sealed::answer_seeds,
        dictionary: "inner",
        max_len: 4_096,
    },
    Target {
        name: "inner",
        input: "Binary HTTP message, opened",
        run: inner::run,
        seeds: inner::seeds,
        dictionary: "inner",
        max_len: 16_384,
    },
    Target {
        name: "receipt",
        input: "receipt as received",
        run: receipt::receipt,
        seeds: receipt::receipt_seeds,
        dictionary: "evidence",
        max_len: 4_096,
    },
    Target {
        name: "claims",
        input: "claims of a receipt, signed by the receipt key",
        run: receipt::claims,
        seeds: receipt::claims_seeds,
        dictionary: "evidence",
        max_len: 4_096,
    },
    Target {
        name: "container",
        input: "sealed container of a model: header, then chunks",
        run: container::run,
        seeds: container::seeds,
        dictionary: "container",
        max_len: 4_096,
    },
    Target {
        name: "envelope",
        input: "envelope of a key service, as the enclave receives it",
        run: envelope::envelope,
        seeds: envelope::envelope_seeds,
        dictionary: "certificate",
        max_len: key_release::MAX_ENVELOPE + 64,
    },
    Target {
        name: "channel_hello",
        input: "0 and a client hello, or 1 and a server hello",
        run: channel::hello,
        seeds: channel::hello_seeds,
        dictionary: "evidence",
        max_len: 4_096,
    },
    Target {
        name: "channel_frames",
        input: "what comes after the handshake on the stream of a channel",
        run: channel::frames,
        seeds: channel::frames_seeds,
        dictionary: "sealed",
        max_len: 1_024,
    },
    Target {
        name: "tensor",
        input: "payload of a tensor frame",
        run: channel::tensor,
        seeds: channel::tensor_seeds,
        dictionary: "sealed",
        max_len: 1_024,
    },
];

/// Checks that a report is consistent: it can be serialized; a refusal has a code, a message, a remedy and exactly one failed
/// row; any other report has none of these.
fn check_report(report: &attestation::AttestationReport) {
    use attestation::{RowState, Verdict};
    let refused = report.verdict == Verdict::Refused;
    let failed = |row: &&attestation::Row| row.state == RowState::Failed;
    assert_eq!(report.code.is_some(), refused);
    assert_eq!(report.message.is_some(), refused);
    assert_eq!(report.remedy.is_some(), refused);
    assert_eq!(
        report.checks.iter().filter(failed).count(),
        usize::from(refused)
    );
    // All certificates are under a development root, so no report may be fully verified.
    assert!(!matches!(report.verdict, Verdict::Verified(_)));
    assert!(report.statements.iter().all(|statement| !statement.holds));
    serde_json::to_string(report).expect("a report is JSON");
}

/// One byte flipped, removed, and duplicated: a fuzzer's first mutations, for seeds that must be near misses.
fn near_misses(good: &[u8]) -> Vec<Vec<u8>> {
    let mut flipped = good.to_vec();
    if let Some(last) = flipped.last_mut() {
        *last ^= 1;
    }
    vec![
        good.to_vec(),
        flipped,
        good[..good.len() / 2].to_vec(),
        [good, good].concat(),
        [good, &[0]].concat(),
        Vec::new(),
    ]
}
