//! A verifier's demands: roots, released measurements, freshness, mode and model. Parsed once; unknown keys are refused.

mod json;
mod review;

pub use review::{Acceptance, Finding, PolicyReview, ReleaseReview};

use std::collections::BTreeMap;

use crate::anchor::TrustAnchor;
use crate::manifest::{ModelPin, SecurityMode, ServiceManifest};
use crate::report::PolicyView;
use crate::time::UnixMillis;

/// Largest trust policy in bytes.
pub const MAX_POLICY: usize = 64 * 1024;

/// Origin of a policy. Limits its best verdict.
///
/// A policy's bytes cannot state their own origin: the function that reads them does. [`Policy::built_in`] takes text that is
/// part of the program; [`Policy::chosen_by_hand`] is for a separate control, flag or argument;
/// [`Policy::with_evidence`] is for everything that arrives together with the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOrigin {
    /// Compiled into the verifier.
    BuiltIn,
    /// Chosen by the user, independently of all evidence.
    ChosenByHand,
    /// Came with the evidence, or from the service under appraisal. For development; the best verdict is *simulated*.
    WithEvidence,
}

impl PolicyOrigin {
    /// Name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::ChosenByHand => "chosen",
            Self::WithEvidence => "evidence",
        }
    }
}

/// A trust policy. It always names a root and at least one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) name: String,
    pub(crate) sequence: Option<u64>,
    pub(crate) origin: PolicyOrigin,
    pub(crate) anchor: TrustAnchor,
    pub(crate) not_after: Option<UnixMillis>,
    pub(crate) releases: Vec<Release>,
    pub(crate) max_age_seconds: u64,
    pub(crate) clock_skew_seconds: u64,
    /// Whether a chain that no revocation list covers is refused.
    pub(crate) revocation_required: bool,
    pub(crate) security_mode: Option<SecurityMode>,
    pub(crate) policy_version: Option<String>,
    pub(crate) model: Option<ModelPin>,
    #[cfg(feature = "dangerous-debug-mode")]
    allow_debug: bool,
}

/// Measurements of one released image. Compared as a set: registers of two releases never mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Name of the release.
    pub name: String,
    /// The registers that it pins: at least PCR0, or PCR1 with PCR2, or PCR8. None of these is zero.
    pub pcrs: BTreeMap<u8, [u8; 48]>,
    /// The first moment at which it is accepted; `None` for no start.
    pub not_before: Option<UnixMillis>,
    /// The last moment at which it is accepted; `None` for no end.
    pub not_after: Option<UnixMillis>,
}

/// Why a trust policy cannot be used, with the details.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error("{0}")]
#[non_exhaustive]
pub enum PolicyError {
    /// Not the JSON of a policy.
    #[coded(
        "POLICY_UNREADABLE",
        remedy = "Correct the trust policy; docs/POLICY.md lists its fields."
    )]
    Unreadable(String),
    /// It names no release, so it would accept images that it does not name.
    #[coded(
        "POLICY_EMPTY",
        remedy = "Correct the trust policy; docs/POLICY.md lists its fields."
    )]
    Empty(String),
    /// Its registers do not identify an image.
    #[coded(
        "POLICY_TOO_WIDE",
        remedy = "Correct the trust policy; docs/POLICY.md lists its fields."
    )]
    TooWide(String),
    /// An invalid value.
    #[coded(
        "POLICY_INVALID",
        remedy = "Correct the trust policy; docs/POLICY.md lists its fields."
    )]
    Invalid(String),
}

impl Policy {
    /// Reads a `clearseal-trust-policy/1` that is part of this program. The lifetime excludes text that arrives at run time.
    ///
    /// # Errors
    /// Refuses unknown and repeated keys, and a policy that does not identify the images that it accepts.
    pub fn built_in(json: &'static str) -> Result<Self, PolicyError> {
        json::read(json.as_bytes(), PolicyOrigin::BuiltIn)
    }

    /// Reads a policy that the user chose independently of all evidence: a file behind a flag, a control, an argument.
    ///
    /// # Errors
    /// Those of [`built_in`](Self::built_in).
    pub fn chosen_by_hand(json: &[u8]) -> Result<Self, PolicyError> {
        json::read(json, PolicyOrigin::ChosenByHand)
    }

