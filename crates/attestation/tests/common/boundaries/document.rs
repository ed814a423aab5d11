//! Checks 1 to 12: the envelope and its payload.

use attestation::ErrorCode::*;

use super::{Boundary, at};

pub(super) const BOUNDARIES: &[Boundary] = &[
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
        ModuleIdUnprintable,
        "visible ASCII; control characters, white space, anything else",
        &["genuine", "module-id-of-1-character"],
        &[
            "module-id-escape",
            "module-id-line-break",
            "module-id-space",
            "module-id-delete",
            "module-id-right-to-left",
        ],
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
];
