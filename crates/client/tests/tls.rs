//! Hosts behind https whose certificate a private authority issued.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use clearseal_client::{Error, Host, trust_authorities};
use fixtures::certificate::{ed25519_key, self_signed};
use fixtures::host::PATIENCE;
use rustls::crypto::ring::{default_provider, sign};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A key, and a certificate for `localhost` that it signs for itself. DER.
fn certify() -> (Vec<u8>, Vec<u8>) {
    let key = ed25519_key([7; 32]);
    let signer = sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&*key)).unwrap();
    let certificate = self_signed(&signer.public_key().unwrap(), "localhost", |signed| {
        let scheme = signer.choose_scheme(&[rustls::SignatureScheme::ED25519]);
        scheme.unwrap().sign(signed).unwrap()
    });
    (key, certificate)
}

/// Answers each request with 200 and an empty body. Returns the port.
fn serve(key: &[u8], certificate: &[u8]) -> u16 {
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(
        vec![CertificateDer::from(certificate.to_vec())],
        PrivatePkcs8KeyDer::from(key.to_vec()).into(),
    );
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            // A client that does not trust the certificate sends no request.
            if stream.read(&mut [0; 4096]).is_ok() {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                stream.write_all(answer).ok();
                stream.flush().ok();
            }
        }
    });
    port
}

#[tokio::test]
async fn a_private_authority_is_trusted_once_it_is_named() {
    let (key, certificate) = certify();
    let port = serve(&key, &certificate);
    let url = format!("https://localhost:{port}");
    let stranger = Host::new(&url, PATIENCE).unwrap();
    let error = stranger.get("/", 64).await.unwrap_err();
    assert_eq!(error.code(), "CERTIFICATE_UNTRUSTED", "{error}");
    assert!(error.to_string().contains("is not trusted"), "{error}");
    assert!(error.remedy().contains("SSL_CERT_FILE"), "{error}");
    assert!(!error.is_transient());

    let pem = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        Base64::encode_string(&certificate)
    );
    trust_authorities(pem.as_bytes()).unwrap();
    let known = Host::new(&url, PATIENCE).unwrap();
    assert_eq!(known.get("/", 64).await.unwrap(), b"");
    let again = trust_authorities(pem.as_bytes());
    assert!(matches!(again, Err(Error::AuthoritiesUnusable)));

    // The right authority, and another name.
    let other = Host::new(&format!("https://127.0.0.1:{port}"), PATIENCE).unwrap();
    let error = other.get("/", 64).await.unwrap_err();
    assert_eq!(error.code(), "CERTIFICATE_UNTRUSTED", "{error}");
    assert!(!error.remedy().contains("private authority"), "{error}");
}
