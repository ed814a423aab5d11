//! Key generations: sealing keys, receipt key and the manifest that describes them, replaced at intervals.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use attestation::{
    Kem, ModelIdentity, PROTOCOL_VERSION, SecurityMode, ServiceManifest, UnixMillis,
    manifest_binding,
};
use chacha20::ChaCha20Rng;
use getrandom::SysRng;
use protocol::candidates::Name;
use protocol::ohttp::GatewayKeys;
use protocol::receipt::ReceiptSigner;
use rand_core::{Rng, SeedableRng, TryRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::api::issued::Issued;
use crate::clock::Moment;
use crate::log::{MAX_RECENT, ReceiptLog};
use crate::nsm::{Nsm, NsmError, Validity};

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
    /// These keys, and receipts that were signed with the receipt key.
    pub log: ReceiptLog,
    key_ids: Vec<u8>,
    made: Moment,
    /// The module's time at that moment.
    began: UnixMillis,
    /// Last second in which a request is taken, by the generation's own time.
    accepts_until: u64,
    not_after: u64,
}

/// How long keys live. Each generation is current for `rotate_every`, takes requests for `overlap` longer, and then has
/// `linger` to answer the last of them and to hand out their receipts. Its manifest ends with that, and nothing is signed
/// after the manifest has ended: no auditor would accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    rotate_every: Duration,
    overlap: Duration,
    linger: Duration,
    least: Duration,
}

impl Periods {
    /// Periods for requests that take `deadline` at most.
    ///
    /// # Errors
    /// [`KeyError::TooManyGenerations`] where more generations would be alive at once than are kept.
    pub fn new(rotate_every: Duration, deadline: Duration) -> Result<Self, KeyError> {
        let overlap = rotate_every.min(LONGEST_OVERLAP);
        let linger = LEAST_LINGER.max(deadline.saturating_add(HOST_PERIOD));
        let after = overlap.saturating_add(linger);
        // One that has just been made, and those that it and its predecessors replaced.
        let alive = 1 + after.as_millis().div_ceil(rotate_every.as_millis().max(1));
        if alive > MAX_GENERATIONS as u128 {
            return Err(KeyError::TooManyGenerations {
                rotate_every,
                deadline,
                alive,
            });
        }
        // So that none is forgotten while its manifest is valid, however often the host sets the clock.
        let kept = rotate_every.saturating_add(after) / (MAX_GENERATIONS as u32 - 1);
        Ok(Self {
            rotate_every,
            overlap,
            linger,
            least: LEAST_ROTATION.max(kept).min(rotate_every),
        })
    }

    /// How often [`Keyring::rotate`] is due.
    pub fn rotate_every(&self) -> Duration {
        self.rotate_every
    }

    /// How long keys last at the least, whatever the wall clock does.
    pub fn least(&self) -> Duration {
        self.least
    }

    /// For how long requests are taken under one generation.
    pub fn longest(&self) -> Duration {
        self.rotate_every.saturating_add(self.overlap)
    }

    /// For how long a manifest is valid after its keys took their last request.
    pub fn linger(&self) -> Duration {
        self.linger
    }
}

/// A client that attested just before a rotation is not turned away for this long, and stolen memory does not open requests
/// of the day before.
const LONGEST_OVERLAP: Duration = Duration::from_secs(600);
const LEAST_LINGER: Duration = Duration::from_secs(60);
/// The host can set the wall clock as often as it likes, and new keys cost a call of the module, memory and a log each.
const LEAST_ROTATION: Duration = Duration::from_secs(60);
/// A host whose questions failed asks again within 30 seconds.
const HOST_PERIOD: Duration = Duration::from_secs(30);
/// Generations kept at once: each may come to hold 9 MiB of hashes, and has two of the 256 key identifiers.
const MAX_GENERATIONS: usize = 16;

/// The current generation, and those before it for as long as their manifests are valid.
pub struct Keyring {
    ring: ArcSwap<Ring>,
    description: Description,
    periods: Periods,
}

