//! Check 27: revocation lists for a valid chain, and lists that a verifier must not rely on. Each list is signed after the
//! change, unless the signature is what is tested.

use super::{INSTANCE, LEAF, REGIONAL, ROOT, ZONAL, unknown_extension};
use crate::certificate::Hash;
use crate::crl::{CrlSpec, reason, revoked};
use crate::der;
use crate::document::Forgery;

/// Revocation lists for one chain, and the expected result for a document appraised with them.
pub struct CrlVector {
    /// Unique kebab-case name.
    pub name: &'static str,
    /// Stable error code; empty if the document must be accepted.
    pub code: &'static str,
    /// Changes the document if necessary, and returns the lists, concatenated DER.
    pub lists: fn(&mut Forgery) -> Vec<u8>,
}

/// All vectors of check 27.
pub fn crl_vectors() -> impl Iterator<Item = &'static CrlVector> {
    VECTORS.iter()
}

const fn vector(
    name: &'static str,
    code: &'static str,
    lists: fn(&mut Forgery) -> Vec<u8>,
) -> CrlVector {
    CrlVector { name, code, lists }
}

/// A URL that no certificate of the chain names.
const OTHER: &str = "http://crl.dev-local-1.example/crl/other.crl";

const VECTORS: &[CrlVector] = &[
    vector("crls-of-every-issuer", "", |f| f.crls()),
    vector("crl-of-root-alone", "", |f| single_list(f, ROOT, |_, _| {})),
    vector("crl-of-another-issuer", "", |f| {
        single_list(f, REGIONAL, |_, crl| {
            crl.issuer = der::name(&[(der::COMMON_NAME, "another")]);
        })
    }),
    vector("crl-without-entries", "", |f| {
        lists_with_change(f, ROOT, |_, crl| crl.entries.clear())
    }),
    vector("crl-of-this-second", "", |f| {
        lists_with_change(f, ROOT, |f, crl| crl.this_update = seconds(f, 0))
    }),
    vector("crl-until-this-second", "", |f| {
        lists_with_change(f, ROOT, |f, crl| crl.next_update = seconds(f, 0))
    }),
    vector("crl-with-unknown-extensions", "", |f| {
        lists_with_change(f, ROOT, |f, crl| {
            crl.extensions.push(unknown_extension(false));
            entry(f, crl, unknown_extension(false));
        })
    }),
    vector("crl-of-the-certificates-address", "", |f| {
        lists_with_change(f, ROOT, |f, crl| {
            f.links[REGIONAL].spec.set_extension(
                der::CRL_DISTRIBUTION_POINTS,
                Some(der::distribution_point(OTHER)),
            );
            scope(crl, &[&der::tlv(0xa0, &der::full_name(OTHER))]);
        })
    }),
    vector("crl-of-cas-alone", "", |f| {
        lists_with_change(f, ROOT, |_, crl| scope(crl, &[&[0x82, 1, 0xff]]))
    }),
    vector("crl-with-an-entry-twice", "", |f| {
        lists_with_change(f, ROOT, |_, crl| crl.entries.push(crl.entries[0].clone()))
    }),
    vector("crl-expired-next-to-a-current-one", "", |f| {
        let expired = single_list(f, ROOT, |f, crl| crl.next_update = seconds(f, -1));
        [expired, lists_with_change(f, ROOT, |_, _| {})].concat()
    }),
    vector("crl-with-a-serial-of-20-bytes", "", |f| {
        lists_with_change(f, ROOT, |f, crl| serial(f, crl, &[0x7f; 20]))
    }),
    // Sizes
    vector("crls-of-10-mib", "", |f| lists_of_size(f, MAX_CRLS)),
    vector("crls-of-10-mib-and-a-byte", "CRL_TOO_LARGE", |f| {
        lists_of_size(f, MAX_CRLS + 1)
    }),
    vector("64-crls", "", |f| {
        [
            single_list(f, ROOT, |_, _| {}).repeat(62),
            lists_without(f, ROOT),
        ]
        .concat()
    }),
    vector("65-crls", "CRL_TOO_LARGE", |f| {
        [
            single_list(f, ROOT, |_, _| {}).repeat(63),
            lists_without(f, ROOT),
        ]
        .concat()
    }),
    // Form
    vector("crl-cut", "CRL_MALFORMED", |f| {
        let mut lists = f.crls();
        lists.pop();
        lists
    }),
    vector("crl-trailing-byte", "CRL_MALFORMED", |f| {
        let mut lists = f.crls();
        lists.push(0);
        lists
    }),
    vector("crl-long-length", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            crl.after_signing = Some(|list| drop(list.splice(1..2, [0x83, 0])));
        })
    }),
    vector("crl-version-1", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |_, crl| crl.version.clear())
    }),
    vector("crl-two-algorithms", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            crl.outer_algorithm = der::ECDSA_SHA256.to_vec();
        })
    }),
    vector("crl-30-february", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            crl.this_update = der::tlv(0x17, b"260230000000Z");
        })
    }),
    vector("crl-generalized-time-of-2027", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            crl.next_update = der::tlv(0x18, b"20270301000000Z");
        })
    }),
    vector("crl-without-next-update", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |_, crl| crl.next_update.clear())
    }),
    vector("crl-extension-twice", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            crl.extensions.push(crl.extensions[0].clone());
        })
    }),
    vector("crl-negative-serial", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |f, crl| serial(f, crl, &[0x80]))
    }),
    vector("crl-with-a-serial-of-21-bytes", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |f, crl| serial(f, crl, &[0x7f; 21]))
    }),
    vector("crl-reason-7", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |f, crl| entry(f, crl, reason(7)))
    }),
    vector("crl-remove-from-crl", "CRL_MALFORMED", |f| {
        lists_with_change(f, ROOT, |f, crl| entry(f, crl, reason(8)))
    }),
    // Kinds that this verifier does not use
    vector(
        "crl-unknown-critical-extension",
        "CRL_CRITICAL_EXTENSION",
        |f| {
            lists_with_change(f, ROOT, |_, crl| {
                crl.extensions.push(unknown_extension(true));
            })
        },
    ),
    vector(
        "crl-entry-unknown-critical-extension",
        "CRL_CRITICAL_EXTENSION",
        |f| lists_with_change(f, ROOT, |f, crl| entry(f, crl, unknown_extension(true))),
    ),
    vector("crl-delta", "CRL_DELTA", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            crl.extensions.push(der::extension(
                der::DELTA_CRL_INDICATOR,
                true,
                &der::integer(&[6]),
            ));
        })
    }),
    vector("crl-indirect", "CRL_INDIRECT", |f| {
        lists_with_change(f, ROOT, |_, crl| scope(crl, &[&[0x84, 1, 0xff]]))
    }),
    vector("crl-entry-of-another-issuer", "CRL_INDIRECT", |f| {
        lists_with_change(f, ROOT, |f, crl| {
            let name = der::tlv(0xa4, &der::name(&[(der::COMMON_NAME, "another")]));
            let issuer = der::extension(der::CERTIFICATE_ISSUER, true, &der::sequence(&[&name]));
            entry(f, crl, issuer);
        })
    }),
    // Signer
    vector("crl-signed-with-sha256", "CRL_ALGORITHM", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            crl.hash = Hash::Sha256;
            crl.inner_algorithm = der::ECDSA_SHA256.to_vec();
            crl.outer_algorithm = der::ECDSA_SHA256.to_vec();
        })
    }),
    vector("crl-signed-by-another-key", "CRL_SIGNATURE", |f| {
        let crl = f.crl(ROOT);
        [f.sign_crl(&crl, REGIONAL), lists_without(f, ROOT)].concat()
    }),
    vector("crl-hashed-with-sha256", "CRL_SIGNATURE", |f| {
        lists_with_change(f, ROOT, |_, crl| crl.hash = Hash::Sha256)
    }),
    vector("crl-without-its-revocation", "CRL_SIGNATURE", |f| {
        let with = lists_with_change(f, ROOT, |f, crl| crl.entries = vec![f.revocation(REGIONAL)]);
        // Changes the serial number of the entry after signing.
        flip_last_bit(with, &f.links[REGIONAL].spec.serial.clone())
    }),
    vector("crl-of-the-instance", "CRL_KEY_USAGE", |f| {
        lists_with_change(f, INSTANCE, |_, _| {})
    }),
    // Time
    vector("crl-from-next-second", "CRL_NOT_YET_VALID", |f| {
        lists_with_change(f, ROOT, |f, crl| crl.this_update = seconds(f, 1))
    }),
    vector("crl-until-a-second-ago", "CRL_EXPIRED", |f| {
        lists_with_change(f, ROOT, |f, crl| crl.next_update = seconds(f, -1))
    }),
    // Scope
    vector("crl-of-some-reasons", "CRL_SCOPE", |f| {
        lists_with_change(f, ROOT, |_, crl| scope(crl, &[&[0x83, 2, 6, 0x40]]))
    }),
    vector("crl-of-leaves-alone", "CRL_SCOPE", |f| {
        lists_with_change(f, ROOT, |_, crl| scope(crl, &[&[0x81, 1, 0xff]]))
    }),
    vector("crl-of-attribute-certificates", "CRL_SCOPE", |f| {
        lists_with_change(f, ROOT, |_, crl| scope(crl, &[&[0x85, 1, 0xff]]))
    }),
    vector("crl-of-another-address", "CRL_SCOPE", |f| {
        lists_with_change(f, ROOT, |_, crl| {
            scope(crl, &[&der::tlv(0xa0, &der::full_name(OTHER))]);
        })
    }),
    // Revoked
    vector("regional-revoked", "CERTIFICATE_REVOKED", |f| {
        lists_with_change(f, ROOT, |f, crl| crl.entries.push(f.revocation(REGIONAL)))
    }),
    vector("zonal-revoked", "CERTIFICATE_REVOKED", |f| {
        lists_with_change(f, REGIONAL, |f, crl| crl.entries.push(f.revocation(ZONAL)))
    }),
    vector("instance-revoked", "CERTIFICATE_REVOKED", |f| {
        lists_with_change(f, ZONAL, |f, crl| crl.entries.push(f.revocation(INSTANCE)))
    }),
    vector("leaf-revoked", "CERTIFICATE_REVOKED", |f| {
        // A chain whose last issuer may sign lists.
        f.links.drain(REGIONAL..LEAF);
        f.links[1].spec.issuer = f.links[ROOT].spec.subject.clone();
        (f.links[1].signed_by, f.signed_by) = (ROOT, 1);
        lists_with_change(f, ROOT, |f, crl| crl.entries.push(f.revocation(1)))
    }),
    vector("regional-revoked-twice", "CERTIFICATE_REVOKED", |f| {
        lists_with_change(f, ROOT, |f, crl| {
            crl.entries = vec![f.revocation(REGIONAL), f.revocation(REGIONAL)];
        })
    }),
    vector("regional-on-hold", "CERTIFICATE_REVOKED", |f| {
        lists_with_change(f, ROOT, |f, crl| {
            let serial = &f.links[REGIONAL].spec.serial;
            let held = revoked(serial, f.timestamp / 1000, &[reason(6)]);
            crl.entries.push(held);
        })
    }),
    vector(
        "regional-revoked-without-a-reason",
        "CERTIFICATE_REVOKED",
        |f| {
            lists_with_change(f, ROOT, |f, crl| {
                let serial = &f.links[REGIONAL].spec.serial;
                crl.entries.push(revoked(serial, f.timestamp / 1000, &[]));
            })
        },
    ),
    vector(
        "regional-revoked-in-an-expired-crl",
        "CERTIFICATE_REVOKED",
        |f| {
            lists_with_change(f, ROOT, |f, crl| {
                crl.next_update = seconds(f, -1);
                crl.entries.push(f.revocation(REGIONAL));
            })
        },
    ),
    vector(
        "zonal-revoked-behind-other-lists",
        "CERTIFICATE_REVOKED",
        |f| {
            let others = f.crls();
            let revoking =
                lists_with_change(f, REGIONAL, |f, crl| crl.entries.push(f.revocation(ZONAL)));
            [others, revoking].concat()
        },
    ),
];

