//! Memory and work are bounded by the length of the input, whatever lengths it declares.

use attestation::cbor::{Reader, Rules, Writer};
use attestation::{
    Appraisal, AttestationReport, Evidence, KeyConfig, MAX_DOCUMENT, MAX_EVIDENCE, MAX_KEY_LIST,
    MAX_MANIFEST, MAX_POLICY, Policy, ServiceManifest, Verdict,
};
use fixtures::allocator::{Cost, Counting, cost};
use fixtures::{Fixture, NOW};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bounds of the crate's documentation: bytes held at once for each byte of a document, and a fixed part.
const PER_BYTE: usize = 48;
const ON_TOP: usize = 64 * 1024;
/// Total bytes allocated, freed or not: an upper bound on an appraisal's work.
const WORK_PER_BYTE: usize = 192;
const WORK_ON_TOP: usize = 256 * 1024;

fn judge(fixture: &Fixture, document: &[u8]) -> (AttestationReport, Cost) {
    cost(|| Appraisal::of(document).inspect(&fixture.anchor, NOW))
}

/// An envelope around a payload, in the hypervisor's form, with an invalid signature.
fn around(payload: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .array(4)
        .bytes(&[0xa1, 0x01, 0x38, 0x22])
        .map(0)
        .bytes(payload)
        .bytes(&[1; 96]);
    writer.finish()
}

/// A payload that is valid except for its bundle.
fn with_bundle(entries: usize, entry: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .map(6)
        .text("module_id")
        .text("i-0")
        .text("digest")
        .text("SHA384")
        .text("timestamp")
        .uint(NOW.0);
    writer.text("pcrs").map(1).uint(0).bytes(&[1; 48]);
    writer.text("certificate").bytes(&[0x30]);
    writer.text("cabundle").array(entries as u64);
    for _ in 0..entries {
        writer.bytes(entry);
    }
    around(&writer.finish())
}

fn with_field(value: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.map(1).text("unknown");
    let payload = [writer.finish(), value.to_vec()].concat();
    around(&payload)
}

/// Inputs that cost their sender nothing.
fn hostile(fixture: &Fixture) -> Vec<(&'static str, Vec<u8>)> {
    let regional = fixture
        .issuer
        .forge(&fixture.contents, NOW.0)
        .certificates()
        .swap_remove(1);
    let huge = |major: u8| [&[major << 5 | 27][..], &[0xff; 8]].concat();
    let room = MAX_DOCUMENT - 200;
    vec![
        ("nothing but zeros", vec![0; MAX_DOCUMENT]),
        ("nested arrays", vec![0x81; MAX_DOCUMENT]),
        ("nested maps", vec![0xa1; MAX_DOCUMENT]),
        ("nested tags", vec![0xc6; MAX_DOCUMENT]),
        ("nested indefinite arrays", vec![0x9f; MAX_DOCUMENT]),
        ("2^64 array", [huge(4), vec![0; room]].concat()),
        ("2^64 map in a field", with_field(&huge(5))),
        ("2^64 text in a field", with_field(&huge(3))),
        ("2^64 bytes in a field", with_field(&huge(2))),
        ("many items in a field", {
            let mut writer = Writer::new();
            writer.array(16_000);
            with_field(&[writer.finish(), vec![0; 16_000]].concat())
        }),
        ("nested payload", with_field(&vec![0x81; 16_000])),
        ("10,000 empty issuers", with_bundle(10_000, &[])),
        ("8,000 issuers of a byte", with_bundle(8_000, &[0x30])),
        ("26 times the same issuer", with_bundle(26, &regional)),
        ("16 issuers of a kilobyte", with_bundle(15, &[0x30; 1_024])),
        ("over the limit", vec![0x84; 1 << 20]),
        ("far over the limit", vec![0x84; 16 << 20]),
    ]
}

#[test]
fn no_document_takes_more_memory_than_its_length_allows() {
    let fixture = Fixture::new();
    let mut most = (0.0, "");
    let catalogue = forge::vectors().map(|vector| (vector.name, fixture.forged(vector.apply)));
    let hostile = hostile(&fixture);
    for (name, document) in catalogue.chain(hostile) {
        let (_, cost) = judge(&fixture, &document);
        // Longer documents are not read, so their further length costs nothing.
        let allowed = ON_TOP + PER_BYTE * document.len().min(MAX_DOCUMENT);
        assert!(cost.peak <= allowed, "{name}: {cost:?}, allowed {allowed}");
        let share = cost.peak as f64 / allowed as f64;
        if share > most.0 {
            most = (share, name);
        }
    }
    println!(
        "at most {:.0} % of the bound, by {}",
        most.0 * 100.0,
        most.1
    );
    assert!(most.0 > 0.2, "the bound has become far too generous");
}

