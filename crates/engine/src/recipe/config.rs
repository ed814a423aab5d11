//! Reads the shape of an encoder from `config.json`.

use serde_json::{Value, json};

use super::settings::{Problems, Settings};
use crate::architecture::Architecture;
use crate::{Activation, Attention, Biases, Local, Pooling, Rotary, Shape};

/// Members that do not affect an embedding: they are about training, generation, other heads, or the library itself.
const IGNORED: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "auto_map",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_activation",
    "classifier_bias",
    "classifier_pooling",
    "decoder_bias",
    "deterministic_flash_attn",
    "dropout",
    "dtype",
    "embd_pdrop",
    "final_logit_softcapping",
    "finetuning_task",
    "fused_bias_fc",
    "fused_dropout_add_ln",
    "gradient_checkpointing",
    "id2label",
    "initializer_cutoff_factor",
    "initializer_range",
    "label2id",
    "max_window_layers",
    "output_attentions",
    "output_hidden_states",
    "pad_vocab_size_multiple",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "problem_type",
    "reference_compile",
    "repad_logits_with_grad",
    "resid_pdrop",
    "return_dict",
    "sinusoidal_pos_embds",
    "sparse_pred_ignore_index",
    "sparse_prediction",
    "summary_activation",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tie_weights_",
    "tie_word_embeddings",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "use_flash_attn",
    "use_xentropy",
    "scale_attn_weights",
];

/// Reads `config.json`; `path` is its path below the folder. The length of sequences and the pooling are the caller's.
pub(super) fn read(path: &str, problems: &mut Problems<'_>) -> Option<Shape> {
    let mut settings = problems.settings(path)?;
    let model_type = settings.text("model_type", problems).unwrap_or_default();
    let known = Architecture::MODEL_TYPES;
    let Some((_, architecture)) = known.iter().find(|(name, _)| *name == model_type) else {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        problems.add(
            path,
            format!(
                "model_type is `{}`; this build runs {}",
                model_type.escape_default(),
                names.join(", ")
            ),
        );
        return None;
    };
    let mut reader = Reader { settings, problems };
    let shape = match architecture {
        Architecture::Bert | Architecture::Roberta | Architecture::Mpnet => {
            reader.read_bert(*architecture)
        }
        Architecture::DistilBert => reader.read_distilbert(),
        Architecture::NomicBert => reader.read_nomic_bert(),
        Architecture::ModernBert => reader.read_modernbert(),
        Architecture::Qwen3 => reader.read_qwen3(),
        Architecture::Gemma3 => reader.read_gemma3(),
    };
    let Reader {
        mut settings,
        problems,
    } = reader;
    settings.ignore(IGNORED);
    settings.ignore_endings(&["_dropout", "_dropout_prob", "_token_id"]);
    settings.finish(problems);
    Some(shape)
}

struct Reader<'p, 'f> {
    settings: Settings,
    problems: &'p mut Problems<'f>,
}

impl Reader<'_, '_> {
    fn number(&mut self, name: &str) -> usize {
        self.settings.number(name, self.problems)
    }

    fn optional_number(&mut self, name: &str) -> Option<usize> {
        self.settings.optional_number(name, self.problems)
    }

    fn float(&mut self, name: &str) -> Option<f32> {
        self.settings.float(name, self.problems)
    }

    fn flag(&mut self, name: &str) -> bool {
        self.settings.flag(name, self.problems)
    }

    fn expect(&mut self, name: &str, value: &Value) {
        self.settings.expect(name, value, self.problems);
    }

    fn report(&mut self, message: String) {
        self.problems.add(&self.settings.file, message);
    }

    fn epsilon(&mut self, name: &str) -> f32 {
        self.float(name).unwrap_or_else(|| {
            self.report(format!("{name} is missing"));
            1e-12
        })
    }

    fn activation(&mut self, name: &str) -> Activation {
        let text = self.settings.text(name, self.problems);
        match text.as_deref() {
            Some("gelu") => Activation::Gelu,
            Some("gelu_new" | "gelu_pytorch_tanh") => Activation::GeluTanh,
            Some("relu") => Activation::Relu,
            Some("silu" | "swish") => Activation::Silu,
            other => {
                self.report(format!(
                    "{name} is `{}`, expected gelu, gelu_new, gelu_pytorch_tanh, relu, silu or swish",
                    other.unwrap_or_default().escape_default()
                ));
                Activation::Gelu
            }
        }
    }

