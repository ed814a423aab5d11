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

use crate::candidates::Others;
use crate::client::Options;
use crate::error::Error;
use crate::host::{Host, Sealed};
use crate::message::Answer;
use crate::state::{self, Session, State};
use crate::trust::{Demand, Rejudged};

/// A sealed message is longer than its content by less.
pub(crate) const SEAL_OVERHEAD: usize = 4096;
/// From here on sealing and opening get a thread of their own: what waits on this one should not wait for them.
const HEAVY: usize = 256 << 10;

/// Longest for revocation lists after the evidence came, where the policy can do without.
const CRLS_WAIT: Duration = Duration::from_secs(2);
/// Shortest time between two renewals, where the first one did not move the end, in milliseconds.
const RENEWAL_PAUSE: u64 = 5_000;

pub(crate) struct Upstream {
    pub(crate) host: Host,
    known: Mutex<Known>,
    /// Held by whoever attests; the others take over what came of it.
    attesting: tokio::sync::Mutex<()>,
    /// Further enclaves behind the same address, for requests to several.
    pub(crate) others: Others,
}

#[derive(Default)]
struct Known {
    state: State,
    /// Attestations that came to an end, whatever they came to.
    attempts: u64,
    /// What the last one failed with.
    failure: Option<Arc<Error>>,
    /// A session of which the host said that no enclave knows its keys.
    unknown: Option<Arc<Session>>,
    /// No renewal in this time, by the client's clock: the last one did not move the end of the proof.
    pause: Option<RangeInclusive<UnixMillis>>,
}

/// What an upstream has for a request to several.
pub(crate) enum Candidate {
    Verified(Arc<Session>),
    /// It was not asked yet, or its proof is over.
    Unverified,
    /// It is asked beside the request.
    Unusable,
}

/// Puts the state back where an attestation is dropped before its end.
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

impl Known {
    /// Sets the pause after a renewal of `before` that ended with `outcome`: an eighth of the time that is left.
    fn note_renewal(&mut self, before: &Session, outcome: Option<&Session>, now: UnixMillis) {
        let end = before.valid_until();
        let is_moved = outcome.is_some_and(|session| session.valid_until() > end);
        self.pause = (!is_moved).then(|| {
            let pause = (end.0.saturating_sub(now.0) / 8).max(RENEWAL_PAUSE);
            now..=UnixMillis(now.0.saturating_add(pause))
        });
    }

    /// Whether a policy that came later ended the last session here, and none has begun since.
    fn is_withdrawn(&self) -> bool {
        match &self.state {
            State::Withdrawn(_) => true,
            state => state
                .session()
                .is_some_and(|session| session.withdrawal().is_some()),
        }
    }

    /// A failure to attest. A proof that is still valid outlives it, unless the enclave was judged and refused.
    fn fail(&mut self, error: Error) -> Error {
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

/// What one attempt came to.
enum Attempt {
    Answered(Box<Answer>),
    /// The proof is over or was withdrawn, or the host's enclave does not know it.
    ProofLost,
    /// No answer, or none that the attested keys explain: the enclave may be gone, or something on the way changed what it said.
    Doubtful(Error),
}

impl Upstream {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            known: Mutex::default(),
            attesting: tokio::sync::Mutex::new(()),
            others: Others::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.known().state.clone()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session under whose proof requests may be sealed now.
    pub(crate) fn usable(&self, now: UnixMillis) -> Option<Arc<Session>> {
        let known = self.known();
        known
            .state
            .session()
            .filter(|session| session.is_valid(now))
            .cloned()
    }

    /// Verifies the enclave, once for all that ask at the same time.
    ///
    /// `after`: a proof that is not good enough any more. A failure leaves a proof that is still valid, except where the enclave
    /// was judged and refused.
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
        // Held until this ends; it takes the lock of `known` when it is dropped, after that one.
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
            // Ended by a policy that was set since it was judged: what came of the earlier one here is known by now.
            Ok(session) => match session.withdrawal() {
                Some(report) => {
                    known.state = State::Withdrawn(Arc::clone(&report));
                    Err(known.fail(Error::Refused(report)))
                }
                None => {
                    known.state = State::of(&session);
                    known.failure = None;
                    Ok(session)
                }
            },
            Err(error) => Err(known.fail(error)),
        }
    }

    /// The session that an attestation takes the place of; without one, the state is [`State::Checking`] until the attestation
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

