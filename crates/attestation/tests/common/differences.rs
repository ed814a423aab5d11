//! The differences between this crate and webpki, with reasons. `docs/CHECKS.md` is generated from this table too.

/// A rule that only one of the two has.
pub struct Difference {
    /// Kebab-case.
    pub name: &'static str,
    /// This crate's code, and the value that it observes (any of these words); `None` if it accepts.
    pub ours: Option<(&'static str, &'static [&'static str])>,
    /// webpki's error; `None` if it accepts.
    pub theirs: Option<&'static str>,
    /// Reason for this crate's rule.
    pub why: &'static str,
    /// Every vector that shows the difference.
    pub vectors: &'static [&'static str],
}

impl Difference {
    /// Whether this difference explains these two verdicts.
    pub fn explains(&self, ours: Option<&(String, String)>, theirs: Option<&str>) -> bool {
        let ours = match (self.ours, ours) {
            (None, None) => true,
            (Some((code, words)), Some((found, observed))) => {
                code == found && words.iter().any(|words| observed.contains(words))
            }
            _ => false,
        };
        ours && self.theirs == theirs
    }
}

/// All differences.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "root-is-bytes",
        ours: Some(("ROOT_NOT_PINNED", &["root "])),
        theirs: None,
        why: "webpki keeps name and key of its anchor, and never sees the root that came. Here the root that came is one \
              certificate, byte for byte.",
        vectors: &["root-with-another-serial", "root-with-trailing-byte"],
    },
    Difference {
        name: "root-has-begun",
        ours: Some(("CERTIFICATE_NOT_YET_VALID", &["the root "])),
        theirs: None,
        why: "RFC 5280 leaves an anchor's validity to the verifier, and webpki keeps none. AWS's root has one, so it counts.",
        vectors: &["root-starts-next-second"],
    },
    Difference {
        name: "root-has-ended",
        ours: Some(("CERTIFICATE_EXPIRED", &["the root "])),
        theirs: None,
        why: "The same at its other end.",
        vectors: &["root-ended-a-second-ago"],
    },
    Difference {
        name: "no-search",
        ours: Some(("CHAIN_NAMES", &["'s issuer is not the ", "names itself"])),
        theirs: None,
        why: "webpki takes a bag of certificates and looks for a path. The hypervisor sends one path, root first; whatever \
              else is in the bundle would be neither signed nor checked.",
        vectors: &[
            "cabundle-doubled",
            "regional-and-zonal-swapped",
            "root-twice",
        ],
    },
    Difference {
        name: "keys-have-a-use",
        ours: Some(("KEY_USAGE", &["the "])),
        theirs: None,
        why: "webpki does not read keyUsage. AWS's certificates have it at each level, and RFC 5280 §6.1.4 (n) asks for it.",
        vectors: &[
            "instance-without-key-usage",
            "leaf-with-cert-sign",
            "leaf-without-digital-signature",
            "leaf-without-key-usage",
            "zonal-without-cert-sign",
        ],
    },
    Difference {
        name: "constraints-are-written-out",
        ours: Some((
            "BASIC_CONSTRAINTS",
            &[
                "that are not critical",
                "leaf has no basicConstraints",
                "without being a CA",
            ],
        )),
        theirs: None,
        why: "webpki takes a leaf without basicConstraints, and does not ask whether they are critical. AWS's are there and \
              critical at each level (RFC 5280 §4.2.1.9 asks that of issuers), and a path length goes with CA:TRUE alone.",
        vectors: &[
            "leaf-constraints-not-critical",
            "leaf-with-path-length",
            "leaf-without-constraints",
            "zonal-constraints-not-critical",
        ],
    },
    Difference {
        name: "one-encoding",
        ours: Some(("CERTIFICATE_MALFORMED", &[": "])),
        theirs: None,
        why: "webpki reads past defaults that are spelt out, long serial numbers, zeros at the end of a list of bits, dates in \
              the wrong type, and parts of a certificate that it does not use. Here a certificate has one encoding (X.690 §10, \
              §11), and all of it is read.",
        vectors: &[
            "leaf-ca-false-spelt-out",
            "leaf-critical-false-spelt-out",
            "leaf-empty-extensions",
            "leaf-generalized-time-before-2050",
            "leaf-key-usage-trailing-zeros",
            "leaf-serial-long-form",
        ],
    },
    Difference {
        name: "no-limit-of-six",
        ours: None,
        theirs: Some("MaximumPathDepthExceeded"),
        why: "webpki stops at six issuers, for a path that it has to search. Here the path is given, each signature is \
              verified once, and path lengths and the document's size are the limit.",
        vectors: &["eight-issuers-without-path-lengths"],
    },
];