    /// A decoder with grouped queries. Its heads have any size, and the library's default is not the quotient.
    fn decoder(&mut self, architecture: Architecture, activation: &str) -> Shape {
        if !self.settings.has("head_dim") {
            self.report("head_dim is missing".to_owned());
        }
        let shape = self.sizes(architecture);
        Shape {
            key_value_heads: self
                .optional_number("num_key_value_heads")
                .unwrap_or(shape.heads),
            layers: self.number("num_hidden_layers"),
            feed_forward: self.number("intermediate_size"),
            positions: self.number("max_position_embeddings"),
            norm_epsilon: self.epsilon("rms_norm_eps"),
            activation: self.activation(activation),
            biases: Biases {
                attention: self.flag("attention_bias"),
                feed_forward: false,
                norm: false,
            },
            ..shape
        }
    }

    /// A BERT with the sizes that most configurations name alike.
    fn sizes(&mut self, architecture: Architecture) -> Shape {
        let hidden = self.number("hidden_size");
        let heads = self.number("num_attention_heads");
        self.with_sizes(architecture, hidden, heads)
    }

    fn with_sizes(&mut self, architecture: Architecture, hidden: usize, heads: usize) -> Shape {
        let head = self.optional_number("head_dim").unwrap_or_else(|| {
            if heads == 0 || !hidden.is_multiple_of(heads) {
                self.report(format!(
                    "hidden_size {hidden} is not a multiple of num_attention_heads {heads}"
                ));
                return 1;
            }
            hidden / heads
        });
        Shape {
            architecture,
            hidden,
            heads,
            key_value_heads: heads,
            head,
            layers: 0,
            feed_forward: 0,
            vocabulary: self.number("vocab_size"),
            positions: 0,
            first_position: 0,
            token_types: 0,
            norm_epsilon: 1e-12,
            activation: Activation::Gelu,
            biases: Biases::ALL,
            attention: Attention::FULL,
            rotary: Rotary::UNUSED,
            query_scale: (head as f32).sqrt().recip(),
            max_tokens: 1,
            pooling: Pooling::Mean,
        }
    }

    fn read_bert(&mut self, architecture: Architecture) -> Shape {
        let shape = self.sizes(architecture);
        self.expect("position_embedding_type", &json!("absolute"));
        let (first_position, token_types) = match architecture {
            Architecture::Roberta => {
                let padding = self.optional_number("pad_token_id").unwrap_or(1);
                (padding.saturating_add(1), self.number("type_vocab_size"))
            }
            Architecture::Mpnet => {
                // Transformers computes the buckets for 32, whatever the table's size.
                self.expect("relative_attention_num_buckets", &json!(32));
                // The padding token of MPNet is 1 whatever its configuration says.
                (2, 0)
            }
            _ => (0, self.number("type_vocab_size")),
        };
        Shape {
            layers: self.number("num_hidden_layers"),
            feed_forward: self.number("intermediate_size"),
            positions: self.number("max_position_embeddings"),
            first_position,
            token_types,
            norm_epsilon: self.epsilon("layer_norm_eps"),
            activation: self.activation("hidden_act"),
            ..shape
        }
    }

    fn read_distilbert(&mut self) -> Shape {
        let (hidden, heads) = (self.number("dim"), self.number("n_heads"));
        Shape {
            layers: self.number("n_layers"),
            feed_forward: self.number("hidden_dim"),
            positions: self.number("max_position_embeddings"),
            activation: self.activation("activation"),
            ..self.with_sizes(Architecture::DistilBert, hidden, heads)
        }
    }

    fn read_nomic_bert(&mut self) -> Shape {
        if self.settings.has("n_embd") {
            return self.read_nomic_bert_of_the_hub();
        }
        let shape = self.sizes(Architecture::NomicBert);
        let theta = self.theta("rope_theta", 1000.0);
        Shape {
            layers: self.number("num_hidden_layers"),
            feed_forward: self.number("intermediate_size"),
            positions: self.number("max_position_embeddings"),
            token_types: self.number("type_vocab_size"),
            norm_epsilon: self.epsilon("layer_norm_eps"),
            activation: self.activation("hidden_act"),
            biases: NOMIC_BIASES,
            rotary: both(theta),
            ..shape
        }
    }

