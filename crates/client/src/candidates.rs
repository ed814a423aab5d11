//! Requests that are sealed to several enclaves, of which one answers.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

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

use crate::client::{Client, Options};
use crate::embeddings::refusal;
use crate::error::Error;
use crate::host::Sealed;
use crate::message::Answer;
use crate::state::Session;
use crate::trust::Rejudged;
use crate::upstream::{Candidate, SEAL_OVERHEAD, Upstream, random, work};

/// Between two searches for further enclaves behind one address.
const SEARCH_EVERY: Duration = Duration::from_secs(30);
/// Attestations of one search, for each enclave that is looked for: which one answers is the balancer's choice.
const TRIES: usize = 3;
/// Longest for one search: the request that it is for waits.
const SEARCH: Duration = Duration::from_secs(10);
/// For upstreams that were not verified yet, once another one is.
const GRACE: Duration = Duration::from_secs(1);
/// Code of an enclave that has answered this request before.
const REPLAYED: &str = "REPLAYED";

/// Further enclaves behind an upstream's address.
#[derive(Default)]
pub(crate) struct Others {
    known: Mutex<Vec<Arc<Session>>>,
    /// When the last search began. Held by whoever searches; nobody waits for it.
    searched: tokio::sync::Mutex<Option<Instant>>,
}

