//! The subset of deterministic CBOR (RFC 8949 §4.2.1) that a tree head uses: unsigned integers, strings, heads of containers.

/// Writes the head of an item: major type and argument, in the shortest form.
pub(crate) fn head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    let bytes = argument.to_be_bytes();
    match argument {
        0..=23 => out.push(major | bytes[7]),
        24..=0xff => out.extend_from_slice(&[major | 24, bytes[7]]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Writes a byte string.
pub(crate) fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    head(out, 2, value.len() as u64);
    out.extend_from_slice(value);
}

/// Reads items from the front of a slice. Does not check for the shortest form: the caller encodes the result again
/// and compares.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The argument of an item of this major type.
    pub(crate) fn head(&mut self, major: u8) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        if first >> 5 != major {
            return None;
        }
        self.0 = rest;
        let length = match first & 0x1f {
            argument @ 0..=23 => return Some(argument.into()),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => return None,
        };
        Some(
            self.take(length)?
                .iter()
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
        )
    }

    /// A byte string.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.head(2)?).ok()?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
