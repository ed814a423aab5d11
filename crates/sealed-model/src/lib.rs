//! The sealed container of a model, `model.sealed`: a header that names its files, and their bytes in sealed chunks.
//!
//! ```text
//! header   = fixed part (84 bytes) ‖ manifest
//! container = header ‖ header tag (16) ‖ chunk 0 ‖ … ‖ chunk n−1
//! ```
//!
//! `docs/PROTOCOL.md`, "Sealed model container", defines every byte. In short:
//!
//! - The manifest names each file with size and SHA-256. Its digest ([`Manifest::digest`]) is the model hash of a receipt.
//! - Keys come from a [`DataKey`] and the header's salt by HKDF-SHA256; so does a commitment to both, which
//!   distinguishes a wrong key from damage.
//! - Chunks are sealed by AES-256-GCM in the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár, CRYPTO 2015): the
//!   nonce holds the chunk's number and whether it is the last, the associated data is the whole header.
//! - A container depends only on files, salt and data key.
//!
//! Any holder of the data key can seal arbitrary bytes, so an opened container proves nothing about its contents: compare
//! [`Manifest`] with the pinned one, and each file with the manifest ([`Digests`]), before using a byte.
//!
//! No clock, no randomness and no logging; I/O only in the module behind the feature `folder`, which seals
//! the files of a folder. The feature `lock` reads and writes locks, which pin a model for a server.
//!
//! ```
//! use sealed_model::{DataKey, Digests, FileEntry, Header, Manifest, Opener, Sealer};
//! # fn main() -> Result<(), sealed_model::ContainerError> {
//! let contents = b"weights";
//! let manifest = Manifest::new(vec![FileEntry::of("model.safetensors", contents)])?;
//! let key = DataKey::new(&[7; 32]);
//! let mut sealer = Sealer::new(manifest, &[1; 32], &key)?;
//! let mut container = sealer.header().to_vec();
//! let mut chunk = contents.to_vec();
//! sealer.seal(&mut chunk)?;
//! container.extend(chunk);
//!
//! let (header, length) = Header::read(&container)?;
//! let opener = Opener::new(header, &key)?;
//! let plain = opener.open(0, &mut container[length..])?;
//! let mut digests = Digests::new(opener.header().manifest());
//! digests.update(plain)?;
//! digests.finish()?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod digests;
mod error;
#[cfg(feature = "folder")]
mod folder;
mod header;
mod key;
#[cfg(feature = "lock")]
mod lock;
mod manifest;
mod stream;

pub use digests::Digests;
pub use error::{ContainerError, FileNameError};
#[cfg(feature = "folder")]
pub use folder::{FolderError, ModelFolder, ServerFiles, is_needed_by_server};
pub use header::{CHUNK, FIXED, Header, MAX_HEADER, TAG};
pub use key::DataKey;
#[cfg(feature = "lock")]
pub use lock::{LockError, MAX_LOCK, ModelLock, ModelName, SelfTest};
pub use manifest::{FileEntry, MAX_FILES, Manifest};
pub use stream::{Opener, Sealer};
