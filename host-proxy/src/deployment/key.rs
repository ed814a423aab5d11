//! The log's key in a file, and the identifier of the only log file that belongs to it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use merkle::Hash;
use merkle::json::{from_hex, hex};
use witness::key::{Signer, Use, Verifier};

use super::{DeploymentError, DeploymentStore};

/// Word before the identifier.
const LOG: &str = "log ";
/// Longer than any key file.
const MAX_FILE: u64 = 4096;

/// The key of a log, and the identifier of its file.
pub struct LogKey {
    pub(super) signer: Signer,
    pub(super) log: Hash,
}

/// Makes a key and an empty log, and returns the public key.
///
/// # Errors
/// [`DeploymentError::Initialized`] where one of the files exists, [`DeploymentError::Origin`], [`DeploymentError::Unavailable`].
pub fn init(origin: &str, log: &Path, key: &Path) -> Result<Verifier, DeploymentError> {
    for path in [log, key] {
        if path.exists() {
            return Err(DeploymentError::Initialized(path.display().to_string()));
        }
    }
    let (mut seed, mut id) = ([0; 32], [0; 32]);
    for random in [&mut seed, &mut id] {
        getrandom::fill(random).map_err(|error| DeploymentError::Unavailable(error.to_string()))?;
    }
    let signer = Signer::from_seed(origin, Use::Log, &seed).map_err(|_| DeploymentError::Origin)?;
    // The key last: without it nothing can be signed, whatever happens before.
    DeploymentStore::create(log, &id)?;
    write(key, &signer, &id).map_err(|error| DeploymentError::Unavailable(error.to_string()))?;
    Ok(signer.verifier().clone())
}

fn write(path: &Path, signer: &Signer, id: &Hash) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    write!(file, "{}\n{LOG}{}\n", signer.to_private(), hex(id))?;
    file.sync_all()?;
    crate::log::sync_folder(path)
}

impl LogKey {
    /// Reads a key file.
    ///
    /// # Errors
    /// [`DeploymentError::Key`], [`DeploymentError::Unavailable`].
    pub fn read(path: &Path) -> Result<Self, DeploymentError> {
        use std::io::Read as _;
        let invalid = || DeploymentError::Key(path.display().to_string());
        let unavailable = |error: std::io::Error| {
            DeploymentError::Unavailable(format!("{}: {error}", path.display()))
        };
        let mut text = String::new();
        let file = File::open(path).map_err(unavailable)?;
        let read = file.take(MAX_FILE).read_to_string(&mut text);
        read.map_err(unavailable)?;
        let (key, rest) = text.split_once('\n').ok_or_else(invalid)?;
        let signer = Signer::parse(key).map_err(|_| invalid())?;
        let log = rest.trim_end().strip_prefix(LOG).and_then(from_hex);
        match signer.verifier().key_use() {
            Use::Log => Ok(Self {
                signer,
                log: log.ok_or_else(invalid)?,
            }),
            Use::Witness => Err(invalid()),
        }
    }

    /// The public key.
    pub fn verifier(&self) -> &Verifier {
        self.signer.verifier()
    }
}
