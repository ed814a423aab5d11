//! The kit is well-formed and reproducible, and this project's verifier answers all of it correctly.

use std::process::Command;

use conformance::kit::{Kit, Question};
use conformance::protocol::{Answer, Verdict};
use conformance::runner::{Outcome, outcome};
use conformance::{project_verifier, referenced, runner, table};

/// Checks the verdict, and for our own vectors the exact code.
fn judge_own(questions: &[Question]) {
    for question in questions {
        let Answer { id, verdict, code } = project_verifier::answer(&question.request);
        assert_eq!(
            outcome(question.expected, verdict),
            Outcome::Right,
            "{id}: {verdict:?} {code}"
        );
        if let Some(expected) = &question.code {
            assert_eq!(&code, expected, "{id}");
        }
    }
}

#[test]
fn our_own_verifier_gets_the_kit_right() {
    let questions = Kit::questions().unwrap();
    judge_own(&questions);
    let accepted = questions
        .iter()
        .filter(|question| question.expected == Verdict::Accept);
    assert!(accepted.count() > 15);
    assert!(questions.len() > 150, "{}", questions.len());
    // Every check that a document alone can fail, and those of image and freshness.
    for check in (1..=24).filter(|check| *check != 17) {
        assert!(
            questions.iter().any(|question| question.check == check),
            "check {check}"
        );
    }
}

#[test]
fn where_verifiers_may_differ_the_vectors_exist_and_no_check_is_left_without_another() {
    let questions = Kit::questions().unwrap();
    let (differ, agree): (Vec<_>, Vec<_>) =
        questions.iter().partition(|question| question.may_differ);
    assert_eq!(differ.len(), 21);
    for question in differ {
        assert!(agree.iter().any(|other| other.check == question.check));
    }
}

#[test]
fn our_own_verifier_gets_the_genuine_documents_right() {
    let Some(folder) = referenced::folder() else {
        return;
    };
    let questions = referenced::questions(&folder).unwrap();
    assert!(questions.len() > 200, "{}", questions.len());
    judge_own(&questions);
}

#[test]
fn the_kit_is_the_same_byte_for_byte_and_can_be_read_back() {
    let folder = std::env::temp_dir().join(format!("clearseal-kit-{}", std::process::id()));
    let kit = Kit::write(&folder).unwrap();
    let (again, documents) = Kit::generate();
    let json = std::fs::read_to_string(folder.join("kit.json")).unwrap();
    assert_eq!(json, serde_json::to_string_pretty(&again).unwrap() + "\n");
    for (vector, document) in kit.vectors.iter().zip(&documents) {
        assert_eq!(
            &std::fs::read(folder.join(&vector.file)).unwrap(),
            document,
            "{}",
            vector.id
        );
    }
    assert_eq!(Kit::read(&folder).unwrap().len(), kit.vectors.len());
    // A document that was changed later is refused.
    std::fs::write(folder.join(&kit.vectors[0].file), b"changed").unwrap();
    assert!(Kit::read(&folder).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_manifest_that_is_not_well_formed_is_refused() {
    let (good, _) = Kit::generate();
    good.check().unwrap();
    let changes: [fn(&mut Kit); 7] = [
        |kit| kit.format.push('x'),
        |kit| kit.root.push('!'),
        |kit| kit.vectors[1].id = kit.vectors[0].id.clone(),
        |kit| kit.vectors[0].file = "../elsewhere.cbor".to_owned(),
        |kit| kit.vectors[0].code = "CODE".to_owned(),
        |kit| kit.vectors[0].expected = Verdict::Refuse,
        |kit| kit.vectors.iter_mut().for_each(|vector| vector.check = 99),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut kit = good.clone();
        change(&mut kit);
        assert!(kit.check().is_err(), "change {number}");
    }
}

#[test]
fn the_runner_judges_a_verifier_by_its_lines() {
    let questions = Kit::questions().unwrap();
    let mut own = Command::new(env!("CARGO_BIN_EXE_conformance"));
    own.arg("own");
    let outcomes = runner::run(own, &questions).unwrap();
    assert_eq!(outcomes.len(), questions.len());
    assert!(
        outcomes
            .values()
            .all(|(outcome, _)| *outcome == Outcome::Right)
    );
    // A verifier that gives no answer, or a wrong one, is not judged.
    assert!(runner::run(Command::new("true"), &questions[..1]).is_err());
    let mut echo = Command::new("cat");
    echo.env_clear().env("PATH", "/usr/bin:/bin");
    assert!(runner::run(echo, &questions[..1]).is_err());
}

#[test]
fn wrong_answers_are_classified() {
    use Verdict::*;
    for (expected, given, name) in [
        (Accept, Accept, Outcome::Right),
        (Accept, Refuse, Outcome::RefusedWrongly),
        (Accept, Error, Outcome::RefusedWrongly),
        (Refuse, Accept, Outcome::AcceptedWrongly),
        (Refuse, Refuse, Outcome::Right),
        (Refuse, Error, Outcome::Broke),
        (Refuse, Unsupported, Outcome::NotJudged),
    ] {
        assert_eq!(outcome(expected, given), name);
    }
    let questions: Vec<_> = Kit::questions().unwrap().into_iter().take(60).collect();
    let answers = questions.iter().map(|question| {
        let outcome = outcome(question.expected, Accept);
        (question.request.id.clone(), (outcome, String::new()))
    });
    let column = table::Column {
        name: "credulous",
        version: "0",
        about: "takes everything".to_owned(),
        outcomes: answers.collect(),
    };
    let page = table::page(&questions, &[column], &["absent"], "2027-01-15");
    assert!(
        page.contains("## credulous") && page.contains("Accepted wrongly: "),
        "{page}"
    );
    assert!(!page.contains("Refused wrongly: "));
    assert!(page.contains("Not judged in this run: absent."));
}
