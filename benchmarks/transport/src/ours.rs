//! The attested channel, by X25519 as the peers: with an endorsed key (`ENDORSED`), or with a document for each session.

use std::time::Duration;

use attestation::{
    HashScheme, ModelIdentity, Policy, SecurityMode, ServiceManifest, TrustAnchor, UnixMillis,
    manifest_binding,
};
use channel::{Channel, Evidence, Verifier, accept, connect};
use protocol::channel::Prepared;
use protocol::channel::frame::Kind;
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::io::{DuplexStream, duplex};

use crate::{Echo, PIPE, Transport};

const NOW: UnixMillis = UnixMillis(1_795_183_380_000);
const HOUR: Duration = Duration::from_secs(3_600);

pub struct Ours<const ENDORSED: bool> {
    issuer: std::sync::Mutex<forge::Issuer>,
    signer: ReceiptSigner,
    policy: Policy,
    verifier: Verifier,
    rng: ChaCha20Rng,
}

impl<const ENDORSED: bool> Ours<ENDORSED> {
    pub fn new() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let signer = ReceiptSigner::generate(&mut rng);
        let root = forge::DevelopmentRoot::generate(&mut rng, NOW.0);
        let issuer = forge::Issuer::new(root, &mut rng, NOW.0);
        let root = TrustAnchor::development(issuer.root_der()).unwrap();
        let pcrs = forge::Contents::example().pcrs.into_iter();
        let pcrs = pcrs.filter(|(index, _)| *index < 3).collect();
        let policy = Policy::for_development(root, pcrs, &manifest(&signer, Vec::new())).unwrap();
        Self {
            issuer: issuer.into(),
            signer,
            verifier: Verifier::new(policy.clone())
                .including_simulated()
                .classic(),
            policy,
            rng,
        }
    }
}

impl<const ENDORSED: bool> Transport for Ours<ENDORSED> {
    type Pair = Pair;
    const NAME: &'static str = match ENDORSED {
        true => "ours, endorsed key",
        false => "ours, document (5 P-384, simulated)",
    };

    async fn establish(&mut self) -> Pair {
        let (near, far) = duplex(PIPE);
        let (mut of_server, mut of_client) = (rng(&mut self.rng), rng(&mut self.rng));
        let (issuer, signer) = (&self.issuer, &self.signer);
        if !ENDORSED {
            // Neither the attestation nor the chain's signatures are remembered.
            self.verifier = Verifier::new(self.policy.clone())
                .including_simulated()
                .classic();
        }
        let attest = async |prepared: &Prepared, known: Option<[u8; 32]>| {
            if known == Some(signer.public_key()) {
                return Evidence::Endorsement(signer);
            }
            let bytes = manifest(signer, prepared.configs()).encode().unwrap();
            let contents = forge::Contents {
                public_key: Some(prepared.x25519_key().to_vec()),
                user_data: Some(manifest_binding(&bytes).to_vec()),
                nonce: Some(prepared.nonce().to_vec()),
                ..forge::Contents::example()
            };
            let mut rng = ChaCha20Rng::from_seed(prepared.nonce());
            Evidence::Document {
                document: issuer.lock().unwrap().document(&contents, NOW.0, &mut rng),
                manifest: bytes,
            }
        };
        let (server, client) = tokio::join!(
            accept(far, attest, HOUR, HOUR, &mut of_server),
            connect(near, &mut self.verifier, NOW, HOUR, &mut of_client)
        );
        let (server, client) = (server.unwrap(), client.unwrap());
        let echo = tokio::spawn(async move {
            let Channel {
                mut incoming,
                mut outgoing,
                ..
            } = server;
            while let Ok(Some(message)) = incoming.receive().await {
                let mut payload = message.payload.to_vec();
                if outgoing
                    .send_in_place(Kind::Data, &mut payload)
                    .await
                    .is_err()
                {
                    break;
                }
            }
        });
        Pair { client, echo }
    }
}

pub struct Pair {
    client: Channel<DuplexStream>,
    echo: tokio::task::JoinHandle<()>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.echo.abort();
    }
}

impl Echo for Pair {
    async fn round_trip(&mut self, payload: &[u8]) {
        self.client
            .outgoing
            .send(Kind::Data, payload)
            .await
            .unwrap();
        let message = self.client.incoming.receive().await.unwrap().unwrap();
        assert_eq!(message.payload.len(), payload.len());
    }
}

fn rng(seed: &mut ChaCha20Rng) -> ChaCha20Rng {
    ChaCha20Rng::from_rng(seed)
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
