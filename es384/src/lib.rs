//! ECDSA on P-384 with SHA-384 (FIPS 186-5 §6.4.2), the one signature of a Nitro attestation.
//!
//! Nearly all the time of a verification is spent here, five times a document, and nearly all the bytes of the verifier
//! are elsewhere. The curve's generic code is compiled in the crate that calls it: a crate of its own lets a browser
//! have this part compiled for speed and the rest for size.

#![forbid(unsafe_code)]

pub use p384::ecdsa::{Signature, VerifyingKey};

use p384::ecdsa::signature::Verifier;
use p384::elliptic_curve::point::AffineCoordinates;
use p384::{AffinePoint, FieldBytes};

/// Bytes of one coordinate.
const COORDINATE: usize = 48;

/// The key in an uncompressed point: 04 and two coordinates of 48 bytes (SEC 1 §2.3.3, RFC 5480 §2.2).
///
/// Nothing else is a key here: not the point at infinity, not a point off the curve or with a coordinate from the
/// field's order on, and no compressed form, which AWS does not write and whose square root every page would load.
pub fn public_key(point: &[u8]) -> Option<VerifyingKey> {
    let (x, y) = point.strip_prefix(&[4])?.split_at_checked(COORDINATE)?;
    let x = FieldBytes::try_from(x).ok()?;
    let y = FieldBytes::try_from(y).ok()?;
    let point = AffinePoint::from_coordinates(&x, &y).into_option()?;
    VerifyingKey::from_affine(point).ok()
}

/// The signature of this Ecdsa-Sig-Value (RFC 3279 §2.2.3), in strict DER; nothing where r or s is zero or not below the
/// group's order.
pub fn signature_from_der(der: &[u8]) -> Option<Signature> {
    Signature::from_der(der).ok()
}

/// Whether `signature` is by `key` over `message`, which is hashed here.
///
/// High-S signatures are accepted: Nitro makes them, and RFC 9053 §2.1 does not forbid them. Zero and values from the
/// group's order on cannot be expressed by [`Signature`].
#[inline(never)]
pub fn verify(key: &VerifyingKey, message: &[u8], signature: &Signature) -> bool {
    key.verify(message, signature).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use p384::ecdsa::SigningKey;

    #[test]
    fn a_key_is_an_uncompressed_point_of_the_curve() {
        let key = *SigningKey::from_slice(&[7; 48]).unwrap().verifying_key();
        let point = key.to_sec1_point(false).as_bytes().to_vec();
        assert_eq!(public_key(&point), Some(key));

        let compressed = key.to_sec1_point(true);
        let changed = |at: usize, value: u8| {
            let mut point = point.clone();
            point[at] = value;
            point
        };
        let no_field_element = [&[4][..], &[0xff; 48], &point[49..]].concat();
        for (what, point) in [
            ("nothing", vec![]),
            ("the point at infinity", vec![0]),
            ("a tag alone", vec![4]),
            ("compressed", compressed.as_bytes().to_vec()),
            ("hybrid", changed(0, 6)),
            ("the origin", [&[4][..], &[0; 96]].concat()),
            ("a point beside the curve", changed(96, point[96] ^ 1)),
            (
                "a coordinate of the field's order and more",
                no_field_element,
            ),
            ("too short", point[..96].to_vec()),
            ("too long", [&point[..], &[0]].concat()),
        ] {
            assert_eq!(public_key(&point), None, "{what}");
        }
    }
}
