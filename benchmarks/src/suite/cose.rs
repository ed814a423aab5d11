//! Verification of an attestation document, whole and in its parts.

use anyhow::{Result, anyhow};
use attestation::{AttestationDocument, Ladder, TrustAnchor};
use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};
use p384::ecdsa::signature::{Signer, Verifier};
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
    let [by_p384, by_aws_lc] = ["p384", "aws-lc-rs"].map(|library| ("kind", text(library)));
    run.time("cose.signature", std::slice::from_ref(&by_p384), || {
        Ok(public.verify(&message, &signature)?)
    })?;
    let bytes = (public.to_sec1_point(false), signature.to_bytes());
    let same = UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, bytes.0.as_bytes());
    run.time("cose.signature", std::slice::from_ref(&by_aws_lc), || {
        Ok(same.verify(&message, &bytes.1)?)
    })?;
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
    run.time("cose.full", &[certificates.clone(), by_p384], || {
        enclave.verify()
    })?;
    run.time("cose.full", &[certificates, by_aws_lc], || {
        enclave.verify_by_aws_lc()
    })?;
    Ok(())
}
