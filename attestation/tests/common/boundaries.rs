//! Where each refusal begins: what is still accepted on one side, and what is refused on the other.
//!
//! Every code has a row, and every row names vectors on both sides; a test walks the table. Those inside must pass the
//! check, and for each code at least one of them is accepted as a whole: it is the refused document with that one thing
//! mended. `docs/CHECKS.md` is written from this table.

use super::{Scene, appraisal_cases, judged_at_another_moment};
use attestation::{ErrorCode, Row, RowState, inspect};
use std::collections::BTreeMap;

/// One bound of one check.
pub struct Boundary {
    /// The refusal beyond it.
    pub code: ErrorCode,
    /// The bound in words: accepted, then refused.
    pub bound: &'static str,
    /// Vectors that pass this check.
    pub within: &'static [&'static str],
    /// Vectors that this check refuses with this code.
    pub beyond: &'static [&'static str],
}

/// The vector for check 17, which no single question can provoke: it needs the stages, called one by one.
pub const TWO_MOMENTS: &str = "chain-and-age-at-two-moments";

const fn at(
    code: ErrorCode,
    bound: &'static str,
    within: &'static [&'static str],
    beyond: &'static [&'static str],
) -> Boundary {
    Boundary {
        code,
        bound,
        within,
        beyond,
    }
}

