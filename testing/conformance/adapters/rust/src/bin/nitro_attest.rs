//! Adapter for nitro_attest.

use nitro_attest::UnparsedAttestationDoc;
use time::OffsetDateTime;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    adapters::answer_all(|document, time| {
        let now = OffsetDateTime::from_unix_timestamp_nanos(i128::from(time) * 1_000_000)
            .map_err(|error| error.to_string())?;
        UnparsedAttestationDoc::from(document)
            .parse_and_verify(now)
            .map(drop)
            .map_err(|error| error.to_string())
    })
}
