//! Reads safetensors as a stream: hashes the bytes, and keeps one copy of each parameter but none of the file.

use std::collections::BTreeMap;
use std::io::Read;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use sha2::{Digest, Sha256};

/// Parameters by name, passed to an engine by value.
pub struct Weights {
    tensors: BTreeMap<String, Weight>,
}

/// One parameter, row-major.
pub struct Weight {
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// As many values as the product of `shape`; all finite once in [`Weights`].
    pub values: Vec<f32>,
}

impl Weights {
    /// Wraps parameters created in this process. Older names are converted as in [`parse`].
    ///
    /// # Errors
    /// [`WeightsError`] if a parameter is NaN or infinite, its number of values does not match its shape, or it has two names.
    pub fn new(named: BTreeMap<String, Weight>) -> Result<Self, WeightsError> {
        let mut tensors = BTreeMap::new();
        for (name, weight) in named {
            add(&mut tensors, &name, weight)?;
        }
        for (name, weight) in &tensors {
            let expected = weight
                .shape
                .iter()
                .try_fold(1_usize, |product, size| product.checked_mul(*size));
            if expected != Some(weight.values.len()) {
                return Err(WeightsError::Malformed(format!(
                    "tensor `{name}` of shape {:?} holds {} values",
                    weight.shape,
                    weight.values.len()
                )));
            }
            check_finite(name, &weight.values)?;
        }
        Ok(Self { tensors })
    }

    /// Joins the parameters of several files.
    ///
    /// # Errors
    /// [`WeightsError::Twice`] if two files hold one of the same name.
    pub fn join(files: impl IntoIterator<Item = Self>) -> Result<Self, WeightsError> {
        let mut tensors = BTreeMap::new();
        for file in files {
            for (name, weight) in file.tensors {
                add(&mut tensors, &name, weight)?;
            }
        }
        Ok(Self { tensors })
    }

    /// Removes a parameter.
    pub(crate) fn take(&mut self, name: &str) -> Option<Weight> {
        self.tensors.remove(name)
    }

    /// Adds a parameter that was taken before.
    pub(crate) fn put(&mut self, name: String, weight: Weight) {
        self.tensors.insert(name, weight);
    }

    /// Returns the parameters, sorted by name.
    pub fn into_tensors(self) -> BTreeMap<String, Weight> {
        self.tensors
    }
}

/// Why weights were refused.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file ended early or could not be read.
    #[error("the weights cannot be read: {0}")]
    #[coded("WEIGHTS_UNREADABLE", remedy = "Get the model again.")]
    Read(#[from] std::io::Error),
    /// Not a safetensors file, or one that exceeds the limits.
    #[error("the weights are malformed: {0}")]
    #[coded("WEIGHTS_MALFORMED", remedy = "Get the model again.")]
    Malformed(String),
    /// A parameter is not stored as floats.
    #[error("tensor `{tensor}` holds {observed}, expected F32, F16 or BF16")]
    #[coded("WEIGHTS_DTYPE", remedy = "Save the model with one of these types.")]
    Dtype {
        /// Its name.
        tensor: String,
        /// Stored type.
        observed: String,
    },
    /// A parameter is present under both its current and its older name.
    #[error("tensor `{tensor}` is there twice, once under its older name `{older}`")]
    #[coded(
        "WEIGHTS_TWICE",
        remedy = "Get the model again, or remove one of both from the file: nothing says which one is right."
    )]
    Twice {
        /// Its current name.
        tensor: String,
        /// The older one.
        older: String,
    },
    /// A parameter is NaN or infinite.
    #[error("tensor `{tensor}` holds NaN or infinity at element {index}")]
    #[coded(
        "WEIGHTS_NOT_FINITE",
        remedy = "Get the model again: the file is damaged."
    )]
    NotFinite {
        /// Its name.
        tensor: String,
        /// First such element.
        index: usize,
    },
}

