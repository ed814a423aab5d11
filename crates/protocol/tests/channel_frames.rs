//! Frames and tensors of a session against everything that a host or a network can do to their bytes.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use fixtures::channel::{AES, CLASSIC, END, START, connect, frame, open, options, session};
use fixtures::enclave::{Enclave, NOW};
use protocol::channel::frame::{HEADER, Kind, MAX_PAYLOAD, Step, rejection_header};
use protocol::channel::tensor::{Dtype, Tensor, append_floats, append_header};
use protocol::channel::{ChannelError, Hint, MonotonicMillis, Rekey, Session};

/// Truncates and changes every byte of every kind of frame.
#[test]
fn no_byte_of_a_frame_can_be_changed_or_left_out() {
    for kind in [
        Kind::Data,
        Kind::Tensor,
        Kind::Error,
        Kind::Heartbeat,
        Kind::Shutdown,
    ] {
        let whole = frame(&mut session(13).0.sender, kind, b"twelve bytes");
        let mut receivers = Vec::new();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                receivers.push((at, changed));
            }
            receivers.push((at, whole[..at].to_vec()));
        }
        // A receiver ends at its first wrong frame, so each change needs a new one.
        for (at, changed) in receivers {
            let mut server = replica(13);
            assert!(
                open(&mut server.receiver, &changed).is_err(),
                "{kind:?} {at}"
            );
            // With a longer length the receiver waits for the rest; everything else ends it.
            if changed.len() == whole.len() && at >= 4 {
                assert!(
                    open(&mut server.receiver, &whole).is_err(),
                    "{kind:?} goes on"
                );
            }
        }
        assert!(open(&mut replica(13).receiver, &whole).is_ok());
    }
}

/// The server of `session(seed)`, made again because receivers cannot be cloned.
fn replica(seed: u64) -> Session {
    session(seed).1
}

#[test]
fn frames_come_once_in_order_and_from_this_session() {
    let frames = |seed| {
        let (mut client, server) = session(seed);
        let frames: Vec<_> = (0..4_u8)
            .map(|at| frame(&mut client.sender, Kind::Data, &[at; 40]))
            .collect();
        (frames, server)
    };
    let (ours, mut server) = frames(14);
    open(&mut server.receiver, &ours[0]).unwrap();
    assert_eq!(
        open(&mut server.receiver, &ours[0]),
        Err(ChannelError::Sequence {
            expected: 1,
            found: 0
        })
    );
    assert!(
        open(&mut server.receiver, &ours[1]).is_err(),
        "over is over"
    );

    let mut server = replica(14);
    open(&mut server.receiver, &ours[0]).unwrap();
    assert!(matches!(
        open(&mut server.receiver, &ours[2]),
        Err(ChannelError::Sequence { .. })
    ));

    let (theirs, _) = frames(15);
    let mut server = replica(14);
    open(&mut server.receiver, &ours[0]).unwrap();
    assert_eq!(
        open(&mut server.receiver, &theirs[1]),
        Err(ChannelError::Forged)
    );

    // A frame sent back to its sender.
    let (mut client, _) = session(14);
    let echo = frame(&mut client.sender, Kind::Data, b"mine");
    assert_eq!(open(&mut client.receiver, &echo), Err(ChannelError::Forged));
}

#[test]
fn unencrypted_frames_are_refused_after_the_handshake() {
    for plain in [
        Step::ClientHello.frame(b"again"),
        Step::ServerHello.frame(&[0; 40]),
        rejection_header(Hint::Busy).to_vec(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0; 64],
    ] {
        let (mut client, _) = session(16);
        assert!(open(&mut client.receiver, &plain).is_err());
    }
}

