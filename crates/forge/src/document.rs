use std::collections::BTreeMap;
use std::sync::Arc;

use p384::ecdsa::SigningKey;
use sha2::{Digest, Sha384};

use crate::cbor;
use crate::certificate::{CertificateSpec, sign_digest};

/// Protected header of every genuine document: {1: -35}, ES384.
const ES384_HEADER: [u8; 4] = [0xa1, 0x01, 0x38, 0x22];

/// The contents that an enclave attests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Measurements by register, 0 to 31.
    pub pcrs: BTreeMap<u8, [u8; 48]>,
    /// At most 1,024 bytes, like the other two.
    pub public_key: Option<Vec<u8>>,
    /// Bytes chosen by the enclave.
    pub user_data: Option<Vec<u8>>,
    /// Bytes chosen by the client.
    pub nonce: Option<Vec<u8>>,
}

impl Contents {
    /// Sixteen registers, of which 0, 1, 2 and 4 are set, and no optional field.
    pub fn example() -> Self {
        let value = |index: u8| {
            if matches!(index, 0 | 1 | 2 | 4) {
                [index + 1; 48]
            } else {
                [0; 48]
            }
        };
        let pcrs = (0..16).map(|index| (index, value(index))).collect();
        Self {
            pcrs,
            public_key: None,
            user_data: None,
            nonce: None,
        }
    }
}

/// One certificate of a forged chain.
#[derive(Clone)]
pub struct Link {
    /// The certificate to be signed.
    pub spec: CertificateSpec,
    /// The subject's key.
    pub key: Arc<SigningKey>,
    /// Position of the link whose key signs this one.
    pub signed_by: usize,
}

/// Encoded fields of the payload, name and value, in order.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A change that one test makes to a piece before it is signed.
type Change<T> = Option<Box<dyn Fn(&mut T)>>;

/// A document in parts. Unchanged, it builds exactly the document that the hypervisor would send.
pub struct Forgery {
    /// The chain, root first, leaf last.
    pub links: Vec<Link>,
    /// The attested contents.
    pub contents: Contents,
    /// `module_id`.
    pub module_id: String,
    /// `timestamp`, Unix milliseconds.
    pub timestamp: u64,
    /// Changes the certificates of the bundle, root first, after they were signed.
    pub cabundle: Change<Vec<Vec<u8>>>,
    /// Changes the fields of the payload.
    pub fields: Change<Fields>,
    /// Changes the encoded payload, before it is signed.
    pub payload: Change<Vec<u8>>,
    /// Whether the payload's map has indefinite length, as in documents since mid 2025.
    pub indefinite: bool,
    /// Protected header, as signed and as sent.
    pub protected: Vec<u8>,
    /// Position of the link whose key signs the document.
    pub signed_by: usize,
    /// Context string of the Sig_structure (RFC 9052 §4.4).
    pub context: &'static str,
    /// External data under the signature.
    pub external: Vec<u8>,
    /// Changes the signature.
    pub signature: Change<Vec<u8>>,
    /// Head of the envelope: tag and array.
    pub head: Vec<u8>,
    /// The envelope's four encoded elements, and any additional ones.
    pub elements: Change<Vec<Vec<u8>>>,
    /// Changes the finished document.
    pub document: Change<Vec<u8>>,
}

impl Forgery {
    pub(crate) fn new(
        links: Vec<Link>,
        contents: Contents,
        module_id: &str,
        timestamp: u64,
    ) -> Self {
        Self {
            signed_by: links.len() - 1,
            links,
            contents,
            module_id: module_id.to_owned(),
            timestamp,
            cabundle: None,
            fields: None,
            payload: None,
            indefinite: true,
            protected: ES384_HEADER.to_vec(),
            context: "Signature1",
            external: Vec::new(),
            signature: None,
            head: cbor::head(4, 4),
            elements: None,
            document: None,
        }
    }

    /// Signs the chain and the document.
    pub fn build(&self) -> Vec<u8> {
        let ders: Vec<_> = self
            .links
            .iter()
            .map(|link| link.spec.sign(&self.links[link.signed_by].key))
            .collect();
        self.build_with(&ders)
    }

    /// The certificates of the document, root first, leaf last, without building it.
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        self.links
            .iter()
            .map(|link| link.spec.sign(&self.links[link.signed_by].key))
            .collect()
    }

    /// Signs only the document; `ders` are its [`certificates`](Self::certificates), signed before.
    pub fn build_with(&self, ders: &[Vec<u8>]) -> Vec<u8> {
        let payload = self.encode_payload(ders);
        // RFC 9052 §4.4: context, protected header, external data, payload.
        let signed = [
            cbor::head(4, 4),
            cbor::text(self.context),
            cbor::bytes(&self.protected),
            cbor::bytes(&self.external),
            cbor::bytes(&payload),
        ];
        let digest = Sha384::digest(signed.concat());
        let signature = sign_digest(&self.links[self.signed_by].key, &digest);
        let signature = apply_change(
            signature
                .map(|signature| signature.to_bytes().to_vec())
                .unwrap_or_default(),
            &self.signature,
        );
        let elements = vec![
            cbor::bytes(&self.protected),
            vec![0xa0],
            cbor::bytes(&payload),
            cbor::bytes(&signature),
        ];
        let elements = apply_change(elements, &self.elements);
        apply_change(
            [self.head.clone(), elements.concat()].concat(),
            &self.document,
        )
    }

    fn encode_payload(&self, ders: &[Vec<u8>]) -> Vec<u8> {
        let (issuers, leaf) = ders.split_at(ders.len() - 1);
        let cabundle = apply_change(issuers.to_vec(), &self.cabundle);
        let contents = &self.contents;
        let pcrs = contents
            .pcrs
            .iter()
            .map(|(index, value)| [cbor::head(0, (*index).into()), cbor::bytes(value)].concat());
        let pcrs = [
            vec![cbor::head(5, contents.pcrs.len() as u64)],
            pcrs.collect(),
        ]
        .concat()
        .concat();
        let bundle = [
            vec![cbor::head(4, cabundle.len() as u64)],
            cabundle.iter().map(|der| cbor::bytes(der)).collect(),
        ];
        // The hypervisor's own order.
        let fields = [
            ("module_id", cbor::text(&self.module_id)),
            ("digest", cbor::text("SHA384")),
            ("timestamp", cbor::head(0, self.timestamp)),
            ("pcrs", pcrs),
            ("certificate", cbor::bytes(&leaf[0])),
            ("cabundle", bundle.concat().concat()),
            ("public_key", cbor::optional(contents.public_key.as_deref())),
            ("user_data", cbor::optional(contents.user_data.as_deref())),
            ("nonce", cbor::optional(contents.nonce.as_deref())),
        ];
        let fields = fields
            .into_iter()
            .map(|(name, value)| (cbor::text(name), value))
            .collect();
        let fields: Fields = apply_change(fields, &self.fields);
        let entries = fields
            .iter()
            .map(|(name, value)| [name.as_slice(), value].concat())
            .collect::<Vec<_>>()
            .concat();
        let payload = match self.indefinite {
            true => [&[0xbf], &entries[..], &[0xff]].concat(),
            false => [cbor::head(5, fields.len() as u64), entries].concat(),
        };
        apply_change(payload, &self.payload)
    }
}

fn apply_change<T>(mut value: T, change: &Change<T>) -> T {
    if let Some(change) = change {
        change(&mut value);
    }
    value
}
