//! Sealing in chunks: round trips, interoperation with an independent implementation, and attacks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value
)]

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use attestation::{Aead, Kem, KeyConfig, SealingKey};
use fixtures::rng;
use futures_util::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use ohttp::hpke::{Aead as TheirAead, Kdf as TheirKdf, Kem as TheirKem};
use proptest::prelude::*;
use protocol::ohttp::chunked::{ChunkError, ChunkOpener, MAX_CHUNK, encapsulate};
use protocol::ohttp::{GatewayKeys, SealError};

const AEADS: [Aead; 3] = [Aead::ChaCha20Poly1305, Aead::Aes256Gcm, Aead::Aes128Gcm];
const INNER: &[u8] = b"what the user wrote";

fn key(gateway: &GatewayKeys, kem: Kem) -> SealingKey {
    let mut configs = gateway.configs().into_iter();
    SealingKey::dangerous_unattested(configs.find(|config| config.kem == kem).unwrap())
}

/// Polls a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// Bytes that the other implementation wrote.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Opens `sealed`, which arrives in `pieces`.
fn open(mut opener: ChunkOpener, pieces: &[&[u8]]) -> Result<Vec<u8>, ChunkError> {
    let mut opened = Vec::new();
    for piece in pieces {
        opener.push(piece, &mut opened)?;
    }
    opener.finish(&mut opened)?;
    Ok(opened)
}

/// A request and an answer of these parts; the answer's bytes in chunks, its nonce first.
fn exchange(aead: Aead, parts: &[&[u8]]) -> (ChunkOpener, Vec<Vec<u8>>) {
    let mut rng = rng(1);
    let gateway = GatewayKeys::generate(7, &mut rng);
    let (sealed, opener) =
        encapsulate(&key(&gateway, Kem::X25519), &[aead], INNER, &mut rng).unwrap();
    let (opened, sealer) = gateway.open_chunked(&sealed).unwrap();
    assert_eq!(opened.inner, INNER);
    let (nonce, mut writer) = sealer.begin(&mut rng).unwrap();
    let mut chunks = vec![nonce];
    for part in parts {
        let mut chunk = Vec::new();
        writer.write(part, &mut chunk).unwrap();
        chunks.push(chunk);
    }
    let mut last = Vec::new();
    writer.finish(b"", &mut last).unwrap();
    chunks.push(last);
    (opener, chunks)
}

fn refused(opener: ChunkOpener, chunks: &[Vec<u8>]) -> ChunkError {
    let pieces: Vec<_> = chunks.iter().map(Vec::as_slice).collect();
    open(opener, &pieces).expect_err("accepted")
}

#[test]
fn every_suite_carries_messages_of_every_length() {
    let mut rng = rng(1);
    let gateway = GatewayKeys::generate(7, &mut rng);
    for kem in [Kem::XWing, Kem::X25519] {
        for aead in AEADS {
            for length in [0, 1, MAX_CHUNK - 1, MAX_CHUNK, MAX_CHUNK + 1, 3 * MAX_CHUNK] {
                let inner = vec![7; length];
                let (sealed, opener) =
                    encapsulate(&key(&gateway, kem), &[aead], &inner, &mut rng).unwrap();
                let (opened, sealer) = gateway.open_chunked(&sealed).unwrap();
                assert_eq!(opened.inner, inner);
                let (mut answer, mut writer) = sealer.begin(&mut rng).unwrap();
                writer.write(&inner, &mut answer).unwrap();
                writer.finish(b"end", &mut answer).unwrap();
                let answer = open(opener, &[&answer]).unwrap();
                assert_eq!(answer, [&inner[..], b"end"].concat());
            }
        }
    }
}

#[test]
fn a_message_without_its_last_chunk_is_cut_off() {
    for aead in AEADS {
        let (_, chunks) = exchange(aead, &[b"first", b"second"]);
        let whole = chunks.concat();
        for length in 0..whole.len() {
            let (opener, _) = exchange(aead, &[b"first", b"second"]);
            let error = open(opener, &[&whole[..length]]).expect_err("accepted");
            assert_eq!(error, ChunkError::CutOff, "after {length} bytes");
        }
    }
}

