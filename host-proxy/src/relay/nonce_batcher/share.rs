//! One client's share of a document: the evidence, and the proof that the document covers the client's nonce.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::response::Parts;
use merkle::nonces::{MAX_NONCE_PROOF, NonceTree};

use crate::problem::Problem;

/// First byte of evidence: a map of two entries, document and manifest (RFC 8949 §3.1).
const TWO_ENTRIES: u8 = 0xa2;
/// First byte of evidence with a proof.
const THREE_ENTRIES: u8 = 0xa3;
/// Key of the proof in evidence.
const PROOF_KEY: u8 = 3;

/// Head and body of the enclave's answer, and the client's leaf.
pub(in crate::relay) struct Share {
    head: Parts,
    body: Bytes,
    tree: Arc<NonceTree>,
    index: u32,
}

impl Share {
    pub(super) fn new(head: &Parts, body: &Bytes, tree: Arc<NonceTree>, index: u32) -> Self {
        Self {
            head: head.clone(),
            body: body.clone(),
            tree,
            index,
        }
    }

    /// Returns head and body of the answer for this client.
    pub(in crate::relay) fn into_answer(self) -> Result<(Parts, Bytes), Problem> {
        let Self {
            mut head,
            body,
            tree,
            index,
        } = self;
        // A refusal of the enclave passes unchanged.
        if !head.status.is_success() {
            return Ok((head, body));
        }
        let proof = tree.proof(index).ok_or(Problem::EnclaveInvalidAnswer)?;
        let body = append_proof(&body, &proof.encode()).ok_or(Problem::EnclaveInvalidAnswer)?;
        head.headers.remove(http::header::CONTENT_LENGTH);
        Ok((head, body))
    }
}

/// Returns evidence with the proof as its third entry. Reads only the first byte of the evidence, which is not addressed to this
/// proxy.
fn append_proof(evidence: &[u8], proof: &[u8]) -> Option<Bytes> {
    let (&TWO_ENTRIES, rest) = evidence.split_first()? else {
        return None;
    };
    let mut shared = BytesMut::with_capacity(evidence.len() + MAX_NONCE_PROOF + 4);
    shared.extend_from_slice(&[THREE_ENTRIES]);
    shared.extend_from_slice(rest);
    shared.extend_from_slice(&[PROOF_KEY]);
    // Head of a byte string in its shortest form (RFC 8949 §4.2.1).
    match proof.len() {
        length @ 0..24 => shared.extend_from_slice(&[0x40 | length as u8]),
        length @ 24..256 => shared.extend_from_slice(&[0x58, length as u8]),
        length => {
            let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
            shared.extend_from_slice(&[0x59, high, low]);
        }
    }
    shared.extend_from_slice(proof);
    Some(shared.freeze())
}
