//! Tensors in frames: a header padded to 8 bytes, and the data in place.
//!
//! ```text
//! 0        1      2     3          4        8
//! ┌────────┬──────┬─────┬──────────┬────────┬────────────────┬───────────────────────┬──────┐
//! │ version│ dtype│ rank│ name len │ 0      │ rank × u64 dims│ name, zeros to 8 bytes│ data │   integers little-endian
//! └────────┴──────┴─────┴──────────┴────────┴────────────────┴───────────────────────┴──────┘
//! ```
//!
//! Everything before the data is a multiple of 8 bytes, and so is a frame's header: in an aligned buffer the data is
//! aligned, and [`Tensor::floats`] borrows it.

use super::ChannelError;

/// Most dimensions.
pub const MAX_RANK: usize = 8;
/// Longest name, bytes of UTF-8.
pub const MAX_NAME: usize = 64;
/// Longest header, bytes.
pub const MAX_HEADER: usize = 8 + 8 * MAX_RANK + MAX_NAME;

const VERSION: u8 = 1;
const HEAD: usize = 8;

const SHORT: ChannelError = ChannelError::Tensor("shorter than its header");
const UNFIT: ChannelError = ChannelError::Tensor("dimensions do not fit the data");

/// Type of the elements, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dtype {
    /// IEEE 754 single precision.
    F32 = 1,
    /// IEEE 754 half precision.
    F16 = 2,
    /// bfloat16.
    Bf16 = 3,
    /// Signed bytes.
    I8 = 4,
    /// Unsigned bytes.
    U8 = 5,
    /// 32-bit signed integers.
    I32 = 6,
    /// 64-bit signed integers.
    I64 = 7,
    /// IEEE 754 double precision.
    F64 = 8,
}

impl Dtype {
    const ALL: [Self; 8] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::I8,
        Self::U8,
        Self::I32,
        Self::I64,
        Self::F64,
    ];

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

