//! Every target with its seeds and mutated seeds: a small fuzzing run with the ordinary toolchain.

use fuzz::TARGETS;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Mutations per target. Some inputs take six signatures.
const CHANGES: usize = 150;

#[test]
fn every_target_holds_over_its_seeds_and_over_changed_ones() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in &seeds {
            assert!(
                seed.len() <= target.max_len,
                "{}: {} bytes",
                target.name,
                seed.len()
            );
            fuzz::run(target.name, seed);
        }
        let mut rng = ChaCha20Rng::seed_from_u64(11);
        for _ in 0..CHANGES {
            fuzz::run(target.name, &mutate(&seeds, &mut rng));
        }
    }
}

#[test]
fn every_target_has_a_binary_and_a_dictionary() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(folder.join("libfuzzer/Cargo.toml")).unwrap();
    for target in TARGETS {
        let binary = format!("name = \"{}\"", target.name);
        assert!(manifest.contains(&binary), "{}", target.name);
        let source = folder.join(format!("libfuzzer/targets/{}.rs", target.name));
        let source = std::fs::read_to_string(source).unwrap();
        assert!(source.contains(&format!("fuzz::run(\"{}\"", target.name)));
        let dictionary = folder.join(format!("dictionaries/{}.dict", target.dictionary));
        assert!(dictionary.is_file(), "{}", dictionary.display());
    }
    let binaries = manifest.matches("[[bin]]").count();
    assert_eq!(binaries, TARGETS.len());
}

/// One to four mutations: flip, set, insert, remove, or copy from another seed.
fn mutate(seeds: &[Vec<u8>], rng: &mut ChaCha20Rng) -> Vec<u8> {
    let pick = |rng: &mut ChaCha20Rng, below: usize| rng.next_u64() as usize % below.max(1);
    let mut data = seeds[pick(rng, seeds.len())].clone();
    for _ in 0..1 + pick(rng, 4) {
        let at = pick(rng, data.len() + 1);
        let value = rng.next_u32() as u8;
        match pick(rng, 6) {
            0 => data
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << (value % 8)),
            1 => data
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte = value),
            2 => data.insert(at, value),
            3 => drop(data.drain(at..(at + 1 + pick(rng, 8)).min(data.len()).max(at))),
            4 => data.truncate(at),
            _ => {
                let other = &seeds[pick(rng, seeds.len())];
                let from = pick(rng, other.len() + 1);
                let length = pick(rng, 64).min(other.len() - from);
                data.splice(at..at, other[from..from + length].iter().copied());
            }
        }
    }
    data
}