    /// The members of nomic-ai's own configuration.
    fn read_nomic_bert_of_the_hub(&mut self) -> Shape {
        for (name, value) in [
            ("activation_function", json!("swiglu")),
            ("rotary_emb_fraction", json!(1.0)),
            ("rotary_emb_interleaved", json!(false)),
            ("qkv_proj_bias", json!(false)),
            ("mlp_fc1_bias", json!(false)),
            ("mlp_fc2_bias", json!(false)),
            ("prenorm", json!(false)),
            ("parallel_block", json!(false)),
            ("use_rms_norm", json!(false)),
            ("causal", json!(false)),
        ] {
            self.expect(name, &value);
        }
        // Scales positions only beyond the length that the model was trained for.
        self.settings.ignore(&["max_trained_positions"]);
        let (hidden, heads) = (self.number("n_embd"), self.number("n_head"));
        let theta = self.theta_or(None, "rotary_emb_base", 10_000.0);
        Shape {
            layers: self.number("n_layer"),
            feed_forward: self.number("n_inner"),
            positions: self.number("n_positions"),
            token_types: self.number("type_vocab_size"),
            norm_epsilon: self.epsilon("layer_norm_epsilon"),
            activation: Activation::Silu,
            biases: NOMIC_BIASES,
            rotary: both(theta),
            ..self.with_sizes(Architecture::NomicBert, hidden, heads)
        }
    }

    fn read_modernbert(&mut self) -> Shape {
        let shape = self.sizes(Architecture::ModernBert);
        let layers = self.number("num_hidden_layers");
        let every = self
            .optional_number("global_attn_every_n_layers")
            .unwrap_or(3);
        let window = self.optional_number("local_attention").unwrap_or(128);
        let default = |layer: usize| layer.is_multiple_of(every);
        self.settings.ignore(&["position_embedding_type"]);
        Shape {
            layers,
            feed_forward: self.number("intermediate_size"),
            positions: self.number("max_position_embeddings"),
            norm_epsilon: self.epsilon("norm_eps"),
            activation: self.activation("hidden_activation"),
            biases: Biases {
                attention: self.flag("attention_bias"),
                feed_forward: self.flag("mlp_bias"),
                norm: self.flag("norm_bias"),
            },
            attention: Attention {
                causal: false,
                local: self.local(layers, window / 2, default),
            },
            rotary: self.thetas(
                ("global_rope_theta", 160_000.0),
                ("local_rope_theta", 10_000.0),
            ),
            ..shape
        }
    }

    fn read_qwen3(&mut self) -> Shape {
        let shape = self.decoder(Architecture::Qwen3, "hidden_act");
        if self.flag("use_sliding_window") {
            self.report("use_sliding_window is true, expected false".to_owned());
        }
        self.settings.ignore(&["sliding_window"]);
        let local = self.local(shape.layers, 0, |_| true);
        if local.is_some() {
            self.report("layer_types has layers that are not `full_attention`".to_owned());
        }
        let theta = self.theta("rope_theta", 10_000.0);
        Shape {
            attention: Attention {
                causal: true,
                local: None,
            },
            rotary: both(theta),
            ..shape
        }
    }

    fn read_gemma3(&mut self) -> Shape {
        let shape = self.decoder(Architecture::Gemma3, "hidden_activation");
        let causal = !self.flag("use_bidirectional_attention");
        let window = self.optional_number("sliding_window").unwrap_or(4096);
        let reach = if causal {
            window.saturating_sub(1)
        } else {
            window / 2
        };
        let pattern = self.optional_number("_sliding_window_pattern");
        let pattern = pattern
            .or(self.optional_number("sliding_window_pattern"))
            .unwrap_or(6);
        let default = |layer: usize| (layer + 1).is_multiple_of(pattern);
        let scalar = self.float("query_pre_attn_scalar").unwrap_or(256.0);
        Shape {
            attention: Attention {
                causal,
                local: self.local(shape.layers, reach, default),
            },
            rotary: self.thetas(
                ("rope_theta", 1_000_000.0),
                ("rope_local_base_freq", 10_000.0),
            ),
            query_scale: scalar.sqrt().recip(),
            ..shape
        }
    }

