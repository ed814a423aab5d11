//! The attested channel. A simulated security module in this process signs the documents.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use attestation::{Kem, Policy, SignatureMemory};
use bytes::Bytes;
use channel::{Channel, Evidence, Verifier, accept, connect};
use fixtures::enclave::NOW;
use fixtures::{Fixture, attested_contents, keyed_manifest};
use forge::{Contents, Issuer, Link};
use protocol::channel::frame::Kind;
use protocol::channel::{
    Accepted, ClientOptions, MonotonicMillis, Offer, Prepared, ReceivedHello, Session, begin,
    preferred_aeads,
};
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::connection::Connection;
use crate::transport::{End, Transport, TransportInfo};

const HOUR: Duration = Duration::from_secs(3_600);

/// How the server proves that the session key is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A signature by the receipt key that an earlier document bound.
    Endorsement,
    /// A document with this many certificates below the pinned root. No verification is cached.
    Document(usize),
}

/// Opens attested channels.
pub struct AttestedChannel {
    proof: Proof,
    post_quantum: bool,
    chain: Chain,
    signer: ReceiptSigner,
    policy: Policy,
    verifier: Verifier,
    rng: ChaCha20Rng,
}

/// A certificate chain, signed once, and the issuer that signs documents under it.
struct Chain {
    issuer: Issuer,
    links: Vec<Link>,
    ders: Vec<Vec<u8>>,
}

impl AttestedChannel {
    /// Channels with this `proof` and key exchange: X-Wing if `post_quantum`, otherwise X25519.
    ///
    /// # Errors
    /// If `proof` asks for a chain of fewer than 1 or more than 4 certificates.
    pub fn new(proof: Proof, post_quantum: bool) -> Result<Self> {
        // Speed does not depend on the random values, and a seed makes runs reproducible.
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let signer = ReceiptSigner::generate(&mut rng);
        let manifest = keyed_manifest(Vec::new(), signer.public_key(), NOW);
        let Fixture { issuer, policy, .. } = Fixture::with_manifest(manifest, NOW, &mut rng);
        let below = match proof {
            Proof::Endorsement => 4,
            Proof::Document(below) => below,
        };
        Ok(Self {
            proof,
            post_quantum,
            chain: Chain::new(issuer, below)?,
            verifier: verifier(&policy, post_quantum),
            signer,
            policy,
            rng,
        })
    }
}

fn verifier(policy: &Policy, post_quantum: bool) -> Verifier {
    let verifier = Verifier::new(policy.clone()).including_simulated();
    match post_quantum {
        true => verifier,
        false => verifier.classic(),
    }
}

impl Chain {
    /// The root, the first `below` certificates below it, and a leaf signed by the last of them.
    fn new(issuer: Issuer, below: usize) -> Result<Self> {
        let mut links = issuer.forge(&Contents::example(), NOW.0).links;
        ensure!(
            (1..links.len()).contains(&below),
            "there is no chain of {below} certificates"
        );
        let mut leaf = links.pop().context("an empty chain")?;
        links.truncate(below);
        leaf.signed_by = below - 1;
        leaf.spec.issuer = links
            .last()
            .context("a chain without a root")?
            .spec
            .subject
            .clone();
        links.push(leaf);
        let mut forgery = issuer.forge(&Contents::example(), NOW.0);
        forgery.links.clone_from(&links);
        let ders = forgery.certificates();
        Ok(Self {
            issuer,
            links,
            ders,
        })
    }

    fn document(&self, contents: &Contents) -> Vec<u8> {
        let mut forgery = self.issuer.forge(contents, NOW.0);
        forgery.links.clone_from(&self.links);
        forgery.signed_by = self.links.len() - 1;
        forgery.build_with(&self.ders)
    }
}

impl Transport for AttestedChannel {
    type End = ChannelEnd;

    fn info(&self) -> TransportInfo {
        let (attestation, certificates) = match self.proof {
            Proof::Endorsement => ("endorsed key", 0),
            Proof::Document(below) => ("document, simulated", below),
        };
        let kind = if self.post_quantum {
            "X-Wing"
        } else {
            "X25519"
        };
        let cipher = match preferred_aeads().first() {
            Some(attestation::Aead::Aes256Gcm) => "AES-256-GCM",
            _ => "ChaCha20-Poly1305",
        };
        TransportInfo {
            transport: "secure channel",
            in_process: "secure channel in process",
            engine: "clearseal",
            cipher: Some(cipher),
            establishment: vec![
                ("attestation", attestation.into()),
                ("certificates", certificates.into()),
                ("kind", kind.into()),
            ],
            carries_messages: self.proof == Proof::Endorsement && !self.post_quantum,
        }
    }

