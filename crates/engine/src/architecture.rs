//! The architectures: how a layer of each is built, and how each names its tensors.
//!
//! An architecture is one row of [`Architecture::block`] and one or more tables of names. Nothing else in this crate compares
//! architectures, except the reader of `config.json`.

/// A family of encoders whose layers are built alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `bert`
    Bert,
    /// `roberta`, `xlm-roberta` and `camembert`: BERT whose positions begin behind the padding token's.
    Roberta,
    /// `distilbert`: BERT without token types.
    DistilBert,
    /// `mpnet`: BERT with a learned bias for each distance of two tokens.
    Mpnet,
    /// `nomic_bert`: rotary positions and a gated feed-forward network, without biases.
    NomicBert,
    /// `modernbert`: normalised before each branch, with local attention in most layers.
    ModernBert,
    /// `qwen3`: a decoder with grouped queries, whose queries and keys are normalised.
    Qwen3,
    /// `gemma3_text`: like `qwen3`, and normalised around each branch; EmbeddingGemma attends in both directions.
    Gemma3,
}

/// How a layer is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) norm: NormKind,
    pub(crate) place: NormPlace,
    pub(crate) positions: Positions,
    /// The feed-forward network multiplies its activations by a second projection.
    pub(crate) gated: bool,
    /// Each head of queries and keys is normalised.
    pub(crate) query_key_norm: bool,
    /// The sum of a token's embeddings is normalised.
    pub(crate) embedding_norm: bool,
    /// The first layer has no norm before attention, because the embeddings are normalised.
    pub(crate) first_norm_missing: bool,
    /// Words are multiplied by the root of the number of features.
    pub(crate) scaled_words: bool,
}

/// A normalisation of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormKind {
    /// (x − mean) / deviation · scale + shift.
    Layer,
    /// x / root of the mean square · scale.
    Rms,
    /// Like [`Rms`](Self::Rms), with 1 + scale.
    RmsFromOne,
}

/// Where a layer normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormPlace {
    /// The sum of the residual stream and a branch.
    After,
    /// The input of a branch; the stream is normalised once at the end.
    Before,
    /// The input and the output of a branch; the stream is normalised once at the end.
    Around,
}

/// How a token's position affects the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Positions {
    /// An embedding for each position.
    Table,
    /// An embedding for each position, and a bias for each distance in attention.
    TableAndDistance,
    /// Queries and keys are rotated.
    Rotary,
}

impl Architecture {
    /// The `model_type` values of `config.json` that this crate runs.
    pub const MODEL_TYPES: [(&'static str, Self); 10] = [
        ("bert", Self::Bert),
        ("camembert", Self::Roberta),
        ("distilbert", Self::DistilBert),
        ("gemma3_text", Self::Gemma3),
        ("modernbert", Self::ModernBert),
        ("mpnet", Self::Mpnet),
        ("nomic_bert", Self::NomicBert),
        ("qwen3", Self::Qwen3),
        ("roberta", Self::Roberta),
        ("xlm-roberta", Self::Roberta),
    ];

    pub(crate) fn block(self) -> Block {
        let bert = Block {
            norm: NormKind::Layer,
            place: NormPlace::After,
            positions: Positions::Table,
            gated: false,
            query_key_norm: false,
            embedding_norm: true,
            first_norm_missing: false,
            scaled_words: false,
        };
        let decoder = Block {
            norm: NormKind::Rms,
            place: NormPlace::Before,
            positions: Positions::Rotary,
            gated: true,
            query_key_norm: true,
            embedding_norm: false,
            ..bert
        };
        match self {
            Self::Bert | Self::Roberta | Self::DistilBert => bert,
            Self::Mpnet => Block {
                positions: Positions::TableAndDistance,
                ..bert
            },
            Self::NomicBert => Block {
                positions: Positions::Rotary,
                gated: true,
                ..bert
            },
            Self::ModernBert => Block {
                place: NormPlace::Before,
                positions: Positions::Rotary,
                gated: true,
                first_norm_missing: true,
                ..bert
            },
            Self::Qwen3 => decoder,
            Self::Gemma3 => Block {
                norm: NormKind::RmsFromOne,
                place: NormPlace::Around,
                scaled_words: true,
                ..decoder
            },
        }
    }

    /// The tables of names under which the tensors are found; the first whose table of words is there counts.
    pub(crate) fn names(self) -> &'static [&'static Names] {
        match self {
            Self::Bert => &[&BERT],
            Self::Roberta => &[&ROBERTA],
            Self::DistilBert => &[&DISTILBERT],
            Self::Mpnet => &[&MPNET],
            Self::NomicBert => &[&NOMIC_BERT, &NOMIC_BERT_OF_THE_HUB],
            Self::ModernBert => &[&MODERNBERT],
            Self::Qwen3 => &[&QWEN3],
            Self::Gemma3 => &[&GEMMA3],
        }
    }
}

