//! Whether a publisher still stands behind a release. A signature is made again every few days; a release that is withdrawn
//! is not signed again, and ends by itself.

/// How long one signature counts.
pub const MAX_AGE_SECONDS: u64 = 7 * 24 * 3600;
/// How far a publisher's clock may be ahead.
const SKEW_SECONDS: u64 = 300;

/// Why a signature does not count now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum NotFresh {
    /// Signed too long ago.
    #[error(
        "the release was last signed at Unix second {signed}, more than seven days before {now}"
    )]
    #[coded(
        "RELEASE_NOT_RENEWED",
        remedy = "Get the newest signature of the release. If there is none its publisher has withdrawn it: use a newer release."
    )]
    NotRenewed {
        /// When it was signed, Unix seconds.
        signed: u64,
        /// The moment that it was judged for.
        now: u64,
    },
    /// Signed in the future.
    #[error("the release was signed at Unix second {signed}, which is after {now}")]
    #[coded(
        "RELEASE_FROM_FUTURE",
        remedy = "Check this machine's clock. If it is right, do not trust the signature."
    )]
    FromFuture {
        /// When it was signed, Unix seconds.
        signed: u64,
        /// The moment that it was judged for.
        now: u64,
    },
}

/// Whether a signature of the second `signed` counts at the second `now`.
///
/// # Errors
/// [`NotFresh`].
pub fn judge(signed: u64, now: u64) -> Result<(), NotFresh> {
    if signed > now.saturating_add(SKEW_SECONDS) {
        return Err(NotFresh::FromFuture { signed, now });
    }
    if now.saturating_sub(signed) > MAX_AGE_SECONDS {
        return Err(NotFresh::NotRenewed { signed, now });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_counts_for_seven_days() {
        let signed = 1_800_000_000;
        for now in [signed - SKEW_SECONDS, signed, signed + MAX_AGE_SECONDS] {
            assert_eq!(judge(signed, now), Ok(()), "{now}");
        }
        let late = judge(signed, signed + MAX_AGE_SECONDS + 1);
        assert!(matches!(late, Err(NotFresh::NotRenewed { .. })));
        let early = judge(signed, signed - SKEW_SECONDS - 1);
        assert!(matches!(early, Err(NotFresh::FromFuture { .. })));
        assert!(judge(u64::MAX, 0).is_err() && judge(0, u64::MAX).is_err());
    }
}
