//! One request to several enclaves: which of them answers, what the others can do with it, and what a host can change.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use attestation::{SignatureMemory, VerifiedAttestation};
use fixtures::enclave::{Enclave, NOW, request};
use fixtures::rng;
use protocol::candidates::{self, MAX_CANDIDATES, Name, Sealed};
use protocol::exchange::{ExchangeError, PendingCandidates, begin_with_candidates, candidate_name};
use protocol::inner::InnerRequest;
use protocol::ohttp::SealError;
use protocol::terms::Terms;

struct Fixture {
    enclaves: Vec<Enclave>,
    attested: Vec<VerifiedAttestation>,
}

impl Fixture {
    fn of(count: u64) -> Self {
        let enclaves: Vec<_> = (0..count).map(|seed| Enclave::start(70 + seed)).collect();
        let attested = enclaves.iter().map(Enclave::attested).collect();
        Self { enclaves, attested }
    }

    fn begin(&self) -> (Vec<u8>, PendingCandidates) {
        let all: Vec<_> = self.attested.iter().collect();
        begin_with_candidates(&all, &request(), NOW, &mut rng(9)).unwrap()
    }

    fn name(&self, number: usize) -> Name {
        candidate_name(&self.attested[number])
    }

    /// The answer of enclave `number`.
    fn answer(&mut self, number: usize, sealed: &[u8]) -> Vec<u8> {
        let name = self.name(number);
        let opened = Sealed::parse(sealed)
            .unwrap()
            .open(&name, &self.enclaves[number].gateway)
            .unwrap();
        let response = self.enclaves[number].reply(opened, |_, _| {});
        candidates::answer(&name, &response)
    }
}

#[test]
fn each_candidates_answer_has_its_own_receipt() {
    for number in 0..3 {
        let mut fixture = Fixture::of(3);
        let (sealed, pending) = fixture.begin();
        let answer = fixture.answer(number, &sealed);
        let (from, answer) = pending.finish(&answer, NOW).unwrap();
        assert_eq!(from, number);
        assert_eq!(answer.response.content, b"{\"data\":[]}");
        let bundle = |enclave: &Enclave| {
            protocol::bundle::AuditBundle::of(
                &answer,
                enclave.document.clone(),
                enclave.manifest.clone(),
                true,
            )
            .unwrap()
        };
        let own = &fixture.enclaves[number];
        assert_eq!(
            bundle(own)
                .verify(&own.policy, || None, &mut SignatureMemory::new())
                .receipt
                .code,
            None
        );
        // Another replica's evidence, under that replica's policy, does not make it that replica's receipt.
        let other = &fixture.enclaves[(number + 1) % 3];
        let report = bundle(other).verify(&other.policy, || None, &mut SignatureMemory::new());
        assert!(report.receipt.code.is_some());
    }
}

#[test]
fn each_opens_the_request_with_its_own_terms_and_the_same_text() {
    let fixture = Fixture::of(3);
    let (sealed, _) = fixture.begin();
    let parsed = Sealed::parse(&sealed).unwrap();
    assert_eq!(parsed.names().count(), 3);
    let mut salts = Vec::new();
    for (number, enclave) in fixture.enclaves.iter().enumerate() {
        let (opened, _) = parsed
            .open(&fixture.name(number), &enclave.gateway)
            .unwrap();
        let inner = InnerRequest::decode(&opened.inner).unwrap();
        assert_eq!(inner.content, request().content);
        let terms = Terms::read(&inner).unwrap();
        assert_eq!(
            terms.document,
            fixture.attested[number].document_sha256(),
            "its own document"
        );
        salts.push(terms.salt);
    }
    salts.sort_unstable();
    salts.dedup();
    assert_eq!(salts.len(), 3);
    let text = request().content;
    assert!(!sealed.windows(text.len()).any(|window| window == text));
}

#[test]
fn an_answer_of_another_enclave_is_refused() {
    let mut fixture = Fixture::of(3);
    let (sealed, pending) = fixture.begin();
    let mut answer = fixture.answer(1, &sealed);
    // Under another candidate's name.
    answer[..8].copy_from_slice(&fixture.name(2));
    assert!(matches!(
        pending.finish(&answer, NOW),
        Err(ExchangeError::Seal(SealError::OpenFailed))
    ));
    let (sealed, pending) = fixture.begin();
    let mut answer = fixture.answer(1, &sealed);
    answer[0] ^= 1;
    assert!(matches!(
        pending.finish(&answer, NOW),
        Err(ExchangeError::NotCandidate)
    ));
    for length in [0, 7] {
        let (_, pending) = fixture.begin();
        assert!(pending.finish(&answer[..length], NOW).is_err());
    }
}

