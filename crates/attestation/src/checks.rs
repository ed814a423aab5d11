//! The table of checks: the question, the stage, and the clause that requires it.
//!
//! The order of the table is the order in which the checks run, so a reader of a report sees what passed before a refusal.
//! A check keeps its id when its position changes: documents and other programs refer to ids.

use crate::error::{AttestationError, ErrorCode};
use crate::report::{CheckLog, RowId, RowSpec};

/// One check with every code that it can refuse with, for reference pages.
#[derive(Clone, Debug)]
pub struct Check {
    /// The row.
    pub spec: &'static RowSpec,
    /// Codes in the order of [`ErrorCode::ALL`]; empty for informational checks.
    pub codes: Vec<ErrorCode>,
}

/// Every check, in the order in which they run.
pub fn checks() -> Vec<Check> {
    SPECS
        .iter()
        .map(|spec| Check {
            spec,
            codes: ErrorCode::ALL
                .iter()
                .copied()
                .filter(|code| code.check().number() == spec.id)
                .collect(),
        })
        .collect()
}

macro_rules! specs {
    ($( $id:literal $check:ident $name:literal, $stage:literal, $required:literal, $title:literal, $expected:literal, $clause:literal; )*) => {
        /// One check of an attestation document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum CheckId { $( #[doc = $title] $check = $id, )* }

        /// The rows of every attestation report, in the order in which the checks run.
        pub const SPECS: &[RowSpec] = &[$( RowSpec {
            id: $id, name: $name, stage: $stage, title: $title, required: $required, expected: $expected, clause: $clause,
        }, )*];
    };
}

impl RowId for CheckId {
    const SPECS: &'static [RowSpec] = SPECS;

    fn number(self) -> u8 {
        self as u8
    }
}

