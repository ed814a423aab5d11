//! Enclave image files, which a Nitro hypervisor boots and measures.
//!
//! | module | answers |
//! | --- | --- |
//! | [`archive`] | how files become a ramdisk that is the same in every build |
//! | [`eif`] | how kernel, command line, ramdisks and metadata are stored in one file |
//! | [`measure`] | which PCRs the hypervisor will report for them |
//! | [`signature`] | who signed PCR0, and the resulting PCR8 |
//!
//! Uses no clock, randomness or file: the same input gives the same bytes.
#![forbid(unsafe_code)]

pub mod archive;
pub mod eif;
pub mod measure;
pub mod signature;

pub use archive::{Archive, ArchiveError};
pub use eif::{Eif, EifError, Metadata};
pub use measure::{Digest, Measurements};
pub use signature::{EifSigner, SignatureError};

/// The kernel's command line: a panic or a reboot ends the enclave, the console is the serial port, and the processor's random
/// numbers are credited in addition to those of the NSM.
pub const COMMAND_LINE: &str =
    "reboot=k panic=1 console=ttyS0 loglevel=4 random.trust_cpu=on nomodules";
