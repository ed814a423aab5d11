//! Signatures computed by the platform: WebCrypto, which runs native code and all of them at once.
//!
//! What is taken from outside is one bit for one triple of key, message and signature that this module named, for the
//! next judgement alone; everything else (root, names, validity, constraints, usages, measurements, binding) is judged
//! here, from the bytes. Whatever WebCrypto refuses, cannot do or does not know is computed here: the report is the same
//! either way. Security: whoever can lie in the place of WebCrypto runs in the same realm as the script that loads this
//! module, and could as well load another one; the platform is trusted with nothing that the page is not.

use std::cell::RefCell;

use attestation::{PendingSignature, SignatureMemory, TrustAnchor, UnixMillis, pending_signatures};
use js_sys::{Array, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{CryptoKey, SubtleCrypto};

thread_local! {
    /// Signatures of certificates that were verified before: a renewed proof computes one signature instead of five.
    static MEMORY: RefCell<SignatureMemory> = RefCell::default();
}

/// Lends the memory of this module to one judgement.
pub(crate) fn with_memory<T>(judge: impl FnOnce(&mut SignatureMemory) -> T) -> T {
    MEMORY.with_borrow_mut(judge)
}

/// Forgets every signature that was verified before.
#[wasm_bindgen(js_name = forgetSignatures)]
pub fn forget_signatures() {
    with_memory(SignatureMemory::clear);
}

/// Has the platform compute what judging this document will need and was not verified before, and vouches for what is
/// right. Judge before anything else is awaited: the word is good for the very next judgement.
pub(crate) async fn compute_ahead(
    document: &[u8],
    anchor: &TrustAnchor,
    at: UnixMillis,
    subtle: Option<&SubtleCrypto>,
) {
    let Some(subtle) = subtle else { return };
    let pending = with_memory(|memory| pending_signatures(document, anchor, at, memory));
    let mut right = vec![false; pending.len()];
    // All keys, then all signatures: each is under way before the first is awaited.
    let keys: Vec<_> = pending.iter().map(|one| key(subtle, one)).collect();
    let mut answers = Vec::with_capacity(pending.len());
    for (one, key) in pending.iter().zip(keys) {
        answers.push(match key {
            Some(key) => verification(subtle, one, key.await),
            None => None,
        });
    }
    for (answer, right) in answers.into_iter().zip(&mut right) {
        let Some(answer) = answer else { continue };
        // Nothing but `true` is a yes.
        *right = answer
            .await
            .is_ok_and(|answer| answer.as_bool() == Some(true));
    }
    with_memory(|memory| {
        let accepted = pending.iter().zip(&right).filter(|(_, right)| **right);
        accepted.for_each(|(one, _)| memory.vouch(one));
    });
}

/// Nothing where the platform cannot.
fn key(subtle: &SubtleCrypto, pending: &PendingSignature) -> Option<JsFuture> {
    let point: Object = Uint8Array::from(pending.public_key()).into();
    let algorithm = algorithm("namedCurve", "P-384")?;
    let usages = Array::of1(&"verify".into());
    let imported = subtle.import_key_with_object("raw", &point, &algorithm, false, &usages);
    imported.ok().map(JsFuture::from)
}

fn verification(
    subtle: &SubtleCrypto,
    pending: &PendingSignature,
    key: Result<JsValue, JsValue>,
) -> Option<JsFuture> {
    let key: CryptoKey = key.ok()?.unchecked_into();
    let answer = subtle.verify_with_object_and_u8_array_and_u8_array(
        &algorithm("hash", "SHA-384")?,
        &key,
        pending.signature(),
        pending.message(),
    );
    answer.ok().map(JsFuture::from)
}

fn algorithm(parameter: &str, value: &str) -> Option<Object> {
    let algorithm = Object::new();
    for (name, value) in [("name", "ECDSA"), (parameter, value)] {
        Reflect::set(&algorithm, &name.into(), &value.into()).ok()?;
    }
    Some(algorithm)
}