    /// Takes over the outcome of a new policy for the sessions here.
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
        self.others.replace(rejudged);
    }

    /// One live check, by `demand` or by the policy that counts here.
    pub(crate) async fn judge(
        &self,
        options: &Arc<Options>,
        demand: Option<&(Arc<Policy>, u64)>,
    ) -> Result<Arc<Session>, Error> {
        let nonce = random()?;
        let nonce_text = Base64UrlUnpadded::encode_string(&nonce);
        let path = format!("/v1/attestation?nonce={nonce_text}&shared=1");
        let asked = options.clock.now();
        let mut evidence = pin!(self.host.get(&path, MAX_EVIDENCE));
        // The lists are asked for by every client in the same way, so that the request tells the host nothing. Without them the
        // policy decides.
        let mut lists = pin!(self.host.get("/v1/crls", MAX_CRLS));
        let mut crls = None;
        let answer = loop {
            tokio::select! {
                answer = &mut evidence => break answer?,
                answer = &mut lists, if crls.is_none() => crls = Some(answer),
            }
        };
        // The enclave's clock is compared with this moment, whenever the lists come.
        let at = options.clock.now();
        // The machine slept, or nothing polled this: the bytes are genuine perhaps, and old.
        if u128::from(at.0.saturating_sub(asked.0)) > self.host.timeout().as_millis() {
            return Err(self.host.late());
        }
        let (policy, number) = match demand {
            Some(demand) => demand.clone(),
            None => self.policy(options).await?,
        };
        let crls = match crls {
            Some(answer) => answer.ok(),
            None if policy.revocation_required() => lists.await.ok(),
            None => match tokio::time::timeout(CRLS_WAIT, lists).await {
                Ok(answer) => answer.ok(),
                Err(_) => None,
            },
        };
        let crls = crls.unwrap_or_default();
        let options = Arc::clone(options);
        let judged = tokio::task::spawn_blocking(move || {
            let answered = AttestationResponse::parse(&answer).map_err(|_| Error::NotEvidence)?;
            let answer = state::Answer {
                evidence: answered.evidence,
                crls: &crls,
                nonce: &answered.document_nonce(&nonce),
                at,
                accept_simulated: options.accept_simulated,
            };
            let judged = options.trust.judge((policy, number), |policy, number| {
                Session::judge(answer, policy, number)
            });
            judged.map_err(Error::Refused)
        });
        judged.await.map_err(|_| Error::Internal)?
    }

    /// The caller's policy and its number; the service's own only where simulation was accepted by name.
    pub(crate) async fn policy(&self, options: &Options) -> Result<(Arc<Policy>, u64), Error> {
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
        Ok((Arc::new(policy), number))
    }

    /// What requests are sealed under now. A proof that is about to end is renewed beside them.
    pub(crate) async fn session(
        self: &Arc<Self>,
        options: &Arc<Options>,
    ) -> Result<Arc<Session>, Error> {
        let session = match self.usable(options.clock.now()) {
            Some(session) => session,
            None => self.attest(options, None).await?,
        };
        self.renew_soon(options, &session);
        Ok(session)
    }

    /// The same for a request that has other enclaves too: one that failed last time is asked beside it.
    pub(crate) fn candidate(self: &Arc<Self>, options: &Arc<Options>) -> Candidate {
        let usable = self.usable(options.clock.now());
        let (failed, unknown) = {
            let known = self.known();
            (known.failure.is_some(), known.unknown.clone())
        };
        match usable {
            Some(session) if unknown.is_some_and(|unknown| unknown.is_same(&session)) => {
                self.attest_beside(options, Some(&session));
                Candidate::Unusable
            }
            Some(session) => {
                self.renew_soon(options, &session);
                Candidate::Verified(session)
            }
            None if failed => {
                self.attest_beside(options, None);
                Candidate::Unusable
            }
            None => Candidate::Unverified,
        }
    }

    /// Notes that the host's enclaves do not know the keys of `session`.
    pub(crate) fn forget(&self, session: &Arc<Session>) {
        let mut known = self.known();
        let current = known.state.session();
        if current.is_some_and(|current| current.is_same(session)) {
            known.unknown = Some(Arc::clone(session));
        }
        drop(known);
        self.others.forget(session);
    }

    /// Whether a check is under way.
    pub(crate) fn is_attesting(&self) -> bool {
        self.attesting.try_lock().is_err()
    }

    /// One request. A proof that is over, withdrawn or unknown, and an answer that is missing, was rewritten or cannot be opened,
    /// each buy one fresh check and one more attempt.
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

    /// Starts a renewal beside the request, where the proof is about to end.
    fn renew_soon(self: &Arc<Self>, options: &Arc<Options>, session: &Arc<Session>) {
        if self.is_renewal_due(options, session) {
            self.attest_beside(options, Some(session));
        }
    }

    /// Whether the proof is about to end, and a renewal may move its end.
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

    /// Starts a check, unless one is under way.
    fn attest_beside(self: &Arc<Self>, options: &Arc<Options>, after: Option<&Arc<Session>>) {
        if self.is_attesting() {
            return;
        }
        let (upstream, options, after) = (Arc::clone(self), Arc::clone(options), after.cloned());
        tokio::spawn(async move {
            // What it failed with is kept in the state, and an old proof is used to its end.
            let _ = upstream.attest(&options, after.as_ref()).await;
        });
    }

    async fn attempt(
        &self,
        options: &Options,
        session: &Arc<Session>,
        request: InnerRequest,
    ) -> Result<Attempt, Error> {
        let mut rng = ChaCha20Rng::from_seed(random()?);
        let (now, sealed_by) = (options.clock.now(), Arc::clone(session));
        let begun = work(request.content.len(), move || {
            exchange::begin(&sealed_by.attestation, request, now, &mut rng)
        });
        let (sealed, pending) = match begun.await? {
            Err(ExchangeError::Expired) => return Ok(Attempt::ProofLost),
            other => other?,
        };
        // Sealing may have taken its time.
        if !session.is_valid(options.clock.now()) {
            return Ok(Attempt::ProofLost);
        }
        let limit = MAX_RESPONSE + SEAL_OVERHEAD;
        let hint = session.hint();
        let sent = tokio::select! {
            // Asked first: what was sealed before the policy was changed is not sent after it.
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
        let opened = work(sealed.len(), move || pending.finish(&sealed, now));
        match opened.await? {
            Ok(answer) => Ok(Attempt::Answered(Box::new(Answer::new(
                answer,
                Arc::clone(session),
            )))),
            Err(error) if error.is_stale() && !error.is_misdated() => Ok(Attempt::ProofLost),
            // Changed on the way, sealed to keys of a time that is over, or dated by a clock that has been set since.
            Err(error) => Ok(Attempt::Doubtful(error.into())),
        }
    }
}

/// Runs `f` here, or on a thread for long work where it handles many bytes.
pub(crate) async fn work<T: Send + 'static>(
    bytes: usize,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if bytes < HEAVY {
        return Ok(f());
    }
    tokio::task::spawn_blocking(f)
        .await
        .map_err(|_| Error::Internal)
}

pub(crate) fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(bytes)
}
