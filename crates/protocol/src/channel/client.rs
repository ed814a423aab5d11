//! The client's half of the handshake.

use attestation::{
    Aead, Appraisal, AttestationReport, Conclusion, Evidence, Freshness, Kem, Policy, SealingKey,
    SignatureMemory, UnixMillis, VerifiedAttestation,
};
use rand_core::CryptoRng;
use subtle::ConstantTimeEq as _;

use super::agreement;
use super::mutual::Encapsulated;
use super::schedule::{Schedule, hello_nonce, info, transcript};
use super::session::{MonotonicMillis, Receiver, Sender, Session};
use super::wire::{ClientHello, ClientKey, Proof, ServerHello};
use super::{ChannelError, preferred_aeads};

/// A client's offer for a handshake.
#[derive(Clone, Copy)]
pub struct ClientOptions<'a> {
    /// Mechanisms in order of preference; the server's attested keys decide which one is used.
    pub kems: &'a [Kem],
    /// Ciphers, the fastest on this machine first.
    pub aeads: &'a [Aead],
    /// An enclave that was verified before. If it still runs, it may endorse a key instead of requesting a document.
    /// One that was not appraised [live](VerifiedAttestation::is_live) counts as unknown.
    pub known: Option<&'a VerifiedAttestation>,
    /// Whether this client can present evidence.
    pub has_evidence: bool,
}

impl Default for ClientOptions<'_> {
    fn default() -> Self {
        Self {
            kems: &Kem::ALL,
            aeads: preferred_aeads(),
            known: None,
            has_evidence: false,
        }
    }
}

/// Begins a handshake: returns the client hello, and the reader of its answer.
///
/// # Errors
/// [`ChannelError::NoSuite`] if the options are empty.
pub fn begin(
    options: ClientOptions<'_>,
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, AwaitingHello), ChannelError> {
    if options.kems.is_empty() || options.aeads.is_empty() {
        return Err(ChannelError::NoSuite);
    }
    let known = options.known.filter(|known| known.is_live());
    let mut random = [0; 32];
    rng.fill_bytes(&mut random);
    let message = ClientHello {
        random,
        kems: options.kems.to_vec(),
        aeads: options.aeads.to_vec(),
        known: known.map(|known| *known.receipt_key().bytes()),
        has_evidence: options.has_evidence,
    }
    .encode();
    let awaiting = AwaitingHello {
        hello: SentHello {
            nonce: hello_nonce(&message),
            message: message.clone(),
            kems: options.kems.to_vec(),
            aeads: options.aeads.to_vec(),
        },
        known: known.cloned(),
    };
    Ok((message, awaiting))
}

struct SentHello {
    message: Vec<u8>,
    nonce: [u8; 32],
    kems: Vec<Kem>,
    aeads: Vec<Aead>,
}

/// Waits for the server hello.
pub struct AwaitingHello {
    hello: SentHello,
    known: Option<VerifiedAttestation>,
}

impl AwaitingHello {
    /// Reads the server hello. Nothing in it has been verified yet.
    ///
    /// # Errors
    /// [`ChannelError::Malformed`], [`ChannelError::Version`], [`ChannelError::TooLarge`],
    /// [`ChannelError::UnaskedEndorsement`].
    pub fn receive(self, message: &[u8]) -> Result<Offer, ChannelError> {
        let hello = ServerHello::decode(message)?;
        let wants_evidence = hello.wants_evidence;
        match (hello.proof, self.known) {
            (Proof::Document(Evidence { document, manifest }), _) => {
                Ok(Offer::Documented(DocumentedOffer {
                    document: document.to_vec(),
                    manifest: manifest.to_vec(),
                    crls: Vec::new(),
                    offer: ServerOffer {
                        hello: self.hello,
                        server_hello: message.to_vec(),
                        wants_evidence,
                    },
                }))
            }
            (
                Proof::Endorsement {
                    key_list,
                    signature,
                },
                Some(known),
            ) => Ok(Offer::Endorsed(EndorsedOffer {
                key_list: key_list.to_vec(),
                signature: *signature,
                known: Box::new(known),
                offer: ServerOffer {
                    hello: self.hello,
                    server_hello: message.to_vec(),
                    wants_evidence,
                },
            })),
            (Proof::Endorsement { .. }, None) => Err(ChannelError::UnaskedEndorsement),
        }
    }
}

