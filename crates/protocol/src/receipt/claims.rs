//! The claims of a receipt, and their deterministic encoding.

use attestation::cbor::Writer;
use attestation::{HashScheme, SecurityMode};

/// The profile that every receipt names (`eat_profile`, RFC 9711 §4.3.2).
pub const PROFILE: &str = "https://spec.cyntrisec.com/air/v1";

/// Keys of the claims map, as the profile numbers them.
pub(super) mod key {
    pub(in crate::receipt) const ISSUER: i64 = 1;
    pub(in crate::receipt) const ISSUED_AT: i64 = 6;
    pub(in crate::receipt) const ID: i64 = 7;
    pub(in crate::receipt) const NONCE: i64 = 10;
    pub(in crate::receipt) const PROFILE: i64 = 265;
    pub(in crate::receipt) const MODEL_ID: i64 = -65_537;
    pub(in crate::receipt) const MODEL_VERSION: i64 = -65_538;
    pub(in crate::receipt) const MODEL_HASH: i64 = -65_539;
    pub(in crate::receipt) const REQUEST_HASH: i64 = -65_540;
    pub(in crate::receipt) const RESPONSE_HASH: i64 = -65_541;
    pub(in crate::receipt) const DOCUMENT_HASH: i64 = -65_542;
    pub(in crate::receipt) const MEASUREMENTS: i64 = -65_543;
    pub(in crate::receipt) const POLICY_VERSION: i64 = -65_544;
    pub(in crate::receipt) const SEQUENCE: i64 = -65_545;
    pub(in crate::receipt) const EXECUTION_MS: i64 = -65_546;
    pub(in crate::receipt) const MEMORY_MB: i64 = -65_547;
    pub(in crate::receipt) const SECURITY_MODE: i64 = -65_548;
    pub(in crate::receipt) const HASH_SCHEME: i64 = -65_549;
}

/// All claims of a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptClaims {
    /// The issuer (`iss`).
    pub issuer: String,
    /// Time of issue, Unix seconds, not 0 (`iat`).
    pub issued_at: u64,
    /// Unique identifier (`cti`).
    pub id: [u8; 16],
    /// The client's nonce (`eat_nonce`), 8..=64 bytes.
    pub nonce: Option<Vec<u8>>,
    /// Name of the model.
    pub model_id: String,
    /// Version of the model.
    pub model_version: String,
    /// SHA-256 of the model's artifacts, not all zero.
    pub model_hash: [u8; 32],
    /// Hash scheme of the artifacts.
    pub model_hash_scheme: Option<HashScheme>,
    /// See [`crate::commitment::request_hash`].
    pub request_hash: [u8; 32],
    /// See [`crate::commitment::response_hash`].
    pub response_hash: [u8; 32],
    /// SHA-256 of the attestation document.
    pub document_hash: [u8; 32],
    /// The platform's measurements.
    pub measurements: Measurements,
    /// Version of the policy that the service runs under.
    pub policy_version: String,
    /// Sequence number of the receipt among those of its key, from 1: its leaf in the log, whose leaf 0 is the keys.
    pub sequence_number: u64,
    /// Upper bound on the time that the inference took, milliseconds: this server rounds it up to a power of two.
    pub execution_time_ms: u64,
    /// Upper bound on the memory that the enclave has held, MiB: this server rounds it up to a multiple of 64.
    pub memory_peak_mb: u64,
    /// Whether the service runs in production or on trial.
    pub security_mode: SecurityMode,
}

/// Platform measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurements {
    /// The platform, which defines the registers' meaning.
    pub platform: Platform,
    /// PCR0 or MRTD.
    pub pcr0: [u8; 48],
    /// PCR1 or RTMR0.
    pub pcr1: [u8; 48],
    /// PCR2 or RTMR1.
    pub pcr2: [u8; 48],
    /// PCR3 or RTMR2.
    pub pcr3: Option<[u8; 48]>,
    /// PCR4 or RTMR3.
    pub pcr4: Option<[u8; 48]>,
    /// PCR8; never on TDX.
    pub pcr8: Option<[u8; 48]>,
}

/// `measurement_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// AWS Nitro Enclaves: PCRs.
    NitroPcr,
    /// Intel TDX: MRTD and RTMRs.
    TdxMrtdRtmr,
}

impl Platform {
    /// Name in receipts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NitroPcr => "nitro-pcr",
            Self::TdxMrtdRtmr => "tdx-mrtd-rtmr",
        }
    }

    /// Reverse of [`Self::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::NitroPcr, Self::TdxMrtdRtmr]
            .into_iter()
            .find(|platform| platform.as_str() == name)
    }
}

impl Measurements {
    /// Index and value of each present register, in ascending order.
    pub fn registers(&self) -> impl Iterator<Item = (u8, &[u8; 48])> {
        let Self {
            platform: _,
            pcr0,
            pcr1,
            pcr2,
            pcr3,
            pcr4,
            pcr8,
        } = self;
        let optional = [(3, pcr3), (4, pcr4), (8, pcr8)];
        let mandatory = [(0, pcr0), (1, pcr1), (2, pcr2)];
        let optional = optional
            .into_iter()
            .filter_map(|(index, value)| Some((index, value.as_ref()?)));
        mandatory.into_iter().chain(optional)
    }
}

impl ReceiptClaims {
    /// The claims map, keys in the bytewise order of their encodings (RFC 8949 §4.2.1).
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut map = Writer::new();
        map.map(16 + u64::from(self.nonce.is_some()) + u64::from(self.model_hash_scheme.is_some()));
        map.int(key::ISSUER).text(&self.issuer);
        map.int(key::ISSUED_AT).uint(self.issued_at);
        map.int(key::ID).bytes(&self.id);
        if let Some(nonce) = &self.nonce {
            map.int(key::NONCE).bytes(nonce);
        }
        map.int(key::PROFILE).text(PROFILE);
        map.int(key::MODEL_ID).text(&self.model_id);
        map.int(key::MODEL_VERSION).text(&self.model_version);
        map.int(key::MODEL_HASH).bytes(&self.model_hash);
        map.int(key::REQUEST_HASH).bytes(&self.request_hash);
        map.int(key::RESPONSE_HASH).bytes(&self.response_hash);
        map.int(key::DOCUMENT_HASH).bytes(&self.document_hash);
        map.int(key::MEASUREMENTS);
        let registers: Vec<_> = self.measurements.registers().collect();
        map.map(registers.len() as u64 + 1);
        for (index, value) in registers {
            map.text(&format!("pcr{index}")).bytes(value);
        }
        map.text("measurement_type")
            .text(self.measurements.platform.as_str());
        map.int(key::POLICY_VERSION).text(&self.policy_version);
        map.int(key::SEQUENCE).uint(self.sequence_number);
        map.int(key::EXECUTION_MS).uint(self.execution_time_ms);
        map.int(key::MEMORY_MB).uint(self.memory_peak_mb);
        map.int(key::SECURITY_MODE)
            .text(self.security_mode.as_str());
        if let Some(scheme) = self.model_hash_scheme {
            map.int(key::HASH_SCHEME).text(scheme.as_str());
        }
        map.finish()
    }
}
