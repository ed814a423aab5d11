//! Checks 13 to 16: signatures, names and validity periods of the chain. Each certificate is signed after the change, unless the
//! signature is what is tested.

use super::{
    INSTANCE, LEAF, REGIONAL, ROOT, Vector, ZONAL, constraints, name, unknown_extension, vector,
};
use crate::certificate::Hash;
use crate::der;
use crate::document::Forgery;
use crate::issuer::basic_constraints;

pub(super) const VECTORS: &[Vector] = &[
    vector("leaf-with-unknown-extension", 0, "", |f| {
        f.links[LEAF].spec.extensions.push(unknown_extension(false));
    }),
    vector("regional-starts-this-second", 0, "", |f| {
        set_not_before(f, REGIONAL, 0);
    }),
    vector("regional-ends-this-second", 0, "", |f| {
        set_not_after(f, REGIONAL, 0);
    }),
    vector("zonal-starts-this-second", 0, "", |f| {
        set_not_before(f, ZONAL, 0);
    }),
    vector("zonal-ends-this-second", 0, "", |f| {
        set_not_after(f, ZONAL, 0);
    }),
    vector("instance-starts-this-second", 0, "", |f| {
        set_not_before(f, INSTANCE, 0);
    }),
    vector("instance-ends-this-second", 0, "", |f| {
        set_not_after(f, INSTANCE, 0);
    }),
    vector("leaf-starts-this-second", 0, "", |f| {
        set_not_before(f, LEAF, 0);
    }),
    vector("leaf-ends-this-second", 0, "", |f| {
        set_not_after(f, LEAF, 0);
    }),
    vector("regional-without-path-length", 0, "", |f| {
        constraints(f, REGIONAL, basic_constraints(true, None));
    }),
    vector("zonal-left-out-by-its-issuer", 0, "", |f| {
        f.links.remove(ZONAL);
        f.links[ZONAL].spec.issuer = f.links[REGIONAL].spec.subject.clone();
        (f.links[ZONAL].signed_by, f.links[LEAF - 1].signed_by) = (REGIONAL, ZONAL);
        f.signed_by = LEAF - 1;
    }),
    vector("root-issues-leaf", 0, "", |f| {
        f.links.drain(REGIONAL..LEAF);
        f.links[1].spec.issuer = f.links[ROOT].spec.subject.clone();
        (f.links[1].signed_by, f.signed_by) = (ROOT, 1);
    }),
    vector("eight-issuers-without-path-lengths", 0, "", |f| {
        lengthen(f, 8);
    }),
    // Check 13. The verifier must pin the root of the unchanged chain.
    vector("root-left-out", 13, "ROOT_NOT_PINNED", |f| {
        bundle(f, |bundle| drop(bundle.remove(0)));
    }),
    vector("cabundle-reversed", 13, "ROOT_NOT_PINNED", |f| {
        bundle(f, |bundle| bundle.reverse());
    }),
    vector("root-with-another-serial", 13, "ROOT_NOT_PINNED", |f| {
        f.links[ROOT].spec.serial = der::integer(&[1]);
    }),
    vector("root-with-trailing-byte", 13, "ROOT_NOT_PINNED", |f| {
        bundle(f, |bundle| bundle[0].push(0));
    }),
    // Check 14
    vector("leaf-key-p256", 14, "CHAIN_ALGORITHM", |f| {
        f.links[LEAF].spec.public_key = key_on(der::P256, 64);
    }),
    vector("leaf-key-p521", 14, "CHAIN_ALGORITHM", |f| {
        f.links[LEAF].spec.public_key = key_on(der::P521, 132);
    }),
    vector("regional-key-p256", 14, "CHAIN_ALGORITHM", |f| {
        f.links[REGIONAL].spec.public_key = key_on(der::P256, 64);
    }),
    vector("leaf-key-not-on-curve", 14, "CHAIN_ALGORITHM", |f| {
        f.links[LEAF].spec.public_key = key_on(der::P384, 96);
    }),
    vector("leaf-key-compressed", 14, "CHAIN_ALGORITHM", |f| {
        let point = f.links[LEAF].key.verifying_key().to_sec1_point(true);
        f.links[LEAF].spec.public_key = der::ec_public_key(der::P384, point.as_bytes());
    }),
    vector("leaf-key-p384-named-p256", 14, "CHAIN_ALGORITHM", |f| {
        let point = f.links[LEAF].key.verifying_key().to_sec1_point(false);
        f.links[LEAF].spec.public_key = der::ec_public_key(der::P256, point.as_bytes());
    }),
    vector("leaf-key-rsa", 14, "CHAIN_ALGORITHM", |f| {
        const RSA: &[u8] = &[
            0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01,
        ];
        let key = der::sequence(&[&der::integer(&[0xc1; 64]), &der::integer(&[1, 0, 1])]);
        f.links[LEAF].spec.public_key =
            der::sequence(&[&der::sequence(&[RSA, &[5, 0]]), &der::bit_string(&key)]);
    }),
    vector("leaf-key-ed25519", 14, "CHAIN_ALGORITHM", |f| {
        let algorithm = der::sequence(&[&[0x06, 0x03, 0x2b, 0x65, 0x70]]);
        f.links[LEAF].spec.public_key = der::sequence(&[&algorithm, &der::bit_string(&[9; 32])]);
    }),
    vector("zonal-signed-with-sha256", 14, "CHAIN_ALGORITHM", |f| {
        let spec = &mut f.links[ZONAL].spec;
        spec.hash = Hash::Sha256;
        (spec.inner_algorithm, spec.outer_algorithm) =
            (der::ECDSA_SHA256.to_vec(), der::ECDSA_SHA256.to_vec());
    }),
    vector(
        "leaf-algorithm-with-parameters",
        14,
        "CHAIN_ALGORITHM",
        |f| {
            let algorithm = der::sequence(&[&der::ECDSA_SHA384[2..], &[5, 0]]);
            let spec = &mut f.links[LEAF].spec;
            (spec.inner_algorithm, spec.outer_algorithm) = (algorithm.clone(), algorithm);
        },
    ),
    vector("zonal-hashed-with-sha256", 14, "CHAIN_SIGNATURE", |f| {
        f.links[ZONAL].spec.hash = Hash::Sha256;
    }),
    vector("leaf-signed-by-zonal", 14, "CHAIN_SIGNATURE", |f| {
        f.links[LEAF].signed_by = ZONAL;
    }),
    vector("leaf-signed-by-itself", 14, "CHAIN_SIGNATURE", |f| {
        f.links[LEAF].signed_by = LEAF;
    }),
    vector("regional-signed-by-itself", 14, "CHAIN_SIGNATURE", |f| {
        f.links[REGIONAL].signed_by = REGIONAL;
    }),
    vector("zonal-signed-by-root", 14, "CHAIN_SIGNATURE", |f| {
        f.links[ZONAL].signed_by = ROOT;
    }),
    vector("instance-signed-by-leaf", 14, "CHAIN_SIGNATURE", |f| {
        f.links[INSTANCE].signed_by = LEAF;
    }),
    // Check 15
    vector("leaf-issuer-name", 15, "CHAIN_NAMES", |f| {
        f.links[LEAF].spec.issuer = f.links[ZONAL].spec.subject.clone();
    }),
    vector("regional-issuer-name", 15, "CHAIN_NAMES", |f| {
        f.links[REGIONAL].spec.issuer = name("aws.nitro-enclaves");
    }),
    vector("issuer-name-in-other-case", 15, "CHAIN_NAMES", |f| {
        let issuer = &mut f.links[LEAF].spec.issuer;
        let at = issuer.len() - 1;
        issuer[at] = issuer[at].to_ascii_uppercase();
    }),
    vector("zonal-left-out", 15, "CHAIN_NAMES", |f| {
        bundle(f, |bundle| drop(bundle.remove(ZONAL)));
    }),
    vector("regional-and-zonal-swapped", 15, "CHAIN_NAMES", |f| {
        bundle(f, |bundle| bundle.swap(REGIONAL, ZONAL));
    }),
    vector("root-twice", 15, "CHAIN_NAMES", |f| {
        bundle(f, |bundle| bundle.insert(0, bundle[0].clone()));
    }),
    vector("cabundle-doubled", 15, "CHAIN_NAMES", |f| {
        bundle(f, |bundle| bundle.extend(bundle.clone()));
    }),
    vector("leaf-also-in-cabundle", 15, "CHAIN_NAMES", |f| {
        // The instance certificate takes the place of the leaf.
        f.links.pop();
        f.signed_by = INSTANCE;
        bundle(f, |bundle| bundle.push(bundle[bundle.len() - 1].clone()));
    }),
    // Check 16
    vector("leaf-ended-a-second-ago", 16, "CERTIFICATE_EXPIRED", |f| {
        set_not_after(f, LEAF, -1);
    }),
    vector(
        "leaf-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            set_not_before(f, LEAF, 1);
        },
    ),
    vector(
        "instance-ended-a-second-ago",
        16,
        "CERTIFICATE_EXPIRED",
        |f| {
            set_not_after(f, INSTANCE, -1);
        },
    ),
    vector(
        "instance-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            set_not_before(f, INSTANCE, 1);
        },
    ),
    vector("zonal-ended-a-second-ago", 16, "CERTIFICATE_EXPIRED", |f| {
        set_not_after(f, ZONAL, -1);
    }),
    vector(
        "zonal-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            set_not_before(f, ZONAL, 1);
        },
    ),
    vector(
        "regional-ended-a-second-ago",
        16,
        "CERTIFICATE_EXPIRED",
        |f| {
            set_not_after(f, REGIONAL, -1);
        },
    ),
    vector(
        "regional-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            set_not_before(f, REGIONAL, 1);
        },
    ),
];

