//! What a verifier demands: roots, released measurements, freshness, mode and model. Data, read once, all of it known.

mod json;
mod review;

pub use review::{Acceptance, Finding, PolicyReview, ReleaseReview};

use crate::anchor::TrustAnchor;
use crate::manifest::{SecurityMode, ServiceManifest};
use crate::report::PolicyView;
use crate::time::UnixMillis;
use std::collections::BTreeMap;

/// Largest trust policy in bytes.
pub const MAX_POLICY: usize = 64 * 1024;

/// Who chose the policy. Decides what its best verdict can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// Compiled into the verifier.
    Build,
    /// A file that the user named.
    File,
    /// The judged side itself. Good for development; such a policy never leads beyond the verdict *simulated*.
    Server,
}

impl PolicySource {
    /// As reports write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::File => "file",
            Self::Server => "server",
        }
    }
}

/// A trust policy. There is no empty one: it names a root and at least one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) name: String,
    pub(crate) source: PolicySource,
    pub(crate) anchor: TrustAnchor,
    pub(crate) not_after: Option<UnixMillis>,
    pub(crate) releases: Vec<Release>,
    pub(crate) max_age_seconds: u64,
    pub(crate) clock_skew_seconds: u64,
    pub(crate) security_mode: Option<SecurityMode>,
    pub(crate) policy_version: Option<String>,
    pub(crate) model: Option<ModelPin>,
    #[cfg(feature = "dangerous-debug-mode")]
    allow_debug: bool,
}

/// Measurements of one released image. Judged as a set: registers of two releases never mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Name of the release.
    pub name: String,
    /// The registers that it pins; at least one that measures the application (PCR0, 2 or 8).
    pub pcrs: BTreeMap<u8, [u8; 48]>,
    /// The first moment at which it is accepted; absent for no beginning.
    pub not_before: Option<UnixMillis>,
    /// The last moment at which it is accepted; absent for no end.
    pub not_after: Option<UnixMillis>,
}

/// The model that a policy demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPin {
    /// Name.
    pub id: String,
    /// SHA-256 of the artifact set.
    pub sha256: [u8; 32],
}

/// Why a trust policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PolicyError {
    code: &'static str,
    message: String,
}

impl PolicyError {
    /// `POLICY_UNREADABLE`: not the JSON of a policy. `POLICY_EMPTY`: it would accept images that it does not name.
    /// `POLICY_INVALID`: a value that makes no sense.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What to do next.
    pub fn remedy(&self) -> &'static str {
        "Correct the trust policy; docs/POLICY.md lists its fields."
    }
}

impl Policy {
    /// Reads a `clearseal-trust-policy/1`. Unknown and doubled keys are refused, and so is whatever would accept anything.
    pub fn from_json(json: &[u8], source: PolicySource) -> Result<Self, PolicyError> {
        json::read(json, source)
    }

    /// Writes the policy as [`from_json`](Self::from_json) reads it.
    pub fn to_json(&self) -> String {
        json::write(self)
    }

    /// The policy that a simulating enclave offers for itself. Its source is the server: its best verdict is *simulated*.
    pub fn for_development(
        root: TrustAnchor,
        pcrs: BTreeMap<u8, [u8; 48]>,
        manifest: &ServiceManifest,
    ) -> Result<Self, PolicyError> {
        let model = ModelPin {
            id: manifest.model.id.clone(),
            sha256: manifest.model.sha256,
        };
        Self {
            name: "development".to_owned(),
            source: PolicySource::Server,
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

    /// Who chose it.
    pub fn source(&self) -> PolicySource {
        self.source
    }

    /// The root that it trusts.
    pub fn anchor(&self) -> &TrustAnchor {
        &self.anchor
    }

    /// The last moment at which it accepts anything; absent for no end.
    pub fn not_after(&self) -> Option<UnixMillis> {
        self.not_after
    }

    /// The images that it accepts; never empty.
    pub fn releases(&self) -> &[Release] {
        &self.releases
    }

    /// How old a document may be, seconds.
    pub fn max_age_seconds(&self) -> u64 {
        self.max_age_seconds
    }

    /// How far two clocks may differ, seconds.
    pub fn clock_skew_seconds(&self) -> u64 {
        self.clock_skew_seconds
    }

    /// Mode that the service has to run in; where absent, no service can be bound.
    pub fn security_mode(&self) -> Option<SecurityMode> {
        self.security_mode
    }

    /// Version of the service's own policy; where absent, no service can be bound.
    pub fn policy_version(&self) -> Option<&str> {
        self.policy_version.as_deref()
    }

    /// Model that the service has to run; where absent, no service can be bound.
    pub fn model(&self) -> Option<&ModelPin> {
        self.model.as_ref()
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

    /// Whether a full pass under this policy deserves the word *verified*.
    pub(crate) fn proves(&self) -> bool {
        self.anchor.is_aws() && self.source != PolicySource::Server
    }

    /// The release with the most registers as measured; of equals, the first.
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
            source: self.source.as_str().to_owned(),
            release,
        }
    }

    fn checked(self) -> Result<Self, PolicyError> {
        let invalid = |what: &str| {
            Err(PolicyError {
                code: "POLICY_INVALID",
                message: what.to_owned(),
            })
        };
        let empty = |message: String| {
            Err(PolicyError {
                code: "POLICY_EMPTY",
                message,
            })
        };
        if self.releases.is_empty() {
            return empty("the policy names no release".to_owned());
        }
        for (at, release) in self.releases.iter().enumerate() {
            if self.releases[..at]
                .iter()
                .any(|before| before.name == release.name)
            {
                return invalid("two releases have the same name");
            }
            // The other registers say which kernel, role or instance it is, not what the enclave computes.
            if ![0, 2, 8]
                .iter()
                .any(|index| release.pcrs.contains_key(index))
            {
                return empty(format!(
                    "release {:?} pins none of PCR0, PCR2 and PCR8",
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

impl Release {
    /// Whether it is accepted as of `at`. Both ends count.
    pub fn is_accepted(&self, at: UnixMillis) -> bool {
        self.not_before.is_none_or(|start| start <= at)
            && self.not_after.is_none_or(|end| at <= end)
    }

    /// Registers that are not as pinned: index, measured value if there is one, pinned value.
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
