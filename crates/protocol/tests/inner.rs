//! The message inside the seal: round trips, agreement with the `bhttp` crate, and refusals.
// A test fails by panicking, and a table of changes reads best with one expression each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned
)]

use bhttp::{Message, Mode};
use proptest::prelude::*;
use protocol::inner::{
    AUTHORITY, InnerError, InnerRequest, InnerResponse, MAX_REQUEST, MAX_RESPONSE, unpadded_len,
};
use protocol::padme::padded_len;

fn request() -> InnerRequest {
    InnerRequest {
        method: "POST".into(),
        path: "/v1/embeddings?user=1".into(),
        headers: vec![
            ("content-type".into(), "application/json".into()),
            ("content-length".into(), "7".into()),
        ],
        content: b"{\"a\":1}".to_vec(),
    }
}

fn response() -> InnerResponse {
    InnerResponse {
        status: 200,
        headers: vec![("date".into(), "today".into())],
        content: b"[1,2]".to_vec(),
    }
}

fn refusal<T>(result: Result<T, InnerError>) -> InnerError {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

#[test]
fn requests_and_responses_survive_the_round_trip() {
    assert!(InnerRequest::decode(&request().encode_padded().unwrap()).unwrap() == request());
    assert!(InnerResponse::decode(&response().encode_padded().unwrap()).unwrap() == response());
}

/// A request of the `bhttp` crate with these authorities: in the control data, and in the field `host`.
fn with_authorities(authority: &str, hosts: &[&str]) -> Vec<u8> {
    let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
    by_hand("GET", "https", authority, "/v1/models", &fields, b"")
}

#[test]
fn any_authority_is_accepted_and_has_no_effect() {
    let none = InnerRequest::decode(&with_authorities("", &[])).unwrap();
    for (authority, hosts) in [
        (AUTHORITY, &[][..]),
        ("embed.example", &[]),
        ("Embed.Example:443", &[]),
        ("[2001:db8::1]:8443", &[]),
        ("127.0.0.1:8787", &[]),
        ("", &["embed.example"]),
        ("embed.example", &["embed.example"]),
        ("embed.example", &["EMBED.example"]),
        ("embed.example", &["embed.example:443"]),
        ("embed.example:443", &["embed.example"]),
        ("embed.example:", &["embed.example"]),
        ("[::1]:443", &["[::1]"]),
    ] {
        let read = InnerRequest::decode(&with_authorities(authority, hosts));
        assert!(read.is_ok_and(|read| read == none), "{authority} {hosts:?}");
    }
}

#[test]
fn a_host_that_is_not_the_authority_is_refused() {
    for (authority, hosts) in [
        ("embed.example", &["other.example"][..]),
        ("embed.example", &["embed.example:8443"]),
        ("embed.example:80", &["embed.example"]),
        ("embed.example:8443", &["embed.example"]),
        ("embed.example443", &["embed.example"]),
        ("embed.example", &["embed.example", "embed.example"]),
        ("embed.example", &["embed.example", "other.example"]),
        ("embed.example", &[""]),
        ("", &[""]),
        ("", &["user@embed.example"]),
        ("", &["a", "b"]),
        ("", &["a b"]),
    ] {
        let refused = refusal(InnerRequest::decode(&with_authorities(authority, hosts)));
        assert!(
            matches!(refused, InnerError::Field(_)),
            "{authority} {hosts:?}: {refused}"
        );
    }
    for authority in [
        "user@embed.example",
        ":443",
        "embed.example/v1",
        "a b",
        "a?b",
        "a#b",
        "a\\b",
        "\u{e9}.example",
    ] {
        let refused = refusal(InnerRequest::decode(&with_authorities(authority, &[])));
        assert!(
            refused.to_string().contains("send host or host:port"),
            "{authority}: {refused}"
        );
    }
}

#[test]
fn lines_of_a_list_are_joined() {
    let fields = [
        ("accept", "application/json"),
        ("x", ""),
        ("accept", "*/*;q=0.1"),
        ("x", "1"),
        ("accept", ""),
        ("x", "1"),
    ];
    let bytes = by_hand("GET", "https", "", "/", &fields, b"");
    let read = InnerRequest::decode(&bytes).unwrap();
    assert_eq!(
        read.headers,
        [
            ("accept", "application/json, */*;q=0.1".to_owned()),
            ("x", "1, 1".to_owned())
        ]
        .map(|(name, value)| (name.to_owned(), value))
    );
}

#[test]
fn errors_name_the_accepted_value() {
    let control = |method: &str, scheme: &str, path: &str| {
        refusal(InnerRequest::decode(&by_hand(
            method,
            scheme,
            "",
            path,
            &[],
            b"",
        )))
    };
    let field = |name: &str, value: &str| {
        let bytes = by_hand("GET", "https", "a", "/", &[(name, value)], b"");
        refusal(InnerRequest::decode(&bytes))
    };
    for (error, accepted) in [
        (control("get", "https", "/"), "capital letters"),
        (control("GET", "http", "/"), "send https"),
        (control("GET", "https", "v1"), "begin with /"),
        (field("host", "b"), "send the authority of the URL"),
        (field("connection", "close"), "connection"),
        (
            refusal(InnerRequest::decode(&[2, 0])),
            "0 for requests, 1 for responses",
        ),
    ] {
        assert!(error.to_string().contains(accepted), "{error}");
    }
}

#[test]
fn padding_is_to_the_padme_length_and_zero() {
    let bytes = request().encode_padded().unwrap();
    let end = unpadded_len(&bytes).unwrap();
    assert_eq!(bytes.len(), padded_len(end));
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
    for at in end..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] = 1;
        assert_eq!(refusal(InnerRequest::decode(&changed)), InnerError::Padding);
    }
}

