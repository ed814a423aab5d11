//! Points in time as a user names them.

use attestation::UnixMillis;
use std::str::FromStr;

/// The moment for which evidence is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// When the command runs.
    Now,
    /// When the evidence says that it was made.
    Evidence,
    /// A given time.
    At(UnixMillis),
}

impl Moment {
    /// This moment, for evidence that was made at `evidence` (unknown where it could not be read).
    pub(crate) fn resolve(self, evidence: Option<UnixMillis>) -> UnixMillis {
        match self {
            Self::Now => now(),
            // Evidence without a readable time is refused before anything is judged by time.
            Self::Evidence => evidence.unwrap_or(UnixMillis(0)),
            Self::At(time) => time,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "now" => Ok(Self::Now),
            "document" => Ok(Self::Evidence),
            // Trust policies are read alike.
            _ => UnixMillis::from_rfc3339(text).map(Self::At).ok_or_else(|| {
                "expected `now`, `document`, or a date and time of RFC 3339 from 1970 on, such as 2026-11-20T14:03:00Z".to_owned()
            }),
        }
    }
}

/// The time of this machine's clock.
pub(crate) fn now() -> UnixMillis {
    UnixMillis(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_user_would_write() {
        assert_eq!("now".parse(), Ok(Moment::Now));
        assert_eq!("document".parse(), Ok(Moment::Evidence));
        assert_eq!(
            "1970-01-01T00:00:01.5Z".parse(),
            Ok(Moment::At(UnixMillis(1_500)))
        );
        assert_eq!(
            "1970-01-01T01:00:01+01:00".parse(),
            Ok(Moment::At(UnixMillis(1_000)))
        );
        assert_eq!(
            "1970-01-01 01:00:01.0009z".parse(),
            Ok(Moment::At(UnixMillis(3_601_000)))
        );
        assert!("yesterday".parse::<Moment>().is_err());
        assert!("2026-11-20".parse::<Moment>().is_err());
        assert!("1960-01-01T00:00:00Z".parse::<Moment>().is_err());
    }
}
