/// Writes shortest heads and definite lengths only (RFC 8949 §4.2.1). The caller writes map keys in order.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Unsigned integer.
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.head(0, value)
    }

    /// Integer of either sign.
    pub fn int(&mut self, value: i64) -> &mut Self {
        match u64::try_from(value) {
            Ok(value) => self.head(0, value),
            // RFC 8949 §3.1: a negative integer is -1 minus its argument.
            Err(_) => self.head(1, !value as u64),
        }
    }

    /// Byte string.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.head(2, value.len() as u64);
        self.raw(value)
    }

    /// Text string.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.head(3, value.len() as u64);
        self.raw(value.as_bytes())
    }

    /// Head of an array of `count` elements; write them next.
    pub fn array(&mut self, count: u64) -> &mut Self {
        self.head(4, count)
    }

    /// Head of a map of `count` entries; write keys and values next, keys in bytewise order of their encodings.
    pub fn map(&mut self, count: u64) -> &mut Self {
        self.head(5, count)
    }

    /// Tag; write the tagged item next.
    pub fn tag(&mut self, number: u64) -> &mut Self {
        self.head(6, number)
    }

    /// Boolean.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.raw(&[if value { 0xf5 } else { 0xf4 }])
    }

    /// `null`.
    pub fn null(&mut self) -> &mut Self {
        self.raw(&[0xf6])
    }

    /// An item that is encoded already.
    pub fn raw(&mut self, encoded: &[u8]) -> &mut Self {
        self.out.extend_from_slice(encoded);
        self
    }

    /// The bytes written.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    fn head(&mut self, major: u8, value: u64) -> &mut Self {
        let major = major << 5;
        let bytes = value.to_be_bytes();
        match value {
            0..=23 => self.out.push(major | bytes[7]),
            24..=0xff => self.out.extend_from_slice(&[major | 24, bytes[7]]),
            0x100..=0xffff => {
                self.out.push(major | 25);
                self.out.extend_from_slice(&bytes[6..]);
            }
            0x1_0000..=0xffff_ffff => {
                self.out.push(major | 26);
                self.out.extend_from_slice(&bytes[4..]);
            }
            _ => {
                self.out.push(major | 27);
                self.out.extend_from_slice(&bytes);
            }
        }
        self
    }
}
