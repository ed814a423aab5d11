//! Tests of private functions: the published example, whose keys are given.

use attestation::{Aead, Kem};
use fixtures::random::Script;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    base16ct::lower::decode_vec(text).unwrap()
}

#[test]
fn rfc_9458_appendix_a() {
    let secret = hex("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a");
    let sealed = hex(concat!(
        "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906992e",
        "1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2c0185204b4d63525",
    ));
    let request = hex("00034745540568747470730b6578616d706c652e636f6d012f");
    let sealed_response =
        hex("c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd");
    let response = hex("0140c8");

    let gateway = GatewayKeys::with_x25519_secret(1, &secret, &mut ChaCha20Rng::seed_from_u64(1));
    let config = gateway
        .configs()
        .into_iter()
        .find(|config| config.kem == Kem::X25519)
        .unwrap();
    assert_eq!(
        config.public_key,
        hex("31e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e798155")
    );

    let (opened, sealer) = gateway.open(&sealed).unwrap();
    assert_eq!(opened.inner, request);
    assert_eq!(opened.enc, sealed[7..39]);
    let secret = sealer.secret.clone();

    let mut nonce = Script::new(&sealed_response[..16]);
    assert_eq!(sealer.seal(&response, &mut nonce).unwrap(), sealed_response);

    let opener = ResponseOpener {
        aead: Aead::Aes128Gcm,
        enc: opened.enc,
        secret,
    };
    assert_eq!(opener.open(&sealed_response).unwrap(), response);
}
