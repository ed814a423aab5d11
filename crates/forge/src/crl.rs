use p384::ecdsa::{DerSignature, SigningKey};
use sha2::{Digest, Sha256, Sha384};

use crate::certificate::{Hash, sign_digest};
use crate::der;
use crate::document::Forgery;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// A certificate revocation list (RFC 5280 §5.1) in encoded pieces, before it is signed. A changed piece is signed like any
/// other.
#[derive(Clone, Debug)]
pub struct CrlSpec {
    /// Version as INTEGER: 1 for version 2.
    pub version: Vec<u8>,
    /// AlgorithmIdentifier inside the signed part.
    pub inner_algorithm: Vec<u8>,
    /// AlgorithmIdentifier next to the signature.
    pub outer_algorithm: Vec<u8>,
    /// Issuer as Name.
    pub issuer: Vec<u8>,
    /// Time at which this list was issued.
    pub this_update: Vec<u8>,
    /// Time by which the next list is issued; may be empty.
    pub next_update: Vec<u8>,
    /// Each revoked certificate, as encoded by [`revoked`]. An empty list omits the element.
    pub entries: Vec<Vec<u8>>,
    /// Encoded Extensions. An empty list omits the element.
    pub extensions: Vec<Vec<u8>>,
    /// Hash of the signature.
    pub hash: Hash,
    /// Changes the list after it was signed.
    pub after_signing: Option<fn(&mut Vec<u8>)>,
}

impl CrlSpec {
    /// Signs with the issuer's key (deterministic ECDSA, RFC 6979); returns DER, unless a piece is malformed.
    pub fn sign(&self, issuer: &SigningKey) -> Vec<u8> {
        let entries = match self.entries.is_empty() {
            true => Vec::new(),
            false => der::tlv(0x30, &self.entries.concat()),
        };
        let extensions = match self.extensions.is_empty() {
            true => Vec::new(),
            false => der::tlv(0xa0, &der::tlv(0x30, &self.extensions.concat())),
        };
        let signed = der::sequence(&[
            &self.version,
            &self.inner_algorithm,
            &self.issuer,
            &self.this_update,
            &self.next_update,
            &entries,
            &extensions,
        ]);
        let digest = match self.hash {
            Hash::Sha384 => Sha384::digest(&signed).to_vec(),
            Hash::Sha256 => Sha256::digest(&signed).to_vec(),
        };
        let signature = sign_digest(issuer, &digest)
            .map(|signature| DerSignature::from(signature).as_bytes().to_vec());
        let signature = der::bit_string(&signature.unwrap_or_default());
        let mut list = der::sequence(&[&signed, &self.outer_algorithm, &signature]);
        if let Some(change) = self.after_signing {
            change(&mut list);
        }
        list
    }
}

/// An entry: serial number as INTEGER, time of revocation (Unix seconds), and encoded extensions.
pub fn revoked(serial: &[u8], unix_seconds: u64, extensions: &[Vec<u8>]) -> Vec<u8> {
    let extensions = match extensions {
        [] => Vec::new(),
        _ => der::tlv(0x30, &extensions.concat()),
    };
    der::sequence(&[serial, &der::time(unix_seconds), &extensions])
}

/// The entry extension reasonCode (RFC 5280 §5.3.1).
pub fn reason(code: u8) -> Vec<u8> {
    der::extension(der::REASON_CODE, false, &der::tlv(0x0a, &[code]))
}

impl Forgery {
    /// The list that the CA at position `at` of the chain issued an hour before the document, valid for a week. It revokes
    /// certificates of other chains only.
    pub fn crl(&self, at: usize) -> CrlSpec {
        let now = self.timestamp / 1000;
        let others = [(&[0x5e, 1, 2, 3][..], 1), (&[0x5e, 1, 2, 4], 4)];
        let entries = others.map(|(serial, code)| {
            revoked(
                &der::integer(serial),
                now.saturating_sub(DAY),
                &[reason(code)],
            )
        });
        CrlSpec {
            version: der::integer(&[1]),
            inner_algorithm: der::ECDSA_SHA384.to_vec(),
            outer_algorithm: der::ECDSA_SHA384.to_vec(),
            issuer: self.links[at].spec.subject.clone(),
            this_update: der::time(now.saturating_sub(HOUR)),
            next_update: der::time(now + 7 * DAY),
            entries: entries.to_vec(),
            extensions: vec![der::extension(der::CRL_NUMBER, false, &der::integer(&[7]))],
            hash: Hash::Sha384,
            after_signing: None,
        }
    }

    /// Signs a list with the key of the CA at position `at`.
    pub fn sign_crl(&self, spec: &CrlSpec, at: usize) -> Vec<u8> {
        spec.sign(&self.links[at].key)
    }

    /// The lists of all CAs that may sign one, concatenated DER: root, regional and zonal.
    pub fn crls(&self) -> Vec<u8> {
        let lists =
            (0..self.links.len().saturating_sub(2)).map(|at| self.sign_crl(&self.crl(at), at));
        lists.collect::<Vec<_>>().concat()
    }

    /// An entry that revokes the certificate at position `at`, an hour before the document, with reason keyCompromise.
    pub fn revocation(&self, at: usize) -> Vec<u8> {
        let when = (self.timestamp / 1000).saturating_sub(HOUR);
        revoked(&self.links[at].spec.serial, when, &[reason(1)])
    }
}
