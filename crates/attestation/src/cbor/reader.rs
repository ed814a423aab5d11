use super::MAX_DEPTH;

/// How strictly a [`Reader`] checks the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rules {
    /// Well-formed, in any form of lengths.
    WellFormed,
    /// Heads in their shortest form (RFC 8949 §4.1); maps and arrays may have indefinite length.
    Shortest,
    /// Core deterministic encoding (RFC 8949 §4.2.1): also definite lengths only, and map keys in strictly ascending
    /// bytewise order, which excludes duplicates.
    Deterministic,
}

/// Why the bytes are not the expected CBOR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CborError {
    /// The input ends inside an item, or a length exceeds what is left.
    #[error("input ends early at byte {at}")]
    Truncated {
        /// Offset of the item's head.
        at: usize,
    },
    /// Bytes follow the last expected item.
    #[error("{count} bytes left over at byte {at}")]
    Trailing {
        /// Offset of the first surplus byte.
        at: usize,
        /// How many there are.
        count: usize,
    },
    /// An item of a type other than the expected one.
    #[error("found {found} at byte {at} where {expected} belongs")]
    WrongType {
        /// Offset of the item's head.
        at: usize,
        /// The expected type.
        expected: &'static str,
        /// The type found.
        found: Kind,
    },
    /// Additional information 28, 29 or 30, or a reserved simple value.
    #[error("reserved encoding at byte {at}")]
    Reserved {
        /// Offset of the item's head.
        at: usize,
    },
    /// A head that is longer than its value needs.
    #[error("head at byte {at} is not in its shortest form")]
    NotShortest {
        /// Offset of the item's head.
        at: usize,
    },
    /// An indefinite length that the rules do not allow.
    #[error("indefinite length at byte {at}")]
    Indefinite {
        /// Offset of the item's head.
        at: usize,
    },
    /// More nesting than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels at byte {at}")]
    TooDeep {
        /// Offset of the item's head.
        at: usize,
    },
    /// Map keys that do not ascend, or repeat.
    #[error("map key at byte {at} is out of order or doubled")]
    KeyOrder {
        /// Offset of the key.
        at: usize,
    },
    /// Text that is not UTF-8.
    #[error("text at byte {at} is not UTF-8")]
    NotUtf8 {
        /// Offset of the item's head.
        at: usize,
    },
    /// An integer that does not fit the type asked for.
    #[error("integer at byte {at} is out of range")]
    OutOfRange {
        /// Offset of the item's head.
        at: usize,
    },
}

/// Type of the next item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Major type 0.
    Unsigned,
    /// Major type 1.
    Negative,
    /// Major type 2.
    Bytes,
    /// Major type 3.
    Text,
    /// Major type 4.
    Array,
    /// Major type 5.
    Map,
    /// Major type 6.
    Tag,
    /// `false` or `true`.
    Bool,
    /// `null`.
    Null,
    /// `undefined`, other simple values, and floating point.
    Simple,
    /// End of an indefinite-length item.
    Break,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Unsigned => "an unsigned integer",
            Kind::Negative => "a negative integer",
            Kind::Bytes => "a byte string",
            Kind::Text => "a text string",
            Kind::Array => "an array",
            Kind::Map => "a map",
            Kind::Tag => "a tag",
            Kind::Bool => "a boolean",
            Kind::Null => "null",
            Kind::Simple => "a simple value",
            Kind::Break => "a break",
        })
    }
}

/// An opened array or map; give it to [`Reader::more`] before each element or entry.
#[derive(Debug)]
pub struct Container<'a> {
    left: Option<u64>,
    map: bool,
    last_key: Option<&'a [u8]>,
}

impl Container<'_> {
    /// Number of remaining elements or entries; `None` for an indefinite length.
    pub fn left(&self) -> Option<u64> {
        self.left
    }
}

/// Reads one item after another. Positions in errors count from the start of the input.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    rules: Rules,
}

struct Head {
    at: usize,
    major: u8,
    info: u8,
    value: u64,
}

impl<'a> Reader<'a> {
    /// Reads `input` under `rules`.
    pub fn new(input: &'a [u8], rules: Rules) -> Self {
        Self {
            input,
            at: 0,
            rules,
        }
    }

    /// Offset of the next item.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Ends reading; fails if bytes are left.
    pub fn finish(self) -> Result<(), CborError> {
        match self.input.len() - self.at {
            0 => Ok(()),
            count => Err(CborError::Trailing { at: self.at, count }),
        }
    }

