//! What a message costs to write and to read, without any key.

use anyhow::Result;
use protocol::inner::InnerRequest;

use super::{Run, number, text};

pub(super) fn codec(run: &mut Run) -> Result<()> {
    for size in [4 << 10, 64 << 10] {
        let request = InnerRequest {
            method: "POST".into(),
            path: "/v1/embeddings".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            content: vec![b'x'; size],
        };
        let parameters = |operation| {
            [
                ("operation", text(operation)),
                ("payload_bytes", number(size)),
            ]
        };
        run.time("frame.latency", &parameters("encode"), || {
            Ok(request.encode_padded()?)
        })?;
        let bytes = request.encode_padded()?;
        run.time("frame.latency", &parameters("decode"), || {
            Ok(InnerRequest::decode(&bytes)?)
        })?;
    }
    Ok(())
}
