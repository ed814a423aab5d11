//! Vectors that depend on more than the document: registers, debug mode, nonce and age (checks 22 to 24).

use base16ct::lower::encode_string as hex;
use forge::Forgery;

use crate::fixture::{Fixture, NONCE, NOW};
use crate::protocol::{Policy, Verdict};

/// A document, a policy and a time.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// 0 if it must be accepted.
    pub(crate) check: u8,
    pub(crate) code: &'static str,
    pub(crate) note: &'static str,
    /// Milliseconds between the document and its appraisal.
    pub(crate) later: u64,
    pub(crate) document: fn(&mut Forgery),
    pub(crate) policy: fn(&mut Policy),
}

impl Case {
    pub(crate) fn verdict(&self) -> Verdict {
        if self.check == 0 {
            Verdict::Accept
        } else {
            Verdict::Refuse
        }
    }

    pub(crate) fn time(&self) -> u64 {
        NOW + self.later
    }

    /// The kit's own registers 0, 1 and 2, with the case's changes.
    pub(crate) fn demand(&self, fixture: &Fixture) -> Policy {
        let pcrs = fixture
            .contents()
            .pcrs
            .iter()
            .filter(|(index, _)| **index < 3);
        let mut policy = Policy {
            pcrs: pcrs.map(|(index, value)| (*index, hex(value))).collect(),
            ..Policy::default()
        };
        (self.policy)(&mut policy);
        policy
    }
}

const fn case(name: &'static str, check: u8, code: &'static str, note: &'static str) -> Case {
    Case {
        name,
        check,
        code,
        note,
        later: 0,
        document: |_| {},
        policy: |_| {},
    }
}

fn nonce(policy: &mut Policy) {
    policy.nonce = Some(hex(&NONCE));
}

pub(crate) const CASES: &[Case] = &[
    case("policy-registers", 0, "", "the required registers"),
    Case {
        policy: nonce,
        ..case("policy-nonce", 0, "", "the nonce that was sent")
    },
    Case {
        policy: |policy| policy.max_age_seconds = Some(300),
        later: 299_000,
        ..case(
            "policy-age-299",
            0,
            "",
            "younger than the five minutes that are allowed",
        )
    },
    Case {
        document: |f| flip(f, 0),
        ..case(
            "policy-pcr0-other",
            22,
            "PCR_MISMATCH",
            "one bit of PCR0 differs",
        )
    },
    Case {
        document: |f| flip(f, 1),
        ..case(
            "policy-pcr1-other",
            22,
            "PCR_MISMATCH",
            "one bit of PCR1 differs",
        )
    },
    Case {
        document: |f| flip(f, 2),
        ..case(
            "policy-pcr2-other",
            22,
            "PCR_MISMATCH",
            "one bit of PCR2 differs",
        )
    },
    Case {
        document: |f| f.contents.pcrs.retain(|index, _| *index != 1),
        ..case(
            "policy-pcr1-absent",
            22,
            "PCR_MISMATCH",
            "a required register is missing",
        )
    },
    Case {
        document: |f| {
            for index in 0..3 {
                f.contents.pcrs.insert(index, [0; 48]);
            }
        },
        policy: |policy| {
            for index in 0..3 {
                policy.pcrs.insert(index, "00".repeat(48));
            }
        },
        ..case(
            "policy-debug-mode",
            23,
            // Refused before the document is parsed: a policy that requires zeros accepts every image.
            "POLICY_TOO_WIDE",
            "all-zero registers, and a policy that requires them: accepts any image",
        )
    },
    Case {
        document: |f| f.contents.nonce = Some(vec![0x5b; 32]),
        policy: nonce,
        ..case(
            "policy-nonce-other",
            24,
            "NONCE_MISMATCH",
            "an answer to another client",
        )
    },
    Case {
        document: |f| f.contents.nonce = Some([&NONCE[..], &[0]].concat()),
        policy: nonce,
        ..case(
            "policy-nonce-longer",
            24,
            "NONCE_MISMATCH",
            "our nonce and a byte more",
        )
    },
    Case {
        document: |f| f.contents.nonce = None,
        policy: nonce,
        ..case(
            "policy-nonce-null",
            24,
            "NONCE_MISMATCH",
            "no nonce where one was sent",
        )
    },
    Case {
        policy: |policy| policy.max_age_seconds = Some(300),
        later: 301_000,
        ..case(
            "policy-age-301",
            24,
            "DOCUMENT_STALE",
            "older than the five minutes that are allowed",
        )
    },
];

fn flip(forgery: &mut Forgery, index: u8) {
    if let Some(value) = forgery.contents.pcrs.get_mut(&index) {
        value[47] ^= 1;
    }
}
