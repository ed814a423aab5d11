//! Check 27: revocation lists, each with one error, compared with `x509-cert` and webpki.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use attestation::{
    Appraisal, Freshness, MAX_CRLS, Policy, RowState, SignatureMemory, UnixMillis, Verdict,
};
use der::{Decode, Encode};
use fixtures::allocator::{Counting, cost};
use fixtures::{Fixture, NOW, assert_in_run_order, row};
use webpki::{BorrowedCertRevocationList, CertRevocationList};
use x509_cert::crl::CertificateList;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn every_broken_list_is_refused_by_its_own_check() {
    let fixture = Fixture::new();
    for vector in forge::crl_vectors() {
        let (document, crls) = fixture.with_lists(vector);
        let without = Appraisal::of(&document).inspect(&fixture.anchor, NOW);
        assert_eq!(without.verdict, Verdict::Authentic, "{}", vector.name);
        let unjudged = row(&without.checks, 27);
        assert_eq!(unjudged.state, RowState::Skipped);
        assert!(!unjudged.required);

        let report = Appraisal::of(&document)
            .with_crls(&crls)
            .inspect(&fixture.anchor, NOW);
        let code = report.code.as_deref().unwrap_or_default();
        assert_eq!(code, vector.code, "{}: {:?}", vector.name, report.message);
        let judged = row(&report.checks, 27);
        if vector.code.is_empty() {
            assert_eq!(report.verdict, Verdict::Authentic, "{}", vector.name);
            assert_eq!(judged.required, judged.state == RowState::Passed);
            continue;
        }
        assert_eq!(report.verdict, Verdict::Refused, "{}", vector.name);
        assert_eq!(judged.state, RowState::Failed, "{}", vector.name);
        assert!(judged.required && !judged.observed.is_empty());
        assert_in_run_order(&report.checks, vector.name);
    }
}

#[test]
fn the_row_states_which_lists_counted() {
    let fixture = Fixture::new();
    let row_with = |keep: fn(usize) -> bool| {
        let (document, crls) = (fixture.document(), fixture.lists(keep));
        let report = Appraisal::of(&document)
            .with_crls(&crls)
            .inspect(&fixture.anchor, NOW);
        let row = row(&report.checks, 27);
        (row.state, row.observed.clone())
    };
    let of = "per CRL of 2027-01-15T07:00:00Z, good until 2027-01-22T08:00:00Z";
    let all = format!("Not revoked: regional, zonal, instance; {of}");
    assert_eq!(row_with(|_| true), (RowState::Passed, all));
    let published = format!("Not revoked: regional, zonal; {of}");
    assert_eq!(row_with(|at| at < 2), (RowState::Passed, published));
    let partly = format!("Not revoked: regional; {of}. No CRL about the zonal");
    assert_eq!(row_with(|at| at == 0), (RowState::Skipped, partly));
    let none = "No CRL given: revocation was not judged".to_owned();
    assert_eq!(row_with(|_| false), (RowState::Skipped, none));
    let (document, (_, crls)) = {
        let other = Fixture::new();
        let vector = forge::crl_vectors().find(|vector| vector.name == "crl-of-another-issuer");
        (fixture.document(), other.with_lists(vector.unwrap()))
    };
    let report = Appraisal::of(&document)
        .with_crls(&crls)
        .inspect(&fixture.anchor, NOW);
    let other = row(&report.checks, 27);
    assert_eq!(other.state, RowState::Skipped);
    assert_eq!(
        other.observed,
        "No CRL of an issuer in this chain: revocation was not judged"
    );
}

#[test]
fn a_revocation_states_time_and_reason() {
    let fixture = Fixture::new();
    let vector = forge::crl_vectors().find(|vector| vector.name == "zonal-revoked");
    let (document, crls) = fixture.with_lists(vector.unwrap());
    let report = Appraisal::of(&document)
        .with_crls(&crls)
        .inspect(&fixture.anchor, NOW);
    assert_eq!(
        row(&report.checks, 27).observed,
        "the zonal is revoked since 2027-01-15T07:00:00Z (keyCompromise), per CRL of 2027-01-15T07:00:00Z"
    );
}

#[test]
fn every_cut_and_every_changed_byte_of_a_list_is_refused() {
    let fixture = Fixture::new();
    let document = fixture.document();
    let crl = fixture.lists(|at| at == 0);
    for length in 1..crl.len() {
        let report = Appraisal::of(&document)
            .with_crls(&crl[..length])
            .inspect(&fixture.anchor, NOW);
        assert_eq!(report.code.as_deref(), Some("CRL_MALFORMED"), "{length}");
    }
    let lists = fixture.lists(|at| at < 2);
    let mut memory = SignatureMemory::new();
    for at in 0..lists.len() {
        let mut changed = lists.clone();
        changed[at] ^= 1;
        let report = Appraisal::of(&document)
            .with_crls(&changed)
            .with_memory(&mut memory)
            .inspect(&fixture.anchor, NOW);
        // A change of the issuer's name makes it a list of another chain.
        assert_ne!(row(&report.checks, 27).state, RowState::Passed, "byte {at}");
    }
}

