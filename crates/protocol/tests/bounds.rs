//! Memory and work are bounded by the length of the input, whatever lengths it declares.
// A test fails by panicking.
#![allow(clippy::unwrap_used)]

use attestation::cbor::Writer;
use attestation::{CheckLog, ReceiptKey};
use base64ct::{Base64UrlUnpadded, Encoding};
use fixtures::allocator::{Cost, Counting, cost};
use fixtures::rng;
use protocol::bundle::{AuditBundle, MAX_BUNDLE};
use protocol::inner::{
    InnerRequest, InnerResponse, MAX_FIELD_SECTION, MAX_FIELDS, MAX_REQUEST, MAX_RESPONSE,
    unpadded_len,
};
use protocol::ohttp::{GatewayKeys, MAX_ENCAPSULATED};
use protocol::receipt::{Expectations, MAX_RECEIPT, ParsedReceipt, ReceiptSigner, verify};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A request with fields of the given number and content of the given length.
fn request(fields: usize, content: usize) -> Vec<u8> {
    let request = InnerRequest {
        method: "POST".into(),
        path: "/v1/embeddings".into(),
        headers: (0..fields)
            .map(|number| (format!("x-{number}"), "y".repeat(80)))
            .collect(),
        content: vec![b'a'; content],
    };
    request.encode_padded().unwrap()
}

/// 8 bytes of QUIC's longest integer.
fn integer(value: u64) -> [u8; 8] {
    (value | 0xc0 << 56).to_be_bytes()
}

#[test]
fn an_inner_message_costs_a_small_multiple_of_its_content() {
    for content in [0, 1_000, 100_000, 1 << 20, 3 << 20] {
        let bytes = request(40, content);
        let (decoded, cost) = cost(|| InnerRequest::decode(&bytes));
        assert!(decoded.is_ok());
        assert!(
            cost.peak <= 64 * 1024 + 2 * bytes.len(),
            "{content}: {cost:?}"
        );
    }
}

#[test]
fn an_inner_message_is_measured_before_it_is_copied() {
    let zip_bombs = [
        [&[0][..], &integer(1 << 40)].concat(),
        [&[1, 0x40, 200][..], &integer((1 << 62) - 1)].concat(),
        [&[1, 0x40, 200, 0][..], &integer(1 << 40)].concat(),
        [&[1, 0x40, 200, 0][..], &integer(MAX_RESPONSE as u64 - 64)].concat(),
        [&[1, 0x40, 200, 0, 0][..], &integer(1 << 30)].concat(),
        vec![0; MAX_REQUEST],
        vec![1; MAX_RESPONSE],
        vec![0xff; MAX_RESPONSE + 1],
    ];
    for bytes in &zip_bombs {
        let (refused, cost) = cost(|| {
            unpadded_len(bytes).is_err() as u8
                + u8::from(InnerRequest::decode(bytes).is_err())
                + u8::from(InnerResponse::decode(bytes).is_err())
        });
        assert!(refused >= 2);
        assert_eq!(
            cost,
            Cost::default(),
            "{:02x?}",
            &bytes[..bytes.len().min(16)]
        );
    }
    // As many fields as fit; none may be copied before they were counted.
    let section = [1, b'a', 1, b'b'].repeat(MAX_FIELD_SECTION / 4);
    assert!(section.len() / 4 > MAX_FIELDS);
    let bytes = [
        &[1, 0x40, 200][..],
        &integer(section.len() as u64),
        &section,
    ]
    .concat();
    let (decoded, cost) = cost(|| InnerResponse::decode(&bytes).is_ok());
    assert!(!decoded);
    assert_eq!(cost, Cost::default());
}

#[test]
fn twice_the_fields_are_twice_the_work() {
    let costs = [10, 20, 40].map(|fields| {
        let bytes = request(fields, 100);
        cost(|| InnerRequest::decode(&bytes).map(drop)).1
    });
    for pair in costs.windows(2) {
        assert!(pair[1].count <= 2 * pair[0].count + 16, "{costs:?}");
        assert!(pair[1].total <= 2 * pair[0].total + 8_192, "{costs:?}");
    }
}

