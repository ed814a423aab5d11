//! Every way in which evidence can be refused: stable codes, each tied to one check.

use crate::checks::CheckId;
use crate::report::Ladder;
use std::fmt;

/// Why evidence was refused. The text says what the evidence held; nothing in it comes from a user's request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {observed}", code.message())]
pub struct AttestationError {
    code: ErrorCode,
    observed: String,
}

impl AttestationError {
    pub(crate) fn new(code: ErrorCode, observed: impl Into<String>) -> Self {
        Self {
            code,
            observed: observed.into(),
        }
    }

    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// What the evidence held, for a person.
    pub fn observed(&self) -> &str {
        &self.observed
    }

    /// What to do next.
    pub fn remedy(&self) -> &'static str {
        self.code.remedy()
    }

    /// Marks the row of this error's check as the reason for the refusal, and passes the error on.
    pub(crate) fn mark(self, ladder: &mut Ladder<CheckId>) -> Self {
        ladder.fail(self.code.check(), self.code.as_str(), self.observed.clone());
        self
    }
}

macro_rules! error_codes {
    ($( $variant:ident = $text:literal, $check:ident, $message:literal, $remedy:literal; )*) => {
        /// Stable code of a refusal. Codes may be added; one never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $( #[doc = $message] $variant, )*
        }

        impl ErrorCode {
            /// Every code, in the order of the checks.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The code as it is written in JSON, logs and documentation.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }

            /// The check that refuses with this code.
            pub const fn check(self) -> CheckId {
                match self { $( Self::$variant => CheckId::$check, )* }
            }

            /// What happened, in one sentence without its full stop.
            pub const fn message(self) -> &'static str {
                match self { $( Self::$variant => $message, )* }
            }

            /// What to do next, in one sentence.
            pub const fn remedy(self) -> &'static str {
                match self { $( Self::$variant => $remedy, )* }
            }
        }
    };
}

