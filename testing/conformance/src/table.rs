//! Writes a page that shows where verifiers differ.

use std::collections::BTreeSet;

use crate::kit::{self, Question};
use crate::peers::Peer;
use crate::protocol::Verdict;
use crate::runner::{Outcome, Outcomes};

/// One verifier's column.
pub struct Column<'a> {
    /// Heading.
    pub name: &'a str,
    /// Version that was judged.
    pub version: &'a str,
    /// Its source, and the settings it was used with.
    pub about: String,
    /// Its answers.
    pub outcomes: Outcomes,
}

impl<'a> Column<'a> {
    /// The column of a public verifier.
    pub fn of(peer: &'a Peer, outcomes: Outcomes) -> Self {
        Self {
            name: peer.name,
            version: peer.version,
            about: format!("{}: {}", peer.registry, peer.settings),
            outcomes,
        }
    }
}

/// The page. `missing` lists verifiers that could not be installed or run.
pub fn page(
    questions: &[Question],
    columns: &[Column<'_>],
    missing: &[&str],
    date: &str,
) -> String {
    let mut page = String::new();
    let (good, bad): (Vec<_>, Vec<_>) = questions
        .iter()
        .partition(|question| question.expected == Verdict::Accept);
    let mut line = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    line("# Conformance\n");
    line(&format!(
        "{} documents that a verifier must accept and {} that it must refuse, put to public verifiers of Nitro attestation\ndocuments on {date}. Made by `npm run conformance -- --peers`; do not edit. To judge your own verifier:\n`npm run conformance -- --command \"YOUR ADAPTER\"` ([testing/conformance/README.md](../testing/conformance/README.md) says what an adapter is).\n",
        good.len(),
        bad.len(),
    ));
    line(
        "A cell says how many of the check's documents the verifier could be asked about, and what it got wrong. *accepted*: took what",
    );
    line(
        "it has to refuse. *refused*: refused what is good. *broke*: refused rightly, by a panic or an exception that it does not document.",
    );
    line(
        "An empty cell: it cannot be asked. A document counts for the check that it breaks, and for no other. Documents on which sound",
    );
    line(
        "verifiers may differ (another encoding of the same, an unknown field, a path found by searching) are left out. A cell says how",
    );
    line(
        "strict a verifier is, not that it can be fooled: most of these documents only the holder of a signing key could make.\n",
    );
    let mut head = "| check | documents |".to_owned();
    let mut rule = "| --- | ---: |".to_owned();
    for column in columns {
        head.push_str(&format!(" {} |", column.name));
        rule.push_str(" --- |");
    }
    line(&head);
    line(&rule);
    let checks: BTreeSet<u8> = questions.iter().map(|question| question.check).collect();
    for check in checks {
        let asked: Vec<_> = questions
            .iter()
            .filter(|question| question.check == check)
            .collect();
        let title = match check {
            0 => "must be accepted".to_owned(),
            _ => format!("{check} {}", kit::question(check)),
        };
        line(&row(&title, &asked, columns));
    }
    let all: Vec<_> = questions.iter().collect();
    line(&row("all", &all, columns));
    if !missing.is_empty() {
        line(&format!(
            "\nNot judged in this run: {}.",
            missing.join(", ")
        ));
    }
    line("\n## What each verifier was asked\n");
    line("| verifier | version | from, and with which settings |");
    line("| --- | --- | --- |");
    for column in columns {
        line(&format!(
            "| {} | {} | {} |",
            column.name, column.version, column.about
        ));
    }
    for column in columns {
        let wrong = wrong(questions, column);
        if wrong.is_empty() {
            continue;
        }
        line(&format!("\n## {}", column.name));
        for (outcome, names) in wrong {
            line(&format!("\n{outcome}: {}", names.join(", ")));
        }
    }
    page.trim_end().to_owned() + "\n"
}

fn row(title: &str, asked: &[&Question], columns: &[Column<'_>]) -> String {
    let mut row = format!("| {title} | {} |", asked.len());
    for column in columns {
        let count = |outcome| {
            let is = |question: &&&Question| outcome_of(column, question) == outcome;
            asked.iter().filter(is).count()
        };
        let judged = asked.len() - count(Outcome::NotJudged);
        let wrong: Vec<_> = [
            (Outcome::AcceptedWrongly, "accepted"),
            (Outcome::RefusedWrongly, "refused"),
            (Outcome::Broke, "broke"),
        ]
        .into_iter()
        .map(|(outcome, word)| (count(outcome), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("**{count} {word}**"))
        .collect();
        let cell = match (judged, wrong.is_empty()) {
            (0, _) => String::new(),
            (judged, true) => format!("{judged} right"),
            (judged, false) => format!("{} of {judged}", wrong.join(", ")),
        };
        row.push_str(&format!(" {cell} |"));
    }
    row
}

fn outcome_of(column: &Column<'_>, question: &Question) -> Outcome {
    column
        .outcomes
        .get(&question.request.id)
        .map_or(Outcome::NotJudged, |(outcome, _)| *outcome)
}

fn wrong<'a>(questions: &'a [Question], column: &Column<'_>) -> Vec<(&'static str, Vec<&'a str>)> {
    let named = |wanted| {
        let names = questions
            .iter()
            .filter(move |question| outcome_of(column, question) == wanted);
        names.map(|question| question.request.id.as_str()).collect()
    };
    [
        ("Accepted wrongly", Outcome::AcceptedWrongly),
        ("Refused wrongly", Outcome::RefusedWrongly),
        ("Broke", Outcome::Broke),
    ]
    .into_iter()
    .map(|(word, outcome)| (word, named(outcome)))
    .filter(|(_, names): &(_, Vec<_>)| !names.is_empty())
    .collect()
}
