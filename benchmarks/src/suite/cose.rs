//! Verification of an attestation document, whole and in its parts.

use anyhow::{Result, anyhow, ensure};
use attestation::{AttestationDocument, Ladder, TrustAnchor};
use p384::ecdsa::signature::Signer;
use p384::ecdsa::{Signature, SigningKey};

use super::request::Enclave;
use super::{Run, number, text};

/// Certificates in a genuine document's chain, the root included; the reports' have three.
const CERTIFICATES: usize = 5;

pub(super) fn verification(run: &mut Run) -> Result<()> {
    let enclave = Enclave::start()?;
    let root = TrustAnchor::development(&enclave.root).map_err(|error| anyhow!("{error}"))?;
    let key = SigningKey::from_slice(&[9; 48]).map_err(|_| anyhow!("no P-384 key"))?;
    let message = vec![1; 4_700];
    let signature: Signature = key.sign(&message);
    let public = *key.verifying_key();
    let by = ("kind", text(es384::library()));
    run.time("cose.signature", std::slice::from_ref(&by), || {
        ensure!(es384::verify(&public, &message, &signature));
        Ok(())
    })?;
    if es384::library() != "p384" {
        run.time("cose.signature", &[("kind", text("p384"))], || {
            ensure!(es384::verify_portable(&public, &message, &signature));
            Ok(())
        })?;
    }
    run.time("cose.cbor", &[], || {
        AttestationDocument::parse(&enclave.document, &mut Ladder::new())
            .map_err(|error| anyhow!("{error}"))
    })?;
    let chain = [
        ("certificates", number(CERTIFICATES)),
        ("with", text("the document's own signature")),
    ];
    run.time("cose.chain", &chain, || {
        let mut ladder = Ladder::new();
        let document = AttestationDocument::parse(&enclave.document, &mut ladder)
            .map_err(|error| anyhow!("{error}"))?;
        document
            .authenticate(&root, Enclave::NOW, &mut ladder)
            .map_err(|error| anyhow!("{error}"))
    })?;
    let certificates = ("certificates", number(CERTIFICATES));
    run.time("cose.full", &[certificates, by], || enclave.verify())?;
    Ok(())
}