#[test]
fn work_grows_no_faster_than_the_input() {
    let fixture = Fixture::new();
    let regional = fixture
        .issuer
        .forge(&fixture.contents, NOW.0)
        .certificates()
        .swap_remove(1);
    type Family<'a> = (&'static str, usize, Box<dyn Fn(usize) -> Vec<u8> + 'a>);
    let families: [Family<'_>; 5] = [
        (
            "issuers of a byte",
            2_000,
            Box::new(|n| with_bundle(n, &[0x30])),
        ),
        ("whole issuers", 6, Box::new(|n| with_bundle(n, &regional))),
        (
            "a long field",
            4_000,
            Box::new(|n| {
                with_field(&[vec![0x59], (n as u16).to_be_bytes().to_vec(), vec![0; n]].concat())
            }),
        ),
        ("nesting", 4_000, Box::new(|n| with_field(&vec![0x81; n]))),
        (
            "trailing bytes",
            4_000,
            Box::new(|n| [around(&[0xa0]), vec![0; n]].concat()),
        ),
    ];
    for (name, n, make) in &families {
        let costs = [1, 2, 4].map(|times| judge(&fixture, &make(n * times)).1);
        for pair in costs.windows(2) {
            // Twice the input, at most twice the work. Every report makes a few allocations.
            assert!(pair[1].count <= 2 * pair[0].count + 16, "{name}: {costs:?}");
            assert!(
                pair[1].total <= 2 * pair[0].total + 4_096,
                "{name}: {costs:?}"
            );
        }
    }
}

#[test]
fn no_document_makes_more_work_than_its_length_allows() {
    let fixture = Fixture::new();
    let (report, good) = judge(&fixture, &fixture.document());
    assert_eq!(report.verdict, Verdict::Authentic);
    assert!(good.total <= WORK_ON_TOP, "{good:?}");
    for (name, document) in hostile(&fixture) {
        let (report, cost) = judge(&fixture, &document);
        assert_eq!(report.verdict, Verdict::Refused, "{name}");
        let allowed = WORK_ON_TOP + WORK_PER_BYTE * document.len().min(MAX_DOCUMENT);
        assert!(cost.total <= allowed, "{name}: {cost:?}, allowed {allowed}");
    }
}

#[test]
fn the_reader_allocates_nothing() {
    let fixture = Fixture::new();
    for (name, bytes) in hostile(&fixture) {
        for rules in [Rules::WellFormed, Rules::Shortest, Rules::Deterministic] {
            let (_, cost) = cost(|| Reader::new(&bytes, rules).skip().is_ok());
            assert_eq!(cost, Cost::default(), "{name}");
        }
    }
}

#[test]
fn evidence_policies_and_key_lists_are_bounded_too() {
    let huge = |major: u8| [&[major << 5 | 27][..], &[0xff; 8]].concat();
    for length in [
        0,
        100,
        MAX_KEY_LIST,
        MAX_MANIFEST + 1,
        MAX_EVIDENCE + 1,
        MAX_POLICY,
        1 << 20,
    ] {
        for byte in [0x00, 0x30, 0x5b, 0x81, 0xa1, 0xff, b'[', b'{'] {
            let bytes = vec![byte; length];
            let lying = [vec![0xa8, 1, 1, 2], huge(2), bytes.clone()].concat();
            for bytes in [bytes, lying] {
                let (_, cost) = cost(|| {
                    let _ = ServiceManifest::decode(&bytes);
                    let _ = KeyConfig::decode_list(&bytes);
                    let _ = Evidence::parse(&bytes);
                    let _ = Policy::chosen_by_hand(&bytes);
                });
                let allowed = 4_096 + 4 * bytes.len().min(MAX_POLICY);
                assert!(cost.peak <= allowed, "{length} times {byte:02x}: {cost:?}");
            }
        }
    }
}

#[test]
fn a_policy_and_a_manifest_cost_a_few_times_their_length() {
    let fixture = Fixture::new();
    let mut json: serde_json::Value = serde_json::from_str(&fixture.policy.to_json()).unwrap();
    let release = json["releases"][0].clone();
    let mut costs = Vec::new();
    for count in [20, 40, 80] {
        let releases = (0..count).map(|number| {
            let mut release = release.clone();
            release["name"] = format!("release {number}").into();
            release
        });
        json["releases"] = releases.collect();
        let text = json.to_string();
        let (policy, cost) = cost(|| Policy::chosen_by_hand(text.as_bytes()));
        assert_eq!(policy.unwrap().releases().len(), count);
        assert!(
            cost.peak <= 8_192 + 8 * text.len(),
            "{count}: {cost:?} for {}",
            text.len()
        );
        costs.push(cost);
    }
    for pair in costs.windows(2) {
        assert!(pair[1].count <= 2 * pair[0].count + 16, "{costs:?}");
    }
    let manifest = fixture.manifest.encode().unwrap();
    let (decoded, cost) = cost(|| ServiceManifest::decode(&manifest));
    assert!(decoded.is_ok());
    assert!(cost.peak <= 4_096 + 4 * manifest.len(), "{cost:?}");
}
