//! Registers of a simulated enclave.

use std::collections::BTreeMap;

use sha2::{Digest, Sha384};

/// Registers by index, each `SHA-384(48 zero bytes ‖ SHA-384(contents))`, like a register extended once:
///
/// | PCR | contents |
/// | --- | --- |
/// | 0, the image | SHA-384 of the running binary ‖ SHA-256 of the model's artifact set |
/// | 1, kernel and boot | SHA-384 of the running binary: a simulation boots nothing else |
/// | 2, the application | SHA-256 of the model's artifact set |
/// | 3, IAM role | `simulated role` |
/// | 4, instance | `simulated instance` |
/// | 5 to 15 | never extended, all zero |
///
/// The simulated module and the simulated KMS must agree on them.
pub fn simulated_registers(binary: &[u8; 48], model_sha256: &[u8; 32]) -> BTreeMap<u8, [u8; 48]> {
    let mut pcrs: BTreeMap<u8, [u8; 48]> = (0..16).map(|index| (index, [0; 48])).collect();
    let image = [&binary[..], model_sha256].concat();
    for (index, contents) in [
        (0, &image[..]),
        (1, binary),
        (2, model_sha256),
        (3, b"simulated role"),
        (4, b"simulated instance"),
    ] {
        pcrs.insert(index, extend_once(contents));
    }
    pcrs
}

fn extend_once(contents: &[u8]) -> [u8; 48] {
    Sha384::new()
        .chain_update([0; 48])
        .chain_update(Sha384::digest(contents))
        .finalize()
        .into()
}
