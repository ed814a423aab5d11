//! Apache Parquet: a column for each field, and rows in groups, so that a file of any length is written as it comes.

use super::{Row, UNWRITABLE};
use crate::args::Field;
use anyhow::{Context, Result};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use std::io::Write;
use std::sync::Arc;

/// Rows of a group: they are held in memory until it is full, 6 MiB of vectors of 384 components.
const GROUP: usize = 4096;

/// A table that grows.
pub(super) struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

/// Values of one field in the open group.
enum Column {
    Index(Vec<i64>),
    Text(Vec<ByteArray>),
    Tokens(Vec<i32>),
    Truncated(Vec<bool>),
    Embedding(Vectors),
}

/// Vectors of the open group, and the levels of the format for nested columns.
struct Vectors {
    values: Vec<f32>,
    /// 0 for the first component of each row, 1 for the others.
    repetitions: Vec<i16>,
    /// `present` for a component, 0 for a row without a vector.
    definitions: Vec<i16>,
    present: i16,
}

impl<W: Write + Send> Table<W> {
    /// An empty one, with a column for each of `fields`. With `has_nulls`, a row may have no vector.
    pub(super) fn new(out: W, fields: &[Field], has_nulls: bool) -> Result<Self> {
        let members = fields
            .iter()
            .map(|field| member(*field, has_nulls).map(Arc::new));
        let schema = Type::group_type_builder("schema")
            .with_fields(members.collect::<Result<Vec<_>, _>>()?)
            .build()?;
        // Neither vectors nor texts repeat.
        let properties = WriterProperties::builder().set_dictionary_enabled(false);
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()));
        Ok(Self {
            writer: writer.context(UNWRITABLE)?,
            columns: fields
                .iter()
                .map(|field| Column::of(*field, has_nulls))
                .collect(),
            rows: 0,
        })
    }

    /// Adds a row.
    pub(super) fn write(&mut self, row: &Row<'_>) -> Result<()> {
        for column in &mut self.columns {
            column.push(row)?;
        }
        self.rows += 1;
        match self.rows < GROUP {
            true => Ok(()),
            false => self.close_group(),
        }
    }

    /// Writes what is held, and the end of the file, without which nothing of it can be read.
    pub(super) fn finish(mut self) -> Result<()> {
        self.close_group()?;
        self.writer.close().map(drop).context(UNWRITABLE)
    }

    fn close_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().context(UNWRITABLE)?;
        for column in &mut self.columns {
            column.write(&mut group).context(UNWRITABLE)?;
        }
        group.close().context(UNWRITABLE)?;
        self.rows = 0;
        Ok(())
    }
}

impl Column {
    fn of(field: Field, has_nulls: bool) -> Self {
        match field {
            Field::Index => Self::Index(Vec::new()),
            Field::Text => Self::Text(Vec::new()),
            Field::Tokens => Self::Tokens(Vec::new()),
            Field::Truncated => Self::Truncated(Vec::new()),
            Field::Embedding => Self::Embedding(Vectors {
                values: Vec::new(),
                repetitions: Vec::new(),
                definitions: Vec::new(),
                present: if has_nulls { 2 } else { 1 },
            }),
        }
    }

    fn push(&mut self, row: &Row<'_>) -> Result<()> {
        match self {
            Self::Index(values) => values.push(i64::try_from(row.index)?),
            Self::Text(values) => values.push(row.text.into()),
            Self::Tokens(values) => values.push(i32::try_from(row.tokens)?),
            Self::Truncated(values) => values.push(row.truncated),
            Self::Embedding(vectors) => vectors.push(row.embedding),
        }
        Ok(())
    }

    /// Writes what it holds, and holds nothing.
    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match self {
            Self::Index(values) => put::<Int64Type, W>(group, values, None),
            Self::Text(values) => put::<ByteArrayType, W>(group, values, None),
            Self::Tokens(values) => put::<Int32Type, W>(group, values, None),
            Self::Truncated(values) => put::<BoolType, W>(group, values, None),
            Self::Embedding(vectors) => {
                let definitions = std::mem::take(&mut vectors.definitions);
                let repetitions = std::mem::take(&mut vectors.repetitions);
                let levels = Some((&definitions[..], &repetitions[..]));
                put::<FloatType, W>(group, &mut vectors.values, levels)
            }
        }
    }
}

