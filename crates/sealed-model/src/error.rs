//! Why a container was refused. Each distinguishable cause has its own code.

/// Why a container was refused, or could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ContainerError {
    /// The first bytes are not the magic.
    #[error("this is not a sealed model")]
    #[coded("CONTAINER_NOT_ONE", remedy = "Make one with `clearseal model seal`.")]
    NotAContainer,
    /// A later version.
    #[error("version {0}, this program reads version 1")]
    #[coded("CONTAINER_VERSION", remedy = "Use a newer program.")]
    Version(u16),
    /// An unknown suite.
    #[error("suite {0}, this program has suite 1 (AES-256-GCM, HKDF-SHA256)")]
    #[coded("CONTAINER_SUITE", remedy = "Use a newer program.")]
    Suite(u16),
    /// An unknown chunk size.
    #[error("chunks of {0} bytes, version 1 has 1048576")]
    #[coded("CONTAINER_CHUNK_SIZE", remedy = "Seal the model again.")]
    ChunkSize(u32),
    /// A manifest that is longer than the limit.
    #[error("a header of {0} bytes, the limit is 65536")]
    #[coded("CONTAINER_HEADER_TOO_LARGE", remedy = "Seal fewer files.")]
    HeaderTooLarge(u64),
    /// The manifest is not well-formed.
    #[error("{0}")]
    #[coded("CONTAINER_HEADER_MALFORMED", remedy = "Seal the model again.")]
    HeaderMalformed(&'static str),
    /// Two files with one name.
    #[error("two files are called `{0}`")]
    #[coded("CONTAINER_DUPLICATE_NAME", remedy = "Seal the model again.")]
    DuplicateName(String),
    /// A name that is not a plain relative path.
    #[error("a name {0}")]
    #[coded("CONTAINER_BAD_PATH", remedy = "Seal a folder with plain names.")]
    BadPath(FileNameError),
    /// The files are not in their only allowed order.
    #[error("files are not sorted by size, then name")]
    #[coded("CONTAINER_FILE_ORDER", remedy = "Seal the model again.")]
    FileOrder,
    /// No file, too many files, or more bytes than can be counted.
    #[error("{0}")]
    #[coded("CONTAINER_FILE_SET", remedy = "Seal the model again.")]
    FileSet(&'static str),
    /// The container ends before the header's length is reached.
    #[error("the container ends early, in {0}")]
    #[coded("CONTAINER_TRUNCATED", remedy = "Get the container again.")]
    Truncated(&'static str),
    /// The data key is not the one that it was sealed with, or the salt was changed.
    #[error("the data key does not belong to this container")]
    #[coded(
        "CONTAINER_WRONG_KEY",
        remedy = "Release the key that it was sealed with."
    )]
    WrongKey,
    /// The key is right, but the header was changed.
    #[error("the header was changed after it was sealed")]
    #[coded("CONTAINER_HEADER_ALTERED", remedy = "Get the container again.")]
    HeaderAltered,
    /// The header is genuine, but this chunk was changed.
    #[error("chunk {0} was changed after it was sealed")]
    #[coded("CONTAINER_CHUNK_ALTERED", remedy = "Get the container again.")]
    ChunkAltered(u64),
    /// A genuine chunk of this container at another chunk's position.
    #[error("in place of chunk {at} is chunk {sealed_as}")]
    #[coded("CONTAINER_CHUNK_ORDER", remedy = "Get the container again.")]
    ChunkOrder {
        /// Position in the container.
        at: u64,
        /// Its correct position.
        sealed_as: u64,
    },
    /// Bytes after the last chunk, or a chunk longer than it may be.
    #[error("bytes follow where the container ends")]
    #[coded("CONTAINER_TRAILING_BYTES", remedy = "Get the container again.")]
    TrailingBytes,
    /// The sealed bytes are not those that the manifest names.
    #[error("`{name}` is not the file that the manifest names")]
    #[coded("CONTAINER_FILE_DIGEST", remedy = "Seal the model again.")]
    FileDigest {
        /// Its name.
        name: String,
        /// SHA-256 in the manifest.
        expected: [u8; 32],
        /// SHA-256 of the bytes.
        observed: [u8; 32],
    },
    /// The sealer received a chunk of a length that the manifest does not allow.
    #[error("chunk {index} has {observed} bytes, expected {expected}")]
    #[coded(
        "CONTAINER_CHUNK_LENGTH",
        remedy = "The files changed while they were sealed; seal them again."
    )]
    ChunkLength {
        /// The chunk.
        index: u64,
        /// Expected bytes.
        expected: usize,
        /// Bytes received.
        observed: usize,
    },
}

/// Why a name was refused. Does not contain the name, which is not trusted yet and may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileNameError {
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
