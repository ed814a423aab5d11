//! Random key policies that resemble safe ones, and requests.

use crate::iam::Request;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub(crate) const ROLE: &str = "arn:aws:iam::111122223333:role/parent";
pub(crate) const OTHER: &str = "arn:aws:iam::111122223333:role/other";
pub(crate) const KEY: &str =
    "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
pub(crate) const DATES: [&str; 2] = ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"];

/// SplitMix64 (Steele, Lea, Flood 2014): the same policies in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    /// One or more of the items.
    fn some<'a>(&mut self, list: &[&'a str]) -> Vec<&'a str> {
        let mut chosen: Vec<_> = list.iter().copied().filter(|_| self.one_in(2)).collect();
        if chosen.is_empty() {
            chosen.push(self.pick(list));
        }
        chosen
    }
}

pub(crate) fn hex(byte: &str) -> String {
    byte.repeat(48)
}

pub(crate) fn register(name: &str) -> String {
    format!("kms:RecipientAttestation:{name}")
}

/// Registers that policies compare, and the values. The first two values are those of the releases.
const REGISTERS: &[(&str, &[&str])] = &[
    ("PCR0", &["a0", "b0", "d0", "00"]),
    ("ImageSha384", &["a0", "b0", "d0"]),
    ("PCR1", &["a1", "b1", "d1", "00"]),
    ("PCR8", &["a8", "b8", "d8"]),
    ("NitroTPMPCR4", &["e4", "d4"]),
];

/// Whether a random policy may contain elements for which this crate answers *maybe* and the second evaluator decides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It may: callers and patterns.
    Any,
    /// It may not: only Denys for everyone, and no patterns. Then the verifier has to be exact.
    Exact,
}

pub(crate) fn policy(random: &mut Random, kind: Kind) -> Value {
    let mut statements = Vec::new();
    if !random.one_in(4) {
        statements.push(json!({
            "Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Resource": "*",
            "Condition": { "StringNotEquals": { register("PCR0"): [hex("a0"), hex("b0")] } },
        }));
    }
    if !random.one_in(3) {
        for (own, other) in [("a0", "a8"), ("b0", "b8")] {
            statements.push(json!({
                "Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Resource": "*",
                "Condition": {
                    "StringEquals": { register("PCR0"): hex(own) },
                    "StringNotEqualsIgnoreCase": { register("PCR8"): hex(other) },
                },
            }));
        }
    }
    for _ in 0..=random.below(3) {
        statements.push(statement(random, kind));
    }
    json!({ "Version": "2012-10-17", "Statement": statements })
}

fn statement(random: &mut Random, kind: Kind) -> Value {
    let deny = !random.one_in(3);
    let mut statement = Map::new();
    statement.insert("Effect".into(), json!(if deny { "Deny" } else { "Allow" }));
    let everyone = kind == Kind::Exact || random.one_in(2);
    if everyone {
        statement.insert("Principal".into(), json!("*"));
    } else {
        let name = random.pick(&["Principal", "NotPrincipal"]);
        statement.insert(name.into(), json!({ "AWS": [ROLE] }));
    }
    let action = random.pick(&[
        "kms:Decrypt",
        "kms:*",
        "kms:D*",
        "KMS:decrypt",
        "kms:Encrypt",
    ]);
    let name = if random.one_in(6) {
        "NotAction"
    } else {
        "Action"
    };
    statement.insert(name.into(), json!(action));
    let resource = random.pick(&["*", "*", KEY, "arn:aws:kms:*:*:key/*"]);
    statement.insert("Resource".into(), json!(resource));
    let mut block: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for _ in 0..random.below(4) {
        let (operator, key, values) = condition(random, kind);
        block.entry(operator).or_default().insert(key, values);
    }
    if !block.is_empty() {
        statement.insert("Condition".into(), json!(block));
    }
    Value::Object(statement)
}

