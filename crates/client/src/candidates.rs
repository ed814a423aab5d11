//! Requests that are sealed to several enclaves, of which one answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use attestation::VerifiedAttestation;
use bytes::Bytes;
use http::StatusCode;
use protocol::exchange::{ExchangeError, begin_with_candidates, candidate_name};
use protocol::inner::{InnerRequest, MAX_RESPONSE};
use protocol::ohttp::SealError;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::client::{Client, Options};
use crate::embeddings::refusal;
use crate::error::Error;
use crate::host::Sealed;
use crate::message::Answer;
use crate::state::Session;
use crate::trust::Rejudged;
use crate::upstream::{SEAL_OVERHEAD, Upstream, random, work};

/// Between two searches for further enclaves behind one address.
const SEARCH_EVERY: Duration = Duration::from_secs(30);
/// Attestations of one search, for each enclave that is looked for: which one answers is the balancer's choice.
const TRIES: usize = 3;
/// Longest for one search: the request that it is for waits.
const SEARCH: Duration = Duration::from_secs(10);
/// Code of an enclave that has answered this request before.
const REPLAYED: &str = "REPLAYED";

/// Further enclaves behind an upstream's address.
#[derive(Default)]
pub(crate) struct Others {
    known: Mutex<Vec<Arc<Session>>>,
    /// Held by whoever searches; nobody waits for it.
    searched: tokio::sync::Mutex<Option<Instant>>,
}

impl Others {
    fn known(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many, as far as they are known or can be found now, none of them called as one of `taken`.
    async fn sessions(
        &self,
        upstream: &Upstream,
        options: &Arc<Options>,
        wanted: usize,
        taken: &[Arc<Session>],
    ) -> Vec<Arc<Session>> {
        let is_new = |known: &[Arc<Session>], one: &Session| {
            let mut all = known.iter().chain(taken);
            !all.any(|other| candidate_name(&other.attestation) == candidate_name(&one.attestation))
        };
        let kept = |known: &mut Vec<Arc<Session>>| {
            let now = options.clock.now();
            known.retain(|one| one.is_valid(now) && !options.is_ending(one) && is_new(&[], one));
            known.clone()
        };
        let found = kept(&mut self.known());
        if found.len() >= wanted {
            return found;
        }
        let Ok(mut searched) = self.searched.try_lock() else {
            return found;
        };
        if searched.is_some_and(|last| last.elapsed() < SEARCH_EVERY) {
            return found;
        }
        // Once: asked for each time, it would take the turns of every other enclave.
        let Ok(policy) = upstream.policy(options).await else {
            return found;
        };
        let deadline = tokio::time::Instant::now() + SEARCH;
        for _ in 0..wanted * TRIES {
            let judged = upstream.judge(options, Some(&policy));
            let session = match tokio::time::timeout_at(deadline, judged).await {
                Ok(Ok(session)) => session,
                Ok(Err(Error::Unreachable(_))) | Err(_) => break,
                // An enclave that cannot be verified is no candidate.
                Ok(Err(_)) => continue,
            };
            let mut known = self.known();
            if is_new(&known, &session) {
                known.push(session);
            }
            if known.len() >= wanted {
                break;
            }
        }
        *searched = Some(Instant::now());
        kept(&mut self.known())
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
    fn forget(&self, gone: &Arc<Session>) {
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

impl Client {
    /// One request to several enclaves. Nothing where there are not several, or where none of them gave an answer: the ordinary
    /// way then finds another enclave, or says what is wrong.
    ///
    /// # Errors
    /// [`Error`] of the request itself.
    pub(crate) async fn ask_candidates(
        &self,
        request: &InnerRequest,
    ) -> Result<Option<Answer>, Error> {
        let mut candidates = self.gather().await;
        if candidates.len() < 2 {
            return Ok(None);
        }
        let seed = random()?;
        // The first of them is asked first: they take turns, so that each has its part of the load.
        let first = usize::from(seed[0]) % candidates.len();
        candidates.rotate_left(first);
        let mut rng = ChaCha20Rng::from_seed(seed);
        let sessions: Vec<_> = candidates.iter().map(|(_, one)| Arc::clone(one)).collect();
        let (now, request) = (self.options.clock.now(), request.clone());
        let begun = work(request.content.len(), move || {
            let all: Vec<&VerifiedAttestation> =
                sessions.iter().map(|one| &one.attestation).collect();
            begin_with_candidates(&all, &request, now, &mut rng)
        });
        let (sealed, pending) = match begun.await? {
            // Near the longest request only one enclave's part fits next to it.
            Err(ExchangeError::Expired | ExchangeError::Seal(SealError::TooLarge)) => {
                return Ok(None);
            }
            begun => begun?,
        };
        let sealed = Bytes::from(sealed);
        let limit = MAX_RESPONSE + SEAL_OVERHEAD;
        let mut denials = Vec::new();
        // The same bytes go to one after the other: whichever of them a host is asked for, any of them can answer.
        for (upstream, session) in &candidates {
            let hint = session.hint();
            let sent = tokio::select! {
                // Any of them could open it: it is not sent to the others either.
                biased;
                () = any_ended(&candidates) => return Ok(None),
                sent = upstream.host.candidates(sealed.clone(), &hint, limit) => sent,
            };
            let answer = match sent {
                Ok(Sealed::Answer(answer)) => answer,
                // An enclave that is no candidate: this one is gone, or has other keys by now.
                Ok(Sealed::KeyUnknown) => {
                    upstream.others.forget(session);
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
                    Some(Answer::new(answer, from)).filter(|answer| !is_replay(answer))
                }
                Err(_) => {
                    upstream.others.forget(session);
                    None
                }
            });
        }
        match denials.pop() {
            // All of them: asking in the ordinary way would only add to it.
            Some(problem) if denials.len() + 1 == candidates.len() => {
                Err(Error::Unreachable(problem))
            }
            _ => Ok(None),
        }
    }

    /// Enclaves that are verified now, of all upstreams together no more than are wanted, each once.
    async fn gather(&self) -> Vec<(Arc<Upstream>, Arc<Session>)> {
        let wanted = self.options.candidates;
        let mut all: Vec<(Arc<Upstream>, Arc<Session>)> = Vec::with_capacity(wanted);
        for upstream in self.in_order() {
            // Two addresses may lead to one enclave.
            if let Some(session) = upstream.candidate(&self.options).await
                && all.iter().all(|(_, other)| {
                    candidate_name(&other.attestation) != candidate_name(&session.attestation)
                })
            {
                all.push((Arc::clone(upstream), session));
            }
        }
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
}

/// Waits for a trust policy under which one of the sessions is over.
async fn any_ended(candidates: &[(Arc<Upstream>, Arc<Session>)]) {
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
