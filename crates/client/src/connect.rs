//! Connections of a host: directly or through a forward proxy, and the authorities that TLS trusts.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::error::Error;

const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// Less than a host keeps an idle connection open, so that a pooled one is seldom closed while it is being used.
const IDLE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Names a file of authorities, as OpenSSL reads it.
const AUTHORITIES_FILE: &str = "SSL_CERT_FILE";

/// Authorities that the caller has named, for every connection of this process.
static AUTHORITIES: OnceLock<ClientConfig> = OnceLock::new();

/// Trusts these certificate authorities, PEM, instead of the public ones, on every connection over https that is set up from now
/// on. Without this call, the file that the variable `SSL_CERT_FILE` names is used the same way. Which authorities are trusted decides
/// only who can be reached: an enclave is verified by its own evidence.
///
/// # Errors
/// [`Error::AuthoritiesUnusable`], also on a second call.
pub fn trust_authorities(pem: &[u8]) -> Result<(), Error> {
    let set = AUTHORITIES.set(configure(pem)?);
    set.map_err(|_| Error::AuthoritiesUnusable)
}

fn configure(pem: &[u8]) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| Error::AuthoritiesUnusable)?;
        let added = roots.add(certificate);
        added.map_err(|_| Error::AuthoritiesUnusable)?;
    }
    if roots.is_empty() {
        return Err(Error::AuthoritiesUnusable);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|_| Error::AuthoritiesUnusable)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn authorities() -> Result<Option<ClientConfig>, Error> {
    if let Some(config) = AUTHORITIES.get() {
        return Ok(Some(config.clone()));
    }
    match std::env::var_os(AUTHORITIES_FILE).filter(|file| !file.is_empty()) {
        Some(file) => {
            let pem = std::fs::read(Path::new(&file)).map_err(|_| Error::AuthoritiesUnusable)?;
            configure(&pem).map(Some)
        }
        None => Ok(None),
    }
}

/// A pool of connections to one host.
#[derive(Clone)]
pub(crate) enum Http {
    Direct(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
    /// Over `CONNECT` of a forward proxy.
    Tunnelled(Client<HttpsConnector<Tunnel<HttpConnector>>, Full<Bytes>>),
}

impl Http {
    /// Prepares connections to `uri`, and returns the address of the proxy that they pass.
    pub(crate) fn new(uri: &Uri) -> Result<(Self, Option<Arc<str>>), Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let authorities = match uri.scheme_str() {
            Some("https") => authorities()?,
            _ => None,
        };
        let Some(proxy) = find_proxy(&Matcher::from_env(), uri)? else {
            return Ok((Self::Direct(pool(tcp, authorities)), None));
        };
        let address = proxy.uri().authority().map(|it| it.as_str().into());
        let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp);
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        Ok((Self::Tunnelled(pool(tunnel, authorities)), address))
    }

    pub(crate) fn request(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        match self {
            Self::Direct(client) => client.request(request),
            Self::Tunnelled(client) => client.request(request),
        }
    }
}

fn pool<C>(
    connector: C,
    authorities: Option<ClientConfig>,
) -> Client<HttpsConnector<C>, Full<Bytes>>
where
    HttpsConnector<C>: hyper_util::client::legacy::connect::Connect + Clone,
{
    let tls = HttpsConnectorBuilder::new();
    let tls = match authorities {
        Some(config) => tls.with_tls_config(config),
        None => tls.with_webpki_roots(),
    };
    let connector = tls.https_or_http().enable_http1().wrap_connector(connector);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector)
}

/// Selects the proxy for `uri`. This machine itself is always reached directly.
fn find_proxy(proxies: &Matcher, uri: &Uri) -> Result<Option<Intercept>, Error> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    if host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback()) {
        return Ok(None);
    }
    match proxies.intercept(uri) {
        Some(proxy) if proxy.uri().scheme_str() != Some("http") => Err(Error::ProxyUnusable),
        proxy => Ok(proxy),
    }
}

/// Returns the reason for which a certificate was refused, if that is why a connection failed.
pub(crate) fn find_certificate_error<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a rustls::CertificateError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(reason)) = error.downcast_ref() {
            return Some(reason);
        }
        // The source of an error in an `io::Error` is that of the inner one.
        let inner = error.downcast_ref::<std::io::Error>();
        next = match inner.and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_proxy_is_used_for_other_machines_that_no_exception_names() {
        let proxies = Matcher::builder()
            .http("http://a:b@plain.example:3128")
            .https("http://secure.example:3128")
            .no("direct.example,10.0.0.0/8");
        let proxies = proxies.build();
        let find = |uri: &str| {
            let found = find_proxy(&proxies, &uri.parse().unwrap()).unwrap();
            found.map(|it| {
                (
                    it.uri().host().unwrap().to_owned(),
                    it.basic_auth().is_some(),
                )
            })
        };
        assert_eq!(
            find("http://embed.example"),
            Some(("plain.example".into(), true))
        );
        assert_eq!(
            find("https://embed.example/a"),
            Some(("secure.example".into(), false))
        );
        for direct in [
            "https://direct.example",
            "https://a.direct.example",
            "http://10.1.2.3:80",
            "http://127.0.0.1:8787",
            "http://LOCALHOST:1",
            "http://[::1]:1",
        ] {
            assert_eq!(find(direct), None, "{direct}");
        }
        let socks = Matcher::builder().all("socks5://a.example:1080").build();
        let found = find_proxy(&socks, &"https://embed.example".parse().unwrap());
        assert_eq!(found.err().unwrap().code(), "PROXY_UNUSABLE");
    }

    #[test]
    fn authorities_are_certificates_in_pem() {
        for bad in [
            &b""[..],
            b"no",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            b"-----BEGIN CERTIFICATE-----\n",
        ] {
            assert_eq!(configure(bad).err().unwrap().code(), "AUTHORITIES_UNUSABLE");
        }
    }
}