impl Keyring {
    /// Makes the first generation.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn new(
        description: Description,
        periods: Periods,
        nsm: &dyn Nsm,
        now: Moment,
    ) -> Result<Self, KeyError> {
        let mut rng = rng(nsm)?;
        // Not always the same identifier after a restart: a client of the previous process is then told so by the
        // identifier, instead of finding that its request does not open.
        let first = (rng.next_u32() & 0xfe) as u8;
        let current = Arc::new(Generation::new(
            &description,
            first,
            periods,
            &mut rng,
            (now, nsm.time()?),
        )?);
        Ok(Self {
            ring: ArcSwap::from_pointee(Ring {
                current,
                previous: Vec::new(),
            }),
            description,
            periods,
        })
    }

    /// The generation that new documents attest.
    pub fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.ring.load().current)
    }

    /// Every generation whose manifest is valid, the newest first. An older one takes no more requests once its overlap is
    /// over, but until its manifest ends its log can be fetched.
    pub fn generations(&self, now: Moment) -> Vec<Arc<Generation>> {
        let ring = self.ring.load();
        ring.all()
            .filter(|generation| generation.is_valid(now))
            .cloned()
            .collect()
    }

    /// The generation that owns this key identifier, while it takes requests.
    pub fn by_key_id(&self, key_id: u8, now: Moment) -> Option<Arc<Generation>> {
        let ring = self.ring.load();
        ring.all()
            .find(|generation| generation.key_ids.contains(&key_id) && generation.accepts(now))
            .cloned()
    }

    /// Whether new keys are due: the current ones have had their time, or the wall clock jumped since they were made. However it
    /// jumps, keys last for [`Periods::least`] by the steady count.
    pub fn is_due(&self, now: Moment) -> bool {
        let made = self.ring.load().current.made;
        let age = now.steady.saturating_sub(made.steady);
        age >= self.periods.rotate_every
            || (age >= self.periods.least && now.jump_since(made) > WALL_SET)
    }

    /// Makes a new generation, and keeps the current one as the previous.
    ///
    /// # Errors
    /// [`KeyError`]; the old generation then stays.
    pub fn rotate(&self, nsm: &dyn Nsm, now: Moment) -> Result<(), KeyError> {
        let first = self
            .current()
            .key_ids
            .first()
            .copied()
            .unwrap_or(0)
            .wrapping_add(2);
        let current = Arc::new(Generation::new(
            &self.description,
            first,
            self.periods,
            &mut rng(nsm)?,
            (now, nsm.time()?),
        )?);
        self.ring.rcu(|ring| Ring {
            current: Arc::clone(&current),
            // A clock that is set again and again must not pile up generations.
            previous: ring
                .all()
                .filter(|generation| generation.is_valid(now))
                .take(MAX_GENERATIONS - 1)
                .cloned()
                .collect(),
        });
        Ok(())
    }

    /// Forgets generations whose manifests have ended.
    pub fn retire(&self, now: Moment) {
        let over = |ring: &Ring| ring.previous.iter().any(|previous| !previous.is_valid(now));
        if !over(&self.ring.load()) {
            return;
        }
        // Read and replaced as one step: a rotation at the same moment is not undone.
        self.ring.rcu(|ring| Ring {
            current: Arc::clone(&ring.current),
            previous: ring
                .previous
                .iter()
                .filter(|previous| previous.is_valid(now))
                .cloned()
                .collect(),
        });
    }

    /// How long keys live.
    pub fn periods(&self) -> Periods {
        self.periods
    }

    /// What every manifest says alike.
    pub fn description(&self) -> &Description {
        &self.description
    }
}

/// From this far on the wall clock was set, or the steady count stopped (a machine that slept); they did not merely drift.
const WALL_SET: Duration = Duration::from_secs(30);

