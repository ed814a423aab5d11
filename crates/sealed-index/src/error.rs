//! Why an index, a change, a filter, a history or a proof was refused. No error contains anything of a row.

use scan::ScanError;

/// Why stored objects do not open, or a key is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum IndexError {
    /// Not 32 bytes in base64url.
    #[error("the index key is not 32 bytes in base64url without padding")]
    #[coded(
        "INDEX_KEY_MALFORMED",
        remedy = "Send the key as `clearseal index create` wrote it."
    )]
    KeyMalformed,
    /// Not the name of an index.
    #[error("the name of the index is not 32 hexadecimal digits")]
    #[coded(
        "INDEX_ID_MALFORMED",
        remedy = "Send the id that was returned when the index was made."
    )]
    IdMalformed,
    /// The key belongs to another index.
    #[error("the key is not that of this index")]
    #[coded(
        "INDEX_KEY_WRONG",
        remedy = "Send the key with which the index was made; the id follows from it."
    )]
    KeyWrong,
    /// The bytes are not a sealed object of an index.
    #[error("a stored object of the index is not one")]
    #[coded(
        "INDEX_OBJECT_UNKNOWN",
        remedy = "The host stores something else under its name; restore the index from a copy."
    )]
    ObjectUnknown,
    /// A genuine object under another object's name.
    #[error("a stored object of the index has the name of another")]
    #[coded(
        "INDEX_OBJECT_SWAPPED",
        remedy = "The host mixes objects up; restore the index from a copy."
    )]
    ObjectSwapped,
    /// Fewer or more bytes than were sealed.
    #[error("a stored object of the index has {observed} bytes, {expected} were sealed")]
    #[coded(
        "INDEX_OBJECT_LENGTH",
        remedy = "The object was cut or extended; restore the index from a copy."
    )]
    ObjectLength {
        /// Bytes that were sealed.
        expected: u64,
        /// Bytes received.
        observed: u64,
    },
    /// Changed after it was sealed.
    #[error("a stored object of the index was changed after it was sealed")]
    #[coded(
        "INDEX_OBJECT_ALTERED",
        remedy = "The object is damaged or forged; restore the index from a copy."
    )]
    ObjectAltered,
    /// Genuine, and yet not in a form that this program writes.
    #[error("a stored object of the index has {0} that this program does not write")]
    #[coded(
        "INDEX_OBJECT_MALFORMED",
        remedy = "A newer program may have written it: use that one. Otherwise report this as a defect."
    )]
    ObjectMalformed(&'static str),
    /// A segment that the state names was not opened, or twice.
    #[error("the opened segments are not those that the state names")]
    #[coded("INDEX_SEGMENTS", remedy = "Report this as a defect.")]
    Segments,
    /// The rows do not have the root that the state names.
    #[error("the rows of the index do not have the root of its state")]
    #[coded("INDEX_ROOT_DIFFERS", remedy = "Report this as a defect.")]
    RootDiffers,
    /// An object would be larger than a host stores.
    #[error("an object of {0} bytes, the limit is 134217728")]
    #[coded("INDEX_OBJECT_TOO_LARGE", remedy = "Write fewer rows at once.")]
    ObjectTooLarge(u64),
    /// The settings cannot be those of an index.
    #[error("{0}")]
    #[coded(
        "INDEX_SETTINGS_INVALID",
        remedy = "Correct the setting that the message names."
    )]
    Settings(&'static str),
}

/// Why a change was refused. The index is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ChangeError {
    /// An empty or very long id.
    #[error("the id of row {0} has no or more than 256 bytes")]
    #[coded("INDEX_ROW_ID", remedy = "Give every row an id of 1 to 256 bytes.")]
    Id(usize),
    /// Two changes of one row.
    #[error("two changes, {0} and {1}, are of the same row")]
    #[coded(
        "INDEX_ROW_REPEATED",
        remedy = "Send one change for each row in a request."
    )]
    Repeated(usize, usize),
    /// A text beyond the limit.
    #[error("the text of row {0} has more than 1048576 bytes")]
    #[coded(
        "INDEX_TEXT_TOO_LONG",
        remedy = "Split the text, or send its vector without it."
    )]
    Text(usize),
    /// A vector that the index cannot hold; the error counts rows from 0.
    #[error(transparent)]
    #[coded(transparent)]
    Vector(#[from] ScanError),
    /// The change cannot be stored.
    #[error(transparent)]
    #[coded(transparent)]
    Index(#[from] IndexError),
}

/// Why a filter was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error("{0}")]
#[coded(
    "INDEX_FILTER_INVALID",
    remedy = "Write `and`, `or`, `not`, or a field with one comparison, as docs/INDEX.md shows."
)]
pub struct FilterError(pub(crate) &'static str);

/// The stored index does not continue the history that a client remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum HistoryError {
    /// The newest version that the host shows is older.
    #[error("the host shows version {newest} of the index, the client has seen version {seen}")]
    #[coded(
        "INDEX_ROLLED_BACK",
        remedy = "The host lost or withholds changes. Ask its operator; restore the newer copy."
    )]
    RolledBack {
        /// Version that the client remembers.
        seen: u64,
        /// Newest version that the host shows.
        newest: u64,
    },
    /// The version that the client remembers had another head.
    #[error("version {seen} of the index is not the one that the client has seen")]
    #[coded(
        "INDEX_FORKED",
        remedy = "The host keeps two histories of this index. Keep both heads as proof, and ask its operator."
    )]
    Forked {
        /// Version that the client remembers.
        seen: u64,
    },
}

/// Why a proof was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ProofError {
    /// More hashes than a map has levels, or a part of one.
    #[error("the path has more than 256 hashes, or a part of one")]
    #[coded("INDEX_PROOF_MALFORMED", remedy = "Check that all of it was copied.")]
    Malformed,
    /// The proof is about another text.
    #[error("the text is not the one in the index")]
    #[coded(
        "INDEX_PROOF_TEXT",
        remedy = "Do not use the row: its text was changed."
    )]
    Text,
    /// The proof is about another vector.
    #[error("the vector is not the one in the index")]
    #[coded(
        "INDEX_PROOF_VECTOR",
        remedy = "Do not use the row: its vector was changed or rounded."
    )]
    Vector,
    /// The proof is about other metadata.
    #[error("the metadata are not those in the index")]
    #[coded(
        "INDEX_PROOF_METADATA",
        remedy = "Do not use the row: its metadata were changed."
    )]
    Metadata,
    /// The path does not lead to the root.
    #[error("the row is not in the index of this root")]
    #[coded("INDEX_PROOF_ROOT", remedy = "Do not use the row.")]
    Root,
    /// The proof of absence ends at the row itself.
    #[error("the row is in the index")]
    #[coded("INDEX_PROOF_PRESENT", remedy = "The row was not deleted.")]
    Present,
}
