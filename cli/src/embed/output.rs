//! Rows in the form that the user asked for.

mod table;

use super::sink::EmptyLines;
use crate::args::{EmbedArgs, Field, Format};
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use table::Table;

/// One item of the output.
pub(super) struct Row<'a> {
    /// Number of its line in the input, from 0.
    pub(super) index: usize,
    pub(super) text: &'a str,
    pub(super) tokens: u64,
    pub(super) truncated: bool,
    /// `None` for an empty line.
    pub(super) embedding: Option<&'a [f32]>,
}

const ALL: [Field; 5] = [
    Field::Index,
    Field::Text,
    Field::Tokens,
    Field::Truncated,
    Field::Embedding,
];

/// Standard output, or a file.
type Destination = Box<dyn Write + Send>;

/// Rows on their way to a destination.
pub(super) struct Output {
    form: Form,
    fields: Vec<Field>,
    /// Components of each row, and of the attested model's vectors where there is none.
    dimension: usize,
    rows: usize,
}

enum Form {
    Jsonl(BufWriter<Destination>),
    Csv(BufWriter<Destination>),
    /// Holds all vectors: the file's header says how many there are.
    Npy(BufWriter<Destination>, Vec<f32>),
    Parquet(Box<Table<Destination>>),
}

impl Output {
    /// `dimension` is that of the attested model's vectors.
    pub(super) fn new(args: &EmbedArgs, dimension: usize) -> Result<Self> {
        if args.format == Format::Npy && args.fields.is_some() {
            bail!(
                "--format npy holds embeddings alone; leave --fields out, or choose jsonl, csv or parquet"
            );
        }
        let fields = args.fields.clone().unwrap_or_else(|| ALL.to_vec());
        let out: Destination = Box::new(stdout());
        Ok(Self {
            form: match args.format {
                Format::Jsonl => Form::Jsonl(BufWriter::new(out)),
                Format::Csv => Form::Csv(BufWriter::new(out)),
                Format::Npy => Form::Npy(BufWriter::new(out), Vec::new()),
                Format::Parquet => {
                    let has_nulls = args.empty == EmptyLines::Skip;
                    Form::Parquet(Box::new(Table::new(out, &fields, has_nulls)?))
                }
            },
            fields,
            dimension,
            rows: 0,
        })
    }

    /// Appends JSON lines with all fields to a file.
    pub(super) fn append(file: File, dimension: usize) -> Self {
        Self {
            form: Form::Jsonl(BufWriter::new(Box::new(file))),
            fields: ALL.to_vec(),
            dimension,
            rows: 0,
        }
    }

    /// Whether each row holds its number, so that a reader notices a missing one.
    pub(super) fn numbers_rows(&self) -> bool {
        !matches!(self.form, Form::Npy(..)) && self.fields.contains(&Field::Index)
    }

    pub(super) fn write(&mut self, row: &Row<'_>) -> Result<()> {
        if let Some(embedding) = row.embedding {
            if self.rows > 0 && embedding.len() != self.dimension {
                bail!("the service's embeddings differ in length");
            }
            self.dimension = embedding.len();
        }
        let line = match &self.form {
            Form::Jsonl(_) => self.json(row).to_string() + "\n",
            Form::Csv(_) if self.rows == 0 => self.header() + &self.csv(row),
            Form::Csv(_) => self.csv(row),
            Form::Npy(..) | Form::Parquet(_) => String::new(),
        };
        self.rows += 1;
        match &mut self.form {
            Form::Jsonl(out) | Form::Csv(out) => put(out, line.as_bytes()),
            Form::Npy(_, held) => {
                match row.embedding {
                    Some(embedding) => held.extend_from_slice(embedding),
                    None => held.extend(std::iter::repeat_n(f32::NAN, self.dimension)),
                }
                Ok(())
            }
            Form::Parquet(table) => table.write(row),
        }
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        match &mut self.form {
            Form::Jsonl(out) | Form::Csv(out) => flush(out),
            // Whole at their end alone.
            Form::Npy(..) | Form::Parquet(_) => Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.flush()?;
        let header = self.header();
        match self.form {
            Form::Csv(mut out) if self.rows == 0 => {
                put(&mut out, header.as_bytes())?;
                flush(&mut out)
            }
            Form::Jsonl(_) | Form::Csv(_) => Ok(()),
            Form::Npy(mut out, held) => {
                put(&mut out, &npy_header(self.rows, self.dimension))?;
                for value in held {
                    put(&mut out, &value.to_le_bytes())?;
                }
                flush(&mut out)
            }
            Form::Parquet(table) => table.finish(),
        }
    }

    fn json(&self, row: &Row<'_>) -> Value {
        let member = |field: &Field| match field {
            Field::Index => ("index".to_owned(), row.index.into()),
            Field::Text => ("text".to_owned(), row.text.into()),
            Field::Tokens => ("tokens".to_owned(), row.tokens.into()),
            Field::Truncated => ("truncated".to_owned(), row.truncated.into()),
            Field::Embedding => ("embedding".to_owned(), row.embedding.into()),
        };
        Value::Object(self.fields.iter().map(member).collect::<Map<_, _>>())
    }

    fn header(&self) -> String {
        let name = |field: &Field| match field {
            Field::Index => "index".to_owned(),
            Field::Text => "text".to_owned(),
            Field::Tokens => "tokens".to_owned(),
            Field::Truncated => "truncated".to_owned(),
            Field::Embedding => {
                let columns = (0..self.dimension).map(|at| format!("embedding_{at}"));
                columns.collect::<Vec<_>>().join(",")
            }
        };
        line(self.fields.iter().map(name))
    }

    fn csv(&self, row: &Row<'_>) -> String {
        let cell = |field: &Field| match field {
            Field::Index => row.index.to_string(),
            Field::Text => quoted(row.text),
            Field::Tokens => row.tokens.to_string(),
            Field::Truncated => row.truncated.to_string(),
            Field::Embedding => {
                let Some(embedding) = row.embedding else {
                    return ",".repeat(self.dimension.saturating_sub(1));
                };
                let numbers = embedding.iter().map(f32::to_string);
                numbers.collect::<Vec<_>>().join(",")
            }
        };
        line(self.fields.iter().map(cell))
    }
}

fn put(out: &mut BufWriter<Destination>, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).context(UNWRITABLE)
}

fn flush(out: &mut BufWriter<Destination>) -> Result<()> {
    out.flush().context(UNWRITABLE)
}

const UNWRITABLE: &str = "cannot write the rows";

/// RFC 4180 §2: lines end in CRLF.
fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(",") + "\r\n"
}

/// RFC 4180 §2, rules 5 to 7.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// Version 1.0 of NumPy's format: little-endian float32, rows after each other; the data begins at a multiple of 64.
fn npy_header(rows: usize, dimension: usize) -> Vec<u8> {
    let mut text =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}");
    // Magic, version and length take 10 bytes; a newline ends the text.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    while text.len() + 1 < length {
        text.push(' ');
    }
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_only_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(
            line(["1".to_owned(), "2".to_owned()].into_iter()),
            "1,2\r\n"
        );
    }

    #[test]
    fn the_header_of_npy_is_aligned_and_says_the_shape() {
        let header = npy_header(3, 384);
        assert_eq!(header.len() % 64, 0);
        assert_eq!(header[..8], *b"\x93NUMPY\x01\x00");
        assert_eq!(
            usize::from(u16::from_le_bytes([header[8], header[9]])),
            header.len() - 10
        );
        assert!(String::from_utf8_lossy(&header).contains("'shape': (3, 384)"));
        assert_eq!(header.last(), Some(&b'\n'));
    }
}