#[test]
fn chunks_that_were_moved_repeated_left_out_or_changed_are_refused() {
    let parts: [&[u8]; 3] = [b"first", b"later", b"third"];
    for aead in AEADS {
        let fresh = || exchange(aead, &parts);
        let (opener, mut chunks) = fresh();
        chunks.swap(1, 2);
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(0));
        let (opener, mut chunks) = fresh();
        chunks.insert(2, chunks[1].clone());
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(1));
        let (opener, mut chunks) = fresh();
        chunks.remove(2);
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(1));
        // The last chunk of a shorter answer, and an earlier chunk as the last one.
        let (opener, mut chunks) = fresh();
        chunks.remove(3);
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(2));
        let (opener, mut chunks) = fresh();
        chunks.truncate(4);
        chunks[3][0] = 0;
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(2));
        // An emptied chunk: its length is that of a tag alone.
        let (opener, mut chunks) = fresh();
        chunks[2] = [&[16][..], &chunks[2][chunks[2].len() - 16..]].concat();
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(1));
        let (opener, mut chunks) = fresh();
        chunks[2] = vec![1, 0];
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(1));
        let (_, chunks) = fresh();
        let whole = chunks.concat();
        for at in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[at / 8] ^= 1 << (at % 8);
            let (opener, _) = fresh();
            assert!(open(opener, &[&changed]).is_err(), "bit {at}");
        }
        let (opener, mut chunks) = fresh();
        chunks.push(b"more".to_vec());
        assert_eq!(refused(opener, &chunks), ChunkError::OpenFailed(3));
    }
}

#[test]
fn a_chunk_over_the_limit_is_refused_before_it_arrives() {
    let (opener, chunks) = exchange(Aead::Aes256Gcm, &[]);
    // 16,385 bytes and a tag; then 2^62 - 1.
    let long = [chunks[0].clone(), vec![0x80, 0, 0x40, 0x11]];
    assert_eq!(refused(opener, &long), ChunkError::TooLarge(0));
    let (opener, chunks) = exchange(Aead::Aes256Gcm, &[]);
    assert_eq!(
        refused(opener, &[chunks[0].clone(), vec![0xff; 8]]),
        ChunkError::TooLarge(0)
    );
    let (opener, chunks) = exchange(Aead::Aes256Gcm, &[]);
    let endless = [chunks[0].clone(), vec![0], vec![7; MAX_CHUNK + 17]];
    assert_eq!(refused(opener, &endless), ChunkError::TooLarge(0));
}

#[test]
fn requests_are_refused_like_answers() {
    let mut rng = rng(3);
    let gateway = GatewayKeys::generate(0, &mut rng);
    let other = GatewayKeys::generate(0, &mut rng);
    let inner = vec![7; MAX_CHUNK + 5];
    let (sealed, _) = encapsulate(&key(&gateway, Kem::X25519), &AEADS, &inner, &mut rng).unwrap();
    let refusal = |sealed: &[u8]| gateway.open_chunked(sealed).err().expect("accepted");
    // Two chunks: a length of four bytes before the first, a zero before the last.
    let first = 7 + 32 + 4 + MAX_CHUNK + 16;
    for length in [first - 1, first, first + 1, first + 16] {
        assert_eq!(refusal(&sealed[..length]), ChunkError::CutOff, "{length}");
    }
    assert_eq!(
        refusal(&sealed[..sealed.len() - 1]),
        ChunkError::OpenFailed(1)
    );
    assert_eq!(refusal(&sealed[..20]), SealError::Truncated.into());
    // As in RFC 9458, a key of another process with the same identifier is not told from a change.
    assert_eq!(
        other.open_chunked(&sealed).err(),
        Some(SealError::OpenFailed.into())
    );
    let mut unknown = sealed.clone();
    unknown[0] = 99;
    assert_eq!(refusal(&unknown), SealError::UnknownKey(99).into());
    // The two forms have different labels, so neither opens as the other.
    assert!(gateway.open(&sealed).is_err());
}

