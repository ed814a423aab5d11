//! Settings of a client, and the time at which it renews a proof.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use attestation::ModelPin;

use crate::clock::Clock;
use crate::state::Session;
use crate::trust::Trust;
use crate::witnesses::TrustPolicy;

/// Settings that apply to every upstream.
pub(crate) struct Options {
    pub(crate) trust: Trust,
    /// Demanded in place of the model of each policy.
    pub(crate) model: Option<ModelPin>,
    pub(crate) accept_simulated: bool,
    pub(crate) clock: Clock,
    /// Number of enclaves that each request is sealed to.
    pub(crate) candidates: usize,
    pub(crate) renew_before: Option<Duration>,
    /// Where in the renewal window this client renews, from 0 (latest) to 255 (earliest).
    pub(crate) spread: u8,
}

impl Options {
    /// `policy`, with the model that the caller demands instead of the one in it.
    pub(crate) fn demand_model(&self, policy: TrustPolicy) -> TrustPolicy {
        match &self.model {
            Some(model) => policy.replace_model(model.clone()),
            None => policy,
        }
    }

    /// Returns whether the proof should be renewed now.
    pub(crate) fn is_ending(&self, session: &Session) -> bool {
        let margin = match self.renew_before {
            Some(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            None => renewal_margin(session.lifetime(), self.spread),
        };
        self.clock.now().0.saturating_add(margin) > session.valid_until().0
    }
}

/// Returns how long before its end a proof with this `lifetime` is renewed, both in milliseconds.
///
/// In at least the last minute of a proof, an enclave accepts no new request and only answers earlier ones. Before that, old and
/// fresh keys are both valid for as long as the old ones were current, at most ten minutes (`Periods` of enclave-server). The
/// renewal therefore takes place between 5 and 10 minutes before the end, or between two fifths and half of a shorter lifetime.
/// An enclave with `--deadline` above four minutes stops accepting requests earlier; its clients then learn of new keys by
/// `KEY_UNKNOWN`, and send the request again. `spread` selects the point in that window, so that the clients of one enclave do not renew in the same second.
fn renewal_margin(lifetime: u64, spread: u8) -> u64 {
    let (late, early) = (lifetime * 2 / 5, lifetime / 2);
    let (late, early) = (late.min(300_000), early.min(600_000));
    late + (early - late) * u64::from(spread) / u64::from(u8::MAX)
}

/// Chooses a value that differs between clients. It is not a secret.
pub(crate) fn choose_spread() -> u8 {
    let [spread, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every rotation period of an enclave, fresh keys are attested and old ones are still accepted.
    #[test]
    fn a_renewal_falls_into_the_overlap_of_two_generations() {
        const LINGER: u64 = 60;
        for rotation in [60, 90, 300, 600, 900, 3_600, 86_400] {
            let overlap = rotation.min(600);
            // A manifest begins a minute early.
            let lifetime = 60 + rotation + overlap + LINGER;
            for spread in [0, 1, 100, 254, 255] {
                let margin = renewal_margin(lifetime * 1_000, spread) / 1_000;
                let right = LINGER + overlap / 4..=LINGER + overlap;
                assert!(right.contains(&margin), "{rotation}: {margin}");
            }
        }
        let few = |spread| renewal_margin(4_320_000, spread);
        assert!(few(255) - few(0) >= 120_000);
    }
}