#[test]
fn a_message_may_end_between_sections_only() {
    let bytes = request().encode_padded().unwrap();
    let end = unpadded_len(&bytes).unwrap();
    let head = by_hand("POST", "https", AUTHORITY, &request().path, &[], b"").len() - 3;
    for length in 0..end {
        match InnerRequest::decode(&bytes[..length]) {
            // RFC 9292 §3.8 lets empty sections at the end be left out: the trailer here, or everything after the path.
            Ok(decoded) if length == end - 1 => assert!(decoded == request()),
            Ok(decoded) => {
                assert_eq!(length, head);
                assert!(decoded.headers.is_empty() && decoded.content.is_empty());
            }
            // After the fields there is no such cut, because `content-length` reveals the missing bytes.
            Err(error) => assert!(matches!(
                error,
                InnerError::Malformed(_) | InnerError::Field(_)
            )),
        }
    }
}

/// Builds a message by hand, so that it can break the rules of this crate's encoder.
fn by_hand(
    method: &str,
    scheme: &str,
    authority: &str,
    path: &str,
    fields: &[(&str, &str)],
    content: &[u8],
) -> Vec<u8> {
    let mut message = Message::request(method.into(), scheme.into(), authority.into(), path.into());
    for (name, value) in fields {
        message.put_header(*name, *value);
    }
    message.write_content(content);
    let mut bytes = Vec::new();
    message.write_bhttp(Mode::KnownLength, &mut bytes).unwrap();
    bytes
}

#[test]
fn fields_that_two_readers_could_understand_differently_are_refused() {
    let refused: [&[(&str, &str)]; 15] = [
        &[("content-type", "a/b"), ("content-type", "a/b")],
        &[("date", "d"), ("date", "d")],
        &[
            ("clearseal-nonce", "AA"),
            ("date", "d"),
            ("clearseal-nonce", "AB"),
        ],
        &[("Content-Type", "text/plain")],
        &[("transfer-encoding", "chunked")],
        &[("connection", "close")],
        &[("upgrade", "h2c")],
        &[("te", "trailers")],
        &[("host", "other.example")],
        &[("cookie", "a=1"), ("cookie", "b=2")],
        &[("content-length", "3")],
        &[("content-length", "+4")],
        &[("x", "a\r\ny: b")],
        &[("x", " padded")],
        &[("x y", "1")],
    ];
    for fields in refused {
        let bytes = by_hand("POST", "https", AUTHORITY, "/", fields, b"1234");
        assert!(
            matches!(refusal(InnerRequest::decode(&bytes)), InnerError::Field(_)),
            "{fields:?}"
        );
        let headers = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let ours = InnerRequest {
            method: "POST".into(),
            path: "/".into(),
            headers,
            content: b"1234".to_vec(),
        };
        assert!(
            matches!(refusal(ours.encode_padded()), InnerError::Field(_)),
            "{fields:?}"
        );
    }
}

