//! Maps the published reports' format, field by field, to measurements.

use Unit::{Count, InferencesPerSecond, Megabytes, MegabytesPerSecond, Milliseconds};
use serde::Serialize;
use ts_rs::TS;

use crate::record::{Measurement, Parameter, Record, Statistics, Unit};

/// A field of the published format, and the measurement that it represents.
#[derive(Clone, Copy, Debug, Serialize, TS)]
pub struct PublishedField {
    /// Section of the record.
    #[ts(type = r#""stages" | "inference" | "memory" | "vsock" | "quality""#)]
    pub section: &'static str,
    /// Field in the section.
    pub field: &'static str,
    /// Subject of the measurement.
    pub subject: &'static str,
    /// Unit in the field's name.
    pub unit: Unit,
    /// Payload size in the field's name.
    pub payload_bytes: Option<u32>,
}

const fn field(
    section: &'static str,
    field: &'static str,
    subject: &'static str,
    unit: Unit,
    payload_bytes: Option<u32>,
) -> PublishedField {
    PublishedField {
        section,
        field,
        subject,
        unit,
        payload_bytes,
    }
}

/// The published format.
pub const PUBLISHED: &[PublishedField] = table! { field:
    "stages",    "attestation_ms",                 "stage.attestation",      Milliseconds,        None;
    "stages",    "kms_key_release_ms",             "stage.key_release",      Milliseconds,        None;
    "stages",    "model_fetch_ms",                 "stage.model_fetch",      Milliseconds,        None;
    "stages",    "model_decrypt_ms",               "stage.model_decrypt",    Milliseconds,        None;
    "stages",    "model_load_ms",                  "stage.model_load",       Milliseconds,        None;
    "stages",    "tokenizer_setup_ms",             "stage.tokenizer_setup",  Milliseconds,        None;
    "stages",    "cold_start_total_ms",            "stage.cold_start_total", Milliseconds,        None;
    "inference", "latency_ms",                     "inference.latency",      Milliseconds,        None;
    "inference", "throughput_inferences_per_sec",  "inference.throughput",   InferencesPerSecond, None;
    "memory",    "peak_rss_mb",                    "memory.peak_rss",        Megabytes,           None;
    "memory",    "peak_vmsize_mb",                 "memory.peak_vmsize",     Megabytes,           None;
    "memory",    "model_size_mb",                  "memory.model_size",      Megabytes,           None;
    "vsock",     "rtt_64b_ms",                     "transport.rtt",          Milliseconds,        Some(64);
    "vsock",     "rtt_1kb_ms",                     "transport.rtt",          Milliseconds,        Some(1_024);
    "vsock",     "rtt_64kb_ms",                    "transport.rtt",          Milliseconds,        Some(65_536);
    "vsock",     "rtt_1mb_ms",                     "transport.rtt",          Milliseconds,        Some(1_048_576);
    "vsock",     "upload_throughput_mbps",         "transport.throughput",   MegabytesPerSecond,  None;
    "vsock",     "upload_throughput_mb_per_sec",   "transport.throughput",   MegabytesPerSecond,  None;
    "quality",   "embedding_dim",                  "quality.embedding_dim",  Count,               None;
};

/// Returns every figure of `record`: its measurements, and those of its published sections.
pub fn figures(record: &Record) -> Vec<Measurement> {
    let sections = serde_json::to_value(record).unwrap_or_default();
    let published = PUBLISHED.iter().filter_map(|published| {
        let found = sections.get(published.section)?.get(published.field)?;
        let statistics = match found.as_f64() {
            Some(value) => Statistics::of_one(value),
            None => serde_json::from_value(found.clone()).ok()?,
        };
        let transport = Parameter::Text("vsock".to_owned());
        let transport = (published.section == "vsock").then_some(("transport", transport));
        let bytes = published.payload_bytes.map(f64::from);
        let bytes = bytes.map(|bytes| ("payload_bytes", Parameter::Number(bytes)));
        let parameters: Vec<_> = transport.into_iter().chain(bytes).collect();
        let PublishedField { subject, unit, .. } = *published;
        Some(Measurement::new(subject, &parameters, unit, statistics))
    });
    published
        .chain(record.measurements.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find;

    #[test]
    fn published_fields_have_the_dimension_of_their_subject() {
        for field in PUBLISHED {
            let subject = find(field.subject).unwrap();
            assert_eq!(subject.dimension, field.unit.scale().0, "{}", field.field);
        }
    }
}
