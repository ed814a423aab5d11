//! Judges files of measurements. `reference` and `types` are run by name.

mod channel_reports;
mod malformed;