/// Reads `size` bytes of safetensors from `source`; returns the parameters and the SHA-256 of the bytes.
///
/// Compare the digest before using a parameter: until then all contents are untrusted, but bounded.
///
/// # Errors
/// Those of [`parse`].
pub fn read(source: impl Read, size: u64) -> Result<(Weights, [u8; 32]), WeightsError> {
    let mut source = Hashed {
        inner: source,
        hash: Sha256::new(),
    };
    let weights = parse(&mut source, size)?;
    Ok((weights, source.hash.finalize().into()))
}

/// Like [`read`], if the caller hashes the bytes.
/// Weights converted from TensorFlow name scale and shift of a normalisation `LayerNorm.gamma` and `LayerNorm.beta`; they are
/// renamed to the current `LayerNorm.weight` and `LayerNorm.bias`.
///
/// # Errors
/// [`WeightsError`] if the source ends early, is not a safetensors file, or holds parameters that are not finite floats or that
/// have two names.
pub fn parse(source: impl Read, size: u64) -> Result<Weights, WeightsError> {
    let mut source = source.take(size);
    let mut length = [0; 8];
    source.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    // The declared length is limited to what a header of some thousand tensors needs, because memory is allocated for it.
    if length > HEADER_MAX {
        return Err(WeightsError::Malformed(format!(
            "the header claims {length} bytes, the limit is {HEADER_MAX}"
        )));
    }
    let mut header = vec![0; usize::try_from(length).unwrap_or(0)];
    source.read_exact(&mut header)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| WeightsError::Malformed(error.to_string()))?;
    // Offsets are contiguous and match the shapes (`Metadata` checks this), so the file's size bounds every tensor.
    let data = metadata.data_len() as u64;
    if data.checked_add(8 + length) != Some(size) {
        return Err(WeightsError::Malformed(
            "the tensors do not fill the file exactly".to_owned(),
        ));
    }
    let mut buffer = vec![0; BLOCK];
    let mut tensors = BTreeMap::new();
    for name in metadata.offset_keys() {
        let Some(info) = metadata.info(&name) else {
            continue;
        };
        if let Some(weight) = read_tensor(&mut source, &mut buffer, &name, info)? {
            add(&mut tensors, &name, weight)?;
        }
    }
    Ok(Weights { tensors })
}

/// Adds a parameter under its current name.
fn add(
    tensors: &mut BTreeMap<String, Weight>,
    name: &str,
    weight: Weight,
) -> Result<(), WeightsError> {
    let today = current_name(name);
    match tensors.insert(today.clone(), weight) {
        None => Ok(()),
        Some(_) => Err(WeightsError::Twice {
            older: older_name(&today),
            tensor: today,
        }),
    }
}

/// Older and current names of the parts of a normalisation.
const RENAMES: [(&str, &str); 2] = [
    ("LayerNorm.gamma", "LayerNorm.weight"),
    ("LayerNorm.beta", "LayerNorm.bias"),
];

fn current_name(name: &str) -> String {
    rename(name, RENAMES)
}

fn older_name(name: &str) -> String {
    rename(name, RENAMES.map(|(older, today)| (today, older)))
}

fn rename(name: &str, pairs: [(&str, &str); 2]) -> String {
    let found = pairs
        .into_iter()
        .find_map(|(from, to)| Some((name.strip_suffix(from)?, to)));
    found.map_or_else(|| name.to_owned(), |(start, to)| format!("{start}{to}"))
}

const HEADER_MAX: u64 = 1 << 20;
/// Large enough for few reads, small enough for the second-level cache; a multiple of four.
const BLOCK: usize = 256 * 1024;

