//! The computation that a sentence-transformers folder describes: read from its files, or refused with every setting that is not
//! understood.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `settings` | which members a configuration file has, and whether each was read |
//! | `config` | the shape that `config.json` describes |
//! | `modules` | the steps after the encoder |
//! | `cross` | whether the folder scores pairs of texts, and how |
//! | `text` | how a text becomes tokens |
//! | `special_tokens` | whether all files name the same special tokens |
//!
//! A setting is obeyed or refused by name. A member that no reader knows is refused too, unless its value switches it off (`null`,
//! `false`, zero, or empty): a model whose settings are ignored gives vectors that look right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::weights::Weights;
use crate::{Encoder, EngineChoice, Head, LoadError, Pooling, Precision, Shape, Tokenizer};
use crate::{StaticEncoder, TokenizerError};

mod config;
mod cross;
mod modules;
mod settings;
mod special_tokens;
mod text;

use modules::Step;
use settings::Problems;
use text::TextOptions;

/// The files of a model folder: contents of the small ones, names of the others.
#[derive(Debug, Default)]
pub struct ModelFiles {
    /// Contents by path below the folder, with `/`.
    pub contents: BTreeMap<String, Vec<u8>>,
    /// Paths of all further files, weights among them.
    pub others: BTreeSet<String>,
}

/// The computation that a folder describes.
#[derive(Clone, Debug)]
pub struct Recipe {
    source: Kind,
    steps: Vec<Step>,
    text: TextOptions,
    prompts: Prompts,
    weight_files: Vec<String>,
}

/// The first module.
#[derive(Clone, Debug)]
enum Kind {
    /// An encoder, whose states are pooled.
    Encoder {
        shape: Shape,
        poolings: Vec<Pooling>,
    },
    /// A table of words, whose rows are averaged.
    Table { path: String },
    /// An encoder of pairs of texts, whose state becomes a score.
    Classifier {
        shape: Shape,
        classifier: cross::Classifier,
        /// Types of tokens that the model is given, or 0.
        types: usize,
    },
}

/// Texts that a model expects before its inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// By name.
    pub texts: BTreeMap<String, String>,
    /// The name of the one that is used where none is asked for.
    pub default: Option<String>,
}

impl Prompts {
    /// The text of the default prompt.
    #[must_use]
    pub fn default_text(&self) -> Option<&str> {
        let text = self.texts.get(self.default.as_ref()?)?;
        Some(text)
            .filter(|text| !text.is_empty())
            .map(String::as_str)
    }
}

/// A setting that this crate does not obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the file below the folder.
    pub file: String,
    /// The fault, beginning with the setting's name.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

/// Why a folder is not run.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum RecipeError {
    /// It has files or settings that this crate does not obey; all of them are listed.
    #[error("{}", join(.0))]
    #[coded(
        "MODEL_UNSUPPORTED",
        remedy = "Use a model whose settings docs/MODELS.md lists; changing a setting changes the vectors."
    )]
    Unsupported(Vec<Problem>),
}

fn join(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
    lines.join("; ")
}

impl Shape {
    /// Reads `config.json` alone; the longest sequence and the pooling are the caller's.
    ///
    /// # Errors
    /// [`LoadError::Config`] names each member that is not obeyed.
    pub fn parse(config: &[u8], max_tokens: usize, pooling: Pooling) -> Result<Self, LoadError> {
        const NAME: &str = "config.json";
        let files = ModelFiles {
            contents: BTreeMap::from([(NAME.to_owned(), config.to_vec())]),
            ..ModelFiles::default()
        };
        let mut problems = Problems::new(&files);
        let shape = config::read(NAME, &mut problems);
        let list = problems.into_list();
        let messages: Vec<_> = list.into_iter().map(|problem| problem.message).collect();
        let Some(shape) = shape.filter(|_| messages.is_empty()) else {
            return Err(LoadError::Config(messages.join("; ")));
        };
        let shape = Self {
            max_tokens,
            pooling,
            ..shape
        };
        shape.check_sizes()?;
        Ok(shape)
    }
}

