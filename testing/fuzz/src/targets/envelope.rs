//! Ciphertexts that KMS, or a host in its place, sends to an enclave.

use forge::envelope::{Envelope as Forged, Shape};
use key_release::{Envelope, MAX_ENVELOPE};

use super::near_misses;

/// A parsed envelope has whole blocks, and its recipient is part of the input; an additional byte is refused.
pub(super) fn envelope(data: &[u8]) {
    let envelope = match Envelope::parse(data) {
        Ok(envelope) => envelope,
        Err(error) => {
            assert!(error.at <= data.len());
            return;
        }
    };
    assert!(data.len() <= MAX_ENVELOPE);
    let length = envelope.content_len();
    assert!(length > 0 && length.is_multiple_of(16) && length < data.len());
    assert!(
        data.windows(32)
            .any(|window| window == envelope.recipient())
    );
    assert!(Envelope::parse(&[data, &[0]].concat()).is_err());
}

pub(super) fn envelope_seeds() -> Vec<Vec<u8>> {
    let lengths = [(16, Shape::ALL), (48, Shape::ALL), (4112, Shape::ALL)];
    let seeds = lengths.into_iter().flat_map(|(length, shapes)| {
        shapes.into_iter().flat_map(move |shape| {
            let forged = Forged {
                recipient: vec![1; 32],
                wrapped_key: vec![2; 256],
                iv: [3; 16],
                content: vec![4; length],
                shape,
            };
            near_misses(&forged.encode())
        })
    });
    seeds.filter(|seed| seed.len() <= MAX_ENVELOPE).collect()
}
