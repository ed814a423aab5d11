//! PADMÉ: rounds a length up so that it reveals O(log log n) bits and costs at most 12 percent.
//!
//! Source: Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs", PoPETs 2019, §4.

/// Length to which a message of `length` bytes is padded.
///
/// A length that `usize` cannot round up stays unchanged.
///
/// ```
/// assert_eq!(protocol::padme::padded_len(9), 10);
/// assert_eq!(protocol::padme::padded_len(1_000), 1_024);
/// ```
pub const fn padded_len(length: usize) -> usize {
    if length < 2 {
        return length;
    }
    // Only as many leading bits survive as the exponent itself needs; `exponent` is at least 1 here.
    let exponent = length.ilog2();
    let mantissa = exponent.ilog2() + 1;
    let mask = (1usize << exponent.saturating_sub(mantissa)) - 1;
    match length.checked_add(mask) {
        Some(sum) => sum & !mask,
        None => length,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::padded_len;

    #[test]
    fn small_lengths_by_hand() {
        let by_hand = [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 3),
            (7, 7),
            (8, 8),
            (9, 10),
            (17, 18),
            (33, 36),
            (100, 104),
            (1_000, 1_024),
        ];
        for (length, padded) in by_hand {
            assert_eq!(padded_len(length), padded, "{length}");
        }
        assert_eq!(padded_len(usize::MAX), usize::MAX);
    }

    proptest! {
        #[test]
        fn never_shorter_at_most_twelve_percent_longer_and_stable(length in 0usize..1 << 30) {
            let padded = padded_len(length);
            prop_assert!(padded >= length);
            prop_assert!((padded - length) * 100 <= length * 12);
            prop_assert_eq!(padded_len(padded), padded);
        }
    }
}
