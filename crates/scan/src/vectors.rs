//! Blocks of vectors: building, the stored form, and single rows.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use zeroize::Zeroizing;

use crate::error::ScanError;
use crate::panels::{Aligned, GROUP, ROWS, ZERO_CODE};
use crate::precision::{Precision, SCALE_BYTES};
use crate::{MAX_DIMENSIONS, MAX_ROWS};

/// An immutable block of rows in one precision. Overwritten when dropped.
///
/// Memory is allocated for a multiple of 16 rows, so a block of one row takes as much as one of 16.
pub struct Vectors {
    dimensions: usize,
    rows: usize,
    pub(crate) numbers: Numbers,
    /// An upper bound of each row's Euclidean length; 0 after the last row.
    pub(crate) lengths: Aligned<f32>,
    /// The largest of them.
    pub(crate) longest: f32,
}

/// Numbers in the order of [`panels`](crate::panels).
pub(crate) enum Numbers {
    F32(Aligned<f32>),
    /// Bits of f16.
    F16(Aligned<u16>),
    Int8 {
        /// Codes + 128.
        codes: Aligned<u8>,
        scales: Aligned<f32>,
    },
}

impl std::fmt::Debug for Vectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the numbers, from which a text can be reconstructed.
        write!(
            f,
            "{} × {} {}",
            self.rows,
            self.dimensions,
            self.precision().name()
        )
    }
}

impl Vectors {
    /// Stores `rows`, one after the other, in `precision` (which states the rounding).
    ///
    /// # Errors
    /// [`ScanError`] if `dimensions` is 0 or above [`MAX_DIMENSIONS`], if `rows` is not a whole number of rows or has more than
    /// [`MAX_ROWS`], and for numbers that are not finite or too large for the precision.
    pub fn from_f32(
        dimensions: usize,
        precision: Precision,
        rows: &[f32],
    ) -> Result<Self, ScanError> {
        check_dimensions(dimensions)?;
        if !rows.len().is_multiple_of(dimensions) {
            return Err(ScanError::Length { length: rows.len() });
        }
        let mut vectors = Self::zeros(dimensions, precision, rows.len() / dimensions)?;
        let mut halves = Zeroizing::new(vec![0; dimensions]);
        for (index, row) in rows.chunks_exact(dimensions).enumerate() {
            let squares = sum_squares(row);
            if !squares.is_finite() {
                return Err(ScanError::NotFinite { row: index });
            }
            let squares = match &mut vectors.numbers {
                Numbers::F32(numbers) => {
                    spread(numbers, dimensions, index, row);
                    squares
                }
                Numbers::F16(numbers) => {
                    halves
                        .reinterpret_cast_mut::<f16>()
                        .convert_from_f32_slice(row);
                    spread(numbers, dimensions, index, &halves);
                    // An infinity here is a number that was too large.
                    sum_half_squares(&halves).ok_or(ScanError::OutOfRange { row: index })?
                }
                Numbers::Int8 { codes, scales } => {
                    let (scale, rounded) = quantize(row);
                    spread_codes(codes, dimensions, index, &rounded);
                    scales[index] = scale;
                    sum_code_squares(scale, &rounded)
                }
            };
            vectors.set_length(index, squares);
        }
        Ok(vectors)
    }

