//! Key generations: sealing keys, receipt key and the manifest that describes them, replaced at intervals.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use attestation::{ModelIdentity, SecurityMode};
use rand_core::Rng;

use crate::clock::Moment;
use crate::nsm::{Nsm, NsmError};

mod generation;
mod issued;
mod periods;
mod seed;

pub use generation::Generation;
pub use issued::IssuedDocuments;
pub use periods::Periods;
pub(crate) use seed::seeded_rng;

use generation::Start;
use periods::MAX_GENERATIONS;

/// Fields that the manifests of all generations share.
#[derive(Clone, Debug)]
pub struct Description {
    /// The first model.
    pub model: ModelIdentity,
    /// The other models.
    pub others: Vec<ModelIdentity>,
    /// See [`ServiceManifest::policy_version`](attestation::ServiceManifest::policy_version).
    pub policy_version: String,
    /// See [`ServiceManifest::security_mode`](attestation::ServiceManifest::security_mode).
    pub security_mode: SecurityMode,
}

/// The current generation, and earlier ones whose manifests are still valid.
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
        let mut rng = seeded_rng(nsm)?;
        // A random identifier after each restart: a client of the previous process then learns from the identifier that its
        // key is unknown, instead of from a request that does not open.
        let first = (rng.next_u32() & 0xfe) as u8;
        let current = Arc::new(Generation::new(
            &description,
            first,
            periods,
            &mut rng,
            Start {
                at: now,
                module_time: nsm.time()?,
            },
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

    /// Every generation whose manifest is valid, the newest first. An older one takes no more requests once its overlap has
    /// ended, but its log can be fetched until its manifest ends.
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
            .find(|generation| generation.has_key_id(key_id) && generation.accepts(now))
            .cloned()
    }

    /// Whether new keys are due: the current ones are as old as they may be, or the wall clock jumped since they were made. However
    /// often it jumps, keys last for [`Periods::least`] by the steady count.
    pub fn is_due(&self, now: Moment) -> bool {
        let made = self.ring.load().current.made_at();
        let age = now.steady.saturating_sub(made.steady);
        age >= self.periods.rotate_every
            || (age >= self.periods.least && now.jump_since(made) > WALL_CLOCK_JUMP)
    }

    /// Makes a new generation, and keeps the current one as the previous.
    ///
    /// # Errors
    /// [`KeyError`]; the old generation then stays.
    pub fn rotate(&self, nsm: &dyn Nsm, now: Moment) -> Result<(), KeyError> {
        let first = self.current().first_key_id().wrapping_add(2);
        let current = Arc::new(Generation::new(
            &self.description,
            first,
            self.periods,
            &mut seeded_rng(nsm)?,
            Start {
                at: now,
                module_time: nsm.time()?,
            },
        )?);
        self.ring.rcu(|ring| Ring {
            current: Arc::clone(&current),
            // Bounded, so that a clock that is set again and again does not accumulate generations.
            previous: ring
                .all()
                .filter(|generation| generation.is_valid(now))
                .take(MAX_GENERATIONS - 1)
                .cloned()
                .collect(),
        });
        Ok(())
    }

    /// Drops generations whose manifests have ended.
    pub fn remove_expired(&self, now: Moment) {
        let is_expired = |previous: &Arc<Generation>| !previous.is_valid(now);
        if !self.ring.load().previous.iter().any(is_expired) {
            return;
        }
        // Reads and replaces in one step, so that a rotation at the same moment is not undone.
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

    /// Fields that all manifests share.
    pub fn description(&self) -> &Description {
        &self.description
    }
}

/// Difference between the clocks from which on this is not drift: the wall clock was set, or the steady count stopped because the
/// machine slept.
const WALL_CLOCK_JUMP: Duration = Duration::from_secs(30);

/// Why no keys could be made.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum KeyError {
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes ({0})")]
    #[coded("RANDOM_MISSING", remedy = "Restart the enclave.")]
    Random(getrandom::Error),
    /// The module failed.
    #[error(transparent)]
    #[coded(transparent)]
    Nsm(#[from] NsmError),
    /// The manifest cannot be written.
    #[error("the manifest cannot be written: {0}")]
    #[coded("MANIFEST_INVALID", remedy = "Shorten --policy-version.")]
    Manifest(#[from] attestation::ManifestError),
    /// More generations would be in use at once than are kept.
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
