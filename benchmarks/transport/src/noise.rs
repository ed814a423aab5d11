//! Noise by snow, with pattern NK: the client knows the server's key, as it does for an endorsed key. A message has at most 64
//! KiB, so longer payloads are split.

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use transports::connection::{self, Connection};
use transports::{End, Transport, TransportInfo};

pub const NAME: &str = "snow";
const PATTERN: &str = "Noise_NK_25519_ChaChaPoly_SHA256";
const TAG: usize = 16;
const PART: usize = 65_535 - TAG;
const MOST: usize = 1 << 21;

pub struct Noise {
    server: snow::Keypair,
}

impl Noise {
    pub fn new() -> Result<Self> {
        Ok(Self {
            server: snow::Builder::new(PATTERN.parse()?).generate_keypair()?,
        })
    }
}

impl Transport for Noise {
    type End = NoiseEnd;

    fn info(&self) -> TransportInfo {
        TransportInfo {
            transport: "Noise NK",
            in_process: "Noise NK",
            engine: NAME,
            cipher: Some("ChaCha20-Poly1305"),
            establishment: vec![("attestation", "none, a known key".into())],
            carries_messages: true,
        }
    }

    async fn establish(
        &mut self,
        mut near: Connection,
        mut far: Connection,
    ) -> Result<(NoiseEnd, NoiseEnd)> {
        let mut client = snow::Builder::new(PATTERN.parse()?)
            .remote_public_key(&self.server.public)?
            .build_initiator()?;
        let mut server = snow::Builder::new(PATTERN.parse()?)
            .local_private_key(&self.server.private)?
            .build_responder()?;
        let (mut message, mut read, mut payload) = (vec![0; 1_024], Vec::new(), vec![0; 1_024]);
        let length = client.write_message(&[], &mut message)?;
        connection::write(&mut near, &message[..length]).await?;
        let length = connection::read(&mut far, &mut read).await?;
        server.read_message(&read[..length], &mut payload)?;
        let length = server.write_message(&[], &mut message)?;
        connection::write(&mut far, &message[..length]).await?;
        let length = connection::read(&mut near, &mut read).await?;
        client.read_message(&read[..length], &mut payload)?;
        Ok((NoiseEnd::new(near, client)?, NoiseEnd::new(far, server)?))
    }
}

pub struct NoiseEnd {
    stream: BufReader<Connection>,
    state: snow::TransportState,
    /// A message as it is sent: its length, and its encrypted parts.
    sealed: Vec<u8>,
    message: Vec<u8>,
}

impl NoiseEnd {
    fn new(stream: Connection, state: snow::HandshakeState) -> Result<Self> {
        Ok(Self {
            stream: BufReader::new(stream),
            state: state.into_transport_mode()?,
            sealed: Vec::new(),
            message: Vec::new(),
        })
    }
}

/// Sends the length in plaintext and the encrypted parts, in one write as the other transports do.
async fn send(
    stream: &mut BufReader<Connection>,
    state: &mut snow::TransportState,
    sealed: &mut Vec<u8>,
    payload: &[u8],
) -> Result<()> {
    let length = u32::try_from(payload.len())?.to_be_bytes();
    sealed.resize(length.len() + sealed_length(payload.len()), 0);
    let (head, body) = sealed.split_at_mut(length.len());
    head.copy_from_slice(&length);
    for (part, sealed) in payload.chunks(PART).zip(body.chunks_mut(PART + TAG)) {
        state.write_message(part, sealed)?;
    }
    stream.write_all(sealed).await?;
    Ok(stream.flush().await?)
}

/// Length of a message's encrypted parts.
fn sealed_length(length: usize) -> usize {
    length + length.div_ceil(PART) * TAG
}

impl End for NoiseEnd {
    async fn send(&mut self, payload: &Bytes) -> Result<()> {
        send(&mut self.stream, &mut self.state, &mut self.sealed, payload).await
    }

    async fn receive(&mut self) -> Result<usize> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await?;
        let length = u32::from_be_bytes(length) as usize;
        ensure!(length <= MOST, "a longer message than any that was sent");
        self.message.resize(length, 0);
        self.sealed.resize(sealed_length(length), 0);
        self.stream.read_exact(&mut self.sealed).await?;
        let parts = self.message.chunks_mut(PART);
        for (part, sealed) in parts.zip(self.sealed.chunks(PART + TAG)) {
            self.state.read_message(sealed, part)?;
        }
        Ok(length)
    }

    async fn echo(&mut self) -> Result<()> {
        self.receive().await?;
        send(
            &mut self.stream,
            &mut self.state,
            &mut self.sealed,
            &self.message,
        )
        .await
    }

    async fn close(&mut self) -> Result<()> {
        Ok(self.stream.shutdown().await?)
    }

    async fn wait_closed(&mut self) -> Result<()> {
        ensure!(self.stream.read(&mut [0]).await? == 0, "no end");
        Ok(())
    }
}
