//! One vector for each way to be refused: each breaks exactly one thing, and only the check for that may fail.

use crate::common;
use attestation::{Appraisal, ErrorCode, RowId, RowState, Stopwatch, UnixMillis, Verdict};
use fixtures::{Fixture, NOW, assert_in_run_order, row};
use std::collections::BTreeSet;

#[test]
fn every_broken_document_is_refused_by_its_own_check() {
    let fixture = Fixture::new();
    for vector in forge::vectors() {
        let document = fixture.forged(vector.apply);
        let report = Appraisal::of(&document).inspect(&fixture.anchor, NOW);
        if vector.check == 0 {
            assert_eq!(
                report.verdict,
                Verdict::Authentic,
                "{}: {:?}",
                vector.name,
                report.message
            );
            continue;
        }
        assert_eq!(report.verdict, Verdict::Refused, "{}", vector.name);
        assert_eq!(
            report.code.as_deref(),
            Some(vector.code),
            "{}: {:?}",
            vector.name,
            report.message
        );
        let failed: Vec<_> = report
            .checks
            .iter()
            .filter(|row| row.state == RowState::Failed)
            .collect();
        assert_eq!(failed.len(), 1, "{}", vector.name);
        assert_eq!(failed[0].id, vector.check, "{}", vector.name);
        assert!(!failed[0].observed.is_empty(), "{}", vector.name);
        assert_in_run_order(&report.checks, vector.name);
    }
}

#[test]
fn every_image_and_binding_error_is_refused_by_its_own_check() {
    for case in common::appraisal_cases() {
        let (report, verified) = case.judge();
        let code = case.code.map(|code| code.code());
        assert_eq!(
            report.code.as_deref(),
            code,
            "{}: {:?}",
            case.name,
            report.message
        );
        let Some(code) = case.code else {
            assert_eq!(report.verdict, Verdict::Simulated, "{}", case.name);
            assert!(verified.is_some(), "{}", case.name);
            continue;
        };
        assert_eq!(report.verdict, Verdict::Refused, "{}", case.name);
        assert!(verified.is_none(), "{}", case.name);
        let failed: Vec<_> = report
            .checks
            .iter()
            .filter(|row| row.state == RowState::Failed)
            .map(|row| row.id)
            .collect();
        assert_eq!(failed, [code.check().number()], "{}", case.name);
        assert!(report.remedy.is_some() && report.message.is_some());
        assert_in_run_order(&report.checks, case.name);
    }
}

/// A bound is tested only by a document exactly at it.
#[test]
fn vectors_at_a_size_have_exactly_that_size() {
    let fixture = Fixture::new();
    for (name, id, observed) in [
        (
            "payload-16384",
            4,
            "Payload of 16384 bytes, signature of 96",
        ),
        ("payload-16385", 4, "payload of 16385 bytes"),
        ("certificate-1024", 11, "1024 bytes"),
        ("certificate-1025", 11, "certificate of 1025 bytes"),
        ("cabundle-entry-1025", 10, "entry 3 has 1025 bytes"),
        ("public-key-1025", 12, "public_key of 1025 bytes"),
        ("user-data-1025", 12, "user_data of 1025 bytes"),
        ("nonce-1025", 12, "nonce of 1025 bytes"),
        (
            "optionals-1024",
            12,
            "public_key 1024 bytes, user_data 1024 bytes, nonce 1024 bytes",
        ),
        (
            "largest-document-with-trailing-bytes",
            1,
            "Array of 4, untagged, 16512 bytes",
        ),
        ("document-too-large", 1, "document of 16513 bytes"),
        ("signature-95", 4, "signature of 95 bytes"),
        ("signature-97", 4, "signature of 97 bytes"),
        ("32-pcrs", 9, "32 registers of 48 bytes"),
        ("pcr-47-bytes", 9, "PCR16 of another length than 48 bytes"),
        ("pcr-49-bytes", 9, "PCR16 of another length than 48 bytes"),
    ] {
        let vector = forge::vectors().find(|vector| vector.name == name).unwrap();
        let report = Appraisal::of(&fixture.forged(vector.apply)).inspect(&fixture.anchor, NOW);
        assert_eq!(row(&report.checks, id).observed, observed, "{name}");
    }
    let vector = forge::vectors().find(|vector| vector.name == "cabundle-entry-1024");
    let report =
        Appraisal::of(&fixture.forged(vector.unwrap().apply)).inspect(&fixture.anchor, NOW);
    let der = <base64ct::Base64 as base64ct::Encoding>::decode_vec(&report.chain[3].der);
    assert_eq!(der.unwrap().len(), 1_024);
}

