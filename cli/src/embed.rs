//! `clearseal embed`: lines in, vectors out, each batch through a verified and sealed channel.

use crate::args::EmbedArgs;
use crate::attestation::policy;
use crate::moment::now;
use crate::{http, render};
use anyhow::{Context, Result, bail};
use attestation::{
    Evidence, Freshness, MAX_EVIDENCE, MAX_POLICY, Policy, Verdict, VerifiedAttestation,
};
use data_encoding::BASE64URL_NOPAD;
use protocol::bundle::AuditBundle;
use protocol::exchange::{self, Answer, DOCUMENT_UNKNOWN, ExchangeError};
use protocol::inner::{InnerRequest, MAX_MESSAGE};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

/// Reads standard input to its end, batch by batch.
pub(crate) fn embed(args: &EmbedArgs) -> Result<ExitCode> {
    let mut service = Service::new(args)?;
    if !service.attest()? {
        return Ok(ExitCode::from(1));
    }
    let mut receipts = match &args.receipts {
        Some(path) => {
            let file =
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut progress = Progress::new();
    let mut lines = std::io::stdin().lock().lines().enumerate();
    let mut done = 0;
    loop {
        let (numbers, batch): (Vec<usize>, Vec<String>) = lines
            .by_ref()
            .map(|(number, line)| line.map(|line| (number, line)))
            // There is nothing to embed in an empty line; the others keep their numbers.
            .filter(|line| !line.as_ref().is_ok_and(|(_, line)| line.trim().is_empty()))
            .take(usize::from(args.batch))
            .collect::<Result<_, _>>()
            .context("standard input is not UTF-8 text")?;
        if batch.is_empty() {
            break;
        }
        let Some(Embedded { rows, bundle }) = service.embed(&batch)? else {
            return Ok(ExitCode::from(1));
        };
        done += batch.len();
        for ((index, text), embedding) in numbers.iter().zip(&batch).zip(rows) {
            let line = Line {
                index: *index,
                text,
                embedding,
            };
            serde_json::to_writer(&mut out, &line).context("cannot write to standard output")?;
            out.write_all(b"\n")
                .context("cannot write to standard output")?;
        }
        out.flush().context("cannot write to standard output")?;
        if let Some(file) = &mut receipts {
            let bundle: serde_json::Value = serde_json::from_str(&bundle.to_json()?)?;
            writeln!(file, "{bundle}").context("cannot write the receipts")?;
        }
        progress.show(done);
    }
    if let Some(mut file) = receipts {
        file.flush().context("cannot write the receipts")?;
    }
    progress.end();
    Ok(ExitCode::SUCCESS)
}

/// One item of the output.
#[derive(Serialize)]
struct Line<'a> {
    /// Number of its line in the input, from 0.
    index: usize,
    text: &'a str,
    embedding: Vec<f32>,
}

struct Embedded {
    rows: Vec<Vec<f32>>,
    bundle: AuditBundle,
}

/// The service at a URL, and what this run knows of it.
struct Service {
    http: http::Client,
    policy: Option<Policy>,
    accept_simulated: bool,
    session: Option<Session>,
}

struct Session {
    attestation: VerifiedAttestation,
    document: Vec<u8>,
    manifest: Vec<u8>,
}

impl Service {
    fn new(args: &EmbedArgs) -> Result<Self> {
        let policy = args.policy.as_deref().map(policy).transpose()?;
        Ok(Self {
            http: http::Client::new(&args.url),
            policy,
            accept_simulated: args.accept_simulated,
            session: None,
        })
    }

    /// Fetches evidence and judges it. False, with the report on standard error, where it is refused.
    fn attest(&mut self) -> Result<bool> {
        let nonce = random()?;
        let path = format!("/v1/attestation?nonce={}", BASE64URL_NOPAD.encode(&nonce));
        let answer = self.http.get(&path, MAX_EVIDENCE)?;
        let evidence =
            Evidence::parse(&answer).context("the service did not answer with evidence")?;
        let now = now();
        // Only now: whether there is a service at all is the first thing to know.
        let policy = self.judging_policy()?;
        let freshness = Freshness::Live { nonce: &nonce, now };
        let (report, concluded) = attestation::verify(evidence.question(&policy, freshness));
        let verdict = report.verdict;
        let (report, enclave) = match self.accept_simulated {
            true => (report, concluded.including_simulated()),
            false => (report.refuse_simulation(), concluded.verified()),
        };
        let Some(attestation) = enclave else {
            render::refusal(&report)?;
            return Ok(false);
        };
        if verdict == Verdict::Simulated && self.session.is_none() {
            note("SIMULATED: this enclave proves nothing about hardware. Send nothing private.");
        }
        self.session = Some(Session {
            attestation,
            document: evidence.document.to_vec(),
            manifest: evidence.manifest.to_vec(),
        });
        Ok(true)
    }

    /// The user's policy; the service's own only where simulation was accepted by name.
    fn judging_policy(&self) -> Result<Policy> {
        if let Some(policy) = &self.policy {
            return Ok(policy.clone());
        }
        if !self.accept_simulated {
            bail!(
                "there is no trust policy to judge the enclave by: give --policy FILE, or --accept-simulated to develop against a simulated one"
            );
        }
        let json = self
            .http
            .get("/v1/development-policy", MAX_POLICY)
            .context("the service offers no development policy, so give yours: --policy FILE")?;
        Policy::with_evidence(&json).context("the service's development policy is unusable")
    }

    /// One batch; attests anew and tries once more where the service has lost its keys. `None` where that is refused.
    fn embed(&mut self, batch: &[String]) -> Result<Option<Embedded>> {
        for attempt in 0..2 {
            let Some(session) = &self.session else {
                bail!("not attested")
            };
            let model = &session.attestation.manifest().model.id;
            let body = serde_json::to_vec(&Body {
                model,
                input: batch,
                encoding_format: "base64",
            })?;
            match self.exchange(session, body)? {
                Outcome::Answered(answer) => {
                    return self.read(session, *answer, batch.len()).map(Some);
                }
                Outcome::KeysLost if attempt == 0 => {
                    if !self.attest()? {
                        return Ok(None);
                    }
                }
                Outcome::KeysLost => break,
            }
        }
        bail!(
            "the service does not know the keys that it has just attested; it is broken, or being tampered with"
        )
    }

    fn exchange(&self, session: &Session, body: Vec<u8>) -> Result<Outcome> {
        let request = InnerRequest {
            method: "POST".to_owned(),
            path: "/v1/embeddings".to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            content: body,
        };
        let mut rng = ChaCha20Rng::from_seed(random()?);
        let (sealed, pending) =
            match exchange::begin(&session.attestation, request, now(), &mut rng) {
                Err(ExchangeError::Expired) => return Ok(Outcome::KeysLost),
                other => other?,
            };
        let sealed = match self.http.gateway(&sealed, MAX_MESSAGE + 4096)? {
            http::Sealed::Answer(bytes) => bytes,
            http::Sealed::KeyUnknown => return Ok(Outcome::KeysLost),
        };
        match pending.finish(&sealed, now()) {
            Ok(answer) => Ok(Outcome::Answered(Box::new(answer))),
            Err(ExchangeError::Declined(declined)) if declined.code == DOCUMENT_UNKNOWN => {
                Ok(Outcome::KeysLost)
            }
            Err(error) => Err(error).context("the sealed answer was refused"),
        }
    }

    fn read(&self, session: &Session, answer: Answer, expected: usize) -> Result<Embedded> {
        let content = &answer.response.content;
        if answer.response.status != 200 {
            let said: Failure = serde_json::from_slice(content).with_context(|| {
                format!("the service refused with status {}", answer.response.status)
            })?;
            bail!(
                "the service refused: {} ({})",
                said.error.message,
                said.error.code.unwrap_or_default()
            );
        }
        let list: List =
            serde_json::from_slice(content).context("the answer is not a list of embeddings")?;
        if list.data.len() != expected {
            bail!("{} embeddings came for {expected} lines", list.data.len());
        }
        let rows = list
            .data
            .iter()
            .map(|item| floats(&item.embedding))
            .collect::<Result<_>>()?;
        let bundle = AuditBundle {
            receipt: answer.receipt.context("the answer has no receipt")?.bytes,
            document: session.document.clone(),
            manifest: session.manifest.clone(),
            content: None,
        };
        Ok(Embedded { rows, bundle })
    }
}

enum Outcome {
    Answered(Box<Answer>),
    KeysLost,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    embedding: String,
}

#[derive(Deserialize)]
struct Failure {
    error: FailureDetail,
}

#[derive(Deserialize)]
struct FailureDetail {
    message: String,
    code: Option<String>,
}

/// Little-endian float32 values, as OpenAI's `base64` format has them.
fn floats(base64: &str) -> Result<Vec<f32>> {
    let bytes = data_encoding::BASE64
        .decode(base64.as_bytes())
        .context("an embedding is not base64")?;
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        bail!("an embedding is not a list of float32 values");
    }
    Ok(values
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect())
}

/// From the operating system.
fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
    Ok(bytes)
}

/// One line a batch on a terminal, nothing in a pipe.
struct Progress {
    shown: bool,
    start: std::time::Instant,
}

impl Progress {
    fn new() -> Self {
        Self {
            shown: std::io::stderr().is_terminal(),
            start: std::time::Instant::now(),
        }
    }

    fn show(&mut self, done: usize) {
        if self.shown {
            let seconds = self.start.elapsed().as_secs_f64().max(1e-9);
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let rate = done as f64 / seconds;
            // Progress is a courtesy: a closed standard error ends it, not the work.
            self.shown = write!(std::io::stderr(), "\r{done} lines, {rate:.0} a second ").is_ok();
        }
    }

    fn end(&self) {
        if self.shown {
            note("");
        }
    }
}

fn note(text: &str) {
    // Nowhere else to say it where standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_little_endian() {
        assert_eq!(floats("AACAPwAAAMA=").unwrap(), [1.0, -2.0]);
        assert!(floats("AACAPwA=").is_err());
        assert!(floats("not base64").is_err());
    }
}
