//! The shared vectors, each appraised at its own time: genuine documents, documents that must be refused, and documents
//! under another root.

#![allow(
    clippy::unwrap_used,
    reason = "a vector that cannot be read is a failed test"
)]

use crate::common;
use attestation::cbor::{Kind, Reader, Rules};
use attestation::{
    Appraisal, AttestationDocument, CheckLog, Claims, Freshness, Policy, RowState, TrustAnchor,
    UnixMillis, Verdict,
};
use base16ct::lower::encode_string as hex;
use fixtures::row;
use serde_json::{Value, json};
use std::path::Path;

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_genuine_document_is_authentic_and_verified_by_a_policy_of_its_image() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let nitro = vectors.join("nitro");
    let aws = TrustAnchor::aws_nitro_g1();
    let index = read_json(&nitro.join("index.json"));
    let mut authentic = 0;
    for entry in index["documents"].as_array().unwrap() {
        let file = entry["file"].as_str().unwrap();
        let document = std::fs::read(nitro.join(file)).unwrap();
        let at = common::own_time(&document);
        let report = Appraisal::of(&document).inspect(&aws, at);
        if entry["expected"] != "valid" {
            assert_eq!(report.verdict, Verdict::Refused, "{file}");
            continue;
        }
        authentic += 1;
        assert_eq!(
            report.verdict,
            Verdict::Authentic,
            "{file}: {:?}",
            report.message
        );
        assert!(
            report.statements[0].holds
                && !report.statements[1].holds
                && !report.statements[2].holds
        );
        assert_eq!(report.chain.len(), 5, "{file}");
        let roles: Vec<_> = report
            .chain
            .iter()
            .map(|certificate| certificate.role.as_str())
            .collect();
        assert_eq!(roles, ["root", "regional", "zonal", "instance", "leaf"]);
        // Names agree in every document that AWS ever made.
        assert_eq!(
            row(&report.checks, 26).state,
            RowState::Passed,
            "{file}: {}",
            row(&report.checks, 26).observed
        );
        let seen = report.document.as_ref().unwrap();
        assert_eq!(
            seen.module_id,
            entry["module_id"].as_str().unwrap(),
            "{file}"
        );
        assert_eq!(
            seen.timestamp_ms,
            entry["timestamp"].as_u64().unwrap(),
            "{file}"
        );
        assert_eq!(seen.debug, entry["debug"].as_bool().unwrap(), "{file}");
        assert_eq!(
            seen.pcrs.len() as u64,
            entry["pcr_count"].as_u64().unwrap(),
            "{file}"
        );

        // Today every certificate has ended, or has not begun if the clock is wrong.
        let today = Appraisal::of(&document).inspect(&aws, UnixMillis(1_900_000_000_000));
        assert_eq!(today.code.as_deref(), Some("CERTIFICATE_EXPIRED"), "{file}");
        let before = Appraisal::of(&document).inspect(&aws, UnixMillis(1_600_000_000_000));
        assert_eq!(
            before.code.as_deref(),
            Some("CERTIFICATE_NOT_YET_VALID"),
            "{file}"
        );

        // A development build has another root.
        let ours = fixtures::Fixture::new().anchor;
        assert_eq!(
            Appraisal::of(&document).inspect(&ours, at).code.as_deref(),
            Some("ROOT_NOT_PINNED"),
            "{file}"
        );

        judge_with_policies(file, &document, at, entry);
    }
    assert!(authentic >= 58, "{authentic} genuine documents");
}

