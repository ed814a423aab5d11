//! Why a container was refused. Each cause that can be told from the others has its own code.

/// Why a container was refused, or could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The first bytes are not the magic.
    #[error("CONTAINER_NOT_ONE: this is no sealed model; make one with `clearseal model seal`")]
    NotAContainer,
    /// A later version.
    #[error("CONTAINER_VERSION: version {0}, this program reads version 1; use a newer program")]
    Version(u16),
    /// Another suite.
    #[error(
        "CONTAINER_SUITE: suite {0}, this program has suite 1 (AES-256-GCM, HKDF-SHA256); use a newer program"
    )]
    Suite(u16),
    /// Another size of chunks.
    #[error(
        "CONTAINER_CHUNK_SIZE: chunks of {0} bytes, version 1 has 1048576; seal the model again"
    )]
    ChunkSize(u32),
    /// The manifest claims more bytes than any may have.
    #[error(
        "CONTAINER_HEADER_TOO_LARGE: a header of {0} bytes, the limit is 65536; seal fewer files"
    )]
    HeaderTooLarge(u64),
    /// The manifest is not well-formed.
    #[error("CONTAINER_HEADER_MALFORMED: {0}; seal the model again")]
    HeaderMalformed(&'static str),
    /// Two files have one name.
    #[error("CONTAINER_DUPLICATE_NAME: two files are called `{0}`; seal the model again")]
    DuplicateName(String),
    /// A name that is no plain relative path.
    #[error("CONTAINER_BAD_PATH: a name {0}; seal a folder with plain names")]
    BadPath(BadName),
    /// The files are not in the one order that there is.
    #[error("CONTAINER_FILE_ORDER: files are not sorted by size, then name; seal the model again")]
    FileOrder,
    /// No file at all, too many, or more bytes than can be counted.
    #[error("CONTAINER_FILE_SET: {0}")]
    FileSet(&'static str),
    /// The container ends before the header says.
    #[error("CONTAINER_TRUNCATED: the container ends early, in {0}; get it again")]
    Truncated(&'static str),
    /// The data key is another than the one it was sealed with, or the salt was changed.
    #[error(
        "CONTAINER_WRONG_KEY: the data key does not belong to this container; release the key that it was sealed with"
    )]
    WrongKey,
    /// The key is right, the header is not as it was sealed.
    #[error(
        "CONTAINER_HEADER_ALTERED: the header was changed after it was sealed; get the container again"
    )]
    HeaderAltered,
    /// The header is genuine, this chunk is not as it was sealed.
    #[error(
        "CONTAINER_CHUNK_ALTERED: chunk {0} was changed after it was sealed; get the container again"
    )]
    ChunkAltered(u64),
    /// A genuine chunk of this container in another one's place.
    #[error(
        "CONTAINER_CHUNK_ORDER: in place of chunk {at} is chunk {sealed_as}; get the container again"
    )]
    ChunkOrder {
        /// Where it was met.
        at: u64,
        /// Where it belongs.
        sealed_as: u64,
    },
    /// Bytes after the last chunk, or a chunk longer than it may be.
    #[error("CONTAINER_TRAILING_BYTES: bytes follow where the container ends; get it again")]
    TrailingBytes,
    /// The sealed bytes are not those that the manifest names.
    #[error(
        "CONTAINER_FILE_DIGEST: `{name}` is not the file that the manifest names; seal the model again"
    )]
    FileDigest {
        /// Its name.
        name: String,
        /// SHA-256 in the manifest.
        expected: [u8; 32],
        /// SHA-256 of the bytes.
        observed: [u8; 32],
    },
    /// The sealer was handed other chunks than the manifest makes.
    #[error(
        "CONTAINER_CHUNK_LENGTH: chunk {index} has {observed} bytes, expected {expected}; the files changed while they were sealed"
    )]
    ChunkLength {
        /// The chunk.
        index: u64,
        /// Bytes that it has to have.
        expected: usize,
        /// Bytes that it has.
        observed: usize,
    },
}

/// What is wrong with a name. The name is not repeated: it is not trusted yet, and may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// 1 to 255 bytes.
    #[error("has no or more than 255 bytes")]
    Length,
    /// Not UTF-8.
    #[error("is not UTF-8")]
    Encoding,
    /// `/x`, `x//y`, `x/`, `.` or `..`.
    #[error("has an empty part, or one of dots alone")]
    Part,
    /// A backslash, or a control character.
    #[error("has a backslash or a control character")]
    Character,
}

impl ContainerError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAContainer => "CONTAINER_NOT_ONE",
            Self::Version(_) => "CONTAINER_VERSION",
            Self::Suite(_) => "CONTAINER_SUITE",
            Self::ChunkSize(_) => "CONTAINER_CHUNK_SIZE",
            Self::HeaderTooLarge(_) => "CONTAINER_HEADER_TOO_LARGE",
            Self::HeaderMalformed(_) => "CONTAINER_HEADER_MALFORMED",
            Self::DuplicateName(_) => "CONTAINER_DUPLICATE_NAME",
            Self::BadPath(_) => "CONTAINER_BAD_PATH",
            Self::FileOrder => "CONTAINER_FILE_ORDER",
            Self::FileSet(_) => "CONTAINER_FILE_SET",
            Self::Truncated(_) => "CONTAINER_TRUNCATED",
            Self::WrongKey => "CONTAINER_WRONG_KEY",
            Self::HeaderAltered => "CONTAINER_HEADER_ALTERED",
            Self::ChunkAltered(_) => "CONTAINER_CHUNK_ALTERED",
            Self::ChunkOrder { .. } => "CONTAINER_CHUNK_ORDER",
            Self::TrailingBytes => "CONTAINER_TRAILING_BYTES",
            Self::FileDigest { .. } => "CONTAINER_FILE_DIGEST",
            Self::ChunkLength { .. } => "CONTAINER_CHUNK_LENGTH",
        }
    }
}
