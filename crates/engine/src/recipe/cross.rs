//! Reads a cross-encoder: an encoder with a classifier of one label, which scores a pair of texts as sentence-transformers'
//! `CrossEncoder` does.

use serde_json::{Value, json};

use super::settings::{Problems, Settings};
use super::{Kind, ModelFiles, Problem, Prompts, Recipe, config, modules, text};
use crate::weights::Weights;
use crate::{
    Activation, Architecture, HeadActivation, HeadStep, LoadError, Pooling, Residual, Shape,
};

const MODEL: &str = "config_sentence_transformers.json";
const MODULES: &str = "modules.json";
const CONFIG: &str = "config.json";
const TRANSFORMER: &str = "sentence_bert_config.json";
const CLASS: &str = "ForSequenceClassification";

/// From the encoder's states to the score.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Classifier {
    names: &'static Names,
    /// The first layer has a bias.
    bias: bool,
    activation: HeadActivation,
    /// The norm has a shift.
    shift: bool,
    /// After the last layer.
    output: HeadActivation,
}

/// The names of a classifier's tensors.
#[derive(Debug, PartialEq)]
struct Names {
    class: &'static str,
    architecture: Architecture,
    dense: &'static str,
    norm: Option<&'static str>,
    output: &'static str,
    activation: HeadActivation,
}

const ROBERTA: Names = Names {
    class: "Roberta",
    architecture: Architecture::Roberta,
    dense: "classifier.dense",
    norm: None,
    output: "classifier.out_proj",
    activation: HeadActivation::Tanh,
};

/// The classes that are run, without the end that all have.
static CLASSES: [Names; 7] = [
    Names {
        class: "Bert",
        architecture: Architecture::Bert,
        dense: "bert.pooler.dense",
        output: "classifier",
        ..ROBERTA
    },
    Names {
        class: "Camembert",
        ..ROBERTA
    },
    Names {
        class: "DistilBert",
        architecture: Architecture::DistilBert,
        dense: "pre_classifier",
        output: "classifier",
        activation: HeadActivation::Of(Activation::Relu),
        ..ROBERTA
    },
    Names {
        class: "MPNet",
        architecture: Architecture::Mpnet,
        ..ROBERTA
    },
    Names {
        class: "ModernBert",
        architecture: Architecture::ModernBert,
        dense: "head.dense",
        norm: Some("head.norm"),
        output: "classifier",
        // The configuration names another one.
        activation: HeadActivation::Of(Activation::Gelu),
    },
    ROBERTA,
    Names {
        class: "XLMRoberta",
        ..ROBERTA
    },
];

/// Whether a folder is a cross-encoder: it says so, or it has a classifier and no modules.
pub(super) fn is_described(files: &ModelFiles) -> bool {
    let member = |file: &str, name: &str| -> Option<Value> {
        let value: Value = serde_json::from_slice(files.contents.get(file)?).ok()?;
        value.get(name).cloned()
    };
    if files.contents.contains_key(MODULES) {
        return member(MODEL, "model_type") == Some(json!("CrossEncoder"));
    }
    let classes = member(CONFIG, "architectures");
    let first = classes
        .as_ref()
        .and_then(|classes| classes.get(0)?.as_str());
    first.is_some_and(|class| class.ends_with(CLASS))
}

/// Reads the whole folder.
pub(super) fn read(files: &ModelFiles) -> Result<Recipe, Vec<Problem>> {
    let mut problems = Problems::new(files);
    read_modules(&mut problems);
    let stated = read_model(&mut problems);
    let (mut contents, others) = (files.contents.clone(), files.others.clone());
    if let Some(transformer) = read_transformer(&mut problems) {
        contents.insert(TRANSFORMER.to_owned(), transformer);
    }
    let mut classifier = None;
    if let Some(mut settings) = problems.settings(CONFIG) {
        classifier = read_classifier(&mut settings, stated, &mut problems);
        contents.insert(CONFIG.to_owned(), settings.into_json());
    }
    let mut list = problems.into_list();

    // The rest is read as that of an encoder of single texts.
    let rest = ModelFiles { contents, others };
    let mut problems = Problems::new(&rest);
    let shape = config::read(CONFIG, &mut problems);
    let text = text::read("", shape.as_ref(), &mut problems);
    let weight_files = modules::find_weights("", &mut problems);
    let read_types = has_token_types(&mut problems);
    let recipe = classifier.zip(shape).zip(text);
    let recipe = recipe.map(|(((mut classifier, pooling), mut shape), text)| {
        shape.max_tokens = text.max_tokens;
        shape.pooling = pooling;
        classifier.shift = shape.biases.norm;
        check(&classifier, &shape, &mut problems);
        let types = if read_types { shape.token_types } else { 0 };
        Recipe {
            source: Kind::Classifier {
                shape,
                classifier,
                types,
            },
            steps: Vec::new(),
            text,
            prompts: Prompts::default(),
            weight_files,
        }
    });
    list.extend(problems.into_list());
    match recipe {
        Some(recipe) if list.is_empty() => Ok(recipe),
        _ => Err(list),
    }
}

