use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::*;
use crate::{Encoder, EngineChoice, Precision, Tokenizer, Weight};

/// A tokenizer like BERT's, whose pairs have two types of tokens.
fn tokenizer_json() -> Value {
    let words = (0..10).map(|n| format!("word{n}"));
    let json = fixtures::tokenizer::tokenizer_json(words);
    let mut json: Value = serde_json::from_slice(&json).unwrap();
    let special = |id: &str, kind: u32| json!({"SpecialToken": {"id": id, "type_id": kind}});
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    json["post_processor"]["pair"] = json!([
        special("[CLS]", 0),
        text("A", 0),
        special("[SEP]", 0),
        text("B", 1),
        special("[SEP]", 1),
    ]);
    json
}

fn folder() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        (
            MODULES,
            json!([{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}]),
        ),
        (
            MODEL,
            json!({"model_type": "CrossEncoder", "prompts": {}, "activation_fn": "torch.nn.modules.linear.Identity"}),
        ),
        (
            TRANSFORMER,
            json!({"transformer_task": "sequence-classification", "module_output_name": "scores"}),
        ),
        (
            CONFIG,
            json!({
                "architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"},
                "model_type": "bert", "hidden_size": 32, "num_attention_heads": 1, "num_hidden_layers": 1,
                "intermediate_size": 64, "vocab_size": 20, "max_position_embeddings": 16,
                "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
            }),
        ),
        (
            "tokenizer_config.json",
            json!({"model_max_length": 12, "tokenizer_class": "BertTokenizer"}),
        ),
        ("tokenizer.json", tokenizer_json()),
    ])
}

fn describe(folder: &BTreeMap<&'static str, Value>) -> Result<Recipe, String> {
    let files = ModelFiles {
        contents: folder
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string().into_bytes()))
            .collect(),
        others: ["model.safetensors".to_owned()].into(),
    };
    Recipe::read(&files).map_err(|error| error.to_string())
}

/// The folder with another value of a member, or without it for `null`.
fn change(file: &'static str, member: &str, value: Value) -> Result<Recipe, String> {
    let mut folder = folder();
    let members = folder.get_mut(file).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => members.remove(member),
        value => members.insert(member.to_owned(), value),
    };
    describe(&folder)
}

fn build(recipe: &Recipe) -> (Tokenizer, Arc<dyn Encoder>) {
    let mut tensors: BTreeMap<String, Weight> = BTreeMap::new();
    let mut add = |name: &str, shape: Vec<usize>| {
        let values = (0..shape.iter().product())
            .map(|n: usize| ((n * 7919 + name.len() * 31) % 97) as f32 / 97.0 - 0.5)
            .collect();
        tensors.insert(name.to_owned(), Weight { shape, values });
    };
    for (name, shape) in recipe.shape().unwrap().tensors() {
        add(&format!("bert.{name}"), shape);
    }
    for (name, shape) in [
        ("bert.pooler.dense.weight", vec![32, 32]),
        ("bert.pooler.dense.bias", vec![32]),
        ("classifier.weight", vec![1, 32]),
        ("classifier.bias", vec![1]),
    ] {
        add(name, shape);
    }
    let weights = Weights::new(tensors).unwrap();
    let weights = BTreeMap::from([("model.safetensors".to_owned(), weights)]);
    let one = NonZeroUsize::MIN;
    let encoder = recipe.build(weights, EngineChoice::Auto, Precision::F32, one);
    let tokenizer = recipe.tokenizer(tokenizer_json().to_string().as_bytes());
    (tokenizer.unwrap(), encoder.unwrap())
}

#[test]
fn a_pair_becomes_one_sequence_and_one_number() {
    let recipe = describe(&folder()).unwrap();
    assert!(recipe.is_cross_encoder());
    assert_eq!(recipe.max_tokens(), 12);
    let (tokenizer, encoder) = build(&recipe);
    assert_eq!((encoder.dimension(), encoder.is_normalised()), (1, false));
    assert_eq!(tokenizer.vocabulary(), 20 + 15);
    let pair = tokenizer.encode_pair("word0", "word1 word2").unwrap();
    // 20 is added to tokens of the second type.
    assert_eq!(*pair.ids, [2, 5, 3, 26, 27, 23]);
    assert!(!pair.truncated);
    let untyped: Vec<u32> = pair.ids.iter().map(|id| id % 20).collect();
    let scores = encoder.encode(&[&pair.ids, &untyped]).unwrap();
    assert!((scores[0] - scores[1]).abs() > 1e-4, "{scores:?}");
}

