//! The server's half of the handshake.

use attestation::{Aead, Evidence, Kdf, Kem, KeyConfig};
use rand_core::CryptoRng;

use super::ChannelError;
use super::agreement::FreshKey;
use super::client::confirmation_matches;
use super::mutual::PendingClient;
use super::schedule::{Schedule, client_nonce, hello_nonce, info, transcript};
use super::session::{MonotonicMillis, Receiver, Sender, Session};
use super::wire::{ClientHello, ClientKey, Proof, ServerHello};
use crate::receipt::ReceiptSigner;

/// A client hello that was read.
pub struct ReceivedHello {
    message: Vec<u8>,
    kem: Kem,
    aead: Aead,
    known: Option<[u8; 32]>,
    has_evidence: bool,
}

impl ReceivedHello {
    /// Reads a client hello. `aeads` are the server's ciphers, the fastest on its machine first.
    ///
    /// # Errors
    /// [`ChannelError::Malformed`], [`ChannelError::Version`], [`ChannelError::TooLarge`], [`ChannelError::NoSuite`].
    pub fn read(message: &[u8], aeads: &[Aead]) -> Result<Self, ChannelError> {
        let hello = ClientHello::decode(message)?;
        // The server supports every mechanism that it knows; the client's first is its preferred one.
        let kem = *hello.kems.first().ok_or(ChannelError::NoSuite)?;
        Ok(Self {
            message: message.to_vec(),
            kem,
            aead: choose_aead(&hello.aeads, aeads).ok_or(ChannelError::NoSuite)?,
            known: hello.known,
            has_evidence: hello.has_evidence,
        })
    }

    /// The nonce for a document for this client.
    pub fn nonce(&self) -> [u8; 32] {
        hello_nonce(&self.message)
    }

    /// The receipt key that this client has verified: its holder may [endorse](Prepared::endorse) a fresh key.
    pub fn known(&self) -> Option<&[u8; 32]> {
        self.known.as_ref()
    }

    /// Whether the client can present evidence.
    pub fn has_evidence(&self) -> bool {
        self.has_evidence
    }

    /// Generates the key of this session.
    pub fn prepare(self, rng: &mut impl CryptoRng) -> Prepared {
        let (key, public_key) = FreshKey::generate(self.kem, rng);
        Prepared {
            hello: self,
            key,
            public_key,
        }
    }
}

/// AES-256-GCM if both prefer it; otherwise ChaCha20-Poly1305, which is fast on every processor; otherwise a common one.
fn choose_aead(client: &[Aead], server: &[Aead]) -> Option<Aead> {
    let common = |aead: &Aead| client.contains(aead) && server.contains(aead);
    let both_first = client.first().filter(|first| server.first() == Some(first));
    both_first
        .copied()
        .or(Some(Aead::ChaCha20Poly1305).filter(common))
        .or(Some(Aead::Aes256Gcm).filter(common))
        .filter(|aead| *aead != Aead::Aes128Gcm)
}

/// A fresh key that must be attested. Holds the secret: no `Debug`, no `Clone`.
pub struct Prepared {
    hello: ReceivedHello,
    key: FreshKey,
    public_key: Vec<u8>,
}

impl Prepared {
    /// The nonce for a document for this client.
    pub fn nonce(&self) -> [u8; 32] {
        self.hello.nonce()
    }

    /// The keys for the session's manifest: the fresh one and, for an X-Wing key, also its X25519 half,
    /// which check 25 compares with the document's `public_key`. Each names the one chosen cipher.
    pub fn configs(&self) -> Vec<KeyConfig> {
        let config = |key_id, kem, public_key: &[u8]| KeyConfig {
            key_id,
            kem,
            public_key: public_key.to_vec(),
            symmetric: vec![(Kdf::HkdfSha256, self.hello.aead)],
        };
        let whole = config(0, self.hello.kem, &self.public_key);
        match self.hello.kem {
            Kem::X25519 => vec![whole],
            Kem::XWing => vec![whole, config(1, Kem::X25519, self.x25519_key())],
        }
    }

