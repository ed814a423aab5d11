//! Evidence of the client, for one enclave that talks to another.
//!
//! A document alone is not enough: an enclave issues documents for any nonce, so its host could request one
//! for its own handshake. The proof is the signature by the receipt key that the document binds.

use attestation::{
    Appraisal, AttestationReport, Conclusion, Evidence, Freshness, Policy, SignatureMemory,
    UnixMillis, VerifiedAttestation,
};
use provider::ed25519::VerifyingKey;

use super::ChannelError;
use super::agreement::Exporter;
use super::schedule::{client_nonce, client_signature_message};
use super::session::{MonotonicMillis, Session};
use super::wire::{ClientEvidence, ClientKey};
use crate::receipt::ReceiptSigner;

/// A client that has encapsulated, and may present evidence.
pub struct Encapsulated {
    pub(super) client_hello: Vec<u8>,
    pub(super) server_hello: Vec<u8>,
    pub(super) enc: Vec<u8>,
    pub(super) exporter: Box<dyn Exporter>,
    pub(super) aead: attestation::Aead,
    pub(super) now: MonotonicMillis,
    pub(super) expires: MonotonicMillis,
}

impl Encapsulated {
    /// The nonce for the client's document: a hash over both hellos and the encapsulation.
    pub fn nonce(&self) -> [u8; 32] {
        client_nonce(&self.client_hello, &self.server_hello, &self.enc)
    }

    /// Presents evidence; `signer` holds the receipt key that its manifest names.
    ///
    /// # Errors
    /// [`ChannelError::Internal`].
    pub fn with_evidence(
        self,
        evidence: Evidence<'_>,
        signer: &ReceiptSigner,
    ) -> Result<(Vec<u8>, Session), ChannelError> {
        let signature = signer.sign_message(&client_signature_message(&self.nonce()));
        let enc = self.enc.clone();
        self.confirm(&ClientKey {
            enc: &enc,
            evidence: Some(ClientEvidence {
                evidence,
                signature: &signature,
            }),
        })
    }

    pub(super) fn without_evidence(self) -> Result<(Vec<u8>, Session), ChannelError> {
        let enc = self.enc.clone();
        self.confirm(&ClientKey {
            enc: &enc,
            evidence: None,
        })
    }
}

/// A client with evidence, not appraised yet. Its session is released only with a verdict.
pub struct PendingClient {
    pub(super) document: Vec<u8>,
    pub(super) manifest: Vec<u8>,
    pub(super) crls: Vec<u8>,
    pub(super) signature: [u8; 64],
    pub(super) nonce: [u8; 32],
    pub(super) session: Session,
}

impl PendingClient {
    /// Adds certificate revocation lists, in DER, one after another: a policy may require them. The client sends none, so they
    /// come from the server's own source.
    #[must_use]
    pub fn with_crls(self, crls: Vec<u8>) -> Self {
        Self { crls, ..self }
    }

    /// Checks 1 to 25 and 27 on the client's evidence, live.
    pub fn appraise(
        self,
        policy: &Policy,
        now: UnixMillis,
        memory: &mut SignatureMemory,
    ) -> (AttestationReport, AppraisedClient) {
        let (report, conclusion) = Appraisal::of(&self.document)
            .with_manifest(&self.manifest)
            .with_crls(&self.crls)
            .with_memory(memory)
            .verify(
                policy,
                Freshness::Live {
                    nonce: &self.nonce,
                    now,
                },
            );
        let appraised = AppraisedClient {
            conclusion,
            signature: self.signature,
            nonce: self.nonce,
            session: self.session,
        };
        (report, appraised)
    }
}

/// An appraised client. The caller gets the session only by stating which verdict is good enough.
#[must_use = "call a method to get the session"]
pub struct AppraisedClient {
    conclusion: Conclusion,
    signature: [u8; 64],
    nonce: [u8; 32],
    session: Session,
}

impl AppraisedClient {
    /// Session and client, if the verdict is `verified`.
    ///
    /// # Errors
    /// [`ChannelError::EvidenceWanted`] for any other verdict, [`ChannelError::Forged`] if the receipt key did not
    /// sign this handshake.
    pub fn verified(self) -> Result<(Session, VerifiedAttestation), ChannelError> {
        let Self {
            conclusion,
            signature,
            nonce,
            session,
        } = self;
        check_signature(conclusion.verified(), &nonce, &signature).map(|client| (session, client))
    }

    /// Session and client, if the verdict is `verified` or `simulated`: for development.
    ///
    /// # Errors
    /// Those of [`verified`](Self::verified).
    pub fn including_simulated(self) -> Result<(Session, VerifiedAttestation), ChannelError> {
        let Self {
            conclusion,
            signature,
            nonce,
            session,
        } = self;
        check_signature(conclusion.including_simulated(), &nonce, &signature)
            .map(|client| (session, client))
    }
}

fn check_signature(
    client: Option<VerifiedAttestation>,
    nonce: &[u8; 32],
    signature: &[u8; 64],
) -> Result<VerifiedAttestation, ChannelError> {
    let client = client.ok_or(ChannelError::EvidenceWanted)?;
    VerifyingKey::new(client.receipt_key().bytes())
        .filter(|key| key.verify(&client_signature_message(nonce), signature))
        .ok_or(ChannelError::Forged)?;
    Ok(client)
}
