//! CBOR heads and strings (RFC 8949 §3), shortest form.

/// Head of major type `major` with argument `value`.
pub fn head(major: u8, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let (info, from) = match value {
        0..=23 => return vec![(major << 5) | bytes[7]],
        24..=0xff => (24, 7),
        0x100..=0xffff => (25, 6),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 0),
    };
    let mut out = vec![(major << 5) | info];
    out.extend_from_slice(&bytes[from..]);
    out
}

/// Byte string.
pub fn bytes(value: &[u8]) -> Vec<u8> {
    [head(2, value.len() as u64), value.to_vec()].concat()
}

/// Text string.
pub fn text(value: &str) -> Vec<u8> {
    [head(3, value.len() as u64), value.as_bytes().to_vec()].concat()
}

/// Byte string or `null`.
pub fn optional(value: Option<&[u8]>) -> Vec<u8> {
    value.map_or_else(|| vec![0xf6], bytes)
}
