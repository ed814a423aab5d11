//! Checks 13 to 20. Every certificate is signed again after it was changed, unless the signature itself is the point.

use super::{INSTANCE, LEAF, REGIONAL, ROOT, Vector, ZONAL, unknown_extension, vector};
use crate::certificate::Hash;
use crate::document::Forgery;
use crate::issuer::{basic_constraints, key_usage};
use crate::{der, document::Link};

pub(super) const VECTORS: &[Vector] = &[
    vector("leaf-with-unknown-extension", 0, "", |f| {
        f.links[LEAF].spec.extensions.push(unknown_extension(false));
    }),
    vector("regional-starts-this-second", 0, "", |f| {
        starts(f, REGIONAL, 0);
    }),
    vector("regional-ends-this-second", 0, "", |f| ends(f, REGIONAL, 0)),
    vector("zonal-starts-this-second", 0, "", |f| starts(f, ZONAL, 0)),
    vector("zonal-ends-this-second", 0, "", |f| ends(f, ZONAL, 0)),
    vector("instance-starts-this-second", 0, "", |f| {
        starts(f, INSTANCE, 0);
    }),
    vector("instance-ends-this-second", 0, "", |f| ends(f, INSTANCE, 0)),
    vector("leaf-starts-this-second", 0, "", |f| starts(f, LEAF, 0)),
    vector("leaf-ends-this-second", 0, "", |f| ends(f, LEAF, 0)),
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
    // Check 13. Whoever judges has to pin the root of the unchanged chain.
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
        // The instance certificate stands where the leaf should.
        f.links.pop();
        f.signed_by = INSTANCE;
        bundle(f, |bundle| bundle.push(bundle[bundle.len() - 1].clone()));
    }),
    // Check 16
    vector("leaf-ended-a-second-ago", 16, "CERTIFICATE_EXPIRED", |f| {
        ends(f, LEAF, -1);
    }),
    vector(
        "leaf-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            starts(f, LEAF, 1);
        },
    ),
    vector(
        "instance-ended-a-second-ago",
        16,
        "CERTIFICATE_EXPIRED",
        |f| {
            ends(f, INSTANCE, -1);
        },
    ),
    vector(
        "instance-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            starts(f, INSTANCE, 1);
        },
    ),
    vector("zonal-ended-a-second-ago", 16, "CERTIFICATE_EXPIRED", |f| {
        ends(f, ZONAL, -1);
    }),
    vector(
        "zonal-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            starts(f, ZONAL, 1);
        },
    ),
    vector(
        "regional-ended-a-second-ago",
        16,
        "CERTIFICATE_EXPIRED",
        |f| {
            ends(f, REGIONAL, -1);
        },
    ),
    vector(
        "regional-starts-next-second",
        16,
        "CERTIFICATE_NOT_YET_VALID",
        |f| {
            starts(f, REGIONAL, 1);
        },
    ),
    // Check 18
    vector("instance-not-a-ca", 18, "BASIC_CONSTRAINTS", |f| {
        constraints(f, INSTANCE, basic_constraints(false, None));
    }),
    vector(
        "regional-without-constraints",
        18,
        "BASIC_CONSTRAINTS",
        |f| {
            f.links[REGIONAL]
                .spec
                .set_extension(der::BASIC_CONSTRAINTS, None);
        },
    ),
    vector(
        "zonal-constraints-not-critical",
        18,
        "BASIC_CONSTRAINTS",
        |f| {
            let value = der::sequence(&[&[1, 1, 0xff], &der::integer(&[1])]);
            constraints(
                f,
                ZONAL,
                der::extension(der::BASIC_CONSTRAINTS, false, &value),
            );
        },
    ),
    vector("leaf-is-a-ca", 18, "BASIC_CONSTRAINTS", |f| {
        constraints(f, LEAF, basic_constraints(true, None));
    }),
    vector("leaf-without-constraints", 18, "BASIC_CONSTRAINTS", |f| {
        f.links[LEAF]
            .spec
            .set_extension(der::BASIC_CONSTRAINTS, None);
    }),
    vector(
        "leaf-constraints-not-critical",
        18,
        "BASIC_CONSTRAINTS",
        |f| {
            constraints(
                f,
                LEAF,
                der::extension(der::BASIC_CONSTRAINTS, false, &der::sequence(&[])),
            );
        },
    ),
    vector("leaf-with-path-length", 18, "BASIC_CONSTRAINTS", |f| {
        constraints(f, LEAF, basic_constraints(false, Some(0)));
    }),
    vector("leaf-issues-a-leaf", 18, "BASIC_CONSTRAINTS", |f| {
        // Straight under the root, so that no path length gets in the way.
        f.links.drain(REGIONAL..LEAF);
        f.links[1].spec.issuer = f.links[ROOT].spec.subject.clone();
        f.links[1].signed_by = ROOT;
        let mut link: Link = f.links[1].clone();
        link.spec.issuer = f.links[1].spec.subject.clone();
        link.spec.subject = name("i-0.dev-local-1.aws");
        (link.signed_by, f.signed_by) = (1, 2);
        f.links.push(link);
    }),
    vector("one-issuer-too-many", 18, "PATH_LENGTH", |f| {
        let mut link: Link = f.links[INSTANCE].clone();
        link.spec.issuer = f.links[INSTANCE].spec.subject.clone();
        link.spec.subject = name("i-0.dev-local-1.aws.nitro-enclaves");
        link.signed_by = INSTANCE;
        f.links[LEAF].spec.issuer = link.spec.subject.clone();
        (f.links[LEAF].signed_by, f.signed_by) = (LEAF, LEAF + 1);
        f.links.insert(LEAF, link);
    }),
    vector("regional-path-length-1", 18, "PATH_LENGTH", |f| {
        constraints(f, REGIONAL, basic_constraints(true, Some(1)));
    }),
    vector("zonal-path-length-0", 18, "PATH_LENGTH", |f| {
        constraints(f, ZONAL, basic_constraints(true, Some(0)));
    }),
    // Check 19
    vector("zonal-without-cert-sign", 19, "KEY_USAGE", |f| {
        usage(f, ZONAL, key_usage(true, 0x07, 0x80));
    }),
    vector("instance-without-key-usage", 19, "KEY_USAGE", |f| {
        f.links[INSTANCE].spec.set_extension(der::KEY_USAGE, None);
    }),
    vector("leaf-without-digital-signature", 19, "KEY_USAGE", |f| {
        usage(f, LEAF, key_usage(false, 0x06, 0x40));
    }),
    vector("leaf-without-key-usage", 19, "KEY_USAGE", |f| {
        f.links[LEAF].spec.set_extension(der::KEY_USAGE, None);
    }),
    vector("leaf-with-cert-sign", 19, "KEY_USAGE", |f| {
        usage(f, LEAF, key_usage(false, 0x02, 0x84));
    }),
    // Check 20
    vector(
        "leaf-unknown-critical-extension",
        20,
        "CRITICAL_EXTENSION",
        |f| {
            f.links[LEAF].spec.extensions.push(unknown_extension(true));
        },
    ),
    vector(
        "regional-unknown-critical-extension",
        20,
        "CRITICAL_EXTENSION",
        |f| {
            f.links[REGIONAL]
                .spec
                .extensions
                .push(unknown_extension(true));
        },
    ),
    vector(
        "zonal-critical-name-constraints",
        20,
        "CRITICAL_EXTENSION",
        |f| {
            // permittedSubtrees of one directoryName, which every name is below.
            let subtree = der::sequence(&[&der::tlv(0xa4, &der::sequence(&[]))]);
            let value = der::sequence(&[&der::tlv(0xa0, &subtree)]);
            let extension = der::extension(der::NAME_CONSTRAINTS, true, &value);
            f.links[ZONAL].spec.extensions.push(extension);
        },
    ),
    vector("leaf-trailing-byte", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.after_signing = Some(|der| der.push(0));
    }),
    vector("regional-trailing-byte", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[REGIONAL].spec.after_signing = Some(|der| der.push(0));
    }),
    vector("leaf-outer-tag-set", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.after_signing = Some(|der| der[0] = 0x31);
    }),
    vector("leaf-long-length", 20, "CERTIFICATE_MALFORMED", |f| {
        // 30 82 hh ll becomes 30 83 00 hh ll: the same length in a longer form.
        f.links[LEAF].spec.after_signing = Some(|der| {
            der[1] = 0x83;
            der.insert(2, 0);
        });
    }),
    vector("leaf-indefinite-length", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.after_signing = Some(|der| {
            der.splice(1..4, [0x80]);
            der.extend([0, 0]);
        });
    }),
    vector("leaf-version-1", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.version = Vec::new();
    }),
    vector("leaf-version-2", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.version[4] = 1;
    }),
    vector("leaf-two-algorithms", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.inner_algorithm = der::ECDSA_SHA256.to_vec();
    }),
    vector("leaf-serial-long-form", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.serial = vec![2, 2, 0, 1];
    }),
    vector(
        "leaf-critical-false-spelt-out",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            usage(
                f,
                LEAF,
                der::sequence(&[
                    der::KEY_USAGE,
                    &[1, 1, 0],
                    &der::octet_string(&[3, 2, 6, 0xc0]),
                ]),
            );
        },
    ),
    vector(
        "leaf-boolean-not-canonical",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            let empty = der::octet_string(&der::sequence(&[]));
            constraints(
                f,
                LEAF,
                der::sequence(&[der::BASIC_CONSTRAINTS, &[1, 1, 1], &empty]),
            );
        },
    ),
    vector(
        "instance-ca-boolean-not-canonical",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            let value = der::sequence(&[&[1, 1, 1], &der::integer(&[0])]);
            constraints(
                f,
                INSTANCE,
                der::extension(der::BASIC_CONSTRAINTS, true, &value),
            );
        },
    ),
    vector(
        "leaf-ca-false-spelt-out",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            constraints(
                f,
                LEAF,
                der::extension(der::BASIC_CONSTRAINTS, true, &der::sequence(&[&[1, 1, 0]])),
            );
        },
    ),
    vector(
        "leaf-constraints-trailing-byte",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            constraints(
                f,
                LEAF,
                der::extension(der::BASIC_CONSTRAINTS, true, &[0x30, 0, 0]),
            );
        },
    ),
    vector(
        "zonal-path-length-2-to-the-63",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            let length = der::integer(&[0x80, 0, 0, 0, 0, 0, 0, 0]);
            let value = der::sequence(&[&[1, 1, 0xff], &length]);
            constraints(
                f,
                ZONAL,
                der::extension(der::BASIC_CONSTRAINTS, true, &value),
            );
        },
    ),
    vector(
        "zonal-path-length-negative",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            let value = der::sequence(&[&[1, 1, 0xff], &[2, 1, 0xff]]);
            constraints(
                f,
                ZONAL,
                der::extension(der::BASIC_CONSTRAINTS, true, &value),
            );
        },
    ),
    vector("leaf-constraints-twice", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF]
            .spec
            .extensions
            .push(basic_constraints(false, None));
    }),
    vector(
        "leaf-key-usage-trailing-zeros",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            // X.690 §11.2.2: trailing zero bits of a named bit list are removed.
            usage(f, LEAF, key_usage(false, 0x00, 0xc0));
        },
    ),
    vector("leaf-30-february", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.not_before = der::tlv(0x17, b"240230000000Z");
    }),
    vector(
        "leaf-time-without-seconds",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            f.links[LEAF].spec.not_before = der::tlv(0x17, b"2401010000Z");
        },
    ),
    vector("leaf-time-with-offset", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.not_before = der::tlv(0x17, b"240101000000+0000");
    }),
    vector(
        "leaf-generalized-time-before-2050",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            f.links[LEAF].spec.not_before = der::tlv(0x18, b"20240101000000Z");
        },
    ),
    vector("leaf-empty-extensions", 20, "CERTIFICATE_MALFORMED", |f| {
        f.links[LEAF].spec.extensions = vec![Vec::new()];
    }),
];

