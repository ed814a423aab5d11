//! X-Wing against its draft's example, and against the implementation of the `hpke` crate.
// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use fixtures::random::Script;
use fixtures::rng;
use hpke::kem::XWing as Theirs;
use hpke::{Deserializable, HpkeError, Kem, Serializable};
use protocol::x_wing::XWing as Ours;

type Key<K> = <K as Kem>::PublicKey;
type Secret<K> = <K as Kem>::PrivateKey;
type Enc<K> = <K as Kem>::EncappedKey;

fn unhex(text: &str) -> Vec<u8> {
    base16ct::lower::decode_vec(text).unwrap()
}

/// One KEM, reading the bytes that another one wrote.
fn read<T: Deserializable>(of: &impl Serializable) -> T {
    T::from_bytes(&of.to_bytes()).unwrap()
}

#[test]
fn the_first_example_of_the_draft() {
    let secret = Secret::<Ours>::from_bytes(&unhex(
        "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26",
    ))
    .unwrap();
    let mut eseed = Script::new(&unhex(concat!(
        "3cb1eea988004b93103cfb0aeefd2a686e01fa4a58e8a3639ca8a1e3f9ae57e2",
        "35b8cc873c23dc62b8d260169afa2f75ab916a58d974918835d25e6a435085b2",
    )));
    let expected = unhex("d2df0522128f09dd8e2c92b1e905c793d8f57a54c3da25861f10bf4ca613e384");

    let (sent, enc) = Ours::encap_with_rng(&Ours::sk_to_pk(&secret), None, &mut eseed).unwrap();
    assert_eq!(sent.0.as_slice(), expected);
    let received = Ours::decap(&secret, None, &enc).unwrap();
    assert_eq!(received.0.as_slice(), expected);
}

#[test]
fn the_same_bytes_as_hpke() {
    for seed in 0..32_u8 {
        let (secret, public) = Ours::derive_keypair(&[seed; 32]);
        let (their_secret, their_public) = Theirs::derive_keypair(&[seed; 32]);
        assert_eq!(secret.to_bytes(), their_secret.to_bytes());
        assert_eq!(public.to_bytes(), their_public.to_bytes());

        let mut random = [rng(seed.into()), rng(seed.into())];
        let (sent, enc) = Ours::encap_with_rng(&read(&their_public), None, &mut random[0]).unwrap();
        let (their_sent, their_enc) =
            Theirs::encap_with_rng(&read(&public), None, &mut random[1]).unwrap();
        assert_eq!(enc.to_bytes(), their_enc.to_bytes());
        assert_eq!(sent.0, their_sent.0);

        let received = Ours::decap(&read(&their_secret), None, &read(&their_enc)).unwrap();
        assert_eq!(received.0, sent.0);
    }
}

/// ML-KEM decapsulates a false ciphertext to a pseudorandom secret (FIPS 203 §6.3), and reports no error.
#[test]
fn a_changed_ciphertext_gives_another_secret_the_same_as_with_hpke() {
    let (secret, public) = Ours::derive_keypair(&[1; 32]);
    let mut rng = rng(2);
    let (sent, enc) = Ours::encap_with_rng(&public, None, &mut rng).unwrap();
    for at in [0, 500, 1_087, 1_088, 1_119] {
        let mut changed = enc.to_bytes();
        changed[at] ^= 1;
        let ours = Enc::<Ours>::from_bytes(&changed).unwrap();
        let theirs = Enc::<Theirs>::from_bytes(&changed).unwrap();
        let received = Ours::decap(&secret, None, &ours).unwrap();
        let their_received = Theirs::decap(&read(&secret), None, &theirs).unwrap();
        assert_ne!(received.0, sent.0, "byte {at}");
        assert_eq!(received.0, their_received.0, "byte {at}");
    }
}

#[test]
fn invalid_keys_and_ciphertexts_are_refused() {
    let (secret, public) = Ours::derive_keypair(&[1; 32]);
    let key = public.to_bytes();
    let wrong = |expected, given| HpkeError::IncorrectInputLength(expected, given);
    for length in [0, 31, 32, 1_184, 1_215, 1_217] {
        let bytes = vec![0; length];
        assert_eq!(
            Key::<Ours>::from_bytes(&bytes).err(),
            Some(wrong(1_216, length))
        );
        assert_eq!(
            Enc::<Ours>::from_bytes(&bytes).err(),
            Some(wrong(1_120, length))
        );
    }
    for length in [0, 31, 33] {
        let secret = Secret::<Ours>::from_bytes(&vec![0; length]);
        assert_eq!(secret.err(), Some(wrong(32, length)));
    }
    // FIPS 203 §7.2: two numbers of 12 bits, and both at least the modulus 3,329.
    let mut out_of_range = key;
    out_of_range[..3].fill(0xff);
    assert_eq!(
        Key::<Ours>::from_bytes(&out_of_range).err(),
        Some(HpkeError::ValidationError)
    );
    // X25519's half may be anything: RFC 7748 §5 masks and reduces.
    let mut any = key;
    any[1_184..].fill(0xff);
    assert_eq!(Key::<Ours>::from_bytes(&any).unwrap().to_bytes(), any);

    let mut rng = rng(2);
    let sender = Some((&secret, &public));
    let authenticated = Ours::encap_with_rng(&public, sender, &mut rng);
    assert_eq!(authenticated.err(), Some(HpkeError::EncapError));
    let (_, enc) = Ours::encap_with_rng(&public, None, &mut rng).unwrap();
    let authenticated = Ours::decap(&secret, Some(&public), &enc);
    assert_eq!(authenticated.err(), Some(HpkeError::DecapError));
}
