//! Stage 1: from bytes to a well-formed document. Checks 1 to 12; nothing in it is trusted yet.

use coset::{CborSerializable, CoseSign1, TaggedCborSerializable};
use provider::es384::Signature;
use sha2::{Digest, Sha256};

use crate::anchor::TrustAnchor;
use crate::cbor::{CborError, Kind, Reader, Rules};
use crate::chain;
use crate::checks::CheckId;
use crate::claims::Claims;
use crate::cose::is_es384;
use crate::error::{AttestationError, ErrorCode};
use crate::observed::Observed;
use crate::payload;
use crate::report::{CertificateView, CheckLog};
use crate::revocation::{self, Revocation};
use crate::signatures::{Known, MAX_PENDING, PendingSignature, SignatureId, SignatureMemory};
use crate::time::UnixMillis;

/// Largest document in bytes: the largest payload (16,384), its signature, and ample space for the envelope.
pub const MAX_DOCUMENT: usize = 16_384 + 128;

/// AWS NSM API, COSE and CBOR: `cose_sign1.payload` is at most 16,384 bytes.
const MAX_PAYLOAD: usize = 16_384;

/// Protected header {1: -35}, ES384 (RFC 9053 §2.1), in the only encoding that the hypervisor writes.
const ES384_HEADER: &[u8] = &[0xa1, 0x01, 0x38, 0x22];

/// RFC 9053 §2.1: r and s, each as long as the curve's order.
const SIGNATURE_SIZE: usize = 96;

/// A well-formed attestation document whose signature has not been checked.
#[derive(Clone, Debug)]
pub struct AttestationDocument {
    claims: Claims,
    envelope: CoseSign1,
    sha256: [u8; 32],
}

impl AttestationDocument {
    /// Reads a document. Checks 1 to 12, in the order of [`SPECS`](crate::SPECS), each marked in `log`.
    pub fn parse(bytes: &[u8], log: &mut CheckLog<CheckId>) -> Result<Self, AttestationError> {
        Self::parse_checked(bytes, log).map_err(|error| error.mark(log))
    }

    fn parse_checked(bytes: &[u8], log: &mut CheckLog<CheckId>) -> Result<Self, AttestationError> {
        let envelope = Envelope::read(bytes, log)?;

        // Check 3. The header is compared as bytes: the hypervisor never signs another encoding of the same map, a further
        // header, or a `crit` (RFC 9052 §3.1).
        if envelope.protected != ES384_HEADER {
            let observed = Observed::ProtectedHeader(envelope.protected.to_vec());
            return Err(AttestationError::new(ErrorCode::AlgorithmRefused, observed));
        }
        if envelope.unprotected_entries {
            return Err(AttestationError::new(
                ErrorCode::UnprotectedHeader,
                "unprotected header has entries",
            ));
        }
        log.pass(
            CheckId::Algorithm,
            "Protected header a1013822, unprotected header empty",
        );

        // Check 4.
        let end = envelope.end;
        let envelope = envelope.decode()?;
        let payload = envelope.payload.as_deref().unwrap_or_default();
        let size = payload.len();
        if size == 0 || size > MAX_PAYLOAD {
            return Err(AttestationError::new(
                ErrorCode::PayloadSize,
                Observed::size("payload", size),
            ));
        }
        if envelope.signature.len() != SIGNATURE_SIZE {
            let observed = Observed::size("signature", envelope.signature.len());
            return Err(AttestationError::new(ErrorCode::SignatureSize, observed));
        }
        log.pass(
            CheckId::Sizes,
            format!("Payload of {size} bytes, signature of {SIGNATURE_SIZE}"),
        );

        let claims = payload::read(payload, end, log)?;
        Ok(Self {
            claims,
            envelope,
            sha256: Sha256::digest(bytes).into(),
        })
    }

    /// The document's contents. Unverified: anyone could have written them.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// SHA-256 of the bytes. Identifies this file, not this attestation: an ECDSA signature can be rewritten and stay valid.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// Checks 13 to 21, and the informational 26: the chain from `anchor` to the leaf as of `at`, then the signature.
    /// Signatures that `memory` knows are not computed again; it then also knows those of this chain.
    ///
    /// Without revocation lists check 27 is not made; see [`authenticate_with_crls`](Self::authenticate_with_crls).
    pub fn authenticate(
        self,
        anchor: &TrustAnchor,
        at: UnixMillis,
        memory: &mut SignatureMemory,
        log: &mut CheckLog<CheckId>,
    ) -> Result<AuthenticAttestation, AttestationError> {
        self.authenticate_with_crls(anchor, at, &[], memory, log)
    }

