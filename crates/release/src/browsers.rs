//! The page's files in the forms of two proposals by which a browser checks them itself:
//!
//! - WAICT, draft-waict-integrity-v2 (waict-wg/waict-integrity-spec): `application/waict-integrity-manifest`.
//! - WEBCAT (freedomofpress/webcat): the member `manifest` of webcat.json, which a publisher signs with WEBCAT's tools.
//!
//! Both hash each file with SHA-256, in base64url without padding. Neither knows the publisher's key: the signed
//! [`Manifest`] stays the statement that these are derived from.

use std::collections::{BTreeMap, BTreeSet};

use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::manifest::{FileHash, Manifest, ManifestError};

/// The document of every route.
const DOCUMENT: &str = "index.html";
/// Characters of the hash in a manifest's address: 128 bits.
const ADDRESS_HASH: usize = 22;

/// A WAICT manifest as a server sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waict {
    /// Last part of its address, which names its hash: the draft demands that an address never changes its content.
    pub name: String,
    /// Body of the answer: the manifest, and a transparency proof, each with a line feed.
    pub body: String,
}

/// Describes the page for WAICT. `aliases` are further addresses of listed files, as in `/assets/a.js?attempt=2`, because WAICT compares
/// whole addresses.
///
/// The transparency proof is empty: the draft permits that with `max-age=0`, and no log of WAICT exists yet.
///
/// # Errors
/// [`ManifestError::Field`] where a hash is not one, an alias names no file or the page has no document.
pub fn describe_for_waict(manifest: &Manifest, aliases: &[String]) -> Result<Waict, ManifestError> {
    let document = encode(find(manifest, DOCUMENT)?)?;
    let mut hashes = BTreeMap::from([("/".to_owned(), document.clone())]);
    for (path, file) in &manifest.page {
        hashes.insert(format!("/{path}"), encode(file)?);
    }
    for alias in aliases {
        let path = alias.split('?').next().unwrap_or_default();
        let file = find(manifest, path.trim_start_matches('/'))?;
        hashes.insert(alias.clone(), encode(file)?);
    }
    let json = json!({
        "hashes": hashes,
        "wasm_hashes": wasm_hashes(manifest)?,
        // The draft checks these for each navigation, whatever its address: every route is this document.
        "fallback_hashes": [document],
    });
    let body = format!("{json}\n\n");
    let mut hash = Base64UrlUnpadded::encode_string(&Sha256::digest(&body));
    hash.truncate(ADDRESS_HASH);
    Ok(Waict {
        name: format!("clearseal_{hash}"),
        body,
    })
}

/// Describes the page for WEBCAT. `content_policy` is the header `Content-Security-Policy` of every answer.
///
/// # Errors
/// As for [`describe_for_waict`].
pub fn describe_for_webcat(
    manifest: &Manifest,
    content_policy: &str,
) -> Result<Value, ManifestError> {
    find(manifest, DOCUMENT)?;
    let mut files = BTreeMap::new();
    for (path, file) in &manifest.page {
        files.insert(format!("/{path}"), encode(file)?);
    }
    Ok(json!({
        "manifest": {
            "name": "Clearseal",
            "version": manifest.name,
            "default_csp": content_policy,
            "extra_csp": {},
            // WEBCAT puts the address of a folder before this one, and not before the other.
            "default_index": DOCUMENT,
            "default_fallback": format!("/{DOCUMENT}"),
            "files": files,
            "wasm": wasm_hashes(manifest)?,
        },
    }))
}

/// Sorted and unique, as WAICT demands.
fn wasm_hashes(manifest: &Manifest) -> Result<BTreeSet<String>, ManifestError> {
    let modules = manifest
        .page
        .iter()
        .filter(|(path, _)| path.ends_with(".wasm"));
    modules.map(|(_, file)| encode(file)).collect()
}

fn find<'a>(manifest: &'a Manifest, path: &str) -> Result<&'a FileHash, ManifestError> {
    manifest.page.get(path).ok_or(INVALID)
}

fn encode(file: &FileHash) -> Result<String, ManifestError> {
    let hash = base16ct::lower::decode_vec(&file.sha256).map_err(|_| INVALID)?;
    Ok(Base64UrlUnpadded::encode_string(&hash))
}

const INVALID: ManifestError = ManifestError::Field { field: "page" };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::example;

    fn hash_of(contents: &[u8]) -> String {
        Base64UrlUnpadded::encode_string(&Sha256::digest(contents))
    }

    #[test]
    fn waict_lists_each_address_of_each_file() {
        let aliases = ["/assets/verifier.wasm?attempt=2".to_owned()];
        let waict = describe_for_waict(&example(), &aliases).unwrap();
        let (json, proof) = waict.body.split_once('\n').unwrap();
        assert_eq!(proof, "\n");
        let read: Value = serde_json::from_str(json).unwrap();
        let (document, module) = (hash_of(b"<p>"), hash_of(b"\0asm"));
        let expected = json!({
            "hashes": {
                "/": document,
                "/index.html": document,
                "/assets/verifier.wasm": module,
                "/assets/verifier.wasm?attempt=2": module,
            },
            "wasm_hashes": [module],
            "fallback_hashes": [document],
        });
        assert_eq!(read, expected);
        let hash = hash_of(waict.body.as_bytes());
        assert_eq!(waict.name, format!("clearseal_{}", &hash[..22]));
    }

    #[test]
    fn webcat_finds_document_and_fallback_where_it_looks() {
        let read = describe_for_webcat(&example(), "default-src 'none'").unwrap();
        let manifest = &read["manifest"];
        assert_eq!(manifest["files"]["/index.html"], hash_of(b"<p>"));
        for address in [
            format!("/{}", manifest["default_index"].as_str().unwrap()),
            manifest["default_fallback"].as_str().unwrap().to_owned(),
        ] {
            assert!(manifest["files"][&address].is_string(), "{address}");
        }
        assert_eq!(manifest["wasm"], json!([hash_of(b"\0asm")]));
        assert_eq!(manifest["default_csp"], "default-src 'none'");
    }

    #[test]
    fn an_alias_of_no_file_and_a_page_without_a_document_are_refused() {
        let alias = ["/other.js?attempt=2".to_owned()];
        assert_eq!(describe_for_waict(&example(), &alias), Err(INVALID));
        let mut empty = example();
        empty.page.remove(DOCUMENT);
        assert_eq!(describe_for_waict(&empty, &[]), Err(INVALID));
        assert_eq!(describe_for_webcat(&empty, ""), Err(INVALID));
    }
}
