//! An enclave that accepts channels, simulated.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use attestation::{
    HashScheme, ModelIdentity, Policy, SecurityMode, ServiceManifest, TrustAnchor, UnixMillis,
    manifest_binding,
};
use channel::{Channel, Error, Evidence, Verifier, accept};
use protocol::channel::Prepared;
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, WriteHalf};

pub const NOW: UnixMillis = UnixMillis(1_795_183_380_000);
pub const DEADLINE: Duration = Duration::from_secs(10);
pub const LIFETIME: Duration = Duration::from_secs(3_600);

pub struct Enclave {
    issuer: Mutex<forge::Issuer>,
    signer: ReceiptSigner,
    policy: Policy,
    documents: AtomicUsize,
}

impl Enclave {
    pub fn start(seed: u64) -> Self {
        let mut rng = rng(seed);
        let signer = ReceiptSigner::generate(&mut rng);
        let root = forge::DevelopmentRoot::generate(&mut rng, NOW.0);
        let issuer = forge::Issuer::new(root, &mut rng, NOW.0);
        let root = TrustAnchor::development(issuer.root_der()).unwrap();
        let pcrs = forge::Contents::example().pcrs.into_iter();
        let pcrs = pcrs.filter(|(index, _)| *index < 3).collect();
        let policy = Policy::for_development(root, pcrs, &manifest(&signer, Vec::new())).unwrap();
        Self {
            issuer: Mutex::new(issuer),
            signer,
            policy,
            documents: AtomicUsize::new(0),
        }
    }

    pub fn verifier(&self) -> Verifier {
        Verifier::new(self.policy.clone()).including_simulated()
    }

    /// Documents that were made so far.
    pub fn documents(&self) -> usize {
        self.documents.load(Ordering::Relaxed)
    }

    pub async fn accept<S: AsyncRead + AsyncWrite>(
        &self,
        stream: S,
        seed: u64,
    ) -> Result<Channel<S>, Error> {
        self.accept_after(stream, seed, Duration::ZERO).await
    }

    /// Shows its evidence after `delay`; a document is dated by then.
    pub async fn accept_after<S: AsyncRead + AsyncWrite>(
        &self,
        stream: S,
        seed: u64,
        delay: Duration,
    ) -> Result<Channel<S>, Error> {
        let dated = NOW.0 + delay.as_millis() as u64;
        let attest = async |prepared: &Prepared, known: Option<[u8; 32]>| {
            tokio::time::sleep(delay).await;
            if known == Some(self.signer.public_key()) {
                return Evidence::Endorsement(&self.signer);
            }
            self.documents.fetch_add(1, Ordering::Relaxed);
            let manifest = manifest(&self.signer, prepared.configs());
            let bytes = manifest.encode().unwrap();
            let contents = forge::Contents {
                public_key: Some(prepared.x25519_key().to_vec()),
                user_data: Some(manifest_binding(&bytes).to_vec()),
                nonce: Some(prepared.nonce().to_vec()),
                ..forge::Contents::example()
            };
            let mut rng = ChaCha20Rng::from_seed(prepared.nonce());
            Evidence::Document {
                document: self
                    .issuer
                    .lock()
                    .unwrap()
                    .document(&contents, dated, &mut rng),
                manifest: bytes,
            }
        };
        accept(stream, attest, DEADLINE, LIFETIME, &mut rng(seed)).await
    }
}

/// Writes bytes that are no frame to the stream of a channel; keeps the stream open for as long as the result is held.
pub async fn write_raw<S: AsyncRead + AsyncWrite>(
    channel: Channel<S>,
    bytes: &[u8],
) -> (channel::Incoming<tokio::io::ReadHalf<S>>, WriteHalf<S>) {
    let mut stream = channel.outgoing.into_stream();
    stream.write_all(bytes).await.unwrap();
    (channel.incoming, stream)
}

pub fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn manifest(signer: &ReceiptSigner, sealing_keys: Vec<attestation::KeyConfig>) -> ServiceManifest {
    ServiceManifest {
        version: 1,
        sealing_keys,
        receipt_key: signer.public_key(),
        model: ModelIdentity {
            id: "all-MiniLM-L6-v2".into(),
            version: "1".into(),
            sha256: [5; 32],
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
        },
        policy_version: "2026-11-01".into(),
        security_mode: SecurityMode::Evaluation,
        not_before: NOW.seconds() - 60,
        not_after: NOW.seconds() + 3_600,
    }
}
