//! The client: several upstreams behind one `fetch`.

use std::sync::Arc;
use std::time::Duration;

use attestation::ModelPin;
use bytes::Bytes;
use protocol::candidates::MAX_CANDIDATES;
use tokio::task::JoinSet;

use crate::candidates::CandidatesOutcome;
use crate::clock::Clock;
use crate::error::Error;
use crate::host::Host;
use crate::message::{self, Answer};
use crate::options::{Options, choose_spread};
use crate::state::{Session, Standing, State};
use crate::trust::{PolicyChange, Trust};
use crate::upstream::Upstream;
use crate::witnesses::TrustPolicy;

/// Default timeout of one exchange with a host.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which [`Client::maintain`] checks the proofs.
const MAINTENANCE: Duration = Duration::from_secs(5);

/// Verifies enclaves, and seals requests to them. Cheap to clone; clones share proofs and connections.
#[derive(Clone)]
pub struct Client {
    upstreams: Arc<[Arc<Upstream>]>,
    pub(crate) options: Arc<Options>,
}

/// Options of a [`Client`].
#[must_use]
pub struct ClientBuilder {
    urls: Vec<String>,
    policy: Option<TrustPolicy>,
    model: Option<ModelPin>,
    accept_simulated: bool,
    timeout: Duration,
    renew_before: Option<Duration>,
    clock: Clock,
    candidates: usize,
}

