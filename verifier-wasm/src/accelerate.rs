//! Signatures computed by someone faster: in a browser, WebCrypto, which runs native code and all of them at once.
//!
//! What is taken from outside is one bit for one triple of key, message and signature that this module named, for the
//! next judgement alone; everything else (root, names, validity, constraints, usages, measurements, binding) is judged
//! here, from the bytes. Security: whoever can lie in the place of WebCrypto runs in the same realm as the script that
//! loads this module, and could as well load another one; the accelerator is trusted with nothing that the page is not.

use std::cell::RefCell;

use attestation::{Evidence, PendingSignature, SignatureMemory, TrustAnchor, pending_signatures};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::policy::{choose, moment, text};

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

/// Signatures that the next judgement will need: ECDSA on P-384 with SHA-384.
#[wasm_bindgen]
pub struct PendingSignatures {
    all: Vec<PendingSignature>,
}

#[wasm_bindgen]
impl PendingSignatures {
    /// Those that judging this evidence needs and that were not verified before. None where it will be refused anyway.
    #[wasm_bindgen(js_name = ofEvidence)]
    pub fn of_evidence(
        evidence: &[u8],
        #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
        server_policy: Option<String>,
        now_ms: f64,
    ) -> Self {
        let policy =
            text(&policy).and_then(|policy| choose(policy.as_deref(), server_policy.as_deref()));
        let all = match (policy, Evidence::parse(evidence)) {
            (Ok(policy), Ok(evidence)) => with_memory(|memory| {
                pending_signatures(evidence.document, policy.anchor(), moment(now_ms), memory)
            }),
            // The judgement says why.
            _ => Vec::new(),
        };
        Self { all }
    }

    /// Those that judging this document under AWS's root needs.
    #[wasm_bindgen(js_name = ofDocument)]
    pub fn of_document(document: &[u8], at_ms: f64) -> Self {
        let anchor = TrustAnchor::aws_nitro_g1();
        let all =
            with_memory(|memory| pending_signatures(document, &anchor, moment(at_ms), memory));
        Self { all }
    }

    /// How many there are.
    #[wasm_bindgen(getter)]
    pub fn length(&self) -> usize {
        self.all.len()
    }

    /// The signer's key: an uncompressed point, as WebCrypto imports it (`raw`).
    #[wasm_bindgen(js_name = publicKey)]
    pub fn public_key(&self, index: usize) -> Option<Vec<u8>> {
        self.all.get(index).map(|one| one.public_key().to_vec())
    }

    /// What was signed.
    pub fn message(&self, index: usize) -> Option<Vec<u8>> {
        self.all.get(index).map(|one| one.message().to_vec())
    }

    /// r and s, as WebCrypto takes them.
    pub fn signature(&self, index: usize) -> Option<Vec<u8>> {
        self.all.get(index).map(|one| one.signature().to_vec())
    }

    /// Takes the caller's word that these are right, for the next judgement alone.
    pub fn vouch(self, accepted: Vec<usize>) {
        with_memory(|memory| {
            for one in accepted.iter().filter_map(|index| self.all.get(*index)) {
                memory.vouch(one);
            }
        });
    }
}
