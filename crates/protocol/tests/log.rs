//! Verification of the log: an honest log passes every row, and every omission, replacement or fork is refused.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

use std::collections::{HashMap, HashSet};

use attestation::{ReceiptKey, RowState, Verdict};
use fixtures::receipt::NOW;
use fixtures::rng;
use merkle::Hash;
use merkle::json::{Consistency, Format, Inclusion};
use merkle::prove::{self, Nodes};
use merkle::tree::{Frontier, Position, keys_hash, receipt_hash};
use merkle::verify::Tree;
use protocol::log::{
    EarlierHead, Leaf, LogCode, LogInput, LogReport, LoggedKeys, LoggedReceipt, SPECS, verify,
};
use protocol::receipt::{self, Expectations, ReceiptClaims, ReceiptSigner};

#[derive(Clone, Default)]
struct Stored(HashMap<Position, Hash>);

impl Nodes for Stored {
    type Error = Position;
    fn node(&self, position: Position) -> Result<Hash, Position> {
        self.0.get(&position).copied().ok_or(position)
    }
}

const MANIFEST: &[u8] = b"the key configuration that the log begins with";

/// An enclave's log with real receipts. Leaf 0 is [`MANIFEST`].
struct Log {
    signer: ReceiptSigner,
    leaves: Vec<Vec<u8>>,
}

impl Log {
    fn new(seed: u64, count: u64) -> Self {
        let signer = ReceiptSigner::generate(&mut rng(seed));
        let receipts = (1..count).map(|number| signer.sign(&claims(number)));
        let leaves = std::iter::once(MANIFEST.to_vec()).chain(receipts).collect();
        Self { signer, leaves }
    }

    fn grown(&self, size: usize) -> (Tree, Stored) {
        let hashes = self.leaves[..size].iter().enumerate();
        tree_of(hashes.map(|(number, leaf)| match number {
            0 => keys_hash(leaf),
            _ => receipt_hash(leaf),
        }))
    }

    fn head(&self, size: usize) -> Vec<u8> {
        self.signer.sign_head(self.grown(size).0, NOW + 10, [8; 32])
    }

    fn inclusion(&self, index: usize, size: usize) -> Inclusion {
        Inclusion {
            format: Format::new(),
            index: index as u64,
            path: prove::inclusion(&self.grown(size).1, index as u64, size as u64).unwrap(),
            head: self.head(size),
        }
    }

    fn consistency(&self, from: usize, to: usize) -> Consistency {
        Consistency {
            format: Format::new(),
            from: from as u64,
            to: to as u64,
            path: prove::consistency(&self.grown(to).1, from as u64, to as u64).unwrap(),
        }
    }

    fn expectations(&self) -> Expectations {
        Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(
            self.signer.public_key(),
        ))
    }

    /// Verifies receipt `index` with this proof, and an earlier head if there is one.
    fn judge(
        &self,
        index: usize,
        inclusion: &Inclusion,
        earlier: Option<EarlierHead<'_>>,
    ) -> LogReport {
        let expectations = self.expectations();
        let bytes = &self.leaves[index];
        let (_, verified) = receipt::verify(bytes, &expectations, None);
        let report = verify(
            &LogInput {
                expectations: &expectations,
                leaf: Some(Leaf::Receipt(LoggedReceipt {
                    bytes,
                    claims: &verified.unwrap(),
                    inclusion,
                })),
                head: &inclusion.head,
                earlier,
            },
            None,
        );
        consistent(&report);
        report
    }

    /// Verifies that the log begins with this manifest.
    fn judge_keys(&self, manifest: &[u8], inclusion: &Inclusion) -> LogReport {
        let report = verify(
            &LogInput {
                expectations: &self.expectations(),
                leaf: Some(Leaf::Keys(LoggedKeys {
                    manifest,
                    inclusion,
                })),
                head: &inclusion.head,
                earlier: None,
            },
            None,
        );
        consistent(&report);
        report
    }

    fn judge_heads(&self, head: &[u8], earlier: &[u8], proof: Option<&Consistency>) -> LogReport {
        let report = verify(
            &LogInput {
                expectations: &self.expectations(),
                leaf: None,
                head,
                earlier: Some(EarlierHead {
                    head: earlier,
                    consistency: proof,
                }),
            },
            None,
        );
        consistent(&report);
        report
    }
}

fn tree_of(leaves: impl IntoIterator<Item = Hash>) -> (Tree, Stored) {
    let (mut frontier, mut stored) = (Frontier::new(), Stored::default());
    let mut size = 0;
    for leaf in leaves {
        frontier.append(&leaf, |position, hash| {
            stored.0.insert(position, hash);
        });
        size += 1;
    }
    let root = frontier.root();
    (Tree { size, root }, stored)
}

fn claims(number: u64) -> ReceiptClaims {
    ReceiptClaims {
        sequence_number: number,
        ..fixtures::receipt::claims()
    }
}

