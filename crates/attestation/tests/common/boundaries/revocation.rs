//! Check 27: revocation lists.

use attestation::ErrorCode::*;

use super::{Boundary, at};

/// Lists of every issuer, which name none of the chain's certificates.
const RIGHT: &[&str] = &["crls-of-every-issuer"];

pub(super) const BOUNDARIES: &[Boundary] = &[
    at(
        CrlTooLarge,
        "10 MiB together, 64 lists; a byte more, a list more",
        &["crls-of-10-mib", "64-crls"],
        &["crls-of-10-mib-and-a-byte", "65-crls"],
    ),
    at(
        CrlMalformed,
        "version 2 in strict DER with a nextUpdate, serial numbers of at most 20 bytes; anything else",
        &[
            "crls-of-every-issuer",
            "crl-without-entries",
            "crl-with-a-serial-of-20-bytes",
            "crl-with-an-entry-twice",
        ],
        &[
            "crl-cut",
            "crl-trailing-byte",
            "crl-long-length",
            "crl-version-1",
            "crl-without-next-update",
            "crl-with-a-serial-of-21-bytes",
            "crl-extension-twice",
            "crl-remove-from-crl",
        ],
    ),
    at(
        CrlCriticalExtension,
        "unknown extensions of the list and of an entry; the same, critical",
        &["crl-with-unknown-extensions"],
        &[
            "crl-unknown-critical-extension",
            "crl-entry-unknown-critical-extension",
        ],
    ),
    at(
        CrlDelta,
        "a complete list; changes to one",
        RIGHT,
        &["crl-delta"],
    ),
    at(
        CrlIndirect,
        "about the issuer's own certificates; about another's",
        RIGHT,
        &["crl-indirect", "crl-entry-of-another-issuer"],
    ),
    at(
        CrlAlgorithm,
        "ecdsa-with-SHA384; another hash",
        RIGHT,
        &["crl-signed-with-sha256"],
    ),
    at(
        CrlKeyUsage,
        "by a CA with cRLSign; by one without",
        RIGHT,
        &["crl-of-the-instance"],
    ),
    at(
        CrlSignature,
        "by its issuer's key over these bytes; by another key, over others",
        RIGHT,
        &[
            "crl-signed-by-another-key",
            "crl-hashed-with-sha256",
            "crl-without-its-revocation",
        ],
    ),
    at(
        CertificateRevoked,
        "other certificates; one of the chain, on any level, for any reason, in any list",
        RIGHT,
        &[
            "regional-revoked",
            "zonal-revoked",
            "instance-revoked",
            "leaf-revoked",
            "regional-on-hold",
            "regional-revoked-in-an-expired-crl",
        ],
    ),
    at(
        CrlNotYetValid,
        "the second of thisUpdate; the one before",
        &["crl-of-this-second"],
        &["crl-from-next-second"],
    ),
    at(
        CrlExpired,
        "the second of nextUpdate, or another list of the same CA; the next second",
        &["crl-until-this-second", "crl-expired-next-to-a-current-one"],
        &["crl-until-a-second-ago"],
    ),
    at(
        CrlScope,
        "of the address that the certificate names, of CA certificates; anything narrower",
        &["crl-of-the-certificates-address", "crl-of-cas-alone"],
        &[
            "crl-of-another-address",
            "crl-of-some-reasons",
            "crl-of-leaves-alone",
            "crl-of-attribute-certificates",
        ],
    ),
    at(
        RevocationUnknown,
        "a list for each certificate that names an address, under a policy that requires it; without one",
        &["crls-required"],
        &[
            "crls-required-and-withheld",
            "crls-required-and-one-withheld",
            "crls-required-and-of-another-issuer",
        ],
    ),
];