impl Others {
    fn known(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many, as far as they are known or can be found now, none of them called as one of `taken`. Those whose proofs are about to
    /// end are used while others are looked for.
    async fn sessions(
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
            let others = &upstream.others;
            others.search(&upstream, &options, wanted, &taken).await;
        });
        found
    }

    /// Drops those that are over or called as one of `taken`; returns the rest, those that last longest first.
    fn usable(&self, options: &Options, taken: &[Arc<Session>]) -> Vec<Arc<Session>> {
        let (mut known, now) = (self.known(), options.clock.now());
        known.retain(|one| one.is_valid(now) && is_new(taken, one));
        known.sort_by_key(|one| Reverse(one.valid_until()));
        known.clone()
    }

    /// Looks for enclaves behind the upstream's address until so many are known.
    async fn search(
        &self,
        upstream: &Upstream,
        options: &Arc<Options>,
        wanted: usize,
        taken: &[Arc<Session>],
    ) {
        let Ok(mut searched) = self.searched.try_lock() else {
            return;
        };
        if searched.is_some_and(|last| last.elapsed() < SEARCH_EVERY) {
            return;
        }
        // Before the search: a request that is given up meanwhile must not leave the next one to search again.
        *searched = Some(Instant::now());
        // Once: asked for each time, it would take the turns of every other enclave.
        let Ok(policy) = upstream.policy(options).await else {
            return;
        };
        let deadline = tokio::time::Instant::now() + SEARCH;
        for _ in 0..wanted * TRIES {
            let judged = upstream.judge(options, Some(&policy));
            let session = match tokio::time::timeout_at(deadline, judged).await {
                Ok(Ok(session)) => session,
                Ok(Err(Error::Unreachable(_))) | Err(_) => return,
                // An enclave that cannot be verified is no candidate.
                Ok(Err(_)) => continue,
            };
            let mut known = self.known();
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

    /// The outcome of a new policy for them.
    pub(crate) fn replace(&self, rejudged: &[Rejudged]) {
        for known in &mut *self.known() {
            let mut all = rejudged.iter();
            let one = all.find(|one| Arc::ptr_eq(&one.before, known));
            // One that was refused is not valid any more, and goes with the next search.
            if let Some(Ok(session)) = one.map(|one| &one.outcome) {
                *known = Arc::clone(session);
            }
        }
        // Others may be accepted now, or wanted.
        self.search_again();
    }

    /// Forgets one, and searches again at the next request.
    pub(crate) fn forget(&self, gone: &Arc<Session>) {
        self.known().retain(|one| !one.is_same(gone));
        self.search_again();
    }

    /// At the next request.
    fn search_again(&self) {
        if let Ok(mut searched) = self.searched.try_lock() {
            *searched = None;
        }
    }
}

fn count_lasting(options: &Options, sessions: &[Arc<Session>]) -> usize {
    let is_lasting = |one: &&Arc<Session>| !options.is_ending(one);
    sessions.iter().filter(is_lasting).count()
}

/// Whether none of `known` is the same enclave with the same keys.
fn is_new(known: &[Arc<Session>], session: &Session) -> bool {
    let session = candidate_name(&session.attestation);
    known
        .iter()
        .all(|one| candidate_name(&one.attestation) != session)
}

/// What came of a request to several.
pub(crate) enum Asked {
    Answered(Box<Answer>),
    /// Each of them is busy, by its host's word: asking these upstreams in the ordinary way would only add to it.
    Busy {
        error: Error,
        upstreams: Vec<Arc<Upstream>>,
    },
    /// There are not several, or none of them gave an answer: the ordinary way then finds another enclave, or says what is wrong.
    Unanswered,
}

/// An enclave that a request is sealed to, and where it is asked.
type Enclave = (Arc<Upstream>, Arc<Session>);

impl Client {
    /// One request to several enclaves.
    ///
    /// # Errors
    /// [`Error`] of the request itself.
    pub(crate) async fn ask_candidates(&self, request: &InnerRequest) -> Result<Asked, Error> {
        let mut candidates = self.gather().await;
        if candidates.len() < 2 {
            return Ok(Asked::Unanswered);
        }
        let seed = random()?;
        // The first of them is asked first: they take turns, so that each has its part of the load.
        let first = usize::from(seed[0]) % candidates.len();
        candidates.rotate_left(first);
        let mut begun = self.begin(&candidates, request).await?;
        if let Err(ExchangeError::NoKey | ExchangeError::Seal(_)) = &begun
            && !matches!(&begun, Err(ExchangeError::Seal(SealError::TooLarge)))
            && leave_out_unusable(&mut candidates)?
            && candidates.len() > 1
        {
            begun = self.begin(&candidates, request).await?;
        }
        let (sealed, pending) = match begun {
            // Near the longest request only one enclave's part fits next to it.
            Err(ExchangeError::Expired | ExchangeError::NoKey | ExchangeError::Seal(_)) => {
                return Ok(Asked::Unanswered);
            }
            begun => begun?,
        };
        let sealed = Bytes::from(sealed);
        let limit = MAX_RESPONSE + SEAL_OVERHEAD;
        let mut denials = Vec::new();
        // The same bytes go to one after the other: whichever of them a host is asked for, any of them can answer.
        for (upstream, session) in &candidates {
            // Any of them could open it: it is not sent to the others either.
            let now = self.options.clock.now();
            if !candidates.iter().all(|(_, one)| one.is_valid(now)) {
                return Ok(Asked::Unanswered);
            }
            let hint = session.hint();
            let sent = tokio::select! {
                biased;
                () = any_ended(&candidates) => return Ok(Asked::Unanswered),
                sent = upstream.host.candidates(sealed.clone(), &hint, limit) => sent,
            };
            let answer = match sent {
                Ok(Sealed::Answer(answer)) => answer,
                // An enclave that is no candidate: this one is gone, or has other keys by now.
                Ok(Sealed::KeyUnknown) => {
                    upstream.forget(session);
                    continue;
                }
                // Busy, each of them by its own word: another one may have room.
                Err(Error::Unreachable(problem)) if problem.is_denial() => {
                    denials.push(problem);
                    continue;
                }
                Err(_) => continue,
            };
            let now = self.options.clock.now();
            let finished = work(answer.len(), move || pending.finish(&answer, now)).await?;
            return Ok(match finished {
                Ok((number, answer)) => {
                    let from = candidates
                        .get(number)
                        .map(|(_, session)| Arc::clone(session));
                    let from = from.ok_or(Error::Internal)?;
                    // It had answered already, and that answer was lost.
                    match Answer::new(answer, from) {
                        answer if is_replay(&answer) => Asked::Unanswered,
                        answer => Asked::Answered(Box::new(answer)),
                    }
                }
                Err(_) => {
                    upstream.others.forget(session);
                    Asked::Unanswered
                }
            });
        }
        Ok(match denials.pop() {
            Some(problem) if denials.len() + 1 == candidates.len() => Asked::Busy {
                error: Error::Unreachable(problem),
                upstreams: candidates
                    .into_iter()
                    .map(|(upstream, _)| upstream)
                    .collect(),
            },
            _ => Asked::Unanswered,
        })
    }

    /// Seals the request to all of them.
    async fn begin(
        &self,
        candidates: &[Enclave],
        request: &InnerRequest,
    ) -> Result<Result<(Vec<u8>, PendingCandidates), ExchangeError>, Error> {
        let mut rng = ChaCha20Rng::from_seed(random()?);
        let sessions: Vec<_> = candidates.iter().map(|(_, one)| Arc::clone(one)).collect();
        let (now, request) = (self.options.clock.now(), request.clone());
        let begun = work(request.content.len(), move || {
            let all: Vec<&VerifiedAttestation> =
                sessions.iter().map(|one| &one.attestation).collect();
            begin_with_candidates(&all, &request, now, &mut rng)
        });
        begun.await
    }

    /// Enclaves that are verified now, of all upstreams together no more than are wanted, each once.
    async fn gather(&self) -> Vec<Enclave> {
        let wanted = self.options.candidates;
        let mut all: Vec<Enclave> = Vec::with_capacity(wanted);
        let mut unverified = Vec::new();
        for upstream in self.in_order() {
            match upstream.candidate(&self.options) {
                Candidate::Verified(session) => add(&mut all, (Arc::clone(upstream), session)),
                Candidate::Unverified => unverified.push(upstream),
                Candidate::Unusable => {}
            }
        }
        self.verify(unverified, &mut all).await;
        for upstream in self.in_order() {
            let taken: Vec<_> = all.iter().map(|(_, session)| Arc::clone(session)).collect();
            let missing = wanted.saturating_sub(taken.len());
            if missing == 0 || upstream.state().session().is_none() {
                continue;
            }
            let others = upstream
                .others
                .sessions(upstream, &self.options, missing, &taken);
            let others = others.await.into_iter();
            all.extend(others.map(|session| (Arc::clone(upstream), session)));
        }
        all.truncate(wanted);
        all
    }

    /// Verifies upstreams at the same time, and waits for the first one that is, and for others a moment longer. What comes later
    /// serves the next request.
    async fn verify(&self, unverified: Vec<&Arc<Upstream>>, all: &mut Vec<Enclave>) {
        let (report, mut verified) = mpsc::unbounded_channel();
        for upstream in unverified {
            if !all.is_empty() && upstream.is_attesting() {
                continue;
            }
            let (upstream, options) = (Arc::clone(upstream), Arc::clone(&self.options));
            let report = report.clone();
            tokio::spawn(async move {
                // What it failed with is kept in its state.
                if let Ok(session) = upstream.session(&options).await {
                    // The request may have gone on.
                    let _ = report.send((upstream, session));
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

/// Two addresses may lead to one enclave.
fn add(all: &mut Vec<Enclave>, (upstream, session): Enclave) {
    let known = candidate_name(&session.attestation);
    if all
        .iter()
        .all(|(_, one)| candidate_name(&one.attestation) != known)
    {
        all.push((upstream, session));
    }
}

/// Leaves out enclaves whose keys cannot be sealed to, and says whether there were any.
fn leave_out_unusable(candidates: &mut Vec<Enclave>) -> Result<bool, Error> {
    let mut rng = ChaCha20Rng::from_seed(random()?);
    let before = candidates.len();
    candidates.retain(|(_, one)| PreparedExchange::new(&one.attestation, &mut rng).is_ok());
    Ok(candidates.len() < before)
}

/// Waits for a trust policy under which one of the sessions is over.
async fn any_ended(candidates: &[Enclave]) {
    let ends = candidates.iter().map(|(_, session)| session.ended());
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
        && matches!(refusal(answer), Error::Service { code, .. } if code == REPLAYED)
}
