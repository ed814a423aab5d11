//! The client: several upstreams behind one `fetch`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use attestation::Policy;
use bytes::Bytes;
use protocol::candidates::MAX_CANDIDATES;
use tokio::task::JoinSet;

use crate::candidates::Asked;
use crate::clock::Clock;
use crate::error::Error;
use crate::host::Host;
use crate::message::{self, Answer};
use crate::state::{Session, Standing, State};
use crate::trust::{PolicyChange, Trust};
use crate::upstream::Upstream;

const TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks at the proofs.
const MAINTENANCE: Duration = Duration::from_secs(5);

/// What holds for every upstream.
pub(crate) struct Options {
    pub(crate) trust: Trust,
    pub(crate) accept_simulated: bool,
    pub(crate) clock: Clock,
    /// Enclaves that each request is sealed to.
    pub(crate) candidates: usize,
    renew_before: Option<Duration>,
    /// When this client renews, within the time that is right for it.
    spread: u8,
}

impl Options {
    /// Whether the proof should be renewed now.
    pub(crate) fn is_ending(&self, session: &Session) -> bool {
        let margin = match self.renew_before {
            Some(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            None => renewal_margin(session.lifetime(), self.spread),
        };
        self.clock.now().0.saturating_add(margin) > session.valid_until().0
    }
}

/// How long before its end a proof is renewed that is good for so long, both in milliseconds.
///
/// An enclave takes no request in the last minute of a proof or longer: it answers those that came before. Fresh keys are
/// attested since as long before that as old ones were current, at most ten minutes (`Periods` of enclave-server). So the renewal
/// comes between 5 and 10 minutes before the end, or between two fifths and half of a shorter life. `spread` says when: clients
/// of one enclave should not renew in the same second.
fn renewal_margin(lifetime: u64, spread: u8) -> u64 {
    let (late, early) = (lifetime * 2 / 5, lifetime / 2);
    let (late, early) = (late.min(300_000), early.min(600_000));
    late + (early - late) * u64::from(spread) / u64::from(u8::MAX)
}

/// Differs from client to client. Nothing secret depends on it.
fn spread() -> u8 {
    let [spread, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    spread
}

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
    policy: Option<Policy>,
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
            accept_simulated: false,
            timeout: TIMEOUT,
            renew_before: None,
            clock: Clock::system(),
            candidates: 1,
        }
    }

    /// The first upstream that is verified or can be, those with a valid proof first. Sends nothing but a nonce.
    ///
    /// # Errors
    /// What the last one failed with, where none can be.
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
    /// Upstreams are asked in their order, each verified by itself: the next one where this one cannot be reached, is refused,
    /// or gives an answer that cannot be relied on. So a request may be computed twice. What the enclave itself answers under
    /// the seal is the answer, refusals included.
    ///
    /// # Errors
    /// [`Error`]. Nothing of the request left this process except under the seal of an enclave that was verified.
    pub async fn fetch(&self, request: http::Request<Bytes>) -> Result<Answer, Error> {
        let inner = message::inner(request)?;
        let (mut last, mut busy) = (Error::NoUpstream, Vec::new());
        if self.options.candidates > 1 {
            match self.ask_candidates(&inner).await? {
                Asked::Answered(answer) => return Ok(*answer),
                Asked::Busy { error, upstreams } => (last, busy) = (error, upstreams),
                Asked::Unanswered => {}
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

    /// Judges by another trust policy from now on. When this returns, nothing more is sent under a proof that `policy` does not
    /// accept:
    ///
    /// - each live session's evidence is judged again, as of the moment at which it came;
    /// - requests that are on their way under a session that is refused are cut, and channels closed. What was not answered is
    ///   sent to another enclave, where one fresh check finds one that is accepted, and else fails with
    ///   [`Error::Withdrawn`], code `POLICY_WITHDRAWN`;
    /// - what an enclave has received cannot be taken back.
    ///
    /// Sessions that are accepted go on, requests under way included. Some milliseconds of computing for each session.
    pub fn set_policy(&self, policy: Policy) -> PolicyChange {
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

    /// Those that have a valid proof first: a host that is down costs a request nothing while another one answers. Sorted once,
    /// at the start: a proof that is lost meanwhile must not bring its upstream up a second time.
    pub(crate) fn in_order(&self) -> Vec<&Arc<Upstream>> {
        let now = self.options.clock.now();
        let (mut ready, others): (Vec<_>, Vec<_>) = self.upstreams.iter().partition(|upstream| {
            let state = upstream.state();
            state.session().is_some_and(|session| session.is_valid(now))
        });
        ready.extend(others);
        ready
    }

    /// Address and state of each upstream.
    pub fn states(&self) -> Vec<(String, State)> {
        self.upstreams
            .iter()
            .map(|upstream| (upstream.host.url().to_owned(), upstream.state()))
            .collect()
    }

    /// Whether a request would be sealed at once: some proof is valid now.
    pub fn is_ready(&self) -> bool {
        let now = self.options.clock.now();
        let mut states = self.upstreams.iter().map(|upstream| upstream.state());
        states.any(|state| state.session().is_some_and(|session| session.is_valid(now)))
    }

    /// Whether an upstream was verified once, and its proof has ended since.
    pub fn is_over(&self, state: &State) -> bool {
        let now = self.options.clock.now();
        state
            .session()
            .is_some_and(|session| !session.is_valid(now))
    }

    /// Keeps every upstream's proof fresh, for as long as it is polled. It never returns.
    pub async fn maintain(&self) {
        // Each by itself: one that does not answer must not keep the others from being renewed.
        let mut upstreams = JoinSet::new();
        for upstream in &*self.upstreams {
            let (upstream, options) = (Arc::clone(upstream), Arc::clone(&self.options));
            upstreams.spawn(async move {
                loop {
                    let state = upstream.state();
                    let session = state.session();
                    if session.is_none_or(|session| upstream.is_renewal_due(&options, session)) {
                        // What it failed with is kept in the state; the next round tries again.
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
    /// One more service, asked where those before it fail.
    pub fn upstream(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// What enclaves are judged by: [`Policy::chosen_by_hand`] or [`Policy::built_in`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Also talks to a simulated enclave, for development; without a policy judged by the service's own. The operator of a
    /// simulated enclave reads what is sent to it.
    pub fn accept_simulated(mut self, accept: bool) -> Self {
        self.accept_simulated = accept;
        self
    }

    /// Longest for one exchange with a host; 120 seconds unless told otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long before its end a proof is renewed. Unless told otherwise, while the enclave still takes requests under it: some time
    /// between 5 and 10 minutes before the end, or between two fifths and half of a shorter life.
    pub fn renew_before(mut self, time: Duration) -> Self {
        self.renew_before = Some(time);
        self
    }

    /// Seals each request to so many verified enclaves, wherever they are: behind one address or behind several. Whichever has
    /// room answers, and its receipt is its own; one that is gone costs no new attestation. 1 unless told otherwise, at most
    /// [`MAX_CANDIDATES`](protocol::candidates::MAX_CANDIDATES).
    ///
    /// A host can then have a request computed once by each of them, and learns how many there are.
    pub fn candidates(mut self, count: usize) -> Self {
        self.candidates = count.clamp(1, MAX_CANDIDATES);
        self
    }

    /// Another clock than this machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::UrlInvalid`].
    pub fn build(self) -> Result<Client, Error> {
        let hosts = self
            .urls
            .iter()
            .map(|url| Host::new(url, self.timeout).map(|host| Arc::new(Upstream::new(host))));
        Ok(Client {
            upstreams: hosts.collect::<Result<_, _>>()?,
            options: Arc::new(Options {
                trust: Trust::new(self.policy),
                accept_simulated: self.accept_simulated,
                clock: self.clock,
                candidates: self.candidates,
                renew_before: self.renew_before,
                spread: spread(),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every rotation of an enclave: fresh keys are there, and the old ones are still taken.
    #[test]
    fn a_renewal_falls_into_the_overlap_of_two_generations() {
        const LINGER: u64 = 60;
        for rotation in [60, 90, 300, 600, 900, 3_600, 86_400] {
            let overlap = rotation.min(600);
            // A manifest begins a minute early.
            let lifetime = 60 + rotation + overlap + LINGER;
            for spread in [0, 1, 100, 254, 255] {
                let margin = renewal_margin(lifetime * 1_000, spread) / 1_000;
                let right = LINGER + overlap / 4..=LINGER + overlap;
                assert!(right.contains(&margin), "{rotation}: {margin}");
            }
        }
        let few = |spread| renewal_margin(4_320_000, spread);
        assert!(few(255) - few(0) >= 120_000);
    }
}
