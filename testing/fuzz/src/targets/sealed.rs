//! Encrypted messages, on both sides.

use std::sync::OnceLock;

use attestation::{Aead, SealingKey, UnixMillis};
use base64ct::{Base64UrlUnpadded, Encoding};
use protocol::exchange::{PendingExchange, begin};
use protocol::inner::{InnerRequest, InnerResponse, unpadded_len};
use protocol::ohttp::{ResponseOpener, encapsulate};
use protocol::terms::{self, Terms};

use super::{near_misses, receipt};
use crate::fixture::{NOW, fixture, rng};

const INNER: &[u8] = b"what the page asks";
const REPLY: &[u8] = b"what the enclave answers";

/// Only exact sealed requests open: identifiers, encapsulated key and ciphertext are all bound.
pub(super) fn gateway(data: &[u8]) {
    let Ok((opened, sealer)) = fixture().gateway.open(data) else {
        return;
    };
    assert!(sealed().iter().any(|seed| seed == data), "opened a forgery");
    assert_eq!(opened.inner, INNER);
    let reply = sealer
        .seal(REPLY, &mut rng(3))
        .expect("a short reply can be sealed");
    assert!(reply.len() > REPLY.len());
}

/// Every key mechanism with every cipher, and near misses of one.
pub(super) fn gateway_seeds() -> Vec<Vec<u8>> {
    let mut seeds = sealed().to_vec();
    seeds.extend(near_misses(&seeds[0]));
    seeds
}

/// Only the exact reply to this request opens.
pub(super) fn response(data: &[u8]) {
    let (opener, good) = sealed_reply(Aead::ChaCha20Poly1305);
    if let Ok(inner) = opener.open(data) {
        assert_eq!(inner, REPLY);
        assert_eq!(data, good);
    }
}

pub(super) fn response_seeds() -> Vec<Vec<u8>> {
    let mut seeds = near_misses(&sealed_reply(Aead::ChaCha20Poly1305).1);
    seeds.push(sealed_reply(Aead::Aes128Gcm).1);
    seeds
}

/// Sealed with the enclave's own key; only the content that the receipt commits to is accepted.
pub(super) fn answer(data: &[u8]) {
    let (sealed, pending) = begin_exchange();
    let (_, sealer) = fixture()
        .gateway
        .open(&sealed)
        .expect("our own request opens");
    let reply = sealer.seal(data, &mut rng(4)).expect("short enough");
    match pending.finish(&reply, NOW) {
        Ok(answer) => {
            assert_eq!(answer.response.content, REPLY);
            assert!(answer.response.header(terms::RECEIPT).is_some());
        }
        Err(error) => assert!(!error.code().is_empty() && !error.remedy().is_empty()),
    }
}

pub(super) fn answer_seeds() -> Vec<Vec<u8>> {
    let (sealed, _) = begin_exchange();
    let (opened, _) = fixture().gateway.open(&sealed).unwrap();
    let request = InnerRequest::decode(&opened.inner).unwrap();
    let unpadded = &opened.inner[..unpadded_len(&opened.inner).unwrap()];
    let terms = Terms::read(&request).unwrap();
    let signed = fixture()
        .signer
        .sign(&receipt::claims_of(&terms, unpadded, REPLY));
    let response = |status, headers: &[(&str, &str)], content: &[u8]| {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let response = InnerResponse {
            status,
            headers: headers.collect(),
            content: content.to_vec(),
        };
        response.encode_padded().unwrap()
    };
    let receipt = Base64UrlUnpadded::encode_string(&signed);
    let fields = [
        ("content-type", "application/json"),
        (terms::RECEIPT, &receipt),
    ];
    let declined = b"{\"error\":{\"code\":\"DOCUMENT_UNKNOWN\",\"message\":\"\"}}";
    let mut seeds = near_misses(&response(200, &fields, REPLY));
    seeds.push(response(200, &fields, b"another answer"));
    seeds.push(response(200, &fields[..1], REPLY));
    seeds.push(response(429, &fields[..1], declined));
    seeds
}

/// One sealed request for each key and cipher of the gateway.
fn sealed() -> &'static [Vec<u8>] {
    static SEALED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SEALED.get_or_init(|| {
        let keys = fixture().attested.sealing_keys();
        let pairs = keys
            .iter()
            .flat_map(|key| Aead::ALL.into_iter().map(move |aead| (key, aead)));
        pairs.map(|(key, aead)| request(key, aead).0).collect()
    })
}

fn request(key: &SealingKey, aead: Aead) -> (Vec<u8>, ResponseOpener) {
    encapsulate(key, &[aead], INNER, &mut rng(5)).expect("the gateway's own key")
}

/// The opener of one exchange, and the only reply that it opens.
fn sealed_reply(aead: Aead) -> (ResponseOpener, Vec<u8>) {
    // X25519, because each input is sealed again.
    let keys = fixture().attested.sealing_keys();
    let (_, opener) = request(keys.last().expect("two keys"), aead);
    static REPLIES: OnceLock<Vec<(Aead, Vec<u8>)>> = OnceLock::new();
    let replies = REPLIES.get_or_init(|| {
        let seal = |aead| {
            let (sealed, _) = request(keys.last().expect("two keys"), aead);
            let (_, sealer) = fixture().gateway.open(&sealed).expect("our own request");
            (aead, sealer.seal(REPLY, &mut rng(6)).expect("short enough"))
        };
        Aead::ALL.map(seal).to_vec()
    });
    let reply = replies.iter().find(|(known, _)| *known == aead);
    (opener, reply.expect("every cipher").1.clone())
}

/// The same exchange, started again.
fn begin_exchange() -> (Vec<u8>, PendingExchange) {
    let now = UnixMillis::from_seconds(NOW.seconds());
    begin(
        &fixture().attested,
        fixtures::enclave::request(),
        now,
        &mut rng(7),
    )
    .expect("an attested key")
}