/// The same list, appraised at other moments: before it was made, and after it ended.
#[test]
fn an_audit_is_judged_with_the_lists_of_its_own_time() {
    let mut fixture = Fixture::new();
    fixture.crls = fixture.lists(|at| at < 2);
    let judge = |time| {
        let document = fixture.document();
        let manifest = fixture.manifest.encode().unwrap();
        let freshness = Freshness::Audit { time };
        let (report, _) = fixture.verify_as_of(freshness, &document, &manifest);
        report.code
    };
    assert_eq!(judge(NOW), None);
    let two_hours = 2 * 3_600_000;
    // The leaf began at most half an hour ago, so the chain itself is refused before the list was made.
    assert_eq!(
        judge(UnixMillis(NOW.0 - two_hours)).as_deref(),
        Some("CERTIFICATE_NOT_YET_VALID")
    );
}

#[test]
fn a_policy_may_require_lists() {
    let mut fixture = Fixture::new();
    assert!(!fixture.policy.revocation_required());
    assert!(!fixture.policy.to_json().contains("revocation"));
    fixture.edit_policy(|json| json["revocation"] = "when-given".into());
    assert!(!fixture.policy.revocation_required());
    fixture.edit_policy(|json| json["revocation"] = "required".into());
    assert!(fixture.policy.revocation_required());
    let written = fixture.policy.to_json();
    let again = Policy::chosen_by_hand(written.as_bytes()).unwrap();
    assert_eq!(again.to_json(), written);
    for wrong in ["\"never\"", "true", "null"] {
        let json = written.replace("\"required\"", wrong);
        let refused = Policy::chosen_by_hand(json.as_bytes());
        assert!(refused.is_err(), "{wrong}");
    }
}

#[test]
fn a_signature_of_a_list_is_computed_once() {
    let fixture = Fixture::new();
    let mut memory = SignatureMemory::new();
    let (document, crls) = (fixture.document(), fixture.lists(|_| true));
    for _ in 0..2 {
        let report = Appraisal::of(&document)
            .with_crls(&crls)
            .with_memory(&mut memory)
            .inspect(&fixture.anchor, NOW);
        assert_eq!(report.verdict, Verdict::Authentic);
        // Four certificates and three lists.
        assert_eq!(memory.len(), 7);
    }
}

#[test]
fn a_list_of_10_mib_is_read_in_place() {
    let fixture = Fixture::new();
    let document = fixture.document();
    let (_, without) = cost(|| Appraisal::of(&document).inspect(&fixture.anchor, NOW));
    for (name, size) in [
        ("crls-of-10-mib", MAX_CRLS),
        ("crls-of-10-mib-and-a-byte", MAX_CRLS + 1),
    ] {
        let vector = forge::crl_vectors().find(|vector| vector.name == name);
        let (document, crls) = fixture.with_lists(vector.unwrap());
        assert_eq!(crls.len(), size, "{name}");
        let (_, with) = cost(|| {
            Appraisal::of(&document)
                .with_crls(&crls)
                .inspect(&fixture.anchor, NOW)
        });
        let more = with.peak.saturating_sub(without.peak);
        assert!(more < 16 * 1024, "{name}: {more} bytes more");
    }
}

/// `x509-cert` reads every accepted list to the same bytes, and webpki finds the same entries.
#[test]
fn accepted_lists_are_read_alike_by_two_other_readers() {
    let fixture = Fixture::new();
    let mut compared = 0;
    for vector in forge::crl_vectors() {
        let (document, crls) = fixture.with_lists(vector);
        let revoked = vector.code == "CERTIFICATE_REVOKED";
        if !(vector.code.is_empty() || revoked) || crls.len() > 1 << 20 {
            continue;
        }
        let report = Appraisal::of(&document).inspect(&fixture.anchor, NOW);
        let mut rest = &crls[..];
        let mut found = false;
        while !rest.is_empty() {
            let mut reader = der::SliceReader::new(rest).unwrap();
            let one = der::Reader::tlv_bytes(&mut reader).unwrap();
            rest = &rest[one.len()..];
            let theirs: CertificateList = CertificateList::from_der(one).unwrap();
            assert_eq!(theirs.to_der().unwrap(), one, "{}", vector.name);
            let list = BorrowedCertRevocationList::from_der(one);
            // webpki refuses an issuingDistributionPoint without an address.
            if vector.name == "crl-of-cas-alone" && list.is_err() {
                continue;
            }
            let list = list.unwrap_or_else(|error| panic!("{}: {error:?}", vector.name));
            let list = CertRevocationList::from(list);
            for certificate in &report.chain {
                let serial = base16ct::lower::decode_vec(&certificate.serial).unwrap();
                let named = theirs.tbs_cert_list.revoked_certificates.iter().flatten();
                let named = named
                    .map(|entry| entry.serial_number.as_bytes())
                    .any(|entry| entry.strip_prefix(&[0]).unwrap_or(entry) == serial);
                // webpki compares the content of the INTEGER, with the zero that keeps it positive.
                let zero: &[u8] = if serial[0] >= 0x80 { &[0] } else { &[] };
                let content = [zero, &serial].concat();
                let listed = list.find_serial(&content).unwrap().is_some();
                assert_eq!(named, listed, "{}", vector.name);
                found |= named;
            }
        }
        assert_eq!(found, revoked, "{}", vector.name);
        compared += 1;
    }
    assert!(compared > 18, "{compared} vectors");
}
