//! Errors for bodies that are not embeddings requests.

use serde_json::error::Category;

use super::error::ApiError;
use super::input::{MAX_INPUTS, MAX_PIECES, MAX_TOKENS, TOO_MANY};
use super::request::InvalidBody;

impl From<InvalidBody> for ApiError {
    fn from(invalid: InvalidBody) -> Self {
        let (error, member) = match invalid {
            InvalidBody::Json { error, member } => (error, member),
            InvalidBody::Text(error) => {
                let place = error.valid_up_to();
                return invalid_json(&format!("it is not UTF-8 text from byte {place} on"));
            }
        };
        let answer = match error.classify() {
            Category::Data if error.to_string().starts_with(TOO_MANY) => Self::bad_request(
                "TOO_MANY_INPUTS",
                format!(
                    "`input` may hold {MAX_INPUTS} items, {MAX_PIECES} token ids in one of them and {MAX_TOKENS} in all; send several requests"
                ),
            ),
            Category::Data => wrong_form(&error, member),
            // A number that exceeds a double is still valid JSON.
            _ if error.to_string().starts_with("number out of range") => wrong_form(&error, member),
            // The parser's messages for these are fixed; those for JSON of another form may quote the text.
            Category::Syntax | Category::Eof | Category::Io => invalid_json(&error.to_string()),
        };
        Self {
            param: member,
            ..answer
        }
    }
}

fn invalid_json(reason: &str) -> ApiError {
    ApiError::bad_request(
        "JSON_INVALID",
        format!("the body is not valid JSON: {reason}; send JSON in UTF-8, not compressed"),
    )
}

/// The refusal of a body that is not `form`, which the message quotes after "this is not".
pub(super) fn refuse_text(error: &serde_json::Error, form: &str) -> ApiError {
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io
            if !error.to_string().starts_with("number out of range") =>
        {
            invalid_json(&error.to_string())
        }
        Category::Data if error.to_string().starts_with(TOO_MANY) => ApiError::bad_request(
            "TOO_MANY_INPUTS",
            format!("a list may hold {MAX_INPUTS} items; send several requests"),
        ),
        _ => ApiError::bad_request(
            "REQUEST_INVALID",
            format!(
                "line {}, column {}: this is not {form}",
                error.line(),
                error.column()
            ),
        ),
    }
}

fn wrong_form(error: &serde_json::Error, member: Option<&'static str>) -> ApiError {
    let about = member.map_or_else(String::new, |member| format!(" because of `{member}`"));
    ApiError::bad_request(
        "REQUEST_INVALID",
        format!(
            "this is not an embeddings request{about} (line {}, column {}): `model` is a string; `input` a string, a list of strings, token ids or a list of lists of them; \
             `encoding_format` \"float\", \"base64\" or \"tensors\"; `dimensions` a whole number; `truncate` and `stream` true or false; `input_type` \"query\" or \"document\"; `tokenizer`, `prompt_name`, `prompt` and `user` strings; each at most once",
            error.line(),
            error.column()
        ),
    )
}

#[cfg(test)]
mod tests {
    use engine::Inputs;

    use super::super::request::EmbeddingsRequest;
    use super::*;

    fn parse(json: &str) -> Result<EmbeddingsRequest, ApiError> {
        Ok(EmbeddingsRequest::read(json.as_bytes())?)
    }

