//! Reads `modules.json` and the folder of each module, in order.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::settings::{Problems, Settings};
use super::text::TextOptions;
use super::{Kind, Prompts, Recipe, config, text};
use crate::weights::{Weight, Weights};
use crate::{Activation, HeadActivation, HeadStep, LoadError, Pooling, Residual};

/// A step after pooling, before its weights are read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Dense {
        path: String,
        inputs: usize,
        outputs: usize,
        bias: bool,
        activation: HeadActivation,
        residual: bool,
    },
    LayerNorm {
        path: String,
        width: usize,
    },
    Normalise,
    Truncate(usize),
}

/// The modules that are understood.
const KNOWN: &str =
    "Transformer, Pooling, Dense, LayerNorm, Normalize, Dropout and StaticEmbedding";

/// A module: its kind, and its folder with a trailing `/`, or empty.
struct Module {
    kind: String,
    folder: String,
}

/// Reads the whole folder; `None` where a problem leaves nothing to go on with.
pub(super) fn read(problems: &mut Problems<'_>) -> Option<Recipe> {
    let modules = read_list(problems)?;
    let Model {
        prompts,
        truncation,
    } = read_model(problems);
    let mut modules = modules.into_iter();
    let first = modules.next()?;
    let mut recipe = match first.kind.as_str() {
        "Transformer" => read_transformer(&first, &mut modules, prompts, problems),
        "StaticEmbedding" => read_table(&first, &modules.collect::<Vec<_>>(), prompts, problems),
        other => {
            problems.add(
                LIST,
                format!("the first module is {other}, expected Transformer or StaticEmbedding"),
            );
            None
        }
    };
    if let (Some(recipe), Some(length)) = (&mut recipe, truncation) {
        recipe.steps.push(Step::Truncate(length));
    }
    recipe
}

const LIST: &str = "modules.json";

fn read_list(problems: &mut Problems<'_>) -> Option<Vec<Module>> {
    let list = problems.parse(LIST)?;
    let Some(items) = list.as_array() else {
        problems.add(LIST, "the file is not a list of modules");
        return None;
    };
    let mut modules = Vec::with_capacity(items.len());
    for item in items {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let (Some(kind), Some(path)) = (text("type"), text("path")) else {
            problems.add(LIST, "a module has no `type` or no `path`");
            return None;
        };
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            problems.add(
                LIST,
                format!("path `{}` leaves the folder", path.escape_default()),
            );
            return None;
        }
        let name = kind.rsplit('.').next().unwrap_or_default();
        let known = KNOWN.replace(" and ", ", ");
        if !kind.starts_with("sentence_transformers.") || !known.split(", ").any(|k| k == name) {
            problems.add(
                LIST,
                format!(
                    "type {} is not understood, expected {KNOWN}",
                    kind.escape_default()
                ),
            );
            continue;
        }
        modules.push(Module {
            kind: name.to_owned(),
            folder: match path {
                "" => String::new(),
                path => format!("{}/", path.trim_end_matches('/')),
            },
        });
    }
    Some(modules)
}

/// The contents of `config_sentence_transformers.json`.
struct Model {
    prompts: Prompts,
    /// Features that are kept of an embedding.
    truncation: Option<usize>,
}

fn read_model(problems: &mut Problems<'_>) -> Model {
    let mut settings = problems.optional_settings("config_sentence_transformers.json");
    settings.ignore(&["__version__", "similarity_fn_name"]);
    settings.expect("model_type", &json!("SentenceTransformer"), problems);
    let mut prompts = Prompts::default();
    match settings.take("prompts") {
        None => {}
        Some(Value::Object(texts)) => {
            for (name, text) in texts {
                match text.as_str() {
                    Some(text) => {
                        prompts.texts.insert(name, text.to_owned());
                    }
                    None => settings.report(&format!("prompts.{name}"), &text, "a text", problems),
                }
            }
        }
        Some(other) => settings.report("prompts", &other, "texts by name", problems),
    }
    prompts.default = settings.text("default_prompt_name", problems);
    if let Some(name) = &prompts.default
        && !prompts.texts.contains_key(name)
    {
        let message = format!(
            "default_prompt_name is `{}`, which has no prompt",
            name.escape_default()
        );
        problems.add(&settings.file, message);
    }
    let truncation = settings.optional_number("truncate_dim", problems);
    settings.finish(problems);
    Model {
        prompts,
        truncation,
    }
}