    async fn establish(
        &mut self,
        near: Connection,
        far: Connection,
    ) -> Result<(ChannelEnd, ChannelEnd)> {
        let mut of_server = ChaCha20Rng::from_rng(&mut self.rng);
        let mut of_client = ChaCha20Rng::from_rng(&mut self.rng);
        let endorses = self.proof == Proof::Endorsement;
        if !endorses {
            self.verifier = verifier(&self.policy, self.post_quantum);
        }
        let (chain, signer) = (&self.chain, &self.signer);
        let attest = async |prepared: &Prepared, known: Option<[u8; 32]>| {
            if endorses && known == Some(signer.public_key()) {
                return Evidence::Endorsement(signer);
            }
            match document(chain, signer, prepared) {
                Ok((document, manifest)) => Evidence::Document { document, manifest },
                Err(_) => Evidence::Busy,
            }
        };
        let (server, client) = tokio::try_join!(
            accept(far, attest, HOUR, HOUR, &mut of_server),
            connect(near, &mut self.verifier, NOW, HOUR, &mut of_client)
        )?;
        Ok((ChannelEnd(client), ChannelEnd(server)))
    }
}

/// One end of a channel.
pub struct ChannelEnd(Channel<Connection>);

impl End for ChannelEnd {
    async fn send(&mut self, payload: &Bytes) -> Result<()> {
        Ok(self.0.outgoing.send(Kind::Data, payload).await?)
    }

    async fn receive(&mut self) -> Result<usize> {
        let message = self.0.incoming.receive().await?;
        Ok(message.context("the session was closed")?.payload.len())
    }

    async fn echo(&mut self) -> Result<()> {
        let message = self.0.incoming.receive().await?;
        let message = message.context("the session was closed")?;
        Ok(self.0.outgoing.send(message.kind, message.payload).await?)
    }

    async fn close(&mut self) -> Result<()> {
        Ok(self.0.outgoing.close().await?)
    }

    async fn wait_closed(&mut self) -> Result<()> {
        ensure!(
            self.0.incoming.receive().await?.is_none(),
            "a message after the end"
        );
        Ok(())
    }
}

/// A document for a fresh key, with the manifest that it binds.
fn document(
    chain: &Chain,
    signer: &ReceiptSigner,
    prepared: &Prepared,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let manifest = keyed_manifest(prepared.configs(), signer.public_key(), NOW);
    let contents = attested_contents(&Contents::example(), &manifest, &prepared.nonce());
    Ok((chain.document(&contents), manifest.encode()?))
}

/// Opens a session without a stream; returns the client's end and the server's.
pub(crate) fn sessions() -> Result<(Session, Session)> {
    let mut ours = AttestedChannel::new(Proof::Document(4), false)?;
    let options = ClientOptions {
        kems: &[Kem::X25519],
        ..ClientOptions::default()
    };
    let (hello, client) = begin(options, &mut ours.rng)?;
    let prepared = ReceivedHello::read(&hello, preferred_aeads())?.prepare(&mut ours.rng);
    let (document, manifest) = document(&ours.chain, &ours.signer, &prepared)?;
    let evidence = attestation::Evidence {
        document: &document,
        manifest: &manifest,
    };
    let (answer, server) = prepared.document(evidence, false);
    let Offer::Documented(offer) = client.receive(&answer)? else {
        anyhow::bail!("no document was offered");
    };
    let (_, judged) = offer.appraise(&ours.policy, NOW, &mut SignatureMemory::new());
    let attested = judged.including_simulated()?;
    let attested = attested.context("the document was refused")?;
    let start = MonotonicMillis(0);
    let (key, client) = attested.finish(start, &mut ours.rng)?;
    match server.receive(&key, start, MonotonicMillis(u64::MAX))? {
        Accepted::Anonymous(server) => Ok((client, server)),
        Accepted::WithEvidence(_) => anyhow::bail!("evidence that was not asked for"),
    }
}
