//! Finds the figure of ours that corresponds to a published one, and decides by the tables of [`rules`](super::rules) whether
//! both measure the same thing.

use super::rules::{Condition, RULES, Rule, Test};
use crate::record::{Absent, Environment, Measurement, Parameter};
use crate::schema::name_of;

/// A figure and the environment that it was measured in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure<'a> {
    pub(super) environment: Environment,
    pub(super) measurement: &'a Measurement,
}

impl<'a> Figure<'a> {
    fn parameter(self, name: &str) -> Option<&'a Parameter> {
        self.measurement.parameters.get(name)
    }

    fn subject(self) -> &'a str {
        &self.measurement.subject
    }

    /// Whether a rule applies to it, as the published figure.
    fn is_covered_by(self, rule: &Rule) -> bool {
        let mut subjects = rule.subjects.iter();
        let named = subjects.any(|beginning| self.subject().starts_with(beginning));
        (named || rule.subjects.is_empty()) && self.fits(rule.theirs)
    }

    /// Whether it meets each of `conditions`.
    fn fits(self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|Condition(name, test)| {
            let text = match *name {
                "environment" => Some(name_of(self.environment)),
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

/// Returns our figure with the most similar conditions: no parameter that both state differs, except for a stand-in.
pub(super) fn nearest<'a>(theirs: Figure<'_>, ours: &[Figure<'a>]) -> Option<Figure<'a>> {
    let mut best: Option<(_, Figure<'a>)> = None;
    for one in ours.iter().filter(|one| corresponds(**one, theirs)) {
        let Some(rank) = rank(*one, theirs) else {
            continue;
        };
        if best.as_ref().is_none_or(|(most, _)| rank > *most) {
            best = Some((rank, *one));
        }
    }
    best.map(|(_, one)| one)
}

fn corresponds(ours: Figure<'_>, theirs: Figure<'_>) -> bool {
    // Their inference within a request corresponds to our bare engine, measured in turns with the request.
    if theirs.subject() == "request.inference_only" {
        return ours.subject() == "request.end_to_end"
            && ours.fits(&[Condition("path", Test::Is(&["bare engine"]))]);
    }
    ours.subject() == theirs.subject()
}

/// Ranks are compared from left to right: agreement, then the preferences in order. `None` where a condition differs.
fn rank(ours: Figure<'_>, theirs: Figure<'_>) -> Option<(i32, Vec<bool>)> {
    let mut agreement = 0;
    // The aggregation report has one run per platform; ours has one run for all of them.
    if ours.parameter("platform").is_some() {
        let platform: Test = match theirs.environment {
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
            Some(own) if is_paired(RULES.stand_ins, own, value) => {}
            // Both state how a session is attested; [`difference`] decides whether that is the same.
            Some(own) if name == "attestation" => {
                agreement += i32::from(is_paired(RULES.proofs, own, value));
            }
            Some(_) => return None,
            // A size that counts both directions is not comparable with one that counts a single direction.
            None if name == "direction" => return None,
            None if RULES.theirs_alone.contains(&name.as_str()) => {}
            None => agreement -= 1,
        }
    }
    // Throughput is that of a burst, unless it is stated to be of round trips.
    let both_ways = [Condition("pattern", Test::Is(&["round trip"]))];
    if ours.fits(&both_ways) && !theirs.fits(&both_ways) {
        return None;
    }
    // A peer's figure is compared only with a published figure of a transport.
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

/// Returns what differs between two figures of one subject in a condition that changes their meaning.
pub(super) fn difference(theirs: Figure<'_>, ours: Figure<'_>) -> Option<&'static str> {
    let mut rules = RULES.unlike.iter();
    let rule = rules.find(|rule| theirs.is_covered_by(rule) && ours.fits(rule.ours));
    rule.and_then(|rule| rule.reason)
}

/// Returns the reason that our run itself states: for the figure's workload or subject, or for the benchmark that measures it. A
/// reason for another number of devices, or for vsock alone, does not explain another figure.
pub(super) fn stated_absence<'a>(theirs: Figure<'_>, absent: &[&'a Absent]) -> Option<&'a str> {
    let subject = theirs.subject();
    let vsock = theirs
        .parameter("transport")
        .is_some_and(|transport| transport.to_string().contains("vsock"));
    let mut names = vec![subject.to_owned()];
    match subject.split('.').next() {
        Some("transport") => {
            names.extend(vsock.then(|| "transport.vsock".to_owned()));
            names.push("transport".to_owned());
        }
        Some("aggregation") => {
            if let Some(workload) = theirs.parameter("workload") {
                names.insert(0, format!("aggregation.{workload}"));
                names.push(format!("aggregation-{workload}"));
            }
        }
        _ => {}
    }
    let devices = theirs.parameter("devices").map(Parameter::to_string);
    let explains = |why: &str| {
        let counted = why.split_once(" devices ");
        let counted = counted.map(|(count, _)| count.replace(',', ""));
        (vsock || !why.contains("vsock")) && counted.is_none_or(|count| Some(count) == devices)
    };
    names.iter().find_map(|name| {
        let mut named = absent.iter().filter(|one| one.subject == *name);
        Some(named.find(|one| explains(&one.why))?.why.as_str())
    })
}

/// Returns why our run has no such figure.
pub(super) fn absence_reason(theirs: Figure<'_>) -> &'static str {
    let mut rules = RULES.absent.iter();
    let rule = rules.find(|rule| theirs.is_covered_by(rule));
    rule.and_then(|rule| rule.reason).unwrap_or_default()
}

pub(super) fn same(a: &Parameter, b: &Parameter) -> bool {
    match (a, b) {
        (Parameter::Number(a), Parameter::Number(b)) => (a - b).abs() < 0.5,
        (Parameter::Text(a), Parameter::Text(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

/// Whether `pairs` lists ours as the counterpart of theirs; theirs comes first.
fn is_paired(pairs: &[(&str, &str)], ours: &Parameter, theirs: &Parameter) -> bool {
    let (ours, theirs) = (ours.to_string(), theirs.to_string());
    pairs.iter().any(|pair| *pair == (&theirs, &ours))
}