fn read_transformer(
    module: &Module,
    modules: &mut dyn Iterator<Item = Module>,
    prompts: Prompts,
    problems: &mut Problems<'_>,
) -> Option<Recipe> {
    let folder = &module.folder;
    let shape = config::read(&format!("{folder}config.json"), problems);
    let text = text::read(folder, shape.as_ref(), problems);
    let weight_files = find_weights(folder, problems);
    let (mut shape, text) = (shape?, text?);
    shape.max_tokens = text.max_tokens;
    let pooling = match modules.next() {
        Some(module) if module.kind == "Pooling" => module,
        other => {
            let found = other.map_or("nothing".to_owned(), |module| module.kind);
            problems.add(
                LIST,
                format!(
                    "{found} follows the Transformer and its token_embeddings, expected Pooling"
                ),
            );
            return None;
        }
    };
    let poolings = read_pooling(&pooling, shape.hidden, &prompts, problems);
    shape.pooling = *poolings.first()?;
    let width = shape.hidden.saturating_mul(poolings.len());
    let rest: Vec<_> = modules.collect();
    let steps = read_steps(&rest, Some(width), problems);
    if let Err(error) = shape.check_sizes() {
        let message = error.to_string();
        let message = message.strip_prefix("config.json: ").unwrap_or(&message);
        problems.add(&format!("{folder}config.json"), message);
    }
    Some(assemble(
        Kind::Encoder { shape, poolings },
        steps,
        text,
        prompts,
        weight_files,
    ))
}

fn read_table(
    module: &Module,
    rest: &[Module],
    prompts: Prompts,
    problems: &mut Problems<'_>,
) -> Option<Recipe> {
    let folder = &module.folder;
    let path = format!("{folder}model.safetensors");
    let file = format!("{folder}tokenizer.json");
    for needed in [&path, &file] {
        if !problems.has(needed) {
            problems.add(needed, "the file is missing");
        }
    }
    // The size of a row is the table's, which is read later.
    let steps = read_steps(rest, None, problems);
    let text = TextOptions::for_table(file, problems);
    let source = Kind::Table { path: path.clone() };
    Some(assemble(source, steps, text, prompts, vec![path]))
}

fn assemble(
    source: Kind,
    steps: Vec<Step>,
    text: TextOptions,
    prompts: Prompts,
    mut weight_files: Vec<String>,
) -> Recipe {
    for step in &steps {
        if let Step::Dense { path, .. } | Step::LayerNorm { path, .. } = step {
            weight_files.push(path.clone());
        }
    }
    Recipe {
        source,
        steps,
        text,
        prompts,
        weight_files,
    }
}

/// Paths of the encoder's weights: one file, or the shards that an index lists. The library takes the one file where a folder has
/// both.
pub(super) fn find_weights(folder: &str, problems: &mut Problems<'_>) -> Vec<String> {
    let adapter = format!("{folder}adapter_config.json");
    if problems.has(&adapter) {
        problems.add(
            &adapter,
            "the folder holds an adapter, which would change the weights; merge it into the model",
        );
    }
    let one = format!("{folder}model.safetensors");
    if problems.has(&one) {
        return vec![one];
    }
    let index = format!("{folder}model.safetensors.index.json");
    if problems.has(&index) {
        let map = problems.parse(&index);
        let map = map
            .as_ref()
            .and_then(|map| map.get("weight_map")?.as_object());
        let Some(map) = map else {
            problems.add(&index, "weight_map is missing");
            return Vec::new();
        };
        let mut shards: Vec<String> = Vec::new();
        for shard in map.values().filter_map(Value::as_str) {
            let path = format!("{folder}{shard}");
            if !shards.contains(&path) {
                shards.push(path);
            }
        }
        for shard in shards
            .iter()
            .filter(|shard| !problems.has(shard))
            .cloned()
            .collect::<Vec<_>>()
        {
            problems.add(&shard, "the file is missing, but the index lists it");
        }
        return shards;
    }
    let pickle = format!("{folder}pytorch_model.bin");
    if problems.has(&pickle) {
        problems.add(
            &pickle,
            "weights in a pickle, which can run code, are not read; save them as model.safetensors",
        );
    } else {
        problems.add(&one, "the file is missing");
    }
    Vec::new()
}

/// Poolings of the older form, in the order of their concatenation.
const FLAGS: [(&str, &str); 6] = [
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("pooling_mode_weightedmean_tokens", "weightedmean"),
    ("pooling_mode_lasttoken", "lasttoken"),
];

