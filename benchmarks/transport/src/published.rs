//! The published transport, with its mock of attestation, which verifies no signature.

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use confidential_ml_transport::session::SessionConfig;
use confidential_ml_transport::session::channel::Message;
use confidential_ml_transport::{MockProvider, MockVerifier, SecureChannel};
use lanes::wire::Wire;
use lanes::{About, End, Transport};

pub const NAME: &str = "confidential-ml-transport";

#[derive(Default)]
pub struct Published {
    provider: Option<MockProvider>,
}

impl Transport for Published {
    type End = Secured;

    fn about(&self) -> About {
        About {
            transport: "published transport",
            in_process: "published transport in process",
            engine: NAME,
            cipher: Some("ChaCha20-Poly1305"),
            establishment: vec![("attestation", "mock".into()), ("kind", "X25519".into())],
            carries: true,
        }
    }

    async fn establish(&mut self, near: Wire, far: Wire) -> Result<(Secured, Secured)> {
        let provider = &*self.provider.get_or_insert_with(MockProvider::new);
        let verifier = MockVerifier::new();
        let config = SessionConfig::development();
        let (server, client) = tokio::try_join!(
            SecureChannel::accept_with_attestation(far, provider, &verifier, config.clone()),
            SecureChannel::connect_with_attestation(near, provider, &verifier, config.clone()),
        )?;
        Ok((Secured(client), Secured(server)))
    }
}

pub struct Secured(SecureChannel<Wire>);

impl Secured {
    async fn message(&mut self) -> Result<Bytes> {
        match self.0.recv().await? {
            Message::Data(payload) => Ok(payload),
            _ => bail!("no data"),
        }
    }
}

impl End for Secured {
    async fn send(&mut self, payload: &Bytes) -> Result<()> {
        // Shared, not copied.
        Ok(self.0.send(payload.clone()).await?)
    }

    async fn receive(&mut self) -> Result<usize> {
        Ok(self.message().await?.len())
    }

    async fn echo(&mut self) -> Result<()> {
        let payload = self.message().await?;
        Ok(self.0.send(payload).await?)
    }

    async fn close(&mut self) -> Result<()> {
        Ok(self.0.shutdown().await?)
    }

    async fn closed(&mut self) -> Result<()> {
        ensure!(matches!(self.0.recv().await?, Message::Shutdown), "no end");
        Ok(())
    }
}
