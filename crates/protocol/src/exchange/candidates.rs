//! A request to several verified enclaves, one of which answers.

use attestation::{UnixMillis, VerifiedAttestation};
use rand_core::CryptoRng;

use super::pending::{PendingResponse, Ready};
use super::{Answer, ExchangeError, preference};
use crate::candidates::{self, Candidate, Name};
use crate::inner::{InnerError, InnerRequest};
use crate::ohttp::ResponseOpener;

/// A request in progress to several enclaves: the only object that can open its answer. Holds salts and keys: no
/// `Debug`, no `Clone`.
pub struct PendingCandidates(Vec<(Name, ResponseOpener, PendingResponse)>);

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
    let mut asked = Vec::with_capacity(attestations.len());
    for attestation in attestations {
        let key = attestation.sealing_keys().into_iter().next();
        let key = key.ok_or(ExchangeError::NoKey)?;
        let ready = Ready::new(attestation, rng)?;
        let (inner, one) = ready.ask(request.clone(), now)?;
        asked.push((candidate_name(attestation), key, inner, one));
    }
    let names: Vec<Name> = asked.iter().map(|(name, ..)| *name).collect();
    if (1..names.len()).any(|place| names[..place].contains(&names[place])) {
        return Err(crate::ohttp::SealError::Malformed.into());
    }
    let head = head(
        &asked
            .iter()
            .map(|(_, _, inner, _)| &inner[..])
            .collect::<Vec<_>>(),
    )?;
    let candidates = asked.iter().map(|(name, key, inner, _)| Candidate {
        name: *name,
        key,
        head: &inner[..head],
    });
    let rest = asked
        .first()
        .map_or(&[][..], |(_, _, inner, _)| &inner[head..]);
    let (sealed, openers) =
        candidates::seal(&candidates.collect::<Vec<_>>(), preference(), rest, rng)?;
    let pending = asked.into_iter().zip(openers);
    let pending = pending.map(|((name, _, _, asked), opener)| (name, opener, asked));
    Ok((sealed, PendingCandidates(pending.collect())))
}

/// Offset from which all inner requests are equal: they differ in the terms, which have the same length in all of them.
fn head(inners: &[&[u8]]) -> Result<usize, InnerError> {
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
        let (number, (_, opener, asked)) = pending
            .find(|(_, (name, ..))| name == from)
            .ok_or(ExchangeError::NotCandidate)?;
        Ok((number, asked.finish(&opener.open(sealed)?, now)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::head;

    #[test]
    fn the_rest_begins_behind_the_last_difference() {
        assert_eq!(head(&[]).unwrap(), 0);
        assert_eq!(head(&[b"alone"]).unwrap(), 0);
        assert_eq!(head(&[b"abcd", b"abcd"]).unwrap(), 0);
        assert_eq!(head(&[b"abcd", b"xbcd"]).unwrap(), 1);
        assert_eq!(head(&[b"abcd", b"xbcd", b"abXd"]).unwrap(), 3);
        assert_eq!(head(&[b"abcd", b"abcX"]).unwrap(), 4);
        assert!(head(&[b"abcd", b"abc"]).is_err());
    }
}