/// `attestation::MAX_CRLS`; a test there compares both.
const MAX_CRLS: usize = 10 * 1024 * 1024;

/// The lists of root, regional and zonal CA; the one at position `at` is changed before it is signed.
fn lists_with_change(
    forgery: &mut Forgery,
    at: usize,
    change: fn(&mut Forgery, &mut CrlSpec),
) -> Vec<u8> {
    let list = single_list(forgery, at, change);
    [list, lists_without(forgery, at)].concat()
}

/// Only the list of the CA at position `at`.
fn single_list(
    forgery: &mut Forgery,
    at: usize,
    change: fn(&mut Forgery, &mut CrlSpec),
) -> Vec<u8> {
    let mut crl = forgery.crl(at);
    change(forgery, &mut crl);
    forgery.sign_crl(&crl, at)
}

/// The lists of root, regional and zonal CA, except the one at position `at`.
fn lists_without(forgery: &Forgery, at: usize) -> Vec<u8> {
    let issuers = (0..forgery.links.len().saturating_sub(2)).filter(|issuer| *issuer != at);
    let lists = issuers.map(|issuer| forgery.sign_crl(&forgery.crl(issuer), issuer));
    lists.collect::<Vec<_>>().concat()
}

/// A Time this many seconds after the document.
fn seconds(forgery: &Forgery, after: i64) -> Vec<u8> {
    der::time((forgery.timestamp / 1000).saturating_add_signed(after))
}

