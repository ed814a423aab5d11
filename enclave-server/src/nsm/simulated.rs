//! A module that is this process itself: real format, real signatures, under a root made at start that nobody trusts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use forge::{Contents, DevelopmentRoot, Issuer};
use getrandom::SysRng;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng, TryRng};
use sha2::{Digest, Sha384};
use zeroize::Zeroizing;

use super::{AttestRequest, Nsm, NsmError, Pcr, check};
use crate::Clock;

/// Signs documents like the hypervisor does, and proves nothing by it.
///
/// Its registers, each `SHA-384(48 zero bytes ‖ SHA-384(contents))` as a register extended once is:
///
/// | PCR | contents |
/// | --- | --- |
/// | 0, the image | SHA-384 of the running binary ‖ SHA-256 of the model's artifact set |
/// | 1, kernel and boot | SHA-384 of the running binary: a simulation boots nothing else |
/// | 2, the application | SHA-256 of the model's artifact set |
/// | 3, IAM role | `simulated role` |
/// | 4, instance | `simulated instance` |
/// | 5 to 15 | never extended, all zero |
pub struct SimulatedNsm {
    signer: Mutex<Signer>,
    root: Vec<u8>,
    pcrs: BTreeMap<u8, Pcr>,
    clock: Clock,
}

impl SimulatedNsm {
    /// Makes a fresh root; `binary` is what [`hash_running_binary`] says.
    ///
    /// # Errors
    /// [`NsmError::Simulation`] where the kernel gives no random bytes.
    pub fn new(binary: &Pcr, model_sha256: &[u8; 32], clock: Clock) -> Result<Self, NsmError> {
        Self::signing(measure(binary, model_sha256), clock)
    }

    /// Makes a fresh root, and signs these registers: those of an emulated device, which measures but cannot sign.
    ///
    /// # Errors
    /// [`NsmError::Simulation`] where the kernel gives no random bytes.
    pub fn signing(pcrs: BTreeMap<u8, Pcr>, clock: Clock) -> Result<Self, NsmError> {
        let mut seed = Zeroizing::new([0; 32]);
        SysRng
            .try_fill_bytes(&mut *seed)
            .map_err(|error| NsmError::Simulation(error.to_string()))?;
        let mut rng = ChaCha20Rng::from_seed(*seed);
        let now = clock.now().wall.0;
        let issuer = Issuer::new(DevelopmentRoot::generate(&mut rng, now), &mut rng, now);
        Ok(Self {
            root: issuer.root_der().to_vec(),
            signer: Mutex::new(Signer { issuer, rng }),
            pcrs,
            clock,
        })
    }
}

impl Nsm for SimulatedNsm {
    fn attest(&self, request: &AttestRequest<'_>) -> Result<Vec<u8>, NsmError> {
        check(request)?;
        let contents = Contents {
            pcrs: self.pcrs.clone(),
            public_key: Some(request.public_key.to_vec()),
            user_data: Some(request.user_data.to_vec()),
            nonce: Some(request.nonce.to_vec()),
        };
        let mut signer = self.signer.lock().unwrap_or_else(PoisonError::into_inner);
        let Signer { issuer, rng } = &mut *signer;
        // Also renews the leaf when little of its three hours is left.
        Ok(issuer.document(&contents, self.clock.now().wall.0, rng))
    }

    fn random(&self) -> Result<[u8; 32], NsmError> {
        let mut bytes = [0; 32];
        self.signer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .rng
            .fill_bytes(&mut bytes);
        Ok(bytes)
    }

    fn pcrs(&self) -> &BTreeMap<u8, Pcr> {
        &self.pcrs
    }

    fn development_root(&self) -> Option<&[u8]> {
        Some(&self.root)
    }
}

struct Signer {
    issuer: Issuer,
    rng: ChaCha20Rng,
}

