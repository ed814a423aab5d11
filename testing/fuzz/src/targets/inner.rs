//! Binary HTTP inside the encryption, which anyone with the public key can write.

use protocol::inner::{InnerError, InnerRequest, InnerResponse, MAX_FIELDS, unpadded_len};
use protocol::padme::padded_len;
use protocol::terms::Terms;

use super::{near_misses, receipt};

/// A parsed message encodes to an equivalent one; a message is a request or a response, never both.
pub(super) fn run(data: &[u8]) {
    let length = unpadded_len(data);
    let (request, response) = (InnerRequest::decode(data), InnerResponse::decode(data));
    assert!(request.is_err() || response.is_err());
    if request.is_ok() || response.is_ok() {
        let length = length.expect("what was read has an end");
        assert!(data[length..].iter().all(|byte| *byte == 0));
        // The commitments cover these bytes: padding does not affect them.
        assert_eq!(unpadded_len(&data[..length]), Ok(length));
    }
    if let Ok(request) = request {
        assert!(request.path.starts_with('/'));
        headers(&request.headers);
        let again = check_encoded(request.encode_padded());
        assert!(InnerRequest::decode(&again).is_ok_and(|again| again == request));
        if let Ok(terms) = Terms::read(&request) {
            assert!((16..=32).contains(&terms.nonce.len()));
            let mut stripped = request;
            stripped
                .headers
                .retain(|(name, _)| name != "date" && !name.starts_with("clearseal-"));
            terms
                .write(&mut stripped)
                .expect("terms that were read can be written");
            assert!(Terms::read(&stripped).is_ok_and(|again| again == terms));
        }
    }
    if let Ok(response) = response {
        assert!((200..=599).contains(&response.status));
        headers(&response.headers);
        let again = check_encoded(response.encode_padded());
        assert!(InnerResponse::decode(&again).is_ok_and(|again| again == response));
    }
}

/// Header names are unique and lower-case.
fn headers(headers: &[(String, String)]) {
    assert!(headers.len() <= MAX_FIELDS);
    for (at, (name, _)) in headers.iter().enumerate() {
        assert!(!name.is_empty() && name.bytes().all(|byte| !byte.is_ascii_uppercase()));
        assert!(headers[..at].iter().all(|(before, _)| before != name));
    }
}

fn check_encoded(result: Result<Vec<u8>, InnerError>) -> Vec<u8> {
    let bytes = result.expect("what was read can be written");
    assert_eq!(padded_len(bytes.len()), bytes.len());
    bytes
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let response = InnerResponse {
        status: 200,
        headers: vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("content-length".to_owned(), "11".to_owned()),
        ],
        content: b"{\"data\":[]}".to_vec(),
    };
    let empty = InnerRequest {
        method: "GET".to_owned(),
        path: "/v1/models".to_owned(),
        headers: Vec::new(),
        content: Vec::new(),
    };
    let mut seeds = near_misses(&receipt::exchange().request);
    seeds.push(response.encode_padded().unwrap());
    seeds.push(empty.encode_padded().unwrap());
    seeds.push(fixtures::enclave::request().encode_padded().unwrap());
    // Trailing sections may be omitted (RFC 9292 §3.8), and lengths may be non-minimal or wrong.
    seeds.push(vec![1, 0x40, 0xc8]);
    seeds.push(vec![1, 0x40, 0xc8, 0x40, 0, 0x80, 0, 0, 0]);
    seeds.push(vec![
        1, 0x40, 0xc8, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ]);
    seeds
}