fn judge_with_policies(file: &str, document: &[u8], at: UnixMillis, entry: &Value) {
    // A policy that pins the zeros of debug mode is refused; such a document is appraised under any other one.
    let pcrs = match entry["debug"] == true {
        true => json!({ "0": "aa".repeat(48) }),
        false => {
            json!({ "0": entry["pcrs"]["0"], "1": entry["pcrs"]["1"], "2": entry["pcrs"]["2"] })
        }
    };
    let json = json!({
        "format": "clearseal-trust-policy/1", "name": "test", "root": "aws-nitro-enclaves-g1",
        "releases": [{ "name": "its-own", "pcrs": pcrs }],
    });
    let json: &'static str = json.to_string().leak();
    for (policy, verdict) in [
        (Policy::built_in(json), Verdict::Authentic),
        (Policy::chosen_by_hand(json.as_bytes()), Verdict::Authentic),
        (Policy::with_evidence(json.as_bytes()), Verdict::Simulated),
    ] {
        let policy = policy.unwrap();
        let freshness = Freshness::At {
            time: at,
            nonce: None,
        };
        let (report, concluded) = Appraisal::of(document).verify(&policy, freshness);
        let keys = concluded.including_simulated();
        assert!(keys.is_none(), "{file}: no manifest, no keys");
        if entry["debug"] == true {
            assert_eq!(report.code.as_deref(), Some("DEBUG_MODE"), "{file}");
        } else {
            assert_eq!(report.verdict, verdict, "{file}: {:?}", report.message);
            assert_eq!(
                report.statements[1].holds,
                verdict == Verdict::Authentic,
                "{file}"
            );
            assert!(!report.statements[2].holds, "{file}");
        }
    }
}

/// The codes that match the vector makers' intention. If this crate refuses at an earlier check, that code counts too.
fn codes(reason: &str) -> &'static [&'static str] {
    match reason {
        "cbor" => &["ENVELOPE_MALFORMED", "TRAILING_BYTES"],
        "cose_structure" => &["ENVELOPE_MALFORMED"],
        "alg" => &["ALGORITHM_REFUSED"],
        "payload" => &[
            "PAYLOAD_MALFORMED",
            "FIELD_MISSING",
            "FIELD_TYPE",
            "FIELD_DUPLICATE",
            "FIELD_UNKNOWN",
            "NITRO_TPM_DOCUMENT",
            "DIGEST_REFUSED",
            "TIMESTAMP_INVALID",
            "PCR_SET_INVALID",
            "CABUNDLE_INVALID",
            "CERTIFICATE_SIZE",
            "OPTIONAL_FIELD_SIZE",
        ],
        "root" => &["ROOT_NOT_PINNED"],
        "chain_issuer" => &["CHAIN_NAMES"],
        "chain_signature" => &["CHAIN_SIGNATURE", "CERTIFICATE_MALFORMED"],
        "chain_key" => &["CHAIN_ALGORITHM"],
        "chain_ca" => &[
            "BASIC_CONSTRAINTS",
            "PATH_LENGTH",
            "KEY_USAGE",
            "CRITICAL_EXTENSION",
        ],
        // Seconds mistaken for milliseconds are refused before the certificates are checked.
        "validity" => &[
            "CERTIFICATE_EXPIRED",
            "CERTIFICATE_NOT_YET_VALID",
            "TIMESTAMP_INVALID",
        ],
        // The header is compared as bytes, and the signature's length checked, before a signature is computed.
        "signature" => &["DOCUMENT_SIGNATURE", "SIGNATURE_SIZE", "ALGORITHM_REFUSED"],
        other => panic!("unknown reason {other}"),
    }
}

/// Vectors on which correct verifiers may differ, and this crate's result. `None` accepts.
fn decided(file: &str) -> Option<&'static str> {
    match file.rsplit('/').next().unwrap_or_default() {
        // A rewritten signature means the same; genuine ones are high or low.
        "def-sig-malleated.cbor" | "ok-user-data-1024.cbor" => None,
        // Validity is compared in whole seconds, as certificates write it.
        "policy-timestamp-ms-after-notafter.cbor" => None,
        // The hypervisor writes shortest heads, one definite array, and no chunks.
        "def-tag18-long.cbor" | "indef-tag18-long.cbor" | "indef-array-indefinite.cbor" => {
            Some("ENVELOPE_MALFORMED")
        }
        "policy-payload-chunked.cbor" => Some("ENVELOPE_MALFORMED"),
        "policy-nonshortest-text-head.cbor" | "bad-integer-key.cbor" => Some("PAYLOAD_MALFORMED"),
        "def-unprotected-x5chain.cbor" => Some("UNPROTECTED_HEADER"),
        "policy-protected-kid.cbor" | "policy-protected-indefinite.cbor" => {
            Some("ALGORITHM_REFUSED")
        }
        "policy-extra-field.cbor" => Some("FIELD_UNKNOWN"),
        "policy-chain-zonal-sha256.cbor" => Some("CHAIN_ALGORITHM"),
        "policy-chain-reversed.cbor" | "policy-chain-no-root.cbor" => Some("ROOT_NOT_PINNED"),
        "policy-chain-swapped.cbor" | "policy-chain-root-twice.cbor" => Some("CHAIN_NAMES"),
        other => panic!("{other}: no expected outcome"),
    }
}

