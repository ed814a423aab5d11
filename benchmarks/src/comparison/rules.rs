//! Tables that decide which figure of ours corresponds to a published one, and which pairs are not the same measurement.
//! `--types` generates the same tables for the page, so that page and report agree; `tests/comparison.json` tests both.

use serde::Serialize;
use ts_rs::TS;

/// A test of a parameter's value.
#[derive(Clone, Copy, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Is one of these.
    Is(&'static [&'static str]),
    /// Contains the text.
    Has(&'static str),
    /// Is absent, or does not contain the text.
    Lacks(&'static str),
    /// Is absent, or begins with one of these.
    Begins(&'static [&'static str]),
}

/// A parameter by its name (`environment` means the record's environment), and the test of its value.
#[derive(Clone, Copy, Debug, Serialize, TS)]
pub struct Condition(pub &'static str, pub Test);

/// Decides when two figures of one subject do not measure the same thing.
#[derive(Clone, Copy, Debug, Serialize, TS)]
pub struct Rule {
    /// Prefixes of the subjects; empty: all subjects.
    pub subjects: &'static [&'static str],
    /// Conditions on our figure.
    pub ours: &'static [Condition],
    /// Conditions on the published figure.
    pub theirs: &'static [Condition],
    /// The difference, for people; absent: nothing differs, whatever later rules say.
    pub reason: Option<&'static str>,
}

/// The tables by which figures are compared.
#[derive(Clone, Copy, Debug, Serialize, TS)]
pub struct Rules {
    /// Parameters that distinguish published runs and that ours do not have.
    pub theirs_alone: &'static [&'static str],
    /// Their transports that are not available here, and what is measured instead. [`unlike`](Self::unlike) states the
    /// difference.
    pub stand_ins: &'static [(&'static str, &'static str)],
    /// How their sessions are attested, and the nearest equivalent of ours.
    pub proofs: &'static [(&'static str, &'static str)],
    /// Decides among figures that fit equally well; the first counts most.
    pub preferences: &'static [Condition],
    /// The first rule that fits decides.
    pub unlike: &'static [Rule],
    /// Why we have no such figure, where the run does not state a reason; the first rule that fits decides.
    pub absent: &'static [Rule],
}

use Test::{Begins, Has, Is, Lacks};

const ISOLATED: Test = Is(&["enclave", "sgx", "hybrid", "confidential_vm"]);
const SIMULATED: Test = Is(&["simulated"]);