#[test]
fn unsupported_control_data_is_refused() {
    let refused = [
        ("CONNECT", "https", AUTHORITY, "/"),
        ("post", "https", AUTHORITY, "/"),
        ("", "https", AUTHORITY, "/"),
        ("POST", "http", AUTHORITY, "/"),
        ("POST", "https", "user@evil.example", "/"),
        ("POST", "https", AUTHORITY, "v1"),
        ("POST", "https", AUTHORITY, "/a b"),
        ("POST", "https", AUTHORITY, "/a#b"),
        ("POST", "https", AUTHORITY, ""),
    ];
    for (method, scheme, authority, path) in refused {
        let bytes = by_hand(method, scheme, authority, path, &[], b"");
        assert!(
            matches!(
                refusal(InnerRequest::decode(&bytes)),
                InnerError::Control(_)
            ),
            "{method} {scheme} {path}"
        );
    }
    assert!(InnerRequest::decode(&by_hand("GET", "https", "", "/v1/models", &[], b"")).is_ok());
}

#[test]
fn limits_hold_before_memory_is_allocated() {
    let many: Vec<(String, String)> = (0..65).map(|n| (format!("x{n}"), String::new())).collect();
    let many: Vec<(&str, &str)> = many
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let bytes = by_hand("GET", "https", "", "/", &many, b"");
    assert_eq!(
        refusal(InnerRequest::decode(&bytes)),
        InnerError::TooLarge("number of fields, 64")
    );
    let long = "v".repeat(9_000);
    let bytes = by_hand("GET", "https", "", "/", &[("x", &long)], b"");
    assert_eq!(
        refusal(InnerRequest::decode(&bytes)),
        InnerError::TooLarge("header section, 8 KiB")
    );
    let bytes = by_hand("GET", "https", "", &format!("/{long}"), &[], b"");
    assert_eq!(
        refusal(InnerRequest::decode(&bytes)),
        InnerError::TooLarge("path, 2,048 bytes")
    );
    assert_eq!(
        refusal(InnerRequest::decode(&vec![0; MAX_REQUEST + 1])),
        InnerError::TooLarge("size, 4 MiB a request and 16 MiB a response")
    );
    let big = InnerResponse {
        status: 200,
        headers: vec![],
        content: vec![0; MAX_RESPONSE],
    };
    assert_eq!(
        refusal(big.encode_padded()),
        InnerError::TooLarge("size, 4 MiB a request and 16 MiB a response")
    );
    let fits = InnerResponse {
        content: vec![0; MAX_REQUEST + 1],
        ..big
    };
    let bytes = fits.encode_padded().unwrap();
    assert!(InnerResponse::decode(&bytes).is_ok_and(|read| read == fits));
    let too_much = InnerRequest {
        method: "POST".into(),
        path: "/".into(),
        headers: vec![],
        content: fits.content,
    };
    assert_eq!(
        refusal(too_much.encode_padded()),
        InnerError::TooLarge("size, 4 MiB a request and 16 MiB a response")
    );
}

#[test]
fn declared_sizes_beyond_the_input_cost_nothing() {
    // GET, https, "", "/", no fields, then a content of 2^62 - 1, 2^30 - 1 and 2^14 - 1 declared bytes.
    let head = by_hand("GET", "https", "", "/", &[], b"");
    let head = &head[..head.len() - 2];
    for length in [&[0xff; 8][..], &[0xbf, 0xff, 0xff, 0xff], &[0x7f, 0xff]] {
        let bytes = [head, length, b"few"].concat();
        assert!(matches!(
            refusal(InnerRequest::decode(&bytes)),
            InnerError::TooLarge(_) | InnerError::Malformed(_)
        ));
    }
    // The same for the first length of the message.
    assert!(InnerRequest::decode(&[&[0][..], &[0xff; 8]].concat()).is_err());
}