/// All of them, in the order of the codes.
pub const BOUNDARIES: &[Boundary] = {
    use ErrorCode::*;
    &[
        at(
            DocumentTooLarge,
            "16,512 bytes; 16,513",
            &[
                "payload-16384-under-tag-18",
                "largest-document-with-trailing-bytes",
            ],
            &["document-too-large"],
        ),
        at(
            EnvelopeMalformed,
            "an array of 4; of 3, of 5, of unknown length",
            &["genuine"],
            &["array-of-3", "array-of-5", "array-indefinite"],
        ),
        at(
            EnvelopeMalformed,
            "no tag, tag 18; any other, twice, in a longer head",
            &["genuine", "tag-18"],
            &["tag-17", "tag-98", "tag-18-twice", "tag-18-long-head"],
        ),
        at(
            EnvelopeMalformed,
            "16 containers inside each other; 17",
            &["unprotected-nested-16"],
            &["unprotected-nested-17", "unprotected-nested-5000"],
        ),
        at(
            TrailingBytes,
            "no byte after envelope and payload; one",
            &["genuine"],
            &["trailing-byte", "payload-trailing-byte"],
        ),
        at(
            AlgorithmRefused,
            "the bytes a1013822; anything else",
            &["genuine"],
            &[
                "alg-es256",
                "alg-es512",
                "alg-eddsa",
                "alg-text",
                "alg-long-head",
                "protected-with-kid",
            ],
        ),
        at(
            UnprotectedHeader,
            "the empty map a0; an entry, an indefinite map",
            &["genuine"],
            &[
                "unprotected-alg",
                "unprotected-x5chain",
                "unprotected-indefinite",
            ],
        ),
        at(
            PayloadSize,
            "1 to 16,384 bytes; 0, 16,385",
            &["payload-16384", "payload-of-1-byte"],
            &["payload-16385", "payload-empty"],
        ),
        at(
            SignatureSize,
            "96 bytes; 0, 95, 97",
            &["genuine"],
            &["signature-empty", "signature-95", "signature-97"],
        ),
        at(
            PayloadMalformed,
            "a definite or indefinite map in shortest heads; anything else",
            &["genuine", "definite-map"],
            &[
                "payload-not-a-map",
                "payload-cut",
                "module-id-long-head",
                "nonce-chunked",
            ],
        ),
        at(
            FieldMissing,
            "null or no optional field; no mandatory one",
            &["genuine", "optionals-absent"],
            &[
                "module-id-missing",
                "digest-missing",
                "timestamp-missing",
                "pcrs-missing",
                "certificate-missing",
                "cabundle-missing",
            ],
        ),
        at(
            FieldType,
            "each field in its own type; in another, or null where it is mandatory",
            &["genuine", "user-data-empty"],
            &[
                "module-id-bytes",
                "timestamp-negative",
                "pcr-index-text",
                "nonce-false",
                "certificate-null",
            ],
        ),
        at(
            FieldDuplicate,
            "each field and register once; twice, even with equal values",
            &["genuine", "fields-reversed"],
            &[
                "module-id-twice",
                "nonce-twice",
                "pcr0-twice",
                "pcr0-twice-equal",
            ],
        ),
        at(
            FieldUnknown,
            "the nine fields; a tenth",
            &["genuine"],
            &["unknown-field", "unknown-field-nested-5000"],
        ),
        at(
            NitroTpmDocument,
            "module ids …-enc…; …-tpm…, or nitrotpm_pcrs",
            &["genuine"],
            &["nitrotpm-module-id", "nitrotpm-pcrs"],
        ),
        at(
            ModuleIdEmpty,
            "1 character; none",
            &["module-id-of-1-character"],
            &["module-id-empty"],
        ),
        at(
            DigestRefused,
            "SHA384; anything else, other letters too",
            &["genuine"],
            &["digest-sha256", "digest-lower-case", "digest-empty"],
        ),
        at(
            TimestampInvalid,
            "10^12 (September 2001, the first that cannot be seconds) to the end of 9999; 0, 1, 10^12 − 1, a millisecond later",
            &["timestamp-september-2001", "timestamp-end-of-9999"],
            &[
                "timestamp-zero",
                "timestamp-one",
                "timestamp-before-2001",
                "timestamp-year-10000",
                "timestamp-max",
            ],
        ),
        at(
            PcrSetInvalid,
            "1 to 32 registers; none, 33",
            &["one-pcr", "17-pcrs", "32-pcrs"],
            &["pcrs-empty", "33-pcrs"],
        ),
        at(
            PcrSetInvalid,
            "index 0 to 31; 32, 256",
            &["pcr-31-only"],
            &["pcr-32", "pcr-256"],
        ),
        at(
            PcrSetInvalid,
            "48 bytes; 0, 32, 47, 49, 64",
            &["17-pcrs"],
            &[
                "pcr-empty",
                "pcr-32-bytes",
                "pcr-47-bytes",
                "pcr-49-bytes",
                "pcr-64-bytes",
            ],
        ),
        at(
            CabundleInvalid,
            "1 certificate and more; none",
            &["root-issues-leaf"],
            &["cabundle-empty"],
        ),
        at(
            CabundleInvalid,
            "1 to 1,024 bytes an entry; 0, 1,025",
            &["cabundle-entry-1024", "cabundle-entry-of-1-byte"],
            &["cabundle-entry-1025", "cabundle-empty-entry"],
        ),
        at(
            CertificateSize,
            "1 to 1,024 bytes; 0, 1,025",
            &["certificate-1024", "certificate-of-1-byte"],
            &["certificate-1025", "certificate-empty"],
        ),
        at(
            OptionalFieldSize,
            "null, 0 to 1,024 bytes; 1,025",
            &[
                "optionals-1024",
                "user-data-empty",
                "public-key-empty",
                "optionals-absent",
            ],
            &["public-key-1025", "user-data-1025", "nonce-1025"],
        ),
        at(
            RootNotPinned,
            "the pinned bytes; one more, another serial, another place",
            &["genuine"],
            &[
                "root-with-trailing-byte",
                "root-with-another-serial",
                "root-left-out",
                "cabundle-reversed",
            ],
        ),
        at(
            ChainAlgorithm,
            "P-384, uncompressed, ecdsa-with-SHA384 without parameters; anything else",
            &["genuine"],
            &[
                "leaf-key-p256",
                "leaf-key-p521",
                "leaf-key-p384-named-p256",
                "leaf-key-compressed",
                "leaf-key-rsa",
                "leaf-key-ed25519",
                "leaf-key-not-on-curve",
                "zonal-signed-with-sha256",
                "leaf-algorithm-with-parameters",
            ],
        ),
        at(
            ChainSignature,
            "by the certificate before; by any other key, over another hash",
            &["genuine", "zonal-left-out-by-its-issuer"],
            &[
                "regional-signed-by-itself",
                "zonal-signed-by-root",
                "instance-signed-by-leaf",
                "leaf-signed-by-zonal",
                "zonal-hashed-with-sha256",
            ],
        ),
        at(
            ChainNames,
            "equal byte for byte; another name, other letters, another order, one left out or twice",
            &["genuine", "root-issues-leaf"],
            &[
                "leaf-issuer-name",
                "regional-issuer-name",
                "issuer-name-in-other-case",
                "regional-and-zonal-swapped",
                "zonal-left-out",
                "root-twice",
            ],
        ),
        at(
            CertificateExpired,
            "the second of notAfter, of each of the five; the next",
            &[
                "root-in-its-last-second",
                "regional-ends-this-second",
                "zonal-ends-this-second",
                "instance-ends-this-second",
                "leaf-ends-this-second",
            ],
            &[
                "root-ended-a-second-ago",
                "regional-ended-a-second-ago",
                "zonal-ended-a-second-ago",
                "instance-ended-a-second-ago",
                "leaf-ended-a-second-ago",
            ],
        ),
        at(
            CertificateNotYetValid,
            "the second of notBefore, of each of the five; the one before",
            &[
                "root-in-its-first-second",
                "regional-starts-this-second",
                "zonal-starts-this-second",
                "instance-starts-this-second",
                "leaf-starts-this-second",
            ],
            &[
                "root-starts-next-second",
                "regional-starts-next-second",
                "zonal-starts-next-second",
                "instance-starts-next-second",
                "leaf-starts-next-second",
            ],
        ),
        at(
            JudgedTimeMismatch,
            "one moment for chain and age; two, a millisecond apart",
            &["everything-right"],
            &[TWO_MOMENTS],
        ),
        at(
            BasicConstraints,
            "critical, CA:TRUE on issuers, CA:FALSE without path length on the leaf; anything else",
            &["genuine"],
            &[
                "instance-not-a-ca",
                "regional-without-constraints",
                "zonal-constraints-not-critical",
                "leaf-is-a-ca",
                "leaf-without-constraints",
                "leaf-constraints-not-critical",
                "leaf-with-path-length",
                "leaf-issues-a-leaf",
            ],
        ),
        at(
            PathLength,
            "exactly as many issuers below as the path length says, or fewer; one more",
            &[
                "genuine",
                "zonal-left-out-by-its-issuer",
                "regional-without-path-length",
            ],
            &[
                "regional-path-length-1",
                "zonal-path-length-0",
                "one-issuer-too-many",
            ],
        ),
        at(
            KeyUsage,
            "keyCertSign on issuers, digitalSignature without keyCertSign on the leaf; anything else",
            &["genuine"],
            &[
                "zonal-without-cert-sign",
                "instance-without-key-usage",
                "leaf-without-digital-signature",
                "leaf-without-key-usage",
                "leaf-with-cert-sign",
            ],
        ),
        at(
            CertificateMalformed,
            "version 3 in strict DER; anything else",
            &["genuine", "leaf-with-unknown-extension"],
            &[
                "leaf-trailing-byte",
                "leaf-long-length",
                "leaf-version-2",
                "leaf-boolean-not-canonical",
                "leaf-30-february",
                "leaf-constraints-twice",
                "zonal-path-length-2-to-the-63",
            ],
        ),
        at(
            CriticalExtension,
            "an unknown extension; the same, critical",
            &["leaf-with-unknown-extension"],
            &[
                "leaf-unknown-critical-extension",
                "regional-unknown-critical-extension",
            ],
        ),
        at(
            DocumentSignature,
            "(r, s) and (r, n − s) by the leaf; any other bit, key or context, r or s of 0 or n",
            &["genuine", "signature-rewritten"],
            &[
                "signature-bit",
                "signature-r-zero",
                "signature-s-zero",
                "signature-s-is-order",
                "signed-by-instance",
                "signed-as-cose-sign",
                "signed-with-external-data",
            ],
        ),
        at(
            PcrMismatch,
            "every pinned register of one release; a bit off, absent, or from two releases",
            &["everything-right", "registers-that-nobody-pins"],
            &[
                "pcr0-other",
                "pcr2-other",
                "pcr1-absent",
                "registers-of-two-releases",
            ],
        ),
        at(
            ReleaseExpired,
            "the millisecond of not_after; the next",
            &[
                "release-at-its-last-millisecond",
                "release-that-follows-an-ended-one",
            ],
            &["release-withdrawn", "release-that-began-and-ended"],
        ),
        at(
            ReleaseNotYetAccepted,
            "the millisecond of not_before; the one before",
            &["release-at-its-first-millisecond"],
            &["release-not-begun"],
        ),
        at(
            PolicyExpired,
            "the millisecond of the policy's not_after; the next",
            &["policy-at-its-last-millisecond"],
            &["policy-over"],
        ),
        at(
            DebugMode,
            "one bit set in each of PCR0, PCR1 and PCR2; any of them all zero, even where the policy pins that",
            &["pcr0-of-a-single-bit"],
            &[
                "debug-mode-that-the-policy-pins",
                "debug-mode-in-pcr1-alone",
            ],
        ),
        at(
            NonceTooShort,
            "16 bytes; 15",
            &["nonce-of-16-bytes"],
            &["nonce-of-15-bytes"],
        ),
        at(
            NonceMismatch,
            "equal; another, longer, null",
            &["everything-right"],
            &["nonce-other", "nonce-longer", "nonce-null"],
        ),
        at(
            DocumentStale,
            "max_age_seconds; a millisecond more",
            &["age-at-the-maximum"],
            &["stale"],
        ),
        at(
            DocumentFromFuture,
            "clock_skew_seconds; a millisecond more",
            &["future-at-the-skew"],
            &["from-the-future", "far-future"],
        ),
        at(
            ManifestMalformed,
            "8,192 bytes; 8,193, or not a manifest",
            &["manifest-of-8192-bytes"],
            &[
                "manifest-attested-but-too-large",
                "manifest-attested-but-unreadable",
            ],
        ),
        at(
            ManifestMismatch,
            "the 32 bytes of its hash; another manifest, no user_data, a byte more",
            &["everything-right"],
            &[
                "manifest-byte",
                "manifest-empty",
                "user-data-null",
                "user-data-longer",
            ],
        ),
        at(
            PublicKeyMismatch,
            "the manifest's X25519 key; another, empty, null, or a manifest without one",
            &["everything-right"],
            &[
                "public-key-other",
                "public-key-of-no-bytes",
                "public-key-null",
                "no-x25519-key",
            ],
        ),
        at(
            ModelMismatch,
            "name and hash of the policy; another, or a policy that names none",
            &["everything-right"],
            &[
                "model-other-hash",
                "model-other-name",
                "model-not-in-policy",
            ],
        ),
        at(
            PolicyVersionMismatch,
            "the policy's; another, or a policy that names none",
            &["everything-right"],
            &["policy-version-other", "policy-version-not-in-policy"],
        ),
        at(
            SecurityModeMismatch,
            "the policy's; another, or a policy that names none",
            &["everything-right"],
            &["evaluation-under-production-policy", "mode-not-in-policy"],
        ),
        at(
            ManifestNotValid,
            "from clock_skew_seconds before not_before to the second of not_after; a second earlier or later",
            &["manifest-in-its-last-second", "manifest-begins-at-the-skew"],
            &["manifest-over", "manifest-not-begun"],
        ),
    ]
};

/// What became of every vector there is, by name: its code, where it was refused, and its rows.
pub fn judged() -> BTreeMap<&'static str, (Option<String>, Vec<Row>)> {
    let scene = Scene::new();
    let mut judged = BTreeMap::new();
    for vector in forge::vectors() {
        let document = scene.forged(vector.apply);
        let report = inspect(&document, &scene.anchor, super::NOW, None);
        judged.insert(vector.name, (report.code, report.checks));
    }
    for case in appraisal_cases() {
        let (report, _) = case.judge();
        judged.insert(case.name, (report.code, report.checks));
    }
    let (error, rows) = judged_at_another_moment();
    judged.insert(TWO_MOMENTS, (Some(error.code().to_string()), rows));
    judged
}

/// State of the row of `code` among `rows`.
pub fn state(code: ErrorCode, rows: &[Row]) -> RowState {
    rows.iter()
        .find(|row| row.id == code.check_id())
        .unwrap()
        .state
}