#[test]
fn an_enclave_that_is_not_a_candidate_opens_nothing() {
    let fixture = Fixture::of(2);
    let stranger = Enclave::start(99);
    let (sealed, _) = fixture.begin();
    let parsed = Sealed::parse(&sealed).unwrap();
    let own = candidate_name(&stranger.attested());
    assert!(matches!(
        parsed.open(&own, &stranger.gateway),
        Err(SealError::UnknownKey(_))
    ));
    // Neither under another's name, nor with an entry as an ordinary request.
    assert!(parsed.open(&fixture.name(0), &stranger.gateway).is_err());
    assert!(
        parsed
            .open(&fixture.name(0), &fixture.enclaves[1].gateway)
            .is_err()
    );
    let at = 4 + 8 + 2;
    let length = usize::from(u16::from_be_bytes([sealed[12], sealed[13]]));
    let entry = &sealed[at..at + length];
    assert!(matches!(
        fixture.enclaves[0].gateway.open(entry),
        Err(SealError::OpenFailed)
    ));
}

#[test]
fn no_part_can_be_changed_truncated_or_moved() {
    let fixture = Fixture::of(2);
    let (sealed, _) = fixture.begin();
    let opens = |bytes: &[u8]| {
        Sealed::parse(bytes).is_ok_and(|parsed| {
            let (name, keys) = (fixture.name(1), &fixture.enclaves[1].gateway);
            parsed.open(&name, keys).is_ok()
        })
    };
    assert!(opens(&sealed));
    // Every byte, the other candidate's entry among them.
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 0x40;
        assert!(!opens(&changed), "byte {at}");
    }
    for length in (0..sealed.len()).step_by(7) {
        assert!(!opens(&sealed[..length]), "{length} bytes");
    }
    assert!(!opens(&[&sealed[..], &[0]].concat()));
    // The rest of one request behind the heads of another.
    let all: Vec<_> = fixture.attested.iter().collect();
    let (other, _) = begin_with_candidates(&all, &request(), NOW, &mut rng(10)).unwrap();
    assert_eq!(other.len(), sealed.len());
    let cut = sealed.len() - 100;
    assert!(!opens(&[&sealed[..cut], &other[cut..]].concat()));
}

#[test]
fn counts_and_names_are_bounded() {
    let fixture = Fixture::of(2);
    let begin =
        |all: &[&VerifiedAttestation]| begin_with_candidates(all, &request(), NOW, &mut rng(9));
    assert!(begin(&[]).is_err());
    let (one, two) = (&fixture.attested[0], &fixture.attested[1]);
    assert!(begin(&[one, two, one]).is_err());
    assert!(begin(&[one]).is_ok());
    let (sealed, _) = fixture.begin();
    for count in [0, MAX_CANDIDATES as u8 + 1, 255] {
        let mut changed = sealed.clone();
        changed[3] = count;
        assert!(matches!(
            Sealed::parse(&changed),
            Err(SealError::Malformed | SealError::Truncated)
        ));
    }
    // The same name twice.
    let mut twice = sealed.clone();
    let second = 14 + usize::from(u16::from_be_bytes([sealed[12], sealed[13]]));
    let name: [u8; 8] = sealed[4..12].try_into().unwrap();
    twice[second..second + 8].copy_from_slice(&name);
    assert!(matches!(Sealed::parse(&twice), Err(SealError::Malformed)));
}

#[test]
fn an_expired_attestation_is_not_sealed_to() {
    let fixture = Fixture::of(2);
    let all: Vec<_> = fixture.attested.iter().collect();
    let late = attestation::UnixMillis(NOW.0 + 24 * 3_600_000);
    assert!(matches!(
        begin_with_candidates(&all, &request(), late, &mut rng(9)),
        Err(ExchangeError::Expired)
    ));
}

#[test]
fn the_longest_request_fits_one_enclave_and_no_two() {
    let fixture = Fixture::of(2);
    let all: Vec<_> = fixture.attested.iter().collect();
    // Padded to 4 MiB, the limit.
    let longest = InnerRequest {
        content: vec![b'x'; (4 << 20) - 10_000],
        ..request()
    };
    let error = begin_with_candidates(&all, &longest, NOW, &mut rng(9)).err();
    assert!(matches!(
        error,
        Some(ExchangeError::Seal(SealError::TooLarge))
    ));
    assert!(protocol::exchange::begin(all[0], longest, NOW, &mut rng(9)).is_ok());
}