/// The other implementation allows 16 bytes for the response's nonce, so only AES-128-GCM, whose nonce is that long.
fn their_config(kem: TheirKem) -> ohttp::KeyConfig {
    let suite = ohttp::SymmetricSuite::new(TheirKdf::HkdfSha256, TheirAead::Aes128Gcm);
    ohttp::KeyConfig::new(9, kem, vec![suite]).unwrap()
}

const LONG: usize = 3 * MAX_CHUNK + 5;

#[test]
fn our_client_talks_to_their_gateway() {
    ohttp::init();
    let mut rng = rng(4);
    for kem in [TheirKem::XWing, TheirKem::X25519Sha256] {
        for length in [1, 100, LONG] {
            let config = their_config(kem);
            let list = ohttp::KeyConfig::encode_list(&[&config]).unwrap();
            let server = ohttp::Server::new(config).unwrap();
            let key =
                SealingKey::dangerous_unattested(KeyConfig::decode_list(&list).unwrap().remove(0));
            let inner = vec![9; length];
            let (sealed, opener) = encapsulate(&key, &AEADS, &inner, &mut rng).unwrap();
            let mut request = server.decapsulate_stream(&sealed[..]);
            let mut read = Vec::new();
            now(request.read_to_end(&mut read)).unwrap();
            assert_eq!(read, inner);
            let answer = Sink::default();
            let mut response = request.response(answer.clone()).unwrap();
            for part in inner.chunks(1000) {
                now(response.write_all(part)).unwrap();
            }
            now(response.close()).unwrap();
            let answer = answer.bytes();
            assert_eq!(
                open(opener, &answer.chunks(777).collect::<Vec<_>>()).unwrap(),
                inner
            );
        }
    }
}

#[test]
fn their_client_talks_to_our_gateway() {
    ohttp::init();
    let mut rng = rng(5);
    let gateway = GatewayKeys::generate(7, &mut rng);
    for kem in [Kem::XWing, Kem::X25519] {
        for length in [1, 100, LONG] {
            let mut config = key(&gateway, kem).config().clone();
            config
                .symmetric
                .retain(|(_, aead)| *aead == Aead::Aes128Gcm);
            let list = KeyConfig::encode_list(&[config]).unwrap();
            let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
            let inner = vec![9; length];
            let sealed = Sink::default();
            let mut request = client.encapsulate_stream(sealed.clone()).unwrap();
            for part in inner.chunks(5000) {
                now(request.write_all(part)).unwrap();
            }
            now(request.close()).unwrap();
            let (opened, sealer) = gateway.open_chunked(&sealed.bytes()).unwrap();
            assert_eq!(opened.inner, inner);
            let (mut answer, mut writer) = sealer.begin(&mut rng).unwrap();
            for part in inner.chunks(3000) {
                writer.write(part, &mut answer).unwrap();
            }
            writer.finish(b"", &mut answer).unwrap();
            let mut read = Vec::new();
            now(request
                .response(&answer[..])
                .unwrap()
                .read_to_end(&mut read))
            .unwrap();
            assert_eq!(read, inner);
        }
    }
}

proptest! {
    #[test]
    fn an_answer_in_any_parts_and_pieces_is_the_whole(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40_000), 0..6),
        piece in 1usize..50_000,
    ) {
        let borrowed: Vec<_> = parts.iter().map(Vec::as_slice).collect();
        let (opener, chunks) = exchange(Aead::Aes128Gcm, &borrowed);
        let sealed = chunks.concat();
        let opened = open(opener, &sealed.chunks(piece).collect::<Vec<_>>());
        prop_assert_eq!(opened.unwrap(), parts.concat());
    }

    #[test]
    fn no_bytes_make_the_opener_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (opener, _) = exchange(Aead::Aes128Gcm, &[]);
        prop_assert!(open(opener, &[&bytes]).is_err());
        let gateway = GatewayKeys::generate(bytes.first().copied().unwrap_or(0), &mut rng(6));
        prop_assert!(gateway.open_chunked(&bytes).is_err());
    }
}