impl Recipe {
    /// Reads the folder's configuration.
    ///
    /// # Errors
    /// [`RecipeError::Unsupported`] lists every file that is missing and every setting that is not obeyed.
    pub fn read(files: &ModelFiles) -> Result<Self, RecipeError> {
        if cross::is_described(files) {
            return cross::read(files).map_err(RecipeError::Unsupported);
        }
        let mut problems = Problems::new(files);
        let recipe = modules::read(&mut problems);
        let problems = problems.into_list();
        match recipe {
            Some(recipe) if problems.is_empty() => Ok(recipe),
            _ => Err(RecipeError::Unsupported(problems)),
        }
    }

    /// The encoder's shape; `None` for a table of words.
    #[must_use]
    pub fn shape(&self) -> Option<&Shape> {
        match &self.source {
            Kind::Encoder { shape, .. } | Kind::Classifier { shape, .. } => Some(shape),
            Kind::Table { .. } => None,
        }
    }

    /// The encoder's shape, where one pooling is only scaled to unit length.
    #[must_use]
    pub fn plain_shape(&self) -> Option<&Shape> {
        match &self.source {
            Kind::Encoder { shape, poolings } if poolings.len() == 1 => {
                Some(shape).filter(|_| self.steps == [Step::Normalise])
            }
            _ => None,
        }
    }

    /// Whether the model scores pairs of texts, in place of embedding each.
    #[must_use]
    pub fn is_cross_encoder(&self) -> bool {
        matches!(self.source, Kind::Classifier { .. })
    }

    /// Longest sequence in tokens, special tokens included.
    #[must_use]
    pub fn max_tokens(&self) -> usize {
        self.text.max_tokens
    }

    /// The model's prompts.
    #[must_use]
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Path of the description for [`tokenizer`](Self::tokenizer).
    #[must_use]
    pub fn tokenizer_file(&self) -> &str {
        &self.text.file
    }

    /// Paths of the weights that [`build`](Self::build) needs.
    #[must_use]
    pub fn weight_files(&self) -> &[String] {
        &self.weight_files
    }

    /// Builds the tokenizer from the contents of [`tokenizer_file`](Self::tokenizer_file).
    ///
    /// # Errors
    /// [`TokenizerError::Malformed`].
    pub fn tokenizer(&self, json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        let tokenizer = self.text.build(json)?;
        if let Kind::Classifier { shape, types, .. } = &self.source {
            let second = match cross::has_second_type(shape, *types) {
                true => shape.vocabulary,
                false => 0,
            };
            return tokenizer.into_pairs(*types, second);
        }
        Ok(match self.prompts.default_text() {
            Some(prompt) => tokenizer.with_prompt(prompt),
            None => tokenizer,
        })
    }

    /// Builds the encoder from the contents of [`weight_files`](Self::weight_files), reusing their memory.
    ///
    /// # Errors
    /// [`LoadError`] names a tensor that is missing or has another shape, or what the engine does not support.
    pub fn build(
        &self,
        mut weights: BTreeMap<String, Weights>,
        choice: EngineChoice,
        precision: Precision,
        threads: NonZeroUsize,
    ) -> Result<Arc<dyn Encoder>, LoadError> {
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            steps.push(step.build(&mut weights)?);
        }
        match &self.source {
            Kind::Encoder { shape, poolings } => {
                let head = Head::new(shape.hidden, poolings.clone(), steps);
                let weights = Weights::join(weights.into_values())?;
                choice.build_with(*shape, head, weights, precision, threads)
            }
            Kind::Classifier {
                shape,
                classifier,
                types,
            } => {
                let (mut shape, mut weights) = (*shape, Weights::join(weights.into_values())?);
                let steps = classifier.build(&mut weights, shape.hidden)?;
                let head = Head::new(shape.hidden, vec![shape.pooling], steps);
                if cross::has_second_type(&shape, *types) {
                    cross::add_second_type(&mut shape, &mut weights);
                }
                choice.build_with(shape, head, weights, precision, threads)
            }
            Kind::Table { path } => {
                let table = weights.remove(path).ok_or_else(|| LoadError::Missing {
                    name: path.clone(),
                    expected: Vec::new(),
                })?;
                let encoder = StaticEncoder::new(table, steps, self.text.max_tokens)?;
                Ok(Arc::new(encoder))
            }
        }
    }
}
