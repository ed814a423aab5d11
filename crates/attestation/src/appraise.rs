//! Stage 3: is it a released image, now? Checks 17 and 22 to 24.

use crate::checks::CheckId;
use crate::claims::Claims;
use crate::document::AuthenticAttestation;
use crate::error::{AttestationError, ErrorCode};
use crate::observed::Observed;
use crate::policy::{Policy, Release};
use crate::report::CheckLog;
use crate::time::{ClockOffset, UnixMillis};

/// Fewest bytes of a nonce that nobody can have foreseen.
pub(crate) const MIN_NONCE: usize = 16;

/// At which moment a document is judged, and whether it must be an answer to us.
#[derive(Clone, Copy, Debug)]
pub enum Freshness<'a> {
    /// A live connection: the document must answer our nonce, and be young.
    Live {
        /// What we sent: at least 16 random bytes, used once.
        nonce: &'a [u8],
        /// The verifier's own clock.
        now: UnixMillis,
    },
    /// As of a moment that the verdict names: the document must have been young then, and answer the nonce if one is
    /// known.
    At {
        /// The moment.
        time: UnixMillis,
        /// The nonce of that connection, where it is known.
        nonce: Option<&'a [u8]>,
    },
    /// An audit of what was done on the strength of a document, for one of a receipt: the session had been opened before,
    /// so that only certificates, image and keys are judged as of `time`, and not the document's age.
    Audit {
        /// The moment, for one the receipt's time.
        time: UnixMillis,
    },
}

impl Freshness<'_> {
    /// The judged moment.
    pub fn time(&self) -> UnixMillis {
        match self {
            Self::Live { now, .. } => *now,
            Self::At { time, .. } | Self::Audit { time } => *time,
        }
    }

    /// Whether a pass shows whose keys the document names. A document without a nonce to compare may be any old one.
    fn binds_keys(&self) -> bool {
        !matches!(self, Self::At { nonce: None, .. })
    }
}

impl AuthenticAttestation {
    /// Checks 22 to 24 against `policy`, that the chain was judged at the same moment (17), and that revocation was judged
    /// where `policy` requires it (27).
    pub fn appraise(
        self,
        policy: &Policy,
        freshness: Freshness<'_>,
        log: &mut CheckLog<CheckId>,
    ) -> Result<AppraisedAttestation, AttestationError> {
        self.appraise_checked(policy, freshness, log)
            .map_err(|error| error.mark(log))
    }

    fn appraise_checked(
        self,
        policy: &Policy,
        freshness: Freshness<'_>,
        log: &mut CheckLog<CheckId>,
    ) -> Result<AppraisedAttestation, AttestationError> {
        self.check_judged_time(&freshness, log)?;
        self.check_revocation(policy)?;
        let debug = self.claims().debug_mode();
        check_debug_mode(debug, policy, log)?;
        let release = check_measurements(self.claims(), policy, freshness.time(), log)?;
        check_freshness(self.claims(), policy, freshness, log)?;
        let ends = [release.not_after, policy.not_after()];
        Ok(AppraisedAttestation {
            // The anchor that the chain was verified under decides, not the one that the policy names.
            genuine: policy.proves() && self.aws && !debug,
            fresh: freshness.binds_keys(),
            live: matches!(freshness, Freshness::Live { .. }),
            release: release.name.clone(),
            clock_offset: match freshness {
                Freshness::Live { now, .. } => ClockOffset::between(self.claims().timestamp, now),
                Freshness::At { .. } | Freshness::Audit { .. } => ClockOffset::default(),
            },
            accepted_until: ends.into_iter().flatten().min(),
            policy: policy.clone(),
            authentic: self,
        })
    }

    /// Check 27, its second half: lists that were not there are missed only where the policy requires them.
    fn check_revocation(&self, policy: &Policy) -> Result<(), AttestationError> {
        match &self.unjudged {
            Some(certificate) if policy.revocation_required => {
                let observed = Observed::certificate(certificate, "is not covered by any CRL");
                Err(AttestationError::new(
                    ErrorCode::RevocationUnknown,
                    observed,
                ))
            }
            _ => Ok(()),
        }
    }

    /// Check 17: whoever verified the chain at the document's own time cannot call it live.
    fn check_judged_time(
        &self,
        freshness: &Freshness<'_>,
        log: &mut CheckLog<CheckId>,
    ) -> Result<(), AttestationError> {
        let (asked, judged) = (freshness.time(), self.at);
        if asked != judged {
            let observed = Observed::JudgedTimes {
                chain: judged,
                freshness: asked,
            };
            return Err(AttestationError::new(
                ErrorCode::JudgedTimeMismatch,
                observed,
            ));
        }
        log.pass(
            CheckId::JudgedTime,
            match freshness {
                Freshness::Live { .. } => format!("Now, {judged}"),
                Freshness::At { .. } | Freshness::Audit { .. } => {
                    format!("As of {judged}, which is not a statement about now")
                }
            },
        );
        Ok(())
    }
}

/// Check 23.
fn check_debug_mode(
    debug: bool,
    policy: &Policy,
    log: &mut CheckLog<CheckId>,
) -> Result<(), AttestationError> {
    match (debug, policy.allows_debug_mode()) {
        (false, _) => log.pass(CheckId::DebugMode, "PCR0, PCR1 and PCR2 are measurements"),
        (true, true) => log.warn(
            CheckId::DebugMode,
            "Debug mode, which this development build was told to accept",
        ),
        (true, false) => {
            return Err(AttestationError::new(
                ErrorCode::DebugMode,
                "PCR0, PCR1 or PCR2 is all zero",
            ));
        }
    }
    Ok(())
}