/// Why no keys could be made.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum KeyError {
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes ({0})")]
    #[coded("RANDOM_MISSING", remedy = "Restart the enclave.")]
    Random(getrandom::Error),
    /// The module gave none.
    #[error(transparent)]
    #[coded(transparent)]
    Nsm(#[from] NsmError),
    /// The manifest cannot be written.
    #[error("the manifest cannot be written: {0}")]
    #[coded("MANIFEST_INVALID", remedy = "Shorten --policy-version.")]
    Manifest(#[from] attestation::ManifestError),
    /// Old keys would still be needed when there is no room for them.
    #[error(
        "with new keys every {} s and requests of up to {} s, {alive} generations of keys would be alive at once and {MAX_GENERATIONS} are kept",
        rotate_every.as_secs(), deadline.as_secs()
    )]
    #[coded(
        "ROTATION_TOO_OFTEN",
        remedy = "Raise --rotate-every or lower --deadline."
    )]
    TooManyGenerations {
        /// How often keys are made.
        rotate_every: Duration,
        /// Longest request.
        deadline: Duration,
        /// Generations that it takes.
        alive: u128,
    },
}

struct Ring {
    current: Arc<Generation>,
    /// Newest first.
    previous: Vec<Arc<Generation>>,
}

impl Ring {
    fn all(&self) -> impl Iterator<Item = &Arc<Generation>> {
        std::iter::once(&self.current).chain(&self.previous)
    }
}

impl Generation {
    fn new(
        description: &Description,
        first_key_id: u8,
        periods: Periods,
        rng: &mut ChaCha20Rng,
        (made, began): (Moment, UnixMillis),
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
        let now = began.seconds();
        let accepts_until = now + (periods.rotate_every + periods.overlap).as_secs();
        let not_after = accepts_until + periods.linger.as_secs();
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
            log: ReceiptLog::new(MAX_RECENT, &manifest),
            manifest,
            binding,
            public_key,
            issued: Issued::new(ISSUED_MAX),
            key_ids,
            made,
            began,
            accepts_until,
            not_after,
        })
    }

    /// The generation's own time: the module's when the keys were made, and what the steady count says has passed since. Never
    /// goes back, whoever sets the clock.
    pub fn time(&self, now: Moment) -> UnixMillis {
        let passed = now.steady.saturating_sub(self.made.steady).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        UnixMillis(self.began.0.saturating_add(passed))
    }

    /// What it is called where nothing rests on it.
    pub fn name(&self) -> Name {
        let hash = Sha256::digest(&self.manifest);
        let mut name = Name::default();
        name.copy_from_slice(&hash[..size_of::<Name>()]);
        name
    }

    /// Where `time`, of the generation's own, lies on the steady count, in whole seconds: the same for the same second always.
    pub fn steady_second(&self, time: UnixMillis) -> i64 {
        let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        signed(time.seconds())
            .saturating_sub(signed(self.began.seconds()))
            .saturating_add(signed(self.made.steady.as_secs()))
    }

    /// Whether a request that comes now is taken: one that is answered before the manifest ends.
    pub fn accepts(&self, now: Moment) -> bool {
        self.time(now).seconds() <= self.accepts_until
    }

    /// Whether what is signed now is signed within the manifest's validity.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.time(now).seconds() <= self.not_after
    }

    /// The second that something signed now states, with a document that is good in `validity`; `None` where an auditor
    /// would refuse it: the manifest is over, or a certificate of the document.
    pub fn stated_time(&self, now: Moment, validity: Validity) -> Option<u64> {
        validity
            .stated_time(self.time(now).seconds())
            .filter(|time| *time <= self.not_after)
    }
}

/// Documents remembered a generation: 3 to 6 MiB when full.
const ISSUED_MAX: usize = 65_536;

/// Seeds a generator, which wipes itself when it is dropped, from the kernel and the module both: a guest's kernel has little entropy just after boot.
pub(crate) fn rng(nsm: &dyn Nsm) -> Result<ChaCha20Rng, KeyError> {
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
    fn the_generator_of_a_generation_wipes_its_seed() {
        const fn wipes<T: zeroize::ZeroizeOnDrop>() {}
        wipes::<ChaCha20Rng>();
    }
}
