//! Cryptographic primitives. HPKE and AES-256-GCM are those of `hpke` and `aes-gcm`, which seal requests and models. The channel's
//! AES-256-GCM is that of `provider`, and the benchmark `transport` measures it; its ChaCha20-Poly1305 is the one here.

use aes_gcm::aead::{Aead, KeyInit};
use anyhow::{Context, Result, anyhow, ensure};
use hpke::aead::{AeadCtxR, AeadCtxS, AesGcm256};
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Kem, OpModeR, OpModeS};
use protocol::x_wing::XWing;
use provider::ed25519::{SigningKey, VerifyingKey};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{Run, number, text};

/// Sizes in the reports: 1 KiB and 1 MiB; 4 KiB for the AEAD of the channel brief.
const SIZES: [usize; 3] = [1 << 10, 1 << 12, 1 << 20];

pub(super) fn primitives(run: &mut Run) -> Result<()> {
    // Speed does not depend on the random values, and a seed makes runs reproducible.
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    hpke_of::<X25519HkdfSha256>(run, "X25519", &mut rng)?;
    hpke_of::<XWing>(run, "X-Wing", &mut rng)?;

    run.time("crypto.ed25519_keygen", &[], || {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        Ok(SigningKey::from_seed(&seed).public_key())
    })?;
    let key = SigningKey::from_seed(&[7; 32]);
    let message = [3; 512];
    let length = [("payload_bytes", number(512))];
    run.time("crypto.ed25519_sign", &length, || Ok(key.sign(&message)))?;
    let signature = key.sign(&message);
    let public = key.public_key();
    run.time("crypto.ed25519_verify", &length, || {
        let public = VerifyingKey::new(&public).context("no public key")?;
        ensure!(public.verify(&message, &signature));
        Ok(())
    })?;
    let aes = aes_gcm::Aes256Gcm::new(&[5; 32].into());
    aead(run, "AES-256-GCM", &aes)?;
    let chacha = chacha20poly1305::ChaCha20Poly1305::new(&[5; 32].into());
    aead(run, "ChaCha20-Poly1305", &chacha)
}

fn aead<A: Aead>(run: &mut Run, name: &str, cipher: &A) -> Result<()> {
    let nonce = aes_gcm::aead::Nonce::<A>::default();
    for size in SIZES {
        let parameters = [("payload_bytes", number(size)), ("cipher", text(name))];
        let plain = vec![1u8; size];
        let fail = |_| anyhow!("{name} failed");
        let sample = run.time("crypto.aead_seal", &parameters, || {
            cipher.encrypt(&nonce, plain.as_slice()).map_err(fail)
        })?;
        run.throughput("crypto.aead_throughput", &parameters, size, &sample);
        let sealed = cipher.encrypt(&nonce, plain.as_slice()).map_err(fail)?;
        run.time("crypto.aead_open", &parameters, || {
            cipher.decrypt(&nonce, sealed.as_slice()).map_err(fail)
        })?;
    }
    Ok(())
}

fn hpke_of<K: Kem>(run: &mut Run, name: &str, rng: &mut ChaCha20Rng) -> Result<()> {
    let kind = ("kind", text(name));
    let fail = |error: hpke::HpkeError| anyhow!("{name}: {error}");
    let subject = if name == "X25519" {
        "crypto.x25519_keygen"
    } else {
        "crypto.xwing_keygen"
    };
    run.time(subject, &[], || Ok(K::gen_keypair_with_rng(rng)))?;
    let (secret, public) = K::gen_keypair_with_rng(rng);
    let info = b"benchmark";
    run.time("crypto.hpke_setup", std::slice::from_ref(&kind), || {
        let (enc, sender): (_, AeadCtxS<AesGcm256, HkdfSha256, K>) =
            hpke::setup_sender_with_rng(&OpModeS::Base, &public, info, rng).map_err(fail)?;
        let receiver: AeadCtxR<AesGcm256, HkdfSha256, K> =
            hpke::setup_receiver(&OpModeR::Base, &secret, &enc, info).map_err(fail)?;
        Ok((sender, receiver))
    })?;
    for size in [1 << 10, 1 << 20] {
        let parameters = [("payload_bytes", number(size)), kind.clone()];
        let plain = vec![1u8; size];
        let (enc, mut sender): (_, AeadCtxS<AesGcm256, HkdfSha256, K>) =
            hpke::setup_sender_with_rng(&OpModeS::Base, &public, info, rng).map_err(fail)?;
        let mut receiver: AeadCtxR<AesGcm256, HkdfSha256, K> =
            hpke::setup_receiver(&OpModeR::Base, &secret, &enc, info).map_err(fail)?;
        // Messages have consecutive sequence numbers on both sides, so they are opened in order.
        let mut sealed = Vec::new();
        run.time("crypto.hpke_encrypt", &parameters, || {
            sealed.push(sender.seal(&plain, b"").map_err(fail)?);
            Ok(())
        })?;
        let mut messages = sealed.iter();
        run.time("crypto.hpke_decrypt", &parameters, || {
            let message = messages
                .next()
                .ok_or_else(|| anyhow!("fewer messages than repetitions"))?;
            receiver.open(message, b"").map_err(fail)
        })?;
    }
    Ok(())
}