    /// The required `public_key` of the document.
    pub fn x25519_key(&self) -> &[u8] {
        // X-Wing's public key ends with its X25519 key (draft-connolly-cfrg-xwing-kem §5.2).
        let start = self.public_key.len().saturating_sub(32);
        self.public_key.get(start..).unwrap_or_default()
    }

    /// Answers with a document for [`nonce`](Self::nonce), whose manifest lists [`configs`](Self::configs).
    pub fn document(self, evidence: Evidence<'_>, wants_evidence: bool) -> (Vec<u8>, AwaitingKey) {
        self.answer(Proof::Document(evidence), wants_evidence)
    }

    /// Answers with a signature of the receipt key that the client [knows](ReceivedHello::known).
    ///
    /// # Errors
    /// [`ChannelError::Internal`].
    pub fn endorse(
        self,
        signer: &ReceiptSigner,
        wants_evidence: bool,
    ) -> Result<(Vec<u8>, AwaitingKey), ChannelError> {
        let mut configs = self.configs();
        configs.truncate(1);
        let key_list = KeyConfig::encode_list(&configs).map_err(|_| ChannelError::Internal)?;
        let signature = signer.endorse(&self.nonce(), &key_list);
        Ok(self.answer(
            Proof::Endorsement {
                key_list: &key_list,
                signature: &signature,
            },
            wants_evidence,
        ))
    }

    fn answer(self, proof: Proof<'_>, wants_evidence: bool) -> (Vec<u8>, AwaitingKey) {
        let message = ServerHello {
            proof,
            wants_evidence,
        }
        .encode();
        let awaiting = AwaitingKey {
            client_hello: self.hello.message,
            server_hello: message.clone(),
            key: self.key,
            aead: self.hello.aead,
            wants_evidence,
        };
        (message, awaiting)
    }
}

/// Waits for the client key. Holds the secret: no `Debug`, no `Clone`.
pub struct AwaitingKey {
    client_hello: Vec<u8>,
    server_hello: Vec<u8>,
    key: FreshKey,
    aead: Aead,
    wants_evidence: bool,
}

/// Result of opening the client key.
pub enum Accepted {
    /// A session with the sender of the hello.
    Anonymous(Session),
    /// A session with a client whose evidence must be appraised first.
    WithEvidence(PendingClient),
}

impl AwaitingKey {
    /// Opens the client key. The session ends at `expires`.
    ///
    /// # Errors
    /// [`ChannelError::Forged`] if the client saw another handshake, [`ChannelError::EvidenceWanted`] if it presents
    /// none, [`ChannelError::Malformed`], [`ChannelError::TooLarge`], [`ChannelError::BadKey`].
    pub fn receive(
        self,
        message: &[u8],
        now: MonotonicMillis,
        expires: MonotonicMillis,
    ) -> Result<Accepted, ChannelError> {
        let (body, confirmation) = ClientKey::split(message)?;
        let key = ClientKey::decode(body)?;
        let exporter = self
            .key
            .receive(key.enc, &info(&self.client_hello, &self.server_hello))?;
        let id = transcript(&self.client_hello, &self.server_hello, body);
        let schedule = Schedule::derive(exporter.as_ref(), self.aead, &id)?;
        if !confirmation_matches(&schedule, confirmation) {
            return Err(ChannelError::Forged);
        }
        let session = Session {
            sender: Sender::new(schedule.server, now, expires),
            receiver: Receiver::new(schedule.client),
            id,
            aead: self.aead,
        };
        match (self.wants_evidence, key.evidence) {
            (false, None) => Ok(Accepted::Anonymous(session)),
            (false, Some(_)) => Err(ChannelError::Unexpected("evidence that was not asked for")),
            (true, None) => Err(ChannelError::EvidenceWanted),
            (true, Some(presented)) => Ok(Accepted::WithEvidence(PendingClient {
                document: presented.evidence.document.to_vec(),
                manifest: presented.evidence.manifest.to_vec(),
                crls: Vec::new(),
                signature: *presented.signature,
                nonce: client_nonce(&self.client_hello, &self.server_hello, key.enc),
                session,
            })),
        }
    }
}