fn bundle(forgery: &mut Forgery, change: fn(&mut Vec<Vec<u8>>)) {
    forgery.cabundle = Some(Box::new(change));
}

fn constraints(forgery: &mut Forgery, at: usize, extension: Vec<u8>) {
    forgery.links[at]
        .spec
        .set_extension(der::BASIC_CONSTRAINTS, Some(extension));
}

/// Removes all path lengths and puts further issuers above the leaf, until there are so many below the root.
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

fn usage(forgery: &mut Forgery, at: usize, extension: Vec<u8>) {
    forgery.links[at]
        .spec
        .set_extension(der::KEY_USAGE, Some(extension));
}

/// Ends `seconds` after the document was made.
fn ends(forgery: &mut Forgery, at: usize, seconds: i64) {
    let end = (forgery.timestamp / 1000).saturating_add_signed(seconds);
    forgery.links[at].spec.not_after = der::time(end);
}

/// Starts `seconds` after the document was made.
fn starts(forgery: &mut Forgery, at: usize, seconds: i64) {
    let start = (forgery.timestamp / 1000).saturating_add_signed(seconds);
    forgery.links[at].spec.not_before = der::time(start);
}

fn name(common_name: &str) -> Vec<u8> {
    der::name(&[(der::COMMON_NAME, common_name)])
}

/// Looks like a point of that curve, and is on none.
fn key_on(curve: &[u8], coordinates: usize) -> Vec<u8> {
    let mut point = vec![5; coordinates + 1];
    point[0] = 4;
    der::ec_public_key(curve, &point)
}