specs! {
    1 Envelope "envelope", "document", true, "Is it one signed envelope, of bounded size?",
        "One COSE_Sign1 array of 4, untagged or tag 18, at most 16,512 bytes", "RFC 9052 §4.2";
    3 Algorithm "algorithm", "document", true, "Is the algorithm ES384, and are there no other headers?",
        "Protected header a1013822 (ES384), unprotected header empty", "AWS NSM API, COSE and CBOR; RFC 9053 §2.1";
    4 Sizes "sizes", "document", true, "Do payload and signature have possible sizes?",
        "Payload of 1 to 16,384 bytes, signature of 96", "AWS NSM API, attestation document specification; RFC 9053 §2.1";
    5 Fields "fields", "document", true, "Is every mandatory field present, typed, and there once?",
        "The nine fields of an enclave's document", "AWS NSM API, attestation document specification; RFC 8949 §5.3.1";
    2 NoTrailingBytes "no-trailing-bytes", "document", true, "Does nothing follow the envelope or the payload?",
        "No byte left over", "RFC 8949 §1.2 (well-formed)";
    6 ModuleId "module-id", "document", true, "Does the document name the enclave?",
        "A module id of visible ASCII, not empty", "AWS NSM API, attestation document validation";
    7 Digest "digest", "document", true, "Are the measurements SHA-384?",
        "SHA384", "AWS NSM API, attestation document validation";
    8 Timestamp "timestamp", "document", true, "Does the document say when it was made?",
        "A moment in Unix milliseconds", "AWS NSM API, attestation document validation";
    9 Pcrs "pcrs", "document", true, "Are the measurements complete registers?",
        "1 to 32 registers, index 0 to 31, 48 bytes each", "AWS NSM API, attestation document validation";
    10 Cabundle "cabundle", "document", true, "Does a certificate chain come with it?",
        "At least one certificate, 1 to 1,024 bytes each", "AWS NSM API, attestation document validation";
    11 Certificate "certificate", "document", true, "Does the signing certificate have a possible size?",
        "1 to 1,024 bytes", "AWS NSM API, attestation document validation";
    12 OptionalFields "optional-fields", "document", true, "Do public key, user data and nonce have possible sizes?",
        "Null, or at most 1,024 bytes each", "AWS NSM API, attestation document validation";
    13 Root "root", "chain", true, "Does the chain begin with the pinned root?",
        "The pinned root certificate, byte for byte", "AWS Nitro Enclaves, verifying the root of trust; RFC 5280 §6.1.1 (d)";
    20 StrictDer "strict-der", "chain", true, "Is every certificate canonical, without unknown critical extensions?",
        "X.509 v3 in strict DER; nothing critical but basicConstraints and keyUsage", "X.690 §10, §11; RFC 5280 §4.2, §6.1.4 (o)";
    15 Names "names", "chain", true, "Does each issuer's name equal the subject before it?",
        "Names equal byte for byte", "RFC 5280 §6.1.3 (a)(4)";
    16 Validity "validity", "chain", true, "Is every certificate valid at the judged moment?",
        "notBefore ≤ judged moment ≤ notAfter, the root included", "RFC 5280 §6.1.3 (a)(2), §4.1.2.5";
    18 Constraints "constraints", "chain", true, "Was every issuer allowed to issue, and the leaf not?",
        "Critical CA:TRUE on issuers, path lengths respected, leaf CA:FALSE", "RFC 5280 §6.1.4 (k)–(m), §4.2.1.9";
    19 KeyUsage "key-usage", "chain", true, "May each key be used for what it signed?",
        "keyCertSign on issuers, digitalSignature on the leaf", "RFC 5280 §6.1.4 (n), §4.2.1.3";
    14 Signatures "signatures", "chain", true, "Is every certificate signed by the one before it?",
        "ECDSA on P-384 with SHA-384 throughout", "RFC 5280 §6.1.3 (a)(1); RFC 5758 §3.2";
    21 DocumentSignature "document-signature", "chain", true, "Did the leaf's key sign this document?",
        "A valid ES384 signature over the bytes as received", "RFC 9052 §4.4; RFC 9053 §2.1";
    26 NamesAgree "names-agree", "chain", false, "Do instance and region agree along the chain?",
        "Leaf named after the module id; one region throughout", "Observed in every document of AWS since 2021";
    17 JudgedTime "judged-time", "chain", true, "At which moment was all of this judged?",
        "One moment, named by the verifier and never by the document", "RFC 5280 §6.1.1 (b)";
    27 Revocation "revocation", "chain", true, "Was no certificate revoked?",
        "A current CRL for each certificate that names one, none of which it lists; without a CRL this is not judged, unless the policy requires it", "RFC 5280 §5, §6.3.3";
    23 DebugMode "debug-mode", "image", true, "Is the enclave closed to its operator?",
        "PCR0, PCR1 and PCR2 are not all zero", "AWS Nitro Enclaves CLI, run-enclave --debug-mode";
    22 Measurements "measurements", "image", true, "Are these the measurements of a released image?",
        "Every register that one release of the policy pins", "AWS Nitro Enclaves, PCR definitions; RFC 9334 §6.2";
    24 Freshness "freshness", "image", true, "Was the document made for us, just now?",
        "Our nonce, and an age within the policy", "RFC 9334 §10.2";
    25 Binding "binding", "binding", true, "Are the service's keys the attested ones?",
        "user_data is the hash of the manifest; key, model, version and mode agree", "docs/PROTOCOL.md §1";
}

