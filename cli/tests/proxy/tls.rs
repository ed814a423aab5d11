//! TLS of the local port.

use super::{Host, MODEL, PATIENCE, Proxy, folder};
use base64ct::{Base64, Encoding};
use fixtures::certificate::{ed25519_key, self_signed};
use fixtures::host::vector;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring::{default_provider, sign};
use tokio_rustls::rustls::crypto::verify_tls13_signature;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};

/// A certificate and its key, DER.
struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Identity {
    fn from_seed(seed: [u8; 32]) -> Self {
        let key = ed25519_key(seed);
        let signer = sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&*key)).unwrap();
        let certificate = self_signed(&signer.public_key().unwrap(), "localhost", |signed| {
            let signer = signer.choose_scheme(&[SignatureScheme::ED25519]);
            signer.unwrap().sign(signed).unwrap()
        });
        Self { certificate, key }
    }

    /// Writes both, and returns the arguments of the proxy.
    fn write(&self, folder: &Path) -> [String; 4] {
        let path = |name: &str, label: &str, der: &[u8]| {
            let path = folder.join(name);
            let body = Base64::encode_string(der);
            let pem = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
            std::fs::write(&path, pem).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let certificate = path("cert.pem", "CERTIFICATE", &self.certificate);
        let key = path("key.pem", "PRIVATE KEY", &self.key);
        [
            "--tls-cert".to_owned(),
            certificate,
            "--tls-key".to_owned(),
            key,
        ]
    }
}

/// Accepts one certificate, as a client that was given the file does.
#[derive(Debug)]
struct Pinned(Vec<u8>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        assert_eq!(certificate.as_ref(), self.0);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        panic!("TLS 1.3 was offered")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

fn connect(proxy: &Proxy, identity: &Identity) -> StreamOwned<ClientConnection, TcpStream> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(identity.certificate.clone())))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(&proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(connection, stream)
}

#[test]
fn requests_over_tls_are_sealed_like_others() {
    let host = Host::start(41);
    let identity = Identity::from_seed([41; 32]);
    let arguments = identity.write(&folder("proxy-tls"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let proxy = Proxy::start(
        &[&host],
        &[&arguments[..], &["--api-key", "secret"]].concat(),
    );
    // A client that speaks no TLS, and one that sends nothing, disturb no other.
    let mut plain = TcpStream::connect(&proxy.address).unwrap();
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let silent = TcpStream::connect(&proxy.address).unwrap();

    let body = json!({"input": ["a"]}).to_string();
    let mut stream = connect(&proxy, &identity);
    let request = format!(
        "POST /openai/deployments/{MODEL}/embeddings HTTP/1.1\r\nhost: localhost\r\napi-key: secret\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["data"][0]["embedding"], json!(vector("a")));
    assert_eq!(host.sealed_requests(), 1);
    drop(silent);
}

#[test]
fn it_does_not_start_with_a_certificate_or_key_that_it_cannot_use() {
    let host = Host::start(42);
    let folder = folder("proxy-tls-files");
    let [_, certificate, _, key] = Identity::from_seed([42; 32]).write(&folder);
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    let [.., other] = Identity::from_seed([43; 32]).write(&other);
    for (certificate, key, expected) in [
        (&certificate, Some(&other), "does not fit"),
        (&key, Some(&key), "holds no certificate"),
        (&certificate, Some(&certificate), "holds no private key"),
        (
            &"missing.pem".to_owned(),
            Some(&key),
            "cannot read missing.pem",
        ),
        (&certificate, None, "--tls-key"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearseal"));
        command.args(["proxy", "--accept-simulated", "--listen", "127.0.0.1:0"]);
        command.args(["--url", &host.url, "--tls-cert", certificate]);
        command.args(key.iter().flat_map(|key| ["--tls-key", key]));
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

/// Connects as a client that was given the certificate, and checks the name.
fn trust(
    proxy: &Proxy,
    certificate: &CertificateDer<'static>,
    name: &str,
) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(&proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream
        .write_all(request)
        .map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .map_err(|error| error.to_string())?;
    Ok(answer)
}

#[test]
fn clients_trust_a_self_signed_certificate_by_its_file_and_its_fingerprint() {
    let host = Host::start(44);
    let file = folder("proxy-tls-self-signed").join("cert.pem");
    let flag = format!("--tls-self-signed={}", file.display());
    let options = [flag.as_str(), "--allow-host", "host.docker.internal"];
    let program = Command::new(env!("CARGO_BIN_EXE_clearseal"));
    let (proxy, printed) = Proxy::start_by(program, &[&host], &options);
    let certificate = CertificateDer::from_pem_file(&file).unwrap();
    let digest = Sha256::digest(&certificate);
    let digest: Vec<_> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    let line = format!("SHA-256 of the TLS certificate: {}", digest.join(":"));
    assert!(printed.contains(&line), "{printed:?}");
    for name in ["localhost", "127.0.0.1", "::1", "host.docker.internal"] {
        let answer = trust(&proxy, &certificate, name).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{name}: {answer}");
    }
    let error = trust(&proxy, &certificate, "embed.example").unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");

    // Another run has another key.
    let other = Proxy::start(&[&host], &["--tls-self-signed"]);
    let error = trust(&other, &certificate, "localhost").unwrap_err();
    assert!(error.contains("certificate"), "{error}");
}
