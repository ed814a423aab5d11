//! The interpretation guide of the published reports.

use serde::Serialize;
use ts_rs::TS;

use crate::record::Unit;

/// A step of the guide: from `from` up to the next step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, TS)]
pub struct Threshold {
    /// Lower bound, included, in the guide's unit; infinite, and `null` in JSON, means no bound.
    #[ts(type = "number | null")]
    pub from: f64,
    /// The guide's word, or ours where the guide has a gap.
    pub verdict: &'static str,
    /// The guide's reason, or that it gives none.
    pub why: &'static str,
    /// Severity: 0 fine, 1 look closer, 2 a problem; 3 where the guide is silent.
    pub grade: u8,
}

/// The guide's steps for one figure.
#[derive(Clone, Copy, Debug, Serialize, TS)]
pub struct Guide {
    /// Subject that is judged.
    pub subject: &'static str,
    /// For people.
    pub title: &'static str,
    /// Unit of the bounds.
    pub unit: Unit,
    /// Steps, rising.
    pub thresholds: &'static [Threshold],
}

/// No lower bound.
const LEAST: f64 = f64::NEG_INFINITY;

const fn step(from: f64, verdict: &'static str, grade: u8, why: &'static str) -> Threshold {
    Threshold {
        from,
        verdict,
        why,
        grade,
    }
}

/// The three tables of the guide. Where they have a gap, the verdict says so instead of guessing.
pub const GUIDES: [Guide; 3] = [
    Guide {
        subject: "inference.latency",
        title: "Inference overhead",
        unit: Unit::Percent,
        thresholds: table! { step:
            LEAST, "Excellent",   0, "below 5 %: SGX and TDX on one socket do no better";
            5.0,   "Good",        0, "5 to 10 %: what GPU enclaves and other CPU enclaves take";
            10.0,  "Acceptable",  1, "10 to 15 %: on par with BERT under AMD SEV-SNP";
            15.0,  "Investigate", 2, "15 % or more: look at the socket and at memory pressure in the enclave";
        },
    },
    Guide {
        subject: "stage.cold_start_total",
        title: "Cold start",
        unit: Unit::Seconds,
        thresholds: table! { step:
            LEAST, "Competitive", 0, "below 5 s: containers of library operating systems take minutes";
            5.0,   "Acceptable",  1, "5 to 15 s: fine where sessions are long";
            15.0,  "No verdict",  3, "the guide says nothing between 15 and 30 s";
            30.0,  "Problem",     2, "30 s or more: look at the image's size and at how the model is fetched";
        },
    },
    Guide {
        subject: "memory.peak_rss",
        title: "Memory overhead",
        unit: Unit::Percent,
        thresholds: table! { step:
            LEAST, "Normal",      0, "below 15 %: the enclave's runtime and its keys";
            15.0,  "No verdict",  3, "the guide says nothing between 15 and 30 %";
            30.0,  "Investigate", 2, "30 % or more: a leak, or the model held twice";
        },
    },
];

impl Guide {
    /// Returns the step that contains `value`, or `None` if it is not a number.
    pub fn judge(&self, value: f64) -> Option<&'static Threshold> {
        self.thresholds.iter().rev().find(|step| value >= step.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_judges_its_own_bounds() {
        let table = [
            (0, -3.0, "Excellent"),
            (0, 4.999, "Excellent"),
            (0, 5.0, "Good"),
            (0, 12.6, "Acceptable"),
            (0, 15.0, "Investigate"),
            (1, 4.9, "Competitive"),
            (1, 7.05, "Acceptable"),
            (1, 20.0, "No verdict"),
            (1, 31.0, "Problem"),
            (2, 14.0, "Normal"),
            (2, 29.0, "No verdict"),
            (2, 282.8, "Investigate"),
        ];
        for (guide, value, verdict) in table {
            assert_eq!(
                GUIDES[guide].judge(value).unwrap().verdict,
                verdict,
                "{value}"
            );
        }
        assert_eq!(GUIDES[0].judge(f64::NAN), None);
    }
}
