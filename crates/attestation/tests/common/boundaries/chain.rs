//! Checks 13 to 21: the certificates, and the signature of the document.

use attestation::ErrorCode::*;

use super::{Boundary, TWO_MOMENTS, at};

pub(super) const BOUNDARIES: &[Boundary] = &[
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
];
