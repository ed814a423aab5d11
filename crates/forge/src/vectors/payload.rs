//! Checks 5 to 12.

use super::{
    INSTANCE, LEAF, Vector, add_field, certificate_of, drop_field, edit_field, repeat_field,
    set_field, vector,
};
use crate::{cbor, document::Forgery};

pub(super) const VECTORS: &[Vector] = &[
    // Forms that genuine documents have, or equivalent encodings.
    vector("optionals-absent", 0, "", |f| {
        f.fields = Some(Box::new(|fields: &mut crate::document::Fields| {
            fields.truncate(6);
        }));
    }),
    vector("user-data-empty", 0, "", |f| {
        f.contents.user_data = Some(Vec::new());
    }),
    vector("public-key-empty", 0, "", |f| {
        f.contents.public_key = Some(Vec::new());
    }),
    vector("optionals-1024", 0, "", |f| {
        f.contents.public_key = Some(vec![1; 1024]);
        f.contents.user_data = Some(vec![2; 1024]);
        f.contents.nonce = Some(vec![3; 1024]);
    }),
    vector("one-pcr", 0, "", |f| {
        f.contents.pcrs.retain(|index, _| *index == 0);
    }),
    vector("pcr-31-only", 0, "", |f| {
        f.contents.pcrs = [(31, [1; 48])].into();
    }),
    vector("32-pcrs", 0, "", |f| {
        f.contents
            .pcrs
            .extend((16..32).map(|index| (index, [index; 48])));
    }),
    vector("17-pcrs", 0, "", |f| {
        f.contents.pcrs.insert(16, [16; 48]);
    }),
    vector("module-id-of-1-character", 0, "", |f| {
        f.module_id = "i".to_owned();
    }),
    vector("timestamp-september-2001", 0, "", |f| {
        f.timestamp = 1_000_000_000_000;
    }),
    vector("timestamp-end-of-9999", 0, "", |f| {
        f.timestamp = 253_402_300_799_999;
    }),
    vector("cabundle-entry-1024", 0, "", |f| {
        certificate_of(f, INSTANCE, 1_024);
    }),
    vector("certificate-1024", 0, "", |f| {
        certificate_of(f, LEAF, 1_024);
    }),
    vector("fields-reversed", 0, "", |f| {
        f.fields = Some(Box::new(|fields: &mut crate::document::Fields| {
            fields.reverse();
        }));
    }),
    // Check 5
    vector("payload-not-a-map", 5, "PAYLOAD_MALFORMED", |f| {
        payload(f, |p| *p = vec![0x80]);
    }),
    vector("payload-cut", 5, "PAYLOAD_MALFORMED", |f| {
        payload(f, |p| p.truncate(100));
    }),
    vector("payload-without-break", 5, "PAYLOAD_MALFORMED", |f| {
        payload(f, |p| p.truncate(p.len() - 1));
    }),
    vector("integer-key", 5, "PAYLOAD_MALFORMED", |f| {
        f.fields = Some(Box::new(|fields: &mut crate::document::Fields| {
            fields.push((vec![0x01], vec![0xf6]));
        }));
    }),
    vector("text-of-2-to-the-64", 5, "PAYLOAD_MALFORMED", |f| {
        set_field(f, "module_id", cbor::head(3, u64::MAX));
    }),
    vector("map-of-2-to-the-63", 5, "PAYLOAD_MALFORMED", |f| {
        set_field(f, "pcrs", cbor::head(5, 1 << 63));
    }),
    vector("array-of-2-to-the-32", 5, "PAYLOAD_MALFORMED", |f| {
        set_field(f, "cabundle", cbor::head(4, 1 << 32));
    }),
    vector("module-id-long-head", 5, "PAYLOAD_MALFORMED", |f| {
        set_field(f, "module_id", vec![0x78, 1, b'i']);
    }),
    vector("module-id-not-utf8", 5, "PAYLOAD_MALFORMED", |f| {
        set_field(f, "module_id", vec![0x61, 0xff]);
    }),
    vector("timestamp-reserved-28", 5, "PAYLOAD_MALFORMED", |f| {
        set_field(f, "timestamp", vec![0x1c]);
    }),
    vector("nonce-chunked", 5, "PAYLOAD_MALFORMED", |f| {
        set_field(f, "nonce", vec![0x5f, 0x41, 1, 0xff]);
    }),
    vector("module-id-missing", 5, "FIELD_MISSING", |f| {
        drop_field(f, "module_id");
    }),
    vector("digest-missing", 5, "FIELD_MISSING", |f| {
        drop_field(f, "digest");
    }),
    vector("timestamp-missing", 5, "FIELD_MISSING", |f| {
        drop_field(f, "timestamp");
    }),
    vector("pcrs-missing", 5, "FIELD_MISSING", |f| {
        drop_field(f, "pcrs");
    }),
    vector("certificate-missing", 5, "FIELD_MISSING", |f| {
        drop_field(f, "certificate");
    }),
    vector("cabundle-missing", 5, "FIELD_MISSING", |f| {
        drop_field(f, "cabundle");
    }),
    vector("module-id-bytes", 5, "FIELD_TYPE", |f| {
        set_field(f, "module_id", cbor::bytes(b"i-0"));
    }),
    vector("module-id-null", 5, "FIELD_TYPE", |f| {
        set_field(f, "module_id", vec![0xf6]);
    }),
    vector("digest-bytes", 5, "FIELD_TYPE", |f| {
        set_field(f, "digest", cbor::bytes(b"SHA384"));
    }),
    vector("timestamp-negative", 5, "FIELD_TYPE", |f| {
        set_field(f, "timestamp", vec![0x20]);
    }),
    vector("timestamp-float", 5, "FIELD_TYPE", |f| {
        set_field(f, "timestamp", vec![0xfb, 0x42, 0x77, 0, 0, 0, 0, 0, 0]);
    }),
    vector("timestamp-bignum", 5, "FIELD_TYPE", |f| {
        set_field(f, "timestamp", vec![0xc2, 0x41, 1]);
    }),
    vector("pcrs-array", 5, "FIELD_TYPE", |f| {
        set_field(f, "pcrs", vec![0x80]);
    }),
    vector("pcr-index-text", 5, "FIELD_TYPE", |f| {
        add_pcr(f, cbor::text("0"), vec![0; 48]);
    }),
    vector("pcr-index-negative", 5, "FIELD_TYPE", |f| {
        add_pcr(f, vec![0x20], vec![0; 48]);
    }),
    vector("pcr-text", 5, "FIELD_TYPE", |f| {
        set_field(f, "pcrs", [vec![0xa1, 0], cbor::text("0")].concat());
    }),
    vector("certificate-text", 5, "FIELD_TYPE", |f| {
        set_field(f, "certificate", cbor::text("30"));
    }),
    vector("certificate-null", 5, "FIELD_TYPE", |f| {
        set_field(f, "certificate", vec![0xf6]);
    }),
    vector("cabundle-bytes", 5, "FIELD_TYPE", |f| {
        set_field(f, "cabundle", cbor::bytes(&[0x30]));
    }),
    vector("cabundle-of-text", 5, "FIELD_TYPE", |f| {
        set_field(f, "cabundle", [vec![0x81], cbor::text("30")].concat());
    }),
    vector("nonce-false", 5, "FIELD_TYPE", |f| {
        set_field(f, "nonce", vec![0xf4]);
    }),
    vector("nonce-undefined", 5, "FIELD_TYPE", |f| {
        set_field(f, "nonce", vec![0xf7]);
    }),
    vector("user-data-text", 5, "FIELD_TYPE", |f| {
        set_field(f, "user_data", cbor::text("data"));
    }),
    vector("public-key-nested-5000", 5, "FIELD_TYPE", |f| {
        set_field(f, "public_key", [vec![0x81; 5_000], vec![0x80]].concat());
    }),
    vector("module-id-twice", 5, "FIELD_DUPLICATE", |f| {
        repeat_field(f, "module_id");
    }),
    vector("pcrs-twice", 5, "FIELD_DUPLICATE", |f| {
        repeat_field(f, "pcrs");
    }),
    vector("nonce-twice", 5, "FIELD_DUPLICATE", |f| {
        repeat_field(f, "nonce");
    }),
    vector("pcr0-twice", 5, "FIELD_DUPLICATE", |f| {
        add_pcr(f, vec![0], vec![9; 48]);
    }),
    vector("pcr0-twice-equal", 5, "FIELD_DUPLICATE", |f| {
        add_pcr(f, vec![0], vec![1; 48]);
    }),
    vector("unknown-field", 5, "FIELD_UNKNOWN", |f| {
        add_field(f, "attributes", vec![0xf6]);
    }),
    vector("unknown-field-nested-5000", 5, "FIELD_UNKNOWN", |f| {
        add_field(f, "x", [vec![0x81; 5_000], vec![0x80]].concat());
    }),
    vector("nitrotpm-pcrs", 5, "NITRO_TPM_DOCUMENT", |f| {
        f.fields = Some(Box::new(|fields: &mut crate::document::Fields| {
            let pcrs = cbor::text("pcrs");
            fields
                .iter_mut()
                .filter(|(name, _)| *name == pcrs)
                .for_each(|(name, _)| *name = cbor::text("nitrotpm_pcrs"));
        }));
    }),
    vector("nitrotpm-module-id", 5, "NITRO_TPM_DOCUMENT", |f| {
        f.module_id = "i-0123456789abcdef0-tpm0000000000000000".to_owned();
    }),
    // Check 6
    vector("module-id-empty", 6, "MODULE_ID_EMPTY", |f| {
        f.module_id.clear();
    }),
    vector("module-id-escape", 6, "MODULE_ID_UNPRINTABLE", |f| {
        f.module_id = "i-0\u{1b}[2J\u{1b}[1;32mVERIFIED\u{1b}[0m".to_owned();
    }),
    vector("module-id-line-break", 6, "MODULE_ID_UNPRINTABLE", |f| {
        f.module_id.push('\n');
    }),
    vector("module-id-space", 6, "MODULE_ID_UNPRINTABLE", |f| {
        f.module_id.push(' ');
    }),
    vector("module-id-delete", 6, "MODULE_ID_UNPRINTABLE", |f| {
        f.module_id.push('\u{7f}');
    }),
    vector("module-id-right-to-left", 6, "MODULE_ID_UNPRINTABLE", |f| {
        f.module_id.push('\u{202e}');
    }),
    // Check 7
    vector("digest-sha256", 7, "DIGEST_REFUSED", |f| {
        set_field(f, "digest", cbor::text("SHA256"));
    }),
    vector("digest-lower-case", 7, "DIGEST_REFUSED", |f| {
        set_field(f, "digest", cbor::text("sha384"));
    }),
    vector("digest-empty", 7, "DIGEST_REFUSED", |f| {
        set_field(f, "digest", cbor::text(""));
    }),
    // Check 8
    vector("timestamp-zero", 8, "TIMESTAMP_INVALID", |f| {
        f.timestamp = 0;
    }),
    vector("timestamp-one", 8, "TIMESTAMP_INVALID", |f| {
        f.timestamp = 1;
    }),
    vector("timestamp-before-2001", 8, "TIMESTAMP_INVALID", |f| {
        f.timestamp = 999_999_999_999;
    }),
    vector("timestamp-in-seconds", 8, "TIMESTAMP_INVALID", |f| {
        f.timestamp /= 1000;
    }),
    vector("timestamp-max", 8, "TIMESTAMP_INVALID", |f| {
        f.timestamp = u64::MAX;
    }),
    vector("timestamp-year-10000", 8, "TIMESTAMP_INVALID", |f| {
        f.timestamp = 253_402_300_800_000;
    }),
    // Check 9
    vector("pcrs-empty", 9, "PCR_SET_INVALID", |f| {
        f.contents.pcrs.clear();
    }),
    vector("pcr-32", 9, "PCR_SET_INVALID", |f| {
        f.contents.pcrs.extend([(32, [1; 48])]);
    }),
    vector("pcr-256", 9, "PCR_SET_INVALID", |f| {
        add_pcr(f, cbor::head(0, 256), vec![1; 48]);
    }),
    vector("33-pcrs", 9, "PCR_SET_INVALID", |f| {
        f.contents
            .pcrs
            .extend((16..33).map(|index| (index, [index; 48])));
    }),
    vector("pcr-empty", 9, "PCR_SET_INVALID", |f| {
        add_pcr(f, vec![16], vec![]);
    }),
    vector("pcr-32-bytes", 9, "PCR_SET_INVALID", |f| {
        add_pcr(f, vec![16], vec![0; 32]);
    }),
    vector("pcr-47-bytes", 9, "PCR_SET_INVALID", |f| {
        add_pcr(f, vec![16], vec![0; 47]);
    }),
    vector("pcr-49-bytes", 9, "PCR_SET_INVALID", |f| {
        add_pcr(f, vec![16], vec![0; 49]);
    }),
    vector("pcr-64-bytes", 9, "PCR_SET_INVALID", |f| {
        add_pcr(f, vec![16], vec![0; 64]);
    }),
    // Check 10
    vector("cabundle-empty", 10, "CABUNDLE_INVALID", |f| {
        cabundle(f, Vec::clear);
    }),
    vector("cabundle-empty-entry", 10, "CABUNDLE_INVALID", |f| {
        cabundle(f, |bundle| bundle.push(Vec::new()));
    }),
    vector("cabundle-entry-1025", 10, "CABUNDLE_INVALID", |f| {
        certificate_of(f, INSTANCE, 1_025);
    }),
    vector(
        "cabundle-entry-of-noise",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            cabundle(f, |bundle| bundle[1].resize(1_024, 0));
        },
    ),
    vector(
        "cabundle-entry-of-1-byte",
        20,
        "CERTIFICATE_MALFORMED",
        |f| {
            cabundle(f, |bundle| bundle[1] = vec![0x30]);
        },
    ),
    vector("cabundle-of-10000", 10, "CABUNDLE_INVALID", |f| {
        cabundle(f, |bundle| bundle.resize(10_000, Vec::new()));
    }),
    // Check 11
    vector("certificate-empty", 11, "CERTIFICATE_SIZE", |f| {
        set_field(f, "certificate", vec![0x40]);
    }),
    vector("certificate-1025", 11, "CERTIFICATE_SIZE", |f| {
        certificate_of(f, LEAF, 1_025);
    }),
    vector("certificate-of-noise", 20, "CERTIFICATE_MALFORMED", |f| {
        set_field(f, "certificate", cbor::bytes(&[0x30; 1_024]));
    }),
    vector("certificate-of-1-byte", 20, "CERTIFICATE_MALFORMED", |f| {
        set_field(f, "certificate", cbor::bytes(&[0x30]));
    }),
    // Check 12
    vector("public-key-1025", 12, "OPTIONAL_FIELD_SIZE", |f| {
        f.contents.public_key = Some(vec![1; 1_025]);
    }),
    vector("user-data-1025", 12, "OPTIONAL_FIELD_SIZE", |f| {
        f.contents.user_data = Some(vec![1; 1_025]);
    }),
    vector("nonce-1025", 12, "OPTIONAL_FIELD_SIZE", |f| {
        f.contents.nonce = Some(vec![1; 1_025]);
    }),
];

fn payload(forgery: &mut Forgery, change: fn(&mut Vec<u8>)) {
    forgery.payload = Some(Box::new(change));
}

fn cabundle(forgery: &mut Forgery, change: fn(&mut Vec<Vec<u8>>)) {
    forgery.cabundle = Some(Box::new(change));
}

/// Adds an entry after the example's sixteen registers, with a map head for 17 entries.
fn add_pcr(forgery: &mut Forgery, index: Vec<u8>, value: Vec<u8>) {
    edit_field(forgery, "pcrs", move |encoded| {
        encoded[0] += 1;
        encoded.extend([index.clone(), cbor::bytes(&value)].concat());
    });
}
