//! A trust policy in plain words: what it accepts at a moment, what it leaves open, and what its owner should check.

use serde::Serialize;

use super::{Policy, Release};
use crate::time::UnixMillis;

/// A policy or release that ends within this time gets a warning.
const SOON: u64 = 7 * 86_400_000;

/// Registers that measure the enclave's code, and their names.
const IMAGE: [(u8, &str); 4] = [
    (0, "the whole image"),
    (1, "kernel and bootstrap"),
    (2, "the application"),
    (8, "the key that signed the image"),
];

/// Whether a release is accepted at the judged moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceptance {
    /// Accepted.
    Now,
    /// Accepted later.
    NotYet,
    /// No longer accepted.
    Ended,
}

/// Contents of a policy, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReview {
    /// Whether it accepts anything at that moment.
    pub usable: bool,
    /// Its name.
    pub name: String,
    /// The moment, Unix milliseconds.
    pub judged_at_ms: u64,
    /// `aws` or `development`.
    pub root: String,
    /// The best verdict that it can lead to: `verified` or `simulated`.
    pub best_verdict: String,
    /// When it ends, Unix milliseconds.
    pub not_after_ms: Option<u64>,
    /// Its releases, in its own order.
    pub releases: Vec<ReleaseReview>,
    /// Largest age of a document, in seconds.
    pub max_age_seconds: u64,
    /// Largest difference between two clocks, in seconds.
    pub clock_skew_seconds: u64,
    /// Whether revocation lists must cover a document's certificates.
    pub revocation_required: bool,
    /// Mode that it demands.
    pub security_mode: Option<String>,
    /// Version of the service's own policy that it demands.
    pub policy_version: Option<String>,
    /// Name of the model that it demands.
    pub model: Option<String>,
    /// Points that its owner should check.
    pub warnings: Vec<Finding>,
}

/// One release of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReview {
    /// Its name.
    pub name: String,
    /// Whether it is accepted.
    pub accepted: Acceptance,
    /// Start of acceptance, Unix milliseconds.
    pub not_before_ms: Option<u64>,
    /// End of acceptance, Unix milliseconds: its own end or the policy's, whichever is earlier.
    pub not_after_ms: Option<u64>,
    /// Registers that it pins.
    pub pinned: Vec<u8>,
    /// Registers of the image that it leaves open.
    pub unpinned: Vec<u8>,
}

/// A point that a policy's owner should check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Stable code.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

impl Policy {
    /// Reviews this policy as of `at`.
    pub fn review(&self, at: UnixMillis) -> PolicyReview {
        let over = self.not_after.is_some_and(|end| at > end);
        let releases: Vec<_> = self
            .releases
            .iter()
            .map(|release| self.review_release(release, at, over))
            .collect();
        let usable = releases
            .iter()
            .any(|release| release.accepted == Acceptance::Now);
        let mut warnings = Vec::new();
        self.warn_of_time(at, over, usable, &releases, &mut warnings);
        self.warn_of_releases(&mut warnings);
        self.warn_of_demands(&mut warnings);
        PolicyReview {
            usable,
            name: self.name.clone(),
            judged_at_ms: at.0,
            root: if self.anchor.is_aws() {
                "aws"
            } else {
                "development"
            }
            .to_owned(),
            best_verdict: if self.proves() {
                "verified"
            } else {
                "simulated"
            }
            .to_owned(),
            not_after_ms: self.not_after.map(|end| end.0),
            releases,
            max_age_seconds: self.max_age_seconds,
            clock_skew_seconds: self.clock_skew_seconds,
            revocation_required: self.revocation_required,
            security_mode: self.security_mode.map(|mode| mode.as_str().to_owned()),
            policy_version: self.policy_version.clone(),
            model: self.model.as_ref().map(|model| model.id.clone()),
            warnings,
        }
    }