fn read_pooling(
    module: &Module,
    hidden: usize,
    prompts: &Prompts,
    problems: &mut Problems<'_>,
) -> Vec<Pooling> {
    let path = format!("{}config.json", module.folder);
    let Some(mut settings) = problems.settings(&path) else {
        return Vec::new();
    };
    let new = settings.optional_number("embedding_dimension", problems);
    let old = settings.optional_number("word_embedding_dimension", problems);
    if let Some(width) = new.or(old).filter(|width| *width != hidden) {
        problems.add(
            &path,
            format!("embedding_dimension is {width}, but config.json says {hidden}"),
        );
    }
    let flagged: Vec<&str> = FLAGS
        .iter()
        .filter_map(|(name, mode)| settings.flag(name, problems).then_some(*mode))
        .collect();
    let names = match settings.take("pooling_mode") {
        None => flagged.iter().map(|mode| json!(mode)).collect(),
        Some(Value::Array(names)) => names,
        Some(name) => vec![name],
    };
    let mut poolings = Vec::with_capacity(names.len());
    for name in names {
        poolings.push(match name.as_str() {
            Some("mean") => Pooling::Mean,
            Some("cls") => Pooling::First,
            Some("lasttoken") => Pooling::Last,
            Some("max") => Pooling::Max,
            Some("mean_sqrt_len_tokens") => Pooling::MeanOfRoot,
            Some("weightedmean") => Pooling::WeightedMean,
            _ => {
                let modes: Vec<_> = FLAGS.iter().map(|(_, mode)| *mode).collect();
                settings.report("pooling_mode", &name, &modes.join(", "), problems);
                continue;
            }
        });
    }
    if poolings.is_empty() {
        problems.add(&path, "pooling_mode names no pooling");
    }
    let includes = settings
        .take("include_prompt")
        .is_none_or(|value| value == json!(true));
    if !includes && prompts.texts.values().any(|text| !text.is_empty()) {
        problems.add(
            &path,
            "include_prompt is false, expected true: the model has prompts",
        );
    }
    settings.finish(problems);
    poolings
}

fn read_steps(
    modules: &[Module],
    mut width: Option<usize>,
    problems: &mut Problems<'_>,
) -> Vec<Step> {
    let mut steps = Vec::with_capacity(modules.len());
    for module in modules {
        match module.kind.as_str() {
            "Dense" => {
                if let Some((step, outputs)) = read_dense(module, width, problems) {
                    steps.push(step);
                    width = Some(outputs);
                }
            }
            "LayerNorm" => {
                let mut settings = optional(module, problems);
                let dimension = settings.optional_number("dimension", problems);
                check_width(&settings, "dimension", dimension, width, problems);
                settings.finish(problems);
                steps.push(Step::LayerNorm {
                    path: format!("{}model.safetensors", module.folder),
                    width: dimension.unwrap_or(1),
                });
                width = dimension;
            }
            "Normalize" => {
                let mut settings = optional(module, problems);
                expect_sentence(&mut settings, problems);
                settings.finish(problems);
                steps.push(Step::Normalise);
            }
            // Drops nothing outside training.
            "Dropout" => {}
            other => problems.add(LIST, format!("{other} is not understood in this place")),
        }
    }
    for step in &steps {
        if let Step::Dense { path, .. } | Step::LayerNorm { path, .. } = step
            && !problems.has(path)
        {
            problems.add(path, "the file is missing");
        }
    }
    steps
}

fn optional(module: &Module, problems: &mut Problems<'_>) -> Settings {
    problems.optional_settings(&format!("{}config.json", module.folder))
}

/// Refuses modules that read or write anything but the embedding.
fn expect_sentence(settings: &mut Settings, problems: &mut Problems<'_>) {
    for name in ["module_input_name", "module_output_name"] {
        settings.expect(name, &json!("sentence_embedding"), problems);
    }
}

fn check_width(
    settings: &Settings,
    name: &str,
    found: Option<usize>,
    width: Option<usize>,
    problems: &mut Problems<'_>,
) {
    match (found, width) {
        (None, _) => problems.add(&settings.file, format!("{name} is missing")),
        (Some(found), Some(width)) if found != width => {
            let message = format!("{name} is {found}, but the rows have {width} features");
            problems.add(&settings.file, message);
        }
        _ => {}
    }
}