    /// Reads the form that [`to_bytes`](Self::to_bytes) writes.
    ///
    /// # Errors
    /// [`ScanError`] if `bytes` is not exactly that of `rows` rows, with finite numbers, and scales and codes that
    /// [`from_f32`](Self::from_f32) can make.
    pub fn from_bytes(
        dimensions: usize,
        precision: Precision,
        rows: usize,
        bytes: &[u8],
    ) -> Result<Self, ScanError> {
        check_dimensions(dimensions)?;
        let row_bytes = precision.row_bytes(dimensions);
        if rows.checked_mul(row_bytes) != Some(bytes.len()) {
            return Err(ScanError::Length {
                length: bytes.len(),
            });
        }
        let mut vectors = Self::zeros(dimensions, precision, rows)?;
        let mut floats = Zeroizing::new(vec![0.0; dimensions]);
        let mut halves = Zeroizing::new(vec![0; dimensions]);
        for (index, row) in bytes.chunks_exact(row_bytes).enumerate() {
            let squares = match &mut vectors.numbers {
                Numbers::F32(numbers) => {
                    for (to, from) in floats.iter_mut().zip(row.as_chunks().0) {
                        *to = f32::from_le_bytes(*from);
                    }
                    spread(numbers, dimensions, index, &floats);
                    Some(sum_squares(&floats)).filter(|squares| squares.is_finite())
                }
                Numbers::F16(numbers) => {
                    for (to, from) in halves.iter_mut().zip(row.as_chunks().0) {
                        *to = u16::from_le_bytes(*from);
                    }
                    spread(numbers, dimensions, index, &halves);
                    sum_half_squares(&halves)
                }
                Numbers::Int8 { codes, scales } => {
                    let (scale, row) = row.split_at(SCALE_BYTES);
                    let scale = f32::from_le_bytes(scale.as_chunks().0[0]);
                    if !is_valid(scale, row) {
                        return Err(ScanError::Malformed { row: index });
                    }
                    spread_codes(codes, dimensions, index, row);
                    scales[index] = scale;
                    Some(sum_code_squares(scale, row))
                }
            };
            let squares = squares.ok_or(ScanError::NotFinite { row: index })?;
            vectors.set_length(index, squares);
        }
        Ok(vectors)
    }

    /// Appends the stored form: rows in order, numbers in little-endian byte order. A row of f32 or f16 is its numbers; a row of
    /// int8 is its scale as f32, then a signed byte for each code.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.reserve(self.rows * self.precision().row_bytes(self.dimensions));
        for row in 0..self.rows {
            self.append_row(row, out);
        }
    }

    /// The stored form of one row; `None` if the row does not exist.
    #[must_use]
    pub fn row_bytes(&self, index: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.precision().row_bytes(self.dimensions));
        (index < self.rows).then(|| self.append_row(index, &mut bytes))?;
        Some(bytes)
    }

    fn append_row(&self, row: usize, out: &mut Vec<u8>) {
        match &self.numbers {
            Numbers::F32(numbers) => {
                out.extend(lane(numbers, self.dimensions, row).flat_map(f32::to_le_bytes));
            }
            Numbers::F16(numbers) => {
                out.extend(lane(numbers, self.dimensions, row).flat_map(u16::to_le_bytes));
            }
            Numbers::Int8 { codes, scales } => {
                out.extend(scales[row].to_le_bytes());
                out.extend(lane_codes(codes, self.dimensions, row).map(|code| code ^ ZERO_CODE));
            }
        }
    }

    /// Rows of the block.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether the block has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Numbers of a row.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Storage type of the numbers.
    #[must_use]
    pub fn precision(&self) -> Precision {
        match self.numbers {
            Numbers::F32(_) => Precision::F32,
            Numbers::F16(_) => Precision::F16,
            Numbers::Int8 { .. } => Precision::Int8,
        }
    }

    /// The stored values of a row, exactly; `None` if the row does not exist.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<Vec<f32>> {
        if index >= self.rows {
            return None;
        }
        Some(match &self.numbers {
            Numbers::F32(numbers) => lane(numbers, self.dimensions, index).collect(),
            Numbers::F16(numbers) => lane(numbers, self.dimensions, index)
                .map(|bits| f16::from_bits(bits).to_f32())
                .collect(),
            Numbers::Int8 { codes, scales } => lane_codes(codes, self.dimensions, index)
                .map(|code| scales[index] * centre(code))
                .collect(),
        })
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::F32(numbers) => numbers.memory(),
            Numbers::F16(numbers) => numbers.memory(),
            Numbers::Int8 { codes, scales } => codes.memory() + scales.memory(),
        };
        size_of::<Self>() + numbers + self.lengths.memory()
    }

    pub(crate) fn panels(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    fn zeros(dimensions: usize, precision: Precision, rows: usize) -> Result<Self, ScanError> {
        if rows > MAX_ROWS {
            return Err(ScanError::TooManyRows { rows });
        }
        let padded = rows.next_multiple_of(ROWS);
        let numbers = match precision {
            Precision::F32 => Numbers::F32(Aligned::filled(0.0, padded * dimensions)),
            Precision::F16 => Numbers::F16(Aligned::filled(0, padded * dimensions)),
            Precision::Int8 => Numbers::Int8 {
                codes: Aligned::filled(ZERO_CODE, padded * dimensions.next_multiple_of(GROUP)),
                scales: Aligned::filled(0.0, padded),
            },
        };
        Ok(Self {
            dimensions,
            rows,
            numbers,
            lengths: Aligned::filled(0.0, padded),
            longest: 0.0,
        })
    }

    fn set_length(&mut self, row: usize, squares: f64) {
        let length = bound_root(squares, self.dimensions);
        self.lengths[row] = length;
        self.longest = self.longest.max(length);
    }
}

