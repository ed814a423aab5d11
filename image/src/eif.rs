//! Enclave image files: a header, then sections with their own heads. Numbers are big-endian. A CRC-32 (ISO-HDLC) covers
//! everything except its own four bytes; it detects damage, while the measurements detect changes by an attacker.
//!
//! Version 4 of the format that AWS publishes in its crate `aws-nitro-enclaves-image-format`, module `defs`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::Measurements;

mod read;

/// Contents of an image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eif {
    /// A bzImage.
    pub kernel: Vec<u8>,
    /// The kernel's command line; the hypervisor adds its devices.
    pub command_line: String,
    /// The first boots, the others are the application. Unpacked over each other in this order.
    pub ramdisks: Vec<Vec<u8>>,
    /// For people. Not measured.
    pub metadata: Metadata,
    /// Section created by [`crate::EifSigner`], if the image is signed.
    pub signature: Option<Vec<u8>>,
}

/// Description of an image; `nitro-cli describe-eif` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Name of the image.
    #[serde(rename = "ImageName")]
    pub name: String,
    /// Its version.
    #[serde(rename = "ImageVersion")]
    pub version: String,
    /// How it was built.
    #[serde(rename = "BuildMetadata")]
    pub build: BuildMetadata,
    /// The container's description in an image of `nitro-cli`; an empty object in ours.
    #[serde(rename = "DockerInfo")]
    pub docker: Value,
    /// The builder's own members; `nitro-cli` writes `null` without `--metadata`. An empty object in ours.
    #[serde(rename = "CustomMetadata")]
    pub custom: Value,
}

/// How an image was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildMetadata {
    /// RFC 3339: the time of the sources, not of the build.
    #[serde(rename = "BuildTime")]
    pub time: String,
    /// Program that wrote the file.
    #[serde(rename = "BuildTool")]
    pub tool: String,
    /// Its version.
    #[serde(rename = "BuildToolVersion")]
    pub tool_version: String,
    /// Operating system inside.
    #[serde(rename = "OperatingSystem")]
    pub system: String,
    /// Version of the kernel.
    #[serde(rename = "KernelVersion")]
    pub kernel: String,
}

/// Why bytes are not a valid image, or an image cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EifError {
    /// The file is truncated.
    #[error("EIF_TRUNCATED: the image ends inside {0}; copy or build it again")]
    Truncated(&'static str),
    /// A field has a value that the format does not allow.
    #[error(
        "EIF_FIELD: {field} is {value}, which no image of version 4 has; it is not an enclave image, or is damaged"
    )]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The image is for a processor on which no image of Clearseal runs.
    #[error(
        "EIF_ARCHITECTURE: the image is for 64-bit ARM, and only images for x86-64 can be read; describe it with nitro-cli"
    )]
    Architecture,
    /// Sections are missing, duplicated, or in the wrong order.
    #[error("EIF_SECTIONS: {0}; build the image again")]
    Sections(&'static str),
    /// The CRC does not match.
    #[error(
        "EIF_CHECKSUM: the checksum is {found:08x}, the contents have {computed:08x}; the image is damaged: copy or build it again"
    )]
    Checksum {
        /// Checksum in the header.
        found: u32,
        /// Checksum of the contents.
        computed: u32,
    },
    /// Command line or metadata are not valid text.
    #[error("EIF_TEXT: {0} cannot be read as text; build the image again")]
    Text(&'static str),
    /// Too many ramdisks.
    #[error("EIF_RAMDISKS: {0} ramdisks, and an image has 1 to {RAMDISKS_MAX}; join some")]
    Ramdisks(usize),
}

