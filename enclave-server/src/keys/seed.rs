//! Randomness for keys.

use chacha20::ChaCha20Rng;
use getrandom::SysRng;
use rand_core::{SeedableRng, TryRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::KeyError;
use crate::nsm::Nsm;

/// Seeds a generator from both the kernel and the module, because a guest's kernel has little entropy just after boot. The
/// generator zeroizes itself when it is dropped.
pub(crate) fn seeded_rng(nsm: &dyn Nsm) -> Result<ChaCha20Rng, KeyError> {
    let mut kernel = Zeroizing::new([0; 32]);
    SysRng
        .try_fill_bytes(&mut *kernel)
        .map_err(KeyError::Random)?;
    let module = Zeroizing::new(nsm.random()?);
    let seed: Zeroizing<[u8; 32]> = Zeroizing::new(
        Sha256::new()
            .chain_update(b"clearseal/1 seed\0")
            .chain_update(kernel.as_slice())
            .chain_update(module.as_slice())
            .finalize()
            .into(),
    );
    Ok(ChaCha20Rng::from_seed(*seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_zeroizes_its_seed() {
        const fn wipes<T: zeroize::ZeroizeOnDrop>() {}
        wipes::<ChaCha20Rng>();
    }
}