impl Vectors {
    fn push(&mut self, vector: Option<&[f32]>) {
        let Some(vector) = vector else {
            self.repetitions.push(0);
            self.definitions.push(0);
            return;
        };
        self.values.extend_from_slice(vector);
        let places = 0..vector.len();
        self.repetitions.extend(places.map(|at| i16::from(at > 0)));
        let present = std::iter::repeat_n(self.present, vector.len());
        self.definitions.extend(present);
    }
}

fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    levels: Option<(&[i16], &[i16])>,
) -> Result<(), ParquetError> {
    let values = std::mem::take(values);
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("a column too many".to_owned()));
    };
    let (definitions, repetitions) = levels.unzip();
    column
        .typed::<T>()
        .write_batch(&values, definitions, repetitions)?;
    column.close()
}

fn member(field: Field, has_nulls: bool) -> Result<Type, ParquetError> {
    let required = |name: &'static str, physical: Physical| {
        Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED)
    };
    match field {
        Field::Index => required("index", Physical::INT64).build(),
        Field::Text => required("text", Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String))
            .build(),
        Field::Tokens => required("tokens", Physical::INT32).build(),
        Field::Truncated => required("truncated", Physical::BOOLEAN).build(),
        // The three levels of a list that LogicalTypes.md of the format asks for.
        Field::Embedding => {
            let component: TypePtr = Arc::new(required("element", Physical::FLOAT).build()?);
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![component])
                .build()?;
            Type::group_type_builder("embedding")
                .with_repetition(match has_nulls {
                    true => Repetition::OPTIONAL,
                    false => Repetition::REQUIRED,
                })
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)])
                .build()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{ListAccessor, RowAccessor};

    #[test]
    fn rows_come_back_in_order_from_groups_of_any_fill() {
        for rows in [0, 1, GROUP, GROUP + 1] {
            let mut file = Vec::new();
            let fields = [Field::Embedding, Field::Index, Field::Text, Field::Tokens];
            let mut table = Table::new(&mut file, &fields, false).unwrap();
            for index in 0..rows {
                let text = format!("line {index}, ünlike");
                table
                    .write(&Row {
                        index,
                        text: &text,
                        tokens: 7,
                        truncated: false,
                        embedding: Some(&[index as f32, -0.5]),
                    })
                    .unwrap();
            }
            table.finish().unwrap();
            let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
            let read: Vec<_> = reader.get_row_iter(None).unwrap().collect();
            assert_eq!(read.len(), rows);
            for (index, row) in read.into_iter().enumerate() {
                let row = row.unwrap();
                let vector = row.get_list(0).unwrap();
                assert_eq!(vector.len(), 2);
                assert_eq!(vector.get_float(0).unwrap(), index as f32);
                assert_eq!(vector.get_float(1).unwrap(), -0.5);
                assert_eq!(row.get_long(1).unwrap(), index as i64);
                assert_eq!(*row.get_string(2).unwrap(), format!("line {index}, ünlike"));
                assert_eq!(row.get_int(3).unwrap(), 7);
            }
        }
    }

    #[test]
    fn a_row_without_a_vector_is_null() {
        let vectors = [None, Some([1.0, 2.0]), None, Some([3.0, 4.0])];
        let mut file = Vec::new();
        let mut table = Table::new(&mut file, &[Field::Embedding], true).unwrap();
        for vector in &vectors {
            let row = Row {
                index: 0,
                text: "",
                tokens: 0,
                truncated: false,
                embedding: vector.as_ref().map(|vector| &vector[..]),
            };
            table.write(&row).unwrap();
        }
        table.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let read = rows.map(|row| {
            let row = row.unwrap();
            let vector = row.get_list(0).ok()?;
            Some([vector.get_float(0).unwrap(), vector.get_float(1).unwrap()])
        });
        assert_eq!(read.collect::<Vec<_>>(), vectors);
    }
}
