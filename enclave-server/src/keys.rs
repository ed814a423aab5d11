//! Key generations: sealing keys, receipt key and the manifest that describes them, replaced at intervals.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use attestation::{
    Kem, ModelIdentity, PROTOCOL_VERSION, SecurityMode, ServiceManifest, manifest_binding,
};
use getrandom::SysRng;
use protocol::ohttp::GatewayKeys;
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng, TryRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::api::issued::Issued;
use crate::log::{MAX_RECENT, ReceiptLog};
use crate::nsm::{Nsm, NsmError};

/// What every generation's manifest says alike.
#[derive(Clone, Debug)]
pub struct Description {
    /// The model.
    pub model: ModelIdentity,
    /// See [`ServiceManifest::policy_version`].
    pub policy_version: String,
    /// See [`ServiceManifest::security_mode`].
    pub security_mode: SecurityMode,
}

/// The keys of one period. Holds secrets: no `Debug`, no `Clone`; they are zeroized when the last user is done.
pub struct Generation {
    /// Opens sealed requests.
    pub sealing: GatewayKeys,
    /// Signs receipts.
    pub receipts: ReceiptSigner,
    /// The manifest, as it is sent.
    pub manifest: Vec<u8>,
    /// What the NSM signs as `user_data`.
    pub binding: [u8; 32],
    /// What the NSM signs as `public_key`: the X25519 sealing key.
    pub public_key: Vec<u8>,
    /// Documents that were issued for these keys.
    pub issued: Issued,
    /// Receipts that were signed with the receipt key.
    pub log: ReceiptLog,
    key_ids: Vec<u8>,
    not_after: u64,
}

/// The current generation, and the one before it for as long as its manifest is valid.
pub struct Keyring {
    ring: ArcSwap<Ring>,
    description: Description,
    rotate_every: Duration,
}

impl Keyring {
    /// Makes the first generation. `now` is in Unix seconds, here and below.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn new(
        description: Description,
        rotate_every: Duration,
        nsm: &dyn Nsm,
        now: u64,
    ) -> Result<Self, KeyError> {
        let mut rng = rng(nsm)?;
        // Not always the same identifier after a restart: a client of the previous process is then told so by the
        // identifier, instead of finding that its request does not open.
        let first = (rng.next_u32() & 0xfe) as u8;
        let current = Arc::new(Generation::new(
            &description,
            first,
            rotate_every,
            &mut rng,
            now,
        )?);
        Ok(Self {
            ring: ArcSwap::from_pointee(Ring {
                current,
                previous: None,
            }),
            description,
            rotate_every,
        })
    }

    /// The generation that new documents attest.
    pub fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.ring.load().current)
    }

    /// Every generation that is still there, the current one first. The last answers no more requests once its manifest has
    /// ended, but for a while its log can be fetched.
    pub fn generations(&self) -> Vec<Arc<Generation>> {
        let ring = self.ring.load();
        std::iter::once(&ring.current)
            .chain(&ring.previous)
            .cloned()
            .collect()
    }

    /// The generation that owns this key identifier, while its manifest is valid.
    pub fn by_key_id(&self, key_id: u8, now: u64) -> Option<Arc<Generation>> {
        let ring = self.ring.load();
        std::iter::once(&ring.current)
            .chain(&ring.previous)
            .find(|generation| generation.key_ids.contains(&key_id) && now <= generation.not_after)
            .cloned()
    }

    /// Makes a new generation, and keeps the current one as the previous.
    ///
    /// # Errors
    /// [`KeyError`]; the old generation then stays.
    pub fn rotate(&self, nsm: &dyn Nsm, now: u64) -> Result<(), KeyError> {
        let previous = self.current();
        let first = previous
            .key_ids
            .first()
            .copied()
            .unwrap_or(0)
            .wrapping_add(2);
        let current = Arc::new(Generation::new(
            &self.description,
            first,
            self.rotate_every,
            &mut rng(nsm)?,
            now,
        )?);
        self.ring.rcu(|ring| Ring {
            current: Arc::clone(&current),
            previous: Some(Arc::clone(&ring.current)),
        });
        Ok(())
    }

    /// Forgets the previous generation [`LINGER`] after its manifest has ended.
    pub fn retire(&self, now: u64) {
        // Read and replaced as one step: a rotation at the same moment is not undone.
        self.ring.rcu(|ring| Ring {
            current: Arc::clone(&ring.current),
            previous: ring
                .previous
                .clone()
                .filter(|previous| now <= previous.not_after + LINGER.as_secs()),
        });
    }

    /// How often [`rotate`](Self::rotate) is due.
    pub fn rotate_every(&self) -> Duration {
        self.rotate_every
    }

    /// What every manifest says alike.
    pub fn description(&self) -> &Description {
        &self.description
    }
}

/// How long a generation stays after its manifest has ended: the host fetches its last receipts, and requests that came in
/// the last second are answered. Nothing new is accepted in that time.
pub const LINGER: Duration = Duration::from_secs(60);

/// How long the keys of a generation work after the next one was made: a client that attested just before the
/// rotation is not turned away, and stolen memory does not open requests of the day before.
pub fn overlap(rotate_every: Duration) -> Duration {
    rotate_every.min(Duration::from_secs(600))
}

/// Why no keys could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The kernel gave no random bytes.
    #[error("RANDOM_MISSING: the kernel gave no random bytes ({0}); restart the enclave")]
    Random(getrandom::Error),
    /// The module gave none.
    #[error(transparent)]
    Nsm(#[from] NsmError),
    /// The manifest cannot be written.
    #[error("MANIFEST_INVALID: {0}; shorten --policy-version")]
    Manifest(#[from] attestation::ManifestError),
}

struct Ring {
    current: Arc<Generation>,
    previous: Option<Arc<Generation>>,
}

impl Generation {
    fn new(
        description: &Description,
        first_key_id: u8,
        rotate_every: Duration,
        rng: &mut ChaCha20Rng,
        now: u64,
    ) -> Result<Self, KeyError> {
        let sealing = GatewayKeys::generate(first_key_id, rng);
        let receipts = ReceiptSigner::generate(rng);
        let configs = sealing.configs();
        let key_ids = configs.iter().map(|config| config.key_id).collect();
        let public_key = configs
            .iter()
            .find(|config| config.kem == Kem::X25519)
            .map(|config| config.public_key.clone())
            .unwrap_or_default();
        let not_after = now + (rotate_every + overlap(rotate_every)).as_secs();
        let manifest = ServiceManifest {
            version: PROTOCOL_VERSION,
            sealing_keys: configs,
            receipt_key: receipts.public_key(),
            model: description.model.clone(),
            policy_version: description.policy_version.clone(),
            security_mode: description.security_mode,
            // Clocks differ; a client a little behind is not to be refused.
            not_before: now.saturating_sub(60),
            not_after,
        }
        .encode()?;
        let binding = manifest_binding(&manifest);
        Ok(Self {
            sealing,
            receipts,
            manifest,
            binding,
            public_key,
            issued: Issued::new(ISSUED_MAX),
            log: ReceiptLog::new(MAX_RECENT),
            key_ids,
            not_after,
        })
    }
}

/// Documents remembered a generation: 2 to 4 MiB when full.
const ISSUED_MAX: usize = 65_536;

/// Seeds a generator from the kernel and the module both: a guest's kernel has little entropy just after boot.
fn rng(nsm: &dyn Nsm) -> Result<ChaCha20Rng, KeyError> {
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
