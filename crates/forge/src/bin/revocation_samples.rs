//! Reads evidence of a simulated enclave from standard input, and prints JSON: the same evidence, signed under a root whose
//! CA keys this program has, and certificate revocation lists of these CAs. For tests of programs that judge revocation.
//!
//! Members, all in base64: `root` is the certificate that a policy has to name, `evidence` the signed evidence, `current` the
//! lists of every CA, which revoke nothing of this chain, and `revoking` the same lists, where the one of the zonal CA revokes
//! the certificate of the instance. The keys come from a fixed seed, so the lists of one call fit the evidence of another.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{Read, stdin};
use std::time::{SystemTime, UNIX_EPOCH};

use attestation::cbor::{Reader, Rules, Writer};
use attestation::{AttestationDocument, CheckLog};
use base64ct::{Base64, Encoding};
use forge::{Contents, DevelopmentRoot, Issuer, SHARED_ROOT_MADE_AT};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::json;

const ZONAL: usize = 2;
const INSTANCE: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut evidence = Vec::new();
    stdin().lock().read_to_end(&mut evidence)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let now = u64::try_from(now.as_millis())?;

    let mut rng = ChaCha20Rng::from_seed(*b"samples of revocation lists, 1.0");
    // The same certificate in each call, so that one policy names it.
    let root = DevelopmentRoot::generate(&mut rng, SHARED_ROOT_MADE_AT);
    let issuer = Issuer::new(root, &mut rng, now);
    let mut entries = read_entries(&evidence)?;
    let document = entries.first_mut().ok_or("the evidence is empty")?;
    let forgery = issuer.forge(&read_contents(document)?, now);
    *document = forgery.build();

    let current = forgery.crls();
    let mut zonal = forgery.crl(ZONAL);
    zonal.entries.push(forgery.revocation(INSTANCE));
    let others = (0..ZONAL).map(|at| forgery.sign_crl(&forgery.crl(at), at));
    let mut revoking = others.collect::<Vec<_>>().concat();
    revoking.extend(forgery.sign_crl(&zonal, ZONAL));

    let samples = json!({
        "root": Base64::encode_string(issuer.root_der()),
        "evidence": Base64::encode_string(&write_entries(&entries)),
        "current": Base64::encode_string(&current),
        "revoking": Base64::encode_string(&revoking),
    });
    println!("{samples}");
    Ok(())
}

/// Contents of a document. Its signature is not checked.
fn read_contents(document: &[u8]) -> Result<Contents, Box<dyn Error>> {
    let document = AttestationDocument::parse(document, &mut CheckLog::new())
        .map_err(|error| error.to_string())?;
    let claims = document.claims();
    Ok(Contents {
        pcrs: claims.pcrs.clone(),
        public_key: claims.public_key.clone(),
        user_data: claims.user_data.clone(),
        nonce: claims.nonce.clone(),
    })
}

/// Values of the map that `GET /v1/attestation` answers: document, manifest and, in a shared document, the nonce's place.
fn read_entries(evidence: &[u8]) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut reader = Reader::new(evidence, Rules::Deterministic);
    let mut map = reader.map()?;
    let mut entries = Vec::new();
    while reader.more(&mut map)? {
        reader.uint()?;
        entries.push(reader.bytes()?.to_vec());
    }
    Ok(entries)
}

fn write_entries(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.map(entries.len() as u64);
    for (key, entry) in (1..).zip(entries) {
        writer.uint(key).bytes(entry);
    }
    writer.finish()
}