/// The tables.
pub const RULES: Rules = Rules {
    theirs_alone: &["padded", "attestation", "study", "platform"],
    stand_ins: &[
        ("vsock", "unix"),
        ("secure channel over vsock", "secure channel over unix"),
    ],
    proofs: &[("mock", "endorsed key"), ("nitro", "document, simulated")],
    preferences: table! { Condition:
        // The reports' padded length, where theirs states none.
        "tokens",       Is(&["128"]);
        // The released implementation, before those it is compared with.
        "engine",       Begins(&["fused-f32", "clearseal"]);
        "process",      Begins(&["enclave-server"]);
        "codec",        Begins(&["channel"]);
        "against",      Lacks("");
        // Theirs is not post-quantum.
        "kind",         Lacks("X-Wing");
        // Theirs has the far end on another thread.
        "threads",      Is(&["2"]);
        // Clients reopen a session with an endorsed key.
        "attestation",  Lacks("document");
        // Their TLS server has one self-signed certificate.
        "curve",        Lacks("P-384");
        // Theirs verifies chains of three; AWS's have four below the root.
        "certificates", Is(&["3"]);
        "certificates", Is(&["4"]);
        "mode",         Lacks("sound");
    },
    // Subjects, conditions on ours, conditions on theirs; on the next line the difference.
    unlike: table! { rule:
        &[], &[Condition("transport", Lacks("vsock"))], &[Condition("transport", Has("vsock"))],
            "theirs crosses vsock between a host and a real enclave, ours stays on one machine";
        &["transport.per_message", "transport.handshake_amortised"], &[], &[],
            "theirs follows from a real enclave behind vsock, ours from a Unix socket";
        &["transport.handshake", "transport.first_message", "transport.reconnect"], &[Condition("attestation", Has("endorsed key"))], &[],
            "theirs verifies no signature (mock attestation), ours that of an endorsed key";
        &["frame.latency", "frame.throughput"], &[Condition("codec", Has("Binary HTTP"))], &[],
            "theirs is a frame, ours an HTTP message with its padding";
        &["stage."], &[], &[Condition("environment", Lacks("bare_metal"))],
            "ours starts processes on a running machine and reads the model from its disk; theirs boots an enclave and fetches the model from storage through the host";
        &["stage."], &[Condition("process", Has("sealed model"))], &[],
            "ours opens a sealed model in stages that overlap, with a key from a simulated KMS; theirs runs one stage after the other";
        &["stage."], &[], &[],
            "ours reads a model in the clear from its disk and checks its hashes; theirs reads an encrypted one";
        &["request.session_setup"], &[], &[],
            "ours makes keys; theirs attests and sets a channel up";
        &["request.crypto"], &[], &[],
            "ours is the cryptography of one sealed request; theirs is what was measured around a channel that stays open";
        &["cose.chain", "cose.full"], &[Condition("certificates", Lacks("3"))], &[],
            "theirs checks a chain of three certificates, ours a longer one";
        &["memory.peak"], &[], &[],
            "ours is an ordinary process, theirs the process of an enclave with another engine";
        &["cost.hourly_price", "cost.per_thousand", "cost.per_million"], &[], &[],
            "a price is that of one machine on one day";
        // Results do not depend on where they are computed.
        &["quality.", "memory.model_size"], &[], &[],
            ALIKE;
        &[], &[Condition("environment", SIMULATED)], &[Condition("environment", ISOLATED)],
            APART;
        &[], &[Condition("environment", ISOLATED)], &[Condition("environment", SIMULATED)],
            APART;
    },
    // Subjects, conditions on theirs; on the next line the reason why we have none.
    absent: table! { none:
        &["stage.attestation"], &[],
            "the security module is simulated";
        &["stage.key_release"], &[],
            "AWS's key service is simulated, and its time says nothing of a network";
        &["request.tcp_handshake"], &[],
            "a request is sealed by itself, without a handshake";
        &["overhead"], &[Condition("of", Is(&["transport.per_message"]))],
            "follows from a round trip over vsock, and from inference in a real enclave";
        &["transport."], &[Condition("transport", Has("TLS"))],
            "only --contenders measures TLS 1.3, and this run has no such figure";
        &["transport."], &[],
            "the benchmark `transport` measures such figures, and this run has none of this kind";
        &["memory."], &[],
            "the run has no comparable process outside an enclave";
        &["overhead", "share", "difference", "slo."], &[],
            "what it follows from was not measured";
        &["cost.multiplier"], &[],
            "it compares an enclave with bare metal, and no enclave was rented";
        &["cost."], &[],
            "the run has no price (--price; the page's view Cost takes one too), or no throughput at 128 tokens";
        &["claim"], &[],
            "a claim, whose figures are in the tables below";
        &["platform."], &[],
            "it needs hardware that is not available here";
        &[], &[],
            "not part of this run";
    },
};

const APART: &str = "one ran in an enclave, the other is simulated: an ordinary process";
/// Nothing differs, whatever later rules say.
const ALIKE: &str = "";

const fn none(
    subjects: &'static [&'static str],
    theirs: &'static [Condition],
    reason: &'static str,
) -> Rule {
    rule(subjects, &[], theirs, reason)
}

const fn rule(
    subjects: &'static [&'static str],
    ours: &'static [Condition],
    theirs: &'static [Condition],
    reason: &'static str,
) -> Rule {
    Rule {
        subjects,
        ours,
        theirs,
        reason: if reason.is_empty() {
            None
        } else {
            Some(reason)
        },
    }
}