#[test]
fn the_longer_text_is_truncated_first() {
    let (tokenizer, _) = build(&describe(&folder()).unwrap());
    let long = "word1 ".repeat(20);
    for (query, document, of_query) in [("word0 word0", &*long, 2), (&long, "word0", 8)] {
        let pair = tokenizer.encode_pair(query, document).unwrap();
        assert_eq!((pair.ids.len(), pair.truncated), (12, true));
        assert_eq!(pair.ids[1 + of_query], 3, "{:?}", pair.ids);
    }
    let longer = "x".repeat(crate::tokenize::MAX_TEXT_BYTES + 1);
    assert!(tokenizer.encode_pair("a", &longer).is_err());
    assert!(tokenizer.encode_pair(&longer, "a").is_err());
}

#[test]
fn settings_are_obeyed_or_refused_by_name() {
    for (file, member, value, named) in [
        (
            CONFIG,
            "id2label",
            json!({"0": "no", "1": "yes"}),
            "id2label has 2 labels",
        ),
        (CONFIG, "id2label", json!(null), "id2label has 2 labels"),
        (
            CONFIG,
            "architectures",
            json!(["T5ForSequenceClassification"]),
            "architectures",
        ),
        (
            CONFIG,
            "architectures",
            json!(["RobertaForSequenceClassification"]),
            "architectures",
        ),
        (CONFIG, "unheard_of", json!(true), "unheard_of"),
        (CONFIG, "max_position_embeddings", json!(8), ""),
        (
            MODEL,
            "activation_fn",
            json!("mine.Softmax"),
            "activation_fn mine.Softmax",
        ),
        (MODEL, "prompts", json!({"query": "q: "}), "prompts"),
        (
            MODEL,
            "default_prompt_name",
            json!("query"),
            "default_prompt_name",
        ),
        (
            TRANSFORMER,
            "transformer_task",
            json!("fill-mask"),
            "transformer_task",
        ),
        (TRANSFORMER, "query_length", json!(32), "query_length"),
        (
            "tokenizer_config.json",
            "truncation_side",
            json!("middle"),
            "truncation_side",
        ),
    ] {
        match change(file, member, value.clone()) {
            Ok(_) => assert_eq!(named, "", "{member}: {value}"),
            Err(error) => assert!(!named.is_empty() && error.contains(named), "{error}"),
        }
    }
    let mut folder = folder();
    folder.insert(
        MODULES,
        json!([
            {"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""},
            {"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "path": "1"},
        ]),
    );
    assert!(describe(&folder).unwrap_err().contains("LogitScore"));
}

#[test]
fn folders_of_transformers_alone_name_their_activation() {
    for (members, expected) in [
        (json!({}), HeadActivation::Sigmoid),
        (
            json!({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}),
            HeadActivation::Identity,
        ),
        (
            json!({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh", "version": "4.1.0"}}),
            HeadActivation::Tanh,
        ),
    ] {
        let mut folder = folder();
        for name in [MODULES, MODEL, TRANSFORMER] {
            folder.remove(name);
        }
        let config = folder.get_mut(CONFIG).unwrap().as_object_mut().unwrap();
        config.extend(members.as_object().unwrap().clone());
        let recipe = describe(&folder).unwrap();
        let Kind::Classifier { classifier, .. } = recipe.source else {
            panic!("not a classifier: {members}")
        };
        assert_eq!(classifier.output, expected, "{members}");
    }
}

#[test]
fn token_types_follow_the_list_of_the_configuration() {
    let one = json!(["input_ids", "attention_mask"]);
    let recipe = change("tokenizer_config.json", "model_input_names", one).unwrap();
    let (tokenizer, encoder) = build(&recipe);
    let pair = tokenizer.encode_pair("word0", "word1").unwrap();
    assert_eq!(*pair.ids, [2, 5, 3, 6, 3]);
    assert_eq!(encoder.vocabulary(), 20);
    // The model cannot tell apart the types that the tokenizer gives it.
    let recipe = change(CONFIG, "type_vocab_size", json!(1)).unwrap();
    let refused = recipe.tokenizer(tokenizer_json().to_string().as_bytes());
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("type 1"), "{refused}");
}
