//! A certificate that the proxy issues to itself, for one run (RFC 5280).

use anyhow::{Context, Result, anyhow};
use base64ct::{Base64, Encoding};
use jiff::{Timestamp, ToSpan};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::gate::HostName;

/// A P-256 key, which the TLS library of every system takes, and its certificate. DER.
pub(super) struct SelfSigned {
    pub(super) certificate: Vec<u8>,
    /// PKCS #8.
    pub(super) key: Zeroizing<Vec<u8>>,
}

impl SelfSigned {
    /// Makes a key, and certifies it for `names`.
    pub(super) fn issue(names: &[HostName]) -> Result<Self> {
        let failed = |_| anyhow!("the operating system gives no random bytes");
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random);
        let pair = pair.map_err(|error| anyhow!("the new key is unusable: {error}"))?;
        let mut serial = [0; 16];
        random.fill(&mut serial).map_err(failed)?;
        // A positive integer without a zero in front (X.690 §8.3.2).
        let [first, ..] = &mut serial;
        *first = *first & 0x3f | 0x40;
        let now = Timestamp::now();
        let (start, end) = (now - 24.hours(), now + (DAYS * 24).hours());
        let signed = sequence(&[
            &tlv(0xa0, &[b"\x02\x01\x02"]),
            &tlv(0x02, &[&serial]),
            &ecdsa_with_sha256(),
            &common_name(),
            &sequence(&[&time(start), &time(end)]),
            &common_name(),
            &sequence(&[&p256(), &bits(pair.public_key().as_ref())]),
            &tlv(0xa3, &[&extensions(names)]),
        ]);
        let signature = pair.sign(&random, &signed).map_err(failed)?;
        Ok(Self {
            certificate: sequence(&[&signed, &ecdsa_with_sha256(), &bits(signature.as_ref())]),
            key: Zeroizing::new(key.as_ref().to_vec()),
        })
    }

    /// SHA-256 of the certificate, as browsers and `openssl x509 -fingerprint` print it.
    pub(super) fn fingerprint(&self) -> String {
        let digest = Sha256::digest(&self.certificate);
        let pairs = digest.iter().map(|byte| format!("{byte:02X}"));
        pairs.collect::<Vec<_>>().join(":")
    }

    /// RFC 7468 §5.1.
    pub(super) fn pem(&self) -> Result<String> {
        let body = Base64::encode_string(&self.certificate);
        let lines = body.as_bytes().chunks(64).map(std::str::from_utf8);
        let lines = lines.collect::<Result<Vec<_>, _>>();
        let lines = lines.context("base64 is ASCII")?.join("\n");
        Ok(format!(
            "-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
        ))
    }
}

/// Apple's systems accept no longer validity than 825 days.
const DAYS: i64 = 397;

/// X.690 §8.1: identifier, length, content.
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut all = vec![tag];
    match (content.len(), u8::try_from(length.len())) {
        (128.., Ok(count)) => {
            all.push(0x80 | count);
            all.extend(length);
        }
        (0, _) => all.push(0),
        _ => all.extend(length),
    }
    all.extend(content);
    all
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(0x30, parts)
}

/// A string of whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    tlv(0x03, &[b"\0", bytes])
}

/// RFC 5758 §3.2.
fn ecdsa_with_sha256() -> Vec<u8> {
    sequence(&[b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"])
}

/// RFC 5480 §2.1: id-ecPublicKey on secp256r1.
fn p256() -> Vec<u8> {
    sequence(&[
        b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01",
        b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
    ])
}

/// Issuer and subject, which are the same.
fn common_name() -> Vec<u8> {
    let name = tlv(0x0c, &[b"clearseal proxy"]);
    sequence(&[&tlv(0x31, &[&sequence(&[b"\x06\x03\x55\x04\x03", &name])])])
}

/// RFC 5280 §4.1.2.5: years from 2050 on have four digits.
fn time(time: Timestamp) -> Vec<u8> {
    let text = time.strftime("%Y%m%d%H%M%SZ").to_string();
    match text.strip_prefix("20") {
        Some(short) if short < "50" => tlv(0x17, &[short.as_bytes()]),
        _ => tlv(0x18, &[text.as_bytes()]),
    }
}

/// Names, and the usages that some systems require: signatures, of a TLS server that is not an authority.
fn extensions(names: &[HostName]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = names
        .iter()
        .map(|name| match name {
            HostName::Name(name) => tlv(0x82, &[name.as_bytes()]),
            HostName::Address(std::net::IpAddr::V4(address)) => tlv(0x87, &[&address.octets()]),
            HostName::Address(std::net::IpAddr::V6(address)) => tlv(0x87, &[&address.octets()]),
        })
        .collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let critical = b"\x01\x01\xff";
    sequence(&[
        &sequence(&[b"\x06\x03\x55\x1d\x11", &tlv(0x04, &[&sequence(&names)])]),
        &sequence(&[
            b"\x06\x03\x55\x1d\x13",
            critical,
            &tlv(0x04, &[&sequence(&[])]),
        ]),
        &sequence(&[
            b"\x06\x03\x55\x1d\x0f",
            critical,
            b"\x04\x04\x03\x02\x07\x80",
        ]),
        &sequence(&[
            b"\x06\x03\x55\x1d\x25",
            &tlv(
                0x04,
                &[&sequence(&[b"\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x01"])],
            ),
        ]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for (length, head) in [
            (0, &[4, 0][..]),
            (127, &[4, 127]),
            (128, &[4, 0x81, 128]),
            (255, &[4, 0x81, 255]),
            (256, &[4, 0x82, 1, 0]),
        ] {
            let encoded = tlv(4, &[&vec![7; length]]);
            assert_eq!(encoded[..encoded.len() - length], *head);
        }
    }

    #[test]
    fn years_from_2050_on_have_four_digits() {
        for (text, expected) in [
            ("2049-12-31T23:59:59Z", &b"\x17\x0d491231235959Z"[..]),
            ("2050-01-01T00:00:00Z", b"\x18\x0f20500101000000Z"),
        ] {
            assert_eq!(time(text.parse().unwrap()), expected);
        }
    }
}
