//! Documents for all who wait, at the ticks of a fixed schedule: their nonces become leaves of a tree, and the enclave is asked with
//! its root ([`merkle::nonces`]).
//!
//! Receipts name the document that their client verified, so neither document nor place should tell one client from another:
//!
//! - A document is made at a tick and at no other moment, for however few clients. So its time, which the enclave signs, does not
//!   say when a client came.
//! - A tree has a power of two leaves, at least [`LEAST_LEAVES`]. Random nonces fill it, and each client's place in it is random. So
//!   evidence does not say how many others wait, and has the same form for a client that waits alone.
//!
//! None of this binds the host: it can make a document for one client, and nothing in the evidence shows that.
//!
//! A flood costs one document a tick. Only clients that say `shared=1` take part: the others get a document of their own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use bytes::{Bytes, BytesMut};
use http::response::Parts;
use merkle::nonces::{MAX_NONCE_PROOF, MAX_NONCES, NonceTree};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::problem::Problem;

/// Documents that are made at once, where one takes longer than the schedule's interval.
const AT_ONCE: usize = 2;
/// Leaves of the smallest tree: as many nonces look alike even where one client is alone.
const LEAST_LEAVES: usize = 16;
/// Map of two entries, as the first byte of evidence (RFC 8949 §3.1), and of three.
const TWO_ENTRIES: u8 = 0xa2;
const THREE_ENTRIES: u8 = 0xa3;
/// Key of the place in evidence.
const PLACE_KEY: u8 = 3;

/// Requests that wait for a document.
#[derive(Clone)]
pub(crate) struct Gathering(Arc<Inner>);

struct Inner {
    /// Ticks are whole intervals after this moment.
    begun: Instant,
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiter>,
    /// Documents that are being made.
    making: usize,
    /// Whether a task follows the schedule.
    is_followed: bool,
}

struct Waiter {
    nonce: Vec<u8>,
    answer: oneshot::Sender<Result<Share, Problem>>,
}

/// What one client gets of a document.
pub(crate) struct Share {
    head: Parts,
    body: Bytes,
    /// Its number among the leaves.
    place: (Arc<NonceTree>, u32),
}

/// The step to take at a tick.
pub(crate) enum Tick {
    /// Make a document.
    Make(Batch),
    /// As many documents are being made as may: wait for the next tick.
    Wait,
    /// Stop following the schedule: no client waits.
    Stop,
}

/// All who wait at a tick, as one document is made for them.
pub(crate) struct Batch {
    /// Each with its number among the leaves.
    waiters: Vec<(Waiter, u32)>,
    tree: Arc<NonceTree>,
    /// Counts one document less when the batch ends, however it does.
    _making: Making,
}

struct Making(Gathering);

/// A nonce that may share a document, out of the query of a request: one `nonce` and one `shared=1`, in any order. Anything else is
/// the enclave's to judge.
pub(crate) fn shareable(query: Option<&str>) -> Option<Vec<u8>> {
    let (first, second) = query?.split_once('&')?;
    let (nonce, shared) = match first.starts_with("nonce=") {
        true => (first, second),
        false => (second, first),
    };
    if shared != "shared=1" {
        return None;
    }
    let text = nonce.strip_prefix("nonce=")?;
    let nonce = Base64UrlUnpadded::decode_vec(text).ok()?;
    (16..=64).contains(&nonce.len()).then_some(nonce)
}

impl Gathering {
    /// No client waits yet. Documents are made every `interval`, from now on.
    pub(crate) fn new(interval: Duration) -> Self {
        Self(Arc::new(Inner {
            begun: Instant::now(),
            interval,
            state: Mutex::default(),
        }))
    }

    /// Waits with others from now on. The second value is true where the caller has to follow the schedule: see [`tick`](Self::tick).
    pub(crate) fn join(
        &self,
        nonce: Vec<u8>,
    ) -> Result<(oneshot::Receiver<Result<Share, Problem>>, bool), Problem> {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.state();
        if state.waiting.len() >= MAX_NONCES {
            // Those who went away hold no place.
            state.waiting.retain(|waiter| !waiter.answer.is_closed());
            if state.waiting.len() >= MAX_NONCES {
                return Err(Problem::Busy);
            }
        }
        state.waiting.push(Waiter { nonce, answer });
        let follow = !state.is_followed;
        state.is_followed = true;
        Ok((receiver, follow))
    }

