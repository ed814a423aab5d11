//! Verifies signatures with WebCrypto, which runs native code in parallel.
//!
//! WebCrypto only contributes one bit for each triple of key, message and signature that this module chose, valid for the
//! next appraisal; everything else (root, names, validity, constraints, usages, measurements, binding) is checked
//! here, from the bytes. A signature that WebCrypto rejects or does not support is verified here again, so the report is the
//! same either way. Security: code that can replace WebCrypto runs in the same realm as the script that loads this
//! module, and could load a different module instead; WebCrypto is not trusted with more than the page is.

use std::cell::RefCell;

use attestation::{PendingSignature, SignatureMemory, TrustAnchor, UnixMillis, pending_signatures};
use js_sys::{Array, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{CryptoKey, SubtleCrypto};

thread_local! {
    /// Cache of verified certificate signatures: a renewal verifies one signature instead of five.
    static MEMORY: RefCell<SignatureMemory> = RefCell::default();
}

/// Runs one appraisal with this module's signature cache.
pub(crate) fn with_memory<T>(judge: impl FnOnce(&mut SignatureMemory) -> T) -> T {
    MEMORY.with_borrow_mut(judge)
}

/// Clears the cache of verified signatures.
#[wasm_bindgen(js_name = forgetSignatures)]
pub fn forget_signatures() {
    with_memory(SignatureMemory::clear);
}

/// Verifies the document's uncached signatures with WebCrypto and records the valid ones for the next appraisal, which has to
/// run before anything else is awaited.
pub(crate) async fn compute_ahead(
    document: &[u8],
    anchor: &TrustAnchor,
    at: UnixMillis,
    subtle: Option<&SubtleCrypto>,
) {
    let Some(subtle) = subtle else { return };
    let pending = with_memory(|memory| pending_signatures(document, anchor, at, memory));
    let mut right = vec![false; pending.len()];
    // Start all operations before awaiting the first.
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
        // Only `true` counts as valid.
        *right = answer
            .await
            .is_ok_and(|answer| answer.as_bool() == Some(true));
    }
    with_memory(|memory| {
        let accepted = pending.iter().zip(&right).filter(|(_, right)| **right);
        accepted.for_each(|(one, _)| memory.vouch(one));
    });
}

/// Imports a public key; `None` if the platform cannot.
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