struct ServerOffer {
    hello: SentHello,
    server_hello: Vec<u8>,
    wants_evidence: bool,
}

/// How the server proves that it holds the offered key.
pub enum Offer {
    /// By a document that answers this client hello.
    Documented(DocumentedOffer),
    /// By the receipt key of an attestation that this client has verified.
    Endorsed(EndorsedOffer),
}

/// A key with a document, not appraised yet.
pub struct DocumentedOffer {
    document: Vec<u8>,
    manifest: Vec<u8>,
    crls: Vec<u8>,
    offer: ServerOffer,
}

impl DocumentedOffer {
    /// Document and manifest, as received.
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            document: &self.document,
            manifest: &self.manifest,
        }
    }

    /// Adds certificate revocation lists, in DER, one after another: a policy may require them.
    #[must_use]
    pub fn with_crls(self, crls: Vec<u8>) -> Self {
        Self { crls, ..self }
    }

    /// Checks 1 to 25 and 27, live, with the hash of this client hello as the nonce.
    pub fn appraise(
        self,
        policy: &Policy,
        now: UnixMillis,
        memory: &mut SignatureMemory,
    ) -> (AttestationReport, AppraisedOffer) {
        let freshness = Freshness::Live {
            nonce: &self.offer.hello.nonce,
            now,
        };
        let (report, conclusion) = Appraisal::of(&self.document)
            .with_manifest(&self.manifest)
            .with_crls(&self.crls)
            .with_memory(memory)
            .verify(policy, freshness);
        (
            report,
            AppraisedOffer {
                conclusion,
                offer: self.offer,
                now,
            },
        )
    }
}

/// An appraised document. As with [`Conclusion`], the caller gets a key only by stating which verdict is good enough.
#[must_use = "call a method to get the attested server"]
pub struct AppraisedOffer {
    conclusion: Conclusion,
    offer: ServerOffer,
    now: UnixMillis,
}

impl AppraisedOffer {
    /// The attested server, where the verdict is `verified`.
    ///
    /// # Errors
    /// [`ChannelError::NoSuite`] if this client cannot use the attested keys.
    pub fn verified(self) -> Result<Option<Attested>, ChannelError> {
        let Self {
            conclusion,
            offer,
            now,
        } = self;
        let enclave = conclusion.verified();
        enclave
            .map(|enclave| offer.attested(&enclave.sealing_keys(), enclave, now))
            .transpose()
    }

    /// The attested server, where the verdict is `verified` or `simulated`: for development.
    ///
    /// # Errors
    /// Those of [`verified`](Self::verified).
    pub fn including_simulated(self) -> Result<Option<Attested>, ChannelError> {
        let Self {
            conclusion,
            offer,
            now,
        } = self;
        let enclave = conclusion.including_simulated();
        enclave
            .map(|enclave| offer.attested(&enclave.sealing_keys(), enclave, now))
            .transpose()
    }
}

/// A key with an endorsement, not checked yet.
pub struct EndorsedOffer {
    key_list: Vec<u8>,
    signature: [u8; 64],
    known: Box<VerifiedAttestation>,
    offer: ServerOffer,
}

impl EndorsedOffer {
    /// Checks that the attested receipt key signed this key for this client hello, while the attestation is valid.
    ///
    /// # Errors
    /// [`ChannelError::Endorsement`], [`ChannelError::NoSuite`].
    pub fn check(self, now: UnixMillis) -> Result<Attested, ChannelError> {
        let Self {
            key_list,
            signature,
            known,
            offer,
        } = self;
        let keys = known.endorsed_keys(&offer.hello.nonce, &key_list, &signature, now)?;
        offer.attested(&keys, *known, now)
    }
}

