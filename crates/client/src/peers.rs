//! Further enclaves behind the address of an upstream.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::exchange::candidate_name;

use crate::error::Error;
use crate::options::Options;
use crate::state::Session;
use crate::trust::Rejudged;
use crate::upstream::Upstream;

/// Minimum time between two searches for further enclaves behind one address.
const SEARCH_INTERVAL: Duration = Duration::from_secs(30);
/// Attestations in one search per wanted enclave: the load balancer chooses which enclave answers.
const TRIES: usize = 3;
/// Timeout of one search, for which a request waits.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Further enclaves behind an upstream's address.
#[derive(Default)]
pub(crate) struct Peers {
    sessions: Mutex<Vec<Arc<Session>>>,
    /// Start of the last search. Locked during a search; no one waits for the lock.
    last_search: tokio::sync::Mutex<Option<Instant>>,
}

impl Peers {
    fn lock_sessions(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns up to `wanted` sessions that are known or can be found now, with other candidate names than those of `taken`. Uses
    /// sessions that are about to end while it searches for others.
    pub(crate) async fn sessions(
        &self,
        upstream: &Arc<Upstream>,
        options: &Arc<Options>,
        wanted: usize,
        taken: &[Arc<Session>],
    ) -> Vec<Arc<Session>> {
        let found = self.usable(options, taken);
        if count_lasting(options, &found) >= wanted {
            return found;
        }
        if found.len() < wanted {
            self.search(upstream, options, wanted, taken).await;
            return self.usable(options, taken);
        }
        let (upstream, options) = (Arc::clone(upstream), Arc::clone(options));
        let taken = taken.to_vec();
        tokio::spawn(async move {
            let peers = &upstream.peers;
            peers.search(&upstream, &options, wanted, &taken).await;
        });
        found
    }

    /// Drops sessions that have ended or have the candidate name of one of `taken`. Returns the rest, the longest-lived first.
    fn usable(&self, options: &Options, taken: &[Arc<Session>]) -> Vec<Arc<Session>> {
        let (mut known, now) = (self.lock_sessions(), options.clock.now());
        known.retain(|one| one.is_valid(now) && is_new(taken, one));
        known.sort_by_key(|one| Reverse(one.valid_until()));
        known.clone()
    }

    /// Searches for enclaves behind the upstream's address until `wanted` are known.
    async fn search(
        &self,
        upstream: &Upstream,
        options: &Arc<Options>,
        wanted: usize,
        taken: &[Arc<Session>],
    ) {
        let Ok(mut searched) = self.last_search.try_lock() else {
            return;
        };
        if searched.is_some_and(|last| last.elapsed() < SEARCH_INTERVAL) {
            return;
        }
        // Set before the search: if the request is cancelled, the next one must not search again.
        *searched = Some(Instant::now());
        // Fetched once per search: a request for it takes a turn of the load balancer, which then skips an enclave.
        let Ok(policy) = upstream.policy(options).await else {
            return;
        };
        let deadline = tokio::time::Instant::now() + SEARCH_TIMEOUT;
        for _ in 0..wanted * TRIES {
            let judged = upstream.judge(options, Some(&policy));
            let session = match tokio::time::timeout_at(deadline, judged).await {
                Ok(Ok(session)) => session,
                Ok(Err(Error::Unreachable(_))) | Err(_) => return,
                // Skip an enclave that cannot be verified.
                Ok(Err(_)) => continue,
            };
            let mut known = self.lock_sessions();
            if is_new(taken, &session) {
                // The same keys in a fresh document, or another enclave.
                known.retain(|one| is_new(std::slice::from_ref(one), &session));
                known.push(session);
            }
            if count_lasting(options, &known) >= wanted {
                return;
            }
        }
    }

    /// Applies the outcome of a new policy.
    pub(crate) fn replace(&self, rejudged: &[Rejudged]) {
        for known in &mut *self.lock_sessions() {
            let mut all = rejudged.iter();
            let one = all.find(|one| Arc::ptr_eq(&one.before, known));
            // A refused session is no longer valid, and the next search drops it.
            if let Some(Ok(session)) = one.map(|one| &one.outcome) {
                *known = Arc::clone(session);
            }
        }
        // The new policy may accept other enclaves.
        self.allow_search();
    }

    /// Forgets a session, and lets the next request search again.
    pub(crate) fn forget(&self, gone: &Arc<Session>) {
        self.lock_sessions().retain(|one| !one.is_same(gone));
        self.allow_search();
    }

    /// Lets the next request search again.
    fn allow_search(&self) {
        if let Ok(mut searched) = self.last_search.try_lock() {
            *searched = None;
        }
    }
}

/// Counts sessions that are not about to end.
fn count_lasting(options: &Options, sessions: &[Arc<Session>]) -> usize {
    let is_lasting = |one: &&Arc<Session>| !options.is_ending(one);
    sessions.iter().filter(is_lasting).count()
}

/// Returns whether none of `known` is the same enclave with the same keys.
fn is_new(known: &[Arc<Session>], session: &Session) -> bool {
    let session = candidate_name(&session.attestation);
    known
        .iter()
        .all(|one| candidate_name(&one.attestation) != session)
}