#[test]
fn other_forms_of_message_are_refused() {
    for first in [2u8, 3, 4, 63] {
        let mut bytes = request().encode_padded().unwrap();
        bytes[0] = first;
        assert!(InnerRequest::decode(&bytes).is_err());
    }
    assert!(InnerResponse::decode(&request().encode_padded().unwrap()).is_err());
    assert!(InnerRequest::decode(&response().encode_padded().unwrap()).is_err());
    for status in [100, 103, 199, 600, 65_535] {
        let odd = InnerResponse {
            status,
            headers: vec![],
            content: vec![],
        };
        assert!(
            matches!(refusal(odd.encode_padded()), InnerError::Control(_)),
            "{status}"
        );
    }
}

#[test]
fn trailers_are_ignored_but_hide_nothing_that_is_refused() {
    let with_trailer = |name: &str, value: &str| {
        let mut message =
            Message::request(b"GET".to_vec(), b"https".to_vec(), vec![], b"/".to_vec());
        message.put_header("trailer", name);
        message.put_trailer(name, value);
        let mut bytes = Vec::new();
        message.write_bhttp(Mode::KnownLength, &mut bytes).unwrap();
        bytes
    };
    let bytes = with_trailer("x", "1");
    let read = InnerRequest::decode(&bytes).unwrap();
    assert_eq!(
        read.headers,
        [("trailer".to_owned(), "x".to_owned())],
        "only the header section is read"
    );
    // The commitments cover them.
    assert_eq!(unpadded_len(&bytes).unwrap(), bytes.len());
    for (name, value) in [
        ("host", "embed.example"),
        ("transfer-encoding", "chunked"),
        ("cookie", "a=1"),
        ("content-length", "7"),
        ("X", "1"),
        ("x", "a\r\nb"),
    ] {
        let refused = refusal(InnerRequest::decode(&with_trailer(name, value)));
        assert!(matches!(refused, InnerError::Field(_)), "{name}: {refused}");
    }
}

fn headers() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::btree_map("x-[a-z0-9]{1,12}", "[!-~]([ -~]{0,20}[!-~])?", 0..20)
        .prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn any_request_round_trips_and_the_bhttp_crate_reads_the_same(
        method in "[A-Z]{1,10}",
        path in "/[!-\"$-~]{0,100}",
        headers in headers(),
        content in proptest::collection::vec(any::<u8>(), 0..3000),
    ) {
        prop_assume!(method != "CONNECT");
        let request = InnerRequest { method, path, headers, content };
        let bytes = request.encode_padded().unwrap();
        prop_assert!(InnerRequest::decode(&bytes).unwrap() == request);

        let theirs = Message::read_bhttp(&mut std::io::Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(theirs.content(), &request.content[..]);
        prop_assert_eq!(theirs.header().len(), request.headers.len());
    }

    #[test]
    fn any_response_round_trips(
        status in 200u16..600,
        headers in headers(),
        content in proptest::collection::vec(any::<u8>(), 0..3000),
    ) {
        let response = InnerResponse { status, headers, content };
        prop_assert!(InnerResponse::decode(&response.encode_padded().unwrap()).unwrap() == response);
    }

    #[test]
    fn no_input_panics_and_what_is_accepted_ends_inside_it(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(end) = unpadded_len(&bytes) {
            prop_assert!(end <= bytes.len());
        }
        let _ = InnerRequest::decode(&bytes);
        let _ = InnerResponse::decode(&bytes);
    }

    #[test]
    fn one_changed_byte_never_panics(at in 0usize..160, value in any::<u8>()) {
        let mut bytes = request().encode_padded().unwrap();
        let length = bytes.len();
        bytes[at % length] = value;
        let _ = InnerRequest::decode(&bytes);
    }
}
