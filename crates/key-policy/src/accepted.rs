//! Measurements of the code that may use the key, and whether a request attests them.

use std::collections::BTreeMap;

use attestation::{Policy, UnixMillis};
use base16ct::lower::encode_string as hex;

use crate::fact::{Fact, Request, Truth};
use crate::instance::{Instance, REGISTERS};

/// The code that may use the key: releases of a trust policy, and instances.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'a> {
    /// Releases of enclave images.
    pub trust: &'a Policy,
    /// EC2 instances with NitroTPM. Usually none.
    pub instances: &'a [Instance],
}

impl<'a> From<&'a Policy> for Accepted<'a> {
    fn from(trust: &'a Policy) -> Self {
        Self {
            trust,
            instances: &[],
        }
    }
}

/// Prefix of the condition keys about attestation, in lower case.
pub(crate) const ATTESTATION: &str = "kms:recipientattestation:";
const NITRO_TPM: &str = "kms:recipientattestation:nitrotpm";
/// Another name of PCR0.
pub(crate) const IMAGE: &str = "kms:recipientattestation:imagesha384";
pub(crate) const TIME: &str = "aws:currenttime";

/// Platform of the attestation document that a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    /// The request carries no document.
    Nothing,
    /// The document of a Nitro enclave.
    Enclave,
    /// The document of an instance's NitroTPM.
    Instance,
}

impl Platform {
    /// Condition keys of the registers, by index.
    pub(crate) fn registers(self) -> Vec<String> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Enclave => (0..32)
                .map(|index| format!("{ATTESTATION}pcr{index}"))
                .collect(),
            Self::Instance => (0..REGISTERS)
                .map(|index| format!("{NITRO_TPM}pcr{index}"))
                .collect(),
        }
    }
}

pub(crate) fn is_nitro_tpm(key: &str) -> bool {
    key.starts_with(NITRO_TPM)
}

/// Registers that are accepted together.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) platform: Platform,
    /// Value, in lower case, by condition key.
    pub(crate) registers: BTreeMap<String, String>,
    /// Condition keys of the registers that identify the image.
    identity: Vec<String>,
    not_before: Option<UnixMillis>,
    pub(crate) not_after: Option<UnixMillis>,
}

impl Image {
    fn new(name: &str, platform: Platform, pcrs: &BTreeMap<u8, [u8; 48]>, identity: &[u8]) -> Self {
        let keys = platform.registers();
        let key = |index: u8| keys.get(usize::from(index)).cloned().unwrap_or_default();
        Self {
            name: name.to_owned(),
            platform,
            registers: pcrs
                .iter()
                .map(|(index, value)| (key(*index), hex(value)))
                .collect(),
            identity: identity.iter().map(|index| key(*index)).collect(),
            not_before: None,
            not_after: None,
        }
    }

    pub(crate) fn has_begun(&self, at: UnixMillis) -> bool {
        self.not_before.is_none_or(|start| start <= at)
    }

    fn has_ended(&self, at: UnixMillis) -> bool {
        self.not_after.is_some_and(|end| end < at)
    }

    /// Whether every register has the value of this image.
    fn matches(&self, request: &Request<'_>) -> Truth {
        Truth::all(
            self.registers
                .iter()
                .map(|(key, value)| has_value(request, key, value)),
        )
    }

    fn is_same_image(&self, request: &Request<'_>) -> Truth {
        Truth::all(self.identity.iter().map(|key| {
            let value = self.registers.get(key).map_or("", String::as_str);
            has_value(request, key, value)
        }))
    }
}

fn has_value(request: &Request<'_>, key: &str, value: &str) -> Truth {
    match request.fact(key) {
        Fact::Is(known) => Truth::from_bool(known.eq_ignore_ascii_case(value)),
        Fact::Unknown | Fact::CaseVariant { .. } => Truth::Maybe,
        Fact::Absent | Fact::NoneOf(_) => Truth::No,
    }
}

/// All images, as of a moment.
pub(crate) struct Images {
    pub(crate) current: Vec<Image>,
    /// Releases that have ended.
    pub(crate) ended: Vec<Image>,
    pcr0_to_2: Vec<String>,
}