    /// Reads a policy that came with the evidence or from the service under appraisal. Its best verdict is *simulated*.
    ///
    /// # Errors
    /// Those of [`built_in`](Self::built_in).
    pub fn with_evidence(json: &[u8]) -> Result<Self, PolicyError> {
        json::read(json, PolicyOrigin::WithEvidence)
    }

    /// Writes the policy. The origin is not part of it.
    pub fn to_json(&self) -> String {
        json::write(self)
    }

    /// The policy that a simulated enclave offers for itself. It comes with the evidence, so its best verdict is *simulated*.
    pub fn for_development(
        root: TrustAnchor,
        pcrs: BTreeMap<u8, [u8; 48]>,
        manifest: &ServiceManifest,
    ) -> Result<Self, PolicyError> {
        let model = ModelPin::of(&manifest.model);
        Self {
            name: "development".to_owned(),
            sequence: None,
            origin: PolicyOrigin::WithEvidence,
            anchor: root,
            not_after: None,
            releases: vec![Release {
                name: "development".to_owned(),
                pcrs,
                not_before: None,
                not_after: None,
            }],
            max_age_seconds: 300,
            clock_skew_seconds: 60,
            revocation_required: false,
            security_mode: Some(manifest.security_mode),
            policy_version: Some(manifest.policy_version.clone()),
            model: Some(model),
            #[cfg(feature = "dangerous-debug-mode")]
            allow_debug: false,
        }
        .checked()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sequence number among its publisher's policies, from 1; a later policy has a greater number. Meaningful only if the policy
    /// is signed by its publisher.
    pub fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Its origin.
    pub fn origin(&self) -> PolicyOrigin {
        self.origin
    }

    /// The root that it trusts.
    pub fn anchor(&self) -> &TrustAnchor {
        &self.anchor
    }

    /// The last moment at which it accepts anything; `None` for no end.
    pub fn not_after(&self) -> Option<UnixMillis> {
        self.not_after
    }

    /// The images that it accepts; never empty.
    pub fn releases(&self) -> &[Release] {
        &self.releases
    }

    /// Largest age of a document, in seconds.
    pub fn max_age_seconds(&self) -> u64 {
        self.max_age_seconds
    }

    /// Largest difference between two clocks, in seconds.
    pub fn clock_skew_seconds(&self) -> u64 {
        self.clock_skew_seconds
    }

    /// Whether documents are refused unless revocation lists cover their certificates. Lists that are given are checked
    /// either way.
    pub fn revocation_required(&self) -> bool {
        self.revocation_required
    }

    /// Mode that the service must run in; without one, no service can be bound.
    pub fn security_mode(&self) -> Option<SecurityMode> {
        self.security_mode
    }

    /// Version of the service's own policy; without one, no service can be bound.
    pub fn policy_version(&self) -> Option<&str> {
        self.policy_version.as_deref()
    }

    /// Model that the service must run; without one, no service can be bound.
    pub fn model(&self) -> Option<&ModelPin> {
        self.model.as_ref()
    }

    /// Demands `model` in place of the demanded one. Changes nothing in a policy that demands none: it accepts no service.
    #[must_use]
    pub fn replace_model(mut self, model: ModelPin) -> Self {
        self.model = self.model.and(Some(model));
        self
    }

    /// Also accepts enclaves in debug mode; the verdict is then at most *simulated*.
    #[cfg(feature = "dangerous-debug-mode")]
    #[must_use]
    pub fn dangerous_allow_debug_mode(mut self) -> Self {
        self.allow_debug = true;
        self
    }

    #[cfg(feature = "dangerous-debug-mode")]
    pub(crate) fn allows_debug_mode(&self) -> bool {
        self.allow_debug
    }

    #[cfg(not(feature = "dangerous-debug-mode"))]
    pub(crate) fn allows_debug_mode(&self) -> bool {
        false
    }

    /// Whether a full pass under this policy yields the verdict *verified*.
    pub(crate) fn proves(&self) -> bool {
        self.anchor.is_aws() && self.origin != PolicyOrigin::WithEvidence
    }

    /// The release with the most matching registers; the first of several.
    pub(crate) fn closest(&self, pcrs: &BTreeMap<u8, [u8; 48]>) -> Option<&Release> {
        let misses = |release: &&Release| release.differences(pcrs).count();
        self.releases.iter().min_by_key(misses)
    }

    pub(crate) fn view(&self, release: Option<String>) -> PolicyView {
        PolicyView {
            name: self.name.clone(),
            root: if self.anchor.is_aws() {
                "aws"
            } else {
                "development"
            }
            .to_owned(),
            origin: self.origin.as_str().to_owned(),
            release,
        }
    }

    fn checked(self) -> Result<Self, PolicyError> {
        let invalid = |what: &str| Err(PolicyError::Invalid(what.to_owned()));
        let wide = |message: String| Err(PolicyError::TooWide(message));
        if self.releases.is_empty() {
            return Err(PolicyError::Empty("the policy names no release".to_owned()));
        }
        for (at, release) in self.releases.iter().enumerate() {
            if self.releases[..at]
                .iter()
                .any(|before| before.name == release.name)
            {
                return invalid("two releases have the same name");
            }
            if let Some(index) = IMAGE_REGISTERS
                .into_iter()
                .find(|index| release.pcrs.get(index) == Some(&[0; 48]))
            {
                return wide(format!(
                    "release {:?} pins zeros as PCR{index}, which every enclave in debug mode or without a signature has",
                    release.name
                ));
            }
            if !release.identifies_image() {
                return wide(format!(
                    "release {:?} identifies no image: pin PCR0, or PCR1 with PCR2, or PCR8",
                    release.name
                ));
            }
            let begun = release.not_before.zip(release.not_after);
            if begun.is_some_and(|(start, end)| start > end) {
                return invalid("a release ends before it begins");
            }
            if release.pcrs.keys().any(|index| *index > 31) {
                return invalid("registers go from 0 to 31");
            }
        }
        let texts = self
            .releases
            .iter()
            .map(|release| &release.name)
            .chain([&self.name]);
        let texts = texts
            .chain(&self.policy_version)
            .chain(self.model.as_ref().map(|model| &model.id));
        if texts
            .into_iter()
            .any(|text| text.is_empty() || text.len() > crate::manifest::MAX_TEXT)
        {
            return invalid("a name is empty or too long");
        }
        if !(1..=86_400).contains(&self.max_age_seconds) {
            return invalid("max_age_seconds goes from 1 to 86400");
        }
        if self.clock_skew_seconds > 600 {
            return invalid("clock_skew_seconds goes from 0 to 600");
        }
        Ok(self)
    }
}

/// Registers that measure the image: the whole image, kernel and bootstrap, the application, the signing key.
const IMAGE_REGISTERS: [u8; 4] = [0, 1, 2, 8];

impl Release {
    /// Whether the pinned registers identify one image, or the signer of several. PCR2 alone leaves the kernel open, PCR1 the
    /// application, and the others identify a role or an instance.
    fn identifies_image(&self) -> bool {
        let pins = |index: u8| self.pcrs.contains_key(&index);
        pins(0) || (pins(1) && pins(2)) || pins(8)
    }

    /// Whether it is accepted as of `at`. Both ends are inclusive.
    pub fn is_accepted(&self, at: UnixMillis) -> bool {
        self.not_before.is_none_or(|start| start <= at)
            && self.not_after.is_none_or(|end| at <= end)
    }

    /// Registers that differ from their pins: index, measured value if there is one, pinned value.
    pub(crate) fn differences<'a>(
        &'a self,
        measured: &'a BTreeMap<u8, [u8; 48]>,
    ) -> impl Iterator<Item = (u8, Option<&'a [u8; 48]>, &'a [u8; 48])> {
        self.pcrs.iter().filter_map(|(index, pinned)| {
            let value = measured.get(index);
            (value != Some(pinned)).then_some((*index, value, pinned))
        })
    }
}
