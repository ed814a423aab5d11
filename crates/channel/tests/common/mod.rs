//! A simulated enclave that accepts channels.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use attestation::Policy;
use channel::{Channel, Error, Evidence, Verifier, accept, connect};
use fixtures::{attested_contents, enclave, keyed_manifest};
use protocol::channel::Prepared;
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, WriteHalf};

pub use fixtures::enclave::NOW;
pub use fixtures::rng;

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
        let enclave::Enclave {
            issuer,
            signer,
            policy,
            ..
        } = enclave::Enclave::start(seed);
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

    /// Number of documents that were made.
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

    /// Sends evidence after `delay`. A document is dated at that time.
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
            let manifest = keyed_manifest(prepared.configs(), self.signer.public_key(), NOW);
            let contents =
                attested_contents(&forge::Contents::example(), &manifest, &prepared.nonce());
            let mut rng = ChaCha20Rng::from_seed(prepared.nonce());
            Evidence::Document {
                document: self
                    .issuer
                    .lock()
                    .unwrap()
                    .document(&contents, dated, &mut rng),
                manifest: manifest.encode().unwrap(),
            }
        };
        accept(stream, attest, DEADLINE, LIFETIME, &mut rng(seed)).await
    }
}

/// Writes bytes to the stream of a channel without sealing them. The stream stays open while the result is held.
pub async fn write_raw<S: AsyncRead + AsyncWrite>(
    channel: Channel<S>,
    bytes: &[u8],
) -> (channel::Incoming<tokio::io::ReadHalf<S>>, WriteHalf<S>) {
    let mut stream = channel.outgoing.into_stream();
    stream.write_all(bytes).await.unwrap();
    (channel.incoming, stream)
}

/// Answers each message with the same message, until the peer closes.
pub async fn echo<S: AsyncRead + AsyncWrite>(
    stream: S,
    enclave: &Enclave,
    seed: u64,
) -> Result<(), Error> {
    let Channel {
        mut incoming,
        mut outgoing,
        ..
    } = enclave.accept(stream, seed).await?;
    while let Some(message) = incoming.receive().await? {
        let (kind, payload) = (message.kind, message.payload.to_vec());
        outgoing.send(kind, &payload).await?;
    }
    outgoing.close().await
}

/// Opens a channel as a client.
pub async fn client<S: AsyncRead + AsyncWrite>(
    stream: S,
    verifier: &mut Verifier,
    seed: u64,
) -> Result<Channel<S>, Error> {
    connect(stream, verifier, NOW, DEADLINE, &mut rng(seed)).await
}
