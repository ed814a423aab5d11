//! A catalogue of documents: genuine forms that a verifier must accept, and single defects that it must refuse.

mod certificate;
mod chain;
mod crl;
mod envelope;
mod payload;

pub use crl::{CrlVector, crl_vectors};

use crate::document::{Fields, Forgery};
use crate::{cbor, der};

/// A named change to a document.
pub struct Vector {
    /// Unique kebab-case name.
    pub name: &'static str,
    /// Number of the check that refuses it; 0 for a form that must be accepted.
    pub check: u8,
    /// Stable error code; empty for a form that must be accepted.
    pub code: &'static str,
    /// Applies the change.
    pub apply: fn(&mut Forgery),
}

/// All vectors that depend on the document only (checks 1 to 21).
pub fn vectors() -> impl Iterator<Item = &'static Vector> {
    [
        envelope::VECTORS,
        payload::VECTORS,
        chain::VECTORS,
        certificate::VECTORS,
    ]
    .into_iter()
    .flatten()
}

/// Creates one row of a table.
const fn vector(
    name: &'static str,
    check: u8,
    code: &'static str,
    apply: fn(&mut Forgery),
) -> Vector {
    Vector {
        name,
        check,
        code,
        apply,
    }
}

/// Changes the encoded value of one payload field.
fn edit_field(forgery: &mut Forgery, name: &'static str, edit: impl Fn(&mut Vec<u8>) + 'static) {
    forgery.fields = Some(Box::new(move |fields: &mut Fields| {
        let key = cbor::text(name);
        fields
            .iter_mut()
            .filter(|(name, _)| *name == key)
            .for_each(|(_, value)| edit(value));
    }));
}

fn set_field(forgery: &mut Forgery, name: &'static str, value: Vec<u8>) {
    edit_field(forgery, name, move |encoded| encoded.clone_from(&value));
}

fn drop_field(forgery: &mut Forgery, name: &'static str) {
    forgery.fields = Some(Box::new(move |fields: &mut Fields| {
        fields.retain(|(key, _)| *key != cbor::text(name));
    }));
}

fn repeat_field(forgery: &mut Forgery, name: &'static str) {
    forgery.fields = Some(Box::new(move |fields: &mut Fields| {
        let again = fields
            .iter()
            .find(|(key, _)| *key == cbor::text(name))
            .cloned();
        fields.extend(again);
    }));
}

fn add_field(forgery: &mut Forgery, name: &'static str, value: Vec<u8>) {
    forgery.fields = Some(Box::new(move |fields: &mut Fields| {
        fields.push((cbor::text(name), value.clone()));
    }));
}

/// Positions in the chain.
const ROOT: usize = 0;
const REGIONAL: usize = 1;
const ZONAL: usize = 2;
const INSTANCE: usize = 3;
const LEAF: usize = 4;

/// Replaces an element of the envelope: 0 protected, 1 unprotected, 2 payload, 3 signature.
fn set_element(forgery: &mut Forgery, at: usize, value: Vec<u8>) {
    forgery.elements = Some(Box::new(move |elements: &mut Vec<Vec<u8>>| {
        elements[at].clone_from(&value);
    }));
}

/// Pads the payload to exactly `size` bytes with a long name, and changes nothing else.
fn payload_of(forgery: &mut Forgery, size: usize) {
    forgery.indefinite = true;
    forgery.fields = Some(Box::new(move |fields: &mut Fields| {
        let name = cbor::text("module_id");
        let rest: usize = fields
            .iter()
            .map(|(key, value)| key.len() + if *key == name { 0 } else { value.len() })
            .sum();
        // The map takes two bytes to open and close, and the head of a text of this length three.
        let text = cbor::text(&"i".repeat(size - rest - 2 - 3));
        fields
            .iter_mut()
            .filter(|(key, _)| *key == name)
            .for_each(|(_, value)| value.clone_from(&text));
    }));
}

/// Pads one certificate to exactly `size` bytes with an unknown extension that is not critical.
fn certificate_of(forgery: &mut Forgery, at: usize, size: usize) {
    let key = forgery.links[forgery.links[at].signed_by].key.clone();
    let padded = |(fill, room): (u8, usize)| {
        let mut spec = forgery.links[at].spec.clone();
        let value = der::octet_string(&vec![fill; room]);
        spec.extensions
            .push(der::extension(der::EXAMPLE, false, &value));
        spec
    };
    // The length of a DER signature varies by a byte between messages, so try the neighbouring sizes.
    let about = size - forgery.links[at].spec.sign(&key).len();
    let fits = (0..=u8::MAX)
        .flat_map(|fill| (about - 34..about - 20).map(move |room| (fill, room)))
        .map(padded)
        .find(|spec| spec.sign(&key).len() == size);
    if let Some(spec) = fits {
        forgery.links[at].spec = spec;
    }
}

fn unknown_extension(critical: bool) -> Vec<u8> {
    der::extension(der::EXAMPLE, critical, &der::sequence(&[]))
}

fn constraints(forgery: &mut Forgery, at: usize, extension: Vec<u8>) {
    forgery.links[at]
        .spec
        .set_extension(der::BASIC_CONSTRAINTS, Some(extension));
}

fn name(common_name: &str) -> Vec<u8> {
    der::name(&[(der::COMMON_NAME, common_name)])
}
