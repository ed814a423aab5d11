//! Verification of an attestation document, as a whole and step by step.

use anyhow::{Result, anyhow, ensure};
use attestation::{AttestationDocument, CheckLog, SignatureMemory, TrustAnchor};
use fixtures::enclave::NOW;
use p384::ecdsa::signature::Signer;
use p384::ecdsa::{Signature, SigningKey};
use provider::es384;

use super::request::Enclave;
use super::{Run, number, text};

/// Certificates in a chain, root included: those of a genuine document, and those of the reports.
const CHAINS: [u8; 2] = [forge::GENUINE_CHAIN, 3];

pub(super) fn verification(run: &mut Run) -> Result<()> {
    let key = SigningKey::from_slice(&[9; 48]).map_err(|_| anyhow!("no P-384 key"))?;
    let message = vec![1; 4_700];
    let signature: Signature = key.sign(&message);
    let public = *key.verifying_key();
    let by = (
        "kind",
        text(if provider::is_native() {
            "graviola"
        } else {
            "p384"
        }),
    );
    run.time("cose.signature", std::slice::from_ref(&by), || {
        ensure!(es384::verify(&public, &message, &signature));
        Ok(())
    })?;
    if provider::is_native() {
        run.time("cose.signature", &[("kind", text("p384"))], || {
            ensure!(es384::verify_portable(&public, &message, &signature));
            Ok(())
        })?;
    }
    for certificates in CHAINS {
        let enclave = Enclave::with_chain_of(certificates)?;
        let root = TrustAnchor::development(&enclave.root)?;
        let length = ("certificates", number(usize::from(certificates)));
        run.time("cose.cbor", std::slice::from_ref(&length), || {
            let document = AttestationDocument::parse(&enclave.document, &mut CheckLog::new());
            Ok(document?)
        })?;
        let chain = [
            length.clone(),
            ("with", text("the document's own signature")),
        ];
        run.time("cose.chain", &chain, || {
            let mut log = CheckLog::new();
            let document = AttestationDocument::parse(&enclave.document, &mut log)?;
            let mut memory = SignatureMemory::new();
            Ok(document.authenticate(&root, NOW, &mut memory, &mut log)?)
        })?;
        run.time("cose.full", &[length, by.clone()], || enclave.verify())?;
    }
    Ok(())
}