/// Verdict, code and rows never contradict each other.
fn consistent(report: &LogReport) {
    let refused = report.verdict == Verdict::Refused;
    assert_eq!(report.code.is_some(), refused, "{report:?}");
    let failed = report
        .checks
        .iter()
        .filter(|row| row.state == RowState::Failed);
    assert_eq!(failed.count(), usize::from(refused), "{report:?}");
}

fn code(report: &LogReport) -> &str {
    report.code.as_deref().unwrap_or("accepted")
}

#[test]
fn an_honest_log_passes_row_by_row() {
    let log = Log::new(1, 40);
    let earlier = log.head(17);
    let proof = log.consistency(17, 40);
    for index in [1, 2, 16, 17, 38, 39] {
        let report = log.judge(
            index,
            &log.inclusion(index, 40),
            Some(EarlierHead {
                head: &earlier,
                consistency: Some(&proof),
            }),
        );
        assert_eq!(report.verdict, Verdict::Signed, "{report:?}");
        assert!(
            report
                .checks
                .iter()
                .all(|row| row.state == RowState::Passed)
        );
        assert_eq!(report.head.unwrap().size, 40);
    }
    let alone = log.judge(3, &log.inclusion(3, 40), None);
    assert_eq!(alone.verdict, Verdict::Signed);
    let skipped: Vec<_> = alone
        .checks
        .iter()
        .filter(|row| row.state == RowState::Skipped)
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(skipped, ["earlier-head", "consistency"]);
    let heads = log.judge_heads(&log.head(40), &earlier, Some(&proof));
    assert_eq!(heads.verdict, Verdict::Signed);
    // From an empty tree, and from a tree to itself, the proof is empty.
    for size in [0, 40] {
        let report = log.judge_heads(&log.head(40), &log.head(size), None);
        assert_eq!(report.verdict, Verdict::Signed, "{report:?}");
    }
}

#[test]
fn a_log_begins_with_its_keys() {
    let log = Log::new(1, 40);
    let first = log.inclusion(0, 40);
    let report = log.judge_keys(MANIFEST, &first);
    assert_eq!(report.verdict, Verdict::Signed, "{report:?}");
    let skipped = report
        .checks
        .iter()
        .filter(|row| row.state == RowState::Skipped)
        .map(|row| row.name.as_str());
    assert_eq!(
        skipped.collect::<Vec<_>>(),
        ["head-time", "earlier-head", "consistency"]
    );
    let other = log.judge_keys(b"keys that were given to one user", &first);
    assert_eq!(code(&other), "ROOT_MISMATCH");
    // The right keys, but a proof for another leaf's position.
    let elsewhere = log.judge_keys(MANIFEST, &log.inclusion(1, 40));
    assert_eq!(code(&elsewhere), "NUMBER_MISMATCH");
    // A receipt is not a key configuration: different labels separate their hashes.
    let (tree, nodes) = tree_of([receipt_hash(MANIFEST)]);
    let posing = Inclusion {
        format: Format::new(),
        index: 0,
        path: prove::inclusion(&nodes, 0, 1).unwrap(),
        head: log.signer.sign_head(tree, NOW + 10, [8; 32]),
    };
    assert_eq!(code(&log.judge_keys(MANIFEST, &posing)), "ROOT_MISMATCH");
}