#[test]
fn sizes_are_refused_before_anything_is_allocated() {
    let (mut client, mut server) = session(17);
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    header[4] = Kind::Data as u8;
    assert!(matches!(
        server.receiver.header(&header),
        Err(ChannelError::TooLarge { .. })
    ));
    for step in [Step::ClientHello, Step::ServerHello, Step::ClientKey] {
        let mut hello = step.frame(b"");
        hello[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        let header = hello.first_chunk().unwrap();
        assert!(matches!(
            step.length(header),
            Err(ChannelError::TooLarge { .. })
        ));
    }
    let mut large = vec![0; MAX_PAYLOAD + 1];
    assert!(matches!(
        client.sender.seal(Kind::Data, false, &mut large, START),
        Err(ChannelError::TooLarge { .. })
    ));
    let mut control = vec![0; 257];
    assert!(
        client
            .sender
            .seal(Kind::Heartbeat, false, &mut control, START)
            .is_err()
    );
    // A refused payload uses no sequence number.
    let up = frame(&mut client.sender, Kind::Data, b"small");
    let mut server = replica(17);
    assert!(open(&mut server.receiver, &up).is_ok());
}

#[test]
fn a_refusal_in_the_clear_is_a_hint() {
    for hint in [Hint::Busy, Hint::Other] {
        let error = Step::ServerHello
            .length(&rejection_header(hint))
            .unwrap_err();
        assert_eq!(error, ChannelError::Rejected(hint));
        assert!(error.is_transient());
        assert!(Step::ClientKey.length(&rejection_header(hint)).is_err());
    }
}

#[test]
fn keys_are_replaced_by_count_by_bytes_and_by_time() {
    let limits = Rekey {
        frames: 3,
        bytes: 1_000,
        millis: 500,
    };
    let (mut client, mut server) = session(18);
    client.sender.set_rekey(limits);
    let mut send = |length: usize, at: u64| {
        let mut out = Vec::new();
        let now = MonotonicMillis(START.0 + at);
        client
            .sender
            .append(Kind::Data, &vec![1; length], now, &mut out)
            .unwrap();
        open(&mut server.receiver, &out).unwrap();
        u16::from_be_bytes([out[6], out[7]])
    };
    let epochs: Vec<_> = [
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (900, 0),
        (200, 0),
        (1, 499),
        (1, 501),
        (1, 1_001),
    ]
    .map(|(length, at)| send(length, at))
    .to_vec();
    assert_eq!(epochs, [0, 0, 0, 1, 1, 2, 2, 3, 4]);
}

#[test]
fn a_receiver_follows_one_key_at_a_time() {
    for epoch in [1_u16, 2, u16::MAX] {
        let (mut client, mut server) = session(19);
        if epoch > 1 {
            let first = frame(&mut client.sender, Kind::Data, b"x");
            open(&mut server.receiver, &first).unwrap();
        }
        let mut forged = frame(&mut client.sender, Kind::Data, b"y");
        forged[6..8].copy_from_slice(&epoch.to_be_bytes());
        assert!(open(&mut server.receiver, &forged).is_err());
    }
}

/// No nonce is used twice under one key. Sequence numbers never repeat in a direction, across all epochs, and the two
/// directions have different keys, so the same first plaintext gives different ciphertexts.
#[test]
fn no_key_sees_a_nonce_twice() {
    let (mut client, mut server) = session(20);
    for sender in [&mut client.sender, &mut server.sender] {
        sender.set_rekey(Rekey {
            frames: 2,
            bytes: u64::MAX,
            millis: u64::MAX,
        });
    }
    let mut sequences = HashSet::new();
    let mut ciphertexts = HashSet::new();
    for _ in 0..200 {
        for (side, sender) in [(0, &mut client.sender), (1, &mut server.sender)] {
            let out = frame(sender, Kind::Data, &[0; 32]);
            let sequence = u64::from_be_bytes(out[8..16].try_into().unwrap());
            assert!(sequences.insert((side, sequence)));
            assert!(
                ciphertexts.insert(out[16..48].to_vec()),
                "one keystream twice"
            );
        }
    }
}

#[test]
fn the_end_of_a_session_is_authenticated() {
    let (mut client, mut server) = session(21);
    let up = frame(&mut client.sender, Kind::Data, b"all of it");
    open(&mut server.receiver, &up).unwrap();
    assert_eq!(server.receiver.end(), Err(ChannelError::CutOff));

    let mut server = replica(21);
    open(&mut server.receiver, &up).unwrap();
    let last = frame(&mut client.sender, Kind::Shutdown, b"");
    open(&mut server.receiver, &last).unwrap();
    assert!(server.receiver.is_closed());
    assert_eq!(server.receiver.end(), Ok(()));
    assert_eq!(open(&mut server.receiver, &up), Err(ChannelError::Closed));
    assert_eq!(
        client.sender.seal(Kind::Data, false, &mut [], START).err(),
        Some(ChannelError::Closed)
    );
}

#[test]
fn a_session_ends_with_the_attestation_that_it_rests_on() {
    let (mut client, mut server, verified) =
        connect(&mut Enclave::start(1), options(CLASSIC), AES, 22);
    let left = verified.valid_until().0 - NOW.0;
    let (last, over) = (
        MonotonicMillis(START.0 + left),
        MonotonicMillis(START.0 + left + 1_000),
    );
    assert!(client.sender.seal(Kind::Data, false, &mut [], last).is_ok());
    assert_eq!(
        client.sender.seal(Kind::Data, false, &mut [], over).err(),
        Some(ChannelError::Expired)
    );
    assert!(
        client
            .sender
            .seal(Kind::Shutdown, false, &mut [], over)
            .is_ok()
    );
    let after = MonotonicMillis(END.0 + 1);
    assert!(
        server
            .sender
            .seal(Kind::Data, false, &mut [], after)
            .is_err()
    );
}

#[test]
fn the_parts_of_a_message_stay_together() {
    let (mut client, mut server) = session(23);
    let mut part = |kind, more| {
        let mut body = b"part".to_vec();
        client
            .sender
            .seal(kind, more, &mut body, START)
            .map(|sealed| {
                let whole = [&sealed.header[..], &body, &sealed.tag].concat();
                assert!(open(&mut server.receiver, &whole).is_ok());
            })
    };
    part(Kind::Tensor, true).unwrap();
    part(Kind::Heartbeat, false).unwrap();
    for (kind, more) in [
        (Kind::Data, false),
        (Kind::Data, true),
        (Kind::Error, false),
        (Kind::Shutdown, false),
        (Kind::Heartbeat, true),
    ] {
        assert!(part(kind, more).is_err(), "{kind:?}");
    }
    part(Kind::Tensor, true).unwrap();
    part(Kind::Tensor, false).unwrap();
    part(Kind::Data, false).unwrap();
}

#[test]
fn a_tensor_is_read_in_place() {
    let elements: Vec<f32> = (0..768).map(|at| at as f32 / 7.0).collect();
    let mut out = vec![0; HEADER];
    append_floats(&[2, 384], "embeddings", &elements, &mut out).unwrap();
    let (mut client, mut server) = session(24);
    let sealed = client
        .sender
        .seal(Kind::Tensor, false, &mut out[HEADER..], START)
        .unwrap();
    out[..HEADER].copy_from_slice(&sealed.header);
    out.extend_from_slice(&sealed.tag);
    // A buffer of words: aligned, whatever the allocator does.
    let mut words = vec![0_u64; out.len().div_ceil(8)];
    let aligned: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut words)[..out.len()];
    aligned.copy_from_slice(&out);
    let (header, body) = aligned.split_first_chunk_mut::<HEADER>().unwrap();
    let header = server.receiver.header(header).unwrap();
    let frame = server.receiver.open(&header, body).unwrap();
    let tensor = Tensor::parse(frame.payload).unwrap();
    assert_eq!(
        (tensor.dtype(), tensor.shape(), tensor.name()),
        (Dtype::F32, &[2, 384][..], "embeddings")
    );
    assert_eq!(tensor.floats().unwrap(), elements);
    assert_eq!(tensor.to_floats().unwrap(), elements);
}

