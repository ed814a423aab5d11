//! Judges checkpoints by policies.

use crate::tree::{Log, ORIGIN, log_key, witness_key};
use witness::key::{Signer, Use};
use witness::note::Note;
use witness::policy::{Policy, WitnessedError};

const NOW: u64 = 1_795_183_380;

fn policy(rule: &str) -> Policy {
    Policy::parse(text(rule).as_bytes()).unwrap()
}

fn text(rule: &str) -> String {
    let mut text = format!(
        "# A deployment.\nlog {} https://log.example\n\n",
        log_key().verifier()
    );
    for number in 1..=4 {
        let key = witness_key(number);
        text += &format!("witness\tw{number} {}\n", key.verifier());
    }
    text + rule
}

/// A checkpoint with cosignatures of these witnesses at these times.
fn cosigned(by: &[(u8, u64)]) -> Note {
    let mut note = Log::of(9, "").checkpoint(9);
    for (number, time) in by {
        note.sign(witness_key(*number).sign(note.text(), *time));
    }
    note
}

const TWO: &str = "group two 2 w1 w2 w3\nquorum two\n";

#[test]
fn k_of_n_witnesses_are_enough_and_fewer_are_not() {
    let policy = policy(TWO);
    let judged = policy
        .judge(&cosigned(&[(1, NOW - 9), (3, NOW - 5)]), NOW, 60)
        .unwrap();
    assert_eq!(judged.checkpoint.tree, Log::of(9, "").tree(9));
    assert_eq!(judged.time, NOW - 9);
    assert_eq!(
        judged.cosigned,
        [("w3".to_owned(), NOW - 5), ("w1".to_owned(), NOW - 9)]
    );
    for few in [&[][..], &[(1, NOW)], &[(4, NOW), (1, NOW)]] {
        let error = policy.judge(&cosigned(few), NOW, 60).unwrap_err();
        assert_eq!(error.code(), "WITNESSES_TOO_FEW", "{few:?}");
    }
    // The same witness twice counts once.
    let once = cosigned(&[(1, NOW)]).to_string();
    let line = once.lines().last().unwrap();
    let twice = Note::parse(format!("{once}{line}\n").as_bytes()).unwrap();
    let error = policy.judge(&twice, NOW, 60).unwrap_err();
    assert_eq!(error.code(), "WITNESSES_TOO_FEW");
}

#[test]
fn the_quorums_oldest_cosignature_is_its_age() {
    let policy = policy(TWO);
    let note = cosigned(&[(1, NOW - 100), (2, NOW - 61), (3, NOW - 1)]);
    assert_eq!(
        policy.judge(&note, NOW, 60),
        Err(WitnessedError::Stale {
            age: 61,
            max_age: 60
        })
    );
    assert_eq!(policy.judge(&note, NOW, 61).unwrap().cosigned.len(), 2);
    // One fresh witness cannot make a stopped quorum fresh.
    let note = cosigned(&[(1, NOW - 100), (2, NOW - 100), (3, NOW)]);
    assert!(policy.judge(&note, NOW, 60).is_err());
}

#[test]
fn a_time_in_the_future_does_not_count() {
    let policy = policy(TWO);
    let note = cosigned(&[(1, NOW + 301), (2, NOW)]);
    assert_eq!(policy.judge(&note, NOW, 60), Err(WitnessedError::Future));
    let note = cosigned(&[(1, NOW + 300), (2, NOW)]);
    assert!(policy.judge(&note, NOW, 60).is_ok());
    let note = cosigned(&[(1, NOW + 301), (2, NOW), (3, NOW)]);
    assert_eq!(policy.judge(&note, NOW, 60).unwrap().time, NOW);
}

#[test]
fn a_wrong_signature_of_a_known_key_refuses_the_note() {
    let policy = policy(TWO);
    let mut note = cosigned(&[(1, NOW), (2, NOW)]);
    note.sign(witness_key(3).sign("another text\n", NOW));
    let error = policy.judge(&note, NOW, 60).unwrap_err();
    assert_eq!(error.code(), "WITNESSED_SIG_FAILED");
    // One of an unknown key is ignored.
    let stranger = Signer::from_seed("stranger", Use::Witness, &[99; 32]).unwrap();
    let mut note = cosigned(&[(1, NOW), (2, NOW)]);
    note.sign(stranger.sign("another text\n", NOW));
    assert!(policy.judge(&note, NOW, 60).is_ok());
}