    /// Type of the next item.
    pub fn peek(&self) -> Result<Kind, CborError> {
        let byte = *self
            .input
            .get(self.at)
            .ok_or(CborError::Truncated { at: self.at })?;
        Ok(kind(byte >> 5, byte & 0x1f))
    }

    /// Reads an unsigned integer.
    pub fn uint(&mut self) -> Result<u64, CborError> {
        self.head(0, "an unsigned integer").map(|head| head.value)
    }

    /// Reads an integer of either sign.
    pub fn int(&mut self) -> Result<i64, CborError> {
        let at = self.at;
        let negative = self.peek()? == Kind::Negative;
        let head = self.head(u8::from(negative), "an integer")?;
        let value = i64::try_from(head.value).map_err(|_| CborError::OutOfRange { at })?;
        Ok(if negative { -1 - value } else { value })
    }

    /// Reads a byte string, in place.
    pub fn bytes(&mut self) -> Result<&'a [u8], CborError> {
        let head = self.head(2, "a byte string")?;
        self.take(&head)
    }

    /// Reads a text string, in place.
    pub fn text(&mut self) -> Result<&'a str, CborError> {
        let head = self.head(3, "a text string")?;
        let bytes = self.take(&head)?;
        // RFC 8949 §5.3.1: text that is not UTF-8 is invalid.
        std::str::from_utf8(bytes).map_err(|_| CborError::NotUtf8 { at: head.at })
    }

    /// Reads a boolean.
    pub fn bool(&mut self) -> Result<bool, CborError> {
        match self.peek()? {
            Kind::Bool => {
                self.at += 1;
                Ok(self.input[self.at - 1] == 0xf5)
            }
            found => Err(CborError::WrongType {
                at: self.at,
                expected: "a boolean",
                found,
            }),
        }
    }

    /// Reads `null` if it is next, and returns whether it was.
    pub fn null(&mut self) -> Result<bool, CborError> {
        let null = self.peek()? == Kind::Null;
        self.at += usize::from(null);
        Ok(null)
    }

    /// Reads a tag's number; the tagged item follows.
    pub fn tag(&mut self) -> Result<u64, CborError> {
        self.head(6, "a tag").map(|head| head.value)
    }

    /// Opens an array.
    pub fn array(&mut self) -> Result<Container<'a>, CborError> {
        self.open(4, "an array")
    }

    /// Opens a map. Under [`Rules::Deterministic`], [`more`](Self::more) also checks the order of the keys.
    pub fn map(&mut self) -> Result<Container<'a>, CborError> {
        self.open(5, "a map")
    }

    /// Whether another element (or another key and value) follows. At the end of an indefinite length it reads the break.
    pub fn more(&mut self, container: &mut Container<'a>) -> Result<bool, CborError> {
        match &mut container.left {
            Some(0) => return Ok(false),
            Some(left) => *left -= 1,
            None if self.peek()? == Kind::Break => {
                self.at += 1;
                container.left = Some(0);
                return Ok(false);
            }
            None => {}
        }
        if container.map && self.rules == Rules::Deterministic {
            // A container as a key would be read once per level of nesting: exponential work for a few bytes.
            let found = self.peek()?;
            if !matches!(
                found,
                Kind::Unsigned | Kind::Negative | Kind::Bytes | Kind::Text
            ) {
                return Err(CborError::WrongType {
                    at: self.at,
                    expected: "an integer or string as a key",
                    found,
                });
            }
            let key = self.clone().raw()?;
            // RFC 8949 §4.2.1: keys sorted in the bytewise lexicographic order of their encodings.
            if container.last_key.is_some_and(|last| last >= key) {
                return Err(CborError::KeyOrder { at: self.at });
            }
            container.last_key = Some(key);
        }
        Ok(true)
    }

    /// Skips one item with everything nested in it.
    pub fn skip(&mut self) -> Result<(), CborError> {
        self.skip_nested(0)
    }

    /// Skips one item and returns its encoding.
    pub fn raw(&mut self) -> Result<&'a [u8], CborError> {
        let start = self.at;
        self.skip()?;
        Ok(&self.input[start..self.at])
    }

    fn skip_nested(&mut self, depth: u8) -> Result<(), CborError> {
        // Deeply nested brackets cost their own bytes and MAX_DEPTH stack frames, not more.
        if depth >= MAX_DEPTH {
            return Err(CborError::TooDeep { at: self.at });
        }
        match self.peek()? {
            Kind::Unsigned => self.uint().map(drop),
            Kind::Negative => self.head(1, "a negative integer").map(drop),
            Kind::Bytes => self.bytes().map(drop),
            Kind::Text => self.text().map(drop),
            Kind::Tag => {
                self.tag()?;
                self.skip_nested(depth + 1)
            }
            kind @ (Kind::Array | Kind::Map) => {
                let map = kind == Kind::Map;
                let mut container = if map { self.map()? } else { self.array()? };
                while self.more(&mut container)? {
                    self.skip_nested(depth + 1)?;
                    if map {
                        self.skip_nested(depth + 1)?;
                    }
                }
                Ok(())
            }
            Kind::Bool | Kind::Null => {
                self.at += 1;
                Ok(())
            }
            Kind::Simple => self.simple(),
            Kind::Break => Err(CborError::WrongType {
                at: self.at,
                expected: "an item",
                found: Kind::Break,
            }),
        }
    }

    fn simple(&mut self) -> Result<(), CborError> {
        let at = self.at;
        let head = self.any_head()?;
        // RFC 8949 §3.3: two-byte simple values below 32 are not well-formed.
        if head.info == 24 && head.value < 32 {
            return Err(CborError::Reserved { at });
        }
        Ok(())
    }

    fn open(&mut self, major: u8, expected: &'static str) -> Result<Container<'a>, CborError> {
        let at = self.at;
        let map = major == 5;
        if self.input.get(at) == Some(&((major << 5) | 31)) {
            if self.rules == Rules::Deterministic {
                return Err(CborError::Indefinite { at });
            }
            self.at += 1;
            return Ok(Container {
                left: None,
                map,
                last_key: None,
            });
        }
        let head = self.head(major, expected)?;
        // Every element takes at least one byte: a count beyond the rest of the input is refused before any loop.
        let smallest = head
            .value
            .checked_mul(if map { 2 } else { 1 })
            .ok_or(CborError::Truncated { at })?;
        if smallest > (self.input.len() - self.at) as u64 {
            return Err(CborError::Truncated { at });
        }
        Ok(Container {
            left: Some(head.value),
            map,
            last_key: None,
        })
    }

    fn take(&mut self, head: &Head) -> Result<&'a [u8], CborError> {
        let truncated = CborError::Truncated { at: head.at };
        let length = usize::try_from(head.value).map_err(|_| truncated)?;
        let end = self.at.checked_add(length).ok_or(truncated)?;
        let bytes = self.input.get(self.at..end).ok_or(truncated)?;
        self.at = end;
        Ok(bytes)
    }

    fn head(&mut self, major: u8, expected: &'static str) -> Result<Head, CborError> {
        let at = self.at;
        let found = self.peek()?;
        let before = self.clone();
        let head = self.any_head()?;
        if head.major != major {
            *self = before;
            return Err(CborError::WrongType {
                at,
                expected,
                found,
            });
        }
        Ok(head)
    }

    fn any_head(&mut self) -> Result<Head, CborError> {
        let at = self.at;
        let truncated = CborError::Truncated { at };
        let byte = *self.input.get(at).ok_or(truncated)?;
        let (major, info) = (byte >> 5, byte & 0x1f);
        let extra = match info {
            0..=23 => 0,
            24..=27 => 1usize << (info - 24),
            // RFC 8949 §3: 28, 29 and 30 are reserved and not well-formed.
            28..=30 => return Err(CborError::Reserved { at }),
            _ => return Err(CborError::Indefinite { at }),
        };
        let argument = self.input.get(at + 1..at + 1 + extra).ok_or(truncated)?;
        let value = match extra {
            0 => u64::from(info),
            _ => argument
                .iter()
                .fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte)),
        };
        // RFC 8949 §4.1; the bytes of a float (major 7) are its value, not a length.
        let fits_shorter = match info {
            24 => value < 24,
            25 => value <= 0xff,
            26 => value <= 0xffff,
            27 => value <= 0xffff_ffff,
            _ => false,
        };
        if fits_shorter && major != 7 && self.rules >= Rules::Shortest {
            return Err(CborError::NotShortest { at });
        }
        self.at = at + 1 + extra;
        Ok(Head {
            at,
            major,
            info,
            value,
        })
    }
}

fn kind(major: u8, info: u8) -> Kind {
    match (major, info) {
        (0, _) => Kind::Unsigned,
        (1, _) => Kind::Negative,
        (2, _) => Kind::Bytes,
        (3, _) => Kind::Text,
        (4, _) => Kind::Array,
        (5, _) => Kind::Map,
        (6, _) => Kind::Tag,
        (_, 20 | 21) => Kind::Bool,
        (_, 22) => Kind::Null,
        (_, 31) => Kind::Break,
        _ => Kind::Simple,
    }
}