    /// Makes the checks of [`authenticate`](Self::authenticate), and check 27: `crls` holds revocation lists in DER, one after another, at
    /// most [`MAX_CRLS`](crate::MAX_CRLS) bytes. Lists of issuers outside the chain are ignored.
    pub fn authenticate_with_crls(
        self,
        anchor: &TrustAnchor,
        at: UnixMillis,
        crls: &[u8],
        memory: &mut SignatureMemory,
        log: &mut CheckLog<CheckId>,
    ) -> Result<AuthenticAttestation, AttestationError> {
        let outcome = self.authenticate_checked(anchor, at, crls, memory, log);
        memory.drop_vouched();
        outcome.map_err(|error| error.mark(log))
    }

    fn authenticate_checked(
        self,
        anchor: &TrustAnchor,
        at: UnixMillis,
        crls: &[u8],
        memory: &mut SignatureMemory,
        log: &mut CheckLog<CheckId>,
    ) -> Result<AuthenticAttestation, AttestationError> {
        let leaf = chain::verify(&self.claims, anchor, at, memory, log)?;

        // Check 21. The signature is checked last, under a key whose chain has been verified.
        let vouched = memory.has_vouched()
            && self.own_signature().is_some_and(|(message, own)| {
                memory.knows(&SignatureId::of(&leaf.key, &message, &own)) == Some(Known::Vouched)
            });
        if !vouched {
            self.envelope
                .verify_signature(b"", |signature, message| {
                    is_es384(message, signature, &leaf.key)
                        .then_some(())
                        .ok_or(())
                })
                .map_err(|()| {
                    let observed = "the signature does not fit the leaf's key and these bytes";
                    AttestationError::new(ErrorCode::DocumentSignature, observed)
                })?;
        }
        let by = if vouched {
            ", computed by the platform"
        } else {
            ""
        };
        log.pass(
            CheckId::DocumentSignature,
            format!("ES384 signature by the leaf's key{by}"),
        );
        chain::compare_names(&leaf, &self.claims.module_id, log);
        // Check 17. Nothing in the document decides this moment; `appraise` compares it with the requested one.
        log.pass(CheckId::JudgedTime, format!("Judged as of {at}"));
        let revocation = revocation::check(&leaf.links, crls, at, memory, log)?;

        let (chain, chain_not_after) = (leaf.views, leaf.chain_not_after);
        Ok(AuthenticAttestation {
            claims: self.claims,
            chain,
            sha256: self.sha256,
            aws: anchor.is_aws(),
            at,
            chain_not_after,
            revocation,
        })
    }
}

impl AttestationDocument {
    /// Every signature that [`authenticate`](Self::authenticate) will need: the chain's, then the document's own.
    pub(crate) fn signatures(
        &self,
        anchor: &TrustAnchor,
        at: UnixMillis,
        log: &mut CheckLog<CheckId>,
    ) -> Result<Vec<PendingSignature>, AttestationError> {
        let (mut pending, leaf) = chain::signatures(&self.claims, anchor, at, log)?;
        pending.extend(
            self.own_signature()
                .map(|(message, own)| PendingSignature::new(&leaf, message, &own)),
        );
        Ok(pending)
    }

    /// The signed bytes, and r and s; `None` if these are out of range.
    fn own_signature(&self) -> Option<(Vec<u8>, Signature)> {
        let signature = Signature::from_slice(&self.envelope.signature).ok()?;
        Some((self.envelope.tbs_data(b""), signature))
    }
}

