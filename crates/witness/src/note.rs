//! Signed notes: a text, an empty line, and one line for each signature.
//!
//! ```text
//! text                                  one or more lines
//!                                       an empty line
//! — NAME base64(key ID ‖ signature)     one or more lines
//! ```

use std::fmt;

use base64ct::{Base64, Encoding as _};

use crate::lines::base64;

/// Longest note in bytes.
pub const MAX_NOTE: usize = 64 << 10;
/// Most signatures of a note. The specification requires at least 16.
pub const MAX_SIGNATURES: usize = 64;

/// EM DASH and a space begin a signature line.
const MARK: &str = "\u{2014} ";

/// Why bytes are not a signed note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum NoteError {
    /// Not of the format.
    #[error("this is not a signed note")]
    #[coded(
        "NOTE_MALFORMED",
        remedy = "Copy all of the note, with its last line break, or check the server that sent it."
    )]
    Malformed,
    /// Longer than any note that is accepted.
    #[error("the note has more than {MAX_NOTE} bytes, or more than {MAX_SIGNATURES} signatures")]
    #[coded(
        "NOTE_TOO_LARGE",
        remedy = "Remove signatures of keys that no policy names."
    )]
    TooLarge,
}

/// A signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    name: String,
    id: u32,
    bytes: Vec<u8>,
}

impl Signature {
    pub(crate) fn new(name: &str, id: u32, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            id,
            bytes,
        }
    }

    /// Name of the key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Key ID.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The signature itself, without the key ID.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn parse(line: &str) -> Option<Self> {
        let (name, signature) = line.strip_prefix(MARK)?.split_once(' ')?;
        let bytes = Base64::decode_vec(signature).ok()?;
        let (id, rest) = bytes.split_first_chunk()?;
        (is_name(name) && !rest.is_empty())
            .then(|| Self::new(name, u32::from_be_bytes(*id), rest.to_vec()))
    }
}

impl fmt::Display for Signature {
    /// Writes the line, with its newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.id.to_be_bytes()[..], &self.bytes].concat();
        writeln!(f, "{MARK}{} {}", self.name, base64(&bytes))
    }
}

/// Reads lines of signatures, such as the answer of a witness.
///
/// # Errors
/// [`NoteError`].
pub fn parse_signatures(bytes: &[u8]) -> Result<Vec<Signature>, NoteError> {
    if bytes.len() > MAX_NOTE {
        return Err(NoteError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| NoteError::Malformed)?;
    let lines = text.strip_suffix('\n').ok_or(NoteError::Malformed)?;
    if lines.split('\n').count() > MAX_SIGNATURES {
        return Err(NoteError::TooLarge);
    }
    let signatures: Option<Vec<_>> = lines.split('\n').map(Signature::parse).collect();
    signatures.ok_or(NoteError::Malformed)
}

/// Whether a key may have this name: not empty, without spaces, control characters and `+`.
pub fn is_name(name: &str) -> bool {
    let is_allowed =
        |letter: char| !letter.is_whitespace() && !letter.is_ascii_control() && letter != '+';
    !name.is_empty() && name.chars().all(is_allowed)
}

/// A note. Nothing in it is verified: see [`Verifier`](crate::key::Verifier).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<Signature>,
}

impl Note {
    /// A note without signatures.
    ///
    /// # Errors
    /// [`NoteError::Malformed`] where the text does not end with a newline, or contains a control character.
    pub fn new(text: &str) -> Result<Self, NoteError> {
        let is_text =
            text.ends_with('\n') && text.chars().all(|letter| letter >= ' ' || letter == '\n');
        match is_text {
            true => Ok(Self {
                text: text.to_owned(),
                signatures: Vec::new(),
            }),
            false => Err(NoteError::Malformed),
        }
    }

    /// Reads a note with one signature or more.
    ///
    /// # Errors
    /// [`NoteError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        if bytes.len() > MAX_NOTE {
            return Err(NoteError::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| NoteError::Malformed)?;
        // The text may contain empty lines, signatures do not.
        let end = text.rfind("\n\n").ok_or(NoteError::Malformed)?;
        let (text, signatures) = text.split_at(end + 1);
        let signatures = signatures.strip_prefix('\n').ok_or(NoteError::Malformed)?;
        let mut note = Self::new(text)?;
        note.signatures = parse_signatures(signatures.as_bytes())?;
        Ok(note)
    }

    /// The signed text, with its last newline.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signatures, in their order.
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// Appends a signature, in place of an earlier one of the same key.
    pub fn sign(&mut self, signature: Signature) {
        self.signatures
            .retain(|earlier| (&earlier.name, earlier.id) != (&signature.name, signature.id));
        self.signatures.push(signature);
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures
            .iter()
            .try_for_each(|signature| write!(f, "{signature}"))
    }
}