#[test]
fn malformed_tensors_are_refused() {
    let mut good = Vec::new();
    append_floats(&[3], "v", &[1.0, 2.0, 3.0], &mut good).unwrap();
    assert!(Tensor::parse(&good).is_ok());
    for cut in 0..good.len() {
        assert!(Tensor::parse(&good[..cut]).is_err(), "cut to {cut}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(Tensor::parse(&longer).is_err());
    // Everything but the data: version, type, rank, name, reserved bytes, dimensions, padding.
    let data_at = good.len() - 12;
    let name_at = 16;
    for at in (0..data_at).filter(|at| *at != name_at) {
        for bit in 0..8 {
            let mut changed = good.clone();
            changed[at] ^= 1 << bit;
            let same_size =
                at == 1 && Tensor::parse(&changed).is_ok_and(|tensor| tensor.dtype().size() == 4);
            assert!(same_size || Tensor::parse(&changed).is_err(), "byte {at}");
        }
    }
    let mut overflow = Vec::new();
    append_header(Dtype::F64, &[u64::MAX, u64::MAX], "", &mut overflow).unwrap();
    assert!(Tensor::parse(&overflow).is_err());
    assert!(append_header(Dtype::F32, &[1; 9], "", &mut Vec::new()).is_err());
    assert!(append_header(Dtype::F32, &[1], &"n".repeat(65), &mut Vec::new()).is_err());
    assert!(append_floats(&[2], "", &[1.0], &mut Vec::new()).is_err());
    let mut bytes = Vec::new();
    append_header(Dtype::U8, &[1], "", &mut bytes).unwrap();
    bytes.push(1);
    assert!(Tensor::parse(&bytes).unwrap().floats().is_err());
}