#[test]
fn every_refusal_has_a_case() {
    let mut open: HashSet<_> = LogCode::ALL.iter().map(|code| code.code()).collect();
    let mut expect = |wanted: &str, report: LogReport| {
        assert_eq!(code(&report), wanted, "{report:?}");
        open.remove(wanted);
    };
    let (log, other) = (Log::new(1, 40), Log::new(2, 40));
    let good = log.inclusion(5, 40);
    let with = |change: &dyn Fn(&mut Inclusion)| {
        let mut proof = good.clone();
        change(&mut proof);
        proof
    };

    expect(
        "HEAD_MALFORMED",
        log.judge(5, &with(&|proof| proof.head.push(0)), None),
    );
    // A receipt is not a tree head, although the same key signed it.
    expect(
        "HEAD_MALFORMED",
        log.judge(5, &with(&|proof| proof.head = log.leaves[5].clone()), None),
    );
    let huge = log.signer.sign_head(
        Tree {
            size: 1 << 53,
            root: [0; 32],
        },
        NOW,
        [8; 32],
    );
    expect(
        "HEAD_MALFORMED",
        log.judge(5, &with(&|proof| proof.head = huge.clone()), None),
    );
    expect(
        "HEAD_SIG_FAILED",
        log.judge(
            5,
            &with(&|proof| *proof.head.last_mut().unwrap() ^= 1),
            None,
        ),
    );
    expect(
        "HEAD_OTHER_LOG",
        log.judge(5, &with(&|proof| proof.head = other.head(40)), None),
    );
    expect("NUMBER_MISMATCH", log.judge(5, &log.inclusion(6, 40), None));
    expect(
        "LEAF_OUTSIDE_TREE",
        log.judge(5, &with(&|proof| proof.head = log.head(5)), None),
    );
    expect(
        "PROOF_LENGTH",
        log.judge(5, &with(&|proof| proof.path.truncate(1)), None),
    );
    expect(
        "ROOT_MISMATCH",
        log.judge(5, &with(&|proof| proof.path[2][0] ^= 1), None),
    );

    // The enclave's head before the receipt was issued, over a tree that cannot hold it.
    let early = log.signer.sign_head(log.grown(40).0, NOW - 61, [8; 32]);
    expect(
        "HEAD_TOO_EARLY",
        log.judge(5, &with(&|proof| proof.head = early.clone()), None),
    );

    // Histories that the host could make, signed (as only an enclave can) so that the paths themselves are valid.
    let tampered = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut history = Log::new(1, 40);
        change(&mut history.leaves);
        history
    };
    let dropped = tampered(&|receipts| drop(receipts.remove(5)));
    expect(
        "ROOT_MISMATCH",
        log.judge(5, &dropped.inclusion(5, 39), None),
    );
    let reordered = tampered(&|receipts| receipts.swap(5, 6));
    expect(
        "ROOT_MISMATCH",
        log.judge(5, &reordered.inclusion(5, 40), None),
    );
    expect(
        "NUMBER_MISMATCH",
        log.judge(5, &reordered.inclusion(6, 40), None),
    );
    let forked = tampered(&|receipts| receipts[5] = log.signer.sign(&claims(77)));
    let kept = log.head(20);
    for history in [&dropped, &reordered, &forked] {
        let size = history.leaves.len();
        expect(
            "HISTORY_INCONSISTENT",
            log.judge_heads(
                &history.head(size),
                &kept,
                Some(&history.consistency(20, size)),
            ),
        );
    }
    expect(
        "HISTORY_FORKED",
        log.judge_heads(&forked.head(20), &kept, None),
    );
    expect("TREE_SHRUNK", log.judge_heads(&kept, &log.head(40), None));
    expect(
        "CONSISTENCY_MISSING",
        log.judge_heads(&log.head(40), &kept, None),
    );
    expect(
        "SIZES_MISMATCH",
        log.judge_heads(&log.head(40), &kept, Some(&log.consistency(19, 40))),
    );
    let mut cut = log.consistency(20, 40);
    cut.path.pop();
    expect(
        "PROOF_LENGTH",
        log.judge_heads(&log.head(40), &kept, Some(&cut)),
    );
    expect(
        "HEAD_OTHER_LOG",
        log.judge_heads(
            &log.head(40),
            &other.head(20),
            Some(&log.consistency(20, 40)),
        ),
    );
    expect(
        "HEAD_MALFORMED",
        log.judge_heads(&log.head(40), &kept[1..], None),
    );
    let mut broken = kept.clone();
    *broken.last_mut().unwrap() ^= 1;
    expect(
        "HEAD_SIG_FAILED",
        log.judge_heads(&log.head(40), &broken, None),
    );
    // Leaf 0 holds the keys, whatever number a receipt states.
    let mut posing = Log::new(1, 40);
    posing.leaves[0] = log.signer.sign(&claims(0));
    expect(
        "NUMBER_MISMATCH",
        posing.judge(0, &posing.inclusion(0, 40), None),
    );
    let mut first = Log::new(1, 1);
    let receipt = first.signer.sign(&claims(0));
    let (tree, nodes) = tree_of([receipt_hash(&receipt)]);
    first.leaves[0] = receipt;
    let inclusion = Inclusion {
        format: Format::new(),
        index: 0,
        path: prove::inclusion(&nodes, 0, 1).unwrap(),
        head: first.signer.sign_head(tree, NOW + 10, [8; 32]),
    };
    expect("NUMBER_MISMATCH", first.judge(0, &inclusion, None));
    // For a head with its evidence, which `attest` appraises (`bundle.rs`).
    open.remove(LogCode::HeadEvidenceMismatch.code());
    let unchecked = LogReport::receipt_refused("refused");
    assert!(
        unchecked
            .checks
            .iter()
            .all(|row| row.state == RowState::NotRun)
    );
    open.remove(unchecked.code.as_deref().unwrap());
    open.remove(LogReport::keys_not_shown().code.as_deref().unwrap());
    let keys_not_given = log.judge(5, &good, None).keys_not_given();
    assert_eq!(keys_not_given.verdict, Verdict::Refused);
    open.remove(keys_not_given.code.as_deref().unwrap());
    assert!(open.is_empty(), "codes without a case: {open:?}");
}

#[test]
fn a_tree_head_is_not_a_receipt() {
    let log = Log::new(1, 3);
    let (report, claims) = receipt::verify(&log.head(3), &log.expectations(), None);
    assert_eq!(report.verdict, Verdict::Refused);
    assert!(claims.is_none());
}

#[test]
fn rows_count_from_one_and_are_named_once() {
    let names: HashSet<_> = SPECS.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), SPECS.len());
    assert!(
        SPECS
            .iter()
            .enumerate()
            .all(|(at, spec)| usize::from(spec.id) == at + 1)
    );
}
