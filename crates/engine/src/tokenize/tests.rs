use proptest::prelude::*;

use super::*;

pub(super) const OPTIONS: TokenizerOptions = TokenizerOptions {
    lower_case: false,
    special_tokens: true,
    keep_end: false,
};

/// BERT's pipeline over a vocabulary of single characters and a few words.
pub(super) fn small_json() -> Vec<u8> {
    let words = ["hello", "world", "##ing", "tok", "##en"].map(str::to_owned);
    let letters = ('a'..='z')
        .chain('0'..='9')
        .flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
    let others = "[](){}.,;:!?'\"-_/人工智能日本語éλσß".chars();
    let others = others.map(String::from);
    fixtures::tokenizer::tokenizer_json(words.into_iter().chain(letters).chain(others))
}

fn small(max_tokens: usize, window: usize) -> Tokenizer {
    Tokenizer::with_window(&small_json(), max_tokens, OPTIONS, window).unwrap()
}

#[test]
fn special_tokens_surround_the_text() {
    let tokenizer = small(16, WINDOW);
    assert_eq!(
        tokenizer.encode("hello world").unwrap(),
        Tokens {
            ids: Zeroizing::new(vec![2, 5, 6, 3]),
            truncated: false
        }
    );
    assert_eq!(
        tokenizer.encode("").unwrap(),
        Tokens {
            ids: Zeroizing::new(vec![2, 3]),
            truncated: false
        }
    );
    assert_eq!(
        tokenizer.wrap(&[5, 6]).unwrap(),
        Tokens {
            ids: Zeroizing::new(vec![2, 5, 6, 3]),
            truncated: false
        }
    );
}

#[test]
fn the_library_reads_the_same_from_a_description() {
    for change in [
        ("", ""),
        (
            "\"decoder\":null",
            "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
        ),
        (
            "\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\"",
            "\"type\":\"WordLevel\",\"unk_token\":\"[UNK]\"",
        ),
        (
            "\"max_input_chars_per_word\":100,\"type\":\"WordPiece\"",
            "\"max_input_chars_per_word\":7",
        ),
    ] {
        let json = String::from_utf8(small_json()).unwrap();
        assert!(json.contains(change.0), "{change:?}");
        let json = json.replace(change.0, change.1);
        let (ours, theirs) = (
            read(json.as_bytes()),
            tokenizers::Tokenizer::from_bytes(&json),
        );
        let text = |read: tokenizers::Result<tokenizers::Tokenizer>| {
            read.unwrap().to_string(true).unwrap()
        };
        assert_eq!(text(ours), text(theirs), "{change:?}");
    }
    for broken in ["", "{}", "{\"model\":{\"type\":\"WordPiece\"}}", "nothing"] {
        assert!(read(broken.as_bytes()).is_err(), "{broken}");
    }
}

#[test]
fn the_library_reads_the_same_from_the_real_description() {
    let Some(folder) = std::env::var_os("CLEARSEAL_MODEL") else {
        println!("skipped: CLEARSEAL_MODEL names no folder");
        return;
    };
    let json = std::fs::read(std::path::Path::new(&folder).join("tokenizer.json")).unwrap();
    let theirs = tokenizers::Tokenizer::from_bytes(&json).unwrap();
    let same = read(&json).unwrap().to_string(false).unwrap() == theirs.to_string(false).unwrap();
    assert!(same);
}

#[test]
fn truncation_is_exact_and_reported() {
    let tokenizer = small(6, 8);
    let four = tokenizer.encode("hello world hello world").unwrap();
    assert_eq!((four.ids.len(), four.truncated), (6, false));
    assert!(
        !tokenizer
            .encode(&format!("hello world hello world{}", " ".repeat(100)))
            .unwrap()
            .truncated
    );
    let five = tokenizer.encode("hello world hello world hello").unwrap();
    assert_eq!((five.ids, five.truncated), (four.ids, true));
    assert!(tokenizer.wrap(&[5; 5]).unwrap().truncated);
}

