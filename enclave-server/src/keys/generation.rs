//! The keys of one period, and the clock that they are measured by.

use attestation::{Kem, PROTOCOL_VERSION, ServiceManifest, UnixMillis, manifest_binding};
use chacha20::ChaCha20Rng;
use protocol::candidates::Name;
use protocol::ohttp::GatewayKeys;
use protocol::receipt::ReceiptSigner;
use sha2::{Digest, Sha256};

use super::issued::IssuedDocuments;
use super::{Description, KeyError, Periods};
use crate::clock::Moment;
use crate::log::{MAX_RECENT, ReceiptLog};
use crate::nsm::Validity;

/// The keys of one period. Holds secrets: no `Debug`, no `Clone`; they are zeroized when the last user is done.
pub struct Generation {
    /// Opens sealed requests.
    pub sealing: GatewayKeys,
    /// Signs receipts.
    pub receipts: ReceiptSigner,
    /// The manifest, as it is sent.
    pub manifest: Vec<u8>,
    /// `user_data` of attestation documents.
    pub binding: [u8; 32],
    /// `public_key` of attestation documents: the X25519 sealing key.
    pub public_key: Vec<u8>,
    /// Documents that were issued for these keys.
    pub issued: IssuedDocuments,
    /// These keys, and receipts that were signed with the receipt key.
    pub log: ReceiptLog,
    key_ids: Vec<u8>,
    start: Start,
    /// Last second in which a request is accepted, by the generation's [`time`](Self::time).
    accepts_until: u64,
    not_after: u64,
}

/// When a generation was made, by the process's clock and by the module's.
pub(super) struct Start {
    pub(super) at: Moment,
    pub(super) module_time: UnixMillis,
}

impl Generation {
    pub(super) fn new(
        description: &Description,
        first_key_id: u8,
        periods: Periods,
        rng: &mut ChaCha20Rng,
        start: Start,
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
        let now = start.module_time.seconds();
        let accepts_until = now + (periods.rotate_every + periods.overlap).as_secs();
        let not_after = accepts_until + periods.linger.as_secs();
        let manifest = ServiceManifest {
            version: PROTOCOL_VERSION,
            sealing_keys: configs,
            receipt_key: receipts.public_key(),
            model: description.model.clone(),
            others: description.others.clone(),
            policy_version: description.policy_version.clone(),
            security_mode: description.security_mode,
            // A client whose clock is up to a minute behind accepts the manifest.
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
            issued: IssuedDocuments::new(MAX_ISSUED),
            key_ids,
            start,
            accepts_until,
            not_after,
        })
    }

    /// The generation's time: the module's time when the keys were made, plus the time that has passed since by the steady
    /// count. Never goes back, even if the wall clock is set.
    pub fn time(&self, now: Moment) -> UnixMillis {
        let passed = now.steady.saturating_sub(self.start.at.steady).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        UnixMillis(self.start.module_time.0.saturating_add(passed))
    }

    /// A name for relays and clients to tell generations apart. No check depends on it.
    pub fn name(&self) -> Name {
        let hash = Sha256::digest(&self.manifest);
        let mut name = Name::default();
        name.copy_from_slice(&hash[..size_of::<Name>()]);
        name
    }

    /// Converts `time`, by the generation's [`time`](Self::time), to whole seconds of the steady count. The result for one second is
    /// always the same.
    pub fn steady_second(&self, time: UnixMillis) -> i64 {
        let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        signed(time.seconds())
            .saturating_sub(signed(self.start.module_time.seconds()))
            .saturating_add(signed(self.start.at.steady.as_secs()))
    }

    pub(super) fn made_at(&self) -> Moment {
        self.start.at
    }

    pub(super) fn first_key_id(&self) -> u8 {
        self.key_ids.first().copied().unwrap_or(0)
    }

    pub(super) fn has_key_id(&self, key_id: u8) -> bool {
        self.key_ids.contains(&key_id)
    }

    /// Whether a request is accepted now, because it will be answered before the manifest ends.
    pub fn accepts(&self, now: Moment) -> bool {
        self.time(now).seconds() <= self.accepts_until
    }

    /// Whether the manifest is valid now.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.time(now).seconds() <= self.not_after
    }

    /// Time to state in a signature made now, in Unix seconds, together with a document of this `validity`. `None` where an auditor
    /// would refuse the signature because the manifest or a certificate of the document has ended.
    pub fn stated_time(&self, now: Moment, validity: Validity) -> Option<u64> {
        validity
            .stated_time(self.time(now).seconds())
            .filter(|time| *time <= self.not_after)
    }
}

/// Documents remembered for each generation: 3 to 6 MiB when full.
const MAX_ISSUED: usize = 65_536;
