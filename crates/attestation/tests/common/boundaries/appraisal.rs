//! Checks 22 to 25: the caller's demands.

use attestation::ErrorCode::*;

use super::{Boundary, at};

pub(super) const BOUNDARIES: &[Boundary] = &[
    at(
        PcrMismatch,
        "every pinned register of one release; a bit off, absent, or from two releases",
        &["everything-right", "registers-without-a-pin"],
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
        "one bit set in each of PCR0, PCR1 and PCR2; any of them all zero, even where the policy pins only the signer",
        &["pcr0-of-a-single-bit"],
        &["debug-mode-of-a-pinned-signer", "debug-mode-in-pcr1-alone"],
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
        "name and hash of the policy, an organisation before the name in both or in one; another, or a policy that names none",
        &[
            "everything-right",
            "model-with-organisation",
            "model-without-organisation",
            "model-among-others",
        ],
        &[
            "model-other-hash",
            "model-other-name",
            "model-names-and-hashes-exchanged",
            "model-longer-name",
            "model-other-organisation",
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
];