#[test]
fn invalid_requests_make_a_gateway_copy_nothing_twice() {
    let gateway = GatewayKeys::generate(1, &mut rng(1));
    for (mut bytes, limit) in [
        (vec![0; MAX_ENCAPSULATED + 1], 0),
        (vec![9; MAX_ENCAPSULATED], 0),
        (vec![1; 7], 0),
        (
            vec![0x5a; MAX_ENCAPSULATED],
            2 * MAX_ENCAPSULATED + 256 * 1024,
        ),
    ] {
        // X25519 with AES-256-GCM, under the second key.
        if limit > 0 {
            bytes[..7].copy_from_slice(&[2, 0, 0x20, 0, 1, 0, 2]);
        }
        let (opened, cost) = cost(|| gateway.open(&bytes).is_ok());
        assert!(!opened);
        assert!(cost.peak <= limit, "{cost:?}, allowed {limit}");
    }
}

#[test]
fn a_receipt_is_read_in_place() {
    let signer = ReceiptSigner::generate(&mut rng(2));
    let key = ReceiptKey::dangerous_unattested(signer.public_key());
    let expectations = Expectations::dangerous_unattested(key);
    let envelope = |payload: &[u8]| {
        let mut writer = Writer::new();
        writer
            .tag(18)
            .array(4)
            .bytes(&[0xa2, 0x01, 0x27, 0x03, 0x18, 0x3d])
            .map(0)
            .bytes(payload)
            .bytes(&[0; 64]);
        writer.finish()
    };
    let many = |count: u16| {
        let mut map = Writer::new();
        map.map(count.into());
        for key in 0..count {
            map.uint(key.into()).uint(0);
        }
        map.finish()
    };
    for bytes in [
        vec![0xd2; MAX_RECEIPT],
        vec![0x81; MAX_RECEIPT],
        vec![0; MAX_RECEIPT + 1],
        vec![0; 1 << 24],
        envelope(&many(10_000)),
        envelope(&[&[0xbb][..], &[0xff; 8]].concat()),
        envelope(&vec![0xa1; 60_000]),
    ] {
        let mut log = CheckLog::new();
        let (parsed, cost_of_parsing) = cost(|| ParsedReceipt::parse(&bytes, &mut log).is_ok());
        assert!(!parsed);
        // The observed value in a row is a sentence, never the input.
        assert!(cost_of_parsing.peak <= 4_096, "{cost_of_parsing:?}");
        let (_, cost) = cost(|| verify(&bytes, &expectations, None));
        assert!(cost.peak <= 32 * 1024, "{cost:?}");
    }
}

#[test]
fn a_bundle_costs_a_small_multiple_of_its_text() {
    let bundle = |length: usize| {
        let bytes = Base64UrlUnpadded::encode_string(&vec![7; length]);
        let small = Base64UrlUnpadded::encode_string(&[7; 64]);
        format!(
            "{{\"format\":\"clearseal-audit-bundle/1\",\"receipt\":\"{small}\",\"document\":\"{small}\",\"manifest\":\"{small}\",\"request\":\"{bytes}\",\"response\":\"{bytes}\"}}"
        )
    };
    let mut costs = Vec::new();
    for length in [1 << 18, 1 << 19, 1 << 20] {
        let text = bundle(length);
        let (read, cost) = cost(|| AuditBundle::from_json(&text).is_ok());
        assert!(read);
        assert!(
            cost.peak <= 8_192 + 2 * text.len(),
            "{cost:?} for {}",
            text.len()
        );
        costs.push(cost);
    }
    assert!(costs[2].count <= costs[0].count + 16, "{costs:?}");
    for text in [
        "[".repeat(MAX_BUNDLE),
        "{\"format\":".repeat(100_000),
        "x".repeat(MAX_BUNDLE + 1),
        bundle(5 << 20),
    ] {
        let (read, cost) = cost(|| AuditBundle::from_json(&text).is_ok());
        assert!(!read);
        assert!(
            cost.peak <= 8_192 + 2 * text.len().min(MAX_BUNDLE),
            "{cost:?}"
        );
    }
}
