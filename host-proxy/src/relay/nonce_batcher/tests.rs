//! The schedule, the trees and the shares.

use merkle::nonces::NonceProof;

use super::*;

fn nonce(number: u8) -> Vec<u8> {
    vec![number; 32]
}

fn document(body: &'static [u8]) -> Result<(Parts, Bytes), Problem> {
    let (head, ()) = http::Response::new(()).into_parts();
    Ok((head, Bytes::from_static(body)))
}

#[test]
fn only_a_nonce_with_shared_1_is_shared() {
    let text = Base64UrlUnpadded::encode_string(&nonce(1));
    for query in [
        format!("nonce={text}&shared=1"),
        format!("shared=1&nonce={text}"),
    ] {
        assert_eq!(shareable_nonce(Some(&query)), Some(nonce(1)));
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
        assert_eq!(shareable_nonce(Some(&query)), None, "{query}");
    }
    assert_eq!(shareable_nonce(None), None);
}

/// A batcher whose ticks a test calls.
fn batcher() -> NonceBatcher {
    NonceBatcher::new(Duration::from_secs(3600))
}

fn batch(batcher: &NonceBatcher) -> Batch {
    match batcher.tick() {
        Tick::Make(batch) => batch,
        Tick::Wait => panic!("the limit on documents in flight is reached"),
        Tick::Stop => panic!("no client waits"),
    }
}

/// Returns the proof in evidence with a document and a manifest of one byte.
fn proof_in(receiver: &mut oneshot::Receiver<Result<Share, Problem>>) -> NonceProof {
    let (_, body) = receiver.try_recv().unwrap().unwrap().into_answer().unwrap();
    let entry = body.strip_prefix(b"\xa3\x01\x41d\x02\x41m\x03").unwrap();
    let bytes = match entry {
        [0x58, length, proof @ ..] if proof.len() == usize::from(*length) => proof,
        [0x59, high, low, proof @ ..]
            if proof.len() == usize::from(u16::from_be_bytes([*high, *low])) =>
        {
            proof
        }
        other => panic!("{other:x?}"),
    };
    NonceProof::decode(bytes).unwrap()
}

const EVIDENCE: &[u8] = b"\xa2\x01\x41d\x02\x41m";

#[test]
fn a_single_client_gets_evidence_of_the_same_form_as_sixteen() {
    let batcher = batcher();
    let mut lengths = Vec::new();
    for count in [1, 2, 16] {
        let mut receivers: Vec<_> = (0..count)
            .map(|number| batcher.join(nonce(number)).unwrap().share)
            .collect();
        let batch = batch(&batcher);
        let root = batch.tree.document_nonce();
        let path = batch.path();
        assert!(path.ends_with(&Base64UrlUnpadded::encode_string(&root)));
        assert!(!path.contains(&Base64UrlUnpadded::encode_string(&nonce(0))));
        batch.answer(&document(EVIDENCE));
        for (number, receiver) in (0..).zip(&mut receivers) {
            let proof = proof_in(receiver);
            assert_eq!(proof.count(), 16);
            assert_eq!(proof.document_nonce(&nonce(number)).unwrap(), root);
            lengths.push(proof.encode().len());
        }
    }
    lengths.dedup();
    assert_eq!(lengths, [8 + 4 * 32]);
}

#[test]
fn a_proof_reveals_neither_how_many_wait_nor_which_client_came_first() {
    let batcher = batcher();
    let mut firsts = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let mut receivers: Vec<_> = (0..17)
            .map(|number| batcher.join(nonce(number)).unwrap().share)
            .collect();
        batch(&batcher).answer(&document(EVIDENCE));
        let proofs: Vec<_> = receivers.iter_mut().map(proof_in).collect();
        assert!(proofs.iter().all(|proof| proof.count() == 32));
        let indices: std::collections::BTreeSet<_> = proofs
            .iter()
            .map(NonceProof::encode)
            .map(|proof| proof[..4].to_vec())
            .collect();
        assert_eq!(indices.len(), 17, "every index differs");
        firsts.insert(proofs[0].encode()[3]);
    }
    assert!(
        firsts.len() > 10,
        "the first client had {} of 32 indices",
        firsts.len()
    );
}