/// The signatures that an appraisal of `document` under `anchor` as of `at` needs and that `memory` does not know: the root's
/// first, the document's own last. Compute them elsewhere, in parallel if you like; call [`vouch`](SignatureMemory::vouch)
/// for those that are valid; then appraise with the same memory.
///
/// Makes no decision. Empty if the document will be refused before any signature is needed, and if all signatures are
/// known already; at most [`MAX_PENDING`].
pub fn pending_signatures(
    document: &[u8],
    anchor: &TrustAnchor,
    at: UnixMillis,
    memory: &SignatureMemory,
) -> Vec<PendingSignature> {
    let mut log = CheckLog::unrecorded();
    let pending = AttestationDocument::parse(document, &mut log)
        .and_then(|document| document.signatures(anchor, at, &mut log));
    // The appraisal repeats these checks and reports why a document is refused.
    let mut pending = pending.unwrap_or_default();
    pending.retain(|signature| memory.knows(signature.id()).is_none());
    pending.truncate(MAX_PENDING);
    pending
}

/// Signed by a chain that begins at a pinned root; the image is still unknown.
#[derive(Clone, Debug)]
pub struct AuthenticAttestation {
    claims: Claims,
    chain: Vec<CertificateView>,
    pub(crate) sha256: [u8; 32],
    pub(crate) aws: bool,
    pub(crate) at: UnixMillis,
    /// Unix seconds.
    pub(crate) chain_not_after: u64,
    pub(crate) revocation: Revocation,
}

impl AuthenticAttestation {
    /// The hypervisor's claims about the enclave.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The verified chain, root first, leaf last.
    pub fn chain(&self) -> &[CertificateView] {
        &self.chain
    }
}

/// A `COSE_Sign1` (RFC 9052 §4.2) in the one encoding that the hypervisor writes.
struct Envelope<'a> {
    /// Without trailing bytes.
    bytes: &'a [u8],
    tagged: bool,
    protected: &'a [u8],
    unprotected_entries: bool,
    /// Whether nothing follows. Checked together with the payload's end, as check 2.
    end: Result<(), CborError>,
}

impl<'a> Envelope<'a> {
    /// Check 1.
    fn read(bytes: &'a [u8], log: &mut CheckLog<CheckId>) -> Result<Self, AttestationError> {
        if bytes.len() > MAX_DOCUMENT {
            return Err(AttestationError::new(
                ErrorCode::DocumentTooLarge,
                Observed::size("document", bytes.len()),
            ));
        }
        // Shortest heads only, one definite array, no chunked strings: the hypervisor writes nothing else. A form that two
        // readers could read differently is refused rather than interpreted.
        let mut reader = Reader::new(bytes, Rules::Shortest);
        let malformed = |error: CborError| {
            AttestationError::new(ErrorCode::EnvelopeMalformed, Observed::Cbor(error))
        };
        let tagged = reader.peek().map_err(malformed)? == Kind::Tag;
        if tagged {
            // RFC 9052 §4.2: tag 18 is COSE_Sign1. The hypervisor omits it, although AWS's text requires it.
            let tag = reader.tag().map_err(malformed)?;
            if tag != 18 {
                return Err(AttestationError::new(
                    ErrorCode::EnvelopeMalformed,
                    Observed::Tag(tag),
                ));
            }
        }
        let array = reader.array().map_err(malformed)?;
        if array.left() != Some(4) {
            return Err(AttestationError::new(
                ErrorCode::EnvelopeMalformed,
                Observed::Array(array.left()),
            ));
        }
        let protected = reader.bytes().map_err(malformed)?;
        let unprotected = reader.clone().map().map_err(malformed)?;
        reader.skip().map_err(malformed)?;
        // The payload and the signature.
        for _ in 0..2 {
            reader.bytes().map_err(malformed)?;
        }
        let tag = if tagged { "tag 18" } else { "untagged" };
        log.pass(
            CheckId::Envelope,
            format!("Array of 4, {tag}, {} bytes", bytes.len()),
        );
        // `bf ff` is an empty map too, but the hypervisor does not write it.
        Ok(Self {
            bytes: &bytes[..reader.position()],
            tagged,
            protected,
            unprotected_entries: unprotected.left() != Some(0),
            end: reader.finish(),
        })
    }

    /// The envelope's contents. Called only after the headers were compared: `coset` interprets every header that COSE defines.
    fn decode(&self) -> Result<CoseSign1, AttestationError> {
        let envelope = match self.tagged {
            true => CoseSign1::from_tagged_slice(self.bytes),
            false => CoseSign1::from_slice(self.bytes),
        };
        envelope.map_err(|error| {
            let observed = Observed::Cose(error.to_string());
            AttestationError::new(ErrorCode::EnvelopeMalformed, observed)
        })
    }
}
