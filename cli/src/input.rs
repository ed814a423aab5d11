//! Files as users have them: raw bytes, or the same in hex, base64 or base64url, with a size limit.

use crate::args::Crls;
use anyhow::{Context, Result, bail};
use base64ct::{Base64, Encoding};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// As much as the largest audit bundle that a service makes, with room for a line break or two.
const MAX_FILE: u64 = protocol::bundle::MAX_BUNDLE as u64 + 4096;

/// Reads `path` (`-` is standard input), raw.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_FILE + 1;
    if path.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .take(limit)
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?;
    } else {
        File::open(path)
            .and_then(|file| file.take(limit).read_to_end(&mut bytes))
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    if bytes.len() as u64 > MAX_FILE {
        bail!(
            "{} is larger than {MAX_FILE} bytes; no evidence is",
            path.display()
        );
    }
    Ok(bytes)
}

/// Reads `path` without the byte order mark that some editors write before JSON (RFC 8259 §8.1).
pub(crate) fn read_json(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    Ok(match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(json) => json.to_vec(),
        None => bytes,
    })
}

/// Reads `path` and undoes a text encoding, where the file is one.
pub(crate) fn read_binary(path: &Path) -> Result<Vec<u8>> {
    read(path).map(intake::decode)
}

/// Undoes PEM, where the file is one.
pub(crate) fn read_certificate(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    undo_pem(path, bytes, "CERTIFICATE")
}

/// Reads certificate revocation lists, and sets them one after another, in DER.
pub(crate) fn read_crls(crls: &Crls) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for path in &crls.files {
        let crl = undo_pem(path, read(path)?, "X509 CRL")?;
        if crl.is_empty() {
            bail!("{} holds no revocation list", path.display());
        }
        all.extend(crl);
    }
    Ok(all)
}

fn undo_pem(path: &Path, bytes: Vec<u8>, label: &str) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(&bytes).ok();
    let Some(body) = text.and_then(|text| pem_body(text, label)) else {
        return Ok(intake::decode(bytes));
    };
    Base64::decode_vec(&body).with_context(|| format!("{} is not a valid PEM file", path.display()))
}

/// RFC 7468: the base64 between the first pair of encapsulation boundaries.
fn pem_body(text: &str, label: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    Some(body.split_ascii_whitespace().collect())
}

/// Hex as a user types it.
pub(crate) fn hex(what: &str, text: &str) -> Result<Vec<u8>> {
    base16ct::mixed::decode_vec(text.trim()).with_context(|| format!("{what} is not hex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_is_unwrapped() {
        let pem = "-----BEGIN CERTIFICATE-----\nMAMC\nAQU=\n-----END CERTIFICATE-----\n";
        assert_eq!(pem_body(pem, "CERTIFICATE").as_deref(), Some("MAMCAQU="));
        assert_eq!(pem_body(pem, "X509 CRL"), None);
        assert_eq!(pem_body("no certificate", "CERTIFICATE"), None);
    }
}
