//! Walks the table of bounds: a vector on one side gives each code, and the corrected document on the other side passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::boundaries::{boundaries, judged, state};
use attestation::{Appraisal, ErrorCode, RowState, TrustAnchor, Verdict};
use fixtures::{Fixture, NOW};
use forge::{DevelopmentRoot, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

#[test]
fn every_code_has_a_bound_with_vectors_on_both_sides() {
    let judged = judged();
    for code in ErrorCode::ALL {
        let rows: Vec<_> = boundaries().filter(|row| row.code == *code).collect();
        assert!(!rows.is_empty(), "{code} has no bound");
        for row in &rows {
            assert!(!row.within.is_empty() && !row.beyond.is_empty(), "{code}");
            for name in row.beyond {
                let (found, checks) = judged.get(name).unwrap_or_else(|| panic!("{name}?"));
                assert_eq!(found.as_deref(), Some(code.code()), "{name}");
                assert_eq!(state(*code, checks), RowState::Failed, "{name}");
            }
            for name in row.within {
                let (_, checks) = judged.get(name).unwrap_or_else(|| panic!("{name}?"));
                assert_eq!(state(*code, checks), RowState::Passed, "{name}");
            }
        }
        // With that one error corrected, the same document passes: it had no other error.
        let mended = rows
            .iter()
            .flat_map(|row| row.within)
            .any(|name| judged[name].0.is_none());
        assert!(mended, "{code}: nothing within its bound is accepted");
    }
    let order: Vec<_> = boundaries().map(|row| row.code).collect();
    assert!(order.is_sorted(), "in the order of the codes");
}

#[test]
fn a_chain_may_be_shorter_or_longer_than_awss() {
    for length in 2..=8 {
        let mut rng = ChaCha20Rng::from_seed([length; 32]);
        let mut fixture = Fixture::new();
        let root = DevelopmentRoot::generate(&mut rng, NOW.0);
        fixture.issuer = Issuer::with_chain_of(length, root, &mut rng, NOW.0);
        let anchor = TrustAnchor::development(fixture.issuer.root_der()).unwrap();
        let report = Appraisal::of(&fixture.document()).inspect(&anchor, NOW);
        assert_eq!(report.verdict, Verdict::Authentic, "{:?}", report.message);
    }
}