fn check_dimensions(dimensions: usize) -> Result<(), ScanError> {
    if dimensions == 0 || dimensions > MAX_DIMENSIONS {
        return Err(ScanError::Dimensions { dimensions });
    }
    Ok(())
}

/// Writes a row to its lane of its panel.
fn spread<T: Copy>(numbers: &mut [T], dimensions: usize, row: usize, from: &[T]) {
    let panel = &mut numbers[row / ROWS * ROWS * dimensions..][..ROWS * dimensions];
    for (to, from) in panel.as_chunks_mut::<ROWS>().0.iter_mut().zip(from) {
        to[row % ROWS] = *from;
    }
}

/// The same, for signed codes.
fn spread_codes(codes: &mut [u8], dimensions: usize, row: usize, from: &[u8]) {
    let bytes = ROWS * dimensions.next_multiple_of(GROUP);
    let panel = &mut codes[row / ROWS * bytes..][..bytes];
    let groups = panel.as_chunks_mut::<{ ROWS * GROUP }>().0;
    let (whole, rest) = from.as_chunks::<GROUP>();
    let lane = row % ROWS;
    for (to, codes) in groups.iter_mut().zip(whole) {
        // Adds 128 to each code.
        to.as_chunks_mut::<GROUP>().0[lane] = codes.map(|code| code ^ ZERO_CODE);
    }
    if let Some(to) = groups.get_mut(whole.len()) {
        for (to, code) in to[lane * GROUP..].iter_mut().zip(rest) {
            *to = code ^ ZERO_CODE;
        }
    }
}

/// The numbers of a row.
fn lane<T: Copy>(numbers: &[T], dimensions: usize, row: usize) -> impl Iterator<Item = T> {
    let panel = &numbers[row / ROWS * ROWS * dimensions..][..ROWS * dimensions];
    let lane = row % ROWS;
    panel.as_chunks::<ROWS>().0.iter().map(move |to| to[lane])
}

/// The codes of a row, each + 128.
fn lane_codes(codes: &[u8], dimensions: usize, row: usize) -> impl Iterator<Item = u8> {
    let bytes = ROWS * dimensions.next_multiple_of(GROUP);
    let panel = &codes[row / ROWS * bytes..][..bytes];
    let lane = row % ROWS * GROUP;
    let groups = panel.as_chunks::<{ ROWS * GROUP }>().0.iter();
    groups
        .flat_map(move |group| &group[lane..lane + GROUP])
        .copied()
        .take(dimensions)
}