impl Images {
    pub(crate) fn new(accepted: Accepted<'_>, at: UnixMillis) -> Self {
        let releases = accepted.trust.releases().iter().map(|release| {
            let pinned = |index| release.pcrs.contains_key(&index);
            // A trust policy pins PCR0, or PCR1 with PCR2, or PCR8.
            let identity: &[u8] = if pinned(0) {
                &[0]
            } else if pinned(1) && pinned(2) {
                &[1, 2]
            } else {
                &[8]
            };
            let mut image = Image::new(&release.name, Platform::Enclave, &release.pcrs, identity);
            image.not_before = release.not_before;
            image.not_after = release_end(accepted.trust, release.not_after);
            image
        });
        let (ended, mut current): (Vec<_>, Vec<_>) =
            releases.partition(|image| image.has_ended(at));
        current.extend(
            accepted.instances.iter().map(|instance| {
                Image::new(&instance.name, Platform::Instance, &instance.pcrs, &[4])
            }),
        );
        let pcr0_to_2 = Platform::Enclave.registers().into_iter().take(3).collect();
        Self {
            current,
            ended,
            pcr0_to_2,
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Image> {
        self.current.iter().chain(&self.ended)
    }

    fn of_platform(&self, platform: Platform) -> impl Iterator<Item = &Image> {
        self.current
            .iter()
            .filter(move |image| image.platform == platform)
    }

    /// Whether an accepted image has this value in the register.
    pub(crate) fn has_register_value(&self, key: &str, value: &str) -> bool {
        let key = if key == IMAGE {
            self.pcr0_to_2.first().map_or(key, String::as_str)
        } else {
            key
        };
        self.current.iter().any(|image| {
            let known = image.registers.get(key);
            known.is_some_and(|known| known.eq_ignore_ascii_case(value))
        })
    }

    /// Whether the registers together are those of an accepted image.
    pub(crate) fn match_one(&self, platform: Platform, request: &Request<'_>) -> Truth {
        Truth::any(
            self.of_platform(platform)
                .map(|image| image.matches(request)),
        )
    }

    /// Whether the identifying registers are those of an accepted image; other registers are ignored.
    pub(crate) fn identify_one(&self, request: &Request<'_>) -> Truth {
        let releases = self.of_platform(Platform::Enclave);
        Truth::any(releases.map(|image| image.is_same_image(request)))
    }

    /// Whether PCR0 is zero, and PCR1 and PCR2 with it ([`can_exist`](Self::can_exist)).
    pub(crate) fn debug_mode(&self, request: &Request<'_>) -> Truth {
        match self.pcr0_to_2.first().map(|key| request.fact(key)) {
            Some(Fact::Is(value)) => Truth::from_bool(is_zero(value)),
            Some(Fact::Unknown | Fact::CaseVariant { .. }) => Truth::Maybe,
            _ => Truth::No,
        }
    }

    /// Whether a document can have these values in PCR0, PCR1 and PCR2. In debug mode all three are zero, otherwise none is. PCR0 is
    /// a hash of the whole image, so for a known image it determines the other two.
    pub(crate) fn can_exist(&self, request: &Request<'_>) -> bool {
        let facts = self.pcr0_to_2.iter().map(|key| request.fact(key));
        let (mut zero, mut other) = (false, false);
        for fact in facts {
            match fact {
                Fact::Is(value) if is_zero(value) => zero = true,
                Fact::Is(_) | Fact::NoneOf(_) | Fact::Absent => other = true,
                Fact::Unknown | Fact::CaseVariant { .. } => {}
            }
        }
        if zero && other {
            return false;
        }
        let [pcr0, covered @ ..] = self.pcr0_to_2.as_slice() else {
            return true;
        };
        let Fact::Is(value) = request.fact(pcr0) else {
            return true;
        };
        covered.iter().all(|key| {
            let same = self.all().filter(|image| {
                let known = image.registers.get(pcr0);
                known.is_some_and(|known| known.eq_ignore_ascii_case(value))
            });
            let determined: Option<Vec<_>> = same.map(|image| image.registers.get(key)).collect();
            match determined {
                Some(values) if !values.is_empty() => values
                    .iter()
                    .any(|value| has_value(request, key, value) != Truth::No),
                _ => true,
            }
        })
    }
}

/// The end of a release or of its trust policy, whichever is first.
pub(crate) fn release_end(trust: &Policy, release: Option<UnixMillis>) -> Option<UnixMillis> {
    match (release, trust.not_after()) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

pub(crate) fn is_zero(value: &str) -> bool {
    value.len() == 96 && value.bytes().all(|digit| digit == b'0')
}
