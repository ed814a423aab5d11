//! The report that published figures, and its tables verbatim.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

#[cfg(doc)]
use super::Measurement;

/// A published report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Report {
    /// Short name in file names and links: `[a-z0-9-]`.
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9-]+$"))]
    pub id: String,
    /// Its own title.
    #[schemars(length(max = 200))]
    pub title: String,
    /// Date of the measurement, as the report states it; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub date: Option<String>,
    /// Figures that appear in sentences rather than in tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 200))]
    pub statements: Vec<Statement>,
    /// Works that the report cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 200))]
    pub references: Vec<Reference>,
}

/// A figure in a sentence of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Heading above it.
    #[schemars(length(max = 200))]
    pub heading: String,
    /// The quoted sentence.
    #[schemars(length(max = 400))]
    pub quote: String,
}

/// A work that a report cites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Number in the report's own list.
    pub number: u32,
    /// Author, title, place and date.
    #[schemars(length(max = 400))]
    pub work: String,
    /// Where it is found.
    #[schemars(length(max = 400), regex(pattern = r"^https://"))]
    pub url: String,
}

/// A table as published. A test checks that every cell with a figure is cited by a [`Measurement`] and agrees with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Unique in its file: `[a-z0-9-]`.
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9-]+$"))]
    pub id: String,
    /// Heading above it in the report.
    #[schemars(length(max = 200))]
    pub heading: String,
    /// Kind of its cells.
    pub kind: TableKind,
    /// Names of its columns.
    #[schemars(length(min = 1, max = 20))]
    pub columns: Vec<String>,
    /// Columns, counted from 0, that identify a row and are parameters of its figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 20))]
    pub keys: Vec<u32>,
    /// Cells, without markup.
    #[schemars(length(max = 1_000))]
    pub rows: Vec<Vec<String>>,
}

/// Kind of a [`Table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Measured or claimed figures.
    Figures,
    /// Machines, methods and files, which a record's own fields state.
    Description,
    /// Thresholds, which [`crate::catalogue`] applies.
    Guide,
    /// Works of others, without a figure measured in the report.
    Literature,
}
