//! TLS of the local port, for clients that send a key over nothing else.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads a chain of certificates, the server's first, and its private key, both PEM.
pub(super) fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor> {
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
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| {
            format!(
                "the key of {} does not fit the certificate of {}",
                key.display(),
                certificates.display()
            )
        })?;
    let mut config = config;
    // RFC 7301: the only protocol that is served.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