/// The names of an architecture's tensors, without the suffixes `.weight` and `.bias`. Those of layers follow
/// `PREFIX` `layer` `.N.`.
#[derive(Debug)]
pub(crate) struct Names {
    /// A checkpoint of a whole model has one of these before each name.
    pub(crate) prefixes: &'static [&'static str],
    pub(crate) words: &'static str,
    pub(crate) positions: Option<&'static str>,
    pub(crate) token_types: Option<&'static str>,
    pub(crate) embedding_norm: Option<&'static str>,
    pub(crate) final_norm: Option<&'static str>,
    /// One table for all layers.
    pub(crate) distances: Option<&'static str>,
    pub(crate) layer: &'static str,
    pub(crate) query: Rows,
    pub(crate) key: Rows,
    pub(crate) value: Rows,
    pub(crate) attention_output: &'static str,
    pub(crate) gate: Option<Rows>,
    pub(crate) up: Rows,
    pub(crate) down: &'static str,
    pub(crate) query_norm: Option<&'static str>,
    pub(crate) key_norm: Option<&'static str>,
    pub(crate) before_attention: Option<&'static str>,
    pub(crate) after_attention: Option<&'static str>,
    pub(crate) before_feed_forward: Option<&'static str>,
    pub(crate) after_feed_forward: Option<&'static str>,
}

/// A tensor, or one of several equal parts of its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) name: &'static str,
    pub(crate) part: usize,
    pub(crate) of: usize,
}

const fn whole(name: &'static str) -> Rows {
    part(name, 0, 1)
}

const fn part(name: &'static str, part: usize, of: usize) -> Rows {
    Rows { name, part, of }
}

const BERT: Names = Names {
    prefixes: &["", "bert."],
    words: "embeddings.word_embeddings",
    positions: Some("embeddings.position_embeddings"),
    token_types: Some("embeddings.token_type_embeddings"),
    embedding_norm: Some("embeddings.LayerNorm"),
    final_norm: None,
    distances: None,
    layer: "encoder.layer",
    query: whole("attention.self.query"),
    key: whole("attention.self.key"),
    value: whole("attention.self.value"),
    attention_output: "attention.output.dense",
    gate: None,
    up: whole("intermediate.dense"),
    down: "output.dense",
    query_norm: None,
    key_norm: None,
    before_attention: None,
    after_attention: Some("attention.output.LayerNorm"),
    before_feed_forward: None,
    after_feed_forward: Some("output.LayerNorm"),
};

const ROBERTA: Names = Names {
    prefixes: &["", "roberta."],
    ..BERT
};

const MPNET: Names = Names {
    prefixes: &["", "mpnet."],
    token_types: None,
    distances: Some("encoder.relative_attention_bias"),
    query: whole("attention.attn.q"),
    key: whole("attention.attn.k"),
    value: whole("attention.attn.v"),
    attention_output: "attention.attn.o",
    after_attention: Some("attention.LayerNorm"),
    ..BERT
};

const DISTILBERT: Names = Names {
    prefixes: &["", "distilbert."],
    token_types: None,
    layer: "transformer.layer",
    query: whole("attention.q_lin"),
    key: whole("attention.k_lin"),
    value: whole("attention.v_lin"),
    attention_output: "attention.out_lin",
    up: whole("ffn.lin1"),
    down: "ffn.lin2",
    after_attention: Some("sa_layer_norm"),
    after_feed_forward: Some("output_layer_norm"),
    ..BERT
};

const NOMIC_BERT: Names = Names {
    prefixes: &["", "nomic_bert."],
    positions: None,
    layer: "layers",
    query: whole("self_attn.q_proj"),
    key: whole("self_attn.k_proj"),
    value: whole("self_attn.v_proj"),
    attention_output: "self_attn.o_proj",
    gate: Some(whole("mlp.gate_proj")),
    up: whole("mlp.up_proj"),
    down: "mlp.down_proj",
    after_attention: Some("post_attention_layernorm"),
    after_feed_forward: Some("post_mlp_layernorm"),
    ..BERT
};

/// The names of nomic-ai's own files.
const NOMIC_BERT_OF_THE_HUB: Names = Names {
    prefixes: &["", "bert."],
    embedding_norm: Some("emb_ln"),
    layer: "encoder.layers",
    query: part("attn.Wqkv", 0, 3),
    key: part("attn.Wqkv", 1, 3),
    value: part("attn.Wqkv", 2, 3),
    attention_output: "attn.out_proj",
    gate: Some(whole("mlp.fc12")),
    up: whole("mlp.fc11"),
    down: "mlp.fc2",
    after_attention: Some("norm1"),
    after_feed_forward: Some("norm2"),
    ..NOMIC_BERT
};

const MODERNBERT: Names = Names {
    prefixes: &["", "model."],
    words: "embeddings.tok_embeddings",
    token_types: None,
    embedding_norm: Some("embeddings.norm"),
    final_norm: Some("final_norm"),
    query: part("attn.Wqkv", 0, 3),
    key: part("attn.Wqkv", 1, 3),
    value: part("attn.Wqkv", 2, 3),
    attention_output: "attn.Wo",
    gate: Some(part("mlp.Wi", 0, 2)),
    up: part("mlp.Wi", 1, 2),
    down: "mlp.Wo",
    before_attention: Some("attn_norm"),
    after_attention: None,
    before_feed_forward: Some("mlp_norm"),
    after_feed_forward: None,
    ..NOMIC_BERT
};

const QWEN3: Names = Names {
    prefixes: &["", "model."],
    words: "embed_tokens",
    token_types: None,
    embedding_norm: None,
    final_norm: Some("norm"),
    query_norm: Some("self_attn.q_norm"),
    key_norm: Some("self_attn.k_norm"),
    before_attention: Some("input_layernorm"),
    after_attention: None,
    before_feed_forward: Some("post_attention_layernorm"),
    after_feed_forward: None,
    ..NOMIC_BERT
};

const GEMMA3: Names = Names {
    after_attention: Some("post_attention_layernorm"),
    before_feed_forward: Some("pre_feedforward_layernorm"),
    after_feed_forward: Some("post_feedforward_layernorm"),
    ..QWEN3
};
