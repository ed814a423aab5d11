//! TLS 1.3 by rustls with three crypto providers. No tickets and no resumption: a full handshake each time.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P384_SHA384};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use transports::connection::Connection;
use transports::plaintext::Framed;
use transports::{Transport, TransportInfo};

pub const AWS: &str = "rustls, aws-lc-rs";
pub const RING: &str = "rustls, ring";
pub const GRAVIOLA: &str = "rustls, graviola";

const CIPHER: rustls::CipherSuite = rustls::CipherSuite::TLS13_AES_256_GCM_SHA384;

/// The server's certificate chain.
#[derive(Clone, Copy)]
pub enum Chain {
    /// One P-256 certificate that the client pins, as published.
    SelfSigned,
    /// A chain of this many P-384 certificates below a pinned root.
    P384(usize),
}

pub struct Tls {
    name: &'static str,
    chain: Chain,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl Tls {
    pub fn new(name: &'static str, mut provider: CryptoProvider, chain: Chain) -> Result<Self> {
        // The same cipher for all three; otherwise each would use the first of its own list.
        provider
            .cipher_suites
            .retain(|suite| suite.suite() == CIPHER);
        let (root, certificates, key) = match chain {
            Chain::SelfSigned => self_signed()?,
            Chain::P384(below) => p384(below)?,
        };
        let provider = Arc::new(provider);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        server.send_tls13_tickets = 0;
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self {
            name,
            chain,
            acceptor: Arc::new(server).into(),
            connector: Arc::new(client).into(),
        })
    }
}

type SignedChain = (
    CertificateDer<'static>,
    Vec<CertificateDer<'static>>,
    KeyPair,
);

fn parameters() -> Result<CertificateParams> {
    Ok(CertificateParams::new(vec!["localhost".to_owned()])?)
}

fn self_signed() -> Result<SignedChain> {
    let key = KeyPair::generate()?;
    let certificate = parameters()?.self_signed(&key)?;
    let der = certificate.der().clone();
    Ok((der.clone(), vec![der], key))
}

/// A root, `below - 1` intermediate certificates, and a leaf.
fn p384(below: usize) -> Result<SignedChain> {
    let key = || KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384);
    let authority = |name: String| -> Result<_> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        Ok(authority)
    };
    let (top, top_key) = (authority("root".to_owned())?, key()?);
    let root = top.self_signed(&top_key)?.der().clone();
    let mut issuer = Issuer::new(top, top_key);
    let mut chain = Vec::new();
    for at in 1..below {
        let (next, next_key) = (authority(format!("authority {at}"))?, key()?);
        chain.push(next.signed_by(&next_key, &issuer)?.der().clone());
        issuer = Issuer::new(next, next_key);
    }
    let leaf = key()?;
    chain.push(parameters()?.signed_by(&leaf, &issuer)?.der().clone());
    // The leaf comes first (RFC 8446 §4.4.2).
    chain.reverse();
    Ok((root, chain, leaf))
}

impl Transport for Tls {
    type End = Framed<TlsStream<Connection>>;

    fn info(&self) -> TransportInfo {
        let (certificates, curve) = match self.chain {
            Chain::SelfSigned => (1_usize, "P-256, pinned"),
            Chain::P384(below) => (below, "P-384"),
        };
        TransportInfo {
            transport: "TLS 1.3",
            in_process: "TLS 1.3",
            engine: self.name,
            cipher: Some("AES-256-GCM"),
            establishment: vec![
                ("certificates", certificates.into()),
                ("curve", curve.into()),
            ],
            carries_messages: matches!(self.chain, Chain::SelfSigned),
        }
    }

    async fn establish(
        &mut self,
        near: Connection,
        far: Connection,
    ) -> Result<(Self::End, Self::End)> {
        let name = ServerName::try_from("localhost")?;
        let (server, client) = tokio::try_join!(
            self.acceptor.accept(far),
            self.connector.connect(name, near)
        )?;
        let suite = client.get_ref().1.negotiated_cipher_suite();
        let suite = suite.context("no cipher suite")?.suite();
        anyhow::ensure!(suite == CIPHER, "another cipher: {suite:?}");
        Ok((Framed::new(client.into()), Framed::new(server.into())))
    }
}
