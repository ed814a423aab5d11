//! Compares the attested channel with TLS 1.3, Noise and the published transport: one process, the same streams and messages, in
//! turns.
//!
//! `npm run bench -- --only transport --contenders` builds and runs it. Run directly, it takes the number of repetitions, and
//! prints a [`transports::Outcome`] as JSON.

#![forbid(unsafe_code)]

mod codecs;
mod noise;
mod published;
mod tls;

use anyhow::{Context, Result};
use transports::{Contender, Repetitions, SessionContender};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| match arguments.next() {
        Some(text) => text.parse().context("repetitions, then warm-ups"),
        None => Ok(otherwise),
    };
    let repetitions = Repetitions {
        counted: number(100)?,
        warmups: number(3)?,
    };
    let mut contenders = transports::own_contenders()?;
    let aws = || rustls::crypto::aws_lc_rs::default_provider();
    let self_signed = tls::Chain::SelfSigned;
    let others: [Box<dyn Contender>; 8] = [
        Box::new(SessionContender::new(tls::Tls::new(
            tls::AWS,
            aws(),
            self_signed,
        )?)),
        Box::new(SessionContender::new(tls::Tls::new(
            tls::RING,
            rustls::crypto::ring::default_provider(),
            self_signed,
        )?)),
        Box::new(SessionContender::new(tls::Tls::new(
            tls::GRAVIOLA,
            rustls_graviola::default_provider(),
            self_signed,
        )?)),
        Box::new(SessionContender::new(tls::Tls::new(
            tls::AWS,
            aws(),
            tls::Chain::P384(1),
        )?)),
        Box::new(SessionContender::new(tls::Tls::new(
            tls::AWS,
            aws(),
            tls::Chain::P384(4),
        )?)),
        Box::new(SessionContender::new(noise::Noise::new()?)),
        Box::new(SessionContender::new(published::Published::mock())),
        Box::new(SessionContender::new(published::Published::signed()?)),
    ];
    contenders.extend(others);
    let progress = |what: &str| eprintln!("{what}");
    let mut outcome = transports::run(
        repetitions,
        &mut contenders,
        codecs::operations()?,
        progress,
    )?;
    outcome.peers = VERSIONS
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .to_vec();
    serde_json::to_writer(std::io::stdout().lock(), &outcome)?;
    Ok(())
}

/// Versions in Cargo.lock; a test compares them.
const VERSIONS: [(&str, &str); 5] = [
    (tls::AWS, "rustls 0.23.46, aws-lc-rs 1.19.0"),
    (tls::RING, "rustls 0.23.46, ring 0.17.14"),
    (tls::GRAVIOLA, "rustls 0.23.46, graviola 0.4.4"),
    (noise::NAME, "snow 0.10.0, NK, X25519, ChaChaPoly"),
    (
        published::NAME,
        "confidential-ml-transport 0.6.2, mock attestation, which verifies no signature",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_lock() {
        let lock = include_str!("../Cargo.lock");
        for (_, versions) in VERSIONS {
            for part in versions.split(", ") {
                let Some((name, version)) = part.split_once(' ') else {
                    continue;
                };
                if version.starts_with(|first: char| first.is_ascii_digit()) {
                    let entry = format!("name = \"{name}\"\nversion = \"{version}\"");
                    assert!(lock.contains(&entry), "{entry}");
                }
            }
        }
    }
}
