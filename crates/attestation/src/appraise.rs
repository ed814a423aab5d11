//! Stage 3: is it a released image, now? Checks 17 and 22 to 24.

use crate::checks::CheckId;
use crate::claims::Claims;
use crate::document::AuthenticAttestation;
use crate::error::{AttestationError, ErrorCode};
use crate::observed::Observed;
use crate::policy::{Policy, Release};
use crate::report::CheckLog;
use crate::time::{ClockOffset, UnixMillis};

/// Fewest bytes of a nonce that an attacker cannot predict.
pub(crate) const MIN_NONCE: usize = 16;

/// The moment at which a document is appraised, and whether it must answer the verifier's nonce.
#[derive(Clone, Copy, Debug)]
pub enum Freshness<'a> {
    /// A live connection: the document must answer our nonce, and be young.
    Live {
        /// The nonce that the verifier sent: at least 16 random bytes, used once.
        nonce: &'a [u8],
        /// The verifier's own clock.
        now: UnixMillis,
    },
    /// At a moment that the verdict names: the document must have been young at that moment, and answer the nonce if one is
    /// given.
    At {
        /// The appraised moment.
        time: UnixMillis,
        /// The nonce of that connection, if known.
        nonce: Option<&'a [u8]>,
    },
    /// An audit of an action that relied on a document, such as a receipt. The session was opened earlier, so
    /// certificates, image and keys are appraised as of `time`, and the document's age is not.
    Audit {
        /// The moment of that action, such as the receipt's time.
        time: UnixMillis,
    },
}

impl Freshness<'_> {
    /// The appraised moment.
    pub fn time(&self) -> UnixMillis {
        match self {
            Self::Live { now, .. } => *now,
            Self::At { time, .. } | Self::Audit { time } => *time,
        }
    }

    /// Whether a pass shows whose keys the document names. A document without a nonce to compare may be a replay.
    fn binds_keys(&self) -> bool {
        !matches!(self, Self::At { nonce: None, .. })
    }
}

impl AuthenticAttestation {
    /// Checks 22 to 24 against `policy`. Also checks that the chain was verified at the same moment (17), and that revocation was
    /// checked if `policy` requires it (27).
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
        // Later the same lists would be refused.
        let lists = self.revocation.next_update.map(UnixMillis::from_seconds);
        let lists = lists.filter(|_| policy.revocation_required);
        let ends = [release.not_after, policy.not_after(), lists];
        Ok(AppraisedAttestation {
            // The anchor that verified the chain decides, not the anchor that the policy names.
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

    /// Check 27, second half: missing lists are an error only if the policy requires them.
    fn check_revocation(&self, policy: &Policy) -> Result<(), AttestationError> {
        match &self.revocation.uncovered {
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

    /// Check 17: a chain that was verified at the document's own time cannot be appraised as live.
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

/// Check 22. One release must match in all its registers.
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

/// Check 24 (RFC 9334 §10). The nonce shows that the document was made for this verifier; the time shows that the clocks agree.
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
    // Checked before the age: a timestamp in the future also has a small age.
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

/// A released image, appraised at a stated moment. Its keys are not bound yet.
#[derive(Clone, Debug)]
pub struct AppraisedAttestation {
    pub(crate) authentic: AuthenticAttestation,
    pub(crate) policy: Policy,
    /// Under AWS's root, and a policy that did not come with the evidence.
    pub(crate) genuine: bool,
    /// Answered a nonce that was compared, or was appraised in an audit, where age does not count.
    pub(crate) fresh: bool,
    /// Answered the verifier's nonce at the appraised moment, which was the present.
    pub(crate) live: bool,
    pub(crate) release: String,
    pub(crate) clock_offset: ClockOffset,
    /// The earliest end among the release, the policy and, where the policy requires revocation lists, those lists.
    pub(crate) accepted_until: Option<UnixMillis>,
}

impl AppraisedAttestation {
    /// The hypervisor's claims about the enclave.
    pub fn claims(&self) -> &Claims {
        self.authentic.claims()
    }

    /// Name of the release whose measurements matched.
    pub fn release(&self) -> &str {
        &self.release
    }
}
