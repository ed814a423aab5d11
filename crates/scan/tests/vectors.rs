//! Storage: rounding, the stored form, and bytes that are refused.

use half::f16;
use proptest::prelude::*;
use scan::{MAX_DIMENSIONS, Precision, ScanError, Vectors};

fn bytes(vectors: &Vectors) -> Vec<u8> {
    let mut bytes = Vec::new();
    vectors.to_bytes(&mut bytes);
    bytes
}

fn int8_row(row: &[f32]) -> Vec<f32> {
    let vectors = Vectors::from_f32(row.len(), Precision::Int8, row).unwrap();
    vectors.row(0).unwrap()
}

#[test]
fn codes_are_stable() {
    assert_eq!(Precision::ALL.map(Precision::code), [0, 1, 2]);
    assert_eq!(Precision::from_code(1), Some(Precision::F16));
    assert_eq!(Precision::from_code(3), None);
}

#[test]
fn f32_is_stored_as_it_is() {
    let row = [1.5, -0.0, 1e-45, f32::MAX, f32::MIN_POSITIVE];
    let vectors = Vectors::from_f32(5, Precision::F32, &row).unwrap();
    let stored = vectors.row(0).unwrap();
    assert_eq!(stored.map_bits(), row.to_vec().map_bits());
    assert_eq!(vectors.row(1), None);
    assert_eq!(vectors.row_bytes(1), None);
    assert_eq!(vectors.row_bytes(0).unwrap(), bytes(&vectors));
}

trait MapBits {
    fn map_bits(&self) -> Vec<u32>;
}

impl MapBits for Vec<f32> {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|number| number.to_bits()).collect()
    }
}

#[test]
fn f16_rounds_to_the_nearest() {
    let vectors = Vectors::from_f32(3, Precision::F16, &[0.1, 65519.0, -1e-9]).unwrap();
    assert_eq!(vectors.row(0).unwrap(), [0.099_975_586, 65504.0, -0.0]);
    let refused = Vectors::from_f32(1, Precision::F16, &[0.0, 65520.0]);
    assert_eq!(refused.unwrap_err(), ScanError::OutOfRange { row: 1 });
}

#[test]
fn int8_has_a_scale_of_17_bits() {
    assert_eq!(
        int8_row(&[127.0, 0.5, 1.5, -2.5, -127.0]),
        [127.0, 0.0, 2.0, -2.0, -127.0]
    );
    let row = [1.0, -1.0, 0.3];
    let vectors = Vectors::from_f32(3, Precision::Int8, &row).unwrap();
    let bytes = bytes(&vectors);
    let scale = f32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(scale.to_bits() & 0x7f, 0);
    assert!(scale <= 1.0 / 127.0 && scale > 1.0 / 127.0 * (1.0 - 2_f32.powi(-16)));
    assert_eq!(bytes[4..], [127, (-127_i8).cast_unsigned(), 38]);
    for (stored, code) in vectors
        .row(0)
        .unwrap()
        .into_iter()
        .zip([127.0, -127.0, 38.0])
    {
        assert_eq!(f64::from(stored), f64::from(scale) * code);
    }
}

#[test]
fn int8_of_extreme_rows_is_finite() {
    let stored = int8_row(&[f32::MAX, f32::MIN, 1.0]);
    assert!(stored.iter().all(|number| number.is_finite()));
    assert!(stored[0] > f32::MAX * 0.999 && stored[1] == -stored[0] && stored[2] == 0.0);
    assert_eq!(int8_row(&[1e-45, -1e-38]), [0.0, 0.0]);
    assert_eq!(int8_row(&[0.0, -0.0]).map_bits(), [0, 0]);
    assert_ne!(int8_row(&[1.6e-36, 0.0]), [0.0, 0.0]);
}

#[test]
fn unusable_numbers_and_lengths_are_refused() {
    for precision in Precision::ALL {
        let build = |dimensions, rows: &[f32]| {
            Vectors::from_f32(dimensions, precision, rows).map(|vectors| vectors.len())
        };
        assert_eq!(build(2, &[]), Ok(0));
        assert_eq!(build(2, &[0.0; 4]), Ok(2));
        assert_eq!(build(2, &[0.0; 3]), Err(ScanError::Length { length: 3 }));
        assert_eq!(build(0, &[]), Err(ScanError::Dimensions { dimensions: 0 }));
        assert_eq!(build(MAX_DIMENSIONS, &[0.0; MAX_DIMENSIONS]), Ok(1));
        let dimensions = MAX_DIMENSIONS + 1;
        assert_eq!(
            build(dimensions, &[]),
            Err(ScanError::Dimensions { dimensions })
        );
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(build(1, &[0.0, bad]), Err(ScanError::NotFinite { row: 1 }));
        }
    }
}