#[test]
fn token_ids_are_zeroized() {
    fn wipes<T: zeroize::ZeroizeOnDrop>(_: &T) {}
    wipes(&small(6, 8).encode("hello").unwrap().ids);

    let mut ids = Vec::new();
    for number in 0..100 {
        let memory = (ids.as_ptr(), ids.capacity());
        let is_full = ids.len() == ids.capacity();
        extend(&mut ids, &[number]);
        // Memory that changes hands is replaced by `extend`, and a `Vec` that has room stays where it is.
        assert_eq!(is_full, memory != (ids.as_ptr(), ids.capacity()));
    }
    assert!(ids.iter().copied().eq(0..100));
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    assert!(matches!(
        small(6, 8).wrap(&[u32::MAX]),
        Err(TokenizerError::UnknownToken { .. })
    ));
}

/// `[CLS]` is 2, `[SEP]` 3, `[PAD]` 0; `hello world` is 5, 6.
#[test]
fn token_ids_that_have_their_special_tokens_are_read_as_they_are() {
    let tokenizer = small(16, WINDOW);
    let text = tokenizer.encode("hello world").unwrap();
    for same in [
        &[5, 6][..],
        &[2, 5, 6, 3],
        &[2, 5, 6, 3, 0, 0, 0],
        &[0, 0, 2, 5, 6, 3],
        &[5, 6, 0],
    ] {
        assert_eq!(tokenizer.wrap(same).unwrap(), text, "{same:?}");
    }
    // Special tokens inside a text belong to the text.
    for ids in [&[2, 2, 5, 3][..], &[2, 5, 3, 6, 3], &[2, 5, 0, 6, 3]] {
        assert_eq!(*tokenizer.wrap(ids).unwrap().ids, ids);
    }
    assert_eq!(*tokenizer.wrap(&[2, 3]).unwrap().ids, [2, 3]);
    for half in [&[2, 5, 6][..], &[5, 6, 3], &[2], &[3], &[2, 5, 0, 0]] {
        let refused = tokenizer.wrap(half);
        assert!(
            matches!(refused, Err(TokenizerError::HalfWrapped)),
            "{half:?}"
        );
    }
    for nothing in [&[][..], &[0], &[0, 0]] {
        let refused = tokenizer.wrap(nothing);
        assert!(
            matches!(refused, Err(TokenizerError::OnlyPadding)),
            "{nothing:?}"
        );
    }
}

#[test]
fn token_ids_are_truncated_between_their_special_tokens() {
    let tokenizer = small(6, 8);
    for (ids, truncated) in [
        (&[2, 5, 6, 5, 6, 3][..], false),
        (&[2, 5, 6, 5, 6, 5, 3], true),
        (&[5, 6, 5, 6, 5], true),
    ] {
        let tokens = tokenizer.wrap(ids).unwrap();
        assert_eq!(*tokens.ids, [2, 5, 6, 5, 6, 3], "{ids:?}");
        assert_eq!(tokens.truncated, truncated, "{ids:?}");
    }
}

#[test]
fn the_padding_token_is_the_one_that_the_description_names() {
    let named = changed(
        "\"padding\":null",
        "\"padding\":{\"strategy\":{\"Fixed\":128},\"direction\":\"Right\",\"pad_to_multiple_of\":null,\"pad_id\":4,\"pad_type_id\":0,\"pad_token\":\"[MASK]\"}",
    );
    assert_eq!(*named.wrap(&[5, 4, 4]).unwrap().ids, [2, 5, 3]);
    assert_eq!(*named.wrap(&[5, 0]).unwrap().ids, [2, 5, 0, 3]);
    // Texts are never padded.
    assert_eq!(*named.encode("hello").unwrap().ids, [2, 5, 3]);
}

