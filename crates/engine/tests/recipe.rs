//! A folder's settings are obeyed, or refused by name.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use engine::{
    EngineChoice, Head, HeadActivation, HeadStep, ModelFiles, Pooling, Precision, Recipe, Residual,
    Shape, Weight, Weights,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "sentence_transformers.models";

fn module(kind: &str, path: &str) -> Value {
    json!({ "type": format!("{NAMESPACE}.{kind}"), "path": path })
}

/// A BERT of the older generation of files: mean pooling, unit length.
fn files() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        (
            "modules.json",
            json!([
                module("Transformer", ""),
                module("Pooling", "1_Pooling"),
                module("Normalize", "2_Normalize"),
            ]),
        ),
        (
            "config.json",
            json!({
                "model_type": "bert", "hidden_size": 32, "num_attention_heads": 1,
                "num_hidden_layers": 1, "intermediate_size": 64, "vocab_size": 20,
                "max_position_embeddings": 16, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
                "hidden_act": "gelu", "pad_token_id": 0, "attention_probs_dropout_prob": 0.1,
                "is_decoder": false, "transformers_version": "4.44.2",
            }),
        ),
        (
            "1_Pooling/config.json",
            json!({ "word_embedding_dimension": 32, "pooling_mode_mean_tokens": true }),
        ),
        (
            "sentence_bert_config.json",
            json!({ "max_seq_length": 12, "do_lower_case": false }),
        ),
        (
            "tokenizer_config.json",
            json!({ "model_max_length": 16, "tokenizer_class": "BertTokenizer" }),
        ),
        ("tokenizer.json", tokenizer()),
    ])
}

fn tokenizer() -> Value {
    serde_json::from_slice(&fixtures::tokenizer::tokenizer_json(Vec::new())).unwrap()
}

fn read(files: &BTreeMap<&'static str, Value>, others: &[&str]) -> Result<Recipe, String> {
    let contents = files.iter();
    let files = ModelFiles {
        contents: contents
            .map(|(name, value)| ((*name).to_owned(), value.to_string().into_bytes()))
            .collect(),
        others: others.iter().map(|name| (*name).to_owned()).collect(),
    };
    Recipe::read(&files).map_err(|error| {
        assert_eq!(error.code(), "MODEL_UNSUPPORTED");
        error.to_string()
    })
}

const WEIGHTS: &[&str] = &["model.safetensors"];