error_codes! {
    DocumentTooLarge = "DOCUMENT_TOO_LARGE", Envelope,
        "The document is larger than any that the hypervisor makes",
        "Send the bytes of one attestation document, not an encoding of them or a file around them.";
    EnvelopeMalformed = "ENVELOPE_MALFORMED", Envelope,
        "The bytes are not a COSE_Sign1 envelope",
        "Send the document as the Nitro Secure Module returned it, decoded from hex or base64.";
    TrailingBytes = "TRAILING_BYTES", NoTrailingBytes,
        "Bytes follow the document or its payload",
        "Remove what follows the document; if it came like this, do not trust the side that sent it.";
    AlgorithmRefused = "ALGORITHM_REFUSED", Algorithm,
        "The protected header is not exactly ES384",
        "Do not trust this document: the hypervisor signs with ES384 and nothing else.";
    UnprotectedHeader = "UNPROTECTED_HEADER", Algorithm,
        "The unprotected header is not empty",
        "Do not trust this document: someone added headers that no signature covers.";
    PayloadSize = "PAYLOAD_SIZE", Sizes,
        "The payload is not between 1 and 16,384 bytes",
        "Do not trust this document: the hypervisor makes none of this size.";
    SignatureSize = "SIGNATURE_SIZE", Sizes,
        "The signature is not 96 bytes",
        "Do not trust this document: an ES384 signature is r and s, 48 bytes each.";
    PayloadMalformed = "PAYLOAD_MALFORMED", Fields,
        "The payload is not the CBOR map of an attestation document",
        "Fetch the document again; if this stays, do not trust the side that sent it.";
    FieldMissing = "FIELD_MISSING", Fields,
        "A mandatory field is missing",
        "Do not trust this document: the hypervisor always writes this field.";
    FieldType = "FIELD_TYPE", Fields,
        "A field has the wrong type",
        "Do not trust this document: the hypervisor does not write this field so.";
    FieldDuplicate = "FIELD_DUPLICATE", Fields,
        "A field or a register stands twice",
        "Do not trust this document: two readers could see two different values in it.";
    FieldUnknown = "FIELD_UNKNOWN", Fields,
        "The payload has a field that attestation documents do not have",
        "If AWS has added a field, update the verifier; else do not trust this document.";
    NitroTpmDocument = "NITRO_TPM_DOCUMENT", Fields,
        "This is a NitroTPM document of an ordinary instance, not of an enclave",
        "Ask the enclave itself for its document; an instance with NitroTPM is not isolated from its operator.";
    ModuleIdEmpty = "MODULE_ID_EMPTY", ModuleId,
        "The module id is empty",
        "Do not trust this document: the hypervisor names every enclave.";
    ModuleIdUnprintable = "MODULE_ID_UNPRINTABLE", ModuleId,
        "The module id holds something other than visible ASCII",
        "Do not trust this document: the hypervisor names enclaves with letters, digits and hyphens.";
    DigestRefused = "DIGEST_REFUSED", Digest,
        "The digest is not SHA384",
        "Do not trust this document: enclave measurements are SHA-384.";
    TimestampInvalid = "TIMESTAMP_INVALID", Timestamp,
        "The timestamp is not a moment in Unix milliseconds",
        "Do not trust this document: the hypervisor writes the time in milliseconds.";
    PcrSetInvalid = "PCR_SET_INVALID", Pcrs,
        "The measurements are not 1 to 32 registers of 48 bytes",
        "Do not trust this document: no enclave has such registers.";
    CabundleInvalid = "CABUNDLE_INVALID", Cabundle,
        "The certificate bundle is empty or has an entry of a wrong size",
        "Do not trust this document: the hypervisor sends the chain with it, 1 to 1,024 bytes a certificate.";
    CertificateSize = "CERTIFICATE_SIZE", Certificate,
        "The signing certificate is not between 1 and 1,024 bytes",
        "Do not trust this document: the hypervisor uses no such certificate.";
    OptionalFieldSize = "OPTIONAL_FIELD_SIZE", OptionalFields,
        "An optional field is longer than 1,024 bytes",
        "Do not trust this document: the Nitro Secure Module refuses such a field.";
    RootNotPinned = "ROOT_NOT_PINNED", Root,
        "The chain does not begin with the pinned root certificate",
        "For an enclave on AWS, do not trust this document; in development, use the policy of the root that signed it.";
    ChainAlgorithm = "CHAIN_ALGORITHM", Signatures,
        "A certificate does not use ECDSA on P-384 with SHA-384",
        "Do not trust this document: AWS uses no other algorithm in this chain.";
    ChainSignature = "CHAIN_SIGNATURE", Signatures,
        "The signature of a certificate is wrong",
        "Do not trust this document: someone put a certificate in that its issuer never signed.";
    ChainNames = "CHAIN_NAMES", Names,
        "The certificates do not follow one another by name",
        "Do not trust this document: its bundle is not one chain from the root to the leaf.";
    CertificateExpired = "CERTIFICATE_EXPIRED", Validity,
        "A certificate is past its validity",
        "Fetch a fresh document and check this device's clock; judge old evidence at the time that it was made.";
    CertificateNotYetValid = "CERTIFICATE_NOT_YET_VALID", Validity,
        "A certificate is not valid yet",
        "Check this device's clock; if it is right, do not trust this document.";
    JudgedTimeMismatch = "JUDGED_TIME_MISMATCH", JudgedTime,
        "The chain was judged at another moment than the one asked about",
        "Judge certificates and freshness at one moment: now for a live connection, the receipt's time for an audit.";
    BasicConstraints = "BASIC_CONSTRAINTS", Constraints,
        "A certificate is not what its place in the chain demands, issuer or leaf",
        "Do not trust this document: someone used a certificate for what it was not issued for.";
    PathLength = "PATH_LENGTH", Constraints,
        "More issuers follow a certificate than it allows",
        "Do not trust this document: its chain is longer than its issuers permit.";
    KeyUsage = "KEY_USAGE", KeyUsage,
        "A certificate's key may not be used for what it signed",
        "Do not trust this document: someone used a key for what it was not certified for.";
    CertificateMalformed = "CERTIFICATE_MALFORMED", StrictDer,
        "A certificate is not the strict DER of X.509 version 3",
        "Do not trust this document: AWS encodes its certificates canonically.";
    CriticalExtension = "CRITICAL_EXTENSION", StrictDer,
        "A certificate has a critical extension that this verifier does not know",
        "If AWS has added an extension, update the verifier; else do not trust this document.";
    DocumentSignature = "DOCUMENT_SIGNATURE", DocumentSignature,
        "The signature over the document is wrong",
        "Do not trust this document: it was changed after it was signed, or signed by someone else.";
    PcrMismatch = "PCR_MISMATCH", Measurements,
        "The measurements match no release of the policy",
        "Deploy a released image, or release a policy that names the measurements of this one.";
    ReleaseExpired = "RELEASE_EXPIRED", Measurements,
        "The measurements match a release that the policy no longer accepts",
        "Deploy a current release; this one was withdrawn at the time the policy says.";
    ReleaseNotYetAccepted = "RELEASE_NOT_YET_ACCEPTED", Measurements,
        "The measurements match a release that the policy does not accept yet",
        "Wait until the time the policy says, or deploy a release that it accepts now; check this device's clock.";
    PolicyExpired = "POLICY_EXPIRED", Measurements,
        "The trust policy itself has ended",
        "Fetch the current trust policy from whoever publishes it; check this device's clock.";
    DebugMode = "DEBUG_MODE", DebugMode,
        "The enclave runs in debug mode, so its operator can read its console",
        "Start the enclave without --debug-mode.";
    NonceTooShort = "NONCE_TOO_SHORT", Freshness,
        "The nonce that was asked for has fewer than 16 bytes",
        "Ask for a document with at least 16 fresh random bytes as nonce.";
    NonceMismatch = "NONCE_MISMATCH", Freshness,
        "The document answers another nonce than ours",
        "Fetch a document for a fresh nonce; if this stays, someone replays old documents.";
    DocumentStale = "DOCUMENT_STALE", Freshness,
        "The document is older than the policy allows",
        "Fetch a fresh document and check this device's clock.";
    DocumentFromFuture = "DOCUMENT_FROM_FUTURE", Freshness,
        "The document was made after the moment at which it is judged",
        "Check this device's clock; if it is right, do not trust this document.";
    ManifestMalformed = "MANIFEST_MALFORMED", Binding,
        "The service manifest cannot be read",
        "Update the verifier to the version of the service; if they agree, do not trust the side that sent it.";
    ManifestMismatch = "MANIFEST_MISMATCH", Binding,
        "The attested user_data is not the hash of this service manifest",
        "Do not send anything: someone exchanged the manifest, and with it the keys.";
    PublicKeyMismatch = "PUBLIC_KEY_MISMATCH", Binding,
        "The attested public_key is not the X25519 key of the service manifest",
        "Do not send anything: document and manifest name different keys.";
    ModelMismatch = "MODEL_MISMATCH", Binding,
        "The service runs another model than the policy names",
        "Deploy the model that the policy names, or release a policy for this one.";
    PolicyVersionMismatch = "POLICY_VERSION_MISMATCH", Binding,
        "The service runs under another policy version than ours",
        "Update the older side: service and verifier must name the same policy version.";
    SecurityModeMismatch = "SECURITY_MODE_MISMATCH", Binding,
        "The service runs in another security mode than the policy demands",
        "Use a service in the mode that the policy names.";
    ManifestNotValid = "MANIFEST_NOT_VALID", Binding,
        "The service manifest is outside its own validity",
        "Fetch document and manifest again, and check this device's clock.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::SPECS;
    use crate::report::RowId;

    #[test]
    fn codes_are_unique_shouted_and_tied_to_a_required_check() {
        let mut seen = std::collections::BTreeSet::new();
        for code in ErrorCode::ALL {
            assert!(seen.insert(code.as_str()), "{code} stands twice");
            assert!(
                code.as_str()
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
