//! A request to several verified enclaves, one of which answers.

use attestation::{SealingKey, UnixMillis, VerifiedAttestation};
use rand_core::CryptoRng;

use super::pending::{PendingResponse, PreparedRequest};
use super::{Answer, ExchangeError, preferred_aeads};
use crate::candidates::{self, Candidate, Name};
use crate::inner::{InnerError, InnerRequest};
use crate::ohttp::ResponseOpener;

/// A request in progress to several enclaves: the only object that can open its answer. Holds salts and keys: no
/// `Debug`, no `Clone`.
pub struct PendingCandidates(Vec<PendingCandidate>);

struct PendingCandidate {
    name: Name,
    opener: ResponseOpener,
    response: PendingResponse,
}

/// A request that was encoded for one candidate, and not sealed yet.
struct EncodedRequest {
    name: Name,
    key: SealingKey,
    inner: Vec<u8>,
    response: PendingResponse,
}

/// Name of an enclave among candidates: the first bytes of SHA-256 of its manifest.
pub fn candidate_name(attestation: &VerifiedAttestation) -> Name {
    let mut name = Name::default();
    name.copy_from_slice(&attestation.manifest_sha256()[..size_of::<Name>()]);
    name
}

/// Seals one request to each of `attestations`, like [`begin`](super::begin). Each candidate gets a separate nonce and salt, so
/// that two receipts for one request cannot be linked.
///
/// # Errors
/// Those of [`begin`](super::begin); [`SealError::Malformed`](crate::ohttp::SealError::Malformed) for none, for more than
/// [`candidates::MAX_CANDIDATES`], or for a repeated one.
pub fn begin_with_candidates(
    attestations: &[&VerifiedAttestation],
    request: &InnerRequest,
    now: UnixMillis,
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, PendingCandidates), ExchangeError> {
    let mut requests = Vec::with_capacity(attestations.len());
    for attestation in attestations {
        let key = attestation.sealing_keys().into_iter().next();
        let key = key.ok_or(ExchangeError::NoKey)?;
        let (inner, response) =
            PreparedRequest::new(attestation, rng)?.encode(request.clone(), now)?;
        requests.push(EncodedRequest {
            name: candidate_name(attestation),
            key,
            inner,
            response,
        });
    }
    let names: Vec<Name> = requests.iter().map(|request| request.name).collect();
    if (1..names.len()).any(|index| names[..index].contains(&names[index])) {
        return Err(crate::ohttp::SealError::Malformed.into());
    }
    let inners: Vec<_> = requests.iter().map(|request| &request.inner[..]).collect();
    let head = head_length(&inners)?;
    let candidates: Vec<_> = requests
        .iter()
        .map(|request| Candidate {
            name: request.name,
            key: &request.key,
            head: &request.inner[..head],
        })
        .collect();
    let rest = inners.first().map_or(&[][..], |inner| &inner[head..]);
    let (sealed, openers) = candidates::seal(&candidates, preferred_aeads(), rest, rng)?;
    let pending = requests.into_iter().zip(openers);
    let pending = pending.map(|(request, opener)| PendingCandidate {
        name: request.name,
        opener,
        response: request.response,
    });
    Ok((sealed, PendingCandidates(pending.collect())))
}

/// Offset from which all inner requests are equal: they differ in the terms, which have the same length in all of them.
fn head_length(inners: &[&[u8]]) -> Result<usize, InnerError> {
    let Some((first, others)) = inners.split_first() else {
        return Ok(0);
    };
    let mut head = 0;
    for other in others {
        if other.len() != first.len() {
            return Err(InnerError::Malformed("terms of different lengths"));
        }
        let pairs = first.iter().zip(*other);
        let last = pairs.rev().position(|(one, other)| one != other);
        head = head.max(last.map_or(0, |from_end| first.len() - from_end));
    }
    Ok(head)
}

impl PendingCandidates {
    /// Opens the answer of any candidate, and verifies its receipt like
    /// [`PendingExchange::finish`](super::PendingExchange::finish). Also returns the candidate's number.
    ///
    /// # Errors
    /// [`ExchangeError::NotCandidate`] for an answer of any other enclave.
    pub fn finish(self, answer: &[u8], now: UnixMillis) -> Result<(usize, Answer), ExchangeError> {
        let (from, sealed) = candidates::split_answer(answer)?;
        let mut pending = self.0.into_iter().enumerate();
        let (number, candidate) = pending
            .find(|(_, candidate)| candidate.name == *from)
            .ok_or(ExchangeError::NotCandidate)?;
        let PendingCandidate {
            opener, response, ..
        } = candidate;
        Ok((number, response.finish(&opener.open(sealed)?, now)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::head_length;

    #[test]
    fn the_rest_begins_behind_the_last_difference() {
        assert_eq!(head_length(&[]).unwrap(), 0);
        assert_eq!(head_length(&[b"alone"]).unwrap(), 0);
        assert_eq!(head_length(&[b"abcd", b"abcd"]).unwrap(), 0);
        assert_eq!(head_length(&[b"abcd", b"xbcd"]).unwrap(), 1);
        assert_eq!(head_length(&[b"abcd", b"xbcd", b"abXd"]).unwrap(), 3);
        assert_eq!(head_length(&[b"abcd", b"abcX"]).unwrap(), 4);
        assert!(head_length(&[b"abcd", b"abc"]).is_err());
    }
}
