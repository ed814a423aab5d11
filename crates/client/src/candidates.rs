//! Requests that are sealed to several enclaves, of which one answers.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use attestation::VerifiedAttestation;
use bytes::Bytes;
use http::StatusCode;
use protocol::exchange::{
    ExchangeError, PendingCandidates, PreparedExchange, begin_with_candidates, candidate_name,
};
use protocol::inner::{InnerRequest, MAX_RESPONSE};
use protocol::ohttp::SealError;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::error::Error;
use crate::host::Sealed;
use crate::message::{Answer, parse_service_error};
use crate::state::Session;
use crate::upstream::{Candidate, SEAL_OVERHEAD, Upstream, random_seed, run_sized};

/// Time to wait for further upstreams to be verified once one enclave is.
const GRACE: Duration = Duration::from_secs(1);
/// Error code of an enclave that answered this request before.
const REPLAYED: &str = "REPLAYED";

/// Outcome of a request to several enclaves.
pub(crate) enum CandidatesOutcome {
    Answered(Box<Answer>),
    /// Every host reported that its enclave is busy. Asking these upstreams again with a request to one enclave would only add load.
    Busy {
        error: Error,
        upstreams: Vec<Arc<Upstream>>,
    },
    /// Fewer than two enclaves are verified, or none answered. A request to one enclave then finds another one or reports the error.
    Unanswered,
}

/// An enclave that a request is sealed to, and the upstream that leads to it.
struct Enclave {
    upstream: Arc<Upstream>,
    session: Arc<Session>,
}

impl Client {
    /// Sends one request, sealed to several enclaves.
    ///
    /// # Errors
    /// [`Error`] of the request itself.
    pub(crate) async fn ask_candidates(
        &self,
        request: &InnerRequest,
    ) -> Result<CandidatesOutcome, Error> {
        let mut candidates = self.gather().await;
        if candidates.len() < 2 {
            return Ok(CandidatesOutcome::Unanswered);
        }
        let seed = random_seed()?;
        // Start with a random one, to spread the load.
        let first = usize::from(seed[0]) % candidates.len();
        candidates.rotate_left(first);
        let mut begun = self.begin(&candidates, request).await?;
        if let Err(ExchangeError::NoKey | ExchangeError::Seal(_)) = &begun
            && !matches!(&begun, Err(ExchangeError::Seal(SealError::TooLarge)))
            && remove_unusable(&mut candidates)?
            && candidates.len() > 1
        {
            begun = self.begin(&candidates, request).await?;
        }
        let (sealed, pending) = match begun {
            // Near the longest request only one enclave's part fits next to it.
            Err(ExchangeError::Expired | ExchangeError::NoKey | ExchangeError::Seal(_)) => {
                return Ok(CandidatesOutcome::Unanswered);
            }
            begun => begun?,
        };
        let sealed = Bytes::from(sealed);
        let limit = MAX_RESPONSE + SEAL_OVERHEAD;
        let mut denials = Vec::new();
        // Send the same bytes to one after the other: any of the enclaves can open them, whichever one the host is asked for.
        for Enclave { upstream, session } in &candidates {
            // Any of them can open the request, so it is sent to none once one session has ended.
            let now = self.options.clock.now();
            if !candidates.iter().all(|one| one.session.is_valid(now)) {
                return Ok(CandidatesOutcome::Unanswered);
            }
            let hint = session.hint();
            let sent = tokio::select! {
                biased;
                () = any_ended(&candidates) => return Ok(CandidatesOutcome::Unanswered),
                sent = upstream.host.candidates(sealed.clone(), &hint, limit) => sent,
            };
            let answer = match sent {
                Ok(Sealed::Answer(answer)) => answer,
                // The enclave that answered is not one of the candidates: this one is gone, or has other keys by now.
                Ok(Sealed::KeyUnknown) => {
                    upstream.forget(session);
                    continue;
                }
                // This host is busy; another one may have capacity.
                Err(Error::Unreachable(problem)) if problem.is_denial() => {
                    denials.push(problem);
                    continue;
                }
                Err(_) => continue,
            };
            let now = self.options.clock.now();
            let finished = run_sized(answer.len(), move || pending.finish(&answer, now)).await?;
            return Ok(match finished {
                Ok((number, answer)) => {
                    let from = candidates.get(number).map(|one| Arc::clone(&one.session));
                    let from = from.ok_or(Error::Internal)?;
                    // A replay: the enclave answered this request before, and that answer was lost.
                    match Answer::new(answer, from) {
                        answer if is_replay(&answer) => CandidatesOutcome::Unanswered,
                        answer => CandidatesOutcome::Answered(Box::new(answer)),
                    }
                }
                Err(_) => {
                    upstream.peers.forget(session);
                    CandidatesOutcome::Unanswered
                }
            });
        }
        Ok(match denials.pop() {
            Some(problem) if denials.len() + 1 == candidates.len() => CandidatesOutcome::Busy {
                error: Error::Unreachable(problem),
                upstreams: candidates.into_iter().map(|one| one.upstream).collect(),
            },
            _ => CandidatesOutcome::Unanswered,
        })
    }