/// The converse: a code that no vector gives belongs to an untested check.
#[test]
fn every_code_has_a_vector_that_provokes_it() {
    let mut unprovoked: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.code()).collect();
    for vector in forge::vectors() {
        let code = ErrorCode::ALL
            .iter()
            .find(|code| code.code() == vector.code);
        assert_eq!(
            code.map(|code| code.check().number()).unwrap_or(0),
            vector.check,
            "{}",
            vector.name
        );
        unprovoked.remove(vector.code);
    }
    for vector in forge::crl_vectors() {
        unprovoked.remove(vector.code);
    }
    for code in common::appraisal_cases()
        .iter()
        .filter_map(|case| case.code)
    {
        unprovoked.remove(code.code());
    }
    unprovoked.remove(common::judged_at_another_moment().0.code().code());
    assert!(
        unprovoked.is_empty(),
        "codes without a vector: {unprovoked:?}"
    );
}

#[test]
fn names_of_vectors_are_unique() {
    let mut names = BTreeSet::new();
    let cases = common::appraisal_cases();
    let names_of_all = forge::vectors()
        .map(|vector| vector.name)
        .chain(forge::crl_vectors().map(|vector| vector.name));
    for name in names_of_all.chain(cases.iter().map(|case| case.name)) {
        assert!(names.insert(name), "{name}");
    }
}

#[test]
fn valid_evidence_is_simulated_under_a_development_root_with_every_row_passed() {
    let mut fixture = Fixture::new();
    fixture.crls = fixture.lists(|_| true);
    let (report, verified) = fixture.judge();
    assert_eq!(report.verdict, Verdict::Simulated, "{:?}", report.message);
    assert!(
        report
            .checks
            .iter()
            .all(|row| row.state == RowState::Passed && !row.observed.is_empty())
    );
    assert!(
        report.statements.iter().all(|statement| !statement.holds),
        "nothing is proven by a development root"
    );
    let verified = verified.unwrap();
    assert_eq!(verified.verdict(), Verdict::Simulated);
    let shown = report.chain.iter();
    let shown: Vec<_> = shown
        .map(|it| {
            (
                it.role.as_str(),
                it.ca,
                it.path_length,
                it.key_usage.join(" "),
            )
        })
        .collect();
    let issues = "digitalSignature keyCertSign cRLSign".to_owned();
    let expected = [
        ("root", true, None, issues.clone()),
        ("regional", true, Some(2), issues.clone()),
        ("zonal", true, Some(1), issues),
        ("instance", true, Some(0), "keyCertSign".to_owned()),
        (
            "leaf",
            false,
            None,
            "digitalSignature nonRepudiation".to_owned(),
        ),
    ];
    assert_eq!(shown, expected);
    let keys = verified.sealing_keys();
    assert_eq!(keys[0].config().kem, attestation::Kem::XWing);
    assert_eq!(keys[1].config().kem, attestation::Kem::X25519);
    assert_eq!(
        verified.receipt_key().bytes(),
        &verified.manifest().receipt_key
    );
    assert_eq!(
        verified.valid_until(),
        UnixMillis::from_seconds(verified.manifest().not_after)
    );
}

/// A caller gets a simulated enclave only by an explicit call.
#[test]
fn a_simulation_gives_keys_only_on_an_explicit_call() {
    let fixture = Fixture::new();
    let (document, manifest) = (fixture.document(), fixture.manifest.encode().unwrap());
    let judge = || fixture.verify(&document, &manifest);
    let (report, concluded) = judge();
    assert_eq!(report.verdict, Verdict::Simulated);
    assert!(concluded.verified().is_none());
    assert!(judge().1.including_simulated().is_some());
    let refused = report.refuse_simulation();
    assert_eq!(refused.verdict, Verdict::Refused);
    assert_eq!(refused.code.as_deref(), Some("SIMULATION_REFUSED"));
    assert!(refused.message.is_some() && refused.remedy.is_some());
    // A refusal keeps its own reason.
    let (report, _) = fixture.verify(b"", &manifest);
    assert_eq!(report.clone().refuse_simulation(), report);
}

#[test]
fn without_a_manifest_the_image_is_judged_and_there_are_no_keys() {
    let fixture = Fixture::new();
    let document = fixture.document();
    let (report, verified) = Appraisal::of(&document).verify(&fixture.policy, fixture.live());
    assert_eq!(report.verdict, Verdict::Simulated);
    assert!(verified.including_simulated().is_none());
    assert_eq!(row(&report.checks, 25).state, RowState::Skipped);
}

