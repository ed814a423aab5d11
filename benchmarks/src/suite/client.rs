//! A client of the service, written as a user of the library would write it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use attestation::{
    Evidence, Freshness, MAX_EVIDENCE, MAX_POLICY, Policy, UnixMillis, VerifiedAttestation,
};
use base64ct::{Base64UrlUnpadded, Encoding};
use protocol::exchange::PreparedExchange;
use protocol::inner::{InnerRequest, MAX_RESPONSE};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// Verifies the attestation first, then seals each request and checks each receipt.
pub(super) struct Client {
    agent: ureq::Agent,
    url: String,
    attestation: VerifiedAttestation,
    prepared: Option<PreparedExchange>,
    rng: ChaCha20Rng,
}

impl Client {
    pub(super) fn attest(url: &str) -> Result<Self> {
        // No overall timeout: with one, ureq would resolve the address in a new thread for each request.
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_recv_response(Some(Duration::from_secs(120)))
            .timeout_recv_body(Some(Duration::from_secs(120)))
            .build()
            .into();
        let get = |path: &str, limit: usize| -> Result<Vec<u8>> {
            let answer = agent.get(format!("{url}{path}")).call()?;
            Ok(answer
                .into_body()
                .with_config()
                .limit(limit as u64)
                .read_to_vec()?)
        };
        let policy = Policy::with_evidence(&get("/v1/development-policy", MAX_POLICY)?)
            .context("the development policy is unusable")?;
        // The seed need not be secret here, only fresh.
        let mut rng = ChaCha20Rng::seed_from_u64(unix_time().as_nanos() as u64);
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        let path = format!(
            "/v1/attestation?nonce={}",
            Base64UrlUnpadded::encode_string(&nonce)
        );
        let answer = get(&path, MAX_EVIDENCE)?;
        let evidence = Evidence::parse(&answer).context("the answer is not evidence")?;
        let (report, verified) = evidence.appraisal().verify(
            &policy,
            Freshness::Live {
                nonce: &nonce,
                now: now(),
            },
        );
        Ok(Self {
            agent,
            url: format!("{url}/v1/gateway"),
            attestation: verified
                .including_simulated()
                .with_context(|| format!("the evidence was refused: {:?}", report.code))?,
            prepared: None,
            rng,
        })
    }

    /// Encapsulates the key of the next request.
    pub(super) fn prepare(&mut self) -> Result<()> {
        self.prepared = Some(PreparedExchange::new(&self.attestation, &mut self.rng)?);
        Ok(())
    }

    /// Sends a sealed text, opens the answer and checks its receipt.
    pub(super) fn embed(&mut self, sentence: &str) -> Result<()> {
        let content = serde_json::to_vec(&serde_json::json!({
            "model": self.attestation.manifest().model.id,
            "input": [sentence],
            "encoding_format": "base64",
        }))?;
        self.ask(json("POST", "/v1/embeddings", content))
    }

    /// Sends a request that needs no inference.
    pub(super) fn models(&mut self) -> Result<()> {
        self.ask(InnerRequest {
            method: "GET".to_owned(),
            path: "/v1/models".to_owned(),
            headers: Vec::new(),
            content: Vec::new(),
        })
    }

    /// Seals a request without sending it.
    pub(super) fn seal_request(
        &mut self,
        method: &str,
        path: &str,
        content: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let prepared = PreparedExchange::new(&self.attestation, &mut self.rng)?;
        Ok(prepared.begin(json(method, path, content), now())?.0)
    }

    fn ask(&mut self, request: InnerRequest) -> Result<()> {
        let prepared = match self.prepared.take() {
            Some(prepared) => prepared,
            None => PreparedExchange::new(&self.attestation, &mut self.rng)?,
        };
        let (sealed, pending) = prepared.begin(request, now())?;
        let answer = self
            .agent
            .post(&self.url)
            .header("content-type", "message/ohttp-req")
            .send(&sealed[..])?
            .into_body()
            .with_config()
            .limit(MAX_RESPONSE as u64 + 4096)
            .read_to_vec()?;
        let answer = pending.finish(&answer, now())?;
        ensure!(
            answer.response.status == 200,
            "the service answered with status {}",
            answer.response.status
        );
        std::hint::black_box(&answer.response.content);
        Ok(())
    }
}

/// A request whose content is JSON.
pub(super) fn json(method: &str, path: &str, content: Vec<u8>) -> InnerRequest {
    InnerRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        content,
    }
}

fn unix_time() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

fn now() -> UnixMillis {
    UnixMillis(unix_time().as_millis() as u64)
}