pub(crate) const MAGIC: &[u8; 4] = b".eif";
pub(crate) const VERSION: u16 = 4;
/// The lowest bit of the flags.
pub(crate) const ARM64: u16 = 1;
pub(crate) const SECTIONS_MAX: usize = 32;
pub(crate) const HEADER: usize = 4 + 2 + 2 + 8 + 8 + 2 + 2 + 2 * 8 * SECTIONS_MAX + 4 + 4;
pub(crate) const SECTION_HEADER: usize = 2 + 2 + 8;
/// The other sections are kernel, command line, metadata and signature.
pub const RAMDISKS_MAX: usize = SECTIONS_MAX - 4;
/// Used unless `nitro-cli run-enclave` states an amount, which it always does.
const DEFAULT_MEMORY: u64 = 1 << 30;
const DEFAULT_CPUS: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Kernel = 1,
    CommandLine = 2,
    Ramdisk = 3,
    Signature = 4,
    Metadata = 5,
}

impl Eif {
    /// The registers that the hypervisor will report; includes PCR8 if the signature section is readable.
    pub fn measure(&self) -> Measurements {
        let mut measurements =
            Measurements::of(&self.kernel, self.command_line.as_bytes(), &self.ramdisks);
        measurements.pcr8 = self
            .signature
            .as_deref()
            .and_then(|section| crate::signature::measure(section).ok());
        measurements
    }

    /// Encodes the image.
    ///
    /// # Errors
    /// [`EifError::Ramdisks`], [`EifError::Text`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, EifError> {
        if !(1..=RAMDISKS_MAX).contains(&self.ramdisks.len()) {
            return Err(EifError::Ramdisks(self.ramdisks.len()));
        }
        let metadata =
            serde_json::to_vec(&self.metadata).map_err(|_| EifError::Text("the metadata"))?;
        let mut sections: Vec<(Section, &[u8])> = vec![
            (Section::Kernel, &self.kernel),
            (Section::CommandLine, self.command_line.as_bytes()),
            (Section::Metadata, &metadata),
        ];
        sections.extend(
            self.ramdisks
                .iter()
                .map(|disk| (Section::Ramdisk, &disk[..])),
        );
        sections.extend(
            self.signature
                .iter()
                .map(|made| (Section::Signature, &made[..])),
        );
        let mut file = header(&sections);
        for (kind, content) in sections {
            file.extend_from_slice(&(kind as u16).to_be_bytes());
            file.extend_from_slice(&[0; 2]);
            file.extend_from_slice(&(content.len() as u64).to_be_bytes());
            file.extend_from_slice(content);
        }
        let sum = checksum(&file).to_be_bytes();
        if let Some(place) = file.get_mut(HEADER - 4..HEADER) {
            place.copy_from_slice(&sum);
        }
        Ok(file)
    }

    /// Reads a file, strictly: one kernel, one command line, one metadata section, no gaps, nothing after the last section.
    ///
    /// # Errors
    /// [`EifError`].
    pub fn parse(file: &[u8]) -> Result<Self, EifError> {
        read::parse(file)
    }
}

/// The header, with a checksum of zero.
fn header(sections: &[(Section, &[u8])]) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_be_bytes());
    // Flags: the lowest bit means 64-bit ARM.
    header.extend_from_slice(&[0; 2]);
    header.extend_from_slice(&DEFAULT_MEMORY.to_be_bytes());
    header.extend_from_slice(&DEFAULT_CPUS.to_be_bytes());
    header.extend_from_slice(&[0; 2]);
    // At most SECTIONS_MAX.
    header.extend_from_slice(&(sections.len() as u16).to_be_bytes());
    let mut offsets = [0; SECTIONS_MAX];
    let mut sizes = [0; SECTIONS_MAX];
    let mut at = HEADER as u64;
    for ((offset, size), (_, content)) in offsets.iter_mut().zip(&mut sizes).zip(sections) {
        (*offset, *size) = (at, content.len() as u64);
        at += (SECTION_HEADER + content.len()) as u64;
    }
    for number in offsets.into_iter().chain(sizes) {
        header.extend_from_slice(&u64::to_be_bytes(number));
    }
    header.resize(HEADER, 0);
    header
}

/// Covers everything except the header's last four bytes. Both slices are empty if the file is shorter.
pub(crate) fn checksum(file: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(file.get(..HEADER - 4).unwrap_or_default());
    crc.update(file.get(HEADER..).unwrap_or_default());
    crc.finalize()
}