    fn review_release(&self, release: &Release, at: UnixMillis, over: bool) -> ReleaseReview {
        let accepted = match release.not_before {
            _ if over => Acceptance::Ended,
            Some(start) if at < start => Acceptance::NotYet,
            _ if release.is_accepted(at) => Acceptance::Now,
            _ => Acceptance::Ended,
        };
        let ends = release.not_after.into_iter().chain(self.not_after);
        ReleaseReview {
            name: release.name.clone(),
            accepted,
            not_before_ms: release.not_before.map(|start| start.0),
            not_after_ms: ends.map(|end| end.0).min(),
            pinned: release.pcrs.keys().copied().collect(),
            unpinned: IMAGE
                .iter()
                .map(|(index, _)| *index)
                .filter(|index| !release.pcrs.contains_key(index))
                .collect(),
        }
    }

    fn warn_of_time(
        &self,
        at: UnixMillis,
        over: bool,
        usable: bool,
        releases: &[ReleaseReview],
        warnings: &mut Vec<Finding>,
    ) {
        if over {
            let end = self.not_after.unwrap_or(at);
            warn(
                warnings,
                "POLICY_EXPIRED",
                format!("The policy ended at {end}."),
            );
            return;
        }
        if !usable {
            let text = "No release is accepted at this moment: every document is refused.";
            warn(warnings, "NO_RELEASE_ACCEPTED", text);
            return;
        }
        // Warn about the moment when nothing is accepted any more; in a roll-out one release ends while another goes on.
        let ends: Option<Vec<_>> = releases
            .iter()
            .filter(|release| release.accepted != Acceptance::Ended)
            .map(|release| release.not_after_ms)
            .collect();
        let last = ends.and_then(|ends| ends.into_iter().max());
        if let Some(left) = last
            .map(|last| last.saturating_sub(at.0))
            .filter(|left| *left < SOON)
        {
            let text = match left / 86_400_000 {
                0 => format!(
                    "Nothing is accepted any more in {} hours.",
                    left / 3_600_000
                ),
                1 => "Nothing is accepted any more in 1 day.".to_owned(),
                days => format!("Nothing is accepted any more in {days} days."),
            };
            warn(warnings, "ENDS_SOON", text);
        }
    }

    fn warn_of_releases(&self, warnings: &mut Vec<Finding>) {
        for (at, release) in self.releases.iter().enumerate() {
            let name = &release.name;
            let pinned: Vec<_> = IMAGE
                .iter()
                .filter(|(index, _)| release.pcrs.contains_key(index))
                .collect();
            if let [(index, means)] = pinned[..] {
                let text = format!(
                    "Release {name:?} pins only PCR{index} ({means}); pin PCR0, PCR1 and PCR2, which nitro-cli prints together."
                );
                warn(warnings, "PINS_ONE_REGISTER", text);
            }
            let twin = self.releases[..at]
                .iter()
                .find(|before| before.pcrs == release.pcrs);
            if let Some(twin) = twin {
                let text = format!("Releases {:?} and {name:?} pin the same.", twin.name);
                warn(warnings, "SAME_RELEASE_TWICE", text);
            }
        }
    }

    fn warn_of_demands(&self, warnings: &mut Vec<Finding>) {
        if !self.anchor.is_aws() {
            let text = "The root is not AWS's: the best verdict is simulated, and proves nothing about hardware.";
            warn(warnings, "DEVELOPMENT_ROOT", text);
        }
        if self.max_age_seconds > 3_600 {
            let text = format!(
                "Documents are accepted up to {} minutes after they were made; the nonce shows that one is fresh, so minutes are enough.",
                self.max_age_seconds / 60
            );
            warn(warnings, "LONG_AGE", text);
        }
        if self
            .security_mode
            .is_some_and(|mode| mode.as_str() == "evaluation")
        {
            let text = "The mode is evaluation: services that say of themselves that they are trials are accepted.";
            warn(warnings, "EVALUATION_MODE", text);
        }
        for (absent, what) in [
            (self.model.is_none(), "model"),
            (self.policy_version.is_none(), "policy_version"),
            (self.security_mode.is_none(), "security_mode"),
        ] {
            if absent {
                let text = format!(
                    "It names no {what}: documents can be judged, but no service is ever trusted with a request."
                );
                warn(warnings, "BINDS_NO_SERVICE", text);
            }
        }
    }
}

fn warn(warnings: &mut Vec<Finding>, code: &'static str, text: impl Into<String>) {
    warnings.push(Finding {
        code,
        text: text.into(),
    });
}