fn read_dense(
    module: &Module,
    width: Option<usize>,
    problems: &mut Problems<'_>,
) -> Option<(Step, usize)> {
    let mut settings = problems.settings(&format!("{}config.json", module.folder))?;
    let inputs = settings.optional_number("in_features", problems);
    check_width(&settings, "in_features", inputs, width, problems);
    let outputs = settings.number("out_features", problems);
    let bias = settings.truth("bias", true, problems);
    expect_sentence(&mut settings, problems);
    let name = settings.text("activation_function", problems);
    let activation = match name.as_deref() {
        None | Some("torch.nn.modules.activation.Tanh") => HeadActivation::Tanh,
        Some("torch.nn.modules.linear.Identity") => HeadActivation::Identity,
        Some("torch.nn.modules.activation.Sigmoid") => HeadActivation::Sigmoid,
        Some("torch.nn.modules.activation.GELU") => HeadActivation::Of(Activation::Gelu),
        Some("torch.nn.modules.activation.ReLU") => HeadActivation::Of(Activation::Relu),
        Some("torch.nn.modules.activation.SiLU") => HeadActivation::Of(Activation::Silu),
        Some(other) => {
            problems.add(
                &settings.file,
                format!(
                    "activation_function {} is not understood, expected Tanh, Sigmoid, Identity, GELU, ReLU or SiLU of torch.nn",
                    other.escape_default()
                ),
            );
            HeadActivation::Identity
        }
    };
    let residual = settings.flag("use_residual", problems);
    settings.finish(problems);
    let step = Step::Dense {
        residual,
        path: format!("{}model.safetensors", module.folder),
        inputs: inputs.unwrap_or(1),
        outputs,
        bias,
        activation,
    };
    Some((step, outputs))
}

impl Step {
    /// Takes the step's weights.
    pub(super) fn build(
        &self,
        weights: &mut BTreeMap<String, Weights>,
    ) -> Result<HeadStep, LoadError> {
        match self {
            Self::Normalise => Ok(HeadStep::Normalise),
            Self::Truncate(length) => Ok(HeadStep::Truncate(*length)),
            Self::LayerNorm { path, width } => {
                let mut tensors = Tensors::take(weights, path);
                let step = HeadStep::LayerNorm {
                    scale: tensors.tensor("norm.weight", &[*width])?,
                    shift: tensors.tensor("norm.bias", &[*width])?,
                };
                tensors.finish().map(|()| step)
            }
            Self::Dense {
                path,
                inputs,
                outputs,
                bias,
                activation,
                residual,
            } => {
                let mut tensors = Tensors::take(weights, path);
                let step = HeadStep::Dense {
                    weights: tensors.tensor("linear.weight", &[*outputs, *inputs])?,
                    bias: match bias {
                        true => tensors.tensor("linear.bias", &[*outputs])?,
                        false => vec![0.0; *outputs],
                    },
                    activation: *activation,
                    residual: match residual {
                        false => Residual::None,
                        true if inputs == outputs => Residual::Input,
                        true => Residual::Product(
                            tensors.tensor("residual.weight", &[*outputs, *inputs])?,
                        ),
                    },
                };
                tensors.finish().map(|()| step)
            }
        }
    }
}

/// The tensors of one module.
struct Tensors<'a> {
    path: &'a str,
    tensors: BTreeMap<String, Weight>,
}

impl<'a> Tensors<'a> {
    fn take(weights: &mut BTreeMap<String, Weights>, path: &'a str) -> Self {
        let weights = weights.remove(path);
        Self {
            path,
            tensors: weights.map(Weights::into_tensors).unwrap_or_default(),
        }
    }

    /// Refuses tensors that were not taken, as `load_state_dict` of PyTorch does.
    fn finish(self) -> Result<(), LoadError> {
        match self.tensors.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(LoadError::Unused {
                name: format!("{}: {name}", self.path),
            }),
        }
    }

    fn tensor(&mut self, name: &str, expected: &[usize]) -> Result<Vec<f32>, LoadError> {
        let full = || format!("{}: {name}", self.path);
        match self.tensors.remove(name) {
            None => Err(LoadError::Missing {
                name: full(),
                expected: expected.to_vec(),
            }),
            Some(weight) if weight.shape != expected => Err(LoadError::TensorShape {
                name: full(),
                expected: expected.to_vec(),
                observed: weight.shape,
            }),
            Some(weight) => Ok(weight.values),
        }
    }
}