impl ServerOffer {
    /// The mechanism is the client's first among the attested keys, and the cipher is the attested one. No other statement of the
    /// server has influence, so an attacker on the path cannot choose a weaker suite.
    fn attested(
        self,
        keys: &[SealingKey],
        enclave: VerifiedAttestation,
        now: UnixMillis,
    ) -> Result<Attested, ChannelError> {
        let key = self
            .hello
            .kems
            .iter()
            .find_map(|kem| keys.iter().find(|key| key.config().kem == *kem))
            .ok_or(ChannelError::NoSuite)?
            .clone();
        let aead = match key.config().symmetric.as_slice() {
            [(_, aead)] if self.hello.aeads.contains(aead) => *aead,
            _ => return Err(ChannelError::NoSuite),
        };
        Ok(Attested {
            offer: self,
            enclave,
            key,
            aead,
            now,
        })
    }
}

/// A server whose fresh key was attested.
pub struct Attested {
    offer: ServerOffer,
    enclave: VerifiedAttestation,
    key: SealingKey,
    aead: Aead,
    now: UnixMillis,
}

impl Attested {
    /// The enclave. Keep it: the next handshake may name it ([`ClientOptions::known`]).
    pub fn attestation(&self) -> &VerifiedAttestation {
        &self.enclave
    }

    /// The mechanism in use.
    pub fn kem(&self) -> Kem {
        self.key.config().kem
    }

    /// Whether the server serves attested clients only.
    pub fn wants_evidence(&self) -> bool {
        self.offer.wants_evidence
    }

    /// Encapsulates to the attested key; returns the client key and the session. Frames may follow immediately.
    ///
    /// `now` is the moment of the appraisal, on a monotonic clock.
    ///
    /// # Errors
    /// [`ChannelError::BadKey`] for low-order points and malformed keys, [`ChannelError::EvidenceWanted`] if the
    /// server asks for evidence: call [`encapsulate`](Self::encapsulate) instead.
    pub fn finish(
        self,
        now: MonotonicMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<(Vec<u8>, Session), ChannelError> {
        if self.wants_evidence() {
            return Err(ChannelError::EvidenceWanted);
        }
        self.encapsulate(now, rng)?.without_evidence()
    }

    /// Encapsulates to the attested key, and waits for the evidence that the server wants.
    ///
    /// # Errors
    /// [`ChannelError::BadKey`].
    pub fn encapsulate(
        self,
        now: MonotonicMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<Encapsulated, ChannelError> {
        let ServerOffer {
            hello,
            server_hello,
            ..
        } = self.offer;
        let config = self.key.config();
        let info = info(&hello.message, &server_hello);
        let (enc, exporter) = agreement::encapsulate(config.kem, &config.public_key, &info, rng)?;
        // Expiry on the monotonic clock: the rest of the attestation's validity, by the enclave's own time.
        let at_enclave = self.enclave.clock_offset().to_enclave(self.now);
        let left = self.enclave.valid_until().0.saturating_sub(at_enclave.0);
        Ok(Encapsulated {
            client_hello: hello.message,
            server_hello,
            enc,
            exporter,
            aead: self.aead,
            now,
            expires: MonotonicMillis(now.0.saturating_add(left)),
        })
    }
}

impl Encapsulated {
    /// The client key message, and the session.
    pub(super) fn confirm(self, key: &ClientKey<'_>) -> Result<(Vec<u8>, Session), ChannelError> {
        let mut message = key.encode();
        let id = transcript(&self.client_hello, &self.server_hello, &message);
        let schedule = Schedule::derive(self.exporter.as_ref(), self.aead, &id)?;
        message.extend_from_slice(schedule.confirmation.as_slice());
        let session = Session {
            sender: Sender::new(schedule.client, self.now, self.expires),
            receiver: Receiver::new(schedule.server),
            id,
            aead: self.aead,
        };
        Ok((message, session))
    }
}

/// Compares in constant time: the confirmation is secret until it matches.
pub(super) fn confirmation_matches(schedule: &Schedule, confirmation: &[u8]) -> bool {
    schedule.confirmation.as_slice().ct_eq(confirmation).into()
}
