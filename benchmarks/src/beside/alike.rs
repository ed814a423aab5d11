//! Which of our figures answers a published one, and whether both are the same thing, by the tables of [`rules`](super::rules).

use super::rules::{Condition, RULES, Rule, Test};
use crate::record::{Environment, Measurement, Parameter};
use crate::schema::name_of;

/// A figure, and where it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure<'a> {
    pub(super) place: Environment,
    pub(super) measurement: &'a Measurement,
}

impl<'a> Figure<'a> {
    fn parameter(self, name: &str) -> Option<&'a Parameter> {
        self.measurement.parameters.get(name)
    }

    fn subject(self) -> &'a str {
        &self.measurement.subject
    }

    /// Whether a rule is about it, as the published one.
    fn is_about(self, rule: &Rule) -> bool {
        let mut subjects = rule.subjects.iter();
        let named = subjects.any(|beginning| self.subject().starts_with(beginning));
        (named || rule.subjects.is_empty()) && self.fits(rule.theirs)
    }

    /// Whether it fits each of `conditions`.
    fn fits(self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|Condition(name, test)| {
            let text = match *name {
                "environment" => Some(name_of(self.place)),
                name => self.parameter(name).map(Parameter::to_string),
            };
            test.accepts(text.as_deref())
        })
    }
}

impl Test {
    fn accepts(self, text: Option<&str>) -> bool {
        match (self, text) {
            (Self::Is(words), Some(text)) => words.contains(&text),
            (Self::Has(word), Some(text)) => text.contains(word),
            (Self::Lacks(word), Some(text)) => !text.contains(word),
            (Self::Begins(words), Some(text)) => words.iter().any(|word| text.starts_with(word)),
            (Self::Is(_) | Self::Has(_), None) => false,
            (Self::Lacks(_) | Self::Begins(_), None) => true,
        }
    }
}

/// Our figure that is measured most like `theirs`: nothing that both state differs, but for a stand-in.
pub(super) fn nearest<'a>(theirs: Figure<'_>, ours: &[Figure<'a>]) -> Option<Figure<'a>> {
    let mut best: Option<(_, Figure<'a>)> = None;
    for one in ours.iter().filter(|one| answers(**one, theirs)) {
        let Some(rank) = rank(*one, theirs) else {
            continue;
        };
        if best.as_ref().is_none_or(|(most, _)| rank > *most) {
            best = Some((rank, *one));
        }
    }
    best.map(|(_, one)| one)
}

fn answers(ours: Figure<'_>, theirs: Figure<'_>) -> bool {
    // Their inference within a request is our engine by itself, in turns with the request.
    if theirs.subject() == "request.inference_only" {
        return ours.subject() == "request.end_to_end"
            && ours.fits(&[Condition("path", Test::Is(&["bare engine"]))]);
    }
    ours.subject() == theirs.subject()
}

/// Compared from left to right: agreement, then the preferences in their order. `None` where a condition differs.
fn rank(ours: Figure<'_>, theirs: Figure<'_>) -> Option<(i32, Vec<bool>)> {
    let mut agreement = 0;
    // The aggregation report has a run for each platform, ours has one run for all of them.
    if ours.parameter("platform").is_some() {
        let platform: Test = match theirs.place {
            Environment::BareMetal => Test::Begins(&["native"]),
            Environment::Hybrid => Test::Begins(&["hybrid"]),
            _ => Test::Begins(&["enclave"]),
        };
        if !ours.fits(&[Condition("platform", platform)]) {
            return None;
        }
        agreement += 2;
    }
    for (name, value) in &theirs.measurement.parameters {
        match ours.parameter(name) {
            Some(own) if same(own, value) => agreement += 2,
            Some(own) if paired(RULES.stand_ins, own, value) => {}
            // Both state how a session is attested: `unlike` says whether that is the same.
            Some(own) if name == "attestation" => {
                agreement += i32::from(paired(RULES.proofs, own, value));
            }
            Some(_) => return None,
            // Bytes of both ways are no bytes of one way.
            None if name == "direction" => return None,
            None if RULES.theirs_alone.contains(&name.as_str()) => {}
            None => agreement -= 1,
        }
    }
    // Throughput is that of a burst, unless it says that it is of round trips.
    let both_ways = [Condition("pattern", Test::Is(&["round trip"]))];
    if ours.fits(&both_ways) && !theirs.fits(&both_ways) {
        return None;
    }
    // A peer's figure answers a published one of a transport, and nothing else.
    let own = ours.fits(&[Condition(
        "engine",
        Test::Begins(&["fused-f32", "clearseal"]),
    )]);
    let compared = ["inference.", "peers."]
        .iter()
        .any(|area| ours.subject().starts_with(area));
    if !own && !compared && theirs.parameter("transport").is_none() {
        return None;
    }
    let preferences = RULES.preferences.iter();
    Some((
        agreement,
        preferences.map(|one| ours.fits(&[*one])).collect(),
    ))
}

/// What differs between two figures of one subject in a condition that decides what they mean.
pub(super) fn unlike(theirs: Figure<'_>, ours: Figure<'_>) -> Option<&'static str> {
    let mut rules = RULES.unlike.iter();
    let rule = rules.find(|rule| theirs.is_about(rule) && ours.fits(rule.ours));
    rule.and_then(|rule| rule.reason)
}

/// Says why our run has no such figure.
pub(super) fn absent(theirs: Figure<'_>) -> &'static str {
    let mut rules = RULES.absent.iter();
    let rule = rules.find(|rule| theirs.is_about(rule));
    rule.and_then(|rule| rule.reason).unwrap_or_default()
}

pub(super) fn same(a: &Parameter, b: &Parameter) -> bool {
    match (a, b) {
        (Parameter::Number(a), Parameter::Number(b)) => (a - b).abs() < 0.5,
        (Parameter::Text(a), Parameter::Text(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

/// Whether ours stands for theirs in a table of pairs, theirs first.
fn paired(pairs: &[(&str, &str)], ours: &Parameter, theirs: &Parameter) -> bool {
    let (ours, theirs) = (ours.to_string(), theirs.to_string());
    pairs.iter().any(|pair| *pair == (&theirs, &ours))
}