#[test]
fn clients_that_left_get_no_leaf() {
    let batcher = batcher();
    let mut receivers: Vec<_> = (1..=5)
        .map(|number| batcher.join(nonce(number)).unwrap().share)
        .collect();
    drop(receivers.remove(3));
    assert_eq!(batch(&batcher).len(), 4);
}

#[test]
fn one_caller_runs_the_schedule_until_no_client_waits() {
    let batcher = batcher();
    let one = batcher.join(nonce(1)).unwrap();
    assert!(one.must_run_schedule);
    let two = batcher.join(nonce(2)).unwrap();
    assert!(!two.must_run_schedule);
    drop(batch(&batcher));
    let three = batcher.join(nonce(3)).unwrap();
    assert!(!three.must_run_schedule, "the schedule still runs");
    drop(three);
    assert!(matches!(batcher.tick(), Tick::Stop));
    assert!(batcher.join(nonce(4)).unwrap().must_run_schedule);
}

#[tokio::test(start_paused = true)]
async fn ticks_do_not_depend_on_when_clients_come() {
    let batcher = NonceBatcher::new(Duration::from_millis(100));
    let begun = Instant::now();
    for (at, tick) in [(0, 100), (1, 100), (99, 100), (100, 200), (350, 400)] {
        tokio::time::sleep_until(begun + Duration::from_millis(at)).await;
        let _waiting = batcher.join(nonce(1)).unwrap();
        assert_eq!(
            batcher.next_tick() - begun,
            Duration::from_millis(tick),
            "{at}"
        );
    }
}

#[test]
fn two_documents_are_in_flight_at_once_and_the_other_clients_wait() {
    let batcher = batcher();
    let mut batches = Vec::new();
    let mut receivers = Vec::new();
    for number in 0..6 {
        receivers.push(batcher.join(nonce(number)).unwrap());
        match batcher.tick() {
            Tick::Make(batch) => batches.push(batch),
            Tick::Wait => assert_eq!(batches.len(), AT_ONCE),
            Tick::Stop => panic!("a client waits"),
        }
    }
    assert_eq!(batches.len(), AT_ONCE);
    // A batch that was dropped is no longer in flight.
    drop(batches.pop());
    assert_eq!(batch(&batcher).len(), 4);
    assert!(receivers[1].share.try_recv().is_err());
}

#[test]
fn a_failure_reaches_every_client_and_so_does_an_answer_that_is_not_evidence() {
    let batcher = batcher();
    let ask = |answer: Result<(Parts, Bytes), Problem>| {
        let mut two = [1, 2].map(|number| batcher.join(nonce(number)).unwrap().share);
        batch(&batcher).answer(&answer);
        let share = two[1].try_recv().unwrap();
        share.and_then(Share::into_answer).map(|(_, body)| body)
    };
    assert_eq!(
        ask(Err(Problem::EnclaveTimeout)),
        Err(Problem::EnclaveTimeout)
    );
    for body in [&b""[..], b"\xa3", b"{}"] {
        assert_eq!(ask(document(body)), Err(Problem::EnclaveInvalidAnswer));
    }
    // A refusal of the enclave passes unchanged.
    let (mut head, body) = document(b"{}").unwrap();
    head.status = http::StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(ask(Ok((head, body))), Ok(Bytes::from_static(b"{}")));
}

#[test]
fn a_full_batcher_refuses_until_clients_leave() {
    let batcher = batcher();
    let waiting: Vec<_> = (0..MAX_NONCES)
        .map(|_| batcher.join(nonce(0)).unwrap())
        .collect();
    assert_eq!(batcher.join(nonce(1)).err(), Some(Problem::Busy));
    drop(waiting);
    assert!(batcher.join(nonce(1)).is_ok());
}
