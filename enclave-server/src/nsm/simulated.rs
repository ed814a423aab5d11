//! A simulated module inside this process: genuine format and signatures, under a root made at the start, which no client trusts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use forge::{Contents, DevelopmentRoot, Issuer};
use getrandom::SysRng;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng, TryRng};
use sha2::{Digest, Sha384};
use zeroize::Zeroizing;

use super::{AttestRequest, Nsm, NsmError, Pcr, check_lengths};
use crate::Clock;

/// Signs documents in the hypervisor's format. They prove nothing.
///
/// Its registers are [`forge::simulated_registers`] of the running binary and the model.
pub struct SimulatedNsm {
    signer: Mutex<Signer>,
    root: Vec<u8>,
    pcrs: BTreeMap<u8, Pcr>,
    clock: Clock,
}

impl SimulatedNsm {
    /// Makes a fresh root; `binary` is the result of [`hash_running_binary`].
    ///
    /// # Errors
    /// [`NsmError::Simulation`] where the kernel gives no random bytes.
    pub fn new(binary: &Pcr, model_sha256: &[u8; 32], clock: Clock) -> Result<Self, NsmError> {
        Self::with_registers(
            forge::simulated_registers(binary, model_sha256),
            None,
            clock,
        )
    }

    /// Signs over these registers, which may be those of an emulated device that measures but cannot sign. `root` is the seed of a
    /// root that a simulated KMS knows too; `None` makes a fresh root.
    ///
    /// # Errors
    /// [`NsmError::Simulation`] where the kernel gives no random bytes.
    pub fn with_registers(
        pcrs: BTreeMap<u8, Pcr>,
        root: Option<&[u8; 32]>,
        clock: Clock,
    ) -> Result<Self, NsmError> {
        let mut seed = Zeroizing::new([0; 32]);
        SysRng
            .try_fill_bytes(&mut *seed)
            .map_err(|error| NsmError::Simulation(error.to_string()))?;
        let mut rng = ChaCha20Rng::from_seed(*seed);
        let now = clock.now().wall.0;
        let root = match root {
            Some(seed) => DevelopmentRoot::generate(
                &mut ChaCha20Rng::from_seed(*seed),
                forge::SHARED_ROOT_MADE_AT,
            ),
            None => DevelopmentRoot::generate(&mut rng, now),
        };
        let issuer = Issuer::new(root, &mut rng, now);
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
        check_lengths(request)?;
        let contents = Contents {
            pcrs: self.pcrs.clone(),
            public_key: Some(request.public_key.to_vec()),
            user_data: Some(request.user_data.to_vec()),
            nonce: Some(request.nonce.to_vec()),
        };
        let mut signer = self.signer.lock().unwrap_or_else(PoisonError::into_inner);
        let Signer { issuer, rng } = &mut *signer;
        // Also renews the leaf certificate shortly before its three hours end.
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

/// Reads the seed of a root: 64 hex digits.
///
/// # Errors
/// [`NsmError::Simulation`] where the file cannot be read or does not hold 64 hex digits.
pub fn read_root(path: &Path) -> Result<Zeroizing<[u8; 32]>, NsmError> {
    let failed = |what: &dyn std::fmt::Display| {
        NsmError::Simulation(format!("the root's seed in {}: {what}", path.display()))
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut text = Zeroizing::new(Vec::with_capacity(66));
    file.take(66)
        .read_to_end(&mut text)
        .map_err(|error| failed(&error))?;
    let mut seed = Zeroizing::new([0; 32]);
    let digits = text.trim_ascii_end();
    if digits.len() != 64 || base16ct::lower::decode(digits, &mut *seed).is_err() {
        return Err(failed(&"not 64 hex digits"));
    }
    Ok(seed)
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

    use attestation::{AttestationDocument, CheckLog, SignatureMemory, TrustAnchor, UnixMillis};

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
        let parse = || AttestationDocument::parse(&document, &mut CheckLog::new()).unwrap();
        let root = TrustAnchor::development(nsm.development_root().unwrap()).unwrap();
        let authentic = parse()
            .authenticate(
                &root,
                now,
                &mut SignatureMemory::new(),
                &mut CheckLog::new(),
            )
            .unwrap();
        assert_eq!(&authentic.claims().pcrs, nsm.pcrs());
        assert_eq!(authentic.claims().nonce.as_deref(), Some(REQUEST.nonce));
        assert!(
            parse()
                .authenticate(
                    &TrustAnchor::aws_nitro_g1(),
                    now,
                    &mut SignatureMemory::new(),
                    &mut CheckLog::new()
                )
                .is_err()
        );
        assert!(nsm.is_simulated());
    }

    #[test]
    fn the_leaf_is_renewed_before_it_ends() {
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
            let mut log = CheckLog::new();
            AttestationDocument::parse(&document, &mut log)
                .unwrap()
                .authenticate(&root, moment, &mut SignatureMemory::new(), &mut log)
                .unwrap();
        }
    }

    #[test]
    fn a_seed_of_64_digits_determines_the_root() {
        let root = |seed: u8| {
            let pcrs = forge::simulated_registers(&[8; 48], &[9; 32]);
            let nsm = SimulatedNsm::with_registers(pcrs, Some(&[seed; 32]), Clock::system());
            nsm.unwrap().development_root().unwrap().to_vec()
        };
        assert_eq!(root(1), root(1));
        assert_ne!(root(1), root(2));
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, good) in [
            ("07".repeat(32), true),
            ("07".repeat(32) + "\n", true),
            ("07".repeat(31), false),
            ("07".repeat(33), false),
            ("xx".repeat(32), false),
        ] {
            std::fs::write(file.path(), &text).unwrap();
            let seed = read_root(file.path());
            assert_eq!(seed.is_ok_and(|seed| *seed == [7; 32]), good, "{text}");
        }
        assert!(read_root(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn registers_tell_binary_and_model_apart() {
        let base = forge::simulated_registers(&[1; 48], &[1; 32]);
        let (binary, model) = (
            forge::simulated_registers(&[2; 48], &[1; 32]),
            forge::simulated_registers(&[1; 48], &[2; 32]),
        );
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
