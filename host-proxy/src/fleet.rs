//! Several enclaves behind one proxy: to which of them a request goes.
//!
//! An enclave names itself in each answer to a request for a document (`clearseal-enclave`), and clients send that name with
//! what they seal. No security rests on it: an enclave that gets a request for another one answers with the key problem of RFC 9458,
//! and the client attests again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

/// Pause after a first failure, in which the enclave gets no request. Then it gets one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Upper bound on the pause, which doubles with each further failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Names that are remembered for each enclave. It has a new name with each new set of keys.
const NAMES: usize = 16;
/// Hexadecimal digits of a name.
const NAME_LENGTH: usize = 16;

/// Chooses the enclave for each request. A clone is the same fleet.
#[derive(Clone)]
pub(crate) struct Fleet {
    members: Arc<[Mutex<Member>]>,
    /// Number of requests that went to the next enclave in turn.
    turns: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Member {
    names: VecDeque<HeaderValue>,
    /// Set while the enclave gets no requests.
    pause: Option<Pause>,
}

struct Pause {
    until: Instant,
    length: Duration,
}

impl Fleet {
    /// `count` enclaves, none of them paused.
    pub(crate) fn new(count: usize) -> Self {
        let members = (0..count.max(1)).map(|_| Mutex::default());
        Self {
            members: members.collect(),
            turns: Arc::default(),
        }
    }

    /// Number of enclaves.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Chooses the enclave for a request under this name, other than those in `tried`: the one that has the name, else the next
    /// in turn that is not paused. If all are paused, returns the one that has the name, which alone can open the request, or the next
    /// in turn, so that the client gets its error.
    pub(crate) fn choose(&self, name: Option<&HeaderValue>, tried: &[usize]) -> usize {
        let now = Instant::now();
        let left = |index: &usize| !tried.contains(index);
        let named = name.and_then(|name| self.find(name)).filter(left);
        if let Some(named) = named
            && self.member(named).admit(now)
        {
            return named;
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let in_turn = || {
            (0..self.len())
                .map(|step| turn.wrapping_add(step) % self.len())
                .filter(left)
        };
        in_turn()
            .find(|&index| self.member(index).admit(now))
            .or(named)
            .or_else(|| in_turn().next())
            .unwrap_or(0)
    }

    /// Ends the enclave's pause, and remembers its name.
    pub(crate) fn record_answer(&self, index: usize, name: Option<&HeaderValue>) {
        let mut member = self.member(index);
        if member.pause.take().is_some() {
            tracing::info!(enclave = index, "an enclave answers again");
        }
        if let Some(name) = name.filter(|name| is_name(name))
            && !member.names.contains(name)
        {
            member.names.truncate(NAMES - 1);
            member.names.push_front(name.clone());
        }
    }

    /// Pauses an enclave that did not answer.
    pub(crate) fn record_failure(&self, index: usize) {
        let mut member = self.member(index);
        let length = match &member.pause {
            Some(pause) => (pause.length * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        if member.pause.is_none() && self.len() > 1 {
            tracing::warn!(
                enclave = index,
                "an enclave does not answer and is taken out"
            );
        }
        let until = Instant::now() + length;
        member.pause = Some(Pause { until, length });
    }

    fn find(&self, name: &HeaderValue) -> Option<usize> {
        (0..self.len()).find(|&index| self.member(index).names.contains(name))
    }

    fn member(&self, index: usize) -> MutexGuard<'_, Member> {
        let member = &self.members[index % self.len()];
        member.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Whether the enclave may get a request now. After each pause it gets one request, and the others go elsewhere.
    fn admit(&mut self, now: Instant) -> bool {
        match &mut self.pause {
            None => true,
            Some(pause) if pause.until <= now => {
                pause.until = now + pause.length;
                true
            }
            Some(_) => false,
        }
    }
}

fn is_name(name: &HeaderValue) -> bool {
    name.len() == NAME_LENGTH && name.as_bytes().iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &'static str) -> HeaderValue {
        HeaderValue::from_static(text)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_to_the_named_enclave_or_the_next_in_turn() {
        let fleet = Fleet::new(3);
        let turns: Vec<_> = (0..6).map(|_| fleet.choose(None, &[])).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        let known = name("0011223344556677");
        fleet.record_answer(1, Some(&known));
        assert!((0..5).all(|_| fleet.choose(Some(&known), &[]) == 1));
        assert_ne!(fleet.choose(Some(&known), &[1]), 1);
        // Only valid names are remembered, and of those only the newest.
        fleet.record_answer(2, Some(&name("not-hexadecimal!")));
        assert_eq!(fleet.find(&name("not-hexadecimal!")), None);
        for number in 0..NAMES {
            let newer = HeaderValue::try_from(format!("{number:016x}")).unwrap();
            fleet.record_answer(1, Some(&newer));
        }
        assert_eq!(fleet.find(&known), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_enclave_that_fails_is_paused_and_tried_again() {
        let fleet = Fleet::new(2);
        let known = name("0011223344556677");
        fleet.record_answer(0, Some(&known));
        fleet.record_failure(0);
        assert!((0..4).all(|_| fleet.choose(Some(&known), &[]) == 1));
        tokio::time::advance(FIRST_PAUSE).await;
        // One request tries it, and the next ones do not.
        assert_eq!(fleet.choose(Some(&known), &[]), 0);
        assert_eq!(fleet.choose(Some(&known), &[]), 1);
        fleet.record_failure(0);
        tokio::time::advance(FIRST_PAUSE).await;
        assert_eq!(fleet.choose(Some(&known), &[]), 1);
        tokio::time::advance(FIRST_PAUSE).await;
        assert_eq!(fleet.choose(Some(&known), &[]), 0);
        fleet.record_answer(0, None);
        assert!((0..4).all(|_| fleet.choose(Some(&known), &[]) == 0));
        // Pauses end.
        for _ in 0..40 {
            fleet.record_failure(0);
        }
        tokio::time::advance(LONGEST_PAUSE).await;
        assert_eq!(fleet.choose(Some(&known), &[]), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_paused_one_is_asked_nevertheless() {
        let fleet = Fleet::new(2);
        fleet.record_failure(0);
        fleet.record_failure(1);
        let first = fleet.choose(None, &[]);
        assert_ne!(fleet.choose(None, &[first]), first);
        let known = name("0011223344556677");
        fleet.record_answer(1, Some(&known));
        fleet.record_failure(1);
        assert!((0..4).all(|_| fleet.choose(Some(&known), &[]) == 1));
        assert_eq!(fleet.choose(Some(&known), &[1]), 0);
        let alone = Fleet::new(1);
        alone.record_failure(0);
        assert_eq!(alone.choose(None, &[]), 0);
        assert_eq!(alone.choose(None, &[0]), 0);
    }
}
