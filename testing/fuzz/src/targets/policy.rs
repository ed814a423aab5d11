//! JSON: trust policies and audit bundles.

use attestation::{Policy, SignatureMemory, Verdict};
use protocol::bundle::{AuditBundle, BundleContent};

use super::{check_report, near_misses, receipt};
use crate::fixture::fixture;

/// A policy survives a round trip, and never accepts everything.
pub(super) fn policy(data: &[u8]) {
    let Ok(policy) = Policy::chosen_by_hand(data) else {
        return;
    };
    assert!(!policy.releases().is_empty());
    for release in policy.releases() {
        assert!(
            [0, 2, 8]
                .iter()
                .any(|index| release.pcrs.contains_key(index))
        );
    }
    let written = policy.to_json();
    assert_eq!(
        Policy::chosen_by_hand(written.as_bytes()).as_ref(),
        Ok(&policy)
    );
}

pub(super) fn policy_seeds() -> Vec<Vec<u8>> {
    let own = fixture().policy().to_json();
    let mut all: serde_json::Value = serde_json::from_str(&own).unwrap();
    all["root"] = "aws-nitro-enclaves-g1".into();
    all["max_age_seconds"] = 60.into();
    all["clock_skew_seconds"] = 0.into();
    all["security_mode"] = "production".into();
    all["releases"][0]["not_after"] = "2027-01-15T08:00:00Z".into();
    let mut second = all["releases"][0].clone();
    second["name"] = "second".into();
    if let Some(releases) = all["releases"].as_array_mut() {
        releases.push(second);
    }
    let mut seeds = near_misses(own.as_bytes());
    seeds.push(all.to_string().into_bytes());
    seeds.push(
        all.to_string()
            .replace("\"0\":", "\"0\":\"\",\"0\":")
            .into_bytes(),
    );
    seeds
}

/// A bundle survives a round trip; only the issued receipt is accepted, with the content that it commits to.
pub(super) fn bundle(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(bundle) = AuditBundle::from_json(text) else {
        return;
    };
    let json = bundle.to_json().expect("what was read can be written");
    let again = AuditBundle::from_json(&json).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.receipt, bundle.receipt);
    assert_eq!(again.document, bundle.document);
    assert_eq!(again.manifest, bundle.manifest);
    let report = bundle.verify(fixture().policy(), || None, &mut SignatureMemory::new());
    check_report(&report.attestation);
    assert!(!matches!(report.receipt.verdict, Verdict::Verified(_)));
    if report.receipt.verdict == Verdict::Refused {
        assert!(report.receipt.code.is_some());
        return;
    }
    let exchange = receipt::exchange();
    assert_eq!(bundle.receipt, exchange.receipt);
    assert_eq!(bundle.manifest, fixture().manifest_bytes);
    if let Some(content) = bundle.content {
        assert_eq!(content.request, exchange.request);
        assert_eq!(content.response, exchange.response);
    }
}

pub(super) fn bundle_seeds() -> Vec<Vec<u8>> {
    let exchange = receipt::exchange();
    let bundle = |content| {
        let bundle = AuditBundle {
            receipt: exchange.receipt.clone(),
            document: fixture().document.clone(),
            manifest: fixture().manifest_bytes.clone(),
            content,
            salt: None,
            crls: Vec::new(),
        };
        bundle.to_json().unwrap().into_bytes()
    };
    let content = BundleContent {
        request: exchange.request.clone(),
        response: exchange.response.clone(),
    };
    let mut seeds = near_misses(&bundle(None));
    seeds.push(bundle(Some(content)));
    seeds.retain(|seed| seed.len() <= 32_768);
    seeds
}