#[test]
fn every_changed_document_is_judged_as_expected() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let nitro = vectors.join("nitro");
    let own_root = std::fs::read_dir(nitro.join("testpki"))
        .unwrap()
        .find_map(|entry| {
            let path = entry.unwrap().path();
            path.extension()
                .is_some_and(|extension| extension == "der")
                .then(|| std::fs::read(path).unwrap())
        });
    let own_root = TrustAnchor::development(&own_root.unwrap()).unwrap();
    let mut judged = 0;
    for (list, anchor) in [
        ("derived/cases.json", TrustAnchor::aws_nitro_g1()),
        ("testpki/cases.json", own_root),
    ] {
        for case in read_json(&nitro.join(list))["cases"].as_array().unwrap() {
            let file = case["file"].as_str().unwrap();
            let document = std::fs::read(nitro.join(file)).unwrap();
            let report = Appraisal::of(&document).inspect(&anchor, common::own_time(&document));
            let code = report.code.as_deref();
            match case["expected"].as_str().unwrap() {
                "valid" => assert_eq!(
                    report.verdict,
                    Verdict::Authentic,
                    "{file}: {:?}",
                    report.message
                ),
                "policy" => assert_eq!(code, decided(file), "{file}: {:?}", report.message),
                _ => {
                    let expected = codes(case["reason"].as_str().unwrap());
                    assert!(
                        code.is_some_and(|code| expected.contains(&code)),
                        "{file}: {code:?}, not {expected:?}"
                    );
                }
            }
            judged += 1;
        }
    }
    assert!(judged > 150, "{judged} cases");
}

#[test]
fn a_nitro_tpm_document_is_refused_by_name() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let document =
        std::fs::read(vectors.join("nitro/refused/20260201_lockboot_799ae6d1.cbor")).unwrap();
    let report =
        Appraisal::of(&document).inspect(&TrustAnchor::aws_nitro_g1(), common::own_time(&document));
    assert_eq!(report.code.as_deref(), Some("NITRO_TPM_DOCUMENT"));
}

#[test]
fn refused_documents_list_their_rows_in_the_order_in_which_they_ran() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let mut refused = 0;
    for (name, document, anchor, at) in common::nitro_documents(&vectors) {
        let report = Appraisal::of(&document).inspect(&anchor, at);
        if report.verdict == Verdict::Refused {
            refused += 1;
            fixtures::assert_in_run_order(&report.checks, &name);
        }
    }
    assert!(refused > 100, "{refused} documents");
}

#[test]
fn the_pinned_root_is_the_vectors_root() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let der = std::fs::read(vectors.join("nitro/aws_nitro_enclaves_root_g1.der")).unwrap();
    assert_eq!(hex(TrustAnchor::aws_nitro_g1().der()), hex(&der));
}

/// Properties of one accepted document.
struct Seen {
    genuine: bool,
    claims: Claims,
    payload: Vec<u8>,
    signature: Vec<u8>,
    tagged: bool,
    leaf_not_before: u64,
}

impl Seen {
    fn high_s(&self) -> bool {
        // Half of P-384's order begins with 7f, so this bit decides except for a share of 2^-190.
        self.signature[48] & 0x80 != 0
    }

    fn has(&self, field: &str) -> bool {
        let name = forge::cbor::text(field);
        self.payload
            .windows(name.len())
            .any(|window| window == name)
    }
}

