//! What the channel is measured against, all with messages that carry their length.

use std::sync::Arc;

use bytes::Bytes;
use confidential_ml_transport::session::SessionConfig;
use confidential_ml_transport::session::channel::Message;
use confidential_ml_transport::{MockProvider, MockVerifier, SecureChannel};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

use crate::{Echo, PIPE, Transport};

/// A stream and what echoes on its other end.
pub struct Framed<S> {
    stream: S,
    echo: JoinHandle<()>,
}

impl<S> Drop for Framed<S> {
    fn drop(&mut self) {
        self.echo.abort();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Echo for Framed<S> {
    async fn round_trip(&mut self, payload: &[u8]) {
        write(&mut self.stream, payload).await.unwrap();
        let answer = read(&mut self.stream).await.unwrap();
        assert_eq!(answer.len(), payload.len());
    }
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> std::io::Result<()> {
    stream
        .write_all(&(payload.len() as u32).to_be_bytes())
        .await?;
    stream.write_all(payload).await?;
    stream.flush().await
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let mut payload = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload).await?;
    Ok(payload)
}

fn echo<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(mut stream: S) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok(payload) = read(&mut stream).await {
            if write(&mut stream, &payload).await.is_err() {
                break;
            }
        }
    })
}

/// No protection: the floor.
pub struct Raw;

impl Transport for Raw {
    type Pair = Framed<DuplexStream>;
    const NAME: &'static str = "raw, framed";

    async fn establish(&mut self) -> Self::Pair {
        let (stream, far) = duplex(PIPE);
        Framed {
            stream,
            echo: echo(far),
        }
    }
}

/// TLS 1.3 by rustls with aws-lc-rs, P-256, tickets off: a full handshake each time.
pub struct Tls {
    acceptor: tokio_rustls::TlsAcceptor,
    connector: tokio_rustls::TlsConnector,
}

impl Tls {
    pub fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let certificate = CertificateDer::from(certificate.der().to_vec());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let mut server =
            rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
                .with_no_client_auth()
                .with_single_cert(
                    vec![certificate],
                    PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
                )
                .unwrap();
        server.send_tls13_tickets = 0;
        let mut client =
            rustls::ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
                .with_root_certificates(roots)
                .with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        Self {
            acceptor: Arc::new(server).into(),
            connector: Arc::new(client).into(),
        }
    }
}

impl Transport for Tls {
    type Pair = Framed<tokio_rustls::client::TlsStream<DuplexStream>>;
    const NAME: &'static str = "TLS 1.3, rustls with aws-lc-rs";

    async fn establish(&mut self) -> Self::Pair {
        let (near, far) = duplex(PIPE);
        let name = "localhost".try_into().unwrap();
        let (server, client) = tokio::join!(
            self.acceptor.accept(far),
            self.connector.connect(name, near)
        );
        Framed {
            stream: client.unwrap(),
            echo: echo(server.unwrap()),
        }
    }
}

/// Noise NN by snow: no authentication at all; its messages are 64 KiB at most, so large ones take several.
pub struct Noise;

pub struct NoisePair {
    stream: NoiseStream,
    echo: JoinHandle<()>,
}

struct NoiseStream {
    stream: DuplexStream,
    state: snow::TransportState,
    buffer: Vec<u8>,
}

const NOISE_PART: usize = 65_535 - 16;

impl NoiseStream {
    async fn send(&mut self, payload: &[u8]) -> std::io::Result<()> {
        self.stream
            .write_all(&(payload.len() as u32).to_be_bytes())
            .await?;
        for part in payload.chunks(NOISE_PART) {
            let length = self.state.write_message(part, &mut self.buffer).unwrap();
            self.stream.write_all(&self.buffer[..length]).await?;
        }
        self.stream.flush().await
    }

    async fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await?;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        for part in payload.chunks_mut(NOISE_PART) {
            let sealed = &mut self.buffer[..part.len() + 16];
            self.stream.read_exact(sealed).await?;
            self.state.read_message(sealed, part).unwrap();
        }
        Ok(payload)
    }
}

impl Drop for NoisePair {
    fn drop(&mut self) {
        self.echo.abort();
    }
}

impl Transport for Noise {
    type Pair = NoisePair;
    const NAME: &'static str = "Noise NN, snow, ChaChaPoly";

    async fn establish(&mut self) -> NoisePair {
        let (mut near, mut far) = duplex(PIPE);
        let parameters = || "Noise_NN_25519_ChaChaPoly_SHA256".parse().unwrap();
        let mut one = snow::Builder::new(parameters()).build_initiator().unwrap();
        let mut two = snow::Builder::new(parameters()).build_responder().unwrap();
        let mut message = [0; 1_024];
        let mut nothing = [0; 1_024];
        let length = one.write_message(&[], &mut message).unwrap();
        write(&mut near, &message[..length]).await.unwrap();
        two.read_message(&read(&mut far).await.unwrap(), &mut nothing)
            .unwrap();
        let length = two.write_message(&[], &mut message).unwrap();
        write(&mut far, &message[..length]).await.unwrap();
        one.read_message(&read(&mut near).await.unwrap(), &mut nothing)
            .unwrap();
        let stream = |stream, state: snow::HandshakeState| NoiseStream {
            stream,
            state: state.into_transport_mode().unwrap(),
            buffer: vec![0; 65_535],
        };
        let mut server = stream(far, two);
        NoisePair {
            stream: stream(near, one),
            echo: tokio::spawn(async move {
                while let Ok(payload) = server.receive().await {
                    if server.send(&payload).await.is_err() {
                        break;
                    }
                }
            }),
        }
    }
}

impl Echo for NoisePair {
    async fn round_trip(&mut self, payload: &[u8]) {
        self.stream.send(payload).await.unwrap();
        assert_eq!(self.stream.receive().await.unwrap().len(), payload.len());
    }
}

/// The published transport with its mock of attestation, which verifies no signature.
#[derive(Default)]
pub struct Cmt {
    provider: Option<MockProvider>,
}

pub struct CmtPair {
    client: SecureChannel<DuplexStream>,
    echo: JoinHandle<()>,
}

impl Drop for CmtPair {
    fn drop(&mut self) {
        self.echo.abort();
    }
}

impl Transport for Cmt {
    type Pair = CmtPair;
    const NAME: &'static str = "published transport 0.6.2, mock";

    async fn establish(&mut self) -> CmtPair {
        let (near, far) = duplex(PIPE);
        let provider = &*self.provider.get_or_insert_with(MockProvider::new);
        let verifier = MockVerifier::new();
        let config = SessionConfig::development();
        let (server, client) = tokio::join!(
            SecureChannel::accept_with_attestation(far, provider, &verifier, config.clone()),
            SecureChannel::connect_with_attestation(near, provider, &verifier, config.clone()),
        );
        let mut server = server.unwrap();
        CmtPair {
            client: client.unwrap(),
            echo: tokio::spawn(async move {
                while let Ok(Message::Data(payload)) = server.recv().await {
                    if server.send(payload).await.is_err() {
                        break;
                    }
                }
            }),
        }
    }
}

impl Echo for CmtPair {
    async fn round_trip(&mut self, payload: &[u8]) {
        self.client
            .send(Bytes::copy_from_slice(payload))
            .await
            .unwrap();
        let Message::Data(answer) = self.client.recv().await.unwrap() else {
            panic!("no data");
        };
        assert_eq!(answer.len(), payload.len());
    }
}
