//! Tree heads: one encoding, one key, no other kind of token.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ed25519_dalek::{Signer, SigningKey};
use merkle::head::{HeadError, MAX_HEAD, TreeHead};
use merkle::json::{
    Consistency, Format, Inclusion, Leaves, Logs, Message, SignedHead, from_json, to_json,
};

fn signer(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn head(key: &SigningKey) -> TreeHead {
    TreeHead {
        log: key.verifying_key().to_bytes(),
        size: 70_000,
        root: [2; 32],
        time: 1_795_183_380,
        document: [3; 32],
    }
}

fn signed(head: &TreeHead, key: &SigningKey) -> Vec<u8> {
    head.sign(|bytes| key.sign(bytes).to_bytes())
}

#[test]
fn signed_heads_are_read_back() {
    let key = signer(1);
    for size in [
        0,
        23,
        24,
        255,
        256,
        65_535,
        65_536,
        u64::from(u32::MAX) + 1,
        u64::MAX,
    ] {
        let head = TreeHead { size, ..head(&key) };
        let bytes = signed(&head, &key);
        assert!(bytes.len() <= MAX_HEAD);
        assert_eq!(TreeHead::verify(&bytes), Ok(head));
    }
}

#[test]
fn every_changed_bit_every_truncation_and_every_appended_byte_is_refused() {
    let key = signer(1);
    let good = signed(&head(&key), &key);
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(TreeHead::verify(&bytes).is_err(), "bit {bit}");
    }
    for length in 0..good.len() {
        assert_eq!(TreeHead::verify(&good[..length]), Err(HeadError::Malformed));
    }
    for byte in 0..=u8::MAX {
        let longer = [&good[..], &[byte]].concat();
        assert_eq!(TreeHead::verify(&longer), Err(HeadError::Malformed));
    }
    assert_eq!(
        TreeHead::verify(&vec![0xd2; MAX_HEAD + 1]),
        Err(HeadError::Malformed)
    );
}

#[test]
fn a_head_that_another_key_signed_is_refused() {
    let (own, other) = (signer(1), signer(2));
    assert_eq!(
        TreeHead::verify(&signed(&head(&own), &other)),
        Err(HeadError::Signature)
    );
}

#[test]
fn keys_of_small_order_sign_nothing() {
    for log in [
        [0; 32],
        {
            let mut one = [0; 32];
            one[0] = 1;
            one
        },
        [0xff; 32],
    ] {
        let head = TreeHead {
            log,
            ..head(&signer(1))
        };
        // Under a key of small order, R = the neutral point and S = 0 verify for every message, unless the key is refused.
        let mut signature = [0; 64];
        signature[0] = 1;
        assert_eq!(
            TreeHead::verify(&head.sign(|_| signature)),
            Err(HeadError::Signature)
        );
    }
}

#[test]
fn a_length_in_a_longer_form_is_refused() {
    let key = signer(1);
    let good = signed(
        &TreeHead {
            size: 5,
            ..head(&key)
        },
        &key,
    );
    // Key 2 and its value 5, in the payload: 5 written in two bytes, and every enclosing length adjusted.
    let at = good
        .windows(3)
        .position(|window| window == [0x02, 0x05, 0x03])
        .unwrap();
    let mut longer = good.clone();
    longer.splice(at + 1..at + 2, [0x18, 0x05]);
    let payload = good
        .windows(2)
        .position(|window| window[0] == 0x58 && window[1] > 100)
        .unwrap();
    longer[payload + 1] += 1;
    assert_eq!(TreeHead::verify(&longer), Err(HeadError::Malformed));
}

fn survives<T: Message + PartialEq + std::fmt::Debug>(message: &T) {
    let json = to_json(message).unwrap();
    assert_eq!(&from_json::<T>(json.as_bytes()).unwrap(), message, "{json}");
    for wrong in [
        json.replace("/1\"", "/2\""),
        json.replacen('{', "{\"extra\":1,", 1),
        format!("{json} x"),
        "{}".to_owned(),
        "[]".to_owned(),
    ] {
        assert!(from_json::<T>(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(from_json::<T>(&vec![b' '; T::LIMIT + 1]).is_err());
}

#[test]
fn messages_survive_json_and_other_json_is_refused() {
    survives(&Inclusion {
        format: Format::new(),
        index: 7,
        path: vec![[1; 32], [2; 32]],
        head: vec![9; 200],
    });
    survives(&Consistency {
        format: Format::new(),
        from: 3,
        to: 9,
        path: vec![],
    });
    let head = SignedHead {
        format: Format::new(),
        head: vec![1],
        document: vec![2, 3],
        manifest: vec![],
    };
    survives(&head);
    survives(&Leaves {
        format: Format::new(),
        from: 0,
        leaves: vec![[5; 32], [6; 32]],
        head,
    });
    survives(&Logs {
        format: Format::new(),
        logs: vec![[4; 32]],
    });
    let long = Consistency {
        format: Format::new(),
        from: 1,
        to: 2,
        path: vec![[0; 32]; 65],
    };
    assert!(
        from_json::<Consistency>(to_json(&long).unwrap().as_bytes()).is_err(),
        "a path is bounded"
    );
}