/// Check 22. One release has to match as a whole.
fn check_measurements<'p>(
    claims: &Claims,
    policy: &'p Policy,
    at: UnixMillis,
    log: &mut CheckLog<CheckId>,
) -> Result<&'p Release, AttestationError> {
    if let Some(until) = policy.not_after().filter(|end| at > *end) {
        let observed = Observed::PolicyEnded {
            policy: policy.name().to_owned(),
            until,
            at,
        };
        return Err(AttestationError::new(ErrorCode::PolicyExpired, observed));
    }
    let matching = || {
        policy
            .releases()
            .iter()
            .filter(|release| release.differences(&claims.pcrs).next().is_none())
    };
    if let Some(release) = matching().find(|release| release.is_accepted(at)) {
        let pinned: Vec<_> = release
            .pcrs
            .keys()
            .map(|index| format!("PCR{index}"))
            .collect();
        log.expect(
            CheckId::Measurements,
            format!(
                "Release {} of policy {}: {}",
                release.name,
                policy.name(),
                pinned.join(", ")
            ),
        );
        log.pass(CheckId::Measurements, format!("Release {}", release.name));
        return Ok(release);
    }
    if let Some(release) = matching().next() {
        let name = release.name.clone();
        let (code, observed) = match release.not_before.filter(|from| at < *from) {
            Some(from) => (
                ErrorCode::ReleaseNotYetAccepted,
                Observed::ReleaseNotBegun {
                    release: name,
                    from,
                    at,
                },
            ),
            None => (
                ErrorCode::ReleaseExpired,
                Observed::ReleaseEnded {
                    release: name,
                    until: release.not_after,
                    at,
                },
            ),
        };
        return Err(AttestationError::new(code, observed));
    }
    let observed = match policy
        .closest(&claims.pcrs)
        .map(|release| (release, release.differences(&claims.pcrs).next()))
    {
        Some((release, Some((index, measured, pinned)))) => Observed::Measurement {
            index,
            measured: measured.copied(),
            release: release.name.clone(),
            pinned: *pinned,
        },
        _ => Observed::Fault("no release"),
    };
    Err(AttestationError::new(ErrorCode::PcrMismatch, observed))
}

/// Check 24 (RFC 9334 §10). A nonce shows that the document was made for us; the time, that the clock agrees.
fn check_freshness(
    claims: &Claims,
    policy: &Policy,
    freshness: Freshness<'_>,
    log: &mut CheckLog<CheckId>,
) -> Result<(), AttestationError> {
    let now = freshness.time();
    let (live, nonce) = match freshness {
        Freshness::Live { nonce, .. } => (true, Some(nonce)),
        Freshness::At { nonce, .. } => (false, nonce),
        Freshness::Audit { .. } => (false, None),
    };
    if let Some(nonce) = nonce {
        if live && nonce.len() < MIN_NONCE {
            return Err(AttestationError::new(
                ErrorCode::NonceTooShort,
                Observed::size("nonce", nonce.len()),
            ));
        }
        if claims.nonce.as_deref() != Some(nonce) {
            let observed = Observed::Differs {
                field: "nonce",
                attested: claims.nonce.clone(),
                whose: "ours",
                demanded: Some(nonce.to_vec()),
            };
            return Err(AttestationError::new(ErrorCode::NonceMismatch, observed));
        }
    }
    // A timestamp in the future has a small age too: asked first, and on its own.
    let latest = UnixMillis(now.0.saturating_add(policy.clock_skew_seconds * 1000));
    if claims.timestamp > latest {
        let observed = Observed::FromFuture {
            made: claims.timestamp,
            at: now,
        };
        return Err(AttestationError::new(
            ErrorCode::DocumentFromFuture,
            observed,
        ));
    }
    let age = now.0.saturating_sub(claims.timestamp.0);
    let audit = matches!(freshness, Freshness::Audit { .. });
    if !audit && age > policy.max_age_seconds * 1000 {
        let observed = Observed::Age {
            millis: age,
            allowed_seconds: policy.max_age_seconds,
        };
        return Err(AttestationError::new(ErrorCode::DocumentStale, observed));
    }
    let age = format!("made {}.{:03} s before", age / 1000, age % 1000);
    match (live, nonce) {
        (true, _) => {
            log.expect(
                CheckId::Freshness,
                format!("Our nonce, at most {} s old", policy.max_age_seconds),
            );
            log.pass(CheckId::Freshness, format!("Our nonce, {age}"));
        }
        (false, Some(_)) => log.pass(
            CheckId::Freshness,
            format!("The nonce that was asked for, {age} the judged moment"),
        ),
        (false, None) => log.skip(
            CheckId::Freshness,
            format!("No nonce to compare; {age} the judged moment"),
        ),
    }
    Ok(())
}

/// A released image, judged at a named moment; nobody has said yet which keys are its own.
#[derive(Clone, Debug)]
pub struct AppraisedAttestation {
    pub(crate) authentic: AuthenticAttestation,
    pub(crate) policy: Policy,
    /// Under AWS's root, and a policy that did not come with the evidence.
    pub(crate) genuine: bool,
    /// Made for a nonce that was compared, or judged in an audit, where age does not count.
    pub(crate) fresh: bool,
    /// Answered our nonce at the judged moment, which was then.
    pub(crate) live: bool,
    pub(crate) release: String,
    pub(crate) clock_offset: ClockOffset,
    /// When release or policy end, whichever is first.
    pub(crate) accepted_until: Option<UnixMillis>,
}

impl AppraisedAttestation {
    /// What the hypervisor says about the enclave.
    pub fn claims(&self) -> &Claims {
        self.authentic.claims()
    }

    /// Name of the release whose measurements matched.
    pub fn release(&self) -> &str {
        &self.release
    }
}