    /// Seals the request to all candidates.
    async fn begin(
        &self,
        candidates: &[Enclave],
        request: &InnerRequest,
    ) -> Result<Result<(Vec<u8>, PendingCandidates), ExchangeError>, Error> {
        let mut rng = ChaCha20Rng::from_seed(random_seed()?);
        let sessions: Vec<_> = candidates
            .iter()
            .map(|one| Arc::clone(&one.session))
            .collect();
        let (now, request) = (self.options.clock.now(), request.clone());
        let begun = run_sized(request.content.len(), move || {
            let all: Vec<&VerifiedAttestation> =
                sessions.iter().map(|one| &one.attestation).collect();
            begin_with_candidates(&all, &request, now, &mut rng)
        });
        begun.await
    }

    /// Returns verified enclaves of all upstreams, each once, at most as many as the options ask for.
    async fn gather(&self) -> Vec<Enclave> {
        let wanted = self.options.candidates;
        let mut all: Vec<Enclave> = Vec::with_capacity(wanted);
        let mut unverified = Vec::new();
        for upstream in self.in_order() {
            match upstream.candidate(&self.options) {
                Candidate::Verified(session) => add(
                    &mut all,
                    Enclave {
                        upstream: Arc::clone(upstream),
                        session,
                    },
                ),
                Candidate::Unverified => unverified.push(upstream),
                Candidate::Unusable => {}
            }
        }
        self.verify(unverified, &mut all).await;
        for upstream in self.in_order() {
            let taken: Vec<_> = all.iter().map(|one| Arc::clone(&one.session)).collect();
            let missing = wanted.saturating_sub(taken.len());
            if missing == 0 || upstream.state().session().is_none() {
                continue;
            }
            let peers = upstream
                .peers
                .sessions(upstream, &self.options, missing, &taken);
            let peers = peers.await.into_iter();
            all.extend(peers.map(|session| Enclave {
                upstream: Arc::clone(upstream),
                session,
            }));
        }
        all.truncate(wanted);
        all
    }

    /// Verifies upstreams concurrently. Waits until one enclave is verified, and then up to [`GRACE`] for others. Later ones are used
    /// by the next request.
    async fn verify(&self, unverified: Vec<&Arc<Upstream>>, all: &mut Vec<Enclave>) {
        let (report, mut verified) = mpsc::unbounded_channel();
        for upstream in unverified {
            if !all.is_empty() && upstream.is_attesting() {
                continue;
            }
            let (upstream, options) = (Arc::clone(upstream), Arc::clone(&self.options));
            let report = report.clone();
            tokio::spawn(async move {
                // The upstream's state keeps the error.
                if let Ok(session) = upstream.session(&options).await {
                    // Fails if the request has stopped waiting.
                    let _ = report.send(Enclave { upstream, session });
                }
            });
        }
        drop(report);
        let mut deadline = tokio::time::Instant::now() + GRACE;
        loop {
            let next = match all.is_empty() {
                true => verified.recv().await,
                false => {
                    let next = tokio::time::timeout_at(deadline, verified.recv()).await;
                    next.unwrap_or(None)
                }
            };
            let Some(enclave) = next else { return };
            if all.is_empty() {
                deadline = tokio::time::Instant::now() + GRACE;
            }
            add(all, enclave);
        }
    }
}

/// Adds an enclave unless it is included already: two addresses may lead to one enclave.
fn add(all: &mut Vec<Enclave>, enclave: Enclave) {
    let known = candidate_name(&enclave.session.attestation);
    if all
        .iter()
        .all(|one| candidate_name(&one.session.attestation) != known)
    {
        all.push(enclave);
    }
}

/// Removes enclaves whose keys cannot be sealed to, and returns whether there were any.
fn remove_unusable(candidates: &mut Vec<Enclave>) -> Result<bool, Error> {
    let mut rng = ChaCha20Rng::from_seed(random_seed()?);
    let before = candidates.len();
    candidates.retain(|one| PreparedExchange::new(&one.session.attestation, &mut rng).is_ok());
    Ok(candidates.len() < before)
}

/// Waits until a new trust policy ends one of the sessions.
async fn any_ended(candidates: &[Enclave]) {
    let ends = candidates.iter().map(|one| one.session.ended());
    let mut ends: Vec<_> = ends.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        match ends
            .iter_mut()
            .any(|end| end.as_mut().poll(context).is_ready())
        {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

fn is_replay(answer: &Answer) -> bool {
    answer.status() == StatusCode::BAD_REQUEST
        && matches!(parse_service_error(answer), Error::Service { code, .. } if code == REPLAYED)
}
