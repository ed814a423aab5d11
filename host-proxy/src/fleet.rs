//! Several enclaves behind one proxy: whose keys a request is sealed to, and which of them answer.
//!
//! An enclave names itself in each answer to a request for a document (`clearseal-enclave`), and clients send that name with
//! what they seal. Nothing rests on it: an enclave that gets another one's request answers with the key problem of RFC 9458,
//! and the client attests again.

use http::HeaderValue;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// After a failure an enclave gets no request for so long, then one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The pause doubles with each failure, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Names that are remembered of each enclave. It has a new one with each new set of keys.
const NAMES: usize = 16;
/// Hexadecimal digits of a name.
const NAME_LENGTH: usize = 16;

/// Which enclave gets the next request.
#[derive(Clone)]
pub(crate) struct Fleet(Arc<[Member]>, Arc<AtomicUsize>);

struct Member(Mutex<State>);

#[derive(Default)]
struct State {
    names: VecDeque<HeaderValue>,
    /// Set while it is taken out.
    out: Option<Out>,
}

struct Out {
    until: Instant,
    pause: Duration,
}

impl Fleet {
    /// So many enclaves, all of them in.
    pub(crate) fn new(count: usize) -> Self {
        let members = (0..count.max(1)).map(|_| Member(Mutex::default()));
        Self(members.collect(), Arc::default())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The enclave for a request under this name, other than those in `tried`: the one that has the name, else the next in turn
    /// that is in. Where all are out it is the next in turn all the same: the answer says then what is wrong.
    pub(crate) fn choose(&self, name: Option<&HeaderValue>, tried: &[usize]) -> usize {
        let now = Instant::now();
        let left = |index: &usize| !tried.contains(index);
        if let Some(named) = name.and_then(|name| self.named(name))
            && left(&named)
            && self.state(named).admit(now)
        {
            return named;
        }
        let turn = self.1.fetch_add(1, Ordering::Relaxed);
        let in_turn = || {
            (0..self.len())
                .map(|step| turn.wrapping_add(step) % self.len())
                .filter(left)
        };
        in_turn()
            .find(|&index| self.state(index).admit(now))
            .or_else(|| in_turn().next())
            .unwrap_or(0)
    }

    /// It answered, perhaps under a name that is new.
    pub(crate) fn answered(&self, index: usize, name: Option<&HeaderValue>) {
        let mut state = self.state(index);
        if state.out.take().is_some() {
            tracing::info!(enclave = index, "an enclave answers again");
        }
        if let Some(name) = name.filter(|name| is_name(name))
            && !state.names.contains(name)
        {
            state.names.truncate(NAMES - 1);
            state.names.push_front(name.clone());
        }
    }

    /// It did not answer.
    pub(crate) fn failed(&self, index: usize) {
        let mut state = self.state(index);
        let pause = match &state.out {
            Some(out) => (out.pause * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        if state.out.is_none() && self.len() > 1 {
            tracing::warn!(
                enclave = index,
                "an enclave does not answer and is taken out"
            );
        }
        let until = Instant::now() + pause;
        state.out = Some(Out { until, pause });
    }

    fn named(&self, name: &HeaderValue) -> Option<usize> {
        (0..self.len()).find(|&index| self.state(index).names.contains(name))
    }

    fn state(&self, index: usize) -> MutexGuard<'_, State> {
        let Member(state) = &self.0[index % self.0.len()];
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether it may get a request now. After its pause one request tries it, and the others go on elsewhere.
    fn admit(&mut self, now: Instant) -> bool {
        match &mut self.out {
            None => true,
            Some(out) if out.until <= now => {
                out.until = now + out.pause;
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
    async fn requests_go_round_and_names_to_whom_they_belong() {
        let fleet = Fleet::new(3);
        let turns: Vec<_> = (0..6).map(|_| fleet.choose(None, &[])).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        let known = name("0011223344556677");
        fleet.answered(1, Some(&known));
        assert!((0..5).all(|_| fleet.choose(Some(&known), &[]) == 1));
        assert_ne!(fleet.choose(Some(&known), &[1]), 1);
        // What is no name is not remembered, and of names only the newest.
        fleet.answered(2, Some(&name("not-hexadecimal!")));
        assert_eq!(fleet.named(&name("not-hexadecimal!")), None);
        for number in 0..NAMES {
            let newer = HeaderValue::try_from(format!("{number:016x}")).unwrap();
            fleet.answered(1, Some(&newer));
        }
        assert_eq!(fleet.named(&known), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_is_out_and_comes_back() {
        let fleet = Fleet::new(2);
        let known = name("0011223344556677");
        fleet.answered(0, Some(&known));
        fleet.failed(0);
        assert!((0..4).all(|_| fleet.choose(Some(&known), &[]) == 1));
        tokio::time::advance(FIRST_PAUSE).await;
        // One request tries it, and the next ones do not.
        assert_eq!(fleet.choose(Some(&known), &[]), 0);
        assert_eq!(fleet.choose(Some(&known), &[]), 1);
        fleet.failed(0);
        tokio::time::advance(FIRST_PAUSE).await;
        assert_eq!(fleet.choose(Some(&known), &[]), 1);
        tokio::time::advance(FIRST_PAUSE).await;
        assert_eq!(fleet.choose(Some(&known), &[]), 0);
        fleet.answered(0, None);
        assert!((0..4).all(|_| fleet.choose(Some(&known), &[]) == 0));
        // Pauses end.
        for _ in 0..40 {
            fleet.failed(0);
        }
        tokio::time::advance(LONGEST_PAUSE).await;
        assert_eq!(fleet.choose(Some(&known), &[]), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_out_one_is_asked_all_the_same() {
        let fleet = Fleet::new(2);
        fleet.failed(0);
        fleet.failed(1);
        let first = fleet.choose(None, &[]);
        assert_ne!(fleet.choose(None, &[first]), first);
        let alone = Fleet::new(1);
        alone.failed(0);
        assert_eq!(alone.choose(None, &[]), 0);
        assert_eq!(alone.choose(None, &[0]), 0);
    }
}