fn bundle(forgery: &mut Forgery, change: fn(&mut Vec<Vec<u8>>)) {
    forgery.cabundle = Some(Box::new(change));
}

/// Removes all path lengths and inserts issuers above the leaf, until there are `issuers` below the root.
fn lengthen(forgery: &mut Forgery, issuers: usize) {
    for at in REGIONAL..LEAF {
        constraints(forgery, at, basic_constraints(true, None));
    }
    for at in LEAF..=issuers {
        let mut link = forgery.links[INSTANCE].clone();
        link.spec.issuer = forgery.links[at - 1].spec.subject.clone();
        link.spec.subject = name(&format!("{at}.dev-local-1.aws.nitro-enclaves"));
        link.signed_by = at - 1;
        forgery.links[at].spec.issuer = link.spec.subject.clone();
        forgery.links[at].signed_by = at;
        forgery.links.insert(at, link);
    }
    forgery.signed_by = issuers + 1;
}

/// Sets the end of validity to `seconds` after the document.
fn set_not_after(forgery: &mut Forgery, at: usize, seconds: i64) {
    let end = (forgery.timestamp / 1000).saturating_add_signed(seconds);
    forgery.links[at].spec.not_after = der::time(end);
}

/// Sets the start of validity to `seconds` after the document.
fn set_not_before(forgery: &mut Forgery, at: usize, seconds: i64) {
    let start = (forgery.timestamp / 1000).saturating_add_signed(seconds);
    forgery.links[at].spec.not_before = der::time(start);
}

/// An encoded key with coordinates that are not a point of the curve.
fn key_on(curve: &[u8], coordinates: usize) -> Vec<u8> {
    let mut point = vec![5; coordinates + 1];
    point[0] = 4;
    der::ec_public_key(curve, &point)
}