fn read_tensor(
    source: &mut impl Read,
    buffer: &mut [u8],
    name: &str,
    info: &TensorInfo,
) -> Result<Option<Weight>, WeightsError> {
    let bytes = info.data_offsets.1 - info.data_offsets.0;
    let mut blocks = Blocks {
        source,
        buffer,
        bytes,
    };
    let values = match info.dtype {
        Dtype::F32 => blocks.read(f32::from_le_bytes)?,
        Dtype::F16 => blocks.read(|word| f16::from_le_bytes(word).to_f32())?,
        Dtype::BF16 => blocks.read(|word| bf16::from_le_bytes(word).to_f32())?,
        // Factors of tokens in model2vec's files.
        Dtype::F64 => blocks.read(|word| f64::from_le_bytes(word) as f32)?,
        // Rows of tokens in model2vec's files; a table has fewer rows than f32 has whole numbers.
        Dtype::I64 if name == "mapping" => blocks.read(|word| i64::from_le_bytes(word) as f32)?,
        Dtype::I32 if name == "mapping" => blocks.read(|word| i32::from_le_bytes(word) as f32)?,
        // `position_ids` is 0, 1, 2, …: older exports store the buffer, but no engine needs it.
        Dtype::I64 if name.ends_with("position_ids") => {
            std::io::copy(&mut blocks.source.take(bytes as u64), &mut std::io::sink())?;
            return Ok(None);
        }
        other => {
            return Err(WeightsError::Dtype {
                tensor: name.to_owned(),
                observed: format!("{other:?}"),
            });
        }
    };
    check_finite(name, &values)?;
    Ok(Some(Weight {
        shape: info.shape.clone(),
        values,
    }))
}

/// The bytes of one tensor.
struct Blocks<'a, R> {
    source: &'a mut R,
    buffer: &'a mut [u8],
    bytes: usize,
}

impl<R: Read> Blocks<'_, R> {
    /// Reads all of them as numbers of N bytes.
    fn read<const N: usize>(&mut self, widen: fn([u8; N]) -> f32) -> std::io::Result<Vec<f32>> {
        let mut values = Vec::with_capacity(self.bytes / N);
        let mut left = self.bytes;
        while left > 0 {
            let block = &mut self.buffer[..left.min(BLOCK)];
            self.source.read_exact(block)?;
            values.extend(block.as_chunks().0.iter().map(|word| widen(*word)));
            left -= block.len();
        }
        Ok(values)
    }
}

fn check_finite(name: &str, values: &[f32]) -> Result<(), WeightsError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(WeightsError::NotFinite {
            tensor: name.to_owned(),
            index,
        }),
    }
}

struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [
            &(header.len() as u64).to_le_bytes(),
            header.as_bytes(),
            data,
        ]
        .concat()
    }

    fn read_all(bytes: &[u8]) -> Result<(Weights, [u8; 32]), WeightsError> {
        read(bytes, bytes.len() as u64)
    }

    const ONE: &str = r#"{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;

    #[test]
    fn values_shape_and_digest() {
        let bytes = file(ONE, &[1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat());
        let (weights, digest) = read_all(&bytes).unwrap();
        let tensors = weights.into_tensors();
        assert_eq!(
            (
                tensors["w"].shape.as_slice(),
                tensors["w"].values.as_slice()
            ),
            ([1, 2].as_slice(), [1.5, -2.0].as_slice())
        );
        assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(&bytes)));
    }

    #[test]
    fn tensors_longer_than_a_block() {
        let count = BLOCK / 4 * 2 + 5;
        let header = format!(
            r#"{{"w":{{"dtype":"F32","shape":[{count}],"data_offsets":[0,{}]}}}}"#,
            count * 4
        );
        let data: Vec<u8> = (0..count).flat_map(|n| (n as f32).to_le_bytes()).collect();
        let tensors = read_all(&file(&header, &data)).unwrap().0.into_tensors();
        assert!(
            tensors["w"]
                .values
                .iter()
                .enumerate()
                .all(|(n, value)| *value == n as f32)
        );
    }

    #[test]
    fn truncation_at_every_byte_is_refused() {
        let bytes = file(ONE, &[0; 8]);
        for end in 0..bytes.len() {
            assert!(read_all(&bytes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn huge_declared_sizes_allocate_nothing() {
        let error = read_all(&file("{}", &[])[..]).map(|_| ());
        assert!(error.is_ok());
        assert!(read(&u64::MAX.to_le_bytes()[..], 8).is_err());
        let header =
            r#"{"w":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}"#;
        assert!(read_all(&file(header, &[0; 8])).is_err());
    }

    #[test]
    fn nan_and_infinity_are_named() {
        let bytes = file(ONE, &[1f32.to_le_bytes(), f32::NAN.to_le_bytes()].concat());
        let Err(error) = read_all(&bytes) else {
            panic!("accepted")
        };
        assert!(
            error.to_string().contains("`w`") && error.to_string().contains("element 1"),
            "{error}"
        );
    }

    #[test]
    fn parameters_created_here_are_checked_alike() {
        let weights = |shape: &[usize], values: &[f32]| {
            let weight = Weight {
                shape: shape.to_vec(),
                values: values.to_vec(),
            };
            Weights::new(BTreeMap::from([("w".to_owned(), weight)]))
        };
        assert!(weights(&[1, 2], &[1.0, 2.0]).is_ok());
        for (shape, values, expected) in [
            (&[2, 2][..], &[1.0, 2.0][..], "[2, 2] holds 2 values"),
            (&[usize::MAX, 2], &[1.0, 2.0], "holds 2 values"),
            (
                &[2],
                &[1.0, f32::NAN],
                "`w` holds NaN or infinity at element 1",
            ),
            (&[2], &[f32::NEG_INFINITY, 1.0], "at element 0"),
        ] {
            let error = weights(shape, values).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    fn two(names: [&str; 2]) -> Result<Vec<String>, WeightsError> {
        let [first, second] = names;
        let header = format!(
            r#"{{"{first}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},"{second}":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}}}"#
        );
        let weights = read_all(&file(&header, &[0; 8]))?.0;
        Ok(weights.into_tensors().into_keys().collect())
    }

    #[test]
    fn older_names_of_a_normalisation_are_read() {
        for prefix in ["", "bert."] {
            let name = |part: &str| format!("{prefix}embeddings.LayerNorm.{part}");
            let read = two([&name("gamma"), &name("beta")]).unwrap();
            assert_eq!(read, [name("bias"), name("weight")]);
        }
        // Only for a normalisation: any other tensor keeps its name.
        let others = two(["layer_scale.gamma", "LayerNorm.gamma.x"]).unwrap();
        assert_eq!(others, ["LayerNorm.gamma.x", "layer_scale.gamma"]);
    }

    #[test]
    fn a_tensor_under_two_names_is_refused() {
        let names = ["a.LayerNorm.weight", "a.LayerNorm.gamma"];
        for names in [names, [names[1], names[0]]] {
            let error = two(names).err().unwrap();
            assert!(matches!(error, WeightsError::Twice { .. }), "{error}");
            assert_eq!(
                error.to_string(),
                "tensor `a.LayerNorm.weight` is there twice, once under its older name `a.LayerNorm.gamma`"
            );
        }
        let weight = || Weight {
            shape: vec![1],
            values: vec![0.0],
        };
        let both = names.map(|name| (name.to_owned(), weight()));
        assert!(Weights::new(both.into()).is_err());
    }

    #[test]
    fn other_types_are_refused() {
        let header = r#"{"w":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}"#;
        let Err(error) = read_all(&file(header, &[0; 4])) else {
            panic!("accepted")
        };
        assert!(error.to_string().contains("I32"), "{error}");
    }

    #[test]
    fn halves_are_widened() {
        let value = 1.5_f32;
        for (dtype, bits) in [
            ("F16", f16::from_f32(value).to_le_bytes()),
            ("BF16", bf16::from_f32(value).to_le_bytes()),
        ] {
            let header =
                format!(r#"{{"w":{{"dtype":"{dtype}","shape":[3],"data_offsets":[0,6]}}}}"#);
            let tensors = read_all(&file(&header, &bits.repeat(3)))
                .unwrap()
                .0
                .into_tensors();
            assert_eq!(tensors["w"].values, [value; 3], "{dtype}");
        }
    }
}