/// Adds an issuingDistributionPoint with these encoded elements.
fn scope(crl: &mut CrlSpec, elements: &[&[u8]]) {
    let value = der::sequence(elements);
    crl.extensions.push(der::extension(
        der::ISSUING_DISTRIBUTION_POINT,
        true,
        &value,
    ));
}

/// Adds an entry for a certificate of another chain, with this extension.
fn entry(forgery: &Forgery, crl: &mut CrlSpec, extension: Vec<u8>) {
    let serial = der::integer(&[0x5e, 9]);
    crl.entries
        .push(revoked(&serial, forgery.timestamp / 1000, &[extension]));
}

/// Adds an entry whose serial number has these content bytes.
fn serial(forgery: &Forgery, crl: &mut CrlSpec, content: &[u8]) {
    let serial = der::tlv(2, content);
    crl.entries
        .push(revoked(&serial, forgery.timestamp / 1000, &[]));
}

/// Lists of exactly `size` bytes: the root's list is padded with entries for other certificates.
fn lists_of_size(forgery: &mut Forgery, size: usize) -> Vec<u8> {
    const ROOM: usize = 1024;
    let others = lists_without(forgery, ROOT);
    let size = size - others.len();
    let mut crl = forgery.crl(ROOT);
    let now = forgery.timestamp / 1000;
    let one = revoked(&der::tlv(2, &[0x5e, 1, 2, 3]), now, &[]);
    crl.entries.resize((size - 2 * ROOM) / one.len(), one);
    // A long extension of the last entry fills the remaining bytes.
    let list = |fill: u8, room: usize| {
        let padding = der::extension(der::EXAMPLE, false, &vec![fill; room]);
        let mut padded = crl.clone();
        padded
            .entries
            .push(revoked(&der::tlv(2, &[0x5e]), now, &[padding]));
        forgery.sign_crl(&padded, ROOT)
    };
    let room = ROOM + size - list(0, ROOM).len();
    // The length of a DER signature varies by a byte between messages.
    (0..=u8::MAX)
        .map(|fill| list(fill, room))
        .find(|list| list.len() == size)
        .map_or(Vec::new(), |list| [list, others].concat())
}

/// Changes the last bit of the first occurrence of `bytes`.
fn flip_last_bit(mut list: Vec<u8>, bytes: &[u8]) -> Vec<u8> {
    if let Some(at) = list.windows(bytes.len()).position(|found| found == bytes) {
        list[at + bytes.len() - 1] ^= 1;
    }
    list
}
