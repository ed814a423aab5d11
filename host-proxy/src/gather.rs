//! One document for all who wait: their nonces become the leaves of a tree, whose root the enclave is asked with
//! ([`merkle::nonces`]).
//!
//! Nothing is waited for on purpose. While documents are being made, requests gather; the next document is for all of them.
//! So a service with few clients asks with each one's own nonce, and a flood costs as many documents as the enclave can
//! make, whatever its size. Only clients that say `shared=1` take part: the others get a document of their own.

use crate::problem::Problem;
use base64ct::{Base64UrlUnpadded, Encoding};
use bytes::{Bytes, BytesMut};
use http::response::Parts;
use merkle::nonces::{MAX_NONCES, MAX_PLACE, Tree};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Documents that are made at once: one is computed while the other's request and answer travel.
const AT_ONCE: usize = 2;
/// Map of two entries, as the first byte of evidence (RFC 8949 §3.1), and of three.
const TWO_ENTRIES: u8 = 0xa2;
const THREE_ENTRIES: u8 = 0xa3;
/// Key of the place in evidence.
const PLACE_KEY: u8 = 3;

/// Requests that wait for a document.
#[derive(Clone, Default)]
pub(crate) struct Gathering(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: Vec<Waiter>,
    /// Documents that are being made.
    making: usize,
}

struct Waiter {
    nonce: Vec<u8>,
    answer: oneshot::Sender<Result<Share, Problem>>,
}

/// What one client gets of a document.
pub(crate) struct Share {
    head: Parts,
    body: Bytes,
    /// Its number among those that share the document.
    place: Option<(Arc<Tree>, u32)>,
}

/// All who wait, as one document is made for them.
pub(crate) struct Batch {
    waiters: Vec<Waiter>,
    tree: Option<Arc<Tree>>,
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
    /// Waits with others from now on. The second value is true where somebody has to see to the next documents: whoever called.
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
        Ok((receiver, state.making < AT_ONCE))
    }

    /// All who wait now, unless as many documents are being made as may.
    pub(crate) fn take(&self) -> Option<Batch> {
        let waiters = {
            let mut state = self.state();
            state.waiting.retain(|waiter| !waiter.answer.is_closed());
            if state.waiting.is_empty() || state.making >= AT_ONCE {
                return None;
            }
            state.making += 1;
            std::mem::take(&mut state.waiting)
        };
        let making = Making(self.clone());
        let tree = match waiters.len() {
            1 => None,
            _ => Tree::over(waiters.iter().map(|waiter| &waiter.nonce[..])).map(Arc::new),
        };
        Some(Batch {
            waiters,
            tree,
            _making: making,
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.state().making -= 1;
    }
}

impl Batch {
    /// How many share the document.
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Path and query that ask for it.
    pub(crate) fn path(&self) -> String {
        let nonce = match (&self.tree, self.waiters.first()) {
            (Some(tree), _) => Base64UrlUnpadded::encode_string(&tree.document_nonce()),
            (None, Some(alone)) => Base64UrlUnpadded::encode_string(&alone.nonce),
            (None, None) => String::new(),
        };
        format!("/v1/attestation?nonce={nonce}")
    }

    /// Gives each its share, or the reason why there is none.
    pub(crate) fn answer(self, made: &Result<(Parts, Bytes), Problem>) {
        for (number, waiter) in (0..).zip(self.waiters) {
            let share = made.as_ref().map_err(|problem| *problem);
            let share = share.map(|(head, body)| Share {
                head: head.clone(),
                body: body.clone(),
                place: self.tree.clone().map(|tree| (tree, number)),
            });
            // Whoever went away needs none.
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
            place,
        } = self;
        let Some((tree, number)) = place.filter(|_| head.status.is_success()) else {
            return Ok((head, body));
        };
        let place = tree.place(number).ok_or(Problem::EnclaveInvalidAnswer)?;
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
    let mut shared = BytesMut::with_capacity(evidence.len() + MAX_PLACE + 4);
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
    use merkle::nonces::Place;

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

    #[test]
    fn one_alone_asks_with_its_own_nonce_and_gets_the_answer_as_it_is() {
        let gathering = Gathering::default();
        let (mut receiver, first) = gathering.join(nonce(1)).unwrap();
        assert!(first);
        let batch = gathering.take().unwrap();
        let text = Base64UrlUnpadded::encode_string(&nonce(1));
        assert_eq!(batch.path(), format!("/v1/attestation?nonce={text}"));
        batch.answer(&made(b"\xa2anything"));
        let share = receiver.try_recv().unwrap().unwrap();
        assert_eq!(share.into_answer().unwrap().1, b"\xa2anything"[..]);
        assert!(gathering.take().is_none());
    }

    #[test]
    fn those_who_wait_share_a_document_and_each_has_its_own_place() {
        let gathering = Gathering::default();
        let mut receivers: Vec<_> = (1..=5)
            .map(|number| gathering.join(nonce(number)).unwrap().0)
            .collect();
        // One went away.
        drop(receivers.remove(3));
        let batch = gathering.take().unwrap();
        assert_eq!(batch.len(), 4);
        let root = batch.tree.as_ref().unwrap().document_nonce();
        assert!(
            batch
                .path()
                .ends_with(&Base64UrlUnpadded::encode_string(&root))
        );
        batch.answer(&made(b"\xa2\x01\x41d\x02\x41m"));
        for (number, receiver) in [1, 2, 3, 5].into_iter().zip(&mut receivers) {
            let (_, body) = receiver.try_recv().unwrap().unwrap().into_answer().unwrap();
            let place = body
                .strip_prefix(b"\xa3\x01\x41d\x02\x41m\x03\x58\x48")
                .unwrap();
            let place = Place::decode(place).unwrap();
            assert_eq!(place.document_nonce(&nonce(number)).unwrap(), root);
        }
    }

    #[test]
    fn two_documents_are_made_at_once_and_the_rest_gathers() {
        let gathering = Gathering::default();
        let mut batches = Vec::new();
        let mut receivers = Vec::new();
        for number in 0..6 {
            receivers.push(gathering.join(nonce(number)).unwrap());
            batches.extend(gathering.take());
        }
        assert_eq!(batches.len(), AT_ONCE);
        let sees: Vec<bool> = receivers.iter().map(|(_, first)| *first).collect();
        assert_eq!(sees, [true, true, false, false, false, false]);
        // However a batch ends, the next one can be made.
        drop(batches.pop());
        assert_eq!(gathering.take().unwrap().len(), 4);
        assert!(receivers[1].0.try_recv().is_err());
    }

    #[test]
    fn a_failure_is_everybodys_and_so_is_an_answer_that_is_no_evidence() {
        let gathering = Gathering::default();
        let ask = |answer: Result<(Parts, Bytes), Problem>| {
            let mut two = [1, 2].map(|number| gathering.join(nonce(number)).unwrap().0);
            gathering.take().unwrap().answer(&answer);
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
        let gathering = Gathering::default();
        let waiting: Vec<_> = (0..MAX_NONCES)
            .map(|_| gathering.join(nonce(0)).unwrap())
            .collect();
        assert_eq!(gathering.join(nonce(1)).err(), Some(Problem::Busy));
        drop(waiting);
        assert!(gathering.join(nonce(1)).is_ok());
    }
}