#[test]
fn without_a_policy_a_manifest_is_neither_judged_nor_shown() {
    let fixture = Fixture::new();
    let (document, manifest) = (fixture.document(), fixture.manifest.encode().unwrap());
    let report = Appraisal::of(&document)
        .with_manifest(&manifest)
        .inspect(&fixture.anchor, NOW);
    assert_eq!(report.verdict, Verdict::Authentic, "{:?}", report.message);
    let binding = row(&report.checks, 25);
    assert_eq!(binding.state, RowState::Skipped);
    assert_eq!(binding.observed, "No policy: no keys were judged");
    assert!(report.manifest.is_none());
}

#[test]
fn a_policy_without_a_version_is_not_shown_as_one_of_that_name() {
    let mut fixture = Fixture::new();
    fixture.edit_policy(|json| drop(json.as_object_mut().unwrap().remove("policy_version")));
    let (report, _) = fixture.judge();
    let observed = &row(&report.checks, 25).observed;
    assert!(observed.ends_with(", policy names none"), "{observed}");
}

#[test]
fn a_stopwatch_measures_each_check() {
    let fixture = Fixture::new();
    let document = fixture.document();
    let ticks = std::cell::Cell::new(0.0);
    let stopwatch: Stopwatch = Box::new(move || {
        ticks.set(ticks.get() + 1.0);
        ticks.get()
    });
    let report = Appraisal::of(&document)
        .with_stopwatch(stopwatch)
        .inspect(&fixture.anchor, NOW);
    for row in report.checks.iter().filter(|row| row.id <= 21) {
        assert_eq!(row.micros, Some(1.0), "check {}", row.id);
    }
}

#[test]
fn each_byte_of_a_document_matters() {
    let mut fixture = Fixture::new();
    fixture.contents.pcrs.retain(|index, _| *index < 3);
    let document = fixture.document();
    for at in 0..document.len() {
        let mut flipped = document.clone();
        flipped[at] ^= 1;
        let report = Appraisal::of(&flipped).inspect(&fixture.anchor, NOW);
        assert_eq!(report.verdict, Verdict::Refused, "byte {at}");
    }
}

#[test]
fn each_truncation_is_refused() {
    let fixture = Fixture::new();
    let document = fixture.document();
    for length in 0..document.len() {
        let report = Appraisal::of(&document[..length]).inspect(&fixture.anchor, NOW);
        assert_eq!(
            report.code.as_deref(),
            Some("ENVELOPE_MALFORMED"),
            "{length} bytes"
        );
    }
}

#[test]
fn a_document_of_another_enclave_under_the_same_root_has_other_keys() {
    let fixture = Fixture::new();
    let mut other = Fixture::new();
    other.manifest.receipt_key = [7; 32];
    // The other enclave's own manifest, with this enclave's document.
    let (document, manifest) = (fixture.document(), other.manifest.encode().unwrap());
    let (report, verified) = fixture.verify(&document, &manifest);
    assert_eq!(report.code.as_deref(), Some("MANIFEST_MISMATCH"));
    assert!(verified.including_simulated().is_none());
}

#[test]
fn instance_and_region_that_disagree_are_only_a_warning() {
    let fixture = Fixture::new();
    for change in [
        (|f| f.module_id.push('0')) as fn(&mut forge::Forgery),
        |f| {
            let subject = forge::der::name(&[(
                forge::der::COMMON_NAME,
                "0.zonal.elsewhere-1.aws.nitro-enclaves",
            )]);
            f.links[2].spec.subject.clone_from(&subject);
            f.links[3].spec.issuer = subject;
        },
    ] {
        let report = Appraisal::of(&fixture.forged(change)).inspect(&fixture.anchor, NOW);
        assert_eq!(report.verdict, Verdict::Authentic, "{:?}", report.message);
        assert_eq!(row(&report.checks, 26).state, RowState::Warning);
    }
}

#[cfg(feature = "dangerous-debug-mode")]
#[test]
fn debug_mode_that_a_development_build_accepts_is_a_warning_and_stays_simulated() {
    let mut fixture = Fixture::new();
    for index in 0..3 {
        fixture.contents.pcrs.insert(index, [0; 48]);
    }
    fixture.contents.pcrs.insert(8, [8; 48]);
    let pins = std::collections::BTreeMap::from([(8, [8; 48])]);
    let policy =
        attestation::Policy::for_development(fixture.anchor.clone(), pins, &fixture.manifest);
    fixture.policy = policy.unwrap().dangerous_allow_debug_mode();
    let (report, verified) = fixture.judge();
    assert_eq!(report.verdict, Verdict::Simulated, "{:?}", report.message);
    assert_eq!(row(&report.checks, 23).state, RowState::Warning);
    assert_eq!(verified.unwrap().verdict(), Verdict::Simulated);
}
