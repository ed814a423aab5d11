//! The published transport: with its mock attestation, which verifies no signature, and with the server's mock document signed
//! and verified, which is what a client needs to authenticate the server's key.

use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use confidential_ml_transport::error::AttestError;
use confidential_ml_transport::session::SessionConfig;
use confidential_ml_transport::session::channel::Message;
use confidential_ml_transport::{
    AttestationDocument, AttestationProvider, AttestationVerifier, MockProvider, MockVerifier,
    SecureChannel, VerifiedAttestation,
};
use provider::ed25519::{SigningKey, VerifyingKey};
use transports::connection::Connection;
use transports::{End, Transport, TransportInfo};

pub const NAME: &str = "confidential-ml-transport";

/// Opens the published transport's channels. Its handshake requires both ends to attest; the client always uses the mock.
pub struct Published {
    attestation: &'static str,
    /// Creates the server's documents.
    provider: Box<dyn AttestationProvider>,
    /// Verifies them on the client.
    verifier: Box<dyn AttestationVerifier>,
}

impl Published {
    /// With mock attestation, as published.
    pub fn mock() -> Self {
        Self {
            attestation: "mock",
            provider: Box::new(MockProvider::new()),
            verifier: Box::new(MockVerifier::new()),
        }
    }

    /// With an Ed25519 signature over the server's document, like an endorsed key of ours.
    pub fn signed() -> Result<Self> {
        let key = SigningKey::from_seed(&[7; 32]);
        let Some(public) = VerifyingKey::new(&key.public_key()) else {
            bail!("not an Ed25519 key");
        };
        Ok(Self {
            attestation: "signed mock",
            provider: Box::new(Signing(key)),
            verifier: Box::new(Verifying(public)),
        })
    }
}

struct Signing(SigningKey);

#[async_trait]
impl AttestationProvider for Signing {
    async fn attest(
        &self,
        user_data: Option<&[u8]>,
        nonce: Option<&[u8]>,
        public_key: Option<&[u8]>,
    ) -> Result<AttestationDocument, AttestError> {
        let mut document = MockProvider.attest(user_data, nonce, public_key).await?;
        document.raw.extend(self.0.sign(&document.raw));
        Ok(document)
    }
}

struct Verifying(VerifyingKey);

#[async_trait]
impl AttestationVerifier for Verifying {
    async fn verify(
        &self,
        signed: &AttestationDocument,
    ) -> Result<VerifiedAttestation, AttestError> {
        let document = signed.raw.split_last_chunk::<64>();
        match document.filter(|(document, signature)| self.0.verify(document, *signature)) {
            Some((document, _)) => {
                let document = AttestationDocument::new(document.to_vec());
                let mut verified = MockVerifier.verify(&document).await?;
                // Both ends derive their keys from the hash of the transmitted document.
                let sent = digest(&SHA256, &signed.raw);
                verified.document_hash.copy_from_slice(sent.as_ref());
                Ok(verified)
            }
            None => Err(AttestError::VerificationFailed("signature".to_owned())),
        }
    }
}

impl Transport for Published {
    type End = PublishedEnd;

    fn info(&self) -> TransportInfo {
        TransportInfo {
            transport: "published transport",
            in_process: "published transport in process",
            engine: NAME,
            cipher: Some("ChaCha20-Poly1305"),
            establishment: vec![
                ("attestation", self.attestation.into()),
                ("kind", "X25519".into()),
            ],
            carries_messages: self.attestation == "mock",
        }
    }

    async fn establish(
        &mut self,
        near: Connection,
        far: Connection,
    ) -> Result<(PublishedEnd, PublishedEnd)> {
        let (attests, verifies) = (&*self.provider, &*self.verifier);
        let config = SessionConfig::development();
        let (server, client) = tokio::try_join!(
            SecureChannel::accept_with_attestation(far, attests, &MockVerifier, config.clone()),
            SecureChannel::connect_with_attestation(near, &MockProvider, verifies, config.clone()),
        )?;
        Ok((PublishedEnd(client), PublishedEnd(server)))
    }
}

pub struct PublishedEnd(SecureChannel<Connection>);

impl PublishedEnd {
    async fn message(&mut self) -> Result<Bytes> {
        match self.0.recv().await? {
            Message::Data(payload) => Ok(payload),
            _ => bail!("no data"),
        }
    }
}

impl End for PublishedEnd {
    async fn send(&mut self, payload: &Bytes) -> Result<()> {
        // Reference-counted: this does not copy the payload.
        Ok(self.0.send(payload.clone()).await?)
    }

    async fn receive(&mut self) -> Result<usize> {
        Ok(self.message().await?.len())
    }

    async fn echo(&mut self) -> Result<()> {
        let payload = self.message().await?;
        Ok(self.0.send(payload).await?)
    }

    async fn close(&mut self) -> Result<()> {
        Ok(self.0.shutdown().await?)
    }

    async fn wait_closed(&mut self) -> Result<()> {
        ensure!(matches!(self.0.recv().await?, Message::Shutdown), "no end");
        Ok(())
    }
}
