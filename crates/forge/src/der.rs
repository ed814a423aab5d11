//! Encoded pieces of DER (X.690), which a test can malform individually.

/// A value of any tag: tag, shortest definite length, content.
pub fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match length {
        0..=0x7f => out.push(length as u8),
        0x80..=0xff => out.extend_from_slice(&[0x81, length as u8]),
        0x100..=0xffff => out.extend_from_slice(&[0x82, (length >> 8) as u8, length as u8]),
        _ => out.extend_from_slice(&[
            0x83,
            (length >> 16) as u8,
            (length >> 8) as u8,
            length as u8,
        ]),
    }
    out.extend_from_slice(content);
    out
}

/// SEQUENCE of encoded elements.
pub fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    tlv(0x30, &elements.concat())
}

/// SET of one encoded element.
pub fn set(element: &[u8]) -> Vec<u8> {
    tlv(0x31, element)
}

/// Non-negative INTEGER, from its big-endian bytes.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    let significant = bytes
        .iter()
        .position(|byte| *byte != 0)
        .map_or(&[0][..], |at| &bytes[at..]);
    let sign = if significant[0] & 0x80 == 0 {
        &[][..]
    } else {
        &[0][..]
    };
    tlv(0x02, &[sign, significant].concat())
}

/// BIT STRING of whole bytes.
pub fn bit_string(bytes: &[u8]) -> Vec<u8> {
    tlv(0x03, &[&[0], bytes].concat())
}

/// OCTET STRING.
pub fn octet_string(bytes: &[u8]) -> Vec<u8> {
    tlv(0x04, bytes)
}

/// Time as required by RFC 5280 §4.1.2.5: UTCTime through 2049, GeneralizedTime from 2050.
pub fn time(unix_seconds: u64) -> Vec<u8> {
    let (year, month, day) = civil(unix_seconds / 86_400);
    let in_day = unix_seconds % 86_400;
    let rest = format!(
        "{month:02}{day:02}{:02}{:02}{:02}Z",
        in_day / 3600,
        in_day / 60 % 60,
        in_day % 60
    );
    if year < 2050 {
        tlv(0x17, format!("{:02}{rest}", year % 100).as_bytes())
    } else {
        tlv(0x18, format!("{year:04}{rest}").as_bytes())
    }
}

/// Name (RFC 5280 §4.1.2.4) with the given attributes: encoded type, UTF-8 value. Countries are PrintableString.
pub fn name(attributes: &[(&[u8], &str)]) -> Vec<u8> {
    let attributes = attributes.iter().map(|(oid, value)| {
        let tag = if *oid == COUNTRY { 0x13 } else { 0x0c };
        set(&sequence(&[oid, &tlv(tag, value.as_bytes())]))
    });
    tlv(0x30, &attributes.collect::<Vec<_>>().concat())
}

/// Extension (RFC 5280 §4.2): type, criticality, encoded value.
pub fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    // X.690 §11.5: the default FALSE is not encoded.
    let critical: &[u8] = if critical { &[0x01, 0x01, 0xff] } else { &[] };
    sequence(&[oid, critical, &octet_string(value)])
}

/// SubjectPublicKeyInfo of an uncompressed point (RFC 5480 §2) on the curve with this encoded identifier.
pub fn ec_public_key(curve: &[u8], point: &[u8]) -> Vec<u8> {
    sequence(&[&sequence(&[EC_PUBLIC_KEY, curve]), &bit_string(point)])
}

/// countryName.
pub const COUNTRY: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x06];
/// organizationName.
pub const ORGANIZATION: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x0a];
/// organizationalUnitName.
pub const UNIT: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x0b];
/// commonName.
pub const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];
/// basicConstraints.
pub const BASIC_CONSTRAINTS: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x13];
/// keyUsage.
pub const KEY_USAGE: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x0f];
/// subjectKeyIdentifier.
pub const SUBJECT_KEY_ID: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x0e];
/// authorityKeyIdentifier.
pub const AUTHORITY_KEY_ID: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x23];
/// nameConstraints, which general verifiers support but no Nitro chain has.
pub const NAME_CONSTRAINTS: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x1e];
/// cRLDistributionPoints.
pub const CRL_DISTRIBUTION_POINTS: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x1f];
/// cRLNumber.
pub const CRL_NUMBER: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x14];
/// reasonCode.
pub const REASON_CODE: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x15];
/// invalidityDate.
pub const INVALIDITY_DATE: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x18];
/// deltaCRLIndicator.
pub const DELTA_CRL_INDICATOR: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x1b];
/// issuingDistributionPoint.
pub const ISSUING_DISTRIBUTION_POINT: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x1c];
/// certificateIssuer.
pub const CERTIFICATE_ISSUER: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x1d];
/// 1.3.6.1.4.1.32473.1, of the arc that is set aside for examples (RFC 5612).
pub const EXAMPLE: &[u8] = &[
    0x06, 0x09, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x81, 0xfd, 0x59, 0x01,
];
/// cRLDistributionPoints with one address, as AWS's regional and zonal certificates have it.
pub fn distribution_point(url: &str) -> Vec<u8> {
    let value = sequence(&[&sequence(&[&tlv(0xa0, &full_name(url))])]);
    extension(CRL_DISTRIBUTION_POINTS, false, &value)
}

/// `fullName` of a DistributionPointName: one uniformResourceIdentifier.
pub fn full_name(url: &str) -> Vec<u8> {
    tlv(0xa0, &tlv(0x86, url.as_bytes()))
}

/// id-ecPublicKey.
pub const EC_PUBLIC_KEY: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// secp384r1.
pub const P384: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
/// prime256v1.
pub const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// secp521r1.
pub const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
/// AlgorithmIdentifier of ecdsa-with-SHA384.
pub const ECDSA_SHA384: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03,
];
/// AlgorithmIdentifier of ecdsa-with-SHA256.
pub const ECDSA_SHA256: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];

/// Year, month and day of a day since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_their_type_with_the_year_2050() {
        assert_eq!(time(951_782_400), tlv(0x17, b"000229000000Z"));
        assert_eq!(time(2_524_607_999), tlv(0x17, b"491231235959Z"));
        assert_eq!(time(2_524_608_000), tlv(0x18, b"20500101000000Z"));
    }

    #[test]
    fn integers_are_shortest_and_positive() {
        assert_eq!(integer(&[0, 0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0, 0, 0x7f]), [2, 1, 0x7f]);
    }
}
