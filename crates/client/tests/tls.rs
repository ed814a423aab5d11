//! Hosts behind https whose certificate a private authority issued.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use clearseal_client::{Error, Host, trust_authorities};
use fixtures::host::PATIENCE;
use rustls::crypto::ring::{default_provider, sign};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u8::try_from(content.len()).unwrap();
    let head = match length {
        ..128 => vec![tag, length],
        128.. => vec![tag, 0x81, length],
    };
    [head, content].concat()
}

/// An Ed25519 key (RFC 8410), and a certificate for `localhost` that it signs for itself. DER.
fn certify() -> (Vec<u8>, Vec<u8>) {
    let algorithm = tlv(0x30, &[b"\x06\x03\x2b\x65\x70"]);
    let secret = tlv(0x04, &[&tlv(0x04, &[&[7; 32]])]);
    let key = tlv(0x30, &[b"\x02\x01\x00", &algorithm, &secret]);
    let signer = sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&*key)).unwrap();
    // commonName, and subjectAltName with one dNSName.
    let attribute = tlv(0x30, &[b"\x06\x03\x55\x04\x03", &tlv(0x0c, &[b"private"])]);
    let name = tlv(0x30, &[&tlv(0x31, &[&attribute])]);
    let names = tlv(0x30, &[&tlv(0x82, &[b"localhost"])]);
    let extension = tlv(0x30, &[b"\x06\x03\x55\x1d\x11", &tlv(0x04, &[&names])]);
    let times = [&b"250101000000Z"[..], b"491231235959Z"].map(|time| tlv(0x17, &[time]));
    let signed = tlv(
        0x30,
        &[
            b"\xa0\x03\x02\x01\x02\x02\x01\x01",
            &algorithm,
            &name,
            &tlv(0x30, &[&times[0], &times[1]]),
            &name,
            &signer.public_key().unwrap(),
            &tlv(0xa3, &[&tlv(0x30, &[&extension])]),
        ],
    );
    let scheme = signer.choose_scheme(&[rustls::SignatureScheme::ED25519]);
    let signature = scheme.unwrap().sign(&signed).unwrap();
    let signature = tlv(0x03, &[b"\0", &signature]);
    (key, tlv(0x30, &[&signed, &algorithm, &signature]))
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