    /// Layers with local attention, from `layer_types` or, without it, those that are not `full` by default.
    fn local(
        &mut self,
        layers: usize,
        reach: usize,
        full: impl Fn(usize) -> bool,
    ) -> Option<Local> {
        let is_full: Vec<bool> = match self.settings.take("layer_types") {
            None => (0..layers.min(MOST_LAYERS)).map(full).collect(),
            Some(Value::Array(types)) if types.len() == layers => {
                let mut known = Vec::with_capacity(layers);
                for layer in types {
                    match layer.as_str() {
                        Some("full_attention") => known.push(true),
                        Some("sliding_attention") => known.push(false),
                        _ => {
                            self.report(format!(
                                "layer_types has {layer}, which is not understood"
                            ));
                            return None;
                        }
                    }
                }
                known
            }
            Some(_) => {
                self.report(format!("layer_types is not a list of {layers} layers"));
                return None;
            }
        };
        if is_full.iter().all(|full| *full) {
            return None;
        }
        let first = is_full.iter().position(|full| *full);
        let period = |every: usize, full: usize| {
            let layers = is_full.iter().enumerate();
            layers
                .clone()
                .all(|(layer, is_full)| (layer % every == full) == *is_full)
        };
        let found = match first {
            // A layer that is not there.
            None => Some((is_full.len() + 1, is_full.len())),
            Some(first) => (first + 1..=is_full.len() + 1)
                .find(|every| period(*every, first))
                .map(|every| (every, first)),
        };
        let Some((every, full)) = found else {
            self.report(
                "layer_types repeats no pattern with one layer of full attention".to_owned(),
            );
            return None;
        };
        Some(Local { reach, every, full })
    }

    /// Thetas of layers with full and with local attention: from `rope_parameters`, the older separate members, or the defaults.
    fn thetas(&mut self, full: (&str, f32), local: (&str, f32)) -> Rotary {
        let mut parameters = self.rotary_parameters();
        let mut part = |reader: &mut Self, name| {
            let parameters = parameters.as_mut()?;
            if parameters.is_null(name) {
                reader.report(format!("{name} is null, expected an object"));
            }
            parameters.object(name, reader.problems)
        };
        let of_full = part(self, "full_attention");
        let of_local = part(self, "sliding_attention");
        if let Some(parameters) = parameters {
            parameters.finish(self.problems);
        }
        Rotary {
            theta: self.theta_or(of_full, full.0, full.1),
            local_theta: self.theta_or(of_local, local.0, local.1),
        }
    }

    /// `rope_theta` from `rope_parameters`, the older separate member, or the default.
    fn theta(&mut self, older: &str, default: f32) -> f32 {
        let parameters = self.rotary_parameters();
        self.theta_or(parameters, older, default)
    }

    fn rotary_parameters(&mut self) -> Option<Settings> {
        self.expect("rope_scaling", &json!(null));
        self.expect("partial_rotary_factor", &json!(1.0));
        self.settings.object("rope_parameters", self.problems)
    }

    /// The theta of `parameters` takes precedence over the `older` member.
    fn theta_or(&mut self, parameters: Option<Settings>, older: &str, default: f32) -> f32 {
        let stated = parameters.and_then(|mut parameters| {
            if parameters.is_null("rope_theta") {
                self.report("rope_theta is null, expected a number".to_owned());
            }
            let theta = parameters.float("rope_theta", self.problems);
            parameters.expect("rope_type", &json!("default"), self.problems);
            parameters.expect("partial_rotary_factor", &json!(1.0), self.problems);
            parameters.finish(self.problems);
            theta
        });
        if stated.is_none() && self.settings.is_null(older) {
            self.report(format!("{older} is null, expected a number"));
        }
        let theta = stated.or(self.float(older));
        theta.unwrap_or(default)
    }
}

/// Far more than any model has.
const MOST_LAYERS: usize = 1 << 10;

const NOMIC_BIASES: Biases = Biases {
    attention: false,
    feed_forward: false,
    norm: true,
};

fn both(theta: f32) -> Rotary {
    Rotary {
        theta,
        local_theta: theta,
    }
}
