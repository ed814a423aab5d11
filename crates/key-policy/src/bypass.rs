//! Explains why a request that must not succeed may: each known way around attestation has a code.

use serde::Serialize;

use crate::accepted::{ATTESTATION, Images, is_nitro_tpm};
use crate::condition::{Condition, Kind, Quantifier};
use crate::fact::{Fact, Request, Truth, has_wildcard};
use crate::policy::{Effect, KeyPolicy, Principal, Statement};
use crate::search::DECRYPT;

macro_rules! bypasses {
    ($( $bypass:ident $code:literal $text:literal; )*) => {
        /// A known way around attestation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[non_exhaustive]
        pub enum BypassCode { $( #[doc = $text] #[serde(rename = $code)] $bypass, )* }

        impl BypassCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$( Self::$bypass, )*];

            /// Stable code.
            pub const fn code(self) -> &'static str {
                match self { $( Self::$bypass => $code, )* }
            }

            /// The fault of the statement.
            pub const fn text(self) -> &'static str {
                match self { $( Self::$bypass => $text, )* }
            }
        }
    };
}

bypasses! {
    NoDeny "NO_DENY" "no Deny names this action, so a grant or an IAM policy can allow it";
    DenySparesPrincipals "DENY_SPARES_PRINCIPALS" "the Deny does not apply to everyone";
    DenySparesActions "DENY_SPARES_ACTIONS" "the Deny about attestation leaves this action out";
    DenyForAnyValue "DENY_FOR_ANY_VALUE" "ForAnyValue is false where there is no attestation, so the Deny does not apply";
    DenyPositive "DENY_POSITIVE" "the Deny names measurements that it forbids, and applies to no other";
    DenyAndsRegisters "DENY_ANDS_REGISTERS" "the Deny applies only where all of several registers differ";
    DenyNarrowed "DENY_NARROWED" "the Deny has another condition, and does not apply without it";
    DenyOnlyUnattested "DENY_ONLY_UNATTESTED" "the Deny asks whether there is attestation, not which image is attested";
    DenySparesMeasurement "DENY_SPARES_MEASUREMENT" "the Deny spares a measurement that is in no accepted release";
    DenySparesRegisters "DENY_SPARES_REGISTERS" "the Deny compares some registers of an accepted image, and not the one in which this image differs";
    DenyWildcard "DENY_WILDCARD" "the Deny spares every measurement that fits a pattern";
    DenyOtherResource "DENY_OTHER_RESOURCE" "the Deny names another key, or one of which the ARN was not given";
    DelegatesToIam "DELEGATES_TO_IAM" "an Allow for the account lets every IAM policy of it decide";
    Anyone "ANYONE" "an Allow for everyone";
    AllBut "ALL_BUT_PRINCIPALS" "an Allow with NotPrincipal is for everyone else";
    Service "SERVICE_PRINCIPAL" "an Allow for an AWS service, which acts for others";
    ViaService "VIA_SERVICE" "an Allow through an AWS service, which attests nothing";
    ActionWildcard "ACTION_WILDCARD" "an Allow by a pattern that includes this action";
    AllButActions "ALL_BUT_ACTIONS" "an Allow with NotAction includes this action";
    IfExists "IF_EXISTS" "IfExists is true where there is no attestation, so the Allow applies";
    ForAllValues "FOR_ALL_VALUES" "ForAllValues is true where there is no attestation, so the Allow applies";
    NegatedMeasurement "NEGATED_MEASUREMENT" "the Allow excludes measurements, and applies to every other and to none";
    AnyEnclave "ANY_ENCLAVE" "the Allow asks whether there is attestation, not which image is attested";
    NitroTpm "NITRO_TPM" "the Allow is for an instance with NitroTPM that is not accepted";
    MeasurementWildcard "MEASUREMENT_WILDCARD" "the Allow is for every measurement that fits a pattern";
    OtherMeasurement "OTHER_MEASUREMENT" "the Allow names a measurement that is in no accepted release";
    PartialMeasurement "PARTIAL_MEASUREMENT" "the Allow compares some registers of an accepted image, and not the one in which this image differs";
    MixedReleases "MIXED_RELEASES" "one Allow lists registers of several releases, so that they can be mixed";
    NoMeasurement "NO_MEASUREMENT" "an Allow without a condition on attestation";
}

/// A way around attestation, and the statement at fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bypass {
    /// Kind of fault.
    pub code: BypassCode,
    /// `Sid` of the statement, or `number N`; empty where a statement is missing.
    pub statement: String,
}

/// Lists the faults that let `request` succeed.
pub(crate) fn find_bypasses(
    policy: &KeyPolicy,
    images: &Images,
    request: &Request<'_>,
) -> Vec<Bypass> {
    let mut found = Vec::new();
    let mut add = |code, statement: &str| {
        let bypass = Bypass {
            code,
            statement: statement.to_owned(),
        };
        if !found.contains(&bypass) {
            found.push(bypass);
        }
    };
    let denies = || {
        policy
            .statements
            .iter()
            .filter(|statement| statement.effect == Effect::Deny)
    };
    let names_action =
        |statement: &&Statement| statement.names_action(request.action) == Truth::Yes;
    if !denies().any(|statement| names_action(&statement)) {
        add(BypassCode::NoDeny, "");
        for statement in
            denies().filter(|statement| statement.conditions.iter().any(is_attestation))
        {
            add(BypassCode::DenySparesActions, &statement.name);
        }
    }
    for statement in denies().filter(names_action) {
        explain_missing_deny(statement, images, request, &mut |code| {
            add(code, &statement.name);
        });
    }
    let allows = policy
        .statements
        .iter()
        .filter(|statement| statement.effect == Effect::Allow);
    for statement in allows.filter(|statement| statement.applies(request) > Truth::No) {
        explain_allow(statement, images, request, &mut |code| {
            add(code, &statement.name);
        });
    }
    found.sort_unstable();
    found
}

