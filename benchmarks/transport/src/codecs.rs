//! Codecs and ciphers without a stream, in turns with the channel's.

use std::hint::black_box;

use anyhow::{Context, Result, anyhow};
use bytes::{Bytes, BytesMut};
use confidential_ml_transport::crypto::SymmetricKey;
use confidential_ml_transport::crypto::seal::SealingContext;
use confidential_ml_transport::frame::Frame;
use confidential_ml_transport::frame::codec::FrameCodec;
use confidential_ml_transport::frame::tensor::{DType, OwnedTensor, TensorRef};
use tokio_util::codec::{Decoder, Encoder};
use transports::{Operation, repeat};

use crate::published;

/// The published sizes, bytes.
const FRAME: usize = 4_096;
const SHAPE: [u32; 2] = [128, 768];

pub fn operations() -> Result<Vec<Operation>> {
    let payload = Bytes::from(vec![0xab; FRAME]);
    let encoded = encode(&payload, BytesMut::new())?.freeze();
    let (one, two) = (payload.clone(), payload);
    let codec = "published frame, no cipher";
    let mut operations = vec![
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
    for operation in &mut operations {
        operation
            .parameters
            .push(("engine", published::NAME.into()));
    }
    operations.extend(ciphers()?);
    Ok(operations)
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

fn tensor() -> Result<Operation> {
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

/// AEADs alone, as each contender uses them: in place for TLS, into a new vector for the published transport.
fn ciphers() -> Result<Vec<Operation>> {
    let operation = |engine: &'static str,
                     cipher: &'static str,
                     run: Box<dyn FnMut() -> Result<()>>| Operation {
        subject: "crypto.aead_seal",
        parameters: vec![
            ("engine", engine.into()),
            ("cipher", cipher.into()),
            ("payload_bytes", FRAME.into()),
        ],
        iterations: 200,
        run,
    };
    let (aes, chacha) = ("AES-256-GCM", "ChaCha20-Poly1305");
    let mut sealing = SealingContext::new(&SymmetricKey::from([0x42; 32]), [0xaa; 32]);
    let plain = vec![0xbb; FRAME];
    let published = move || {
        black_box(sealing.seal(&plain, 2, 1)?);
        Ok(())
    };
    let mut operations = vec![operation(published::NAME, chacha, Box::new(published))];
    for (name, algorithm) in [
        (aes, &aws_lc_rs::aead::AES_256_GCM),
        (chacha, &aws_lc_rs::aead::CHACHA20_POLY1305),
    ] {
        use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
        let key = UnboundKey::new(algorithm, &[5; 32]).map_err(|_| anyhow!("no key"))?;
        let key = LessSafeKey::new(key);
        let mut message = vec![1; FRAME];
        let run = move || {
            // A fixed nonce is safe here: nothing is sent.
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from([0; 16]), &mut message);
            let _ = black_box(tag.map_err(|_| anyhow!("not sealed"))?);
            Ok(())
        };
        operations.push(operation("aws-lc-rs", name, Box::new(run)));
    }
    for (name, algorithm) in [
        (aes, &ring::aead::AES_256_GCM),
        (chacha, &ring::aead::CHACHA20_POLY1305),
    ] {
        use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
        let key = UnboundKey::new(algorithm, &[5; 32]).map_err(|_| anyhow!("no key"))?;
        let key = LessSafeKey::new(key);
        let mut message = vec![1; FRAME];
        let run = move || {
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from([0; 16]), &mut message);
            let _ = black_box(tag.map_err(|_| anyhow!("not sealed"))?);
            Ok(())
        };
        operations.push(operation("ring", name, Box::new(run)));
    }
    Ok(operations)
}
