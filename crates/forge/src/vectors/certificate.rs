//! Checks 18 to 20: permitted uses of a certificate, and its canonical encoding. Each is signed after the change.

use super::{
    INSTANCE, LEAF, REGIONAL, ROOT, Vector, ZONAL, constraints, name, unknown_extension, vector,
};
use crate::document::Forgery;
use crate::issuer::{basic_constraints, key_usage};
use crate::{der, document::Link};

pub(super) const VECTORS: &[Vector] = &[
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
        // Directly under the root, so that no path length is exceeded.
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
            // permittedSubtrees with an empty directoryName, which contains every name.
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

fn usage(forgery: &mut Forgery, at: usize, extension: Vec<u8>) {
    forgery.links[at]
        .spec
        .set_extension(der::KEY_USAGE, Some(extension));
}
