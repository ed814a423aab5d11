//! The limits of keys, which take too many frames to reach by sending.
#![allow(clippy::unwrap_used)]

use zeroize::Zeroizing;

use super::*;

const NOW: MonotonicMillis = MonotonicMillis(0);

/// Both ends of one direction in `epoch`, with this many frames under its key.
fn direction(epoch: u16, frames: u64) -> (Sender, Receiver) {
    let keys = || Keys::new(Aead::ChaCha20Poly1305, Zeroizing::new([7; 32])).unwrap();
    let mut sender = Sender::new(keys(), NOW, MonotonicMillis(1_000));
    (sender.epoch, sender.used.frames) = (epoch, frames);
    let mut receiver = Receiver::new(keys());
    (receiver.epoch, receiver.frames) = (epoch, frames);
    (sender, receiver)
}

fn carry(sender: &mut Sender, receiver: &mut Receiver, kind: Kind) -> Result<(), ChannelError> {
    let mut frame = Vec::new();
    sender.append(kind, b"", NOW, &mut frame)?;
    let (header, body) = frame.split_first_chunk_mut().unwrap();
    let header = receiver.header(header)?;
    receiver.open(&header, body).map(|_| ())
}

#[test]
fn a_key_that_was_not_renewed_in_time_is_refused() {
    let (mut sender, mut receiver) = direction(0, Rekey::MAX_FRAMES - 1);
    // A peer that ignores the limit.
    sender.rekey.frames = u64::MAX;
    carry(&mut sender, &mut receiver, Kind::Data).unwrap();
    let overused = carry(&mut sender, &mut receiver, Kind::Data);
    assert_eq!(overused, Err(ChannelError::KeyOverused));
}

#[test]
fn whatever_limit_is_set_a_receiver_accepts_it() {
    let (mut sender, mut receiver) = direction(0, Rekey::MAX_FRAMES - 2);
    sender.set_rekey(Rekey {
        frames: u64::MAX,
        ..Rekey::default()
    });
    for _ in 0..4 {
        carry(&mut sender, &mut receiver, Kind::Data).unwrap();
    }
    assert_eq!((sender.epoch, receiver.epoch), (1, 1));
}

#[test]
fn a_session_that_has_used_its_last_key_can_still_be_closed() {
    for frames in [Rekey::default().frames, Rekey::MAX_FRAMES - 1] {
        let (mut sender, mut receiver) = direction(u16::MAX, frames);
        for kind in [Kind::Data, Kind::Heartbeat, Kind::Error] {
            let exhausted = carry(&mut sender, &mut receiver, kind);
            assert_eq!(exhausted, Err(ChannelError::Exhausted));
        }
        let mut part = [0; 16];
        let exhausted = sender.seal(Kind::Data, true, &mut part, NOW);
        assert_eq!(exhausted.err(), Some(ChannelError::Exhausted));
        carry(&mut sender, &mut receiver, Kind::Shutdown).unwrap();
        assert!(sender.is_closed() && receiver.is_closed());
        let again = carry(&mut sender, &mut receiver, Kind::Shutdown);
        assert_eq!(again, Err(ChannelError::Closed));
    }
}