#[test]
fn a_pipeline_without_special_tokens_adds_and_removes_none() {
    let template = "[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}]";
    let bare = changed(template, "[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]");
    assert_eq!(*bare.wrap(&[2, 5, 3]).unwrap().ids, [2, 5, 3]);
    for nothing in ["", " "] {
        let refused = bare.encode(nothing);
        assert!(matches!(refused, Err(TokenizerError::NoToken)));
    }
    let end = changed(
        template,
        "[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}]",
    );
    assert_eq!(*end.wrap(&[5, 3]).unwrap().ids, [5, 3]);
    assert_eq!(*end.wrap(&[5]).unwrap().ids, [5, 3]);
}

#[test]
fn the_vocabulary_ends_with_the_largest_id() {
    assert!(small(6, 8).vocabulary() < 400);
    let piece = changed("\"##ing\":7", "\"##ing\":400");
    assert_eq!(piece.vocabulary(), 401);
    assert!(piece.wrap(&[400]).is_ok());
    let special = changed("\"ids\":[3]", "\"ids\":[500]");
    assert_eq!(special.vocabulary(), 501);
}

fn changed(from: &str, to: &str) -> Tokenizer {
    let json = String::from_utf8(small_json()).unwrap();
    assert!(json.contains(from), "{from}");
    Tokenizer::from_json(json.replace(from, to).as_bytes(), 8).unwrap()
}

#[test]
fn an_unknown_pipeline_is_left_to_the_library_and_never_cut() {
    let unknown = changed("BertPreTokenizer", "Whitespace");
    assert_eq!(unknown.window, usize::MAX);
    // A word may then be longer than the window, and it is one unknown word rather than several.
    let word = "人".repeat(WINDOW);
    let joined = changed(
        "\"handle_chinese_chars\":true",
        "\"handle_chinese_chars\":false",
    );
    assert_eq!(*joined.encode(&word).unwrap().ids, [2, 1, 3]);
    assert_eq!(small(8, 5).window, 5);
}

#[test]
fn a_text_longer_than_any_model_reads_is_refused() {
    let tokenizer = small(8, WINDOW);
    let longest = "hello ".repeat(MAX_TEXT_BYTES / 6);
    assert!(tokenizer.encode(&longest).unwrap().truncated);
    let refused = tokenizer.encode(&"x".repeat(MAX_TEXT_BYTES + 1));
    assert!(
        matches!(refused, Err(TokenizerError::TextTooLong { bytes }) if bytes == MAX_TEXT_BYTES + 1)
    );
}

#[test]
fn a_cased_vocabulary_is_read_as_it_is_cased() {
    let cased = changed("\"lowercase\":true", "\"lowercase\":false");
    assert_eq!(*cased.encode("hello Hello").unwrap().ids, [2, 5, 1, 3]);
}

/// Texts of words, special tokens and characters that the pipeline handles in different ways.
pub(super) fn text() -> impl Strategy<Value = String> {
    let word = |word: &str| Just(word.to_owned());
    let part = prop_oneof![
        word("hello"),
        word("token"),
        word("[CLS]"),
        word("["),
        word("]"),
        word("\u{301}"),
        word("\u{c}"),
        word("\u{a0}"),
        word("\u{2028}"),
        word(" "),
        word("人工"),
        word("Σ"),
        word("İ"),
        word("\u{200d}"),
        Just("a".repeat(120)),
        "[a-z]{1,6}",
        "[ -~]{1,8}",
        "\\PC{1,4}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn cutting_changes_no_kept_token(
        text in text(),
        window in 4usize..40,
        max_tokens in 3usize..24,
    ) {
        let (mut cut, mut whole) = (Vec::new(), Vec::new());
        let (cuts, room) = (small(max_tokens, window), max_tokens - 2);
        let truncated = cuts.add_pieces(&text, &mut cut, room).unwrap();
        prop_assert_eq!(truncated, small(max_tokens, usize::MAX).add_pieces(&text, &mut whole, room).unwrap());
        prop_assert_eq!(cut, whole);
    }
}