/// The code of a byte that holds code + 128.
fn centre(code: u8) -> f32 {
    f32::from((code ^ ZERO_CODE).cast_signed())
}

/// Scale and signed codes of a row of finite numbers. [`Precision`] states the rounding.
fn quantize(row: &[f32]) -> (f32, Zeroizing<Vec<u8>>) {
    let largest = row
        .iter()
        .fold(0_f32, |most, number| most.max(number.abs()));
    let scale = f32::from_bits((largest / LARGEST_CODE).to_bits() & !SCALE_REST);
    if !scale.is_normal() {
        return (0.0, Zeroizing::new(vec![0; row.len()]));
    }
    let codes = row.iter().map(|number| {
        // In f64 the sum has no fraction, so it is rounded to the nearest integer, ties to even.
        let code = (f64::from(*number) / f64::from(scale) + DROP_FRACTION) - DROP_FRACTION;
        // An integer of at most 127 in magnitude.
        (code.clamp(-f64::from(LARGEST_CODE), f64::from(LARGEST_CODE)) as i8).cast_unsigned()
    });
    (scale, Zeroizing::new(codes.collect()))
}

/// Whether [`quantize`] can make such a row: the products of scale and codes are finite, and zeros have one form.
fn is_valid(scale: f32, codes: &[u8]) -> bool {
    // Without an early end, so that the compiler uses vector registers.
    let any = codes.iter().fold(0, |any, code| any | code);
    let least = codes
        .iter()
        .fold(0, |least: i8, code| least.min(code.cast_signed()));
    if scale.to_bits() == 0 {
        return any == 0;
    }
    scale.is_normal()
        && scale > 0.0
        && scale.to_bits() & SCALE_REST == 0
        && (scale * LARGEST_CODE).is_finite()
        && least != i8::MIN
}

const LARGEST_CODE: f32 = 127.0;

/// 1.5 · 2⁵²
const DROP_FRACTION: f64 = 6_755_399_441_055_744.0;

/// The bits of a scale's significand that are 0.
const SCALE_REST: u32 = 0x7f;

/// In eight sums, which the compiler keeps in vector registers. Finite if and only if all numbers are: in f64 no square of a finite
/// f32 overflows.
fn sum_squares(row: &[f32]) -> f64 {
    let mut sums = [0_f64; 8];
    let (eights, rest) = row.as_chunks::<8>();
    for eight in eights {
        for (sum, number) in sums.iter_mut().zip(eight) {
            *sum += f64::from(*number) * f64::from(*number);
        }
    }
    let rest = rest.iter().map(|number| f64::from(*number).powi(2));
    sums.into_iter().chain(rest).sum()
}

/// The same of bits of f16; `None` if a number is not finite.
fn sum_half_squares(row: &[u16]) -> Option<f64> {
    let mut floats = Zeroizing::new([0.0; 64]);
    let parts = row.chunks(floats.len()).map(|part| {
        let floats = &mut floats[..part.len()];
        part.reinterpret_cast::<f16>().convert_to_f32_slice(floats);
        sum_squares(floats)
    });
    Some(parts.sum::<f64>()).filter(|squares| squares.is_finite())
}

fn sum_code_squares(scale: f32, row: &[u8]) -> f64 {
    let squares = row
        .iter()
        .map(|code| i32::from(code.cast_signed()) * i32::from(code.cast_signed()));
    f64::from(squares.sum::<i32>()) * f64::from(scale).powi(2)
}

/// An upper bound of the root of a sum of `terms` squares that was computed in f64; infinite beyond f32's range.
fn bound_root(squares: f64, terms: usize) -> f32 {
    // The sum is too small by at most a relative γ = terms · 2⁻⁵³ / (1 − terms · 2⁻⁵³), the root rounds once.
    let root = squares.sqrt() * (1.0 + (terms + 4) as f64 * f64::EPSILON);
    // Rounds to nearest, so the next float is above.
    (root as f32).next_up()
}
