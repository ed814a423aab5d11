//! Whether a publisher still supports a release. The publisher renews the signature every few days. A withdrawn release is not
//! signed again, so its signature expires.

/// Validity of a signature in seconds.
pub const MAX_AGE_SECONDS: u64 = 7 * 24 * 3600;
/// Greatest accepted advance of a publisher's clock in seconds.
const SKEW_SECONDS: u64 = 300;

/// Why a signature is not valid now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum NotFresh {
    /// It was made too long ago.
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
        /// The time as of which it was checked, Unix seconds.
        now: u64,
    },
    /// It was made in the future.
    #[error("the release was signed at Unix second {signed}, which is after {now}")]
    #[coded(
        "RELEASE_FROM_FUTURE",
        remedy = "Check this machine's clock. If it is right, do not trust the signature."
    )]
    FromFuture {
        /// When it was signed, Unix seconds.
        signed: u64,
        /// The time as of which it was checked, Unix seconds.
        now: u64,
    },
}

/// Checks that a signature made at `signed` is valid at `now`, both in Unix seconds.
///
/// # Errors
/// [`NotFresh`].
pub fn check_freshness(signed: u64, now: u64) -> Result<(), NotFresh> {
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
    fn a_signature_is_valid_for_seven_days() {
        let signed = 1_800_000_000;
        for now in [signed - SKEW_SECONDS, signed, signed + MAX_AGE_SECONDS] {
            assert_eq!(check_freshness(signed, now), Ok(()), "{now}");
        }
        let late = check_freshness(signed, signed + MAX_AGE_SECONDS + 1);
        assert!(matches!(late, Err(NotFresh::NotRenewed { .. })));
        let early = check_freshness(signed, signed - SKEW_SECONDS - 1);
        assert!(matches!(early, Err(NotFresh::FromFuture { .. })));
        assert!(check_freshness(u64::MAX, 0).is_err() && check_freshness(0, u64::MAX).is_err());
    }
}
