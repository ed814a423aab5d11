//! Certificates are renewed before they expire, and only those that expire soon.

use forge::{Contents, DevelopmentRoot, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;

fn issuer(rng: &mut ChaCha20Rng) -> Issuer {
    let root = DevelopmentRoot::generate(rng, NOW);
    Issuer::new(root, rng, NOW)
}

/// Number of unchanged certificates, counted from the root.
fn unchanged(before: &[Vec<u8>], after: &[Vec<u8>]) -> usize {
    before.iter().zip(after).take_while(|(a, b)| a == b).count()
}

fn certificates(issuer: &Issuer, now: u64) -> Vec<Vec<u8>> {
    issuer.forge(&Contents::example(), now).certificates()
}

#[test]
fn expiring_certificates_are_renewed_with_all_below_them() {
    for (hours, kept) in [(0, 5), (2, 5), (3, 4), (24, 3), (6 * 24, 2), (30 * 24, 1)] {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let mut issuer = issuer(&mut rng);
        let before = certificates(&issuer, NOW);
        let later = NOW + hours * HOUR;
        assert_eq!(issuer.renew(&mut rng, later), kept < 5, "{hours} h");
        let after = certificates(&issuer, later);
        assert_eq!(after.len(), 5);
        assert_eq!(unchanged(&before, &after), kept, "{hours} h");
        assert!(issuer.leaf_not_after() * 1000 >= later + HOUR / 2);
        assert_eq!(after[0], issuer.root_der());
    }
}

/// A machine whose clock was ahead at the start, and was corrected.
#[test]
fn certificates_that_have_not_begun_are_renewed() {
    for (hours, kept) in [(1, 4), (2, 3), (30, 2), (60, 1)] {
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        let mut issuer = issuer(&mut rng);
        let before = certificates(&issuer, NOW);
        let earlier = NOW - hours * HOUR;
        assert!(issuer.renew(&mut rng, earlier), "{hours} h");
        assert_eq!(
            unchanged(&before, &certificates(&issuer, earlier)),
            kept,
            "{hours} h"
        );
        assert!(!issuer.renew(&mut rng, earlier), "{hours} h");
    }
}

#[test]
fn the_same_inputs_make_the_same_document() {
    let document = || {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let mut issuer = issuer(&mut rng);
        issuer.document(&Contents::example(), NOW, &mut rng)
    };
    assert_eq!(document(), document());
}

#[test]
fn certificates_keep_to_the_sizes_of_the_format() {
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    for der in certificates(&issuer(&mut rng), NOW) {
        assert!((300..=1_024).contains(&der.len()), "{}", der.len());
    }
}

#[test]
fn a_chain_is_as_long_as_asked_for() {
    for length in [0, 2, 3, 4, 5, 6, 12] {
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        let root = DevelopmentRoot::generate(&mut rng, NOW);
        let mut issuer = Issuer::with_chain_of(length, root, &mut rng, NOW);
        let before = certificates(&issuer, NOW);
        assert_eq!(before.len(), usize::from(length.max(2)));
        // The leaf expires first, whatever is above it.
        assert!(issuer.renew(&mut rng, NOW + 3 * HOUR));
        let after = certificates(&issuer, NOW + 3 * HOUR);
        assert_eq!(unchanged(&before, &after), before.len() - 1);
        assert_eq!(after.len(), before.len());
    }
}