fn explain_missing_deny(
    statement: &Statement,
    images: &Images,
    request: &Request<'_>,
    add: &mut dyn FnMut(BypassCode),
) {
    if statement.matches_principal(request.principal) != Truth::Yes {
        add(BypassCode::DenySparesPrincipals);
    }
    if statement.matches_resource(request.key) != Truth::Yes {
        add(BypassCode::DenyOtherResource);
    }
    let (holding, failing): (Vec<_>, Vec<_>) = statement
        .conditions
        .iter()
        .partition(|condition| condition.holds(request) == Truth::Yes);
    // A condition on a register that the document does not have decides alike for every image of its platform.
    let present =
        |one: &&&Condition| is_attestation(one) && *request.fact(&one.key) != Fact::Absent;
    let attested = |conditions: &[&Condition]| conditions.iter().filter(present).count();
    // A positive condition together with a negated one is an exception for the registers of one release.
    let positive = |one: &&&Condition| {
        is_attestation(one) && !one.operator.negated && one.operator.kind != Kind::Null
    };
    if attested(&failing) > 0
        && attested(&holding) + attested(&failing) > 1
        && failing.iter().filter(positive).count() == 0
    {
        add(BypassCode::DenyAndsRegisters);
    }
    for condition in failing {
        add(match condition {
            other if !is_attestation(other) => BypassCode::DenyNarrowed,
            Condition { operator, .. } if operator.kind == Kind::Null => {
                BypassCode::DenyOnlyUnattested
            }
            Condition {
                quantifier: Quantifier::ForAnyValue,
                ..
            } => BypassCode::DenyForAnyValue,
            Condition { operator, .. } if !operator.negated => BypassCode::DenyPositive,
            one if one.operator.kind == Kind::Like
                && one.values.iter().any(|value| has_wildcard(value)) =>
            {
                BypassCode::DenyWildcard
            }
            one if is_accepted(one, images, request) => BypassCode::DenySparesRegisters,
            _ => BypassCode::DenySparesMeasurement,
        });
    }
}

fn explain_allow(
    statement: &Statement,
    images: &Images,
    request: &Request<'_>,
    add: &mut dyn FnMut(BypassCode),
) {
    if statement.principals.negated {
        add(BypassCode::AllBut);
    } else {
        for principal in &statement.principals.listed {
            match principal {
                Principal::Everyone => add(BypassCode::Anyone),
                Principal::Service(_) => add(BypassCode::Service),
                account if account.is_account() => add(BypassCode::DelegatesToIam),
                Principal::Aws(_) | Principal::Other(_) => {}
            }
        }
    }
    if statement.actions.negated {
        add(BypassCode::AllButActions);
    } else if !statement
        .actions
        .listed
        .iter()
        .any(|action| action.eq_ignore_ascii_case(request.action))
    {
        add(BypassCode::ActionWildcard);
    }
    let conditions = &statement.conditions;
    if conditions.iter().any(|one| one.key == "kms:viaservice") {
        add(BypassCode::ViaService);
    }
    if request.action != DECRYPT {
        return;
    }
    if conditions.iter().any(|one| is_nitro_tpm(&one.key)) {
        add(BypassCode::NitroTpm);
    }
    let attested: Vec<_> = conditions
        .iter()
        .filter(|one| is_attestation(one))
        .collect();
    if attested.is_empty() {
        add(BypassCode::NoMeasurement);
    }
    let pinning = attested
        .iter()
        .filter(|one| one.operator.kind != Kind::Null)
        .count();
    if pinning == 0 && !attested.is_empty() {
        add(BypassCode::AnyEnclave);
    }
    for condition in attested {
        let absent = *request.fact(&condition.key) == Fact::Absent;
        match condition {
            Condition { operator, .. } if operator.kind == Kind::Null => {}
            Condition {
                if_exists: true, ..
            } if absent => add(BypassCode::IfExists),
            Condition {
                quantifier: Quantifier::ForAllValues,
                ..
            } if absent => add(BypassCode::ForAllValues),
            Condition { operator, .. } if operator.negated => add(BypassCode::NegatedMeasurement),
            one if one.operator.kind == Kind::Like
                && one.values.iter().any(|value| has_wildcard(value)) =>
            {
                add(BypassCode::MeasurementWildcard);
            }
            one if !is_accepted(one, images, request) => add(BypassCode::OtherMeasurement),
            one if one.values.len() > 1 && pinning > 1 => add(BypassCode::MixedReleases),
            _ => add(BypassCode::PartialMeasurement),
        }
    }
}

/// Whether the register that the condition compares has the value of an accepted image.
fn is_accepted(condition: &Condition, images: &Images, request: &Request<'_>) -> bool {
    match request.fact(&condition.key) {
        Fact::Is(value) => images.has_register_value(&condition.key, value),
        _ => false,
    }
}

fn is_attestation(condition: &Condition) -> bool {
    condition.key.starts_with(ATTESTATION)
}
