//! Which of our figures answers a published one, and whether both are the same thing.

use crate::record::{Environment, Measurement, Parameter};

/// Parameters that tell published runs apart and that ours do not have.
const THEIRS: [&str; 4] = ["padded", "attestation", "study", "platform"];

/// Our figure that is measured most like `theirs`: nothing that both state differs.
pub(super) fn like<'a>(
    theirs: &Measurement,
    place: Environment,
    measured: &'a [Measurement],
) -> Option<&'a Measurement> {
    // One run of ours has the platforms that the aggregation report has runs for.
    let platform = match place {
        Environment::BareMetal => "native",
        Environment::Hybrid => "hybrid",
        _ => "enclave",
    };
    // Compared from left to right.
    let score = |ours: &Measurement| -> Option<(i32, bool, bool, bool, bool, bool)> {
        let mut score = match ours.parameters.get("platform") {
            Some(Parameter::Text(own)) if own.starts_with(platform) => 2,
            Some(_) => return None,
            None => 0,
        };
        for (name, value) in &theirs.parameters {
            match ours.parameters.get(name) {
                Some(own) if same(own, value) => score += 2,
                // What stands in for vsock where there is none; the table says so.
                Some(own) if name == "transport" && stands_in(own, value) => {}
                // Both state how a session is attested: `unlike` says whether that is the same.
                Some(own) if name == "attestation" => {
                    score += i32::from(answers(own, value));
                }
                Some(_) => return None,
                None if THEIRS.contains(&name.as_str()) => {}
                // Bytes of both ways are no bytes of one way.
                None if name == "direction" => return None,
                None => score -= 1,
            }
        }
        // The reports' padded length, where theirs does not say.
        let padded = ours.parameters.get("tokens") == Some(&Parameter::Number(128.0));
        // The product before its peers, and the server before this suite.
        let begins = |name: &str, word: &str| match ours.parameters.get(name) {
            Some(Parameter::Text(text)) => text.starts_with(word),
            _ => true,
        };
        let own = ["fused-f32", "clearseal"]
            .iter()
            .any(|name| begins("engine", name));
        let product = own
            && begins("process", "enclave-server")
            && begins("codec", "channel")
            && (!ours.parameters.contains_key("against")
                || theirs.parameters.contains_key("against"));
        // A peer's figure is none of ours, unless the published one is of that peer's kind.
        let named = theirs.parameters.contains_key("transport");
        if !own
            && !named
            && !ours.subject.starts_with("inference.")
            && !ours.subject.starts_with("peers.")
        {
            return None;
        }
        // Theirs is not post-quantum.
        let classical = !ours
            .parameters
            .get("kind")
            .is_some_and(|kind| is(kind, "X-Wing"));
        // AWS's chains have four certificates below the root.
        let of = |name: &str, value: Parameter| ours.parameters.get(name) == Some(&value);
        let whole = !of(
            "attestation",
            Parameter::Text("document, simulated".to_owned()),
        ) || of("certificates", Parameter::Number(4.0));
        // Theirs has the far end on another thread.
        let apart = ours.subject.starts_with("transport.") && of("threads", Parameter::Number(2.0));
        // Throughput is that of a burst, unless it says that it is of round trips.
        let both_ways = |figure: &Measurement| {
            let pattern = figure.parameters.get("pattern");
            pattern.is_some_and(|pattern| is(pattern, "round trip"))
        };
        if both_ways(ours) && !both_ways(theirs) {
            return None;
        }
        Some((score, padded, product, classical, apart, whole))
    };
    // Their inference within a request is our engine by itself, in turns with the request.
    let bare = theirs.subject == "request.inference_only";
    let stands_for = |ours: &Measurement| match ours.parameters.get("path") {
        Some(path) if bare => ours.subject == "request.end_to_end" && is(path, "bare engine"),
        _ => ours.subject == theirs.subject,
    };
    let mut best: Option<(_, &Measurement)> = None;
    for one in measured.iter().filter(|one| stands_for(one)) {
        let Some(score) = score(one) else { continue };
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, one));
        }
    }
    best.map(|(_, one)| one)
}

pub(super) fn same(a: &Parameter, b: &Parameter) -> bool {
    match (a, b) {
        (Parameter::Number(a), Parameter::Number(b)) => (a - b).abs() < 0.5,
        (Parameter::Text(a), Parameter::Text(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

/// Whether a session of ours is attested in the way that is nearest to theirs.
fn answers(ours: &Parameter, theirs: &Parameter) -> bool {
    let pairs = [("endorsed key", "mock"), ("document, simulated", "nitro")];
    pairs
        .iter()
        .any(|(own, published)| is(ours, own) && is(theirs, published))
}

/// What is measured in place of vsock, where there is none. The table says so.
fn stands_in(ours: &Parameter, theirs: &Parameter) -> bool {
    let pairs = [
        ("unix", "vsock"),
        ("secure channel over unix", "secure channel over vsock"),
    ];
    pairs
        .iter()
        .any(|(own, published)| is(ours, own) && is(theirs, published))
}

fn is(parameter: &Parameter, word: &str) -> bool {
    matches!(parameter, Parameter::Text(text) if text == word)
}

/// What differs between two figures of one subject in a condition that decides what they mean.
pub(super) fn unlike(theirs: &Measurement, ours: &Measurement) -> Option<&'static str> {
    let has = |figure: &Measurement, name: &str, word: &str| match figure.parameters.get(name) {
        Some(Parameter::Text(text)) => text.contains(word),
        _ => false,
    };
    let subject = theirs.subject.as_str();
    let opens = ["handshake", "first_message", "reconnect"]
        .iter()
        .any(|word| subject.contains(word));
    if has(theirs, "transport", "vsock") && !has(ours, "transport", "vsock") {
        return Some(
            "theirs crosses vsock between a host and a real enclave, ours stays on one machine",
        );
    }
    if matches!(
        subject,
        "transport.per_message" | "transport.handshake_amortised"
    ) {
        return Some("theirs follows from a real enclave behind vsock, ours from a Unix socket");
    }
    if opens && subject.starts_with("transport.") && has(ours, "attestation", "endorsed key") {
        return Some(
            "theirs verifies no signature (mock attestation), ours that of an endorsed key",
        );
    }
    (subject == "frame.latency" || subject == "frame.throughput")
        .then_some(())
        .filter(|()| has(ours, "codec", "Binary HTTP"))
        .map(|()| "theirs is a frame, ours an HTTP message with its padding")
}