type Form = (&'static str, bool, fn(&Seen) -> bool);

/// Forms that a verifier must accept, and whether a genuine document of AWS has each.
const FORMS: &[Form] = &[
    ("a definite map", true, |it| it.payload[0] == 0xa9),
    ("an indefinite map", true, |it| it.payload[0] == 0xbf),
    ("16 registers", true, |it| it.claims.pcrs.len() == 16),
    ("17 registers", false, |it| it.claims.pcrs.len() == 17),
    ("32 registers", false, |it| it.claims.pcrs.len() == 32),
    ("a high s", true, Seen::high_s),
    ("a low s", true, |it| !it.high_s()),
    ("no tag", true, |it| !it.tagged),
    ("tag 18", false, |it| it.tagged),
    ("an empty user_data", false, |it| {
        it.claims.user_data.as_deref() == Some(&[])
    }),
    ("a user_data of more than 512 bytes", true, |it| {
        it.claims
            .user_data
            .as_ref()
            .is_some_and(|data| data.len() > 512)
    }),
    ("a null user_data", true, |it| {
        it.has("user_data") && it.claims.user_data.is_none()
    }),
    ("a null nonce", true, |it| {
        it.has("nonce") && it.claims.nonce.is_none()
    }),
    ("a null public_key", true, |it| {
        it.has("public_key") && it.claims.public_key.is_none()
    }),
    ("no optional field", false, |it| {
        !it.has("user_data") && !it.has("nonce") && !it.has("public_key")
    }),
    ("a public_key", true, |it| {
        it.claims
            .public_key
            .as_ref()
            .is_some_and(|key| !key.is_empty())
    }),
    ("a nonce", true, |it| it.claims.nonce.is_some()),
    ("debug mode", true, |it| it.claims.debug_mode()),
    ("the second of the leaf's notBefore", true, |it| {
        it.claims.timestamp.seconds() == it.leaf_not_before
    }),
    ("later than the leaf's notBefore", true, |it| {
        it.claims.timestamp.seconds() > it.leaf_not_before
    }),
];

#[test]
fn every_form_that_must_be_accepted_is_among_the_vectors_and_is_accepted() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let mut seen = Vec::new();
    for (file, document, anchor, at) in common::nitro_documents(&vectors) {
        let report = Appraisal::of(&document).inspect(&anchor, at);
        if report.verdict != Verdict::Authentic {
            continue;
        }
        let parsed = AttestationDocument::parse(&document, &mut CheckLog::new()).unwrap();
        let mut reader = Reader::new(&document, Rules::Shortest);
        let tagged = reader.peek() == Ok(Kind::Tag);
        if tagged {
            reader.tag().unwrap();
        }
        reader.array().unwrap();
        reader.skip().unwrap();
        reader.skip().unwrap();
        seen.push(Seen {
            genuine: file.starts_with("documents/"),
            claims: parsed.claims().clone(),
            payload: reader.bytes().unwrap().to_vec(),
            signature: reader.bytes().unwrap().to_vec(),
            tagged,
            leaf_not_before: report.chain.last().unwrap().not_before,
        });
    }
    let absent: Vec<_> = FORMS
        .iter()
        .filter(|(_, genuine, is)| !seen.iter().any(|it| is(it) && (it.genuine || !genuine)))
        .map(|(form, ..)| form)
        .collect();
    assert!(absent.is_empty(), "no accepted document has {absent:?}");
}

/// The examples of the COSE working group: none is a Nitro document, and each is refused with the right reason.
#[test]
fn the_examples_of_the_cose_working_group_are_refused_for_the_right_reason() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let mut judged = 0;
    for folder in ["cose/ecdsa-examples", "cose/sign1-tests"] {
        for entry in std::fs::read_dir(vectors.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let json = read_json(&path);
            let hex = json["output"]["cbor"].as_str().unwrap();
            let document = base16ct::mixed::decode_vec(hex).unwrap();
            let report = Appraisal::of(&document)
                .inspect(&TrustAnchor::aws_nitro_g1(), UnixMillis(1_700_000_000_000));
            let name = path.file_stem().unwrap().to_str().unwrap();
            let code = match name {
                // COSE_Sign, with several signers.
                "ecdsa-01" | "ecdsa-02" | "ecdsa-03" | "ecdsa-04" => "ENVELOPE_MALFORMED",
                // The right algorithm, with a key identifier that no signature covers.
                "ecdsa-sig-02" => "UNPROTECTED_HEADER",
                // Tag 998.
                "sign-fail-01" => "ENVELOPE_MALFORMED",
                _ => "ALGORITHM_REFUSED",
            };
            assert_eq!(
                report.code.as_deref(),
                Some(code),
                "{name}: {:?}",
                report.message
            );
            judged += 1;
        }
    }
    assert_eq!(judged, 17);
}