    #[test]
    fn all_shapes_of_input() {
        let input = |json: &str| {
            parse(&format!(r#"{{"model":"m","input":{json}}}"#))
                .and_then(|request| request.input.into_inputs())
        };
        assert!(matches!(input(r#""a""#), Ok(Inputs::Texts(texts)) if texts == ["a"]));
        assert!(matches!(input(r#"["a","b"]"#), Ok(Inputs::Texts(texts)) if texts == ["a", "b"]));
        assert!(matches!(input("[1,2]"), Ok(Inputs::Pieces(lists)) if lists == [[1, 2]]));
        assert!(
            matches!(input("[[1],[2,3]]"), Ok(Inputs::Pieces(lists)) if lists == [vec![1], vec![2, 3]])
        );
        for empty in [r#""""#, "[]", r#"["a",""]"#, "[[]]", "[[1],[]]"] {
            assert_eq!(
                input(empty).err().map(|error| error.code),
                Some("INPUT_EMPTY"),
                "{empty}"
            );
        }
        for ids in ["[7592.0,2088]", "[7592,2088.0]", "[7.592e3,2.088e3]"] {
            assert!(matches!(input(ids), Ok(Inputs::Pieces(lists)) if lists == [[7592, 2088]]));
            let lists = format!("[{ids},{ids}]");
            assert!(matches!(input(&lists), Ok(Inputs::Pieces(lists)) if lists[1] == [7592, 2088]));
        }
        for bad in [
            "1",
            "1e400",
            "[1,1.5]",
            "[[1.5]]",
            "[1e400]",
            "[1,1e400]",
            "[4294967296.0]",
            "[1,-1.0]",
            "null",
            r#"["a",1]"#,
            r#"[1,"a"]"#,
            "[-1]",
            "[1.5]",
            "[4294967296]",
            r#"{"a":1}"#,
            "[[[1]]]",
        ] {
            assert_eq!(
                input(bad).err().map(|error| error.code),
                Some("REQUEST_INVALID"),
                "{bad}"
            );
        }
    }

    #[test]
    fn lists_are_bounded_while_they_are_read() {
        let many = format!(
            r#"{{"model":"m","input":[{}"x"]}}"#,
            r#""x","#.repeat(MAX_INPUTS)
        );
        assert_eq!(
            parse(&many).err().map(|error| error.code),
            Some("TOO_MANY_INPUTS")
        );
    }

    #[test]
    fn token_ids_are_bounded_while_they_are_read() {
        let code = |input: &str| {
            parse(&format!(r#"{{"model":"m","input":{input}}}"#))
                .err()
                .map(|error| error.code)
        };
        let ones = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        assert_eq!(code(&ones(MAX_PIECES)), None);
        assert_eq!(code(&ones(MAX_PIECES + 1)), Some("TOO_MANY_INPUTS"));
        assert_eq!(
            code(&format!("[{}]", ones(MAX_PIECES + 1))),
            Some("TOO_MANY_INPUTS")
        );
        assert_eq!(
            code(&format!("[[1],{}]", ones(MAX_PIECES + 1))),
            Some("TOO_MANY_INPUTS")
        );
        let lists =
            |count: usize| format!("[{}[1]]", format!("{},", ones(MAX_PIECES)).repeat(count));
        assert_eq!(code(&lists(15)), None);
        assert_eq!(code(&lists(16)), Some("TOO_MANY_INPUTS"));
        let many = format!("[{}[1]]", "[1],".repeat(MAX_INPUTS));
        assert_eq!(code(&many), Some("TOO_MANY_INPUTS"));
    }

    #[test]
    fn errors_quote_nothing_of_the_request() {
        for json in [
            r#"{"model":"m","input":{"SECRET":1}}"#,
            r#"{"model":"m","input":"x","encoding_format":"SECRET"}"#,
            r#"{"model":"m","input":"x","dimensions":"SECRET"}"#,
            r#"{"model":"m","input":"SECRET"#,
            "SECRET",
        ] {
            let Err(error) = parse(json) else {
                panic!("accepted {json}")
            };
            assert!(!error.message.contains("SECRET"), "{}", error.message);
        }
    }

    #[test]
    fn every_refusal_names_the_member() {
        for (member, json) in [
            ("model", r#"{"input":"x"}"#),
            ("input", r#"{"model":"m"}"#),
            ("model", r#"{"model":7,"input":"x"}"#),
            ("input", r#"{"model":"m","input":{}}"#),
            ("input", r#"{"model":"m","input":["x",7]}"#),
            ("input", r#"{"model":"m","input":[7,7.5]}"#),
            ("input", r#"{"model":"m","input":"x","input":"x"}"#),
            (
                "encoding_format",
                r#"{"encoding_format":"hex","model":"m","input":"x"}"#,
            ),
            (
                "dimensions",
                r#"{"dimensions":384.5,"model":"m","input":"x"}"#,
            ),
            (
                "dimensions",
                r#"{"model":"m","input":"x","dimensions":1e400}"#,
            ),
            ("dimensions", r#"{"model":"m","input":"x","dimensions":-1}"#),
            ("truncate", r#"{"truncate":"no","model":"m","input":"x"}"#),
            ("tokenizer", r#"{"tokenizer":[],"model":"m","input":"x"}"#),
            (
                "prompt_name",
                r#"{"model":"m","input":"x","prompt_name":7}"#,
            ),
            ("prompt", r#"{"model":"m","input":"x","prompt":[]}"#),
            (
                "input_type",
                r#"{"model":"m","input":"x","input_type":"SECRET"}"#,
            ),
            ("user", r#"{"user":7,"model":"m","input":"x"}"#),
        ] {
            let error = parse(json).err();
            let named = error.as_ref().map(|error| (error.code, error.param));
            assert_eq!(named, Some(("REQUEST_INVALID", Some(member))), "{json}");
            let message = error.map(|error| error.message).unwrap_or_default();
            assert!(
                message.contains(&format!("because of `{member}`")),
                "{message}"
            );
        }
        // Bytes that are not a request have no member to name.
        let whole = parse("[]").err().map(|error| (error.code, error.param));
        assert_eq!(whole, Some(("REQUEST_INVALID", None)));
    }

    #[test]
    fn invalid_json_is_refused_with_the_parsers_reason() {
        for (json, member, reason) in [
            (
                r#"{"model":"m","input":"x"#,
                Some("input"),
                "EOF while parsing a string",
            ),
            (
                r#"{"model":"m","input":"\q"}"#,
                Some("input"),
                "invalid escape",
            ),
            (
                "{\"model\":\"m\",\"input\":\"a\nb\"}",
                Some("input"),
                "control character",
            ),
            (
                r#"{"model":"m","input":"x"} x"#,
                None,
                "trailing characters",
            ),
            (
                r#"{"model":"m","dimensions":384.,"input":"x"}"#,
                Some("dimensions"),
                "invalid number",
            ),
            ("", None, "EOF while parsing a value"),
        ] {
            let Err(error) = parse(json) else {
                panic!("accepted {json}")
            };
            assert_eq!(
                (error.code, error.param),
                ("JSON_INVALID", member),
                "{json}"
            );
            assert!(error.message.contains(reason), "{}", error.message);
        }
        for bytes in [
            &b"\x1f\x8b\x08\0"[..],
            b"\xff\xfe{\0",
            b"{\"model\":\"\xff\"}",
        ] {
            let refused = EmbeddingsRequest::read(bytes).map_err(ApiError::from);
            let message = refused.err().map(|error| error.message).unwrap_or_default();
            assert!(message.contains("not UTF-8"), "{message}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_a_lone_surrogate_are_read() {
        let Ok(request) =
            parse("\u{feff}{\"model\":\"m\",\"input\":[\"a\",\"\\ud83d b\",\"\\ud83d\\ude00\"]}")
        else {
            panic!("refused")
        };
        let Ok(Inputs::Texts(texts)) = request.input.into_inputs() else {
            panic!("no texts")
        };
        assert_eq!(texts, ["a", "\u{fffd} b", "😀"]);
    }
}