#[test]
fn stored_forms_that_are_never_written_are_refused() {
    let read = |precision, rows, bytes: &[u8]| {
        Vectors::from_bytes(2, precision, rows, bytes).map(|vectors| vectors.len())
    };
    for precision in Precision::ALL {
        let length = precision.row_bytes(2);
        assert_eq!(read(precision, 1, &vec![0; length]), Ok(1));
        for (rows, length) in [
            (1, length - 1),
            (1, length + 1),
            (2, length),
            (usize::MAX, 0),
        ] {
            let refused = read(precision, rows, &vec![0; length]);
            assert_eq!(refused, Err(ScanError::Length { length }));
        }
    }
    let nan = [f32::NAN, 0.0].map(f32::to_le_bytes).concat();
    assert_eq!(
        read(Precision::F32, 1, &nan),
        Err(ScanError::NotFinite { row: 0 })
    );
    for bad in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
        let bytes = [f16::ONE, f16::ONE, f16::ZERO, bad]
            .map(f16::to_le_bytes)
            .concat();
        assert_eq!(
            read(Precision::F16, 2, &bytes),
            Err(ScanError::NotFinite { row: 1 })
        );
    }
    let int8 = |scale: f32, codes: [i8; 2]| {
        let mut bytes = scale.to_le_bytes().to_vec();
        bytes.extend(codes.map(i8::cast_unsigned));
        read(Precision::Int8, 1, &bytes)
    };
    assert_eq!(int8(1.0, [127, -127]), Ok(1));
    for (scale, codes) in [
        (1.0, [-128, 0]),
        (-1.0, [1, 1]),
        (f32::NAN, [1, 1]),
        (f32::INFINITY, [1, 1]),
        (f32::MAX, [1, 1]),
        (1e38, [1, 1]),
        (1e-39, [1, 1]),
        (1.0_f32.next_up(), [1, 1]),
        (0.0, [1, 0]),
        (-0.0, [0, 0]),
    ] {
        assert_eq!(
            int8(scale, codes),
            Err(ScanError::Malformed { row: 0 }),
            "{scale}"
        );
    }
}

proptest! {
    #[test]
    fn the_stored_form_gives_the_same_rows(
        dimensions in 1..20_usize,
        code in 0..3_u8,
        numbers in prop::collection::vec(-65000_f32..65000.0, 0..900),
    ) {
        let precision = Precision::from_code(code).unwrap();
        let rows = numbers.len() / dimensions;
        let numbers = &numbers[..rows * dimensions];
        let vectors = Vectors::from_f32(dimensions, precision, numbers).unwrap();
        prop_assert_eq!(vectors.len(), rows);
        let stored = bytes(&vectors);
        prop_assert_eq!(stored.len(), rows * precision.row_bytes(dimensions));
        let again = Vectors::from_bytes(dimensions, precision, rows, &stored).unwrap();
        prop_assert_eq!(&bytes(&again), &stored);
        for (row, numbers) in numbers.chunks(dimensions).enumerate() {
            let kept = vectors.row(row).unwrap();
            prop_assert_eq!(&again.row(row).unwrap(), &kept);
            prop_assert_eq!(vectors.row_bytes(row).unwrap(), &stored[row * precision.row_bytes(dimensions)..][..precision.row_bytes(dimensions)]);
            let largest = numbers.iter().fold(0_f32, |most, number| most.max(number.abs()));
            for (kept, number) in kept.iter().zip(numbers) {
                let error = match precision {
                    Precision::F32 => 0.0,
                    Precision::F16 => number.abs() / 2048.0 + 6e-8,
                    // Half a step, and at the ends the truncation of the scale.
                    Precision::Int8 => largest / 127.0 * 0.502,
                };
                prop_assert!((kept - number).abs() <= error, "{} {}", kept, number);
            }
            if precision == Precision::Int8 && largest > 0.0 {
                prop_assert!(kept.iter().any(|kept| kept.abs() >= largest * (1.0 - 2_f32.powi(-16))));
            }
        }
    }
}
