//! An answer of the attestation endpoint that also proves the enclave's keys to be in a witnessed log.
//!
//! ```text
//! answer    CBOR array [evidence, proof]: two byte strings
//! evidence  the answer without a proof: map {1: document, 2: manifest, …}
//! proof     c2sp.org/tlog-proof of the record `keys` with that manifest; empty where the log has none yet
//! ```
//!
//! Lengths are in their shortest form (RFC 8949 §4.2.1).

/// Head of an array of two.
const PAIR: u8 = 0x82;

/// Joins evidence and proof.
pub fn join(evidence: &[u8], proof: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(evidence.len() + proof.len() + 16);
    out.push(PAIR);
    push_bytes(&mut out, evidence);
    push_bytes(&mut out, proof);
    out
}

/// Splits an answer into evidence and proof. `None` where it is not of this form, such as evidence without a proof.
pub fn split(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = answer.strip_prefix(&[PAIR])?;
    let evidence = take_bytes(&mut rest)?;
    let proof = take_bytes(&mut rest)?;
    rest.is_empty().then_some((evidence, proof))
}

/// Finds the manifest in evidence, which is not judged here.
pub fn manifest(evidence: &[u8]) -> Option<&[u8]> {
    let (&(0xa2 | 0xa3), mut rest) = evidence.split_first()? else {
        return None;
    };
    rest = rest.strip_prefix(&[1])?;
    take_bytes(&mut rest)?;
    rest = rest.strip_prefix(&[2])?;
    take_bytes(&mut rest)
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len() as u64;
    let [.., a, b, c, d] = length.to_be_bytes();
    match length {
        0..24 => out.push(0x40 | d),
        24..0x100 => out.extend([0x58, d]),
        0x100..0x1_0000 => out.extend([0x59, c, d]),
        0x1_0000..0x1_0000_0000 => out.extend([0x5a, a, b, c, d]),
        _ => {
            out.push(0x5b);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&head, after) = rest.split_first()?;
    let (length, after) = match head {
        0x40..0x58 => (usize::from(head - 0x40), after),
        0x58 => take_length::<1>(after, 24)?,
        0x59 => take_length::<2>(after, 0x100)?,
        0x5a => take_length::<4>(after, 0x1_0000)?,
        _ => return None,
    };
    let (bytes, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

/// Takes a length of `N` bytes, which is at least `least`.
fn take_length<const N: usize>(bytes: &[u8], least: usize) -> Option<(usize, &[u8])> {
    let (digits, after) = bytes.split_first_chunk::<N>()?;
    let length = digits
        .iter()
        .fold(0, |length, digit| length << 8 | usize::from(*digit));
    (length >= least).then_some((length, after))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_answer_has_one_form() {
        for length in [0, 1, 23, 24, 255, 256, 65_535, 65_536] {
            let evidence = vec![7; length];
            let answer = join(&evidence, b"proof");
            assert_eq!(split(&answer), Some((&evidence[..], &b"proof"[..])));
            for cut in [0, 1, answer.len() - 1] {
                assert_eq!(split(&answer[..cut]), None, "{length}");
            }
            assert_eq!(split(&[&answer[..], &[0]].concat()), None);
        }
        // Longer than the shortest form, of indefinite length, not byte strings, and lengths beyond the end.
        for bad in [
            &[0x82, 0x58, 1, 0, 0x40][..],
            &[0x82, 0x59, 0, 1, 0, 0x40],
            &[0x9f, 0x40, 0x40, 0xff],
            &[0x82, 0x60, 0x60],
            &[0x82, 0x5a, 0xff, 0xff, 0xff, 0xff, 0x40],
        ] {
            assert_eq!(split(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_manifest_is_the_second_entry() {
        let evidence = [0xa2, 1, 0x41, 9, 2, 0x42, 5, 6];
        assert_eq!(manifest(&evidence), Some(&[5, 6][..]));
        let shared = [0xa3, 1, 0x41, 9, 2, 0x42, 5, 6, 3, 0x40];
        assert_eq!(manifest(&shared), Some(&[5, 6][..]));
        for bad in [
            &b""[..],
            &[0xa2, 2, 0x40],
            &[0xa2, 1, 0x40],
            &[0xa1, 1, 0x40, 2, 0x40],
        ] {
            assert_eq!(manifest(bad), None);
        }
    }
}
