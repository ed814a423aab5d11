//! Enclave image files: what a Nitro hypervisor boots, and what it measures.
//!
//! | module | answers |
//! | --- | --- |
//! | [`archive`] | how files become a ramdisk whose bytes depend on nothing else |
//! | [`eif`] | how kernel, command line, ramdisks and metadata lie in one file |
//! | [`measure`] | which PCRs the hypervisor will report for them |
//! | [`signature`] | who signed PCR0, and which PCR8 that gives |
//!
//! Pure: no clock, no randomness, no file. The same input gives the same bytes.
#![forbid(unsafe_code)]

pub mod archive;
pub mod eif;
pub mod measure;
pub mod signature;

pub use archive::{Archive, ArchiveError};
pub use eif::{Eif, EifError, Metadata};
pub use measure::{Digest, Measurements};
pub use signature::{EifSigner, SignatureError};

/// What the kernel is told: a panic or a reboot ends the enclave, the console is the serial port, and the processor's own
/// random numbers count beside those of the NSM.
pub const COMMAND_LINE: &str =
    "reboot=k panic=1 console=ttyS0 loglevel=4 random.trust_cpu=on nomodules";