fn check(classifier: &Classifier, shape: &Shape, problems: &mut Problems<'_>) {
    if let Err(error) = shape.check_sizes() {
        let message = error.to_string();
        let message = message.strip_prefix("config.json: ").unwrap_or(&message);
        problems.add(CONFIG, message);
    }
    if classifier.names.architecture != shape.architecture {
        let message = format!(
            "architectures is {}{CLASS}, which is not the classifier of this model_type",
            classifier.names.class
        );
        problems.add(CONFIG, message);
    }
    // The epsilon of a norm after pooling.
    if classifier.names.norm.is_some() && shape.norm_epsilon != 1e-5 {
        let message = format!("norm_eps is {}, expected 1e-5", shape.norm_epsilon);
        problems.add(CONFIG, message);
    }
}

fn read_modules(problems: &mut Problems<'_>) {
    if !problems.has(MODULES) {
        return;
    }
    let list = problems.parse(MODULES).unwrap_or_default();
    let modules = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if modules.is_empty() {
        problems.add(MODULES, "the file is not a list of modules");
    }
    for (number, module) in modules.iter().enumerate() {
        let text = |name: &str| module.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = text("type");
        let is_transformer = kind.starts_with("sentence_transformers.")
            && kind.ends_with(".Transformer")
            && text("path").is_empty();
        if number > 0 || !is_transformer {
            let message = format!(
                "type {} is not understood in a cross-encoder, expected one Transformer",
                kind.escape_default()
            );
            problems.add(MODULES, message);
        }
    }
}

/// The activation of the score that `config_sentence_transformers.json` names.
fn read_model(problems: &mut Problems<'_>) -> Option<String> {
    let mut settings = problems.optional_settings(MODEL);
    settings.ignore(&["__version__", "keep_in_fp32_modules", "similarity_fn_name"]);
    settings.expect("model_type", &json!("CrossEncoder"), problems);
    let activation = settings.text("activation_fn", problems);
    settings.finish(problems);
    activation
}

/// Checks the members about scores, and returns the file without them.
fn read_transformer(problems: &mut Problems<'_>) -> Option<Vec<u8>> {
    if !problems.has(TRANSFORMER) {
        return None;
    }
    let mut settings = problems.settings(TRANSFORMER)?;
    for (name, expected) in [
        ("transformer_task", json!("sequence-classification")),
        ("module_output_name", json!("scores")),
        (
            "modality_config",
            json!({"text": {"method": "forward", "method_output_name": "logits"}}),
        ),
    ] {
        settings.expect(name, &expected, problems);
    }
    Some(settings.into_json())
}

/// Takes the members about the classifier.
fn read_classifier(
    settings: &mut Settings,
    stated: Option<String>,
    problems: &mut Problems<'_>,
) -> Option<(Classifier, Pooling)> {
    let older = settings.text("sbert_ce_default_activation_function", problems);
    let mut of_model = settings.object("sentence_transformers", problems);
    let own = of_model.as_mut().and_then(|of_model| {
        of_model.ignore(&["version"]);
        of_model.text("activation_fn", problems)
    });
    if let Some(of_model) = of_model {
        of_model.finish(problems);
    }
    let output = match stated.or(own).or(older).as_deref() {
        None | Some("torch.nn.modules.activation.Sigmoid" | "torch.nn.Sigmoid") => {
            HeadActivation::Sigmoid
        }
        Some("torch.nn.modules.linear.Identity" | "torch.nn.Identity") => HeadActivation::Identity,
        Some("torch.nn.modules.activation.Tanh") => HeadActivation::Tanh,
        Some(other) => {
            let message = format!(
                "activation_fn {} is not understood, expected Sigmoid, Identity or Tanh of torch.nn",
                other.escape_default()
            );
            problems.add(&settings.file, message);
            HeadActivation::Identity
        }
    };
    let named = settings.take("id2label");
    let named = named.as_ref().and_then(Value::as_object);
    let stated = settings.optional_number("num_labels", problems);
    // Transformers gives a classifier two labels where nothing says how many.
    let labels = named.map(serde_json::Map::len).or(stated).unwrap_or(2);
    if labels != 1 {
        let message = format!("id2label has {labels} labels, expected 1: a score");
        problems.add(&settings.file, message);
    }
    let names = read_class(settings, problems)?;
    let (mut bias, mut activation, mut pooling) = (true, names.activation, Pooling::First);
    if names.architecture == Architecture::ModernBert {
        bias = settings.flag("classifier_bias", problems);
        let text = settings.text("classifier_activation", problems);
        activation = match text.as_deref() {
            None | Some("gelu") => HeadActivation::Of(Activation::Gelu),
            Some("gelu_new" | "gelu_pytorch_tanh") => HeadActivation::Of(Activation::GeluTanh),
            Some("relu") => HeadActivation::Of(Activation::Relu),
            Some("silu" | "swish") => HeadActivation::Of(Activation::Silu),
            Some("tanh") => HeadActivation::Tanh,
            Some(other) => {
                let expected = "gelu, gelu_new, relu, silu or tanh";
                settings.report("classifier_activation", &json!(other), expected, problems);
                activation
            }
        };
        let text = settings.text("classifier_pooling", problems);
        pooling = match text.as_deref() {
            None | Some("cls") => Pooling::First,
            Some("mean") => Pooling::Mean,
            Some(other) => {
                settings.report("classifier_pooling", &json!(other), "cls or mean", problems);
                pooling
            }
        };
    }
    let classifier = Classifier {
        names,
        bias,
        activation,
        shift: true,
        output,
    };
    Some((classifier, pooling))
}