fn measure(binary: &Pcr, model_sha256: &[u8; 32]) -> BTreeMap<u8, Pcr> {
    let mut pcrs: BTreeMap<u8, Pcr> = (0..16).map(|index| (index, [0; 48])).collect();
    let image = [&binary[..], model_sha256].concat();
    for (index, contents) in [
        (0, &image[..]),
        (1, binary),
        (2, model_sha256),
        (3, b"simulated role"),
        (4, b"simulated instance"),
    ] {
        pcrs.insert(index, extended_once(contents));
    }
    pcrs
}

fn extended_once(contents: &[u8]) -> Pcr {
    Sha384::new()
        .chain_update([0; 48])
        .chain_update(Sha384::digest(contents))
        .finalize()
        .into()
}

/// SHA-384 of the file that this process runs.
///
/// # Errors
/// [`NsmError::Simulation`] where it cannot be read.
pub fn hash_running_binary() -> Result<Pcr, NsmError> {
    read_and_hash("/proc/self/exe").map_err(|error| NsmError::Simulation(error.to_string()))
}

fn read_and_hash(path: &str) -> io::Result<Pcr> {
    let mut file = File::open(path)?;
    let mut hash = Sha384::new();
    let mut block = vec![0; 256 * 1024];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hash.finalize().into()),
            count => hash.update(&block[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use attestation::{AttestationDocument, Ladder, TrustAnchor, UnixMillis};

    use super::*;
    use crate::Moment;

    const REQUEST: AttestRequest<'static> = AttestRequest {
        nonce: &[1; 32],
        user_data: &[2; 32],
        public_key: &[3; 32],
    };

    #[test]
    fn documents_are_authentic_under_the_development_root_only() {
        let nsm = SimulatedNsm::new(&[8; 48], &[9; 32], Clock::system()).unwrap();
        let document = nsm.attest(&REQUEST).unwrap();
        let now = Clock::system().now().wall;
        let parse = || AttestationDocument::parse(&document, &mut Ladder::new()).unwrap();
        let root = TrustAnchor::development(nsm.development_root().unwrap()).unwrap();
        let authentic = parse()
            .authenticate(&root, now, &mut Ladder::new())
            .unwrap();
        assert_eq!(&authentic.claims().pcrs, nsm.pcrs());
        assert_eq!(authentic.claims().nonce.as_deref(), Some(REQUEST.nonce));
        assert!(
            parse()
                .authenticate(&TrustAnchor::aws_nitro_g1(), now, &mut Ladder::new())
                .is_err()
        );
        assert!(nsm.is_simulated());
    }

    #[test]
    fn the_leaf_is_renewed_before_it_runs_out() {
        let now = Arc::new(AtomicU64::new(1_800_000_000_000));
        let nsm = SimulatedNsm::new(&[8; 48], &[9; 32], {
            let now = Arc::clone(&now);
            Clock::new(move || Moment {
                wall: UnixMillis(now.load(Ordering::Relaxed)),
                steady: Duration::ZERO,
            })
        })
        .unwrap();
        let root = TrustAnchor::development(nsm.development_root().unwrap()).unwrap();
        for _ in 0..30 {
            let document = nsm.attest(&REQUEST).unwrap();
            let moment = UnixMillis(now.fetch_add(3_600_000, Ordering::Relaxed));
            let mut ladder = Ladder::new();
            AttestationDocument::parse(&document, &mut ladder)
                .unwrap()
                .authenticate(&root, moment, &mut ladder)
                .unwrap();
        }
    }

    #[test]
    fn registers_tell_binary_and_model_apart() {
        let base = measure(&[1; 48], &[1; 32]);
        let (binary, model) = (measure(&[2; 48], &[1; 32]), measure(&[1; 48], &[2; 32]));
        let changed = |other: &BTreeMap<u8, Pcr>| {
            (0..16)
                .filter(|index| other[index] != base[index])
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (changed(&binary), changed(&model)),
            (vec![0, 1], vec![0, 2])
        );
        assert!((5..16).all(|index| base[&index] == [0; 48]) && base[&3] != base[&4]);
        assert_eq!(base.len(), 16);
    }
}
