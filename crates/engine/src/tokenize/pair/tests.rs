use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::tokenizer::truncate_encodings;
use tokenizers::{TruncationParams, TruncationStrategy};

use super::super::TokenizerOptions;
use super::super::cut::WINDOW;
use super::super::tests::{OPTIONS, small_json, text};
use super::*;

/// Added to the ids of tokens of the second type.
const SECOND: u32 = 1000;

/// BERT's pipeline, whose pairs have two types of tokens and three special tokens.
fn pairs_json() -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(&small_json()).unwrap();
    let special = |id: &str, kind: u32| json!({"SpecialToken": {"id": id, "type_id": kind}});
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    json["post_processor"]["pair"] = json!([
        special("[CLS]", 0),
        text("A", 0),
        special("[SEP]", 0),
        text("B", 1),
        special("[SEP]", 1),
    ]);
    json.to_string().into_bytes()
}

fn build(max_tokens: usize, window: usize, options: TokenizerOptions) -> Tokenizer {
    let tokenizer = Tokenizer::with_window(&pairs_json(), max_tokens, options, window);
    tokenizer.unwrap().into_pairs(2, SECOND as usize).unwrap()
}

fn pairs(max_tokens: usize, window: usize) -> Tokenizer {
    build(max_tokens, window, OPTIONS)
}

fn keeping_end(max_tokens: usize) -> Tokenizer {
    let options = TokenizerOptions {
        keep_end: true,
        ..OPTIONS
    };
    build(max_tokens, WINDOW, options)
}

/// The ids of a pair where the library truncates both texts, tokenized whole.
fn encode_by_library(tokenizer: &Tokenizer, query: &str, document: &str) -> Vec<u32> {
    let whole = |text: &str| tokenizer.inner.encode_fast(text, false).unwrap();
    let truncation = TruncationParams {
        direction: match tokenizer.keep_end {
            true => TruncationDirection::Left,
            false => TruncationDirection::Right,
        },
        max_length: tokenizer.pair_room(),
        strategy: TruncationStrategy::LongestFirst,
        stride: 0,
    };
    let pair = truncate_encodings(whole(query), Some(whole(document)), &truncation);
    let (first, second) = pair.unwrap();
    let joined = tokenizer.inner.post_process(first, second, true).unwrap();
    let tokens = joined.get_ids().iter().zip(joined.get_type_ids());
    tokens.map(|(id, kind)| id + kind * SECOND).collect()
}

#[test]
fn parts_that_are_cut_off_are_dropped_before_the_texts_are_joined() {
    let long = "hello ".repeat(MAX_TEXT_BYTES / 6);
    let short = "world";
    for tokenizer in [pairs(16, WINDOW), pairs(16, usize::MAX), keeping_end(16)] {
        for (query, document) in [(&*long, &*long), (&long, short), (short, &long)] {
            let query = tokenizer.tokenize_query(query).unwrap();
            assert!(query.kept.get_overflowing().is_empty());
            let pair = tokenizer.cut_pair(&query, document).unwrap();
            assert!(pair.first.get_overflowing().is_empty());
            assert!(pair.second.get_overflowing().is_empty());
            assert!(pair.truncated);
            let library = &tokenizer.inner;
            let joined = library.post_process(pair.first, Some(pair.second), true);
            let joined = joined.unwrap();
            assert_eq!((joined.len(), joined.get_overflowing().len()), (16, 0));
        }
    }
}

#[test]
fn a_query_is_kept_up_to_the_longest_sequence_and_counted_whole() {
    for tokenizer in [pairs(16, 8), pairs(16, usize::MAX), keeping_end(16)] {
        let query = tokenizer.tokenize_query(&"hello ".repeat(1000)).unwrap();
        assert_eq!((query.kept.len(), query.total), (13, 1000));
    }
}

#[test]
fn a_document_is_tokenized_only_as_far_as_its_tokens_count() {
    let document = "world ".repeat(1000);
    let tokenizer = pairs(16, 24);
    for enough in [1, 14, 100] {
        let document = tokenizer.tokenize_until(&document, enough).unwrap();
        assert!(
            (enough..enough + 5).contains(&document.total),
            "{}",
            document.total
        );
        assert_eq!(document.kept.len(), document.total.min(13));
    }
}

#[test]
fn the_room_is_shared_like_the_library_does() {
    let tokens = |count: usize| {
        let zeros = || vec![0; count];
        let words = vec![String::new(); count];
        let offsets = vec![(0, 0); count];
        let none = vec![None; count];
        let ranges = Default::default();
        let (kinds, special, attention) = (zeros(), zeros(), zeros());
        Encoding::new(
            zeros(),
            kinds,
            words,
            none,
            offsets,
            special,
            attention,
            Vec::new(),
            ranges,
        )
    };
    for (room, first, second) in (0..9_usize)
        .flat_map(|room| (0..20).map(move |first| (room, first)))
        .flat_map(|(room, first)| (0..20).map(move |second| (room, first, second)))
    {
        let truncation = TruncationParams {
            direction: TruncationDirection::Right,
            max_length: room,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let (one, two) =
            truncate_encodings(tokens(first), Some(tokens(second)), &truncation).unwrap();
        let shared = (one.len(), two.unwrap().len());
        assert_eq!(share_room(room, first, second), shared);
        // More tokens than are counted of a document do not matter.
        let counted = second.min(first.max(room + 1));
        assert_eq!(share_room(room, first, counted), shared);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn neither_cuts_nor_a_shared_query_change_a_pair(
        query in text(),
        documents in prop::collection::vec(text(), 1..4),
        window in 4usize..40,
        max_tokens in 5usize..24,
    ) {
        for tokenizer in [pairs(max_tokens, window), keeping_end(max_tokens)] {
            let shared = tokenizer.tokenize_query(&query).unwrap();
            for document in &documents {
                let pair = tokenizer.encode_document(&shared, document).unwrap();
                prop_assert_eq!(&*pair.ids, &encode_by_library(&tokenizer, &query, document));
                prop_assert_eq!(&pair, &tokenizer.encode_pair(&query, document).unwrap());
                let whole = |text: &str| tokenizer.inner.encode_fast(text, false).unwrap().len();
                prop_assert_eq!(pair.truncated, whole(&query) + whole(document) > tokenizer.pair_room());
            }
        }
    }
}
