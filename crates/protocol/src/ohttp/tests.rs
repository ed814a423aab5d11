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

#[test]
fn chunked_draft_appendix_a() {
    let secret = hex("1c190d72acdbe4dbc69e680503bb781a932c70a12c8f3754434c67d8640d8698");
    let sealed = hex(concat!(
        "010020000100018811eb457e100811c40a0aa71340a1b81d804bb986f736f2f566a7199761a032",
        "1c2ad24942d4d692563012f2980c8fef437a336b9b2fc938ef77a5834f",
        "1d2e33d8fd25577afe31bd1c79d094f76b6250ae6549b473ecd950501311",
        "001c6c1395d0ef7c1022297966307b8a7f",
    ));
    let sealed_response = hex(concat!(
        "bcce7f4cb921309ba5d62edf1769ef09",
        "1179bf1cc87fa0e2c02de4546945aa3d1e48",
        "12b348b5bd4c594c16b6170b07b475845d1f32",
        "00ed9d8a796617a5b27265f4d73247f639",
    ));
    let request = hex("00034745540568747470730b6578616d706c652e636f6d012f");
    let response = hex("0140c8");

    let gateway = GatewayKeys::with_x25519_secret(1, &secret, &mut ChaCha20Rng::seed_from_u64(1));
    let (opened, sealer) = gateway.open_chunked(&sealed).unwrap();
    assert_eq!(opened.inner, request);
    assert_eq!(opened.enc, sealed[7..39]);
    assert_eq!(*sealer.secret, hex("1d4484834ae36102a6ac42a5523454d9"));
    let secret = sealer.secret.clone();

    let (mut answer, mut writer) = sealer
        .begin(&mut Script::new(&sealed_response[..16]))
        .unwrap();
    writer.write(&response[..1], &mut answer).unwrap();
    writer.write(&response[1..], &mut answer).unwrap();
    writer.finish(b"", &mut answer).unwrap();
    assert_eq!(answer, sealed_response);

    for piece in 1..=sealed_response.len() {
        let mut opener =
            chunked::ChunkOpener::new(Aead::Aes128Gcm, opened.enc.clone(), secret.clone());
        let mut whole = Vec::new();
        for bytes in sealed_response.chunks(piece) {
            opener.push(bytes, &mut whole).unwrap();
        }
        opener.finish(&mut whole).unwrap();
        assert_eq!(whole, response, "in pieces of {piece} bytes");
    }
}

/// §6: as if it could not be decrypted. A sender of this crate seals no such chunk.
#[test]
fn an_empty_chunk_before_the_last_is_refused() {
    let gateway = GatewayKeys::generate(1, &mut ChaCha20Rng::seed_from_u64(2));
    let sealing = || SealingKey::dangerous_unattested(gateway.configs().remove(1));
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let (sealed, mut opener) =
        chunked::encapsulate(&sealing(), &[Aead::Aes128Gcm], b"request", &mut rng).unwrap();
    let (mut answer, mut writer) = gateway
        .open_chunked(&sealed)
        .unwrap()
        .1
        .begin(&mut rng)
        .unwrap();
    writer.write(b"part", &mut answer).unwrap();
    writer.seal(b"", false, &mut answer).unwrap();
    let refused = opener.push(&answer, &mut Vec::new());
    assert_eq!(refused, Err(chunked::ChunkError::Empty(1)));
}