impl Client {
    /// Options for a client of the service at `url`.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            urls: vec![url.into()],
            policy: None,
            model: None,
            accept_simulated: false,
            timeout: TIMEOUT,
            renew_before: None,
            clock: Clock::system(),
            candidates: 1,
        }
    }

    /// Returns a session with the first upstream that has a valid proof or can be verified. Sends only a nonce.
    ///
    /// # Errors
    /// The most significant error of the upstreams, if none can be verified: a withdrawn policy, refused evidence where no other upstream
    /// answers, a transient error, else the last one.
    pub async fn connect(&self) -> Result<Arc<Session>, Error> {
        let mut last = Error::NoUpstream;
        for upstream in self.in_order() {
            match upstream.session(&self.options).await {
                Ok(session) => return Ok(session),
                Err(error) => last = last.then(error),
            }
        }
        Err(last)
    }

    /// Seals `request` to a verified enclave and opens its answer. Scheme and authority of the address are ignored.
    ///
    /// Asks the upstreams in order, each verified separately: the next one if an upstream cannot be reached, is refused, or gives an
    /// answer that cannot be relied on. A request may therefore be computed twice. A sealed answer of the enclave is final, even
    /// if it is a refusal.
    ///
    /// # Errors
    /// [`Error`]. No part of the request left this process except sealed to a verified enclave.
    pub async fn fetch(&self, request: http::Request<Bytes>) -> Result<Answer, Error> {
        let inner = message::to_inner_request(request)?;
        let (mut last, mut busy) = (Error::NoUpstream, Vec::new());
        if self.options.candidates > 1 {
            match self.ask_candidates(&inner).await? {
                CandidatesOutcome::Answered(answer) => return Ok(*answer),
                CandidatesOutcome::Busy { error, upstreams } => (last, busy) = (error, upstreams),
                CandidatesOutcome::Unanswered => {}
            }
        }
        for upstream in self.in_order() {
            if busy.iter().any(|one| Arc::ptr_eq(one, upstream)) {
                continue;
            }
            match upstream.exchange(&self.options, &inner).await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_local_to_upstream() => last = last.then(error),
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Replaces the trust policy. When this returns, nothing more is sent under a proof that `policy` does not
    /// accept:
    ///
    /// - each live session's evidence is judged again, as of the moment at which it came;
    /// - requests in progress under a refused session are cancelled, and its channels closed. An unanswered request is sent to
    ///   another enclave if one fresh check finds one that is accepted; otherwise it fails with [`Error::Withdrawn`], code
    ///   `POLICY_WITHDRAWN`;
    /// - data that an enclave has already received cannot be taken back.
    ///
    /// Accepted sessions continue, including their requests in progress. Takes some milliseconds of computation per session.
    pub fn set_policy(&self, policy: impl Into<TrustPolicy>) -> PolicyChange {
        let policy = self.options.demand_model(policy.into());
        let rejudged = self.options.trust.set(policy, self.options.clock.now());
        for upstream in &*self.upstreams {
            upstream.replace(&rejudged);
        }
        let kept = rejudged
            .iter()
            .filter(|one| one.before.standing() == Standing::Good);
        let kept = kept.count();
        PolicyChange {
            kept,
            ended: rejudged.len() - kept,
        }
    }

    /// Returns the upstreams, those with a valid proof first, so that a host that is down delays no request while another one
    /// answers. Sorted only once per request: an upstream whose proof is lost meanwhile must not be asked a second time.
    pub(crate) fn in_order(&self) -> Vec<&Arc<Upstream>> {
        let now = self.options.clock.now();
        let (mut ready, others): (Vec<_>, Vec<_>) = self.upstreams.iter().partition(|upstream| {
            let state = upstream.state();
            state.session().is_some_and(|session| session.is_valid(now))
        });
        ready.extend(others);
        ready
    }

    /// Returns the address and state of each upstream.
    pub fn states(&self) -> Vec<(String, State)> {
        self.upstreams
            .iter()
            .map(|upstream| (upstream.host.url().to_owned(), upstream.state()))
            .collect()
    }

    /// Returns whether an upstream has a valid proof, so that a request can be sealed at once.
    pub fn is_ready(&self) -> bool {
        let now = self.options.clock.now();
        let mut states = self.upstreams.iter().map(|upstream| upstream.state());
        states.any(|state| state.session().is_some_and(|session| session.is_valid(now)))
    }

    /// Returns whether an upstream was verified and its proof has ended since.
    pub fn is_over(&self, state: &State) -> bool {
        let now = self.options.clock.now();
        state
            .session()
            .is_some_and(|session| !session.is_valid(now))
    }

    /// Renews the proof of every upstream before it ends, for as long as this is polled. Never returns.
    pub async fn maintain(&self) {
        // One task per upstream: one that does not answer must not delay the renewal of the others.
        let mut upstreams = JoinSet::new();
        for upstream in &*self.upstreams {
            let (upstream, options) = (Arc::clone(upstream), Arc::clone(&self.options));
            upstreams.spawn(async move {
                loop {
                    let state = upstream.state();
                    let session = state.session();
                    if session.is_none_or(|session| upstream.is_renewal_due(&options, session)) {
                        // The state keeps the error; the next round tries again.
                        let _ = upstream.attest(&options, session).await;
                    }
                    tokio::time::sleep(MAINTENANCE).await;
                }
            });
        }
        while upstreams.join_next().await.is_some() {}
        std::future::pending::<()>().await;
    }
}

impl ClientBuilder {
    /// Adds a service, which is asked if those before it fail.
    pub fn upstream(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Sets the trust policy that judges enclaves: [`TrustPolicy::chosen_by_hand`], or a [`Policy`](attestation::Policy) without witnesses.
    pub fn policy(mut self, policy: impl Into<TrustPolicy>) -> Self {
        self.policy = Some(policy.into());
        self
    }

    /// Demands `model` in place of the model that a policy demands, also that of a later policy. Take it from the
    /// [`manifest`](crate::Session::manifest) of a session that the policy itself accepts, whose image then decides the hash.
    pub fn model(mut self, model: ModelPin) -> Self {
        self.model = Some(model);
        self
    }

    /// Also accepts a simulated enclave, for development. Without a policy, the service's development policy judges it. The operator
    /// of a simulated enclave can read everything that is sent to it.
    pub fn accept_simulated(mut self, accept: bool) -> Self {
        self.accept_simulated = accept;
        self
    }

    /// Sets the timeout of one exchange with a host; 120 seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long before its end a proof is renewed. By default between 5 and 10 minutes before the end, or between two fifths and
    /// half of a shorter lifetime, while the enclave still accepts requests under it.
    pub fn renew_before(mut self, time: Duration) -> Self {
        self.renew_before = Some(time);
        self
    }

    /// Seals each request to `count` verified enclaves, behind one or several addresses. One that has capacity answers, with its own
    /// receipt; if one is gone, no new attestation is needed. 1 by default, at most
    /// [`MAX_CANDIDATES`](protocol::candidates::MAX_CANDIDATES).
    ///
    /// A host can then have a request computed once by each of them, and learns how many there are.
    pub fn candidates(mut self, count: usize) -> Self {
        self.candidates = count.clamp(1, MAX_CANDIDATES);
        self
    }

    /// Sets another clock than that of this machine.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the client. Sends nothing yet.
    ///
    /// # Errors
    /// [`Error::UrlInvalid`].
    pub fn build(self) -> Result<Client, Error> {
        let hosts = self
            .urls
            .iter()
            .map(|url| Host::new(url, self.timeout).map(|host| Arc::new(Upstream::new(host))));
        let policy = match &self.model {
            Some(model) => self
                .policy
                .map(|policy| policy.replace_model(model.clone())),
            None => self.policy,
        };
        Ok(Client {
            upstreams: hosts.collect::<Result<_, _>>()?,
            options: Arc::new(Options {
                trust: Trust::new(policy),
                model: self.model,
                accept_simulated: self.accept_simulated,
                clock: self.clock,
                candidates: self.candidates,
                renew_before: self.renew_before,
                spread: choose_spread(),
            }),
        })
    }
}