    /// The first tick after now.
    pub(crate) fn next_tick(&self) -> Instant {
        let now = Instant::now();
        let interval = self.0.interval.as_nanos().max(1);
        let since_tick = now.duration_since(self.0.begun).as_nanos() % interval;
        now + Duration::from_nanos(u64::try_from(interval - since_tick).unwrap_or(u64::MAX))
    }

    /// Takes all who wait now. To be called at every tick until it says to stop.
    pub(crate) fn tick(&self) -> Tick {
        let waiters = {
            let mut state = self.state();
            state.waiting.retain(|waiter| !waiter.answer.is_closed());
            if state.waiting.is_empty() {
                state.is_followed = false;
                return Tick::Stop;
            }
            if state.making >= AT_ONCE {
                return Tick::Wait;
            }
            state.making += 1;
            std::mem::take(&mut state.waiting)
        };
        let making = Making(self.clone());
        let Some((tree, places)) = plant(&waiters) else {
            for waiter in waiters {
                // A client that went away needs no answer.
                waiter.answer.send(Err(Problem::Busy)).ok();
            }
            return Tick::Wait;
        };
        Tick::Make(Batch {
            waiters: waiters.into_iter().zip(places).collect(),
            tree: Arc::new(tree),
            _making: making,
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tree over the nonces of `waiters` and random ones, and the place of each waiter's in it. Nothing where the kernel gives no
/// random bytes.
fn plant(waiters: &[Waiter]) -> Option<(NonceTree, Vec<u32>)> {
    let count = waiters.len().next_power_of_two().max(LEAST_LEAVES);
    let mut random = vec![0; count * size_of::<[u8; 32]>()];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::error!(%error, "the kernel gave no random bytes, so no document can be shared");
        return None;
    }
    let (padding, _) = random.as_chunks::<32>();
    let mut leaves: Vec<&[u8]> = padding.iter().map(|nonce| &nonce[..]).collect();
    let places = shuffled(count)?;
    for (waiter, place) in waiters.iter().zip(&places) {
        *leaves.get_mut(*place as usize)? = &waiter.nonce;
    }
    Some((NonceTree::over(leaves)?, places))
}

/// The numbers below `count` in random order (Fisher and Yates).
fn shuffled(count: usize) -> Option<Vec<u32>> {
    let mut numbers: Vec<u32> = (0..u32::try_from(count).ok()?).collect();
    let mut random = vec![0; count * size_of::<u64>()];
    getrandom::fill(&mut random).ok()?;
    let (random, _) = random.as_chunks::<8>();
    for (last, random) in (1..count).rev().zip(random) {
        // The remainder's bias is below 2⁻⁵⁰: at most 2¹⁴ of 2⁶⁴ values.
        let other = u64::from_le_bytes(*random) % (last as u64 + 1);
        numbers.swap(last, other as usize);
    }
    Some(numbers)
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.state().making -= 1;
    }
}

impl Batch {
    /// How many clients share the document.
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Path and query that ask for it.
    pub(crate) fn path(&self) -> String {
        let nonce = Base64UrlUnpadded::encode_string(&self.tree.document_nonce());
        format!("/v1/attestation?nonce={nonce}")
    }

    /// Gives each its share, or the reason why there is none.
    pub(crate) fn answer(self, made: &Result<(Parts, Bytes), Problem>) {
        for (waiter, number) in self.waiters {
            let share = made.as_ref().map_err(|problem| *problem);
            let share = share.map(|(head, body)| Share {
                head: head.clone(),
                body: body.clone(),
                place: (Arc::clone(&self.tree), number),
            });
            // A client that went away needs none.
            waiter.answer.send(share).ok();
        }
    }
}

impl Share {
    /// Head and body of the answer.
    pub(crate) fn into_answer(self) -> Result<(Parts, Bytes), Problem> {
        let Self {
            mut head,
            body,
            place: (tree, number),
        } = self;
        // A refusal of the enclave passes as it is.
        if !head.status.is_success() {
            return Ok((head, body));
        }
        let place = tree.proof(number).ok_or(Problem::EnclaveInvalidAnswer)?;
        let body = with_place(&body, &place.encode()).ok_or(Problem::EnclaveInvalidAnswer)?;
        head.headers.remove(http::header::CONTENT_LENGTH);
        Ok((head, body))
    }
}

/// Evidence with an entry for the place behind its two. Nothing of it is read but its first byte: it is not this proxy's.
fn with_place(evidence: &[u8], place: &[u8]) -> Option<Bytes> {
    let (&TWO_ENTRIES, rest) = evidence.split_first()? else {
        return None;
    };
    let mut shared = BytesMut::with_capacity(evidence.len() + MAX_NONCE_PROOF + 4);
    shared.extend_from_slice(&[THREE_ENTRIES]);
    shared.extend_from_slice(rest);
    shared.extend_from_slice(&[PLACE_KEY]);
    // Head of a byte string in its shortest form (RFC 8949 §4.2.1).
    match place.len() {
        length @ 0..24 => shared.extend_from_slice(&[0x40 | length as u8]),
        length @ 24..256 => shared.extend_from_slice(&[0x58, length as u8]),
        length => {
            let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
            shared.extend_from_slice(&[0x59, high, low]);
        }
    }
    shared.extend_from_slice(place);
    Some(shared.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use merkle::nonces::NonceProof;

    fn nonce(number: u8) -> Vec<u8> {
        vec![number; 32]
    }

    fn made(body: &'static [u8]) -> Result<(Parts, Bytes), Problem> {
        let (head, ()) = http::Response::new(()).into_parts();
        Ok((head, Bytes::from_static(body)))
    }

    #[test]
    fn only_a_nonce_that_says_so_is_shared() {
        let text = Base64UrlUnpadded::encode_string(&nonce(1));
        for query in [
            format!("nonce={text}&shared=1"),
            format!("shared=1&nonce={text}"),
        ] {
            assert_eq!(shareable(Some(&query)), Some(nonce(1)));
        }
        for query in [
            format!("nonce={text}"),
            format!("nonce={text}&shared=0"),
            format!("nonce={text}&shared=1&x=y"),
            format!("nonce={text}&nonce={text}"),
            "shared=1&shared=1".to_owned(),
            "nonce=AAAA&shared=1".to_owned(),
            "nonce=!&shared=1".to_owned(),
            format!(
                "nonce={}&shared=1",
                Base64UrlUnpadded::encode_string(&[0; 65])
            ),
        ] {
            assert_eq!(shareable(Some(&query)), None, "{query}");
        }
        assert_eq!(shareable(None), None);
    }

    /// A schedule whose ticks a test makes itself.
    fn gathering() -> Gathering {
        Gathering::new(Duration::from_secs(3600))
    }

    fn batch(gathering: &Gathering) -> Batch {
        match gathering.tick() {
            Tick::Make(batch) => batch,
            Tick::Wait => panic!("nothing may be made"),
            Tick::Stop => panic!("no one waits"),
        }
    }

    /// The place in evidence with an empty document and manifest.
    fn place_in(receiver: &mut oneshot::Receiver<Result<Share, Problem>>) -> NonceProof {
        let (_, body) = receiver.try_recv().unwrap().unwrap().into_answer().unwrap();
        let entry = body.strip_prefix(b"\xa3\x01\x41d\x02\x41m\x03").unwrap();
        let bytes = match entry {
            [0x58, length, place @ ..] if place.len() == usize::from(*length) => place,
            [0x59, high, low, place @ ..]
                if place.len() == usize::from(u16::from_be_bytes([*high, *low])) =>
            {
                place
            }
            other => panic!("{other:x?}"),
        };
        NonceProof::decode(bytes).unwrap()
    }

    const EVIDENCE: &[u8] = b"\xa2\x01\x41d\x02\x41m";

    #[test]
    fn one_alone_gets_evidence_like_that_of_sixteen() {
        let gathering = gathering();
        let mut lengths = Vec::new();
        for count in [1, 2, 16] {
            let mut receivers: Vec<_> = (0..count)
                .map(|number| gathering.join(nonce(number)).unwrap().0)
                .collect();
            let batch = batch(&gathering);
            let root = batch.tree.document_nonce();
            let path = batch.path();
            assert!(path.ends_with(&Base64UrlUnpadded::encode_string(&root)));
            assert!(!path.contains(&Base64UrlUnpadded::encode_string(&nonce(0))));
            batch.answer(&made(EVIDENCE));
            for (number, receiver) in (0..).zip(&mut receivers) {
                let place = place_in(receiver);
                assert_eq!(place.count(), 16);
                assert_eq!(place.document_nonce(&nonce(number)).unwrap(), root);
                lengths.push(place.encode().len());
            }
        }
        lengths.dedup();
        assert_eq!(lengths, [8 + 4 * 32]);
    }

    #[test]
    fn a_place_says_neither_how_many_wait_nor_who_came_first() {
        let gathering = gathering();
        let mut firsts = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let mut receivers: Vec<_> = (0..17)
                .map(|number| gathering.join(nonce(number)).unwrap().0)
                .collect();
            batch(&gathering).answer(&made(EVIDENCE));
            let places: Vec<_> = receivers.iter_mut().map(place_in).collect();
            assert!(places.iter().all(|place| place.count() == 32));
            let indices: std::collections::BTreeSet<_> = places
                .iter()
                .map(NonceProof::encode)
                .map(|place| place[..4].to_vec())
                .collect();
            assert_eq!(indices.len(), 17, "each has a place that no other has");
            firsts.insert(places[0].encode()[3]);
        }
        assert!(
            firsts.len() > 10,
            "of 32 places the first client had {}",
            firsts.len()
        );
    }

    #[test]
    fn those_who_went_away_get_no_leaf() {
        let gathering = gathering();
        let mut receivers: Vec<_> = (1..=5)
            .map(|number| gathering.join(nonce(number)).unwrap().0)
            .collect();
        drop(receivers.remove(3));
        assert_eq!(batch(&gathering).len(), 4);
    }

    #[test]
    fn one_caller_follows_the_schedule_until_no_one_waits() {
        let gathering = gathering();
        let (_one, follows) = gathering.join(nonce(1)).unwrap();
        assert!(follows);
        let (_two, follows) = gathering.join(nonce(2)).unwrap();
        assert!(!follows);
        drop(batch(&gathering));
        let (three, follows) = gathering.join(nonce(3)).unwrap();
        assert!(!follows, "the schedule is still followed");
        drop(three);
        assert!(matches!(gathering.tick(), Tick::Stop));
        assert!(gathering.join(nonce(4)).unwrap().1);
    }

    #[tokio::test(start_paused = true)]
    async fn ticks_do_not_depend_on_who_comes_when() {
        let gathering = Gathering::new(Duration::from_millis(100));
        let begun = Instant::now();
        for (at, tick) in [(0, 100), (1, 100), (99, 100), (100, 200), (350, 400)] {
            tokio::time::sleep_until(begun + Duration::from_millis(at)).await;
            let _waiting = gathering.join(nonce(1)).unwrap();
            assert_eq!(
                gathering.next_tick() - begun,
                Duration::from_millis(tick),
                "{at}"
            );
        }
    }

    #[test]
    fn two_documents_are_made_at_once_and_the_rest_gathers() {
        let gathering = gathering();
        let mut batches = Vec::new();
        let mut receivers = Vec::new();
        for number in 0..6 {
            receivers.push(gathering.join(nonce(number)).unwrap());
            match gathering.tick() {
                Tick::Make(batch) => batches.push(batch),
                Tick::Wait => assert_eq!(batches.len(), AT_ONCE),
                Tick::Stop => panic!("one waits"),
            }
        }
        assert_eq!(batches.len(), AT_ONCE);
        // However a batch ends, the next one can be made.
        drop(batches.pop());
        assert_eq!(batch(&gathering).len(), 4);
        assert!(receivers[1].0.try_recv().is_err());
    }

    #[test]
    fn a_failure_is_everybodys_and_so_is_an_answer_that_is_no_evidence() {
        let gathering = gathering();
        let ask = |answer: Result<(Parts, Bytes), Problem>| {
            let mut two = [1, 2].map(|number| gathering.join(nonce(number)).unwrap().0);
            batch(&gathering).answer(&answer);
            let share = two[1].try_recv().unwrap();
            share.and_then(Share::into_answer).map(|(_, body)| body)
        };
        assert_eq!(
            ask(Err(Problem::EnclaveTimeout)),
            Err(Problem::EnclaveTimeout)
        );
        for body in [&b""[..], b"\xa3", b"{}"] {
            assert_eq!(ask(made(body)), Err(Problem::EnclaveInvalidAnswer));
        }
        // A refusal of the enclave passes through.
        let (mut head, body) = made(b"{}").unwrap();
        head.status = http::StatusCode::SERVICE_UNAVAILABLE;
        assert_eq!(ask(Ok((head, body))), Ok(Bytes::from_static(b"{}")));
    }

    #[test]
    fn a_full_room_refuses_and_those_who_went_away_make_room() {
        let gathering = gathering();
        let waiting: Vec<_> = (0..MAX_NONCES)
            .map(|_| gathering.join(nonce(0)).unwrap())
            .collect();
        assert_eq!(gathering.join(nonce(1)).err(), Some(Problem::Busy));
        drop(waiting);
        assert!(gathering.join(nonce(1)).is_ok());
    }
}
