//! Encoding and decoding of a message, without encryption.

use anyhow::Result;
use protocol::inner::InnerRequest;

use super::client::json;
use super::{Run, number, text};

pub(super) fn codec(run: &mut Run) -> Result<()> {
    for size in [4 << 10, 64 << 10] {
        let request = json("POST", "/v1/embeddings", vec![b'x'; size]);
        let parameters = |operation| {
            [
                ("operation", text(operation)),
                ("codec", text("Binary HTTP, padded")),
                ("payload_bytes", number(size)),
            ]
        };
        let encode = || Ok(request.encode_padded()?);
        let bytes = encode()?;
        let decode = || Ok(InnerRequest::decode(&bytes)?);
        let there_and_back = || Ok(InnerRequest::decode(&encode()?)?);
        let samples = [
            (
                "encode",
                run.time("frame.latency", &parameters("encode"), encode)?,
            ),
            (
                "decode",
                run.time("frame.latency", &parameters("decode"), decode)?,
            ),
            (
                "roundtrip",
                run.time("frame.latency", &parameters("roundtrip"), there_and_back)?,
            ),
        ];
        for (operation, sample) in samples {
            run.throughput("frame.throughput", &parameters(operation), size, &sample);
        }
    }
    Ok(())
}