/// Sets a member of a file, or takes it away with `null`.
fn change(file: &'static str, member: &str, value: Value) -> BTreeMap<&'static str, Value> {
    let mut files = files();
    let members = files.entry(file).or_insert(json!({}));
    let members = members.as_object_mut().unwrap();
    match value {
        Value::Null => members.remove(member),
        value => members.insert(member.to_owned(), value),
    };
    files
}

fn shape(files: &BTreeMap<&'static str, Value>) -> Shape {
    *read(files, WEIGHTS).unwrap().shape().unwrap()
}

#[test]
fn both_generations_of_files_are_read() {
    let older = read(&files(), WEIGHTS).unwrap();
    assert_eq!(older.max_tokens(), 12);
    assert_eq!(older.weight_files(), WEIGHTS);
    assert_eq!(older.plain_shape().unwrap().pooling, Pooling::Mean);

    let mut newer = files();
    let named = |kind: &str, path: &str| json!({ "type": format!("sentence_transformers.base.modules.x.{kind}"), "path": path });
    newer.insert(
        "modules.json",
        json!([
            named("Transformer", ""),
            named("Pooling", "1_Pooling"),
            named("Normalize", "2_Normalize"),
        ]),
    );
    newer.insert(
        "1_Pooling/config.json",
        json!({ "embedding_dimension": 32, "pooling_mode": "lasttoken", "include_prompt": true }),
    );
    newer.insert(
        "2_Normalize/config.json",
        json!({ "module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding" }),
    );
    newer.insert(
        "sentence_bert_config.json",
        json!({
            "transformer_task": "feature-extraction",
            "modality_config": { "text": { "method": "forward", "method_output_name": "last_hidden_state" } },
            "module_output_name": "token_embeddings",
        }),
    );
    let newer = read(&newer, WEIGHTS).unwrap();
    assert_eq!(
        newer.max_tokens(),
        16,
        "the length of the tokenizer's description"
    );
    assert_eq!(newer.plain_shape().unwrap().pooling, Pooling::Last);
}

#[test]
fn the_longest_sequence_is_the_least_limit_that_is_stated() {
    for (stated, limit, positions, expected) in [
        (json!(9), json!(16), 16, 9),
        (json!(null), json!(8), 16, 8),
        (json!(null), json!(1e30), 16, 16),
        (json!(null), json!(null), 14, 14),
    ] {
        let mut files = change(
            "sentence_bert_config.json",
            "max_seq_length",
            stated.clone(),
        );
        files.insert(
            "tokenizer_config.json",
            json!({ "model_max_length": limit }),
        );
        files.get_mut("config.json").unwrap()["max_position_embeddings"] = json!(positions);
        assert_eq!(
            read(&files, WEIGHTS).unwrap().max_tokens(),
            expected,
            "{stated}"
        );
    }
}

#[test]
fn settings_that_are_not_obeyed_are_refused_by_name() {
    let list = |modules: &[(&str, &str)]| -> Value {
        let modules = modules.iter();
        modules.map(|(kind, path)| module(kind, path)).collect()
    };
    for (file, member, value, named) in [
        (
            "config.json",
            "model_type",
            json!("albert"),
            "model_type is `albert`; this build runs bert, ",
        ),
        (
            "config.json",
            "hidden_act",
            json!("mish"),
            "hidden_act is `mish`",
        ),
        (
            "config.json",
            "hidden_size",
            json!(null),
            "hidden_size is missing",
        ),
        (
            "config.json",
            "is_decoder",
            json!(true),
            "is_decoder is true, which is not understood",
        ),
        (
            "config.json",
            "position_embedding_type",
            json!("relative_key"),
            "position_embedding_type",
        ),
        (
            "config.json",
            "x_new\n",
            json!(3),
            "x_new\\n is 3, which is not understood",
        ),
        (
            "config.json",
            "max_position_embeddings",
            json!(8),
            "max_seq_length 12 is above the 8",
        ),
        (
            "sentence_bert_config.json",
            "processing_kwargs",
            json!({ "text": 1 }),
            "processing_kwargs",
        ),
        (
            "sentence_bert_config.json",
            "transformer_task",
            json!("fill-mask"),
            "transformer_task",
        ),
        (
            "sentence_bert_config.json",
            "modality_config",
            json!({ "text": { "method": "forward", "method_output_name": "last_hidden_state" }, "message": {} }),
            "modality_config.message",
        ),
        (
            "sentence_bert_config.json",
            "tokenizer_args",
            json!({ "x": 1 }),
            "x is 1",
        ),
        (
            "tokenizer_config.json",
            "do_lower_case",
            json!(false),
            "tokenizer_class BertTokenizer",
        ),
        (
            "tokenizer_config.json",
            "strip_accents",
            json!(true),
            "tokenizer_class BertTokenizer",
        ),
        (
            "tokenizer_config.json",
            "tokenizer_class",
            json!("RobertaTokenizer"),
            "drops the step BertNormalizer",
        ),
        (
            "tokenizer_config.json",
            "split_special_tokens",
            json!(true),
            "split_special_tokens is true, expected false",
        ),
        (
            "tokenizer_config.json",
            "extra_special_tokens",
            json!(["[MASK]", "new"]),
            "extra_special_tokens has \"new\", which tokenizer.json does not add",
        ),
        (
            "tokenizer_config.json",
            "additional_special_tokens",
            json!({ "named": { "content": "new" } }),
            "additional_special_tokens has",
        ),
        (
            "tokenizer_config.json",
            "mask_token",
            json!({ "content": "<m>", "lstrip": true }),
            "mask_token has",
        ),
        (
            "tokenizer_config.json",
            "cls_token",
            json!("[SEP]"),
            "cls_token is \"[SEP]\", expected \"[CLS]\" of tokenizer.json",
        ),
        (
            "special_tokens_map.json",
            "sep_token",
            json!({ "content": "[CLS]" }),
            "expected \"[SEP]\" of tokenizer.json",
        ),
        (
            "special_tokens_map.json",
            "unk_token",
            json!("[PAD]"),
            "unk_token is \"[PAD]\", expected \"[UNK]\" of tokenizer.json",
        ),
        (
            "added_tokens.json",
            "new",
            json!(30),
            "new has 30, which tokenizer.json does not add",
        ),
        (
            "adapter_config.json",
            "r",
            json!(8),
            "the folder holds an adapter",
        ),
        (
            "tokenizer_config.json",
            "truncation_side",
            json!("middle"),
            "truncation_side is `middle`",
        ),
        (
            "1_Pooling/config.json",
            "pooling_mode_mean_tokens",
            json!(false),
            "pooling_mode names no pooling",
        ),
        (
            "1_Pooling/config.json",
            "pooling_mode",
            json!("median"),
            "pooling_mode is \"median\"",
        ),
        (
            "1_Pooling/config.json",
            "pooling_mode_new",
            json!(true),
            "pooling_mode_new is true",
        ),
        (
            "1_Pooling/config.json",
            "word_embedding_dimension",
            json!(31),
            "embedding_dimension is 31",
        ),
        (
            "config_sentence_transformers.json",
            "default_prompt_name",
            json!("query"),
            "default_prompt_name is `query`",
        ),
        (
            "config_sentence_transformers.json",
            "model_type",
            json!("SparseEncoder"),
            "model_type is \"SparseEncoder\"",
        ),
    ] {
        let error = read(&change(file, member, value), WEIGHTS).err().unwrap();
        assert!(
            error.contains(&format!("{file}: ")) && error.contains(named),
            "{named}: {error}"
        );
    }
    for (modules, named) in [
        (
            list(&[("Transformer", "")]),
            "nothing follows the Transformer",
        ),
        (
            list(&[("Pooling", "1_Pooling")]),
            "the first module is Pooling",
        ),
        (
            list(&[("Transformer", ""), ("CNN", "1_CNN")]),
            "sentence_transformers.models.CNN",
        ),
        (
            list(&[("Transformer", "../x"), ("Pooling", "1_Pooling")]),
            "leaves the folder",
        ),
        (
            json!([{ "type": "other.Transformer", "path": "" }]),
            "other.Transformer",
        ),
        (json!({}), "not a list"),
        (
            list(&[
                ("Transformer", ""),
                ("Pooling", "1_Pooling"),
                ("Transformer", "2"),
            ]),
            "Transformer is not understood in this place",
        ),
    ] {
        let mut files = files();
        files.insert("modules.json", modules);
        let error = read(&files, WEIGHTS).err().unwrap();
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[test]
fn all_problems_are_listed_at_once() {
    let mut files = change("config.json", "hidden_act", json!("mish"));
    files.remove("tokenizer.json");
    let error = read(&files, &["pytorch_model.bin"]).err().unwrap();
    for named in [
        "hidden_act",
        "tokenizer.json: the file is missing",
        "pytorch_model.bin: weights in a pickle",
    ] {
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[test]
fn a_prompt_that_pooling_would_leave_out_is_refused() {
    let mut files = change("1_Pooling/config.json", "include_prompt", json!(false));
    assert!(
        read(&files, WEIGHTS).is_ok(),
        "without prompts it makes no difference"
    );
    files.insert(
        "config_sentence_transformers.json",
        json!({ "prompts": { "query": "find: " } }),
    );
    let error = read(&files, WEIGHTS).err().unwrap();
    assert!(error.contains("include_prompt is false"), "{error}");
}

#[test]
fn shards_are_those_of_the_index() {
    let mut files = files();
    files.insert(
        "model.safetensors.index.json",
        json!({ "weight_map": { "a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors" } }),
    );
    let both = ["model-1.safetensors", "model-2.safetensors"];
    assert_eq!(read(&files, &both).unwrap().weight_files(), both);
    let error = read(&files, &both[..1]).err().unwrap();
    assert!(
        error.contains("model-2.safetensors: the file is missing"),
        "{error}"
    );
}

#[test]
fn one_file_of_weights_counts_before_an_index() {
    let mut files = files();
    files.insert(
        "model.safetensors.index.json",
        json!({ "weight_map": { "a": "model-1.safetensors" } }),
    );
    let both = ["model-1.safetensors", "model.safetensors"];
    let recipe = read(&files, &both).unwrap();
    assert_eq!(recipe.weight_files(), WEIGHTS);
}

#[test]
fn special_tokens_that_all_files_name_alike_are_read() {
    let mut files = change("tokenizer_config.json", "cls_token", json!("[CLS]"));
    files.insert(
        "special_tokens_map.json",
        json!({
            "cls_token": { "content": "[CLS]", "lstrip": false }, "sep_token": "[SEP]", "unk_token": "[UNK]",
            "bos_token": null, "additional_special_tokens": ["[MASK]"],
        }),
    );
    assert!(read(&files, WEIGHTS).is_ok());
    // A class that takes them from tokenizer.json may name others.
    let generic = files.get_mut("tokenizer_config.json").unwrap();
    *generic = json!({ "tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[SEP]" });
    assert!(read(&files, WEIGHTS).is_ok());
}

#[test]
fn sizes_that_would_overflow_are_refused() {
    let huge = json!(u64::MAX - 1);
    let mut files = change("config.json", "pad_token_id", huge.clone());
    files.get_mut("config.json").unwrap()["model_type"] = json!("roberta");
    let error = read(&files, WEIGHTS).err().unwrap();
    assert!(error.contains("pad_token_id is"), "{error}");

    let mut files = change("config.json", "hidden_size", huge.clone());
    files.insert(
        "1_Pooling/config.json",
        json!({ "pooling_mode": ["cls", "mean"] }),
    );
    let error = read(&files, WEIGHTS).err().unwrap();
    assert!(error.contains("hidden_size is"), "{error}");

    for (member, value) in [
        ("num_hidden_layers", huge.clone()),
        ("global_attn_every_n_layers", huge.clone()),
    ] {
        let mut files = modernbert();
        files.get_mut("config.json").unwrap()["num_hidden_layers"] = json!(u64::MAX);
        files.get_mut("config.json").unwrap()[member] = value;
        let error = read(&files, WEIGHTS).err().unwrap();
        assert!(error.contains("num_hidden_layers is"), "{error}");
    }
}

fn modernbert() -> BTreeMap<&'static str, Value> {
    let mut files = files();
    files.insert(
        "config.json",
        json!({
            "model_type": "modernbert", "hidden_size": 32, "num_attention_heads": 1, "num_hidden_layers": 4,
            "intermediate_size": 64, "vocab_size": 20, "max_position_embeddings": 16, "norm_eps": 1e-5,
            "hidden_activation": "gelu", "local_attention": 6,
        }),
    );
    files
}

#[test]
fn layers_with_local_attention_follow_their_pattern() {
    let mut files = modernbert();
    let local = shape(&files).attention.local.unwrap();
    assert_eq!((local.reach, local.every, local.full), (3, 3, 0));
    let types = |layers: [&str; 4]| layers.map(|layer| format!("{layer}_attention"));
    for (layers, expected) in [
        (["sliding", "full", "sliding", "full"], Ok(Some((2, 1)))),
        (["full", "full", "full", "full"], Ok(None)),
        (
            ["sliding", "sliding", "sliding", "sliding"],
            Ok(Some((5, 4))),
        ),
        (
            ["full", "full", "sliding", "sliding"],
            Err("repeats no pattern"),
        ),
        (
            ["full", "full", "full", "chunked"],
            Err("chunked_attention"),
        ),
    ] {
        files.get_mut("config.json").unwrap()["layer_types"] = json!(types(layers));
        match (read(&files, WEIGHTS), expected) {
            (Ok(recipe), Ok(expected)) => {
                let local = recipe.shape().unwrap().attention.local;
                assert_eq!(
                    local.map(|local| (local.every, local.full)),
                    expected,
                    "{layers:?}"
                );
            }
            (Err(error), Err(named)) => assert!(error.contains(named), "{error}"),
            (found, expected) => panic!("{layers:?}: {found:?}, expected {expected:?}"),
        }
    }
}

/// The members of `config.json` that are changed, and the thetas that follow or a part of the refusal.
type Thetas = (Value, Result<(f32, f32), &'static str>);

#[test]
fn thetas_are_those_of_transformers() {
    let parameters = |local: Value| json!({ "rope_parameters": { "full_attention": { "rope_theta": 5.0 }, "sliding_attention": local } });
    let with_older = |mut members: Value| {
        members["local_rope_theta"] = json!(7.0);
        members
    };
    let cases: [Thetas; 12] = [
        (json!({}), Ok((160_000.0, 10_000.0))),
        (json!({ "local_rope_theta": 7 }), Ok((160_000.0, 7.0))),
        // Transformers keeps the null, and fails where it computes with it.
        (
            json!({ "local_rope_theta": null }),
            Err("local_rope_theta is null"),
        ),
        (
            json!({ "global_rope_theta": null }),
            Err("global_rope_theta is null"),
        ),
        (
            parameters(json!({ "rope_theta": null })),
            Err("rope_theta is null"),
        ),
        (parameters(json!(null)), Err("sliding_attention is null")),
        (parameters(json!({})), Ok((5.0, 10_000.0))),
        (with_older(parameters(json!({}))), Ok((5.0, 7.0))),
        (
            with_older(parameters(json!({ "rope_theta": 9 }))),
            Ok((5.0, 9.0)),
        ),
        (
            json!({ "partial_rotary_factor": 1 }),
            Ok((160_000.0, 10_000.0)),
        ),
        (
            parameters(json!({ "rope_theta": 9, "partial_rotary_factor": 1.0 })),
            Ok((5.0, 9.0)),
        ),
        (
            parameters(json!({ "rope_theta": 9, "partial_rotary_factor": 0.5 })),
            Err("partial_rotary_factor is 0.5, expected 1.0"),
        ),
    ];
    for (members, expected) in cases {
        let mut files = modernbert();
        let config = files.get_mut("config.json").unwrap();
        let config = config.as_object_mut().unwrap();
        config.extend(members.as_object().unwrap().clone());
        match (read(&files, WEIGHTS), expected) {
            (Ok(recipe), Ok(expected)) => {
                let rotary = recipe.shape().unwrap().rotary;
                assert_eq!((rotary.theta, rotary.local_theta), expected, "{members}");
            }
            (Err(error), Err(named)) => assert!(error.contains(named), "{error}"),
            (found, expected) => panic!("{members}: {found:?}, expected {expected:?}"),
        }
    }
}

fn random(shape: &Shape) -> Weights {
    let tensors = shape.tensors().into_iter().map(|(name, shape)| {
        let values =
            (0..shape.iter().product()).map(|n: usize| (n * 37 % 101) as f32 / 101.0 - 0.5);
        let values = values.collect();
        (name, Weight { shape, values })
    });
    Weights::new(tensors.collect()).unwrap()
}

#[test]
fn steps_after_pooling_are_the_modules_in_order() {
    let mut files = files();
    files.insert(
        "modules.json",
        json!([
            module("Transformer", ""),
            module("Pooling", "1_Pooling"),
            module("Dense", "2_Dense"),
            module("Dropout", "3_Dropout"),
            module("Normalize", "4_Normalize"),
        ]),
    );
    files.insert(
        "1_Pooling/config.json",
        json!({ "embedding_dimension": 32, "pooling_mode": ["cls", "mean"] }),
    );
    files.insert(
        "2_Dense/config.json",
        json!({
            "in_features": 64, "out_features": 5, "bias": false,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }),
    );
    files.insert(
        "config_sentence_transformers.json",
        json!({ "truncate_dim": 3 }),
    );
    let names = ["model.safetensors", "2_Dense/model.safetensors"];
    let recipe = read(&files, &names).unwrap();
    assert_eq!(recipe.weight_files(), names);
    assert!(recipe.plain_shape().is_none());
    let shape = *recipe.shape().unwrap();
    let dense: Vec<f32> = (0..5 * 64).map(|n| (n % 7) as f32 * 0.1 - 0.3).collect();
    let tensor = Weight {
        shape: vec![5, 64],
        values: dense.clone(),
    };
    let of_dense = Weights::new(BTreeMap::from([("linear.weight".to_owned(), tensor)])).unwrap();
    let weights = BTreeMap::from([
        (names[0].to_owned(), random(&shape)),
        (names[1].to_owned(), of_dense),
    ]);
    let one = NonZeroUsize::MIN;
    let encoder = recipe
        .build(weights, EngineChoice::Auto, Precision::F32, one)
        .unwrap();
    let steps = vec![
        HeadStep::Dense {
            weights: dense,
            bias: vec![0.0; 5],
            activation: HeadActivation::Tanh,
            residual: Residual::None,
        },
        HeadStep::Normalise,
        HeadStep::Truncate(3),
    ];
    let head = Head::new(32, vec![Pooling::First, Pooling::Mean], steps);
    let same = EngineChoice::Candle.build_with(shape, head, random(&shape), Precision::F32, one);
    let tokens: &[&[u32]] = &[&[1, 5, 2], &[3]];
    let (found, expected) = (
        encoder.encode(tokens).unwrap(),
        same.unwrap().encode(tokens).unwrap(),
    );
    assert_eq!((encoder.dimension(), found.len()), (3, 6));
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

/// A Dense whose `bias` has this value, with weights that have a bias or not.
fn build_dense(bias: Option<Value>, has_tensor: bool) -> Result<(), String> {
    let mut files = files();
    files.insert(
        "modules.json",
        json!([
            module("Transformer", ""),
            module("Pooling", "1_Pooling"),
            module("Dense", "2_Dense"),
        ]),
    );
    let mut config = json!({ "in_features": 32, "out_features": 1 });
    if let Some(bias) = bias {
        config["bias"] = bias;
    }
    files.insert("2_Dense/config.json", config);
    let names = ["model.safetensors", "2_Dense/model.safetensors"];
    let recipe = read(&files, &names)?;
    let zeros = |shape: &[usize]| Weight {
        shape: shape.to_vec(),
        values: vec![0.0; shape.iter().product()],
    };
    let mut dense = BTreeMap::from([("linear.weight".to_owned(), zeros(&[1, 32]))]);
    if has_tensor {
        dense.insert("linear.bias".to_owned(), zeros(&[1]));
    }
    let weights = BTreeMap::from([
        (names[0].to_owned(), random(recipe.shape().unwrap())),
        (names[1].to_owned(), Weights::new(dense).unwrap()),
    ]);
    let one = NonZeroUsize::MIN;
    let built = recipe.build(weights, EngineChoice::Auto, Precision::F32, one);
    built.map(drop).map_err(|error| error.code().to_owned())
}

#[test]
fn a_dense_has_a_bias_where_sentence_transformers_gives_it_one() {
    for (bias, has_bias) in [
        (None, true),
        (Some(json!(true)), true),
        (Some(json!(1)), true),
        (Some(json!(0.5)), true),
        (Some(json!(false)), false),
        (Some(json!(0)), false),
        (Some(json!(null)), false),
    ] {
        assert_eq!(build_dense(bias.clone(), has_bias), Ok(()), "{bias:?}");
        let refusal = match has_bias {
            true => "ENGINE_TENSOR_MISSING",
            false => "ENGINE_TENSOR_UNUSED",
        };
        assert_eq!(
            build_dense(bias.clone(), !has_bias),
            Err(refusal.to_owned()),
            "{bias:?}"
        );
    }
    let refused = build_dense(Some(json!("yes")), true).err().unwrap();
    assert!(
        refused.contains("bias is \"yes\", expected true or false"),
        "{refused}"
    );
}

#[test]
fn texts_for_a_static_table_are_truncated_as_the_tokenizer_says() {
    let files = |truncation: Value| {
        let mut tokenizer = tokenizer();
        tokenizer["truncation"] = truncation;
        BTreeMap::from([
            ("modules.json", json!([module("StaticEmbedding", "0")])),
            ("0/tokenizer.json", tokenizer),
        ])
    };
    let truncation = |length: u32, side: &str, strategy: &str| json!({ "max_length": length, "direction": side, "strategy": strategy, "stride": 0 });
    let text = "[MASK] [SEP] [CLS]";
    let names = ["0/model.safetensors"];
    for (truncation, expected) in [
        (json!(null), &[4, 3, 2][..]),
        (truncation(9, "Right", "LongestFirst"), &[4, 3, 2]),
        (truncation(2, "Right", "OnlyFirst"), &[4, 3]),
        (truncation(2, "Left", "LongestFirst"), &[3, 2]),
    ] {
        let files = files(truncation);
        let recipe = read(&files, &names).unwrap();
        let json = files["0/tokenizer.json"].to_string();
        let tokens = recipe.tokenizer(json.as_bytes()).unwrap().encode(text);
        assert_eq!(tokens.unwrap().ids.as_slice(), expected);
    }
    for unclear in [
        truncation(0, "Right", "LongestFirst"),
        truncation(2, "Middle", "LongestFirst"),
        truncation(2, "Left", "OnlySecond"),
        json!(7),
    ] {
        let error = read(&files(unclear), &names).err().unwrap();
        assert!(error.contains("0/tokenizer.json: truncation is"), "{error}");
    }
}

#[test]
fn a_static_table_is_averaged() {
    let mut files = BTreeMap::from([
        (
            "modules.json",
            json!([module("StaticEmbedding", "0"), module("Normalize", "1")]),
        ),
        ("0/tokenizer.json", tokenizer()),
    ]);
    let names = ["0/model.safetensors"];
    let recipe = read(&files, &names).unwrap();
    let table = Weight {
        shape: vec![3, 2],
        values: vec![1.0, 0.0, 0.0, 1.0, 3.0, 3.0],
    };
    let weights = Weights::new(BTreeMap::from([("embedding.weight".to_owned(), table)])).unwrap();
    let weights = BTreeMap::from([(names[0].to_owned(), weights)]);
    let built = recipe.build(
        weights,
        EngineChoice::Auto,
        Precision::F32,
        NonZeroUsize::MIN,
    );
    let encoder = built.unwrap();
    assert_eq!((encoder.name(), encoder.dimension()), ("static-f32", 2));
    let half = 0.5_f32.sqrt();
    assert_eq!(
        encoder.encode(&[&[1], &[0, 1], &[]]).unwrap(),
        [0.0, 1.0, half, half, 0.0, 0.0]
    );

    files.insert(
        "modules.json",
        json!([module("StaticEmbedding", "0"), module("Pooling", "1")]),
    );
    let error = read(&files, &names).err().unwrap();
    assert!(
        error.contains("Pooling is not understood in this place"),
        "{error}"
    );
}