fn condition(random: &mut Random, kind: Kind) -> (&'static str, String, Value) {
    if random.one_in(8) {
        let operator = random.pick(&["DateLessThan", "DateGreaterThanEquals"]);
        return (
            operator,
            "aws:CurrentTime".into(),
            json!(random.pick(&DATES)),
        );
    }
    if random.one_in(6) {
        let operator = random.pick(&[
            "StringEquals",
            "StringNotEquals",
            "StringNotEqualsIgnoreCase",
        ]);
        let values = random.some(&["model", "other"]);
        return (
            operator,
            "kms:EncryptionContext:model".into(),
            json!(values),
        );
    }
    if kind == Kind::Any && random.one_in(6) {
        let operator = random.pick(&["ArnEquals", "ArnNotEquals", "ArnLike", "ArnNotLike"]);
        let value = random.pick(&[
            ROLE,
            "arn:aws:iam::111122223333:role/p*",
            "arn:aws:iam::*:role/*",
        ]);
        return (operator, "aws:PrincipalArn".into(), json!(value));
    }
    let (name, bytes) = REGISTERS[random.below(REGISTERS.len())];
    if random.one_in(8) {
        return (
            "Null",
            register(name),
            json!(random.pick(&["true", "false"])),
        );
    }
    let operator = random.pick(&[
        "StringEquals",
        "StringNotEquals",
        "StringNotEquals",
        "StringNotEqualsIgnoreCase",
        "StringEqualsIgnoreCase",
        "StringNotLike",
        "StringLike",
        "StringEqualsIfExists",
        "StringNotEqualsIfExists",
        "ForAnyValue:StringNotEquals",
        "ForAllValues:StringEquals",
        "ForAllValues:StringNotEquals",
    ]);
    let mut values: Vec<String> = random.some(bytes).into_iter().map(hex).collect();
    if kind == Kind::Any && operator.ends_with("Like") && random.one_in(2) {
        values.push(random.pick(&["*", "a*", "?0*"]).to_owned());
    }
    (operator, register(name), json!(values))
}

/// Every Decrypt with these values, from an enclave, from an instance, and from neither.
pub(crate) fn requests() -> Vec<Request> {
    let mut documents: Vec<Vec<(&str, &str)>> = vec![
        vec![],
        vec![("nitrotpmpcr4", "e4")],
        vec![("nitrotpmpcr4", "d4")],
        vec![("nitrotpmpcr4", "f4")],
        vec![("nitrotpmpcr7", "e7")],
    ];
    for kernel in ["", "00", "a1", "b1", "d1", "f1"] {
        for eight in ["", "00", "a8", "b8", "d8", "f8"] {
            for image in ["", "a0", "b0", "d0", "f0", "00"] {
                let mixed = (image == "00") != (kernel == "00");
                // Registers are zero only together, and PCR0 determines PCR1 where a release has both.
                if mixed || image == "a0" && kernel != "a1" {
                    continue;
                }
                documents.push(vec![
                    ("pcr0", image),
                    ("imagesha384", image),
                    ("pcr1", kernel),
                    ("pcr8", eight),
                ]);
            }
        }
    }
    let mut requests = Vec::new();
    for document in documents {
        for caller in [ROLE, OTHER] {
            for context in ["", "model", "MODEL", "other", "OTHER", "third"] {
                for time in ["2026-06-01T00:00:00Z", DATES[0], DATES[1]] {
                    let mut facts: BTreeMap<String, String> = document
                        .iter()
                        .filter(|(_, byte)| !byte.is_empty())
                        .map(|(name, byte)| (register(name).to_lowercase(), hex(byte)))
                        .collect();
                    facts.insert("aws:principalarn".into(), caller.into());
                    facts.insert("aws:currenttime".into(), time.into());
                    if !context.is_empty() {
                        facts.insert("kms:encryptioncontext:model".into(), context.into());
                    }
                    requests.push(Request {
                        action: "kms:Decrypt",
                        caller: caller.into(),
                        key: KEY.into(),
                        context: facts,
                    });
                }
            }
        }
    }
    requests
}
