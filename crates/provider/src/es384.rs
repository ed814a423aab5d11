//! ECDSA on P-384 with SHA-384 (FIPS 186-5 §6.4.2), the only signature scheme of a Nitro attestation.
//!
//! A verification spends nearly all its time here, five times a document, although this is a small part of the verifier's
//! code. `p384` reads keys and signatures on every platform, so that one implementation decides which bytes are valid.

pub use p384::ecdsa::{Signature, VerifyingKey};

use p384::ecdsa::signature::Verifier;
use p384::elliptic_curve::point::AffineCoordinates;
use p384::{AffinePoint, FieldBytes};

use crate::native::Native;

/// Bytes of one coordinate.
const COORDINATE: usize = 48;

/// The key of an uncompressed point: 04 and two coordinates of 48 bytes (SEC 1 §2.3.3, RFC 5480 §2.2).
///
/// Refuses everything else: the point at infinity, a point off the curve or with a coordinate not below the
/// field's order, and the compressed form, which AWS does not write and whose square root would add code to every page.
pub fn public_key(point: &[u8]) -> Option<VerifyingKey> {
    let (x, y) = point.strip_prefix(&[4])?.split_at_checked(COORDINATE)?;
    let x = FieldBytes::try_from(x).ok()?;
    let y = FieldBytes::try_from(y).ok()?;
    let point = AffinePoint::from_coordinates(&x, &y).into_option()?;
    VerifyingKey::from_affine(point).ok()
}

/// The signature of this Ecdsa-Sig-Value (RFC 3279 §2.2.3), in strict DER; `None` if r or s is zero or not below the
/// group's order.
pub fn signature_from_der(der: &[u8]) -> Option<Signature> {
    Signature::from_der(der).ok()
}

/// Whether `key` signed `message`, which is hashed here.
///
/// High-S signatures are accepted: Nitro makes them, and RFC 9053 §2.1 does not forbid them. Zero and values from the
/// group's order on cannot be expressed by [`Signature`].
#[inline(never)]
pub fn verify(key: &VerifyingKey, message: &[u8], signature: &Signature) -> bool {
    match Native::detect() {
        // The type guarantees that `key` is a point of the curve.
        Some(native) => {
            let point = key.to_sec1_point(false);
            native.verifies_es384(point.as_bytes(), message, &signature.to_bytes())
        }
        None => verify_portable(key, message, signature),
    }
}

/// Like [`verify`], always with `p384`, which also runs in a browser and on processors that `graviola` does not support.
#[inline(never)]
pub fn verify_portable(key: &VerifyingKey, message: &[u8], signature: &Signature) -> bool {
    key.verify(message, signature).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use p384::Scalar;
    use p384::ecdsa::SigningKey;
    use p384::ecdsa::signature::Signer;
    use p384::elliptic_curve::PrimeField;

    use super::*;

    #[test]
    fn both_libraries_judge_alike() {
        let mut right = 0;
        let mut alike = |key: &VerifyingKey, message: &[u8], signature: &Signature| {
            let portable = verify_portable(key, message, signature);
            assert_eq!(verify(key, message, signature), portable, "{signature}");
            right += usize::from(portable);
        };
        // The smallest and greatest keys too: sums of points then reach the special cases of the formulas.
        let one = Scalar::ONE;
        let scalars = [one, one.double(), -one, -one.double(), one.double() + one];
        let edges = scalars.map(|scalar| scalar.to_repr());
        let seeds = (1..24).map(|seed| [seed; 48].into());
        for scalar in edges.into_iter().chain(seeds) {
            let signer = SigningKey::from_bytes(&scalar).unwrap();
            let key = signer.verifying_key();
            for length in [0, 1, 47, 48, 111, 112, 5_000] {
                let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
                let signature: Signature = signer.sign(&message);
                alike(key, &message, &signature);
                let (r, s) = signature.split_scalars();
                let high = Signature::from_scalars(*r, -*s).unwrap();
                alike(key, &message, &high);
                alike(key, b"another", &signature);
                for bit in [0, 7, 383, 384, 500, 767] {
                    let mut changed = signature.to_bytes();
                    changed[bit / 8] ^= 1 << (bit % 8);
                    if let Ok(changed) = Signature::from_slice(&changed) {
                        alike(key, &message, &changed);
                    }
                }
            }
            for (r, s) in edges
                .iter()
                .flat_map(|r| edges.iter().map(move |s| (*r, *s)))
            {
                alike(key, b"", &Signature::from_scalars(r, s).unwrap());
            }
        }
        assert_eq!(right, 28 * 7 * 2);
    }

    /// u1 G and u2 Q are equal or opposite, or one of them is zero: the sum has no x to compare, or needs doubling.
    #[test]
    fn both_libraries_judge_sums_of_equal_and_opposite_points_alike() {
        use p384::elliptic_curve::ops::Reduce;
        use sha2::{Digest, Sha384};

        let hash = FieldBytes::from(<[u8; 48]>::from(Sha384::digest(b"message")));
        let e = <Scalar as Reduce<FieldBytes>>::reduce(&hash);
        for r in [Scalar::ONE, e, -e, Scalar::from(7_u64)] {
            // Q = ±(e / r) G makes u2 Q = ±u1 G for any s.
            let scalar = e * r.invert().unwrap();
            for scalar in [scalar, -scalar] {
                let signer = SigningKey::from_bytes(&scalar.to_repr()).unwrap();
                for s in [Scalar::ONE, e, -r, Scalar::from(3_u64)] {
                    let signature = Signature::from_scalars(r.to_repr(), s.to_repr()).unwrap();
                    let key = signer.verifying_key();
                    assert_eq!(
                        verify(key, b"message", &signature),
                        verify_portable(key, b"message", &signature)
                    );
                }
            }
        }
        // 2 u1 G = (2 e / s) G is r's own point: a valid signature that needs the doubling.
        let k = Scalar::from(5_u64);
        let signer = SigningKey::from_bytes(&k.to_repr()).unwrap();
        let r = signer.verifying_key().to_sec1_point(false);
        let r = <Scalar as Reduce<FieldBytes>>::reduce(
            &FieldBytes::try_from(&r.as_bytes()[1..49]).unwrap(),
        );
        let s = e.double() * k.invert().unwrap();
        let signer = SigningKey::from_bytes(&(e * r.invert().unwrap()).to_repr()).unwrap();
        let signature = Signature::from_scalars(r.to_repr(), s.to_repr()).unwrap();
        assert!(verify_portable(
            signer.verifying_key(),
            b"message",
            &signature
        ));
        assert!(verify(signer.verifying_key(), b"message", &signature));
    }

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
            ("a point off the curve", changed(96, point[96] ^ 1)),
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
