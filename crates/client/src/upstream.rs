//! One upstream: its proof, its renewal, one sealed exchange.

use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use attestation::{AttestationResponse, MAX_CRLS, MAX_EVIDENCE, MAX_POLICY, Policy, UnixMillis};
use base64ct::{Base64UrlUnpadded, Encoding};
use protocol::exchange::{self, ExchangeError};
use protocol::inner::{InnerRequest, MAX_RESPONSE};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use witness::evidence::split;
use witness::proof::MAX_PROOF;

use crate::error::Error;
use crate::host::{Host, Sealed};
use crate::message::Answer;
use crate::options::Options;
use crate::peers::Peers;
use crate::state::{self, Session, State};
use crate::trust::{Demand, Rejudged};
use crate::witnesses::TrustPolicy;

/// Upper bound on the difference in length between a sealed message and its content, in bytes.
pub(crate) const SEAL_OVERHEAD: usize = 4096;
/// Bytes of an answer with a proof, next to evidence and proof.
const PAIR_OVERHEAD: usize = 16;
/// Length in bytes from which sealing and opening run on a separate thread, so that they do not delay other tasks.
const BLOCKING_THRESHOLD: usize = 256 << 10;

/// Time to wait for revocation lists after the evidence arrived, if the policy does not require them.
const CRLS_TIMEOUT: Duration = Duration::from_secs(2);
/// Upper bound on the change of an end that the measured clock offset alone causes, in milliseconds.
const OFFSET_JITTER: u64 = 1_000;
/// Minimum pause after a renewal that did not move the end of the proof, in milliseconds.
const RENEWAL_PAUSE: u64 = 5_000;

pub(crate) struct Upstream {
    pub(crate) host: Host,
    known: Mutex<UpstreamState>,
    /// Locked during an attestation; concurrent callers wait and reuse its outcome.
    attesting: tokio::sync::Mutex<()>,
    /// Further enclaves behind the same address, for requests to several enclaves.
    pub(crate) peers: Peers,
}

#[derive(Default)]
struct UpstreamState {
    state: State,
    /// Number of attestations that ended, with any outcome.
    attempts: u64,
    /// Error of the last attestation, if it failed.
    failure: Option<Arc<Error>>,
    /// A session whose keys no enclave knows, according to the host.
    unknown: Option<Arc<Session>>,
    /// Time without renewals, by the client's clock, because the last one did not move the end of the proof.
    pause: Option<RangeInclusive<UnixMillis>>,
}

/// Availability of an upstream for a request to several enclaves.
pub(crate) enum Candidate {
    Verified(Arc<Session>),
    /// Not asked yet, or its proof has ended.
    Unverified,
    /// Being attested again in the background.
    Unusable,
}

/// Restores the state if an attestation is dropped before its end.
struct Restore<'a> {
    upstream: &'a Upstream,
    before: State,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let mut known = self.upstream.known();
        if matches!(known.state, State::Checking) {
            known.state = std::mem::take(&mut self.before);
        }
    }
}

impl UpstreamState {
    /// Sets the pause after a renewal of `before` that ended with `outcome`: an eighth of the time to the earlier end of both.
    fn note_renewal(&mut self, before: &Session, outcome: Option<&Session>, now: UnixMillis) {
        let end = before.valid_until();
        // Ends are compared on this client's clock, and each attestation measures the enclave's offset again.
        let later = UnixMillis(end.0.saturating_add(OFFSET_JITTER));
        let is_moved = outcome.is_some_and(|session| session.valid_until() > later);
        let end = outcome.map_or(end, |session| session.valid_until().min(end));
        self.pause = (!is_moved).then(|| {
            let pause = (end.0.saturating_sub(now.0) / 8).max(RENEWAL_PAUSE);
            now..=UnixMillis(now.0.saturating_add(pause))
        });
    }

    /// Returns whether a later policy ended the last session and no session has begun since.
    fn is_withdrawn(&self) -> bool {
        match &self.state {
            State::Withdrawn(_) => true,
            state => state
                .session()
                .is_some_and(|session| session.withdrawal().is_some()),
        }
    }

    /// Records a failed attestation. A proof that is still valid is kept unless the enclave was judged and refused.
    fn record_failure(&mut self, error: Error) -> Error {
        let error = match error {
            Error::Refused(report) if self.is_withdrawn() => Error::Withdrawn(report),
            error => error,
        };
        match &error {
            Error::Refused(report) => self.state = State::Refused(Arc::clone(report)),
            Error::Withdrawn(report) => self.state = State::Withdrawn(Arc::clone(report)),
            _ if self.state.session().is_some() || self.is_withdrawn() => {}
            Error::Unreachable(problem) => self.state = State::Unreachable(Arc::clone(problem)),
            _ => self.state = State::Idle,
        }
        self.failure = Some(Arc::new(error.again()));
        error
    }
}

