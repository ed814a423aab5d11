//! Where this crate and webpki differ, and why. `docs/CHECKS.md` is written from this table too.

/// One rule that only one of the two has.
pub struct Difference {
    /// Kebab-case.
    pub name: &'static str,
    /// Codes with which this crate refuses; none where it is webpki that refuses.
    pub ours: &'static [&'static str],
    /// Errors with which webpki refuses; none where it accepts.
    pub theirs: &'static [&'static str],
    /// Why this crate does as it does.
    pub why: &'static str,
    /// Every vector that shows it.
    pub vectors: &'static [&'static str],
}

impl Difference {
    /// Whether this is what these two verdicts differ by.
    pub fn explains(&self, ours: Option<&str>, theirs: Option<&str>) -> bool {
        let is = |listed: &[&str], said: Option<&str>| match said {
            Some(said) => listed.contains(&said),
            None => listed.is_empty(),
        };
        is(self.ours, ours) && is(self.theirs, theirs)
    }
}

/// All of them.
pub const DIFFERENCES: &[Difference] = &[];