/// A tensor in a payload: nothing is copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tensor<'a> {
    dtype: Dtype,
    dims: [u64; MAX_RANK],
    rank: usize,
    name: &'a str,
    data: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Reads a tensor in place. Checks header, name and the product of the dimensions against the available bytes.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`].
    pub fn parse(payload: &'a [u8]) -> Result<Self, ChannelError> {
        match Self::read(payload)? {
            (tensor, []) => Ok(tensor),
            _ => Err(UNFIT),
        }
    }

    /// Reads the first of several tensors, each of which is padded with zeros to a multiple of 8 bytes; returns the rest.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`].
    pub fn parse_first(payload: &'a [u8]) -> Result<(Self, &'a [u8]), ChannelError> {
        let (tensor, rest) = Self::read(payload)?;
        let used = payload.len() - rest.len();
        let (padding, rest) = rest
            .split_at_checked(used.next_multiple_of(8) - used)
            .ok_or(SHORT)?;
        match padding.iter().all(|byte| *byte == 0) {
            true => Ok((tensor, rest)),
            false => Err(ChannelError::Tensor("name or padding")),
        }
    }

    fn read(payload: &'a [u8]) -> Result<(Self, &'a [u8]), ChannelError> {
        let (head, rest) = payload.split_first_chunk::<HEAD>().ok_or(SHORT)?;
        let [version, dtype, rank, name_len, 0, 0, 0, 0] = *head else {
            return Err(ChannelError::Tensor("reserved bytes"));
        };
        let (rank, name_len) = (usize::from(rank), usize::from(name_len));
        if version != VERSION {
            return Err(ChannelError::Tensor("another version"));
        }
        let dtype = Dtype::ALL
            .into_iter()
            .find(|known| *known as u8 == dtype)
            .ok_or(ChannelError::Tensor("unknown element type"))?;
        if rank > MAX_RANK || name_len > MAX_NAME {
            return Err(ChannelError::Tensor("rank or name over the limit"));
        }
        let (shape, rest) = rest.split_at_checked(8 * rank).ok_or(SHORT)?;
        let mut dims = [0; MAX_RANK];
        for (dim, bytes) in dims.iter_mut().zip(shape.as_chunks::<8>().0) {
            *dim = u64::from_le_bytes(*bytes);
        }
        let (padded, rest) = rest
            .split_at_checked(name_len.next_multiple_of(8))
            .ok_or(SHORT)?;
        let (name, padding) = padded.split_at_checked(name_len).ok_or(SHORT)?;
        // One encoding for a name: no zero byte in it, only zeros after it.
        if name.contains(&0) || padding.iter().any(|byte| *byte != 0) {
            return Err(ChannelError::Tensor("name or padding"));
        }
        let name = std::str::from_utf8(name).map_err(|_| ChannelError::Tensor("name"))?;
        // A product that overflows cannot be a length.
        let length = dims[..rank]
            .iter()
            .try_fold(dtype.size() as u64, |product, dim| {
                product.checked_mul(*dim)
            });
        let length = length.and_then(|length| usize::try_from(length).ok());
        let (data, rest) = length
            .and_then(|length| rest.split_at_checked(length))
            .ok_or(UNFIT)?;
        let tensor = Self {
            dtype,
            dims,
            rank,
            name,
            data,
        };
        Ok((tensor, rest))
    }

    /// Type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Dimensions, the outermost first.
    pub fn shape(&self) -> &[u64] {
        self.dims.get(..self.rank).unwrap_or_default()
    }

    /// Name; may be empty.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Elements, little-endian, row-major.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The elements of a float32 tensor, borrowed.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`] for another type, for a buffer that is not aligned to 4 bytes, and on a big-endian machine.
    pub fn floats(&self) -> Result<&'a [f32], ChannelError> {
        if self.dtype != Dtype::F32 || cfg!(target_endian = "big") {
            return Err(ChannelError::Tensor("not float32 of this machine"));
        }
        bytemuck::try_cast_slice(self.data).map_err(|_| ChannelError::Tensor("not aligned"))
    }

    /// The elements of a float32 tensor, copied; needs no alignment.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`] for another type.
    pub fn to_floats(&self) -> Result<Vec<f32>, ChannelError> {
        if self.dtype != Dtype::F32 {
            return Err(ChannelError::Tensor("not float32"));
        }
        let elements = self.data.as_chunks::<4>().0.iter();
        Ok(elements.map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

/// Appends the header of a tensor to `out`; append its data next.
///
/// # Errors
/// [`ChannelError::Tensor`] for more than [`MAX_RANK`] dimensions, a name over [`MAX_NAME`] bytes or with a zero in it.
pub fn append_header(
    dtype: Dtype,
    shape: &[u64],
    name: &str,
    out: &mut Vec<u8>,
) -> Result<(), ChannelError> {
    let (Ok(rank), Ok(name_len)) = (u8::try_from(shape.len()), u8::try_from(name.len())) else {
        return Err(ChannelError::Tensor("rank or name over the limit"));
    };
    if shape.len() > MAX_RANK || name.len() > MAX_NAME || name.contains('\0') {
        return Err(ChannelError::Tensor("rank or name over the limit"));
    }
    out.extend_from_slice(&[VERSION, dtype as u8, rank, name_len, 0, 0, 0, 0]);
    for dim in shape {
        out.extend_from_slice(&dim.to_le_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.resize(out.len() + name.len().next_multiple_of(8) - name.len(), 0);
    Ok(())
}

/// Appends a whole float32 tensor to `out`.
///
/// # Errors
/// Those of [`append_header`], and [`ChannelError::Tensor`] if the shape does not match the number of elements.
pub fn append_floats(
    shape: &[u64],
    name: &str,
    elements: &[f32],
    out: &mut Vec<u8>,
) -> Result<(), ChannelError> {
    let count = shape
        .iter()
        .try_fold(1_u64, |product, dim| product.checked_mul(*dim));
    if count != Some(elements.len() as u64) {
        return Err(UNFIT);
    }
    append_header(Dtype::F32, shape, name, out)?;
    if cfg!(target_endian = "little") {
        out.extend_from_slice(bytemuck::cast_slice(elements));
    } else {
        out.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    }
    Ok(())
}
