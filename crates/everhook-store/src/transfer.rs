//! Whole tables on their way from one store to another, for `everhook copy`.
//!
//! Both SQL stores have tables and columns of the same names with the same values, so that rows need no conversion
//! beyond their column types.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferTable {
    pub name: String,
    /// The columns that have values of their own; generated columns are left out.
    pub columns: Vec<String>,
    pub rows: u64,
}

/// The value of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of one row, in the order of the columns.
pub type TransferRow = Vec<TransferValue>;