/// Outcome of one attempt.
enum Attempt {
    Answered(Box<Answer>),
    /// The proof has ended or was withdrawn, or the host's enclave does not know it.
    ProofLost,
    /// No answer, or one that does not match the attested keys: the enclave may be gone, or the answer was changed in transit.
    Doubtful(Error),
}

impl Upstream {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            known: Mutex::default(),
            attesting: tokio::sync::Mutex::new(()),
            peers: Peers::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.known().state.clone()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, UpstreamState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session if requests can be sealed under its proof now.
    pub(crate) fn usable(&self, now: UnixMillis) -> Option<Arc<Session>> {
        let known = self.known();
        known
            .state
            .session()
            .filter(|session| session.is_valid(now))
            .cloned()
    }

    /// Verifies the enclave, once for all concurrent callers.
    ///
    /// `after` is a session that must be replaced. A failure keeps a proof that is still valid unless the enclave was judged and
    /// refused.
    pub(crate) async fn attest(
        &self,
        options: &Arc<Options>,
        after: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, Error> {
        let seen = self.known().attempts;
        let _turn = self.attesting.lock().await;
        {
            let known = self.known();
            if let Some(session) = known.state.session()
                && after.is_none_or(|after| !after.is_same(session))
                && session.is_valid(options.clock.now())
            {
                return Ok(Arc::clone(session));
            }
            if known.attempts != seen
                && let Some(failure) = &known.failure
            {
                return Err(failure.again());
            }
        }
        // Dropped after the guard of `known`, because dropping it locks `known`.
        let (before, _restore) = self.begin_check();
        let outcome = self.judge(options, None).await;
        let mut known = self.known();
        known.attempts += 1;
        if let Some(before) = &before {
            let renewed = outcome.as_deref().ok();
            known.note_renewal(before, renewed, options.clock.now());
        } else {
            known.pause = None;
        }
        match outcome {
            // A policy that was set since the judgement may have ended the session.
            Ok(session) => match session.withdrawal() {
                Some(report) => {
                    known.state = State::Withdrawn(Arc::clone(&report));
                    Err(known.record_failure(Error::Refused(report)))
                }
                None => {
                    known.state = State::of(&session);
                    known.failure = None;
                    Ok(session)
                }
            },
            Err(error) => Err(known.record_failure(error)),
        }
    }

    /// Returns the session that an attestation replaces. Without one, sets the state to [`State::Checking`] until the attestation
    /// ends.
    fn begin_check(&self) -> (Option<Arc<Session>>, Option<Restore<'_>>) {
        let mut known = self.known();
        if let Some(session) = known.state.session() {
            return (Some(Arc::clone(session)), None);
        }
        let restore = (!known.is_withdrawn()).then(|| Restore {
            upstream: self,
            before: std::mem::replace(&mut known.state, State::Checking),
        });
        (None, restore)
    }

    /// Applies the outcome of a new policy to the sessions of this upstream.
    pub(crate) fn replace(&self, rejudged: &[Rejudged]) {
        let mut known = self.known();
        let of = |session: &Arc<Session>| {
            rejudged
                .iter()
                .find(|one| Arc::ptr_eq(&one.before, session))
        };
        if let Some(Rejudged { outcome, .. }) = known.state.session().and_then(of) {
            known.state = match outcome {
                Ok(session) => State::of(session),
                Err(report) => State::Withdrawn(Arc::clone(report)),
            };
        }
        drop(known);
        self.peers.replace(rejudged);
    }

    /// Fetches fresh evidence and judges it by `demand`, or else by the policy in force.
    pub(crate) async fn judge(
        &self,
        options: &Arc<Options>,
        demand: Option<&(Arc<TrustPolicy>, u64)>,
    ) -> Result<Arc<Session>, Error> {
        let nonce = random_seed()?;
        let nonce_text = Base64UrlUnpadded::encode_string(&nonce);
        let known = match demand {
            Some((policy, _)) => Some(Arc::clone(policy)),
            None => options.trust.demand().policy,
        };
        let is_witnessed = known.is_some_and(|policy| policy.witnesses().is_some());
        let (witnessed, limit) = match is_witnessed {
            true => ("&witnessed=1", MAX_EVIDENCE + MAX_PROOF + PAIR_OVERHEAD),
            false => ("", MAX_EVIDENCE),
        };
        let path = format!("/v1/attestation?nonce={nonce_text}&shared=1{witnessed}");
        let asked = options.clock.now();
        let mut evidence = pin!(self.host.get(&path, limit));
        // Every client asks for the lists in the same way, so that the request tells the host nothing. If they are missing, the
        // policy decides.
        let mut lists = pin!(self.host.get("/v1/crls", MAX_CRLS));
        let mut crls = None;
        let answer = loop {
            tokio::select! {
                answer = &mut evidence => break answer?,
                answer = &mut lists, if crls.is_none() => crls = Some(answer),
            }
        };
        // The enclave's clock is compared with this time, not with the arrival of the lists.
        let at = options.clock.now();
        // The machine slept or nothing polled this future: the evidence may be genuine but old.
        if u128::from(at.0.saturating_sub(asked.0)) > self.host.timeout().as_millis() {
            return Err(self.host.late());
        }
        let (policy, number) = match demand {
            Some(demand) => demand.clone(),
            None => self.policy(options).await?,
        };
        let crls = match crls {
            Some(answer) => answer.ok(),
            None if policy.policy().revocation_required() => lists.await.ok(),
            None => match tokio::time::timeout(CRLS_TIMEOUT, lists).await {
                Ok(answer) => answer.ok(),
                Err(_) => None,
            },
        };
        let crls = crls.unwrap_or_default();
        let options = Arc::clone(options);
        let judged = tokio::task::spawn_blocking(move || {
            // A host without a log sends evidence alone, and the policy refuses it.
            let (evidence, proof) = match split(&answer).filter(|_| is_witnessed) {
                Some((evidence, proof)) => (evidence, Some(proof)),
                None => (&answer[..], None),
            };
            let answered = AttestationResponse::parse(evidence).map_err(|_| Error::NotEvidence)?;
            let answer = state::Answer {
                evidence: answered.evidence,
                crls: &crls,
                proof,
                nonce: &answered.document_nonce(&nonce),
                at,
                accept_simulated: options.accept_simulated,
            };
            let judged = options.trust.judge((policy, number), |policy, number| {
                Session::judge(answer, policy, number, &options.trust.heads)
            });
            judged.map_err(Error::Refused)
        });
        judged.await.map_err(|_| Error::Internal)?
    }

    /// Returns the caller's policy and its number, or the service's development policy if the caller accepted simulation.
    pub(crate) async fn policy(&self, options: &Options) -> Result<(Arc<TrustPolicy>, u64), Error> {
        let Demand { policy, number } = options.trust.demand();
        if let Some(policy) = policy {
            return Ok((policy, number));
        }
        if !options.accept_simulated {
            return Err(Error::NoPolicy);
        }
        let json = self.host.get("/v1/development-policy", MAX_POLICY).await;
        let json = json.map_err(|error| match &error {
            Error::Unreachable(problem) if problem.status.is_some() => Error::NoPolicy,
            _ => error,
        })?;
        let policy = Policy::with_evidence(&json).map_err(|_| Error::PolicyUnusable)?;
        Ok((Arc::new(options.demand_model(policy.into())), number))
    }

    /// Returns the session to seal requests under. Renews a proof that is about to end in the background.
    pub(crate) async fn session(
        self: &Arc<Self>,
        options: &Arc<Options>,
    ) -> Result<Arc<Session>, Error> {
        let session = match self.usable(options.clock.now()) {
            Some(session) => session,
            None => self.attest(options, None).await?,
        };
        self.renew_if_due(options, &session);
        Ok(session)
    }

    /// Returns the session for a request to several enclaves. Attests in the background after a failure, so that the request does
    /// not wait.
    pub(crate) fn candidate(self: &Arc<Self>, options: &Arc<Options>) -> Candidate {
        let usable = self.usable(options.clock.now());
        let (failed, unknown) = {
            let known = self.known();
            (known.failure.is_some(), known.unknown.clone())
        };
        match usable {
            Some(session) if unknown.is_some_and(|unknown| unknown.is_same(&session)) => {
                self.attest_in_background(options, Some(&session));
                Candidate::Unusable
            }
            Some(session) => {
                self.renew_if_due(options, &session);
                Candidate::Verified(session)
            }
            None if failed => {
                self.attest_in_background(options, None);
                Candidate::Unusable
            }
            None => Candidate::Unverified,
        }
    }

    /// Records that the host's enclaves do not know the keys of `session`.
    pub(crate) fn forget(&self, session: &Arc<Session>) {
        let mut known = self.known();
        let current = known.state.session();
        if current.is_some_and(|current| current.is_same(session)) {
            known.unknown = Some(Arc::clone(session));
        }
        drop(known);
        self.peers.forget(session);
    }

    /// Returns whether an attestation is in progress.
    pub(crate) fn is_attesting(&self) -> bool {
        self.attesting.try_lock().is_err()
    }

    /// Sends one request. A proof that has ended, was withdrawn or is unknown, and an answer that is missing, rewritten or cannot be
    /// opened, cause one fresh check and one more attempt.
    pub(crate) async fn exchange(
        self: &Arc<Self>,
        options: &Arc<Options>,
        request: &InnerRequest,
    ) -> Result<Answer, Error> {
        let session = self.session(options).await?;
        if let Attempt::Answered(answer) = self.attempt(options, &session, request.clone()).await? {
            return Ok(*answer);
        }
        let session = self.attest(options, Some(&session)).await?;
        if !session.is_valid(options.clock.now()) {
            return Err(Error::ExpiredTwice);
        }
        match self.attempt(options, &session, request.clone()).await? {
            Attempt::Answered(answer) => Ok(*answer),
            Attempt::ProofLost => Err(match session.withdrawal() {
                Some(report) => Error::Withdrawn(report),
                None => Error::KeyUnknownTwice,
            }),
            Attempt::Doubtful(error) => Err(error),
        }
    }

    /// Starts a renewal in the background if the proof is about to end.
    fn renew_if_due(self: &Arc<Self>, options: &Arc<Options>, session: &Arc<Session>) {
        if self.is_renewal_due(options, session) {
            self.attest_in_background(options, Some(session));
        }
    }

    /// Returns whether the proof is about to end and a renewal may move its end.
    pub(crate) fn is_renewal_due(&self, options: &Options, session: &Session) -> bool {
        let now = options.clock.now();
        let is_paused = || {
            let known = self.known();
            known
                .pause
                .as_ref()
                .is_some_and(|pause| pause.contains(&now))
        };
        options.is_ending(session) && !(session.is_valid(now) && is_paused())
    }

    /// Starts an attestation in the background unless one is in progress.
    fn attest_in_background(
        self: &Arc<Self>,
        options: &Arc<Options>,
        after: Option<&Arc<Session>>,
    ) {
        if self.is_attesting() {
            return;
        }
        let (upstream, options, after) = (Arc::clone(self), Arc::clone(options), after.cloned());
        tokio::spawn(async move {
            // The state keeps the error, and the old proof is used until its end.
            let _ = upstream.attest(&options, after.as_ref()).await;
        });
    }

    async fn attempt(
        &self,
        options: &Options,
        session: &Arc<Session>,
        request: InnerRequest,
    ) -> Result<Attempt, Error> {
        let mut rng = ChaCha20Rng::from_seed(random_seed()?);
        let (now, sealed_by) = (options.clock.now(), Arc::clone(session));
        let begun = run_sized(request.content.len(), move || {
            exchange::begin(&sealed_by.attestation, request, now, &mut rng)
        });
        let (sealed, pending) = match begun.await? {
            Err(ExchangeError::Expired) => return Ok(Attempt::ProofLost),
            other => other?,
        };
        // The proof may have ended during sealing.
        if !session.is_valid(options.clock.now()) {
            return Ok(Attempt::ProofLost);
        }
        let limit = MAX_RESPONSE + SEAL_OVERHEAD;
        let hint = session.hint();
        let sent = tokio::select! {
            // Polled first: a request sealed before a policy change must not be sent after it.
            biased;
            () = session.ended() => return Ok(Attempt::ProofLost),
            sent = self.host.gateway(sealed, &hint, limit) => sent,
        };
        let sealed = match sent {
            Ok(Sealed::Answer(bytes)) => bytes,
            Ok(Sealed::KeyUnknown) => return Ok(Attempt::ProofLost),
            Err(Error::Unreachable(problem)) if !problem.is_denial() => {
                return Ok(Attempt::Doubtful(Error::Unreachable(problem)));
            }
            Err(error) => return Err(error),
        };
        let now = options.clock.now();
        let opened = run_sized(sealed.len(), move || pending.finish(&sealed, now));
        match opened.await? {
            Ok(answer) => Ok(Attempt::Answered(Box::new(Answer::new(
                answer,
                Arc::clone(session),
            )))),
            Err(error) if error.is_stale() && !error.is_misdated() => Ok(Attempt::ProofLost),
            // Changed in transit, sealed to keys that have ended, or dated by a clock that has been set since.
            Err(error) => Ok(Attempt::Doubtful(error.into())),
        }
    }
}

/// Runs `f` here, or on a blocking thread if it handles at least [`BLOCKING_THRESHOLD`] bytes.
pub(crate) async fn run_sized<T: Send + 'static>(
    bytes: usize,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if bytes < BLOCKING_THRESHOLD {
        return Ok(f());
    }
    tokio::task::spawn_blocking(f)
        .await
        .map_err(|_| Error::Internal)
}

/// Returns a random seed from the operating system.
pub(crate) fn random_seed() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(bytes)
}
