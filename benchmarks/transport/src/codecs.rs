//! Codecs and ciphers without a stream, in turns with those of the channel.

use std::hint::black_box;

use anyhow::{Context, Result, anyhow};
use bytes::{Bytes, BytesMut};
use confidential_ml_transport::crypto::SymmetricKey;
use confidential_ml_transport::crypto::seal::SealingContext;
use confidential_ml_transport::frame::Frame;
use confidential_ml_transport::frame::codec::FrameCodec;
use confidential_ml_transport::frame::tensor::{DType, OwnedTensor, TensorRef};
use lanes::{Work, repeat};
use tokio_util::codec::{Decoder, Encoder};

use crate::published;

/// The published sizes, bytes.
const FRAME: usize = 4_096;
const SHAPE: [u32; 2] = [128, 768];

pub fn works() -> Result<Vec<Work>> {
    let payload = Bytes::from(vec![0xab; FRAME]);
    let encoded = encode(&payload, BytesMut::new())?.freeze();
    let (one, two) = (payload.clone(), payload);
    let codec = "published frame, no cipher";
    let mut works = vec![
        repeat("encode", codec, FRAME, move || {
            black_box(encode(&one, BytesMut::with_capacity(FRAME + 13))?);
            Ok(())
        }),
        repeat("decode", codec, FRAME, move || {
            decode(BytesMut::from(&encoded[..]))
        }),
        repeat("roundtrip", codec, FRAME, move || {
            decode(encode(&two, BytesMut::new())?)
        }),
        tensor()?,
    ];
    for work in &mut works {
        work.parameters.push(("engine", published::NAME.into()));
    }
    works.extend(ciphers()?);
    Ok(works)
}

fn encode(payload: &Bytes, mut into: BytesMut) -> Result<BytesMut> {
    FrameCodec::new().encode(Frame::data(0, payload.clone(), true), &mut into)?;
    Ok(into)
}

fn decode(mut bytes: BytesMut) -> Result<()> {
    let frame = FrameCodec::new().decode(&mut bytes)?;
    black_box(frame.context("no frame")?);
    Ok(())
}

fn tensor() -> Result<Work> {
    let data = vec![0; SHAPE.iter().product::<u32>() as usize * 4];
    let bytes = data.len();
    let mut encoded = BytesMut::new();
    let tensor = TensorRef {
        name: "hidden",
        dtype: DType::F32,
        shape: &SHAPE,
        data: &data,
    };
    tensor.encode(&mut encoded)?;
    let encoded = encoded.freeze();
    let codec = "published tensor, no copy";
    Ok(repeat("tensor_decode", codec, bytes, move || {
        black_box(OwnedTensor::decode(encoded.clone())?);
        Ok(())
    }))
}

/// AEADs alone, as each contender uses them: those of TLS in place, the published one into a new vector.
fn ciphers() -> Result<Vec<Work>> {
    let work =
        |engine: &'static str, cipher: &'static str, once: Box<dyn FnMut() -> Result<()>>| Work {
            subject: "crypto.aead_seal",
            parameters: vec![
                ("engine", engine.into()),
                ("cipher", cipher.into()),
                ("payload_bytes", FRAME.into()),
            ],
            times: 200,
            once,
        };
    let (aes, chacha) = ("AES-256-GCM", "ChaCha20-Poly1305");
    let mut sealing = SealingContext::new(&SymmetricKey::from([0x42; 32]), [0xaa; 32]);
    let plain = vec![0xbb; FRAME];
    let published = move || {
        black_box(sealing.seal(&plain, 2, 1)?);
        Ok(())
    };
    let mut works = vec![work(published::NAME, chacha, Box::new(published))];
    for (name, algorithm) in [
        (aes, &aws_lc_rs::aead::AES_256_GCM),
        (chacha, &aws_lc_rs::aead::CHACHA20_POLY1305),
    ] {
        use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
        let key = UnboundKey::new(algorithm, &[5; 32]).map_err(|_| anyhow!("no key"))?;
        let key = LessSafeKey::new(key);
        let mut message = vec![1; FRAME];
        let once = move || {
            // Speed alone: nothing is sent.
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from([0; 16]), &mut message);
            let _ = black_box(tag.map_err(|_| anyhow!("not sealed"))?);
            Ok(())
        };
        works.push(work("aws-lc-rs", name, Box::new(once)));
    }
    for (name, algorithm) in [
        (aes, &ring::aead::AES_256_GCM),
        (chacha, &ring::aead::CHACHA20_POLY1305),
    ] {
        use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
        let key = UnboundKey::new(algorithm, &[5; 32]).map_err(|_| anyhow!("no key"))?;
        let key = LessSafeKey::new(key);
        let mut message = vec![1; FRAME];
        let once = move || {
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from([0; 16]), &mut message);
            let _ = black_box(tag.map_err(|_| anyhow!("not sealed"))?);
            Ok(())
        };
        works.push(work("ring", name, Box::new(once)));
    }
    Ok(works)
}