impl ErrorCode {
    /// The check that refuses with this code.
    pub const fn check(self) -> CheckId {
        match self {
            Self::DocumentTooLarge | Self::EnvelopeMalformed => CheckId::Envelope,
            Self::TrailingBytes => CheckId::NoTrailingBytes,
            Self::AlgorithmRefused | Self::UnprotectedHeader => CheckId::Algorithm,
            Self::PayloadSize | Self::SignatureSize => CheckId::Sizes,
            Self::PayloadMalformed
            | Self::FieldMissing
            | Self::FieldType
            | Self::FieldDuplicate
            | Self::FieldUnknown
            | Self::NitroTpmDocument => CheckId::Fields,
            Self::ModuleIdEmpty | Self::ModuleIdUnprintable => CheckId::ModuleId,
            Self::DigestRefused => CheckId::Digest,
            Self::TimestampInvalid => CheckId::Timestamp,
            Self::PcrSetInvalid => CheckId::Pcrs,
            Self::CabundleInvalid => CheckId::Cabundle,
            Self::CertificateSize => CheckId::Certificate,
            Self::OptionalFieldSize => CheckId::OptionalFields,
            Self::RootNotPinned => CheckId::Root,
            Self::ChainAlgorithm | Self::ChainSignature => CheckId::Signatures,
            Self::ChainNames => CheckId::Names,
            Self::CertificateExpired | Self::CertificateNotYetValid => CheckId::Validity,
            Self::JudgedTimeMismatch => CheckId::JudgedTime,
            Self::BasicConstraints | Self::PathLength => CheckId::Constraints,
            Self::KeyUsage => CheckId::KeyUsage,
            Self::CertificateMalformed | Self::CriticalExtension => CheckId::StrictDer,
            Self::DocumentSignature => CheckId::DocumentSignature,
            Self::CrlTooLarge
            | Self::CrlMalformed
            | Self::CrlCriticalExtension
            | Self::CrlDelta
            | Self::CrlIndirect
            | Self::CrlAlgorithm
            | Self::CrlKeyUsage
            | Self::CrlSignature
            | Self::CertificateRevoked
            | Self::CrlNotYetValid
            | Self::CrlExpired
            | Self::CrlScope
            | Self::RevocationUnknown => CheckId::Revocation,
            Self::PcrMismatch
            | Self::ReleaseExpired
            | Self::ReleaseNotYetAccepted
            | Self::PolicyExpired => CheckId::Measurements,
            Self::DebugMode => CheckId::DebugMode,
            Self::NonceTooShort
            | Self::NonceMismatch
            | Self::DocumentStale
            | Self::DocumentFromFuture => CheckId::Freshness,
            Self::ManifestMalformed
            | Self::ManifestMismatch
            | Self::PublicKeyMismatch
            | Self::ModelMismatch
            | Self::PolicyVersionMismatch
            | Self::SecurityModeMismatch
            | Self::ManifestNotValid => CheckId::Binding,
        }
    }
}

impl AttestationError {
    /// Marks the row of this error's check as the reason for the refusal, and passes the error on.
    pub(crate) fn mark(self, log: &mut CheckLog<CheckId>) -> Self {
        log.fail(
            self.code().check(),
            self.code().code(),
            self.observed().to_string(),
        );
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_from_one_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        for spec in SPECS {
            assert!(names.insert(spec.name));
            assert!(spec.title.ends_with('?') && !spec.clause.is_empty());
        }
        let mut ids: Vec<_> = SPECS.iter().map(|spec| spec.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (1..=27).collect::<Vec<_>>());
    }

    /// A reader sees each stage under one heading.
    #[test]
    fn stages_are_not_mixed() {
        let mut stages: Vec<_> = SPECS.iter().map(|spec| spec.stage).collect();
        stages.dedup();
        assert_eq!(stages, ["document", "chain", "image", "binding"]);
    }

    #[test]
    fn codes_are_unique_shouted_and_tied_to_a_required_check() {
        let mut seen = std::collections::BTreeSet::new();
        for code in ErrorCode::ALL {
            assert!(seen.insert(code.code()), "{code} occurs twice");
            assert!(
                code.code()
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            );
            assert!(
                SPECS
                    .iter()
                    .any(|spec| spec.id == code.check().number() && spec.required),
                "{code} has no check"
            );
            assert!(
                code.remedy().ends_with('.') && !code.message().ends_with('.'),
                "{code}"
            );
        }
    }

    #[test]
    fn every_required_check_has_a_code() {
        for spec in SPECS.iter().filter(|spec| spec.required) {
            assert!(
                ErrorCode::ALL
                    .iter()
                    .any(|code| code.check().number() == spec.id),
                "check {} cannot fail",
                spec.id
            );
        }
    }
}
