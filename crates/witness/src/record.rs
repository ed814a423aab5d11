//! Records of a deployment's log. The log's entry is the SHA-256 of a record, so that entries have one length and a record can be
//! published elsewhere.
//!
//! ```text
//! clearseal-record/1 KIND\n ‖ bytes
//! ```

use merkle::Hash;
use sha2::{Digest, Sha256};

/// First word of every record.
const FORMAT: &str = "clearseal-record/1";
/// Longest record in bytes, the length that a bundle of `c2sp.org/tlog-tiles` could hold.
pub const MAX_RECORD: usize = 65_535;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Key configuration of an enclave: the service manifest as the enclave sends it.
    Keys,
    /// Signed head of an enclave's log of receipts (COSE).
    Head,
    /// Release manifest (docs/RELEASES.md), JSON.
    Release,
    /// List of the page's files with their hashes, JSON.
    Page,
    /// Release manifest of a release that is withdrawn: the same bytes as in its `release` record.
    Withdrawn,
    /// Trust policy, JSON.
    Policy,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Keys,
        Self::Head,
        Self::Release,
        Self::Page,
        Self::Withdrawn,
        Self::Policy,
    ];

    /// Name of the kind in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Head => "head",
            Self::Release => "release",
            Self::Page => "page",
            Self::Withdrawn => "withdrawn",
            Self::Policy => "policy",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Writes a record.
pub fn write(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let mut record = format!("{FORMAT} {}\n", kind.name()).into_bytes();
    record.extend_from_slice(bytes);
    record
}

/// Reads a record: its kind, and the bytes of it. `None` where it is not one, or its kind is unknown.
pub fn read(record: &[u8]) -> Option<(Kind, &[u8])> {
    let rest = record.strip_prefix(FORMAT.as_bytes())?.strip_prefix(b" ")?;
    Kind::ALL.into_iter().find_map(|kind| {
        let bytes = rest
            .strip_prefix(kind.name().as_bytes())?
            .strip_prefix(b"\n")?;
        Some((kind, bytes))
    })
}

/// Entry of a record in the log.
pub fn entry(record: &[u8]) -> Hash {
    Sha256::digest(record).into()
}