fn read_class(settings: &mut Settings, problems: &mut Problems<'_>) -> Option<&'static Names> {
    let classes = settings.take("architectures").unwrap_or_default();
    let class = classes.get(0).and_then(Value::as_str).unwrap_or_default();
    let found = class.strip_suffix(CLASS);
    let found = found.and_then(|class| CLASSES.iter().find(|names| names.class == class));
    if found.is_none() {
        let known: Vec<_> = CLASSES.iter().map(|names| names.class).collect();
        let message = format!(
            "architectures is {}; this build scores pairs with {CLASS} of {}",
            class.escape_default(),
            known.join(", ")
        );
        problems.add(&settings.file, message);
    }
    found
}

/// Whether the tokenizer gives the model the types of its tokens: by the list in its configuration, otherwise by its class.
fn has_token_types(problems: &mut Problems<'_>) -> bool {
    let mut settings = problems.optional_settings("tokenizer_config.json");
    if let Some(Value::Array(names)) = settings.take("model_input_names") {
        return names.contains(&json!("token_type_ids"));
    }
    let class = settings.text("tokenizer_class", problems);
    let class = class.unwrap_or_default();
    // The class of these gives none, whatever their template holds.
    let without = ["Roberta", "Camembert", "DistilBert", "MPNet"];
    !without.iter().any(|name| class.contains(name))
}

impl Classifier {
    /// Takes the classifier's tensors.
    pub(super) fn build(
        &self,
        weights: &mut Weights,
        hidden: usize,
    ) -> Result<Vec<HeadStep>, LoadError> {
        let Names {
            dense,
            norm,
            output,
            ..
        } = self.names;
        let mut take = |name: String, expected: &[usize]| match weights.take(&name) {
            None => Err(LoadError::Missing {
                name,
                expected: expected.to_vec(),
            }),
            Some(weight) if weight.shape != expected => Err(LoadError::TensorShape {
                name,
                expected: expected.to_vec(),
                observed: weight.shape,
            }),
            Some(weight) => Ok(weight.values),
        };
        let mut steps = vec![HeadStep::Dense {
            weights: take(format!("{dense}.weight"), &[hidden, hidden])?,
            bias: match self.bias {
                true => take(format!("{dense}.bias"), &[hidden])?,
                false => vec![0.0; hidden],
            },
            activation: self.activation,
            residual: Residual::None,
        }];
        if let Some(norm) = norm {
            steps.push(HeadStep::LayerNorm {
                scale: take(format!("{norm}.weight"), &[hidden])?,
                shift: match self.shift {
                    true => take(format!("{norm}.bias"), &[hidden])?,
                    false => vec![0.0; hidden],
                },
            });
        }
        steps.push(HeadStep::Dense {
            weights: take(format!("{output}.weight"), &[1, hidden])?,
            bias: take(format!("{output}.bias"), &[1])?,
            activation: self.output,
            residual: Residual::None,
        });
        Ok(steps)
    }
}

/// Whether tokens of the second text have another embedding than those of the first.
pub(super) fn has_second_type(shape: &Shape, types: usize) -> bool {
    types > 1 && shape.architecture == Architecture::Bert
}

/// Appends to the table of words each word as a token of type 1: an encoder adds the embedding of type 0 to all. Word n of the
/// second text then has the id n + `vocabulary`.
pub(super) fn add_second_type(shape: &mut Shape, weights: &mut Weights) {
    let find = |weights: &mut Weights, name: &str| {
        let full = [name.to_owned(), format!("bert.{name}")];
        full.into_iter()
            .find_map(|name| weights.take(&name).map(|weight| (name, weight)))
    };
    let words = find(weights, "embeddings.word_embeddings.weight");
    let types = find(weights, "embeddings.token_type_embeddings.weight");
    let Some(((words_name, mut words), (types_name, types))) = words.zip(types) else {
        return;
    };
    let hidden = shape.hidden;
    // Tensors of other shapes are refused where the encoder checks them.
    if words.shape == [shape.vocabulary, hidden] && types.shape == [shape.token_types, hidden] {
        let (first, second) = types.values.split_at(hidden);
        let step: Vec<_> = second.iter().zip(first).map(|(b, a)| b - a).collect();
        let count = words.values.len();
        words.values.reserve_exact(count);
        for at in 0..count {
            words.values.push(words.values[at] + step[at % hidden]);
        }
        shape.vocabulary *= 2;
        words.shape[0] = shape.vocabulary;
    }
    weights.put(words_name, words);
    weights.put(types_name, types);
}

#[cfg(test)]
mod tests;
