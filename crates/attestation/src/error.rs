//! Every way in which evidence can be refused: stable codes, each tied to one check.

use std::fmt;

use crate::observed::Observed;

/// Why evidence was refused: a stable code, and what the evidence held. Contains nothing from a user's request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {observed}", code.message())]
pub struct AttestationError {
    code: ErrorCode,
    /// Boxed to keep `Result` small.
    observed: Box<Observed>,
}

impl AttestationError {
    pub(crate) fn new(code: ErrorCode, observed: impl Into<Observed>) -> Self {
        Self {
            code,
            observed: Box::new(observed.into()),
        }
    }

    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The value in the evidence. Displays as words for a person.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// The next step for the reader, in one sentence.
    pub fn remedy(&self) -> &'static str {
        self.code.remedy()
    }
}

impl error_codes::Coded for AttestationError {
    fn code(&self) -> &str {
        self.code.code()
    }

    fn remedy(&self) -> &str {
        self.code.remedy()
    }
}

/// Stable code of a refusal. Codes may be added; a code never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, error_codes::Coded)]
#[coded(all, message)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The document is larger than any that the hypervisor makes.
    #[coded(
        "DOCUMENT_TOO_LARGE",
        remedy = "Send the bytes of one attestation document, not an encoding of them or a file around them."
    )]
    DocumentTooLarge,
    /// The bytes are not a COSE_Sign1 envelope.
    #[coded(
        "ENVELOPE_MALFORMED",
        remedy = "Send the document as the Nitro Secure Module returned it, decoded from hex or base64."
    )]
    EnvelopeMalformed,
    /// Bytes follow the document or its payload.
    #[coded(
        "TRAILING_BYTES",
        remedy = "Remove what follows the document; if it came like this, do not trust the side that sent it."
    )]
    TrailingBytes,
    /// The protected header is not exactly ES384.
    #[coded(
        "ALGORITHM_REFUSED",
        remedy = "Do not trust this document: the hypervisor signs with ES384 and nothing else."
    )]
    AlgorithmRefused,
    /// The unprotected header is not empty.
    #[coded(
        "UNPROTECTED_HEADER",
        remedy = "Do not trust this document: someone added headers that no signature covers."
    )]
    UnprotectedHeader,
    /// The payload is not between 1 and 16,384 bytes.
    #[coded(
        "PAYLOAD_SIZE",
        remedy = "Do not trust this document: the hypervisor makes none of this size."
    )]
    PayloadSize,
    /// The signature is not 96 bytes.
    #[coded(
        "SIGNATURE_SIZE",
        remedy = "Do not trust this document: an ES384 signature is r and s, 48 bytes each."
    )]
    SignatureSize,
    /// The payload is not the CBOR map of an attestation document.
    #[coded(
        "PAYLOAD_MALFORMED",
        remedy = "Fetch the document again; if this stays, do not trust the side that sent it."
    )]
    PayloadMalformed,
    /// A mandatory field is missing.
    #[coded(
        "FIELD_MISSING",
        remedy = "Do not trust this document: the hypervisor always writes this field."
    )]
    FieldMissing,
    /// A field has the wrong type.
    #[coded(
        "FIELD_TYPE",
        remedy = "Do not trust this document: the hypervisor does not write this field so."
    )]
    FieldType,
    /// A field or a register occurs twice.
    #[coded(
        "FIELD_DUPLICATE",
        remedy = "Do not trust this document: two readers could see two different values in it."
    )]
    FieldDuplicate,
    /// The payload has a field that attestation documents do not have.
    #[coded(
        "FIELD_UNKNOWN",
        remedy = "If AWS has added a field, update the verifier; else do not trust this document."
    )]
    FieldUnknown,
    /// This is a NitroTPM document of an ordinary instance, not of an enclave.
    #[coded(
        "NITRO_TPM_DOCUMENT",
        remedy = "Ask the enclave itself for its document; an instance with NitroTPM is not isolated from its operator."
    )]
    NitroTpmDocument,
    /// The module id is empty.
    #[coded(
        "MODULE_ID_EMPTY",
        remedy = "Do not trust this document: the hypervisor names every enclave."
    )]
    ModuleIdEmpty,
    /// The module id holds something other than visible ASCII.
    #[coded(
        "MODULE_ID_UNPRINTABLE",
        remedy = "Do not trust this document: the hypervisor names enclaves with letters, digits and hyphens."
    )]
    ModuleIdUnprintable,
    /// The digest is not SHA384.
    #[coded(
        "DIGEST_REFUSED",
        remedy = "Do not trust this document: enclave measurements are SHA-384."
    )]
    DigestRefused,
    /// The timestamp is not a moment in Unix milliseconds.
    #[coded(
        "TIMESTAMP_INVALID",
        remedy = "Do not trust this document: the hypervisor writes the time in milliseconds."
    )]
    TimestampInvalid,
    /// The measurements are not 1 to 32 registers of 48 bytes.
    #[coded(
        "PCR_SET_INVALID",
        remedy = "Do not trust this document: no enclave has such registers."
    )]
    PcrSetInvalid,
    /// The certificate bundle is empty or has an entry of a wrong size.
    #[coded(
        "CABUNDLE_INVALID",
        remedy = "Do not trust this document: the hypervisor sends the chain with it, 1 to 1,024 bytes a certificate."
    )]
    CabundleInvalid,
    /// The signing certificate is not between 1 and 1,024 bytes.
    #[coded(
        "CERTIFICATE_SIZE",
        remedy = "Do not trust this document: the hypervisor uses no such certificate."
    )]
    CertificateSize,
    /// An optional field is longer than 1,024 bytes.
    #[coded(
        "OPTIONAL_FIELD_SIZE",
        remedy = "Do not trust this document: the Nitro Secure Module refuses such a field."
    )]
    OptionalFieldSize,
    /// The chain does not begin with the pinned root certificate.
    #[coded(
        "ROOT_NOT_PINNED",
        remedy = "For an enclave on AWS, do not trust this document; in development, use the policy of the root that signed it."
    )]
    RootNotPinned,
    /// A certificate does not use ECDSA on P-384 with SHA-384.
    #[coded(
        "CHAIN_ALGORITHM",
        remedy = "Do not trust this document: AWS uses no other algorithm in this chain."
    )]
    ChainAlgorithm,
    /// The signature of a certificate is wrong.
    #[coded(
        "CHAIN_SIGNATURE",
        remedy = "Do not trust this document: someone added a certificate that its issuer never signed."
    )]
    ChainSignature,
    /// The certificates do not follow one another by name.
    #[coded(
        "CHAIN_NAMES",
        remedy = "Do not trust this document: its bundle is not one chain from the root to the leaf."
    )]
    ChainNames,
    /// A certificate is past its validity.
    #[coded(
        "CERTIFICATE_EXPIRED",
        remedy = "Fetch a fresh document and check this device's clock; judge old evidence at the time that it was made."
    )]
    CertificateExpired,
    /// A certificate is not valid yet.
    #[coded(
        "CERTIFICATE_NOT_YET_VALID",
        remedy = "Check this device's clock; if it is right, do not trust this document."
    )]
    CertificateNotYetValid,
    /// The chain was judged at another moment than the one asked about.
    #[coded(
        "JUDGED_TIME_MISMATCH",
        remedy = "Judge certificates and freshness at one moment: now for a live connection, the receipt's time for an audit."
    )]
    JudgedTimeMismatch,
    /// A certificate is not what its place in the chain demands, issuer or leaf.
    #[coded(
        "BASIC_CONSTRAINTS",
        remedy = "Do not trust this document: someone used a certificate for what it was not issued for."
    )]
    BasicConstraints,
    /// More issuers follow a certificate than it allows.
    #[coded(
        "PATH_LENGTH",
        remedy = "Do not trust this document: its chain is longer than its issuers permit."
    )]
    PathLength,
    /// A certificate's key may not be used for what it signed.
    #[coded(
        "KEY_USAGE",
        remedy = "Do not trust this document: someone used a key for what it was not certified for."
    )]
    KeyUsage,
    /// A certificate is not the strict DER of X.509 version 3.
    #[coded(
        "CERTIFICATE_MALFORMED",
        remedy = "Do not trust this document: AWS encodes its certificates canonically."
    )]
    CertificateMalformed,
    /// A certificate has a critical extension that this verifier does not know.
    #[coded(
        "CRITICAL_EXTENSION",
        remedy = "If AWS has added an extension, update the verifier; else do not trust this document."
    )]
    CriticalExtension,
    /// The signature over the document is wrong.
    #[coded(
        "DOCUMENT_SIGNATURE",
        remedy = "Do not trust this document: it was changed after it was signed, or signed by someone else."
    )]
    DocumentSignature,
    /// The revocation lists are larger, or more in number, than one appraisal accepts.
    #[coded(
        "CRL_TOO_LARGE",
        remedy = "Pass the lists of this chain's issuers alone: 64 at most, 10 MiB together."
    )]
    CrlTooLarge,
    /// A revocation list is not the strict DER of a CRL of version 2.
    #[coded(
        "CRL_MALFORMED",
        remedy = "Fetch the CRL again, in DER and not in PEM; if this stays, do not trust the side that sent it."
    )]
    CrlMalformed,
    /// A revocation list has a critical extension that this verifier does not know.
    #[coded(
        "CRL_CRITICAL_EXTENSION",
        remedy = "If AWS has added an extension, update the verifier; else do not trust the side that sent this CRL."
    )]
    CrlCriticalExtension,
    /// A revocation list holds only the changes to another.
    #[coded("CRL_DELTA", remedy = "Pass complete CRLs.")]
    CrlDelta,
    /// A revocation list covers issuers other than its own.
    #[coded("CRL_INDIRECT", remedy = "Pass the CRL of each issuing CA.")]
    CrlIndirect,
    /// A revocation list is not signed with ECDSA on P-384 and SHA-384.
    #[coded(
        "CRL_ALGORITHM",
        remedy = "Do not trust the side that sent this CRL: AWS signs with no other algorithm."
    )]
    CrlAlgorithm,
    /// A revocation list comes from a CA that may not sign any.
    #[coded(
        "CRL_KEY_USAGE",
        remedy = "Do not trust the side that sent this CRL: its issuer was not certified for that."
    )]
    CrlKeyUsage,
    /// The signature of a revocation list is wrong.
    #[coded(
        "CRL_SIGNATURE",
        remedy = "Do not trust the side that sent this CRL: its issuer never signed it."
    )]
    CrlSignature,
    /// A certificate of the chain is revoked.
    #[coded(
        "CERTIFICATE_REVOKED",
        remedy = "Do not trust this document, nor any other under that certificate."
    )]
    CertificateRevoked,
    /// A revocation list was made after the judged moment.
    #[coded(
        "CRL_NOT_YET_VALID",
        remedy = "Check this device's clock; in an audit, pass the CRL of that time, as the bundle holds it."
    )]
    CrlNotYetValid,
    /// A revocation list is past its nextUpdate.
    #[coded(
        "CRL_EXPIRED",
        remedy = "Fetch the current CRL, and check this device's clock."
    )]
    CrlExpired,
    /// A revocation list leaves out certificates or reasons that matter here.
    #[coded(
        "CRL_SCOPE",
        remedy = "Pass the CRL from the address that the certificate names."
    )]
    CrlScope,
    /// The policy requires revocation lists, and one is missing.
    #[coded(
        "REVOCATION_UNKNOWN",
        remedy = "Pass the current CRL of each issuer in the chain; a host that withholds them is not to be trusted under this policy."
    )]
    RevocationUnknown,
    /// The measurements match no release of the policy.
    #[coded(
        "PCR_MISMATCH",
        remedy = "Deploy a released image, or release a policy that names the measurements of this one."
    )]
    PcrMismatch,
    /// The measurements match a release that the policy no longer accepts.
    #[coded(
        "RELEASE_EXPIRED",
        remedy = "Deploy a current release; this one was withdrawn at the time the policy says."
    )]
    ReleaseExpired,
    /// The measurements match a release that the policy does not accept yet.
    #[coded(
        "RELEASE_NOT_YET_ACCEPTED",
        remedy = "Wait until the time the policy says, or deploy a release that it accepts now; check this device's clock."
    )]
    ReleaseNotYetAccepted,
    /// The trust policy itself has ended.
    #[coded(
        "POLICY_EXPIRED",
        remedy = "Fetch the current trust policy from its publisher; check this device's clock."
    )]
    PolicyExpired,
    /// The enclave runs in debug mode, so its operator can read its console.
    #[coded("DEBUG_MODE", remedy = "Start the enclave without --debug-mode.")]
    DebugMode,
    /// The nonce that was asked for has fewer than 16 bytes.
    #[coded(
        "NONCE_TOO_SHORT",
        remedy = "Ask for a document with at least 16 fresh random bytes as nonce."
    )]
    NonceTooShort,
    /// The document answers another nonce than ours.
    #[coded(
        "NONCE_MISMATCH",
        remedy = "Fetch a document for a fresh nonce; if this stays, someone replays old documents."
    )]
    NonceMismatch,
    /// The document is older than the policy allows.
    #[coded(
        "DOCUMENT_STALE",
        remedy = "Fetch a fresh document and check this device's clock."
    )]
    DocumentStale,
    /// The document was made after the moment at which it is judged.
    #[coded(
        "DOCUMENT_FROM_FUTURE",
        remedy = "Check this device's clock; if it is right, do not trust this document."
    )]
    DocumentFromFuture,
    /// The service manifest cannot be read.
    #[coded(
        "MANIFEST_MALFORMED",
        remedy = "Update the verifier to the version of the service; if they agree, do not trust the side that sent it."
    )]
    ManifestMalformed,
    /// The attested user_data is not the hash of this service manifest.
    #[coded(
        "MANIFEST_MISMATCH",
        remedy = "Do not send anything: someone replaced the manifest, and with it the keys."
    )]
    ManifestMismatch,
    /// The attested public_key is not the X25519 key of the service manifest.
    #[coded(
        "PUBLIC_KEY_MISMATCH",
        remedy = "Do not send anything: document and manifest name different keys."
    )]
    PublicKeyMismatch,
    /// The service runs another model than the policy names.
    #[coded(
        "MODEL_MISMATCH",
        remedy = "Deploy the model that the policy names, or release a policy for this one."
    )]
    ModelMismatch,
    /// The service runs under another policy version than ours.
    #[coded(
        "POLICY_VERSION_MISMATCH",
        remedy = "Update the older side: service and verifier must name the same policy version."
    )]
    PolicyVersionMismatch,
    /// The service runs in another security mode than the policy demands.
    #[coded(
        "SECURITY_MODE_MISMATCH",
        remedy = "Use a service in the mode that the policy names."
    )]
    SecurityModeMismatch,
    /// The service manifest is outside its own validity.
    #[coded(
        "MANIFEST_NOT_VALID",
        remedy = "Fetch document and manifest again, and check this device's clock."
    )]
    ManifestNotValid,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