#[test]
fn witnesses_cannot_replace_the_log() {
    let policy = policy(TWO);
    let text = cosigned(&[]).text().to_owned();
    let mut note = Note::new(&text).unwrap();
    for number in 1..=3 {
        note.sign(witness_key(number).sign(&text, NOW));
    }
    let error = policy.judge(&note, NOW, 60).unwrap_err();
    assert_eq!(error.code(), "WITNESSED_LOG_UNKNOWN");
    let other = text.replacen(ORIGIN, "other", 1);
    let mut note = Note::new(&other).unwrap();
    note.sign(log_key().sign(&other, 0));
    let error = policy.judge(&note, NOW, 60).unwrap_err();
    assert_eq!(error.code(), "WITNESSED_LOG_UNKNOWN");
    let mut note = Note::new("a\n").unwrap();
    note.sign(log_key().sign("a\n", 0));
    let error = policy.judge(&note, NOW, 60).unwrap_err();
    assert_eq!(error.code(), "CHECKPOINT_MALFORMED");
}

#[test]
fn groups_nest_and_none_requires_no_cosignature() {
    let nested = policy("group a any w1 w2\ngroup b all w3 w4\ngroup c all a b\nquorum c\n");
    let met = |by: &[u8]| {
        let by: Vec<_> = by.iter().map(|number| (*number, NOW)).collect();
        nested.judge(&cosigned(&by), NOW, 60).is_ok()
    };
    assert!(met(&[1, 3, 4]) && met(&[2, 3, 4]));
    assert!(!met(&[1, 2, 3]) && !met(&[3, 4]) && !met(&[1]));
    let alone = policy("quorum none\n")
        .judge(&cosigned(&[]), NOW, 0)
        .unwrap();
    assert_eq!(alone.time, 0);
    let one = policy("quorum w2\n");
    assert!(one.judge(&cosigned(&[(2, NOW)]), NOW, 0).is_ok());
    assert!(one.judge(&cosigned(&[(1, NOW)]), NOW, 0).is_err());
}

#[test]
fn policies_of_another_form_are_refused() {
    let again = format!("witness w5 {}\nquorum none\n", witness_key(1).verifier());
    let as_log = format!("log {}\nquorum none\n", witness_key(9).verifier());
    let as_witness = format!("witness w5 {}\nquorum none\n", log_key().verifier());
    let same_log = format!("log {}\nquorum none\n", log_key().verifier());
    for bad in [
        "",
        "quorum w9\n",
        "quorum w1\nquorum w1\n",
        "quorum\n",
        "quorum two\ngroup two 2 w1 w2\n",
        "group g 0 w1\nquorum g\n",
        "group g 2 w1\nquorum g\n",
        "group g -1 w1\nquorum g\n",
        "group g +1 w1\nquorum g\n",
        "group g 01 w1\nquorum g\n",
        "group g all\nquorum g\n",
        "group g some w1\nquorum g\n",
        "group g any w1 w1\nquorum g\n",
        "group g any w1\ngroup h any w1\nquorum h\n",
        "group w1 any w2\nquorum w1\n",
        "group none any w2\nquorum none\n",
        "group g any g\nquorum g\n",
        "group g any none\nquorum g\n",
        "threshold 2\nquorum w1\n",
        "quorum w1\r\n",
        "log x\nquorum none\n",
        &again,
        &as_log,
        &as_witness,
        &same_log,
    ] {
        let error = Policy::parse(text(bad).as_bytes()).unwrap_err();
        assert_eq!(error.code(), "WITNESS_POLICY_INVALID", "{bad:?}");
    }
    assert!(Policy::parse(b"quorum none # as written\n").is_err());
    assert!(Policy::parse(b"\xff").is_err());
}

#[test]
fn a_threshold_is_a_policy_of_one_group() {
    let log = || log_key().verifier().clone();
    let keys = |numbers: &[u8]| -> Vec<_> {
        let numbers = numbers.iter();
        numbers
            .map(|number| witness_key(*number).verifier().clone())
            .collect()
    };
    let policy = Policy::with_threshold(log(), keys(&[1, 2, 3]), 2).unwrap();
    let enough = cosigned(&[(1, NOW), (3, NOW)]);
    assert_eq!(policy.judge(&enough, NOW, 60).unwrap().time, NOW);
    let error = policy.judge(&cosigned(&[(4, NOW), (1, NOW)]), NOW, 60);
    assert_eq!(error.unwrap_err().code(), "WITNESSES_TOO_FEW");
    for (numbers, threshold) in [(&[1, 2][..], 0), (&[1, 2], 3), (&[1, 1], 1), (&[], 0)] {
        assert_eq!(
            Policy::with_threshold(log(), keys(numbers), threshold),
            None
        );
    }
    assert_eq!(Policy::with_threshold(log(), vec![log()], 1), None);
    let witness = witness_key(1).verifier().clone();
    assert_eq!(Policy::with_threshold(witness, keys(&[2]), 1), None);
}
