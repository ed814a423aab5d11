//! Header fields that pass between client and enclave. All others are dropped.

use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Names the enclave that should answer; a hint for load balancers, on which no security rests.
pub(crate) const ENCLAVE_HINT: HeaderName = HeaderName::from_static("clearseal-enclave");

/// Asks proxies between here and the client to pass an answer in chunks on while it arrives.
const INCREMENTAL: HeaderName = HeaderName::from_static("incremental");

/// Fields of a request that pass. Cookies, origin, addresses and languages would identify the client to the enclave.
const TO_ENCLAVE: [HeaderName; 3] = [header::CONTENT_TYPE, header::ACCEPT, ENCLAVE_HINT];
/// Fields of an answer that pass.
const TO_CLIENT: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CACHE_CONTROL,
    header::RETRY_AFTER,
    INCREMENTAL,
    ENCLAVE_HINT,
];

/// Keeps the fields of a request that pass to the enclave.
pub(super) fn filter_request(headers: &HeaderMap) -> HeaderMap {
    keep(headers, &TO_ENCLAVE)
}

/// Keeps the fields of an answer that pass to the client. An answer is not stored by caches unless it says so.
pub(super) fn filter_answer(mut head: Parts) -> Parts {
    head.headers = keep(&head.headers, &TO_CLIENT);
    head.headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    head
}

fn keep(headers: &HeaderMap, allowed: &[HeaderName]) -> HeaderMap {
    allowed
        .iter()
        .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threat_model_lists_every_field_that_passes() {
        let threats = include_str!("../../../docs/THREATS.md");
        for name in TO_ENCLAVE.iter().chain(&TO_CLIENT) {
            assert!(threats.contains(&format!("`{name}`")), "{name}");
        }
    }
}
