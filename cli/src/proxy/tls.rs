//! TLS of the local port, for clients that send a key over nothing else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate::SelfSigned;
use super::gate::HostName;
use crate::args::ProxyArgs;

/// Reads a chain of certificates, the server's first, and its private key, both PEM.
pub(super) fn read_acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor> {
    let unreadable = |path: &Path| format!("cannot read {}", path.display());
    let pem = std::fs::read(certificates).with_context(|| unreadable(certificates))?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let chain =
        chain.with_context(|| format!("{} is not a valid PEM file", certificates.display()))?;
    if chain.is_empty() {
        bail!("{} holds no certificate, PEM", certificates.display());
    }
    let pem = zeroize::Zeroizing::new(std::fs::read(key).with_context(|| unreadable(key))?);
    let Ok(private) = PrivateKeyDer::from_pem_slice(&pem) else {
        bail!(
            "{} holds no private key, PEM (not encrypted with a password)",
            key.display()
        );
    };
    serve_with(chain, private).with_context(|| {
        format!(
            "the key of {} does not fit the certificate of {}",
            key.display(),
            certificates.display()
        )
    })
}

/// Makes a certificate for the names that the proxy answers to, and writes it to `file`. Returns its fingerprint, too.
pub(super) fn issue_acceptor(
    args: &ProxyArgs,
    file: Option<&Path>,
) -> Result<(TlsAcceptor, String)> {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    let mut names = vec![HostName::Name("localhost".to_owned())];
    names.extend(loopback.map(HostName::Address));
    let listen = HostName::Address(args.listen.ip().to_canonical());
    let others = args.allow_host.iter().cloned().chain([listen]);
    for name in others {
        let is_unspecified = matches!(name, HostName::Address(address) if address.is_unspecified());
        if !is_unspecified && !names.contains(&name) {
            names.push(name);
        }
    }
    let issued = SelfSigned::issue(&names)?;
    if let Some(file) = file {
        std::fs::write(file, issued.pem()?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let fingerprint = issued.fingerprint();
    let chain = vec![issued.certificate.into()];
    let key = PrivatePkcs8KeyDer::from(issued.key.to_vec());
    let acceptor = serve_with(chain, key.into()).context("the new certificate is unusable")?;
    Ok((acceptor, fingerprint))
}

fn serve_with(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    // RFC 7301: the only protocol that is served.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
