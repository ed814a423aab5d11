//! Cases of appraisal, boundaries of numbers, named differences, and the shared documents.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod appraisal;
pub mod boundaries;
pub mod differences;

pub use appraisal::{appraisal_cases, judged_at_another_moment};

use attestation::{AttestationDocument, CheckLog, TrustAnchor, UnixMillis};

/// The document's own timestamp; if it cannot be read, an arbitrary moment.
pub fn own_time(document: &[u8]) -> UnixMillis {
    let parsed = AttestationDocument::parse(document, &mut CheckLog::new());
    parsed.map_or(UnixMillis(1_700_000_000_000), |document| {
        document.claims().timestamp
    })
}

/// Every Nitro document among the shared vectors: its name, its bytes, the root to judge it under, and its own time.
pub fn nitro_documents(
    vectors: &std::path::Path,
) -> Vec<(String, Vec<u8>, TrustAnchor, UnixMillis)> {
    let nitro = vectors.join("nitro");
    let own_root = std::fs::read(nitro.join("testpki/test_root.der")).unwrap();
    let own_root = TrustAnchor::development(&own_root).unwrap();
    let mut documents = Vec::new();
    for folder in ["documents", "refused", "derived", "testpki"] {
        let mut files: Vec<_> = std::fs::read_dir(nitro.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "cbor")
            })
            .collect();
        files.sort();
        for path in files {
            let document = std::fs::read(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let anchor = match folder {
                "testpki" => own_root.clone(),
                _ => TrustAnchor::aws_nitro_g1(),
            };
            let at = own_time(&document);
            documents.push((format!("{folder}/{name}"), document, anchor, at));
        }
    }
    assert!(documents.len() > 200, "{} documents", documents.len());
    documents
}

/// Folder of the shared vectors; `None`, after a message, if it is not set.
pub fn vectors() -> Option<std::path::PathBuf> {
    forge::shared_vectors()
}
