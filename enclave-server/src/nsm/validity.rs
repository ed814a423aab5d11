//! Validity of a document, read from its certificates and its timestamp.

use std::sync::{Mutex, PoisonError};

use attestation::{AttestationDocument, CheckLog, TrustAnchor, UnixMillis};

use super::NsmError;

/// The period in which an auditor accepts a document, in Unix seconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The later of the document's timestamp, rounded up, and the latest start of its certificates.
    pub from: u64,
    /// The earliest end of its certificates; usually that of the leaf, up to three hours after its issue.
    pub until: u64,
}

impl Validity {
    /// Time to state in a signature made at `now`, together with this document; `None` where it would not verify.
    ///
    /// This is `now`, or the document's time where the module's clock is ahead by at most a minute.
    pub fn stated_time(&self, now: u64) -> Option<u64> {
        let ahead = self.from.saturating_sub(now);
        let time = now.max(self.from);
        (ahead <= MODULE_AHEAD_SECONDS && time <= self.until).then_some(time)
    }
}

/// Greatest difference between two clocks of one machine.
const MODULE_AHEAD_SECONDS: u64 = 60;

/// Reads validities. Certificates stay the same for hours, so it remembers the last chain.
#[derive(Default)]
pub struct ValidityReader {
    last: Mutex<Option<Chain>>,
}

struct Chain {
    certificates: Vec<Vec<u8>>,
    from: u64,
    until: u64,
}

impl ValidityReader {
    /// Reads the validity of `document`.
    ///
    /// # Errors
    /// [`NsmError::Answer`] where it cannot be read; no client could read it either.
    pub fn read(&self, document: &[u8]) -> Result<Validity, NsmError> {
        let parsed = AttestationDocument::parse(document, &mut CheckLog::new());
        let claims = parsed.map_err(|_| UNREADABLE)?.claims().clone();
        let made = claims.timestamp.0.div_ceil(1000);
        let mut certificates = claims.cabundle;
        certificates.push(claims.certificate);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last
            .as_ref()
            .is_none_or(|chain| chain.certificates != certificates)
        {
            *last = Some(read_chain(document, claims.timestamp, certificates)?);
        }
        let chain = last.as_ref().ok_or(UNREADABLE)?;
        Ok(Validity {
            from: chain.from.max(made),
            until: chain.until,
        })
    }
}

fn read_chain(
    document: &[u8],
    made: UnixMillis,
    certificates: Vec<Vec<u8>>,
) -> Result<Chain, NsmError> {
    // The report lists the chain for any verdict, and the verdict does not matter here.
    let views = attestation::Appraisal::of(document)
        .inspect(&TrustAnchor::aws_nitro_g1(), made)
        .chain;
    let from = views.iter().map(|view| view.not_before).max();
    let until = views.iter().map(|view| view.not_after).min();
    match (from, until) {
        (Some(from), Some(until)) if views.len() == certificates.len() => Ok(Chain {
            certificates,
            from,
            until,
        }),
        _ => Err(UNREADABLE),
    }
}

const UNREADABLE: NsmError = NsmError::Answer {
    what: "a document that cannot be read",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_states_a_time_at_which_its_document_is_valid() {
        let validity = Validity {
            from: 1000,
            until: 2000,
        };
        for (now, stated) in [
            (939, None),
            (940, Some(1000)),
            (1000, Some(1000)),
            (1500, Some(1500)),
            (2000, Some(2000)),
            (2001, None),
        ] {
            assert_eq!(validity.stated_time(now), stated, "{now}");
        }
    }
}
